/* SPDX-License-Identifier: Apache-2.0 */
/* Every call into sqlite and every allocation fails once, and real full disks. */

#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* --- the model of a failing sqlite: the n-th call that can fail returns .code --- */

enum layer { LAYER_SQLITE, LAYER_MEMORY, LAYER_SYSTEM };

static struct {
	int code; /* SQLITE_OK: nothing fails */
	long countdown;
	enum layer layer; /* whose calls count */
	bool has_failed;
} fault;

static bool hits(enum layer layer)
{
	if (fault.code == SQLITE_OK || fault.layer != layer || --fault.countdown != 0)
		return false;
	fault.has_failed = true;
	return true;
}

int __real_sqlite3_step(sqlite3_stmt *statement);
int __real_sqlite3_exec(sqlite3 *db, const char *sql, int (*callback)(void *, int, char **, char **),
			void *userdata, char **message);
int __real_sqlite3_prepare_v2(sqlite3 *db, const char *sql, int n, sqlite3_stmt **ret, const char **tail);
int __real_sqlite3_prepare_v3(sqlite3 *db, const char *sql, int n, unsigned int flags, sqlite3_stmt **ret,
			      const char **tail);
void *__real_malloc(size_t n);
int __real_eventfd(unsigned int count, int flags);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
			  void *userdata);
int __real_sd_event_add_io(sd_event *event, sd_event_source **ret, int fd, uint32_t events,
			   sd_event_io_handler_t callback, void *userdata);

WRAPPED(int, sqlite3_step, sqlite3_stmt *statement)
{
	return hits(LAYER_SQLITE) ? fault.code : __real_sqlite3_step(statement);
}

WRAPPED(int, sqlite3_exec, sqlite3 *db, const char *sql, int (*callback)(void *, int, char **, char **),
	void *userdata, char **message)
{
	return hits(LAYER_SQLITE) ? fault.code : __real_sqlite3_exec(db, sql, callback, userdata, message);
}

WRAPPED(int, sqlite3_prepare_v2, sqlite3 *db, const char *sql, int n, sqlite3_stmt **ret, const char **tail)
{
	return hits(LAYER_SQLITE) ? fault.code : __real_sqlite3_prepare_v2(db, sql, n, ret, tail);
}

WRAPPED(int, sqlite3_prepare_v3, sqlite3 *db, const char *sql, int n, unsigned int flags, sqlite3_stmt **ret,
	const char **tail)
{
	return hits(LAYER_SQLITE) ? fault.code : __real_sqlite3_prepare_v3(db, sql, n, flags, ret, tail);
}

WRAPPED(void *, malloc, size_t n)
{
	return hits(LAYER_MEMORY) ? NULL : __real_malloc(n);
}

WRAPPED(int, eventfd, unsigned int count, int flags)
{
	if (!hits(LAYER_SYSTEM))
		return __real_eventfd(count, flags);
	errno = EMFILE;
	return -1;
}

WRAPPED(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
	void *userdata)
{
	return hits(LAYER_SYSTEM) ? EMFILE : __real_pthread_create(thread, attr, body, userdata);
}

WRAPPED(int, sd_event_add_io, sd_event *event, sd_event_source **ret, int fd, uint32_t events,
	sd_event_io_handler_t callback, void *userdata)
{
	return hits(LAYER_SYSTEM) ? -EMFILE
				  : __real_sd_event_add_io(event, ret, fd, events, callback, userdata);
}

static void arm(int code, long countdown, enum layer layer)
{
	fault.code = code;
	fault.countdown = countdown;
	fault.layer = layer;
	fault.has_failed = false;
}

/* Returns whether the fault happened. */
static bool disarm(void)
{
	fault.code = SQLITE_OK;
	return fault.has_failed;
}

static const struct {
	int code;
	enum status status;
} codes[] = {
	{SQLITE_IOERR_FSYNC, STATUS_INTERNAL},	   {SQLITE_FULL, STATUS_RESOURCE_EXHAUSTED},
	{SQLITE_CORRUPT, STATUS_DATA_LOSS},	   {SQLITE_NOMEM, STATUS_RESOURCE_EXHAUSTED},
	{SQLITE_BUSY, STATUS_FAILED_PRECONDITION},
};

CLOSED_STORE_TEST(a_failed_open_at_any_step_reports_it_and_can_be_repeated)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		bool is_new = i % 2 == 0; /* creation, and opening what exists */
		bool has_failed = true;

		for (long n = 1; has_failed; n++) {
			struct error err = {.status = STATUS_OK};
			enum status status;

			if (is_new)
				(void)unlink(f->path);
			arm(codes[i].code, n, LAYER_SQLITE);
			status = kv_open_sqlite(f->event, f->path, &f->kv, &err);
			has_failed = disarm();
			assert_int_equal(status, has_failed ? codes[i].status : STATUS_OK);
			assert_int_equal(err.status, status);
			fixture_close(f);
			fixture_open(f);
			fixture_close(f);
		}
	}
}

CLOSED_STORE_TEST(an_open_without_memory_reports_it)
{
	bool has_failed = true;

	fixture_open(f);
	fixture_close(f);
	for (long n = 1; has_failed; n++) {
		enum status status;

		arm(SQLITE_NOMEM, n, LAYER_MEMORY);
		status = kv_open_sqlite(f->event, f->path, &f->kv, NULL);
		has_failed = disarm();
		assert_int_equal(status, has_failed ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
		fixture_close(f);
	}
}

CLOSED_STORE_TEST(an_open_without_descriptors_or_threads_reports_it)
{
	for (long n = 1; n <= 4; n++) {
		struct error err = {.status = STATUS_OK};
		enum status status;

		arm(SQLITE_NOMEM, n, LAYER_SYSTEM); /* any code but SQLITE_OK */
		status = kv_open_sqlite(f->event, f->path, &f->kv, &err);
		assert_int_equal(disarm(), n < 4); /* eventfd, thread, event source */
		assert_int_equal(status, n < 4 ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
		assert_int_equal(err.sys_errno, n < 4 ? EMFILE : 0);
	}
}

CLOSED_STORE_TEST(submitting_without_memory_submits_nothing)
{
	struct kv_op op = {.key = "a", .value = "1", .len = 1};

	fixture_open(f);
	arm(SQLITE_NOMEM, 1, LAYER_MEMORY);
	assert_int_equal(kv_submit(f->kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, NULL, NULL, NULL),
			 STATUS_RESOURCE_EXHAUSTED);
	assert_true(disarm());
	arm(SQLITE_NOMEM, 1, LAYER_MEMORY);
	assert_int_equal(kv_barrier(f->kv, NULL, NULL, NULL), STATUS_RESOURCE_EXHAUSTED);
	assert_true(disarm());
	assert_int_equal(kv_stats(f->kv).pending, 0);
	assert_int_equal(put(f, "a", "1"), 1);
}

/* One transaction that puts, replaces and deletes under a condition, and a barrier. */
static void submit_work(struct fixture *f, struct answer answers[static 2])
{
	const struct kv_condition condition = {.key = "keep", .mod_revision = 1};
	const struct kv_op ops[] = {{.key = "keep", .value = "2", .len = 1},
				    {.key = "new", .value = "1", .len = 1},
				    {.key = "gone", .value = NULL}};

	assert_ok(kv_submit(f->kv, &(struct kv_txn){&condition, 1, ops, 3}, answer_fill, &answers[0], NULL));
	assert_int_equal(kv_barrier(f->kv, answer_fill, &answers[1], NULL), STATUS_OK);
}

static const char *const before_work = "gone=1@2,2 keep=1@1,1 ";
static const char *const after_work = "keep=2@1,3 new=1@3,3 ";

static void expect_broken(struct fixture *f, enum status expected)
{
	struct answer answer = {0};

	put_async(f, "later", "1", &answer);
	await(f, &answer);
	assert_error(answer.err.status, expected, answer.err, f->path);
	answer = (struct answer){0};
	assert_int_equal(kv_barrier(f->kv, answer_fill, &answer, NULL), STATUS_OK);
	await(f, &answer);
	assert_int_equal(answer.err.status, expected);
}

/* Returns whether the fault happened. */
static bool break_at(struct fixture *f, int code, enum status expected, long n)
{
	struct answer answers[2] = {0};
	bool has_failed;

	(void)unlink(f->path);
	fixture_open(f);
	(void)put(f, "keep", "1");
	(void)put(f, "gone", "1");
	arm(code, n, LAYER_SQLITE);
	submit_work(f, answers);
	await(f, &answers[1]);
	has_failed = disarm();
	assert_int_equal(answers[0].count, 1);
	if (has_failed) {
		/* the transaction may have been durable before the step that failed */
		assert_int_equal(answers[1].err.status, expected);
		expect_broken(f, expected);
	}
	assert_string_equal(range_text(f, ""), answers[0].err.status == STATUS_OK ? after_work : before_work);
	fixture_close(f);
	fixture_open(f);
	assert_string_equal(range_text(f, ""), answers[0].err.status == STATUS_OK ? after_work : before_work);
	fixture_close(f);
	return has_failed;
}

CLOSED_STORE_TEST(a_failed_batch_step_breaks_the_store_and_keeps_committed_data)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		long n = 1;

		while (break_at(f, codes[i].code, codes[i].status, n))
			n++;
		assert_true(n > 7); /* begin, condition, 3 operations, position, commit */
	}
}

static bool ignore_item(const struct kv_item *item, void *userdata)
{
	return true;
}

CLOSED_STORE_TEST(a_failed_read_is_an_error_and_breaks_nothing)
{
	fixture_open(f);
	(void)put(f, "a", "1");
	for (long n = 1; n <= 3; n++) {
		struct error err;

		arm(SQLITE_CORRUPT, n, LAYER_SQLITE);
		assert_int_equal(kv_range(f->kv, "", ignore_item, NULL, &err), STATUS_DATA_LOSS);
		assert_true(disarm());
		assert_non_null(strstr(err.msg, "damaged"));
		arm(SQLITE_IOERR_READ, n, LAYER_SQLITE);
		assert_int_equal(kv_range(f->kv, "", ignore_item, NULL, NULL), STATUS_INTERNAL);
		assert_true(disarm());
	}
	assert_int_equal(put(f, "b", "1"), 2);
}

/* --- real full disks, in a child that may be limited --- */

/* Write until it fails; returns the last acknowledged revision. */
static uint64_t write_until_full(struct fixture *f)
{
	char value[10001];
	uint64_t last = 0;

	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	for (;;) {
		struct answer answer = {0};
		char key[32];

		(void)str_format(key, sizeof(key), "k%06llu", (unsigned long long)last + 1);
		put_async(f, key, value, &answer);
		await(f, &answer);
		if (answer.err.status != STATUS_OK) {
			if (answer.err.status != STATUS_RESOURCE_EXHAUSTED ||
			    !strstr(answer.err.msg, "free space"))
				fail_msg("%s", answer.err.msg);
			return last;
		}
		last = answer.revision;
	}
}

static void fill_and_come_back(struct fixture *f, void (*give_space)(const struct fixture *f))
{
	uint64_t last = write_until_full(f);

	assert_true(last > 10);
	expect_broken(f, STATUS_RESOURCE_EXHAUSTED);
	assert_int_equal(kv_revision(f->kv), last);
	fixture_close(f);
	give_space(f);
	fixture_open(f);
	assert_int_equal(kv_revision(f->kv), last);
	assert_int_equal(put(f, "more", "1"), last + 1);
	fixture_close(f);
}

/* Run @body as a group of its own: in a child, a failed assertion must not jump back into the parent's tests.
 */
static int in_child(struct fixture *f, void (*body)(void **state))
{
	const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(body, f)};
	int status;
	pid_t pid;

	(void)fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		fixture_after_fork(f);
		_exit(cmocka_run_group_tests_name("child", tests, NULL, NULL));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void limit_file_size(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void lift_limit(const struct fixture *f)
{
	limit_file_size(RLIM_INFINITY);
}

static void fill_to_a_file_size_limit(void **state)
{
	struct fixture *f = *state;

	(void)signal(SIGXFSZ, SIG_IGN);
	fixture_open(f);
	limit_file_size(1 << 20);
	fill_and_come_back(f, lift_limit);
}

TEST_FIXTURE(a_file_size_limit_breaks_the_store_and_loses_nothing, fixture_setup_closed, fixture_teardown)
{
	assert_int_equal(in_child(*state, fill_to_a_file_size_limit), 0);
}

static void remount_larger(const struct fixture *f)
{
	assert_int_equal(mount("tmpfs", f->dir, "tmpfs", MS_REMOUNT, "size=16m"), 0);
}

static void fill_a_file_system(void **state)
{
	struct fixture *f = *state;

	if (unshare(CLONE_NEWNS) < 0) {
		print_message("skipped: a file system of its own needs CAP_SYS_ADMIN\n");
		skip();
	}
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_int_equal(mount("tmpfs", f->dir, "tmpfs", 0, "size=1m"), 0);
	fixture_open(f);
	fill_and_come_back(f, remount_larger);
}

TEST_FIXTURE(a_full_file_system_breaks_the_store_and_loses_nothing, fixture_setup_closed, fixture_teardown)
{
	assert_int_equal(in_child(*state, fill_a_file_system), 0);
}
