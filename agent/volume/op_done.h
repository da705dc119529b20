/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Callbacks and results for the caller that began an operation on a volume. */

#include "base/error.h"
#include "model/alloc.h"
#include "model/claim.h"
#include "volume/target.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	VOLUME_OPS_MAX = 8192,
	VOLUME_RETRY_MIN_MS = 250,
	VOLUME_RETRY_MAX_MS = 30000,
};

struct volume_op;

struct volume_mounted {
	char path[ALLOC_PATH_MAX + 1];
	bool is_device; /* path is a block device, made by the plugin */
	uint32_t dev_major;
	uint32_t dev_minor;
	bool is_host_device;		   /* as in struct volume_target */
	bool is_nfs_listed;		   /* as there */
	char kernel[KERNEL_WORDS_MAX + 1]; /* of an unmount without its plugin: the kernel's state then */
};

/** @mounted of a mount that succeeded, and of an unmount that was forced without its plugin, else NULL; @err
 * NULL on success. The operation is gone afterwards. */
typedef void volume_done_fn(const struct volume_mounted *mounted, const struct error *err, void *userdata);

/** An unmount failed and will be tried again. */
typedef void volume_retry_fn(const struct error *err, void *userdata);

/** The volume of @target is going to be unstaged, and its device is not the one that the operation began
 * with: the caller makes that durable, and then calls volume_op_continue(). A copy of the mount that lives on
 * is found only by it. */
typedef void volume_keep_fn(const struct volume_target *target, void *userdata);

/** Continues an operation whose device has become durable. */
void volume_op_continue(struct volume_op *op);

/** Returns whether the staged volume is used on this node in this way, except by the publish at @alloc_id and
 * @slot. Users are looked up at this moment.
 * @alloc_id empty: no exception */
typedef bool volume_in_use_fn(const char *wire_volume, enum volume_use use, const char *alloc_id,
			      uint8_t slot, void *userdata);

/** @bytes the size of the file system that the plugin reported, 0: no size; @err NULL on success. The
 * operation is gone afterwards. */
typedef void volume_expanded_fn(uint64_t bytes, const struct error *err, void *userdata);
