/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The outcome of a transaction, from the values of the sequence key and the leader's key in etcd. Pure. */

#include "etcd/v3/etcd.pb-c.h"

#include <stddef.h>
#include <stdint.h>

enum verdict {
	VERDICT_COMMITTED,
	VERDICT_UNCOMMITTED, /* it may still be on its way: to be sent again, whichever copy is second fails
			      */
	VERDICT_DEPOSED,     /* another one leads, or has written */
};

/* The revisions that this process knows. */
struct known_revisions {
	int64_t leader_revision;   /* create revision of the leader's key when this process created it */
	int64_t sequence_revision; /* mod revision of the sequence key as this process saw or wrote it last */
	const char *last;	   /* its value then: an etcd that was put back gives out a revision again */
	const char *sequence; /* its value in the transaction that is classified; NULL: that writes nothing */
};

/** @leader, @sequence: as read at one revision, not before the transaction was sent; NULL: absent. */
enum verdict classify_transaction(const struct known_revisions *known, const Etcdserverpb__KeyValue *leader,
				  const Etcdserverpb__KeyValue *sequence);

/** The key of the single one that answer @index of @txn read; NULL: absent, or no such answer. */
const Etcdserverpb__KeyValue *txn_key_of(const Etcdserverpb__TxnResponse *txn, size_t index);

enum { ETCD_SCHEMA_SIZE = 16 }; /* of a number as text */

/** The schema of records under its key; UINT32_MAX, which no server writes: no number is stored. */
uint32_t etcd_schema_read(const Etcdserverpb__KeyValue *kv);
