/* SPDX-License-Identifier: Apache-2.0 */
#include "store/kv.h"

#include "base/cleanup.h"
#include "store/kv_sqlite.h"
#include "store/submission.h"
#include "store/writer.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

struct kv {
	sd_event *event; /* borrowed */
	struct kv_sqlite *db;
	struct writer *writer;
	sd_event_source *source; /* of what the writer gives back */
	sd_event_source *turn;	 /* once, behind the turn of the loop that hands something in */
	uint64_t pending;	 /* handed to the writer and not answered yet */
	size_t pending_bytes;
	bool is_answering; /* inside a done function */
	bool is_closed;	   /* by a done function; freed when it returns */
};

/* --- limits --- */

static enum status invalid(struct error *err, const char *part, size_t index, const char *why)
{
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "store: %s %zu of the transaction: %s", part, index,
			 why);
}

/* NULL when @key is one, else what is wrong with it. */
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

static enum status check_txn(const struct kv_txn *txn, struct error *err)
{
	const char *fault;

	if (txn->n_conditions > KV_TXN_OPS_MAX || txn->n_ops > KV_TXN_OPS_MAX)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"store: transaction of %zu conditions and %zu operations; at most %d of each",
			txn->n_conditions, txn->n_ops, KV_TXN_OPS_MAX);
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

static enum status check_prefix(const char *prefix, struct error *err)
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
				 "store %s: key %s does not exist, expected at revision %" PRIu64,
				 kv->db->path, condition->key, condition->mod_revision);
	if (condition->mod_revision == 0)
		return error_set(err, STATUS_ABORTED, 0,
				 "store %s: key %s exists already, at revision %" PRIu64, kv->db->path,
				 condition->key, conflict->found_revision);
	return error_set(err, STATUS_ABORTED, 0,
			 "store %s: key %s was changed at revision %" PRIu64 ", expected %" PRIu64,
			 kv->db->path, condition->key, conflict->found_revision, condition->mod_revision);
}

static enum status explain(const struct kv *kv, const struct submission *s, struct error *err)
{
	switch (s->outcome) {
	case SUBMISSION_CONFLICT:
		return explain_conflict(kv, &s->conflict, err);
	case SUBMISSION_FAILED:
		return writer_failure(kv->writer, err);
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
	enum status st;

	assert(s->outcome != SUBMISSION_PENDING);
	kv->pending--;
	kv->pending_bytes -= s->bytes;
	st = explain(kv, s, &err);
	if (s->done)
		s->done(st == STATUS_OK ? s->revision : 0, st == STATUS_OK ? NULL : &err, s->userdata);
	free(s);
}

static int on_writer_done(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct submission_list done = STAILQ_HEAD_INITIALIZER(done);
	struct kv *kv = userdata;
	struct submission *s;

	(void)source;
	(void)fd;
	(void)revents;
	writer_collect(kv->writer, &done);
	kv->is_answering = true;
	while (!kv->is_closed && (s = STAILQ_FIRST(&done))) {
		STAILQ_REMOVE_HEAD(&done, next);
		answer(kv, s);
	}
	kv->is_answering = false;
	submission_list_free(&done);
	if (kv->is_closed)
		free(kv);
	return 0;
}

void kv_wait(struct kv *kv, int timeout_ms)
{
	struct pollfd ready = {.fd = writer_fd(kv->writer), .events = POLLIN};

	writer_wake(kv->writer);
	if (poll(&ready, 1, timeout_ms) > 0)
		(void)on_writer_done(NULL, ready.fd, EPOLLIN, kv);
}

static int on_turn(sd_event_source *source, void *userdata)
{
	struct kv *kv = userdata;

	(void)source;
	writer_wake(kv->writer);
	return 0;
}

/* --- life --- */

static enum status start_writer(struct kv *kv, struct error *err)
{
	enum status st = writer_start(kv->db, &kv->writer, err);
	int r;

	if (st != STATUS_OK)
		return st;
	r = sd_event_add_io(kv->event, &kv->source, writer_fd(kv->writer), EPOLLIN, on_writer_done, kv);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "store %s: watch the writer", kv->db->path);
	(void)sd_event_source_set_description(kv->source, "store"); /* for debug output only */
	r = sd_event_add_defer(kv->event, &kv->turn, on_turn, kv);
	if (r >= 0)
		r = sd_event_source_set_enabled(kv->turn, SD_EVENT_OFF);
	if (r >= 0) /* before the next turn of anybody else's */
		r = sd_event_source_set_priority(kv->turn, SD_EVENT_PRIORITY_IMPORTANT);
	return r < 0 ? error_set(err, status_from_errno(r), r, "store %s: watch the loop", kv->db->path)
		     : STATUS_OK;
}

static void stop_writer(struct kv *kv)
{
	kv->source = sd_event_source_disable_unref(kv->source);
	kv->turn = sd_event_source_disable_unref(kv->turn);
	if (kv->writer)
		writer_stop(kv->writer);
	kv->writer = NULL;
}

enum status kv_open_sqlite(sd_event *event, const char *path, struct kv **ret, struct error *err)
{
	struct kv *kv = malloc(sizeof(*kv));
	enum status st;

	if (!kv)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "store %s: out of memory", path);
	*kv = (struct kv){.event = event};
	st = kv_sqlite_open(path, &kv->db, err);
	if (st == STATUS_OK)
		st = start_writer(kv, err);
	if (st != STATUS_OK) {
		kv_close(kv);
		return st;
	}
	*ret = kv;
	return STATUS_OK;
}

void kv_close(struct kv *kv)
{
	if (!kv)
		return;
	stop_writer(kv);
	kv_sqlite_close(kv->db);
	kv->is_closed = true;
	if (!kv->is_answering)
		free(kv);
}

/* --- writing --- */

static enum status hand_in(struct kv *kv, struct submission *s, struct error *err)
{
	if (!s)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "store %s: out of memory", kv->db->path);
	if (kv->pending >= KV_PENDING_MAX || s->bytes > KV_PENDING_BYTES_MAX - kv->pending_bytes) {
		free(s);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "store %s: the disk does not keep up, %" PRIu64
				 " writes are waiting for it; try again later",
				 kv->db->path, kv->pending);
	}
	kv->pending++;
	kv->pending_bytes += s->bytes;
	if (writer_put(kv->writer, s) && sd_event_source_set_enabled(kv->turn, SD_EVENT_ONESHOT) < 0)
		writer_wake(kv->writer);
	return STATUS_OK;
}

enum status kv_submit(struct kv *kv, const struct kv_txn *txn, kv_done_fn *done, void *userdata,
		      struct error *err)
{
	enum status st = check_txn(txn, err);

	return st == STATUS_OK ? hand_in(kv, submission_new_txn(txn, done, userdata), err) : st;
}

enum status kv_barrier(struct kv *kv, kv_done_fn *done, void *userdata, struct error *err)
{
	return hand_in(kv, submission_new(SUBMISSION_BARRIER, done, userdata), err);
}

/* --- reading --- */

enum status kv_range_from(struct kv *kv, const char *prefix, const char *from, size_t limit, kv_each_fn *each,
			  void *userdata, struct error *err)
{
	enum status st = check_prefix(prefix, err);
	const char *fault = st == STATUS_OK ? find_fault_in_key(from, 0) : NULL;

	if (fault)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "store: first key: %s", fault);
	return st == STATUS_OK ? kv_sqlite_range(kv->db, prefix, from, limit, each, userdata, err) : st;
}

enum status kv_range(struct kv *kv, const char *prefix, kv_each_fn *each, void *userdata, struct error *err)
{
	return kv_range_from(kv, prefix, prefix, SIZE_MAX, each, userdata, err);
}

/* --- start-up --- */

struct kv_rewrite {
	struct kv_sqlite *db;
};

enum status kv_rewrite_range(struct kv_rewrite *rewrite, const char *prefix, kv_each_fn *each, void *userdata,
			     struct error *err)
{
	enum status st = check_prefix(prefix, err);

	return st == STATUS_OK ? kv_sqlite_range_writing(rewrite->db, prefix, each, userdata, err) : st;
}

void kv_rewrite_advance(struct kv_rewrite *rewrite, uint64_t revision)
{
	if (revision > rewrite->db->revision)
		rewrite->db->revision = revision;
}

enum status kv_rewrite_put(struct kv_rewrite *rewrite, const struct kv_op *op, struct error *err)
{
	const struct kv_txn txn = {.ops = op, .n_ops = 1};
	uint64_t revision;
	struct kv_conflict conflict;
	enum status st = check_txn(&txn, err);

	return st == STATUS_OK ? kv_sqlite_apply(rewrite->db, &txn, &revision, &conflict, err) : st;
}

enum status kv_rewrite(struct kv *kv, kv_rewrite_fn *fn, void *userdata, struct error *err)
{
	struct kv_rewrite rewrite = {.db = kv->db};
	enum status st;

	assert(kv->pending == 0);
	stop_writer(kv);
	st = kv_sqlite_relax(kv->db, false, err);
	if (st == STATUS_OK)
		st = kv_sqlite_begin(kv->db, err);
	if (st == STATUS_OK) {
		st = fn(&rewrite, userdata, err);
		if (st == STATUS_OK)
			st = kv_sqlite_commit(kv->db, err);
		else
			kv_sqlite_rollback(kv->db);
	}
	if (st != STATUS_OK)
		return st;
	return start_writer(kv, err);
}

enum status kv_history(struct kv *kv, const struct kv_marks *marks, struct kv_history *ret, struct error *err)
{
	return kv_sqlite_history(kv->db, marks, ret, err);
}

enum status kv_keep_marks(struct kv *kv, const struct kv_marks *marks, struct error *err)
{
	enum status st;

	assert(kv->pending == 0);
	stop_writer(kv); /* whose they are */
	st = kv_sqlite_keep_marks(kv->db, marks, err);
	return st == STATUS_OK ? start_writer(kv, err) : st;
}

enum status kv_define_views(struct kv *kv, const struct kv_view *views, size_t n, struct error *err)
{
	return kv_sqlite_define_views(kv->db, views, n, err);
}

void kv_note_nodes(struct kv *kv, uint64_t nodes)
{
	atomic_store(&kv->db->nodes, nodes);
}

uint64_t kv_revision(const struct kv *kv)
{
	return writer_stats(kv->writer).revision;
}

struct kv_stats kv_stats(const struct kv *kv)
{
	struct writer_stats written = {0};

	if (kv->writer) /* none after a rewrite that failed */
		written = writer_stats(kv->writer);
	return (struct kv_stats){
		.commits = written.commits,
		.transactions = written.transactions,
		.largest_batch = written.largest_batch,
		.pending = kv->pending,
		.read = kv->db->n_read,
		.mark_errno = written.mark_errno,
	};
}
