/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One thing handed to the writer and back: a transaction or a barrier. */

#include "store/kv_types.h"

#include <sys/queue.h>

enum submission_kind {
	SUBMISSION_TXN,
	SUBMISSION_BARRIER,
};

enum submission_outcome {
	SUBMISSION_PENDING,
	SUBMISSION_DURABLE,
	SUBMISSION_CONFLICT, /* a condition did not hold; .conflict has it */
	SUBMISSION_FAILED,   /* the store is broken; the writer has the cause */
};

struct kv_conflict {
	const struct kv_condition *condition; /* points into the transaction */
	uint64_t found_revision;	      /* 0: the key does not exist */
};

struct submission {
	STAILQ_ENTRY(submission) next;
	struct submission *later; /* that was put after it, and is pending; of kv.c */
	uint64_t put_us;	  /* monotonic; likewise */
	enum submission_kind kind;
	struct kv_txn txn; /* SUBMISSION_TXN; everything in it lies in this allocation */
	uint64_t revision; /* of the store when it comes back */
	size_t bytes;	   /* size of the allocation */
	kv_done_fn *done;  /* may be NULL */
	void *userdata;
	enum submission_outcome outcome;
	struct kv_conflict conflict;
};

STAILQ_HEAD(submission_list, submission);

/** A submission without a transaction; NULL when out of memory. Owned by the caller, free(). */
struct submission *submission_new(enum submission_kind kind, kv_done_fn *done, void *userdata);

/** Same, with a deep copy of @txn, whose limits have been checked. */
struct submission *submission_new_txn(const struct kv_txn *txn, kv_done_fn *done, void *userdata);

/** Bytes of the keys and values of @txn, whose keys have been checked. */
size_t submission_payload(const struct kv_txn *txn);

/** Bytes of its texts, each with its NUL. */
size_t submission_text(const struct kv_txn *txn);

void submission_list_free(struct submission_list *list);
