/* SPDX-License-Identifier: Apache-2.0 */
/* The database below the store: rolling back, and forgetting changes in bounded steps. */

#include "fixture.h"

#include "store/kv_sqlite.h"

#include <sqlite3.h>

enum { REVISIONS = 2 * KV_SQLITE_TRIM_STEP + 100 };

static void fill(struct kv_sqlite *db)
{
	const struct kv_op op = {.key = "a", .value = "v", .len = 1};
	struct kv_conflict conflict;
	uint64_t revision;

	assert_int_equal(kv_sqlite_begin(db, NULL), STATUS_OK);
	for (int i = 0; i < REVISIONS; i++)
		assert_int_equal(kv_sqlite_apply(db, &(struct kv_txn){.ops = &op, .n_ops = 1}, &revision,
						 &conflict, NULL),
				 STATUS_OK);
	assert_int_equal(kv_sqlite_commit(db, NULL), STATUS_OK);
}

static void trim_once(struct kv_sqlite *db)
{
	assert_int_equal(kv_sqlite_begin(db, NULL), STATUS_OK);
	assert_int_equal(kv_sqlite_trim(db, NULL), STATUS_OK);
	assert_int_equal(kv_sqlite_commit(db, NULL), STATUS_OK);
}

static int64_t number(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *statement = NULL;
	int64_t value;

	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	value = sqlite3_column_int64(statement, 0);
	(void)sqlite3_finalize(statement);
	return value;
}

static bool fail_item(const struct kv_item *item, void *userdata)
{
	(void)userdata;
	fail_msg("%s is still told", item->key);
	return true;
}

TEST_FIXTURE(each_commit_forgets_a_bounded_number_of_revisions, fixture_setup_closed, fixture_teardown)
{
	static const char count[] = "SELECT count(*) FROM changes";
	struct fixture *f = *state;
	struct kv_sqlite *db = NULL;

	assert_int_equal(kv_sqlite_open(f->path, &db, NULL), STATUS_OK);
	fill(db);
	assert_false(kv_sqlite_has_trim(db));
	assert_int_equal(kv_sqlite_begin(db, NULL), STATUS_OK);
	kv_sqlite_compact(db, REVISIONS - 1);
	assert_int_equal(kv_sqlite_commit(db, NULL), STATUS_OK);
	assert_int_equal(number(db->db, count), REVISIONS);
	/* at once for readers, whatever is left in the table */
	assert_int_equal(kv_sqlite_changes(db, REVISIONS - 2, fail_item, NULL, NULL), STATUS_OUT_OF_RANGE);

	trim_once(db);
	assert_int_equal(number(db->db, count), REVISIONS - KV_SQLITE_TRIM_STEP);
	kv_sqlite_close(db);
	assert_int_equal(kv_sqlite_open(f->path, &db, NULL), STATUS_OK);
	assert_true(kv_sqlite_has_trim(db));
	trim_once(db);
	trim_once(db);
	assert_false(kv_sqlite_has_trim(db));
	assert_int_equal(number(db->db, count), 1);
	trim_once(db);
	assert_int_equal(number(db->db, count), 1);
	kv_sqlite_close(db);
}

TEST_FIXTURE(a_rolled_back_batch_leaves_no_trace, fixture_setup_closed, fixture_teardown)
{
	const struct kv_op op = {.key = "a", .value = "v", .len = 1};
	const struct kv_txn txn = {.ops = &op, .n_ops = 1};
	struct fixture *f = *state;
	struct kv_sqlite *db = NULL;
	struct kv_conflict conflict;
	uint64_t revision;

	assert_int_equal(kv_sqlite_open(f->path, &db, NULL), STATUS_OK);
	assert_int_equal(kv_sqlite_begin(db, NULL), STATUS_OK);
	assert_int_equal(kv_sqlite_apply(db, &txn, &revision, &conflict, NULL), STATUS_OK);
	kv_sqlite_compact(db, 1);
	kv_sqlite_rollback(db);
	assert_int_equal(kv_sqlite_range(db, "", "", SIZE_MAX, fail_item, NULL, NULL), STATUS_OK);
	assert_int_equal(kv_sqlite_changes(db, 0, fail_item, NULL, NULL), STATUS_OK);
	assert_int_equal(kv_sqlite_begin(db, NULL), STATUS_OK);
	assert_int_equal(kv_sqlite_apply(db, &txn, &revision, &conflict, NULL), STATUS_OK);
	assert_int_equal(revision, 1);
	assert_int_equal(kv_sqlite_commit(db, NULL), STATUS_OK);
	kv_sqlite_close(db);
}

TEST_FIXTURE(an_idle_store_forgets_by_itself, fixture_setup_closed, fixture_teardown)
{
	struct fixture *f = *state;
	struct kv_sqlite *db = NULL;
	struct answer barrier = {0};

	assert_int_equal(kv_sqlite_open(f->path, &db, NULL), STATUS_OK);
	fill(db);
	kv_sqlite_close(db);
	fixture_open(f);
	assert_int_equal(kv_compact(f->kv, REVISIONS, NULL), STATUS_OK);
	/* each turn of the loop is a step of the writer; it goes on as long as there is something to forget
	 */
	while (sd_event_run(f->event, 200000) > 0)
		;
	assert_int_equal(kv_barrier(f->kv, answer_fill, &barrier, NULL), STATUS_OK);
	await(f, &barrier);
	fixture_close(f);
	assert_int_equal(kv_sqlite_open(f->path, &db, NULL), STATUS_OK);
	assert_int_equal(number(db->db, "SELECT count(*) FROM changes"), 0);
	assert_false(kv_sqlite_has_trim(db));
	kv_sqlite_close(db);
}
