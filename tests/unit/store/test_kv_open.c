/* SPDX-License-Identifier: Apache-2.0 */
/* What can be at the path: nothing, a store, somebody's store, and everything that is none. */

#include "fixture.h"

#include "base/fd.h"
#include "base/strbuf.h"
#include "store/kv_sqlite.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { NOBODY = 65534, FILE_MAX = 1 << 24 };

static void expect_refusal(struct fixture *f, const char *path, enum status expected, const char *part)
{
	struct error err = {.status = STATUS_OK};

	assert_int_equal(kv_open_sqlite(f->event, path, &f->kv, &err), expected);
	assert_null(f->kv);
	assert_msg(strstr(err.msg, path) && strstr(err.msg, part), "'%s' does not name %s and '%s'", err.msg,
		   path, part);
}

static void write_file(const char *path, const void *bytes, size_t n)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, bytes, n), 0);
}

static void run_sql(const char *path, const char *sql)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* A store with some pages of content, closed. Returns its bytes. */
static char *make_store(struct fixture *f, size_t *ret_len)
{
	char *bytes = NULL;

	fixture_open(f);
	for (int i = 0; i < 200; i++) {
		char key[32];

		(void)str_format(key, sizeof(key), "key/%03d", i);
		put_async(f, key, "a value of some length, so that there are several pages", NULL);
	}
	fixture_close(f);
	assert_int_equal(file_read(f->path, FILE_MAX, &bytes, ret_len), 0);
	return bytes;
}

CLOSED_STORE_TEST(a_new_store_is_private_to_its_owner_and_leaves_its_lock_beside)
{
	struct stat st;
	char wal[TEMP_PATH_SIZE + 8], lock[TEMP_PATH_SIZE + 8];
	mode_t before = umask(0);

	(void)str_format(wal, sizeof(wal), "%s-wal", f->path);
	(void)str_format(lock, sizeof(lock), "%s-lock", f->path);
	fixture_open(f);
	(void)umask(before);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_nlink, 1);
	(void)put(f, "a", "1");
	assert_int_equal(stat(wal, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	fixture_close(f);
	assert_int_equal(stat(lock, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(unlink(lock), 0);
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(rmdir(f->dir), 0); /* nothing else was there */
	assert_int_equal(mkdir(f->dir, 0700), 0);
}

CLOSED_STORE_TEST(content_is_there_after_reopening)
{
	fixture_open(f);
	(void)put(f, "a", "1");
	(void)put(f, "b", "2");
	for (int i = 0; i < 3; i++) {
		fixture_close(f);
		fixture_open(f);
		assert_int_equal(kv_revision(f->kv), 2);
		assert_string_equal(range_text(f, ""), "a=1@1,1 b=2@2,2 ");
	}
}

CLOSED_STORE_TEST(durability_is_switched_on)
{
	static const struct {
		const char *query, *expected;
	} cases[] = {
		{"PRAGMA journal_mode", "wal"},
		{"PRAGMA synchronous", "2"},
		{"PRAGMA locking_mode", "normal"},
		{"PRAGMA wal_autocheckpoint", "4000"},
		{"PRAGMA trusted_schema", "0"},
		{"PRAGMA user_version", "1"},
		{"PRAGMA application_id", "1215261796"},
		{"PRAGMA busy_timeout", "10000"},
		{"PRAGMA journal_size_limit", "67108864"},
	};
	struct kv_sqlite *db = NULL;

	assert_int_equal(kv_sqlite_open(f->path, &db, NULL), STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		sqlite3_stmt *statement = NULL;

		assert_int_equal(sqlite3_prepare_v2(db->db, cases[i].query, -1, &statement, NULL), SQLITE_OK);
		assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
		assert_string_equal((const char *)sqlite3_column_text(statement, 0), cases[i].expected);
		(void)sqlite3_finalize(statement);
	}
	kv_sqlite_close(db);
}

CLOSED_STORE_TEST(a_second_opener_in_the_same_process_is_refused)
{
	struct kv *first;

	fixture_open(f);
	first = f->kv;
	f->kv = NULL;
	expect_refusal(f, f->path, STATUS_FAILED_PRECONDITION, "another process holds this file");
	f->kv = first;
	(void)put(f, "a", "1"); /* and the first is none the worse */
}

CLOSED_STORE_TEST(a_child_that_has_not_been_executed_yet_is_waited_for)
{
	int fd = -EBADF;
	pid_t pid;

	assert_int_equal(kv_lock_sqlite(f->path, &fd, NULL), STATUS_OK);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) /* with a descriptor of the lock, for so long */
		_exit(poll(NULL, 0, 30));
	(void)close(fd);
	assert_int_equal(kv_lock_sqlite(f->path, &fd, NULL), STATUS_OK);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(fd);
}

CLOSED_STORE_TEST(a_second_process_is_refused_until_the_first_ends)
{
	int up[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(up), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct kv_sqlite *db = NULL;

		if (kv_sqlite_open(f->path, &db, NULL) != STATUS_OK)
			_exit(1);
		_exit(write(up[1], "x", 1) == 1 && pause() ? 0 : 1);
	}
	(void)close(up[1]);
	assert_int_equal(read(up[0], &byte, 1), 1);
	expect_refusal(f, f->path, STATUS_FAILED_PRECONDITION, "another process holds this file");
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(up[0]);
	fixture_open(f);
	(void)put(f, "a", "1");
}

CLOSED_STORE_TEST(a_refused_second_opener_does_not_drop_the_lock_of_the_first)
{
	struct kv *first;
	int status;
	pid_t pid;

	fixture_open(f);
	(void)put(f, "a",
		  "1"); /* its thread waits: one that begins holds locks that a child would wait for */
	first = f->kv;
	f->kv = NULL;
	expect_refusal(f, f->path, STATUS_FAILED_PRECONDITION, "another process");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct kv_sqlite *db = NULL;

		_exit(kv_sqlite_open(f->path, &db, NULL) == STATUS_FAILED_PRECONDITION ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	f->kv = first;
}

CLOSED_STORE_TEST(a_missing_folder_is_named)
{
	char path[TEMP_PATH_SIZE];

	expect_refusal(f, temp_dir_path(path, f->dir, "none/test.db"), STATUS_NOT_FOUND,
		       "make its folder exist");
}

CLOSED_STORE_TEST(a_folder_in_place_of_the_file_is_refused)
{
	expect_refusal(f, f->dir, STATUS_FAILED_PRECONDITION, "not a regular file");
}

CLOSED_STORE_TEST(a_path_beyond_the_limit_is_refused)
{
	char path[5000];

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(kv_open_sqlite(f->event, path, &f->kv, NULL), STATUS_INVALID_ARGUMENT);
}

CLOSED_STORE_TEST(an_empty_file_is_damage_not_a_fresh_start)
{
	write_file(f->path, "", 0);
	expect_refusal(f, f->path, STATUS_DATA_LOSS, "is empty, not a database");
}

CLOSED_STORE_TEST(a_log_without_its_file_is_damage_not_a_fresh_start)
{
	char wal[TEMP_PATH_SIZE + 8];

	(void)str_format(wal, sizeof(wal), "%s-wal", f->path);
	write_file(wal, "some log", 8);
	expect_refusal(f, f->path, STATUS_DATA_LOSS, "its log (-wal) is still there");
	write_file(wal, "", 0); /* an empty log says nothing */
	fixture_open(f);
}

CLOSED_STORE_TEST(a_text_file_is_not_a_database)
{
	static const char text[] = "# some configuration\nkey = value\n";
	char big[8192];

	write_file(f->path, text, sizeof(text) - 1);
	expect_refusal(f, f->path, STATUS_DATA_LOSS, "not a database");
	memset(big, 'x', sizeof(big));
	write_file(f->path, big, sizeof(big));
	expect_refusal(f, f->path, STATUS_DATA_LOSS, "not a database");
}

CLOSED_STORE_TEST(random_bytes_are_not_a_database)
{
	char bytes[3 * 4096];

	srandom(7);
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (char)random();
		if (round % 2 == 1) /* past the magic, into the parser of the header */
			memcpy(bytes, "SQLite format 3", 16);
		write_file(f->path, bytes, sizeof(bytes));
		assert_int_equal(kv_open_sqlite(f->event, f->path, &f->kv, NULL), STATUS_DATA_LOSS);
	}
}

CLOSED_STORE_TEST(a_foreign_database_is_refused_and_untouched)
{
	cleanup_free char *before = NULL;
	cleanup_free char *after = NULL;
	size_t before_len, after_len;

	run_sql(f->path, "CREATE TABLE t(a); INSERT INTO t VALUES(1);");
	assert_int_equal(file_read(f->path, FILE_MAX, &before, &before_len), 0);
	expect_refusal(f, f->path, STATUS_DATA_LOSS, "not one of Holdfast");
	assert_int_equal(file_read(f->path, FILE_MAX, &after, &after_len), 0);
	assert_int_equal(before_len, after_len);
	assert_memory_equal(before, after, before_len);
}

CLOSED_STORE_TEST(a_newer_schema_is_refused)
{
	free(make_store(f, &(size_t){0}));
	run_sql(f->path, "PRAGMA user_version=2");
	expect_refusal(f, f->path, STATUS_DATA_LOSS,
		       "written by a newer version (schema 2, this one knows 1)");
	run_sql(f->path, "PRAGMA user_version=1");
	fixture_open(f);
}

CLOSED_STORE_TEST(a_refused_store_keeps_its_log)
{
	char wal[TEMP_PATH_SIZE + 8];
	struct stat before, after;
	pid_t pid;
	int status;

	(void)str_format(wal, sizeof(wal), "%s-wal", f->path);
	free(make_store(f, &(size_t){0}));
	run_sql(f->path, "PRAGMA user_version=2");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		sqlite3 *db = NULL; /* dies with the change in the log */

		(void)sqlite3_open(f->path, &db);
		_exit(sqlite3_exec(db, "DELETE FROM kv", NULL, NULL, NULL) == SQLITE_OK ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(stat(wal, &before), 0);
	expect_refusal(f, f->path, STATUS_DATA_LOSS, "newer version");
	assert_int_equal(stat(wal, &after), 0);
	assert_int_equal(before.st_size, after.st_size);
}

CLOSED_STORE_TEST(missing_tables_and_rows_are_damage)
{
	static const char *const statements[] = {
		"DROP TABLE kv",
		"DROP TABLE position",
		"DELETE FROM position",
		"UPDATE position SET revision = 100",
		"UPDATE position SET revision = -1",
	};
	cleanup_free char *bytes = NULL;
	size_t n;

	bytes = make_store(f, &n);
	for (size_t i = 0; i < ARRAY_SIZE(statements); i++) {
		write_file(f->path, bytes, n);
		run_sql(f->path, statements[i]);
		expect_refusal(f, f->path, STATUS_DATA_LOSS, "damaged");
	}
}

static bool count_items(const struct kv_item *item, void *userdata)
{
	int *n = userdata;

	assert_non_null(item->key);
	(*n)++;
	return true;
}

/* What another program left in the file may run when the file is used. */
CLOSED_STORE_TEST(foreign_sql_in_a_file_is_refused_and_not_run)
{
	static const char *const statements[] = {
		"CREATE TRIGGER t AFTER UPDATE ON position BEGIN DELETE FROM kv; END",
		"CREATE TRIGGER t AFTER INSERT ON kv BEGIN DELETE FROM kv; END",
		"CREATE TABLE other(a)",
		"CREATE INDEX i ON kv(key)",
		"CREATE VIEW \"x\"\"; DELETE FROM kv; --\" AS SELECT 1",
		"CREATE VIEW \"x\n\" AS SELECT 1",
		"CREATE VIRTUAL TABLE f USING fts5(a)",
		"ALTER TABLE kv RENAME TO hidden; CREATE VIEW kv AS SELECT * FROM hidden",
		"ALTER TABLE position RENAME TO hidden; CREATE VIEW position AS SELECT * FROM hidden",
		"ALTER TABLE kv ADD COLUMN more TEXT",
		"ALTER TABLE kv ADD COLUMN more INT GENERATED ALWAYS AS (length(zeroblob(1000000)))",
		"ALTER TABLE position ADD COLUMN more INT CHECK (more > 1)",
		("DROP TABLE position; CREATE TABLE position(id INTEGER PRIMARY KEY, revision INTEGER NOT "
		 "NULL, sum INTEGER NOT NULL) STRICT; INSERT INTO position "
		 "VALUES (1, 200, 0)"),
	};
	cleanup_free char *bytes = NULL;
	size_t n;

	bytes = make_store(f, &n);
	for (size_t i = 0; i < ARRAY_SIZE(statements); i++) {
		cleanup_free char *before = NULL;
		cleanup_free char *after = NULL;
		size_t n_before = 0, n_after = 0;

		write_file(f->path, bytes, n);
		run_sql(f->path, statements[i]);
		assert_int_equal(file_read(f->path, 64 << 20, &before, &n_before), 0);
		expect_refusal(f, f->path, STATUS_DATA_LOSS, "is not one of Holdfast");
		assert_int_equal(file_read(f->path, 64 << 20, &after, &n_after), 0);
		assert_int_equal(n_before, n_after);
		assert_memory_equal(before, after, n_before);
	}
}

CLOSED_STORE_TEST(harmless_sql_in_a_file_is_accepted)
{
	free(make_store(f, &(size_t){0}));
	run_sql(f->path, "ANALYZE; CREATE VIEW \"My view\" AS SELECT key FROM kv");
	fixture_open(f);
}

CLOSED_STORE_TEST(a_record_that_is_too_large_is_refused)
{
	free(make_store(f, &(size_t){0}));
	run_sql(f->path, "INSERT INTO kv VALUES ('zz', zeroblob(100000000), 1, 1, 0, NULL)");
	fixture_open(f);
	assert_int_equal(kv_range(f->kv, "zz", count_items, &(size_t){0}, NULL), STATUS_DATA_LOSS);
}

CLOSED_STORE_TEST(a_cut_file_is_damage)
{
	cleanup_free char *bytes = NULL;
	size_t n;

	bytes = make_store(f, &n);
	assert_true(n >= 5 * (size_t)4096);
	for (size_t len = 1; len < n; len += len < 4096 ? 500 : 1777) {
		write_file(f->path, bytes, len);
		assert_int_equal(kv_open_sqlite(f->event, f->path, &f->kv, NULL), STATUS_DATA_LOSS);
	}
	write_file(f->path, bytes, n);
	fixture_open(f);
}

/* Open what may be damaged: either it is refused, or it can be read to the end or to an error. */
static bool is_readable(struct fixture *f)
{
	int n = 0;
	enum status status = kv_open_sqlite(f->event, f->path, &f->kv, NULL);

	if (status != STATUS_OK)
		return false;
	status = kv_range(f->kv, "", count_items, &n, NULL);
	fixture_close(f);
	return status == STATUS_OK;
}

CLOSED_STORE_TEST(a_flipped_byte_of_the_header_is_refused_or_harmless)
{
	cleanup_free char *bytes = NULL;
	size_t n;
	int refused = 0;

	bytes = make_store(f, &n);
	for (size_t i = 0; i < 100; i++) {
		bytes[i] = (char)~bytes[i];
		write_file(f->path, bytes, n);
		refused += !is_readable(f);
		bytes[i] = (char)~bytes[i];
	}
	assert_in_range(refused, 30, 99); /* magic, page size, format, application, version ... */
}

CLOSED_STORE_TEST(a_flipped_byte_anywhere_never_crashes_the_reader)
{
	cleanup_free char *bytes = NULL;
	size_t n;

	bytes = make_store(f, &n);
	for (size_t i = 100; i < n; i += 97) {
		bytes[i] = (char)~bytes[i];
		write_file(f->path, bytes, n);
		(void)is_readable(f);
		bytes[i] = (char)~bytes[i];
	}
}

static bool append_item(const struct kv_item *item, void *userdata)
{
	struct strbuf *text = userdata;

	strbuf_printf(text, "%s=%.*s@%llu,%llu ", item->key, (int)item->len, (const char *)item->value,
		      (unsigned long long)item->create_revision, (unsigned long long)item->mod_revision);
	return true;
}

/* Everything that a server would read when it starts, or (NULL) that it would not start. */
static char *read_all(struct fixture *f, struct error *err)
{
	struct strbuf text = STRBUF_INIT(1 << 20);
	enum status status = kv_open_sqlite(f->event, f->path, &f->kv, err);

	if (status == STATUS_OK) {
		strbuf_printf(&text, "%llu: ", (unsigned long long)kv_revision(f->kv));
		status = kv_range(f->kv, "", append_item, &text, err);
	}
	fixture_close(f);
	if (status == STATUS_OK)
		return strbuf_take(&text);
	strbuf_release(&text);
	return NULL;
}

CLOSED_STORE_TEST(a_flipped_bit_anywhere_is_data_loss_or_changes_nothing)
{
	enum { STEP = 31 };
	cleanup_free char *bytes = NULL;
	cleanup_free char *before = NULL;
	size_t refused = 0, n;

	bytes = make_store(f, &n);
	before = NON_NULL(read_all(f, NULL));
	for (size_t i = 100; i < n; i += STEP) {
		cleanup_free char *after = NULL;
		char flip = (char)(1 << (i / STEP % 8));
		struct error err = {.status = STATUS_OK};

		bytes[i] = (char)(bytes[i] ^ flip);
		write_file(f->path, bytes, n);
		after = read_all(f, &err);
		if (after && strcmp(after, before) != 0)
			fail_msg("byte %zu: %s", i, after);
		if (!after && err.status != STATUS_DATA_LOSS)
			fail_msg("byte %zu: %s", i, err.msg);
		refused += !after;
		bytes[i] = (char)(bytes[i] ^ flip);
	}
	assert_true(refused > n / STEP / 4); /* what is not records is free space */
}

CLOSED_STORE_TEST(a_changed_position_is_damage)
{
	free(make_store(f, &(size_t){0}));
	run_sql(f->path, "UPDATE position SET revision = 201"); /* as plausible as 200 */
	expect_refusal(f, f->path, STATUS_DATA_LOSS, "position is not the one that was written");
}

typedef void *mmap_fn(void *address, size_t size, int protection, int flags, int fd, off_t offset);

CLOSED_STORE_TEST(each_mapped_byte_of_the_logs_index_is_allocated_before)
{
	enum { SIZE = 1 << 15 };
	cleanup_close int fd = memfd_create("index", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
	mmap_fn *map;
	struct stat st;
	void *mapped;

	fixture_open(f); /* with it sqlite uses the store's mmap() */
	map = (mmap_fn *)vfs->xGetSystemCall(vfs, "mmap");
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	mapped = map(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(mapped != MAP_FAILED);
	assert_int_equal(munmap(mapped, SIZE), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks * 512, SIZE);

	/* a file that gets no more blocks, as on a full disk */
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	assert_true(map(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, SIZE) == MAP_FAILED);
}

/* Run @body as a user without privileges; it returns whether all is as it should be. */
static bool as_nobody(struct fixture *f, bool (*body)(struct fixture *f))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (geteuid() == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
			_exit(2);
		_exit(body(f) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0;
}

static bool open_is_denied(struct fixture *f)
{
	struct error err;

	return kv_open_sqlite(f->event, f->path, &f->kv, &err) == STATUS_PERMISSION_DENIED &&
	       strstr(err.msg, f->path) && strstr(err.msg, "make its folder");
}

CLOSED_STORE_TEST(a_folder_without_write_permission_is_named)
{
	assert_int_equal(chmod(f->dir, 0555), 0);
	assert_true(as_nobody(f, open_is_denied));
	assert_int_equal(chmod(f->dir, 0700), 0);
}

static bool open_of_read_only_is_denied(struct fixture *f)
{
	struct error err;

	return kv_open_sqlite(f->event, f->path, &f->kv, &err) == STATUS_PERMISSION_DENIED &&
	       strstr(err.msg, f->path) && strstr(err.msg, "cannot be written");
}

CLOSED_STORE_TEST(a_read_only_file_is_refused)
{
	char lock[TEMP_PATH_SIZE + 8];

	free(make_store(f, &(size_t){0}));
	(void)str_format(lock, sizeof(lock), "%s-lock", f->path);
	assert_int_equal(unlink(lock), 0); /* root's, which nobody may open */
	assert_int_equal(chmod(f->path, 0444), 0);
	assert_int_equal(chmod(f->dir, 0777), 0);
	assert_true(as_nobody(f, open_of_read_only_is_denied));
}
