/* SPDX-License-Identifier: Apache-2.0 */
#include "mounthelper_wire.h"
#include "privileges.h"
#include "unit.h"

#include "base/sys.h"
#include "status/local.h"
#include "volume/verify.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const struct verify_wanted strict = {
	.path = "/p", .read_only = true, .propagation = PROPAGATION_PRIVATE};
static const struct verify_reply good_reply = {
	.state = MH_STATE_PUBLISHED | MH_STATE_READ_ONLY, .dev_major = 8, .dev_minor = 1};
static const struct mount_view good_view = ROW(.dev_major = 8, .dev_minor = 1, .is_read_only = true,
					       .is_nosuid = true, .is_nodev = true, .is_noexec = true);

static enum status check(struct verify_wanted wanted, struct verify_reply reply, struct mount_view view)
{
	struct error err = {0};
	enum status status = verify_publish(&wanted, &reply, &view, &err);

	if (status != STATUS_OK)
		assert_non_null(strstr(err.msg, "/p"));
	return status;
}

TEST(requested_mount_flags_are_accepted)
{
	struct verify_wanted loose = {.path = "/p", .exec = true, .propagation = PROPAGATION_BIDIRECTIONAL};
	struct verify_reply reply = good_reply;
	struct mount_view view = good_view;

	assert_int_equal(check(strict, good_reply, good_view), STATUS_OK);
	reply.state = MH_STATE_PUBLISHED | MH_STATE_EXEC | MH_STATE_SHARED;
	view.is_read_only = view.is_noexec = false;
	assert_int_equal(check(loose, reply, view), STATUS_OK);
	/* stricter than asked for is fine, but for propagation */
	reply.state = good_reply.state | MH_STATE_SHARED;
	assert_int_equal(check(loose, reply, good_view), STATUS_OK);
}

TEST(each_witness_alone_can_object)
{
	struct verify_reply reply = good_reply;
	struct mount_view view = good_view;

	reply.state &= (uint16_t)~MH_STATE_PUBLISHED;
	assert_int_equal(check(strict, reply, view), STATUS_FAILED_PRECONDITION);
	reply.state = MH_STATE_PUBLISHED;
	assert_int_equal(check(strict, reply, view), STATUS_FAILED_PRECONDITION);
	reply.state = good_reply.state | MH_STATE_EXEC;
	assert_int_equal(check(strict, reply, view), STATUS_FAILED_PRECONDITION);
	reply.state = good_reply.state | MH_STATE_SHARED;
	assert_int_equal(check(strict, reply, view), STATUS_FAILED_PRECONDITION);
	reply = good_reply;
	reply.dev_major++;
	assert_int_equal(check(strict, reply, view), STATUS_FAILED_PRECONDITION);
	reply = good_reply;
	reply.dev_minor++;
	assert_int_equal(check(strict, reply, view), STATUS_FAILED_PRECONDITION);
	view.is_nosuid = false;
	assert_int_equal(check(strict, good_reply, view), STATUS_FAILED_PRECONDITION);
	view = good_view;
	view.is_nodev = false;
	assert_int_equal(check(strict, good_reply, view), STATUS_FAILED_PRECONDITION);
	view = good_view;
	view.is_read_only = false;
	assert_int_equal(check(strict, good_reply, view), STATUS_FAILED_PRECONDITION);
	view = good_view;
	view.is_noexec = false;
	assert_int_equal(check(strict, good_reply, view), STATUS_FAILED_PRECONDITION);
}

TEST(propagation_must_equal_the_request)
{
	static const unsigned int states[] = {0, MH_STATE_SLAVE, MH_STATE_SHARED,
					      MH_STATE_SLAVE | MH_STATE_SHARED};
	static const bool is_right[PROPAGATION_N][4] = {
		[PROPAGATION_PRIVATE] = {true, false, false, false},
		[PROPAGATION_HOST_TO_TASK] = {false, true, false, false},
		[PROPAGATION_BIDIRECTIONAL] = {false, false, true, true},
	};

	for (int wanted = 0; wanted < PROPAGATION_N; wanted++) {
		for (size_t i = 0; i < 4; i++) {
			struct verify_wanted as_asked = strict;
			struct verify_reply reply = good_reply;

			as_asked.propagation = (enum propagation)wanted;
			reply.state |= (uint16_t)states[i];
			assert_int_equal(check(as_asked, reply, good_view),
					 is_right[wanted][i] ? STATUS_OK : STATUS_FAILED_PRECONDITION);
		}
	}
}

TEST(the_real_mount_table_is_read)
{
	cleanup(mount_table_freep) struct mount_table *table = NULL;
	struct mount_view view;
	struct error err;

	assert_int_equal(mount_table_read(&table, &err), STATUS_OK);
	assert_int_equal(mount_table_find(table, "/proc", &view, &err), STATUS_OK);
	assert_int_equal(mount_table_find(table, "/proc/self", &view, &err), STATUS_NOT_FOUND);
	assert_error(mount_table_find(table, "/no/such/place", &view, &err), STATUS_NOT_FOUND, err,
		     "/no/such/place");
}

static size_t n_read;  /* times that all mounts were read, */
static size_t n_looks; /* or any were asked for */
static bool is_old_kernel;

ssize_t __real_sys_listmount(uint64_t mount_id, uint64_t after_id, uint64_t *ret_ids, size_t n);
struct libmnt_table *__real_mnt_new_table_from_file(const char *path);

WRAPPED(ssize_t, sys_listmount, uint64_t mount_id, uint64_t after_id, uint64_t *ret_ids, size_t n)
{
	ssize_t r = is_old_kernel ? -ENOSYS : __real_sys_listmount(mount_id, after_id, ret_ids, n);

	n_read += r >= 0 && after_id == 0;
	n_looks++;
	return r;
}

WRAPPED(struct libmnt_table *, mnt_new_table_from_file, const char *path)
{
	n_read++;
	n_looks++;
	return __real_mnt_new_table_from_file(path);
}

/* Who reads it again gets the same one, as long as nothing is mounted or unmounted anywhere. */
TEST(a_table_is_kept_until_it_changes)
{
	cleanup(mount_table_freep) struct mount_table *table = NULL;
	struct mount_view view;
	struct error err;
	size_t before = 0;

	for (int i = 0; i < 100; i++) {
		before = n_looks;
		assert_int_equal(mount_table_refresh(&table, "/proc", UINT64_MAX, &err), STATUS_OK);
		assert_int_equal(mount_table_find(table, "/proc", &view, &err), STATUS_OK);
		if (n_looks == before)
			break;
	}
	assert_int_equal(n_looks, before); /* not a hundred changes in a row */
	assert_int_equal(mount_table_find(table, "/", &view, &err), STATUS_NOT_FOUND); /* not below /proc */
	mount_table_free(NULL);
}

static bool write_to(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* The kernel makes no user namespace in a chroot. Who could make one without leaves it, by entering the mount
 * namespace that it is in. */
static void leave_chroot(void)
{
	cleanup_close int fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

	(void)setns(fd, CLONE_NEWNS);
}

/* As root of a user namespace, whoever runs it. */
static bool may_mount(void)
{
	char uids[32], gids[32];

	leave_chroot();
	(void)snprintf(uids, sizeof(uids), "0 %u 1", (unsigned int)getuid());
	(void)snprintf(gids, sizeof(gids), "0 %u 1", (unsigned int)getgid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_to("/proc/self/setgroups", "deny") &&
	       write_to("/proc/self/uid_map", uids) && write_to("/proc/self/gid_map", gids) &&
	       mount("none", "/tmp", "tmpfs", 0, NULL) == 0;
}

/* In namespaces of its own: exits with the line of what is not as it should be, 0 when all is. */
static int count_what_is_stacked(void)
{
	static const char *const points[] = {"/tmp/v",	 "/tmp/v/a",   "/tmp/v/a/deep", "/tmp/v/a-b",
					     "/tmp/v/b", "/tmp/v/b/x", "/tmp/v/b/x"};
	struct mount_table *table = NULL;
	struct mount_count count;

	if (!may_mount())
		return __LINE__;
	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		(void)mkdir(points[i], 0700);
		if (mount("none", points[i], "tmpfs", 0, NULL) < 0)
			return __LINE__;
	}
	if (mount_table_refresh(&table, "/tmp/v", UINT64_MAX, NULL) != STATUS_OK)
		return __LINE__;
	mount_table_count(table, "/tmp/v", &count);
	if (count.here != 1 || count.below != 6 || !str_eq(count.stacked, "/tmp/v/b/x"))
		return __LINE__;
	mount_table_count(table, "/tmp/v/a", &count);
	if (count.here != 1 || count.below != 1 || count.stacked[0] != '\0')
		return __LINE__;
	mount_table_count(table, "/tmp/v/b/x", &count);
	if (count.here != 2 || count.below != 0)
		return __LINE__;
	mount_table_count(table, "/tmp/v/none", &count);
	if (count.here != 0 || count.below != 0)
		return __LINE__;
	mount_table_free(table);
	return 0;
}

/* --- a table that is kept --- */

static const char *const kept_points[] = {"/tmp/v",	"/tmp/v/a",    "/tmp/v/a/b", "/tmp/v/c",
					  "/tmp/v/c/d", "/tmp/else/e", "/tmp/else/f"};

/* Is @kept, refreshed, as one that is read anew? */
static bool is_as_read_anew(struct mount_table **kept, size_t *ret_reads)
{
	cleanup(mount_table_freep) struct mount_table *fresh = NULL;
	size_t before = n_read;
	bool is_same = mount_table_refresh(kept, "/tmp/v", UINT64_MAX, NULL) == STATUS_OK;

	*ret_reads = n_read - before;
	is_same = is_same && mount_table_refresh(&fresh, "/tmp/v", UINT64_MAX, NULL) == STATUS_OK;
	for (size_t i = 0; is_same && i < ARRAY_SIZE(kept_points); i++) {
		struct mount_count as_kept, as_read;
		struct mount_view view;

		mount_table_count(*kept, kept_points[i], &as_kept);
		mount_table_count(fresh, kept_points[i], &as_read);
		is_same = as_kept.here == as_read.here && as_kept.below == as_read.below &&
			  str_eq(as_kept.stacked, as_read.stacked) &&
			  mount_table_find(*kept, kept_points[i], &view, NULL) ==
				  mount_table_find(fresh, kept_points[i], &view, NULL);
	}
	return is_same;
}

static bool knows_ids(void)
{
	uint64_t id;

	return sys_listmount(SYS_LSMT_ROOT, 0, &id, 1) >= 0;
}

static bool mount_at(const char *point)
{
	(void)mkdir(point, 0700);
	return mount("none", point, "tmpfs", 0, NULL) == 0;
}

/* In namespaces of its own: as above. */
static int keep_what_changes(void)
{
	struct mount_table *kept = NULL;
	struct mount_count count;
	size_t reads;

	if (!may_mount() || mkdir("/tmp/else", 0700) < 0)
		return __LINE__;
	for (size_t i = 0; i < ARRAY_SIZE(kept_points); i++)
		if (!mount_at(kept_points[i]))
			return __LINE__;
	if (!is_as_read_anew(&kept, &reads) || reads != 1)
		return __LINE__;
	/* unmounted, here and elsewhere, and mounted elsewhere: nothing is read */
	if (umount("/tmp/v/a/b") < 0 || umount("/tmp/else/e") < 0 || !mount_at("/tmp/else/f"))
		return __LINE__;
	if (!is_as_read_anew(&kept, &reads) || (knows_ids() && reads != 0))
		return __LINE__;
	/* mounted here */
	for (int i = 0; i < 2; i++)
		if (!mount_at("/tmp/v/a/b"))
			return __LINE__;
	if (!is_as_read_anew(&kept, &reads) || (knows_ids() && reads != 0))
		return __LINE__;
	/* moved away from here and back, one of which shows no new id */
	if (mount("/tmp/v/c", "/tmp/v/a/b", NULL, MS_MOVE, NULL) < 0)
		return __LINE__;
	mount_table_count(kept, "/tmp/v/c", &count);
	if (knows_ids() && (count.here != 0 || count.below != 0))
		return __LINE__;
	mount_table_free(kept);
	kept = NULL;
	for (unsigned int i = 0, random = 20261123; i < 400; i++) {
		const char *point;

		random = random * 1103515245 + 12345;
		point = kept_points[1 + (random >> 16) % (ARRAY_SIZE(kept_points) - 1)];
		if ((random >> 8) % 3 == 0)
			(void)mount_at(point);
		else
			(void)umount2(point, MNT_DETACH);
		if (!is_as_read_anew(&kept, &reads))
			return __LINE__;
	}
	mount_table_free(kept);
	return 0;
}

/* A mount that is attached after another one, which was made later, has been seen. */
static int attach_what_was_made_before(void)
{
	struct mount_table *kept = NULL;
	struct mount_count count;
	int fs_fd, mount_fd;
	uint64_t settled;

	if (!may_mount() || !mount_at("/tmp/v"))
		return __LINE__;
	if (mount_table_refresh(&kept, "/tmp/v", UINT64_MAX, NULL) != STATUS_OK)
		return __LINE__;
	settled = mount_table_last(kept);
	fs_fd = sys_fsopen("tmpfs", SYS_FSOPEN_CLOEXEC);
	if (sys_fsconfig(fs_fd, SYS_FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return __LINE__;
	mount_fd = sys_fsmount(fs_fd, SYS_FSMOUNT_CLOEXEC, 0);
	if (mount_fd < 0 || !mount_at("/tmp/v/a"))
		return __LINE__;
	for (int i = 0; i < 3; i++)
		if (mount_table_refresh(&kept, "/tmp/v", settled, NULL) != STATUS_OK)
			return __LINE__;
	if (mkdir("/tmp/v/b", 0700) < 0 ||
	    sys_move_mount(mount_fd, "", AT_FDCWD, "/tmp/v/b", SYS_MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return __LINE__;
	if (mount_table_refresh(&kept, "/tmp/v", UINT64_MAX, NULL) != STATUS_OK)
		return __LINE__;
	mount_table_count(kept, "/tmp/v", &count);
	if (count.here != 1 || count.below != 2)
		return __LINE__;
	mount_table_free(kept);
	return 0;
}

/* Puts the content of folder d, in the working folder, below folders of 5 KiB: its owner may, with mounts in
 * it. */
static bool bury(void)
{
	char deeper[3 + 250 + 1] = "up/";

	memset(deeper + 3, 'x', 250);
	for (int i = 0; i < 20; i++)
		if (mkdir("up", 0700) < 0 || rename("d", deeper) < 0 || rename("up", "d") < 0)
			return false;
	return true;
}

static int bury_mounts(void)
{
	static const char *const points[] = {"/tmp/v",	     "/tmp/v/a",       "/tmp/v/a/d",
					     "/tmp/v/a/d/m", "/tmp/v/a/d/m/n", "/tmp/else"};
	struct mount_table *kept = NULL;
	struct mount_count count;
	struct mount_view view;
	size_t before;

	if (!may_mount())
		return __LINE__;
	for (size_t i = 0; i < ARRAY_SIZE(points); i++)
		if (i == 2 ? mkdir(points[i], 0700) < 0 : !mount_at(points[i]))
			return __LINE__;
	if (mkdir("/tmp/else/d", 0700) < 0 || !mount_at("/tmp/else/d/m"))
		return __LINE__;
	if (chdir("/tmp/v/a") < 0 || !bury() || chdir("/tmp/else") < 0 || !bury() || chdir("/") < 0)
		return __LINE__;
	if (mount_table_refresh(&kept, "/tmp/v", UINT64_MAX, NULL) != STATUS_OK)
		return __LINE__;
	mount_table_count(kept, "/tmp/v", &count); /* two of them are deep below */
	if (count.here != 1 || count.below != 3 || count.stacked[0] != '\0')
		return __LINE__;
	mount_table_count(kept, "/tmp/v/a", &count);
	if (count.here != 1 || count.below != 2 ||
	    mount_table_find(kept, "/tmp/v/a", &view, NULL) != STATUS_OK)
		return __LINE__;
	/* a change costs as much as without them */
	before = n_read;
	if (!mount_at("/tmp/v/b") || mount_table_refresh(&kept, "/tmp/v", UINT64_MAX, NULL) != STATUS_OK)
		return __LINE__;
	mount_table_count(kept, "/tmp/v/b", &count);
	if (count.here != 1 || (n_read != before && knows_ids()))
		return __LINE__;
	mount_table_free(kept);
	return 0;
}

static bool shows_the_same(const struct mount_view *a, const struct mount_view *b)
{
	return a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
	       a->is_read_only == b->is_read_only && a->is_nosuid == b->is_nosuid &&
	       a->is_nodev == b->is_nodev && a->is_noexec == b->is_noexec && str_eq(a->options, b->options) &&
	       str_eq(a->root, b->root) && str_eq(a->fs_type, b->fs_type);
}

/* With each flag, a root that is no whole file system, and a remount. */
static int ask_both_ways(void)
{
	static const unsigned long flags[] = {0,
					      MS_RDONLY,
					      MS_NOSUID | MS_NOATIME,
					      MS_NODEV | MS_NODIRATIME,
					      MS_NOEXEC | MS_STRICTATIME,
					      MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOSYMFOLLOW};
	struct mount_table *by_id = NULL, *by_text = NULL;
	struct mount_view asked, read;
	char path[32];

	if (!may_mount())
		return __LINE__;
	for (size_t i = 0; i <= ARRAY_SIZE(flags); i++) {
		(void)snprintf(path, sizeof(path), "/tmp/m%zu", i);
		(void)mkdir(path, 0700);
		if (i < ARRAY_SIZE(flags) ? mount("none", path, "tmpfs", flags[i], NULL) < 0
					  : mount("/tmp/m0", path, NULL, MS_BIND, NULL) < 0)
			return __LINE__;
	}
	if (mkdir("/tmp/m0/sub", 0700) < 0 || mkdir("/tmp/m7", 0700) < 0 ||
	    mount("/tmp/m0/sub", "/tmp/m7", NULL, MS_BIND, NULL) < 0 ||
	    mount_table_refresh(&by_id, "/tmp/", UINT64_MAX, NULL) != STATUS_OK ||
	    mount(NULL, "/tmp/m0", NULL, MS_REMOUNT | MS_BIND | MS_NOEXEC, NULL) < 0)
		return __LINE__;
	is_old_kernel = true;
	if (mount_table_refresh(&by_text, "/tmp/", UINT64_MAX, NULL) != STATUS_OK)
		return __LINE__;
	for (int i = 0; i < 8; i++) {
		(void)snprintf(path, sizeof(path), "/tmp/m%d", i);
		if (mount_table_find(by_id, path, &asked, NULL) != STATUS_OK ||
		    mount_table_find(by_text, path, &read, NULL) != STATUS_OK ||
		    !shows_the_same(&asked, &read))
			return __LINE__ * 1000 + i;
	}
	if (!str_eq(asked.root, "/sub"))
		return __LINE__;
	mount_table_free(by_id);
	mount_table_free(by_text);
	return 0;
}

static void expect_zero_apart(int (*function)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		int line = function();

		if (line != 0)
			(void)fprintf(stderr, "line %d\n", line);
		_exit(line != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(mounts_are_counted_one_upon_the_other_too)
{
	expect_zero_apart(count_what_is_stacked);
}

TEST(a_kept_table_is_as_one_that_is_read_anew)
{
	expect_zero_apart(keep_what_changes);
}

TEST(a_mount_that_a_call_in_flight_has_made_is_seen_when_it_is_attached)
{
	expect_zero_apart(attach_what_was_made_before);
}

TEST(a_mount_with_a_long_path_slows_nothing_and_counts_as_below_the_one_that_it_is_on)
{
	expect_zero_apart(bury_mounts);
}

TEST(both_ways_show_the_same_of_a_mount)
{
	if (knows_ids())
		expect_zero_apart(ask_both_ways);
}

TEST(before_linux_6_8_a_kept_table_is_read_whenever_mounts_change)
{
	is_old_kernel = true;
	expect_zero_apart(keep_what_changes);
	is_old_kernel = false;
}

TEST(neither_root_nor_capabilities_are_accepted)
{
	struct error err;

	assert_int_equal(privileges_check(1000, 0, 0, &err), STATUS_OK);
	assert_error(privileges_check(0, 0, 0, &err), STATUS_FAILED_PRECONDITION, err, "root");
	assert_int_equal(privileges_check(1000, 1, 1, &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(privileges_check(1000, 0, UINT64_C(1) << 40, &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(privileges_check(1000, UINT64_C(1) << 40, 0, &err), STATUS_FAILED_PRECONDITION);
}

TEST(status_and_drain_are_for_root_and_the_agent_itself)
{
	struct rpc_peer peer = {.kind = RPC_PEER_UNIX, .uid = 1000};
	struct error err;

	assert_int_equal(local_authorize(&peer, 1000, "drain", &err), STATUS_OK);
	assert_error(local_authorize(&peer, 1001, "drain", &err), STATUS_PERMISSION_DENIED, err,
		     "sudo holdfast agent drain");
	peer.uid = 0;
	assert_int_equal(local_authorize(&peer, 1001, "drain", &err), STATUS_OK);
	peer.kind = RPC_PEER_TLS;
	assert_int_equal(local_authorize(&peer, 0, "drain", &err), STATUS_PERMISSION_DENIED);
}
