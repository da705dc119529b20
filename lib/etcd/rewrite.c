/* SPDX-License-Identifier: Apache-2.0 */
/* Rewriting: changes stay in memory until the end. If they fit into one transaction, they are one. Else all
 * records are copied as the next generation, and one transaction switches to it. A rewrite that advances
 * above etcd's own revision works so, too: the generation's key has the offset of all revisions. An
 * unfinished generation is not read by any server, so it does no harm; the next rewrite deletes it. */

#include "base/cleanup.h"
#include "base/str.h"
#include "etcd/etcd.h"
#include "etcd/kv_etcd.h"
#include "etcd/request.h"

#include <assert.h>
#include <string.h>

/* Submissions that are waited for together, and their bytes. */
enum { FLIGHT_MAX = 1000, FLIGHT_BYTES_MAX = 8 << 20 };

/* A replaced one stays in the list: readers may hold it. */
struct put {
	STAILQ_ENTRY(put) all;
	struct kv_op op; /* in this allocation */
};

struct etcd_rewrite {
	struct kv_rewrite rewrite;
	struct etcd_store *store;
	struct etcd_records records; /* that it is about */
	struct put **puts;	     /* owned; in the order of their keys */
	size_t n;
	size_t size; /* of the array */
	size_t bytes;
	uint64_t above; /* revision that the next one must be above */
	STAILQ_HEAD(, put) all;
};

static struct etcd_rewrite *rewrite_of(struct kv_rewrite *rewrite)
{
	return (struct etcd_rewrite *)rewrite;
}

static void rewrite_release(struct etcd_rewrite *r)
{
	struct put *put;

	while ((put = STAILQ_FIRST(&r->all))) {
		STAILQ_REMOVE_HEAD(&r->all, all);
		free(put);
	}
	free(r->puts);
}

/* --- changes in memory --- */

/* Where @key is, or would be. */
static size_t rewrite_find(const struct etcd_rewrite *r, const char *key)
{
	size_t low = 0;
	size_t high = r->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(r->puts[middle]->op.key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct kv_op *put_at(const struct etcd_rewrite *r, const char *key)
{
	size_t i = rewrite_find(r, key);

	return i < r->n && str_eq(r->puts[i]->op.key, key) ? &r->puts[i]->op : NULL;
}

static struct put *put_new(const struct kv_op *op)
{
	size_t key_size = strlen(op->key) + 1;
	struct put *put = malloc(sizeof(*put) + key_size + op->len);
	char *key;

	if (!put)
		return NULL;
	key = (char *)(put + 1);
	memcpy(key, op->key, key_size);
	*put = (struct put){.op = {.key = key, .len = op->len}};
	if (op->value) {
		memcpy(key + key_size, op->value, op->len);
		put->op.value = key + key_size;
	}
	return put;
}

static bool make_room(struct etcd_rewrite *r)
{
	size_t size = r->size ? 2 * r->size : 64;
	struct put **puts = r->n < r->size ? r->puts : reallocarray(r->puts, size, sizeof(struct put *));

	if (!puts)
		return false;
	r->size = r->n < r->size ? r->size : size;
	r->puts = puts;
	return true;
}

static enum status rewrite_put(struct kv_rewrite *rewrite, const struct kv_op *op, struct error *err)
{
	struct etcd_rewrite *r = rewrite_of(rewrite);
	struct put *put = make_room(r) ? put_new(op) : NULL;
	size_t i = rewrite_find(r, op->key);

	if (!put)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "store %s: rewrite", r->store->name);
	STAILQ_INSERT_TAIL(&r->all, put, all);
	r->bytes += strlen(op->key) + 1 + op->len;
	if (i == r->n || !str_eq(r->puts[i]->op.key, op->key)) {
		memmove(&r->puts[i + 1], &r->puts[i], (r->n - i) * sizeof(struct put *));
		r->n++;
	}
	r->puts[i] = put;
	return STATUS_OK;
}

static void rewrite_advance(struct kv_rewrite *rewrite, uint64_t revision)
{
	struct etcd_rewrite *r = rewrite_of(rewrite);

	if (revision > r->above)
		r->above = revision;
}

/* --- reading records and changes as one --- */

struct merge {
	struct etcd_rewrite *r;
	const char *prefix;
	kv_each_fn *each;
	void *userdata;
	char next[KV_KEY_MAX + 2]; /* no key below it is left */
	bool is_stopped;
};

static bool hand_out(struct merge *m, const struct kv_item *item)
{
	/* after it, also if each() puts keys; no key has a character below a blank */
	(void)str_format(m->next, sizeof(m->next), "%s\x01", item->key);
	m->is_stopped = !m->each(item, m->userdata);
	return !m->is_stopped;
}

static bool hand_out_put(struct merge *m, const struct kv_op *op)
{
	const struct kv_item item = {.key = op->key, .value = op->value, .len = op->len};

	if (op->value)
		return hand_out(m, &item);
	(void)str_format(m->next, sizeof(m->next), "%s\x01", op->key);
	return true;
}

/* Those below @end; NULL: all that are left. */
static bool hand_out_puts(struct merge *m, const char *end)
{
	for (size_t i = rewrite_find(m->r, m->next); i < m->r->n; i = rewrite_find(m->r, m->next)) {
		const struct kv_op *op = &m->r->puts[i]->op;

		if ((end && strcmp(op->key, end) >= 0) || !str_starts_with(op->key, m->prefix))
			break;
		if (!hand_out_put(m, op))
			return false;
	}
	return true;
}

static bool on_item(const struct kv_item *item, void *userdata)
{
	struct merge *m = userdata;
	const struct kv_op *op;

	if (!hand_out_puts(m, item->key))
		return false;
	op = put_at(m->r, item->key);
	return op ? hand_out_put(m, op) : hand_out(m, item);
}

static enum status rewrite_range(struct kv_rewrite *rewrite, const char *prefix, kv_each_fn *each,
				 void *userdata, struct error *err)
{
	struct etcd_rewrite *r = rewrite_of(rewrite);
	struct merge merge = {.r = r, .prefix = prefix, .each = each, .userdata = userdata};

	(void)str_copy(merge.next, sizeof(merge.next), prefix);
	TRY(etcd_range(r->store->etcd, &r->records, prefix, prefix, SIZE_MAX, on_item, &merge,
		       &r->store->n_read, err));
	if (!merge.is_stopped)
		(void)hand_out_puts(&merge, NULL);
	return STATUS_OK;
}

/* --- its end --- */

struct barrier {
	bool is_done;
	enum status status;
	struct error err;
};

static void on_barrier(uint64_t revision, const struct error *err, void *userdata)
{
	struct barrier *barrier = userdata;

	barrier->is_done = true;
	if (err)
		barrier->err = *err;
	barrier->status = err ? err->status : STATUS_OK;
}

/* Submit @txn, which may be NULL, and wait for it and all before it. */
static enum status settle(struct etcd_store *store, const struct kv_txn *txn, struct error *err)
{
	struct barrier barrier = {.is_done = false};
	enum status status = txn ? kv_submit(&store->kv, txn, NULL, NULL, err) : STATUS_OK;

	if (status == STATUS_OK)
		status = kv_barrier(&store->kv, on_barrier, &barrier, err);
	while (status == STATUS_OK && !barrier.is_done)
		kv_wait(&store->kv, -1);
	if (status == STATUS_OK && barrier.status != STATUS_OK && err)
		*err = barrier.err;
	return status == STATUS_OK ? barrier.status : status;
}

static enum status commit_small(struct etcd_rewrite *r, struct error *err)
{
	struct kv_op ops[KV_TXN_OPS_MAX];

	for (size_t i = 0; i < r->n; i++)
		ops[i] = r->puts[i]->op;
	return settle(r->store, &(struct kv_txn){.ops = ops, .n_ops = r->n}, err);
}

static enum status on_succeeded(const ProtobufCMessage *response, void *userdata, struct error *err)
{
	*(bool *)userdata = ((const Etcdserverpb__TxnResponse *)response)->succeeded;
	return STATUS_OK;
}

/* Runs @op as a transaction of the leader, outside of the store's queue. */
static enum status transact(struct etcd_store *store, Etcdserverpb__RequestOp *op, bool *ret_succeeded,
			    struct error *err)
{
	Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
	struct etcd_unchanged unchanged;

	etcd_store_unchanged(store, &unchanged, &txn);
	txn.n_success = 1;
	txn.success = &op;
	return etcd_ask(store->etcd, "Txn", &txn.base, on_succeeded, ret_succeeded, err);
}

static enum status clear(struct etcd_store *store, uint32_t generation, struct error *err)
{
	Etcdserverpb__DeleteRangeRequest deletion = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
	Etcdserverpb__RequestOp op = etcd_op_delete(&deletion);
	struct etcd_records records;
	char end[ETCD_KEY_SIZE];
	bool succeeded = false;
	enum status status;

	etcd_store_name_records(store, generation, &records);
	(void)str_copy(end, sizeof(end), records.data);
	end[strlen(end) - 1]++; /* the slash */
	deletion.key = etcd_bytes(records.data);
	deletion.range_end = etcd_bytes(end);
	status = transact(store, &op, &succeeded, err);
	return status == STATUS_OK && !succeeded ? error_set(err, STATUS_FAILED_PRECONDITION, 0,
							     "store %s: not the leader", store->name)
						 : status;
}

/* In one transaction: below the store's own generation, and above it. */
enum status etcd_store_tidy(struct etcd_store *store, struct error *err)
{
	Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
	Etcdserverpb__DeleteRangeRequest ranges[2] = {ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT,
						      ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT};
	Etcdserverpb__RequestOp ops[2] = {etcd_op_delete(&ranges[0]), etcd_op_delete(&ranges[1])};
	struct etcd_unchanged unchanged;
	char first[ETCD_KEY_SIZE], after_own[ETCD_KEY_SIZE], end[ETCD_KEY_SIZE];
	bool succeeded = false;
	enum status status;

	(void)str_format(first, sizeof(first), "%s/e/", store->etcd->prefix);
	(void)str_copy(after_own, sizeof(after_own), store->records.data);
	after_own[strlen(after_own) - 1]++; /* the slash */
	(void)str_format(end, sizeof(end), "%s/e0", store->etcd->prefix);
	ranges[0].key = etcd_bytes(first);
	ranges[0].range_end = etcd_bytes(store->records.data);
	ranges[1].key = etcd_bytes(after_own);
	ranges[1].range_end = etcd_bytes(end);
	etcd_store_unchanged(store, &unchanged, &txn);
	txn.n_success = 2;
	txn.success = (Etcdserverpb__RequestOp *[]){&ops[0], &ops[1]};
	status = etcd_ask(store->etcd, "Txn", &txn.base, on_succeeded, &succeeded, err);
	return status == STATUS_OK && !succeeded ? error_set(err, STATUS_FAILED_PRECONDITION, 0,
							     "store %s: not the leader", store->name)
						 : status;
}

struct copy {
	struct etcd_store *store;
	size_t n;
	size_t bytes;
	enum status status;
	struct error *err;
};

static bool copy_item(const struct kv_item *item, void *userdata)
{
	struct copy *copy = userdata;
	const struct kv_op op = {.key = item->key, .value = item->value, .len = item->len};
	const struct kv_txn txn = {.ops = &op, .n_ops = 1};

	copy->n++;
	copy->bytes += item->len;
	if (copy->n < FLIGHT_MAX && copy->bytes < FLIGHT_BYTES_MAX) {
		copy->status = kv_submit(&copy->store->kv, &txn, NULL, NULL, copy->err);
	} else {
		copy->status = settle(copy->store, &txn, copy->err);
		copy->n = copy->bytes = 0;
	}
	return copy->status == STATUS_OK;
}

/* Makes @generation the store's. The answer may be lost: the key shows whether it was done. @word retires the
 * store, see etcd_generation_read(); "" keeps it open. */
static enum status switch_to(struct etcd_store *store, uint32_t generation, uint64_t offset, const char *word,
			     struct error *err)
{
	Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
	Etcdserverpb__RequestOp op = etcd_op_put(&put);
	bool succeeded = false;
	char number[128];
	enum status status;

	(void)str_format(number, sizeof(number), "%u %llu%s", generation, (unsigned long long)offset, word);
	put.key = etcd_bytes(store->generation_key);
	put.value = etcd_bytes(number);
	status = transact(store, &op, &succeeded, err);
	if (status == STATUS_OK)
		status = etcd_store_find(store, err);
	if (status == STATUS_OK && store->generation != generation)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "store %s: not the leader", store->name);
	return status;
}

/* Returns the offset with which every record, written after this, is above the index that was asked for. */
static uint64_t next_offset(const struct etcd_rewrite *r)
{
	uint64_t revision = kv_revision(&r->store->kv);

	return r->records.offset + (r->above > revision ? r->above - revision : 0);
}

static enum status commit_generation(struct etcd_rewrite *r, struct error *err)
{
	struct etcd_store *store = r->store;
	uint32_t old = store->generation;
	uint64_t offset = next_offset(r);
	struct copy copy = {.store = store, .err = err};

	TRY(clear(store, old + 1, err));
	etcd_store_name_records(store, old + 1, &store->records);
	store->records.offset = offset;
	enum status status = rewrite_range(&r->rewrite, "", copy_item, &copy, err);
	if (copy.status != STATUS_OK)
		status = copy.status;
	if (status == STATUS_OK)
		status = settle(store, NULL, err);
	if (status == STATUS_OK)
		status = switch_to(store, old + 1, offset, "", err);
	return status == STATUS_OK ? clear(store, old, err) : status;
}

static enum status commit(struct etcd_rewrite *r, struct error *err)
{
	if (r->store->retired_by[0] == '\0' && r->above <= kv_revision(&r->store->kv) &&
	    r->n <= BATCH_OPS_MAX && r->bytes <= BATCH_BYTES_MAX)
		return commit_small(r, err);
	return commit_generation(r, err);
}

enum status etcd_rewrite(struct kv *kv, kv_rewrite_fn *fn, void *userdata, struct error *err)
{
	static const struct kv_rewrite_ops ops = {
		.range = rewrite_range, .advance = rewrite_advance, .put = rewrite_put};
	struct etcd_store *store = (struct etcd_store *)(uintptr_t)kv;
	struct etcd_rewrite r = {.rewrite = {.ops = &ops},
				 .store = store,
				 .records = store->records,
				 .all = STAILQ_HEAD_INITIALIZER(r.all)};
	enum status status;

	store->is_rewriting = true;
	status = fn(&r.rewrite, userdata, err);
	if (status == STATUS_OK)
		status = commit(&r, err);
	store->is_rewriting = false;
	rewrite_release(&r);
	return status;
}

enum status kv_retire_etcd(struct kv *kv, const char *by, struct error *err)
{
	struct etcd_store *store = (struct etcd_store *)(uintptr_t)kv;
	char word[ETCD_CLUSTER_MAX + 16];
	enum status status;

	assert(by[0] != '\0' && strlen(by) <= ETCD_CLUSTER_MAX);
	(void)str_format(word, sizeof(word), " " ETCD_RETIRED "%s", by);
	store->etcd->may_be_retired = true; /* it is looked at afterwards */
	status = switch_to(store, store->generation, store->records.offset, word, err);
	if (status == STATUS_OK && !str_eq(store->retired_by, by))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "store %s: not the leader", store->name);
	return status;
}

const char *kv_etcd_retired_by(const struct kv *kv)
{
	return ((const struct etcd_store *)(const void *)kv)->retired_by;
}
