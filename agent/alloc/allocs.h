/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The allocations of this node, and the claims being cleaned up without one. */

#include "alloc/release.h"
#include "alloc/runner.h"
#include "base/error.h"
#include "helper/mount_snapshot.h"
#include "model/alloc.h"
#include "model/claim.h"
#include "model/feasibility.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	ALLOCS_MAX = NODE_ALLOCS_MAX, /* the most that the server places */
	RELEASES_MAX = 1024,
};

struct allocs;

/** @env borrowed. @ret owned by the caller, allocs_free() */
enum status allocs_new(const struct runner_env *env, struct allocs **ret, struct error *err);

/** No callbacks. Helper client and volume manager must be freed before, the journal closed. NULL is allowed.
 */
void allocs_free(struct allocs *allocs);

/** Read the journal, with its receipts. Blocks. Once, at start-up. */
enum status allocs_load(struct allocs *allocs, struct error *err);

/** The first mount snapshot is there: decide for each allocation of the journal, and begin. */
void allocs_adopt(struct allocs *allocs, const struct mount_snapshot *observed);

/** Before the plugins' folder is looked at: allocations that ran before a restart still run their plugins. */
void allocs_expect_plugins(struct allocs *allocs);

/** The plugin of an allocation became healthy (@err NULL), or did not in time. */
void allocs_plugin_ready(struct allocs *allocs, const char *alloc_id, const char *plugin_id,
			 const struct error *err);

bool allocs_is_adopted(const struct allocs *allocs);

/** Begins or ends draining for a shutdown of the host: while draining, new allocations are refused. */
void allocs_set_draining(struct allocs *allocs, bool is_draining);

/** Undoes an allocation at a shutdown of the host, and sets it to lost. Ignores unknown or stopping ones. */
void allocs_shut_down(struct allocs *allocs, const char *id);

/** Runs an allocation for the server. For a known one it only reports the status again.
 * STATUS_ALREADY_EXISTS if the known one is of another namespace, STATUS_UNAVAILABLE while draining,
 * STATUS_RESOURCE_EXHAUSTED above ALLOCS_MAX or while the disk of the journal has no room; other errors
 * explain why it cannot run here. */
enum status allocs_run(struct allocs *allocs, const struct alloc *alloc, struct error *err);

/** The server wants it stopped. False: it is not known here. */
bool allocs_stop(struct allocs *allocs, const char *namespace, const char *id);

/** The server has recorded its end. Ignored for one that has not ended. */
void allocs_forget(struct allocs *allocs, const char *namespace, const char *id);

/** The server holds @claim for this node without an allocation that answers for it: clean up, and send a
 * receipt. STATUS_FAILED_PRECONDITION when its allocation is at work here. */
enum status allocs_release(struct allocs *allocs, const struct claim *claim, const char *wire_volume,
			   const struct ticket *ticket, struct error *err);

/** volume_in_use_fn; @userdata is struct allocs. */
bool allocs_use_volume(const char *wire_volume, enum volume_use use, const char *alloc_id, uint8_t slot,
		       void *userdata);

/** Does an allocation account for this publish, or this stage? */
bool allocs_know_publish(const struct allocs *allocs, const char *alloc_id, uint8_t slot);
bool allocs_know_stage(const struct allocs *allocs, const char *wire_volume);

size_t allocs_count(const struct allocs *allocs);

/** NULL: not known. */
const struct alloc_runner *allocs_find(const struct allocs *allocs, const char *id);
/** As allocs_find(); NULL also if the allocation of that id is of another namespace. */
const struct alloc_runner *allocs_find_of(const struct allocs *allocs, const char *namespace, const char *id);

/** For each, in the order of ids; NULL at the end. @previous NULL: the first. */
const struct alloc_runner *allocs_next(const struct allocs *allocs, const struct alloc_runner *previous);

/** For each, newest first. */
const struct release *allocs_next_release(const struct allocs *allocs, const struct release *previous);
