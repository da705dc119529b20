/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One server's part in an etcd (version 3.4 and later): it is elected or follows, and while it leads it may
 * open the store. Calls to etcd run on a loop of its own inside, so the store can wait for them while no
 * other callback of the server runs. */

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

/** Does this server lead at this moment for certain, by its own clock? Only then may it answer others from
 * memory. */
bool etcd_is_leading(const struct etcd *etcd);

/** Open or create the store of this cluster, while leading. Closed by kv_close(), before etcd_free().
 *
 * It differs from a store in sqlite:
 * - Submissions that are made together share a revision. One that only deletes missing records may have one
 *   of its own.
 * - Nothing is relaxed, and texts are not kept.
 * - After a rewrite that takes more than one transaction, or advances, every record counts as created then.
 * - It is broken with STATUS_FAILED_PRECONDITION, "not the leader", when another one leads or this one's
 *   lease may be over. Then changes in flight may or may not be durable.
 *
 * STATUS_FAILED_PRECONDITION when not leading, for a newer schema, another cluster's prefix, or keys that are
 * not Holdfast's. */
enum status kv_open_etcd(struct etcd *etcd, struct kv **ret, struct error *err);

/** Close the store for good, because server @by has its records. Afterwards it opens only with
 * may_be_retired in its settings. The records stay until a rewrite replaces them and opens the store again.
 * Nothing may be pending. Blocks. */
enum status kv_retire_etcd(struct kv *kv, const char *by, struct error *err);
/** "": not retired. */
const char *kv_etcd_retired_by(const struct kv *kv);

/** Is the copy of the store whole, though it may be a little behind? */
bool etcd_has_copy(const struct etcd *etcd);

/** Does the copy have all that the store has? The store must be open. Waits a moment for changes in flight,
 * and stops following the copy. */
bool etcd_copy_finish(struct etcd *etcd);

/** Set the cluster's schema to @settings->schema: from now on only servers that write it become leader. The
 * present leader continues until it ends. Blocks. @ret_before the schema before; equal if nothing changed.
 * STATUS_NOT_FOUND when no server has led yet, STATUS_FAILED_PRECONDITION when the cluster is at a newer one.
 */
enum status etcd_raise_schema(const struct etcd_settings *settings, uint32_t *ret_before, struct error *err);

/** Set the cluster's ticket key to that of @settings: from now on only servers that have it become leader.
 * The present leader continues until it ends. Blocks. STATUS_NOT_FOUND when no server has led yet. */
enum status etcd_replace_ticket_key(const struct etcd_settings *settings, struct error *err);

/** Read every record of the store of @settings, in order and at one revision. Any server may lead; name and
 * lease are ignored. Blocks, and may run on a thread of its own. @ret_revision of the last change, also for
 * @each. STATUS_ABORTED when the store was rewritten meanwhile. */
enum status etcd_walk(const struct etcd_settings *settings, kv_each_fn *each, void *userdata,
		      uint64_t *ret_revision, struct error *err);

/** While another one leads, and only if nothing was written since the last on_progress: put the record @op
 * into the store, unless it exists, and have the next transaction of the leader fail, which ends its lead.
 * So no change is acknowledged before the next leader has read the record. The next on_progress shows the
 * outcome; to retry, call this again. */
void etcd_interrupt(struct etcd *etcd, const struct kv_op *op);
