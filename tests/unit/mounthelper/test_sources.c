/* SPDX-License-Identifier: Apache-2.0 */
/* STAGE of every class of volume before the model of the kernel: what each finds, refuses, mounts and knows
 * again. */
#include "fake_model.h"
#include "trees.h"
#include "workbench.h"

#include "base/sys.h"

enum { OWNER = 1000, OWN_PROFILES = 7 };

static const uint64_t inert =
	SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC | SYS_MOUNT_ATTR_NOSYMFOLLOW;

/* Beside the fixture's profiles one of each class that it lacks, which tests may change. */
static struct profile *mine;
enum { HOSTVOL, HOSTVOL_SHARED, NFS, PLUGIN, PLUGIN_SHARED, OTHER_PLUGIN, LABELLED };

static const struct profile templates[OWN_PROFILES] = {
	[HOSTVOL] = {.name = "data",
		     .class = MH_CLASS_BIND,
		     .kind = FS_ANY,
		     .path = "/data/a/vol",
		     .owner_uid = OWNER},
	[HOSTVOL_SHARED] = {.name = "shared",
			    .class = MH_CLASS_BIND,
			    .kind = FS_ANY,
			    .path = "/data/a/vol",
			    .owner_uid = OWNER,
			    .shared = true},
	[NFS] = {.name = "filer",
		 .class = MH_CLASS_NFS4,
		 .kind = FS_NFS4,
		 .n_servers = 2,
		 .server = {{.family = 4, .addr = {10, 1}, .prefix_bits = 16},
			    {.family = 6, .addr = {0xfd, 1}, .prefix_bits = 16}},
		 .n_exports = 1,
		 .export = {"/srv"}},
	[PLUGIN] = {.name = "csi.plug", .class = MH_CLASS_CSI, .kind = FS_ANY},
	[PLUGIN_SHARED] = {.name = "spreading", .class = MH_CLASS_CSI, .kind = FS_ANY, .shared = true},
	[OTHER_PLUGIN] = {.name = "other", .class = MH_CLASS_CSI, .kind = FS_ANY},
	[LABELLED] = {.name = "labelled",
		      .class = MH_CLASS_TMPFS,
		      .kind = FS_TMPFS,
		      .max_size = 1 << 20,
		      .max_inodes = 100,
		      .selinux_context = "system_u:object_r:holdfast_volume_t:s0"},
};

static void use_policy(void)
{
	mine = &policy.profiles[policy.n_profiles];
	memcpy(mine, templates, sizeof(templates));
	policy.n_profiles += OWN_PROFILES;
	policy.agents[0].n_profiles += OWN_PROFILES;
	policy.agents[0].nfs_timeout_s = 30;
}

static void begin(void)
{
	new_world("");
	use_policy();
	fake_make_directory("/data", 0, 0755);
	fake_make_directory("/data/a", 0, 0755);
	fake_make_directory("/data/a/vol", OWNER, 0700);
}

static int begin_test(void **state)
{
	(void)setup(state);
	begin();
	return 0;
}

static struct mh_stage request(int profile)
{
	const struct profile *p = &mine[profile];
	struct mh_stage req = fixture_stage();

	req.source = (struct mh_source){.class = (uint8_t)p->class};
	(void)str_copy(req.profile, sizeof(req.profile), p->name);
	if (p->class == MH_CLASS_BIND)
		(void)str_copy(req.source.u.bind.name, MH_LABEL_SIZE, p->name);
	if (p->class == MH_CLASS_NFS4) {
		req.source.u.nfs4.family = 4;
		memcpy(req.source.u.nfs4.addr, (uint8_t[4]){10, 1, 2, 3}, 4);
		(void)str_copy(req.source.u.nfs4.export, MH_EXPORT_SIZE, "/srv/a");
	}
	if (p->class == MH_CLASS_TMPFS)
		req.source.u.tmpfs.size_bytes = req.source.u.tmpfs.inodes = 100;
	fixture_grant_stage(&req);
	return req;
}

static struct mh_reply stage_of(int profile)
{
	return stage(request(profile));
}

static struct mh_reply stage_read_only(int profile)
{
	struct mh_stage req = request(profile);

	req.read_only = 1;
	return stage(req);
}

static const char *remembered_profile(void)
{
	const struct state_slot *slot = state_find(helper.state, "vol-1");

	return slot && slot->stage == STATE_STAGED ? slot->profile : "";
}

/* bind */

TEST_FIXTURE(a_host_volume_is_a_clone_with_the_floor_flags, begin_test, teardown)
{
	struct mh_reply reply = stage_of(HOSTVOL);

	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_STAGED);
	assert_int_equal(fake_flags(STAGED), inert);
	assert_null(strstr(fake_summary(), "shared"));
	assert_string_equal(remembered_profile(), "data");
	ASSERT_REPLY(stage_of(HOSTVOL), MH_ALREADY);
	ASSERT_REPLY(stage_read_only(HOSTVOL), MH_CONFLICT);
	ASSERT_RECORDED("reason=other-mount");
	begin();
	reply = stage_read_only(HOSTVOL);
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_STAGED | MH_STATE_READ_ONLY);
	assert_int_equal(fake_flags(STAGED), inert | SYS_MOUNT_ATTR_RDONLY);
}

TEST_FIXTURE(another_directory_of_the_same_device_is_another_volume, begin_test, teardown)
{
	ASSERT_REPLY(stage_of(HOSTVOL), MH_OK);
	fake_make_directory("/data/a/vol2", OWNER, 0700);
	(void)str_copy(mine[HOSTVOL].path, MH_PATH_SIZE, "/data/a/vol2");
	ASSERT_REPLY(stage_of(HOSTVOL), MH_CONFLICT);
	ASSERT_RECORDED("reason=other-mount");
}

TEST_FIXTURE(a_shared_host_volume_stays_a_peer_of_its_host_directory, begin_test, teardown)
{
	struct mh_reply reply;

	reply = stage_of(HOSTVOL_SHARED);
	ASSERT_REPLY(reply, MH_OK);
	for (int i = 1; i < MOUNTS; i++)
		if (k.mounts[i].used)
			assert_int_equal(k.mounts[i].group, k.mounts[0].group);
	assert_non_null(strstr(fake_summary(), "shared"));
	ASSERT_REPLY(stage_of(HOSTVOL_SHARED), MH_ALREADY);
	begin();
	ASSERT_REPLY(stage_of(HOSTVOL), MH_OK);
	assert_null(strstr(fake_summary(), "shared"));
}

TEST_FIXTURE(a_master_of_the_host_directory_does_not_matter, begin_test, teardown)
{
	k.mounts[0].master = 99;
	ASSERT_REPLY(stage_of(HOSTVOL_SHARED), MH_OK);
	ASSERT_REPLY(stage_of(HOSTVOL_SHARED), MH_ALREADY);
	assert_string_equal(fake_propagation(STAGED), " shared slave");
	begin();
	k.mounts[0].master = 99;
	ASSERT_REPLY(stage_of(HOSTVOL), MH_OK);
	assert_string_equal(fake_propagation(STAGED), "");
}

static void refused_host_path(const char *what)
{
	struct mh_reply reply = stage_of(HOSTVOL);

	if (reply.status != MH_REFUSED || reply.reason != REASON_HOST_PATH ||
	    !strstr(last_record(), "reason=host-path"))
		fail_msg("%s: status %u, %s", what, reply.status, last_record());
	assert_false(fake_is_mount(STAGED));
	begin();
}

TEST_FIXTURE(a_host_path_that_others_can_change_is_refused, begin_test, teardown)
{
	fake_make_directory("/data/a", OWNER, 0755);
	refused_host_path("an ancestor that is not root's");
	fake_make_directory("/data/a", 0, 0775);
	refused_host_path("an ancestor that a group can write");
	fake_make_directory("/data", 0, 0757);
	refused_host_path("an ancestor that everybody can write");
	fake_make_directory("/data", 0, 01777);
	refused_host_path("a sticky ancestor");
	fake_make_directory("/data/a/vol", OWNER + 1, 0700);
	refused_host_path("another owner");
	mine[HOSTVOL].owner_uid = 0;
	refused_host_path("another owner than root");
	fake_make_file("/data/a/file");
	(void)str_copy(mine[HOSTVOL].path, MH_PATH_SIZE, "/data/a/file");
	refused_host_path("no directory");
	fake_make_file("/data/a/file");
	(void)str_copy(mine[HOSTVOL].path, MH_PATH_SIZE, "/data/a/file/vol");
	refused_host_path("no directory on the way");
	fake_mount_other("/data/a/vol");
	fake_set_flags("/data/a/vol", SYS_MOUNT_ATTR_RDONLY);
	mine[HOSTVOL].owner_uid = 0;
	refused_host_path("writable on a read-only mount");
	(void)str_copy(mine[HOSTVOL].path, MH_PATH_SIZE, "/data/nothing");
	ASSERT_REPLY(stage_of(HOSTVOL), MH_KERNEL);
	ASSERT_RECORDED("errno=2 step=source");
}

TEST_FIXTURE(files_hidden_by_a_mount_below_a_host_volume_stay_hidden, begin_test, teardown)
{
	fake_make_directory("/data/a/vol/sub/deep", 0, 0755);
	fake_make_directory("/data/a/vol2", 0, 0755);
	fake_mount_other("/data/a/vol2"); /* a neighbour's does not matter */
	ASSERT_REPLY(stage_of(HOSTVOL), MH_OK);
	begin();
	fake_make_directory("/data/a/vol/sub/deep", 0, 0755);
	fake_mount_other("/data/a/vol/sub/deep");
	ASSERT_REPLY(stage_of(HOSTVOL), MH_CONFLICT);
	ASSERT_RECORDED("step=source reason=submount");
	assert_false(fake_is_mount(STAGED));
	begin();
	(void)str_copy(mine[HOSTVOL].path, MH_PATH_SIZE, "/");
	mine[HOSTVOL].owner_uid = 0;
	ASSERT_REPLY(stage_of(HOSTVOL), MH_KERNEL); /* it contains the trees, so no policy has it */
	fake_mount_other("/mnt");
	ASSERT_REPLY(stage_of(HOSTVOL), MH_CONFLICT); /* everything is below it */
}

static struct mh_publish publish_host_volume(void)
{
	const struct mh_stage staged = request(HOSTVOL);
	struct mh_publish p = fixture_publish();

	(void)str_copy(p.profile, sizeof(p.profile), mine[HOSTVOL].name);
	fixture_grant_publish(&p, &staged.source);
	return p;
}

/* The host volume is a bound directory. */
static struct mh_reply stage_part(int node)
{
	int a = find_node(find_node(k.systems[0].root, "data"), "a");
	struct mh_reply reply;

	attach_at(new_mount(k.nodes[node].fs, node, PLAIN_ATTR),
		  (struct position){.node = find_node(a, "vol")});
	mine[HOSTVOL].owner_uid = k.nodes[node].uid;
	reply = stage_of(HOSTVOL);
	fake_unmount("/data/a/vol");
	return reply;
}

static void stage_parts(void)
{
	int srv, base;

	begin();
	srv = find_node(k.systems[0].root, "srv");
	base = find_node(srv, "stage");
	for (int i = 0; i < 4; i++) {
		const int nodes[] = {k.systems[0].root, srv, base,
				     find_node(base, "made") >= 0
					     ? find_node(base, "made")
					     : new_node(base, 0, "made", OWNER, S_IFDIR | 0755)};

		ASSERT_REPLY(stage_part(nodes[i]), MH_CONFLICT); /* above, the tree itself, in it */
		ASSERT_RECORDED("step=source reason=other-mount");
	}
	/* the helper's uid does not matter */
	ASSERT_REPLY(stage_part(new_node(srv, 0, "stage2", FIXTURE_HELPER_UID, S_IFDIR | 0755)), MH_OK);
	/* nor where the mounts are: a host volume beside the trees */
	begin();
	ASSERT_REPLY(stage_of(HOSTVOL), MH_OK);
	ASSERT_REPLY(stage_of(HOSTVOL), MH_ALREADY);
	ASSERT_REPLY(publish(publish_host_volume()), MH_OK);
}

TEST_FIXTURE(a_host_path_that_shows_the_trees_by_another_name_is_a_conflict, begin_test, teardown)
{
	for (int old = 0; old < 2; old++) {
		fake_kernel_before_6_8(old != 0);
		stage_parts();
	}
	fake_kernel_before_6_8(false);
}

/* A tree of the helper's is mounted in a folder that is bound from a disk. */
TEST_FIXTURE(a_host_path_above_the_mount_point_of_a_tree_is_a_conflict, begin_test, teardown)
{
	int disk = new_system("ext4", "disk", 8, 1);
	int root = k.systems[disk].root, app = new_node(root, disk, "app", 0, S_IFDIR | 0755);
	int tree = new_node(app, disk, "tree", 0, S_IFDIR | 0755);
	uint32_t n = helper.n_own;

	fake_make_directory("/bound", 0, 0755);
	attach_at(new_mount(disk, app, PLAIN_ATTR),
		  (struct position){.node = find_node(k.systems[0].root, "bound")});
	attach_at(new_mount(new_system("tmpfs", "tree", 0, 50), k.systems[disk + 1].root, PLAIN_ATTR),
		  (struct position){
			  .mount = mount_at((struct position){.node = find_node(k.systems[0].root, "bound")}),
			  .node = tree});
	assert_int_equal(own_find(&helper, helper.root_fd, "/bound/tree", false), 1);
	assert_int_equal(own_find(&helper, helper.root_fd, "/bound/tree", true), 3);
	assert_string_equal(helper.own[n], "/0:50");
	assert_string_equal(helper.own[n + 1], "/8:1/app/tree");
	assert_string_equal(helper.own[n + 2], "/0:30/bound");
	helper.n_own += 3;
	ASSERT_REPLY(stage_part(root), MH_CONFLICT);
	ASSERT_REPLY(stage_part(app), MH_CONFLICT);
	ASSERT_REPLY(stage_part(new_node(root, disk, "ap", 0, S_IFDIR | 0755)), MH_OK);
}

TEST_FIXTURE(a_host_path_of_unknown_whereabouts_is_refused, begin_test, teardown)
{
	int disk, errno_of_stage = 0;

	assert_true(own_is_shown(&helper, "")); /* a mount of which the kernel shows no root */
	assert_int_equal(own_find(&helper, FAKE_DEV_FD, "/disk", true), -EXDEV); /* "/" is no mount */
	helper.n_own = OWN_MAX; /* more than a start leaves */
	assert_int_equal(own_find(&helper, helper.root_fd, "/data", true), -ENAMETOOLONG);
	assert_int_equal(own_find(&helper, helper.root_fd, "/data", false), -ENAMETOOLONG);
	/* nor of the mount that it is in */
	for (int call = 1; call < 100 && errno_of_stage != ENAMETOOLONG; call++) {
		begin();
		fake_fault(FAKE_FAIL, call, EOVERFLOW);
		errno_of_stage = stage_of(HOSTVOL).sys_errno;
		assert_true(fake_fault_fired());
	}
	/* but NFS, whose paths the kernel never shows: a root on it does not matter */
	begin();
	disk = new_system("nfs4", "disk", 0, 51);
	(void)str_copy(helper.own[helper.n_own++], OWN_SIZE, "/0:51");
	ASSERT_REPLY(stage_part(k.systems[disk].root), MH_OK);
}

/* A start fails if it has more places than serving can compare. */
TEST_FIXTURE(a_start_leaves_room_for_the_place_of_a_host_volume, begin_test, teardown)
{
	int n;

	while ((n = own_find(&helper, helper.root_fd, "/srv/stage", true)) > 0)
		helper.n_own += (uint32_t)n;
	assert_int_equal(n, -ENAMETOOLONG);
	ASSERT_REPLY(stage_of(HOSTVOL), MH_OK);
	ASSERT_REPLY(publish(publish_host_volume()), MH_OK);
}

TEST_FIXTURE(a_host_volume_is_looked_at_again_when_it_is_published, begin_test, teardown)
{
	fake_make_directory("/data/a/vol/sub/deep", 0, 0755);
	ASSERT_REPLY(stage_of(HOSTVOL), MH_OK);
	fake_mount_other("/data/a/vol/sub/deep");
	ASSERT_REPLY(publish(publish_host_volume()), MH_CONFLICT);
	ASSERT_RECORDED("step=source reason=submount");
	fake_unmount("/data/a/vol/sub/deep");
	fake_mount_other("/data/a/vol"); /* another directory exists there */
	mine[HOSTVOL].owner_uid = 0;
	ASSERT_REPLY(publish(publish_host_volume()), MH_CONFLICT);
	ASSERT_RECORDED("step=source reason=other-mount");
	fake_unmount("/data/a/vol");
	ASSERT_REPLY(publish(publish_host_volume()), MH_REFUSED);
	ASSERT_RECORDED("reason=host-path");
	mine[HOSTVOL].owner_uid = OWNER;
	ASSERT_REPLY(publish(publish_host_volume()), MH_OK);
}

static void publish_with_other_owners(void)
{
	int a, vol;

	begin();
	a = find_node(find_node(k.systems[0].root, "data"), "a");
	vol = find_node(a, "vol");
	ASSERT_REPLY(stage_of(HOSTVOL), MH_OK);
	attach_at(new_mount(0, vol, SYS_MOUNT_ATTR_IDMAP), (struct position){.node = vol});
	mine[HOSTVOL].owner_uid = MAPPED_UID;
	ASSERT_REPLY(publish(publish_host_volume()), MH_CONFLICT);
	ASSERT_RECORDED("step=source reason=other-mount");
	ASSERT_REPLY(stage_of(HOSTVOL), MH_CONFLICT);
	ASSERT_RECORDED("reason=other-mount");
	ASSERT_REPLY(unstage(unstage_of("vol-1")), MH_OK);
	ASSERT_REPLY(stage_of(HOSTVOL), MH_OK);
	ASSERT_REPLY(stage_of(HOSTVOL), MH_ALREADY);
	ASSERT_REPLY(publish(publish_host_volume()), MH_OK);
	ASSERT_REPLY(publish(publish_host_volume()), MH_ALREADY);
	mine[HOSTVOL].owner_uid = OWNER;
}

TEST_FIXTURE(a_host_volume_is_published_with_the_owners_that_its_path_shows, begin_test, teardown)
{
	for (int old = 0; old < 2; old++) {
		fake_kernel_before_6_8(old != 0);
		publish_with_other_owners();
	}
	fake_kernel_before_6_8(false);
}

TEST_FIXTURE(a_host_volume_that_needs_a_mount_is_refused_without_one, begin_test, teardown)
{
	mine[HOSTVOL].needs_mount = true;
	ASSERT_REPLY(stage_of(HOSTVOL), MH_REFUSED);
	ASSERT_RECORDED("step=source reason=not-mounted");
	assert_false(fake_is_mount(STAGED));
	mine[HOSTVOL].owner_uid = 0;
	fake_mount_other("/data/a/vol");
	ASSERT_REPLY(stage_of(HOSTVOL), MH_OK);
	fake_unmount("/data/a/vol");
	ASSERT_REPLY(publish(publish_host_volume()), MH_REFUSED);
	ASSERT_RECORDED("step=source reason=not-mounted");
}

TEST_FIXTURE(a_host_volume_with_a_uuid_is_refused_without_its_disk, begin_test, teardown)
{
	mine[HOSTVOL].n_by_id = 1;
	(void)str_copy(mine[HOSTVOL].by_id[0].text, MH_BY_ID_SIZE, FIXTURE_UUID);
	mine[HOSTVOL].owner_uid = 0;
	fake_mount_other("/data/a/vol");
	ASSERT_REPLY(stage_of(HOSTVOL), MH_REFUSED);
	ASSERT_RECORDED("step=source reason=not-mounted");
	fake_unmount("/data/a/vol");
	fake_mount_device("/data/a/vol");
	fake_set_device(FIXTURE_MAJOR, FIXTURE_MINOR + 1, true); /* the disk with the UUID is another one */
	ASSERT_REPLY(stage_of(HOSTVOL), MH_REFUSED);
	ASSERT_RECORDED("step=source reason=not-mounted");
	fake_set_device(FIXTURE_MAJOR + 1, FIXTURE_MINOR, true);
	ASSERT_REPLY(stage_of(HOSTVOL), MH_REFUSED);
	fake_set_device(FIXTURE_MAJOR, FIXTURE_MINOR, true);
	ASSERT_REPLY(stage_of(HOSTVOL), MH_OK);
}

TEST_FIXTURE(a_host_volume_is_asked_for_by_its_own_name, begin_test, teardown)
{
	struct mh_stage req = request(HOSTVOL);

	(void)str_copy(req.source.u.bind.name, MH_LABEL_SIZE, "shared");
	fixture_grant_stage(&req);
	ASSERT_REPLY(stage(req), MH_REFUSED);
	ASSERT_RECORDED("reason=hostvol-mismatch");
}

/* nfs4 */

TEST_FIXTURE(nfs_options_are_exactly_these, begin_test, teardown)
{
	struct mh_stage req = request(NFS);

	ASSERT_REPLY(stage(req), MH_OK);
	assert_string_equal(fake_options(), "source=10.1.2.3:/srv/a;hard;nosharecache;vers=4.2;addr=10.1.2.3;"
					    "proto=tcp;sec=sys;");
	assert_int_equal(fake_flags(STAGED), inert);
	begin();
	req.source.u.nfs4.family = 6;
	memcpy(req.source.u.nfs4.addr, (uint8_t[16]){0xfd, 1, [15] = 9}, 16);
	req.read_only = 1;
	fixture_grant_stage(&req);
	mine[NFS].sec = 3;
	mine[NFS].vers = 1;
	(void)str_copy(mine[NFS].selinux_context, POLICY_CONTEXT_SIZE, "u:r:t:s0");
	ASSERT_REPLY(stage(req), MH_OK);
	assert_string_equal(fake_options(),
			    "source=[fd01::9]:/srv/a;ro;softerr;timeo=100;retrans=2;nosharecache;"
			    "context=u:r:t:s0;vers=4.1;addr=fd01::9;proto=tcp6;sec=krb5p;");
	assert_int_equal(fake_flags(STAGED), inert | SYS_MOUNT_ATTR_RDONLY);
}

TEST_FIXTURE(an_export_is_known_again_by_server_and_path, begin_test, teardown)
{
	struct mh_stage req = request(NFS);

	ASSERT_REPLY(stage(req), MH_OK);
	ASSERT_REPLY(stage(req), MH_ALREADY);
	(void)str_copy(req.source.u.nfs4.export, MH_EXPORT_SIZE, "/srv/b");
	fixture_grant_stage(&req);
	ASSERT_REPLY(stage(req), MH_CONFLICT);
	ASSERT_RECORDED("reason=other-mount");
	req = request(NFS);
	req.source.u.nfs4.addr[3]++;
	fixture_grant_stage(&req);
	ASSERT_REPLY(stage(req), MH_CONFLICT);
	ASSERT_RECORDED("reason=other-mount");
}

/* Mounts of one file system of a server, made with the same options, are of one device. */
TEST_FIXTURE(another_export_of_the_same_device_is_another_volume, begin_test, teardown)
{
	struct mh_stage req = request(NFS);
	int fs;

	ASSERT_REPLY(stage(req), MH_OK);
	fs = new_system("nfs4", "10.1.2.3:/srv/b", 0, k.next_anonymous - 1);
	fake_make_directory("/srv/stage/vol-2", FIXTURE_HELPER_UID, 0755);
	attach_at(new_mount(fs, k.systems[fs].root, fake_flags(STAGED)),
		  (struct position){.mount = 0, .node = find_node(k.base[1].node, "vol-2")});
	(void)str_copy(req.source.u.nfs4.export, MH_EXPORT_SIZE, "/srv/b");
	fixture_grant_stage(&req);
	ASSERT_REPLY(stage(req), MH_CONFLICT);
	ASSERT_RECORDED("reason=other-mount");
	ASSERT_REPLY(stage_of(NFS), MH_ALREADY);
}

/* The model asserts that the alarm is set whenever a server is asked, and run() that it is taken back. */
TEST_FIXTURE(no_operation_waits_for_a_server_without_an_alarm, begin_test, teardown)
{
	struct mh_publish p = fixture_publish();
	struct mh_stage req = request(NFS);

	(void)str_copy(p.profile, sizeof(p.profile), mine[NFS].name);
	fixture_grant_publish(&p, &req.source);
	ASSERT_REPLY(stage(req), MH_OK);
	ASSERT_REPLY(publish(p), MH_OK);
	ASSERT_REPLY(publish(p), MH_ALREADY);
	ASSERT_REPLY(look("vol-1", "", 0), MH_OK);
	ASSERT_REPLY(look("", FIXTURE_ALLOC, p.slot), MH_OK);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_BUSY);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
}

/* A request may name one volume and meet another: the slot holds what a server has. */
TEST_FIXTURE(a_wrong_name_does_not_keep_the_alarm_away, begin_test, teardown)
{
	struct mh_publish p = fixture_publish();
	struct mh_unpublish u = unpublish_of("nowhere", p.slot);
	struct mh_stage req = request(NFS);
	struct mh_stage as_block = fixture_stage();

	(void)str_copy(p.profile, sizeof(p.profile), mine[NFS].name);
	fixture_grant_publish(&p, &req.source);
	ASSERT_REPLY(stage(req), MH_OK);
	ASSERT_REPLY(publish(p), MH_OK);
	ASSERT_REPLY(stage(as_block), MH_CONFLICT);
	ASSERT_REPLY(unpublish(u), MH_CONFLICT);
}

/* csi */

static int plugins_target(void)
{
	int plug = find_node(find_node(k.base[1].node, MH_CSI_FOLDER), "csi.plug");

	return find_node(find_node(plug, "vol-1"), MH_CSI_PUBLISH_RW);
}

/* A plugin's mount may be of a server too, or of a daemon of its own. */
TEST_FIXTURE(a_plugins_server_is_not_waited_for_without_an_alarm, begin_test, teardown)
{
	struct mh_publish p = fixture_publish();
	struct mh_stage req = request(PLUGIN);
	int fs;

	mine[NFS].class = MH_CLASS_TMPFS; /* no profile says nfs4 */
	ASSERT_REPLY(stage(req), MH_OK);
	fake_make_directory(PLUGIN_PUBLISH, 0, 0750);
	fs = new_system("nfs4", "10.9.9.9:/plugin", 0, k.next_anonymous++);
	attach_at(new_mount(fs, k.systems[fs].root, PLAIN_ATTR),
		  (struct position){.mount = 0, .node = plugins_target()});
	ASSERT_REPLY(stage(req), MH_OK);
	(void)str_copy(p.profile, sizeof(p.profile), mine[PLUGIN].name);
	fixture_grant_publish(&p, &req.source);
	ASSERT_REPLY(publish(p), MH_OK);
	ASSERT_REPLY(look_csi("vol-1", "csi.plug"), MH_OK);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
}

#define TARGET PLUGIN_PUBLISH

static void plugin_mounts(void)
{
	fake_make_directory(TARGET, 0, 0750);
	fake_mount_other(TARGET);
}

TEST_FIXTURE(a_plugin_finds_its_folders_and_its_mount_is_found, begin_test, teardown)
{
	struct mh_reply reply = stage_of(PLUGIN);

	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_PREPARED);
	assert_string_equal(fake_summary(), "dir /srv/publish\ndir /srv/stage\n" PLUG_SUMMARY
					    "dir " PLUGIN_STAGED "\ndir " PLUGIN_STAGING "\n");
	assert_string_equal(remembered_profile(), "");
	reply = stage_of(PLUGIN);
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_PREPARED);
	fake_make_directory(TARGET, 0, 0750); /* the plugin's, not yet mounted on */
	reply = stage_of(PLUGIN);
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_PREPARED);
	fake_mount_other(TARGET);
	fake_mount_other(PLUGIN_STAGING);
	reply = stage_of(PLUGIN);
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state & (MH_STATE_STAGED | MH_STATE_PREPARED), MH_STATE_STAGED);
	assert_string_equal(remembered_profile(), "csi.plug");
	ASSERT_REPLY(stage_of(PLUGIN), MH_ALREADY);
	/* the floor is the publish's: the plugin's own mount is left as it is */
	assert_int_equal(fake_flags(TARGET), SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV);
	/* a helper that knows nothing of it says so */
	start_helper("");
	use_policy();
	memset(helper.state->slot, 0, sizeof(helper.state->slot));
	ASSERT_REPLY(stage_of(PLUGIN), MH_OK);
	ASSERT_REPLY(stage_of(PLUGIN), MH_ALREADY);
	fake_unmount(TARGET); /* the plugin took it back */
	reply = stage_of(PLUGIN);
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_PREPARED);
	assert_string_equal(remembered_profile(), "");
}

TEST_FIXTURE(a_volume_is_staged_for_the_use_that_is_asked_for, begin_test, teardown)
{
	struct mh_reply reply;

	ASSERT_REPLY(stage_of(PLUGIN), MH_OK);
	plugin_mounts();
	reply = stage_read_only(PLUGIN);
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_PREPARED);
	reply = stage_of(PLUGIN);
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state & (MH_STATE_STAGED | MH_STATE_PREPARED), MH_STATE_STAGED);
	fake_make_directory(PLUGIN_PUBLISH_RO, 0, 0750);
	fake_mount_other(PLUGIN_PUBLISH_RO);
	reply = stage_read_only(PLUGIN);
	ASSERT_REPLY(reply, MH_ALREADY);
	assert_int_equal(reply.state & (MH_STATE_STAGED | MH_STATE_PREPARED), MH_STATE_STAGED);
	assert_int_equal(helper.state->header.staged, 1);
}

/* The model asserts that statfs(2) asks no type that the helper does not know. Returns the plugin's file
 * system. */
static int stage_a_daemon(const struct mh_stage *req)
{
	int fs;

	ASSERT_REPLY(stage(*req), MH_OK);
	fake_make_directory(TARGET, 0, 0750);
	fs = new_system("fuse.daemon", "daemon", 0, k.next_anonymous++);
	attach_at(new_mount(fs, k.systems[fs].root, PLAIN_ATTR),
		  (struct position){.mount = 0, .node = plugins_target()});
	ASSERT_REPLY(stage(*req), MH_OK);
	ASSERT_REPLY(stage(*req), MH_ALREADY);
	return fs;
}

static struct mh_publish publish_a_daemon(const struct mh_stage *req)
{
	struct mh_publish p = fixture_publish();
	struct mh_reply reply;

	(void)str_copy(p.profile, sizeof(p.profile), mine[PLUGIN].name);
	fixture_grant_publish(&p, &req->source);
	reply = publish(p);
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state & (MH_STATE_READ_ONLY | MH_STATE_EXEC), 0);
	ASSERT_REPLY(publish(p), MH_ALREADY);
	fake_set_flags(PUBLISHED, inert);
	ASSERT_REPLY(publish(p), MH_CONFLICT);
	return p;
}

/* @refusal of a publish for writing once its file system is read-only. */
static void live_with_a_daemon(const char *refusal)
{
	const struct mh_stage req = request(PLUGIN);
	int fs = stage_a_daemon(&req);
	struct mh_publish p = publish_a_daemon(&req);

	ASSERT_REPLY(look_csi("vol-1", "csi.plug"), MH_OK);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	k.systems[fs].ro = true;
	ASSERT_REPLY(publish(p), MH_REFUSED);
	ASSERT_RECORDED(refusal);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
}

TEST_FIXTURE(a_daemon_behind_a_plugins_mount_is_asked_nothing, begin_test, teardown)
{
	live_with_a_daemon("reason=writes-stopped");
	fake_kernel_before_6_8(true);
	begin();
	live_with_a_daemon("reason=staged-read-only");
	fake_kernel_before_6_8(false);
}

static struct mh_publish publish_of_plugin(const struct mh_stage *req)
{
	struct mh_publish p = fixture_publish();

	(void)str_copy(p.profile, sizeof(p.profile), mine[PLUGIN].name);
	fixture_grant_publish(&p, &req->source);
	return p;
}

/* STAGE leaves it to PUBLISH, which has to look anyway. */
TEST_FIXTURE(a_plugins_mount_with_others_below_is_a_conflict, begin_test, teardown)
{
	struct mh_stage req = request(PLUGIN);

	ASSERT_REPLY(stage(req), MH_OK);
	plugin_mounts();
	fake_mount_inside(TARGET);
	ASSERT_REPLY(stage(req), MH_OK);
	ASSERT_REPLY(publish(publish_of_plugin(&req)), MH_CONFLICT);
	ASSERT_RECORDED("reason=submount");
}

static void look_for_a_device(void)
{
	struct mh_reply reply;

	begin();
	ASSERT_REPLY(stage_of(PLUGIN), MH_OK);
	fake_make_file(TARGET);
	fake_bind_device(TARGET, "devtmpfs");
	reply = stage_of(PLUGIN);
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_PREPARED | MH_STATE_DEVICE);
	assert_int_equal(reply.dev_major, FIXTURE_MAJOR);
	assert_int_equal(reply.dev_minor, FIXTURE_MINOR);
	reply = stage_read_only(PLUGIN); /* that use has another target */
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_PREPARED);
	assert_int_equal(reply.dev_major, 0);
	fake_set_device(FIXTURE_MAJOR, FIXTURE_MINOR, false); /* a plain file of /dev */
	assert_int_equal(stage_of(PLUGIN).state, MH_STATE_PREPARED);
	begin();
	ASSERT_REPLY(stage_of(PLUGIN), MH_OK);
	fake_make_file(TARGET);
	fake_bind_device(TARGET, "tmpfs"); /* a device file that anybody may have made */
	assert_int_equal(stage_of(PLUGIN).state, MH_STATE_PREPARED);
}

TEST_FIXTURE(a_device_that_a_plugin_has_bound_is_reported, begin_test, teardown)
{
	look_for_a_device();
	fake_kernel_before_6_8(true);
	look_for_a_device();
	fake_kernel_before_6_8(false);
}

/* mount --move: a mount that is older than the one that it stands below. */
TEST_FIXTURE(an_older_mount_that_a_plugin_moved_below_its_own_is_found, begin_test, teardown)
{
	struct mh_stage req = request(PLUGIN);
	struct position inside;
	int moved, fs;

	fake_mount_device("/mnt");
	for (moved = MOUNTS - 1; !k.mounts[moved].used; moved--)
		;
	ASSERT_REPLY(stage(req), MH_OK);
	plugin_mounts();
	ASSERT_REPLY(stage(req), MH_OK);
	for (inside.mount = MOUNTS - 1; !k.mounts[inside.mount].used; inside.mount--)
		;
	fs = k.mounts[inside.mount].fs;
	inside.node = new_node(root_of(inside.mount).node, fs, "sub", 0, S_IFDIR | 0755);
	assert_true(k.mounts[moved].id < k.mounts[inside.mount].id);
	k.mounts[moved].at_mount = inside.mount;
	k.mounts[moved].at_node = inside.node;
	ASSERT_REPLY(publish(publish_of_plugin(&req)), MH_CONFLICT);
	ASSERT_RECORDED("reason=submount");
}

static int walks_of_a_publish(struct mh_publish p)
{
	int calls;

	fake_fault_in(FAKE_NO_FAULT, "listmount", 0);
	ASSERT_REPLY(publish(p), MH_OK);
	calls = fake_calls();
	fake_fault(FAKE_NO_FAULT, 0, 0);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	return calls;
}

TEST_FIXTURE(an_unused_mount_causes_no_scan_of_all_mounts, begin_test, teardown)
{
	struct mh_stage req = request(PLUGIN);

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	assert_int_equal(walks_of_a_publish(fixture_publish()), 0);
	fake_set_busy(STAGED, true);
	assert_int_equal(walks_of_a_publish(fixture_publish()), 1);
	begin();
	ASSERT_REPLY(stage(req), MH_OK);
	plugin_mounts();
	ASSERT_REPLY(stage(req), MH_OK);
	assert_int_equal(walks_of_a_publish(publish_of_plugin(&req)), 0);
	fake_set_busy(TARGET, true);
	assert_int_equal(walks_of_a_publish(publish_of_plugin(&req)), 1);
}

/* By a helper that died, or by anybody who was about to unmount it. */
TEST_FIXTURE(a_mount_that_is_marked_as_expired_is_published_and_stays, begin_test, teardown)
{
	struct mh_stage req = request(PLUGIN);

	ASSERT_REPLY(stage(req), MH_OK);
	plugin_mounts();
	ASSERT_REPLY(stage(req), MH_OK);
	fake_mark_expired(TARGET);
	ASSERT_REPLY(publish(publish_of_plugin(&req)), MH_OK);
	fake_mark_expired(TARGET);
	ASSERT_REPLY(publish(publish_of_plugin(&req)), MH_ALREADY);
	assert_true(fake_is_mount(TARGET));
}

#define SPREADING "/srv/stage/.csi/spreading/vol-1/" MH_CSI_PUBLISH_RW

TEST_FIXTURE(a_plugins_mount_belongs_to_a_peer_group_where_publishes_need_one, begin_test, teardown)
{
	ASSERT_REPLY(stage_of(PLUGIN_SHARED), MH_OK);
	fake_make_directory(SPREADING, 0, 0750);
	fake_mount_other(SPREADING);
	fake_set_shared(SPREADING);
	ASSERT_REPLY(stage_of(PLUGIN_SHARED), MH_OK);
	begin();
	ASSERT_REPLY(stage_of(PLUGIN), MH_OK);
	plugin_mounts();
	fake_set_shared(TARGET);
	ASSERT_REPLY(stage_of(PLUGIN), MH_OK);
	assert_non_null(strstr(fake_summary(), "shared"));
}

static void make_plug(void)
{
	fake_make_directory("/srv/stage/.csi", FIXTURE_HELPER_UID, 0755);
	fake_make_directory(PLUG, FIXTURE_HELPER_UID, 0755);
}

TEST_FIXTURE(an_obstacle_to_a_plugin_is_a_conflict_and_stays, begin_test, teardown)
{
	struct mh_reply reply;

	make_plug();
	fake_make_directory(PLUGIN_STAGED, 0, 0755);
	ASSERT_REPLY(stage_of(PLUGIN), MH_CONFLICT);
	ASSERT_RECORDED("reason=foreign-directory");
	begin();
	make_plug();
	fake_make_directory(PLUGIN_STAGED, FIXTURE_HELPER_UID, 0755);
	fake_make_directory(PLUGIN_STAGING, 0, 0755);
	ASSERT_REPLY(stage_of(PLUGIN), MH_CONFLICT);
	ASSERT_RECORDED("reason=foreign-directory");
	begin();
	make_plug();
	fake_make_directory(PLUGIN_STAGED, FIXTURE_HELPER_UID, 0755);
	fake_mount_other(PLUGIN_STAGED);
	ASSERT_REPLY(stage_of(PLUGIN), MH_CONFLICT);
	assert_true(fake_is_mount(PLUGIN_STAGED));
	begin();
	ASSERT_REPLY(stage_of(PLUGIN), MH_OK);
	fake_make_file(TARGET); /* a device for a block attachment: nothing that we could publish */
	reply = stage_of(PLUGIN);
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_PREPARED);
}

TEST_FIXTURE(a_volume_of_one_profile_is_not_staged_as_one_of_another, begin_test, teardown)
{
	ASSERT_REPLY(stage_of(PLUGIN), MH_OK);
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	ASSERT_RECORDED("reason=staged-profile");
	plugin_mounts();
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	ASSERT_REPLY(stage_of(PLUGIN), MH_OK);
	ASSERT_REPLY(stage_of(OTHER_PLUGIN), MH_CONFLICT);
	ASSERT_RECORDED("reason=staged-profile");
	assert_string_equal(remembered_profile(), "csi.plug");
	begin();
	ASSERT_REPLY(stage_of(HOSTVOL), MH_OK);
	ASSERT_REPLY(stage_of(HOSTVOL_SHARED), MH_CONFLICT);
	ASSERT_RECORDED("reason=staged-profile");
	assert_null(strstr(fake_summary(), "shared")); /* nothing was changed before that was seen */
}

static void expect_another_storage(struct mh_stage req)
{
	ASSERT_REPLY(stage(req), MH_CONFLICT);
	ASSERT_RECORDED("step=state reason=ticket-source");
}

/* The name of a volume that was deleted and created anew. */
TEST_FIXTURE(a_plugins_mount_is_of_one_storage_until_it_is_unstaged, begin_test, teardown)
{
	struct mh_stage req = request(PLUGIN);
	struct mh_stage other = req;

	other.source.u.csi.volume[0] ^= 1;
	fixture_grant_stage(&other);
	ASSERT_REPLY(stage(req), MH_OK);
	expect_another_storage(other);
	plugin_mounts();
	expect_another_storage(other);
	ASSERT_REPLY(stage(req), MH_OK);
	expect_another_storage(other);
	other.read_only = 1;
	expect_another_storage(other);
	ASSERT_REPLY(publish(publish_of_plugin(&req)), MH_OK);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	ASSERT_REPLY(unstage(unstage_csi("vol-1")), MH_OK);
	ASSERT_REPLY(stage(other), MH_OK);
}

TEST_FIXTURE(without_its_state_the_helper_takes_a_plugins_mount_as_asked_for, begin_test, teardown)
{
	struct mh_stage other = request(PLUGIN);

	ASSERT_REPLY(stage(other), MH_OK);
	plugin_mounts();
	memset(helper.state->slot, 0, sizeof(helper.state->slot));
	other.source.u.csi.volume[0] ^= 1;
	fixture_grant_stage(&other);
	ASSERT_REPLY(stage(other), MH_OK);
	expect_another_storage(request(PLUGIN));
}

TEST_FIXTURE(a_prepared_volume_counts_and_one_too_many_leaves_nothing, begin_test, teardown)
{
	policy.agents[0].max_staged = 1;
	ASSERT_REPLY(stage(fixture_stage_tmpfs()), MH_OK);
	ASSERT_REPLY(stage_of(PLUGIN), MH_LIMIT);
	ASSERT_RECORDED("reason=max-staged");
	assert_null(strstr(fake_summary(), "vol-1"));
	policy.agents[0].max_staged = 2;
	ASSERT_REPLY(stage_of(PLUGIN), MH_OK);
	assert_int_equal(helper.state->header.staged, 2);
	ASSERT_REPLY(stage_of(PLUGIN), MH_OK);
	assert_int_equal(helper.state->header.staged, 2);
}

/* All */

TEST_FIXTURE(a_mount_without_one_of_the_floor_flags_is_another_one, begin_test, teardown)
{
	static const uint64_t floor[] = {SYS_MOUNT_ATTR_NOSUID, SYS_MOUNT_ATTR_NODEV, SYS_MOUNT_ATTR_NOEXEC,
					 SYS_MOUNT_ATTR_NOSYMFOLLOW, SYS_MOUNT_ATTR_RDONLY};

	for (size_t i = 0; i < ARRAY_SIZE(floor); i++) {
		begin();
		ASSERT_REPLY(stage_read_only(HOSTVOL), MH_OK);
		fake_set_flags(STAGED, (inert | SYS_MOUNT_ATTR_RDONLY) & ~floor[i]);
		ASSERT_REPLY(stage_read_only(HOSTVOL), MH_CONFLICT);
		ASSERT_RECORDED("reason=other-mount");
		fake_set_flags(STAGED, inert | SYS_MOUNT_ATTR_RDONLY);
		ASSERT_REPLY(stage_read_only(HOSTVOL), MH_ALREADY);
	}
}

TEST_FIXTURE(a_part_of_the_device_is_another_volume, begin_test, teardown)
{
	fake_mount_device("/mnt");
	fake_make_directory(STAGED, FIXTURE_HELPER_UID, 0755);
	fake_mount_part(STAGED, "/mnt", "part");
	fake_set_flags(STAGED, inert);
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	ASSERT_RECORDED("step=open reason=other-mount");
}

TEST_FIXTURE(another_file_system_on_the_same_device_is_another_volume, begin_test, teardown)
{
	struct profile *db = &policy.profiles[0];

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	assert_string_equal(db->name, "db");
	db->kind = FS_XFS;
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	ASSERT_RECORDED("reason=other-mount");
}

static struct mh_stage image_request(void)
{
	struct mh_stage req = fixture_stage();

	(void)str_copy(req.profile, sizeof(req.profile), "image");
	req.read_only = 1;
	fixture_grant_stage(&req);
	return req;
}

static struct profile *use_image(enum fs_kind kind, enum trust trust)
{
	struct profile *image = &policy.profiles[2];

	begin();
	assert_string_equal(image->name, "image");
	image->kind = kind;
	image->trust = trust;
	return image;
}

TEST_FIXTURE(an_untrusted_erofs_is_refused_on_a_too_old_kernel, begin_test, teardown)
{
	struct profile *image = use_image(FS_EROFS, TRUST_UNTRUSTED);
	struct mh_reply reply;

	fake_no_create_excl();
	reply = stage(image_request());
	ASSERT_REPLY(reply, MH_REFUSED);
	ASSERT_RECORDED("step=create reason=kernel-too-old");
	assert_int_equal(reply.policy_line, image->line);
	assert_false(k.opened_devices_of_image);
	assert_false(fake_is_mount(STAGED));
	assert_int_equal(helper.state->header.staged, 0);
	(void)use_image(FS_EROFS, TRUST_UNTRUSTED);
	ASSERT_REPLY(stage(image_request()), MH_OK);
	assert_false(k.opened_devices_of_image);
}

TEST_FIXTURE(an_older_kernel_reads_a_trusted_erofs_and_any_squashfs, begin_test, teardown)
{
	(void)use_image(FS_EROFS, TRUST_TRUSTED);
	fake_no_create_excl();
	ASSERT_REPLY(stage(image_request()), MH_OK);
	assert_true(k.opened_devices_of_image); /* which the operator answers for */
	(void)use_image(FS_SQUASHFS, TRUST_UNTRUSTED);
	fake_no_create_excl();
	ASSERT_REPLY(stage(image_request()), MH_OK);
}

/* The table is made anew when its format changes; the mounts stand. */
TEST_FIXTURE(mounts_older_than_the_state_table_are_checked_before_unstage, begin_test, teardown)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	memset(helper.state, 0, sizeof(*helper.state));
	start_helper("");
	ASSERT_REPLY(stage(fixture_stage()), MH_ALREADY);
	assert_int_equal(helper.state->header.staged, 1);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_BUSY);
	ASSERT_RECORDED("reason=still-published");
}

TEST_FIXTURE(the_policys_label_is_the_context_option, begin_test, teardown)
{
	ASSERT_REPLY(stage_of(LABELLED), MH_OK);
	assert_string_equal(fake_options(),
			    "source=holdfast:vol-1;mode=1777;context=system_u:object_r:holdfast_volume_t:s0;"
			    "size=4096;nr_inodes=100;");
}

TEST_FIXTURE(a_type_that_the_kernel_lacks_is_unavailable, begin_test, teardown)
{
	helper.type_available[FS_NFS4] = false;
	ASSERT_REPLY(stage_of(NFS), MH_UNAVAILABLE);
	ASSERT_RECORDED("reason=type-unavailable");
	memset(helper.type_available, 0, sizeof(helper.type_available));
	ASSERT_REPLY(stage_of(HOSTVOL), MH_OK); /* needs none */
}

/* Whatever happens, nothing crosses between the host's directory and a private volume. */
static void assert_is_no_peer_of_the_host(void)
{
	for (int i = 1; i < MOUNTS; i++)
		if (k.mounts[i].used)
			assert_int_not_equal(k.mounts[i].group, k.mounts[0].group);
}

/* Fail every call, die before and after every call: the same request again leads to the same end, and nothing
 * but a finished mount is ever seen. */
TEST_FIXTURE(every_class_survives_every_fault, begin_test, teardown)
{
	static const enum fake_fault faults[] = {FAKE_FAIL, FAKE_KILL_BEFORE, FAKE_KILL_AFTER};
	static const int profiles[] = {HOSTVOL, HOSTVOL_SHARED, NFS, PLUGIN};
	static char end[4096];

	for (volatile size_t i = 0; i < 3 * ARRAY_SIZE(profiles); i++) {
		const int profile = profiles[i / 3];

		begin();
		ASSERT_REPLY(stage_of(profile), MH_OK);
		(void)str_copy(end, sizeof(end), fake_summary());
		for (volatile int call = 1;; call++) {
			volatile bool fired = true;

			begin();
			fake_fault(faults[i % 3], call, EIO);
			if (setjmp(fake_killed) == 0) {
				(void)stage_of(profile);
				fired = fake_fault_fired();
			}
			fake_process_died();
			if (profile == HOSTVOL)
				assert_is_no_peer_of_the_host();
			start_helper("");
			use_policy();
			(void)stage_of(profile);
			assert_msg(str_eq(fake_summary(), end), "profile %d, fault %d, call %d: %s", profile,
				   (int)(i % 3), call, last_record());
			if (!fired)
				break;
		}
	}
}
