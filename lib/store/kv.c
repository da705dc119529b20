/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of every store: limits, pending submissions, and answers. */

#include "store/kv.h"

#include "base/clock.h"
#include "store/kv_backend.h"
#include "store/submission.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- limits --- */

static enum status invalid(struct error *err, const char *part, size_t index, const char *why)
{
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "store: %s %zu of the transaction: %s", part, index,
			 why);
}

/* Returns NULL for a valid @key, else the fault. */
static const char *find_fault_in_key(const char *key, size_t min)
{
	size_t n;

	if (!key)
		return "no key";
	n = strnlen(key, KV_KEY_MAX + 1);
	if (n < min)
		return "empty key";
	if (n > KV_KEY_MAX)
		return "key too long";
	for (size_t i = 0; i < n; i++)
		if (key[i] < 0x20 || key[i] > 0x7e)
			return "key with a byte that is not printable ASCII";
	return NULL;
}

static const char *find_fault_in_op(const struct kv_op *op)
{
	const char *fault = find_fault_in_key(op->key, 1);

	if (fault)
		return fault;
	if (!op->value && op->len != 0)
		return "length without a value";
	if (op->value && op->len == 0)
		return "empty value";
	if (op->len > KV_VALUE_MAX)
		return "value too long";
	if (op->text && !op->value)
		return "text without a value";
	return NULL;
}

enum status kv_check_txn(const struct kv_txn *txn, struct error *err)
{
	const char *fault;

	if (txn->n_conditions > KV_TXN_CONDITIONS_MAX || txn->n_ops > KV_TXN_OPS_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "store: transaction of %zu conditions and %zu operations; at most %d and %d",
				 txn->n_conditions, txn->n_ops, KV_TXN_CONDITIONS_MAX, KV_TXN_OPS_MAX);
	for (size_t i = 0; i < txn->n_conditions; i++) {
		fault = find_fault_in_key(txn->conditions[i].key, 1);
		if (fault)
			return invalid(err, "condition", i, fault);
	}
	for (size_t i = 0; i < txn->n_ops; i++) {
		fault = find_fault_in_op(&txn->ops[i]);
		if (fault)
			return invalid(err, "operation", i, fault);
	}
	if (submission_text(txn) > KV_TEXT_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "store: transaction of %zu bytes of text; at most %d", submission_text(txn),
				 KV_TEXT_MAX);
	if (submission_payload(txn) > KV_TXN_BYTES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "store: transaction of %zu bytes of keys and values; at most %d",
				 submission_payload(txn), KV_TXN_BYTES_MAX);
	return STATUS_OK;
}

enum status kv_check_prefix(const char *prefix, struct error *err)
{
	const char *fault = find_fault_in_key(prefix, 0);

	return fault ? error_set(err, STATUS_INVALID_ARGUMENT, 0, "store: prefix: %s", fault) : STATUS_OK;
}

/* --- answers --- */

static enum status explain_conflict(const struct kv *kv, const struct kv_conflict *conflict,
				    struct error *err)
{
	const struct kv_condition *condition = conflict->condition;

	if (conflict->found_revision == 0)
		return error_set(err, STATUS_ABORTED, 0,
				 "store %s: key %s does not exist, expected at revision %" PRIu64, kv->name,
				 condition->key, condition->mod_revision);
	if (condition->mod_revision == 0)
		return error_set(err, STATUS_ABORTED, 0,
				 "store %s: key %s exists already, at revision %" PRIu64, kv->name,
				 condition->key, conflict->found_revision);
	return error_set(err, STATUS_ABORTED, 0,
			 "store %s: key %s was changed at revision %" PRIu64 ", expected %" PRIu64, kv->name,
			 condition->key, conflict->found_revision, condition->mod_revision);
}

static enum status explain(struct kv *kv, const struct submission *s, struct error *err)
{
	switch (s->outcome) {
	case SUBMISSION_CONFLICT:
		return explain_conflict(kv, &s->conflict, err);
	case SUBMISSION_FAILED:
		return kv->backend->explain_failure(kv, err);
	case SUBMISSION_PENDING:
	case SUBMISSION_DURABLE:
		break;
	}
	return STATUS_OK;
}

/* Run the done function of @s, which may close the store. */
static void answer(struct kv *kv, struct submission *s)
{
	struct error err;
	enum status status;

	assert(s->outcome != SUBMISSION_PENDING);
	assert(s == kv->oldest);
	kv->oldest = s->later;
	kv->pending--;
	kv->pending_bytes -= s->bytes;
	status = explain(kv, s, &err);
	if (s->done)
		s->done(status == STATUS_OK ? s->revision : 0, status == STATUS_OK ? NULL : &err,
			s->userdata);
	free(s);
}

void kv_complete(struct kv *kv, struct submission_list *done)
{
	struct submission *s;

	kv->is_answering = true;
	while (!kv->is_closed && (s = STAILQ_FIRST(done))) {
		STAILQ_REMOVE_HEAD(done, next);
		answer(kv, s);
	}
	kv->is_answering = false;
	submission_list_free(done);
	if (kv->is_closed)
		free(kv);
}

/* --- life --- */

void kv_wait(struct kv *kv, int timeout_ms)
{
	kv->backend->wait(kv, timeout_ms);
}

void kv_close(struct kv *kv)
{
	if (!kv)
		return;
	kv->backend->close(kv);
	kv->is_closed = true;
	if (!kv->is_answering)
		free(kv);
}

/* --- writing --- */

static enum status hand_in(struct kv *kv, struct submission *s, struct error *err)
{
	if (!s)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "store %s: out of memory", kv->name);
	if (kv->pending >= KV_PENDING_MAX || s->bytes > KV_PENDING_BYTES_MAX - kv->pending_bytes) {
		free(s);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "store %s: %s does not keep up, %" PRIu64
				 " writes are waiting for it; try again later",
				 kv->name, kv->backend->medium, kv->pending);
	}
	s->put_us = clock_monotonic_us();
	s->later = NULL;
	if (kv->oldest)
		kv->newest->later = s;
	else
		kv->oldest = s;
	kv->newest = s;
	kv->pending++;
	kv->pending_bytes += s->bytes;
	kv->backend->put(kv, s);
	return STATUS_OK;
}

enum status kv_submit(struct kv *kv, const struct kv_txn *txn, kv_done_fn *done, void *userdata,
		      struct error *err)
{
	TRY(kv_check_txn(txn, err));
	return hand_in(kv, submission_new_txn(txn, done, userdata), err);
}

enum status kv_barrier(struct kv *kv, kv_done_fn *done, void *userdata, struct error *err)
{
	return hand_in(kv, submission_new(SUBMISSION_BARRIER, done, userdata), err);
}

/* --- reading --- */

enum status kv_range_from(struct kv *kv, const char *prefix, const char *from, size_t limit, kv_each_fn *each,
			  void *userdata, struct error *err)
{
	enum status status = kv_check_prefix(prefix, err);
	const char *fault = status == STATUS_OK ? find_fault_in_key(from, 0) : NULL;

	if (fault)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "store: first key: %s", fault);
	return status == STATUS_OK ? kv->backend->range(kv, prefix, from, limit, each, userdata, err)
				   : status;
}

enum status kv_range(struct kv *kv, const char *prefix, kv_each_fn *each, void *userdata, struct error *err)
{
	return kv_range_from(kv, prefix, prefix, SIZE_MAX, each, userdata, err);
}

void kv_bound_reads(struct kv *kv)
{
	kv->is_brief = true;
}

uint64_t kv_revision(const struct kv *kv)
{
	return kv->backend->revision(kv);
}

size_t kv_pending_bytes(const struct kv *kv)
{
	return kv->pending_bytes;
}

struct kv_stats kv_stats(const struct kv *kv)
{
	struct kv_stats stats = {
		.pending = kv->pending,
		.pending_us = kv->oldest ? clock_monotonic_us() - kv->oldest->put_us : 0,
	};

	kv->backend->add_stats(kv, &stats);
	return stats;
}

/* --- rewriting --- */

enum status kv_rewrite(struct kv *kv, kv_rewrite_fn *fn, void *userdata, struct error *err)
{
	assert(kv->pending == 0);
	return kv->backend->rewrite(kv, fn, userdata, err);
}

enum status kv_rewrite_range(struct kv_rewrite *rewrite, const char *prefix, kv_each_fn *each, void *userdata,
			     struct error *err)
{
	TRY(kv_check_prefix(prefix, err));
	return rewrite->ops->range(rewrite, prefix, each, userdata, err);
}

void kv_rewrite_advance(struct kv_rewrite *rewrite, uint64_t revision)
{
	rewrite->ops->advance(rewrite, revision);
}

enum status kv_rewrite_put(struct kv_rewrite *rewrite, const struct kv_op *op, struct error *err)
{
	TRY(kv_check_txn(&(struct kv_txn){.ops = op, .n_ops = 1}, err));
	return rewrite->ops->put(rewrite, op, err);
}

/* --- marks and views --- */

enum status kv_history(struct kv *kv, const struct kv_marks *marks, struct kv_history *ret, struct error *err)
{
	return kv->backend->history(kv, marks, ret, err);
}

enum status kv_keep_marks(struct kv *kv, const struct kv_marks *marks, struct error *err)
{
	assert(kv->pending == 0);
	return kv->backend->keep_marks(kv, marks, err);
}

void kv_note_nodes(struct kv *kv, uint64_t nodes)
{
	kv->backend->note_nodes(kv, nodes);
}

enum status kv_define_views(struct kv *kv, const struct kv_view *views, size_t n, struct error *err)
{
	return kv->backend->define_views(kv, views, n, err);
}
