/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Submissions that are one transaction of etcd, and that transaction's request. */

#include "etcd/verdict.h"
#include "store/submission.h"

#include <stdbool.h>

enum {
	ETCD_TXN_OPS = 128,		    /* --max-txn-ops: of comparisons, and of operations */
	BATCH_OPS_MAX = ETCD_TXN_OPS - 1,   /* without the sequence key */
	BATCH_BYTES_MAX = KV_TXN_BYTES_MAX, /* of one submission, or of several */
	BATCH_ALL_MAX = 4096,		    /* submissions, of which most change nothing then */
	BATCH_SUM_SIZE = 8,		    /* before each value */
};

/* The last operation on a key. */
struct batch_op {
	uint64_t hash;		/* of the key */
	const struct kv_op *op; /* of a submission of the batch */
};

struct batch {
	struct submission_list list;
	size_t n;
	struct batch_op ops[BATCH_OPS_MAX];
	size_t n_ops;
	size_t bytes;
	const struct kv_txn
		*conditional; /* the only one, which has conditions; NULL: no transaction has any */
	uint64_t transactions;
};

/* Names of keys, with the prefix. */
struct batch_keys {
	const char *leader;
	const char *sequence;
	const char *data; /* before each key of the store */
	uint64_t offset;  /* of the store's revisions above etcd's */
};

/** Move the head of @queue into the empty @batch, as much as one transaction can be. */
void batch_fill(struct batch *batch, struct submission_list *queue);

/** Does it change nothing, and ask for nothing? */
bool batch_is_empty(const struct batch *batch);

struct batch_request; /* owns what its message points to, but not keys and known */

/** Make the request: if both keys are as in @known and all conditions hold, write all operations
 * and the sequence key; else read the leader's key, the sequence key, and the keys of the conditions. NULL
 * when out of memory. Owned by the caller, free(). */
struct batch_request *batch_request_new(const struct batch *batch, const struct batch_keys *keys,
					const struct known_revisions *known);

const ProtobufCMessage *batch_request_message(const struct batch_request *request);

enum { BATCH_READ_LEADER, BATCH_READ_SEQUENCE, BATCH_READ_CONDITIONS };

/** The condition that does not hold by what @txn read; false when all do. @offset as in batch_keys. */
bool batch_find_conflict(const struct batch *batch, const Etcdserverpb__TxnResponse *txn, uint64_t offset,
			 struct kv_conflict *ret);

/** Checksum of a record, which etcd has before its value. */
void batch_sum(const char *key, const void *value, size_t len, uint8_t ret[static BATCH_SUM_SIZE]);
