/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "store/kv_sqlite_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static const char query_range[] = "SELECT key, value, create_revision, mod_revision, sum FROM kv "
				  "WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3";
static const char query_next[] = "SELECT key, value, create_revision, mod_revision, sum FROM kv "
				 "WHERE key >= ?1 AND key < ?2 AND key <> ?3 ORDER BY key LIMIT 1";

/* The row of (key, value, create revision, mod revision, sum) that @statement stands on. */
static enum status read_record(struct kv_sqlite *db, sqlite3_stmt *statement, struct kv_item *ret,
			       struct error *err)
{
	char what[KV_KEY_MAX + 64];
	char key[KV_KEY_MAX + 1];

	*ret = (struct kv_item){
		.key = (const char *)sqlite3_column_text(statement, 0),
		.value = sqlite3_column_blob(statement, 1),
		.len = (size_t)sqlite3_column_bytes(statement, 1),
		.create_revision = (uint64_t)sqlite3_column_int64(statement, 2),
		.mod_revision = (uint64_t)sqlite3_column_int64(statement, 3),
	};
	if (!ret->key || (!ret->value && sqlite3_column_type(statement, 1) != SQLITE_NULL))
		return sqlite_error(SQLITE_NOMEM, 0, db->path, "read", err);
	if ((uint64_t)sqlite3_column_int64(statement, 4) == kv_sqlite_sum(ret))
		return STATUS_OK;
	str_copy_text(key, sizeof(key), ret->key); /* whatever it has become */
	(void)str_format(what, sizeof(what), "its record %.200s is not what was written", key);
	return kv_sqlite_damaged(db, what, err);
}

/* Hand every row to @each. Not by kv_sqlite_step(), which is the writer's. */
static enum status each_row(struct kv_sqlite *db, sqlite3_stmt *statement, kv_each_fn *each, void *userdata,
			    struct error *err)
{
	for (;;) {
		struct kv_item item;
		enum status st;
		int rc;

		errno = 0;
		rc = sqlite3_step(statement);
		if (rc == SQLITE_DONE)
			return STATUS_OK;
		if (rc != SQLITE_ROW)
			return sqlite_error(rc, errno, db->path, "read", err);
		st = read_record(db, statement, &item, err);
		if (st != STATUS_OK)
			return st;
		db->n_read++;
		if (!each(&item, userdata))
			return STATUS_OK;
	}
}

/* The first key behind all that begin with @prefix. Keys are printable ASCII, so 0x7f is above every byte of
 * one, and the last byte never overflows. */
static void end_of(const char *prefix, char ret[static KV_KEY_MAX + 2])
{
	size_t n = strlen(prefix);

	(void)str_copy(ret, KV_KEY_MAX + 2, n > 0 ? prefix : "\x7f");
	if (n > 0)
		ret[n - 1]++;
}

enum status kv_sqlite_range(struct kv_sqlite *db, const char *prefix, const char *from, size_t limit,
			    kv_each_fn *each, void *userdata, struct error *err)
{
	char end[KV_KEY_MAX + 2];
	sqlite3_stmt *statement = NULL;
	enum status st;
	int rc;

	end_of(prefix, end);
	rc = sqlite3_prepare_v2(db->reader, query_range, -1, &statement, NULL);
	if (rc == SQLITE_OK)
		rc = bind_key(statement, 1, strcmp(from, prefix) > 0 ? from : prefix);
	if (rc == SQLITE_OK)
		rc = bind_key(statement, 2, end);
	if (rc == SQLITE_OK) /* negative: no limit */
		rc = sqlite3_bind_int64(statement, 3, limit > INT64_MAX ? -1 : (sqlite3_int64)limit);
	st = rc == SQLITE_OK ? each_row(db, statement, each, userdata, err)
			     : sqlite_error(rc, sqlite3_system_errno(db->reader), db->path, "read", err);
	(void)sqlite3_finalize(statement); /* at once: a reading statement keeps the log from being folded */
	return st;
}

enum status kv_sqlite_range_writing(struct kv_sqlite *db, const char *prefix, kv_each_fn *each,
				    void *userdata, struct error *err)
{
	char end[KV_KEY_MAX + 2];
	char from[KV_KEY_MAX + 1];
	char last[KV_KEY_MAX + 1] = "";
	cleanup_statement sqlite3_stmt *statement = NULL;
	enum status st = STATUS_OK;
	bool goes_on = true;
	int rc = sqlite3_prepare_v2(db->db, query_next, -1, &statement, NULL);

	end_of(prefix, end);
	(void)str_copy(from, sizeof(from), prefix);
	if (rc == SQLITE_OK)
		rc = bind_key(statement, 2, end);
	while (rc == SQLITE_OK && st == STATUS_OK && goes_on) {
		struct kv_item item;

		rc = bind_key(statement, 1, from);
		if (rc == SQLITE_OK)
			rc = bind_key(statement, 3, last);
		if (rc == SQLITE_OK)
			rc = kv_sqlite_step(db, statement);
		if (rc == SQLITE_DONE)
			return STATUS_OK;
		if (rc != SQLITE_ROW)
			break;
		st = read_record(db, statement, &item, err);
		goes_on = st == STATUS_OK && each(&item, userdata);
		if (st == STATUS_OK) {
			(void)str_copy(last, sizeof(last), item.key);
			(void)str_copy(from, sizeof(from), last);
		}
		rc = sqlite3_reset(statement);
	}
	return rc == SQLITE_OK ? st : fail(db, rc, "read", err);
}
