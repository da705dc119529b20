/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A person's statement that a CSI plugin will never do its part of a release: its state is lost, or it was
 * removed for good. The node, which is connected, gets the order to continue with only its mount helper,
 * for claims whose work has ended or must end. That frees nothing by itself: the node still has to unmount
 * and report it. Its receipt, without the plugin's confirmation, is evidence of the kind operator. If the
 * helper refuses, the claim is kept as before. */

#include "base/error.h"
#include "state/state.h"

#include <stdbool.h>

struct rpc_call;
struct server;

/** Notes the statement in each claim of @volume that @node has not released, one transaction per claim, and
 * audits it as @what. If @dry_run, only checks that. Does not notify the node.
 *
 * STATUS_FAILED_PRECONDITION: the volume is native, statements are not accepted for its plugin, the node is
 * away, has released it already or has not failed to, or an allocation with the volume there may continue.
 * STATUS_INVALID_ARGUMENT: the reason. */
enum status forced_begin(struct server *server, const struct rpc_call *call, const char *what,
			 const struct node_entry *node, struct volume_entry *volume, const char *reason,
			 bool dry_run, struct error *err);

/** Sends the noted statements to the node if it is connected. They are sent again whenever it reports a
 * failure. */
void forced_notify(const struct volume_entry *volume, const char *node_id);

/** Returns the facts that remain unconfirmed then: a line for each claim of @volume that the node has not
 * released. Owned by the caller; NULL when memory is short. */
char *forced_bypassed(const struct volume_entry *volume, const char *node_id);
