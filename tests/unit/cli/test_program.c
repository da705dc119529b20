/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that hang: the caller kills them at the deadline, and never waits for one that does not die. */

#include "unit.h"

#include "operator/program.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SOON_US = 300000, LATE_US = 60000000 };

static bool kill_fails; /* as for a process in the kernel */
static pid_t killed;

int __real_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal);

int __wrap_kill(pid_t pid, int signal)
{
	killed = pid;
	return kill_fails ? 0 : __real_kill(pid, signal);
}

static int run(const char *script, uint64_t timeout_us, char *text, size_t max, size_t *n)
{
	const char *const argv[] = {"sh", "-c", script, NULL};

	killed = 0;
	return program_read(argv, timeout_us, text, max, n);
}

TEST(output_is_read_to_its_end)
{
	char text[16];
	size_t n;

	assert_int_equal(run("echo one; echo two", LATE_US, text, sizeof(text), &n), 0);
	assert_int_equal(n, 8);
	assert_memory_equal(text, "one\ntwo\n", n);
	assert_int_equal(run("echo one; exit 3", LATE_US, text, sizeof(text), &n), -EPIPE);
	assert_int_equal(n, 4);
	assert_int_equal(killed, 0);
}

TEST(a_full_buffer_ends_the_program)
{
	char text[16];
	size_t n;

	assert_int_equal(run("exec yes", LATE_US, text, sizeof(text), &n), -EPIPE);
	assert_int_equal(n, sizeof(text));
}

TEST(a_program_that_hangs_is_killed_with_its_children)
{
	char text[16];
	int ends[2];
	size_t n;

	kill_fails = false;
	assert_int_equal(pipe(ends), 0); /* the program inherits it: its end means that all are dead */
	assert_int_equal(run("trap '' TERM; sleep 1000 & sleep 1000", SOON_US, text, sizeof(text), &n),
			 -ETIMEDOUT);
	assert_true(killed < 0);
	(void)close(ends[1]);
	assert_int_equal(read(ends[0], text, 1), 0);
	(void)close(ends[0]);
}

TEST(a_program_that_closes_its_output_and_hangs_is_killed)
{
	char text[16];
	size_t n;

	kill_fails = false;
	assert_int_equal(run("exec >&-; sleep 1000", SOON_US, text, sizeof(text), &n), -ETIMEDOUT);
	assert_true(killed < 0);
}

TEST(a_program_that_does_not_die_is_left_behind)
{
	char text[16];
	size_t n;

	kill_fails = true;
	assert_int_equal(run("exec sleep 1000", SOON_US, text, sizeof(text), &n), -ETIMEDOUT);
	assert_int_equal(waitpid(-killed, NULL, WNOHANG), 0); /* it runs */
	assert_int_equal(__real_kill(killed, SIGKILL), 0);
	assert_int_equal(waitpid(-killed, NULL, 0), -killed);
}
