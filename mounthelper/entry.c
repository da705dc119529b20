#include "entry.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>

void entry_read_facts(int argc, char **argv, struct entry_facts *ret)
{
	static char *no_environment[] = {NULL};

	environ = no_environment;
	*ret = (struct entry_facts){.argc = argc,
				    .has_argv0 = argc > 0 && argv[0] != NULL,
				    .at_secure = getauxval(AT_SECURE) != 0,
				    .no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1,
				    .ruid = getuid(),
				    .euid = geteuid()};
}

enum status entry_check(const struct entry_facts *facts, enum exit_code *ret_code, struct error *err)
{
	*ret_code = EXIT_ARGUMENTS;
	if (facts->argc != 1 || !facts->has_argv0)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"it takes no arguments; the node agent starts it with a socket on descriptor 3");
	*ret_code = EXIT_PRIVILEGE;
	if (facts->euid != 0)
		return error_set(
			err, STATUS_PERMISSION_DENIED, 0,
			"the setuid bit had no effect (euid %u, no_new_privs %s): install the file "
			"owned by root with mode 4750, on a file system without nosuid, and start it "
			"from a process without no_new_privs (systemd: NoNewPrivileges=no and no option "
			"that implies it)",
			facts->euid, facts->no_new_privs ? "on" : "off");
	if (facts->ruid == 0)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"started by root: it serves an unprivileged agent only, named by its uid in the "
			"policy");
	if (!facts->at_secure)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"euid 0 without a setuid start (AT_SECURE is clear): start it by its setuid bit");
	return STATUS_OK;
}

static enum status check_socket(struct error *err)
{
	int type = 0;
	int domain = 0;
	socklen_t n = sizeof(type);

	if (getsockopt(ENTRY_SOCKET_FD, SOL_SOCKET, SO_TYPE, &type, &n) < 0 ||
	    (n = sizeof(domain), getsockopt(ENTRY_SOCKET_FD, SOL_SOCKET, SO_DOMAIN, &domain, &n) < 0))
		return error_set(err, STATUS_FAILED_PRECONDITION, errno,
				 "descriptor 3 is not a socket; pass one end of a SOCK_SEQPACKET pair as 3");
	if (type != SOCK_SEQPACKET || domain != AF_UNIX)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "descriptor 3 is not an AF_UNIX SOCK_SEQPACKET socket");
	return STATUS_OK;
}

enum status entry_descriptors(int *message_fd, struct error *err)
{
	struct stat st;
	int null_fd;
	enum status status;

	/* before anything is opened, which could land on 3 */
	status = check_socket(err);
	if (status != STATUS_OK)
		return status;
	*message_fd = dup3(STDERR_FILENO, ENTRY_MESSAGE_FD, O_CLOEXEC);
	if (*message_fd < 0)
		(void)close(ENTRY_MESSAGE_FD); /* without standard error there is nobody to tell */
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (null_fd < 0 || fstat(null_fd, &st) < 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, errno, "open /dev/null");
	if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "/dev/null is not the null device");
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (dup2(null_fd, fd) < 0)
			return error_set(err, STATUS_INTERNAL, errno, "put /dev/null on descriptor %d", fd);
	if (close_range(ENTRY_MESSAGE_FD + 1, ~0U, 0) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "close the caller's descriptors");
	return STATUS_OK;
}

/* SIGXFSZ: a write beyond a limit must fail, not kill; SIGPIPE: the same for the agent's end. The others come
 * from a terminal, which asks for no permission: the caller may hold its other end. */
static bool is_ignored(int signal_number)
{
	static const int ignored[] = {SIGPIPE, SIGXFSZ, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU};

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		if (ignored[i] == signal_number)
			return true;
	return false;
}

static enum status reset_signals(struct error *err)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++) {
		struct sigaction action = {.sa_handler = is_ignored(i) ? SIG_IGN : SIG_DFL};

		if (i != SIGKILL && i != SIGSTOP && sigaction(i, &action, NULL) < 0 && errno != EINVAL)
			return error_set(err, STATUS_INTERNAL, errno, "reset signal %d", i);
	}
	(void)sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "unblock signals");
	return STATUS_OK;
}

enum status entry_process_state(struct error *err)
{
	static const enum __itimer_which timers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
	const struct itimerval off = {0};
	const struct sched_param normal = {0};
	enum status status;

	for (size_t i = 0; i < ARRAY_SIZE(timers); i++)
		if (setitimer(timers[i], &off, NULL) < 0)
			return error_set(err, STATUS_INTERNAL, errno, "stop the caller's timers");
	status = reset_signals(err);
	if (status != STATUS_OK)
		return status;
	if (chdir("/") < 0)
		return error_set(err, STATUS_INTERNAL, errno, "change to /");
	(void)umask(022); /* mkdirat(0755) must mean 0755 */
	(void)setsid();	  /* fails for a group leader, which therefore keeps a terminal it may have */
	(void)personality(PER_LINUX); /* execve() leaves flags that change what uname() says */
	(void)prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
	/* a niced helper is slow, not wrong: best effort */
	(void)sched_setscheduler(0, SCHED_OTHER, &normal);
	(void)setpriority(PRIO_PROCESS, 0, 0);
	return STATUS_OK;
}

#define MIB (UINT64_C(1) << 20)

static const struct {
	int resource;
	const char *name;
	rlim_t wanted;
	rlim_t least; /* a hard limit below it is refused, because raising it may not be possible */
} limits[] = {
	{RLIMIT_FSIZE, "FSIZE", RLIM_INFINITY, RLIM_INFINITY},
	{RLIMIT_CPU, "CPU", RLIM_INFINITY, RLIM_INFINITY},
	{RLIMIT_DATA, "DATA", RLIM_INFINITY, 64 * MIB},
	{RLIMIT_AS, "AS", 256 * MIB, 64 * MIB},
	{RLIMIT_STACK, "STACK", 1 * MIB, MIB / 2},
	{RLIMIT_NOFILE, "NOFILE", 64, 64},
	{RLIMIT_CORE, "CORE", 0, 0},
};

enum status entry_limits(struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit wanted = {.rlim_cur = limits[i].wanted, .rlim_max = limits[i].wanted};
		struct rlimit now;

		if (setrlimit((__rlimit_resource_t)limits[i].resource, &wanted) == 0)
			continue;
		if (getrlimit((__rlimit_resource_t)limits[i].resource, &now) < 0)
			return error_set(err, STATUS_INTERNAL, errno, "read RLIMIT_%s", limits[i].name);
		if (now.rlim_max < limits[i].least)
			return error_set(err, STATUS_FAILED_PRECONDITION, 0,
					 "the hard limit RLIMIT_%s is %llu and cannot be raised without "
					 "CAP_SYS_RESOURCE: start the agent with at least %llu",
					 limits[i].name, (unsigned long long)now.rlim_max,
					 (unsigned long long)limits[i].least);
		now.rlim_cur = now.rlim_max;
		if (setrlimit((__rlimit_resource_t)limits[i].resource, &now) < 0)
			return error_set(err, STATUS_INTERNAL, errno, "set RLIMIT_%s", limits[i].name);
	}
	return STATUS_OK;
}

enum status entry_become_root(struct error *err)
{
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return error_set(
			err, STATUS_PERMISSION_DENIED, errno,
			"leave the caller's uid and groups (does the agent's unit allow CAP_SETUID and "
			"CAP_SETGID in CapabilityBoundingSet=?)");
	return STATUS_OK;
}
