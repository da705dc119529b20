/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Files of access policies. */

#include "base/error.h"

#include <holdfast/v1/operator.pb-c.h>

/** Reads the policy @name from the file @fd, or from that at @path if @fd is negative. Mistakes are
 * STATUS_INVALID_ARGUMENT with file and line.
 * @ret owned by the caller, protobuf_c_message_free_unpacked() */
enum status policy_read(int fd, const char *path, const char *name, Holdfast__V1__AccessPolicy **ret,
			struct error *err);
