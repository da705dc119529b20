#include "agent.h"
#include "filter.h"
#include "sandbox.h"
#include "startup.h"

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct agent agent;

static int start(void **state)
{
	(void)state;
	agent_up(&agent);
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

	(void)state;
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
	(void)state;
	assert_int_equal(as_agent(try_kill, agent.helper), EPERM);
	assert_int_equal(as_agent(try_ptrace, agent.helper), EPERM);
	assert_int_equal(as_agent(try_prlimit, agent.helper), EPERM);
	assert_int_equal(as_agent(try_memory, agent.helper), EACCES);
	assert_int_equal(as_agent(try_descriptors, agent.helper), EACCES);
	assert_int_equal(agent_stop_code(&agent), 0);
}

/* Violations end it without an answer. */

static void assert_violation(size_t answer, const char *reason)
{
	assert_int_equal(answer, 0);
	assert_int_equal(agent_stop_code(&agent), EXIT_VIOLATION);
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

	(void)state;
	req.header.seq++;
	assert_violation(agent_raw(&agent, &req, sizeof(req), answer), "reason=sequence");
}

static void a_malformed_message_ends_it(void **state)
{
	struct mh_unstage req = harmless();
	uint8_t answer[2048];

	(void)state;
	req.detach = 2;
	assert_violation(agent_raw(&agent, &req, sizeof(req), answer), "reason=field");
}

static void a_message_too_long_ends_it(void **state)
{
	uint8_t bytes[MH_MESSAGE_MAX + 1] = {0};
	uint8_t answer[2048];

	(void)state;
	assert_violation(agent_raw(&agent, bytes, sizeof(bytes), answer), "reason=truncated");
}

static void a_descriptor_in_a_message_never_arrives(void **state)
{
	struct mh_unstage req = harmless();
	uint8_t answer[2048];
	int code;

	(void)state;
	assert_int_equal(agent_raw_with_fd(&agent, &req, sizeof(req), answer), 0);
	code = agent_stop_code(&agent);
	/* since 6.16 the kernel does not even let it be sent; before, it is dropped on arrival and shows */
	if (code == EXIT_CLOSED)
		assert_last_record("reason=closed");
	else
		assert_last_record("reason=control-data");
}

static void a_message_from_another_process_ends_it(void **state)
{
	struct mh_unstage req = harmless();
	uint8_t answer[2048];

	(void)state;
	assert_violation(agent_raw_from_child(&agent, &req, sizeof(req), answer), "reason=credentials");
}

static void too_many_refusals_end_it(void **state)
{
	struct mh_stage req = stage_disk();
	struct mh_reply reply;
	char *log;

	(void)state;
	req.ticket.signature[0] ^= 1;
	for (int i = 0; i < 199; i++)
		expect_stage(&agent, req, MH_REFUSED);
	assert_true(agent_call(&agent, &req, sizeof(req), &reply));
	assert_int_equal(reply.status, MH_REFUSED);
	assert_int_equal(agent_stop_code(&agent), EXIT_REFUSALS);
	assert_last_record("op=stop phase=event");
	assert_last_record("reason=too-many-refusals");
	log = world_log();
	assert_non_null(strstr(log, "op=refusals phase=event seq=0 count=180 "));
	free(log);
}

/* The filter alone, in a forked child: the same object code, with descriptors of its own. */

enum { FD_SOCKET = 3, FD_LOG = 10, FD_LOG_READ, FD_TABLE, FD_STATE, FD_AUDIT, FD_DIR, FD_OTHER };

static long p_open_read(void)
{
	return openat(FD_DIR, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}
static long p_open_write(void)
{
	return openat(FD_DIR, "x", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
}
static long p_open_follow(void)
{
	return openat(FD_DIR, "t", O_PATH | O_CLOEXEC);
}
static long p_openat2(void)
{
	return syscall(SYS_openat2, FD_DIR, "t", NULL, 0);
}
static long p_mount(void)
{
	return mount("a", "/", "tmpfs", 0, NULL);
}
static long p_fsmount_suid(void)
{
	return sys_fsmount(FD_OTHER, SYS_FSMOUNT_CLOEXEC, SYS_MOUNT_ATTR_NODEV);
}
static long p_fsmount_dev(void)
{
	return sys_fsmount(FD_OTHER, SYS_FSMOUNT_CLOEXEC, SYS_MOUNT_ATTR_NOSUID);
}
static long p_reconfigure(void)
{
	return sys_fsconfig(FD_OTHER, 7, NULL, NULL, 0);
}
static long p_set_fd(void)
{
	return sys_fsconfig(FD_OTHER, 5, "x", NULL, FD_DIR);
}
static long p_set_path(void)
{
	return sys_fsconfig(FD_OTHER, 3, "x", "/", AT_FDCWD);
}
static long p_set_binary(void)
{
	return sys_fsconfig(FD_OTHER, 2, "x", "y", 1);
}
static long p_fspick(void)
{
	return syscall(SYS_fspick, FD_DIR, "t", 0);
}
static long p_clone_recursive(void)
{
	return sys_open_tree(FD_DIR, "", SYS_OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH | 0x8000);
}
static long p_clone_no_cloexec(void)
{
	return sys_open_tree(FD_DIR, "", SYS_OPEN_TREE_CLONE | AT_EMPTY_PATH);
}
static long p_move_by_path(void)
{
	return sys_move_mount(FD_DIR, "a", FD_DIR, "b", 0);
}
static long p_setattr_recursive(void)
{
	const struct sys_mount_attr attr = {0};

	return sys_mount_setattr(FD_DIR, "", AT_EMPTY_PATH | 0x8000, &attr);
}
static long p_umount_force(void)
{
	return sys_umount2("z", 1 | SYS_UMOUNT_NOFOLLOW);
}
static long p_umount_follow(void)
{
	return sys_umount2("z", 0);
}
static long p_umount_detach(void)
{
	return sys_umount2("z", SYS_UMOUNT_DETACH | SYS_UMOUNT_NOFOLLOW);
}
static long p_exec(void)
{
	const char *const argv[] = {"true", NULL};

	return execve("/bin/true", (char *const *)(uintptr_t)argv, NULL);
}
static long p_fork(void)
{
	return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}
static long p_ptrace(void)
{
	return syscall(SYS_ptrace, 0, 0, 0, 0);
}
static long p_setns(void)
{
	return setns(FD_DIR, CLONE_NEWNS);
}
static long p_unshare(void)
{
	return unshare(CLONE_NEWNS);
}
static long p_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}
static long p_mmap(void)
{
	return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}
static long p_brk(void)
{
	return syscall(SYS_brk, 0);
}
static long p_handle(void)
{
	return syscall(SYS_open_by_handle_at, FD_DIR, 0, 0);
}
static long p_chmod(void)
{
	return fchmodat(FD_DIR, "t", 04755, 0);
}
static long p_chown(void)
{
	return fchownat(FD_DIR, "t", 1, 1, 0);
}
static long p_mkdir_open(void)
{
	return sys_mkdirat(FD_DIR, "q", 0777);
}
static long p_unlink(void)
{
	return unlinkat(FD_DIR, "t", 0);
}
static long p_rename(void)
{
	return renameat(FD_DIR, "t", FD_DIR, "u");
}
static long p_io_uring(void)
{
	return syscall(SYS_io_uring_setup, 1, 0);
}
static long p_bpf(void)
{
	return syscall(SYS_bpf, 0, 0, 0);
}
static long p_sendmsg(void)
{
	struct msghdr msg = {0};

	return sendmsg(FD_SOCKET, &msg, 0);
}
static long p_receive_elsewhere(void)
{
	struct msghdr msg = {0};

	return recvmsg(FD_OTHER, &msg, MSG_DONTWAIT);
}
static long p_send_elsewhere(void)
{
	return send(FD_OTHER, "x", 1, 0);
}
static long p_write_elsewhere(void)
{
	return write(FD_OTHER, "x", 1);
}
static long p_write_socket(void)
{
	return write(FD_SOCKET, "x", 1);
}
static long p_read(void)
{
	char c;

	return read(FD_OTHER, &c, 1);
}
static long p_pread_elsewhere(void)
{
	char c;

	return pread(FD_OTHER, &c, 1, 0);
}
static long p_lock_elsewhere(void)
{
	struct flock lock = {.l_type = F_RDLCK};

	return fcntl(FD_OTHER, F_OFD_SETLK, &lock);
}
static long p_dup(void)
{
	return fcntl(FD_LOG, F_DUPFD, 0);
}
static long p_setuid(void)
{
	return setuid(0);
}
static long p_capset(void)
{
	return syscall(SYS_capset, NULL, NULL);
}
static long p_kill(void)
{
	return kill(getpid(), 0);
}
static long p_x32(void)
{
	return syscall(0x40000000 | SYS_getpid);
}

static long a_open_directory(void)
{
	return sys_openat(FD_DIR, "t", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}
static long a_open_node(void)
{
	return sys_openat(FD_DIR, "t", O_PATH | O_NOFOLLOW | O_CLOEXEC);
}
static long a_mkdir_and_rmdir(void)
{
	return sys_mkdirat(FD_DIR, "new", 0755) < 0 ? -1 : sys_rmdirat(FD_DIR, "new");
}
static long a_log(void)
{
	return write(FD_LOG, "x", 1) == 1 ? sys_fdatasync(FD_LOG) : -1;
}
static long a_clock(void)
{
	struct timespec now;

	return syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
}
static long a_umount(void)
{
	return sys_umount2("z", SYS_UMOUNT_NOFOLLOW) == -ENOENT ? 0 : -1;
}

struct probe {
	const char *name;
	long (*run)(void);
};

#define PROBE(p)      \
	{             \
#p, p \
	}

static const struct probe deadly[] = {
	PROBE(p_open_read),
	PROBE(p_open_write),
	PROBE(p_open_follow),
	PROBE(p_openat2),
	PROBE(p_mount),
	PROBE(p_fsmount_suid),
	PROBE(p_fsmount_dev),
	PROBE(p_reconfigure),
	PROBE(p_set_fd),
	PROBE(p_set_path),
	PROBE(p_set_binary),
	PROBE(p_fspick),
	PROBE(p_clone_recursive),
	PROBE(p_clone_no_cloexec),
	PROBE(p_move_by_path),
	PROBE(p_setattr_recursive),
	PROBE(p_umount_force),
	PROBE(p_umount_follow),
	PROBE(p_umount_detach),
	PROBE(p_exec),
	PROBE(p_fork),
	PROBE(p_ptrace),
	PROBE(p_setns),
	PROBE(p_unshare),
	PROBE(p_socket),
	PROBE(p_mmap),
	PROBE(p_brk),
	PROBE(p_handle),
	PROBE(p_chmod),
	PROBE(p_chown),
	PROBE(p_mkdir_open),
	PROBE(p_unlink),
	PROBE(p_rename),
	PROBE(p_io_uring),
	PROBE(p_bpf),
	PROBE(p_sendmsg),
	PROBE(p_receive_elsewhere),
	PROBE(p_send_elsewhere),
	PROBE(p_write_elsewhere),
	PROBE(p_write_socket),
	PROBE(p_read),
	PROBE(p_pread_elsewhere),
	PROBE(p_lock_elsewhere),
	PROBE(p_dup),
	PROBE(p_setuid),
	PROBE(p_capset),
	PROBE(p_kill),
	PROBE(p_x32),
};

static const struct probe harmless_calls[] = {
	PROBE(a_open_directory), PROBE(a_open_node), PROBE(a_mkdir_and_rmdir), PROBE(a_log),
	PROBE(a_clock),		 PROBE(a_umount),
};

/* Wait status of a child that runs @run under the filter: exit 0 when it worked. */
static int under_filter(long (*run)(void), bool allow_detach)
{
	const struct filter_fds fds = {.socket = FD_SOCKET,
				       .log = FD_LOG,
				       .log_read = FD_LOG_READ,
				       .mountinfo = FD_TABLE,
				       .state = FD_STATE,
				       .audit = FD_AUDIT};
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		int dir_fd = open(TEST_PREFIX "/probe", O_PATH | O_DIRECTORY | O_CLOEXEC);
		int log_fd = open(TEST_PREFIX "/probe/log", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		void *filter = NULL;

		for (int fd = FD_LOG; fd <= FD_OTHER; fd++)
			(void)dup2(fd == FD_DIR ? dir_fd : fd == FD_LOG ? log_fd : null_fd, fd);
		(void)dup2(null_fd, FD_SOCKET);
		if (filter_build(&fds, allow_detach, &filter, NULL) != STATUS_OK || filter_load(filter) < 0)
			_exit(98);
		syscall(SYS_exit_group, run() < 0 ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int make_probe_folder(void **state)
{
	(void)state;
	(void)mkdir(TEST_PREFIX "/probe", 0755);
	(void)mkdir(TEST_PREFIX "/probe/t", 0755);
	return 0;
}

static void calls_outside_the_filter_kill(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(deadly); i++) {
		int status = under_filter(deadly[i].run, false);

		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			fail_msg("%s survived (wait status %x)", deadly[i].name, (unsigned int)status);
	}
}

static void calls_of_the_life_cycle_do_not(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(harmless_calls); i++) {
		int status = under_filter(harmless_calls[i].run, false);

		if (status != 0)
			fail_msg("%s did not work (wait status %x)", harmless_calls[i].name,
				 (unsigned int)status);
	}
}

static void detaching_is_possible_only_when_the_policy_allows_it(void **state)
{
	(void)state;
	assert_true(WIFSIGNALED(under_filter(p_umount_detach, false)));
	assert_true(WIFEXITED(under_filter(p_umount_detach, true)));
}

static void there_is_no_way_back_from_the_sandbox(void **state)
{
	int status = -1;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		struct error err = {.msg = ""};

		if (sandbox_drop(HELPER_UID, HELPER_UID, &err) != STATUS_OK) {
			print_error("%s\n", err.msg);
			_exit(1);
		}
		_exit(setuid(0) == 0 || setresuid(0, 0, 0) == 0 || setgid(0) == 0 ||
		      open("/dev/loop0", O_RDWR | O_CLOEXEC) >= 0 || chroot("/") == 0 ||
		      mknod(TEST_PREFIX "/n", S_IFCHR | 0600, 0) == 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_running_helper_has_two_capabilities_and_nothing_to_gain),
		TEST(the_agent_can_neither_signal_nor_look_into_it),
		TEST(a_message_out_of_sequence_ends_it),
		TEST(a_malformed_message_ends_it),
		TEST(a_message_too_long_ends_it),
		TEST(a_descriptor_in_a_message_never_arrives),
		TEST(a_message_from_another_process_ends_it),
		TEST(too_many_refusals_end_it),
		cmocka_unit_test_setup(calls_outside_the_filter_kill, make_probe_folder),
		cmocka_unit_test_setup(calls_of_the_life_cycle_do_not, make_probe_folder),
		cmocka_unit_test(detaching_is_possible_only_when_the_policy_allows_it),
		cmocka_unit_test(there_is_no_way_back_from_the_sandbox),
	};

	return cmocka_run_group_tests(tests, world_up, world_down);
}
