/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include "mounthelper_words.h"
#include "policy_parse.h"

#include "base/rate.h"
#include "base/str.h"
#include "privileged/kernel_audit.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/ttydefaults.h>
#include <sys/utsname.h>

#define START_ROW(name, code, word, sentence) [name] = {code, word},
static const struct {
	int code;
	const char *word;
} starts[START_N] = {MH_STARTS(START_ROW)};

/* Every word that a test has provoked. */
static bool seen[START_N];

struct refusal {
	enum mh_start word;
	const char *detail;
	uint32_t number;
	int sys_errno;	/* -1: some */
	bool is_silent; /* descriptor 3 is no socket to say it on */
};

static void assert_refusal(struct agent *agent, const struct refusal *want)
{
	char line[512];
	const struct mh_failure *failure = &agent->failure;

	if (want->is_silent) {
		assert_int_equal(failure->header.op, 0);
	} else {
		assert_int_equal(failure->header.magic, MH_MAGIC);
		assert_int_equal(failure->header.version, MH_VERSION);
		assert_int_equal(failure->header.op, MH_OP_FAILURE);
		assert_int_equal(failure->header.length, sizeof(*failure));
		assert_int_equal(failure->header.seq, 0);
		if (failure->word != want->word)
			fail_msg("word %s, wanted %s", starts[failure->word].word, starts[want->word].word);
		assert_string_equal(failure->detail, want->detail);
		assert_int_equal(failure->number, want->number);
		if (want->sys_errno >= 0)
			assert_int_equal(failure->sys_errno, want->sys_errno);
		else
			assert_int_not_equal(failure->sys_errno, 0);
	}
	(void)str_format(line, sizeof(line), "holdfast-mounthelper: %s %s (%u) errno %d\n",
			 starts[want->word].word, want->detail[0] != '\0' ? want->detail : "-", want->number,
			 want->is_silent ? want->sys_errno : failure->sys_errno);
	assert_string_equal(agent_message(agent), line);
}

/* The helper must not start, and say why on the socket, on standard error and by its exit code. */
static void assert_refuses(const struct agent_start *how, const struct refusal *want)
{
	struct agent agent;

	if (agent_start(&agent, how))
		fail_msg("it started; wanted %s", starts[want->word].word);
	assert_refusal(&agent, want);
	assert_int_equal(agent_stop_code(&agent), starts[want->word].code);
	seen[want->word] = true;
}

#define REFUSES(how, ...) assert_refuses(how, &(struct refusal){__VA_ARGS__})

#define TWO (UINT64_C(1) << CAP_SYS_ADMIN | UINT64_C(1) << CAP_AUDIT_WRITE)
#define THREE (TWO | UINT64_C(1) << CAP_SETPCAP)

static const struct service service = {.ambient = TWO, .bounding = TWO};
static const struct agent_start as_service = {.service = &service};
static const struct agent_start plainly = {.uid = 0};

static int as_before(void **state)
{
	assert_int_equal(chmod(TEST_PREFIX "/helper", 04755), 0);
	assert_int_equal(chmod(STAGE_BASE, 0700), 0);
	assert_int_equal(chmod(PUBLISH_BASE, 0711), 0);
	assert_int_equal(chmod(TEST_PREFIX "/lock", 0755), 0);
	assert_int_equal(chmod(TEST_PREFIX "/etc", 0755), 0);
	assert_int_equal(chown(STAGE_BASE, HELPER_UID, HELPER_UID), 0);
	assert_int_equal(mount(NULL, TEST_PREFIX "/trees", NULL, MS_SHARED, NULL), 0);
	assert_int_equal(chown(LOG_PATH, 0, 0), 0);
	assert_int_equal(chmod(LOG_PATH, 0600), 0);
	world_policy("required", "");
	return 0;
}

TEST_FIXTURE(hello_says_whose_helper_this_is, as_before, NULL)
{
	struct agent agent;

	agent_up(&agent);
	assert_int_equal(agent.hello.header.op, MH_OP_HELLO);
	assert_int_equal(agent.hello.header.seq, 0);
	assert_string_equal(agent.hello.cluster, "demo");
	assert_string_equal(agent.hello.node, "node-1");
	assert_string_equal(agent.hello.publish_base, PUBLISH_BASE);
	assert_string_equal(agent.hello.stage_base, STAGE_BASE);
	assert_int_equal(agent.hello.launch_mode, 1);
	assert_int_equal(agent.hello.container, 1);
	assert_int_equal(agent.hello.ticket_optional, 0);
	assert_string_equal(agent_message(&agent), "");
	assert_int_equal(agent_stop_code(&agent), 0);
}

static void make_socket_not_wait(void)
{
	(void)fcntl(3, F_SETFL, O_NONBLOCK);
}

TEST_FIXTURE(a_socket_that_does_not_wait_ends_it, as_before, NULL)
{
	static const struct agent_start impatient = {.before_exec = make_socket_not_wait};
	static const char *const policies[] = {"", "trail_sync = batch"};

	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		struct agent agent;

		world_policy("required", policies[i]);
		assert_true(agent_start(&agent, &impatient));
		(void)usleep(100000); /* it must not spin until the socket is closed */
		assert_last_record("op=stop");
		assert_last_record("reason=closed");
		assert_int_equal(agent_stop_code(&agent), 0);
	}
}

static void set_no_new_privs(void)
{
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

TEST_FIXTURE(no_launch_mode_serves_without_privilege, as_before, NULL)
{
	static const struct service half = {.ambient = UINT64_C(1) << CAP_AUDIT_WRITE, .bounding = TWO};

	REFUSES(&(struct agent_start){.before_exec = set_no_new_privs}, START_NOT_PRIVILEGED, "");
	REFUSES(&(struct agent_start){.service = &half}, START_NOT_PRIVILEGED, "");
	assert_int_equal(chmod(TEST_PREFIX "/helper", 0755), 0);
	REFUSES(&plainly, START_NOT_PRIVILEGED, "");
	REFUSES(&(struct agent_start){.by_root = true}, START_BY_ROOT, "");
	assert_int_equal(chmod(TEST_PREFIX "/helper", 04755), 0);
	REFUSES(&(struct agent_start){.by_root = true}, START_BY_ROOT, "");
	assert_int_equal(mount(NULL, TEST_PREFIX, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID, NULL), 0);
	REFUSES(&plainly, START_NOT_PRIVILEGED, "");
	assert_int_equal(mount(NULL, TEST_PREFIX, NULL, MS_REMOUNT | MS_BIND, NULL), 0);
}

static void leave_for_another_namespace(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
	    mount(NULL, TEST_PREFIX "/trees", NULL, MS_SHARED, NULL) < 0)
		_exit(124);
}

static void replace_null_device(void)
{
	leave_for_another_namespace();
	if (mount("/dev/full", "/dev/null", NULL, MS_BIND, NULL) < 0)
		_exit(124);
}

TEST_FIXTURE(odd_starts_are_refused, as_before, NULL)
{
	static const char *const two[] = {"holdfast-mounthelper", "--help", NULL};
	static const char *const nameless[] = {"", NULL};

	REFUSES(&(struct agent_start){.argv = nameless}, START_ARGUMENTS, "");
	REFUSES(&(struct agent_start){.argv = two}, START_ARGUMENTS, "");
	REFUSES(&(struct agent_start){.no_socket = true}, START_SOCKET, "", .is_silent = true);
	REFUSES(&(struct agent_start){.stream_socket = true}, START_SOCKET, "", .is_silent = true);
	REFUSES(&(struct agent_start){.as_root = replace_null_device}, START_DESCRIPTORS, "/dev/null", 0,
		ENODEV);
	REFUSES(&(struct agent_start){.peer_uid = OTHER_UID}, START_PEER, "", OTHER_UID);
	REFUSES(&(struct agent_start){.uid = OTHER_UID}, START_POLICY_AGENT, POLICY_PATH, OTHER_UID);
}

/* What the agent's unit may lack in CapabilityBoundingSet=. */

static void without_setgid(void)
{
	(void)prctl(PR_CAPBSET_DROP, CAP_SETGID, 0, 0, 0);
}

static void without_sys_admin(void)
{
	(void)prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0);
}

static void elsewhere_without_sys_ptrace(void)
{
	leave_for_another_namespace();
	(void)prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0);
}

static void elsewhere_without_sys_chroot(void)
{
	leave_for_another_namespace();
	(void)prctl(PR_CAPBSET_DROP, CAP_SYS_CHROOT, 0, 0, 0);
}

static void without_setpcap(void)
{
	(void)prctl(PR_CAPBSET_DROP, CAP_SETPCAP, 0, 0, 0);
}

static void without_audit_write(void)
{
	(void)prctl(PR_CAPBSET_DROP, CAP_AUDIT_WRITE, 0, 0, 0);
}

TEST_FIXTURE(a_unit_that_takes_too_much_is_reported_where_it_hurts, as_before, NULL)
{
	REFUSES(&(struct agent_start){.as_root = without_setgid}, START_BECOME_ROOT, "setgroups", 0, EPERM);
	REFUSES(&(struct agent_start){.as_root = without_sys_admin}, START_PROCFS, "", 0, EPERM);
	REFUSES(&(struct agent_start){.as_root = elsewhere_without_sys_ptrace}, START_NAMESPACE, "1/ns/mnt",
		0, EACCES);
	REFUSES(&(struct agent_start){.as_root = elsewhere_without_sys_chroot}, START_NAMESPACE, "setns", 0,
		EPERM);
	REFUSES(&(struct agent_start){.as_root = without_setpcap}, START_LOCKDOWN, "securebits", 0, EPERM);
}

static bool auditing_is_off(void)
{
	int fd = kernel_audit_open();
	int r = kernel_audit_send(fd, KERNEL_AUDIT_TRUSTED_APP, 1, "op=test res=success");

	(void)close(fd);
	return r == -ENODATA;
}

/* A volume as an earlier helper has left it, under a policy that needs no audit. */
static void mount_before(void)
{
	struct agent agent;

	world_policy("required", "audit = optional");
	agent_up(&agent);
	expect_stage(&agent, stage_tmpfs(), MH_OK);
	expect_publish(&agent, publish_tmpfs(), MH_OK);
	assert_int_equal(agent_stop_code(&agent), 0);
}

/* Started while the trail does not take its start, the helper takes away what mount_before() left, and mounts
 * nothing. */
static void assert_only_cleans(const struct agent_start *how, enum mh_trail fault)
{
	struct mount_entry left;
	struct agent agent;

	if (fault == TRAIL_AUDIT)
		world_policy("required", "audit = required");
	assert_true(agent_start(&agent, how));
	assert_int_equal(agent.hello.trail, fault);
	expect_publish(&agent, publish_tmpfs(), MH_UNAVAILABLE);
	expect_stage(&agent, stage_tmpfs(), MH_UNAVAILABLE);
	expect_unpublish(&agent, unpublish("mem-1"), MH_OK);
	expect_unstage(&agent, unstage("mem-1"), MH_OK);
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_false(find_mount(STAGE_BASE "/mem-1", &left));
}

TEST_FIXTURE(audit_is_required_unless_the_policy_says_otherwise, as_before, NULL)
{
	static const struct service without_audit = {.ambient = UINT64_C(1) << CAP_SYS_ADMIN,
						     .bounding = UINT64_C(1) << CAP_SYS_ADMIN};
	struct agent agent;

	world_policy("required", "audit = required");
	mount_before();
	assert_only_cleans(&(struct agent_start){.as_root = without_audit_write}, TRAIL_AUDIT);
	assert_int_equal(chown(LOG_PATH, HELPER_UID, 0), 0);
	mount_before();
	assert_only_cleans(&(struct agent_start){.service = &without_audit}, TRAIL_AUDIT);
	assert_int_equal(chown(LOG_PATH, 0, 0), 0);
	mount_before();
	world_policy("required", "audit = required");
	/* the machine's own auditing is not switched for this: what it is decides */
	if (auditing_is_off()) {
		assert_only_cleans(&plainly, TRAIL_AUDIT);
	} else {
		agent_up(&agent);
		expect_unpublish(&agent, unpublish("mem-1"), MH_OK);
		expect_unstage(&agent, unstage("mem-1"), MH_OK);
		assert_int_equal(agent_stop_code(&agent), 0);
	}
	world_policy("required", "audit = optional");
	/* then it does without the capability, and has it when it can */
	assert_true(agent_start(&agent, &(struct agent_start){.as_root = without_audit_write}));
	assert_status(agent.helper, "CapEff", "0000000000200000");
	assert_status(agent.helper, "CapPrm", "0000000000200000");
	expect_stage(&agent, stage_tmpfs(), MH_OK);
	expect_unstage(&agent, unstage("mem-1"), MH_OK);
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_int_equal(chown(LOG_PATH, HELPER_UID, 0), 0);
	assert_true(agent_start(&agent, &(struct agent_start){.service = &without_audit}));
	assert_status(agent.helper, "CapEff", "0000000000200000");
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_true(agent_start(&agent, &plainly));
	assert_status(agent.helper, "CapEff", "0000000020200000");
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_true(agent_start(&agent, &plainly));
	assert_int_equal(agent_stop_code(&agent), 0);
}

static void lower_file_size(void)
{
	(void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 4096, .rlim_max = 4096});
}

static void lower_descriptors(void)
{
	(void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 20, .rlim_max = 20});
}

static void without_sys_resource(void)
{
	(void)prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0);
}

TEST_FIXTURE(hostile_limits_are_refused_when_they_cannot_be_raised, as_before, NULL)
{
	static const struct agent_start small = {.as_root = without_sys_resource,
						 .before_exec = lower_file_size};
	static const struct agent_start few = {.as_root = without_sys_resource,
					       .before_exec = lower_descriptors};

	REFUSES(&small, START_LIMIT, "RLIMIT_FSIZE", 4096, EPERM);
	REFUSES(&few, START_LIMIT, "RLIMIT_NOFILE", 20, EPERM);
}

enum { MESS_TIMER_S = 2 }; /* longer than a start lasts on a busy machine */

/* What a hostile agent leaves in the process it starts. */
static void make_a_mess(void)
{
	struct itimerval soon = {.it_value = {.tv_sec = MESS_TIMER_S}};
	sigset_t all;

	(void)umask(0777);
	(void)!chdir(TEST_PREFIX);
	(void)signal(SIGTERM, SIG_IGN);
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)setitimer(ITIMER_REAL, &soon, NULL);
	for (int i = 0; i < 30; i++)
		(void)!dup(STDERR_FILENO);
	(void)close(0);
	(void)close(1);
	(void)setrlimit(RLIMIT_CORE, &(struct rlimit){.rlim_cur = 0, .rlim_max = RLIM_INFINITY});
}

static int count_descriptors(pid_t pid, const char *ends)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++) {
		char path[64];
		char target[128];
		ssize_t len;

		(void)str_format(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
		len = readlink(path, target, sizeof(target) - 1);
		if (len < 0)
			continue;
		target[len] = '\0';
		n += ends == NULL || strstr(target, ends) != NULL;
	}
	return n;
}

TEST_FIXTURE(whatever_the_caller_left_is_gone, as_before, NULL)
{
	struct agent agent;
	struct stat st;
	char path[64];
	char target[128] = "";

	if (!agent_start(&agent, &(struct agent_start){.before_exec = make_a_mess}))
		fail_msg("%s %x", agent_message(&agent), agent_stop(&agent));
	expect_stage(&agent, stage_tmpfs(), MH_OK);
	(void)sleep(MESS_TIMER_S); /* the caller's timer would have fired */
	expect_publish(&agent, publish_tmpfs(), MH_OK);
	assert_int_equal(stat(PUBLISH_BASE "/" ALLOC, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	(void)str_format(path, sizeof(path), "/proc/%d/cwd", (int)agent.helper);
	assert_true(readlink(path, target, sizeof(target) - 1) > 0);
	assert_string_equal(target, "/");
	assert_status(agent.helper, "SigBlk", "0000000000000000");
	/* SIGPIPE, SIGXFSZ and what a terminal sends */
	assert_status(agent.helper, "SigIgn", "0000000001381007");
	assert_int_equal(count_descriptors(agent.helper, "/dev/null"), 3);
	assert_int_equal(count_descriptors(agent.helper, "memfd"), 0);
	assert_true(count_descriptors(agent.helper, NULL) <= 17);
	expect_unpublish(&agent, unpublish("mem-1"), MH_OK);
	expect_unstage(&agent, unstage("mem-1"), MH_OK);
	assert_int_equal(agent_stop_code(&agent), 0);
}

static char terminal[64];

/* The helper would lead the session of a terminal whose other end the agent holds. */
static void take_a_terminal(void)
{
	(void)setsid();
	(void)open(terminal, O_RDWR | O_CLOEXEC);
}

static void assert_terminal_cannot(int master, struct agent *agent, char c)
{
	assert_int_equal(write(master, &c, 1), 1);
	(void)usleep(20000);
	expect_stage(agent, stage_tmpfs(), c == CINTR ? MH_OK : MH_ALREADY);
}

TEST_FIXTURE(a_terminal_of_the_caller_has_no_power_over_it, as_before, NULL)
{
	struct agent agent;
	int unlocked = 0;
	int master;
	int n = -1;

	assert_int_equal(mkdir("/dev/pts", 0755), 0);
	assert_int_equal(mount("pts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0666"), 0);
	master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_int_equal(ioctl(master, TIOCSPTLCK, &unlocked), 0);
	assert_int_equal(ioctl(master, TIOCGPTN, &n), 0);
	assert_true(str_format(terminal, sizeof(terminal), "/dev/pts/%d", n) > 0);
	assert_true(agent_start(&agent, &(struct agent_start){.before_exec = take_a_terminal}));
	assert_terminal_cannot(master, &agent, CINTR);
	assert_terminal_cannot(master, &agent, CQUIT);
	assert_terminal_cannot(master, &agent, CSUSP);
	(void)close(master); /* hang up */
	(void)usleep(20000);
	expect_unstage(&agent, unstage("mem-1"), MH_OK);
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_int_equal(umount2("/dev/pts", MNT_DETACH), 0);
	assert_int_equal(rmdir("/dev/pts"), 0);
}

static void name_another_kernel(void)
{
	(void)personality(UNAME26);
}

TEST_FIXTURE(the_kernel_on_record_is_the_real_one, as_before, NULL)
{
	struct agent agent;
	struct utsname system;
	char wanted[128];

	assert_int_equal(uname(&system), 0);
	assert_true(str_format(wanted, sizeof(wanted), " kernel=%s ", system.release) > 0);
	assert_true(agent_start(&agent, &(struct agent_start){.before_exec = name_another_kernel}));
	assert_last_record("op=start");
	assert_last_record(wanted);
	assert_int_equal(agent_stop_code(&agent), 0);
}

static struct policy_file compiled;

/* The first @n bytes of the compiled policy, as it was changed, and @extra more. */
static void write_compiled(size_t n, size_t extra)
{
	int fd = open(POLICY_PATH, O_WRONLY | O_TRUNC | O_CLOEXEC);

	assert_int_equal(write(fd, &compiled, n), n);
	assert_int_equal(write(fd, "agent", extra), extra);
	(void)close(fd);
}

TEST_FIXTURE(a_policy_that_is_damaged_or_of_another_release_is_refused, as_before, NULL)
{
	struct agent agent;
	int fd = open(POLICY_PATH, O_RDONLY | O_CLOEXEC);

	assert_int_equal(read(fd, &compiled, sizeof(compiled)), sizeof(compiled));
	(void)close(fd);
	write_compiled(0, 5); /* a text, even one that was good before */
	REFUSES(&plainly, START_POLICY_FORMAT, POLICY_PATH);
	write_compiled(sizeof(compiled) - 1, 0);
	REFUSES(&plainly, START_POLICY_FORMAT, POLICY_PATH);
	write_compiled(sizeof(compiled), 1);
	REFUSES(&plainly, START_POLICY_FORMAT, POLICY_PATH);
	compiled.policy.agents[0].uid++;
	write_compiled(sizeof(compiled), 0);
	REFUSES(&plainly, START_POLICY_FORMAT, POLICY_PATH);
	compiled.policy.agents[0].uid--;
	compiled.version++;
	write_compiled(sizeof(compiled), 0);
	REFUSES(&plainly, START_POLICY_FORMAT, POLICY_PATH);
	compiled.version--;
	compiled.policy.agents[0].max_per_alloc = 33;
	policy_file_seal(&compiled);
	write_compiled(sizeof(compiled), 0);
	REFUSES(&plainly, START_POLICY_FORMAT, POLICY_PATH);
	compiled.policy.agents[0].max_per_alloc = 32;
	policy_file_seal(&compiled);
	write_compiled(sizeof(compiled), 0);
	assert_true(agent_start(&agent, &plainly));
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_int_equal(unlink(POLICY_PATH), 0);
	REFUSES(&plainly, START_POLICY, POLICY_PATH, 0, ENOENT);
}

TEST_FIXTURE(a_policy_that_others_can_change_is_not_read, as_before, NULL)
{
	assert_int_equal(chmod(POLICY_PATH, 0664), 0);
	REFUSES(&plainly, START_POLICY, POLICY_PATH, 0, EPERM);
	assert_int_equal(chmod(POLICY_PATH, 0644), 0);
	assert_int_equal(chown(POLICY_PATH, AGENT_UID, 0), 0);
	REFUSES(&plainly, START_POLICY, POLICY_PATH, 0, EPERM);
	/* the helper's uid may own the log, not the policy */
	assert_int_equal(chown(POLICY_PATH, HELPER_UID, 0), 0);
	REFUSES(&plainly, START_POLICY, POLICY_PATH, 0, EPERM);
	assert_int_equal(chown(POLICY_PATH, 0, 0), 0);
	assert_int_equal(link(POLICY_PATH, TEST_PREFIX "/etc/second"), 0);
	REFUSES(&plainly, START_POLICY, POLICY_PATH, 0, EPERM);
	assert_int_equal(unlink(TEST_PREFIX "/etc/second"), 0);
	assert_int_equal(chmod(TEST_PREFIX "/etc", 0777), 0);
	REFUSES(&plainly, START_POLICY, POLICY_PATH, 0, EPERM);
	assert_int_equal(chmod(TEST_PREFIX "/etc", 0755), 0);
	assert_int_equal(rename(POLICY_PATH, TEST_PREFIX "/etc/real"), 0);
	assert_int_equal(symlink("real", POLICY_PATH), 0);
	REFUSES(&plainly, START_POLICY, POLICY_PATH, 0, ELOOP);
	assert_int_equal(unlink(POLICY_PATH), 0);
	assert_int_equal(mkfifo(POLICY_PATH, 0600), 0);
	REFUSES(&plainly, START_POLICY, POLICY_PATH, 0, EINVAL);
	assert_int_equal(unlink(POLICY_PATH), 0);
	assert_int_equal(unlink(TEST_PREFIX "/etc/real"), 0);
}

TEST_FIXTURE(trees_must_be_the_helpers_and_below_roots, as_before, NULL)
{
	assert_int_equal(chmod(STAGE_BASE, 0755), 0);
	REFUSES(&plainly, START_TREE_OWNER, STAGE_BASE, HELPER_UID);
	assert_int_equal(chmod(STAGE_BASE, 0700), 0);
	assert_int_equal(chmod(PUBLISH_BASE, 01777), 0);
	REFUSES(&plainly, START_TREE_OWNER, PUBLISH_BASE, HELPER_UID);
	assert_int_equal(chmod(PUBLISH_BASE, 0711), 0);
	assert_int_equal(chown(STAGE_BASE, AGENT_UID, AGENT_UID), 0);
	REFUSES(&plainly, START_TREE_OWNER, STAGE_BASE, HELPER_UID);
	assert_int_equal(chown(STAGE_BASE, HELPER_UID, HELPER_UID), 0);
	assert_int_equal(chmod(TEST_PREFIX "/trees", 01777), 0);
	REFUSES(&plainly, START_TREE, STAGE_BASE, 0, EPERM);
	assert_int_equal(chmod(TEST_PREFIX "/trees", 0755), 0);
	assert_int_equal(mount(NULL, TEST_PREFIX "/trees", NULL, MS_PRIVATE, NULL), 0);
	REFUSES(&plainly, START_TREE_PRIVATE, STAGE_BASE);
	assert_int_equal(mount(NULL, TEST_PREFIX "/trees", NULL, MS_SHARED, NULL), 0);
	assert_int_equal(mount("odd", STAGE_BASE, "ramfs", 0, "mode=0700"), 0);
	assert_int_equal(chown(STAGE_BASE, HELPER_UID, HELPER_UID), 0);
	REFUSES(&plainly, START_TREE_FS, STAGE_BASE);
	assert_int_equal(umount2(STAGE_BASE, 0), 0);
}

TEST_FIXTURE(dev_and_sys_must_be_roots, as_before, NULL)
{
	assert_int_equal(chmod("/dev", 0777), 0);
	REFUSES(&plainly, START_DEV, "/dev");
	assert_int_equal(chmod("/dev", 0755), 0);
	assert_int_equal(chown("/dev", HELPER_UID, 0), 0);
	REFUSES(&plainly, START_DEV, "/dev");
	assert_int_equal(chown("/dev", 0, 0), 0);
	assert_int_equal(mount("sys", "/sys/fs", "tmpfs", 0, "mode=0755"), 0);
	REFUSES(&plainly, START_DEV, "/sys/fs");
	assert_int_equal(umount2("/sys/fs", 0), 0);
}

static void move_log_away(void)
{
	assert_int_equal(rename(LOG_PATH, TEST_PREFIX "/log/away"), 0);
}

static void make_log_writable(void)
{
	assert_int_equal(chmod(LOG_PATH, 0666), 0);
}

static void give_log_away(void)
{
	assert_int_equal(chown(LOG_PATH, AGENT_UID, 0), 0);
}

static void make_log_read_only(void)
{
	assert_int_equal(mount(LOG_PATH, LOG_PATH, NULL, MS_BIND, NULL), 0);
	assert_int_equal(mount(NULL, LOG_PATH, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
}

static void put_log_back(void)
{
	(void)umount2(LOG_PATH, 0);
	(void)rename(TEST_PREFIX "/log/away", LOG_PATH);
	assert_int_equal(chmod(LOG_PATH, 0600), 0);
	assert_int_equal(chown(LOG_PATH, HELPER_UID, 0), 0);
}

TEST_FIXTURE(the_log_and_the_lock_folder_must_be_roots, as_before, NULL)
{
	static void (*const breaks[])(void) = {move_log_away, make_log_writable, give_log_away,
					       make_log_read_only};
	struct agent agent;

	assert_int_equal(chmod(TEST_PREFIX "/lock", 0777), 0);
	REFUSES(&plainly, START_STATE, TEST_PREFIX "/lock", 0, EPERM);
	assert_int_equal(chmod(TEST_PREFIX "/lock", 0755), 0);
	for (size_t i = 0; i < ARRAY_SIZE(breaks); i++) {
		mount_before();
		breaks[i]();
		assert_only_cleans(&plainly, TRAIL_LOG);
		put_log_back();
	}
	assert_true(agent_start(&agent, &plainly));
	assert_int_equal(agent_stop_code(&agent), 0);
}

TEST_FIXTURE(a_log_that_is_no_trail_is_not_written_to, as_before, NULL)
{
	char *log;
	int fd;

	mount_before();
	assert_int_equal(rename(LOG_PATH, TEST_PREFIX "/log/away"), 0);
	fd = open(LOG_PATH, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "hello\n", 6), 6);
	(void)close(fd);
	assert_only_cleans(&plainly, TRAIL_LOG_END);
	log = world_log();
	assert_string_equal(log, "hello\n");
	free(log);
	assert_int_equal(rename(TEST_PREFIX "/log/away", LOG_PATH), 0);
}

TEST_FIXTURE(eight_instances_run_and_no_ninth, as_before, NULL)
{
	struct agent agents[8];

	for (size_t i = 0; i < ARRAY_SIZE(agents); i++)
		agent_up(&agents[i]);
	REFUSES(&plainly, START_INSTANCES, "", 8);
	assert_int_equal(agent_stop_code(&agents[3]), 0);
	agent_up(&agents[3]);
	for (size_t i = 0; i < ARRAY_SIZE(agents); i++)
		assert_int_equal(agent_stop_code(&agents[i]), 0);
}

TEST_FIXTURE(starts_have_a_rate, as_before, NULL)
{
	struct agent agent;
	char *before;
	char *after;

	assert_int_equal(unlink(STATE_PATH), 0);
	world_policy("required", "starts_per_minute = 2");
	for (int i = 0; i < 2; i++) {
		agent_up(&agent);
		assert_int_equal(agent_stop_code(&agent), 0);
	}
	before = world_log();
	REFUSES(&plainly, START_START_RATE, "", 2);
	after = world_log();
	assert_string_equal(before, after); /* what is refused so leaves no record that could fill the disk */
	free(before);
	free(after);
	assert_int_equal(unlink(STATE_PATH), 0);
}

/* Seven processes do not have seven bursts. */
TEST_FIXTURE(a_new_instance_gets_only_the_remaining_rate, as_before, NULL)
{
	struct mh_unstage req = unstage("vol-1");
	struct mh_reply reply = {.status = 0};
	char text[2048];
	int n = 0;

	assert_true(str_format(text, sizeof(text),
			       "agent %d { cluster = demo; node = n; helper_uid = %d; helper_gid = %d; "
			       "ticket = optional; audit = optional; container = yes\n"
			       "ops_per_second = 1; burst = 10\n"
			       "stage_base = " STAGE_BASE "; publish_base = " PUBLISH_BASE "; log = " LOG_PATH
			       "; lock_dir = " TEST_PREFIX "/lock }\n",
			       AGENT_UID, HELPER_UID, HELPER_UID) > 0);
	world_policy_text(text);
	for (int i = 0; i < 3; i++) {
		struct agent agent;

		agent_up(&agent);
		for (int k = 0; k < 20; k++) {
			assert_true(agent_call(&agent, &req, sizeof(req), &reply));
			n += reply.status != MH_LIMIT;
		}
		assert_int_equal(reply.reason, REASON_RATE);
		assert_int_equal(agent_stop_code(&agent), 0);
	}
	assert_in_range(n, 10, 15); /* the burst and what a few seconds bring */
	assert_int_equal(unlink(STATE_PATH), 0);
}

/* A shared lock needs only the right to read. */
/* As a tenant does who may write above the root of a mount. The kernel writes four bytes for a new line. */
TEST_FIXTURE(a_mount_whose_path_is_very_long_stops_no_start, as_before, NULL)
{
	enum { FOLDERS = 200, NAME_LENGTH = 250 };
	char name[NAME_LENGTH + 1] = "";
	struct agent agent;
	int top, fd;

	memset(name, '\n', NAME_LENGTH);
	(void)mkdir(TEST_PREFIX "/long", 0755);
	(void)mkdir(TEST_PREFIX "/shown", 0755);
	assert_int_equal(mount("long", TEST_PREFIX "/long", "tmpfs", 0, NULL), 0);
	assert_int_equal(mkdir(TEST_PREFIX "/long/a", 0755), 0);
	assert_int_equal(mkdir(TEST_PREFIX "/long/a/root", 0755), 0);
	assert_int_equal(mount(TEST_PREFIX "/long/a/root", TEST_PREFIX "/shown", NULL, MS_BIND, NULL), 0);
	top = fd = open(TEST_PREFIX "/long", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < FOLDERS; i++) {
		int below;

		assert_int_equal(mkdirat(fd, name, 0755), 0);
		below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd != top)
			(void)close(fd);
		fd = below;
	}
	assert_int_equal(renameat(top, "a", fd, "a"), 0);
	(void)close(fd);
	(void)close(top);
	agent_up(&agent);
	expect_stage(&agent, stage_tmpfs(), MH_OK);
	expect_unstage(&agent, unstage("mem-1"), MH_OK);
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_int_equal(umount2(TEST_PREFIX "/shown", MNT_DETACH), 0);
	assert_int_equal(umount2(TEST_PREFIX "/long", MNT_DETACH), 0);
}

TEST_FIXTURE(a_reader_of_the_trail_blocks_no_request, as_before, NULL)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	struct agent agent;
	int fd;

	assert_int_equal(chmod(LOG_PATH, 0644), 0);
	fd = open(LOG_PATH, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	agent_up(&agent);
	expect_stage(&agent, stage_tmpfs(), MH_OK);
	expect_unstage(&agent, unstage("mem-1"), MH_OK);
	assert_int_equal(agent_stop_code(&agent), 0);
	(void)close(fd);
}

TEST_FIXTURE(the_start_reports_whether_tickets_are_required, as_before, NULL)
{
	struct agent agent;

	agent_up(&agent);
	assert_last_record(" ticket=required ");
	assert_int_equal(agent_stop_code(&agent), 0);
	world_policy("optional", "");
	agent_up(&agent);
	assert_last_record(" ticket=optional ");
	assert_int_equal(agent_stop_code(&agent), 0);
}

static void enter_a_namespace_with_another_policy(void)
{
	static const char hostile[] = "agent 64101 {\n";
	int fd;

	leave_for_another_namespace();
	if (mount("etc", TEST_PREFIX "/etc", "tmpfs", 0, NULL) < 0)
		_exit(124);
	fd = open(POLICY_PATH, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	(void)!write(fd, hostile, sizeof(hostile) - 1);
	(void)close(fd);
}

TEST_FIXTURE(the_policy_is_pid_1s_whatever_the_callers_namespace_shows, as_before, NULL)
{
	struct agent agent;

	if (!agent_start(&agent, &(struct agent_start){.as_root = enter_a_namespace_with_another_policy}))
		fail_msg("%s", agent_message(&agent));
	/* container = yes: it went back, so what it mounts is the caller's and not ours */
	expect_stage(&agent, stage_tmpfs(), MH_OK);
	assert_int_equal(count_mounts(), 0);
	assert_last_record("status=ok");
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_int_equal(rmdir(STAGE_BASE "/mem-1"), 0);
}

TEST_FIXTURE(without_container_other_namespaces_are_refused, as_before, NULL)
{
	static const struct agent_start service_elsewhere = {.as_root = leave_for_another_namespace,
							     .service = &service};
	char text[2048];

	assert_true(str_format(text, sizeof(text),
			       "agent %d { cluster = demo; node = n; helper_uid = %d; helper_gid = %d; "
			       "ticket = optional\n"
			       "stage_base = " STAGE_BASE "; publish_base = " PUBLISH_BASE "; log = " LOG_PATH
			       "; lock_dir = " TEST_PREFIX "/lock }\n",
			       AGENT_UID, HELPER_UID, HELPER_UID) > 0);
	world_policy_text(text);
	REFUSES(&plainly, START_NOT_INITIAL, "");
	/* launch mode socket cannot leave another mount namespace */
	assert_int_equal(chown(LOG_PATH, HELPER_UID, 0), 0);
	REFUSES(&service_elsewhere, START_NAMESPACE, "");
}

/* A folder below a mount, with all that a start needs before it reads the policy. */
static void enter_a_chroot(void)
{
	static const char top[] = TEST_PREFIX "/trees/top",
			  script[] =
				  "mkdir -p $0/dev $0$1 && mount --bind /dev $0/dev && mount --rbind $1 $0$1";
	static const char *const fill[] = {"/bin/sh", "-c", script, top, TEST_PREFIX, NULL};

	leave_for_another_namespace();
	if (run_program(fill) != 0 || chroot(top) < 0 || chdir("/") < 0)
		_exit(124);
}

static void enter_a_bound_chroot(void)
{
	leave_for_another_namespace();
	if (mount("/", "/mnt", NULL, MS_BIND | MS_REC, NULL) < 0 || chroot("/mnt") < 0 || chdir("/") < 0)
		_exit(124);
}

TEST_FIXTURE(a_chroot_must_be_a_mount, as_before, NULL)
{
	static const struct agent_start in_chroot = {.as_root = enter_a_chroot, .service = &service};
	static const struct agent_start in_bound = {.as_root = enter_a_bound_chroot, .service = &service};
	struct agent agent;

	assert_int_equal(chown(LOG_PATH, HELPER_UID, 0), 0);
	REFUSES(&in_chroot, START_CHROOT, "/");
	if (!agent_start(&agent, &in_bound))
		fail_msg("%s", agent_message(&agent));
	assert_int_equal(agent_stop_code(&agent), 0);
}

/* Launch mode socket. */

/* The log is given to the helper's uid by who sets the machine up, the state file by launch mode setuid. */
static int for_both_launch_modes(void **state)
{
	struct agent agent;
	struct stat st;

	(void)as_before(state);
	(void)unlink(STATE_PATH);
	agent_up(&agent);
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_int_equal(stat(STATE_PATH, &st), 0);
	assert_int_equal(st.st_uid, HELPER_UID);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(chown(LOG_PATH, HELPER_UID, 0), 0);
	return 0;
}

TEST_FIXTURE(a_service_serves_without_the_setuid_bit, for_both_launch_modes, NULL)
{
	struct agent agent;

	assert_int_equal(chmod(TEST_PREFIX "/helper", 0755), 0);
	if (!agent_start(&agent, &as_service))
		fail_msg("%s", agent_message(&agent));
	assert_int_equal(agent.hello.launch_mode, 2);
	assert_int_equal(agent.hello.container, 1);
	expect_stage(&agent, stage_disk(), MH_OK);
	expect_publish(&agent, publish_disk(), MH_OK);
	assert_last_record("door=socket");
	assert_last_record("peer_uid=64101");
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	assert_int_equal(agent_stop_code(&agent), 0);
}

TEST_FIXTURE(both_launch_modes_end_in_the_same_process, for_both_launch_modes, NULL)
{
	static const char *const keys[] = {"Uid",     "Gid",	"Groups", "CapInh", "CapPrm",
					   "CapEff",  "CapBnd", "CapAmb", "Umask",  "NoNewPrivs",
					   "Seccomp", "SigBlk", "SigIgn", "SigCgt"};
	static const struct service may_set = {.ambient = THREE, .bounding = THREE};
	struct agent launch_setuid;
	struct agent launch_socket;
	struct agent launch_unprivileged;

	agent_up(&launch_setuid);
	assert_true(agent_start(&launch_socket, &(struct agent_start){.service = &may_set}));
	assert_true(agent_start(&launch_unprivileged, &as_service));
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		char value[256];

		status_value(launch_setuid.helper, keys[i], value);
		assert_status(launch_socket.helper, keys[i], value);
		/* without CAP_SETPCAP nothing can be taken out of the bounding set */
		assert_status(launch_unprivileged.helper, keys[i],
			      str_eq(keys[i], "CapBnd") ? "0000000020200000" : value);
	}
	assert_int_equal(agent_stop_code(&launch_setuid), 0);
	assert_int_equal(agent_stop_code(&launch_socket), 0);
	assert_int_equal(agent_stop_code(&launch_unprivileged), 0);
}

TEST_FIXTURE(a_service_must_be_the_one_the_policy_names, for_both_launch_modes, NULL)
{
	static const struct service other_uid = {.ambient = TWO, .bounding = TWO, .uid = OTHER_UID};
	static const struct service wide = {.ambient = TWO, .bounding = ~UINT64_C(0)};
	static const struct service in_group = {.ambient = TWO, .bounding = TWO, .supplementary_group = 4};
	static const struct agent_start of_other_agent = {.service = &service, .uid = OTHER_UID};
	static const struct service own_group = {
		.ambient = TWO, .bounding = TWO, .supplementary_group = HELPER_UID};
	struct agent agent;

	REFUSES(&(struct agent_start){.service = &other_uid}, START_HELPER_UID, POLICY_PATH, HELPER_UID);
	REFUSES(&(struct agent_start){.service = &wide}, START_LOCKDOWN, "bounding set");
	REFUSES(&(struct agent_start){.service = &in_group}, START_LOCKDOWN, "uids, gids and groups");
	assert_true(agent_start(&agent, &(struct agent_start){.service = &own_group}));
	assert_int_equal(agent_stop_code(&agent), 0);
	REFUSES(&of_other_agent, START_POLICY_AGENT, POLICY_PATH, OTHER_UID);
}

/* The budget of such records is paid for, and only where the file of the helper's account is. */
TEST_FIXTURE(a_refused_start_of_a_service_is_on_record, for_both_launch_modes, NULL)
{
	static const char path[] = "/run/holdfast-mount/lock/refused.socket";
	static const struct agent_start of_other_agent = {.service = &service, .uid = OTHER_UID};
	struct rate rate = {0};
	int fd;

	(void)mkdir("/run/holdfast-mount", 0755);
	(void)mkdir("/run/holdfast-mount/lock", 0755);
	REFUSES(&of_other_agent, START_POLICY_AGENT, POLICY_PATH, OTHER_UID);
	assert_int_equal(access(path, F_OK), -1);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fchown(fd, HELPER_UID, HELPER_UID), 0);
	REFUSES(&of_other_agent, START_POLICY_AGENT, POLICY_PATH, OTHER_UID);
	assert_int_equal(pread(fd, &rate, sizeof(rate), 0), sizeof(rate));
	assert_true(rate.paid_us > 0);
	(void)close(fd);
	assert_int_equal(unlink(path), 0);
}

TEST_FIXTURE(a_service_needs_files_of_its_own_uid, for_both_launch_modes, NULL)
{
	mount_before();
	assert_int_equal(chown(LOG_PATH, 0, 0), 0);
	assert_only_cleans(&as_service, TRAIL_LOG);
	assert_int_equal(chown(LOG_PATH, HELPER_UID, 0), 0);
	assert_int_equal(unlink(STATE_PATH), 0);
	REFUSES(&as_service, START_STATE, TEST_PREFIX "/lock", 0, EACCES);
}

/* Does it wake up when nobody asks for anything? */
static bool wakes_up_by_itself(struct agent *agent)
{
	char before[256];
	char after[256];

	(void)usleep(50000); /* until it waits */
	status_value(agent->helper, "voluntary_ctxt_switches", before);
	(void)usleep(1200000);
	status_value(agent->helper, "voluntary_ctxt_switches", after);
	return !str_eq(before, after);
}

TEST_FIXTURE(a_helper_that_syncs_in_batches_wakes_up_after_a_second, as_before, NULL)
{
	struct agent agent;

	agent_up(&agent);
	assert_false(wakes_up_by_itself(&agent));
	assert_int_equal(agent_stop_code(&agent), 0);
	world_policy("required", "trail_sync = batch");
	agent_up(&agent);
	expect_stage(&agent, stage_tmpfs(), MH_OK);
	assert_true(wakes_up_by_itself(&agent));
	expect_unstage(&agent, unstage("mem-1"), MH_OK);
	assert_int_equal(agent_stop_code(&agent), 0);
}

static int full_pipe;

static void take_full_pipe(void)
{
	(void)dup2(full_pipe, STDERR_FILENO);
}

/* The caller may not kill it, and it holds an instance's place perhaps. */
TEST_FIXTURE(a_caller_that_does_not_read_why_keeps_no_process, as_before, NULL)
{
	static const struct agent_start how = {.uid = OTHER_UID, .before_exec = take_full_pipe};
	const char byte = 'x';
	struct agent agent;
	int status;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	full_pipe = ends[1];
	while (write(full_pipe, &byte, 1) == 1)
		;
	assert_int_equal(fcntl(full_pipe, F_SETFL, 0), 0);
	assert_false(agent_start(&agent, &how)); /* it has ended, or this does not return */
	status = agent_stop(&agent);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGALRM);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

/* The words that no test can provoke: calls that do not fail in a process like this, and mistakes of our own.
 */
TEST(every_word_of_the_table_was_seen)
{
	static const bool never[START_N] = {
		[START_OK] = true, [START_PROCESS] = true, [START_ASSERTION] = true};

	for (size_t i = 0; i < START_N; i++)
		if (seen[i] == never[i])
			fail_msg("%s was %sprovoked", starts[i].word, seen[i] ? "" : "not ");
}

TEST_GROUP(world_up, world_down)
