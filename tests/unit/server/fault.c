/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"

#include "unit.h"

#include "store/kv_sqlite.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum {
	CHILD_ENDED = 42,
	CHILD_SECONDS_MAX = 60,
	/* before a step: what the program does not make wait for the step gets out into the world */
	LEAK_US = 3000,
};

/* Seen by the child and by whoever has started it. */
struct counter {
	atomic_int count; /* the store's steps are made by its thread */
	atomic_bool is_armed;
};

static struct {
	struct fault fault;
	struct counter *counter; /* NULL: this process has no fault */
	int say_fd;
} child = {.say_fd = -1};

static int count_step(void)
{
	return child.counter && atomic_load(&child.counter->is_armed)
		       ? atomic_fetch_add(&child.counter->count, 1) + 1
		       : 0;
}

static void maybe_die(int step, enum fault_side side)
{
	if (step == 0 || step != child.fault.step || side != child.fault.side)
		return;
	if (side == FAULT_BEFORE)
		(void)usleep(LEAK_US);
	(void)kill(getpid(), SIGKILL);
}

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names of the linker */
enum status __real_kv_sqlite_commit(struct kv_sqlite *db, struct error *err);
int __real_rename(const char *from, const char *to);
int __real_link(const char *from, const char *to);
int __real_unlink(const char *path);

WRAPPED(enum status, kv_sqlite_commit, struct kv_sqlite *db, struct error *err)
{
	int step = count_step();
	enum status status;

	maybe_die(step, FAULT_BEFORE);
	status = __real_kv_sqlite_commit(db, err);
	maybe_die(step, FAULT_AFTER);
	return status;
}

WRAPPED(int, rename, const char *from, const char *to)
{
	int step = count_step();
	int r;

	maybe_die(step, FAULT_BEFORE);
	r = __real_rename(from, to);
	maybe_die(step, FAULT_AFTER);
	return r;
}

WRAPPED(int, link, const char *from, const char *to)
{
	int step = count_step();
	int r;

	maybe_die(step, FAULT_BEFORE);
	r = __real_link(from, to);
	maybe_die(step, FAULT_AFTER);
	return r;
}

WRAPPED(int, unlink, const char *path)
{
	int step = count_step();
	int r;

	maybe_die(step, FAULT_BEFORE);
	r = __real_unlink(path);
	maybe_die(step, FAULT_AFTER);
	return r;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static struct counter *counter_of_children(void)
{
	static struct counter *shared;

	if (!shared)
		shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			      0);
	assert_true(shared != MAP_FAILED);
	return shared;
}

void fault_arm(void)
{
	struct counter *counter = counter_of_children();

	atomic_store(&counter->count, 0);
	atomic_store(&counter->is_armed, true);
}

void fault_disarm(void)
{
	atomic_store(&counter_of_children()->is_armed, false);
}

void fault_report(const char *line)
{
	char text[FAULT_REPORT_MAX];
	int n = str_format(text, sizeof(text), "%s\n", line);

	if (n < 0 || write(child.say_fd, text, (size_t)n) != n)
		_exit(1);
}

static void read_report(int fd, struct fault_end *end)
{
	size_t len = 0;
	ssize_t n;

	while (len < FAULT_REPORT_MAX - 1 && (n = read(fd, end->said + len, FAULT_REPORT_MAX - 1 - len)) > 0)
		len += (size_t)n;
	end->said[len] = '\0';
}

pid_t fault_start(const struct fault *fault, int say_fd, void (*body)(void *userdata), void *userdata)
{
	struct counter *counter = counter_of_children();
	pid_t pid;

	atomic_store(&counter->is_armed, false);
	atomic_store(&counter->count, 0);
	(void)fflush(NULL); /* the child must not write what the parent has not written yet */
	pid = fork();
	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)alarm(CHILD_SECONDS_MAX);
	child.fault = *fault;
	child.counter = counter;
	child.say_fd = say_fd;
	body(userdata);
	_exit(CHILD_ENDED);
}

struct fault_end fault_run(const struct fault *fault, void (*body)(void *userdata), void *userdata)
{
	struct fault_end end = {.died = false};
	int ends[2], status;
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fault_start(fault, ends[1], body, userdata);
	(void)close(ends[1]);
	read_report(ends[0], &end);
	(void)close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	end.died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	if (!end.died && !(WIFEXITED(status) && WEXITSTATUS(status) == CHILD_ENDED))
		fail_msg("the child with the fault at step %d ended with status %#x", fault->step,
			 (unsigned int)status);
	return end;
}
