/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/proc.h"

#include "mounthelper_wire.h"
#include "mounthelper_words.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "helper/end.h"
#include "rpc/wakeup.h"
#include "unit/lines.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* systemd 252 sets no_new_privs for a unit with User= when one of them is used, 257 by the first two. */
static const char *const without_setuid[] = {
	"NoNewPrivileges",	   "DynamicUser",
	"LockPersonality",	   "MemoryDenyWriteExecute",
	"PrivateDevices",	   "ProtectClock",
	"ProtectHostname",	   "ProtectKernelTunables",
	"ProtectKernelModules",	   "ProtectKernelLogs",
	"RestrictNamespaces",	   "RestrictRealtime",
	"RestrictSUIDSGID",	   "RestrictAddressFamilies",
	"SystemCallArchitectures", "SystemCallFilter",
	"SystemCallLog",	   NULL,
};

/* Each gives the unit a mount namespace of its own. */
static const char *const own_namespace[] = {
	"PrivateTmp",
	"PrivateDevices",
	"PrivateMounts",
	"PrivateIPC",
	"ProtectSystem",
	"ProtectHome",
	"ProtectProc",
	"ProcSubset",
	"ProtectControlGroups",
	"ProtectKernelTunables",
	"ProtectKernelModules",
	"ProtectKernelLogs",
	"ReadOnlyPaths",
	"ReadWritePaths",
	"InaccessiblePaths",
	"ExecPaths",
	"NoExecPaths",
	"TemporaryFileSystem",
	"BindPaths",
	"BindReadOnlyPaths",
	"MountFlags",
	"MountImages",
	"ExtensionImages",
	"RootDirectory",
	"RootImage",
	"LogNamespace",
	"DynamicUser",
	"PrivateUsers",
	NULL,
};

static const char *const bounds[] = {"CapabilityBoundingSet", "PrivateUsers", NULL};
static const char *const ambient[] = {"AmbientCapabilities", "CapabilityBoundingSet", NULL};
static const char *const user[] = {"User", "DynamicUser", NULL};
static const char *const devices[] = {"PrivateDevices", "BindPaths", "TemporaryFileSystem", NULL};
static const char *const limits[] = {"LimitFSIZE", "LimitCPU",	  "LimitDATA", "LimitAS",
				     "LimitSTACK", "LimitNOFILE", "LimitCORE", NULL};
static const char *const program[] = {"ExecStart", NULL};

#define PACKAGED_UNITS "/usr/lib/"

/* The cause of each start failure, in the unit that sets the helper's surroundings. */
static const struct fault {
	enum mh_start word;
	bool is_socket;
	const char *const *options;
	const char *advice;
} faults[] = {
	{START_NAMESPACE, true, own_namespace,
	 "gives the mount helper a mount namespace of its own, from which no mount reaches the host; remove "
	 "it"},
	{START_NAMESPACE, false, bounds, "must keep CAP_SYS_ADMIN, CAP_SYS_CHROOT and CAP_SYS_PTRACE"},
	{START_NOT_PRIVILEGED, true, ambient, "must be CAP_SYS_ADMIN CAP_AUDIT_WRITE"},
	{START_BECOME_ROOT, false, bounds, "must keep CAP_SETUID and CAP_SETGID"},
	{START_PROCFS, true, ambient, "must be CAP_SYS_ADMIN CAP_AUDIT_WRITE"},
	{START_PROCFS, false, bounds, "must keep CAP_SYS_ADMIN"},
	{START_LOCKDOWN, true, ambient, "must be CAP_SYS_ADMIN CAP_AUDIT_WRITE"},
	{START_LOCKDOWN, false, bounds, "must keep CAP_SETPCAP, CAP_SYS_ADMIN and CAP_AUDIT_WRITE"},
	{START_HELPER_UID, true, user, "must be the account of helper_uid in the policy"},
	{START_DEV, true, devices, "hides the kernel's /dev; remove it"},
	{START_DEV, false, devices, "hides the kernel's /dev; remove it"},
	{START_LIMIT, true, limits, "is too low for the mount helper; remove it"},
	{START_LIMIT, false, limits, "is too low for the mount helper; remove it"},
};

static void explain_line(const struct unit_line *line, const char *unit, const char *advice,
			 struct error *err)
{
	(void)error_set(err, STATUS_UNAVAILABLE, 0,
			"the mount helper does not start: %s:%u: %s=%.64s %s; then: systemctl daemon-reload; "
			"systemctl restart %s",
			line->path, line->number, line->option, line->value, advice, unit);
}

/* What is wrong with the program of launch mode setuid? False: nothing that shows. */
static bool explain_file(const struct launch_facts *facts, const char *path, struct error *err)
{
	char full[PATH_MAX];
	struct statvfs fs;
	struct stat st;

	if (str_format(full, sizeof(full), "%s%s", facts->root, path) < 0 || stat(full, &st) < 0)
		return false;
	if (!S_ISREG(st.st_mode) || st.st_uid != 0 || (st.st_mode & 07777) != 04750 ||
	    access(full, X_OK) < 0) {
		(void)error_set(
			err, STATUS_UNAVAILABLE, 0,
			"the mount helper does not start: %s has owner %u, group %u and mode %04o; launch "
			"mode setuid needs root, the agent's group and 4750: chown root:holdfast %s; "
			"chmod 4750 %s (dpkg-statoverride keeps it over an upgrade)",
			path, st.st_uid, st.st_gid, st.st_mode & 07777, path, path);
		return true;
	}
	if (statvfs(full, &fs) == 0 && (fs.f_flag & ST_NOSUID)) {
		(void)error_set(
			err, STATUS_UNAVAILABLE, 0,
			"the mount helper does not start: %s is on a file system that is mounted "
			"nosuid, for this agent at least (findmnt -T %s): remove nosuid in /etc/fstab, or "
			"use launch mode socket (holdfast-agent-socket.service)",
			path, path);
		return true;
	}
	return false;
}

static void explain_setuid(const struct launch_facts *facts, const struct helper_launch *launch,
			   struct error *err)
{
	struct unit_line line;

	if (!facts->no_new_privs) {
		(void)explain_file(facts, launch->path, err);
		return;
	}
	if (facts->unit &&
	    unit_lines_find(facts->root, facts->unit, AGENT_UNIT_ALIAS, without_setuid, &line)) {
		explain_line(
			&line, facts->unit,
			"sets no_new_privs, with which the setuid bit does nothing; remove it, or use launch "
			"mode socket (holdfast-agent-socket.service)",
			err);
		return;
	}
	(void)error_set(err, STATUS_UNAVAILABLE, 0,
			"the mount helper does not start: no_new_privs is set for this agent, with which the "
			"setuid bit of %s does nothing, and no line of unit %s sets it, so the program that "
			"started the agent did; use launch mode socket (holdfast-agent-socket.service)",
			launch->path, facts->unit ? facts->unit : "(none)");
}

static void explain_word(const struct launch_facts *facts, const struct helper_launch *launch, uint16_t word,
			 struct error *err)
{
	const char *unit = launch->is_socket ? HELPER_UNIT_TEMPLATE : facts->unit;
	const char *restart = launch->is_socket ? "holdfast-agent" : facts->unit;
	struct unit_line line;

	for (size_t i = 0; unit && i < ARRAY_SIZE(faults); i++) {
		const struct fault *fault = &faults[i];

		if (fault->word != word || fault->is_socket != launch->is_socket)
			continue;
		/* the package's own User= is right: the policy is wrong, as the failure reports */
		if (unit_lines_find(facts->root, unit, launch->is_socket ? NULL : AGENT_UNIT_ALIAS,
				    fault->options, &line) &&
		    (word != START_HELPER_UID || !str_starts_with(line.path, PACKAGED_UNITS)))
			explain_line(&line, restart, fault->advice, err);
		return;
	}
}

/* The service manager could not execute it, most likely. */
static void explain_silence(const struct launch_facts *facts, struct error *err)
{
	char full[PATH_MAX];
	struct unit_line line;
	struct stat st;
	const char *wrong = NULL;

	if (!unit_lines_find(facts->root, HELPER_UNIT_TEMPLATE, NULL, program, &line)) {
		(void)error_set(err, STATUS_UNAVAILABLE, 0,
				"the mount helper does not start: there is no unit " HELPER_UNIT_TEMPLATE
				" that names the program; install holdfast-mounthelper");
		return;
	}
	if (str_format(full, sizeof(full), "%s%s", facts->root, line.value) < 0)
		return;
	if (stat(full, &st) < 0)
		wrong = "names a program that is not there";
	else if (!S_ISREG(st.st_mode) || (st.st_mode & (S_IROTH | S_IXOTH)) != (S_IROTH | S_IXOTH))
		wrong = "names a program that not everybody may execute (chmod 0755): the one of launch "
			"mode setuid is another file";
	if (wrong)
		explain_line(&line, "holdfast-agent", wrong, err);
}

void launch_fault_explain(const struct launch_facts *facts, const struct helper_launch *launch,
			  const struct mh_failure *failure, struct error *err)
{
	if (!failure && launch->is_socket)
		explain_silence(facts, err);
	else if (!failure)
		(void)explain_file(facts, launch->path, err);
	else if (failure->word == START_NOT_PRIVILEGED && !launch->is_socket)
		explain_setuid(facts, launch, err);
	else
		explain_word(facts, launch, failure->word, err);
}

void launch_fault_explain_self(const struct helper_launch *launch, const struct mh_failure *failure,
			       struct error *err)
{
	char unit[UNIT_NAME_SIZE];
	const struct launch_facts facts = {
		.root = "",
		.unit = unit_of_self(unit) ? unit : NULL,
		.no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1,
	};

	launch_fault_explain(&facts, launch, failure, err);
}

enum {
	HELPER_FD = 3,
	RECEIVE_SIZE = MH_MESSAGE_MAX + 1, /* one more, so that an oversized datagram shows */
};

DEFINE_CLEANUP(struct helper_proc, helper_proc_free)

struct helper_proc {
	sd_event *event; /* borrowed */
	const struct helper_proc_events *events;
	void *userdata;
	pid_t pid; /* 0: not a child of ours */
	int socket;
	int stderr_fd;
	sd_event_source *socket_source;
	sd_event_source *stderr_source;
	sd_event_source *child_source;
	sd_event_source *grace_timer;
	bool is_closed; /* by us: what still comes is dropped */
	bool has_exited;
	bool is_gone; /* on_gone ran */
	int wait_code;
	int wait_status;
	struct error why; /* why it was closed; status OK: it ended by itself */
	size_t stderr_len;
	char stderr_text[HELPER_STDERR_MAX + 1];
};

/* The first line it wrote, control bytes masked. */
static const char *stderr_line(struct helper_proc *proc)
{
	size_t n = strcspn(proc->stderr_text, "\r\n");

	proc->stderr_text[n] = '\0';
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)proc->stderr_text[i] < 0x20 || proc->stderr_text[i] == 0x7f)
			proc->stderr_text[i] = '?';
	}
	return proc->stderr_text;
}

static void describe_end(struct helper_proc *proc, struct error *err)
{
	const char *line = stderr_line(proc);

	if (proc->why.status != STATUS_OK)
		*err = proc->why;
	else if (!proc->has_exited)
		(void)error_set(err, STATUS_UNAVAILABLE, 0,
				"the mount helper (pid %d) closed its socket and does not end", proc->pid);
	else if (proc->pid == 0)
		(void)error_set(err, STATUS_UNAVAILABLE, 0,
				"the mount helper behind helper.socket closed the connection; why is in the "
				"journal of its unit and in its trail");
	else if (proc->wait_code != CLD_EXITED)
		(void)error_set(err, STATUS_UNAVAILABLE, 0,
				"the mount helper (pid %d) was ended by signal %d (%s)", proc->pid,
				proc->wait_status, strsignal(proc->wait_status));
	else
		helper_end_describe_exit(proc->pid, proc->wait_status, line, err);
}

static void close_socket(struct helper_proc *proc)
{
	proc->socket_source = sd_event_source_disable_unref(proc->socket_source);
	close_fdp(&proc->socket);
	proc->socket = -EBADF;
}

static void close_stderr(struct helper_proc *proc)
{
	proc->stderr_source = sd_event_source_disable_unref(proc->stderr_source);
	close_fdp(&proc->stderr_fd);
	proc->stderr_fd = -EBADF;
}

/* The handler may free @proc when the process has ended: nothing touches it afterwards. */
static void notify_end(struct helper_proc *proc)
{
	struct error err;

	wakeup_disarm(&proc->grace_timer);
	if (proc->is_gone) {
		proc->events->on_reaped(proc, proc->userdata);
		return;
	}
	proc->is_gone = true;
	describe_end(proc, &err);
	proc->events->on_gone(proc, !proc->has_exited, &err, proc->userdata);
}

static void await_exit(struct helper_proc *proc);
static void drain(struct helper_proc *proc);

static void note_exit(struct helper_proc *proc, const siginfo_t *info)
{
	proc->has_exited = true;
	proc->wait_code = info->si_code;
	proc->wait_status = info->si_status;
}

/* Returns whether it has ended without an event. Under a tracer the kernel reports the end to the tracer
 * first, and the event loop ignores that report. */
static bool reap(struct helper_proc *proc)
{
	siginfo_t info = {0};

	if (proc->pid == 0)
		return false;
	if (waitid(P_PID, (id_t)proc->pid, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0)
		return false;
	proc->child_source = sd_event_source_disable_unref(proc->child_source);
	note_exit(proc, &info);
	drain(proc);
	return true;
}

static int on_grace(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct helper_proc *proc = userdata;

	wakeup_disarm(&proc->grace_timer);
	if (reap(proc)) {
		notify_end(proc);
		return 0;
	}
	if (!proc->is_gone)
		notify_end(proc);
	await_exit(proc);
	return 0;
}

/* Until its end, or the next look at it. */
static void await_exit(struct helper_proc *proc)
{
	if (proc->has_exited || proc->grace_timer)
		return;
	/* without a timer the end of the process still comes */
	(void)wakeup_arm(proc->event, &proc->grace_timer, HELPER_EXIT_GRACE_MS * USEC_PER_MSEC, on_grace,
			 proc, NULL);
}

static void read_stderr(struct helper_proc *proc)
{
	char scratch[HELPER_STDERR_MAX];
	ssize_t n;

	while (proc->stderr_fd >= 0) {
		size_t room = HELPER_STDERR_MAX - proc->stderr_len;

		n = read(proc->stderr_fd, scratch, sizeof(scratch));
		if (n < 0)
			return;
		if (n == 0) {
			close_stderr(proc);
			return;
		}
		if ((size_t)n < room)
			room = (size_t)n;
		memcpy(proc->stderr_text + proc->stderr_len, scratch, room);
		proc->stderr_len += room;
	}
}

static int on_stderr_readable(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	read_stderr(userdata);
	return 0;
}

/* For one that is not our child this is all there will be of its end. */
static void on_socket_end(struct helper_proc *proc)
{
	close_socket(proc);
	if (proc->pid != 0) {
		await_exit(proc);
		return;
	}
	proc->has_exited = true;
	notify_end(proc);
}

/* One datagram per call; the process may be gone afterwards when it returns false. False when nothing more
 * can come. */
static bool receive(struct helper_proc *proc)
{
	uint8_t bytes[RECEIVE_SIZE];
	ssize_t n;

	do {
		n = recv(proc->socket, bytes, sizeof(bytes), MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return false;
	/* on SEQPACKET the end and an empty datagram look alike: the helper sends no empty ones */
	if (n <= 0) {
		on_socket_end(proc);
		return false;
	}
	if (!proc->is_closed)
		proc->events->on_message(proc, bytes, (size_t)n, proc->userdata);
	return proc->socket >= 0;
}

static int on_socket_readable(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)receive(userdata);
	return 0;
}

/* Reads the messages that it sent before its end: they still count. */
static void drain(struct helper_proc *proc)
{
	while (proc->socket >= 0 && receive(proc))
		;
	close_socket(proc);
	read_stderr(proc);
	close_stderr(proc);
}

static int on_child_exit(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct helper_proc *proc = userdata;

	note_exit(proc, info);
	drain(proc);
	notify_end(proc);
	return 0;
}

/* Child side descriptors: null on 0 and 1, the pipe on 2, the socket on 3; all signals as at the beginning.
 */
static int spawn(const char *path, int socket, int stderr_fd, pid_t *ret_pid)
{
	char *const argv[] = {strdupa(path), NULL};
	static char *const no_environment[] = {NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	r = posix_spawnattr_init(&attr);
	if (r != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return -r;
	}
	if ((r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0)) == 0 &&
	    (r = posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO)) == 0 &&
	    (r = posix_spawn_file_actions_adddup2(&actions, stderr_fd, STDERR_FILENO)) == 0 &&
	    (r = posix_spawn_file_actions_adddup2(&actions, socket, HELPER_FD)) == 0 &&
	    (r = posix_spawnattr_setsigmask(&attr, &none)) == 0 &&
	    (r = posix_spawnattr_setsigdefault(&attr, &all)) == 0 &&
	    (r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)) == 0)
		r = posix_spawn(ret_pid, path, &actions, &attr, argv, no_environment);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

/* A child of ours, with a socket on descriptor 3. */
static enum status start_child(struct helper_proc *proc, const char *path, struct error *err)
{
	cleanup_close int child_socket = -EBADF;
	cleanup_close int child_stderr = -EBADF;
	int sockets[2], pipes[2];
	int r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "cannot make a socket for the mount helper");
	proc->socket = sockets[0];
	child_socket = sockets[1];
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "cannot make a pipe for the mount helper");
	proc->stderr_fd = pipes[0];
	child_stderr = pipes[1];
	if (fcntl(proc->stderr_fd, F_SETFL, O_NONBLOCK) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "cannot make a pipe for the mount helper");
	r = spawn(path, child_socket, child_stderr, &proc->pid);
	if (r < 0) {
		struct error failure;

		(void)error_set(
			&failure, STATUS_UNAVAILABLE, r,
			"cannot start the mount helper %s (helper.path; the agent's user must be allowed "
			"to execute it)",
			path);
		if (r == -EACCES)
			launch_fault_explain_self(&(const struct helper_launch){.path = path}, NULL,
						  &failure);
		if (err)
			*err = failure;
		return failure.status;
	}
	r = sd_event_add_child(proc->event, &proc->child_source, proc->pid, WEXITED, on_child_exit, proc);
	if (r >= 0)
		r = sd_event_add_io(proc->event, &proc->stderr_source, proc->stderr_fd, EPOLLIN,
				    on_stderr_readable, proc);
	return r < 0 ? error_set(err, STATUS_INTERNAL, r, "cannot watch the mount helper") : STATUS_OK;
}

/* The service manager starts one for each connection. */
static enum status connect_socket(struct helper_proc *proc, const char *path, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (str_copy(address.sun_path, sizeof(address.sun_path), path) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "helper.socket: %s is too long", path);
	proc->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (proc->socket < 0)
		return error_set(err, STATUS_INTERNAL, errno, "cannot make a socket for the mount helper");
	/* of this family it succeeds or fails at once; EAGAIN is a full queue of the listener */
	if (connect(proc->socket, (struct sockaddr *)&address, sizeof(address)) < 0)
		return error_set(err, STATUS_UNAVAILABLE, errno,
				 "cannot connect to the mount helper's socket %s (helper.socket; its unit "
				 "must be started: systemctl enable --now holdfast-mounthelper.socket, and "
				 "its SocketGroup= must be the agent's group)",
				 path);
	return STATUS_OK;
}

enum status helper_proc_start(sd_event *event, const struct helper_launch *launch,
			      const struct helper_proc_events *events, void *userdata,
			      struct helper_proc **ret, struct error *err)
{
	cleanup(helper_proc_freep) struct helper_proc *proc = calloc(1, sizeof(*proc));
	int r;

	if (!proc)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot start the mount helper");
	proc->event = event;
	proc->events = events;
	proc->userdata = userdata;
	proc->socket = proc->stderr_fd = -EBADF;
	TRY(launch->is_socket ? connect_socket(proc, launch->path, err)
			      : start_child(proc, launch->path, err));
	r = sd_event_add_io(event, &proc->socket_source, proc->socket, EPOLLIN, on_socket_readable, proc);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot watch the mount helper");
	*ret = TAKE_PTR(proc);
	return STATUS_OK;
}

enum status helper_proc_send(struct helper_proc *proc, const void *bytes, size_t n, struct error *err)
{
	ssize_t sent;

	if (proc->socket < 0 || proc->is_closed)
		return error_set(err, STATUS_UNAVAILABLE, 0, "the mount helper is gone");
	do {
		sent = send(proc->socket, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return error_set(err, STATUS_UNAVAILABLE, errno, "cannot send to the mount helper");
	return STATUS_OK;
}

void helper_proc_close(struct helper_proc *proc, const struct error *why)
{
	if (proc->socket < 0 || proc->is_closed)
		return;
	proc->why = *why;
	proc->is_closed = true;
	/* the connection shows when the other side is gone: keep our half of it to look at */
	if (proc->pid != 0)
		close_socket(proc);
	else
		(void)shutdown(proc->socket, SHUT_WR);
	await_exit(proc);
}

pid_t helper_proc_pid(const struct helper_proc *proc)
{
	return proc->pid;
}

int helper_proc_exit_code(const struct helper_proc *proc)
{
	return proc->pid != 0 && proc->has_exited && proc->wait_code == CLD_EXITED ? proc->wait_status : -1;
}

void helper_proc_free(struct helper_proc *proc)
{
	if (!proc)
		return;
	wakeup_disarm(&proc->grace_timer);
	sd_event_source_disable_unref(proc->child_source);
	close_socket(proc);
	close_stderr(proc);
	free(proc);
}
