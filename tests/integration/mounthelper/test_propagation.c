/* SPDX-License-Identifier: Apache-2.0 */
/* Who sees a new mount, by the propagation of the publish and by what the task's namespace makes of its copy.
 * What is measured here must be what docs/propagation.md says, line by line. */

#include "agent.h"

#include "base/fd.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PROFILE                                                                                            \
	"nfs_timeout = 1\n"                                                                                \
	"profile pair { class = tmpfs; fstype = tmpfs; max_size = 16MiB; max_inodes = 1000; shared = yes " \
	"}\n"
#define STAGE STAGE_BASE "/mem-1"

enum { PATH_SIZE = 256 };

static struct agent agent;

/* A process in a mount namespace of its own that mounts, unmounts and looks. */
struct task {
	pid_t pid;
	int fd;
};

enum task_kind { TASK_PRIVATE, TASK_SLAVE, TASK_SHARED, TASK_N };

static const struct {
	const char *name;
	unsigned long flag;
} task_kinds[TASK_N] = {
	[TASK_PRIVATE] = {"task, private", MS_PRIVATE},
	[TASK_SLAVE] = {"task, rslave", MS_SLAVE},
	[TASK_SHARED] = {"task, rshared", MS_SHARED},
};

static const char *const wishes[TICKET_PROPAGATION_N] = {"private", "host-to-task", "bidirectional"};

static bool is_mount(const char *path)
{
	struct statx st = {.stx_attributes = 0};

	assert_int_equal(statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &st), 0);
	return (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/* 1 or 0 for a question, 0 for what was done, 2 for what failed. */
static char do_command(const char *command)
{
	const char *path = command + 1;

	if (command[0] == '?')
		return is_mount(path) ? 1 : 0;
	if (command[0] == '+')
		return mount("new", path, "tmpfs", 0, NULL) == 0 ? 0 : 2;
	return umount2(path, UMOUNT_NOFOLLOW) == 0 ? 0 : 2;
}

static _Noreturn void be_task(unsigned long flag, int fd)
{
	char command[PATH_SIZE];
	bool is_ready = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | flag, NULL) == 0;

	(void)send(fd, is_ready ? "y" : "n", 1, 0);
	while (recv(fd, command, sizeof(command), 0) > 0) {
		char answer = do_command(command);

		(void)send(fd, &answer, 1, 0);
	}
	_exit(0);
}

static struct task task_up(enum task_kind kind)
{
	struct task task;
	int pair[2];
	char ready = 'n';

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	task = (struct task){.pid = fork(), .fd = pair[0]};
	if (task.pid == 0) {
		(void)close(pair[0]);
		be_task(task_kinds[kind].flag, pair[1]);
	}
	(void)close(pair[1]);
	assert_int_equal(recv(task.fd, &ready, 1, 0), 1);
	assert_int_equal(ready, 'y');
	return task;
}

static void task_down(const struct task *task)
{
	assert_int_equal(kill(task->pid, SIGKILL), 0); /* a later one may hold its socket open */
	(void)close(task->fd);
	assert_int_equal(waitpid(task->pid, NULL, 0), task->pid);
}

/* @task NULL: the host's namespace. */
static char command(const struct task *task, char what, const char *path)
{
	char text[PATH_SIZE];
	char answer = 2;

	assert_true(str_format(text, sizeof(text), "%c%s", what, path) > 0);
	if (!task)
		return do_command(text);
	assert_int_equal(send(task->fd, text, strlen(text) + 1, 0), (ssize_t)strlen(text) + 1);
	assert_int_equal(recv(task->fd, &answer, 1, 0), 1);
	return answer;
}

static struct mh_publish publish_pair(int wish)
{
	struct mh_publish req = publish_tmpfs();

	(void)str_copy(req.profile, sizeof(req.profile), "pair");
	(void)str_copy(req.ticket.profile, sizeof(req.ticket.profile), "pair");
	req.slot = req.ticket.slot = (uint8_t)wish;
	req.propagation = (uint8_t)wish;
	req.ticket.propagation = (uint8_t)wish;
	sign_ticket(&req.ticket);
	return req;
}

static void stage_pair(void)
{
	struct mh_stage req = stage_tmpfs();

	(void)str_copy(req.profile, sizeof(req.profile), "pair");
	(void)str_copy(req.ticket.profile, sizeof(req.ticket.profile), "pair");
	sign_ticket(&req.ticket);
	assert_int_equal(expect_stage(&agent, req, MH_OK).state & (MH_STATE_SHARED | MH_STATE_SLAVE),
			 MH_STATE_SHARED);
	assert_int_equal(mkdir(STAGE "/sub", 0755), 0);
}

static void take_away(int wish)
{
	struct mh_unpublish req = unpublish("mem-1");

	req.slot = (uint8_t)wish;
	expect_unpublish(&agent, req, MH_OK);
}

static const char *publish_path(int wish, const char *below)
{
	static char path[PATH_SIZE];

	assert_true(str_format(path, sizeof(path), PUBLISH_BASE "/" ALLOC "/%d%s", wish, below) > 0);
	return path;
}

/* Mount at @path by @task (NULL: the host), look everywhere, unmount; one line of the table. */
static void measure(const struct task *by, const char *path, int wish, const char *where,
		    const struct task tasks[static TASK_N], char *ret, size_t size)
{
	static const char letters[] = "SPprs"; /* as in the table's head */
	const char *sub = publish_path(wish, "/sub");
	bool seen[2 + TASK_N];
	char cell[sizeof(letters)] = "";

	assert_int_equal(command(by, '+', path), 0);
	seen[0] = command(NULL, '?', STAGE "/sub");
	seen[1] = command(NULL, '?', sub);
	for (int i = 0; i < TASK_N; i++)
		seen[2 + i] = command(&tasks[i], '?', sub);
	assert_int_equal(command(by, '-', path), 0);
	/* what came by propagation goes by it */
	assert_false(is_mount(STAGE "/sub") || is_mount(sub));
	for (int i = 0; i < TASK_N; i++)
		assert_int_equal(command(&tasks[i], '?', sub), 0);
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
		if (seen[i])
			cell[i] = letters[i];
		else
			cell[i] = '-';
	assert_true(str_format(ret, size, "| %s | %s | `%s` |\n", wishes[wish], where, cell) > 0);
}

static void assert_documented(const char *manual, const char *line)
{
	if (!strstr(manual, line))
		fail_msg("not in " PROPAGATION_MANUAL ": %s", line);
}

static int start(void **state)
{
	world_policy("required", PROFILE);
	agent_up(&agent);
	return 0;
}

static int stop(void **state)
{
	(void)agent_stop(&agent);
	return 0;
}

TEST_FIXTURE(new_mounts_are_seen_where_the_manual_says, start, stop)
{
	char *manual;
	struct task tasks[TASK_N];

	assert_int_equal(file_read(PROPAGATION_MANUAL, 1 << 20, &manual, NULL), 0);
	stage_pair();
	for (int wish = 0; wish < TICKET_PROPAGATION_N; wish++)
		expect_publish(&agent, publish_pair(wish), MH_OK);
	for (int i = 0; i < TASK_N; i++)
		tasks[i] = task_up((enum task_kind)i);
	for (int wish = 0; wish < TICKET_PROPAGATION_N; wish++) {
		char line[128];

		measure(NULL, STAGE "/sub", wish, "stage", tasks, line, sizeof(line));
		assert_documented(manual, line);
		measure(NULL, publish_path(wish, "/sub"), wish, "publish", tasks, line, sizeof(line));
		assert_documented(manual, line);
		for (int i = 0; i < TASK_N; i++) {
			measure(&tasks[i], publish_path(wish, "/sub"), wish, task_kinds[i].name, tasks, line,
				sizeof(line));
			assert_documented(manual, line);
		}
	}
	for (int i = 0; i < TASK_N; i++)
		task_down(&tasks[i]);
	for (int wish = 0; wish < TICKET_PROPAGATION_N; wish++)
		take_away(wish);
	expect_unstage(&agent, unstage("mem-1"), MH_OK);
	assert_int_equal(count_mounts(), 0);
	free(manual);
}

TEST_FIXTURE(mountinfo_shows_the_requested_propagation, start, stop)
{
	struct mount_entry stage;
	struct mount_entry publish;

	stage_pair();
	assert_true(find_mount(STAGE, &stage));
	assert_true(stage.peer_group != 0 && stage.master == 0);
	for (int wish = 0; wish < TICKET_PROPAGATION_N; wish++) {
		struct mh_reply reply = expect_publish(&agent, publish_pair(wish), MH_OK);

		assert_true(find_mount(publish_path(wish, ""), &publish));
		assert_true(publish.peer_group ==
			    (wish == TICKET_PROPAGATION_BIDIRECTIONAL ? stage.peer_group : 0));
		assert_true(publish.master ==
			    (wish == TICKET_PROPAGATION_HOST_TO_TASK ? stage.peer_group : 0));
		assert_int_equal((reply.state & MH_STATE_SHARED) != 0,
				 wish == TICKET_PROPAGATION_BIDIRECTIONAL);
		assert_int_equal((reply.state & MH_STATE_SLAVE) != 0,
				 wish == TICKET_PROPAGATION_HOST_TO_TASK);
		/* root's own idea is found out, and left alone */
		assert_int_equal(mount(NULL, publish_path(wish, ""), NULL, MS_PRIVATE, NULL), 0);
		expect_publish(&agent, publish_pair(wish),
			       wish == TICKET_PROPAGATION_PRIVATE ? MH_ALREADY : MH_CONFLICT);
		take_away(wish);
	}
	expect_unstage(&agent, unstage("mem-1"), MH_OK);
}

/* As every task that was there before: its namespace is a peer or a slave of the host's. */
TEST_FIXTURE(a_namespace_that_was_there_before_sees_publishes_come_and_go, start, stop)
{
	static const enum task_kind kinds[] = {TASK_SLAVE, TASK_SHARED};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct task task = task_up(kinds[i]);

		stage_pair();
		for (int wish = 0; wish < TICKET_PROPAGATION_N; wish++) {
			/* see "Propagation": a peer of the host takes the place of the stage as master */
			bool is_spoilt = kinds[i] == TASK_SHARED && wish == TICKET_PROPAGATION_HOST_TO_TASK;

			expect_publish(&agent, publish_pair(wish), is_spoilt ? MH_INTERNAL : MH_OK);
			if (is_spoilt) {
				(void)agent_stop(&agent);
				agent_up(&agent);
				continue;
			}
			assert_int_equal(command(&task, '?', publish_path(wish, "")), 1);
			take_away(wish);
		}
		expect_unstage(&agent, unstage("mem-1"), MH_OK);
		task_down(&task);
		assert_int_equal(count_mounts(), 0);
	}
}

/* The mount of a task with CAP_SYS_ADMIN comes over the stage by propagation. */
TEST_FIXTURE(a_mount_over_a_volume_is_never_the_volume_of_others, start, stop)
{
	const char *path = publish_path(TICKET_PROPAGATION_BIDIRECTIONAL, "");
	struct mh_publish req = publish_pair(TICKET_PROPAGATION_PRIVATE);
	struct mh_reply reply;
	struct task task;
	char options[96];
	int pipes[2], status;

	stage_pair();
	expect_publish(&agent, publish_pair(TICKET_PROPAGATION_BIDIRECTIONAL), MH_OK);
	task = task_up(TASK_SHARED);
	assert_int_equal(command(&task, '+', path), 0);
	expect_publish(&agent, req, MH_CONFLICT);
	assert_last_record("reason=stacked");
	(void)agent_stop(&agent);
	agent_up(&agent);
	assert_last_record(" staged=1 published=1 "); /* the helper counts no mount of the task */
	assert_int_equal(command(&task, '-', path), 0);
	task_down(&task);
	/* one that never answers costs a helper the time of its alarm */
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	(void)str_format(options, sizeof(options), "fd=%d,pgrp=1,minproto=5,maxproto=5,direct", pipes[1]);
	assert_int_equal(mount("daemon", path, "autofs", 0, options), 0);
	(void)close(pipes[1]);
	assert_false(agent_call(&agent, &req, sizeof(req), &reply));
	status = agent_stop(&agent);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
	(void)close(pipes[0]);
	assert_int_equal(umount2(path, MNT_DETACH), 0);
	agent_up(&agent);
	take_away(TICKET_PROPAGATION_BIDIRECTIONAL);
	expect_unstage(&agent, unstage("mem-1"), MH_OK);
}

TEST_GROUP(world_up, world_down)
