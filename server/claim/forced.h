/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A person's word that a CSI plugin will never do its part of a release: its state is lost, or it was removed
 * for good. The node, which is connected, is told to continue with its mount helper alone, for claims whose
 * work has ended or was told to. That frees nothing by itself: the node still has to unmount what stands and
 * to say so, and its receipt, without the plugin's word behind it, is evidence of the kind operator. What the
 * helper refuses keeps the claim as before. */

#include "base/error.h"
#include "state/state.h"

#include <stdbool.h>

struct rpc_call;
struct server;

/** Note the word in each claim of @volume that @node has not released, one transaction per claim, and audit
 * it as @what; with @dry_run only see whether that may be done. Tells nobody.
 *
 * STATUS_FAILED_PRECONDITION: the volume is native, no word is taken for its plugin, the node is away, has
 * released it already or has not failed to, or an allocation with the volume there may continue.
 * STATUS_INVALID_ARGUMENT: the reason. */
enum status forced_begin(struct server *server, const struct rpc_call *call, const char *what,
			 const struct node_entry *node, struct volume_entry *volume, const char *reason,
			 bool dry_run, struct error *err);

/** Notify the node, if it is connected, what was noted. It is reported again whenever it says that it has
 * failed.
 */
void forced_notify(const struct volume_entry *volume, const char *node_id);

/** What nobody confirms then: a line for each claim of @volume that the node has not released. Owned by the
 * caller; NULL when memory is short. */
char *forced_bypassed(const struct volume_entry *volume, const char *node_id);
