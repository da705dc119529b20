/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files, with every system call failing in turn. */

#include "temp_dir.h"
#include "unit.h"

#include "base/fd.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* --- the model of a failing kernel: the n-th call fails; writes may be short or interrupted --- */

static struct {
	int error; /* 0: nothing fails */
	int countdown;
	bool has_failed;
	bool is_stingy; /* writes take one byte, and every other one is interrupted */
	int writes;
} fault;

static bool hits(void)
{
	if (fault.error == 0 || --fault.countdown != 0)
		return false;
	fault.has_failed = true;
	errno = fault.error;
	return true;
}

int __real_open(const char *path, int flags, mode_t mode);
ssize_t __real_write(int fd, const void *bytes, size_t n);
int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
void *__real_realloc(void *p, size_t n);

WRAPPED(int, open, const char *path, int flags, mode_t mode)
{
	return hits() ? -1 : __real_open(path, flags, mode);
}

WRAPPED(ssize_t, write, int fd, const void *bytes, size_t n)
{
	if (hits())
		return -1;
	if (!fault.is_stingy)
		return __real_write(fd, bytes, n);
	if (fault.writes++ % 2 == 0) {
		errno = EINTR;
		return -1;
	}
	return __real_write(fd, bytes, 1);
}

WRAPPED(int, fsync, int fd)
{
	return hits() ? -1 : __real_fsync(fd);
}

WRAPPED(int, rename, const char *from, const char *to)
{
	return hits() ? -1 : __real_rename(from, to);
}

WRAPPED(void *, realloc, void *p, size_t n)
{
	return hits() ? NULL : __real_realloc(p, n);
}

static void arm(int error, int countdown)
{
	fault.error = error;
	fault.countdown = countdown;
	fault.has_failed = false;
}

static bool disarm(void)
{
	fault.error = 0;
	return fault.has_failed;
}

/* --- fixture --- */

struct fixture {
	char dir[TEMP_DIR_SIZE], path[TEMP_PATH_SIZE];
};

static int setup(void **state)
{
	static struct fixture f;

	temp_dir_make(f.dir);
	(void)temp_dir_path(f.path, f.dir, "file");
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	const struct fixture *f = *state;

	fault.is_stingy = false;
	temp_dir_remove(f->dir);
	return 0;
}

static void expect_content(const struct fixture *f, const char *expected)
{
	cleanup_free char *text = NULL;

	assert_int_equal(file_read(f->path, 100, &text, NULL), 0);
	assert_string_equal(text, expected);
}

/* Fails when anything but the file itself is there. */
static void expect_nothing_beside(const struct fixture *f)
{
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(rmdir(f->dir), 0);
	assert_int_equal(mkdir(f->dir, 0700), 0);
}

/* --- tests --- */

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(a_file_is_written_and_read_back)
{
	static const char bytes[] = {'a', 0, '\n', (char)0xff};
	cleanup_free char *back = NULL;
	struct stat st;
	size_t len = 0;

	assert_int_equal(file_write_atomic(f->path, 0640, bytes, sizeof(bytes)), 0);
	assert_int_equal(file_read(f->path, sizeof(bytes), &back, &len), 0);
	assert_int_equal(len, sizeof(bytes));
	assert_memory_equal(back, bytes, sizeof(bytes));
	assert_int_equal(back[len], '\0');
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	expect_nothing_beside(f);
}

CASE(a_file_is_replaced_whole_with_its_mode)
{
	struct stat st;

	assert_int_equal(file_write_atomic(f->path, 0600, "a longer text", 13), 0);
	assert_int_equal(file_write_atomic(f->path, 0644, "short", 5), 0);
	expect_content(f, "short");
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(file_write_atomic(f->path, 0644, "", 0), 0);
	expect_content(f, "");
}

CASE(reading_stops_at_the_limit)
{
	static const size_t sizes[] = {1, 4094, 4095, 4096, 4097, 10000};
	static char bytes[10000];

	memset(bytes, 'x', sizeof(bytes));
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		cleanup_free char *text = NULL;
		size_t len = 0;

		assert_int_equal(file_write_atomic(f->path, 0600, bytes, sizes[i]), 0);
		assert_int_equal(file_read(f->path, sizes[i] - 1, &text, &len), -EFBIG);
		assert_null(text);
		assert_int_equal(len, 0);
		assert_int_equal(file_read(f->path, sizes[i], &text, &len), 0);
		assert_int_equal(len, sizes[i]);
		assert_memory_equal(text, bytes, len);
	}
}

CASE(a_file_that_is_not_regular_is_refused)
{
	char *text = NULL;

	assert_int_equal(file_read(f->path, 10, &text, NULL), -ENOENT);
	assert_int_equal(file_read(f->dir, 10, &text, NULL), -EISDIR);
	assert_int_equal(file_read("/dev/null", 10, &text, NULL), -EINVAL);
	assert_int_equal(mkfifo(f->path, 0600), 0);
	assert_int_equal(file_read(f->path, 10, &text, NULL), -EINVAL); /* and does not block */
	assert_null(text);
}

CASE(a_path_too_long_is_refused)
{
	char path[5000];

	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(file_write_atomic(path, 0600, "x", 1), -ENAMETOOLONG);
	assert_int_equal(file_sync_folder(path), -ENAMETOOLONG);
}

CASE(short_and_interrupted_writes_continue)
{
	fault.is_stingy = true;
	assert_int_equal(file_write_atomic(f->path, 0600, "some text", 9), 0);
	fault.is_stingy = false;
	expect_content(f, "some text");
}

CASE(a_failure_at_any_step_leaves_the_old_file_or_the_new)
{
	static const int errors[] = {EIO, ENOSPC, EACCES, EMFILE};

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		int n = 0;
		bool has_failed = true;

		while (has_failed) {
			cleanup_free char *text = NULL;
			int r;

			assert_int_equal(file_write_atomic(f->path, 0600, "old", 3), 0);
			arm(errors[i], ++n);
			r = file_write_atomic(f->path, 0600, "new!", 4);
			has_failed = disarm();
			assert_int_equal(r, has_failed ? -errors[i] : 0);
			assert_int_equal(file_read(f->path, 10, &text, NULL), 0);
			if (!has_failed)
				assert_string_equal(text, "new!");
			else if (!str_eq(text, "new!"))
				assert_string_equal(text, "old");
			expect_nothing_beside(f);
		}
		assert_int_equal(n,
				 7); /* open, write, fsync, rename; open and fsync of the folder; success */
	}
}

CASE(reading_without_memory_reports_it)
{
	static char bytes[10000];

	assert_int_equal(file_write_atomic(f->path, 0600, bytes, sizeof(bytes)), 0);
	for (int n = 2; n < 5; n++) { /* the first call is open */
		cleanup_free char *text = NULL;
		int r;

		arm(ENOMEM, n);
		r = file_read(f->path, sizeof(bytes), &text, NULL);
		assert_int_equal(r, disarm() ? -ENOMEM : 0);
		assert_int_equal(text != NULL, r == 0);
	}
}

CASE(a_temporary_file_left_behind_does_not_matter)
{
	char tmp[TEMP_PATH_SIZE + 32], target[TEMP_PATH_SIZE];

	(void)str_format(tmp, sizeof(tmp), "%s.%d.tmp", f->path, getpid());
	assert_int_equal(file_write_atomic(tmp, 0600, "left", 4), 0);
	assert_int_equal(file_write_atomic(f->path, 0600, "new", 3), 0);
	expect_content(f, "new");
	/* and a link in its place is not followed */
	(void)temp_dir_path(target, f->dir, "target");
	assert_int_equal(symlink(target, tmp), 0);
	assert_int_equal(file_write_atomic(f->path, 0600, "newer", 5), 0);
	expect_content(f, "newer");
	assert_int_equal(access(target, F_OK), -1);
	expect_nothing_beside(f);
}

CASE(a_real_file_size_limit_leaves_the_old_file)
{
	int status;
	pid_t pid;

	assert_int_equal(file_write_atomic(f->path, 0600, "old", 3), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		static const char big[8192];
		struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};

		(void)signal(SIGXFSZ, SIG_IGN);
		if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
			_exit(2);
		_exit(file_write_atomic(f->path, 0600, big, sizeof(big)) == -EFBIG ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	expect_content(f, "old");
	expect_nothing_beside(f);
}

CASE(syncing_the_folder_of_a_path_needs_the_folder)
{
	char path[TEMP_PATH_SIZE];

	assert_int_equal(file_sync_folder(f->path), 0);
	assert_int_equal(file_sync_folder("relative"), 0);
	assert_int_equal(file_sync_folder(temp_dir_path(path, f->dir, "none/file")), -ENOENT);
}

CASE(writing_to_a_closed_pipe_is_an_error)
{
	int ends[2];

	(void)signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(ends), 0);
	(void)close(ends[0]);
	assert_int_equal(fd_write_all(ends[1], "x", 1), -EPIPE);
	assert_int_equal(fd_write_all(ends[1], "x", 0), 0);
	(void)close(ends[1]);
	assert_int_equal(fd_write_all(-1, "x", 1), -EBADF);
}
