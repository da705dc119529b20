/* SPDX-License-Identifier: Apache-2.0 */
/* A database may be foreign: a backup that is restored. A file of sqlite has not only data but also code that
 * runs when it is used (triggers, views, checks, generated columns). */

#include "base/cleanup.h"
#include "base/str.h"
#include "store/kv_sqlite.h"
#include "store/kv_sqlite_tables.h"
#include "store/sqlite_error.h"

#include <ctype.h>
#include <string.h>

enum { ROW_BYTES_MAX = 8 << 20 }; /* key, value and text have 1 MiB each at most */

static void finalizep(sqlite3_stmt **statement)
{
	(void)sqlite3_finalize(*statement);
}

int kv_sqlite_harden(sqlite3 *db)
{
	static const struct {
		int config, value;
	} settings[] = {
		{SQLITE_DBCONFIG_DEFENSIVE, 1},
		{SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
		{SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
		{SQLITE_DBCONFIG_ENABLE_VIEW, 0},
		{SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
	};
	int rc = SQLITE_OK;

	for (size_t i = 0; i < ARRAY_SIZE(settings) && rc == SQLITE_OK; i++)
		rc = sqlite3_db_config(db, settings[i].config, settings[i].value, NULL);
	(void)sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
	(void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, ROW_BYTES_MAX);
	return rc;
}

/* Compares two statements, ignoring white space. */
static bool same_sql(const char *a, const char *b)
{
	for (;;) {
		while (isspace((unsigned char)*a))
			a++;
		while (isspace((unsigned char)*b))
			b++;
		if (*a != *b)
			return false;
		if (*a == '\0')
			return true;
		a++;
		b++;
	}
}

static bool is_our_table(const char *sql)
{
	return same_sql(sql, KV_SQLITE_TABLE_KV) || same_sql(sql, KV_SQLITE_TABLE_POSITION);
}

/* Views are for people: the program never reads them, and replaces them if they differ. For that a statement
 * names them. */
static bool can_be_quoted(const char *name)
{
	for (const char *p = name; *p != '\0'; p++)
		if (!isprint((unsigned char)*p) || *p == '"')
			return false;
	return name[0] != '\0';
}

static bool may_be_there(const char *type, const char *name, const char *sql)
{
	if (str_eq(type, "table"))
		return is_our_table(sql) || str_eq(name, "sqlite_stat1") || str_eq(name, "sqlite_stat4");
	if (str_eq(type, "index"))
		return sql[0] == '\0' && str_starts_with(name, "sqlite_autoindex_");
	return str_eq(type, "view") && can_be_quoted(name);
}

static const char *text_at(sqlite3_stmt *statement, int column)
{
	const char *text = (const char *)sqlite3_column_text(statement, column);

	return text ? text : "";
}

enum status kv_sqlite_check_schema(sqlite3 *db, const char *path, struct error *err)
{
	cleanup(finalizep) sqlite3_stmt *statement = NULL;
	int rc = sqlite3_prepare_v2(db, "SELECT type, name, sql FROM sqlite_schema", -1, &statement, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(statement);
	for (; rc == SQLITE_ROW; rc = sqlite3_step(statement)) {
		const char *type = text_at(statement, 0);
		const char *name = text_at(statement, 1);
		char shown[64];

		if (may_be_there(type, name, text_at(statement, 2)))
			continue;
		str_copy_text(shown, sizeof(shown), name);
		return error_set(err, STATUS_DATA_LOSS, 0,
				 "store %s: damaged: its %.8s '%s' is not one of Holdfast; keep a copy and "
				 "restore a backup (holdfast-server --restore FILE)",
				 path, type, shown);
	}
	if (rc != SQLITE_DONE)
		return sqlite_error(rc, sqlite3_system_errno(db), path, "look at the tables", err);
	return STATUS_OK;
}
