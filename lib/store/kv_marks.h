/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The files that hold a store's marks (mark.h), as every kind of store keeps them. */

#include "store/kv.h"

struct kv_mark_files {
	struct mark_file *files[KV_MARKS_MAX]; /* owned; NULL: unused */
	struct mark mark;		       /* the last one that was written */
	uint64_t dirty_us; /* monotonic, since when they are not on the disk; 0: they are */
	int write_errno;   /* why one could not be written last, 0 if all could */
};

/** kv_history() of a store that was found at @revision; if the store @is_new, a missing mark is no fault. */
enum status kv_marks_find_history(const struct kv_marks *marks, uint64_t revision, bool is_new,
				  struct kv_history *ret, struct error *err);

/** kv_keep_marks() of the store @name, which is at @revision. */
enum status kv_marks_open(struct kv_mark_files *files, const char *name, const struct kv_marks *marks,
			  uint64_t revision, struct error *err);

/** Writes the marks after a commit, before it is answered. Does nothing if they have @revision already, or if
 * no marks are kept. */
void kv_marks_write(struct kv_mark_files *files, uint64_t revision, uint64_t nodes);

/** Have them on the disk when they were not for @after_us, or (0) in any case. Returns when to call again, of
 * the monotonic clock; 0: after the next commit. */
uint64_t kv_marks_sync(struct kv_mark_files *files, uint64_t after_us);

void kv_marks_close(struct kv_mark_files *files);
