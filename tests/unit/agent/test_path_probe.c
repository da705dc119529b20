/* SPDX-License-Identifier: Apache-2.0 */
#include "unit_loop.h"

#include "base/clock.h"
#include "kernel/path_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/statvfs.h>

/* A path that begins with "/stuck" is on a file system whose server does not answer: a look at it waits until
 * the gate is closed. Others are as the kernel has them. */
static int gate[2];
static atomic_int looks; /* begun, at any path of the model */

void __real_path_look(const char *path, struct path_seen *ret);

WRAPPED(void, path_look, const char *path, struct path_seen *ret)
{
	struct pollfd opened = {.fd = gate[0]};

	if (!str_starts_with(path, "/stuck")) {
		__real_path_look(path, ret);
		return;
	}
	(void)atomic_fetch_add(&looks, 1);
	while ((opened.revents & POLLHUP) == 0)
		(void)poll(&opened, 1, -1);
	*ret = (struct path_seen){.state = PATH_STALE, .sys_errno = ESTALE};
}

enum { ANSWERS_MAX = 32, SOON_US = 20 * 1000, LONG_US = 60 * 1000 * 1000 };

struct fixture {
	sd_event *event;
	struct path_probes *probes;
	unsigned int n;
	struct path_seen seen[ANSWERS_MAX];
};

static void open_gate(void)
{
	if (gate[1] >= 0)
		assert_int_equal(close(gate[1]), 0);
	gate[1] = -1;
}

UNIT_SETUP(setup, struct fixture, f)
{
	struct error err;

	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	atomic_store(&looks, 0);
	assert_true(sd_event_new(&f->event) >= 0);
	assert_int_equal(path_probes_new(f->event, &f->probes, &err), STATUS_OK);
}

static void run(struct fixture *f)
{
	assert_true(sd_event_run(f->event, 10 * USEC_PER_MSEC) >= 0);
}

UNIT_TEARDOWN(teardown, struct fixture, f)
{
	open_gate();
	while (path_probes_running(f->probes) > 0)
		run(f);
	path_probes_free(f->probes);
	sd_event_unref(f->event);
	assert_int_equal(close(gate[0]), 0);
}

static void on_seen(const struct path_seen *seen, void *userdata)
{
	struct fixture *f = userdata;

	assert_true(f->n < ANSWERS_MAX);
	f->seen[f->n++] = *seen;
}

static struct path_probe *probe_of(struct fixture *f, const char *group, const char *path,
				   uint64_t timeout_us)
{
	struct path_probe *probe;

	assert_int_equal(path_probe_start(f->probes, path, group, timeout_us, on_seen, f, &probe, NULL),
			 STATUS_OK);
	return probe;
}

static struct path_probe *probe(struct fixture *f, const char *path, uint64_t timeout_us)
{
	return probe_of(f, "", path, timeout_us);
}

static void run_until(struct fixture *f, unsigned int n)
{
	RUN_UNTIL(f->event, f->n >= n);
	assert_int_equal(f->n, n);
}

TEST_FIXTURE(the_kernel_is_asked_about_one_path, setup, teardown)
{
	static const struct {
		const char *path;
		enum path_state state;
	} rows[] = {
		{"/proc", PATH_MOUNTED},
		{"/proc/self/fd", PATH_NOT_MOUNTED},
		{"/no/such/path", PATH_NOT_MOUNTED},
		{"/dev/null/x", PATH_NOT_MOUNTED},
	};
	struct mount_table *table;
	struct mount_view shown;
	struct path_seen seen;
	struct error err;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		path_look(rows[i].path, &seen);
		assert_int_equal(seen.state, rows[i].state);
	}
	/* the mount table is another witness of the same */
	path_look("/proc", &seen);
	assert_int_equal(mount_table_read(&table, &err), STATUS_OK);
	assert_int_equal(mount_table_find(table, "/proc", &shown, &err), STATUS_OK);
	mount_table_free(table);
	assert_int_equal(seen.view.dev_major, shown.dev_major);
	assert_int_equal(seen.view.dev_minor, shown.dev_minor);
	assert_int_equal(seen.view.is_read_only, shown.is_read_only);
	assert_int_equal(seen.view.is_nosuid, shown.is_nosuid);
	assert_int_equal(seen.view.is_nodev, shown.is_nodev);
	assert_int_equal(seen.view.is_noexec, shown.is_noexec);
}

TEST_FIXTURE(a_look_has_the_space_of_the_file_system, setup, teardown)
{
	struct path_seen seen;
	struct statvfs fs;

	path_look("/", &seen);
	assert_int_equal(statvfs("/", &fs), 0);
	assert_int_equal(seen.state, PATH_MOUNTED);
	assert_int_equal(seen.space.total_bytes, fs.f_blocks * fs.f_frsize);
	assert_int_equal(seen.space.total_inodes, fs.f_files);
	assert_true(seen.space.used_bytes + seen.space.free_bytes <= seen.space.total_bytes);
	assert_true(seen.space.used_inodes + seen.space.free_inodes <= seen.space.total_inodes);
	assert_true(seen.space.used_bytes > 0);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(the_answer_comes_from_the_event_loop)
{
	(void)probe(f, "/proc", LONG_US);
	(void)probe(f, "/no/such/path", LONG_US);
	assert_int_equal(f->n, 0);
	run_until(f, 2);
	assert_int_equal(f->seen[0].state + f->seen[1].state, PATH_MOUNTED + PATH_NOT_MOUNTED);
	assert_int_equal(path_probes_running(f->probes), 0);
}

CASE(a_path_without_an_answer_is_silent_at_the_deadline)
{
	(void)probe(f, "/stuck/a", SOON_US);
	run_until(f, 1);
	assert_int_equal(f->seen[0].state, PATH_SILENT);
	assert_int_equal(path_probes_running(f->probes), 1);
}

CASE(an_answer_after_the_deadline_is_dropped)
{
	(void)probe(f, "/stuck/a", SOON_US);
	run_until(f, 1);
	open_gate();
	while (path_probes_running(f->probes) > 0)
		run(f);
	assert_int_equal(f->n, 1);
	(void)probe(f, "/stuck/a", LONG_US);
	run_until(f, 2);
	assert_int_equal(f->seen[1].state, PATH_STALE);
	assert_int_equal(f->seen[1].sys_errno, ESTALE);
}

CASE(a_path_that_is_stuck_costs_one_thread_however_often_it_is_asked_for)
{
	for (unsigned int i = 1; i <= 3 * PATH_PROBE_THREADS_MAX; i++) {
		(void)probe(f, "/stuck/a", SOON_US);
		run_until(f, i);
		assert_int_equal(f->seen[i - 1].state, PATH_SILENT);
	}
	assert_int_equal(atomic_load(&looks), 1);
	(void)probe(f, "/proc", LONG_US);
	run_until(f, f->n + 1);
	assert_int_equal(f->seen[f->n - 1].state, PATH_MOUNTED);
}

CASE(threads_are_bounded)
{
	char path[32];

	for (unsigned int i = 0; i < PATH_PROBE_THREADS_MAX + 2; i++) {
		assert_true(str_format(path, sizeof(path), "/stuck/%u", i) >= 0);
		(void)probe_of(f, path, path, LONG_US);
		run(f);
	}
	assert_int_equal(path_probes_running(f->probes), PATH_PROBE_THREADS_MAX);
	(void)probe(f, "/proc", SOON_US);
	run_until(f, 1);
	assert_int_equal(f->seen[0].state, PATH_FAILED); /* nobody looked, so nothing is known */
	assert_int_equal(f->seen[0].sys_errno, EBUSY);
	open_gate();
	run_until(f, 1 + PATH_PROBE_THREADS_MAX + 2);
	assert_int_equal(atomic_load(&looks), PATH_PROBE_THREADS_MAX + 2);
}

CASE(paths_of_one_group_leave_threads_to_others)
{
	char path[32];

	for (unsigned int i = 0; i < 2 * PATH_PROBE_THREADS_MAX - 1; i++) {
		assert_true(str_format(path, sizeof(path), "/stuck/%u", i) >= 0);
		(void)probe_of(f, "evil", path, LONG_US);
	}
	assert_int_equal(path_probes_running(f->probes), PATH_PROBE_GROUP_MAX);
	for (unsigned int i = 1; i <= PATH_PROBE_THREADS_MAX; i++) {
		(void)probe_of(f, "other", "/proc", LONG_US);
		run_until(f, i);
		assert_int_equal(f->seen[i - 1].state, PATH_MOUNTED);
		f->n = i;
	}
	f->n = 0;
	(void)probe_of(f, "evil", "/proc", SOON_US);
	run_until(f, 1);
	assert_int_equal(f->seen[0].sys_errno, EBUSY);
	open_gate();
	run_until(f, 2 * PATH_PROBE_THREADS_MAX);
}

CASE(groups_take_turns)
{
	static const char *const groups[] = {"a", "a", "a", "b"};
	char path[32], group[32];

	/* all threads but one */
	for (unsigned int i = 1; i < PATH_PROBE_THREADS_MAX; i++) {
		assert_true(str_format(path, sizeof(path), "/stuck/%u", i) >= 0);
		assert_true(str_format(group, sizeof(group), "%u", i / PATH_PROBE_GROUP_MAX) >= 0);
		(void)probe_of(f, group, path, LONG_US);
	}
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		(void)probe_of(f, groups[i], i < 3 ? "/no/such/path" : "/proc", LONG_US);
	run_until(f, 4);
	assert_int_equal(f->seen[2].state, PATH_MOUNTED);
	open_gate();
	run_until(f, 4 + PATH_PROBE_THREADS_MAX - 1);
}

CASE(waiting_is_bounded)
{
	struct path_probe *last = NULL;
	struct error err;

	for (int i = 0; i < 1 + PATH_PROBES_MAX; i++)
		last = probe(f, "/stuck/a", LONG_US);
	assert_int_equal(path_probe_start(f->probes, "/x", "", LONG_US, on_seen, f, &last, &err),
			 STATUS_RESOURCE_EXHAUSTED);
	path_probe_cancel(last);
	(void)probe(f, "/x", LONG_US);
	path_probes_free(f->probes);
	assert_int_equal(path_probes_new(f->event, &f->probes, &err), STATUS_OK);
	assert_int_equal(f->n, 0);
}

CASE(a_cancelled_probe_reports_nothing)
{
	path_probe_cancel(NULL);
	path_probe_cancel(probe(f, "/stuck/a", LONG_US));
	path_probe_cancel(probe(f, "/stuck/a", LONG_US)); /* waits for the first */
	open_gate();
	(void)probe(f, "/proc", LONG_US);
	run_until(f, 1);
	while (path_probes_running(f->probes) > 0)
		run(f);
	assert_int_equal(f->n, 1);
}

CASE(a_path_that_is_too_long_is_refused)
{
	struct path_probe *ret = NULL;
	char path[600];
	struct error err;

	memset(path, 'a', sizeof(path));
	path[511] = '\0';
	path_probe_cancel(probe(f, path, LONG_US));
	path[511] = 'a';
	path[512] = '\0';
	assert_int_equal(path_probe_start(f->probes, path, "", LONG_US, on_seen, f, &ret, &err),
			 STATUS_INVALID_ARGUMENT);
	assert_null(ret);
}
