/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Checks an order against root's file. STATUS_PERMISSION_DENIED names the setting; @ret_reason is a keyword
 * for the record. */

#include "settings.h"
#include "task_spec.h"

#include "base/error.h"

/** Does root's file name uid 0 among the users? */
bool policy_names_root(const struct settings *settings);

enum status policy_check_task(const struct settings *settings, const struct task_spec *spec,
			      const char **ret_reason, struct error *err);

/** May a command run as @user? Empty: as whom the task runs. */
enum status policy_check_exec(const struct settings *settings, const char *user, const char **ret_reason,
			      struct error *err);

enum status policy_check_network(const struct settings *settings, Holdfast__Driver__V1__NetworkMode mode,
				 const char **ret_reason, struct error *err);
