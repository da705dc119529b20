/* SPDX-License-Identifier: Apache-2.0 */
#include "privileged/process.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int reset_signals(const int *ignored)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		if (i != SIGKILL && i != SIGSTOP && signal(i, SIG_DFL) == SIG_ERR && errno != EINVAL)
			return -errno;
	for (; *ignored != 0; ignored++)
		if (signal(*ignored, SIG_IGN) == SIG_ERR)
			return -errno;
	(void)sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

int process_set_deadline(unsigned int seconds)
{
	static int timer = -1;
	struct sigevent kill = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
	const struct itimerspec at = {.it_value = {.tv_sec = seconds}};

	/* not the library's: it brings threads along */
	if (timer < 0 && syscall(SYS_timer_create, CLOCK_MONOTONIC, &kill, &timer) < 0)
		return -errno;
	return syscall(SYS_timer_settime, timer, 0, &at, NULL) < 0 ? -errno : 0;
}

int process_reset(const int *ignored)
{
	static const enum __itimer_which timers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
	const struct itimerval off = {.it_interval = {.tv_sec = 0}};
	const struct sched_param normal = {.sched_priority = 0};

	/* the timers first: what they send may be deadly once it is unblocked */
	for (size_t i = 0; i < ARRAY_SIZE(timers); i++)
		if (setitimer(timers[i], &off, NULL) < 0)
			return -errno;
	TRY_SYS(reset_signals(ignored));
	if (chdir("/") < 0)
		return -errno;
	(void)umask(022);
	(void)personality(PER_LINUX); /* execve() keeps flags that change the result of uname() */
	(void)prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
	/* a niced process is slow, not wrong: best effort */
	(void)sched_setscheduler(0, SCHED_OTHER, &normal);
	(void)setpriority(PRIO_PROCESS, 0, 0);
	return 0;
}

int process_reset_descriptors(int n)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (null_fd < 0 || fstat(null_fd, &st) < 0)
		return -errno;
	if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
		return -ENODEV;
	for (int fd = 0; fd < n; fd++)
		if ((fd <= STDERR_FILENO || fcntl(fd, F_GETFD) < 0) && dup2(null_fd, fd) < 0)
			return -errno;
	/* null_fd is among these, unless it filled a gap */
	return close_range((unsigned int)n, ~0U, 0) < 0 ? -errno : 0;
}

int process_set_limit(const struct process_limit *wanted, rlim_t *ret_hard)
{
	const __rlimit_resource_t resource = (__rlimit_resource_t)wanted->resource;
	struct rlimit limit = {.rlim_cur = wanted->wanted, .rlim_max = wanted->wanted};

	if (setrlimit(resource, &limit) == 0)
		return 0;
	if (getrlimit(resource, &limit) < 0)
		return -errno;
	if (limit.rlim_max < wanted->least) {
		*ret_hard = limit.rlim_max;
		return -EPERM;
	}
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

enum { CAPABILITY_N = 64 }; /* as many as the kernel's interface has room for */

int process_capabilities(struct process_capabilities *ret)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	*ret = (struct process_capabilities){
		.effective = (uint64_t)data[1].effective << 32 | data[0].effective,
		.permitted = (uint64_t)data[1].permitted << 32 | data[0].permitted,
		.inheritable = (uint64_t)data[1].inheritable << 32 | data[0].inheritable};
	for (unsigned long cap = 0; cap < CAPABILITY_N; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
			ret->bounding |= UINT64_C(1) << cap;
	return 0;
}

bool process_has_ids(uid_t uid, gid_t gid)
{
	uid_t u[3];
	gid_t g[3];
	gid_t group = gid;

	return getresuid(&u[0], &u[1], &u[2]) == 0 && u[0] == uid && u[1] == uid && u[2] == uid &&
	       getresgid(&g[0], &g[1], &g[2]) == 0 && g[0] == gid && g[1] == gid && g[2] == gid &&
	       getgroups(1, &group) >= 0 && group == gid;
}
