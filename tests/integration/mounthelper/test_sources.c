/* SPDX-License-Identifier: Apache-2.0 */
/* STAGE of real file systems, host directories and a plugin's mount, through the real helper. */
#include "volume.h"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>

enum { LOOP_MAJOR = 7, CONTROL_MAJOR = 10, CONTROL_MINOR = 237, FUSE_MINOR = 229, ATTEMPTS = 100 };

#define IMAGES TEST_PREFIX "/images"
#define TREE TEST_PREFIX "/tree"
#define BY_HAND TEST_PREFIX "/by-hand"
#define HOST TEST_PREFIX "/host"
#define TARGET PLUGIN_STAGED "/" MH_CSI_PUBLISH_RW
#define TARGET_RO PLUGIN_STAGED "/" MH_CSI_PUBLISH_RO

#define UUID "0e7a1c3b-5d29-4f68-8a0b-2c4d6e8f1a35"

static const char policy[] =
	"\tprofile ext4 { class = block; fstype = ext4; trust = trusted; exec = yes; by_id = source-\n"
	"\t\toptions = discard,data-journal,noatime }\n"
	"\tprofile plain { class = block; fstype = ext4; trust = trusted; by_id = source- }\n"
	"\tprofile xfs { class = block; fstype = xfs; trust = trusted; by_id = source-; options = nouuid }\n"
	"\tprofile erofs { class = block; fstype = erofs; trust = untrusted; ro = yes; by_id = source- }\n"
	"\tprofile ours { class = block; fstype = erofs; trust = trusted; ro = yes; by_id = source- }\n"
	"\tprofile squashfs { class = block; fstype = squashfs; trust = untrusted; ro = yes\n"
	"\t\tby_id = source- }\n"
	"\thostvol data { path = " HOST "/data; owner_uid = 64104; exec = yes }\n"
	"\thostvol spread { path = " HOST "/data; owner_uid = 64104; shared = yes }\n"
	"\thostvol helpers { path = " HOST "/data; owner_uid = 64102 }\n"
	"\thostvol roots { path = " HOST "/data; owner_uid = 0 }\n"
	"\thostvol mounted { path = " HOST "/data; owner_uid = 64104; mount = required }\n"
	"\thostvol marked { path = " HOST "/data; owner_uid = 64104; mount = required; uuid = " UUID " }\n"
	"\thostvol frozen { path = " HOST "/data; owner_uid = 64104; ro = yes }\n"
	"\tprofile plugin { class = csi; exec = yes }\n";

static struct agent agent;

static void must(bool ok, const char *what)
{
	if (!ok)
		fail_msg("%s: %s", what, strerror(errno));
}

#define MUST(expression) must((expression) >= 0, #expression)
#define RUN(...) assert_int_equal(run_program((const char *const[]){__VA_ARGS__, NULL}), 0)

/* Media */

static int loop_fd = -1;
static unsigned int loop_minor;
static bool is_write_protected; /* the next medium */

static void eject(void)
{
	if (loop_fd >= 0)
		(void)close(loop_fd); /* it was the last user */
	loop_fd = -1;
	(void)unlink("/dev/disk/by-id/source-1");
}

/* Put a free loop device on @image, which goes with its last user. */
static int attach_loop(const char *image, bool read_only, unsigned int *ret_minor)
{
	struct loop_config config = {.info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int fd = open(image, O_RDWR | O_CLOEXEC);
	int loop = -1;
	char node[32];

	MUST(control);
	MUST(fd);
	config.fd = (uint32_t)fd;
	config.info.lo_flags |= read_only ? LO_FLAGS_READ_ONLY : 0;
	for (int i = 0; i < ATTEMPTS && loop < 0; i++) {
		int n = ioctl(control, LOOP_CTL_GET_FREE);

		MUST(n);
		*ret_minor = (unsigned int)n;
		(void)str_format(node, sizeof(node), "/dev/loop%d", n);
		(void)mknod(node, S_IFBLK | 0660, makedev(LOOP_MAJOR, *ret_minor));
		loop = open(node, O_RDWR | O_CLOEXEC);
		if (ioctl(loop, LOOP_CONFIGURE, &config) == 0)
			break;
		(void)close(loop); /* somebody else on this machine was faster */
		loop = -1;
	}
	must(loop >= 0, "take a loop device");
	(void)close(control);
	(void)close(fd);
	return loop;
}

/* Make @image the only medium. */
static void insert(const char *image)
{
	char link[32];

	eject();
	loop_fd = attach_loop(image, is_write_protected, &loop_minor);
	(void)str_format(link, sizeof(link), "../../loop%u", loop_minor);
	MUST(symlink(link, "/dev/disk/by-id/source-1"));
}

static void make_empty(const char *image, off_t size)
{
	int fd = open(image, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	MUST(fd);
	MUST(ftruncate(fd, size));
	(void)close(fd);
}

static void mount_by_hand(const char *type, const char *options)
{
	char node[32];

	(void)str_format(node, sizeof(node), "/dev/loop%u", loop_minor);
	MUST(mount(node, BY_HAND, type, strstr(options, "ro") ? MS_RDONLY : 0, NULL));
}

static void write_file(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	MUST(fd);
	assert_int_equal(write(fd, "text\n", 5), 5);
	(void)close(fd);
}

/* Copy the medium as it is while somebody writes to it: its log has to be replayed. */
static void make_dirty(const char *image, const char *type, const char *dirty)
{
	int fd;

	insert(image);
	mount_by_hand(type, "");
	write_file(BY_HAND "/file");
	fd = open(BY_HAND, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(syncfs(fd));
	(void)close(fd);
	RUN("/bin/cp", "--sparse=always", image, dirty);
	MUST(umount(BY_HAND));
	eject();
}

static bool is_unchanged(const char *image, const char *copy)
{
	return run_program((const char *const[]){"/usr/bin/cmp", "-s", image, copy, NULL}) == 0;
}

/* Requests */

static struct mh_source medium(void)
{
	return (struct mh_source){.class = MH_CLASS_BLOCK,
				  .u.block = {.by_id = "source-1", .major = LOOP_MAJOR, .minor = loop_minor}};
}

static struct mh_source hostvol(const char *name)
{
	struct mh_source source = {.class = MH_CLASS_BIND};

	(void)str_copy(source.u.bind.name, sizeof(source.u.bind.name), name);
	return source;
}

static struct mh_source plugin(void)
{
	return (struct mh_source){.class = MH_CLASS_CSI};
}

/* The machine */

static int group_up(void **state)
{
	MUST(world_up(state));
	world_policy("required", policy);
	MUST(mknod("/dev/loop-control", S_IFCHR | 0600, makedev(CONTROL_MAJOR, CONTROL_MINOR)));
	MUST(mkdir(IMAGES, 0700));
	MUST(mkdir(TREE, 0755));
	MUST(mkdir(BY_HAND, 0755));
	MUST(mkdir(HOST, 0755));
	MUST(mount("host", HOST, "tmpfs", 0, "mode=0755"));
	write_file(TREE "/hello");
	MUST(symlink("hello", TREE "/link"));
	return 0;
}

static int start(void **state)
{
	agent_up(&agent);
	(void)mkdir(HOST "/data", 0755);
	return chown(HOST "/data", TASK_UID, TASK_UID);
}

static int stop(void **state)
{
	static const char *const points[] = {PUBLISHED, STAGED, TARGET, TARGET_RO, HOST "/data/sub", BY_HAND};

	is_write_protected = false;
	(void)agent_stop(&agent);
	for (size_t i = 0; i < ARRAY_SIZE(points); i++)
		(void)umount2(points[i], MNT_DETACH);
	(void)unlink(TARGET);
	(void)rmdir(TARGET);
	(void)rmdir(TARGET_RO);
	(void)rmdir(PLUGIN_STAGED "/" MH_CSI_STAGING);
	(void)rmdir(PLUGIN_STAGED);
	(void)rmdir(STAGED);
	(void)unlink(HOST "/data");
	(void)chmod(HOST, 0755);
	eject();
	return count_mounts();
}

/* block */

TEST_FIXTURE(ext4_is_staged_with_its_options_whatever_its_superblock_says, start, stop)
{
	static const char image[] = IMAGES "/ext4";
	struct mount_entry entry;

	make_empty(image, 16 << 20);
	RUN("/sbin/mkfs.ext4", "-q", "-F", "-E", "root_owner=64104:64104", image);
	RUN("/sbin/debugfs", "-w", "-R", "set_super_value errors 3", image);
	insert(image);
	expect_stage(&agent, stage_of("ext4", medium(), false), MH_OK);
	assert_inert("rw,noatime");
	entry = shown(STAGED);
	assert_string_equal(entry.type, "ext4");
	assert_words(entry.super_options, "rw,errors=remount-ro,data=journal,discard", "errors=panic");
	expect_stage(&agent, stage_of("ext4", medium(), false), MH_ALREADY);
	expect_stage(&agent, stage_of("ext4", medium(), true), MH_CONFLICT);
	expect_publish(&agent, publish_of("ext4", medium(), false), MH_OK);
	assert_int_equal(task_writes(PUBLISHED "/kept"), 0);
	take_away(&agent);
	/* options for writing are left out: the kernel would refuse them without a journal */
	expect_stage(&agent, stage_of("ext4", medium(), true), MH_OK);
	assert_inert("ro,noatime");
	entry = shown(STAGED);
	assert_words(entry.super_options, "ro,errors=remount-ro,norecovery", "errors=panic,data=journal");
	expect_publish(&agent, publish_of("ext4", medium(), true), MH_OK);
	assert_int_equal(access(PUBLISHED "/kept", F_OK), 0);
	assert_int_equal(task_writes(PUBLISHED "/more"), EROFS);
	take_away(&agent);
}

/* Makes an ext4 whose journal is on another device. Returns a descriptor of that one. */
static int make_with_journal_elsewhere(const char *image, unsigned int *ret_minor)
{
	static const char journal[] = IMAGES "/journal";
	char device[64];
	int fd;

	make_empty(image, 16 << 20);
	make_empty(journal, 16 << 20);
	RUN("/sbin/mke2fs", "-q", "-F", "-O", "journal_dev", "-b", "4096", journal);
	fd = attach_loop(journal, false, ret_minor);
	(void)str_format(device, sizeof(device), "device=/dev/loop%u", *ret_minor);
	RUN("/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-J", device, image);
	return fd;
}

TEST_FIXTURE(an_ext4_with_its_journal_on_another_device_is_refused, start, stop)
{
	static const char image[] = IMAGES "/ext4";
	unsigned int minor;
	int fd = make_with_journal_elsewhere(image, &minor);

	insert(image);
	expect_stage(&agent, stage_of("plain", medium(), false), MH_REFUSED);
	assert_last_record("step=create reason=journal-elsewhere");
	assert_int_equal(count_mounts(), 0);
	/* which root may still do: it is what is refused here, not a broken medium */
	mount_by_hand("ext4", "");
	MUST(umount(BY_HAND));
	expect_stage(&agent, stage_of("plain", medium(), true), MH_OK);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	(void)close(fd);
}

/* tune2fs -E mount_opts=: the kernel applies these after those of the mount where a journal's device is
 * concerned. */
TEST_FIXTURE(an_ext4_that_names_the_device_of_its_journal_by_an_option_is_refused, start, stop)
{
	static const char image[] = IMAGES "/ext4";
	static const char *const options[] = {"journal_path=/dev/loop",
					      "journal_dev=", "commit=5,journal_path=/dev/loop"};

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		unsigned int minor;
		int fd = make_with_journal_elsewhere(image, &minor);
		unsigned int number = i == 1 ? LOOP_MAJOR << 8 | minor : minor;
		char set[128];
		char node[32];
		int claim;

		(void)str_format(set, sizeof(set), "set_super_value mount_opts %s%u", options[i], number);
		RUN("/sbin/debugfs", "-w", "-R", set, image);
		insert(image);
		expect_stage(&agent, stage_of("plain", medium(), false), MH_REFUSED);
		assert_last_record("step=create reason=journal-elsewhere");
		assert_int_equal(count_mounts(), 0);
		(void)str_format(node, sizeof(node), "/dev/loop%u", minor);
		claim = open(node, O_RDWR | O_EXCL | O_CLOEXEC);
		must(claim >= 0, "the kernel has let go of the journal's device");
		(void)close(claim);
		(void)close(fd);
		eject();
	}
}

TEST_FIXTURE(an_ext4_without_a_journal_is_staged, start, stop)
{
	static const char image[] = IMAGES "/ext4";

	make_empty(image, 16 << 20);
	RUN("/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", image);
	insert(image);
	expect_stage(&agent, stage_of("plain", medium(), false), MH_OK);
	assert_inert("rw");
	assert_words(shown(STAGED).super_options, "rw", "commit=6");
	expect_stage(&agent, stage_of("plain", medium(), false), MH_ALREADY);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
}

TEST_FIXTURE(an_xfs_with_its_log_or_its_files_on_another_device_is_not_mounted, start, stop)
{
	static const char image[] = IMAGES "/xfs";
	static const char other[] = IMAGES "/xfs.other";
	static const char *const options[] = {"-l", "-r"};

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		char device[64];
		unsigned int minor;
		int fd;

		make_empty(image, 320 << 20);
		make_empty(other, 320 << 20);
		fd = attach_loop(other, false, &minor);
		(void)str_format(device, sizeof(device), "%sdev=/dev/loop%u", i == 0 ? "log" : "rt", minor);
		RUN("/sbin/mkfs.xfs", "-q", "-f", options[i], device, image);
		insert(image);
		expect_stage(&agent, stage_of("xfs", medium(), false), MH_KERNEL);
		assert_last_record("step=create");
		expect_stage(&agent, stage_of("xfs", medium(), true), MH_KERNEL);
		assert_int_equal(count_mounts(), 0);
		(void)close(fd);
	}
}

static const char before[] = IMAGES "/before";

/* Stage @image read-only, look around, and take it away: not one byte is another. */
static void read_without_a_trace(const char *image, const char *profile)
{
	RUN("/bin/cp", "--sparse=always", image, before);
	insert(image);
	expect_stage(&agent, stage_of(profile, medium(), true), MH_OK);
	expect_publish(&agent, publish_of(profile, medium(), true), MH_OK);
	RUN("/bin/sh", "-c", "ls -lR " PUBLISHED " >" IMAGES "/list");
	take_away(&agent);
	eject();
	assert_true(is_unchanged(image, before));
}

/* What mount -o ro alone does, or this test would prove nothing. */
static void plain_read_only_leaves_traces(const char *image, const char *type)
{
	insert(image);
	mount_by_hand(type, "ro");
	MUST(umount(BY_HAND));
	eject();
	assert_false(is_unchanged(image, before));
}

TEST_FIXTURE(a_read_only_stage_does_not_replay_the_journal_of_ext4, start, stop)
{
	static const char image[] = IMAGES "/ext4";
	static const char dirty[] = IMAGES "/ext4.dirty";

	make_empty(image, 16 << 20);
	RUN("/sbin/mkfs.ext4", "-q", "-F", image);
	make_dirty(image, "ext4", dirty);
	read_without_a_trace(dirty, "ext4");
	plain_read_only_leaves_traces(dirty, "ext4");
	read_without_a_trace(image, "ext4");
}

/* A file that is open and deleted is on the medium's list of orphans, once the journal is written out. Not
 * even noload keeps the kernel from deleting it, but a read-only device does. */
TEST_FIXTURE(a_read_only_stage_of_a_read_only_device_deletes_no_orphans_of_ext4, start, stop)
{
	static const char image[] = IMAGES "/ext4";
	static const char dirty[] = IMAGES "/ext4.orphan";
	uint32_t flags = 0;
	int orphan;
	int root;

	make_empty(image, 16 << 20);
	RUN("/sbin/mkfs.ext4", "-q", "-F", image);
	insert(image);
	mount_by_hand("ext4", "");
	write_file(BY_HAND "/orphan");
	orphan = open(BY_HAND "/orphan", O_RDONLY | O_CLOEXEC);
	root = open(BY_HAND, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(unlink(BY_HAND "/orphan"));
	MUST(syncfs(root));
	MUST(ioctl(root, _IOW('f', 43, uint32_t), &flags)); /* EXT4_IOC_CHECKPOINT */
	MUST(syncfs(root));
	RUN("/bin/cp", "--sparse=always", image, dirty);
	(void)close(orphan);
	(void)close(root);
	MUST(umount(BY_HAND));
	is_write_protected = true;
	read_without_a_trace(dirty, "ext4");
	is_write_protected = false;
	plain_read_only_leaves_traces(dirty, "ext4");
}

TEST_FIXTURE(a_read_only_stage_does_not_touch_the_log_of_xfs, start, stop)
{
	static const char image[] = IMAGES "/xfs";
	static const char dirty[] = IMAGES "/xfs.dirty";

	make_empty(image, 320 << 20);
	RUN("/sbin/mkfs.xfs", "-q", "-f", image);
	make_dirty(image, "xfs", dirty);
	read_without_a_trace(dirty, "xfs");
	plain_read_only_leaves_traces(dirty, "xfs");
	read_without_a_trace(image, "xfs");
	/* not even a clean log is left alone by the kernel's own idea of read-only */
	plain_read_only_leaves_traces(image, "xfs");
}

TEST_FIXTURE(xfs_is_staged_with_its_options, start, stop)
{
	static const char image[] = IMAGES "/xfs";
	struct mount_entry entry;

	make_empty(image, 320 << 20);
	RUN("/sbin/mkfs.xfs", "-q", "-f", image);
	insert(image);
	expect_stage(&agent, stage_of("xfs", medium(), false), MH_OK);
	assert_inert("rw");
	entry = shown(STAGED);
	assert_string_equal(entry.type, "xfs");
	assert_words(entry.super_options, "rw,nouuid", "norecovery");
	expect_publish(&agent, publish_of("xfs", medium(), false), MH_OK);
	MUST(mkdir(PUBLISHED "/made", 0755));
	take_away(&agent);
	expect_stage(&agent, stage_of("xfs", medium(), true), MH_OK);
	assert_inert("ro");
	entry = shown(STAGED);
	assert_words(entry.super_options, "ro,nouuid,norecovery", "");
	expect_publish(&agent, publish_of("xfs", medium(), true), MH_OK);
	assert_int_equal(access(PUBLISHED "/made", F_OK), 0);
	take_away(&agent);
}

/* An image that somebody else made: read-only, and a publish that follows no link and runs nothing. */
static void stage_untrusted(const char *image, const char *type)
{
	struct mh_publish p;

	insert(image);
	expect_stage(&agent, stage_of(type, medium(), false), MH_REFUSED);
	assert_last_record("reason=profile-read-only");
	expect_stage(&agent, stage_of(type, medium(), true), MH_OK);
	assert_inert("ro");
	assert_string_equal(shown(STAGED).type, type);
	p = publish_of(type, medium(), true);
	p.exec = 1;
	expect_publish(&agent, p, MH_REFUSED);
	assert_last_record("reason=exec-not-allowed");
	expect_publish(&agent, publish_of(type, medium(), false), MH_REFUSED);
	expect_publish(&agent, publish_of(type, medium(), true), MH_OK);
	assert_words(shown(PUBLISHED).options, "ro,nosuid,nodev,noexec,nosymfollow", "");
	assert_int_equal(access(PUBLISHED "/hello", R_OK), 0);
	assert_int_equal(access(PUBLISHED "/link", R_OK), -1);
	take_away(&agent);
	expect_stage(&agent, stage_of("ext4", medium(), true), MH_KERNEL); /* it is none */
	assert_last_record("step=create");
	assert_int_equal(count_mounts(), 0);
}

/* The helper asks the kernel for a command of that release; this is another way to know. */
static bool is_before_6_6(void)
{
	struct utsname system;

	MUST(uname(&system));
	return strverscmp(system.release, "6.6") < 0;
}

TEST_FIXTURE(an_untrusted_erofs_image_is_read_since_linux_6_6_alone, start, stop)
{
	RUN("/usr/bin/mkfs.erofs", "--quiet", IMAGES "/erofs", TREE);
	if (!is_before_6_6()) {
		stage_untrusted(IMAGES "/erofs", "erofs");
		return;
	}
	insert(IMAGES "/erofs");
	expect_stage(&agent, stage_of("erofs", medium(), true), MH_REFUSED);
	assert_last_record("step=create reason=kernel-too-old");
	assert_int_equal(count_mounts(), 0);
}

TEST_FIXTURE(a_trusted_erofs_image_is_read_by_every_kernel, start, stop)
{
	RUN("/usr/bin/mkfs.erofs", "--quiet", IMAGES "/ours", TREE);
	insert(IMAGES "/ours");
	expect_stage(&agent, stage_of("ours", medium(), true), MH_OK);
	assert_string_equal(shown(STAGED).type, "erofs");
	expect_publish(&agent, publish_of("ours", medium(), true), MH_OK);
	assert_int_equal(access(PUBLISHED "/link", R_OK), 0);
	take_away(&agent);
}

TEST_FIXTURE(a_squashfs_image_is_read_without_trust, start, stop)
{
	RUN("/usr/bin/mksquashfs", TREE, IMAGES "/squashfs", "-quiet", "-no-progress");
	stage_untrusted(IMAGES "/squashfs", "squashfs");
}

/* bind */

TEST_FIXTURE(a_host_volume_is_staged_inert_and_published, start, stop)
{
	struct mh_publish p;

	expect_stage(&agent, stage_of("data", hostvol("data"), false), MH_OK);
	assert_inert("rw");
	expect_stage(&agent, stage_of("data", hostvol("data"), false), MH_ALREADY);
	p = publish_of("data", hostvol("data"), false);
	p.exec = 1;
	expect_publish(&agent, p, MH_OK);
	assert_words(shown(PUBLISHED).options, "rw,nosuid,nodev", "noexec");
	assert_int_equal(task_writes(PUBLISHED "/from-task"), 0);
	assert_int_equal(access(HOST "/data/from-task", F_OK), 0);
	take_away(&agent);
	/* the host's own mount is as it was */
	assert_words(shown(HOST).options, "rw", "nosuid,nodev,noexec,nosymfollow");
	expect_stage(&agent, stage_of("frozen", hostvol("frozen"), false), MH_REFUSED);
	assert_last_record("reason=profile-read-only");
	expect_stage(&agent, stage_of("frozen", hostvol("frozen"), true), MH_OK);
	assert_inert("ro");
	expect_publish(&agent, publish_of("frozen", hostvol("frozen"), true), MH_OK);
	assert_int_equal(task_writes(PUBLISHED "/no"), EROFS);
	take_away(&agent);
	expect_stage(&agent, stage_of("frozen", hostvol("data"), true), MH_REFUSED);
	assert_last_record("reason=hostvol-mismatch");
}

static void expect_host_path_refused(void)
{
	expect_stage(&agent, stage_of("data", hostvol("data"), false), MH_REFUSED);
	assert_last_record("reason=host-path");
	assert_int_equal(count_mounts(), 0);
}

TEST_FIXTURE(a_host_path_that_others_can_change_is_refused, start, stop)
{
	MUST(chmod(HOST, 0777));
	expect_host_path_refused();
	MUST(chmod(HOST, 01777));
	expect_host_path_refused();
	MUST(chmod(HOST, 0755));
	MUST(chown(HOST "/data", TASK_UID + 1, 0));
	expect_host_path_refused();
	MUST(chown(HOST "/data", TASK_UID, 0));
	MUST(rename(HOST "/data", HOST "/elsewhere"));
	MUST(symlink("elsewhere", HOST "/data"));
	expect_host_path_refused();
	MUST(unlink(HOST "/data"));
	expect_stage(&agent, stage_of("data", hostvol("data"), false), MH_KERNEL);
	assert_last_record("errno=2");
	MUST(rename(HOST "/elsewhere", HOST "/data"));
	MUST(mkdir(HOST "/data/sub", 0755));
	MUST(mount("below", HOST "/data/sub", "tmpfs", 0, NULL));
	expect_stage(&agent, stage_of("data", hostvol("data"), false), MH_CONFLICT);
	assert_last_record("reason=submount");
	MUST(umount(HOST "/data/sub"));
	MUST(mount(NULL, HOST, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
	expect_host_path_refused();
	MUST(mount(NULL, HOST, NULL, MS_REMOUNT | MS_BIND, NULL));
	expect_stage(&agent, stage_of("data", hostvol("data"), false), MH_OK);
	MUST(mount("below", HOST "/data/sub", "tmpfs", 0, NULL));
	expect_publish(&agent, publish_of("data", hostvol("data"), false), MH_CONFLICT);
	assert_last_record("reason=submount");
	MUST(umount(HOST "/data/sub"));
	expect_publish(&agent, publish_of("data", hostvol("data"), false), MH_OK);
	take_away(&agent);
	MUST(rmdir(HOST "/data/sub"));
}

TEST_FIXTURE(a_host_volume_that_must_be_mounted_is_refused_without_its_disk, start, stop)
{
	expect_stage(&agent, stage_of("mounted", hostvol("mounted"), false), MH_REFUSED);
	assert_last_record("step=source reason=not-mounted");
	MUST(mount("disk", HOST "/data", "tmpfs", 0, "uid=64104"));
	expect_stage(&agent, stage_of("mounted", hostvol("mounted"), false), MH_OK);
	expect_publish(&agent, publish_of("mounted", hostvol("mounted"), false), MH_OK);
	assert_int_equal(task_writes(PUBLISHED "/on-disk"), 0);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	MUST(umount(HOST "/data"));
	expect_publish(&agent, publish_of("mounted", hostvol("mounted"), false), MH_REFUSED);
	assert_last_record("step=source reason=not-mounted");
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
}

/* The disk with @uuid is mounted where the policy wants the one with UUID; udev has made its link. */
static void mount_disk(const char *uuid)
{
	const char *disk = IMAGES "/disk";
	char link[64], node[32], target[32];

	RUN("/sbin/mkfs.ext4", "-q", "-F", "-U", uuid, "-E", "root_owner=64104:64104", disk);
	insert(disk);
	(void)str_format(link, sizeof(link), "/dev/disk/by-uuid/%s", uuid);
	(void)str_format(target, sizeof(target), "../../loop%u", loop_minor);
	(void)str_format(node, sizeof(node), "/dev/loop%u", loop_minor);
	MUST(symlink(target, link));
	MUST(mount(node, HOST "/data", "ext4", 0, NULL));
}

TEST_FIXTURE(a_host_volume_with_a_uuid_is_refused_on_another_disk, start, stop)
{
	static const char other[] = "ffffffff-5d29-4f68-8a0b-2c4d6e8f1a35";

	MUST(mkdir("/dev/disk/by-uuid", 0755));
	make_empty(IMAGES "/disk", 16 << 20);
	MUST(mount("disk", HOST "/data", "tmpfs", 0, "uid=64104"));
	expect_stage(&agent, stage_of("marked", hostvol("marked"), false), MH_REFUSED);
	assert_last_record("step=source reason=not-mounted");
	MUST(umount(HOST "/data"));
	mount_disk(other);
	expect_stage(&agent, stage_of("marked", hostvol("marked"), false), MH_REFUSED); /* no link at all */
	MUST(symlink("../../null", "/dev/disk/by-uuid/" UUID));
	expect_stage(&agent, stage_of("marked", hostvol("marked"), false), MH_REFUSED); /* no disk */
	MUST(unlink("/dev/disk/by-uuid/" UUID));
	MUST(umount(HOST "/data"));
	mount_disk(UUID);
	expect_stage(&agent, stage_of("marked", hostvol("marked"), false), MH_OK);
	expect_publish(&agent, publish_of("marked", hostvol("marked"), false), MH_OK);
	assert_int_equal(task_writes(PUBLISHED "/on-disk"), 0);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	MUST(umount(HOST "/data"));
	MUST(mount("other", HOST "/data", "tmpfs", 0, "uid=64104"));
	expect_publish(&agent, publish_of("marked", hostvol("marked"), false), MH_REFUSED);
	assert_last_record("step=source reason=not-mounted");
	MUST(umount(HOST "/data"));
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
}

TEST_FIXTURE(a_host_path_that_shows_the_trees_is_never_staged, start, stop)
{
	static const char *const sources[] = {STAGE_BASE, PUBLISH_BASE, TEST_PREFIX "/trees", TEST_PREFIX,
					      "/"};

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		MUST(mount(sources[i], HOST "/data", NULL, MS_BIND, NULL));
		expect_stage(
			&agent,
			stage_of(i < 2 ? "helpers" : "roots", hostvol(i < 2 ? "helpers" : "roots"), true),
			MH_CONFLICT);
		assert_last_record("reason=other-mount");
		MUST(umount(HOST "/data"));
	}
}

static void expect_host_path_shows_own(void)
{
	struct mount_entry entry;

	expect_stage(&agent, stage_of("roots", hostvol("roots"), false), MH_CONFLICT);
	assert_last_record("step=source reason=other-mount");
	assert_false(find_mount(STAGED, &entry));
}

/* The trees are made anew in a folder that is bound from a file system, or in a subvolume of @device. */
static void begin_in_a_part(const char *folder, const char *device)
{
	(void)agent_stop(&agent);
	MUST(umount2(TEST_PREFIX "/trees", MNT_DETACH));
	MUST(device ? mount(device, TEST_PREFIX "/trees", "btrfs", 0, "subvol=app")
		    : mount(folder, TEST_PREFIX "/trees", NULL, MS_BIND, NULL));
	MUST(mount(NULL, TEST_PREFIX "/trees", NULL, MS_PRIVATE, NULL)); /* no peer: it shows no stages */
	MUST(mount(NULL, TEST_PREFIX "/trees", NULL, MS_SHARED, NULL));
	MUST(mkdir(STAGE_BASE, 0700));
	MUST(chown(STAGE_BASE, HELPER_UID, HELPER_UID));
	MUST(mkdir(PUBLISH_BASE, 0711));
	MUST(chown(PUBLISH_BASE, HELPER_UID, HELPER_UID));
	MUST(chmod(PUBLISH_BASE, 0711));
	agent_up(&agent);
}

/* A task that is root there renames the folders in which others' volumes are mounted. */
TEST_FIXTURE(a_host_path_above_the_part_with_the_trees_is_never_staged, start, stop)
{
	MUST(mount("disk", HOST "/data", "tmpfs", 0, "mode=0755,uid=0"));
	MUST(mkdir(HOST "/data/app", 0755));
	MUST(mkdir(HOST "/data/apple", 0755));
	begin_in_a_part(HOST "/data/app", NULL);
	expect_host_path_shows_own();
	MUST(mount(HOST "/data/apple", HOST "/data", NULL, MS_BIND, NULL)); /* beside it */
	expect_stage(&agent, stage_of("roots", hostvol("roots"), false), MH_OK);
	expect_publish(&agent, publish_of("roots", hostvol("roots"), false), MH_OK);
	take_away(&agent);
	MUST(umount(HOST "/data"));
	MUST(umount(HOST "/data"));
}

/* The trees are file systems of their own. A task that is root in the folder of their mount points, bound
 * from its volume, makes the folder that the next helper takes for a tree. */
TEST_FIXTURE(a_host_path_above_the_mount_point_of_a_tree_is_never_staged, start, stop)
{
	MUST(mount("disk", HOST "/data", "tmpfs", 0, "mode=0755,uid=0"));
	MUST(mkdir(HOST "/data/app", 0755));
	begin_in_a_part(HOST "/data/app", NULL);
	(void)agent_stop(&agent);
	MUST(mount("stage", STAGE_BASE, "tmpfs", 0, "mode=0700,uid=64102,gid=64102"));
	MUST(mount(NULL, STAGE_BASE, NULL, MS_SHARED, NULL));
	MUST(mount("publish", PUBLISH_BASE, "tmpfs", 0, "mode=0711,uid=64102,gid=64102"));
	MUST(mount(NULL, PUBLISH_BASE, NULL, MS_SHARED, NULL));
	agent_up(&agent);
	expect_host_path_shows_own();
	(void)agent_stop(&agent);
	MUST(umount(STAGE_BASE));
	MUST(umount(PUBLISH_BASE));
	MUST(umount(HOST "/data"));
	agent_up(&agent);
}

/* Files of each subvolume of a btrfs show a device of their own. */
TEST_FIXTURE(a_host_path_above_a_subvolume_with_the_trees_is_never_staged, start, stop)
{
	static const char *const names[] = {"app", "home"};
	const char *image = IMAGES "/btrfs";
	char node[32];
	int fd;

	RUN("/usr/bin/env", "python3", "-B", MAKE_BTRFS, image);
	insert(image);
	(void)str_format(node, sizeof(node), "/dev/loop%u", loop_minor);
	if (mount(node, HOST "/data", "btrfs", 0, NULL) < 0 && errno == ENODEV) {
		print_message("no btrfs in this kernel\n");
		return;
	}
	fd = open(HOST "/data", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(fd);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct btrfs_ioctl_vol_args subvolume = {.fd = 0};

		(void)str_copy(subvolume.name, sizeof(subvolume.name), names[i]);
		MUST(ioctl(fd, BTRFS_IOC_SUBVOL_CREATE, &subvolume));
	}
	(void)close(fd);
	begin_in_a_part(NULL, node);
	expect_host_path_shows_own();
	MUST(mount(HOST "/data/app/stage", HOST "/data", NULL, MS_BIND, NULL));
	MUST(chown(HOST "/data", 0, 0));
	expect_host_path_shows_own(); /* the tree by another name, whoever owns it */
	MUST(chown(HOST "/data", HELPER_UID, HELPER_UID));
	MUST(umount(HOST "/data"));
	MUST(umount(HOST "/data"));
	MUST(mount(node, HOST "/data", "btrfs", 0, "subvol=home")); /* as the usual @ and @home */
	expect_stage(&agent, stage_of("roots", hostvol("roots"), false), MH_OK);
	expect_publish(&agent, publish_of("roots", hostvol("roots"), false), MH_OK);
	take_away(&agent);
	MUST(umount(HOST "/data"));
}

/* The log is a file of a tmpfs, the state and the policy are those of a folder. A task that is root would
 * write them: the policy names what of the host it gets. */
TEST_FIXTURE(a_host_path_that_shows_log_state_or_policy_is_never_staged, start, stop)
{
	static const char *const sources[] = {TEST_PREFIX "/lock", TEST_PREFIX "/log", TEST_PREFIX "/etc"};

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		MUST(mount(sources[i], HOST "/data", NULL, MS_BIND, NULL));
		expect_host_path_shows_own();
		MUST(umount(HOST "/data"));
	}
}

/* As on a machine from an image, whose files that are written are bound from another disk. */
TEST_FIXTURE(a_host_path_that_shows_a_file_bound_as_log_state_or_policy_is_never_staged, start, stop)
{
	static const char *const files[] = {LOG_PATH, STATE_PATH, POLICY_PATH};
	static const char copy[] = HOST "/data/file";

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		MUST(mount("disk", HOST "/data", "tmpfs", 0, "mode=0755,uid=0"));
		(void)agent_stop(&agent);
		RUN("/bin/cp", "-a", files[i], copy);
		MUST(mount(copy, files[i], NULL, MS_BIND, NULL));
		agent_up(&agent);
		expect_host_path_shows_own();
		(void)agent_stop(&agent);
		MUST(umount(files[i]));
		RUN("/bin/cp", "-a", copy, files[i]);
		MUST(umount(HOST "/data"));
		agent_up(&agent);
	}
}

/* Files of uid 1 are nobody's by the path, and so by the publish. */
TEST_FIXTURE(a_host_path_that_became_an_idmapped_mount_is_staged_anew, start, stop)
{
	struct stat st;

	MUST(mkdir(HOST "/data/sub", 0755));
	MUST(chown(HOST "/data/sub", 1, 1));
	expect_stage(&agent, stage_of("data", hostvol("data"), false), MH_OK);
	if (mount_idmapped(HOST "/data", HOST "/data", "64104 64104 1\n")) {
		expect_publish(&agent, publish_of("data", hostvol("data"), false), MH_CONFLICT);
		assert_last_record("step=source reason=other-mount");
		expect_stage(&agent, stage_of("data", hostvol("data"), false), MH_CONFLICT);
		assert_last_record("reason=other-mount");
		expect_unstage(&agent, unstage("vol-1"), MH_OK);
		expect_stage(&agent, stage_of("data", hostvol("data"), false), MH_OK);
		expect_stage(&agent, stage_of("data", hostvol("data"), false), MH_ALREADY);
		expect_publish(&agent, publish_of("data", hostvol("data"), false), MH_OK);
		expect_publish(&agent, publish_of("data", hostvol("data"), false), MH_ALREADY);
		MUST(umount(HOST "/data"));
		expect_publish(&agent, publish_of("data", hostvol("data"), false), MH_CONFLICT);
		MUST(stat(PUBLISHED "/sub", &st));
		assert_int_equal(st.st_uid, 65534);
		expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	}
	MUST(rmdir(HOST "/data/sub"));
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
}

TEST_FIXTURE(mounts_of_the_host_reach_a_shared_host_volume_alone, start, stop)
{
	struct mount_entry entry;

	MUST(mount(NULL, HOST, NULL, MS_SHARED, NULL));
	MUST(mkdir(HOST "/data/sub", 0755));
	expect_stage(&agent, stage_of("spread", hostvol("spread"), false), MH_OK);
	entry = shown(STAGED);
	assert_int_not_equal(entry.peer_group, 0);
	assert_int_equal(entry.peer_group, shown(HOST).peer_group);
	MUST(mount("later", HOST "/data/sub", "tmpfs", 0, NULL));
	assert_true(find_mount(STAGED "/sub", &entry));
	MUST(umount(HOST "/data/sub"));
	assert_false(find_mount(STAGED "/sub", &entry));
	expect_stage(&agent, stage_of("data", hostvol("data"), false), MH_CONFLICT);
	assert_last_record("reason=staged-profile");
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	expect_stage(&agent, stage_of("data", hostvol("data"), false), MH_OK);
	assert_inert("rw");
	MUST(mount("later", HOST "/data/sub", "tmpfs", 0, NULL));
	assert_false(find_mount(STAGED "/sub", &entry));
	MUST(umount(HOST "/data/sub"));
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	MUST(rmdir(HOST "/data/sub"));
	MUST(mount(NULL, HOST, NULL, MS_PRIVATE, NULL));
}

/* csi: the test is the plugin. */

static void plugin_mounts(void)
{
	MUST(mkdir(TARGET, 0750));
	MUST(mount("plugin", TARGET, "tmpfs", 0, "mode=0777"));
}

TEST_FIXTURE(a_plugins_mount_gets_the_floor_when_it_is_published, start, stop)
{
	struct mh_reply reply;
	struct stat st;

	expect_publish(&agent, publish_of("plugin", plugin(), false), MH_NOT_FOUND);
	reply = expect_stage(&agent, stage_of("plugin", plugin(), false), MH_OK);
	assert_int_equal(reply.state, MH_STATE_PREPARED);
	MUST(stat(PLUGIN_STAGED "/" MH_CSI_STAGING, &st));
	assert_int_equal(st.st_uid, HELPER_UID);
	assert_int_equal(st.st_mode & 07777, 0755);
	expect_publish(&agent, publish_of("plugin", plugin(), false), MH_NOT_FOUND);
	plugin_mounts();
	reply = expect_stage(&agent, stage_of("plugin", plugin(), false), MH_OK);
	assert_true((reply.state & MH_STATE_STAGED) != 0);
	expect_stage(&agent, stage_of("plugin", plugin(), false), MH_ALREADY);
	/* suid, dev, exec and rw as the plugin left them, and none of it in the publish */
	assert_words(shown(TARGET).options, "rw", "nosuid,nodev,noexec");
	expect_publish(&agent, publish_of("plugin", plugin(), false), MH_OK);
	assert_int_equal(task_writes(PUBLISHED "/yes"), 0);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	/* readers have a target of their own, writable as the plugin left it */
	expect_publish(&agent, publish_of("plugin", plugin(), true), MH_NOT_FOUND);
	reply = expect_stage(&agent, stage_of("plugin", plugin(), true), MH_OK);
	assert_int_equal(reply.state, MH_STATE_PREPARED);
	MUST(mkdir(TARGET_RO, 0750));
	MUST(mount(TARGET, TARGET_RO, NULL, MS_BIND, NULL));
	expect_stage(&agent, stage_of("plugin", plugin(), true), MH_OK);
	expect_publish(&agent, publish_of("plugin", plugin(), true), MH_OK);
	assert_words(shown(PUBLISHED).options, "ro,nosuid,nodev,noexec", "rw");
	assert_int_equal(shown(PUBLISHED).peer_group, 0);
	assert_int_equal(task_writes(PUBLISHED "/no"), EROFS);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	MUST(umount(TARGET_RO));
	MUST(rmdir(TARGET_RO));
	MUST(umount(TARGET));
	MUST(rmdir(TARGET));
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
	assert_int_equal(access(PLUGIN_STAGED, F_OK), -1);
}

TEST_FIXTURE(a_mount_below_the_target_is_a_conflict, start, stop)
{
	expect_stage(&agent, stage_of("plugin", plugin(), false), MH_OK);
	plugin_mounts();
	MUST(mkdir(TARGET "/sub", 0755));
	MUST(mount("below", TARGET "/sub", "tmpfs", 0, NULL));
	expect_stage(&agent, stage_of("plugin", plugin(), false), MH_OK);
	expect_publish(&agent, publish_of("plugin", plugin(), false), MH_CONFLICT);
	assert_last_record("reason=submount");
	MUST(umount(TARGET "/sub"));
	expect_publish(&agent, publish_of("plugin", plugin(), false), MH_OK);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
}

/* Nobody reads what the kernel would ask this file system. */
TEST_FIXTURE(an_unresponsive_plugin_daemon_blocks_no_request, start, stop)
{
	struct mh_reply reply;
	char options[96];
	int fd;

	(void)mknod("/dev/fuse", S_IFCHR | 0600, makedev(CONTROL_MAJOR, FUSE_MINOR));
	fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	MUST(fd);
	expect_stage(&agent, stage_of("plugin", plugin(), false), MH_OK);
	MUST(mkdir(TARGET, 0750));
	(void)str_format(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
			 fd);
	MUST(mount("daemon", TARGET, "fuse", 0, options));
	expect_stage(&agent, stage_of("plugin", plugin(), false), MH_OK);
	expect_publish(&agent, publish_of("plugin", plugin(), false), MH_OK);
	assert_words(shown(PUBLISHED).options, "rw,nosuid,nodev,noexec", "");
	expect_publish(&agent, publish_of("plugin", plugin(), false), MH_ALREADY);
	assert_true(agent_look(&agent, "vol-1", "plugin", &reply));
	assert_int_equal(reply.state, MH_STATE_STAGED | MH_STATE_EXEC | MH_STATE_SHARED);
	take_away_plugins(&agent);
	(void)close(fd);
}

/* Block attachment: the plugin binds a device to a file, which is neither published nor ever unlinked. */
TEST_FIXTURE(a_plugins_device_is_named_when_it_is_left_over, start, stop)
{
	struct mh_reply reply;
	int fd;

	expect_stage(&agent, stage_of("plugin", plugin(), false), MH_OK);
	fd = open(TARGET, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	MUST(fd);
	MUST(close(fd));
	MUST(mount("/dev/null", TARGET, NULL, MS_BIND, NULL));
	reply = expect_stage(&agent, stage_of("plugin", plugin(), false), MH_OK);
	assert_int_equal(reply.state, MH_STATE_PREPARED);
	expect_publish(&agent, publish_of("plugin", plugin(), false), MH_NOT_FOUND);
	reply = expect_unstage(&agent, unstage_plugins("vol-1"), MH_BUSY);
	assert_int_equal(reply.sys_errno, ENOTDIR);
	assert_last_record("reason=plugin-target");
	MUST(umount(TARGET));
	reply = expect_unstage(&agent, unstage_plugins("vol-1"), MH_BUSY);
	assert_int_equal(reply.sys_errno, ENOTDIR);
	MUST(access(TARGET, F_OK));
	MUST(unlink(TARGET));
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
	assert_int_equal(access(PLUGIN_STAGED, F_OK), -1);
}

TEST_FIXTURE(mounts_of_a_dead_plugin_are_removed, start, stop)
{
	expect_stage(&agent, stage_of("plugin", plugin(), false), MH_OK);
	MUST(mount("staged", PLUGIN_STAGED "/" MH_CSI_STAGING, "tmpfs", 0, NULL));
	plugin_mounts();
	expect_stage(&agent, stage_of("plugin", plugin(), false), MH_OK);
	expect_publish(&agent, publish_of("plugin", plugin(), false), MH_OK);
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_BUSY);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
	assert_last_record("reason=plugin-left-mount");
	assert_int_equal(count_mounts(), 0);
	assert_int_equal(access(PLUGIN_STAGED, F_OK), -1);
}

TEST_GROUP(group_up, world_down)
