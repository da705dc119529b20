/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a server of several says of its etcd, and what it is notified of. */

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
	const char *name;    /* what others are told of this server while it leads */
	uint64_t lease_us;   /* at least 1 s */
	uint64_t call_us;    /* how long a member may take to answer */
	uint64_t yield_us;   /* how long to leave the lead to others at first; 0: not at all */
	/* Of the records that this server writes. It leads only while the cluster is at that one: so that
	 * servers of two versions run side by side, see etcd_raise_schema(). 0: always */
	uint32_t schema;
	/* With which key it signs tickets, in hex: it leads only while that is the cluster's, which whoever
	 * leads first says. NULL: with any. */
	const char *ticket_key;
	bool may_be_retired; /* the store is opened even if it was closed by kv_retire_etcd() */
};

/* How far the store has come, by who leads: what a mark says (store/mark.h). */
struct etcd_progress {
	uint64_t revision;
	uint64_t epoch;
	uint64_t nodes;
	char store_id[MARK_STORE_ID_SIZE]; /* "": the store has none */
};

struct kv_item;

/* From the event loop, never inside a function of etcd.h. */
struct etcd_events {
	void (*on_leading)(void *userdata);
	/* After on_leading, once: begin again with a new struct etcd. Every status of a store that is broken
	 * for it is FAILED_PRECONDITION. May call kv_close() and etcd_free(). */
	void (*on_lost)(const struct error *why, void *userdata);
	/* Another one leads, or yet another, since @since_ms by its clock; 0: not known. Also the same one,
	 * when etcd says so again after on_trouble. */
	void (*on_follow)(const char *leader, int64_t since_ms, void *userdata);
	void (*on_trouble)(const struct error *why, void *userdata); /* it is tried again */
	/* Nobody leads, and this one does not, as the cluster is at @schema, or (0) has another ticket key.
	 * Only where settings have one. */
	void (*on_aside)(uint32_t schema, void *userdata);
	/* The cluster signs with another ticket key than this one, so that it does not lead; or (false) no
	 * longer. Only where settings have one; NULL: nobody asks. */
	void (*on_other_key)(bool is_other, void *userdata);
	/* While another one leads, whenever it is known; not after on_leading. NULL: nobody asks. */
	void (*on_progress)(const struct etcd_progress *progress, void *userdata);

	/* A copy of the store, kept while another one leads. These may run inside functions of etcd.h, of
	 * which they may call none.
	 * Prefixes of the keys that are copied, in the order in which they are read; NULL at the end. No
	 * such function: no copy is kept. */
	const char *(*copied)(size_t i);
	void (*on_copy)(void *userdata); /* it begins with nothing, perhaps once more */
	/* A record was read or written or, without a value, deleted; of others too, later on. False: begin
	 * anew, after a while. */
	bool (*on_record)(const struct kv_item *item, void *userdata);
};
