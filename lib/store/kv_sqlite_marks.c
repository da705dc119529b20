/* SPDX-License-Identifier: Apache-2.0 */
/* How far the store had come, by what is said beside it. */

#include "base/clock.h"
#include "base/str.h"
#include "store/kv_sqlite_internal.h"

#include <inttypes.h>
#include <string.h>

/* --- at the start --- */

/* What is wrong with the store if @mark is right; NULL: nothing. */
static const char *find_contradiction(const struct kv_sqlite *db, const struct kv_marks *own,
				      const struct mark *mark)
{
	if (own->epoch > mark->epoch)
		return NULL;
	if (own->store_id[0] != '\0' && mark->store_id[0] != '\0' && !str_eq(own->store_id, mark->store_id))
		return "of another store";
	if (own->epoch < mark->epoch)
		return "of a later epoch";
	return db->opened_revision < mark->revision ? "of a later revision" : NULL;
}

static void take_mark(const struct kv_sqlite *db, const struct kv_marks *own, const char *path,
		      const struct mark *mark, struct kv_history *history)
{
	const char *what = find_contradiction(db, own, mark);

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
			 path, what, mark->epoch, mark->revision, own->epoch, db->opened_revision);
}

enum status kv_sqlite_history(const struct kv_sqlite *db, const struct kv_marks *marks,
			      struct kv_history *ret, struct error *err)
{
	struct kv_history history = {.is_behind = false};
	size_t n_read = 0;

	for (size_t i = 0; i < KV_MARKS_MAX && marks->paths[i]; i++) {
		struct mark mark;
		enum status st = mark_read(marks->paths[i], &mark, err);

		if (st != STATUS_OK && st != STATUS_NOT_FOUND && st != STATUS_DATA_LOSS)
			return st;
		if (st != STATUS_OK)
			continue;
		take_mark(db, marks, marks->paths[i], &mark, &history);
		n_read++;
	}
	if (n_read == 0 && !db->is_unmarked) {
		history.is_behind = true;
		(void)str_format(history.why, sizeof(history.why),
				 "%.200s is missing or damaged: the store may be an earlier copy of itself",
				 marks->paths[0]);
	}
	*ret = history;
	return STATUS_OK;
}

/* --- from then on --- */

static void note(struct kv_sqlite *db, int r)
{
	db->mark_errno = r < 0 ? -r : db->mark_errno;
}

static void write_all(struct kv_sqlite *db)
{
	db->mark_errno = 0;
	db->mark.revision = db->committed_revision;
	db->mark.nodes = atomic_load(&db->nodes);
	for (size_t i = 0; i < KV_MARKS_MAX && db->marks[i]; i++)
		note(db, mark_write(db->marks[i], &db->mark));
	if (db->marks_dirty_us == 0)
		db->marks_dirty_us = clock_monotonic_us();
}

void kv_sqlite_write_marks(struct kv_sqlite *db)
{
	if (db->marks[0] && db->mark.revision != db->committed_revision)
		write_all(db);
}

uint64_t kv_sqlite_sync_marks(struct kv_sqlite *db, bool is_last)
{
	if (db->marks_dirty_us == 0)
		return 0;
	if (!is_last && clock_monotonic_us() < db->marks_dirty_us + KV_SQLITE_SYNC_US)
		return db->marks_dirty_us + KV_SQLITE_SYNC_US;
	for (size_t i = 0; i < KV_MARKS_MAX && db->marks[i]; i++)
		note(db, mark_sync(db->marks[i]));
	db->marks_dirty_us = 0;
	return 0;
}

enum status kv_sqlite_keep_marks(struct kv_sqlite *db, const struct kv_marks *marks, struct error *err)
{
	atomic_store(&db->nodes, marks->nodes);
	db->mark = (struct mark){
		.epoch = marks->epoch, .revision = db->committed_revision, .nodes = marks->nodes};
	if (str_copy(db->mark.store_id, sizeof(db->mark.store_id), marks->store_id) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "store %s: its id is too long", db->path);
	for (size_t i = 0; i < KV_MARKS_MAX && marks->paths[i]; i++) {
		enum status st = mark_open(marks->paths[i], &db->mark, &db->marks[i], err);

		if (st != STATUS_OK)
			return st;
	}
	write_all(db);
	(void)kv_sqlite_sync_marks(db, true);
	if (db->mark_errno != 0)
		return error_set(err, status_from_errno(db->mark_errno), db->mark_errno,
				 "store %s: its marks cannot be written", db->path);
	return STATUS_OK;
}
