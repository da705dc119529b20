/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The etcd settings of one of several servers, and the events that it gets. */

#include "base/error.h"
#include "etcd/client.h"
#include "store/mark.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ETCD_STORE_SCHEMA = 1,
	ETCD_PREFIX_MAX = 200,
	ETCD_CLUSTER_MAX = 63,
};

/* Below the prefix, and no part of the store: keys that servers keep by leases of their own, and the schema
 * of records at which the cluster is. */
#define ETCD_SERVERS "servers/"
#define ETCD_RECORD_SCHEMA "record-schema"
#define ETCD_TICKET_KEY "ticket-key"
#define ETCD_RETIRED "retired " /* the generation, before the server that has its records now */

struct etcd_settings {
	struct etcd_endpoints endpoints;
	const char *prefix;  /* of all keys of this cluster, "/holdfast/prod" */
	const char *cluster; /* its name: whose keys they are */
	const char *name;    /* of this server, shown to others while it leads */
	uint64_t lease_us;   /* at least 1 s */
	uint64_t call_us;    /* how long a member may take to answer */
	uint64_t yield_us;   /* how long to leave the lead to others at first; 0: not at all */
	/* The schema of the records that this server writes. It leads only while the cluster is at that
	 * schema, so servers of two versions can run together, see etcd_raise_schema(). 0: always */
	uint32_t schema;
	/* The key that signs its tickets, in hex. It leads only while the cluster has the same one; the first
	 * leader sets it. NULL: with any. */
	const char *ticket_key;
	bool may_be_retired; /* the store is opened even if it was closed by kv_retire_etcd() */
};

/* How far the store of the leader has come: the contents of a mark (store/mark.h). */
struct etcd_progress {
	uint64_t revision;
	uint64_t epoch;
	uint64_t nodes;
	char store_id[MARK_STORE_ID_SIZE]; /* "": the store has no id */
};

struct kv_item;

/* From the event loop, never inside a function of etcd.h. */
struct etcd_events {
	void (*on_leading)(void *userdata);
	/* After on_leading, once: begin again with a new struct etcd. Every status of a store that is broken
	 * for it is FAILED_PRECONDITION. May call kv_close() and etcd_free(). */
	void (*on_lost)(const struct error *why, void *userdata);
	/* Another one leads since @since_ms by its clock; 0: not known. Called for each new leader, and for
	 * the same one when etcd reports it again after on_trouble. */
	void (*on_follow)(const char *leader, int64_t since_ms, void *userdata);
	void (*on_trouble)(const struct error *why, void *userdata); /* it is tried again */
	/* No server leads, and this one does not, because the cluster is at @schema, or (0) has another
	 * ticket key. Only if the settings have a schema or a key. */
	void (*on_aside)(uint32_t schema, void *userdata);
	/* The cluster has another ticket key, so this server does not lead; or (false) no longer. Only if the
	 * settings have a key. May be NULL. */
	void (*on_other_key)(bool is_other, void *userdata);
	/* While another one leads, at each change; not after on_leading. May be NULL. */
	void (*on_progress)(const struct etcd_progress *progress, void *userdata);

	/* A copy of the store, kept while another one leads. These callbacks may run inside functions of
	 * etcd.h, and may not call functions of etcd.h.
	 * Returns the prefixes of the keys that are copied, in the order in which they are read; NULL at the
	 * end. If the callback is NULL, no copy is kept. */
	const char *(*copied)(size_t i);
	void (*on_copy)(void *userdata); /* it begins with nothing, perhaps once more */
	/* A record was read or written or, without a value, deleted; later versions of it follow. False:
	 * begin again, after a while. */
	bool (*on_record)(const struct kv_item *item, void *userdata);
};
