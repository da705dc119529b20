/* SPDX-License-Identifier: Apache-2.0 */
/* The database below the store: rolling back. */

#include "fixture.h"

#include "store/kv_sqlite.h"

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
