#include "fault.h"

#include "unit.h"

#include "base/str.h"
#include "store/kv_sqlite.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_ENDED = 42, CHILD_SECONDS_MAX = 60 };

static struct {
	struct fault fault;
	atomic_int count; /* the store's steps are made by its thread */
	atomic_bool is_armed;
	int say_fd;
} child = {.say_fd = -1};

static int count_step(void)
{
	return atomic_load(&child.is_armed) ? atomic_fetch_add(&child.count, 1) + 1 : 0;
}

static void maybe_die(int step, enum fault_side side)
{
	if (step == child.fault.step && side == child.fault.side && step > 0)
		(void)kill(getpid(), SIGKILL);
}

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names of the linker */
enum status __real_kv_sqlite_commit(struct kv_sqlite *db, struct error *err);
enum status __wrap_kv_sqlite_commit(struct kv_sqlite *db, struct error *err);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);

enum status __wrap_kv_sqlite_commit(struct kv_sqlite *db, struct error *err)
{
	int step = count_step();
	enum status st;

	maybe_die(step, FAULT_BEFORE);
	st = __real_kv_sqlite_commit(db, err);
	maybe_die(step, FAULT_AFTER);
	return st;
}

int __wrap_rename(const char *from, const char *to)
{
	int step = count_step();
	int r;

	maybe_die(step, FAULT_BEFORE);
	r = __real_rename(from, to);
	maybe_die(step, FAULT_AFTER);
	return r;
}

int __wrap_link(const char *from, const char *to)
{
	int step = count_step();
	int r;

	maybe_die(step, FAULT_BEFORE);
	r = __real_link(from, to);
	maybe_die(step, FAULT_AFTER);
	return r;
}

int __wrap_unlink(const char *path)
{
	int step = count_step();
	int r;

	maybe_die(step, FAULT_BEFORE);
	r = __real_unlink(path);
	maybe_die(step, FAULT_AFTER);
	return r;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

void fault_arm(void)
{
	atomic_store(&child.count, 0);
	atomic_store(&child.is_armed, true);
}

void fault_say(const char *line)
{
	char text[FAULT_SAID_MAX];
	int n = str_format(text, sizeof(text), "%s\n", line);

	if (n < 0 || write(child.say_fd, text, (size_t)n) != n)
		_exit(1);
}

static void read_said(int fd, struct fault_end *end)
{
	size_t len = 0;
	ssize_t n;

	while (len < FAULT_SAID_MAX - 1 && (n = read(fd, end->said + len, FAULT_SAID_MAX - 1 - len)) > 0)
		len += (size_t)n;
	end->said[len] = '\0';
}

struct fault_end fault_run(const struct fault *fault, void (*body)(void *userdata), void *userdata)
{
	struct fault_end end = {.died = false};
	int ends[2];
	int status;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	(void)fflush(NULL); /* the child must not write what the parent has not written yet */
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)alarm(CHILD_SECONDS_MAX);
		(void)close(ends[0]);
		child.fault = *fault;
		child.say_fd = ends[1];
		body(userdata);
		_exit(CHILD_ENDED);
	}
	(void)close(ends[1]);
	read_said(ends[0], &end);
	(void)close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	end.died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	if (!end.died && !(WIFEXITED(status) && WEXITSTATUS(status) == CHILD_ENDED))
		fail_msg("the child with the fault at step %d ended with status %#x", fault->step,
			 (unsigned int)status);
	return end;
}
