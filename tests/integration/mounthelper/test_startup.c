#include "agent.h"
#include "startup.h"

#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/ttydefaults.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The helper must not start, end with @code, and say all of @words (separated by |) on one line. */
static void assert_refuses(const struct agent_start *how, enum exit_code code, const char *words)
{
	char prefix[64];
	char copy[256];
	char *rest = copy;
	char *word;
	struct agent agent;
	const char *said;

	if (agent_start(&agent, how))
		fail_msg("it started; wanted exit %d", (int)code);
	said = agent_message(&agent);
	(void)str_format(prefix, sizeof(prefix), "holdfast-mounthelper: exit %d: ", (int)code);
	if (!str_starts_with(said, prefix) || strchr(said, '\n') != said + strlen(said) - 1)
		fail_msg("said \"%s\", wanted one line beginning \"%s\"", said, prefix);
	(void)str_copy(copy, sizeof(copy), words);
	while ((word = strsep(&rest, "|")))
		if (!strstr(said, word))
			fail_msg("\"%s\" is not in \"%s\"", word, said);
	assert_int_equal(agent_stop_code(&agent), (int)code);
}

static const struct agent_start plainly = {.uid = 0};

static int as_before(void **state)
{
	(void)state;
	assert_int_equal(chmod(TEST_PREFIX "/helper", 04755), 0);
	assert_int_equal(chmod(STAGE_BASE, 0700), 0);
	assert_int_equal(chmod(PUBLISH_BASE, 0711), 0);
	assert_int_equal(chmod(TEST_PREFIX "/lock", 0755), 0);
	assert_int_equal(chmod(TEST_PREFIX "/etc", 0755), 0);
	assert_int_equal(chown(STAGE_BASE, HELPER_UID, HELPER_UID), 0);
	assert_int_equal(mount(NULL, TEST_PREFIX "/trees", NULL, MS_SHARED, NULL), 0);
	world_policy("required", "");
	return 0;
}

static void hello_says_whose_helper_this_is(void **state)
{
	struct agent agent;

	(void)state;
	agent_up(&agent);
	assert_int_equal(agent.hello.header.op, MH_OP_HELLO);
	assert_int_equal(agent.hello.header.seq, 0);
	assert_string_equal(agent.hello.cluster, "demo");
	assert_string_equal(agent.hello.node, "node-1");
	assert_string_equal(agent.hello.publish_base, PUBLISH_BASE);
	assert_int_equal(agent.hello.door, 1);
	assert_int_equal(agent.hello.container, 1);
	assert_int_equal(agent.hello.ticket_optional, 0);
	assert_string_equal(agent_message(&agent), "");
	assert_int_equal(agent_stop_code(&agent), 0);
}

static void set_no_new_privs(void)
{
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static void without_setuid_it_says_what_to_change(void **state)
{
	(void)state;
	assert_refuses(&(struct agent_start){.before_exec = set_no_new_privs}, EXIT_PRIVILEGE,
		       "setuid bit|no_new_privs on|mode 4750|nosuid");
	assert_int_equal(chmod(TEST_PREFIX "/helper", 0755), 0);
	assert_refuses(&plainly, EXIT_PRIVILEGE, "setuid bit|no_new_privs off|4750");
}

static void odd_starts_are_refused(void **state)
{
	static const char *const two[] = {"holdfast-mounthelper", "--help", NULL};

	(void)state;
	assert_refuses(&(struct agent_start){.argv = two}, EXIT_ARGUMENTS, "no arguments");
	assert_refuses(&(struct agent_start){.no_socket = true}, EXIT_DESCRIPTORS,
		       "descriptor 3 is not a socket");
	assert_refuses(&(struct agent_start){.stream_socket = true}, EXIT_DESCRIPTORS,
		       "not an AF_UNIX SOCK_SEQPACKET");
	assert_refuses(&(struct agent_start){.uid = OTHER_UID}, EXIT_POLICY,
		       POLICY_PATH "|no block for agent uid 64103");
}

static void lower_file_size(void)
{
	(void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 4096, .rlim_max = 4096});
}

static void lower_descriptors(void)
{
	(void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 20, .rlim_max = 20});
}

static void hostile_limits_are_refused_when_they_cannot_be_raised(void **state)
{
	(void)state;
	/* raising needs CAP_SYS_RESOURCE, which this machine may have or not */
	if (prctl(PR_CAPBSET_READ, 24, 0, 0, 0) == 1) {
		struct agent agent;

		assert_true(agent_start(&agent, &(struct agent_start){.before_exec = lower_file_size}));
		assert_int_equal(agent_stop_code(&agent), 0);
		return;
	}
	assert_refuses(&(struct agent_start){.before_exec = lower_file_size}, EXIT_LIMITS,
		       "RLIMIT_FSIZE is 4096|CAP_SYS_RESOURCE");
	assert_refuses(&(struct agent_start){.before_exec = lower_descriptors}, EXIT_LIMITS,
		       "RLIMIT_NOFILE is 20");
}

/* What a hostile agent leaves in the process it starts. */
static void make_a_mess(void)
{
	struct itimerval soon = {.it_value = {.tv_usec = 50000}};
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

static void whatever_the_caller_left_is_gone(void **state)
{
	struct agent agent;
	struct stat st;
	char path[64];
	char target[128] = "";

	(void)state;
	if (!agent_start(&agent, &(struct agent_start){.before_exec = make_a_mess}))
		fail_msg("%s %x", agent_message(&agent), agent_stop(&agent));
	expect_stage(&agent, stage_tmpfs(), MH_OK);
	(void)usleep(100000); /* the caller's timer would fire now */
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
	assert_true(count_descriptors(agent.helper, NULL) <= 16);
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

static void a_terminal_of_the_caller_has_no_power_over_it(void **state)
{
	struct agent agent;
	int unlocked = 0;
	int master;
	int n = -1;

	(void)state;
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

static void the_kernel_on_record_is_the_real_one(void **state)
{
	struct agent agent;
	struct utsname system;
	char wanted[128];

	(void)state;
	assert_int_equal(uname(&system), 0);
	assert_true(str_format(wanted, sizeof(wanted), " kernel=%s ", system.release) > 0);
	assert_true(agent_start(&agent, &(struct agent_start){.before_exec = name_another_kernel}));
	assert_last_record("op=start");
	assert_last_record(wanted);
	assert_int_equal(agent_stop_code(&agent), 0);
}

static void a_policy_mistake_is_told_with_its_line(void **state)
{
	(void)state;
	world_policy_text("agent 64101 {\n\tcluster = demo\n\tcolour = red\n}\n");
	assert_refuses(&plainly, EXIT_POLICY, POLICY_PATH ":3: unknown key 'colour'");
	assert_int_equal(unlink(POLICY_PATH), 0);
	assert_refuses(&plainly, EXIT_POLICY, POLICY_PATH);
}

static void a_policy_that_others_can_change_is_not_read(void **state)
{
	(void)state;
	assert_int_equal(chmod(POLICY_PATH, 0664), 0);
	assert_refuses(&plainly, EXIT_POLICY, "regular file of root");
	assert_int_equal(chmod(POLICY_PATH, 0644), 0);
	assert_int_equal(chown(POLICY_PATH, AGENT_UID, 0), 0);
	assert_refuses(&plainly, EXIT_POLICY, "regular file of root");
	assert_int_equal(chown(POLICY_PATH, 0, 0), 0);
	assert_int_equal(link(POLICY_PATH, TEST_PREFIX "/etc/second"), 0);
	assert_refuses(&plainly, EXIT_POLICY, "regular file of root");
	assert_int_equal(unlink(TEST_PREFIX "/etc/second"), 0);
	assert_int_equal(chmod(TEST_PREFIX "/etc", 0777), 0);
	assert_refuses(&plainly, EXIT_POLICY, "every directory above");
	assert_int_equal(chmod(TEST_PREFIX "/etc", 0755), 0);
	assert_int_equal(rename(POLICY_PATH, TEST_PREFIX "/etc/real"), 0);
	assert_int_equal(symlink("real", POLICY_PATH), 0);
	assert_refuses(&plainly, EXIT_POLICY, POLICY_PATH);
	assert_int_equal(unlink(POLICY_PATH), 0);
	assert_int_equal(unlink(TEST_PREFIX "/etc/real"), 0);
}

static void trees_must_be_the_helpers_and_below_roots(void **state)
{
	(void)state;
	assert_int_equal(chmod(STAGE_BASE, 0755), 0);
	assert_refuses(&plainly, EXIT_TREES, STAGE_BASE "|mode 0755|chmod 0700");
	assert_int_equal(chmod(STAGE_BASE, 0700), 0);
	assert_int_equal(chmod(PUBLISH_BASE, 01777), 0);
	assert_refuses(&plainly, EXIT_TREES, PUBLISH_BASE "|chmod 0711");
	assert_int_equal(chmod(PUBLISH_BASE, 0711), 0);
	assert_int_equal(chown(STAGE_BASE, AGENT_UID, AGENT_UID), 0);
	assert_refuses(&plainly, EXIT_TREES, "belongs to uid 64101|chown 64102");
	assert_int_equal(chown(STAGE_BASE, HELPER_UID, HELPER_UID), 0);
	assert_int_equal(chmod(TEST_PREFIX "/trees", 01777), 0);
	assert_refuses(&plainly, EXIT_TREES, "every directory above it");
	assert_int_equal(chmod(TEST_PREFIX "/trees", 0755), 0);
	assert_int_equal(mount(NULL, TEST_PREFIX "/trees", NULL, MS_PRIVATE, NULL), 0);
	assert_refuses(&plainly, EXIT_TREES, "not shared|--make-shared");
}

static void the_log_and_the_lock_folder_must_be_roots(void **state)
{
	(void)state;
	assert_int_equal(chmod(TEST_PREFIX "/lock", 0777), 0);
	assert_refuses(&plainly, EXIT_TRAIL, TEST_PREFIX "/lock/state");
	assert_int_equal(chmod(TEST_PREFIX "/lock", 0755), 0);
	assert_int_equal(rename(LOG_PATH, TEST_PREFIX "/log/away"), 0);
	assert_refuses(&plainly, EXIT_TRAIL, LOG_PATH "|install -m 0600");
	assert_int_equal(rename(TEST_PREFIX "/log/away", LOG_PATH), 0);
	assert_int_equal(chmod(LOG_PATH, 0666), 0);
	assert_refuses(&plainly, EXIT_TRAIL, LOG_PATH);
	assert_int_equal(chmod(LOG_PATH, 0600), 0);
}

static void a_log_that_is_no_trail_is_not_written_to(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(rename(LOG_PATH, TEST_PREFIX "/log/away"), 0);
	fd = open(LOG_PATH, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "hello\n", 6), 6);
	(void)close(fd);
	assert_refuses(&plainly, EXIT_TRAIL, LOG_PATH "|no record of this program");
	assert_int_equal(rename(TEST_PREFIX "/log/away", LOG_PATH), 0);
}

static void eight_instances_run_and_no_ninth(void **state)
{
	struct agent agents[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(agents); i++)
		agent_up(&agents[i]);
	assert_refuses(&plainly, EXIT_TRAIL, "8 instances already run");
	assert_int_equal(agent_stop_code(&agents[3]), 0);
	agent_up(&agents[3]);
	for (size_t i = 0; i < ARRAY_SIZE(agents); i++)
		assert_int_equal(agent_stop_code(&agents[i]), 0);
}

static void enter_a_namespace_with_another_policy(void)
{
	static const char hostile[] = "agent 64101 {\n";
	int fd;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
	    mount(NULL, TEST_PREFIX "/trees", NULL, MS_SHARED, NULL) < 0 ||
	    mount("etc", TEST_PREFIX "/etc", "tmpfs", 0, NULL) < 0)
		_exit(124);
	fd = open(POLICY_PATH, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	(void)!write(fd, hostile, sizeof(hostile) - 1);
	(void)close(fd);
}

static void the_policy_is_pid_1s_whatever_the_callers_namespace_shows(void **state)
{
	struct agent agent;

	(void)state;
	if (!agent_start(&agent, &(struct agent_start){.as_root = enter_a_namespace_with_another_policy}))
		fail_msg("%s", agent_message(&agent));
	/* container = yes: it went back, so what it mounts is the caller's and not ours */
	expect_stage(&agent, stage_tmpfs(), MH_OK);
	assert_int_equal(count_mounts(), 0);
	assert_last_record("status=ok");
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_int_equal(rmdir(STAGE_BASE "/mem-1"), 0);
}

static void without_container_other_namespaces_are_refused(void **state)
{
	char text[2048];

	(void)state;
	assert_true(str_format(text, sizeof(text),
			       "agent %d { cluster = demo; node = n; helper_uid = %d; helper_gid = %d; "
			       "ticket = optional\n"
			       "stage_base = " STAGE_BASE "; publish_base = " PUBLISH_BASE "; log = " LOG_PATH
			       "; lock_dir = " TEST_PREFIX "/lock }\n",
			       AGENT_UID, HELPER_UID, HELPER_UID) > 0);
	world_policy_text(text);
	assert_refuses(&plainly, EXIT_NAMESPACE,
		       "not in the initial user and pid namespaces|container = yes");
}

#define TEST(name) cmocka_unit_test_setup(name, as_before)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(hello_says_whose_helper_this_is),
		TEST(without_setuid_it_says_what_to_change),
		TEST(odd_starts_are_refused),
		TEST(hostile_limits_are_refused_when_they_cannot_be_raised),
		TEST(whatever_the_caller_left_is_gone),
		TEST(a_terminal_of_the_caller_has_no_power_over_it),
		TEST(the_kernel_on_record_is_the_real_one),
		TEST(a_policy_mistake_is_told_with_its_line),
		TEST(a_policy_that_others_can_change_is_not_read),
		TEST(trees_must_be_the_helpers_and_below_roots),
		TEST(the_log_and_the_lock_folder_must_be_roots),
		TEST(a_log_that_is_no_trail_is_not_written_to),
		TEST(eight_instances_run_and_no_ninth),
		TEST(the_policy_is_pid_1s_whatever_the_callers_namespace_shows),
		TEST(without_container_other_namespaces_are_refused),
	};

	return cmocka_run_group_tests(tests, world_up, world_down);
}
