/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/ofd_lock.h"
#include "privileged/chain_log.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sodium.h>
#include <sys/stat.h>

static char path[64];
static char lock_path[72];
static struct chain_log trail;
static struct chain_log_head head;

/* How often the trail asked the kernel, and the clock it sees. */
static struct {
	int reads, syncs, reservations, sync_result;
	uint64_t now_us;
} seam;

ssize_t __real_sys_pread(int fd, void *buf, size_t n, off_t offset);
int __real_sys_fallocate(int fd, int mode, off_t offset, off_t n);

WRAPPED(ssize_t, sys_pread, int fd, void *buf, size_t n, off_t offset)
{
	seam.reads++;
	return __real_sys_pread(fd, buf, n, offset);
}

WRAPPED(int, sys_fdatasync, int fd)
{
	seam.syncs++;
	return seam.sync_result;
}

WRAPPED(int, sys_fallocate, int fd, int mode, off_t offset, off_t n)
{
	assert_int_equal(mode, FALLOC_FL_KEEP_SIZE);
	assert_int_equal(n, CHAIN_LOG_AHEAD);
	seam.reservations++;
	return __real_sys_fallocate(fd, mode, offset, n);
}

WRAPPED(uint64_t, clock_monotonic_us, void)
{
	return seam.now_us;
}

/* A process that has just started on the file. */
static void open_trail(struct chain_log *ret)
{
	*ret = (struct chain_log)ROW(.fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC),
				     .read_fd = open(path, O_RDONLY | O_CLOEXEC),
				     .lock_fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600),
				     .lock_at = 7, .sha256 = crypto_hash_sha256, .head = &head);
	keyline_words(&ret->origin, "cluster", "demo", "node", "n1");
	assert_true(ret->fd >= 0 && ret->read_fd >= 0);
}

static void close_trail(struct chain_log *t)
{
	(void)close(t->fd);
	(void)close(t->read_fd);
	(void)close(t->lock_fd);
}

static int setup(void **state)
{
	memset(&seam, 0, sizeof(seam));
	memset(&head, 0, sizeof(head));
	seam.now_us = 10 * USEC_PER_SEC;
	(void)str_copy(path, sizeof(path), "/tmp/holdfast-trail-XXXXXX");
	(void)close(mkstemp(path));
	(void)str_format(lock_path, sizeof(lock_path), "%s.lock", path);
	open_trail(&trail);
	return 0;
}

static int teardown(void **state)
{
	close_trail(&trail);
	(void)unlink(lock_path);
	return unlink(path);
}

static void restart(void)
{
	close_trail(&trail);
	open_trail(&trail);
}

/* What root does to rotate the log, and restarts the agent. */
static void rotate(void)
{
	assert_int_equal(truncate(path, 0), 0); /* a new file for all that the helper can see */
	restart();
}

static void put_raw(const char *text, size_t n)
{
	assert_int_equal(write(trail.fd, text, n), (ssize_t)n);
}

static int append_to(struct chain_log *t, const struct keyline *record, uint64_t *ret_rec)
{
	int r = chain_log_append(t, record, ret_rec);

	chain_log_settle(t);
	return r;
}

static uint64_t append(const char *op)
{
	struct keyline record = KEYLINE_INIT;
	uint64_t rec = 0;

	keyline_word(&record, "op", op);
	assert_int_equal(append_to(&trail, &record, &rec), 0);
	return rec;
}

/* Not inlined: gcc 12 then takes the result for the address of the variable. */
static __attribute__((noinline)) char *whole_file(void)
{
	char *text = NULL;

	assert_int_equal(file_read(path, 1 << 20, &text, NULL), 0);
	return text;
}

/* Verify the chain as an auditor would. Returns the number of lines. */
static int check_chain(void)
{
	char prev[65] = "0000000000000000000000000000000000000000000000000000000000000000";
	cleanup_free char *text = whole_file();
	char *line = text;
	int lines = 0;

	while (*line != '\0') {
		char *end = NON_NULL(strchr(line, '\n'));
		uint8_t digest[crypto_hash_sha256_BYTES];
		const char *at;

		*end = '\0';
		at = strstr(line, " prev=");
		/* a torn line may have lost its own, but is in the next one's */
		if (at && strlen(at) == strlen(" prev=") + CHAIN_LOG_DIGEST_HEX)
			assert_string_equal(at + strlen(" prev="), prev);
		(void)crypto_hash_sha256(digest, (unsigned char *)line, (unsigned long long)(end - line));
		hex_encode(prev, digest, sizeof(digest));
		line = end + 1;
		lines++;
	}
	return lines;
}

TEST_FIXTURE(records_are_numbered_and_chained, setup, teardown)
{
	cleanup_free char *text = NULL;

	for (uint64_t i = 1; i <= 20; i++)
		assert_int_equal(append("stage"), i);
	assert_int_equal(check_chain(), 20);
	text = whole_file();
	assert_non_null(strstr(text, " rec=7 cluster=demo node=n1 op=stage prev="));
	assert_memory_equal(text, "ts=20", 5);
}

TEST_FIXTURE(another_instance_continues_in_the_same_chain, setup, teardown)
{
	struct keyline record = KEYLINE_INIT;
	struct chain_log other;
	uint64_t rec;

	open_trail(&other);
	keyline_word(&record, "op", "publish");
	for (uint64_t i = 0; i < 5; i++) {
		assert_int_equal(append("stage"), 2 * i + 1);
		assert_int_equal(append_to(&other, &record, &rec), 0);
		assert_int_equal(rec, 2 * i + 2);
	}
	seam.syncs = 0;
	close_trail(&other);
	assert_int_equal(check_chain(), 10);
}

TEST_FIXTURE(the_end_is_read_only_when_somebody_else_was_there, setup, teardown)
{
	struct chain_log other;

	(void)append("stage");
	seam.reads = 0; /* of an empty file */
	(void)append("stage");
	(void)append("stage");
	assert_int_equal(seam.reads, 0);
	open_trail(&other);
	{
		struct keyline record = KEYLINE_INIT;
		uint64_t rec;

		assert_int_equal(append_to(&other, &record, &rec), 0);
		assert_int_equal(rec, 4);
	}
	close_trail(&other);
	assert_int_equal(seam.reads, 1);
	assert_int_equal(append("stage"), 5);
	assert_int_equal(seam.reads, 2);
	assert_int_equal(check_chain(), 5);
}

TEST_FIXTURE(a_torn_line_stays_in_the_chain_wherever_it_was_cut, setup, teardown)
{
	cleanup_free char *text = NULL;
	size_t first, n;

	for (int i = 0; i < 11; i++)
		(void)append("stage");
	text = whole_file();
	n = strlen(text);
	first = (size_t)(strstr(text, "rec=11 ") - text);
	while (text[first - 1] != '\n')
		first--;
	for (size_t cut = first + 1; cut < n; cut++) {
		uint64_t rec;

		assert_int_equal(ftruncate(trail.fd, 0), 0);
		put_raw(text, cut);
		restart();
		rec = append("publish");
		/* a line is a record when only its newline is missing */
		assert_int_equal(rec, cut == n - 1 ? 12 : 11);
		assert_int_equal(check_chain(), 12);
		assert_int_equal(append("unstage"), rec + 1);
		assert_int_equal(check_chain(), 13);
	}
}

TEST_FIXTURE(a_death_after_the_newline_that_repairs_is_repaired_too, setup, teardown)
{
	(void)append("stage");
	put_raw("ts=2026 rec=2 clus\n", 19);
	restart();
	assert_int_equal(append("publish"), 2);
	assert_int_equal(check_chain(), 3);
}

TEST_FIXTURE(a_trail_that_begins_with_a_torn_line_continues, setup, teardown)
{
	put_raw("ts=2026", 7);
	assert_int_equal(append("stage"), 1);
	assert_int_equal(check_chain(), 2);
}

TEST_FIXTURE(a_file_that_is_no_trail_is_left_alone, setup, teardown)
{
	static const char junk[] = "this is somebody's letter\n";
	char big[8192];
	struct keyline record = KEYLINE_INIT;
	uint64_t rec = 77;
	cleanup_free char *text = NULL;

	put_raw(junk, sizeof(junk) - 1);
	assert_int_equal(append_to(&trail, &record, &rec), -EBADMSG);
	memset(big, 'a', sizeof(big));
	put_raw(big, sizeof(big));
	assert_int_equal(append_to(&trail, &record, &rec), -EBADMSG);
	assert_int_equal(rec, 77);
	text = whole_file();
	assert_int_equal(strlen(text), sizeof(junk) - 1 + sizeof(big));
}

#define CHAIN " prev=0000000000000000000000000000000000000000000000000000000000000000"

static int read_end_of(const char *tail, bool whole)
{
	char copy[4096];
	struct chain_log_end end;

	(void)str_copy(copy, sizeof(copy), tail);
	return chain_log_read_end(copy, strlen(copy), whole, crypto_hash_sha256, &end) < 0 ? -1
											   : (int)end.rec;
}

TEST_FIXTURE(only_a_whole_record_has_a_number, setup, teardown)
{
	assert_int_equal(read_end_of("ts=1 rec=5 a=b" CHAIN "\n", true), 5);
	assert_int_equal(read_end_of("ts=1 rec=5 a=b" CHAIN, true), 5);
	assert_int_equal(read_end_of("ts=1 rec=5 a=b\n", true), -1);
	assert_int_equal(read_end_of("ts=1 rec=5x a=b" CHAIN "\n", true), -1);
	assert_int_equal(read_end_of("ts=1 rec= a=b" CHAIN "\n", true), -1);
	assert_int_equal(read_end_of("ts=1 rec=0 a=b" CHAIN "\n", true), -1);
	assert_int_equal(read_end_of("ts=1 rec=18446744073709551615 a=b" CHAIN "\n", true), -1);
	assert_int_equal(read_end_of("ts=1 rec=5 a=b" CHAIN "\nts=1 rec=6\n", true), 5);
	assert_int_equal(read_end_of("ts=1 rec=5 a=b" CHAIN "\nts=1\nts=1 rec=6 a", true), 5);
	/* the beginning of the last line must be in sight, or its digest would be another one's */
	assert_int_equal(read_end_of("ts=1 rec=5 a=b" CHAIN "\n", false), -1);
	assert_int_equal(read_end_of("a=b\nts=1 rec=5 a=b" CHAIN "\n", false), 5);
	assert_int_equal(read_end_of("", true), 0);
	assert_int_equal(read_end_of("", false), -1);
	assert_int_equal(read_end_of("\n", true), -1);
	assert_int_equal(read_end_of("\n\n", true), -1);
	assert_int_equal(read_end_of("\n\n", false), -1);
}

/* The last line of the file. */
static const char *last_line(void)
{
	static char line[CHAIN_LOG_LINE_MAX + 1];
	cleanup_free char *text = whole_file();
	size_t n = strlen(text);
	const char *start = memrchr(text, '\n', n - 1);

	assert_true(n > 0);
	(void)str_copy(line, sizeof(line), start ? start + 1 : text);
	return line;
}

TEST_FIXTURE(an_empty_file_continues_the_chain_of_the_one_before, setup, teardown)
{
	char before[CHAIN_LOG_DIGEST_HEX + 1], want[128];

	(void)append("stage");
	(void)append("stage");
	assert_null(strstr(last_line(), "head="));
	memcpy(before, trail.end.digest[0], sizeof(before));
	rotate();
	assert_int_equal(append("start"), 3);
	(void)str_format(want, sizeof(want), " op=start head=rotated prev=%s\n", before);
	assert_non_null(strstr(last_line(), want));
	assert_int_equal(append("stage"), 4);
	assert_null(strstr(last_line(), "head="));
}

TEST_FIXTURE(a_writer_to_the_old_file_reports_it_and_keeps_the_head, setup, teardown)
{
	char old[80];
	struct chain_log young;
	struct keyline record = KEYLINE_INIT;
	uint64_t rec;

	keyline_word(&record, "op", "start");
	(void)append("stage");
	(void)append("stage");
	(void)str_format(old, sizeof(old), "%s.1", path);
	assert_int_equal(rename(path, old), 0);
	(void)close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	(void)append("stage"); /* nobody has begun the new file: the chain is still in the old one */
	assert_null(strstr(trail.line.text, "head="));
	open_trail(&young);
	assert_int_equal(append_to(&young, &record, &rec), 0);
	assert_int_equal(rec, 4);
	assert_non_null(strstr(young.line.text, " head=rotated "));
	for (uint64_t i = 4; i < 7; i++) {
		assert_int_equal(append("publish"), i);
		assert_non_null(strstr(trail.line.text, " head=moved "));
		assert_int_equal(head.rec, i);
		assert_int_equal(append_to(&young, &record, &rec), 0);
		assert_int_equal(rec, i + 1);
		assert_null(strstr(young.line.text, "head="));
	}
	close_trail(&young);
	open_trail(&young);
	assert_int_equal(append_to(&young, &record, &rec), 0);
	assert_int_equal(rec, 8);
	assert_null(strstr(young.line.text, "head="));
	close_trail(&young);
	assert_int_equal(rename(old, path), 0);
	assert_int_equal(check_chain(), 6); /* of the old file, for itself */
}

TEST_FIXTURE(a_log_whose_end_was_cut_off_is_reported, setup, teardown)
{
	cleanup_free char *text = NULL;
	size_t n;

	for (int i = 0; i < 5; i++)
		(void)append("stage");
	text = whole_file();
	n = (size_t)(strstr(text, "rec=5 ") - text);
	while (text[n - 1] != '\n')
		n--;
	assert_int_equal(truncate(path, (off_t)n), 0);
	assert_int_equal(append("publish"), 5); /* even while the helper runs */
	assert_non_null(strstr(last_line(), " head=mismatch "));
	assert_int_equal(check_chain(), 5);
	assert_int_equal(append("publish"), 6);
	assert_null(strstr(last_line(), "head="));
	restart();
	(void)append("start");
	assert_null(strstr(last_line(), "head="));
}

TEST_FIXTURE(a_death_before_the_head_was_stored_is_no_mismatch, setup, teardown)
{
	struct chain_log_head before;

	(void)append("stage");
	before = head;
	(void)append("stage");
	head = before;
	restart();
	assert_int_equal(append("start"), 3);
	assert_null(strstr(last_line(), "head="));
	head = before; /* two records further on something is wrong */
	restart();
	(void)append("start");
	assert_non_null(strstr(last_line(), "head=mismatch"));
}

static bool others_may_write(void)
{
	int fd = open(lock_path, O_RDWR | O_CLOEXEC);
	int r = ofd_lock(fd, 7, 1, false);

	(void)close(fd);
	assert_true(r == 0 || r == -EAGAIN);
	return r == 0;
}

static uint64_t unsettled(const char *op)
{
	struct keyline record = KEYLINE_INIT;
	uint64_t rec = 0;

	keyline_word(&record, "op", op);
	assert_int_equal(chain_log_append(&trail, &record, &rec), 0);
	return rec;
}

TEST_FIXTURE(a_record_is_in_the_file_before_the_chain_is_settled, setup, teardown)
{
	(void)append("stage");
	assert_true(others_may_write());
	assert_int_equal(unsettled("publish"), 2);
	assert_int_equal(check_chain(), 2);
	assert_int_equal(seam.syncs, 2);
	assert_int_equal(head.rec, 1);
	assert_false(others_may_write());
	assert_int_equal(unsettled("publish"), 3); /* settles the one before */
	assert_int_equal(head.rec, 2);
	for (int i = 0; i < 2; i++) {
		chain_log_settle(&trail);
		assert_int_equal(head.rec, 3);
		assert_true(others_may_write());
	}
	assert_int_equal(append("stage"), 4);
	assert_int_equal(check_chain(), 4);
}

TEST_FIXTURE(a_death_before_the_chain_was_settled_is_no_mismatch, setup, teardown)
{
	(void)append("stage");
	for (int deaths = 1; deaths <= 3; deaths++) {
		(void)unsettled("publish");
		restart();
		assert_true(others_may_write());
	}
	assert_int_equal(append("start"), 5);
	assert_null(strstr(last_line(), "head="));
	assert_int_equal(check_chain(), 5);
}

TEST_FIXTURE(a_failed_append_releases_the_lock, setup, teardown)
{
	struct keyline record = {.overflow = true};
	uint64_t rec;

	assert_int_equal(chain_log_append(&trail, &record, &rec), -EMSGSIZE);
	assert_true(others_may_write());
	seam.sync_result = -EIO;
	assert_int_equal(chain_log_append(&trail, &(struct keyline)KEYLINE_INIT, &rec), -EIO);
	assert_true(others_may_write());
	assert_int_equal(head.rec, 1); /* it is in the file */
}

TEST_FIXTURE(a_head_that_is_not_known_is_reported_and_no_reproach, setup, teardown)
{
	(void)append("stage");
	memset(&head, 0, sizeof(head)); /* another boot */
	restart();
	assert_int_equal(append("start"), 2);
	assert_non_null(strstr(last_line(), " head=unknown "));
	assert_int_equal(check_chain(), 2);
	assert_int_equal(head.rec, 2);
}

TEST_FIXTURE(every_record_is_brought_to_the_medium, setup, teardown)
{
	for (int i = 1; i <= 3; i++) {
		(void)append("stage");
		assert_int_equal(seam.syncs, i);
	}
	chain_log_idle(&trail);
	assert_int_equal(seam.syncs, 3);
}

TEST_FIXTURE(a_batch_is_brought_to_the_medium_once_a_second_and_when_idle, setup, teardown)
{
	trail.batch = true;
	(void)append("stage"); /* the last time was long ago */
	assert_int_equal(seam.syncs, 1);
	seam.now_us += USEC_PER_SEC - 1;
	(void)append("stage");
	(void)append("stage");
	assert_int_equal(seam.syncs, 1);
	seam.now_us++;
	(void)append("stage");
	assert_int_equal(seam.syncs, 2);
	chain_log_idle(&trail);
	assert_int_equal(seam.syncs, 2);
	(void)append("stage");
	chain_log_idle(&trail);
	chain_log_idle(&trail);
	assert_int_equal(seam.syncs, 3);
	assert_int_equal(check_chain(), 5);
}

TEST_FIXTURE(a_failed_sync_shows_with_the_next_record, setup, teardown)
{
	struct keyline record = KEYLINE_INIT;
	uint64_t rec = 0;

	trail.batch = true;
	(void)append("stage");
	(void)append("stage");
	seam.sync_result = -EIO;
	chain_log_idle(&trail);
	assert_int_equal(append_to(&trail, &record, &rec), -EIO);
	seam.sync_result = 0;
	assert_int_equal(append("stage"), 4); /* the record is in the file all the same */
	assert_null(strstr(last_line(), "head="));
	assert_int_equal(check_chain(), 4);
}

TEST_FIXTURE(room_is_reserved_ahead_without_changing_the_size, setup, teardown)
{
	struct stat st;
	cleanup_free char *text = NULL;

	(void)append("stage");
	assert_int_equal(seam.reservations, 1);
	text = whole_file();
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, strlen(text));
	if (st.st_blocks * 512 >= CHAIN_LOG_AHEAD) { /* not every file system can */
		for (int i = 0; i < 100; i++)
			(void)append("stage");
		assert_int_equal(seam.reservations, 1);
	}
	assert_true(check_chain() >= 1);
}

TEST_FIXTURE(a_record_that_does_not_fit_is_not_cut_but_refused, setup, teardown)
{
	struct keyline record = KEYLINE_INIT;
	char value[161];
	uint64_t rec;

	memset(value, 'a', sizeof(value));
	value[160] = '\0';
	for (int i = 0; i < 6; i++)
		keyline_word(&record, "a", value);
	assert_false(record.overflow);
	assert_int_equal(append_to(&trail, &record, &rec), -EMSGSIZE); /* with what is put around it */
	keyline_word(&record, "a", value);
	assert_true(record.overflow);
	record.len = 0;
	record.text[0] = '\0';
	assert_int_equal(append_to(&trail, &record, &rec), -EMSGSIZE);
	assert_int_equal(check_chain(), 0);
}

TEST_FIXTURE(a_log_that_was_deleted_is_no_trail, setup, teardown)
{
	struct keyline record = KEYLINE_INIT;
	uint64_t rec = 7;

	(void)append("stage");
	assert_int_equal(unlink(path), 0);
	keyline_word(&record, "op", "stage");
	assert_int_equal(append_to(&trail, &record, &rec), -ESTALE);
	assert_int_equal(rec, 7);
	/* for the other sinks: without number and chain */
	assert_null(strstr(trail.line.text, "rec="));
	assert_non_null(strstr(trail.line.text, " cluster=demo node=n1 op=stage"));
	(void)close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}
