/* SPDX-License-Identifier: Apache-2.0 */
/* The tables, and the changes to those of older versions. */

#include "base/cleanup.h"
#include "base/str.h"
#include "store/kv_sqlite.h"
#include "store/kv_sqlite_tables.h"
#include "store/sqlite_error.h"

static const char tables[] =
	"BEGIN IMMEDIATE;" KV_SQLITE_TABLE_KV ";" KV_SQLITE_TABLE_CHANGES ";" KV_SQLITE_TABLE_POSITION ";"
	"INSERT INTO position(id, revision, compacted, sum)"
	" VALUES (1, 0, 0, record_sum('position', x'', 0, 0));";

/* [n] leads from schema n to the next. */
static const char *const steps[KV_SQLITE_SCHEMA] = {
	[1] = "ALTER TABLE kv ADD COLUMN text TEXT;",
	/* The views still mean kv, whichever that is. */
	[2] = "PRAGMA legacy_alter_table=ON; ALTER TABLE kv RENAME TO kv_2; PRAGMA legacy_alter_table=OFF;" //
	KV_SQLITE_TABLE_KV_3 ";"
	      "INSERT INTO kv(key, value, create_revision, mod_revision, text)"
	      " SELECT key, value, create_revision, mod_revision, text FROM kv_2 ORDER BY key;"
	      "DROP TABLE kv_2;",
	[3] = "PRAGMA legacy_alter_table=ON; ALTER TABLE kv RENAME TO kv_3;"
	      "ALTER TABLE position RENAME TO position_3; PRAGMA legacy_alter_table=OFF;" //
	KV_SQLITE_TABLE_KV ";" KV_SQLITE_TABLE_POSITION ";"
	      "INSERT INTO kv(key, value, create_revision, mod_revision, sum, text)"
	      " SELECT key, value, create_revision, mod_revision,"
	      " record_sum(key, value, create_revision, mod_revision), text FROM kv_3 ORDER BY rowid;"
	      "INSERT INTO position(id, revision, compacted, sum)"
	      " SELECT id, revision, compacted, record_sum('position', x'', revision, compacted)"
	      " FROM position_3;"
	      "DROP TABLE kv_3; DROP TABLE position_3;",
};

static int run_sql(sqlite3 *db, const char *sql)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static int set_version(sqlite3 *db)
{
	char sql[128];

	(void)str_format(sql, sizeof(sql), "PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT;",
			 KV_SQLITE_APPLICATION_ID, KV_SQLITE_SCHEMA);
	return run_sql(db, sql);
}

int kv_sqlite_create_schema(sqlite3 *db)
{
	int rc = run_sql(db, tables);

	return rc == SQLITE_OK ? set_version(db) : rc;
}

static int query_version(sqlite3 *db, int *ret)
{
	sqlite3_stmt *statement = NULL;
	int rc = sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &statement, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(statement);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int(statement, 0);
	(void)sqlite3_finalize(statement);
	return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int upgrade(sqlite3 *db, int version)
{
	int rc = run_sql(db, "BEGIN IMMEDIATE;");

	for (int v = version; rc == SQLITE_OK && v < KV_SQLITE_SCHEMA; v++)
		rc = run_sql(db, steps[v]);
	return rc == SQLITE_OK ? set_version(db) : rc;
}

enum status kv_sqlite_upgrade(struct kv_sqlite *db, struct error *err)
{
	int version = KV_SQLITE_SCHEMA;
	int rc = query_version(db->db, &version);

	db->is_unmarked = db->is_unmarked || version < KV_SQLITE_SCHEMA_MARKED;
	if (rc == SQLITE_OK && version < KV_SQLITE_SCHEMA)
		rc = upgrade(db->db, version);
	if (rc == SQLITE_OK)
		return STATUS_OK;
	if (rc == SQLITE_ERROR) /* a table that is not there */
		return error_set(err, STATUS_DATA_LOSS, 0,
				 "store %s: damaged: %s; keep a copy and restore a backup "
				 "(holdfast-server --restore FILE)",
				 db->path, sqlite3_errmsg(db->db));
	return sqlite_error(rc, sqlite3_system_errno(db->db), db->path, "bring to this version", err);
}
