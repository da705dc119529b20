/* SPDX-License-Identifier: Apache-2.0 */
/* What a hostile caller does to a start that is in flight: stop signals, and a standard error whose closing
 * it holds up. Nothing of it may be left behind that neither the caller can end nor the kernel will. */

#include "agent.h"
#include "startup.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRACE TEST_PREFIX "/trace"
#define FUSE TEST_PREFIX "/fuse"

enum { TRACE_MAX = 1 << 20, STORM_STARTS = 3000, STORM_WANTED = 3, NO_FILE = 2 };

/* In the agent process, still root: have it and what it starts traced, from before the exec. */
static void trace_the_start(void)
{
	char pid[16];
	char tracer[256] = "0";

	(void)str_format(pid, sizeof(pid), "%d", (int)getpid());
	if (fork() == 0) {
		(void)execl("/usr/bin/strace", "strace", "-f", "-qq", "-o", TRACE, "-p", pid, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 5000 && str_eq(tracer, "0"); i++) {
		(void)usleep(1000);
		status_value(getpid(), "TracerPid", tracer);
	}
	if (str_eq(tracer, "0"))
		_exit(119);
}

TEST(the_start_has_a_deadline_before_it_is_roots_and_a_session_after)
{
	static const char *const order[] = {
		/* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one name of two literals */
		"execve(\"" TEST_PREFIX "/helper",
		"timer_create(CLOCK_MONOTONIC, {",
		"sigev_signo=SIGKILL",
		"timer_settime(",
		"setresuid(0, 0, 0)",
		"setsid()",
		"F_OFD_SETLK",
		"setresuid(64102, 64102, 64102)",
		"timer_settime(",
		"seccomp(",
	};
	struct agent agent;
	char *trace = NULL;
	const char *at;

	assert_true(agent_start(&agent, &(struct agent_start){.as_root = trace_the_start}));
	assert_int_equal(agent_stop_code(&agent), 0);
	(void)usleep(100000); /* until strace has written it all */
	assert_int_equal(file_read(TRACE, TRACE_MAX, &trace, NULL), 0);
	at = trace;
	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		at = strstr(at, order[i]);
		if (!at)
			fail_msg("no %s after what comes before it", order[i]);
	}
	free(trace);
	assert_int_equal(unlink(TRACE), 0);
}

/* A file system of the agent, with one file. Each closing of it is a FLUSH: the first of each open file is
 * answered, no other ever is. */
struct fuse_request {
	struct fuse_in_header header;
	union {
		struct fuse_flush_in flush;
		char bytes[8192];
	};
};

static void fuse_answer(int fd, const struct fuse_request *request, int error, const void *bytes, size_t n)
{
	struct {
		struct fuse_out_header header;
		char bytes[256];
	} answer = {.header = {.len = (uint32_t)(sizeof(answer.header) + n),
			       .error = -error,
			       .unique = request->header.unique}};

	if (n > 0)
		memcpy(answer.bytes, bytes, n);
	(void)!write(fd, &answer, answer.header.len);
}

static void fuse_serve_one(int fd, const struct fuse_request *request)
{
	static uint64_t opened;
	static uint64_t flushed;
	const struct fuse_init_out init = {.major = 7, .minor = 31, .max_write = 4096};
	const bool is_root = request->header.opcode == FUSE_GETATTR && request->header.nodeid == 1;
	const struct fuse_attr attr = {
		.ino = is_root ? 1 : NO_FILE, .mode = is_root ? S_IFDIR | 0755 : S_IFREG | 0666, .nlink = 1};
	const struct fuse_entry_out entry = {.nodeid = NO_FILE, .attr = attr};
	const struct fuse_attr_out attr_out = {.attr = attr};
	const struct fuse_open_out open = {.fh = opened + 1};

	switch (request->header.opcode) {
	case FUSE_INIT:
		fuse_answer(fd, request, 0, &init, sizeof(init));
		return;
	case FUSE_LOOKUP:
		fuse_answer(fd, request, 0, &entry, sizeof(entry));
		return;
	case FUSE_GETATTR:
		fuse_answer(fd, request, 0, &attr_out, sizeof(attr_out));
		return;
	case FUSE_OPEN:
		opened++;
		fuse_answer(fd, request, 0, &open, sizeof(open));
		return;
	case FUSE_FLUSH:
		if (request->flush.fh > flushed) {
			flushed = request->flush.fh;
			fuse_answer(fd, request, 0, NULL, 0);
		}
		return;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	default:
		fuse_answer(fd, request, ENOSYS, NULL, 0);
	}
}

static pid_t fuse_start(void)
{
	static struct fuse_request request;
	char options[128];
	pid_t pid;
	int fd;

	(void)mknod(TEST_PREFIX "/fuse-device", S_IFCHR | 0600, makedev(10, 229));
	fd = open(TEST_PREFIX "/fuse-device", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	assert_int_equal(mkdir(FUSE, 0755), 0);
	(void)str_format(options, sizeof(options), "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other",
			 fd);
	assert_int_equal(mount("fuse", FUSE, "fuse", MS_NOSUID | MS_NODEV, options), 0);
	pid = fork();
	while (pid == 0) {
		if (read(fd, &request, sizeof(request)) < 0 && errno != EINTR)
			_exit(0);
		fuse_serve_one(fd, &request);
	}
	(void)close(fd);
	return pid;
}

static void take_the_agents_file(void)
{
	(void)close(STDERR_FILENO);
	if (open(FUSE "/file", O_WRONLY) != STDERR_FILENO)
		_exit(118);
}

TEST(a_standard_error_that_does_not_close_holds_no_place)
{
	static const struct agent_start held_up = {.before_exec = take_the_agents_file};
	struct agent agents[HELPER_INSTANCES];
	pid_t daemon;
	bool started = true;
	size_t n;

	world_policy("required", "starts_per_minute = 60");
	daemon = fuse_start();
	if (daemon < 0)
		skip(); /* no FUSE in this kernel */
	for (n = 0; n < ARRAY_SIZE(agents) && started; n++)
		started = agent_start(&agents[n], &held_up);
	(void)kill(daemon, SIGKILL);
	(void)waitpid(daemon, NULL, 0);
	for (size_t i = 0; i < n; i++)
		(void)agent_stop(&agents[i]);
	assert_int_equal(umount2(FUSE, MNT_DETACH), 0);
	assert_int_equal(rmdir(FUSE), 0);
	assert_true(started);
}

static int file_fd;

static void take_a_file(void)
{
	(void)dup2(file_fd, STDERR_FILENO);
}

TEST(a_standard_error_that_is_no_pipe_gets_nothing)
{
	static const struct agent_start refused = {.uid = OTHER_UID, .before_exec = take_a_file};
	struct agent agent;
	struct stat st;

	file_fd = memfd_create("stderr", MFD_CLOEXEC);
	assert_false(agent_start(&agent, &refused));
	assert_int_equal(agent.failure.word, START_POLICY_AGENT);
	assert_int_equal(agent_stop_code(&agent), 78);
	assert_int_equal(fstat(file_fd, &st), 0);
	assert_int_equal(st.st_size, 0);
	(void)close(file_fd);
}

/* With the agent's uid, a session of its own and no other in it: start it, and stop it again and again until
 * that is not permitted any more. */
static _Noreturn void storm_one(int report)
{
	int ends[2];
	pid_t pid;

	if (setgid(AGENT_UID) < 0 || setuid(AGENT_UID) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		_exit(1);
	pid = fork();
	if (pid == 0) {
		(void)setsid();
		if (dup2(ends[1], 3) < 0)
			_exit(1);
		(void)execl(TEST_PREFIX "/helper", "holdfast-mounthelper", (char *)NULL);
		_exit(1);
	}
	(void)usleep((useconds_t)(200 + getpid() % 16 * 20));
	while (kill(pid, SIGSTOP) == 0 && kill(pid, SIGCONT) == 0 && waitpid(pid, NULL, WNOHANG) == 0)
		;
	(void)!write(report, &pid, sizeof(pid));
	_exit(0);
}

static bool is_stopped_as_root(pid_t pid)
{
	char path[64];
	char *text = NULL;
	bool is_so;

	(void)str_format(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (file_read(path, 1 << 16, &text, NULL) < 0)
		return false;
	is_so = strstr(text, "State:\tT") && strstr(text, "Uid:\t0\t0\t0\t0");
	free(text);
	return is_so;
}

/* Start one under the storm. Its pid if that has left it stopped as root, else 0. */
static pid_t try_to_leave_one(void)
{
	int report[2];
	pid_t left = 0;
	pid_t storm;

	assert_int_equal(pipe2(report, O_CLOEXEC), 0);
	storm = fork();
	if (storm == 0)
		storm_one(report[1]);
	(void)close(report[1]);
	(void)!read(report[0], &left, sizeof(left));
	(void)close(report[0]);
	(void)waitpid(storm, NULL, 0);
	(void)usleep(1000);
	return left > 0 && is_stopped_as_root(left) ? left : 0;
}

TEST(a_stop_that_lands_in_the_change_of_uid_leaves_nothing_behind)
{
	pid_t left[STORM_WANTED] = {0};
	size_t n = 0;
	int starts = 0;

	for (; starts < STORM_STARTS && n < ARRAY_SIZE(left); starts++) {
		left[n] = try_to_leave_one();
		n += left[n] != 0;
	}
	print_message("%zu of %d starts were left stopped as root\n", n, starts);
	if (n == 0)
		skip();
	(void)sleep(START_DEADLINE_S + 1);
	for (size_t i = 0; i < n; i++) {
		bool is_left = is_stopped_as_root(left[i]);

		if (is_left)
			(void)kill(left[i], SIGKILL);
		assert_false(is_left);
	}
}

static void have_no_signals(void)
{
	const struct rlimit none = {0, 0};

	(void)setrlimit(RLIMIT_SIGPENDING, &none);
}

TEST(without_a_deadline_it_does_not_start)
{
	struct agent agent;

	assert_false(agent_start(&agent, &(struct agent_start){.before_exec = have_no_signals}));
	assert_int_equal(agent.failure.word, START_PROCESS);
	assert_string_equal(agent.failure.detail, "deadline");
	assert_int_equal(agent_stop_code(&agent), 73);
}

TEST_GROUP(world_up, world_down)
