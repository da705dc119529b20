/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the store with its marks, and writes them. */

#include "store/kv_marks.h"

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>
#include <string.h>

/* --- at the start --- */

/* Returns the fault of the store, which is at @revision, if @mark is right; NULL: no fault. */
static const char *find_contradiction(const struct kv_marks *own, uint64_t revision, const struct mark *mark)
{
	if (own->epoch > mark->epoch)
		return NULL;
	if (own->store_id[0] != '\0' && mark->store_id[0] != '\0' && !str_eq(own->store_id, mark->store_id))
		return "of another store";
	if (own->epoch < mark->epoch)
		return "of a later epoch";
	return revision < mark->revision ? "of a later revision" : NULL;
}

static void apply_mark(const struct kv_marks *own, uint64_t revision, const char *path,
		       const struct mark *mark, struct kv_history *history)
{
	const char *what = find_contradiction(own, revision, mark);

	if (mark->epoch > history->epoch ||
	    (mark->epoch == history->epoch && mark->revision > history->revision)) {
		history->epoch = mark->epoch;
		history->revision = mark->revision;
		history->nodes = mark->nodes;
		memcpy(history->store_id, mark->store_id, sizeof(history->store_id));
	}
	if (!what || history->is_behind)
		return;
	history->is_behind = true;
	(void)str_format(history->why, sizeof(history->why),
			 "%.100s is %s: epoch %" PRIu64 ", index %" PRIu64 "; the store: epoch %" PRIu64
			 ", index %" PRIu64,
			 path, what, mark->epoch, mark->revision, own->epoch, revision);
}

enum status kv_marks_find_history(const struct kv_marks *marks, uint64_t revision, bool is_new,
				  struct kv_history *ret, struct error *err)
{
	struct kv_history history = {.is_behind = false};
	size_t n_read = 0;

	for (size_t i = 0; i < KV_MARKS_MAX && marks->paths[i]; i++) {
		struct mark mark;
		enum status status = mark_read(marks->paths[i], &mark, err);

		if (status != STATUS_OK && status != STATUS_NOT_FOUND && status != STATUS_DATA_LOSS)
			return status;
		if (status != STATUS_OK)
			continue;
		apply_mark(marks, revision, marks->paths[i], &mark, &history);
		n_read++;
	}
	if (n_read == 0 && !is_new) {
		history.is_behind = true;
		(void)str_format(history.why, sizeof(history.why),
				 "%.200s is missing or damaged: the store may be an earlier copy of itself",
				 marks->paths[0]);
	}
	*ret = history;
	return STATUS_OK;
}

/* --- from then on --- */

static void note(struct kv_mark_files *files, int r)
{
	files->write_errno = r < 0 ? -r : files->write_errno;
}

static void write_all(struct kv_mark_files *files, uint64_t revision, uint64_t nodes)
{
	files->write_errno = 0;
	files->mark.revision = revision;
	files->mark.nodes = nodes;
	for (size_t i = 0; i < KV_MARKS_MAX && files->files[i]; i++)
		note(files, mark_write(files->files[i], &files->mark));
	if (files->dirty_us == 0)
		files->dirty_us = clock_monotonic_us();
}

void kv_marks_write(struct kv_mark_files *files, uint64_t revision, uint64_t nodes)
{
	if (files->files[0] && files->mark.revision != revision)
		write_all(files, revision, nodes);
}

uint64_t kv_marks_sync(struct kv_mark_files *files, uint64_t after_us)
{
	if (files->dirty_us == 0)
		return 0;
	if (after_us > 0 && clock_monotonic_us() < files->dirty_us + after_us)
		return files->dirty_us + after_us;
	for (size_t i = 0; i < KV_MARKS_MAX && files->files[i]; i++)
		note(files, mark_sync(files->files[i]));
	files->dirty_us = 0;
	return 0;
}

enum status kv_marks_open(struct kv_mark_files *files, const char *name, const struct kv_marks *marks,
			  uint64_t revision, struct error *err)
{
	files->mark = (struct mark){.epoch = marks->epoch, .revision = revision, .nodes = marks->nodes};
	if (str_copy(files->mark.store_id, sizeof(files->mark.store_id), marks->store_id) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "store %s: its id is too long", name);
	for (size_t i = 0; i < KV_MARKS_MAX && marks->paths[i]; i++)
		TRY(mark_open(marks->paths[i], &files->mark, &files->files[i], err));
	write_all(files, revision, marks->nodes);
	(void)kv_marks_sync(files, 0);
	if (files->write_errno != 0)
		return error_set(err, status_from_errno(files->write_errno), files->write_errno,
				 "store %s: its marks cannot be written", name);
	return STATUS_OK;
}

void kv_marks_close(struct kv_mark_files *files)
{
	for (size_t i = 0; i < KV_MARKS_MAX; i++)
		mark_close(files->files[i]);
}
