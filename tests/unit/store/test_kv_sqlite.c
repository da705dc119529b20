/* SPDX-License-Identifier: Apache-2.0 */
/* The database below the store: rolling back, and what an earlier version left. */

#include "fixture.h"

#include "store/kv_sqlite.h"

#include <sqlite3.h>

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
	fail_msg("%s is still there", item->key);
	return true;
}

CLOSED_STORE_TEST(a_rolled_back_batch_leaves_no_trace)
{
	const struct kv_op op = {.key = "a", .value = "v", .len = 1};
	const struct kv_txn txn = {.ops = &op, .n_ops = 1};
	struct kv_sqlite *db = NULL;
	struct kv_conflict conflict;
	uint64_t revision;

	assert_int_equal(kv_sqlite_open(f->path, &db, NULL), STATUS_OK);
	assert_int_equal(kv_sqlite_begin(db, NULL), STATUS_OK);
	assert_int_equal(kv_sqlite_apply(db, &txn, &revision, &conflict, NULL), STATUS_OK);
	kv_sqlite_rollback(db);
	assert_int_equal(kv_sqlite_range(db, "", "", SIZE_MAX, fail_item, NULL, NULL), STATUS_OK);
	assert_int_equal(kv_sqlite_begin(db, NULL), STATUS_OK);
	assert_int_equal(kv_sqlite_apply(db, &txn, &revision, &conflict, NULL), STATUS_OK);
	assert_int_equal(revision, 1);
	assert_int_equal(kv_sqlite_commit(db, NULL), STATUS_OK);
	kv_sqlite_close(db);
}

CLOSED_STORE_TEST(the_changes_of_an_earlier_version_are_forgotten_when_it_is_opened)
{
	static const char count[] = "SELECT count(*) FROM changes";
	struct kv_sqlite *db = NULL;

	fixture_open(f);
	(void)put(f, "a", "1");
	(void)put(f, "a", "2");
	fixture_close(f);
	assert_int_equal(kv_sqlite_open(f->path, &db, NULL), STATUS_OK);
	assert_int_equal(number(db->db, count), 0);
	assert_int_equal(
		sqlite3_exec(db->db, "INSERT INTO changes VALUES (1, 0, 'a', x'31', 1), (2, 0, 'a', NULL, 0)",
			     NULL, NULL, NULL),
		SQLITE_OK);
	kv_sqlite_close(db);
	fixture_open(f);
	assert_string_equal(range_text(f, ""), "a=2@1,2 ");
	assert_int_equal(put(f, "a", "3"), 3);
	fixture_close(f);
	assert_int_equal(kv_sqlite_open(f->path, &db, NULL), STATUS_OK);
	assert_int_equal(number(db->db, count), 0);
	kv_sqlite_close(db);
}
