/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a running server's store, and starting again from one. */

#include "cluster.h"
#include "unit.h"

#include "access/audit_read.h"
#include "base/fd.h"
#include "recovery/backup.h"
#include "recovery/copy_file.h"
#include "recovery/epoch.h"
#include "recovery/history.h"
#include "recovery/restore.h"
#include "state/keys.h"
#include "state/records.h"

#include <dirent.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <limits.h>
#include <openssl/sha.h>
#include <semaphore.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/stat.h>

const bool fake_nodes_have_machines = true;

/* The thread of a restore waits in it while the test continues. */
static atomic_bool is_held, has_begun;
static sem_t goes_on;

enum status __real_copy_digest(const char *path, uint8_t sha256[static COPY_SHA256_SIZE], uint64_t *ret_size,
			       struct error *err);
enum status __wrap_copy_digest(const char *path, uint8_t sha256[static COPY_SHA256_SIZE], uint64_t *ret_size,
			       struct error *err);
enum status __wrap_copy_digest(const char *path, uint8_t sha256[static COPY_SHA256_SIZE], uint64_t *ret_size,
			       struct error *err)
{
	has_begun = true;
	if (is_held)
		(void)sem_wait(&goes_on);
	return __real_copy_digest(path, sha256, ret_size, err);
}

struct copy {
	uint8_t *bytes; /* owned */
	size_t len;
	uint64_t index;
	uint8_t sha256[SHA256_DIGEST_LENGTH];
};

static void free_copyp(struct copy *copy)
{
	free(copy->bytes);
}

static enum status op(struct fixture *f, const char *method, const ProtobufCMessage *request,
		      ProtobufCMessage **ret, struct error *err)
{
	return call(&f->operator, & holdfast__v1__operator__descriptor, method, request, ret, err);
}

static enum status read_part(struct fixture *f, const char *id, uint64_t offset,
			     Holdfast__V1__ReadBackupResponse **ret, struct error *err)
{
	ProtobufCMessage *response = NULL;
	Holdfast__V1__ReadBackupRequest request = V1(read_backup_request, .id = TEXT(id), .offset = offset);
	enum status status;

	status = op(f, "ReadBackup", &request.base, &response, err);
	*ret = (Holdfast__V1__ReadBackupResponse *)response;
	return status;
}

static Holdfast__V1__BeginBackupResponse *begin_backup(struct fixture *f)
{
	Holdfast__V1__BeginBackupRequest request = HOLDFAST__V1__BEGIN_BACKUP_REQUEST__INIT;
	ProtobufCMessage *response = NULL;

	assert_int_equal(op(f, "BeginBackup", &request.base, &response, NULL), STATUS_OK);
	return (Holdfast__V1__BeginBackupResponse *)response;
}

static void take_copy(struct fixture *f, struct copy *copy)
{
	cleanup_pb Holdfast__V1__BeginBackupResponse *begun = begin_backup(f);
	bool is_end = false;

	*copy = (struct copy){.bytes = malloc(begun->size_bytes), .index = begun->index};
	assert_non_null(copy->bytes);
	assert_int_equal(begun->sha256.len, sizeof(copy->sha256));
	while (!is_end) {
		cleanup_pb Holdfast__V1__ReadBackupResponse *part = NULL;

		assert_int_equal(read_part(f, begun->id, copy->len, &part, NULL), STATUS_OK);
		is_end = part->data.len == 0;
		assert_true(copy->len + part->data.len <= begun->size_bytes);
		memcpy(copy->bytes + copy->len, part->data.data ? part->data.data : (const uint8_t *)"",
		       part->data.len);
		copy->len += part->data.len;
	}
	assert_int_equal(copy->len, begun->size_bytes);
	(void)SHA256(copy->bytes, copy->len, copy->sha256);
	assert_memory_equal(copy->sha256, begun->sha256.data, sizeof(copy->sha256));
}

static enum status begin_restore(struct fixture *f, struct copy *copy, char id[static 64], struct error *err)
{
	Holdfast__V1__BeginRestoreRequest request =
		V1(begin_restore_request, .size_bytes = copy->len,
		   .sha256 = (ProtobufCBinaryData){sizeof(copy->sha256), copy->sha256});
	ProtobufCMessage *response = NULL;

	TRY(op(f, "BeginRestore", &request.base, &response, err));
	(void)str_copy(id, 64, ((Holdfast__V1__BeginRestoreResponse *)response)->id);
	protobuf_c_message_free_unpacked(response, NULL);
	return STATUS_OK;
}

static enum status write_part(struct fixture *f, char *id, uint64_t offset, uint8_t *bytes, size_t n,
			      struct error *err)
{
	Holdfast__V1__WriteRestoreRequest request = V1(write_restore_request, .id = id, .offset = offset,
						       .data = (ProtobufCBinaryData){n, bytes});

	return op(f, "WriteRestore", &request.base, NULL, err);
}

static void send_copy(struct fixture *f, struct copy *copy, char id[static 64])
{
	enum { PART = 100000 };

	assert_int_equal(begin_restore(f, copy, id, NULL), STATUS_OK);
	for (size_t at = 0; at < copy->len; at += PART) {
		size_t n = copy->len - at < PART ? copy->len - at : PART;

		assert_int_equal(write_part(f, id, at, copy->bytes + at, n, NULL), STATUS_OK);
	}
}

static enum status apply(struct fixture *f, char *id, const char *reason,
			 Holdfast__V1__ApplyRestoreResponse **ret, struct error *err)
{
	ProtobufCMessage *response = NULL;
	Holdfast__V1__ApplyRestoreRequest request =
		V1(apply_restore_request, .id = id, .reason = TEXT(reason));
	enum status status;

	status = op(f, "ApplyRestore", &request.base, &response, err);
	if (ret)
		*ret = (Holdfast__V1__ApplyRestoreResponse *)response;
	else if (response)
		protobuf_c_message_free_unpacked(response, NULL);
	return status;
}

static void restore(struct fixture *f, struct copy *copy)
{
	char id[64];

	send_copy(f, copy, id);
	assert_int_equal(apply(f, id, "test", NULL, NULL), STATUS_OK);
	UNTIL(f, f->server->restarting);
	restart(f);
}

static int files_in(struct fixture *f, const char *folder, const char *prefix)
{
	char path[PATH_MAX];
	const struct dirent *entry;
	DIR *dir;
	int n = 0;

	(void)str_format(path, sizeof(path), "%s/%s", f->dir, folder);
	dir = NON_NULL(opendir(path));
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.' && str_starts_with(entry->d_name, prefix);
	(void)closedir(dir);
	return n;
}

static uint64_t epoch_of(struct fixture *f)
{
	const Holdfast__V1__Epoch *epoch = records_get(&f->server->state.records, KEY_EPOCH);

	return epoch ? epoch->number : 0;
}

/* --- backup --- */

CLUSTER_TEST(a_backup_is_whole_private_and_goes_when_it_was_read)
{
	cleanup(free_copyp) struct copy copy = {NULL};
	Holdfast__V1__ReadBackupResponse *part = NULL;
	cleanup_pb Holdfast__V1__BeginBackupResponse *begun = NULL;
	char path[PATH_MAX];
	struct stat st;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	begun = begin_backup(f);
	(void)str_format(path, sizeof(path), "%s/backup/%s.db", f->dir, begun->id);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, begun->size_bytes);
	assert_int_equal(read_part(f, begun->id, begun->size_bytes + 1, &part, NULL), STATUS_OUT_OF_RANGE);
	take_copy(f, &copy); /* replaces it */
	assert_int_equal(read_part(f, begun->id, 0, &part, NULL), STATUS_NOT_FOUND);
	assert_int_equal(files_in(f, "backup", ""), 0);
	assert_memory_equal(copy.bytes, "SQLite format 3", 16);
	assert_true(copy.index >= 2);
}

static void count_reply(enum status status, const ProtobufCMessage *response, const struct error *err,
			void *userdata)
{
	int *counts = userdata;

	counts[status == STATUS_OK ? 0 : 1]++;
}

CLUSTER_TEST(a_backup_counts_as_made_once_it_was_read_to_its_end)
{
	int64_t from_s = clock_realtime_ms() / 1000;
	struct copy copy;

	holdfast__v1__begin_backup_response__free_unpacked(begin_backup(f), NULL);
	settle(f);
	assert_int_equal(metric_of(f, "backup_timestamp_seconds"), 0);
	expect_warning_events(f, "backup", 1, 0);
	assert_int_equal(n_events(f, "warning backup", "Server.Warn", "no backup was ever read to its end"),
			 1);
	take_copy(f, &copy);
	settle(f);
	expect_warning_events(f, "backup", 1, 1);
	assert_in_range(metric_of(f, "backup_timestamp_seconds"), from_s, clock_realtime_ms() / 1000);
	restart(f);
	assert_in_range(metric_of(f, "backup_timestamp_seconds"), from_s, clock_realtime_ms() / 1000);
	restore(f, &copy); /* of before it was read */
	assert_int_equal(metric_of(f, "backup_timestamp_seconds"), 0);
	free(copy.bytes);
}

/* A month later its age is that of a new one. */
CLUSTER_TEST(a_backup_of_a_clock_that_was_ahead_silences_no_alarm)
{
	const int64_t minute_ms = 60 * 1000, month_ms = INT64_C(30) * 24 * 60 * minute_ms;
	struct copy copy;

	unit_clock_step(month_ms);
	take_copy(f, &copy);
	settle(f);
	free(copy.bytes);
	expect_warning_events(f, "backup", 0, 0);
	unit_clock_step(-3 * minute_ms);
	assert_int_not_equal(metric_of(f, "backup_timestamp_seconds"), 0);
	unit_clock_step(3 * minute_ms - month_ms); /* it is set right */
	assert_int_equal(metric_of(f, "backup_timestamp_seconds"), 0);
	expect_warning_events(f, "backup", 1, 0);
	assert_int_equal(n_events(f, "warning backup", "Server.Warn", "or only while the clock was ahead"),
			 1);
	take_copy(f, &copy);
	settle(f);
	free(copy.bytes);
	expect_warning_events(f, "backup", 1, 1);
}

CLUSTER_TEST(one_backup_is_made_at_a_time)
{
	Holdfast__V1__BeginBackupRequest request = HOLDFAST__V1__BEGIN_BACKUP_REQUEST__INIT;
	int counts[2] = {0, 0};

	for (int i = 0; i < 2; i++)
		assert_ok(rpc_client_call(f->operator.client, &holdfast__v1__operator__descriptor,
					  "BeginBackup", &request.base, TIMEOUT_US, count_reply, counts, NULL,
					  NULL));
	UNTIL(f, counts[0] + counts[1] == 2);
	assert_int_equal(counts[0], 1);
	assert_int_equal(counts[1], 1);
}

static void damage_history(struct fixture *f)
{
	char path[PATH_MAX];
	sqlite3 *db = NULL;

	(void)str_format(path, sizeof(path), "%s/holdfast.db", f->dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db, "UPDATE kv SET value = x'ff' WHERE key LIKE 'freed/%'", NULL, NULL, NULL),
		SQLITE_OK);
	assert_int_equal(sqlite3_changes(db), 1);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

/* The server starts: history is read when it is shown. */
CASE(a_store_whose_history_is_damaged_gives_no_backup)
{
	Holdfast__V1__BeginBackupRequest request = HOLDFAST__V1__BEGIN_BACKUP_REQUEST__INIT;
	struct claim held;
	struct error err;

	take_volume(f);
	held = claim_of(f, ALLOC_1);
	fake_node_send_released(&f->n1, &held);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	restart_with(f, damage_history);
	assert_error(op(f, "BeginBackup", &request.base, NULL, &err), STATUS_DATA_LOSS, err,
		     "its record freed/default/db/");
	assert_int_equal(files_in(f, "backup", ""), 0);
}

CLUSTER_TEST(a_server_that_ends_leaves_no_backup)
{
	holdfast__v1__begin_backup_response__free_unpacked(begin_backup(f), NULL);
	assert_int_equal(files_in(f, "backup", ""), 1);
	restart(f);
	assert_int_equal(files_in(f, "backup", ""), 0);
}

CASE(a_node_gets_no_backup)
{
	static const char *const methods[] = {"BeginBackup", "ReadBackup", "BeginRestore", "WriteRestore",
					      "ApplyRestore"};
	static const ProtobufCMessageDescriptor *const requests[] = {
		&holdfast__v1__begin_backup_request__descriptor,
		&holdfast__v1__read_backup_request__descriptor,
		&holdfast__v1__begin_restore_request__descriptor,
		&holdfast__v1__write_restore_request__descriptor,
		&holdfast__v1__apply_restore_request__descriptor,
	};

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		cleanup_pb ProtobufCMessage *request =
			NON_NULL(protobuf_c_message_unpack(requests[i], NULL, 0, NULL));

		assert_int_equal(
			call(&f->n1, &holdfast__v1__operator__descriptor, methods[i], request, NULL, NULL),
			STATUS_PERMISSION_DENIED);
	}
}

/* --- restore --- */

CLUSTER_TEST(a_restored_server_is_as_the_copy_in_a_new_epoch)
{
	cleanup(free_copyp) struct copy copy = {NULL};
	cleanup_pb Holdfast__V1__ApplyRestoreResponse *applied = NULL;
	const struct volume_entry *volume;
	uint64_t index;
	char id[64];

	take_volume(f);
	settle(f);
	take_copy(f, &copy);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK); /* will be forgotten */
	for (int i = 0; i < 20; i++) /* each is recorded: more than is put below */
		holdfast__v1__begin_backup_response__free_unpacked(begin_backup(f), NULL);
	index = kv_revision(f->server->kv);
	assert_true(index > copy.index);
	send_copy(f, &copy, id);
	assert_int_equal(apply(f, id, "disk died", &applied, NULL), STATUS_OK);
	assert_int_equal(applied->epoch, 1);
	assert_int_equal(applied->index, copy.index);
	assert_int_equal(applied->nodes_to_report, 2);
	UNTIL(f, f->server->restarting);
	restart(f);
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.desired_status, DESIRED_RUN);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(claim_of(f, ALLOC_1).generation, 1);
	volume = NON_NULL(state_volume(&f->server->state, "default", "db"));
	assert_int_equal(volume->volume.generation >> 32, 1);
	assert_true(state_generation_floor(&f->server->state) >= UINT64_C(1) << 32);
	assert_int_equal(epoch_of(f), 1);
	assert_true(kv_revision(f->server->kv) > index); /* what somebody has seen is never reached again */
	assert_int_equal(files_in(f, "", "holdfast.db.before-restore-"), 1);
	assert_int_equal(files_in(f, "restore", ""), 0);
	assert_int_equal(files_in(f, "", "restore.pending"), 0);
}

static void on_applied(enum status status, const ProtobufCMessage *response, const struct error *err,
		       void *userdata)
{
	*(int *)userdata = (int)status;
}

/* The epoch would not wait for a node that is registered meanwhile. */
CLUSTER_TEST(while_a_restore_is_applied_no_node_is_registered)
{
	cleanup(free_copyp) struct copy copy = {NULL};
	char id[64];
	Holdfast__V1__ApplyRestoreRequest request =
		V1(apply_restore_request, .id = id, .reason = TEXT("disk died"));
	int applied = -1;
	struct error err;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	take_copy(f, &copy);
	send_copy(f, &copy, id);
	assert_int_equal(sem_init(&goes_on, 0, 0), 0);
	is_held = true;
	has_begun = false;
	assert_ok(rpc_client_call(f->operator.client, &holdfast__v1__operator__descriptor, "ApplyRestore",
				  &request.base, TIMEOUT_US, on_applied, &applied, NULL, &err));
	UNTIL(f, has_begun);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	is_held = false;
	assert_int_equal(sem_post(&goes_on), 0);
	assert_false(f->n2.welcomed);
	assert_int_equal(f->n2.closed_status, STATUS_UNAVAILABLE);
	UNTIL(f, f->server->restarting);
	assert_int_equal(applied, STATUS_OK);
	restart(f);
	assert_int_equal(history_missing_nodes(f->server), 0);
}

/* How many restores the audit knows of; @ret_why of the last one. */
static size_t recorded_restores(struct fixture *f, char ret_why[static 256])
{
	cleanup_pb Holdfast__V1__ListAuditResponse *response = NULL;
	Holdfast__V1__ListAuditRequest request = V1(list_audit_request, .object = "store");
	size_t n = 0;

	assert_int_equal(audit_list(f->server, &request, &response, NULL), STATUS_OK);
	for (size_t i = 0; i < response->n_records; i++) {
		if (!str_eq(response->records[i]->what, "Operator.ApplyRestore"))
			continue;
		n++;
		assert_string_equal(response->records[i]->who, "server");
		(void)str_copy(ret_why, 256, response->records[i]->why);
	}
	return n;
}

CLUSTER_TEST(the_audit_of_the_copy_continues_with_the_restore)
{
	cleanup(free_copyp) struct copy copy = {NULL};
	cleanup(free_copyp) struct copy second = {NULL};
	char why[256] = "";

	take_copy(f, &copy);
	restore(f, &copy);
	UNTIL(f, recorded_restores(f, why) > 0); /* it is written behind the start */
	assert_int_equal(recorded_restores(f, why), 1);
	assert_non_null(strstr(why, "epoch 1, by operator/"));
	restart(f); /* recorded once */
	assert_int_equal(recorded_restores(f, why), 1);
	take_copy(f, &second);
	restore(f, &second);
	UNTIL(f, recorded_restores(f, why) > 1);
	assert_int_equal(recorded_restores(f, why), 2);
	assert_non_null(strstr(why, "epoch 2, "));
}

/* Its receipt stays with the node, which says it again. */
CLUSTER_TEST(nothing_is_acknowledged_once_a_restore_was_answered)
{
	cleanup(free_copyp) struct copy copy = {NULL};
	struct claim claim;
	struct error err;
	uint64_t last;
	char id[64];
	int n_acks;

	take_volume(f);
	take_copy(f, &copy);
	send_copy(f, &copy, id);
	assert_int_equal(apply(f, id, "test", NULL, NULL), STATUS_OK);
	last = kv_revision(f->server->kv);
	claim = claim_of(f, ALLOC_1);
	n_acks = f->n1.acks;
	fake_node_send_released(&f->n1, &claim);
	assert_error(stop_alloc(f, ALLOC_1, &err), STATUS_UNAVAILABLE, err, "another store takes the place");
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_UNAVAILABLE); /* as it is already */
	UNTIL(f, f->server->restarting);
	assert_int_equal(f->n1.acks, n_acks);
	assert_int_equal(kv_revision(f->server->kv), last);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	restart(f);
}

/* The decision cannot be written: the store continues being the store. */
CLUSTER_TEST(a_restore_that_cannot_be_decided_leaves_the_server_as_it_was)
{
	cleanup(free_copyp) struct copy copy = {NULL};
	char note[PATH_MAX];
	struct error err;
	char id[64];

	take_volume(f);
	take_copy(f, &copy);
	send_copy(f, &copy, id);
	(void)str_format(note, sizeof(note), "%s/restore.pending", f->dir);
	assert_int_equal(mkdir(note, 0700), 0);
	assert_int_not_equal(apply(f, id, "test", NULL, &err), STATUS_OK);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(rmdir(note), 0);
}

/* The copy as somebody else has made it. */
static void tamper(struct fixture *f, const struct copy *copy, const char *sql, struct copy *ret)
{
	char path[PATH_MAX];
	sqlite3 *db = NULL;
	char *bytes = NULL, *message = NULL;

	(void)str_format(path, sizeof(path), "%s/tampered.db", f->dir);
	assert_int_equal(file_write_atomic(path, 0600, copy->bytes, copy->len), 0);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_msg(sqlite3_exec(db, sql, NULL, NULL, &message) == SQLITE_OK, "%s: %s", sql, message);
	seal_store(db);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	*ret = (struct copy){.index = copy->index};
	assert_int_equal(file_read(path, 64 << 20, &bytes, &ret->len), 0);
	ret->bytes = (uint8_t *)bytes;
	(void)SHA256(ret->bytes, ret->len, ret->sha256);
	assert_int_equal(unlink(path), 0);
}

static enum status try_restore(struct fixture *f, struct copy *copy, struct error *err)
{
	char id[64];

	send_copy(f, copy, id);
	return apply(f, id, "test", NULL, err);
}

/* Each in a copy that is well otherwise. The store in use stays as it is, and nothing lies about. */
CASE(a_hostile_copy_is_refused_and_the_store_stays)
{
	static const struct {
		const char *sql, *why;
	} copies[] = {
		{"CREATE TRIGGER t AFTER INSERT ON kv BEGIN DELETE FROM kv; END", "trigger 't'"},
		{"CREATE TRIGGER t AFTER UPDATE ON position BEGIN DELETE FROM kv; END", "trigger 't'"},
		{"ALTER TABLE kv RENAME TO a; CREATE VIEW kv AS SELECT * FROM a", "table 'a'"},
		{"CREATE VIEW \"x\"\"; COMMIT; ATTACH '/tmp/holdfast-attack' AS y; CREATE TABLE y.t(a); --\" "
		 "AS SELECT 1",
		 "view 'x"},
		{"ALTER TABLE kv RENAME TO b; CREATE TABLE kv(key TEXT COLLATE NOCASE NOT NULL PRIMARY KEY, "
		 "value BLOB NOT NULL, create_revision INTEGER NOT NULL, mod_revision INTEGER NOT NULL, sum "
		 "INTEGER NOT NULL, text TEXT) STRICT; INSERT INTO kv SELECT * FROM b; DROP TABLE b",
		 "table 'kv'"},
		{"PRAGMA user_version=99", "newer version"},
		{"PRAGMA application_id=1", "not one of Holdfast"},
		{"DELETE FROM position", "position is missing"},
		{"UPDATE position SET revision = -1", "position"},
		{"UPDATE position SET revision = 9223372036854775807", "position"},
		{"INSERT OR REPLACE INTO kv VALUES ('meta/epoch', x'08ffffffffffffffffff01', 1, 1, 0, NULL)",
		 "epoch 18446744073709551615"},
		{"UPDATE kv SET value = zeroblob(1 << 24) WHERE key = 'volume/default/db'",
		 "larger than any"},
		{"UPDATE kv SET value = x'ffffffff' WHERE key = 'volume/default/db'", "volume/default/db"},
		{"UPDATE kv SET key = 'volume/default/other' WHERE key = 'volume/default/db'",
		 "calls itself volume/default/db"},
		{"UPDATE kv SET key = 'volume/default/' || char(10) || 'x' WHERE key = 'volume/default/db'",
		 "its name is no text"},
		{"DELETE FROM kv WHERE key = 'volume/default/db'", "claim"}, /* it links nowhere */
		{"UPDATE kv SET value = x'0805' WHERE key = 'meta/schema'", "schema"},
	};
	cleanup(free_copyp) struct copy copy = {NULL};
	uint64_t index;

	take_volume(f);
	take_copy(f, &copy);
	for (size_t i = 0; i < ARRAY_SIZE(copies); i++) {
		cleanup(free_copyp) struct copy hostile = {NULL};
		struct error err = {.status = STATUS_OK};

		tamper(f, &copy, copies[i].sql, &hostile);
		assert_msg(try_restore(f, &hostile, &err) != STATUS_OK, "taken: %s", copies[i].sql);
		assert_msg(strstr(err.msg, copies[i].why), "%s: %s", copies[i].sql, err.msg);
		for (const char *p = err.msg; *p != '\0'; p++)
			assert_true(*p >= ' ' && *p <= '~');
		assert_false(f->server->restarting);
		assert_int_equal(files_in(f, "restore", ""), 0);
	}
	assert_int_not_equal(access("/tmp/holdfast-attack", F_OK), 0);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	index = kv_revision(f->server->kv);
	restart(f);
	assert_true(kv_revision(f->server->kv) >= index);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(epoch_of(f), 0);
}

/* Every page in turn is filled with something else: never more than a refusal, or a store that is whole. */
CASE(a_copy_with_a_page_of_rubbish_never_crashes_the_server)
{
	enum { PAGE = 4096 };
	cleanup(free_copyp) struct copy copy = {NULL};
	unsigned int seed = 1;
	int n_refused = 0;

	take_volume(f);
	take_copy(f, &copy);
	for (size_t at = 0; at + PAGE <= copy.len; at += PAGE) {
		cleanup(free_copyp) struct copy bad = {.bytes = malloc(copy.len), .len = copy.len};
		struct error err;

		assert_non_null(bad.bytes);
		memcpy(bad.bytes, copy.bytes, copy.len);
		for (size_t i = at == 0 ? 100 : 0; i < PAGE; i += 1 + (size_t)rand_r(&seed) % 64)
			bad.bytes[at + i] = (uint8_t)rand_r(&seed);
		(void)SHA256(bad.bytes, bad.len, bad.sha256);
		if (try_restore(f, &bad, &err) == STATUS_OK) {
			UNTIL(f, f->server->restarting); /* what was changed means nothing */
			restart(f);
			continue;
		}
		n_refused++;
		assert_int_equal(files_in(f, "restore", ""), 0);
	}
	assert_true(n_refused > 0);
}

CLUSTER_TEST(every_restore_is_an_epoch_of_its_own_even_of_the_same_copy)
{
	cleanup(free_copyp) struct copy copy = {NULL};

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	take_copy(f, &copy);
	for (uint64_t epoch = 1; epoch <= 3; epoch++) {
		restore(f, &copy);
		assert_int_equal(epoch_of(f), epoch);
		assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.generation,
				 epoch << 32);
	}
}

CLUSTER_TEST(a_restore_of_a_running_server_waits_for_a_node_of_after_the_copy)
{
	cleanup(free_copyp) struct copy copy = {NULL};
	struct volume db = {.namespace = "default", .id = "db"};
	cleanup_pb Holdfast__V1__Mark *mark = NULL;
	struct error err;

	take_copy(f, &copy);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.welcomed);
	mark = mark_copy(f->n1.mark);
	for (int i = 0; i < 2; i++) { /* and counts it once */
		restore(f, &copy);
		assert_int_equal(history_missing_nodes(f->server), 1);
		assert_error(epoch_check(f->server, &db, &err), STATUS_UNAVAILABLE, err,
			     "1 node that was registered");
	}
	f->n1.shows = mark;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.welcomed);
	assert_int_equal(history_missing_nodes(f->server), 0);
}

CLUSTER_TEST(a_file_that_is_no_copy_is_refused_without_effect)
{
	cleanup(free_copyp) struct copy copy = {NULL};
	struct server *server = f->server;
	struct copy text = {.bytes = (uint8_t *)strdup("not a database"), .len = 14};
	struct error err;
	char id[64];

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	take_copy(f, &copy);
	(void)SHA256(text.bytes, text.len, text.sha256);
	send_copy(f, &text, id);
	assert_int_equal(apply(f, id, "test", NULL, &err), STATUS_DATA_LOSS);
	assert_int_equal(apply(f, id, "test", NULL, &err), STATUS_NOT_FOUND); /* it is gone */
	copy.sha256[0] ^= 1;
	send_copy(f, &copy, id);
	assert_error(apply(f, id, "test", NULL, &err), STATUS_DATA_LOSS, err, "digest differs");
	assert_ptr_equal(f->server, server);
	assert_false(server->restarting);
	assert_int_equal(epoch_of(f), 0);
	assert_int_equal(files_in(f, "restore", ""), 0);
	assert_int_equal(deregister_volume(f, NULL), STATUS_OK); /* as before */
	free(text.bytes);
}

CLUSTER_TEST(every_part_is_checked)
{
	cleanup_free uint8_t *big = NON_NULL(calloc(1, RESTORE_CHUNK_MAX + 1));
	struct copy copy = {.bytes = big, .len = RESTORE_CHUNK_MAX + 1};
	Holdfast__V1__BeginRestoreRequest begin = HOLDFAST__V1__BEGIN_RESTORE_REQUEST__INIT;
	struct error err;
	char id[64], other[] = "nothing";

	assert_int_equal(op(f, "BeginRestore", &begin.base, NULL, &err), STATUS_INVALID_ARGUMENT);
	begin.size_bytes = RESTORE_SIZE_MAX + 1;
	begin.sha256 = (ProtobufCBinaryData){sizeof(copy.sha256), copy.sha256};
	assert_int_equal(op(f, "BeginRestore", &begin.base, NULL, &err), STATUS_INVALID_ARGUMENT);
	begin.size_bytes = 1;
	begin.sha256.len--;
	assert_int_equal(op(f, "BeginRestore", &begin.base, NULL, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(begin_restore(f, &copy, id, NULL), STATUS_OK);
	assert_int_equal(write_part(f, other, 0, big, 1, &err), STATUS_NOT_FOUND);
	assert_int_equal(write_part(f, id, 0, big, 0, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(write_part(f, id, 0, big, RESTORE_CHUNK_MAX + 1, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(write_part(f, id, 1, big, 1, &err), STATUS_OUT_OF_RANGE);
	assert_int_equal(write_part(f, id, 0, big, RESTORE_CHUNK_MAX, &err), STATUS_OK);
	assert_int_equal(write_part(f, id, 0, big, 1, &err), STATUS_OUT_OF_RANGE); /* a part comes once */
	assert_int_equal(apply(f, id, "test", NULL, &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(apply(f, id, "", NULL, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(write_part(f, id, RESTORE_CHUNK_MAX, big, 2, &err), STATUS_OUT_OF_RANGE);
	assert_int_equal(write_part(f, id, RESTORE_CHUNK_MAX, big, 1, &err), STATUS_OK);
	assert_int_equal(apply(f, id, "test", NULL, &err), STATUS_DATA_LOSS); /* zeroes are no digest */
}

/* --- offline --- */

enum { OTHER_UID = 65533 };

struct offline {
	char path[PATH_MAX];
	bool other_cluster;
	enum status expected;
	bool is_store_gone;
	bool is_store_missing; /* with its mark */
	bool is_of_other_user; /* the data folder */
	struct new_epoch_result result;
};

static struct offline offline; /* of restart_with()'s function, which has no room for it */

static void restore_without_server(struct fixture *f)
{
	struct config config = {.cluster = "c1"};
	char path[PATH_MAX];

	if (offline.other_cluster)
		(void)str_copy(config.cluster, sizeof(config.cluster), "c2");
	(void)str_copy(config.data_dir, sizeof(config.data_dir), f->dir);
	(void)str_format(path, sizeof(path), "%s/holdfast.db", f->dir);
	if (offline.is_store_gone)
		assert_int_equal(truncate(path, 100), 0);
	if (offline.is_store_missing) {
		assert_int_equal(unlink(path), 0);
		(void)str_format(path, sizeof(path), "%s/holdfast.mark", f->dir);
		assert_int_equal(unlink(path), 0);
	}
	if (offline.is_of_other_user && geteuid() != 0)
		(void)str_copy(config.data_dir, sizeof(config.data_dir), "/");
	else if (offline.is_of_other_user)
		assert_int_equal(chown(f->dir, OTHER_UID, (gid_t)-1), 0);
	assert_int_equal(restore_from(&config, offline.path, &offline.result), offline.expected);
	if (offline.is_of_other_user && geteuid() == 0)
		assert_int_equal(chown(f->dir, 0, (gid_t)-1), 0);
}

static void write_copy(struct fixture *f, const struct copy *copy)
{
	(void)str_format(offline.path, sizeof(offline.path), "%s/copy.db", f->dir);
	assert_int_equal(file_write_atomic(offline.path, 0600, copy->bytes, copy->len), 0);
}

CLUSTER_TEST(a_dead_server_is_restored_too)
{
	cleanup(free_copyp) struct copy copy = {NULL};
	uint64_t first;

	offline = (struct offline){.expected = STATUS_OK};
	take_copy(f, &copy);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	write_copy(f, &copy);
	restart_with(f, restore_without_server);
	assert_null(state_volume(&f->server->state, "default", "db"));
	assert_int_equal(epoch_of(f), 1);
	offline.is_store_gone = true; /* what it counted is not known any more */
	restart_with(f, restore_without_server);
	first = epoch_of(f);
	assert_true(first > 1000000);
	offline.is_store_gone = false;
	restart_with(f, restore_without_server);
	assert_int_equal(epoch_of(f), first + 1);
}

/* The epochs after the copy were counted by what is lost: none of their numbers may be used again. */
CLUSTER_TEST(a_restore_without_store_and_mark_begins_no_epoch_twice)
{
	cleanup(free_copyp) struct copy copy = {NULL};

	offline = (struct offline){.expected = STATUS_OK};
	take_copy(f, &copy);
	write_copy(f, &copy);
	restart_with(f, restore_without_server);
	assert_int_equal(epoch_of(f), 1);
	offline.is_store_missing = true;
	restart_with(f, restore_without_server);
	assert_true(epoch_of(f) > 1000000);
}

CLUSTER_TEST(a_running_server_and_another_cluster_are_left_alone)
{
	cleanup(free_copyp) struct copy copy = {NULL};

	offline = (struct offline){.expected = STATUS_FAILED_PRECONDITION};
	take_copy(f, &copy);
	write_copy(f, &copy);
	restore_without_server(f); /* while it is running */
	offline.is_of_other_user = true;
	restart_with(f, restore_without_server);
	offline.is_of_other_user = false;
	offline.other_cluster = true;
	restart_with(f, restore_without_server);
	assert_int_equal(epoch_of(f), 0);
}
