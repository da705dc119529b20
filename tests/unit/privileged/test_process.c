/* SPDX-License-Identifier: Apache-2.0 */
/* What a program inherits, made here and reset in a child. */

#include "unit.h"

#include "privileged/process.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>

/* Run @check in a child; it exits with the number of its first line that does not hold, 0 if all do. */
static void in_child(int (*check)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(check());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#define HOLDS(n, condition)         \
	do {                        \
		if (!(condition))   \
			return (n); \
	} while (0)

static int check_reset(void)
{
	static const int ignored[] = {SIGPIPE, SIGXFSZ, 0};
	const struct itimerval soon = {.it_value = {.tv_usec = 1000}};
	struct itimerval timer;
	struct sigaction action;
	sigset_t mask;
	char cwd[64];

	(void)umask(0777);
	(void)sigfillset(&mask);
	(void)sigprocmask(SIG_SETMASK, &mask, NULL);
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)setitimer(ITIMER_PROF, &soon, NULL);
	HOLDS(1, chdir("/tmp") == 0);
	HOLDS(2, process_reset(ignored) == 0);
	HOLDS(3, getcwd(cwd, sizeof(cwd)) && strcmp(cwd, "/") == 0);
	HOLDS(4, umask(0) == 022);
	(void)sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int i = 1; i < NSIG; i++) {
		bool is_ignored = i == SIGPIPE || i == SIGXFSZ;

		HOLDS(5, sigismember(&mask, i) != 1);
		if (sigaction(i, NULL, &action) == 0)
			HOLDS(6, action.sa_handler == (is_ignored ? SIG_IGN : SIG_DFL));
	}
	HOLDS(7, getitimer(ITIMER_PROF, &timer) == 0 && timer.it_value.tv_sec == 0 &&
			 timer.it_value.tv_usec == 0);
	HOLDS(8, getsid(0) == getsid(getppid()));
	return 0;
}

static int check_descriptors(void)
{
	struct stat st;
	int kept = open("/", O_RDONLY | O_CLOEXEC);

	HOLDS(1, dup2(kept, 3) == 3 && dup2(kept, 60) == 60);
	(void)close(0);
	(void)close(4);
	HOLDS(2, process_reset_descriptors(5) == 0);
	for (int fd = 0; fd < 5; fd++) {
		HOLDS(3, fstat(fd, &st) == 0);
		HOLDS(4, fd == 3 ? S_ISDIR(st.st_mode) : S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
	}
	for (int fd = 5; fd < 256; fd++)
		HOLDS(5, fcntl(fd, F_GETFD) < 0 && errno == EBADF);
	return 0;
}

static int set_descriptors(rlim_t wanted, rlim_t least, rlim_t *ret_hard)
{
	const struct process_limit core = {RLIMIT_CORE, "core", 0, 0};
	const struct process_limit descriptors = {RLIMIT_NOFILE, "descriptors", wanted, least};
	int r = process_set_limit(&core, ret_hard);

	return r < 0 ? 1 : process_set_limit(&descriptors, ret_hard);
}

static int check_limits(void)
{
	struct rlimit limit = {.rlim_cur = 20, .rlim_max = 30};
	rlim_t hard = 0;

	HOLDS(1, setgid(65534) == 0 || geteuid() != 0);
	HOLDS(2, setuid(65534) == 0 || geteuid() != 0);
	HOLDS(3, setrlimit(RLIMIT_NOFILE, &limit) == 0);
	HOLDS(4, set_descriptors(40, 31, &hard) == -EPERM && hard == 30);
	HOLDS(5, getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max == 0);
	hard = 0;
	HOLDS(6, set_descriptors(40, 30, &hard) == 0 && hard == 0);
	HOLDS(7, getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 30 && limit.rlim_max == 30);
	HOLDS(8, set_descriptors(25, 25, &hard) == 0);
	HOLDS(9, getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 25 && limit.rlim_max == 25);
	return 0;
}

TEST(a_limit_that_does_not_exist_is_reported)
{
	const struct process_limit unknown = {-1, "none", 1, 1};
	rlim_t hard = 0;

	assert_int_equal(process_set_limit(&unknown, &hard), -EINVAL);
}

static int check_capabilities(void)
{
	struct process_capabilities caps;
	const uint64_t chown_bit = UINT64_C(1) << CAP_CHOWN;

	HOLDS(1, process_capabilities(&caps) == 0);
	HOLDS(2, (caps.effective & ~caps.permitted) == 0);
	if (geteuid() != 0)
		return 0;
	HOLDS(3, (caps.effective & chown_bit) != 0 && (caps.bounding & chown_bit) != 0);
	HOLDS(4, prctl(PR_CAPBSET_DROP, CAP_CHOWN, 0, 0, 0) == 0);
	HOLDS(5, process_capabilities(&caps) == 0);
	HOLDS(6, (caps.effective & chown_bit) != 0 && (caps.bounding & chown_bit) == 0);
	HOLDS(7, setuid(65534) == 0);
	HOLDS(8, process_capabilities(&caps) == 0);
	HOLDS(9, caps.effective == 0 && caps.permitted == 0 && caps.bounding != 0);
	return 0;
}

static int check_ids(void)
{
	const gid_t groups[] = {65534, 4};

	HOLDS(1, !process_has_ids(getuid() + 1, getgid()) && !process_has_ids(getuid(), getgid() + 1));
	if (geteuid() != 0)
		return 0;
	HOLDS(2, setgroups(0, NULL) == 0 && process_has_ids(0, 0));
	HOLDS(3, setresgid(65534, 65534, 0) == 0 && !process_has_ids(0, 65534));
	HOLDS(4, setresgid(65534, 65534, 65534) == 0 && process_has_ids(0, 65534));
	HOLDS(5, setgroups(1, groups) == 0 && process_has_ids(0, 65534)); /* its own group once more */
	HOLDS(6, setgroups(1, groups + 1) == 0 && !process_has_ids(0, 65534));
	HOLDS(7, setgroups(2, groups) == 0 && !process_has_ids(0, 65534));
	HOLDS(8,
	      setgroups(0, NULL) == 0 && setresuid(65534, 65534, 0) == 0 && !process_has_ids(65534, 65534));
	return 0;
}

TEST(capabilities_are_the_kernels_word)
{
	in_child(check_capabilities);
}

TEST(ids_are_all_of_them)
{
	in_child(check_ids);
}

TEST(inherited_process_state_is_reset)
{
	in_child(check_reset);
}

TEST(descriptors_are_null_kept_or_closed)
{
	in_child(check_descriptors);
}

TEST(a_limit_is_set_or_the_hard_one_must_do)
{
	in_child(check_limits);
}

/* Stopped, and with every signal blocked that can be. */
TEST(a_deadline_ends_a_stopped_process_and_can_be_lifted)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		const struct timespec longer = {.tv_sec = 1, .tv_nsec = 200000000};
		sigset_t all, none;

		(void)sigemptyset(&none);
		(void)sigfillset(&all);
		(void)sigprocmask(SIG_SETMASK, &all, NULL);
		if (process_set_deadline(1) < 0 || process_set_deadline(0) < 0)
			_exit(1);
		(void)sigtimedwait(&none, NULL, &longer); /* of the kernel's time, as the deadline */
		if (process_set_deadline(1) == 0)
			(void)raise(SIGSTOP);
		_exit(2);
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}
