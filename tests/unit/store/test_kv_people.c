/* SPDX-License-Identifier: Apache-2.0 */
/* What people and other programs get from the database of a store that is running: views, reads, copies. */

#include "fixture.h"

#include "base/fd.h"
#include "store/kv_sqlite.h"
#include "store/writer.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

static const struct kv_column pet_columns[] = {
	{"name", "name", KV_COLUMN_WORD, NULL, NULL},	   {"kind", "kind", KV_COLUMN_WORD, "CAT", NULL},
	{"legs", "legs", KV_COLUMN_NUMBER, NULL, NULL},	   {"tame", "is.tame", KV_COLUMN_FLAG, NULL, NULL},
	{"born", "born_ms", KV_COLUMN_TIME, NULL, NULL},   {"first", "names[0]", KV_COLUMN_WORD, "", NULL},
	{"food", "food", KV_COLUMN_WORD, NULL, "pantry/"},
};
static const struct kv_view pets = {"pet", "pet/", pet_columns, ARRAY_SIZE(pet_columns)};

struct rows {
	char text[4096];
};

static int append_row(void *userdata, int n, char **values, char **names)
{
	struct rows *rows = userdata;
	size_t at = strlen(rows->text);

	for (int i = 0; i < n; i++) {
		(void)str_format(rows->text + at, sizeof(rows->text) - at, "%s%s",
				 values[i] ? values[i] : "-", i + 1 < n ? "|" : "\n");
		at = strlen(rows->text);
	}
	return 0;
}

/*
 * Reads as sqlite3 -readonly does it, in a process of its own: locks of one process do not meet each other.
 * It is forked while no thread of a store runs: one that begins holds locks of the allocator, which a child
 * never gets.
 */
static struct {
	int fd;
	pid_t pid;
} reader;

static void read_once(int fd, const char *path, const char *sql)
{
	sqlite3 *db = NULL;
	struct rows out = {""};
	int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, sql, append_row, &out, NULL);
	if (rc != SQLITE_OK)
		(void)str_format(out.text, sizeof(out.text), "%s", sqlite3_errmsg(db));
	(void)sqlite3_close(db);
	if (send(fd, out.text, strlen(out.text) + 1, 0) < 0)
		_exit(1);
}

static void start_reader(void)
{
	char request[8192]; /* the path, and after its NUL the statement */
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	reader.pid = fork();
	assert_true(reader.pid >= 0);
	reader.fd = ends[0];
	if (reader.pid > 0) {
		(void)close(ends[1]);
		return;
	}
	(void)close(ends[0]);
	while (recv(ends[1], request, sizeof(request), 0) > 0)
		read_once(ends[1], request, request + strlen(request) + 1);
	_exit(0);
}

static const char *read_only(const char *path, const char *sql)
{
	static struct rows rows;
	struct iovec parts[] = {{(void *)(uintptr_t)path, strlen(path) + 1},
				{(void *)(uintptr_t)sql, strlen(sql) + 1}};

	assert_true(writev(reader.fd, parts, ARRAY_SIZE(parts)) > 0);
	assert_true(recv(reader.fd, rows.text, sizeof(rows.text), 0) > 0);
	return rows.text;
}

static int setup(void **state)
{
	start_reader();
	return fixture_setup(state);
}

static int teardown(void **state)
{
	int rc = fixture_teardown(state);
	int status;

	(void)close(reader.fd);
	assert_int_equal(waitpid(reader.pid, &status, 0), reader.pid);
	assert_int_equal(status, 0);
	return rc;
}

static void put_text(struct fixture *f, const char *key, const char *text)
{
	struct kv_op op = {.key = key, .value = "v", .len = 1, .text = text};

	assert_int_equal(commit(f, &(struct kv_txn){.ops = &op, .n_ops = 1}).err.status, STATUS_OK);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(the_sqlite_shell_reads_a_running_store)
{
	put_text(f, "a", "{\"n\":1}");
	assert_string_equal(read_only(f->path, "SELECT key, text FROM kv"), "a|{\"n\":1}\n");
	put_text(f, "b", NULL);
	assert_string_equal(read_only(f->path, "SELECT key, text FROM kv"), "a|{\"n\":1}\nb|-\n");
}

CASE(a_view_has_words_numbers_flags_and_times)
{
	assert_int_equal(kv_define_views(f->kv, &pets, 1, NULL), STATUS_OK);
	put_text(f, "pet/a/rex",
		 "{\"name\":\"Rex\",\"kind\":\"DOG\",\"legs\":\"4\",\"is\":{\"tame\":true},"
		 "\"born_ms\":\"1769860800123\",\"names\":[\"R\",\"X\"]}");
	put_text(f, "pet/b", "{}");
	put_text(f, "pantry/a/rex", "{\"food\":\"bone\"}");
	put_text(f, "pet0", "{\"name\":\"behind the last pet\"}");
	assert_string_equal(read_only(f->path, "SELECT * FROM pet ORDER BY key"),
			    "a/rex|Rex|DOG|4|yes|2026-01-31T12:00:00.123Z|R|bone|1|1\n"
			    "b|-|CAT|0|no|-||-|2|2\n");
	put_text(f, "pet/b", NULL); /* a value without a text is a row without words */
	assert_string_equal(read_only(f->path, "SELECT key, name, modify_index FROM pet WHERE key = 'b'"),
			    "b|-|5\n");
}

CASE(views_follow_their_definition_and_nothing_is_written_when_it_stays)
{
	const struct kv_view renamed = {"animal", "pet/", pet_columns, 1};
	const char *count = "SELECT count(*) FROM sqlite_master WHERE type = 'view'";
	char before[64];

	assert_int_equal(kv_define_views(f->kv, &pets, 1, NULL), STATUS_OK);
	assert_int_equal(kv_define_views(f->kv, &renamed, 1, NULL), STATUS_OK);
	assert_string_equal(read_only(f->path, count), "1\n");
	assert_string_equal(read_only(f->path, "SELECT * FROM animal"), "");
	(void)str_copy(before, sizeof(before), read_only(f->path, "PRAGMA schema_version"));
	assert_int_equal(kv_define_views(f->kv, &renamed, 1, NULL), STATUS_OK);
	assert_string_equal(read_only(f->path, "PRAGMA schema_version"), before);
	assert_int_equal(kv_define_views(f->kv, NULL, 0, NULL), STATUS_OK);
	assert_string_equal(read_only(f->path, count), "0\n");
	(void)put(f, "a", "1"); /* statements prepared before are none the worse */
}

CASE(the_text_of_a_transaction_is_bounded)
{
	cleanup_free char *text = NON_NULL(malloc(KV_TEXT_MAX + 1));
	struct kv_op op = {.key = "a", .value = "v", .len = 1, .text = text};
	const struct kv_op deletion = {.key = "a", .text = "{}"};
	struct error err;

	memset(text, 'x', KV_TEXT_MAX);
	text[KV_TEXT_MAX] = '\0';
	assert_error(kv_submit(f->kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, NULL, NULL, &err),
		     STATUS_INVALID_ARGUMENT, err, "bytes of text; at most 1048576");
	text[KV_TEXT_MAX - 1] = '\0'; /* with its NUL exactly the limit */
	assert_int_equal(commit(f, &(struct kv_txn){.ops = &op, .n_ops = 1}).err.status, STATUS_OK);
	assert_error(kv_submit(f->kv, &(struct kv_txn){.ops = &deletion, .n_ops = 1}, NULL, NULL, &err),
		     STATUS_INVALID_ARGUMENT, err, "text without a value");
}

CASE(a_copy_is_whole_and_private_and_can_be_opened)
{
	char copy[TEMP_PATH_SIZE], path[TEMP_PATH_SIZE];
	struct stat st;
	uint64_t revision = 0;
	struct error err;

	(void)put(f, "a", "1");
	(void)put(f, "b", "2");
	(void)temp_dir_path(copy, f->dir, "copy.db");
	assert_int_equal(kv_copy_sqlite(f->path, copy, &revision, NULL), STATUS_OK);
	assert_int_equal(revision, 2);
	assert_int_equal(stat(copy, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(kv_copy_sqlite(f->path, copy, &revision, &err), STATUS_ALREADY_EXISTS);
	(void)put(f, "c", "3"); /* not in the copy */
	fixture_close(f);
	(void)str_copy(path, sizeof(path), f->path);
	(void)str_copy(f->path, sizeof(f->path), copy);
	fixture_open(f);
	assert_string_equal(range_text(f, ""), "a=1@1,1 b=2@2,2 ");
	(void)str_copy(f->path, sizeof(f->path), path);
}

CASE(a_copy_with_a_changed_record_is_detected)
{
	char copy[TEMP_PATH_SIZE];
	sqlite3 *db = NULL;
	uint64_t revision;
	struct error err;

	(void)put(f, "a", "1");
	(void)put(f, "b", "2");
	(void)temp_dir_path(copy, f->dir, "copy.db");
	assert_int_equal(kv_copy_sqlite(f->path, copy, &revision, NULL), STATUS_OK);
	assert_int_equal(kv_check_copy(copy, NULL), STATUS_OK);
	assert_int_equal(sqlite3_open(copy, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "UPDATE kv SET value = x'33' WHERE key = 'b'", NULL, NULL, NULL),
			 SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	assert_error(kv_check_copy(copy, &err), STATUS_DATA_LOSS, err, "its record b is not as written");
}

/* In the table or in the tree of keys: in the one the record has another key, in the other nobody finds it.
 */
CASE(a_copy_with_a_flipped_bit_in_a_key_is_found_out)
{
	char copy[TEMP_PATH_SIZE], broken[TEMP_PATH_SIZE];
	cleanup_free char *bytes = NULL;
	char *at, *from;
	uint64_t revision;
	size_t n, n_found = 0;

	(void)put(f, "key-of-a-record", "1");
	(void)temp_dir_path(copy, f->dir, "copy.db");
	(void)temp_dir_path(broken, f->dir, "broken.db");
	assert_int_equal(kv_copy_sqlite(f->path, copy, &revision, NULL), STATUS_OK);
	assert_int_equal(file_read(copy, 1 << 24, &bytes, &n), 0);
	for (from = bytes; (at = memmem(from, n - (size_t)(from - bytes), "key-of-a-record", 15));
	     from = at + 1) {
		at[7] ^= 1;
		assert_int_equal(file_write_atomic(broken, 0600, bytes, n), 0);
		assert_int_equal(kv_check_copy(broken, NULL), STATUS_DATA_LOSS);
		at[7] ^= 1;
		n_found++;
	}
	assert_int_equal(n_found, 2);
}

CASE(reading_a_copy_leaves_no_file_beside_it)
{
	static const char *const names[] = {"copy.db", "100%25 of?it#1.db"};
	uint64_t revision;

	(void)put(f, "a", "1");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char copy[TEMP_PATH_SIZE], beside[TEMP_PATH_SIZE + 8];
		sqlite3 *db = NULL;

		(void)temp_dir_path(copy, f->dir, names[i]);
		assert_int_equal(kv_copy_sqlite(f->path, copy, &revision, NULL), STATUS_OK);
		assert_int_equal(sqlite3_open(copy, &db),
				 SQLITE_OK); /* as a file that was copied by hand is */
		assert_int_equal(sqlite3_exec(db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL), SQLITE_OK);
		assert_int_equal(sqlite3_close(db), SQLITE_OK);
		assert_int_equal(kv_check_copy(copy, NULL), STATUS_OK);
		(void)snprintf(beside, sizeof(beside), "%s-wal", copy);
		assert_int_equal(access(beside, F_OK), -1);
		(void)snprintf(beside, sizeof(beside), "%s-shm", copy);
		assert_int_equal(access(beside, F_OK), -1);
	}
}

CASE(a_copy_of_nothing_leaves_nothing)
{
	char copy[TEMP_PATH_SIZE], none[TEMP_PATH_SIZE];
	uint64_t revision = 5;

	(void)temp_dir_path(copy, f->dir, "copy.db");
	(void)temp_dir_path(none, f->dir, "none.db");
	assert_int_not_equal(kv_copy_sqlite(none, copy, &revision, NULL), STATUS_OK);
	assert_int_equal(revision, 5);
	assert_int_equal(access(copy, F_OK), -1);
}

struct doubling {
	struct kv_rewrite *rewrite;
	enum status end;
};

static bool double_value(const struct kv_item *item, void *userdata)
{
	struct doubling *doubling = userdata;
	char value[64];
	int n = str_format(value, sizeof(value), "%.*s%.*s", (int)item->len, (const char *)item->value,
			   (int)item->len, (const char *)item->value);
	struct kv_op op = {.key = item->key, .value = value, .len = (size_t)n};

	return kv_rewrite_put(doubling->rewrite, &op, NULL) == STATUS_OK;
}

static enum status double_all(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	struct doubling *doubling = userdata;

	doubling->rewrite = rewrite;
	TRY(kv_rewrite_range(rewrite, "n/", double_value, doubling, err));
	return doubling->end;
}

CASE(a_rewrite_is_one_transaction_of_any_size)
{
	enum { MANY = 1000 }; /* more than a submitted one may have */
	struct doubling doubling = {.end = STATUS_OK};
	char key[32];

	for (int i = 0; i < MANY; i++) {
		(void)str_format(key, sizeof(key), "n/%04d", i);
		put_async(f, key, "1", NULL);
	}
	(void)put(f, "other", "1");
	assert_int_equal(kv_rewrite(f->kv, double_all, &doubling, NULL), STATUS_OK);
	assert_int_equal(kv_revision(f->kv), 2 * MANY + 1);
	assert_string_equal(range_text(f, "n/0000"), "n/0000=11@1,1002 ");
	assert_string_equal(range_text(f, "n/0999"), "n/0999=11@1000,2001 ");
	assert_string_equal(range_text(f, "other"), "other=1@1001,1001 ");
	assert_int_equal(put(f, "after", "1"), 2 * MANY + 2);
	fixture_close(f);
	fixture_open(f);
	assert_string_equal(range_text(f, "n/0999"), "n/0999=11@1000,2001 ");
}

CASE(a_rewrite_that_fails_has_changed_nothing)
{
	struct doubling doubling = {.end = STATUS_DATA_LOSS};

	(void)put(f, "n/1", "1");
	assert_int_equal(kv_rewrite(f->kv, double_all, &doubling, NULL), STATUS_DATA_LOSS);
	assert_int_equal(kv_stats(f->kv).pending, 0);
	fixture_close(f);
	fixture_open(f);
	assert_string_equal(range_text(f, ""), "n/1=1@1,1 ");
	assert_int_equal(kv_revision(f->kv), 1);
}

/* As it is now, as if the machine had lost its power here. */
static void copy_files(struct fixture *f, const char *to)
{
	static const char *const suffixes[] = {"", "-wal"};

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		cleanup_free char *bytes = NULL;
		char from_name[TEMP_PATH_SIZE + 8], to_name[TEMP_PATH_SIZE + 8];
		size_t n;

		(void)str_format(from_name, sizeof(from_name), "%s%s", f->path, suffixes[i]);
		(void)str_format(to_name, sizeof(to_name), "%s%s", to, suffixes[i]);
		assert_int_equal(file_read(from_name, 64 << 20, &bytes, &n), 0);
		assert_int_equal(file_write_atomic(to_name, 0600, bytes, n), 0);
	}
}

CASE(a_store_that_writes_gets_a_log_of_full_size)
{
	char copy[TEMP_PATH_SIZE], path[TEMP_PATH_SIZE], wal[TEMP_PATH_SIZE + 8], key[32];
	struct stat st;

	(void)str_format(wal, sizeof(wal), "%s-wal", f->path);
	for (int i = 1; i <= WRITER_EXTEND_COMMITS; i++) {
		assert_int_equal(stat(wal, &st), i > 1 ? 0 : stat(wal, &st));
		assert_true(i == 1 || st.st_size < KV_SQLITE_LOG_BYTES);
		(void)str_format(key, sizeof(key), "k/%03d", i);
		(void)put(f, key, "1");
	}
	(void)put(f, "k/last", "2"); /* after it, in the middle of zeroes */
	assert_int_equal(stat(wal, &st), 0);
	assert_true(st.st_size >= KV_SQLITE_LOG_BYTES);
	(void)temp_dir_path(copy, f->dir, "copy.db");
	copy_files(f, copy);
	fixture_close(f);
	(void)str_copy(path, sizeof(path), f->path);
	(void)str_copy(f->path, sizeof(f->path), copy);
	fixture_open(f);
	assert_int_equal(kv_revision(f->kv), WRITER_EXTEND_COMMITS + 1);
	assert_string_equal(range_text(f, "k/last"), "k/last=2@65,65 ");
	(void)str_copy(f->path, sizeof(f->path), path);
}

CASE(a_locked_name_admits_no_store)
{
	cleanup_close int fd = -EBADF;
	struct error err;
	int refused;

	assert_int_equal(kv_lock_sqlite(f->path, &refused, &err), STATUS_FAILED_PRECONDITION);
	fixture_close(f);
	assert_int_equal(kv_lock_sqlite(f->path, &fd, &err), STATUS_OK);
	assert_int_equal(kv_open_sqlite(f->event, f->path, &f->kv, &err), STATUS_FAILED_PRECONDITION);
}
