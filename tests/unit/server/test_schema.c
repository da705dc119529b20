/* SPDX-License-Identifier: Apache-2.0 */
/* Stores of a newer version and of another cluster, and what people see of a store. */

#include "cluster.h"
#include "unit.h"

#include "state/keys.h"
#include "state/records.h"
#include "state/schema.h"
#include "state/text.h"
#include "state/text_json.h"

#include <holdfast/v1/operator.pb-c.h>
#include <jansson.h>
#include <limits.h>
#include <sqlite3.h>

enum { ROWS_MAX = 4096 };

static const char *store_path(struct fixture *f, const char *suffix)
{
	static char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/holdfast.db%s", f->dir, suffix);
	return path;
}

static void run_sql(struct fixture *f, const char *sql)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(store_path(f, ""), &db), SQLITE_OK);
	assert_msg(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
	seal_store(db);
	(void)sqlite3_close(db);
}

static enum status open_and_bring_up(struct fixture *f, const char *cluster, struct error *err)
{
	sd_event *event = NULL;
	struct kv *kv = NULL;
	enum status status;

	assert_true(sd_event_new(&event) >= 0);
	assert_int_equal(kv_open_sqlite(event, store_path(f, ""), &kv, NULL), STATUS_OK);
	status = schema_bring_up(kv, cluster, err);
	kv_close(kv);
	(void)sd_event_unref(event);
	return status;
}

static void refuse_what_does_not_fit(struct fixture *f)
{
	struct error err;

	assert_error(open_and_bring_up(f, "c2", &err), STATUS_FAILED_PRECONDITION, err,
		     "of cluster 'c1', the settings are of 'c2'");
	run_sql(f, "UPDATE kv SET value = x'0802' WHERE key = 'meta/schema'");
	assert_error(open_and_bring_up(f, "c1", &err), STATUS_FAILED_PRECONDITION, err,
		     "newer holdfast-server (schema 2, this one knows 1)");
	run_sql(f, "UPDATE kv SET value = x'ff' WHERE key = 'meta/schema'");
	assert_int_equal(open_and_bring_up(f, "c1", &err), STATUS_DATA_LOSS);
	run_sql(f, "DELETE FROM kv WHERE key = 'meta/schema'");
}

CLUSTER_TEST(a_newer_schema_and_another_cluster_are_refused)
{
	restart_with(f, refuse_what_does_not_fit);
	assert_non_null(records_get(&f->server->state.records, KEY_SCHEMA));
}

/* --- for people --- */

static int append(void *userdata, int n, char **values, char **names)
{
	char *rows = userdata;
	size_t at = strlen(rows);

	for (int i = 0; i < n; i++) {
		(void)str_format(rows + at, ROWS_MAX - at, "%s%s", values[i] ? values[i] : "-",
				 i + 1 < n ? "|" : "\n");
		at = strlen(rows);
	}
	return 0;
}

static const char *look(struct fixture *f, const char *sql)
{
	static char rows[ROWS_MAX];
	sqlite3 *db = NULL;

	rows[0] = '\0';
	assert_int_equal(sqlite3_open_v2(store_path(f, ""), &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_msg(sqlite3_exec(db, sql, append, rows, NULL) == SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
	(void)sqlite3_close(db);
	return rows;
}

TEST_ON(views_can_be_read_while_the_server_is_running, struct fixture, f, setup, teardown)
{
	static const char *const views[] = {"volume", "claim",	     "freed_claim", "allocation",
					    "node",   "plugin",	     "snapshot",    "token",
					    "policy", "attestation", "meta",	    "audit"};
	Holdfast__V1__BeginBackupRequest backup = HOLDFAST__V1__BEGIN_BACKUP_REQUEST__INIT;
	char sql[128];

	take_volume(f);
	assert_string_equal(look(f, "SELECT namespace, id, type, source_class, access_mode, phase, "
				    "description FROM volume"),
			    "default|db|NATIVE|BLOCK|SINGLE_NODE_WRITER|VOLUME_READY|\n");
	assert_string_equal(look(f,
				 "SELECT volume_id, state, mode, node_id, allocation_id, evidence, attach, "
				 "generation, adopted FROM claim"),
			    "db|TAKEN|WRITE|n1|" ALLOC_1 "|EVIDENCE_NONE|ATTACH_NONE|1|no\n");
	assert_string_equal(look(f,
				 "SELECT count(*) FROM claim WHERE created LIKE '20__-__-__T__:__:__.___Z' "
				 "AND create_index > 0"),
			    "1\n");
	assert_string_equal(
		look(f, "SELECT node_id, plugin_id, profile, healthy FROM plugin WHERE node_id = 'n1'"),
		"n1|native|disk|yes\n");
	assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "BeginBackup", &backup.base, NULL,
		       NULL));
	assert_string_equal(look(f, "SELECT object, code FROM audit WHERE what = 'Operator.BeginBackup'"),
			    "store|0\n");
	for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
		(void)str_format(sql, sizeof(sql), "SELECT * FROM %s", views[i]);
		(void)look(f, sql);
	}
}

TEST(secrets_have_no_text)
{
	Holdfast__V1__VolumeSecrets__SecretsEntry entry = HOLDFAST__V1__VOLUME_SECRETS__SECRETS_ENTRY__INIT;
	Holdfast__V1__VolumeSecrets__SecretsEntry *entries[] = {&entry};
	Holdfast__V1__VolumeSecrets secrets = V1(volume_secrets, .secrets = entries, .n_secrets = 1);
	Holdfast__V1__MountOptions options = HOLDFAST__V1__MOUNT_OPTIONS__INIT;
	Holdfast__V1__VolumeDetail detail = V1(volume_detail, .mount_options = &options, .capacity = 5);
	uint8_t sha256[32] = {1};
	char hidden[] = "hidden-word", accessor[] = "a1";
	Holdfast__V1__Token token = V1(token, .accessor = accessor);
	Holdfast__V1__StoredToken stored = V1(stored_token, .token = &token,
					      .secret_sha256 = (ProtobufCBinaryData){sizeof(sha256), sha256});
	char *flags[] = {hidden};
	char *text;

	entry.key = accessor;
	entry.value = hidden;
	assert_null(text_of(PREFIX_VOLUME_SECRETS "default/db", &secrets.base));
	assert_null(text_of("a-new-sort/of-record", &secrets.base));
	text = text_of(PREFIX_TOKEN "a1", &stored.base);
	assert_string_equal(text, "{\"token\":{\"accessor\":\"a1\"}}");
	free(text);
	options.mount_flags = flags;
	options.n_mount_flags = 1;
	text = text_of(PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	assert_string_equal(text, "{\"capacity\":5}");
	free(text);
}

TEST(only_quotes_backslashes_and_controls_are_escaped)
{
	static const char *const none[] = {NULL};
	Holdfast__V1__Snapshot snapshot = HOLDFAST__V1__SNAPSHOT__INIT;

	for (int c = 1; c <= UCHAR_MAX; c++) {
		cleanup_strbuf struct strbuf out = STRBUF_INIT(TEXT_MAX);
		char id[] = {'a', (char)c, 'b', '\0'};
		char expected[64];

		snapshot.plugin_id = id;
		text_json_put(&out, &snapshot.base, none);
		(void)str_format(expected, sizeof(expected),
				 c < 0x20 || c == '"' || c == '\\' ? "{\"plugin_id\":\"a\\u%04xb\"}"
								   : "{\"plugin_id\":\"a%cb\"}",
				 c);
		assert_string_equal(out.data, expected);
	}
}

TEST(a_text_is_json_of_the_set_fields)
{
	static const char expected[] =
		"{\"plugin_id\":\"p\\u0022\\u005c\\u000a\u00e4\",\"size_bytes\":18446744073709551615,"
		"\"create_time_ms\":-5,\"ready\":true,\"parameters\":{\"a\":\"1\",\"b\":\"\"}}";
	Holdfast__V1__Snapshot snapshot = HOLDFAST__V1__SNAPSHOT__INIT;
	Holdfast__V1__Snapshot__ParametersEntry entries[] = {HOLDFAST__V1__SNAPSHOT__PARAMETERS_ENTRY__INIT,
							     HOLDFAST__V1__SNAPSHOT__PARAMETERS_ENTRY__INIT};
	Holdfast__V1__Snapshot__ParametersEntry *parameters[] = {&entries[0], &entries[1]};
	cleanup_strbuf struct strbuf out = STRBUF_INIT(TEXT_MAX);
	static const char *const none[] = {NULL};
	char plugin_id[] = "p\"\\\n\u00e4";
	cleanup(json_decrefp) json_t *json = NULL;

	entries[0].key = "a";
	entries[0].value = "1";
	entries[1].key = "b";
	snapshot.plugin_id = plugin_id;
	snapshot.size_bytes = UINT64_MAX;
	snapshot.create_time_ms = -5;
	snapshot.ready = true;
	snapshot.parameters = parameters;
	snapshot.n_parameters = 2;
	text_json_put(&out, &snapshot.base, none);
	assert_string_equal(out.data, expected);
	json = json_loads("{\"plugin_id\":\"p\\u0022\\u005c\\u000a\u00e4\"}", 0, NULL);
	assert_string_equal(json_string_value(json_object_get(json, "plugin_id")), plugin_id);
}

TEST(a_text_that_is_too_long_is_left_out)
{
	Holdfast__V1__VolumeDetail detail = HOLDFAST__V1__VOLUME_DETAIL__INIT;
	enum { AROUND = sizeof("{\"clone_id\":\"\"}") - 1 };
	cleanup_free char *long_id = NON_NULL(malloc(TEXT_MAX));
	cleanup_free char *text = NULL;

	memset(long_id, 'x', TEXT_MAX);
	long_id[TEXT_MAX - AROUND - 1] = '\0';
	detail.clone_id = long_id;
	text = NON_NULL(text_of(PREFIX_VOLUME_DETAIL "default/db", &detail.base));
	assert_int_equal(strlen(text), TEXT_MAX - 1);
	long_id[TEXT_MAX - AROUND - 1] = 'x';
	long_id[TEXT_MAX - AROUND] = '\0';
	assert_null(text_of(PREFIX_VOLUME_DETAIL "default/db", &detail.base));
}
