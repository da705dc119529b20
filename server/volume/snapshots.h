/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Snapshots: a request is recorded here before the provider is asked, under a name that stays the same,
 * and is kept. Providers' listings are joined with these records. */

#include "model/volume_detail.h"
#include "rpc/server.h"
#include "state/objects.h"
#include "state/state.h"

#include <holdfast/v1/types.pb-c.h>
#include <protobuf-c/protobuf-c.h>

struct change;
struct server;

enum { SNAPSHOT_NAME_MAX = 128, SNAPSHOT_NAME_SIZE };

/* Handlers of the service Volumes. */
void snapshots_handle_create(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void snapshots_handle_delete(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void snapshots_handle_list(struct rpc_call *call, const ProtobufCMessage *request, void *server);

/** Key of the record; all three were checked. */
void snapshots_key(const char *plugin_id, const char *namespace, const char *name,
		   char ret[static OBJECT_KEY_SIZE]);

/** Writes how all names begin that the schedule of @volume gives: "auto-CLUSTER-VOLUME-". The time behind it
 * keeps them in order. No call gives a name that begins like those of another volume. */
void snapshots_auto_prefix(const struct server *server, const struct volume *volume,
			   char ret[static SNAPSHOT_NAME_SIZE]);

/** The first record of the plugin (NULL: of any), and the next, by namespaces and names; NULL at the end. */
struct record_entry *snapshots_first(struct state *state, const char *plugin_id);
struct record_entry *snapshots_next(struct record_entry *entry, const char *plugin_id);

/** The record of the provider's snapshot, or NULL. Costs the number of the plugin's records. */
const Holdfast__V1__Snapshot *snapshots_find(struct state *state, const char *plugin_id,
					     const char *snapshot_id);

/** STATUS_FAILED_PRECONDITION while the provider makes a snapshot of the id that @volume names, for another
 * namespace. Costs the number of those. */
enum status snapshots_check_copied(struct server *server, const struct volume *volume, struct error *err);

/** The record of the snapshot that @parts names as its source; NULL: no record, or another source. */
const Holdfast__V1__Snapshot *snapshots_source(struct state *state, const struct volume_parts *parts);

/* A schedule makes and removes snapshots without a call. */

/** It is made or removed, and that is durable; @err why not, else NULL. Never called inside the function that
 * began it. */
typedef void snapshots_done_fn(struct server *server, const Holdfast__V1__Snapshot *snapshot,
			       const struct error *err);

/** Make the snapshot @name of the volume for the time @scheduled_ms of its schedule, or continue to make it.
 * On failure @done is not called. */
enum status snapshots_make(struct server *server, const struct volume_entry *entry, char *name,
			   int64_t scheduled_ms, snapshots_done_fn *done, struct error *err);

/** Remove a snapshot that is recorded. */
enum status snapshots_remove(struct server *server, const Holdfast__V1__Snapshot *snapshot,
			     snapshots_done_fn *done, struct error *err);

/** Stages that the snapshots of @volume without an id are forgotten, as many as fit @change. To be called
 * when it is deregistered or deleted: only a repeat of their creation, which needs the volume, could end
 * them. */
void snapshots_forget_unmade(struct server *server, struct change *change, const struct volume *volume);

static inline const Holdfast__V1__Snapshot *snapshots_of(const struct record_entry *entry)
{
	return (const Holdfast__V1__Snapshot *)(const void *)entry->record.message;
}
