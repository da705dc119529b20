/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/batch.h"

#include "base/str.h"
#include "etcd/request.h"
#include "store/checksum.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- what goes into it --- */

static struct batch_op *batch_find(struct batch *batch, const char *key, uint64_t hash)
{
	for (size_t i = 0; i < batch->n_ops; i++)
		if (batch->ops[i].hash == hash && str_eq(batch->ops[i].op->key, key))
			return &batch->ops[i];
	return NULL;
}

/* The last operation on a key wins. One that is deleted and put again would keep its create revision. */
static bool is_anew(struct batch *batch, const struct kv_op *op)
{
	const struct batch_op *before = op->value ? batch_find(batch, op->key, str_hash(0, op->key)) : NULL;

	return before && !before->op->value;
}

static bool fits(struct batch *batch, const struct submission *s)
{
	if (batch->n == 0)
		return true;
	if (batch->n >= BATCH_ALL_MAX || batch->conditional || s->txn.n_conditions > 0 ||
	    batch->n_ops + s->txn.n_ops > BATCH_OPS_MAX ||
	    batch->bytes + submission_payload(&s->txn) > BATCH_BYTES_MAX)
		return false;
	for (size_t i = 0; i < s->txn.n_ops; i++)
		if (is_anew(batch, &s->txn.ops[i]))
			return false;
	return true;
}

static void add_op(struct batch *batch, const struct kv_op *op)
{
	uint64_t hash = str_hash(0, op->key);
	struct batch_op *slot = batch_find(batch, op->key, hash);

	if (!slot) {
		assert(batch->n_ops < BATCH_OPS_MAX);
		slot = &batch->ops[batch->n_ops++];
	}
	*slot = (struct batch_op){.hash = hash, .op = op};
}

static void add(struct batch *batch, struct submission *s)
{
	STAILQ_INSERT_TAIL(&batch->list, s, next);
	batch->n++;
	if (s->kind != SUBMISSION_TXN)
		return;
	batch->transactions++;
	batch->bytes += submission_payload(&s->txn);
	if (s->txn.n_conditions > 0)
		batch->conditional = &s->txn;
	for (size_t i = 0; i < s->txn.n_ops; i++)
		add_op(batch, &s->txn.ops[i]);
}

void batch_fill(struct batch *batch, struct submission_list *queue)
{
	struct submission *s;

	*batch = (struct batch){.list = STAILQ_HEAD_INITIALIZER(batch->list)};
	while ((s = STAILQ_FIRST(queue)) && fits(batch, s)) {
		STAILQ_REMOVE_HEAD(queue, next);
		add(batch, s);
	}
}

bool batch_is_empty(const struct batch *batch)
{
	return batch->n_ops == 0 && !batch->conditional;
}

/* --- the request --- */

struct batch_request {
	Etcdserverpb__TxnRequest txn;
	Etcdserverpb__Compare compare[ETCD_TXN_OPS];
	Etcdserverpb__Compare *compares[ETCD_TXN_OPS];
	Etcdserverpb__RequestOp success[ETCD_TXN_OPS];
	Etcdserverpb__RequestOp *successes[ETCD_TXN_OPS];
	Etcdserverpb__PutRequest puts[ETCD_TXN_OPS];
	Etcdserverpb__DeleteRangeRequest deletes[ETCD_TXN_OPS];
	Etcdserverpb__RequestOp failure[ETCD_TXN_OPS];
	Etcdserverpb__RequestOp *failures[ETCD_TXN_OPS];
	Etcdserverpb__RangeRequest ranges[ETCD_TXN_OPS];
	uint8_t *free_space; /* behind this struct */
};

void batch_sum(const char *key, const void *value, size_t len, uint8_t ret[static BATCH_SUM_SIZE])
{
	uint64_t sum = checksum_add(checksum_add(CHECKSUM_INIT, key, strlen(key) + 1), value, len);

	for (int i = 0; i < BATCH_SUM_SIZE; i++)
		ret[i] = (uint8_t)(sum >> (56 - 8 * i));
}

static ProtobufCBinaryData join(struct batch_request *r, const void *a, size_t a_len, const void *b,
				size_t b_len)
{
	ProtobufCBinaryData joined = {.len = a_len + b_len, .data = r->free_space};

	memcpy(r->free_space, a, a_len);
	memcpy(r->free_space + a_len, b, b_len);
	r->free_space += joined.len;
	return joined;
}

static ProtobufCBinaryData key_of(struct batch_request *r, const struct batch_keys *keys, const char *key)
{
	return join(r, keys->data, strlen(keys->data), key, strlen(key));
}

static size_t space_for(const struct batch *batch, const struct batch_keys *keys)
{
	size_t n = 0;

	for (size_t i = 0; i < batch->n_ops; i++)
		n += strlen(keys->data) + strlen(batch->ops[i].op->key) + BATCH_SUM_SIZE +
		     batch->ops[i].op->len;
	for (size_t i = 0; batch->conditional && i < batch->conditional->n_conditions; i++)
		n += strlen(keys->data) + strlen(batch->conditional->conditions[i].key);
	return n;
}

static void add_one_compare(struct batch_request *r, Etcdserverpb__Compare compare)
{
	size_t i = r->txn.n_compare++;

	assert(i < ETCD_TXN_OPS);
	r->compare[i] = compare;
	r->compares[i] = &r->compare[i];
}

/* Compare @key, and read it where anything compares otherwise. */
static void add_compare(struct batch_request *r, ProtobufCBinaryData key, bool is_create, int64_t revision,
			bool keys_only)
{
	size_t i = r->txn.n_failure++;

	r->failures[i] = &r->failure[i];
	etcdserverpb__range_request__init(&r->ranges[i]);
	r->ranges[i].key = key;
	r->ranges[i].keys_only = keys_only;
	r->failure[i] = etcd_op_range(&r->ranges[i]);
	add_one_compare(r, is_create ? etcd_compare_created(key, revision)
				     : etcd_compare_modified(key, revision));
}

static void add_put(struct batch_request *r, ProtobufCBinaryData key, ProtobufCBinaryData value)
{
	size_t i = r->txn.n_success++;

	assert(i < ETCD_TXN_OPS);
	r->successes[i] = &r->success[i];
	etcdserverpb__put_request__init(&r->puts[i]);
	r->puts[i].key = key;
	r->puts[i].value = value;
	r->success[i] = etcd_op_put(&r->puts[i]);
}

static void add_delete(struct batch_request *r, ProtobufCBinaryData key)
{
	size_t i = r->txn.n_success++;

	r->successes[i] = &r->success[i];
	etcdserverpb__delete_range_request__init(&r->deletes[i]);
	r->deletes[i].key = key;
	r->success[i] = etcd_op_delete(&r->deletes[i]);
}

static void add_write(struct batch_request *r, const struct batch_keys *keys, const struct kv_op *op)
{
	ProtobufCBinaryData key = key_of(r, keys, op->key);
	uint8_t sum[BATCH_SUM_SIZE];

	if (!op->value) {
		add_delete(r, key);
		return;
	}
	batch_sum(op->key, op->value, op->len, sum);
	add_put(r, key, join(r, sum, sizeof(sum), op->value, op->len));
}

/* Returns etcd's revision for the one of @condition; 0: the key is absent. INT64_MAX, which no key has, if no
 * revision of etcd matches. */
static int64_t revision_of(const struct kv_condition *condition, uint64_t offset)
{
	if (condition->mod_revision == 0)
		return 0;
	if (condition->mod_revision <= offset || condition->mod_revision - offset > INT64_MAX)
		return INT64_MAX;
	return (int64_t)(condition->mod_revision - offset);
}

struct batch_request *batch_request_new(const struct batch *batch, const struct batch_keys *keys,
					const struct known_revisions *known)
{
	struct batch_request *r = malloc(sizeof(*r) + space_for(batch, keys));

	if (!r)
		return NULL;
	etcdserverpb__txn_request__init(&r->txn);
	r->free_space = (uint8_t *)(r + 1);
	r->txn.compare = r->compares;
	r->txn.success = r->successes;
	r->txn.failure = r->failures;
	add_compare(r, etcd_bytes(keys->leader), true, known->leader_revision, false);
	add_compare(r, etcd_bytes(keys->sequence), false, known->sequence_revision, false);
	add_one_compare(r, etcd_compare_value(etcd_bytes(keys->sequence), known->last));
	for (size_t i = 0; batch->conditional && i < batch->conditional->n_conditions; i++) {
		const struct kv_condition *condition = &batch->conditional->conditions[i];

		add_compare(r, key_of(r, keys, condition->key), false, revision_of(condition, keys->offset),
			    true);
	}
	for (size_t i = 0; i < batch->n_ops; i++)
		add_write(r, keys, batch->ops[i].op);
	if (known->sequence)
		add_put(r, etcd_bytes(keys->sequence), etcd_bytes(known->sequence));
	return r;
}

const ProtobufCMessage *batch_request_message(const struct batch_request *request)
{
	return &request->txn.base;
}

bool batch_find_conflict(const struct batch *batch, const Etcdserverpb__TxnResponse *txn, uint64_t offset,
			 struct kv_conflict *ret)
{
	for (size_t i = 0; batch->conditional && i < batch->conditional->n_conditions; i++) {
		const struct kv_condition *condition = &batch->conditional->conditions[i];
		const Etcdserverpb__KeyValue *kv = txn_key_of(txn, BATCH_READ_CONDITIONS + i);
		uint64_t found = kv ? (uint64_t)kv->mod_revision + offset : 0;

		if (found == condition->mod_revision)
			continue;
		*ret = (struct kv_conflict){.condition = condition, .found_revision = found};
		return true;
	}
	return false;
}
