/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One server's part in an etcd (version 3.4 and later): it is elected or follows, and while it leads it may
 * open the store. What is done with etcd is on a loop of its own inside, so that the store can wait for it
 * without anything else being called meanwhile. */

#include "etcd/client.h"
#include "store/kv.h"

#include <stdbool.h>

enum {
	ETCD_STORE_SCHEMA = 1,
	ETCD_PREFIX_MAX = 200,
	ETCD_CLUSTER_MAX = 63,
};

/* Below the prefix, and no part of the store: keys that servers keep by leases of their own, and the schema
 * of records at which the cluster is. */
#define ETCD_SERVERS "servers/"
#define ETCD_RECORD_SCHEMA "record-schema"

struct etcd;

struct etcd_settings {
	struct etcd_endpoints endpoints;
	const char *prefix;  /* of all keys of this cluster, "/holdfast/prod" */
	const char *cluster; /* its name: whose keys they are */
	const char *name;    /* what others are told of this server while it leads */
	uint64_t lease_us;   /* at least 1 s */
	uint64_t call_us;    /* how long a member may take to answer */
	uint64_t yield_us;   /* how long to leave the lead to others at first; 0: not at all */
	/* Of the records that this server writes. It leads only while the cluster is at that one: so that
	 * servers of two versions run side by side, see etcd_raise_schema(). 0: always */
	uint32_t schema;
};

/* How far the store has come, by who leads: what a mark says (store/mark.h). */
struct etcd_progress {
	uint64_t revision;
	uint64_t epoch;
	uint64_t nodes;
};

/* From the event loop, never inside a function of this header. */
struct etcd_events {
	void (*on_leading)(void *userdata);
	/* After on_leading, once: begin again with a new struct etcd. Every status of a store that is broken
	 * for it is FAILED_PRECONDITION. May call kv_close() and etcd_free(). */
	void (*on_lost)(const struct error *why, void *userdata);
	/* Another one leads, or yet another, since @since_ms by its clock; 0: not known. */
	void (*on_follow)(const char *leader, int64_t since_ms, void *userdata);
	void (*on_trouble)(const struct error *why, void *userdata); /* it is tried again */
	/* Nobody leads, and this one does not, as the cluster is at @schema. Only where settings have one. */
	void (*on_aside)(uint32_t schema, void *userdata);
	/* While another one leads, whenever it is known; not after on_leading. NULL: nobody asks. */
	void (*on_progress)(const struct etcd_progress *progress, void *userdata);
};

/** Begin to campaign. @event borrowed. STATUS_INVALID_ARGUMENT for settings that cannot be. */
enum status etcd_new(sd_event *event, const struct etcd_settings *settings, const struct etcd_events *events,
		     void *userdata, struct etcd **ret, struct error *err);

/** The store must be closed. Gives the lease back, for which it waits as long as a member may take to answer.
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

/** Say that from now on servers of @settings->schema lead, and none of an earlier one. Who leads goes on
 * until it ends. Blocks. @ret_before what it was, the same when there was nothing to change. STATUS_NOT_FOUND
 * when no server has led yet, STATUS_FAILED_PRECONDITION when the cluster is at a newer one. */
enum status etcd_raise_schema(const struct etcd_settings *settings, uint32_t *ret_before, struct error *err);

/** Every record of the store of @settings, in order and at one revision, whoever leads; name and lease are
 * not looked at. Blocks, and may run on a thread of its own. @ret_revision of the last record that was
 * changed. STATUS_ABORTED when the store was rewritten meanwhile. */
enum status etcd_walk(const struct etcd_settings *settings, kv_each_fn *each, void *userdata,
		      uint64_t *ret_revision, struct error *err);
