/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in the trees besides directories and mounts of the helper: root's hand, or a mistake. Nothing
 * of it is followed, mounted on, unmounted or removed. And a reboot, as far as one can be had without one. */

#include "mounthelper_words.h"
#include "state.h"
#include "volume.h"

#include "base/fd.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define ELSEWHERE TEST_PREFIX "/elsewhere"
#define ALLOC_DIR PUBLISH_BASE "/" ALLOC

static struct agent agent;

/* Somebody else's mount, which must stay whatever is asked for. */
static int start(void **state)
{
	(void)mkdir(ELSEWHERE, 0755);
	assert_int_equal(mount("else", ELSEWHERE, "tmpfs", 0, "mode=0755"), 0);
	assert_int_equal(mkdir(ELSEWHERE "/0", 0755), 0);
	assert_int_equal(mount("else", ELSEWHERE "/0", "tmpfs", 0, "mode=0755"), 0);
	agent_up(&agent);
	return 0;
}

static int stop(void **state)
{
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_int_equal(umount2(ELSEWHERE "/0", UMOUNT_NOFOLLOW), 0);
	assert_int_equal(umount2(ELSEWHERE, UMOUNT_NOFOLLOW), 0);
	return count_mounts();
}

static void assert_elsewhere_is_as_before(void)
{
	struct mount_entry mount;

	assert_true(find_mount(ELSEWHERE, &mount));
	assert_string_equal(mount.source, "else");
	assert_true(find_mount(ELSEWHERE "/0", &mount));
	assert_string_equal(mount.source, "else");
}

/* Whatever the answer is, it is neither OK nor ALREADY, and what exists there is not touched. */
static void assert_fails(void *request, size_t n, const char *thing)
{
	struct mh_reply reply;
	struct stat before;
	struct stat after;

	assert_int_equal(lstat(thing, &before), 0);
	assert_true(agent_call(&agent, request, n, &reply));
	if (reply.status == MH_OK || reply.status == MH_ALREADY)
		fail_msg("%s: op %u: status %u", thing, reply.header.op, reply.status);
	assert_int_equal(lstat(thing, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(before.st_mode, after.st_mode);
	assert_elsewhere_is_as_before();
}

/* What root may have put where a directory of the helper belongs. */
static void put(const char *path, int kind)
{
	if (kind == 0)
		assert_int_equal(symlink(ELSEWHERE, path), 0);
	else if (kind == 1)
		assert_int_equal(mknod(path, S_IFREG | 0644, 0), 0);
	else if (kind == 2)
		assert_int_equal(mknod(path, S_IFBLK | 0600, makedev(world_major(), world_minor())), 0);
	else
		assert_int_equal(mkfifo(path, 0644), 0);
	/* it does not help that it is the helper's */
	assert_int_equal(lchown(path, HELPER_UID, HELPER_UID), 0);
}

enum { KINDS = 4 };

TEST_FIXTURE(links_files_and_devices_in_the_stage_tree_are_left_alone, start, stop)
{
	for (int kind = 0; kind < KINDS; kind++) {
		struct mh_stage s = stage_disk();
		struct mh_publish p = publish_disk();
		struct mh_unstage u = unstage("vol-1");

		put(STAGED, kind);
		assert_fails(&s, sizeof(s), STAGED);
		assert_fails(&p, sizeof(p), STAGED);
		assert_fails(&u, sizeof(u), STAGED);
		assert_int_equal(unlink(STAGED), 0);
	}
	assert_int_equal(count_mounts(), 0);
}

TEST_FIXTURE(links_files_and_devices_in_the_publish_tree_are_left_alone, start, stop)
{
	static const char *const places[] = {ALLOC_DIR, PUBLISHED};

	expect_stage(&agent, stage_disk(), MH_OK);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (i == 1) {
			assert_int_equal(mkdir(ALLOC_DIR, 0755), 0);
			assert_int_equal(chown(ALLOC_DIR, HELPER_UID, HELPER_UID), 0);
		}
		for (int kind = 0; kind < KINDS; kind++) {
			struct mh_publish p = publish_disk();
			struct mh_unpublish u = unpublish("vol-1");

			put(places[i], kind);
			assert_fails(&p, sizeof(p), places[i]);
			assert_fails(&u, sizeof(u), places[i]);
			assert_int_equal(unlink(places[i]), 0);
		}
	}
	assert_int_equal(rmdir(ALLOC_DIR), 0);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
}

TEST_FIXTURE(a_folder_with_something_in_it_is_never_emptied, start, stop)
{
	struct mh_unpublish p = unpublish("vol-1");
	struct mh_unstage u = unstage("vol-1");

	assert_int_equal(mkdir(STAGED, 0755), 0);
	assert_int_equal(chown(STAGED, HELPER_UID, HELPER_UID), 0);
	assert_int_equal(mknod(STAGED "/file", S_IFREG | 0644, 0), 0);
	assert_fails(&u, sizeof(u), STAGED "/file");
	assert_int_equal(unlink(STAGED "/file"), 0);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	assert_int_equal(mkdir(ALLOC_DIR, 0755), 0);
	assert_int_equal(chown(ALLOC_DIR, HELPER_UID, HELPER_UID), 0);
	assert_int_equal(mkdir(PUBLISHED, 0755), 0);
	assert_int_equal(chown(PUBLISHED, HELPER_UID, HELPER_UID), 0);
	assert_int_equal(mknod(PUBLISHED "/file", S_IFREG | 0644, 0), 0);
	assert_fails(&p, sizeof(p), PUBLISHED "/file");
	assert_int_equal(unlink(PUBLISHED "/file"), 0);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	assert_int_equal(access(ALLOC_DIR, F_OK), -1);
}

/* Empty directories and a state file of another boot are what a reboot leaves; the mounts are gone. */
TEST_FIXTURE(leftovers_of_a_reboot_are_reused, start, stop)
{
	static const char other_boot[] = "0d3b9a4c-1111-4222-8333-444455556666";
	struct mh_stage newer = stage_disk();
	int fd;

	newer.ticket.generation = 9;
	sign_ticket(&newer.ticket);
	expect_stage(&agent, newer, MH_OK);
	expect_publish(&agent, publish_disk(), MH_REFUSED); /* an older generation */
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	assert_int_equal(agent_stop_code(&agent), 0);
	assert_int_equal(mkdir(STAGED, 0755), 0);
	assert_int_equal(chown(STAGED, HELPER_UID, HELPER_UID), 0);
	assert_int_equal(mkdir(ALLOC_DIR, 0755), 0);
	assert_int_equal(chown(ALLOC_DIR, HELPER_UID, HELPER_UID), 0);
	fd = open(STATE_PATH, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, other_boot, sizeof(other_boot), offsetof(struct state_header, boot_id)),
			 sizeof(other_boot));
	(void)close(fd);
	agent_up(&agent);
	/* generations of another boot do not count: its tickets name another boot */
	expect_stage(&agent, stage_disk(), MH_OK);
	expect_publish(&agent, publish_disk(), MH_OK);
	take_away(&agent);
}

/* holdfast-mounthelper(8), LAUNCH MODES: what the agent's unit must leave. */

static const int needed[] = {CAP_SYS_ADMIN, CAP_AUDIT_WRITE, CAP_SETUID,
			     CAP_SETGID,    CAP_SETPCAP,     CAP_DAC_OVERRIDE};
static const int needed_elsewhere[] = {CAP_SYS_PTRACE, CAP_SYS_CHROOT};

static void leave_only(bool elsewhere)
{
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++) {
		bool keep = false;

		for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
			keep = keep || cap == needed[i];
		for (size_t i = 0; i < ARRAY_SIZE(needed_elsewhere) && elsewhere; i++)
			keep = keep || cap == needed_elsewhere[i];
		if (!keep && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			_exit(124);
	}
}

static void leave_what_is_needed(void)
{
	leave_only(false);
}

static void leave_what_is_needed_elsewhere(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
	    mount(NULL, TEST_PREFIX "/trees", NULL, MS_SHARED, NULL) < 0)
		_exit(124);
	leave_only(true);
}

TEST_FIXTURE(the_capabilities_of_the_manual_are_enough_for_launch_mode_setuid, start, stop)
{
	static const struct agent_start rows[] = {{.as_root = leave_what_is_needed},
						  {.as_root = leave_what_is_needed_elsewhere}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct agent poor;

		if (!agent_start(&poor, &rows[i]))
			fail_msg("row %zu: %s", i, agent_message(&poor));
		assert_int_equal(poor.hello.launch_mode, 1);
		expect_stage(&poor, stage_tmpfs(), MH_OK);
		expect_publish(&poor, publish_tmpfs(), MH_OK);
		expect_unpublish(&poor, unpublish("mem-1"), MH_OK);
		expect_unstage(&poor, unstage("mem-1"), MH_OK);
		assert_int_equal(agent_stop_code(&poor), 0);
	}
}

/* Soft limits are the caller's to lower; what the process has is fixed. */
static void lower_soft_limits(void)
{
	static const __rlimit_resource_t all[] = {RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_AS, RLIMIT_STACK,
						  RLIMIT_DATA};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct rlimit limit;

		(void)getrlimit(all[i], &limit);
		limit.rlim_cur = 1 << 22; /* execve() must still work */
		if (all[i] == RLIMIT_NOFILE)
			limit.rlim_cur = 40;
		(void)setrlimit(all[i], &limit);
	}
}

TEST_FIXTURE(the_limits_of_the_process_are_fixed, start, stop)
{
	static const struct {
		const char *name;
		const char *value;
	} rows[] = {
		{"Max open files ", "64"},	 {"Max address space ", "268435456"},
		{"Max core file size ", "0"},	 {"Max stack size ", "1048576"},
		{"Max file size ", "unlimited"}, {"Max cpu time ", "unlimited"},
	};
	struct agent lowered;
	char path[64];
	char *text;

	assert_true(agent_start(&lowered, &(struct agent_start){.before_exec = lower_soft_limits}));
	(void)str_format(path, sizeof(path), "/proc/%d/limits", (int)lowered.helper);
	assert_int_equal(file_read(path, 1 << 16, &text, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *at = strstr(text, rows[i].name);

		assert_non_null(at);
		at += strlen(rows[i].name);
		at += strspn(at, " ");
		if (strncmp(at, rows[i].value, strlen(rows[i].value)) != 0)
			fail_msg("%s%.20s, wanted %s", rows[i].name, at, rows[i].value);
	}
	free(text);
	assert_int_equal(agent_stop_code(&lowered), 0);
}

TEST_FIXTURE(a_refusal_of_the_real_one_says_reason_and_line, start, stop)
{
	struct mh_stage req = stage_disk();
	struct mh_reply reply;

	assert_int_equal(chmod("/dev/disk/by-id", 0777), 0);
	reply = expect_stage(&agent, req, MH_REFUSED);
	assert_int_equal(chmod("/dev/disk/by-id", 0755), 0);
	assert_int_equal(reply.reason, REASON_DEV_PATH);
	assert_int_not_equal(reply.policy_line, 0);
	req.ticket.signature[0] ^= 1;
	reply = expect_stage(&agent, req, MH_REFUSED);
	assert_int_equal(reply.reason, REASON_TICKET_SIGNATURE);
	assert_int_equal(reply.policy_line, 1);
}

TEST_GROUP(world_up, world_down)
