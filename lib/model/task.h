/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The tasks of an allocation, which task drivers run: messages of holdfast.driver.v1 that travel as they
 * came.
 *
 * At rest a volume mount names its volume as the allocation does; what a driver is ordered names the slot and
 * the mount helper's label. Pure. */

#include "base/error.h"
#include "model/alloc.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TASK_BYTES_MAX = 32 << 10, /* of one, on the wire */
	TASK_STATUS_BYTES_MAX = 8 << 10,
	TASK_STOP_TIMEOUT_MAX_MS = ALLOC_STOP_TIMEOUT_MAX_MS,
};

/** The @i-th task that it is to run. */
const Holdfast__Driver__V1__TaskConfig *alloc_task(const struct alloc *alloc, size_t i);

/** The one called @name; NULL: there is none. */
const Holdfast__Driver__V1__TaskConfig *alloc_find_task(const struct alloc *alloc, const char *name);

/** Part of alloc_validate(): names, drivers, volume mounts against the allocation's volumes. The driver
 * judges the rest when the task starts. */
enum status alloc_validate_tasks(const struct alloc *alloc, struct error *err);

/** What the driver of the node is to run, packed: what an order digests. @task is of @alloc, which is valid.
 * @ret owned by the caller, free() */
enum status alloc_pack_task(const struct alloc *alloc, const Holdfast__Driver__V1__TaskConfig *task,
			    uint8_t **ret, size_t *ret_n, struct error *err);
