/* SPDX-License-Identifier: Apache-2.0 */
/* A known secret goes through every method, succeeding and failing, and is then looked for in every answer,
 * every log line and all that people can read in the database. */

#include "provider_world.h"
#include "unit.h"

#include "base/strbuf.h"

#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>

#define SECRET "KN0WN-S3CRET"
#define SECRETS "\"secrets\":{\"pass\":\"" SECRET "\",\"other\":\"" SECRET "=\"}"
#define OPTIONS "\"mountOptions\":{\"fsType\":\"ext4\",\"mountFlags\":[\"password=" SECRET "\"]}"

/* Everything that is said, to whomever. */
static struct strbuf said = STRBUF_INIT(4 << 20);

static void say(struct fixture *f, const char *method, const char *json)
{
	static struct answer answer;
	enum status status = ask(f, method, json, &answer);

	strbuf_printf(&said, "%s %s: %s %s\n", method, status_name(status), answer.json, answer.err.msg);
}

static void everything_that_takes_a_secret(struct fixture *f)
{
	static const struct {
		const char *method, *json;
		int fails; /* the call that fails first, with something uncertain; 0: none */
	} calls[] = {
		{"Register", "{\"volume\":{" DB_HEAD "," SECRETS "," OPTIONS "}}", CALL_VALIDATE},
		{"Register", "{\"volume\":{" DB_HEAD "," SECRETS "," OPTIONS ",\"parameters\":{\"\":\"x\"}}}",
		 0},
		{"Register", "{\"volume\":{" DB_HEAD "," SECRETS ",\"namespace\":\"//\"}}", 0},
		{"Register", "{\"volume\":{" DB_HEAD ",\"secrets\":{\"a\\nb\":\"" SECRET "\"}}}", 0},
		{"Register",
		 "{\"volume\":{" DB_HEAD ",\"mountOptions\":{\"mountFlags\":[\"" SECRET "\\n\"]}}}", 0},
		{"Create",
		 "{\"volume\":{\"id\":\"made\",\"type\":\"CSI\",\"pluginId\":\"nfs\"," CAPABILITIES
		 "," SECRETS "," OPTIONS "}}",
		 CALL_CREATE},
		{"Get", ID, 0},
		{"Get", "{\"id\":\"made\",\"why\":true}", 0},
		{"List", "{}", 0},
		{"List", "{\"filter\":\"secrets.pass == " SECRET "x\"}", 0},
		{"Expand", "{\"id\":\"made\",\"capacityMin\":\"9\"," SECRETS "}", CALL_EXPAND},
		{"CreateSnapshot", "{\"volumeId\":\"made\",\"name\":\"s1\"," SECRETS "}",
		 CALL_CREATE_SNAPSHOT},
		{"ListSnapshots", "{\"pluginId\":\"nfs\"," SECRETS "}", CALL_LIST_SNAPSHOTS},
		{"ListSnapshots", "{}", 0},
		{"DeleteSnapshot", "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\"," SECRETS "}",
		 CALL_DELETE_SNAPSHOT},
		{"Delete", "{\"id\":\"none\"," SECRETS "}", 0},
		{"Delete", "{\"id\":\"made\"," SECRETS "}", CALL_DELETE},
		{"Register",
		 "{\"volume\":{" DB_HEAD ",\"secrets\":{\"pass\":\"[redacted]\"},\"context\":{\"a\":\"b\"}}}",
		 0},
		{"Get", ID, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (calls[i].fails)
			provider_order(calls[i].fails, PROVIDER_FAIL, 1, STATUS_INTERNAL);
		say(f, calls[i].method, calls[i].json);
		if (calls[i].fails) /* and then as it should be */
			say(f, calls[i].method, calls[i].json);
	}
}

static void read_people_columns(struct fixture *f)
{
	char path[PATH_MAX];
	sqlite3 *db = NULL;
	sqlite3_stmt *views = NULL;
	int n = 0;

	(void)str_format(path, sizeof(path), "%s/holdfast.db", f->server->config.data_dir);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT name FROM sqlite_schema WHERE type = 'view'", -1,
					    &views, NULL),
			 SQLITE_OK);
	while (sqlite3_step(views) == SQLITE_ROW) {
		char sql[256];
		sqlite3_stmt *rows = NULL;

		(void)str_format(sql, sizeof(sql), "SELECT * FROM \"%s\"",
				 (const char *)sqlite3_column_text(views, 0));
		assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &rows, NULL), SQLITE_OK);
		while (sqlite3_step(rows) == SQLITE_ROW)
			for (int i = 0; i < sqlite3_column_count(rows); i++, n++)
				if (sqlite3_column_text(rows, i) &&
				    sqlite3_column_type(rows, i) != SQLITE_BLOB)
					strbuf_printf(&said, "%s\n",
						      (const char *)sqlite3_column_text(rows, i));
		(void)sqlite3_finalize(rows);
	}
	(void)sqlite3_finalize(views);
	(void)sqlite3_close(db);
	assert_true(n > 0); /* there are such views, and they have rows */
}

TEST_ON(a_secret_is_in_no_answer_log_line_or_readable_column, struct fixture, f, provider_setup,
	provider_teardown)
{
	int log_fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	int stderr_fd = dup(STDERR_FILENO);
	static char log[1 << 20];
	ssize_t n;

	assert_true(log_fd >= 0 && stderr_fd >= 0);
	assert_true(dup2(log_fd, STDERR_FILENO) >= 0);
	everything_that_takes_a_secret(f);
	settle(f);
	assert_true(dup2(stderr_fd, STDERR_FILENO) >= 0);
	(void)close(stderr_fd);
	n = pread(log_fd, log, sizeof(log) - 1, 0);
	(void)close(log_fd);
	assert_true(n > 0);
	strbuf_put(&said, log, (size_t)n);
	read_people_columns(f);
	assert_int_equal(said.error, 0);
	assert_non_null(strstr(said.data, "[redacted]"));
	assert_msg(!strstr(said.data, SECRET), "%.200s",
		   strstr(said.data, SECRET) > said.data + 100 ? strstr(said.data, SECRET) - 100 : said.data);
	/* and it was there to be found: the provider got it, and gets it again after all those reads */
	must(f, "Create",
	     "{\"volume\":{\"id\":\"x\",\"type\":\"CSI\",\"pluginId\":\"nfs\"," CAPABILITIES "," SECRETS "}}",
	     NULL);
	assert_string_equal(provider.last_secrets, "pass=" SECRET ",other=" SECRET "=,");
	must(f, "Get", "{\"id\":\"x\"}", NULL);
	must(f, "List", "{}", NULL);
	provider.last_secrets[0] = '\0';
	must(f, "Delete", "{\"id\":\"x\"}", NULL);
	assert_string_equal(provider.last_secrets, "pass=" SECRET ",other=" SECRET "=,");
}

TEST_ON(details_and_secrets_go_with_their_volume, struct fixture, f, provider_setup, provider_teardown)
{
	struct record_entry *entry;

	must(f, "Register", "{\"volume\":{" DB_HEAD "," SECRETS "," OPTIONS "}}", NULL);
	assert_non_null(records_get(&f->server->state.records, "volume-secrets/default/db"));
	assert_non_null(records_get(&f->server->state.records, "volume-detail/default/db"));
	must(f, "Deregister", ID, NULL);
	restart(f);
	entry = records_from(&f->server->state.records, "volume-");
	assert_true(!entry || !str_starts_with(entry->key, "volume-"));
}
