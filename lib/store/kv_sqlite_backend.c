/* SPDX-License-Identifier: Apache-2.0 */
/* The store in a sqlite database, its writer on the event loop, and what only this kind of store has. */

#include "base/cleanup.h"
#include "store/kv_backend.h"
#include "store/kv_sqlite.h"
#include "store/writer.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

struct sqlite_store {
	struct kv kv;
	sd_event *event; /* borrowed */
	struct kv_sqlite *db;
	struct writer *writer;	 /* NULL after a rewrite that failed */
	sd_event_source *source; /* of what the writer completes */
	sd_event_source *turn;	 /* once, behind the turn of the loop that hands something in */
};

static const struct kv_backend backend;

static struct sqlite_store *store_of(const struct kv *kv)
{
	assert(kv->backend == &backend);
	return (struct sqlite_store *)(uintptr_t)kv;
}

/* --- the writer --- */

static int on_writer_done(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct submission_list done = STAILQ_HEAD_INITIALIZER(done);
	struct sqlite_store *store = userdata;

	writer_collect(store->writer, &done);
	kv_complete(&store->kv, &done);
	return 0;
}

static int on_turn(sd_event_source *source, void *userdata)
{
	struct sqlite_store *store = userdata;

	writer_wake(store->writer);
	return 0;
}

static void sqlite_wait(struct kv *kv, int timeout_ms)
{
	struct sqlite_store *store = store_of(kv);
	struct pollfd ready = {.fd = writer_fd(store->writer), .events = POLLIN};

	writer_wake(store->writer);
	if (poll(&ready, 1, timeout_ms) > 0)
		(void)on_writer_done(NULL, ready.fd, EPOLLIN, store);
}

static void sqlite_put(struct kv *kv, struct submission *s)
{
	struct sqlite_store *store = store_of(kv);

	if (writer_put(store->writer, s) && sd_event_source_set_enabled(store->turn, SD_EVENT_ONESHOT) < 0)
		writer_wake(store->writer);
}

static enum status sqlite_explain_failure(struct kv *kv, struct error *err)
{
	return writer_failure(store_of(kv)->writer, err);
}

/* --- life --- */

static enum status start_writer(struct sqlite_store *store, struct error *err)
{
	enum status status = writer_start(store->db, &store->writer, err);
	int r;

	if (status != STATUS_OK)
		return status;
	r = sd_event_add_io(store->event, &store->source, writer_fd(store->writer), EPOLLIN, on_writer_done,
			    store);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "store %s: watch the writer", store->db->path);
	(void)sd_event_source_set_description(store->source, "store"); /* for debug output only */
	r = sd_event_add_defer(store->event, &store->turn, on_turn, store);
	if (r >= 0)
		r = sd_event_source_set_enabled(store->turn, SD_EVENT_OFF);
	if (r >= 0) /* before other sources of the loop */
		r = sd_event_source_set_priority(store->turn, SD_EVENT_PRIORITY_IMPORTANT);
	return r < 0 ? error_set(err, status_from_errno(r), r, "store %s: watch the loop", store->db->path)
		     : STATUS_OK;
}

static void stop_writer(struct sqlite_store *store)
{
	store->source = sd_event_source_disable_unref(store->source);
	store->turn = sd_event_source_disable_unref(store->turn);
	if (store->writer)
		writer_stop(store->writer);
	store->writer = NULL;
}

enum status kv_open_sqlite(sd_event *event, const char *path, struct kv **ret, struct error *err)
{
	struct sqlite_store *store = malloc(sizeof(*store));
	enum status status;

	if (!store)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "store %s: out of memory", path);
	*store = (struct sqlite_store){.kv = {.backend = &backend}, .event = event};
	status = kv_sqlite_open(path, &store->db, err);
	if (status == STATUS_OK) {
		store->kv.name = store->db->path;
		status = start_writer(store, err);
	}
	if (status != STATUS_OK) {
		kv_close(&store->kv);
		return status;
	}
	*ret = &store->kv;
	return STATUS_OK;
}

static void sqlite_close(struct kv *kv)
{
	struct sqlite_store *store = store_of(kv);

	stop_writer(store);
	kv_sqlite_close(store->db);
}

/* --- reading --- */

static enum status sqlite_range(struct kv *kv, const char *prefix, const char *from, size_t limit,
				kv_each_fn *each, void *userdata, struct error *err)
{
	return kv_sqlite_range(store_of(kv)->db, prefix, from, limit, each, userdata, err);
}

static uint64_t sqlite_revision(const struct kv *kv)
{
	return writer_stats(store_of(kv)->writer).revision;
}

static void sqlite_add_stats(const struct kv *kv, struct kv_stats *stats)
{
	const struct sqlite_store *store = store_of(kv);
	struct writer_stats written = {0};

	if (store->writer)
		written = writer_stats(store->writer);
	stats->commits = written.commits;
	stats->transactions = written.transactions;
	stats->largest_batch = written.largest_batch;
	stats->read = store->db->n_read;
	stats->mark_errno = written.mark_errno;
}

/* --- start-up --- */

struct sqlite_rewrite {
	struct kv_rewrite rewrite;
	struct kv_sqlite *db;
};

static struct kv_sqlite *db_of(struct kv_rewrite *rewrite)
{
	return ((struct sqlite_rewrite *)rewrite)->db;
}

static enum status rewrite_range(struct kv_rewrite *rewrite, const char *prefix, kv_each_fn *each,
				 void *userdata, struct error *err)
{
	return kv_sqlite_range_writing(db_of(rewrite), prefix, each, userdata, err);
}

static void rewrite_advance(struct kv_rewrite *rewrite, uint64_t revision)
{
	struct kv_sqlite *db = db_of(rewrite);

	if (revision > db->revision)
		db->revision = revision;
}

static enum status rewrite_put(struct kv_rewrite *rewrite, const struct kv_op *op, struct error *err)
{
	const struct kv_txn txn = {.ops = op, .n_ops = 1};
	uint64_t revision;
	struct kv_conflict conflict;

	return kv_sqlite_apply(db_of(rewrite), &txn, &revision, &conflict, err);
}

static enum status sqlite_rewrite(struct kv *kv, kv_rewrite_fn *fn, void *userdata, struct error *err)
{
	static const struct kv_rewrite_ops ops = {
		.range = rewrite_range, .advance = rewrite_advance, .put = rewrite_put};
	struct sqlite_store *store = store_of(kv);
	struct sqlite_rewrite rewrite = {.rewrite = {.ops = &ops}, .db = store->db};
	enum status status;

	stop_writer(store);
	status = kv_sqlite_relax(store->db, false, err);
	if (status == STATUS_OK)
		status = kv_sqlite_begin(store->db, err);
	if (status == STATUS_OK) {
		status = fn(&rewrite.rewrite, userdata, err);
		if (status == STATUS_OK)
			status = kv_sqlite_commit(store->db, err);
		else
			kv_sqlite_rollback(store->db);
	}
	if (status != STATUS_OK)
		return status;
	return start_writer(store, err);
}

/* --- marks and views --- */

static enum status sqlite_history(struct kv *kv, const struct kv_marks *marks, struct kv_history *ret,
				  struct error *err)
{
	const struct kv_sqlite *db = store_of(kv)->db;

	return kv_marks_find_history(marks, db->opened_revision, db->is_new, ret, err);
}

static enum status sqlite_keep_marks(struct kv *kv, const struct kv_marks *marks, struct error *err)
{
	struct sqlite_store *store = store_of(kv);
	struct kv_sqlite *db = store->db;

	stop_writer(store); /* whose they are */
	atomic_store(&db->nodes, marks->nodes);
	TRY(kv_marks_open(&db->marks, db->path, marks, db->committed_revision, err));
	return start_writer(store, err);
}

static void sqlite_note_nodes(struct kv *kv, uint64_t nodes)
{
	atomic_store(&store_of(kv)->db->nodes, nodes);
}

static enum status sqlite_define_views(struct kv *kv, const struct kv_view *views, size_t n,
				       struct error *err)
{
	return kv_sqlite_define_views(store_of(kv)->db, views, n, err);
}

static const struct kv_backend backend = {
	.medium = "the disk",
	.put = sqlite_put,
	.wait = sqlite_wait,
	.explain_failure = sqlite_explain_failure,
	.range = sqlite_range,
	.revision = sqlite_revision,
	.add_stats = sqlite_add_stats,
	.rewrite = sqlite_rewrite,
	.history = sqlite_history,
	.keep_marks = sqlite_keep_marks,
	.note_nodes = sqlite_note_nodes,
	.define_views = sqlite_define_views,
	.close = sqlite_close,
};
