/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile CSI plugin: what it puts in the place of its targets, and what becomes of it. The test is the
 * plugin, and root. */
#include "volume.h"

#include "base/id.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TARGET PLUGIN_STAGED "/" MH_CSI_PUBLISH_RW
#define TARGET_RO PLUGIN_STAGED "/" MH_CSI_PUBLISH_RO
#define STAGING PLUGIN_STAGED "/" MH_CSI_STAGING
#define EVIL STAGE_BASE "/" MH_CSI_FOLDER "/evil" /* of another plugin */
#define OLDER TEST_PREFIX "/older"
#define ALLOC_2 "aaaaaaaa-1111-2222-3333-555555555555"
#define ALLOC_3 "aaaaaaaa-1111-2222-3333-666666666666"

static const char policy[] = "\tnfs_timeout = 1\n\tprofile plugin { class = csi; exec = yes }\n"
			     "\tprofile evil { class = csi }\n";

static struct agent agent;
static int automount_fd = -1; /* of the daemon; once it is closed nobody is waited for any more */

static void must(bool ok, const char *what)
{
	if (!ok)
		fail_msg("%s: %s", what, strerror(errno));
}

#define MUST(expression) must((expression) >= 0, #expression)

static int group_up(void **state)
{
	MUST(world_up(state));
	world_policy("required", policy);
	return 0;
}

static int start(void **state)
{
	agent_up(&agent);
	return 0;
}

/* The newest mount first, then the folders, which a failed test may have left. */
static int stop(void **state)
{
	static const char *const points[] = {PUBLISHED,
					     PUBLISH_BASE "/" ALLOC_2 "/0",
					     PUBLISH_BASE "/" ALLOC_3 "/0",
					     TARGET "/sub",
					     OLDER,
					     TARGET,
					     TARGET_RO,
					     STAGING,
					     PLUGIN_STAGED,
					     EVIL "/vol-1/" MH_CSI_PUBLISH_RW,
					     EVIL "/vol-1"};

	if (automount_fd >= 0)
		(void)close(automount_fd);
	automount_fd = -1;
	for (size_t i = 0; i < ARRAY_SIZE(points); i++)
		while (umount2(points[i], MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
			;
	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		(void)unlink(points[i]);
		(void)rmdir(points[i]);
	}
	(void)rmdir(PUBLISH_BASE "/" ALLOC);
	(void)rmdir(PUBLISH_BASE "/" ALLOC_2);
	(void)rmdir(PUBLISH_BASE "/" ALLOC_3);
	if (agent.pid > 0)
		agent_stop(&agent);
	return 0;
}

static struct mh_source plugin(void)
{
	return (struct mh_source){.class = MH_CLASS_CSI};
}

static struct mh_stage stage_req(void)
{
	return stage_of("plugin", plugin(), false);
}

static struct mh_publish publish_req(const char *alloc)
{
	struct mh_publish req = publish_of("plugin", plugin(), false);

	(void)str_format(req.alloc, sizeof(req.alloc), "%s", alloc);
	assert_true(id_uuid_bytes(alloc, req.ticket.alloc));
	sign_ticket(&req.ticket);
	return req;
}

static struct mh_unpublish unpublish_req(const char *alloc)
{
	struct mh_unpublish req = unpublish("vol-1");

	(void)str_format(req.alloc, sizeof(req.alloc), "%s", alloc);
	return req;
}

static void mount_target(const char *name)
{
	(void)mkdir(TARGET, 0755);
	MUST(mount(name, TARGET, "tmpfs", 0, "mode=0777"));
}

TEST_FIXTURE(a_link_or_a_file_in_the_place_of_a_target_is_never_followed, start, stop)
{
	static const char *const places[] = {TARGET, STAGING};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct mh_reply reply;

		expect_stage(&agent, stage_req(), MH_OK);
		(void)rmdir(places[i]);
		MUST(symlink("/etc", places[i]));
		if (i == 0)
			expect_stage(&agent, stage_req(), MH_OK);
		else
			expect_stage(&agent, stage_req(), MH_KERNEL);
		expect_publish(&agent, publish_req(ALLOC), MH_NOT_FOUND);
		reply = expect_unstage(&agent, unstage_plugins("vol-1"), MH_BUSY);
		assert_int_equal(reply.sys_errno, ENOTDIR);
		MUST(access("/etc/passwd", F_OK));
		MUST(unlink(places[i]));
		expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
	}
}

/* The folder of both uses covered by one mount, which would serve either. */
TEST_FIXTURE(a_mount_over_the_volumes_folder_is_never_published, start, stop)
{
	expect_stage(&agent, stage_req(), MH_OK);
	mount_target("plugin");
	expect_stage(&agent, stage_req(), MH_OK);
	MUST(mount("cover", PLUGIN_STAGED, "tmpfs", 0, "mode=0777"));
	expect_stage(&agent, stage_req(), MH_CONFLICT);
	expect_publish(&agent, publish_req(ALLOC), MH_CONFLICT);
	expect_publish(&agent, publish_of("plugin", plugin(), true), MH_CONFLICT);
	assert_false(find_mount(PUBLISHED, &(struct mount_entry){.id = 0}));
	MUST(umount(PLUGIN_STAGED));
	expect_publish(&agent, publish_req(ALLOC), MH_OK);
	take_away_plugins(&agent);
}

/* Whether anything is below, the kernel is asked in a way that would unmount if it were the second time. */
TEST_FIXTURE(no_query_unmounts_the_plugins_mount, start, stop)
{
	expect_stage(&agent, stage_req(), MH_OK);
	mount_target("plugin");
	expect_stage(&agent, stage_req(), MH_OK);
	assert_int_equal(umount2(TARGET, MNT_EXPIRE | UMOUNT_NOFOLLOW), -1);
	assert_int_equal(errno, EAGAIN);
	expect_publish(&agent, publish_req(ALLOC), MH_OK);
	expect_publish(&agent, publish_req(ALLOC), MH_ALREADY);
	expect_publish(&agent, publish_req(ALLOC_2), MH_OK);
	assert_true(find_mount(TARGET, &(struct mount_entry){.id = 0}));
	expect_unpublish(&agent, unpublish_req(ALLOC_2), MH_OK);
	take_away_plugins(&agent);
}

TEST_FIXTURE(older_mounts_below_a_mount_in_use_are_found, start, stop)
{
	int in_use;

	MUST(mkdir(OLDER, 0755));
	MUST(mount("older", OLDER, "tmpfs", 0, NULL));
	MUST(mount(NULL, OLDER, NULL, MS_PRIVATE, NULL));
	expect_stage(&agent, stage_req(), MH_OK);
	mount_target("plugin");
	expect_stage(&agent, stage_req(), MH_OK);
	in_use = open(TARGET, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(in_use);
	expect_publish(&agent, publish_req(ALLOC), MH_OK);
	expect_unpublish(&agent, unpublish_req(ALLOC), MH_OK);
	MUST(mkdir(TARGET "/sub", 0755));
	MUST(mount(OLDER, TARGET "/sub", NULL, MS_MOVE, NULL));
	expect_publish(&agent, publish_req(ALLOC), MH_CONFLICT);
	assert_last_record("reason=submount");
	MUST(close(in_use));
	expect_publish(&agent, publish_req(ALLOC), MH_CONFLICT);
	assert_last_record("reason=submount");
	MUST(umount(TARGET "/sub"));
	MUST(rmdir(OLDER));
	expect_publish(&agent, publish_req(ALLOC), MH_OK);
	take_away_plugins(&agent);
}

TEST_FIXTURE(later_plugin_mounts_do_not_reach_a_private_publish, start, stop)
{
	expect_stage(&agent, stage_req(), MH_OK);
	mount_target("plugin");
	MUST(mount(NULL, TARGET, NULL, MS_SHARED, NULL));
	MUST(mkdir(TARGET "/sub", 0755));
	expect_stage(&agent, stage_req(), MH_OK);
	expect_publish(&agent, publish_req(ALLOC), MH_OK);
	MUST(mount("later", TARGET "/sub", "tmpfs", 0, NULL));
	assert_false(find_mount(PUBLISHED "/sub", &(struct mount_entry){.id = 0}));
	assert_int_equal(shown(PUBLISHED).peer_group, 0);
	assert_int_equal(shown(PUBLISHED).master, 0);
	MUST(umount(TARGET "/sub"));
	take_away_plugins(&agent);
}

TEST_FIXTURE(a_mount_swapped_before_publish_gets_the_floor_flags, start, stop)
{
	expect_stage(&agent, stage_req(), MH_OK);
	mount_target("first");
	expect_stage(&agent, stage_req(), MH_OK);
	MUST(umount(TARGET));
	MUST(mount("/dev", TARGET, NULL, MS_BIND, NULL));
	expect_publish(&agent, publish_req(ALLOC), MH_OK);
	assert_words(shown(PUBLISHED).options, "nosuid,nodev", "");
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	MUST(umount(TARGET));
	expect_publish(&agent, publish_req(ALLOC), MH_NOT_FOUND);
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
}

/* Each publish is of another mount; none may be stuck, or the volume would be. */
TEST_FIXTURE(repeated_plugin_remounts_block_no_unpublish, start, stop)
{
	static const char *const allocs[] = {ALLOC, ALLOC_2, ALLOC_3};

	expect_stage(&agent, stage_req(), MH_OK);
	for (size_t i = 0; i < ARRAY_SIZE(allocs); i++) {
		mount_target("again");
		expect_stage(&agent, stage_req(), i == 0 ? MH_OK : MH_ALREADY);
		expect_publish(&agent, publish_req(allocs[i]), MH_OK);
		if (i + 1 < ARRAY_SIZE(allocs))
			MUST(umount(TARGET));
	}
	for (size_t i = ARRAY_SIZE(allocs); i > 0; i--) {
		expect_unstage(&agent, unstage_plugins("vol-1"), MH_BUSY);
		assert_last_record("reason=still-published");
		expect_unpublish(&agent, unpublish_req(allocs[i - 1]), MH_OK);
	}
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
	assert_int_equal(count_mounts(), 0);
}

/* The upper one may be a task's: it comes there by propagation, if the volume is shared. */
TEST_FIXTURE(stacked_mounts_are_taken_away_one_by_one, start, stop)
{
	expect_stage(&agent, stage_req(), MH_OK);
	mount_target("lower");
	mount_target("upper");
	expect_stage(&agent, stage_req(), MH_OK);
	expect_publish(&agent, publish_req(ALLOC), MH_CONFLICT);
	assert_last_record("reason=stacked");
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_CONFLICT);
	assert_last_record("reason=stacked");
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
	assert_int_equal(count_mounts(), 0);
}

/* The trees themselves: a task that had them could put links and files where names are looked up. */
TEST_FIXTURE(the_trees_are_never_published, start, stop)
{
	static const char *const sources[] = {STAGE_BASE, PUBLISH_BASE, PLUGIN_FOLDER, PLUGIN_STAGED,
					      STAGING,	  "/",		TEST_PREFIX};

	expect_stage(&agent, stage_req(), MH_OK);
	(void)mkdir(TARGET, 0755);
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		MUST(mount("ok", TARGET, "tmpfs", 0, NULL));
		expect_stage(&agent, stage_req(), i == 0 ? MH_OK : MH_ALREADY);
		MUST(umount(TARGET));
		MUST(mount(sources[i], TARGET, NULL, MS_BIND, NULL));
		expect_stage(&agent, stage_req(), MH_CONFLICT);
		expect_publish(&agent, publish_req(ALLOC), MH_CONFLICT);
		MUST(umount(TARGET));
	}
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
}

/* A task writes there where the helper looks names up, or made them. */
TEST_FIXTURE(a_folder_that_the_plugin_made_or_took_in_the_tree_is_never_published, start, stop)
{
	static const char *const sources[] = {PLUGIN_FOLDER "/made", PLUGIN_STAGED};

	expect_stage(&agent, stage_req(), MH_OK);
	MUST(mkdir(TARGET, 0755));
	MUST(mkdir(PLUGIN_FOLDER "/made", 0777));
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		MUST(mount("ok", TARGET, "tmpfs", 0, NULL));
		expect_stage(&agent, stage_req(), i == 0 ? MH_OK : MH_ALREADY);
		MUST(umount(TARGET));
		MUST(chown(sources[i], 64104, 64104));
		MUST(mount(sources[i], TARGET, NULL, MS_BIND, NULL));
		expect_publish(&agent, publish_req(ALLOC), MH_CONFLICT);
		assert_last_record("step=open reason=other-mount");
		MUST(umount2(TARGET, MNT_DETACH));
	}
	MUST(chown(PLUGIN_STAGED, HELPER_UID, HELPER_UID));
	MUST(rmdir(PLUGIN_FOLDER "/made"));
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
}

/* statx(2) shows the owner that the mount makes of the helper: a task's files would be the helper's. */
TEST_FIXTURE(an_idmapped_mount_of_the_trees_is_never_published, start, stop)
{
	static const char *const sources[] = {
		STAGE_BASE, STAGE_BASE "/" MH_CSI_FOLDER, PLUGIN_FOLDER, PLUGIN_STAGED, STAGING, EVIL};
	static const char map[] = "64102 64104 1\n";

	expect_stage(&agent, stage_req(), MH_OK);
	(void)mkdir(TARGET, 0755);
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		MUST(mount("ok", TARGET, "tmpfs", 0, NULL));
		expect_stage(&agent, stage_req(), i == 0 ? MH_OK : MH_ALREADY);
		MUST(umount(TARGET));
		if (!mount_idmapped(sources[i], TARGET, map))
			return;
		expect_stage(&agent, stage_req(), MH_CONFLICT);
		expect_publish(&agent, publish_req(ALLOC), MH_CONFLICT);
		assert_last_record("reason=other-mount");
		MUST(umount(TARGET));
	}
	/* one of another file system hides nothing of the trees */
	MUST(mkdir(OLDER, 0755));
	MUST(mount("other", OLDER, "tmpfs", 0, "uid=64102,gid=64102"));
	assert_true(mount_idmapped(OLDER, TARGET, map));
	expect_stage(&agent, stage_req(), MH_ALREADY);
	expect_publish(&agent, publish_req(ALLOC), MH_OK);
	assert_int_equal(task_writes(PUBLISHED "/file"), 0);
	take_away_plugins(&agent);
}

/* A container of a plugin binds its folder before any volume of it comes. */
TEST_FIXTURE(each_plugin_of_the_policy_has_its_folder_before_any_request, start, stop)
{
	static const char *const folders[] = {STAGE_BASE "/" MH_CSI_FOLDER, PLUGIN_FOLDER, EVIL};
	struct stat before, after;

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		MUST(stat(folders[i], &before));
		assert_int_equal(before.st_uid, HELPER_UID);
		assert_int_equal(before.st_mode, S_IFDIR | 0755);
	}
	assert_int_equal(access(STAGE_BASE "/" MH_CSI_FOLDER "/disk", F_OK), -1);
	/* the container keeps the folder that it has started with */
	MUST(stat(PLUGIN_FOLDER, &before));
	expect_stage(&agent, stage_req(), MH_OK);
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
	expect_stage(&agent, stage_req(), MH_OK);
	MUST(stat(PLUGIN_FOLDER, &after));
	assert_true(before.st_ino == after.st_ino);
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
}

static void name_evil(char profile[static MH_LABEL_SIZE])
{
	memset(profile, 0, MH_LABEL_SIZE);
	(void)str_copy(profile, MH_LABEL_SIZE, "evil");
}

/* All that a plugin can reach is its own folder. */
TEST_FIXTURE(a_plugin_changes_no_volume_of_another_one, start, stop)
{
	struct mh_unstage req = unstage_plugins("vol-1");
	struct mh_list_reply page;
	struct mh_reply reply;

	expect_stage(&agent, stage_req(), MH_OK);
	MUST(mkdir(EVIL "/vol-1", 0755));
	MUST(mkdir(EVIL "/vol-1/" MH_CSI_PUBLISH_RW, 0755));
	MUST(mount("evil", EVIL "/vol-1/" MH_CSI_PUBLISH_RW, "tmpfs", 0, NULL));
	assert_true(agent_list(&agent, MH_LIST_STAGED, &page));
	assert_int_equal(page.count, 0);
	assert_true(agent_look(&agent, "vol-1", "plugin", &reply));
	assert_int_equal(reply.state, MH_STATE_PREPARED);
	expect_publish(&agent, publish_req(ALLOC), MH_NOT_FOUND);
	name_evil(req.profile);
	expect_unstage(&agent, req, MH_CONFLICT);
	expect_unstage(&agent, unstage("vol-1"), MH_CONFLICT);
	mount_target("plugin");
	expect_stage(&agent, stage_req(), MH_OK);
	expect_publish(&agent, publish_req(ALLOC), MH_OK);
	assert_string_equal(shown(PUBLISHED).source, "plugin");
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
	assert_true(find_mount(EVIL "/vol-1/" MH_CSI_PUBLISH_RW, &(struct mount_entry){.id = 0}));
}

/* A plugin that is root takes its own folder over: its volumes are refused, and the helper serves the others.
 */
TEST_FIXTURE(a_plugin_that_takes_its_folder_over_is_refused_alone, start, stop)
{
	struct mh_stage req = stage_req();

	MUST(chown(EVIL, 0, 0));
	MUST(chmod(EVIL, 0777));
	assert_int_equal(agent_stop_code(&agent), 0);
	agent_up(&agent);
	name_evil(req.profile);
	name_evil(req.ticket.profile);
	sign_ticket(&req.ticket);
	expect_stage(&agent, req, MH_CONFLICT);
	assert_last_record("reason=foreign-directory");
	expect_stage(&agent, stage_req(), MH_OK);
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
	MUST(chmod(EVIL, 0755));
	MUST(chown(EVIL, HELPER_UID, HELPER_UID));
}

/* The names of a plugin's folders, one level higher. */
TEST_FIXTURE(a_volume_may_be_called_as_a_plugins_folder_is, start, stop)
{
	static const char *const names[] = {MH_CSI_STAGING, MH_CSI_PUBLISH_RO, MH_CSI_PUBLISH_RW};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct mh_stage req = stage_req();

		(void)str_format(req.volume, sizeof(req.volume), "%s", names[i]);
		(void)str_format(req.ticket.volume, sizeof(req.ticket.volume), "%s", names[i]);
		sign_ticket(&req.ticket);
		assert_int_equal(expect_stage(&agent, req, MH_OK).state, MH_STATE_PREPARED);
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		expect_unstage(&agent, unstage_plugins(names[i]), MH_OK);
}

/* An automount whose daemon, the plugin, does not answer. */
static void automount(const char *path)
{
	char options[96];
	int pipes[2];

	MUST(pipe2(pipes, O_CLOEXEC));
	automount_fd = pipes[0];
	(void)str_format(options, sizeof(options), "fd=%d,pgrp=1,minproto=5,maxproto=5,direct", pipes[1]);
	MUST(mount("daemon", path, "autofs", 0, options));
	(void)close(pipes[1]);
}

/* It costs one helper the time of its alarm, and nobody is in its way afterwards. */
static void expect_alarm(void *req, size_t size, const char *path)
{
	struct mh_reply reply;
	int status;

	assert_false(agent_call(&agent, req, size, &reply));
	status = agent_stop(&agent);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
	(void)close(automount_fd);
	automount_fd = -1;
	MUST(umount2(path, MNT_DETACH));
	agent_up(&agent);
}

TEST_FIXTURE(an_unserved_automount_ends_only_one_helper, start, stop)
{
	struct mh_stage req = stage_req();

	expect_stage(&agent, stage_req(), MH_OK);
	MUST(mkdir(TARGET, 0755));
	automount(TARGET);
	expect_alarm(&req, sizeof(req), TARGET);
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
}

TEST_FIXTURE(an_automount_over_a_plugins_folder_stops_only_requests_for_it, start, stop)
{
	struct mh_list list = {.header = mh_header_make(MH_OP_LIST, sizeof(list), 1)};

	for (int by_list = 0; by_list <= 1; by_list++) {
		struct mh_stage stage = stage_req();

		automount(EVIL);
		assert_int_equal(agent_stop_code(&agent), 0);
		agent_up(&agent);
		expect_stage(&agent, stage_req(), MH_OK);
		expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
		name_evil(stage.profile);
		name_evil(stage.ticket.profile);
		sign_ticket(&stage.ticket);
		name_evil(list.profile);
		(void)str_copy(list.volume, sizeof(list.volume), "vol-1");
		if (by_list)
			expect_alarm(&list, sizeof(list), EVIL);
		else
			expect_alarm(&stage, sizeof(stage), EVIL);
	}
}

/* A ticket of one volume, one use or an older generation, for the other one. It is the last case, for it
 * leaves the generation of vol-1 higher. */
TEST_FIXTURE(a_ticket_is_good_for_one_volume_and_its_use, start, stop)
{
	struct mh_stage stage = stage_req();
	struct mh_publish publish = publish_req(ALLOC);

	(void)str_format(stage.volume, sizeof(stage.volume), "vol-2");
	expect_stage(&agent, stage, MH_REFUSED);
	assert_last_record("reason=ticket-volume");
	stage = stage_req();
	stage.ticket.stage_read_only = 1;
	sign_ticket(&stage.ticket);
	expect_stage(&agent, stage, MH_REFUSED);
	assert_last_record("reason=ticket-read-only");
	expect_stage(&agent, stage_req(), MH_OK);
	mount_target("plugin");
	stage = stage_req();
	stage.ticket.generation = 7;
	sign_ticket(&stage.ticket);
	expect_stage(&agent, stage, MH_OK);
	publish.ticket.generation = 7;
	publish.ticket.read_only = 1;
	sign_ticket(&publish.ticket);
	expect_publish(&agent, publish, MH_REFUSED);
	assert_last_record("reason=ticket-read-only");
	/* readers' mount is not there, and the writers' is not taken for it */
	publish.read_only = 1;
	expect_publish(&agent, publish, MH_NOT_FOUND);
	/* the other use does not bring an older generation back */
	expect_publish(&agent, publish_of("plugin", plugin(), true), MH_REFUSED);
	assert_last_record("reason=ticket-generation");
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
}

TEST_GROUP(group_up, world_down)
