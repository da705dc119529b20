/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Volumes of an allocation as the kernel has them mounted. */

#include "base/error.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

/** Are all volumes of @task mounted below @publish_dir, each with the propagation that it is to have?
 * @mountinfo_path /proc/self/mountinfo
 * STATUS_FAILED_PRECONDITION names what is not mounted, STATUS_PERMISSION_DENIED what was granted less;
 * @ret_reason is a word for the record */
enum status publish_check(const char *mountinfo_path, const char *publish_dir,
			  const Holdfast__Driver__V1__TaskConfig *task, const char **ret_reason,
			  struct error *err);

/** Where a volume is; @ret of PATH_MAX bytes. False when that is too long. */
bool publish_path(const char *publish_dir, const char *alloc_id, uint32_t slot, char *ret);
