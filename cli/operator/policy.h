/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Files of access policies. */

#include "base/error.h"

#include <holdfast/v1/operator.pb-c.h>

/** Read the policy @name from the file @path. Mistakes are STATUS_INVALID_ARGUMENT with file and line.
 * @ret owned by the caller, protobuf_c_message_free_unpacked() */
enum status policy_read(const char *path, const char *name, Holdfast__V1__AccessPolicy **ret,
			struct error *err);
