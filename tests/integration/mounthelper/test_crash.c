/* SPDX-License-Identifier: Apache-2.0 */
/* kill -9 at the entry of each call that changes something, by strace's injection; then a new helper gets the
 * same request and must finish the job. */

#include "agent.h"

#include "base/fd.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static struct agent agent;

/* Attach strace to the helper and wait until it holds it. */
static pid_t attach_killer(const char *call, int when)
{
	char inject[64];
	char pid_text[16];
	char path[64];
	pid_t pid;

	(void)str_format(inject, sizeof(inject), "inject=%s:signal=KILL:when=%d", call, when);
	(void)str_format(pid_text, sizeof(pid_text), "%d", (int)agent.helper);
	(void)str_format(path, sizeof(path), "/proc/%d/status", (int)agent.helper);
	pid = fork();
	if (pid == 0) {
		const char *const argv[] = {"strace", "-q", "-o",     "/dev/null", "-e",
					    inject,   "-p", pid_text, NULL};

		(void)execv("/usr/bin/strace", (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	for (int i = 0; i < 2000; i++) {
		char *text;

		assert_int_equal(file_read(path, 1 << 16, &text, NULL), 0);
		if (!strstr(text, "TracerPid:\t0\n")) {
			free(text);
			return pid;
		}
		free(text);
		(void)poll(NULL, 0, 5);
	}
	fail_msg("strace did not attach");
	return -1;
}

/* Have the next @call of the helper kill it while it serves @request. False when the call never came. */
static bool die_at(const char *call, int when, void *request, size_t n)
{
	pid_t killer;
	struct mh_reply reply;
	bool answered;
	int status;

	agent_up(&agent);
	killer = attach_killer(call, when);
	answered = agent_call(&agent, request, n, &reply);
	status = agent_stop(&agent);
	(void)waitpid(killer, NULL, 0);
	if (answered)
		return false;
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		fail_msg("%s %d: wait status %x", call, when, (unsigned int)status);
	return true;
}

/* Every time that @request makes @call: die there, then the same request again, then @undo. */
static int sweep(const char *call, void *request, size_t n, void (*undo)(void))
{
	int times = 0;

	for (int when = 1; when < 30; when++) {
		struct mh_reply reply;
		bool died = die_at(call, when, request, n);

		if (died) {
			agent_up(&agent);
			for (int i = 0; i < 200; i++) {
				if (!agent_call(&agent, request, n, &reply))
					fail_msg("%s %d: the next helper died, too", call, when);
				/* the kernel releases it of the dead process's detached mount a little later
				 */
				if (reply.status != MH_CONFLICT)
					break;
				(void)poll(NULL, 0, 5);
			}
			if (reply.status != MH_OK && reply.status != MH_ALREADY)
				fail_msg("%s %d: status %u step %u errno %u", call, when, reply.status,
					 reply.step, reply.sys_errno);
			(void)agent_stop(&agent);
			times++;
		}
		undo();
		if (!died)
			break;
	}
	return times;
}

static void assert_private(const char *point)
{
	struct mount_entry mount;

	assert_true(find_mount(point, &mount));
	assert_int_equal(mount.peer_group, 0);
	assert_true(mount_option_is_set(mount.options, "nosuid"));
	assert_true(mount_option_is_set(mount.options, "nodev"));
}

static void undo_stage(void)
{
	assert_private(STAGE_BASE "/vol-1");
	agent_up(&agent);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	(void)agent_stop(&agent);
	assert_int_equal(count_mounts(), 0);
}

static void undo_publish(void)
{
	assert_private(PUBLISHED);
	agent_up(&agent);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	(void)agent_stop(&agent);
	assert_int_equal(count_mounts(), 1);
	assert_int_equal(access(PUBLISH_BASE "/" ALLOC, F_OK), -1);
}

static void undo_unpublish(void)
{
	assert_int_equal(count_mounts(), 1);
	assert_int_equal(access(PUBLISH_BASE "/" ALLOC, F_OK), -1);
	agent_up(&agent);
	expect_publish(&agent, publish_disk(), MH_OK);
	(void)agent_stop(&agent);
}

static void undo_unstage(void)
{
	assert_int_equal(count_mounts(), 0);
	assert_int_equal(access(STAGE_BASE "/vol-1", F_OK), -1);
	agent_up(&agent);
	expect_stage(&agent, stage_disk(), MH_OK);
	(void)agent_stop(&agent);
}

static const char *const common[] = {"fdatasync", "write"};

static void sweep_all(const char *const *calls, size_t n_calls, void *request, size_t n, void (*undo)(void))
{
	for (size_t i = 0; i < n_calls; i++)
		if (sweep(calls[i], request, n, undo) == 0)
			fail_msg("the request never called %s", calls[i]);
	for (size_t i = 0; i < ARRAY_SIZE(common); i++)
		assert_int_equal(sweep(common[i], request, n, undo), 2); /* intent and result */
}

TEST(stage_survives_kill_9_at_every_call)
{
	static const char *const calls[] = {"mkdirat", "fsopen",     "fsconfig",
					    "fsmount", "move_mount", "mount_setattr"};
	struct mh_stage req = stage_disk();

	sweep_all(calls, ARRAY_SIZE(calls), &req, sizeof(req), undo_stage);
}

TEST(publish_survives_kill_9_at_every_call)
{
	static const char *const calls[] = {"mkdirat", "open_tree", "mount_setattr", "move_mount"};
	struct mh_publish req = publish_disk();

	agent_up(&agent);
	expect_stage(&agent, stage_disk(), MH_OK);
	(void)agent_stop(&agent);
	sweep_all(calls, ARRAY_SIZE(calls), &req, sizeof(req), undo_publish);
}

TEST(unpublish_survives_kill_9_at_every_call)
{
	static const char *const calls[] = {"umount2", "unlinkat", "fchdir"};
	struct mh_unpublish req = unpublish("vol-1");

	agent_up(&agent);
	expect_publish(&agent, publish_disk(), MH_OK);
	(void)agent_stop(&agent);
	sweep_all(calls, ARRAY_SIZE(calls), &req, sizeof(req), undo_unpublish);
}

TEST(unstage_survives_kill_9_at_every_call)
{
	static const char *const calls[] = {"umount2", "unlinkat", "fchdir"};
	struct mh_unstage req = unstage("vol-1");

	agent_up(&agent);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	(void)agent_stop(&agent);
	sweep_all(calls, ARRAY_SIZE(calls), &req, sizeof(req), undo_unstage);
	agent_up(&agent);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	(void)agent_stop(&agent);
}

TEST_GROUP(world_up, world_down)
