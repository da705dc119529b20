/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile caller interferes with a start: it sends stop signals at every system call, and holds up the
 * closing of standard error. No process may remain that neither the caller can end nor the kernel will. */

#include "agent.h"
#include "startup.h"
#include "steps.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>

#define FUSE TEST_PREFIX "/fuse"

enum { STEPS_MAX = 4096, NO_FILE = 2, WAIT_MS = 60000 };

/* What a start did: shared with the tracer. */
struct start_walk {
	uint32_t n;
	struct stop stops[STEPS_MAX];
	uint64_t seen[STEPS_MAX];   /* a number in the call's memory that says what it does */
	bool may_signal[STEPS_MAX]; /* could the caller send a signal there? */
	uint32_t n_stopped;	    /* how often the caller stopped it */
	pid_t left;		    /* stopped, and the caller cannot continue it */
};

static struct start_walk *walk;

/* With the caller's uid, which is neither the real one nor the effective one of this process. */
static bool caller_signals(pid_t pid, int number)
{
	int r;

	if (setresuid(AGENT_UID, AGENT_UID, 0) < 0)
		_exit(1);
	r = kill(pid, number);
	if (setresuid(0, 0, 0) < 0)
		_exit(1);
	return r == 0;
}

/* Signal number of the timer, or its seconds. There are more of them for a start that is looked at. */
static uint64_t see(const struct stop *stop)
{
	const uint64_t at = stop->args[2] + offsetof(struct itimerspec, it_value.tv_sec);
	uint64_t seconds;

	if (stop->side == STEPS_BEFORE && stop->call == SYS_timer_create)
		return (uint32_t)steps_peek(stop, stop->args[1] + offsetof(struct sigevent, sigev_signo));
	if (stop->side != STEPS_BEFORE || stop->call != SYS_timer_settime)
		return 0;
	seconds = steps_peek(stop, at);
	if (seconds == START_DEADLINE_S)
		steps_poke(stop, at, WAIT_MS);
	return seconds;
}

static bool note_stop(const struct stop *stop, void *userdata)
{
	struct start_walk *w = userdata;

	if (w->n == STEPS_MAX)
		_exit(1);
	w->stops[w->n] = *stop;
	w->seen[w->n] = see(stop);
	w->may_signal[w->n] = caller_signals(stop->pid, 0);
	w->n++;
	return true;
}

/* Stops it in each call, where the kernel permits that. The kernel stops it when it returns from the call.
 * Continues it, if the kernel permits that too. */
static bool stop_and_continue(const struct stop *stop, void *userdata)
{
	struct start_walk *w = userdata;

	if (stop->side == STEPS_BEFORE)
		(void)caller_signals(stop->pid, SIGSTOP);
	if (stop->side != STEPS_STOPPED)
		return true;
	w->n_stopped++;
	if (caller_signals(stop->pid, SIGCONT))
		return true;
	w->left = stop->pid;
	return false;
}

/* A start from its execve(2) to its first request, then its end. */
static void walk_a_start(void)
{
	struct agent agent;
	pid_t tracer;

	if (!walk)
		walk = steps_share(sizeof(*walk));
	memset(walk, 0, sizeof(*walk));
	world_policy("required", "");
	tracer = steps_of_start(note_stop, walk);
	assert_true(agent_start(&agent, &(struct agent_start){.before_exec = steps_at_exec}));
	assert_int_equal(agent_stop_code(&agent), 0);
	steps_wait(tracer);
}

TEST(the_start_has_a_deadline_before_it_is_roots_and_a_session_after)
{
	static const struct {
		uint64_t call;
		int arg; /* -1: what see() found */
		uint64_t value;
	} order[] = {
		{SYS_timer_create, -1, SIGKILL}, {SYS_timer_settime, -1, START_DEADLINE_S},
		{SYS_setresuid, 0, 0},		 {SYS_setsid, 0, 0},
		{SYS_fcntl, 1, F_OFD_SETLK},	 {SYS_setresuid, 0, HELPER_UID},
		{SYS_timer_settime, -1, 0},	 {SYS_seccomp, 0, SECCOMP_SET_MODE_FILTER},
	};
	uint32_t at = 0;

	walk_a_start();
	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		for (; at < walk->n; at++) {
			const struct stop *stop = &walk->stops[at];

			if (stop->side == STEPS_BEFORE && stop->call == order[i].call &&
			    (order[i].arg < 0 ? walk->seen[at] : (uint32_t)stop->args[order[i].arg]) ==
				    order[i].value)
				break;
		}
		if (at++ == walk->n)
			fail_msg("call %zu of the order does not follow the one before it", i);
	}
}

/* In a session of its own: of the caller's session each process may continue it. */
static void leave_the_session(void)
{
	(void)setsid();
	steps_at_exec();
}

/* A process takes its stop only when the kernel runs it. */
static void await_stop(pid_t pid)
{
	char state[256];

	do {
		(void)usleep(1000);
		status_value(pid, "State", state);
	} while (state[0] == 'R');
	assert_string_equal(state, "T (stopped)");
}

/* The process that the caller stopped and cannot end. */
static int left_fd = -1;
static struct agent left_agent;

TEST(a_stop_at_each_call_of_the_start_leaves_one_place_to_the_deadline)
{
	uint32_t n_calls = 0;
	uint32_t n = 0;
	pid_t tracer;

	walk_a_start();
	for (; walk->may_signal[n]; n++)
		n_calls += walk->stops[n].side == STEPS_BEFORE;
	for (uint32_t i = n; i < walk->n; i++)
		assert_false(walk->may_signal[i]); /* once refused, refused for good */
	/* the call that ends the caller's rights */
	assert_true(n > 0 && walk->stops[n - 1].side == STEPS_BEFORE);
	assert_int_equal(walk->stops[n - 1].call, SYS_setresuid);
	tracer = steps_of_start(stop_and_continue, walk);
	agent_launch(&left_agent, &(struct agent_start){.before_exec = leave_the_session});
	steps_wait(tracer);
	print_message("the caller stopped the start in %u calls\n", walk->n_stopped);
	assert_int_equal(walk->n_stopped, n_calls);
	assert_true(walk->left > 0);
	await_stop(walk->left);
	assert_status(walk->left, "Uid", "0\t0\t0\t0");
	assert_false(caller_signals(walk->left, SIGKILL));
	left_fd = (int)syscall(SYS_pidfd_open, walk->left, 0);
	assert_true(left_fd >= 0);
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
		fail_msg("this test needs a kernel with FUSE: %s", strerror(errno));
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

/* The last case, because the deadline takes its time. */
TEST(a_stopped_start_that_the_caller_cannot_end_ends_by_its_deadline)
{
	struct pollfd ended = {.fd = left_fd, .events = POLLIN};
	int status;

	assert_true(left_fd >= 0);
	assert_int_equal(poll(&ended, 1, WAIT_MS), 1);
	status = agent_stop(&left_agent);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	(void)close(left_fd);
}

TEST_GROUP(world_up, world_down)
