/* SPDX-License-Identifier: Apache-2.0 */
/* The trail of a real helper over its restarts, as root treats it: rotated, cut, deleted; read by the command
 * that auditors use. */

#include "agent.h"

#include <fcntl.h>
#include <mounthelper_words.h>
#include <signal.h>
#include <sys/mount.h>

#define OLD_LOG LOG_PATH ".1"

static struct agent agent;

static int verify(const char *first, const char *second)
{
	const char *const command[] = {TEST_COMMAND, "audit", "verify", first, second, NULL};

	return run_program(command);
}

static void create_log(void)
{
	int fd = open(LOG_PATH, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	(void)close(fd);
}

/* As on a machine that was just installed. */
static int begin(void **state)
{
	(void)unlink(OLD_LOG);
	(void)unlink(LOG_PATH);
	(void)unlink(TEST_PREFIX "/lock/state");
	create_log();
	world_policy("required", "");
	return 0;
}

static void come_and_go(void)
{
	agent_up(&agent);
	expect_stage(&agent, stage_disk(), MH_OK);
	expect_publish(&agent, publish_disk(), MH_OK);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	assert_int_equal(agent_stop_code(&agent), MH_EXIT_CLOSED);
}

static bool log_has(const char *text)
{
	char *log = world_log();
	bool has = strstr(log, text) != NULL;

	free(log);
	return has;
}

TEST_FIXTURE(the_chain_continues_over_restarts_and_rotation, begin, NULL)
{
	come_and_go();
	come_and_go();
	assert_false(log_has(" head="));
	assert_int_equal(verify(LOG_PATH, NULL), 0);
	assert_int_equal(rename(LOG_PATH, OLD_LOG), 0);
	create_log();
	come_and_go();
	assert_true(log_has(" op=start "));
	assert_true(log_has(" head=rotated "));
	assert_int_equal(verify(OLD_LOG, LOG_PATH), 0);
	assert_int_equal(verify(LOG_PATH, NULL), 1);	/* the new one alone lacks its beginning */
	assert_int_equal(verify(LOG_PATH, OLD_LOG), 1); /* the wrong order */
}

TEST_FIXTURE(a_running_helper_continues_in_the_file_that_was_moved_away, begin, NULL)
{
	agent_up(&agent);
	assert_int_equal(rename(LOG_PATH, OLD_LOG), 0);
	create_log();
	expect_stage(&agent, stage_disk(), MH_OK);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	(void)agent_stop(&agent);
	come_and_go();
	assert_int_equal(verify(OLD_LOG, LOG_PATH), 0);
}

TEST_FIXTURE(helpers_that_are_replaced_one_after_another_leave_one_chain, begin, NULL)
{
	struct agent young;

	agent_up(&agent);
	assert_int_equal(rename(LOG_PATH, OLD_LOG), 0);
	create_log();
	expect_stage(&agent, stage_tmpfs(), MH_OK);
	agent_up(&young);
	expect_stage(&young, stage_disk(), MH_OK);
	expect_unstage(&agent, unstage("mem-1"), MH_OK); /* still in the old file */
	expect_unstage(&young, unstage("vol-1"), MH_OK);
	assert_int_equal(agent_stop_code(&agent), MH_EXIT_CLOSED);
	assert_int_equal(agent_stop_code(&young), MH_EXIT_CLOSED);
	assert_false(log_has(" head=moved "));
	assert_int_equal(verify(OLD_LOG, LOG_PATH), 0);
	come_and_go();
	assert_false(log_has(" head=mismatch "));
	assert_int_equal(verify(OLD_LOG, LOG_PATH), 0);
}

TEST_FIXTURE(records_that_were_cut_off_are_missed_at_the_next_start, begin, NULL)
{
	char *log;
	char *cut;

	come_and_go();
	log = world_log();
	cut = strstr(log, " op=unstage phase=intent");
	assert_non_null(cut);
	while (cut[-1] != '\n')
		cut--;
	assert_int_equal(truncate(LOG_PATH, cut - log), 0);
	free(log);
	assert_int_equal(verify(LOG_PATH, NULL), 0); /* nothing in the file tells */
	come_and_go();
	assert_true(log_has(" head=mismatch "));
	assert_int_equal(verify(LOG_PATH, NULL), 1);
}

TEST_FIXTURE(without_its_log_a_helper_only_cleans_up, begin, NULL)
{
	struct mh_reply reply;

	agent_up(&agent);
	expect_stage(&agent, stage_disk(), MH_OK);
	assert_int_equal(unlink(LOG_PATH), 0);
	reply = expect_publish(&agent, publish_disk(), MH_UNAVAILABLE);
	assert_int_equal(reply.step, STEP_TRAIL);
	(void)agent_stop(&agent);
	/* one that starts so as well */
	agent_up(&agent);
	assert_int_equal(agent.hello.trail, TRAIL_LOG);
	assert_int_equal(agent.hello.record, 0);
	expect_publish(&agent, publish_disk(), MH_UNAVAILABLE);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	expect_stage(&agent, stage_disk(), MH_UNAVAILABLE);
	(void)agent_stop(&agent);
	create_log();
}

TEST_FIXTURE(a_full_disk_stops_new_mounts_and_releases_old_ones, begin, NULL)
{
	static char filler[64 * 1024];
	int fd;

	/* smaller than what is reserved ahead, so that there is no reserve */
	assert_int_equal(mount("log", TEST_PREFIX "/log", "tmpfs", 0, "mode=0755,size=128k"), 0);
	create_log();
	agent_up(&agent);
	expect_stage(&agent, stage_disk(), MH_OK);
	fd = open(TEST_PREFIX "/log/filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	while (write(fd, filler, sizeof(filler)) > 0)
		;
	(void)close(fd);
	for (int i = 0; i < 100; i++) { /* until the last page of the log is full */
		struct mh_publish p = publish_disk();
		struct mh_reply reply = {.status = 0};

		assert_true(agent_call(&agent, &p, sizeof(p), &reply));
		if (reply.status == MH_UNAVAILABLE)
			break;
		assert_true(i < 99);
		assert_int_equal(reply.step, STEP_NONE);
	}
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	assert_int_equal(count_mounts(), 0);
	assert_int_equal(unlink(TEST_PREFIX "/log/filler"), 0);
	expect_stage(&agent, stage_disk(), MH_OK); /* there is room again: the chain continues */
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	(void)agent_stop(&agent);
	assert_false(log_has("head=mismatch"));
	assert_int_equal(verify(LOG_PATH, NULL), 0);
	assert_int_equal(umount2(TEST_PREFIX "/log", MNT_DETACH), 0);
}

TEST_FIXTURE(a_batch_loses_nothing_when_the_helper_is_killed, begin, NULL)
{
	world_policy("required", "\ttrail_sync = batch\n");
	agent_up(&agent);
	expect_stage(&agent, stage_disk(), MH_OK);
	assert_int_equal(kill(agent.helper, SIGKILL), 0);
	(void)agent_stop(&agent);
	assert_true(log_has(" op=stage phase=result "));
	agent_up(&agent);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	(void)agent_stop(&agent);
	assert_false(log_has(" head="));
	assert_int_equal(verify(LOG_PATH, NULL), 0);
}

TEST_GROUP(world_up, world_down)
