/* SPDX-License-Identifier: Apache-2.0 */
/* The journal on a real disk that is full, out of inodes or read-only, and on one with a quota. */

#include "records.h"
#include "unit_loop.h"

#include "alloc/journal.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define DISK "/tmp"
#define FOLDER DISK "/journal"
#define FILL DISK "/fill"

enum { RESERVE = 1 << 20 };

struct fixture {
	sd_event *event;
	struct journal_disk *disk;
	struct journal *journal;
	unsigned int n_written, n_changes, n_allocs;
};

/* A quota of a user, which the kernel of a test may not have: once it is used up, only what the reserve gave
 * back can be written. These take the place of libc's, for the store as well. */
static bool is_quota_used_up;

static bool has_reserve(void)
{
	return access(FOLDER "/agent.reserve-0", F_OK) == 0;
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off_t offset);
ssize_t pwrite64(int fd, const void *bytes, size_t n, off_t offset)
{
	if (!is_quota_used_up || !has_reserve())
		return syscall(SYS_pwrite64, fd, bytes, n, offset);
	errno = EDQUOT;
	return -1;
}

int fallocate(int fd, int mode, off_t offset, off_t n)
{
	if (!is_quota_used_up || (!has_reserve() && n < RESERVE))
		return (int)syscall(SYS_fallocate, fd, mode, offset, n);
	errno = EDQUOT;
	return -1;
}

static void on_changed(void *userdata)
{
	struct fixture *f = userdata;

	f->n_changes++;
}

static void on_written(const struct error *err, void *userdata)
{
	struct fixture *f = userdata;

	assert_null(err);
	f->n_written++;
}

static enum status on_alloc(struct alloc_record *record, void *userdata, struct error *err)
{
	struct fixture *f = userdata;

	f->n_allocs++;
	free(record);
	return STATUS_OK;
}

static enum status open_journal(struct fixture *f, struct error *err)
{
	assert_ok(journal_disk_new(f->event, FOLDER, RESERVE, on_changed, f, &f->disk, err));
	return journal_open(f->event,
			    &(struct journal_options){
				    .data_dir = FOLDER, .cluster = "c", .node_id = "n1", .disk = f->disk},
			    &f->journal, err);
}

static void close_journal(struct fixture *f)
{
	journal_close(f->journal);
	journal_disk_free(f->disk);
	f->journal = NULL;
	f->disk = NULL;
}

/* A disk of the test's own, in a mount namespace that ends with it. */
static void use_disk(struct fixture *f, const char *options)
{
	struct error err;

	assert_msg(mount("hf-test-disk", DISK, "tmpfs", MS_NOSUID | MS_NODEV, options) >= 0,
		   "cannot mount a tmpfs with %s: %s", options, strerror(errno));
	assert_int_equal(mkdir(FOLDER, 0777), 0);
	assert_succeeds(open_journal(f, &err), err);
}

UNIT_SETUP(setup, struct fixture, f)
{
	is_quota_used_up = false;
	assert_int_equal(unshare(CLONE_NEWNS), 0);
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_true(sd_event_new(&f->event) >= 0);
}

UNIT_TEARDOWN(teardown, struct fixture, f)
{
	close_journal(f);
	sd_event_unref(f->event);
	assert_int_equal(umount2(DISK, MNT_DETACH), 0);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

static void write_one(struct fixture *f)
{
	struct alloc_record *record = records_make(2);
	struct error err;

	assert_ok(journal_write(f->journal, &(struct journal_write){.alloc = record}, on_written, f, &err));
	free(record);
}

/* Takes all that is left. */
static void fill(const char *path)
{
	static const char bytes[1 << 12];
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	while (write(fd, bytes, sizeof(bytes)) > 0)
		;
}

static enum node_disk trouble(const struct fixture *f)
{
	return journal_disk_trouble(f->disk);
}

/* What runs is still journalled; new work is refused until there is room. */
static void expect_trouble(struct fixture *f, enum node_disk kind, const char *words)
{
	struct error err;

	RUN_UNTIL(f->event, trouble(f) == kind);
	assert_error(journal_disk_check(f->disk, &err), STATUS_RESOURCE_EXHAUSTED, err, words);
	assert_non_null(strstr(err.msg, FOLDER));
}

static void expect_room(struct fixture *f)
{
	struct error err;

	RUN_UNTIL(f->event, trouble(f) == NODE_DISK_ROOM);
	RUN_UNTIL(f->event, journal_waiting(f->journal) == 0);
	assert_int_equal(journal_disk_check(f->disk, &err), STATUS_OK);
	assert_int_equal(f->n_changes, 2);
}

static void expect_read_back(struct fixture *f)
{
	static const struct journal_reader reader = {.on_alloc = on_alloc};
	struct error err;

	close_journal(f);
	assert_int_equal(open_journal(f, &err), STATUS_OK);
	assert_int_equal(journal_read(f->journal, &reader, f, &err), STATUS_OK);
	assert_int_equal(f->n_allocs, 1);
}

CASE(a_full_disk_lets_the_journal_write_into_its_reserve)
{
	use_disk(f, "size=24m");
	fill(FILL);
	expect_trouble(f, NODE_DISK_FULL, "its disk is full: ");
	write_one(f);
	RUN_UNTIL(f->event, f->n_written == 1);
	assert_int_equal(unlink(FILL), 0);
	expect_room(f);
	expect_read_back(f);
}

/* A program that writes its log without end takes each block that becomes free. */
CASE(a_program_that_goes_on_to_fill_the_disk_stops_no_write_of_the_journal)
{
	use_disk(f, "size=24m");
	fill(FILL);
	expect_trouble(f, NODE_DISK_FULL, "its disk is full: ");
	for (unsigned int n = 1; n <= 8; n++) {
		fill(FILL);
		write_one(f);
		RUN_UNTIL(f->event, f->n_written == n);
		assert_true(has_reserve());
	}
	assert_int_equal(unlink(FILL), 0);
	expect_room(f);
	expect_read_back(f);
}

CASE(writes_wait_in_memory_when_the_reserve_is_used_up_too)
{
	unsigned int n = 0;

	use_disk(f, "size=24m");
	fill(FILL);
	expect_trouble(f, NODE_DISK_FULL, "its disk is full: ");
	for (; has_reserve(); n++) {
		write_one(f);
		RUN_UNTIL(f->event, f->n_written == n + 1 || journal_waiting(f->journal) > 0);
	}
	fill(FILL "2");
	for (unsigned int end = n + 64; n < end; n++)
		write_one(f);
	RUN_UNTIL(f->event, journal_waiting(f->journal) > 0);
	run_for(f->event, 3000);
	assert_true(f->n_written < n);
	assert_int_equal(unlink(FILL), 0);
	RUN_UNTIL(f->event, f->n_written == n);
	assert_int_equal(unlink(FILL "2"), 0);
	expect_room(f);
	expect_read_back(f);
}

CASE(a_disk_without_inodes_takes_no_new_work)
{
	struct error err;
	char path[64];
	int n = 0;

	use_disk(f, "size=24m,nr_inodes=96");
	for (;; n++) {
		cleanup_close int fd = -EBADF;

		(void)snprintf(path, sizeof(path), DISK "/%d", n);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			break;
	}
	assert_int_equal(errno, ENOSPC);
	expect_trouble(f, NODE_DISK_INODES, "no inodes");
	close_journal(f); /* the store makes two files at the next start */
	f->n_changes = 1;
	assert_int_equal(open_journal(f, &err), STATUS_OK);
	write_one(f);
	RUN_UNTIL(f->event, f->n_written == 1);
	while (n-- > 0) {
		(void)snprintf(path, sizeof(path), DISK "/%d", n);
		assert_int_equal(unlink(path), 0);
	}
	expect_room(f);
	expect_read_back(f);
}

CASE(a_quota_that_is_used_up_frees_the_reserve)
{
	use_disk(f, "size=24m");
	assert_true(has_reserve());
	is_quota_used_up = true;
	run_for(f->event, 3000);
	assert_int_equal(trouble(f), NODE_DISK_ROOM); /* the file system does not count it */
	write_one(f);
	RUN_UNTIL(f->event, f->n_written == 1);
	expect_trouble(f, NODE_DISK_QUOTA, "its quota");
	assert_false(has_reserve());
	is_quota_used_up = false;
	expect_room(f);
	assert_true(has_reserve());
	expect_read_back(f);
}

CASE(a_read_only_disk_is_named_at_the_start)
{
	struct error err;

	use_disk(f, "size=24m");
	write_one(f);
	RUN_UNTIL(f->event, f->n_written == 1);
	close_journal(f);
	assert_int_equal(mount(NULL, DISK, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	assert_int_not_equal(open_journal(f, &err), STATUS_OK);
	assert_true(journal_disk_is_reason(f->disk));
	assert_false(journal_disk_takes_writes(f->disk));
	expect_trouble(f, NODE_DISK_READ_ONLY, "its disk is read-only: ");
	assert_int_equal(mount(NULL, DISK, NULL, MS_REMOUNT, NULL), 0);
	RUN_UNTIL(f->event, trouble(f) == NODE_DISK_ROOM);
	assert_true(journal_disk_takes_writes(f->disk));
	f->n_changes = 0;
	expect_read_back(f);
}
