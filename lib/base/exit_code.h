/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Exit codes of a daemon, by which the service manager decides whether to restart it. */

#include "base/error.h"

enum {
	EXIT_CODE_FAILED = 1,
	EXIT_CODE_SETTINGS = 78, /* EX_CONFIG of sysexits.h; RestartPreventExitStatus= of the units */
};

/** The exit code of a daemon that cannot start because of @err: EXIT_CODE_SETTINGS when a person has to
 * change a setting, a file or its owner first, EXIT_CODE_FAILED when another try may do better. */
int exit_code_of_start(const struct error *err);
