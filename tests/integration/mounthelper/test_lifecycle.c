/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "base/id.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct agent agent;

static int start(void **state)
{
	agent_up(&agent);
	return 0;
}

static int stop(void **state)
{
	struct mh_reply reply;
	struct mh_unpublish u = unpublish("vol-1");
	struct mh_unpublish m = unpublish("mem-1");
	struct mh_unstage s = unstage("vol-1");
	struct mh_unstage t = unstage("mem-1");

	(void)umount2(PUBLISHED "/sub", MNT_DETACH);
	(void)agent_call(&agent, &u, sizeof(u), &reply);
	(void)agent_call(&agent, &m, sizeof(m), &reply);
	(void)agent_call(&agent, &s, sizeof(s), &reply);
	(void)agent_call(&agent, &t, sizeof(t), &reply);
	(void)agent_stop(&agent);
	return count_mounts();
}

static void assert_options(const struct mount_entry *mount, const char *present, const char *absent)
{
	char words[128];
	char *rest = words;
	char *word;

	(void)str_copy(words, sizeof(words), present);
	while ((word = strsep(&rest, ",")))
		if (*word && !mount_option_is_set(mount->options, word))
			fail_msg("%s is not among %s", word, mount->options);
	rest = words;
	(void)str_copy(words, sizeof(words), absent);
	while ((word = strsep(&rest, ",")))
		if (*word && mount_option_is_set(mount->options, word))
			fail_msg("%s is among %s", word, mount->options);
	assert_int_equal(mount->peer_group, 0);
	assert_int_equal(mount->master, 0);
}

/* Act as the task: a uid that is neither agent nor helper. @ret errno, or 0. */
static int create_file_as(uid_t uid, const char *path)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		int fd = -1;

		if (setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0)
			fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		_exit(fd < 0 ? errno : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

TEST_FIXTURE(a_disk_is_staged_inert_and_published_with_the_floor, start, stop)
{
	struct mount_entry mount;
	struct mh_reply reply;
	struct mh_publish p = publish_disk();

	reply = expect_stage(&agent, stage_disk(), MH_OK);
	assert_int_equal(reply.state, MH_STATE_STAGED);
	assert_int_equal(reply.dev_major, world_major());
	assert_int_equal(reply.dev_minor, world_minor());
	assert_true(find_mount(STAGE_BASE "/vol-1", &mount));
	assert_options(&mount, "rw,nosuid,nodev,noexec,nosymfollow", "ro");
	assert_string_equal(mount.type, "ext4");
	assert_true(mount_option_is_set(mount.super_options, "errors=remount-ro"));
	p.exec = 1;
	reply = expect_publish(&agent, p, MH_OK);
	assert_int_equal(reply.state, MH_STATE_PUBLISHED | MH_STATE_EXEC);
	assert_true(find_mount(PUBLISHED, &mount));
	assert_options(&mount, "rw,nosuid,nodev", "ro,noexec,nosymfollow");
	assert_int_equal(create_file_as(64104, PUBLISHED "/hello"), 0);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	reply = expect_unstage(&agent, unstage("vol-1"), MH_OK);
	assert_int_equal(reply.state, 0);
	assert_int_equal(count_mounts(), 0);
	assert_int_equal(access(PUBLISH_BASE "/" ALLOC, F_OK), -1);
	assert_int_equal(access(STAGE_BASE "/vol-1", F_OK), -1);
	/* what was written is there again */
	expect_stage(&agent, stage_disk(), MH_OK);
	expect_publish(&agent, publish_disk(), MH_OK);
	assert_int_equal(access(PUBLISHED "/hello", F_OK), 0);
}

TEST_FIXTURE(a_read_only_publish_of_a_writable_volume_refuses_writes, start, stop)
{
	struct mh_publish p = publish_disk();
	struct mount_entry mount;
	struct mh_reply reply;

	p.read_only = 1;
	expect_stage(&agent, stage_disk(), MH_OK);
	reply = expect_publish(&agent, p, MH_OK);
	assert_int_equal(reply.state, MH_STATE_PUBLISHED | MH_STATE_READ_ONLY);
	assert_true(find_mount(PUBLISHED, &mount));
	assert_options(&mount, "ro,nosuid,nodev,noexec", "rw");
	assert_int_equal(create_file_as(64104, PUBLISHED "/ro"), EROFS);
}

/* A reader's ticket may let the stage be writable, and never the publish. */
TEST_FIXTURE(a_reader_and_a_writer_share_one_stage_in_either_order, start, stop)
{
	static const char other[] = "bbbbbbbb-1111-2222-3333-444444444444";
	struct mh_stage reading = stage_disk();
	struct mh_publish reader = publish_disk();
	struct mh_publish writer = publish_disk();
	struct mh_unpublish leave = unpublish("vol-1");

	reading.ticket.read_only = 1;
	sign_ticket(&reading.ticket);
	reader.ticket.read_only = 1;
	sign_ticket(&reader.ticket);
	(void)str_format(writer.alloc, sizeof(writer.alloc), "%s", other);
	(void)str_format(leave.alloc, sizeof(leave.alloc), "%s", other);
	(void)id_uuid_bytes(other, writer.ticket.alloc);
	sign_ticket(&writer.ticket);
	for (int reader_is_first = 0; reader_is_first < 2; reader_is_first++) {
		expect_stage(&agent, reader_is_first ? reading : stage_disk(), MH_OK);
		expect_stage(&agent, reader_is_first ? stage_disk() : reading, MH_ALREADY);
		reader.read_only = 0;
		expect_publish(&agent, reader, MH_REFUSED);
		assert_last_record("reason=ticket-read-only");
		reader.read_only = 1;
		expect_publish(&agent, reader, MH_OK);
		expect_publish(&agent, writer, MH_OK);
		assert_int_equal(access(PUBLISHED, W_OK), -1);
		assert_int_equal(errno, EROFS);
		assert_int_equal(access(PUBLISH_BASE "/bbbbbbbb-1111-2222-3333-444444444444/0", W_OK), 0);
		expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
		expect_unpublish(&agent, leave, MH_OK);
		expect_unstage(&agent, unstage("vol-1"), MH_OK);
	}
	reading.ticket.stage_read_only = 1;
	sign_ticket(&reading.ticket);
	expect_stage(&agent, reading, MH_REFUSED);
	assert_last_record("reason=ticket-read-only");
}

TEST_FIXTURE(a_read_only_stage_never_writes_to_the_medium, start, stop)
{
	struct mh_stage s = stage_disk();
	struct mount_entry mount;

	s.read_only = 1;
	expect_stage(&agent, s, MH_OK);
	assert_true(find_mount(STAGE_BASE "/vol-1", &mount));
	assert_options(&mount, "ro", "rw");
	assert_true(mount_option_is_set(mount.super_options, "ro"));
	assert_true(mount_option_is_set(mount.super_options, "norecovery"));
	expect_publish(&agent, publish_disk(), MH_REFUSED);
	assert_last_record("reason=staged-read-only");
}

/* Has the kernel note an error of the staged file system, as a damaged block would. Returns whether the mount
 * table shows it: Linux 6.12 to 6.14 do not, nor do stable kernels with the same change (Debian's 6.1.0-56).
 */
static bool damage_staged(void)
{
	char path[128];
	struct mount_entry mount;
	int fd;

	assert_true(find_mount(STAGE_BASE "/vol-1", &mount));
	(void)str_format(path, sizeof(path), "/sys/fs/ext4/%s/trigger_fs_error",
			 strrchr(mount.source, '/') + 1);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "test", 4), 4);
	assert_int_equal(close(fd), 0);
	assert_true(find_mount(STAGE_BASE "/vol-1", &mount));
	return mount_option_is_set(mount.super_options, "ro") ||
	       mount_option_is_set(mount.super_options, "emergency_ro");
}

TEST_FIXTURE(a_file_system_that_an_error_stopped_is_published_for_reading_only, start, stop)
{
	struct mh_publish reading = publish_disk();

	expect_stage(&agent, stage_disk(), MH_OK);
	expect_publish(&agent, publish_disk(), MH_OK);
	if (!damage_staged()) {
		print_message("# this kernel shows no stop: not tested\n");
		return;
	}
	expect_publish(&agent, publish_disk(), MH_REFUSED);
	assert_last_record("reason=writes-stopped");
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	expect_publish(&agent, publish_disk(), MH_REFUSED);
	reading.read_only = 1;
	expect_publish(&agent, reading, MH_OK);
}

TEST_FIXTURE(every_step_may_be_repeated, start, stop)
{
	expect_publish(&agent, publish_disk(), MH_NOT_FOUND);
	expect_stage(&agent, stage_disk(), MH_OK);
	expect_stage(&agent, stage_disk(), MH_ALREADY);
	expect_publish(&agent, publish_disk(), MH_OK);
	expect_publish(&agent, publish_disk(), MH_ALREADY);
	expect_unstage(&agent, unstage("vol-1"), MH_BUSY);
	assert_last_record("reason=still-published");
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	expect_unpublish(&agent, unpublish("vol-1"), MH_ALREADY);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	expect_unstage(&agent, unstage("vol-1"), MH_ALREADY);
}

TEST_FIXTURE(a_tmpfs_is_as_large_as_asked_for, start, stop)
{
	struct mount_entry mount;
	struct mh_list_reply list;

	expect_stage(&agent, stage_tmpfs(), MH_OK);
	expect_stage(&agent, stage_tmpfs(), MH_ALREADY);
	expect_publish(&agent, publish_tmpfs(), MH_OK);
	assert_true(find_mount(PUBLISH_BASE "/" ALLOC "/7", &mount));
	assert_options(&mount, "rw,nosuid,nodev,noexec", "ro");
	assert_true(mount_option_is_set(mount.super_options, "size=1024k"));
	assert_true(mount_option_is_set(mount.super_options, "nr_inodes=100"));
	assert_string_equal(mount.source, "holdfast:mem-1");
	assert_true(agent_list(&agent, MH_LIST_STAGED, &list));
	assert_int_equal(list.count, 1);
	assert_string_equal(list.entries[0].volume, "mem-1");
	assert_true(agent_list(&agent, MH_LIST_PUBLISHED, &list));
	assert_int_equal(list.count, 1);
	assert_string_equal(list.entries[0].alloc, ALLOC);
	assert_int_equal(list.entries[0].slot, 7);
	assert_int_equal(list.entries[0].state, MH_STATE_PUBLISHED);
	assert_true(agent_list(&agent, MH_LIST_PROFILES, &list));
	assert_int_equal(list.count, 2);
	assert_string_equal(list.entries[0].volume, "disk");
	assert_int_equal(list.entries[0].state, MH_STATE_AVAILABLE | MH_STATE_EXEC);
}

TEST_FIXTURE(open_files_make_busy, start, stop)
{
	int fd;

	expect_stage(&agent, stage_disk(), MH_OK);
	expect_publish(&agent, publish_disk(), MH_OK);
	fd = open(PUBLISHED, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	expect_unpublish(&agent, unpublish("vol-1"), MH_BUSY);
	assert_last_record("step=unmount reason=in-use");
	assert_int_equal(count_mounts(), 2);
	(void)close(fd);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
}

TEST_FIXTURE(a_device_mounted_elsewhere_is_a_conflict, start, stop)
{
	char device[32];

	(void)str_format(device, sizeof(device), "/dev/loop%u", world_minor());
	(void)mkdir(TEST_PREFIX "/elsewhere", 0755);
	assert_int_equal(mount(device, TEST_PREFIX "/elsewhere", "ext4", MS_NOSUID | MS_NODEV, NULL), 0);
	expect_stage(&agent, stage_disk(), MH_CONFLICT);
	assert_last_record("reason=device-mounted");
	assert_int_equal(umount(TEST_PREFIX "/elsewhere"), 0);
	expect_stage(&agent, stage_disk(), MH_OK);
}

TEST_FIXTURE(a_superblock_alive_in_another_namespace_is_a_conflict_too, start, stop)
{
	char device[32];
	int ready[2];
	int leave[2];
	char c = 0;
	pid_t pid;

	(void)str_format(device, sizeof(device), "/dev/loop%u", world_minor());
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(leave, O_CLOEXEC), 0);
	(void)mkdir(TEST_PREFIX "/elsewhere", 0755);
	pid = fork();
	if (pid == 0) {
		(void)close(leave[1]);
		if (unshare(CLONE_NEWNS) < 0 || mount(device, TEST_PREFIX "/elsewhere", "ext4", 0, NULL) < 0)
			_exit(1);
		(void)!write(ready[1], "k", 1);
		(void)!read(leave[0], &c, 1);
		_exit(0);
	}
	(void)close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	expect_stage(&agent, stage_disk(), MH_CONFLICT);
	assert_last_record("step=create reason=device-mounted");
	(void)close(leave[1]);
	(void)waitpid(pid, NULL, 0);
	(void)close(ready[0]);
	(void)close(leave[0]);
}

TEST_FIXTURE(another_agents_directory_is_left_alone, start, stop)
{
	assert_int_equal(mkdir(STAGE_BASE "/vol-1", 0755), 0); /* root's */
	expect_stage(&agent, stage_disk(), MH_CONFLICT);
	assert_last_record("reason=foreign-directory");
	expect_unstage(&agent, unstage("vol-1"), MH_CONFLICT);
	assert_int_equal(rmdir(STAGE_BASE "/vol-1"), 0);
}

TEST_FIXTURE(a_wrong_ticket_is_refused_and_recorded, start, stop)
{
	struct mh_stage s = stage_disk();

	s.ticket.node[0] = 'x';
	expect_stage(&agent, s, MH_REFUSED);
	assert_last_record("op=stage phase=refused");
	assert_last_record("reason=ticket-signature");
	sign_ticket(&s.ticket);
	expect_stage(&agent, s, MH_REFUSED);
	assert_last_record("reason=ticket-node");
	s = stage_disk();
	s.ticket.boot_id[0] ^= 1;
	sign_ticket(&s.ticket);
	expect_stage(&agent, s, MH_REFUSED);
	assert_last_record("reason=ticket-boot");
	s = stage_disk();
	memset(&s.ticket, 0, sizeof(s.ticket));
	expect_stage(&agent, s, MH_REFUSED);
	assert_last_record("reason=ticket-missing");
	assert_int_equal(count_mounts(), 0);
}

TEST_FIXTURE(a_newer_generation_shuts_the_older_out_across_instances, start, stop)
{
	struct mh_stage newer = stage_tmpfs();
	struct agent other;

	newer.ticket.generation = 5;
	sign_ticket(&newer.ticket);
	agent_up(&other);
	expect_stage(&other, newer, MH_OK);
	expect_stage(&agent, stage_tmpfs(), MH_REFUSED);
	assert_last_record("reason=ticket-generation");
	expect_stage(&agent, newer, MH_ALREADY);
	assert_int_equal(agent_stop_code(&other), 0);
}

TEST_FIXTURE(a_volume_keeps_its_mounts_when_the_helper_ends, start, stop)
{
	struct mh_list_reply list;

	expect_stage(&agent, stage_disk(), MH_OK);
	expect_publish(&agent, publish_disk(), MH_OK);
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_last_record("op=stop phase=event");
	assert_last_record("reason=closed");
	assert_int_equal(count_mounts(), 2);
	agent_up(&agent);
	assert_true(agent_list(&agent, MH_LIST_PUBLISHED, &list));
	assert_int_equal(list.count, 1);
	expect_publish(&agent, publish_disk(), MH_ALREADY);
}

TEST_FIXTURE(the_agent_sees_the_publish_and_cannot_reach_the_stage, start, stop)
{
	struct stat st;

	expect_stage(&agent, stage_disk(), MH_OK);
	expect_publish(&agent, publish_disk(), MH_OK);
	assert_int_equal(create_file_as(AGENT_UID, STAGE_BASE "/vol-1/x"), EACCES);
	assert_int_equal(create_file_as(AGENT_UID, PUBLISH_BASE "/x"), EACCES);
	assert_int_equal(create_file_as(AGENT_UID, PUBLISH_BASE "/" ALLOC "/x"), EACCES);
	assert_int_equal(stat(PUBLISH_BASE "/" ALLOC, &st), 0);
	assert_int_equal(st.st_uid, HELPER_UID);
	assert_int_equal(st.st_mode & 07777, 0755);
}

TEST_GROUP(world_up, world_down)
