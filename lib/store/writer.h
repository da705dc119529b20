/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The thread that writes: it takes submissions that were queued during the last commit, commits them as one
 * batch and hands them back through an eventfd.
 *
 * All functions are for the thread of the event loop. */

#include "store/kv_sqlite.h"
#include "store/submission.h"

enum {
	WRITER_BATCH_MAX = 1024,	  /* submissions in one commit */
	WRITER_BATCH_WHOLE = 16,	  /* so few that wait share one */
	WRITER_FAST_COMMIT_US = 1000,	  /* about what the event loop needs for the calls of half a batch */
	WRITER_EXTEND_COMMITS = 64,	  /* a store that writes so much is worth a log of full size */
	WRITER_BATCH_BYTES_MAX = 8 << 20, /* a batch ends with the submission that reaches it */
};

struct writer;

struct writer_stats {
	uint64_t revision; /* committed */
	uint64_t commits;
	uint64_t transactions;
	uint64_t largest_batch;
	int mark_errno;
};

/** Returns the most submissions that the next commit takes of @n_queued, where the last one took @commit_us:
 * half of many. So callers of one commit are answered, and call again, while the disk is busy with the
 * others. One commit for all would have all callers wait for the disk at the same time. If the disk is slower
 * than the calls, it gets as few commits as possible. */
size_t writer_batch_size(size_t n_queued, uint64_t commit_us);

/** Start the thread on @db, which is borrowed and must not be written to by anyone else. */
enum status writer_start(struct kv_sqlite *db, struct writer **ret, struct error *err);

/** Let the thread finish all submissions, and end it; frees those that were not collected. */
void writer_stop(struct writer *writer);

/** Hand @submission over. Returns true when the writer sleeps, and the disk is so slow that it is worth to
 * wake it (writer_wake()) only when this turn of the loop has handed in all that it will. */
bool writer_put(struct writer *writer, struct submission *submission);

void writer_wake(struct writer *writer);

/** Becomes readable when there is something to collect; owned by the writer. */
int writer_fd(const struct writer *writer);

/** Append finished submissions to @list, in the order of submission. */
void writer_collect(struct writer *writer, struct submission_list *list);

/** Why the store is broken: STATUS_OK if it is not, else a filled @err. */
enum status writer_failure(struct writer *writer, struct error *err);

struct writer_stats writer_stats(struct writer *writer);
