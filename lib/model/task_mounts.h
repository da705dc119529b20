/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Mounts of a task that a bidirectional one would pass on to the host, where they keep other volumes mounted
 * after the task's end. Server and driver refuse them. Pure. */

#include "base/error.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdbool.h>

enum { TASK_MOUNTS_MAX = 64 }; /* volume mounts, and host_paths: the checks compare each with each */

/** Checks that there are at most TASK_MOUNTS_MAX, that no mount is within a bidirectional one, that a task
 * which asks for such a one can mount, and that in such a task, or with @stage, no mount is within another
 * one.
 * @is_container  its `config` is that of driver container
 * @stage         the folder that the task, a plugin, has from the host, bidirectional too; NULL: it has no
 * such folder */
enum status task_mounts_check(const Holdfast__Driver__V1__TaskConfig *task, bool is_container,
			      const char *stage, struct error *err);
