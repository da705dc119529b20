/* SPDX-License-Identifier: Apache-2.0 */
/* A store that goes back in time is found out by what stands beside it. */

#include "fixture.h"

#include "base/fd.h"
#include "store/checksum.h"
#include "store/mark.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { FILE_MAX = 64 << 20, MARK_SIZE = 1024, EPOCH = 7 };

static struct {
	int write_errno; /* of every pwrite(); 0: it is done */
	bool is_once;	 /* of one alone */
	unsigned int syncs;
} disk;

ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t at);
int __real_fdatasync(int fd);

/* sqlite has its own: these are of the marks alone */
WRAPPED(ssize_t, pwrite, int fd, const void *bytes, size_t n, off_t at)
{
	if (disk.write_errno == 0)
		return __real_pwrite(fd, bytes, n, at);
	errno = disk.write_errno;
	if (disk.is_once)
		disk.write_errno = 0;
	return -1;
}

WRAPPED(int, fdatasync, int fd)
{
	disk.syncs++;
	return __real_fdatasync(fd);
}

struct paths {
	char wal[TEMP_PATH_SIZE], shm[TEMP_PATH_SIZE], mark[TEMP_PATH_SIZE], second[TEMP_PATH_SIZE];
};

static struct paths paths_of(const struct fixture *f)
{
	struct paths p;

	(void)temp_dir_path(p.wal, f->dir, "test.db-wal");
	(void)temp_dir_path(p.shm, f->dir, "test.db-shm");
	(void)temp_dir_path(p.mark, f->dir, "test.mark");
	(void)temp_dir_path(p.second, f->dir, "second.mark");
	return p;
}

static struct kv_marks marks_of(const struct paths *p)
{
	return (struct kv_marks){.paths = {p->mark}, .store_id = "s1", .epoch = EPOCH};
}

static void open_marked(struct fixture *f)
{
	struct paths p = paths_of(f);
	struct kv_marks marks = marks_of(&p);

	fixture_open(f);
	assert_int_equal(kv_keep_marks(f->kv, &marks, NULL), STATUS_OK);
}

static void put_n(struct fixture *f, int n)
{
	for (int i = 0; i < n; i++) {
		char key[32];

		(void)str_format(key, sizeof(key), "key/%03d", i);
		(void)put(f, key, "a value that has been acknowledged");
	}
}

/* As kill -9 leaves it: with a log. */
static void write_and_die(struct fixture *f, int n)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		fixture_after_fork(f);
		open_marked(f);
		put_n(f, n);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static struct kv_history history_with(struct fixture *f, const struct kv_marks *marks)
{
	struct kv_history history;

	fixture_open(f);
	assert_int_equal(kv_history(f->kv, marks, &history, NULL), STATUS_OK);
	fixture_close(f);
	return history;
}

static struct kv_history history_of(struct fixture *f)
{
	struct paths p = paths_of(f);
	struct kv_marks marks = marks_of(&p);

	return history_with(f, &marks);
}

static void copy_file(const char *from, const char *to)
{
	cleanup_free char *bytes = NULL;
	size_t n;

	assert_int_equal(file_read(from, FILE_MAX, &bytes, &n), 0);
	assert_int_equal(file_write_atomic(to, 0600, bytes, n), 0);
}

static void remove_log(struct fixture *f)
{
	struct paths p = paths_of(f);

	assert_int_equal(unlink(p.wal), 0);
	(void)unlink(p.shm);
}

static void cut_log(struct fixture *f)
{
	struct paths p = paths_of(f);
	struct stat st;

	assert_int_equal(stat(p.wal, &st), 0);
	assert_int_equal(truncate(p.wal, st.st_size - 1), 0);
	(void)unlink(p.shm);
}

static void flip_bit_in_log(struct fixture *f)
{
	struct paths p = paths_of(f);
	cleanup_free char *bytes = NULL;
	size_t n;

	assert_int_equal(file_read(p.wal, FILE_MAX, &bytes, &n), 0);
	bytes[n / 2] ^= 4;
	assert_int_equal(file_write_atomic(p.wal, 0600, bytes, n), 0);
	(void)unlink(p.shm);
}

static void remove_store(struct fixture *f)
{
	remove_log(f);
	assert_int_equal(unlink(f->path), 0);
}

static void copy_back(struct fixture *f)
{
	char early[TEMP_PATH_SIZE];

	remove_log(f);
	copy_file(temp_dir_path(early, f->dir, "early.db"), f->path);
}

CLOSED_STORE_TEST(a_store_that_went_back_is_behind_its_mark)
{
	static void (*const ways[])(struct fixture * f) = {remove_log, cut_log, flip_bit_in_log, remove_store,
							   copy_back};
	char early[TEMP_PATH_SIZE];

	(void)temp_dir_path(early, f->dir, "early.db");
	open_marked(f);
	(void)put(f, "first", "1");
	fixture_close(f);
	copy_file(f->path, early);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct kv_history history;
		struct paths p = paths_of(f);

		copy_file(early, f->path);
		(void)unlink(p.mark);
		write_and_die(f, 20);
		ways[i](f);
		history = history_of(f);
		assert_true(history.is_behind);
		assert_int_equal(history.epoch, EPOCH);
		assert_int_equal(history.revision, 21);
		assert_non_null(strstr(history.why, p.mark));
	}
}

CLOSED_STORE_TEST(a_store_that_was_closed_or_killed_is_not_behind)
{
	open_marked(f);
	put_n(f, 10);
	fixture_close(f);
	assert_false(history_of(f).is_behind);
	for (int i = 0; i < 5; i++) {
		write_and_die(f, 7);
		assert_false(history_of(f).is_behind);
	}
	assert_int_equal(history_of(f).revision, 45);
}

CLOSED_STORE_TEST(a_store_of_a_later_epoch_is_not_behind_whatever_its_revision)
{
	struct paths p = paths_of(f);
	struct kv_marks marks = marks_of(&p);

	write_and_die(f, 20);
	remove_store(f);
	marks.epoch = EPOCH + 1;
	marks.store_id = "s2";
	assert_false(history_with(f, &marks).is_behind);
	marks.epoch = EPOCH - 1;
	marks.store_id = "s1";
	assert_non_null(strstr(history_with(f, &marks).why, "of a later epoch"));
}

CLOSED_STORE_TEST(another_store_of_the_same_epoch_is_behind)
{
	struct paths p = paths_of(f);
	struct kv_marks marks = marks_of(&p);

	open_marked(f);
	put_n(f, 3);
	fixture_close(f);
	marks.store_id = "s2";
	assert_non_null(strstr(history_with(f, &marks).why, "of another store"));
	marks.store_id = ""; /* it has none yet */
	assert_false(history_with(f, &marks).is_behind);
}

CLOSED_STORE_TEST(a_store_without_its_mark_is_behind_unless_it_is_new)
{
	struct paths p = paths_of(f);

	assert_false(history_of(f).is_behind); /* it is new */
	open_marked(f);
	put_n(f, 3);
	fixture_close(f);
	assert_int_equal(unlink(p.mark), 0);
	assert_non_null(strstr(history_of(f).why, "missing or damaged"));
}

CLOSED_STORE_TEST(a_second_mark_speaks_for_a_first_one_that_is_lost)
{
	struct paths p = paths_of(f);
	struct kv_marks marks = marks_of(&p);

	marks.paths[1] = p.second;
	assert_false(history_with(f, &marks).is_behind);
	fixture_open(f);
	assert_int_equal(kv_keep_marks(f->kv, &marks, NULL), STATUS_OK);
	put_n(f, 3);
	fixture_close(f);
	assert_int_equal(unlink(p.mark), 0);
	assert_false(history_with(f, &marks).is_behind);
	assert_int_equal(unlink(f->path), 0); /* with the whole folder */
	assert_true(history_with(f, &marks).is_behind);
}

CLOSED_STORE_TEST(a_mark_that_cannot_be_opened_is_an_error_and_not_left_out)
{
	struct paths p = paths_of(f);
	struct kv_marks marks = marks_of(&p);
	struct kv_history history;
	struct error err;

	fixture_open(f);
	assert_int_equal(symlink("elsewhere", p.mark), 0);
	assert_int_not_equal(kv_history(f->kv, &marks, &history, &err), STATUS_OK);
	assert_non_null(strstr(err.msg, p.mark));
	assert_int_equal(unlink(p.mark), 0);
	assert_int_equal(file_write_atomic(p.mark, 0600, "127.0.0.1 localhost\n", 20), 0);
	assert_int_equal(kv_history(f->kv, &marks, &history, &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(kv_keep_marks(f->kv, &marks, &err), STATUS_FAILED_PRECONDITION);
}

struct watcher {
	const char *path;
	int n_seen;
};

static void look_at_mark(uint64_t revision, const struct error *err, void *userdata)
{
	struct watcher *watcher = userdata;
	struct mark mark;

	assert_null(err);
	assert_int_equal(mark_read(watcher->path, &mark, NULL), STATUS_OK);
	assert_true(mark.revision >= revision);
	assert_string_equal(mark.store_id, "s1");
	watcher->n_seen++;
}

CLOSED_STORE_TEST(answered_txns_are_in_the_mark)
{
	struct paths p = paths_of(f);
	struct watcher watcher = {.path = p.mark};

	open_marked(f);
	for (int i = 0; i < 50; i++) {
		struct kv_op op = {.key = "a", .value = "1", .len = 1};

		assert_ok(kv_submit(f->kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, look_at_mark, &watcher,
				    NULL));
		while (i % 3 == 0 && watcher.n_seen <= i)
			assert_true(sd_event_run(f->event, PATIENCE_US) > 0);
	}
	while (watcher.n_seen < 50)
		assert_true(sd_event_run(f->event, PATIENCE_US) > 0);
}

static bool put_one(struct kv_rewrite *rewrite)
{
	return kv_rewrite_put(rewrite, &(struct kv_op){.key = "r", .value = "1", .len = 1}, NULL) ==
	       STATUS_OK;
}

static enum status rewrite_one(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	return put_one(rewrite) ? STATUS_OK : STATUS_INTERNAL;
}

CLOSED_STORE_TEST(a_rewrite_stands_in_the_mark)
{
	struct paths p = paths_of(f);
	struct mark mark;

	open_marked(f);
	assert_int_equal(kv_rewrite(f->kv, rewrite_one, NULL, NULL), STATUS_OK);
	assert_int_equal(mark_read(p.mark, &mark, NULL), STATUS_OK);
	assert_int_equal(mark.revision, 1);
}

CLOSED_STORE_TEST(many_commits_cost_about_one_sync_of_the_mark_a_second)
{
	open_marked(f);
	disk.syncs = 0;
	put_n(f, 50);
	assert_in_range(disk.syncs, 0, 2); /* on any disk that does 25 commits a second */
	disk.syncs = 0;
	for (int i = 0; i < 300 && disk.syncs == 0; i++) /* nobody writes any more */
		(void)sd_event_run(f->event, 10000);
	assert_int_equal(disk.syncs, 1);
	(void)put(f, "last", "1");
	disk.syncs = 0;
	fixture_close(f);
	assert_in_range(disk.syncs, 1, 1 + 17 * 16); /* with the log's, if it was extended */
}

CLOSED_STORE_TEST(a_mark_that_cannot_be_written_fails_nothing_and_is_reported)
{
	struct paths p = paths_of(f);
	struct kv_marks marks = marks_of(&p);

	marks.paths[1] = p.second;
	fixture_open(f);
	assert_int_equal(kv_keep_marks(f->kv, &marks, NULL), STATUS_OK);
	assert_int_equal(kv_stats(f->kv).mark_errno, 0);
	for (int is_once = 0; is_once < 2; is_once++) {
		disk.write_errno = EIO;
		disk.is_once = is_once;
		(void)put(f, "a", "1");
		assert_int_equal(kv_stats(f->kv).mark_errno, EIO); /* the other one may be written */
		disk.write_errno = 0;
		(void)put(f, "a", "2");
		assert_int_equal(kv_stats(f->kv).mark_errno, 0);
	}
}

CLOSED_STORE_TEST(a_mark_is_of_the_epoch_as_soon_as_it_is_kept)
{
	struct paths p = paths_of(f);
	struct kv_marks marks = marks_of(&p);
	struct mark mark;

	open_marked(f);
	fixture_close(f);
	marks.epoch++;
	fixture_open(f);
	assert_int_equal(kv_keep_marks(f->kv, &marks, NULL), STATUS_OK);
	assert_int_equal(mark_read(p.mark, &mark, NULL), STATUS_OK);
	assert_int_equal(mark.epoch, EPOCH + 1);
}

/* As a death or a full disk leaves it: damage, whatever went wrong before. */
CLOSED_STORE_TEST(an_empty_mark_is_a_damaged_one)
{
	struct paths p = paths_of(f);
	struct mark mark;

	open_marked(f);
	fixture_close(f);
	assert_int_equal(truncate(p.mark, 0), 0);
	errno = EIO;
	assert_int_equal(mark_read(p.mark, &mark, NULL), STATUS_DATA_LOSS);
	assert_true(history_of(f).is_behind);
}

CLOSED_STORE_TEST(a_damaged_slot_leaves_the_other_one)
{
	struct paths p = paths_of(f);
	cleanup_free char *bytes = NULL;
	cleanup_close int fd = -EBADF;
	struct mark mark;
	int n_lost = 0;
	size_t n;

	open_marked(f);
	put_n(f, 10);
	fixture_close(f);
	assert_int_equal(file_read(p.mark, FILE_MAX, &bytes, &n), 0);
	assert_int_equal(n, MARK_SIZE);
	fd = open(p.mark, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (size_t bit = 0; bit < 8 * n; bit++) {
		char flipped = (char)(bytes[bit / 8] ^ (1 << (bit % 8)));

		assert_int_equal(pwrite(fd, &flipped, 1, (off_t)(bit / 8)), 1);
		assert_int_equal(mark_read(p.mark, &mark, NULL), STATUS_OK);
		assert_in_range(mark.revision, 9, 10);
		assert_int_equal(mark.epoch, EPOCH);
		n_lost += mark.revision == 9;
		assert_int_equal(pwrite(fd, &bytes[bit / 8], 1, (off_t)(bit / 8)), 1);
	}
	assert_in_range(n_lost, 8 * 68, 8 * 88); /* every bit of the newer slot */
	memset(bytes, 0, n);
	assert_int_equal(file_write_atomic(p.mark, 0600, bytes, n), 0);
	assert_int_equal(mark_read(p.mark, &mark, NULL), STATUS_DATA_LOSS);
	assert_true(history_of(f).is_behind);
	open_marked(f); /* and is made anew */
	fixture_close(f);
	assert_false(history_of(f).is_behind);
}

CLOSED_STORE_TEST(the_number_of_nodes_stands_in_the_mark_with_the_next_commit)
{
	struct paths p = paths_of(f);
	struct kv_history history;
	struct kv_marks marks = marks_of(&p);
	struct mark mark;

	open_marked(f);
	kv_note_nodes(f->kv, 5);
	(void)put(f, "a", "1");
	assert_int_equal(mark_read(p.mark, &mark, NULL), STATUS_OK);
	assert_int_equal(mark.nodes, 5);
	assert_int_equal(kv_history(f->kv, &marks, &history, NULL), STATUS_OK);
	assert_int_equal(history.nodes, 5);
	assert_string_equal(history.store_id, "s1");
	fixture_close(f);
}
