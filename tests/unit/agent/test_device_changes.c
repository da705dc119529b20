/* SPDX-License-Identifier: Apache-2.0 */
/* The youngest mounts, over a model of the kernel's mounts and file systems. */

#include "unit.h"

#include "base/sys.h"
#include "kernel/device_changes.h"

enum {
	MAJOR = 7,
	MOUNTS_MAX = 4096,
	RECENT = 16,
	STEP = 3, /* other namespaces have ids, too */
};

/* Of a device whose minor is below 16; attached when it has a point. */
struct fake_mount {
	uint64_t id;
	unsigned int minor;
	const char *root, *point;
	bool stands; /* attached or not */
};

static struct fake_kernel {
	struct fake_mount mounts[MOUNTS_MAX];
	size_t n;
	uint64_t last_id;
	bool is_before_6_8;
	bool hides; /* a listing of file systems breaks off */
	int statmount_error;
	unsigned int n_statmounts;
	unsigned int n_others; /* file systems of other devices */
	const char *others;    /* what these are called */
	uint64_t crowd;	       /* so many mounts of nobody's after all others */
} kernel;

static const char *const within[2] = {"/stage", "/publish"};

WRAPPED(ssize_t, sys_listmount, uint64_t mount_id, uint64_t after_id, uint64_t *ret_ids, size_t n)
{
	size_t found = 0;

	assert_int_equal(mount_id, SYS_LSMT_ROOT);
	if (kernel.is_before_6_8)
		return -ENOSYS;
	for (size_t i = 0; i < kernel.n && found < n; i++) {
		if (kernel.mounts[i].id > after_id && kernel.mounts[i].point)
			ret_ids[found++] = kernel.mounts[i].id;
	}
	for (uint64_t i = 1; i <= kernel.crowd && found < n; i++) {
		if (kernel.last_id + i > after_id)
			ret_ids[found++] = kernel.last_id + i;
	}
	return (ssize_t)found;
}

static const struct fake_mount *find_mount(uint64_t id)
{
	for (size_t i = 0; i < kernel.n; i++) {
		if (kernel.mounts[i].id == id && kernel.mounts[i].point)
			return &kernel.mounts[i];
	}
	return NULL;
}

WRAPPED(int, sys_statmount, uint64_t mount_id, uint64_t mask, struct sys_statmount *ret)
{
	const struct fake_mount *mount = find_mount(mount_id);

	kernel.n_statmounts++;
	if (kernel.statmount_error != 0)
		return kernel.statmount_error;
	*ret = (struct sys_statmount){.mask = mask, .sb_dev_major = MAJOR, .sb_dev_minor = UINT32_MAX};
	if (mount_id > kernel.last_id && mount_id <= kernel.last_id + kernel.crowd)
		return 0;
	if (!mount)
		return -ENOENT;
	ret->sb_dev_minor = mount->minor;
	ret->mnt_root = 1;
	ret->mnt_point = 100;
	(void)str_copy(ret->strings + ret->mnt_root, 99, mount->root);
	(void)str_copy(ret->strings + ret->mnt_point, 99, mount->point);
	return 0;
}

static bool has_superblock(unsigned int minor)
{
	for (size_t i = 0; i < kernel.n; i++) {
		if (kernel.mounts[i].stands && kernel.mounts[i].minor == minor)
			return true;
	}
	return false;
}

WRAPPED(bool, device_each_superblock, device_named_fn *named, void *userdata)
{
	char name[DEVICE_NAME_SIZE];

	for (unsigned int minor = 0; minor < 16; minor++) {
		(void)str_format(name, sizeof(name), "loop%u", minor);
		if (has_superblock(minor) && !named(name, userdata))
			return false;
		if (kernel.hides)
			return false;
	}
	for (unsigned int i = 0; i < kernel.n_others; i++) {
		(void)str_format(name, sizeof(name), "%s%u", kernel.others, i);
		if (!named(name, userdata))
			return false;
	}
	return true;
}

WRAPPED(int, device_name, uint32_t dev_major, uint32_t dev_minor, char ret[static DEVICE_NAME_SIZE])
{
	(void)str_format(ret, DEVICE_NAME_SIZE, "loop%u", dev_minor);
	return dev_major == MAJOR ? 0 : -ENOENT;
}

/* @point NULL: not attached yet */
static struct fake_mount *add_mount(unsigned int minor, const char *root, const char *point)
{
	assert_true(kernel.n < MOUNTS_MAX);
	kernel.last_id += STEP;
	kernel.mounts[kernel.n] = (struct fake_mount){
		.id = kernel.last_id, .minor = minor, .root = root, .point = point, .stands = true};
	return &kernel.mounts[kernel.n++];
}

static void end_mount(struct fake_mount *mount)
{
	mount->stands = false;
	mount->point = NULL;
}

static int setup(void **state)
{
	struct device_changes *changes = NON_NULL(malloc(sizeof(*changes)));

	kernel = (struct fake_kernel){.last_id = UINT64_C(1) << 31, .others = "sd"};
	device_changes_init(changes);
	*state = changes;
	return 0;
}

static int teardown(void **state)
{
	device_changes_release(*state);
	free(*state);
	return 0;
}

static bool ask(struct device_changes *changes, struct device_moment moment, uint32_t minor,
		struct device_mounts *ret)
{
	return device_changes_find_mounts(changes, &moment, MAJOR, minor, within, ret);
}

TEST_FIXTURE(new_mounts_are_distinguished_from_mounts_elsewhere, setup, teardown)
{
	static const struct {
		const char *root, *point;
		bool is_elsewhere, is_whole;
	} rows[] = {
		{"/", "/stage/v", false, true},	  {"/a", "/stage/v", false, false},
		{"/", "/publish/v", false, true}, {"/", "/stages", true, false},
		{"/", "/mnt/stage", true, false}, {"/a", "/mnt", true, false},
	};
	struct device_mounts found;

	(void)add_mount(1, "/", "/");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct device_moment moment = device_changes_now(*state);
		struct fake_mount *mount = add_mount(3, rows[i].root, rows[i].point);

		assert_true(ask(*state, moment, 3, &found));
		assert_int_equal(found.is_elsewhere, rows[i].is_elsewhere);
		assert_int_equal(found.is_whole, rows[i].is_whole);
		assert_string_equal(found.point, rows[i].is_elsewhere ? rows[i].point : "");
		end_mount(mount);
	}
}

TEST_FIXTURE(mounts_before_the_moment_stay_unknown, setup, teardown)
{
	struct device_mounts found = {.is_whole = true};
	struct fake_mount *mount = add_mount(3, "/", "/srv");
	struct device_moment moment = device_changes_now(*state);

	(void)add_mount(3, "/", "/stage/v");
	assert_false(ask(*state, moment, 3, &found));
	assert_true(found.is_whole); /* untouched */
	/* nor does another look make it younger */
	(void)device_changes_now(*state);
	assert_false(ask(*state, moment, 3, &found));
	/* nor its going, if nobody looked meanwhile */
	end_mount(mount);
	assert_false(ask(*state, moment, 3, &found));
}

TEST_FIXTURE(a_process_restarted_between_two_looks_is_younger, setup, teardown)
{
	struct fake_mount *mount = add_mount(3, "/", "/srv");
	struct device_moment before = device_changes_now(*state), between;
	struct device_mounts found;

	end_mount(mount);
	between = device_changes_now(*state);
	(void)add_mount(3, "/", "/mnt");
	(void)device_changes_now(*state);
	for (int i = 0; i <= 1; i++) {
		assert_true(ask(*state, i ? between : before, 3, &found));
		assert_true(found.is_elsewhere);
	}
	assert_false(ask(*state, device_changes_now(*state), 3, &found));
}

TEST_FIXTURE(without_a_moment_nothing_is_known, setup, teardown)
{
	struct device_mounts found;

	(void)device_changes_now(*state);
	(void)add_mount(3, "/", "/mnt");
	assert_false(ask(*state, (struct device_moment){0}, 3, &found));
	assert_false(
		device_changes_find_mounts(*state, &(struct device_moment){.look = 1}, 8, 3, within, &found));
}

TEST_FIXTURE(before_linux_6_8_nothing_is_known, setup, teardown)
{
	struct device_moment moment;
	struct device_mounts found;

	kernel.is_before_6_8 = true;
	moment = device_changes_now(*state);
	(void)add_mount(3, "/", "/mnt");
	assert_int_equal(moment.look, 0);
	assert_false(ask(*state, moment, 3, &found));
}

/* Of what a broken look has not found nobody knows whether it was there. */
TEST_FIXTURE(an_interrupted_look_does_not_count, setup, teardown)
{
	struct device_moment before, broken, after;
	struct device_mounts found;

	(void)add_mount(3, "/", "/srv");
	before = device_changes_now(*state);
	kernel.hides = true;
	broken = device_changes_now(*state);
	kernel.hides = false;
	assert_int_equal(broken.look, 0);
	after = device_changes_now(*state);
	assert_false(ask(*state, before, 3, &found));
	assert_false(ask(*state, broken, 3, &found));
	assert_false(ask(*state, after, 3, &found));
	(void)add_mount(4, "/", "/mnt");
	assert_false(ask(*state, before, 4, &found));
	assert_true(ask(*state, after, 4, &found));
}

TEST_FIXTURE(a_mount_that_cannot_be_asked_for_leaves_nothing_known, setup, teardown)
{
	static const struct {
		int error;
		bool is_known;
	} rows[] = {{-ENOENT, true}, {-EPERM, false}, {-EOVERFLOW, false}};
	struct device_mounts found;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct device_moment moment = device_changes_now(*state);
		struct fake_mount *mount = add_mount(3, "/", "/mnt");

		kernel.statmount_error = rows[i].error;
		assert_int_equal(ask(*state, moment, 3, &found), rows[i].is_known);
		assert_false(rows[i].is_known && found.is_elsewhere);
		kernel.statmount_error = 0;
		end_mount(mount);
	}
}

/* And of those that it does not need none. */
TEST_FIXTURE(a_mount_is_asked_for_its_device_once, setup, teardown)
{
	struct device_moment moment;
	struct device_mounts found;

	for (int i = 0; i < 1000; i++)
		(void)add_mount(1, "/", "/foreign");
	moment = device_changes_now(*state);
	assert_int_equal(kernel.n_statmounts, 0);
	for (unsigned int i = 0; i < 300; i++)
		(void)add_mount(2, "/", "/other");
	(void)add_mount(3, "/", "/stage/v");
	for (unsigned int i = 0; i <= 1; i++) {
		assert_true(ask(*state, moment, 3, &found));
		assert_false(found.is_elsewhere);
		assert_int_equal(kernel.n_statmounts, 300 + 1 + 1 + i);
	}
}

TEST_FIXTURE(the_limits_hold, setup, teardown)
{
	struct device_mounts found;

	for (unsigned int over = 0; over <= 1; over++) {
		struct device_moment moment;

		kernel.n_others = DEVICE_CHANGES_DEVICES_MAX + over;
		moment = device_changes_now(*state);
		assert_int_equal(moment.look != 0, !over);
	}
	/* and one that was passed is no matter afterwards */
	kernel.n_others = DEVICE_CHANGES_DEVICES_MAX;
	kernel.others = "nvme";
	assert_int_not_equal(device_changes_now(*state).look, 0);
	kernel.n_others = 0;
	for (unsigned int over = 0; over <= 1; over++) {
		struct device_moment moment = device_changes_now(*state);

		kernel.crowd = DEVICE_CHANGES_MOUNTS_MAX + over;
		assert_int_equal(ask(*state, moment, 3, &found), !over);
		kernel.last_id += kernel.crowd;
		kernel.crowd = 0;
	}
}

static struct device_mounts whole_table(unsigned int minor)
{
	struct device_mounts found = {0};

	for (size_t i = 0; i < kernel.n; i++) {
		if (kernel.mounts[i].point && kernel.mounts[i].minor == minor)
			device_mounts_note(&found, kernel.mounts[i].root, kernel.mounts[i].point, within);
	}
	return found;
}

static void do_something(unsigned int *seed)
{
	static const char *const points[] = {"/stage/a", "/stage/b", "/publish/a", "/mnt", "/srv", NULL};
	static const char *const roots[] = {"/", "/folder"};
	size_t back = 1 + (size_t)rand_r(seed) % RECENT;
	struct fake_mount *mount = back <= kernel.n ? &kernel.mounts[kernel.n - back] : NULL;
	const char *point = points[(size_t)rand_r(seed) % ARRAY_SIZE(points)];

	/* what is not recent any more has ended */
	if (kernel.n > RECENT)
		end_mount(&kernel.mounts[kernel.n - RECENT - 1]);
	if (!mount || rand_r(seed) % 3 == 0)
		(void)add_mount((unsigned int)rand_r(seed) % 6, roots[rand_r(seed) % 2], point);
	else if (mount->stands && rand_r(seed) % 2 == 0)
		end_mount(mount);
	else if (mount->stands && point) /* moved, or attached at last */
		mount->point = point;
}

/* Devices that a program holds detached, or moves, or that come and go. */
TEST_FIXTURE(known_devices_match_the_whole_table, setup, teardown)
{
	struct device_moment moments[8] = {0};
	unsigned int n_known = 0;

	for (unsigned int seed = 1, run = 0; run < 3000; run++) {
		unsigned int minor = (unsigned int)rand_r(&seed) % 6;
		struct device_moment moment = moments[rand_r(&seed) % 8];
		struct device_mounts found, all = whole_table(minor);

		if (kernel.n == MOUNTS_MAX)
			break;
		if (has_superblock(minor) && ask(*state, moment, minor, &found)) {
			n_known++;
			assert_int_equal(found.is_elsewhere, all.is_elsewhere);
			assert_int_equal(found.is_whole, all.is_whole);
		}
		for (int i = rand_r(&seed) % 4; i > 0; i--)
			do_something(&seed);
		if (rand_r(&seed) % 3 == 0) {
			kernel.hides = rand_r(&seed) % 16 == 0;
			moments[rand_r(&seed) % 8] = device_changes_now(*state);
			kernel.hides = false;
		}
	}
	assert_in_range(n_known, 200, 2000);
}
