/* SPDX-License-Identifier: Apache-2.0 */
#include "store/writer.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>

struct writer {
	struct kv_sqlite *db; /* borrowed */
	pthread_t thread;
	int done_fd;	    /* eventfd */
	uint64_t commit_us; /* of the last batch; of the thread */
	uint64_t due_us; /* when marks or log are due on the disk, 0: not before the next commit; likewise */

	pthread_mutex_t lock; /* for everything below */
	pthread_cond_t work;
	struct submission_list queue;
	size_t n_queued;
	struct submission_list done;
	struct writer_stats stats;
	struct error failure; /* status STATUS_OK until a commit fails, then for ever */
	bool is_stopping;
	bool is_waiting; /* for work; one signal is enough */
	bool is_slow;	 /* the last wait for the disk took longer than a fast commit */
};

/* One batch and its statistics. */
struct batch {
	struct submission_list list;
	uint64_t transactions;
	uint64_t revision;
	bool is_written;
	bool is_relaxed; /* no submission waits for the disk */
};

size_t writer_batch_size(size_t n_queued, uint64_t commit_us)
{
	size_t half = n_queued / 2 + n_queued % 2;

	if (half > WRITER_BATCH_MAX || commit_us > WRITER_FAST_COMMIT_US)
		return WRITER_BATCH_MAX;
	return half < WRITER_BATCH_WHOLE ? WRITER_BATCH_WHOLE : half;
}

/* Move the head of the queue into @batch, within the bounds of a batch. */
static void take_head(struct writer *w, struct batch *batch)
{
	assert((w->n_queued == 0) == STAILQ_EMPTY(&w->queue));

	size_t n_max = writer_batch_size(w->n_queued, w->commit_us);
	size_t n = 0;
	size_t bytes = 0;

	batch->is_relaxed = !STAILQ_EMPTY(&w->queue);
	while (!STAILQ_EMPTY(&w->queue) && n < n_max && bytes < WRITER_BATCH_BYTES_MAX) {
		struct submission *s = STAILQ_FIRST(&w->queue);

		STAILQ_REMOVE_HEAD(&w->queue, next);
		STAILQ_INSERT_TAIL(&batch->list, s, next);
		n++;
		bytes += s->bytes;
		batch->is_relaxed = batch->is_relaxed && s->kind == SUBMISSION_TXN && s->txn.is_relaxed;
	}
	w->n_queued -= n;
}

/* Returns false when marks or log are due before there is any. */
static bool wait_for_work(struct writer *w)
{
	const struct timespec due = {.tv_sec = (time_t)(w->due_us / USEC_PER_SEC),
				     .tv_nsec = (long)(w->due_us % USEC_PER_SEC * 1000)};

	if (w->due_us == 0)
		return pthread_cond_wait(&w->work, &w->lock) == 0;
	return pthread_cond_clockwait(&w->work, &w->lock, CLOCK_MONOTONIC, &due) != ETIMEDOUT;
}

/* Waits for work. Returns false when no work is left and the writer must end. An empty batch means: bring
 * marks and log to the disk. */
static bool take_batch(struct writer *w, struct batch *batch)
{
	bool is_ending;

	*batch = (struct batch){.list = STAILQ_HEAD_INITIALIZER(batch->list)};
	(void)pthread_mutex_lock(&w->lock);
	while (STAILQ_EMPTY(&w->queue) && !w->is_stopping) {
		w->is_waiting = true;
		if (!wait_for_work(w))
			break;
	}
	w->is_waiting = false;
	is_ending = STAILQ_EMPTY(&w->queue) && w->is_stopping;
	take_head(w, batch);
	(void)pthread_mutex_unlock(&w->lock);
	return !is_ending;
}

/* Returns the key of the last operation of @s, if @s has no conditions and its first and last operations are
 * two puts; else NULL. */
static const char *last_put(const struct submission *s)
{
	const struct kv_txn *txn = &s->txn;

	if (s->kind != SUBMISSION_TXN || txn->n_conditions > 0 || txn->n_ops < 2 || !txn->ops[0].value ||
	    !txn->ops[txn->n_ops - 1].value)
		return NULL;
	return txn->ops[txn->n_ops - 1].key;
}

/* Every write of the server ends with the new end of the audit's chain. In a row of such transactions in one
 * batch, the first one creates the key and the value of the last one stays: the values between are never
 * visible. */
static bool is_overwritten(const struct submission *before, const struct submission *s)
{
	const struct submission *after = STAILQ_NEXT(s, next);
	const char *key = last_put(s);

	if (!key || !before || !after || !last_put(before) || !last_put(after))
		return false;
	return str_eq(key, last_put(before)) && str_eq(key, last_put(after));
}

/* @before: the previous submission of the same batch; NULL: @s is the first. */
static enum status apply_one(struct kv_sqlite *db, const struct submission *before, struct submission *s,
			     struct error *err)
{
	enum status status = STATUS_OK;
	struct kv_txn txn = s->txn;

	switch (s->kind) {
	case SUBMISSION_TXN:
		txn.n_ops -= is_overwritten(before, s);
		status = kv_sqlite_apply(db, &txn, &s->revision, &s->conflict, err);
		break;
	case SUBMISSION_BARRIER:
		s->revision = db->revision;
		break;
	}
	s->outcome = status == STATUS_ABORTED ? SUBMISSION_CONFLICT : SUBMISSION_DURABLE;
	return status == STATUS_ABORTED ? STATUS_OK : status;
}

static enum status commit(struct writer *w, struct error *err)
{
	uint64_t begin_us = clock_monotonic_us();
	enum status status = kv_sqlite_commit(w->db, err);

	w->commit_us = clock_monotonic_us() - begin_us;
	return status;
}

static enum status apply_batch(struct writer *w, struct batch *batch, struct error *err)
{
	struct kv_sqlite *db = w->db;
	const struct submission *before = NULL;
	struct submission *s;
	enum status status = STATUS_OK;

	TRY(kv_sqlite_relax(db, batch->is_relaxed, err));
	TRY(kv_sqlite_begin(db, err));
	STAILQ_FOREACH(s, &batch->list, next)
	{
		status = apply_one(db, before, s, err);
		if (status != STATUS_OK)
			break;
		before = s;
		batch->transactions += s->kind == SUBMISSION_TXN && s->outcome == SUBMISSION_DURABLE;
	}
	if (status != STATUS_OK) {
		kv_sqlite_rollback(db);
		return status;
	}
	batch->revision = db->revision;
	batch->is_written = db->revision != db->committed_revision;
	return commit(w, err);
}

static void fail_batch(struct batch *batch)
{
	struct submission *s;

	STAILQ_FOREACH(s, &batch->list, next)
	s->outcome = SUBMISSION_FAILED;
}

/* Publish the result of a batch. The failure becomes visible together with the first submissions that carry
 * it. */
static void complete_batch(struct writer *w, struct batch *batch, const struct error *failure)
{
	static const uint64_t one = 1;

	(void)pthread_mutex_lock(&w->lock);
	if (failure->status != STATUS_OK) {
		w->failure = *failure;
	} else if (batch->is_written) {
		w->stats.revision = batch->revision;
		w->stats.commits++;
		w->stats.transactions += batch->transactions;
		w->is_slow = w->commit_us > WRITER_FAST_COMMIT_US;
		if (batch->transactions > w->stats.largest_batch)
			w->stats.largest_batch = batch->transactions;
	}
	w->stats.mark_errno = w->db->marks.write_errno;
	STAILQ_CONCAT(&w->done, &batch->list);
	(void)pthread_mutex_unlock(&w->lock);
	/* Fails only when the counter is full, and then the descriptor is readable, as it must be. */
	(void)fd_write_all(w->done_fd, &one, sizeof(one));
}

/* Brings marks and relaxed commits, for which no submission waits, to the disk. */
static void sync_unawaited(struct writer *w, struct error *failure)
{
	uint64_t marks_us = kv_marks_sync(&w->db->marks, KV_SQLITE_SYNC_US);
	uint64_t log_us = 0;

	if (failure->status == STATUS_OK && kv_sqlite_sync_log(w->db, &log_us, failure) != STATUS_OK)
		kv_sqlite_freeze(w->db); /* the next caller gets the error */
	w->due_us = log_us == 0 || (marks_us != 0 && marks_us < log_us) ? marks_us : log_us;
}

static void *writer_main(void *userdata)
{
	struct writer *w = userdata;
	struct error failure = {.status = STATUS_OK};
	unsigned int n_written = 0;
	struct batch batch;

	while (take_batch(w, &batch)) {
		bool is_work = !STAILQ_EMPTY(&batch.list);

		if (failure.status == STATUS_OK && is_work && apply_batch(w, &batch, &failure) != STATUS_OK)
			kv_sqlite_freeze(w->db);
		if (failure.status != STATUS_OK)
			fail_batch(&batch);
		n_written += batch.is_written;
		complete_batch(w, &batch, &failure);
		sync_unawaited(w, &failure);
		if (failure.status == STATUS_OK && batch.is_written && n_written == WRITER_EXTEND_COMMITS)
			kv_sqlite_extend_log(w->db);
	}
	return NULL;
}

/* Signals belong to the event loop, so the thread starts with all of them blocked. */
static int start_thread(struct writer *w)
{
	sigset_t all;
	sigset_t before;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&w->thread, NULL, writer_main, w);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

static void writer_free(struct writer *w)
{
	submission_list_free(&w->done);
	(void)pthread_cond_destroy(&w->work);
	(void)pthread_mutex_destroy(&w->lock);
	close_fdp(&w->done_fd);
	free(w);
}

enum status writer_start(struct kv_sqlite *db, struct writer **ret, struct error *err)
{
	struct writer *w = malloc(sizeof(*w));
	int r = 0;

	if (!w)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "store %s: out of memory", db->path);
	*w = (struct writer){
		.db = db,
		.done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.work = PTHREAD_COND_INITIALIZER,
		.queue = STAILQ_HEAD_INITIALIZER(w->queue),
		.done = STAILQ_HEAD_INITIALIZER(w->done),
		.stats = {.revision = db->committed_revision},
	};
	if (w->done_fd < 0)
		r = -errno;
	if (r == 0)
		r = start_thread(w);
	if (r < 0) {
		writer_free(w);
		return error_set(err, status_from_errno(r), r, "store %s: start the writer", db->path);
	}
	*ret = w;
	return STATUS_OK;
}

void writer_stop(struct writer *w)
{
	(void)pthread_mutex_lock(&w->lock);
	w->is_stopping = true;
	(void)pthread_cond_signal(&w->work);
	(void)pthread_mutex_unlock(&w->lock);
	(void)pthread_join(w->thread, NULL);
	writer_free(w);
}

bool writer_put(struct writer *w, struct submission *submission)
{
	bool is_waiting;
	bool is_slow;

	(void)pthread_mutex_lock(&w->lock);
	STAILQ_INSERT_TAIL(&w->queue, submission, next);
	w->n_queued++;
	is_waiting = w->is_waiting;
	is_slow = w->is_slow;
	w->is_waiting = false;
	(void)pthread_mutex_unlock(&w->lock);
	if (is_waiting && !is_slow)
		writer_wake(w);
	return is_waiting && is_slow;
}

void writer_wake(struct writer *w)
{
	(void)pthread_cond_signal(&w->work); /* without the lock, which it wants first of all */
}

int writer_fd(const struct writer *w)
{
	return w->done_fd;
}

void writer_collect(struct writer *w, struct submission_list *list)
{
	uint64_t count;

	/* Reset before looking: what arrives in between makes the descriptor readable again. */
	(void)!read(w->done_fd, &count, sizeof(count));
	(void)pthread_mutex_lock(&w->lock);
	STAILQ_CONCAT(list, &w->done);
	(void)pthread_mutex_unlock(&w->lock);
}

enum status writer_failure(struct writer *w, struct error *err)
{
	enum status status;

	(void)pthread_mutex_lock(&w->lock);
	status = w->failure.status;
	if (status != STATUS_OK)
		*err = w->failure;
	(void)pthread_mutex_unlock(&w->lock);
	return status;
}

struct writer_stats writer_stats(struct writer *w)
{
	struct writer_stats stats;

	(void)pthread_mutex_lock(&w->lock);
	stats = w->stats;
	(void)pthread_mutex_unlock(&w->lock);
	return stats;
}
