/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One server's part in an etcd (version 3.4 and later): it is elected or follows, and while it leads it may
 * open the store. What is done with etcd is on a loop of its own inside, so that the store can wait for it
 * without anything else being called meanwhile. */

#include "etcd/settings.h"
#include "store/kv.h"

#include <stdbool.h>

struct etcd;

/** Begin to campaign. @event borrowed. STATUS_INVALID_ARGUMENT for settings that cannot be. */
enum status etcd_new(sd_event *event, const struct etcd_settings *settings, const struct etcd_events *events,
		     void *userdata, struct etcd **ret, struct error *err);

/** The store must be closed. Revokes the lease, for which it waits as long as a member may take to answer.
 * NULL is allowed. */
void etcd_free(struct etcd *etcd);

/** Does this server lead at this moment for certain, by its own clock? What is read from memory may be told
 * to others only if so. */
bool etcd_is_leading(const struct etcd *etcd);

/** Open or create the store of this cluster, while leading. Closed by kv_close(), before etcd_free().
 *
 * It differs from a store in sqlite in this: submissions that are made together share a revision; one that
 * only deletes what does not exist may have one of its own; nothing is relaxed, and texts are not kept; after
 * a rewrite that is more than one transaction, or advances, every record is one that was created then. It is
 * broken with STATUS_FAILED_PRECONDITION, "not the leader", when another one leads or this one's lease may be
 * over; then it is not known whether what was on its way became durable.
 *
 * STATUS_FAILED_PRECONDITION when not leading, for a newer schema, another cluster's prefix, or keys that are
 * not Holdfast's. */
enum status kv_open_etcd(struct etcd *etcd, struct kv **ret, struct error *err);

/** Close the store for good, as its records are with server @by now: nobody opens it any more but with
 * may_be_retired of its settings. They stay as they are, until a rewrite takes their place and opens it
 * again. When nothing is pending: it blocks. */
enum status kv_retire_etcd(struct kv *kv, const char *by, struct error *err);
/** "": it is not closed. */
const char *kv_etcd_retired_by(const struct kv *kv);

/** Is the copy of the store whole, though it may be a little behind? */
bool etcd_has_copy(const struct etcd *etcd);

/** With the store open: does the copy have all that the store has? Waits a moment for changes that are on
 * their way. The copy is not followed any more. */
bool etcd_copy_finish(struct etcd *etcd);

/** Say that from now on servers of @settings->schema lead, and none of an earlier one. Who leads continues
 * until it ends. Blocks. @ret_before what it was, the same when there was nothing to change. STATUS_NOT_FOUND
 * when no server has led yet, STATUS_FAILED_PRECONDITION when the cluster is at a newer one. */
enum status etcd_raise_schema(const struct etcd_settings *settings, uint32_t *ret_before, struct error *err);

/** Say that servers with the ticket key of @settings lead from now on. Who leads continues until it ends.
 * Blocks. STATUS_NOT_FOUND when no server has led yet. */
enum status etcd_replace_ticket_key(const struct etcd_settings *settings, struct error *err);

/** Every record of the store of @settings, in order and at one revision, whoever leads; name and lease are
 * not looked at. Blocks, and may run on a thread of its own. @ret_revision of the last record that was
 * changed. STATUS_ABORTED when the store was rewritten meanwhile. */
enum status etcd_walk(const struct etcd_settings *settings, kv_each_fn *each, void *userdata,
		      uint64_t *ret_revision, struct error *err);

/** While another one leads, and only if nothing was written since the last on_progress: put the record @op
 * into the store, unless there is one, and have the next transaction of the leader fail, which ends its lead.
 * So nothing is acknowledged any more before the next leader has read it. What becomes of it the next
 * on_progress shows: it is tried again by calling this again. */
void etcd_interrupt(struct etcd *etcd, const struct kv_op *op);
