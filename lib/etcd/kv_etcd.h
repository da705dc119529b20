/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The store in etcd, as its writing (kv_etcd.c) and its rewriting (rewrite.c) see it. */

#include "base/backoff.h"
#include "etcd/batch.h"
#include "etcd/etcd_internal.h"
#include "store/kv_backend.h"
#include "store/kv_marks.h"

enum { SEQUENCE_SIZE = 128 };

#define ETCD_FULL_MAX_US                                                                   \
	(15 * USEC_PER_SEC) /* between two tries of a transaction that a full etcd refuses \
			     */

#define ETCD_IDLE_MAX_US (60 * USEC_PER_SEC) /* between two writes of only the sequence */

enum stage {
	STAGE_IDLE,
	STAGE_SENT,    /* the transaction */
	STAGE_ASKED,   /* what became of it */
	STAGE_SENDING, /* again, when the timer fires */
	STAGE_ASKING,  /* likewise */
};

struct etcd_store {
	struct kv kv;
	struct etcd *etcd;     /* borrowed */
	sd_event_source *turn; /* deferred, on the outer loop, enabled: there is something to hand back */
	char name[ETCD_KEY_SIZE];
	char sequence_key[ETCD_KEY_SIZE];
	char schema_key[ETCD_KEY_SIZE];
	char generation_key[ETCD_KEY_SIZE];
	uint32_t generation;
	struct etcd_records records; /* of this generation */
	struct submission_list queue;
	struct submission_list done;
	enum stage stage;
	struct batch batch; /* on its way; not when idle */
	struct etcd_call call;
	sd_event_source *retry;
	struct backoff backoff;
	uint64_t number;	      /* of the last transaction that writes */
	char sequence[SEQUENCE_SIZE]; /* what it puts there */
	char last[SEQUENCE_SIZE];     /* the value since known.sequence_revision */
	struct known_revisions known;
	uint64_t revision; /* of the last one that is committed; above etcd's by the offset */
	uint64_t opened_revision;
	struct kv_mark_files marks;
	uint64_t nodes;		     /* for the next mark */
	sd_event_source *idle;	     /* while marks are kept: the next write of only the sequence */
	struct backoff idle_backoff; /* between two */
	uint64_t idle_commits;	     /* before the last of them */
	struct error
		refusal;   /* etcd's answer to the transaction on its way; STATUS_OK: it may still take it */
	bool is_full;	   /* etcd has no room for the transaction on its way */
	bool is_rewriting; /* nothing waits for room then */
	char retired_by[ETCD_CLUSTER_MAX + 1]; /* see kv_retire_etcd(); "": it is open */
	struct backoff full_backoff;
	struct error failure; /* STATUS_OK until the store is broken, then for ever */
	struct kv_stats stats;
	uint64_t n_read;
};

/** The records of @generation, but for their offset. */
void etcd_store_name_records(const struct etcd_store *store, uint32_t generation, struct etcd_records *ret);

/* The comparisons that hold while this server leads and no other one writes. */
struct etcd_unchanged {
	Etcdserverpb__Compare compares[3];
	Etcdserverpb__Compare *list[3];
};

/** For a transaction outside of the queue; borrows @store's texts. */
void etcd_store_unchanged(const struct etcd_store *store, struct etcd_unchanged *ret,
			  Etcdserverpb__TxnRequest *txn);

/** Makes the next sequence, which the next transaction writes. */
void etcd_store_next_sequence(struct etcd_store *store);

struct etcd_generation {
	uint32_t number;
	uint64_t offset;
	char retired_by[ETCD_CLUSTER_MAX + 1]; /* see kv_retire_etcd(); "": it is open */
};

/** Reads the generation's key: "NUMBER OFFSET" or "NUMBER OFFSET retired NAME"; @kv NULL: the first
 * generation. False: the value has another form. */
bool etcd_generation_read(const Etcdserverpb__KeyValue *kv, struct etcd_generation *ret);

/** Deletes the records of unfinished rewrites: all generations but the store's. */
enum status etcd_store_tidy(struct etcd_store *store, struct error *err);

/** Reads generation and sequence under the prefix, and checks that this server leads. Blocks. */
enum status etcd_store_find(struct etcd_store *store, struct error *err);

/** kv_rewrite(). */
enum status etcd_rewrite(struct kv *kv, kv_rewrite_fn *fn, void *userdata, struct error *err);
