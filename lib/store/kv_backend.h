/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The interface between the contract (kv.c) and the backends: a row of functions for each kind of store.
 *
 * kv.c checks the limits and counts pending submissions. A backend takes submissions in their order and hands
 * them back with an outcome, in the same order, from the event loop. */

#include "store/kv_types.h"
#include "store/submission.h"

struct kv_backend {
	const char *medium; /* what a store waits for, in messages: "the disk" */
	/* Takes @s; it comes back by kv_complete(), never from inside this call. */
	void (*put)(struct kv *kv, struct submission *s);
	void (*wait)(struct kv *kv, int timeout_ms);
	/* Why SUBMISSION_FAILED: fill @err, return its status. */
	enum status (*explain_failure)(struct kv *kv, struct error *err);
	/* kv_range_from(); @prefix and @from are checked. */
	enum status (*range)(struct kv *kv, const char *prefix, const char *from, size_t limit,
			     kv_each_fn *each, void *userdata, struct error *err);
	uint64_t (*revision)(const struct kv *kv);
	void (*add_stats)(const struct kv *kv, struct kv_stats *stats);
	/* kv_rewrite(); nothing is pending. */
	enum status (*rewrite)(struct kv *kv, kv_rewrite_fn *fn, void *userdata, struct error *err);
	/* kv_history(), kv_keep_marks() (nothing is pending), kv_note_nodes(), kv_define_views(). */
	enum status (*history)(struct kv *kv, const struct kv_marks *marks, struct kv_history *ret,
			       struct error *err);
	enum status (*keep_marks)(struct kv *kv, const struct kv_marks *marks, struct error *err);
	void (*note_nodes)(struct kv *kv, uint64_t nodes);
	enum status (*define_views)(struct kv *kv, const struct kv_view *views, size_t n, struct error *err);
	/* Waits for pending submissions, hands back no results, and releases all but the memory of @kv. */
	void (*close)(struct kv *kv);
};

/* The first member of a backend's own struct, which lies in one allocation. */
struct kv {
	const struct kv_backend *backend;
	const char *name; /* in messages; the backend's */
	uint64_t pending; /* put and not answered yet */
	size_t pending_bytes;
	struct submission *oldest, *newest; /* pending ones; NULL: nothing is */
	bool is_answering;		    /* inside a done function */
	bool is_brief;			    /* kv_bound_reads() was called */
	bool is_closed;			    /* by a done function; freed when it returns */
};

struct kv_rewrite_ops {
	/* kv_rewrite_range(); @prefix is checked. */
	enum status (*range)(struct kv_rewrite *rewrite, const char *prefix, kv_each_fn *each, void *userdata,
			     struct error *err);
	void (*advance)(struct kv_rewrite *rewrite, uint64_t revision);
	/* @op is checked. */
	enum status (*put)(struct kv_rewrite *rewrite, const struct kv_op *op, struct error *err);
};

/* The first member of a backend's own struct. */
struct kv_rewrite {
	const struct kv_rewrite_ops *ops;
};

/** Answers @done, in order. @kv may be gone afterwards: a done function may close it. */
void kv_complete(struct kv *kv, struct submission_list *done);

/** STATUS_INVALID_ARGUMENT for what breaks the limits of kv.h. */
enum status kv_check_txn(const struct kv_txn *txn, struct error *err);
enum status kv_check_prefix(const char *prefix, struct error *err);
