/* SPDX-License-Identifier: Apache-2.0 */
/* kill -9 at random moments: what was acknowledged is there, in whole transactions, in order. */

#include "fixture.h"
#include "sample.h"

#include "base/fd.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum {
	ROUNDS = 60,
	ROUNDS_PER_FILE = 12,
	KILL_WITHIN_US = 40000,
	OUTSTANDING = 32,
	CREATIONS = 80,
	CREATION_WITHIN_US = 8000
};

/* --- the process that gets killed: an endless stream of transactions --- */

struct stream {
	struct kv *kv;
	int ack_fd;
	uint64_t next;
};

static void on_durable(uint64_t revision, const struct error *err, void *userdata);

static void submit_next(struct stream *stream)
{
	char first[32], second[32];
	struct kv_op ops[] = {{.key = first, .value = "v", .len = 1},
			      {.key = second, .value = "v", .len = 1}};

	(void)str_format(first, sizeof(first), "first/%010" PRIu64, stream->next);
	(void)str_format(second, sizeof(second), "second/%010" PRIu64, stream->next);
	stream->next++;
	if (kv_submit(stream->kv, &(struct kv_txn){.ops = ops, .n_ops = 2}, on_durable, stream, NULL) !=
	    STATUS_OK)
		_exit(3);
}

static void on_durable(uint64_t revision, const struct error *err, void *userdata)
{
	struct stream *stream = userdata;

	if (err || fd_write_all(stream->ack_fd, &revision, sizeof(revision)) < 0)
		_exit(4);
	submit_next(stream);
}

static _Noreturn void run_stream(const char *path, int ack_fd)
{
	struct stream stream = {.ack_fd = ack_fd};
	sd_event *event = NULL;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)raise(SIGSTOP);
	if (sd_event_new(&event) < 0 || kv_open_sqlite(event, path, &stream.kv, NULL) != STATUS_OK)
		_exit(2);
	stream.next = kv_revision(stream.kv) + 1;
	for (int i = 0; i < OUTSTANDING; i++)
		submit_next(&stream);
	(void)sd_event_loop(event);
	_exit(5);
}

/* --- the one that kills and looks --- */

static uint64_t read_acks(int fd, uint64_t last)
{
	uint64_t revision;
	ssize_t n;

	while ((n = read(fd, &revision, sizeof(revision))) == (ssize_t)sizeof(revision)) {
		assert_int_equal(revision, last + 1);
		last = revision;
	}
	assert_int_equal(n, 0);
	return last;
}

/* After 0 microseconds the process has not begun to open the store. */
static uint64_t stream_and_kill(const char *path, int64_t after_us, uint64_t last)
{
	cleanup_close int reader = -EBADF;
	int ends[2], status;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	reader = ends[0];
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		run_stream(path, ends[1]);
	(void)close(ends[1]);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	if (after_us > 0)
		assert_int_equal(kill(pid, SIGCONT), 0);
	/* the pipe holds the acknowledgements meanwhile, or holds the stream up when it is full */
	(void)ppoll(NULL, 0, &(struct timespec){.tv_nsec = after_us * 1000}, NULL);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	return read_acks(reader, last);
}

struct counter {
	const char *prefix;
	uint64_t n;
};

static bool count_in_order(const struct kv_item *item, void *userdata)
{
	struct counter *counter = userdata;
	char expected[32];

	counter->n++;
	(void)str_format(expected, sizeof(expected), "%s%010" PRIu64, counter->prefix, counter->n);
	assert_string_equal(item->key, expected);
	assert_int_equal(item->mod_revision, counter->n);
	return true;
}

/* Whole transactions, from the first to the last, and at least those that were acknowledged. */
static uint64_t check_state(struct fixture *f, uint64_t acknowledged)
{
	struct counter first = {.prefix = "first/"};
	struct counter second = {.prefix = "second/"};
	uint64_t revision = kv_revision(f->kv);

	assert_true(revision >= acknowledged);
	assert_true(revision <= acknowledged + UINT64_C(2) * OUTSTANDING); /* nothing from nowhere */
	assert_int_equal(kv_range(f->kv, "first/", count_in_order, &first, NULL), STATUS_OK);
	assert_int_equal(kv_range(f->kv, "second/", count_in_order, &second, NULL), STATUS_OK);
	assert_int_equal(first.n, revision);
	assert_int_equal(second.n, revision);
	return revision;
}

static void use_new_folder(struct fixture *f)
{
	temp_dir_remove(f->dir);
	temp_dir_make(f->dir);
	(void)temp_dir_path(f->path, f->dir, "test.db");
}

CLOSED_STORE_TEST(everything_acknowledged_survives_kill_9_at_any_moment)
{
	const struct sample sample = sample_of_environment();
	uint64_t total = 0, revision = 0;

	for (int round = 0; round < ROUNDS; round++) {
		/* from the very first instruction of opening to the middle of a long stream */
		int64_t moment_us = (int64_t)KILL_WITHIN_US * (round * 37 % ROUNDS) / ROUNDS;
		uint64_t acknowledged;

		if (!sample_has(&sample, (uint64_t)round))
			continue;
		if (round % ROUNDS_PER_FILE < (int)sample.parts) {
			use_new_folder(f);
			revision = 0;
		}
		acknowledged = stream_and_kill(f->path, moment_us, revision);
		fixture_open(f);
		total += acknowledged - revision;
		revision = check_state(f, acknowledged);
		fixture_close(f);
	}
	print_message("%" PRIu64 " transactions acknowledged before %d kills\n", total,
		      ROUNDS / (int)sample.parts);
	assert_true(total > 0);
}

CLOSED_STORE_TEST(a_store_whose_creation_was_killed_can_be_opened)
{
	const struct sample sample = sample_of_environment();
	int n_missing = 0, n_streaming = 0;

	for (int round = 0; round < CREATIONS; round++) {
		uint64_t acknowledged;

		if (!sample_has(&sample, (uint64_t)round))
			continue;
		use_new_folder(f);
		acknowledged = stream_and_kill(
			f->path, (int64_t)CREATION_WITHIN_US * (round - (int)sample.part) / CREATIONS, 0);
		n_missing += access(f->path, F_OK) < 0;
		n_streaming += acknowledged > 0;
		fixture_open(f);
		(void)check_state(f, acknowledged);
		fixture_close(f);
	}
	print_message("%d kills: %d before the store was there, %d when it was in use\n",
		      CREATIONS / (int)sample.parts, n_missing, n_streaming);
	assert_true(n_missing > 0);
}
