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
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TASK_BYTES_MAX = 32 << 10, /* of one, on the wire */
	TASK_CONFIG_MAX = 64,	   /* keys: each limit of a driver searches them */
	TASK_STATUS_BYTES_MAX = 8 << 10,
	TASK_STATUS_ATTRIBUTES_MAX = 64, /* in memory an empty one takes 25 times its bytes */
	NETWORK_STATE_MAX = 256,	 /* of a driver's network */
	TASK_STOP_TIMEOUT_MAX_MS = ALLOC_STOP_TIMEOUT_MAX_MS,
	TASK_CHECK_ARGV_MAX = 256,
	TASK_CHECK_MIN_MS = 1000, /* of interval and timeout */
	TASK_CHECK_MAX_MS = 60 * 60 * 1000,
	TASK_CHECK_INTERVAL_DEFAULT_MS = 10 * 1000,
	TASK_CHECK_TIMEOUT_DEFAULT_MS = 5 * 1000,
	TASK_CHECK_RETRIES_DEFAULT = 3,
	TASK_CHECK_RETRIES_MAX = 1000,
};

/** The @i-th task of the allocation. */
const Holdfast__Driver__V1__TaskConfig *alloc_task(const struct alloc *alloc, size_t i);

/** The task called @name, or NULL. */
const Holdfast__Driver__V1__TaskConfig *alloc_find_task(const struct alloc *alloc, const char *name);

/** Is @status, which a node reports, of a task of @alloc, and within TASK_STATUS_BYTES_MAX and
 * TASK_STATUS_ATTRIBUTES_MAX? */
bool task_status_is_valid(const struct alloc *alloc, const Holdfast__Driver__V1__TaskStatus *status);

/** Part of alloc_validate(): names, drivers, volume mounts against the allocation's volumes. The driver
 * judges the rest when the task starts. */
enum status alloc_validate_tasks(const struct alloc *alloc, struct error *err);

/** The task's network: the allocation's, if that is set. */
Holdfast__Driver__V1__NetworkMode alloc_task_network(const struct alloc *alloc,
						     const Holdfast__Driver__V1__TaskConfig *task);

/** Returns the id of the CSI plugin that @task of @alloc is, or NULL. */
const char *alloc_task_plugin_id(const struct alloc *alloc, const Holdfast__Driver__V1__TaskConfig *task);

/** Is @spec what a driver can have answered of the isolated network of @alloc? NULL is not. */
bool alloc_network_is_right(const struct alloc *alloc, const Holdfast__Driver__V1__NetworkSpec *spec);

/** Packs the task for the node's driver; an order has the digest of it. @task is of @alloc, which is valid.
 * @network  of the isolated network that it joins; NULL: it joins no network
 * @attributes  of the node, for references in its texts: see reference.h
 * @ret      owned by the caller, free() */
enum status alloc_pack_task(const struct alloc *alloc, const Holdfast__Driver__V1__TaskConfig *task,
			    const Holdfast__Driver__V1__NetworkSpec *network,
			    const struct message_list *attributes, uint8_t **ret, size_t *ret_n,
			    struct error *err);

/** The packed isolated network of @alloc that @driver makes. @ret owned by the caller, free() */
enum status alloc_pack_network(const struct alloc *alloc, const char *driver, uint8_t **ret, size_t *ret_n,
			       struct error *err);
