/* SPDX-License-Identifier: Apache-2.0 */
/* Views for people with the sqlite3 shell. The caller chooses their columns; this file makes the SQL. */

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "store/kv_sqlite.h"
#include "store/sqlite_error.h"

#include <assert.h>
#include <string.h>

enum { VIEWS_SQL_MAX = 1 << 18, REPLACE_SQL_MAX = 1 << 19 };

static const char in_a_path[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.[]";

/* Names are constants of the program, never input. */
static void assert_plain(const char *s)
{
	assert(s[0] != '\0' && s[strspn(s, in_a_path)] == '\0');
}

/* Writes the expression of a member of the text of this key, or of its companion key. */
static void put_member(struct strbuf *sql, const struct kv_view *view, const struct kv_column *column)
{
	assert_plain(column->path);
	if (!column->beside)
		strbuf_printf(sql, "json_extract(text, '$.%s')", column->path);
	else
		strbuf_printf(sql,
			      "(SELECT json_extract(b.text, '$.%s') FROM kv b "
			      "WHERE b.key = '%s' || substr(kv.key, %zu))",
			      column->path, column->beside, strlen(view->prefix) + 1);
}

static void put_column(struct strbuf *sql, const struct kv_view *view, const struct kv_column *column)
{
	static const struct {
		const char *before, *after;
	} around[] = {
		[KV_COLUMN_WORD] = {"", ""},
		[KV_COLUMN_NUMBER] = {"CAST(ifnull(", ", 0) AS INTEGER)"},
		[KV_COLUMN_FLAG] = {"iif(", ", 'yes', 'no')"},
		[KV_COLUMN_TIME] = {"strftime('%Y-%m-%dT%H:%M:%fZ', nullif(", ", 0) / 1000.0, 'unixepoch')"},
	};

	assert_plain(column->name);
	strbuf_puts(sql, around[column->kind].before);
	if (column->kind == KV_COLUMN_WORD && column->absent) {
		assert(!strchr(column->absent, '\''));
		strbuf_puts(sql, "ifnull(");
		put_member(sql, view, column);
		strbuf_printf(sql, ", '%s')", column->absent);
	} else {
		put_member(sql, view, column);
	}
	strbuf_puts(sql, around[column->kind].after);
	strbuf_printf(sql, " AS \"%s\", ", column->name);
}

static void put_view(struct strbuf *sql, const struct kv_view *view)
{
	size_t n = strlen(view->prefix);

	assert_plain(view->name);
	assert(n > 0 && !strchr(view->prefix, '\''));
	strbuf_printf(sql, "CREATE VIEW \"%s\" AS SELECT substr(key, %zu) AS \"key\", ", view->name, n + 1);
	for (size_t i = 0; i < view->n_columns; i++)
		put_column(sql, view, &view->columns[i]);
	/* up to the first key behind the prefix, whose last byte never overflows: keys are printable */
	strbuf_printf(sql,
		      "create_revision AS create_index, mod_revision AS modify_index "
		      "FROM kv WHERE key >= '%s' AND key < '%.*s%c';\n",
		      view->prefix, (int)(n - 1), view->prefix, view->prefix[n - 1] + 1);
}

static int append_line(void *userdata, int n, char **values, char **names)
{
	struct strbuf *text = userdata;

	strbuf_printf(text, "%s;\n", values[0]);
	return text->error;
}

/* The views as they are, as the statements that made them. */
static int read_views(sqlite3 *db, struct strbuf *text)
{
	return sqlite3_exec(db, "SELECT sql FROM sqlite_master WHERE type = 'view' ORDER BY rowid",
			    append_line, text, NULL);
}

static int append_drop(void *userdata, int n, char **values, char **names)
{
	struct strbuf *sql = userdata;

	if (strchr(values[0], '"')) /* kv_sqlite_check_schema() would have refused it: it was made since */
		return SQLITE_ABORT;
	strbuf_printf(sql, "DROP VIEW \"%s\";\n", values[0]);
	return sql->error;
}

static int replace_views(sqlite3 *db, const char *create)
{
	cleanup_strbuf struct strbuf sql = STRBUF_INIT(REPLACE_SQL_MAX);
	int rc;

	strbuf_puts(&sql, "BEGIN IMMEDIATE;\n");
	rc = sqlite3_exec(db, "SELECT name FROM sqlite_master WHERE type = 'view'", append_drop, &sql, NULL);
	strbuf_puts(&sql, create);
	strbuf_puts(&sql, "COMMIT;\n");
	if (rc == SQLITE_OK && sql.error != 0)
		rc = SQLITE_NOMEM;
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, sql.data, NULL, NULL, NULL);
	if (rc != SQLITE_OK && !sqlite3_get_autocommit(db))
		(void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL); /* the first error counts */
	return rc;
}

enum status kv_sqlite_define_views(struct kv_sqlite *db, const struct kv_view *views, size_t n,
				   struct error *err)
{
	cleanup_strbuf struct strbuf wanted = STRBUF_INIT(VIEWS_SQL_MAX);
	cleanup_strbuf struct strbuf found = STRBUF_INIT(VIEWS_SQL_MAX);
	enum status status = STATUS_OK;
	int rc;

	strbuf_puts(&wanted, "");
	strbuf_puts(&found, "");
	for (size_t i = 0; i < n; i++)
		put_view(&wanted, &views[i]);
	if (wanted.error != 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, wanted.error, "store %s: views", db->path);
	(void)pthread_mutex_lock(&db->lock);
	rc = read_views(db->db, &found);
	if (rc == SQLITE_OK && (!found.data || !wanted.data || strcmp(found.data, wanted.data) != 0))
		rc = replace_views(db->db, wanted.data ? wanted.data : "");
	if (rc != SQLITE_OK)
		status = sqlite_error(rc, sqlite3_system_errno(db->db), db->path, "make the views", err);
	(void)pthread_mutex_unlock(&db->lock);
	return status;
}
