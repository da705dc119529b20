/* SPDX-License-Identifier: Apache-2.0 */
/* Two programs in one: `before` stages and publishes, says so and waits for the power to go; `after`, started
 * in the next boot of the same disk, looks at what is left. Everything is on the root file system of the
 * guest, the trees too: a reboot leaves their folders and takes the mounts. The helper works in the namespace
 * of the real PID 1. */
#include "agent.h"

#include "base/fd.h"

#include <fcntl.h>
#include <sys/stat.h>

#define SAVED TEST_PREFIX "/request-of-the-boot-before"
#define READY "/run/published"
#define DATA PUBLISHED "/data"
#define STORED "flushed before the power went\n"

static const char log_path[] = LOG_PATH;
static struct agent agent;

static void must_run(const char *command)
{
	const char *const argv[] = {"/bin/sh", "-ec", command, NULL};

	assert_int_equal(run_program(argv), 0);
}

/* A policy without `container`: the machine is the guest, not a namespace of the test's. */
static void write_policy(void)
{
	char text[2048];

	assert_true(str_format(text, sizeof(text),
			       "agent %d {\n"
			       "\tcluster = demo\n\tnode = node-1\n"
			       "\thelper_uid = %d\n\thelper_gid = %d\n"
			       "\tstage_base = " STAGE_BASE "\n\tpublish_base = " PUBLISH_BASE "\n"
			       "\tlog = " LOG_PATH "\n\tlock_dir = /run/holdfast-lock\n"
			       "\tticket = required\n\tticket_key = %s\n\ttrail_sync = always\n"
			       "\tprofile disk { class = block; fstype = ext4; trust = trusted\n"
			       "\t\tby_id = holdfast-test- }\n"
			       "\tprofile mem { class = tmpfs; fstype = tmpfs; max_size = 16MiB }\n"
			       "}\n",
			       AGENT_UID, HELPER_UID, HELPER_UID, ticket_key_hex()) > 0);
	world_policy_text(text);
}

/* What a boot takes with it. */
static int make_devices(void **state)
{
	must_run("mkdir -m 755 /run/holdfast-lock && mkdir -p /dev/disk/by-id &&"
		 "losetup /dev/loop0 " TEST_PREFIX "/disk.img && ln -s ../../loop0 /dev/disk/by-id/" BY_ID);
	return 0;
}

static int make_machine(void **state)
{
	(void)umask(022);
	must_run("mkdir -p " TEST_PREFIX " && cd " TEST_PREFIX " && mkdir -p etc log " STAGE_BASE
		 " " PUBLISH_BASE "&& chmod 700 " STAGE_BASE "&& chmod 711 " PUBLISH_BASE
		 "&& chown 64102:64102 " STAGE_BASE " " PUBLISH_BASE "&& install -m 600 /dev/null " LOG_PATH
		 "&& install -m 4755 " TEST_PROGRAM " helper && truncate -s 16M disk.img"
		 "&& mkfs.ext4 -q -F -E root_owner=64104:64104 disk.img");
	write_policy();
	sync();
	return make_devices(state);
}

static void write_flushed(const char *path, const void *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), (ssize_t)n);
	assert_int_equal(fsync(fd), 0);
	(void)close(fd);
}

static void a_disk_and_a_tmpfs_are_published(void **state)
{
	const struct mh_stage stage = stage_disk();

	agent_up(&agent);
	assert_int_equal(agent.hello.container, 0);
	write_flushed(SAVED, &stage, sizeof(stage));
	(void)expect_stage(&agent, stage, MH_OK);
	(void)expect_publish(&agent, publish_disk(), MH_OK);
	write_flushed(DATA, STORED, strlen(STORED));
	(void)expect_stage(&agent, stage_tmpfs(), MH_OK);
	(void)expect_publish(&agent, publish_tmpfs(), MH_OK);
	assert_int_equal(count_mounts(), 4);
}

static void the_trail_verifies(void **state)
{
	const char *const argv[] = {TEST_CLI, "audit", "verify", log_path, NULL};

	assert_int_equal(run_program(argv), 0);
}

static void the_last_operation_is_on_record(void **state)
{
	assert_last_record("op=publish phase=result");
	assert_last_record("vol=mem-1");
	assert_last_record("status=ok");
}

static uint16_t listed(enum mh_list_kind kind)
{
	struct mh_list_reply reply;

	assert_true(agent_list(&agent, kind, &reply));
	return reply.count;
}

static void the_trees_are_empty(void **state)
{
	assert_int_equal(count_mounts(), 0);
	agent_up(&agent);
	assert_int_equal(listed(MH_LIST_STAGED), 0);
	assert_int_equal(listed(MH_LIST_PUBLISHED), 0);
}

static void a_ticket_of_the_boot_before_is_refused(void **state)
{
	struct mh_stage *stage;
	size_t n;

	assert_int_equal(file_read(SAVED, sizeof(*stage), (char **)&stage, &n), 0);
	assert_int_equal(n, sizeof(*stage));
	(void)expect_stage(&agent, *stage, MH_REFUSED);
	assert_last_record("reason=ticket-boot");
	assert_int_equal(count_mounts(), 0);
	free(stage);
}

static void a_new_ticket_gives_the_volume_with_what_was_flushed(void **state)
{
	char *text;

	(void)expect_stage(&agent, stage_disk(), MH_OK);
	(void)expect_publish(&agent, publish_disk(), MH_OK);
	assert_int_equal(file_read(DATA, 4096, &text, NULL), 0);
	assert_string_equal(text, STORED);
	free(text);
}

static void what_is_left_can_be_taken_down(void **state)
{
	(void)expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	(void)expect_unstage(&agent, unstage("vol-1"), MH_OK);
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_int_equal(rmdir(STAGE_BASE "/mem-1"),
			 0); /* the tmpfs did not outlive the boot, its folder did */
}

static int before(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_disk_and_a_tmpfs_are_published)};
	int failed = cmocka_run_group_tests(tests, make_machine, NULL);

	if (failed != 0)
		return failed;
	must_run("touch " READY);
	for (;;) /* agent and helper live as long as this */
		(void)pause();
}

static int after(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_trail_verifies),
		cmocka_unit_test(the_last_operation_is_on_record),
		cmocka_unit_test(the_trees_are_empty),
		cmocka_unit_test(a_ticket_of_the_boot_before_is_refused),
		cmocka_unit_test(a_new_ticket_gives_the_volume_with_what_was_flushed),
		cmocka_unit_test(what_is_left_can_be_taken_down),
		cmocka_unit_test(the_trail_verifies),
	};

	return cmocka_run_group_tests(tests, make_devices, NULL);
}

int main(int argc, char **argv)
{
	return argc == 2 && str_eq(argv[1], "before") ? before() : after();
}
