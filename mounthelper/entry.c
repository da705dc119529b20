/* SPDX-License-Identifier: Apache-2.0 */
#include "startup.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/rate.h"
#include "base/str.h"
#include "base/sys.h"
#include "privileged/kernel_audit.h"
#include "privileged/keyline.h"
#include "privileged/peer_socket.h"
#include "privileged/process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static uint32_t caller_uid;   /* also when this process has another one */
static bool is_setuid = true; /* launch mode; true until it is known */

#define START_ROW(name, code, word, sentence) [name] = {code, word},
static const struct {
	int code;
	const char *word;
} starts[START_N] = {MH_STARTS(START_ROW)};

/* All refused starts of agents and strangers, six at once and one in ten seconds: a loop of starts fills
 * no disk. Shared without a lock, which the caller could stop this process with. */
static bool may_record(void)
{
	const size_t size = sizeof(struct rate);
	cleanup_close int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* launch mode socket begins without root: packages make its file */
	const char *path = geteuid() == 0 ? "/run/holdfast-mount/lock/refused"
					  : "/run/holdfast-mount/lock/refused.socket";
	cleanup_close int fd = path_open_trusted_file(root_fd, path, geteuid(), O_RDWR | O_CREAT, 0600);
	struct rate *rate = MAP_FAILED;

	if (fd >= 0 && posix_fallocate(fd, 0, (off_t)size) == 0)
		rate = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (rate == MAP_FAILED)
		return false;
	rate->cost_us = 10 * USEC_PER_SEC;
	rate->most_us = 6 * rate->cost_us;
	return rate_take(rate, clock_monotonic_us());
}

/* Writes to the kernel's audit, which adds the login uid of the caller. The text has only names of the table
 * and numbers: policy and trail may not be open yet. Both descriptors are closed again, because numbers 3 and
 * 4 have a meaning. */
static void record_refusal(enum mh_start word, int sys_errno, uint32_t number)
{
	struct keyline line = KEYLINE_INIT;
	cleanup_close int fd = may_record() ? kernel_audit_open() : -EBADF;
	struct ucred peer = {.uid = caller_uid};
	socklen_t n = sizeof(peer);

	/* systemd has started this process; the caller is the peer of the socket */
	if (!is_setuid)
		(void)getsockopt(HELPER_SOCKET_FD, SOL_SOCKET, SO_PEERCRED, &peer, &n);
	keyline_words(&line, "op", "start", "phase", "refused", "reason", starts[word].word);
	keyline_number(&line, "errno", (uint64_t)sys_errno);
	keyline_number(&line, "number", number);
	keyline_number(&line, "caller_uid", peer.uid);
	keyline_word(&line, "res", "failed");
	(void)kernel_audit_report(fd, KERNEL_AUDIT_TRUSTED_APP, 0, line.text + 1);
}

_Noreturn void start_fail(enum mh_start word, int sys_errno, uint32_t number, const char *detail)
{
	struct mh_failure failure = {.header = mh_header_make(MH_OP_FAILURE, sizeof(failure), 0),
				     .word = (uint16_t)word,
				     .sys_errno = (uint16_t)sys_errno,
				     .number = number};
	char line[MH_PATH_SIZE + 128];
	int n;

	record_refusal(word, sys_errno, number);
	(void)str_copy(failure.detail, sizeof(failure.detail), detail);
	/* whether either arrives is the caller's business, who has the exit code as well */
	if (peer_socket_is_one(HELPER_SOCKET_FD))
		(void)peer_socket_send(HELPER_SOCKET_FD, &failure, sizeof(failure));
	n = str_format(line, sizeof(line), "holdfast-mounthelper: %s %s (%u) errno %d\n", starts[word].word,
		       failure.detail[0] != '\0' ? failure.detail : "-", number, sys_errno);
	/* which may be a full pipe of the caller's, who may not kill this process */
	(void)sys_set_timer(1);
	if (n > 0)
		(void)!write(HELPER_MESSAGE_FD, line, (size_t)n);
	_exit(starts[word].code);
}

void start_need(bool ok, enum mh_start word, uint32_t number, const char *detail)
{
	if (!ok)
		start_fail(word, 0, number, detail);
}

int start_libc(int r, enum mh_start word, const char *detail)
{
	return start_sys(r < 0 ? -errno : r, word, detail);
}

int start_sys(int r, enum mh_start word, const char *detail)
{
	if (r < 0)
		start_fail(word, -r, 0, detail);
	return r;
}

enum mh_start entry_launch_mode(const struct entry_facts *facts, enum launch_mode *ret)
{
	if (facts->argc != 1 || !facts->has_argv0)
		return START_ARGUMENTS;
	if (facts->ruid == 0)
		return START_BY_ROOT;
	if (facts->at_secure ? facts->euid != 0 : facts->euid != facts->ruid || !facts->is_capable)
		return START_NOT_PRIVILEGED;
	*ret = facts->at_secure ? LAUNCH_SETUID : LAUNCH_SOCKET;
	return START_OK;
}

#define MIB (UINT64_C(1) << 20)

/* A hard limit below the least is refused, because raising it may not be possible. */
static const struct process_limit limits[] = {
	{RLIMIT_FSIZE, "RLIMIT_FSIZE", RLIM_INFINITY, RLIM_INFINITY},
	{RLIMIT_CPU, "RLIMIT_CPU", RLIM_INFINITY, RLIM_INFINITY},
	{RLIMIT_DATA, "RLIMIT_DATA", RLIM_INFINITY, 64 * MIB},
	{RLIMIT_AS, "RLIMIT_AS", 256 * MIB, 64 * MIB},
	{RLIMIT_STACK, "RLIMIT_STACK", 1 * MIB, MIB / 2},
	{RLIMIT_NOFILE, "RLIMIT_NOFILE", 64, 64},
	{RLIMIT_CORE, "RLIMIT_CORE", 0, 0},
};

static void set_limits(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		rlim_t hard = 0;
		int r = process_set_limit(&limits[i], &hard);

		if (r < 0)
			start_fail(START_LIMIT, -r, hard < UINT32_MAX ? (uint32_t)hard : UINT32_MAX,
				   limits[i].name);
	}
}

/* SIGXFSZ: a write beyond a limit must fail, not kill; SIGPIPE: the same for the agent's end. The others come
 * from a terminal, which asks for no permission: the caller may hold its other end. */
static const int ignored_signals[] = {SIGPIPE, SIGXFSZ, SIGHUP,	 SIGINT, SIGQUIT,
				      SIGTSTP, SIGTTIN, SIGTTOU, 0};

/* Keeps standard error for messages about a failed start, or closes it. The server of a file can delay a
 * close without limit, and later this process is root's and occupies an instance's place. So only a pipe is
 * kept of a caller that it @outranks. */
static void keep_message_fd(bool outranks)
{
	struct stat st;

	if (fstat(STDERR_FILENO, &st) < 0 || (outranks && !S_ISFIFO(st.st_mode)) ||
	    dup3(STDERR_FILENO, HELPER_MESSAGE_FD, O_CLOEXEC) < 0)
		(void)close(HELPER_MESSAGE_FD);
}

/* Until it has another uid than the caller, that one may stop and kill it; a stop that arrives in the last of
 * these calls takes effect after it, and the deadline ends it. So the session comes last: its own members may
 * continue it. */
static void become_root(void)
{
	start_libc(setgroups(0, NULL), START_BECOME_ROOT, "setgroups");
	start_libc(setresgid(0, 0, 0), START_BECOME_ROOT, "setresgid");
	start_libc(setresuid(0, 0, 0), START_BECOME_ROOT, "setresuid");
}

void entry_shed(int argc, char **argv, struct helper *h)
{
	static char *no_environment[] = {NULL};
	struct process_capabilities caps = {.permitted = 0};
	struct entry_facts facts = {.argc = argc,
				    .has_argv0 = argc > 0 && argv[0] && argv[0][0] != '\0',
				    .at_secure = getauxval(AT_SECURE) != 0,
				    .ruid = getuid(),
				    .euid = geteuid()};
	enum mh_start word;

	environ = no_environment;
	caller_uid = facts.ruid;
	is_setuid = facts.euid == 0;
	(void)process_capabilities(&caps);
	facts.is_capable = ((caps.permitted | SANDBOX_AUDIT) & SANDBOX_CAPABILITIES) == SANDBOX_CAPABILITIES;
	word = entry_launch_mode(&facts, &h->launch_mode);
	keep_message_fd(facts.at_secure);
	start_need(word == START_OK, word, 0, "");
	start_sys(process_set_deadline(START_DEADLINE_S), START_PROCESS, "deadline");
	/* before anything is opened, which could land there */
	start_need(peer_socket_is_one(HELPER_SOCKET_FD), START_SOCKET, 0, "");
	start_sys(process_reset_descriptors(HELPER_MESSAGE_FD + 1), START_DESCRIPTORS, "/dev/null");
	start_sys(process_reset(ignored_signals), START_PROCESS, "");
	set_limits();
	if (h->launch_mode == LAUNCH_SETUID) {
		h->peer_uid = facts.ruid;
		become_root();
	}
	(void)setsid(); /* fails for a group leader, which keeps a terminal it may have */
	start_libc(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), START_PROCESS, "dumpable");
}
