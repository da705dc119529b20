/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual time for unit programs: libc's functions that read a clock or wait for one. See unit_clock.h. */
#include "unit_clock.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

#define NS_PER_SEC UINT64_C(1000000000)
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define NEVER UINT64_MAX
#define SET_TICKS _IOW('T', 0, uint64_t) /* TFD_IOC_SET_TICKS of linux/timerfd.h */

/* How long nothing must have come, in real time, before the clock jumps: a packet of the loopback device can
 * be on its way while everything sleeps. A small part of the jump, so that the limit of a call is worth more
 * than a turn. */
#define PATIENCE_DIVISOR UINT64_C(400)
#define PATIENCE_MIN_NS UINT64_C(200000)
#define PATIENCE_MAX_NS UINT64_C(300000000)
#define IDLE_NS UINT64_C(2000000)
#define CPU_WHILE_NS UINT64_C(20000)

/* What waits for a time: a timerfd, or a thread in pthread_cond_clockwait(). */
struct timer {
	int fd; /* -1: none */
	pthread_cond_t *cond;
	clockid_t clock;
	uint64_t at_ns; /* virtual, of CLOCK_MONOTONIC; NEVER: not armed */
	uint64_t every_ns;
};

enum { TIMERS_MAX = 512, STATUS_SIZE = 4096, PATH_SIZE = 64 };

static struct {
	pthread_mutex_t lock; /* of timers */
	size_t n;
	struct timer timers[TIMERS_MAX];
	_Atomic uint64_t start_ns[2]; /* monotonic, boot time: less the processor time at the start */
	_Atomic uint64_t cpu_ns, cpu_read_ns;
	_Atomic uint64_t jumped_ns;
	_Atomic uint64_t stepped_ns; /* modulo 2^64: it may be negative */
	_Atomic int n_lookers;	     /* in unit_clock_is_idle(): no time passes */
	_Atomic uint64_t next_ns; /* of the next timer, for waits that have no need to look at all of them */
	pid_t first;		  /* in a child of fork(): the test's own process, or 0 */
} unit = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_ns = NEVER};

bool unit_time_is_real(void)
{
	return &unit_is_real_time != NULL;
}

/* --- reading the clock --- */

static uint64_t to_ns(const struct timespec *t)
{
	uint64_t seconds = (uint64_t)t->tv_sec;

	return seconds > NEVER / NS_PER_SEC / 2 ? NEVER : seconds * NS_PER_SEC + (uint64_t)t->tv_nsec;
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_SEC), .tv_nsec = (long)(ns % NS_PER_SEC)};
}

static uint64_t real_ns(clockid_t clock)
{
	struct timespec t;

	(void)syscall(SYS_clock_gettime, clock, &t);
	return to_ns(&t);
}

/* Processor time of all threads. The kernel adds it up at each call, and programs read the clock at each
 * message: it is read again after a while only. */
static uint64_t cpu_ns(void)
{
	static int (*libc)(clockid_t, struct timespec *); /* asks no kernel */
	struct timespec t;
	uint64_t now, last = unit.cpu_ns;

	if (!libc)
		*(void **)&libc = dlsym(RTLD_NEXT, "clock_gettime");
	(void)libc(CLOCK_MONOTONIC, &t);
	now = to_ns(&t);
	if (last != 0 && now - unit.cpu_read_ns < CPU_WHILE_NS)
		return last;
	unit.cpu_read_ns = now;
	now = real_ns(CLOCK_PROCESS_CPUTIME_ID);
	while (now > last && !atomic_compare_exchange_weak(&unit.cpu_ns, &last, now))
		;
	return unit.cpu_ns;
}

static uint64_t virtual_ns(bool is_boot)
{
	uint64_t start = unit.start_ns[is_boot];

	if (start == 0)
		unit.start_ns[is_boot] = start =
			real_ns(is_boot ? CLOCK_BOOTTIME : CLOCK_MONOTONIC) - cpu_ns();
	return start + cpu_ns() + unit.jumped_ns;
}

static uint64_t now_ns(void)
{
	return virtual_ns(false);
}

static bool is_boot_time(clockid_t clock)
{
	return clock == CLOCK_BOOTTIME || clock == CLOCK_BOOTTIME_ALARM;
}

static bool is_monotonic(clockid_t clock)
{
	return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || is_boot_time(clock);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (unit_time_is_real())
		return (int)syscall(SYS_clock_gettime, clock, ret);
	if (is_monotonic(clock))
		*ret = to_timespec(virtual_ns(is_boot_time(clock)));
	else if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		*ret = to_timespec(real_ns(clock) + unit.jumped_ns +
				   unit.stepped_ns); /* never before the times of files */
	else
		return (int)syscall(SYS_clock_gettime, clock, ret);
	return 0;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	*ret = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
	return 0;
}

time_t time(time_t *ret)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (ret)
		*ret = now.tv_sec;
	return now.tv_sec;
}

/* --- timers --- */

/* Only makes the descriptor readable, or not: the timer never counts. */
static void set_kernel_timer(int fd, uint64_t at_ns)
{
	const struct itimerspec spec = {.it_value = to_timespec(at_ns)};

	(void)syscall(SYS_timerfd_settime, fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* Makes the timer readable before it returns. A time in the past does so only at the next interrupt of a
 * processor that may be away, and the clock would jump over it. The kernels of other architectures under
 * qemu have only that. */
static void ring(int fd)
{
	const uint64_t n_ticks = 1;

	if (syscall(SYS_ioctl, fd, SET_TICKS, &n_ticks) < 0)
		set_kernel_timer(fd, 1);
}

static bool is_timer(int fd)
{
	struct itimerspec spec;

	return syscall(SYS_timerfd_gettime, fd, &spec) == 0;
}

/* Wakes the timer's owner if it is due; returns the time of the timer from then on. A thread is woken again
 * until it has seen it. */
static uint64_t run_timer(struct timer *timer, uint64_t now)
{
	if (timer->at_ns == NEVER)
		return NEVER;
	if (timer->at_ns <= now && timer->cond) {
		(void)pthread_cond_broadcast(timer->cond);
	} else if (timer->at_ns <= now) {
		ring(timer->fd);
		timer->at_ns = timer->every_ns > 0 ? now + timer->every_ns : NEVER;
	}
	return timer->at_ns;
}

/* With the lock. Returns the time of the next timer. */
static uint64_t run_timers(void)
{
	const uint64_t now = now_ns();
	uint64_t next = NEVER;

	for (size_t i = 0; i < unit.n; i++) {
		uint64_t at = run_timer(&unit.timers[i], now);

		next = LEAST(next, at);
	}
	unit.next_ns = next;
	return next;
}

/* Wakes the owners of timers that are due. */
static void wake_due(uint64_t now)
{
	if (now < unit.next_ns)
		return;
	(void)pthread_mutex_lock(&unit.lock);
	(void)run_timers();
	(void)pthread_mutex_unlock(&unit.lock);
}

/* To the next timer, or to @limit. A timer that became due since the last look only wakes its owner: there
 * may be no other one, and the clock would jump to @limit before the owner has run. */
static void jump(uint64_t limit)
{
	uint64_t next = limit, now;

	(void)pthread_mutex_lock(&unit.lock);
	for (size_t i = 0; i < unit.n; i++) {
		struct timer *timer = &unit.timers[i];

		if (timer->at_ns != NEVER && !timer->cond && !is_timer(timer->fd))
			timer->at_ns = NEVER; /* a file that was closed is no timer */
		next = LEAST(next, timer->at_ns);
	}
	now = now_ns();
	if (next != NEVER && next > now && unit.n_lookers == 0)
		unit.jumped_ns += next - now;
	(void)run_timers();
	(void)pthread_mutex_unlock(&unit.lock);
}

/* With the lock. */
static struct timer *find(int fd, const pthread_cond_t *cond)
{
	for (size_t i = 0; i < unit.n; i++)
		if (unit.timers[i].fd == fd && unit.timers[i].cond == cond)
			return &unit.timers[i];
	return NULL;
}

/* With the lock. */
static struct timer *add(int fd, pthread_cond_t *cond, clockid_t clock)
{
	struct timer *timer = cond ? NULL : find(fd, NULL);

	if (!timer)
		timer = find(-1, NULL); /* one that is free */
	if (!timer && unit.n == TIMERS_MAX)
		abort();
	if (!timer)
		timer = &unit.timers[unit.n++];
	*timer = (struct timer){.fd = fd, .cond = cond, .clock = clock, .at_ns = NEVER};
	return timer;
}

/* Sets @timer to @at, which is of its own clock. */
static void set_timer(struct timer *timer, uint64_t at)
{
	const uint64_t start = unit.start_ns[is_boot_time(timer->clock)];

	timer->at_ns = at == NEVER ? NEVER : at > start ? at - start + unit.start_ns[0] : 1;
}

int timerfd_create(int clock, int flags)
{
	int fd = (int)syscall(SYS_timerfd_create, clock, flags);

	if (fd < 0 || unit_time_is_real() || !is_monotonic(clock))
		return fd;
	(void)pthread_mutex_lock(&unit.lock);
	(void)add(fd, NULL, clock);
	(void)pthread_mutex_unlock(&unit.lock);
	return fd;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *spec, struct itimerspec *old)
{
	const uint64_t value = to_ns(&spec->it_value);
	struct timer *timer;

	(void)pthread_mutex_lock(&unit.lock);
	timer = find(fd, NULL);
	if (timer) {
		uint64_t now = virtual_ns(is_boot_time(timer->clock));

		set_kernel_timer(fd, 0);
		timer->every_ns = to_ns(&spec->it_interval);
		set_timer(timer, value == 0 || value == NEVER ? NEVER
				 : flags & TFD_TIMER_ABSTIME  ? value
							      : now + value);
		(void)run_timers();
	}
	(void)pthread_mutex_unlock(&unit.lock);
	return timer ? 0 : (int)syscall(SYS_timerfd_settime, fd, flags, spec, old);
}

/* A wake-up before the time is allowed: the caller looks at its condition again. */
int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
			   const struct timespec *until)
{
	static int (*libc)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
	struct timer *timer;
	bool is_due;
	int r;

	if (!libc)
		*(void **)&libc = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
	if (unit_time_is_real() || !is_monotonic(clock))
		return libc(cond, mutex, clock, until);
	(void)virtual_ns(is_boot_time(clock));
	(void)pthread_mutex_lock(&unit.lock);
	timer = add(-1, cond, clock);
	set_timer(timer, to_ns(until));
	is_due = timer->at_ns <= now_ns();
	(void)run_timers();
	(void)pthread_mutex_unlock(&unit.lock);
	r = is_due ? 0 : pthread_cond_wait(cond, mutex);
	(void)pthread_mutex_lock(&unit.lock);
	is_due = timer->at_ns <= now_ns();
	*timer = (struct timer){.fd = -1, .at_ns = NEVER};
	(void)pthread_mutex_unlock(&unit.lock);
	return is_due ? ETIMEDOUT : r;
}

/* --- are the others asleep? --- */

/* Reads without the heap, which tests count, and without the seam of system calls. */
static size_t read_file(const char *path, char *ret, size_t size)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : syscall(SYS_read, fd, ret, size - 1);

	if (fd >= 0)
		(void)syscall(SYS_close, fd);
	ret[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

static uint64_t number_behind(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Adds how often the thread has run; returns false if it runs, or waits for a disk. */
static bool thread_rests(const char *folder, uint64_t *runs)
{
	char path[2 * PATH_SIZE], status[STATUS_SIZE];
	const char *state;

	(void)snprintf(path, sizeof(path), "%s/status", folder);
	if (read_file(path, status, sizeof(status)) == 0)
		return true; /* it has ended */
	state = strstr(status, "\nState:\t");
	*runs += number_behind(status, "\nvoluntary_ctxt_switches:") +
		 number_behind(status, "\nnonvoluntary_ctxt_switches:") + 1;
	return !state || !strchr("RD", state[strlen("\nState:\t")]);
}

static bool process_rests(pid_t pid, uint64_t *runs);

static bool children_rest(const char *folder, uint64_t *runs)
{
	char path[2 * PATH_SIZE], list[STATUS_SIZE], *rest = list, *child;

	(void)snprintf(path, sizeof(path), "%s/children", folder);
	(void)read_file(path, list, sizeof(list));
	while ((child = strsep(&rest, " ")) && *child != '\0')
		if (!process_rests((pid_t)strtol(child, NULL, 10), runs))
			return false;
	return true;
}

/* Asks the kernel once, instead of reading a file of each thread: few programs have a child. */
static bool may_have_children(pid_t pid)
{
	const int flags = WEXITED | WNOHANG | WNOWAIT | __WALL;
	siginfo_t info;

	return pid != (pid_t)syscall(SYS_getpid) || syscall(SYS_waitid, P_ALL, 0, &info, flags, NULL) == 0;
}

static bool process_rests(pid_t pid, uint64_t *runs)
{
	const pid_t self = (pid_t)syscall(SYS_gettid);
	const bool is_parent = may_have_children(pid);
	char folder[PATH_SIZE], entries[STATUS_SIZE];
	bool sleeps = true;
	int fd;
	long n;

	(void)snprintf(folder, sizeof(folder), "/proc/%d/task", pid);
	fd = (int)syscall(SYS_openat, AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return true; /* it has ended */
	while (sleeps && (n = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0)
		for (long at = 0; sleeps && at < n;) {
			const struct dirent64 *entry = (const void *)(entries + at);
			pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);

			at += entry->d_reclen;
			(void)snprintf(folder, sizeof(folder), "/proc/%d/task/%d", pid, thread);
			sleeps = thread == 0 || ((thread == self || thread_rests(folder, runs)) &&
						 (!is_parent || children_rest(folder, runs)));
		}
	(void)syscall(SYS_close, fd);
	return sleeps;
}

/* One look does not do: the first thread may wake the second one after it was looked at. The look of the call
 * before is as good if nothing has run since. A child that only looked at itself would jump to the end of a
 * request that its parent has begun and not yet sent. */
static bool others_rest(void)
{
	static _Thread_local uint64_t before;
	const pid_t self = (pid_t)syscall(SYS_getpid);
	const int saved = errno;
	bool rest = false;

	for (int i = 0; i < 2 && !rest; i++) {
		uint64_t runs = 0;
		bool sleeps =
			process_rests(self, &runs) && (unit.first == 0 || process_rests(unit.first, &runs));

		rest = sleeps && runs == before;
		before = sleeps ? runs : 0;
		if (!sleeps)
			break;
	}
	errno = saved;
	return rest;
}

/* --- waiting --- */

static int real_poll(struct pollfd *fds, nfds_t n, uint64_t ns, const sigset_t *mask)
{
	struct timespec timeout = to_timespec(ns);

	return (int)syscall(SYS_ppoll, fds, n, &timeout, mask, _NSIG / 8);
}

/* ppoll(2) until the clock says @limit. */
static int wait_until(struct pollfd *fds, nfds_t n, uint64_t limit, const sigset_t *mask)
{
	for (;;) {
		uint64_t now = now_ns();
		uint64_t next, patience;
		int r;

		wake_due(now);
		r = real_poll(fds, n, 0, mask);
		if (r != 0 || now >= limit)
			return r;
		next = unit.next_ns;
		next = LEAST(next, limit);
		patience = next > now ? (next - now) / PATIENCE_DIVISOR : 0;
		patience = LEAST(patience, PATIENCE_MAX_NS);
		r = real_poll(fds, n, patience > PATIENCE_MIN_NS ? patience : PATIENCE_MIN_NS, mask);
		if (r != 0)
			return r;
		if (!others_rest())
			continue;
		r = real_poll(fds, n, 0, mask);
		if (r != 0)
			return r;
		jump(limit);
	}
}

static uint64_t limit_in(const struct timespec *timeout)
{
	uint64_t ns = timeout ? to_ns(timeout) : NEVER;
	uint64_t now = now_ns();

	return ns > NEVER - now ? NEVER : now + ns;
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec copy = timeout ? *timeout : (struct timespec){0};

	if (unit_time_is_real())
		return (int)syscall(SYS_ppoll, fds, n, timeout ? &copy : NULL, mask, _NSIG / 8);
	return wait_until(fds, n, limit_in(timeout), mask);
}

/* For functions that count their timeout in milliseconds; negative: none. */
static const struct timespec *in_ms(int ms, struct timespec *ret)
{
	*ret = to_timespec(ms > 0 ? (uint64_t)ms * 1000000 : 0);
	return ms < 0 ? NULL : ret;
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec timeout;

	return ppoll(fds, n, in_ms(ms, &timeout), NULL);
}

int nanosleep(const struct timespec *time, struct timespec *rest)
{
	if (unit_time_is_real())
		return (int)syscall(SYS_nanosleep, time, rest);
	return ppoll(NULL, 0, time, NULL);
}

int usleep(useconds_t us)
{
	const struct timespec time = to_timespec((uint64_t)us * 1000);

	return nanosleep(&time, NULL);
}

_Atomic size_t unit_clock_events;

int epoll_pwait2(int fd, struct epoll_event *events, int n, const struct timespec *timeout,
		 const sigset_t *mask)
{
	struct pollfd loop = {.fd = fd, .events = POLLIN};
	uint64_t now = now_ns();
	uint64_t limit = limit_in(timeout);
	int r;

	if (!unit_time_is_real())
		wake_due(now);
	else if (ppoll(&loop, 1, timeout, mask) < 0)
		return -1;
	r = (int)syscall(SYS_epoll_pwait, fd, events, n, 0, mask, _NSIG / 8);
	while (r == 0 && !unit_time_is_real() && now < limit) {
		r = wait_until(&loop, 1, limit, mask);
		if (r > 0)
			r = (int)syscall(SYS_epoll_pwait, fd, events, n, 0, mask, _NSIG / 8);
		now = now_ns();
	}
	if (r > 0)
		unit_clock_events += (size_t)r;
	return r;
}

int epoll_pwait(int fd, struct epoll_event *events, int n, int ms, const sigset_t *mask)
{
	struct timespec timeout;

	return epoll_pwait2(fd, events, n, in_ms(ms, &timeout), mask);
}

int epoll_wait(int fd, struct epoll_event *events, int n, int ms)
{
	return epoll_pwait(fd, events, n, ms, NULL);
}

bool unit_clock_is_idle(int fd)
{
	struct pollfd loop = {.fd = fd, .events = POLLIN};

	int r;

	wake_due(now_ns());
	unit.n_lookers++;
	do
		r = real_poll(&loop, 1, IDLE_NS, NULL);
	while (r == 0 && !others_rest());
	unit.n_lookers--;
	return r == 0 && real_poll(&loop, 1, 0, NULL) == 0;
}

void unit_clock_advance(uint64_t us)
{
	assert_false(unit_time_is_real());
	unit.jumped_ns += us * 1000;
}

void unit_clock_step(int64_t ms)
{
	assert_false(unit_time_is_real());
	unit.stepped_ns += (uint64_t)ms * 1000000;
}

/* --- children --- */

static uint64_t at_fork_ns;
static pid_t forker;

static void before_fork(void)
{
	forker = unit.first != 0 ? unit.first : (pid_t)syscall(SYS_getpid);
	at_fork_ns = now_ns();
}

/* The child's processor time begins at 0, and its descriptors share the parent's timers. */
static void in_child(void)
{
	uint64_t lost;

	unit.cpu_ns = unit.cpu_read_ns = 0;
	lost = at_fork_ns - now_ns();
	unit.start_ns[0] += lost;
	unit.start_ns[1] += lost;
	unit.first = forker;
	unit.n = 0;
	unit.n_lookers = 0;
	unit.next_ns = NEVER;
	(void)pthread_mutex_init(&unit.lock, NULL);
}

__attribute__((constructor)) static void start(void)
{
	(void)virtual_ns(false);
	(void)virtual_ns(true);
	(void)pthread_atfork(before_fork, NULL, in_child);
}
