/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include "startup.h"

#include "base/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static struct agent agent;

static int start(void **state)
{
	agent_up(&agent);
	return 0;
}

/* Launch mode socket: the log is the helper's, the state file became it when launch mode setuid made it. */
static int start_service(void **state)
{
	static const uint64_t two = UINT64_C(1) << CAP_SYS_ADMIN | UINT64_C(1) << CAP_AUDIT_WRITE;
	static const struct service service = {.ambient = two, .bounding = two};

	assert_int_equal(chown(LOG_PATH, HELPER_UID, 0), 0);
	assert_true(agent_start(&agent, &(struct agent_start){.service = &service}));
	assert_int_equal(agent.hello.launch_mode, LAUNCH_SOCKET);
	return 0;
}

static void the_running_helper_has_two_capabilities_and_nothing_to_gain(void **state)
{
	static const struct {
		const char *key;
		const char *value;
	} rows[] = {
		{"Uid", "64102\t64102\t64102\t64102"},
		{"Gid", "64102\t64102\t64102\t64102"},
		{"Groups", ""},
		{"CapInh", "0000000000000000"},
		{"CapPrm", "0000000020200000"}, /* CAP_SYS_ADMIN is bit 21, CAP_AUDIT_WRITE bit 29 */
		{"CapEff", "0000000020200000"},
		{"CapBnd", "0000000000000000"},
		{"CapAmb", "0000000000000000"},
		{"NoNewPrivs", "1"},
		{"Seccomp", "2"},
		{"Threads", "1"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_status(agent.helper, rows[i].key, rows[i].value);
	assert_int_equal(agent_stop_code(&agent), 0);
}

/* Run @probe as the agent's uid. */
static int as_agent(int (*probe)(pid_t), pid_t target)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		if (setresgid(AGENT_UID, AGENT_UID, AGENT_UID) < 0 ||
		    setresuid(AGENT_UID, AGENT_UID, AGENT_UID) < 0)
			_exit(99);
		_exit(probe(target) < 0 ? errno : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

static int try_kill(pid_t pid)
{
	return kill(pid, SIGSTOP);
}

static int try_ptrace(pid_t pid)
{
	return (int)ptrace(PTRACE_SEIZE, pid, NULL, NULL);
}

static int try_prlimit(pid_t pid)
{
	return prlimit(pid, RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 0}, NULL);
}

static int try_memory(pid_t pid)
{
	char path[64];

	(void)str_format(path, sizeof(path), "/proc/%d/mem", (int)pid);
	return open(path, O_RDWR | O_CLOEXEC);
}

static int try_descriptors(pid_t pid)
{
	char path[64];

	(void)str_format(path, sizeof(path), "/proc/%d/fd", (int)pid);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void the_agent_can_neither_signal_nor_look_into_it(void **state)
{
	assert_int_equal(as_agent(try_kill, agent.helper), EPERM);
	assert_int_equal(as_agent(try_ptrace, agent.helper), EPERM);
	assert_int_equal(as_agent(try_prlimit, agent.helper), EPERM);
	assert_int_equal(as_agent(try_memory, agent.helper), EACCES);
	assert_int_equal(as_agent(try_descriptors, agent.helper), EACCES);
	assert_int_equal(agent_stop_code(&agent), 0);
}

/* The kernel waits for a server until it answers or the process dies, and a handled signal is not death. */
static void an_alarm_ends_it(void **state)
{
	int status;

	assert_int_equal(kill(agent.helper, SIGALRM), 0);
	status = agent_stop(&agent);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGALRM);
}

/* Every operation has its alarm where a profile may have to wait, be its type there or not. */
static void a_profile_that_the_kernel_lacks_does_not_end_it(void **state)
{
	struct mh_reply reply;

	(void)agent_stop(&agent);
	world_policy("required", "profile filer { class = nfs4; server = 10.1.2.3; export = /srv }\n");
	agent_up(&agent);
	assert_true(agent_look(&agent, "vol-1", "", &reply));
	assert_int_equal(reply.status, MH_NOT_FOUND);
	assert_int_equal(agent_stop_code(&agent), 0);
	world_policy("required", "");
}

/* Violations end it without an answer. */

static void assert_violation(size_t answer, const char *reason)
{
	assert_int_equal(answer, 0);
	assert_int_equal(agent_stop_code(&agent), MH_EXIT_VIOLATION);
	assert_last_record("op=violation phase=event");
	assert_last_record(reason);
}

static struct mh_unstage harmless(void)
{
	struct mh_unstage req = unstage("vol-1");

	req.header.seq = ++agent.seq;
	return req;
}

static void a_message_out_of_sequence_ends_it(void **state)
{
	struct mh_unstage req = harmless();
	uint8_t answer[2048];

	req.header.seq++;
	assert_violation(agent_raw(&agent, &req, sizeof(req), answer), "reason=sequence");
}

static void a_malformed_message_ends_it(void **state)
{
	struct mh_unstage req = harmless();
	uint8_t answer[2048];

	req.detach = 2;
	assert_violation(agent_raw(&agent, &req, sizeof(req), answer), "reason=field");
}

static void a_message_too_long_ends_it(void **state)
{
	uint8_t bytes[MH_MESSAGE_MAX + 1] = {0};
	uint8_t answer[2048];

	assert_violation(agent_raw(&agent, bytes, sizeof(bytes), answer), "reason=truncated");
}

static void a_descriptor_in_a_message_never_arrives(void **state)
{
	struct mh_unstage req = harmless();
	uint8_t answer[2048];
	int code;

	assert_int_equal(agent_raw_with_fd(&agent, &req, sizeof(req), answer), 0);
	code = agent_stop_code(&agent);
	/* since 6.16 the kernel does not even let it be sent; before, it is dropped on arrival and shows */
	if (code == MH_EXIT_CLOSED)
		assert_last_record("reason=closed");
	else
		assert_last_record("reason=control-data");
}

static void a_message_from_another_process_ends_it(void **state)
{
	struct mh_unstage req = harmless();
	uint8_t answer[2048];

	assert_violation(agent_raw_from_child(&agent, &req, sizeof(req), answer), "reason=credentials");
}

static void too_many_refusals_end_it(void **state)
{
	enum { TOLERATED = 200 };
	struct mh_stage req = stage_disk();
	struct mh_reply reply;
	char *log;
	int n = 0;

	req.ticket.signature[0] ^= 1;
	/* the slower the machine, the more are forgotten before the next comes */
	while (n < 20 * TOLERATED && agent_call(&agent, &req, sizeof(req), &reply)) {
		assert_int_equal(reply.status, MH_REFUSED);
		n++;
	}
	assert_true(n >= TOLERATED);
	assert_int_equal(agent_stop_code(&agent), MH_EXIT_REFUSALS);
	assert_last_record("op=stop phase=event");
	assert_last_record("reason=too-many-refusals");
	log = world_log();
	assert_non_null(strstr(log, "op=refusals phase=event seq=0 count="));
	free(log);
}

/* The filter alone, in forked children: the same object code, with descriptors of its own. */

enum { FD_SOCKET = 3, FD_LOG = 10, FD_LOG_READ, FD_TABLE, FD_STATE, FD_AUDIT, FD_DIR, FD_OTHER };
enum { CALL_MAX = 600, X32 = 0x40000000, NO_HANG = MSG_DONTWAIT };

#define PATH_FLAGS (O_PATH | O_NOFOLLOW | O_CLOEXEC)
#define FLOOR (SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV)
#define CLONE (SYS_OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH)
#define BOTH_EMPTY (SYS_MOVE_MOUNT_F_EMPTY_PATH | SYS_MOVE_MOUNT_T_EMPTY_PATH)
#define AT(p) ((unsigned long)(uintptr_t)(p))

struct probe {
	long call;
	unsigned long arg[6];
	bool is_i386;
};

/* What the policy and the machine decide about the filter. */
struct variant {
	bool detach;
	bool without_audit;
};

static const struct variant plain_variant;
static const struct variant full_variant = {.detach = true};

static void call_as_i386(long call)
{
#if defined(__x86_64__)
	long result = call;

	__asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
#else
	(void)syscall(call | X32);
#endif
}

static _Noreturn void load_and_probe(const struct variant *variant, const struct probe *probe)
{
	struct agent_policy agent_policy = {.allow_detach = variant->detach};
	struct helper h = {.agent = &agent_policy,
			   .type_available = {[FS_TMPFS] = true},
			   .trail = {.fd = FD_LOG, .read_fd = FD_LOG_READ},
			   .mountinfo = {.fd = FD_TABLE},
			   .state_fd = FD_STATE,
			   .audit_fd = variant->without_audit ? -EPROTONOSUPPORT : FD_AUDIT};
	const unsigned long *arg = probe->arg;
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int dir_fd = open(TEST_PREFIX "/probe", O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (int fd = FD_LOG; fd <= FD_OTHER; fd++)
		(void)dup2(fd == FD_DIR ? dir_fd : null_fd, fd);
	(void)dup2(null_fd, FD_SOCKET);
	filter_load(&h);
	if (probe->is_i386)
		call_as_i386(probe->call);
	else
		(void)syscall(probe->call, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
	syscall(SYS_exit_group, 0); /* let through, whatever it returned */
	__builtin_unreachable();
}

/* Was the call let through? False when it killed with SIGSYS; anything else fails the test. */
static bool is_let_through(const struct variant *variant, const struct probe *probe)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		load_and_probe(variant, probe);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		return false;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV && probe->is_i386)
		return false; /* a kernel without calls of i386 */
	if (status != 0)
		fail_msg("call %ld: wait status %x", probe->call, (unsigned int)status);
	return true;
}

static void assert_all(const struct variant *variant, const struct probe *probes, size_t n, bool let_through)
{
	for (size_t i = 0; i < n; i++)
		if (is_let_through(variant, &probes[i]) != let_through)
			fail_msg("probe %zu of call %ld %s", i, probes[i].call,
				 let_through ? "was killed" : "survived");
}

static int make_probe_folder(void **state)
{
	(void)mkdir(TEST_PREFIX "/probe", 0755);
	(void)mkdir(TEST_PREFIX "/probe/t", 0755);
	return 0;
}

static const char folder[] = "t";
static const char missing[] = "z";

/* One for each rule of filter.c. Most fail for want of a real object, which is the kernel's word and not the
 * filter's. */
static void each_rule_lets_its_call_through(void **state)
{
	static struct timespec now;
	static const struct itimerval off;
	const struct probe probes[] = {
		{SYS_recvmsg, {FD_SOCKET, 0, NO_HANG}},
		{SYS_sendto, {FD_SOCKET, AT(folder), 1, NO_HANG}},
		{SYS_sendto, {FD_AUDIT, AT(folder), 1, NO_HANG}},
		{SYS_recvfrom, {FD_AUDIT, 0, 0, NO_HANG}},
		{SYS_openat, {FD_DIR, AT(folder), PATH_FLAGS | O_DIRECTORY}},
		{SYS_openat, {FD_DIR, AT(folder), PATH_FLAGS}},
		{SYS_close, {FD_OTHER}},
		{SYS_statx, {FD_DIR, AT(folder), 0, 0, 0}},
		{SYS_fstatfs, {FD_DIR, 0}},
		{SYS_readlinkat, {FD_DIR, AT(folder), 0, 0}},
		{SYS_NR_STATMOUNT, {0}},
		{SYS_NR_LISTMOUNT, {0}},
		{SYS_mkdirat, {FD_DIR, AT(folder), 0755}},
		{SYS_unlinkat, {FD_DIR, AT(missing), AT_REMOVEDIR}},
		{SYS_fchdir, {FD_DIR}},
		{SYS_fsopen, {AT(missing), SYS_FSOPEN_CLOEXEC}},
		{SYS_fsconfig, {FD_OTHER, SYS_FSCONFIG_SET_FLAG, AT(missing)}},
		{SYS_fsconfig, {FD_OTHER, SYS_FSCONFIG_SET_STRING, AT(missing), AT(missing)}},
		{SYS_fsconfig, {FD_OTHER, SYS_FSCONFIG_CMD_CREATE}},
		{SYS_fsconfig, {FD_OTHER, SYS_FSCONFIG_CMD_CREATE_EXCL}},
		{SYS_fsmount, {FD_OTHER, SYS_FSMOUNT_CLOEXEC, FLOOR}},
		{SYS_fsmount, {FD_OTHER, SYS_FSMOUNT_CLOEXEC, FLOOR | SYS_MOUNT_ATTR_RDONLY}},
		{SYS_open_tree, {FD_OTHER, AT(""), CLONE}},
		{SYS_mount_setattr, {FD_OTHER, AT(""), AT_EMPTY_PATH, 0, 32}},
		{SYS_move_mount, {FD_OTHER, AT(""), FD_DIR, AT(""), BOTH_EMPTY}},
		{SYS_umount2, {AT(missing), SYS_UMOUNT_NOFOLLOW}},
		{SYS_umount2, {AT(missing), SYS_UMOUNT_NOFOLLOW | SYS_UMOUNT_EXPIRE}},
		{SYS_clock_gettime, {CLOCK_MONOTONIC, AT(&now)}},
		{SYS_write, {FD_LOG, AT(folder), 1}},
		{SYS_fdatasync, {FD_LOG}},
		{SYS_fallocate, {FD_LOG, FALLOC_FL_KEEP_SIZE, 0, 1}},
		{SYS_pread64, {FD_LOG_READ, 0, 0, 0}},
		{SYS_pread64, {FD_TABLE, 0, 0, 0}},
		{SYS_fcntl, {FD_STATE, F_OFD_SETLKW, 0}},
		{SYS_fcntl, {FD_STATE, F_OFD_SETLK, 0}},
		{SYS_setitimer, {ITIMER_REAL, AT(&off), 0}},
	};

	assert_all(&plain_variant, probes, ARRAY_SIZE(probes), true);
	assert_all(&full_variant, probes, ARRAY_SIZE(probes), true);
}

/* Each call of the rules, with one argument that it must not have. */
static void an_argument_outside_its_rule_kills(void **state)
{
	const struct probe probes[] = {
		{SYS_recvmsg, {FD_OTHER, 0, NO_HANG}},
		{SYS_recvmsg, {FD_AUDIT, 0, NO_HANG}},
		{SYS_sendto, {FD_OTHER, AT(folder), 1, NO_HANG}},
		{SYS_sendto, {FD_LOG, AT(folder), 1, NO_HANG}},
		{SYS_recvfrom, {FD_SOCKET, 0, 0, NO_HANG}},
		{SYS_openat, {FD_DIR, AT(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC}},
		{SYS_openat, {FD_DIR, AT(folder), O_RDONLY | O_NOFOLLOW | O_CLOEXEC}},
		{SYS_openat, {FD_DIR, AT(missing), O_CREAT | O_WRONLY | O_CLOEXEC, 0600}},
		{SYS_openat, {FD_DIR, AT(folder), O_PATH | O_CLOEXEC}},
		{SYS_openat, {FD_DIR, AT(folder), O_PATH | O_NOFOLLOW}},
		{SYS_mkdirat, {FD_DIR, AT(folder), 0777}},
		{SYS_mkdirat, {FD_DIR, AT(folder), 04755}},
		{SYS_unlinkat, {FD_DIR, AT(missing), 0}},
		{SYS_fsopen, {AT(missing), 0}},
		{SYS_fsconfig, {FD_OTHER, 2 /* SET_BINARY */, AT(missing), AT(missing), 1}},
		{SYS_fsconfig, {FD_OTHER, 3 /* SET_PATH */, AT(missing), AT("/"), FD_DIR}},
		{SYS_fsconfig, {FD_OTHER, 4 /* SET_PATH_EMPTY */, AT(missing), AT(""), FD_DIR}},
		{SYS_fsconfig, {FD_OTHER, 5 /* SET_FD */, AT(missing), 0, FD_DIR}},
		{SYS_fsconfig, {FD_OTHER, 7 /* CMD_RECONFIGURE */}},
		{SYS_fsmount, {FD_OTHER, SYS_FSMOUNT_CLOEXEC, SYS_MOUNT_ATTR_NODEV}},
		{SYS_fsmount, {FD_OTHER, SYS_FSMOUNT_CLOEXEC, SYS_MOUNT_ATTR_NOSUID}},
		{SYS_fsmount, {FD_OTHER, SYS_FSMOUNT_CLOEXEC, 0}},
		{SYS_fsmount, {FD_OTHER, 0, FLOOR}},
		{SYS_open_tree, {FD_OTHER, AT(""), CLONE | 0x8000 /* AT_RECURSIVE */}},
		{SYS_open_tree, {FD_OTHER, AT(""), SYS_OPEN_TREE_CLONE | AT_EMPTY_PATH}},
		{SYS_open_tree, {FD_OTHER, AT(""), O_CLOEXEC | AT_EMPTY_PATH}},
		{SYS_open_tree, {FD_OTHER, AT("/"), SYS_OPEN_TREE_CLONE | O_CLOEXEC}},
		{SYS_mount_setattr, {FD_OTHER, AT(""), AT_EMPTY_PATH | 0x8000, 0, 32}},
		{SYS_mount_setattr, {FD_OTHER, AT("/"), 0, 0, 32}},
		{SYS_mount_setattr, {FD_OTHER, AT(""), AT_EMPTY_PATH, 0, 40}},
		{SYS_move_mount, {FD_OTHER, AT("a"), FD_DIR, AT("b"), 0}},
		{SYS_move_mount, {FD_OTHER, AT(""), FD_DIR, AT("b"), SYS_MOVE_MOUNT_F_EMPTY_PATH}},
		{SYS_move_mount, {FD_OTHER, AT("a"), FD_DIR, AT(""), SYS_MOVE_MOUNT_T_EMPTY_PATH}},
		{SYS_move_mount, {FD_OTHER, AT(""), FD_DIR, AT(""), BOTH_EMPTY | 0x100 /* SET_GROUP */}},
		{SYS_move_mount, {FD_OTHER, AT(""), FD_DIR, AT(""), BOTH_EMPTY | 0x200 /* BENEATH */}},
		{SYS_umount2, {AT(missing), 0}},
		{SYS_umount2, {AT(missing), SYS_UMOUNT_NOFOLLOW | 1 /* MNT_FORCE */}},
		{SYS_umount2, {AT(missing), SYS_UMOUNT_EXPIRE}},
		{SYS_umount2, {AT(missing), SYS_UMOUNT_NOFOLLOW | SYS_UMOUNT_EXPIRE | SYS_UMOUNT_DETACH}},
		{SYS_umount2, {AT(missing), SYS_UMOUNT_DETACH}},
		{SYS_write, {FD_SOCKET, AT(folder), 1}},
		{SYS_write, {FD_LOG_READ, AT(folder), 1}},
		{SYS_write, {FD_STATE, AT(folder), 1}},
		{SYS_write, {FD_OTHER, AT(folder), 1}},
		{SYS_fdatasync, {FD_STATE}},
		{SYS_fallocate, {FD_LOG, 0, 0, 1}},
		{SYS_fallocate, {FD_LOG, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, 1}},
		{SYS_fallocate, {FD_STATE, FALLOC_FL_KEEP_SIZE, 0, 1}},
		{SYS_fcntl, {FD_LOG, F_OFD_SETLK, 0}},
		{SYS_fcntl, {FD_LOG, F_OFD_SETLKW, 0}},
		{SYS_fcntl, {FD_LOG, F_SETFL, 0}},
		{SYS_fcntl, {FD_LOG, F_DUPFD, 0}},
		{SYS_fcntl, {FD_STATE, F_GETFD, 0}},
		{SYS_fcntl, {FD_OTHER, F_OFD_SETLK, 0}},
		{SYS_fcntl, {FD_OTHER, F_OFD_SETLKW, 0}},
		{SYS_pread64, {FD_LOG, 0, 0, 0}},
		{SYS_pread64, {FD_STATE, 0, 0, 0}},
		{SYS_pread64, {FD_OTHER, 0, 0, 0}},
		{SYS_setitimer, {ITIMER_VIRTUAL, 0, 0}},
		{SYS_setitimer, {ITIMER_PROF, 0, 0}},
	};

	assert_all(&full_variant, probes, ARRAY_SIZE(probes), false);
	assert_all(&plain_variant, probes, ARRAY_SIZE(probes), false);
}

/* Rules of the whole filter, in any variant. */
static const long allowed_calls[] = {
	SYS_recvmsg,	SYS_sendto,	SYS_recvfrom,	   SYS_openat,	     SYS_close,	    SYS_statx,
	SYS_fstatfs,	SYS_readlinkat, SYS_NR_STATMOUNT,  SYS_NR_LISTMOUNT, SYS_mkdirat,   SYS_unlinkat,
	SYS_fchdir,	SYS_fsopen,	SYS_fsconfig,	   SYS_fsmount,	     SYS_open_tree, SYS_mount_setattr,
	SYS_move_mount, SYS_umount2,	SYS_clock_gettime, SYS_write,	     SYS_fdatasync, SYS_fallocate,
	SYS_fcntl,	SYS_pread64,	SYS_setitimer,	   SYS_exit_group,
};

static bool is_allowed(long call)
{
	for (size_t i = 0; i < ARRAY_SIZE(allowed_calls); i++)
		if (allowed_calls[i] == call)
			return true;
	return false;
}

/* The kernel exempts its own trampolines from every filter; called from elsewhere they do nothing. */
static bool is_probe_trampoline(long call)
{
	return call == 335 /* uretprobe */ || call == 336 /* uprobe */;
}

static void every_other_call_kills(void **state)
{
	for (long call = 0; call < CALL_MAX; call++) {
		const struct probe probe = {call, {0}};
		const struct probe as_x32 = {call | X32, {0}};

		if (!is_allowed(call) && !is_probe_trampoline(call) && is_let_through(&full_variant, &probe))
			fail_msg("call %ld survived", call);
		if (is_allowed(call) && is_let_through(&full_variant, &as_x32))
			fail_msg("call %ld of x32 survived", call);
	}
}

static void each_call_of_i386_kills(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(allowed_calls); i++) {
		const struct probe probe = {allowed_calls[i], {0}, .is_i386 = true};

		if (is_let_through(&full_variant, &probe))
			fail_msg("call %ld of i386 survived", probe.call);
	}
}

static void what_the_policy_or_the_machine_lacks_is_not_allowed(void **state)
{
	static const struct variant without_sinks = {.without_audit = true};
	const struct probe detach = {SYS_umount2, {AT(missing), SYS_UMOUNT_NOFOLLOW | SYS_UMOUNT_DETACH}};
	const struct probe sinks[] = {
		{SYS_sendto, {FD_AUDIT, AT(folder), 1, NO_HANG}},
		{SYS_recvfrom, {FD_AUDIT, 0, 0, NO_HANG}},
	};

	assert_false(is_let_through(&plain_variant, &detach));
	assert_true(is_let_through(&(struct variant){.detach = true}, &detach));
	assert_all(&without_sinks, sinks, ARRAY_SIZE(sinks), false);
}

static void there_is_no_way_back_from_the_sandbox(void **state)
{
	static const struct agent_policy agent_policy = {.helper_uid = HELPER_UID, .helper_gid = HELPER_UID};
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		sandbox_drop(LAUNCH_SETUID, &agent_policy);
		_exit(setuid(0) == 0 || setresuid(0, 0, 0) == 0 || setgid(0) == 0 ||
		      open("/dev/loop0", O_RDWR | O_CLOEXEC) >= 0 || chroot("/") == 0 ||
		      mknod(TEST_PREFIX "/n", S_IFCHR | 0600, 0) == 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define CASE(name) cmocka_unit_test_setup(name, start)
#define SERVICE_TEST(name)                             \
	{                                              \
		"service: " #name, name, start_service \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_running_helper_has_two_capabilities_and_nothing_to_gain),
		CASE(the_agent_can_neither_signal_nor_look_into_it),
		CASE(an_alarm_ends_it),
		CASE(a_profile_that_the_kernel_lacks_does_not_end_it),
		CASE(a_message_out_of_sequence_ends_it),
		CASE(a_malformed_message_ends_it),
		CASE(a_message_too_long_ends_it),
		CASE(a_descriptor_in_a_message_never_arrives),
		CASE(a_message_from_another_process_ends_it),
		CASE(too_many_refusals_end_it),
		SERVICE_TEST(the_agent_can_neither_signal_nor_look_into_it),
		SERVICE_TEST(a_descriptor_in_a_message_never_arrives),
		SERVICE_TEST(a_message_from_another_process_ends_it),
		cmocka_unit_test_setup(each_rule_lets_its_call_through, make_probe_folder),
		cmocka_unit_test_setup(an_argument_outside_its_rule_kills, make_probe_folder),
		cmocka_unit_test_setup(every_other_call_kills, make_probe_folder),
		cmocka_unit_test_setup(each_call_of_i386_kills, make_probe_folder),
		cmocka_unit_test_setup(what_the_policy_or_the_machine_lacks_is_not_allowed,
				       make_probe_folder),
		cmocka_unit_test(there_is_no_way_back_from_the_sandbox),
	};

	return cmocka_run_group_tests(tests, world_up, world_down);
}
