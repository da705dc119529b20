/* SPDX-License-Identifier: Apache-2.0 */
/* Propagation, the directories of csi volumes, counts, and what a request costs. */

#include "fake_model.h"
#include "trees.h"
#include "workbench.h"

#include "base/sys.h"

static const char *const slots[] = {SLOT("0"), SLOT("1"), SLOT("2")};

static const struct {
	const char *shown;
	uint16_t state;
} propagations[TICKET_PROPAGATION_N] = {
	[TICKET_PROPAGATION_PRIVATE] = {"", 0},
	[TICKET_PROPAGATION_HOST_TO_TASK] = {" slave of " MEMORY, MH_STATE_SLAVE},
	[TICKET_PROPAGATION_BIDIRECTIONAL] = {" shared peer of " MEMORY, MH_STATE_SHARED},
};

/* Both kinds of kernel in turn. */
static void each_kernel(void (*test)(void))
{
	for (int old = 0; old < 2; old++) {
		fake_kernel_before_6_8(old == 1);
		new_world(SHARING);
		test();
	}
	fake_kernel_before_6_8(false);
}

static void publish_each_way(void)
{
	struct mh_reply reply = stage(stage_pair());

	ASSERT_REPLY(reply, MH_OK);
	assert_string_equal(fake_propagation(MEMORY), " shared");
	assert_int_equal(reply.state, MH_STATE_STAGED | MH_STATE_SHARED);
	for (int i = 0; i < TICKET_PROPAGATION_N; i++) {
		uint16_t state = MH_STATE_PUBLISHED | propagations[i].state;

		reply = publish(publish_pair((uint8_t)i, i));
		ASSERT_REPLY(reply, MH_OK);
		assert_int_equal(reply.state, state);
		assert_string_equal(fake_propagation(slots[i]), propagations[i].shown);
		reply = publish(publish_pair((uint8_t)i, i));
		ASSERT_REPLY(reply, MH_ALREADY);
		assert_int_equal(reply.state, state);
		assert_int_equal(look("", FIXTURE_ALLOC, (uint8_t)i).state, state);
	}
	assert_int_equal(look("mem-1", "", 0).state, MH_STATE_STAGED | MH_STATE_SHARED);
}

TEST_FIXTURE(each_propagation_is_had_and_reported, setup, teardown)
{
	each_kernel(publish_each_way);
}

static void ask_for_others(void)
{
	char before[4096];

	ASSERT_REPLY(stage(stage_pair()), MH_OK);
	for (int i = 0; i < TICKET_PROPAGATION_N; i++)
		ASSERT_REPLY(publish(publish_pair((uint8_t)i, i)), MH_OK);
	(void)str_copy(before, sizeof(before), fake_summary());
	for (int i = 0; i < TICKET_PROPAGATION_N; i++) {
		for (int other = 0; other < TICKET_PROPAGATION_N; other++) {
			if (other == i)
				continue;
			ASSERT_REPLY(publish(publish_pair((uint8_t)i, other)), MH_CONFLICT);
			ASSERT_RECORDED("step=private reason=other-mount");
			assert_string_equal(fake_summary(), before);
		}
	}
}

TEST_FIXTURE(another_propagation_than_asked_for_is_a_conflict_and_stays, setup, teardown)
{
	each_kernel(ask_for_others);
}

TEST_FIXTURE(a_private_stage_is_published_privately_only, setup, teardown)
{
	struct mh_stage s = fixture_stage_tmpfs();

	new_world(SHARING);
	ASSERT_REPLY(stage(s), MH_OK); /* profile mem does not share */
	assert_string_equal(fake_propagation(MEMORY), "");
	for (int i = TICKET_PROPAGATION_HOST_TO_TASK; i < TICKET_PROPAGATION_N; i++) {
		struct mh_publish p = publish_pair(0, i);

		(void)str_copy(p.profile, sizeof(p.profile), "mem");
		ASSERT_REPLY(publish(p), MH_REFUSED);
		ASSERT_RECORDED("reason=propagation-not-allowed");
	}
	/* the profile shares now, the mount is older */
	new_world(SHARING);
	ASSERT_REPLY(stage(stage_pair()), MH_OK);
	fake_set_private(MEMORY);
	for (int i = TICKET_PROPAGATION_HOST_TO_TASK; i < TICKET_PROPAGATION_N; i++) {
		ASSERT_REPLY(publish(publish_pair(0, i)), MH_CONFLICT);
		ASSERT_RECORDED("step=open reason=propagation-not-allowed");
		assert_false(fake_is_mount(slots[0]));
	}
	ASSERT_REPLY(publish(publish_pair(0, TICKET_PROPAGATION_PRIVATE)), MH_OK);
	/* nothing private is made shared afterwards */
	ASSERT_REPLY(stage(stage_pair()), MH_CONFLICT);
	assert_string_equal(fake_propagation(MEMORY), "");
}

/* What the kernel makes of a mount below a shared one, and a dead instance leaves. */
static void repair_each(void)
{
	ASSERT_REPLY(stage(stage_pair()), MH_OK);
	for (int i = TICKET_PROPAGATION_PRIVATE; i <= TICKET_PROPAGATION_HOST_TO_TASK; i++) {
		ASSERT_REPLY(publish(publish_pair((uint8_t)i, i)), MH_OK);
		fake_set_shared(slots[i]);
		assert_non_null(strstr(fake_propagation(slots[i]), " shared"));
		ASSERT_REPLY(publish(publish_pair((uint8_t)i, i)), MH_ALREADY);
		assert_string_equal(fake_propagation(slots[i]), propagations[i].shown);
		fake_set_shared(slots[i]);
		ASSERT_REPLY(publish(publish_pair((uint8_t)i, 1 - i)), MH_CONFLICT);
		ASSERT_REPLY(publish(publish_pair((uint8_t)i, TICKET_PROPAGATION_BIDIRECTIONAL)),
			     MH_CONFLICT);
		assert_non_null(strstr(fake_propagation(slots[i]), " shared"));
	}
}

TEST_FIXTURE(only_propagation_from_a_shared_parent_is_repaired, setup, teardown)
{
	each_kernel(repair_each);
}

/* As a host volume below a shared mount of a container has it. */
TEST_FIXTURE(peers_of_a_stage_share_its_master, setup, teardown)
{
	new_world(SHARING);
	ASSERT_REPLY(stage(stage_pair()), MH_OK);
	fake_set_slave(MEMORY);
	ASSERT_REPLY(stage(stage_pair()), MH_ALREADY);
	for (int i = 0; i < TICKET_PROPAGATION_N; i++) {
		ASSERT_REPLY(publish(publish_pair((uint8_t)i, i)), MH_OK);
		ASSERT_REPLY(publish(publish_pair((uint8_t)i, i)), MH_ALREADY);
	}
	assert_string_equal(fake_propagation(slots[0]), "");
	assert_string_equal(fake_propagation(slots[1]), " slave of " MEMORY);
	assert_string_equal(fake_propagation(slots[2]), " shared peer of " MEMORY " slave");
}

TEST_FIXTURE(a_propagation_that_cannot_be_had_leaves_no_mount, setup, teardown)
{
	for (int i = TICKET_PROPAGATION_PRIVATE; i <= TICKET_PROPAGATION_HOST_TO_TASK; i++) {
		union mh_request req = {.publish = publish_pair(0, i)};
		union mh_answer answer;

		new_world(SHARING);
		ASSERT_REPLY(stage(stage_pair()), MH_OK);
		fake_private_has_no_effect();
		assert_int_equal(ops_run(&helper, &req, &answer), REASON_POSTCONDITION);
		ASSERT_RECORDED("status=internal errno=0 step=verify reason=post-condition");
		assert_false(fake_is_mount(slots[0]));
	}
}

static void publish_csi_volume(void)
{
	struct mh_reply reply;

	make_csi("vol-1");
	assert_int_equal(look_csi("vol-1", "csi.plug").state, MH_STATE_PREPARED);
	assert_int_equal(look_csi("vol-1", "csi.plug").status, MH_OK);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_NOT_FOUND);
	fake_mount_other(PLUGIN_PUBLISH);
	assert_int_equal(look_csi("vol-1", "csi.plug").state,
			 MH_STATE_STAGED | MH_STATE_EXEC | MH_STATE_SHARED);
	reply = publish(publish_csi("vol-1", 0));
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(fake_flags(slots[0]),
			 SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_ALREADY);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
	assert_false(fake_is_mount(slots[0]));
	assert_true(fake_is_mount(PLUGIN_PUBLISH));
}

static struct mh_publish publish_csi_read_only(uint8_t slot)
{
	struct mh_publish req = publish_csi("vol-1", slot);

	req.read_only = 1;
	return req;
}

/* A publish is of the target of its use and of no other; the model tells their devices apart. */
static void publish_both_uses(void)
{
	struct mh_reply writer, reader;

	make_csi("vol-1");
	fake_mount_other(PLUGIN_PUBLISH);
	ASSERT_REPLY(publish(publish_csi_read_only(1)), MH_NOT_FOUND);
	fake_make_directory(PLUGIN_PUBLISH_RO, 0, 0750);
	ASSERT_REPLY(publish(publish_csi_read_only(1)), MH_NOT_FOUND);
	fake_mount_other(PLUGIN_PUBLISH_RO);
	writer = publish(publish_csi("vol-1", 0));
	reader = publish(publish_csi_read_only(1));
	ASSERT_REPLY(writer, MH_OK);
	ASSERT_REPLY(reader, MH_OK);
	assert_int_not_equal(writer.dev_minor, reader.dev_minor);
	assert_int_equal(writer.state & MH_STATE_READ_ONLY, 0);
	assert_int_equal(reader.state & MH_STATE_READ_ONLY, MH_STATE_READ_ONLY);
	assert_int_equal(look_csi("vol-1", "csi.plug").status, MH_OK);
	/* the other use is another mount, whatever the flags */
	ASSERT_REPLY(publish(publish_csi_read_only(0)), MH_CONFLICT);
	fake_unmount(PLUGIN_PUBLISH);
	ASSERT_REPLY(publish(publish_csi("vol-1", 2)), MH_NOT_FOUND);
	assert_int_equal(look_csi("vol-1", "csi.plug").dev_minor, reader.dev_minor);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 1)), MH_OK);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
	fake_unmount(PLUGIN_PUBLISH_RO);
	assert_int_equal(look_csi("vol-1", "csi.plug").state, MH_STATE_PREPARED);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
	assert_string_equal(fake_summary(), "dir /srv/publish\ndir /srv/stage\n" PLUG_SUMMARY);
}

/* Without the memory of what was published, what stands is the witness: of either use. */
static void unpublish_without_memory(void)
{
	make_csi("vol-1");
	fake_make_directory(PLUGIN_PUBLISH_RO, 0, 0750);
	fake_mount_other(PLUGIN_PUBLISH);
	fake_mount_other(PLUGIN_PUBLISH_RO);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK);
	ASSERT_REPLY(publish(publish_csi_read_only(1)), MH_OK);
	memset(helper.state->slot, 0, sizeof(helper.state->slot));
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 1)), MH_OK);
}

TEST_FIXTURE(readers_and_writers_have_a_plugins_target_each, setup, teardown)
{
	each_kernel(publish_both_uses);
	each_kernel(unpublish_without_memory);
}

static void publish_three(void)
{
	make_csi("vol-1");
	make_csi("vol-2");
	fake_make_directory(PLUGIN_PUBLISH_RO, 0, 0750);
	fake_mount_other(PLUGIN_PUBLISH);
	fake_mount_other(PLUGIN_PUBLISH_RO);
	fake_mount_other(PLUG "/vol-2/rw-publish");
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK);
	ASSERT_REPLY(publish(publish_csi_read_only(1)), MH_OK);
	ASSERT_REPLY(publish(publish_csi("vol-2", 2)), MH_OK);
}

/* The daemons of both uses die, and mount anew: both publishes are of mounts that no longer exist. */
static void mount_both_anew(void)
{
	publish_three();
	fake_unmount(PLUGIN_PUBLISH);
	fake_unmount(PLUGIN_PUBLISH_RO);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_BUSY);
	ASSERT_RECORDED("reason=still-published");
	fake_mount_other(PLUGIN_PUBLISH_RO);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 2)), MH_CONFLICT);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 1)), MH_OK);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_BUSY);
	ASSERT_RECORDED("reason=still-published");
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
	ASSERT_RECORDED("reason=plugin-left-mount");
}

TEST_FIXTURE(both_uses_of_a_volume_are_known_after_a_plugins_death, setup, teardown)
{
	each_kernel(mount_both_anew);
}

/* The clone may be the last of a file system whose device never answers: then the kernel holds who unmounts
 * it. */
static void unpublish_without_a_place(void)
{
	struct mh_reply reply;

	make_csi("vol-1");
	fake_mount_other(PLUGIN_PUBLISH);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK);
	ASSERT_REPLY(stage(stage_pair()), MH_OK);
	ASSERT_REPLY(publish(publish_pair(1, 0)), MH_OK);
	fake_places_of_plugins_taken(true);
	reply = unpublish(unpublish_of("vol-1", 0));
	ASSERT_REPLY(reply, MH_BUSY);
	assert_int_equal(reply.reason, REASON_LOCKED);
	ASSERT_REPLY(unpublish(unpublish_of("mem-1", 1)), MH_OK);
	fake_places_of_plugins_taken(false);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
}

TEST_FIXTURE(an_unpublish_takes_one_of_its_plugins_places, setup, teardown)
{
	each_kernel(unpublish_without_a_place);
}

TEST_FIXTURE(allocations_get_clones_of_the_plugins_mount, setup, teardown)
{
	each_kernel(publish_csi_volume);
}

enum leftover { NOTHING, DIRECTORY, MOUNT, LEFTOVERS };

static void leave(const char *path, int leftover)
{
	if (leftover == NOTHING)
		fake_remove(path);
	if (leftover == MOUNT)
		fake_mount_other(path);
}

static void take_what_a_plugin_left(int publish_left, int readers_left, int staging_left)
{
	bool mounted = publish_left == MOUNT || readers_left == MOUNT || staging_left == MOUNT;

	new_world(SHARING);
	make_csi("vol-1");
	fake_make_directory(PLUGIN_PUBLISH_RO, 0, 0750);
	leave(PLUGIN_PUBLISH, publish_left);
	leave(PLUGIN_PUBLISH_RO, readers_left);
	leave(PLUGIN_STAGING, staging_left);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
	ASSERT_RECORDED(mounted ? "reason=plugin-left-mount res=success" : "reason=none res=success");
	assert_string_equal(fake_summary(), "dir /srv/publish\ndir /srv/stage\n" PLUG_SUMMARY);
	assert_int_equal(state_find(helper.state, "vol-1")->stage, STATE_UNSTAGED);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_ALREADY);
}

/* The trail has what was unmounted before an obstacle. */
TEST_FIXTURE(an_unstage_that_is_partly_done_records_its_unmount, setup, teardown)
{
	new_world(SHARING);
	make_csi("vol-1");
	fake_mount_other(PLUGIN_PUBLISH);
	fake_mount_other(PLUGIN_STAGING);
	fake_set_busy(PLUGIN_STAGING, true);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_BUSY);
	ASSERT_RECORDED(" dev=");
	ASSERT_RECORDED("reason=in-use res=failed");
	assert_false(fake_is_mount(PLUGIN_PUBLISH));
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_BUSY);
	assert_null(strstr(last_record(), " dev="));
}

static void take_what_plugins_left(void)
{
	for (int p = NOTHING; p < LEFTOVERS; p++)
		for (int r = NOTHING; r < LEFTOVERS; r++)
			for (int s = NOTHING; s < LEFTOVERS; s++)
				take_what_a_plugin_left(p, r, s);
}

TEST_FIXTURE(mounts_of_a_dead_plugin_are_removed_and_recorded, setup, teardown)
{
	each_kernel(take_what_plugins_left);
}

static void keep_published_csi(void)
{
	make_csi("vol-1");
	fake_mount_other(PLUGIN_PUBLISH);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_BUSY);
	ASSERT_RECORDED("reason=still-published");
	assert_true(fake_is_mount(PLUGIN_PUBLISH));
	/* the plugin took its own mount away: ours is a clone and stays */
	fake_unmount(PLUGIN_PUBLISH);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_BUSY);
	ASSERT_RECORDED("reason=still-published");
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
}

/* Root unmounted the stage, and staging it again failed at first. */
static void stage_again_below_a_publish(void)
{
	ASSERT_REPLY(stage(stage_pair()), MH_OK);
	ASSERT_REPLY(publish(publish_pair(0, 0)), MH_OK);
	fake_unmount(MEMORY);
	fake_fault_in(FAKE_FAIL, "fsopen", 1);
	ASSERT_REPLY(stage(stage_pair()), MH_KERNEL);
	fake_fault(FAKE_NO_FAULT, 0, 0);
	ASSERT_REPLY(stage(stage_pair()), MH_OK);
	ASSERT_REPLY(unstage(unstage_of("mem-1")), MH_BUSY);
	ASSERT_RECORDED("reason=still-published");
	ASSERT_REPLY(unpublish(unpublish_of("mem-1", 0)), MH_OK);
	ASSERT_REPLY(unstage(unstage_of("mem-1")), MH_OK);
}

TEST_FIXTURE(an_earlier_publish_survives_a_second_stage, setup, teardown)
{
	each_kernel(stage_again_below_a_publish);
}

/* A plugin that died, and mounted its volume anew when it came back: on another device. */
static void mount_anew(void)
{
	make_csi("vol-1");
	fake_mount_other(PLUGIN_PUBLISH);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK);
	fake_unmount(PLUGIN_PUBLISH);
	fake_mount_other(PLUGIN_PUBLISH);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_CONFLICT);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_BUSY);
	ASSERT_RECORDED("reason=still-published");
	ASSERT_REPLY(unpublish(unpublish_of("vol-2", 0)), MH_CONFLICT);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
}

enum { ANEW_TIMES = 4 };

static void publish_and_mount_anew(void)
{
	make_csi("vol-1");
	for (unsigned int i = 0; i < ANEW_TIMES; i++) {
		if (i > 0)
			fake_unmount(PLUGIN_PUBLISH);
		fake_mount_other(PLUGIN_PUBLISH);
		ASSERT_REPLY(publish(publish_csi("vol-1", (uint8_t)i)), MH_OK);
	}
}

/* However often it does, and whichever publish is left. */
static void mount_anew_again_and_again(void)
{
	for (unsigned int left = 0; left < ANEW_TIMES; left++) {
		new_world(SHARING);
		publish_and_mount_anew();
		for (unsigned int i = 0; i < ANEW_TIMES; i++)
			if (i != left)
				ASSERT_REPLY(unpublish(unpublish_of("vol-1", (uint8_t)i)), MH_OK);
		ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_BUSY);
		ASSERT_RECORDED("reason=still-published");
		assert_true(fake_is_mount(PLUGIN_PUBLISH));
		ASSERT_REPLY(unpublish(unpublish_of("vol-1", (uint8_t)left)), MH_OK);
		ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
	}
}

static void mount_anew_and_unpublish(void)
{
	make_csi("vol-1");
	fake_mount_other(PLUGIN_PUBLISH);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK);
	fake_unmount(PLUGIN_PUBLISH);
	fake_mount_other(PLUGIN_PUBLISH);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
	assert_string_equal(fake_summary(), "dir /srv/publish\ndir /srv/stage\n" PLUG_SUMMARY);
}

TEST_FIXTURE(a_plugin_remount_does_not_hide_earlier_publishes, setup, teardown)
{
	each_kernel(mount_anew);
	each_kernel(mount_anew_and_unpublish);
	each_kernel(mount_anew_again_and_again);
}

TEST_FIXTURE(a_published_csi_volume_is_not_unstaged, setup, teardown)
{
	each_kernel(keep_published_csi);
}

TEST_FIXTURE(files_left_by_a_plugin_are_never_removed, setup, teardown)
{
	static const char *const files[] = {PLUGIN_PUBLISH "/device", PLUGIN_STAGING "/file",
					    PLUGIN_STAGED "/other"};
	struct mh_reply reply;

	for (size_t i = 0; i <= ARRAY_SIZE(files); i++) {
		new_world(SHARING);
		make_csi("vol-1");
		if (i < ARRAY_SIZE(files)) {
			fake_make_file(files[i]);
		} else { /* a device target is a file itself */
			fake_remove(PLUGIN_PUBLISH);
			fake_make_file(PLUGIN_PUBLISH);
		}
		reply = unstage(unstage_csi("vol-1"));
		ASSERT_REPLY(reply, MH_BUSY);
		ASSERT_RECORDED("reason=plugin-target");
		assert_int_equal(reply.sys_errno, i < ARRAY_SIZE(files) ? ENOTEMPTY : ENOTDIR);
		assert_non_null(strstr(fake_summary(), i < ARRAY_SIZE(files) ? files[i] : PLUGIN_PUBLISH));
		assert_int_equal(state_find(helper.state, "vol-1")->stage, STATE_STAGED);
		fake_remove(i < ARRAY_SIZE(files) ? files[i] : PLUGIN_PUBLISH);
		ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
	}
}

TEST_FIXTURE(a_plugins_mount_that_is_in_use_or_stacked_is_reported, setup, teardown)
{
	new_world(SHARING);
	make_csi("vol-1");
	fake_mount_other(PLUGIN_STAGING);
	fake_set_busy(PLUGIN_STAGING, true);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_BUSY);
	ASSERT_RECORDED("reason=in-use");
	fake_set_busy(PLUGIN_STAGING, false);
	fake_mount_inside(PLUGIN_STAGING);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_BUSY);
	ASSERT_RECORDED("reason=submount");
	new_world(SHARING);
	make_csi("vol-1");
	fake_mount_other(PLUGIN_STAGING);
	fake_mount_other(PLUGIN_STAGING);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_CONFLICT);
	ASSERT_RECORDED("reason=stacked");
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
	/* a directory that somebody else owns is nobody's volume */
	fake_make_directory(PLUGIN_STAGED, 1000, 0755);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_CONFLICT);
	ASSERT_RECORDED("reason=foreign-directory");
}

/* statx(2) shows the owner that the mount makes of the helper. */
static void publish_idmapped(void)
{
	int plug, target;

	make_csi("vol-1");
	plug = find_node(find_node(k.base[1].node, ".csi"), "csi.plug");
	target = find_node(find_node(plug, "vol-1"), "rw-publish");
	for (int i = 0; i < 2; i++) {
		attach_at(new_mount(0, plug, i == 0 ? PLAIN_ATTR : SYS_MOUNT_ATTR_IDMAP),
			  (struct position){.node = target});
		ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_CONFLICT);
		ASSERT_RECORDED("step=open reason=other-mount");
		fake_unmount(PLUGIN_PUBLISH);
	}
	fake_mount_other(PLUGIN_PUBLISH);
	fake_set_flags(PLUGIN_PUBLISH, SYS_MOUNT_ATTR_IDMAP); /* of another file system */
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK);
}

TEST_FIXTURE(an_idmapped_mount_of_the_trees_is_never_published, setup, teardown)
{
	each_kernel(publish_idmapped);
}

/* Two volumes on one device, as a plugin or a host volume has them. */
static void share_a_device(void)
{
	make_csi("vol-1");
	make_csi("vol-2");
	fake_make_directory("/mnt/disk", 0, 0755);
	fake_mount_other("/mnt/disk");
	fake_mount_part(PLUGIN_PUBLISH, "/mnt/disk", "one");
	fake_mount_part(PLUG "/vol-2/rw-publish", "/mnt/disk", "two");
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK);
	ASSERT_REPLY(publish(publish_csi("vol-2", 1)), MH_OK);
	ASSERT_REPLY(unpublish(unpublish_of("vol-2", 0)), MH_CONFLICT);
	ASSERT_REPLY(unpublish(unpublish_of("nothing", 0)), MH_CONFLICT);
	ASSERT_REPLY(unpublish(unpublish_of("vol-2", 1)), MH_OK);
	ASSERT_REPLY(unstage(unstage_csi("vol-2")), MH_OK);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_BUSY);
	ASSERT_RECORDED("reason=still-published");
}

TEST_FIXTURE(volumes_of_one_device_are_distinguished_by_their_root, setup, teardown)
{
	each_kernel(share_a_device);
}

/* Two volumes of one host volume show the same directory: the names are all that tells them apart. */
static void share_a_directory(void)
{
	make_csi("vol-1");
	make_csi("vol-2");
	fake_make_directory("/mnt/disk", 0, 0755);
	fake_mount_other("/mnt/disk");
	fake_mount_part(PLUGIN_PUBLISH, "/mnt/disk", "one");
	fake_mount_part(PLUG "/vol-2/rw-publish", "/mnt/disk", "one");
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK);
	ASSERT_REPLY(publish(publish_csi("vol-2", 0)), MH_CONFLICT);
	ASSERT_RECORDED("reason=other-mount");
	ASSERT_REPLY(unpublish(unpublish_of("vol-2", 0)), MH_CONFLICT);
	assert_true(fake_is_mount(SLOT("0")));
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_BUSY);
	ASSERT_REPLY(unstage(unstage_csi("vol-2")), MH_OK);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
	assert_null(strstr(fake_summary(), "/srv/publish/"));
}

TEST_FIXTURE(volumes_of_one_directory_are_distinguished_by_their_name, setup, teardown)
{
	each_kernel(share_a_directory);
}

/* A death between mark and mount; the slot is of that volume until it is unpublished. */
TEST_FIXTURE(a_slot_has_one_mark_whatever_was_left_there, setup, teardown)
{
	new_world(SHARING);
	ASSERT_REPLY(stage(stage_pair()), MH_OK);
	make_csi("vol-1");
	fake_mount_other(PLUGIN_PUBLISH);
	fake_make_directory("/srv/publish/" FIXTURE_ALLOC, FIXTURE_HELPER_UID, 0755);
	fake_make_directory("/srv/publish/" FIXTURE_ALLOC "/.0", FIXTURE_HELPER_UID, 0755);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK); /* nobody's */
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
	fake_make_directory("/srv/publish/" FIXTURE_ALLOC, FIXTURE_HELPER_UID, 0755);
	fake_make_directory("/srv/publish/" FIXTURE_ALLOC "/.0", FIXTURE_HELPER_UID, 0755);
	fake_make_directory("/srv/publish/" FIXTURE_ALLOC "/.0/mem-1", FIXTURE_HELPER_UID, 0755);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_CONFLICT);
	ASSERT_RECORDED("reason=other-mount");
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_ALREADY);
	ASSERT_REPLY(publish(publish_pair(0, 0)), MH_OK);
	ASSERT_REPLY(unpublish(unpublish_of("mem-1", 0)), MH_OK);
	assert_null(strstr(fake_summary(), "/srv/publish/"));
}

static void lose_the_state_file(void)
{
	ASSERT_REPLY(stage(stage_pair()), MH_OK);
	ASSERT_REPLY(publish(publish_pair(0, 0)), MH_OK);
	memset(helper.state, 0, sizeof(*helper.state));
	start_helper(SHARING);
	ASSERT_REPLY(unstage(unstage_of("mem-1")), MH_BUSY);
	ASSERT_RECORDED("reason=still-published");
	ASSERT_REPLY(stage(stage_pair()), MH_ALREADY); /* known again */
	ASSERT_REPLY(unstage(unstage_of("mem-1")), MH_BUSY);
	memset(helper.state, 0, sizeof(*helper.state));
	start_helper(SHARING);
	ASSERT_REPLY(unpublish(unpublish_of("mem-1", 0)), MH_OK);
	ASSERT_REPLY(unstage(unstage_of("mem-1")), MH_OK);
}

/* Only the mounts that a plugin left may be anybody's. */
static void lose_the_state_file_of_a_plugin(void)
{
	make_csi("vol-1");
	fake_mount_other(PLUGIN_PUBLISH);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK);
	memset(helper.state, 0, sizeof(*helper.state));
	start_helper(SHARING);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_CONFLICT);
	ASSERT_RECORDED("reason=source-unknown");
	fake_unmount(PLUGIN_PUBLISH);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
}

TEST_FIXTURE(a_lost_state_file_never_lets_a_published_volume_be_unstaged, setup, teardown)
{
	each_kernel(lose_the_state_file);
	each_kernel(lose_the_state_file_of_a_plugin);
}

/* A volume of a class in the mounts of this boot, and the requests about it. */
struct life {
	struct mh_stage stage;
	struct mh_publish publish;
	struct mh_unstage unstage;
	void (*mount)(void); /* what a plugin mounts itself, or NULL */
	const char *staged;  /* what root may unmount by hand */
};

static void mount_both_targets(void)
{
	fake_make_directory(PLUGIN_PUBLISH, 0, 0750);
	fake_make_directory(PLUGIN_PUBLISH_RO, 0, 0750);
	fake_mount_other(PLUGIN_PUBLISH);
	fake_mount_other(PLUGIN_PUBLISH_RO);
}

static struct life life_of(enum mh_class class)
{
	struct life life = {.stage = stage_pair(),
			    .publish = publish_pair(0, 0),
			    .unstage = unstage_of("mem-1"),
			    .staged = MEMORY};

	if (class == MH_CLASS_TMPFS)
		return life;
	life.unstage = class == MH_CLASS_CSI ? unstage_csi("vol-1") : unstage_of("vol-1");
	(void)str_copy(life.stage.volume, sizeof(life.stage.volume), "vol-1");
	life.publish = publish_csi("vol-1", 0);
	life.publish.source = life.stage.source = (struct mh_source){.class = (uint8_t) class};
	life.staged = PLUGIN_PUBLISH;
	if (class == MH_CLASS_CSI) {
		(void)str_copy(life.stage.profile, sizeof(life.stage.profile), "csi.plug");
		life.mount = mount_both_targets;
		return life;
	}
	(void)str_copy(life.stage.profile, sizeof(life.stage.profile), "host");
	(void)str_copy(life.stage.source.u.bind.name, MH_LABEL_SIZE, "host");
	(void)str_copy(life.publish.profile, sizeof(life.publish.profile), "host");
	life.publish.source = life.stage.source;
	life.staged = STAGED;
	return life;
}

enum { ASK_STAGE, ASK_STAGE_RO, ASK_PUBLISH, ASK_UNPUBLISH, ASK_UNSTAGE, ASK_ROOT, ASK_N };

/* Ask, whatever the answer is; of an UNSTAGE it must not be OK. Slot 0 is published and nobody's business. */
static void ask(const struct life *life, int what)
{
	struct mh_stage s = life->stage;
	const struct mh_publish p = fixture_at_slot(life->publish, 1);
	struct mh_reply reply;

	s.read_only = what == ASK_STAGE_RO;
	if (what == ASK_STAGE || what == ASK_STAGE_RO)
		(void)stage(s);
	else if (what == ASK_PUBLISH)
		(void)publish(p);
	else if (what == ASK_UNPUBLISH)
		(void)unpublish(unpublish_of(s.volume, 1));
	else if (what == ASK_ROOT && fake_is_mount(life->staged))
		fake_unmount(life->staged);
	if (what != ASK_UNSTAGE)
		return;
	reply = unstage(life->unstage);
	if (reply.status == MH_OK || reply.status == MH_ALREADY)
		fail_msg("UNSTAGE under a publish: %u; %s", reply.status, last_record());
}

static const char host_volume[] = SHARING "hostvol host { path = /data/a; owner_uid = 1000 }\n"
					  "hostvol more { path = /data/b; owner_uid = 1000 }\n";

/* A volume that is published, and a table that does not know it: lost, or of another version. */
static struct life publish_and_forget(enum mh_class class, bool is_lost)
{
	struct life life = life_of(class);

	new_world(host_volume);
	fake_make_directory("/data", 0, 0755);
	fake_make_directory("/data/a", 1000, 0755);
	ASSERT_REPLY(stage(life.stage), MH_OK);
	if (life.mount)
		life.mount();
	ASSERT_REPLY(stage(life.stage), life.mount ? MH_OK : MH_ALREADY);
	ASSERT_REPLY(publish(life.publish), MH_OK);
	if (is_lost)
		memset(helper.state, 0, sizeof(*helper.state));
	helper.state->header.version--;
	start_helper(host_volume);
	return life;
}

/* Its file server may never answer, whoever asks it. */
TEST_FIXTURE(a_host_volume_takes_one_of_the_places_of_plugins, setup, teardown)
{
	struct life life = publish_and_forget(MH_CLASS_BIND, false);
	struct mh_stage more = life.stage;
	int64_t place;

	ASSERT_REPLY(stage(life.stage), MH_ALREADY);
	place = fake_place_of_plugin();
	assert_true(place > 0);
	fake_make_directory("/data/b", 1000, 0755);
	(void)str_copy(more.volume, sizeof(more.volume), "vol-2");
	(void)str_copy(more.profile, sizeof(more.profile), "more");
	(void)str_copy(more.source.u.bind.name, MH_LABEL_SIZE, "more");
	ASSERT_REPLY(stage(more), MH_OK);
	assert_int_equal(fake_place_of_plugin(), place); /* all count as one plugin */
	fake_places_of_plugins_taken(true);
	ASSERT_REPLY(stage(life.stage), MH_BUSY);
	ASSERT_REPLY(publish(life.publish), MH_BUSY);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_BUSY);
	ASSERT_REPLY(unstage(life.unstage), MH_BUSY);
	ASSERT_RECORDED("reason=volume-locked");
	ASSERT_REPLY(stage(stage_pair()), MH_OK);
	ASSERT_REPLY(unstage(unstage_of("mem-1")), MH_OK);
	fake_places_of_plugins_taken(false);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
	ASSERT_REPLY(unstage(life.unstage), MH_OK);
}

TEST_FIXTURE(no_pair_of_requests_after_a_lost_table_unstages_a_published_volume, setup, teardown)
{
	static const enum mh_class of[] = {MH_CLASS_TMPFS, MH_CLASS_BIND, MH_CLASS_CSI};

	for (int i = 0; i < 2 * 3 * ASK_N * ASK_N; i++) {
		struct life life = publish_and_forget(of[i % 3], i / 3 % 2 == 1);

		ask(&life, i / 6 % ASK_N);
		ask(&life, i / 6 / ASK_N);
		ask(&life, ASK_UNSTAGE);
		assert_true(fake_is_mount(SLOT("0")));
		ask(&life, ASK_UNPUBLISH);
		ASSERT_REPLY(unpublish(unpublish_of(life.stage.volume, 0)), MH_OK);
		(void)stage(life.stage);
		ASSERT_REPLY(unstage(life.unstage), MH_OK);
	}
}

TEST_FIXTURE(at_the_limit_the_mount_table_decides, setup, teardown)
{
	new_world(SHARING "max_published = 2\n");
	ASSERT_REPLY(stage(stage_pair()), MH_OK);
	helper.state->header.published = 2; /* two deaths between counting and attaching */
	for (uint8_t slot = 0; slot < 2; slot++)
		ASSERT_REPLY(publish(publish_pair(slot, 0)), MH_OK);
	ASSERT_REPLY(publish(publish_pair(2, 0)), MH_LIMIT);
	ASSERT_RECORDED("reason=max-published");
	assert_null(strstr(fake_summary(), slots[2]));
}

TEST_FIXTURE(mounts_of_a_task_over_its_publish_are_no_publishes, setup, teardown)
{
	new_world(SHARING "max_published = 2\n");
	ASSERT_REPLY(stage(stage_pair()), MH_OK);
	ASSERT_REPLY(publish(publish_pair(0, TICKET_PROPAGATION_BIDIRECTIONAL)), MH_OK);
	for (int i = 0; i < 2; i++)
		fake_mount_other(slots[0]);
	helper.state->header.published = 2;
	ASSERT_REPLY(publish(publish_pair(1, 0)), MH_OK);
	helper.state->header.published = 2;
	ASSERT_REPLY(publish(publish_pair(2, 0)), MH_LIMIT);
	ASSERT_RECORDED("reason=max-published");
}

/* A mount that could not be undone still counts. */
TEST_FIXTURE(a_publish_that_may_exist_stays_counted, setup, teardown)
{
	union mh_request req = {.publish = publish_pair(0, 0)};
	union mh_answer answer;

	new_world(SHARING);
	ASSERT_REPLY(stage(stage_pair()), MH_OK);
	helper.state->header.published = 0;
	fake_private_has_no_effect();
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_POSTCONDITION);
	assert_int_equal(helper.state->header.published, 1);
}

struct cost {
	int calls[9], passes;
};

static int calls_of(struct mh_reply reply, enum mh_status want)
{
	int calls = fake_calls();

	ASSERT_REPLY(reply, want);
	fake_fault(FAKE_NO_FAULT, 0, 0);
	return calls;
}

static struct cost live_a_life(int foreign)
{
	struct cost cost = {.passes = 0};
	size_t n = 0;

	new_world(SHARING);
	helper.state->header.published = 0; /* else the first publish looks */
	fake_mount_foreign(foreign);
	cost.calls[n++] = calls_of(stage(fixture_stage()), MH_OK);
	cost.calls[n++] = calls_of(stage(stage_pair()), MH_OK);
	cost.calls[n++] = calls_of(stage(stage_pair()), MH_ALREADY);
	for (int i = 0; i < TICKET_PROPAGATION_N; i++)
		cost.calls[n++] = calls_of(publish(publish_pair((uint8_t)i, i)), MH_OK);
	cost.calls[n++] = calls_of(publish(publish_pair(0, 0)), MH_ALREADY);
	for (int i = 0; i < TICKET_PROPAGATION_N; i++)
		cost.calls[n] += calls_of(unpublish(unpublish_of("mem-1", (uint8_t)i)), MH_OK);
	n++;
	cost.calls[n++] = calls_of(unstage(unstage_of("mem-1")), MH_OK);
	assert_int_equal(n, ARRAY_SIZE(cost.calls));
	cost.passes = fake_table_passes();
	return cost;
}

TEST_FIXTURE(no_request_costs_more_because_others_have_mounts, setup, teardown)
{
	struct cost alone, crowded;

	alone = live_a_life(0);
	crowded = live_a_life(200);
	assert_memory_equal(&alone, &crowded, sizeof(alone));
	assert_int_equal(crowded.passes, 0);
	/* before Linux 6.8 there is no other way to ask for one mount */
	fake_kernel_before_6_8(true);
	assert_true(live_a_life(0).passes > 0);
	fake_kernel_before_6_8(false);
}

TEST_FIXTURE(names_below_the_trees_are_classified, setup, teardown)
{
	static const struct {
		const char *point;
		enum tree_kind kind;
	} rows[] = {
		{"/srv/stage/a", TREE_STAGED},
		{"/srv/stage/.csi/p/a/rw-publish", TREE_STAGED},
		{"/srv/stage/.csi/p/a/ro-publish", TREE_STAGED},
		{"/srv/stage/.csi/p/a/publish", TREE_NONE},
		{"/srv/stage/.csi/p/a/staging", TREE_NONE},
		{"/srv/stage/.csi/p/a/rw-publish/", TREE_NONE},
		{"/srv/stage/.csi/p/a/ro-publish/x", TREE_NONE},
		{"/srv/stage/.csi/p/a/other", TREE_NONE},
		{"/srv/stage/.csi/p/a", TREE_NONE},
		{"/srv/stage/.csi/p/rw-publish", TREE_NONE},
		{"/srv/stage/.csi/p", TREE_NONE},
		{"/srv/stage/.csi", TREE_NONE},
		{"/srv/stage/.csi/P/a/rw-publish", TREE_NONE},
		{"/srv/stage/.csi/p/A/rw-publish", TREE_NONE},
		{"/srv/stage/.csi//a/rw-publish", TREE_NONE},
		{"/srv/stage/csi/p/a/rw-publish", TREE_NONE},
		{"/srv/stage/a/rw-publish", TREE_NONE},
		{"/srv/stage/rw-publish", TREE_STAGED},
		{"/srv/stage/staging", TREE_STAGED},
		{"/srv/stage/a/", TREE_NONE},
		{"/srv/stage/", TREE_NONE},
		{"/srv/stage", TREE_NONE},
		{"/srv/stagea", TREE_NONE},
		{"/srv/stage/A", TREE_NONE},
		{"/srv/publish/" FIXTURE_ALLOC "/0", TREE_PUBLISHED},
		{"/srv/publish/" FIXTURE_ALLOC "/31", TREE_PUBLISHED},
		{"/srv/publish/" FIXTURE_ALLOC "/32", TREE_NONE},
		{"/srv/publish/" FIXTURE_ALLOC "/0/rw-publish", TREE_NONE},
		{"/srv/publish/" FIXTURE_ALLOC "/", TREE_NONE},
		{"/srv/publish/" FIXTURE_ALLOC, TREE_NONE},
		{"/srv/publish/a/0", TREE_NONE},
		{"/mnt/srv/stage/a", TREE_NONE},
	};
	struct tree_name name;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (tree_classify(helper.agent, rows[i].point, &name) != rows[i].kind)
			fail_msg("%s", rows[i].point);
	assert_int_equal(tree_classify(helper.agent, "/srv/stage/a", &name), TREE_STAGED);
	assert_string_equal(name.volume, "a");
	assert_string_equal(name.plugin, "");
	assert_string_equal(name.alloc, "");
	assert_int_equal(tree_classify(helper.agent, "/srv/stage/.csi/p/a/rw-publish", &name), TREE_STAGED);
	assert_string_equal(name.volume, "a");
	assert_string_equal(name.plugin, "p");
	assert_int_equal(tree_classify(helper.agent, SLOT("31"), &name), TREE_PUBLISHED);
	assert_string_equal(name.volume, "");
	assert_string_equal(name.alloc, FIXTURE_ALLOC);
	assert_int_equal(name.slot, 31);
}

/* mount_facts() by both ways. */
static void ask_for_facts(void)
{
	cleanup_place struct place whole = PLACE_INIT;
	cleanup_place struct place part = PLACE_INIT;
	struct mount_facts w = {.peer_group = 0};
	struct mount_facts p = {.peer_group = 0};

	fake_make_directory("/srv/stage/one", FIXTURE_HELPER_UID, 0755);
	fake_make_directory("/srv/stage/two", FIXTURE_HELPER_UID, 0755);
	fake_mount_other("/srv/stage/one");
	fake_mount_part("/srv/stage/two", "/srv/stage/one", "sub");
	fake_mount_inside("/srv/stage/one");
	fake_set_private("/srv/stage/two");
	assert_int_equal(place_open(helper.stage.fd, "one", &whole), 0);
	assert_int_equal(place_open(helper.stage.fd, "two", &part), 0);
	assert_int_equal(mount_facts(&helper.mountinfo, &whole, &w), 0);
	assert_int_equal(mount_facts(&helper.mountinfo, &part, &p), 0);
	assert_true(w.root_is_whole);
	assert_int_equal(mount_has_submounts(&helper.mountinfo, &whole), 1);
	assert_true(w.peer_group != 0);
	assert_false(p.root_is_whole);
	assert_int_equal(mount_has_submounts(&helper.mountinfo, &part), 0);
	assert_true(p.peer_group == 0 && p.master == 0);
	assert_true(w.parent == helper.stage.mount_id && p.parent == w.parent);
	part.mount_id += 1000;
	assert_int_equal(mount_facts(&helper.mountinfo, &part, &p), -ENOENT);
}

TEST_FIXTURE(facts_of_one_mount_are_the_same_by_both_ways, setup, teardown)
{
	each_kernel(ask_for_facts);
}

TEST_FIXTURE(lists_include_stages_one_level_deeper, setup, teardown)
{
	union mh_request req = {.list = {.header = {.op = MH_OP_LIST, .length = sizeof(req.list), .seq = 3}}};
	union mh_answer answer;

	new_world(SHARING);
	make_csi("vol-1");
	fake_mount_other(PLUGIN_STAGING);
	fake_mount_other(PLUGIN_PUBLISH);
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	assert_int_equal(answer.list.count, 1);
	assert_string_equal(answer.list.entries[0].volume, "vol-1");
	assert_int_equal(answer.list.entries[0].state & MH_STATE_STAGED, MH_STATE_STAGED);
}

/* A plugin makes directories and mounts in its own folder under the name of a volume of another plugin. */
TEST_FIXTURE(a_plugin_neither_hides_nor_shows_a_volume_of_another_one, setup, teardown)
{
	union mh_request req = {.list = {.header = {.op = MH_OP_LIST, .length = sizeof(req.list), .seq = 3}}};
	struct mh_unstage other = unstage_csi("vol-1");
	union mh_answer answer;

	new_world(SHARING "profile evil { class = csi }\n");
	make_csi("vol-1");
	fake_make_directory("/srv/stage/.csi/evil", FIXTURE_HELPER_UID, 0755);
	fake_make_directory("/srv/stage/.csi/evil/vol-1", 0, 0755);
	fake_make_directory("/srv/stage/.csi/evil/vol-1/rw-publish", 0, 0755);
	fake_mount_other("/srv/stage/.csi/evil/vol-1/rw-publish");
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	assert_int_equal(answer.list.count, 0);
	assert_int_equal(look_csi("vol-1", "csi.plug").state, MH_STATE_PREPARED);
	assert_int_equal(look("vol-1", "", 0).status, MH_NOT_FOUND);
	(void)str_copy(other.profile, sizeof(other.profile), "evil");
	ASSERT_REPLY(unstage(other), MH_CONFLICT);
	ASSERT_REPLY(unstage(unstage_of("vol-1")), MH_CONFLICT);
	ASSERT_RECORDED("reason=staged-profile");
	assert_int_equal(helper.state->header.staged, 1);
	fake_mount_other(PLUGIN_PUBLISH);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK);
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	assert_int_equal(answer.list.count, 1);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 0)), MH_OK);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
	assert_true(fake_is_mount("/srv/stage/.csi/evil/vol-1/rw-publish"));
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	assert_int_equal(answer.list.count, 0);
}

TEST_FIXTURE(a_mount_of_a_plugin_under_an_unknown_name_is_listed_as_such, setup, teardown)
{
	union mh_request req = {.list = {.header = {.op = MH_OP_LIST, .length = sizeof(req.list), .seq = 3}}};
	union mh_answer answer;

	new_world(SHARING);
	make_csi("vol-1");
	fake_mount_other(PLUGIN_PUBLISH);
	ASSERT_REPLY(publish(publish_csi("vol-1", 0)), MH_OK);
	fake_make_directory(PLUG "/vol-9", 0, 0755);
	fake_make_directory(PLUG "/vol-9/rw-publish", 0, 0755);
	fake_mount_other(PLUG "/vol-9/rw-publish");
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	assert_int_equal(answer.list.count, 2);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal((answer.list.entries[i].state & MH_STATE_UNCOUNTED) != 0,
				 str_eq(answer.list.entries[i].volume, "vol-9"));
}

/* What is not the helper's own is entered by none of its operations. */
TEST_FIXTURE(a_folder_of_a_plugin_that_is_no_longer_the_helpers_own_is_not_entered, setup, teardown)
{
	for (int i = 0; i < 3; i++) {
		struct mh_stage req = stage_pair();

		new_world(SHARING);
		(void)str_copy(req.profile, sizeof(req.profile), "csi.plug");
		req.source = (struct mh_source){.class = MH_CLASS_CSI};
		fake_make_directory("/srv/stage/.csi", i == 0 ? 0 : FIXTURE_HELPER_UID, 0755);
		fake_make_directory(PLUG, i == 1 ? 0 : FIXTURE_HELPER_UID, 0755);
		if (i == 2)
			fake_mount_other(PLUG);
		ASSERT_REPLY(stage(req), MH_CONFLICT);
		ASSERT_RECORDED("reason=foreign-directory");
		ASSERT_REPLY(publish(publish_csi("mem-1", 0)), MH_CONFLICT);
		ASSERT_REPLY(unstage(unstage_csi("mem-1")), MH_CONFLICT);
		ASSERT_RECORDED("reason=foreign-directory");
		/* nobody knows whether a plugin was there */
		assert_int_equal(look_csi("mem-1", "csi.plug").state, MH_STATE_PREPARED);
	}
}
