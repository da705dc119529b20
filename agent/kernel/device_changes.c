/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/device_changes.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { IDS_AT_ONCE = 256 };

static int compare(const struct device_seen *a, const struct device_seen *b)
{
	return strcmp(a->name, b->name);
}

TREE_GENERATE(device_seen_tree, device_seen, entry, compare)

void device_changes_init(struct device_changes *changes)
{
	*changes = (struct device_changes){.whole = 1};
	RB_INIT(&changes->seen);
}

/* Those that the last look has not found. */
static void forget(struct device_changes *changes, uint64_t look)
{
	struct device_seen *seen, *next;

	RB_FOREACH_SAFE (seen, device_seen_tree, &changes->seen, next) {
		if (seen->look == look)
			continue;
		RB_REMOVE(device_seen_tree, &changes->seen, seen);
		changes->n_seen--;
		free(seen);
	}
}

void device_changes_release(struct device_changes *changes)
{
	forget(changes, UINT64_MAX);
}

static struct device_seen *device_seen_find(struct device_changes *changes, const char *name)
{
	struct device_seen key = {0};

	return str_copy(key.name, sizeof(key.name), name) < 0
		       ? NULL
		       : RB_FIND(device_seen_tree, &changes->seen, &key);
}

static bool on_named(const char *name, void *userdata)
{
	struct device_changes *changes = userdata;
	struct device_seen *seen = device_seen_find(changes, name);

	if (!seen) {
		seen = changes->n_seen < DEVICE_CHANGES_DEVICES_MAX ? calloc(1, sizeof(*seen)) : NULL;
		if (!seen)
			return false;
		if (str_copy(seen->name, sizeof(seen->name), name) < 0) {
			free(seen);
			return false;
		}
		seen->since = changes->look;
		RB_INSERT(device_seen_tree, &changes->seen, seen);
		changes->n_seen++;
	}
	seen->look = changes->look;
	return true;
}

/* After one that did not find everything, what the next ones find may have been there all the time. */
static bool devices_look(struct device_changes *changes)
{
	changes->look++;
	if (!device_each_superblock(on_named, changes)) {
		forget(changes, UINT64_MAX);
		changes->whole = changes->look + 1;
		return false;
	}
	forget(changes, changes->look);
	return true;
}

static bool find_youngest(struct device_changes *changes)
{
	uint64_t ids[IDS_AT_ONCE];
	ssize_t n;

	do {
		n = sys_listmount(SYS_LSMT_ROOT, changes->mount_id, ids, ARRAY_SIZE(ids));
		if (n > 0)
			changes->mount_id = ids[n - 1];
	} while (n == (ssize_t)ARRAY_SIZE(ids));
	return n >= 0;
}

struct device_moment device_changes_now(struct device_changes *changes)
{
	struct device_moment moment = {0};

	/* in this order: a file system made in between is taken for an old one */
	if (!find_youngest(changes))
		return moment;
	moment.mount_id = changes->mount_id;
	if (devices_look(changes))
		moment.look = changes->look;
	return moment;
}

/* Is the device's file system younger? */
static bool is_change(struct device_changes *changes, const struct device_moment *moment, uint32_t dev_major,
		      uint32_t dev_minor)
{
	char name[DEVICE_NAME_SIZE];
	const struct device_seen *seen;

	if (moment->look < changes->whole || device_name(dev_major, dev_minor, name) < 0)
		return false;
	seen = device_seen_find(changes, name);
	return !seen || seen->since > moment->look;
}

static int device_of(struct device_changes *changes, uint64_t mount_id, struct device_recalled *ret)
{
	struct device_recalled *recalled = &changes->recalled[mount_id % DEVICE_CHANGES_RECALLED];
	struct sys_statmount st;
	int r;

	if (recalled->mount_id != mount_id) {
		r = sys_statmount(mount_id, SYS_STATMOUNT_SB_BASIC, &st);
		if (r < 0)
			return r;
		if ((st.mask & SYS_STATMOUNT_SB_BASIC) == 0)
			return -EOPNOTSUPP;
		*recalled = (struct device_recalled){mount_id, st.sb_dev_major, st.sb_dev_minor};
	}
	*ret = *recalled;
	return 0;
}

static int note_mount(uint64_t mount_id, const char *const within[static 2], struct device_mounts *found)
{
	const uint64_t mask = SYS_STATMOUNT_MNT_ROOT | SYS_STATMOUNT_MNT_POINT;
	struct sys_statmount st;
	int r = sys_statmount(mount_id, mask, &st);

	if (r < 0)
		return r;
	if ((st.mask & mask) != mask || st.mnt_root >= sizeof(st.strings) ||
	    st.mnt_point >= sizeof(st.strings))
		return -EOPNOTSUPP;
	device_mounts_note(found, st.strings + st.mnt_root, st.strings + st.mnt_point, within);
	return 0;
}

struct wanted {
	uint32_t dev_major;
	uint32_t dev_minor;
	const char *const *within;
	struct device_mounts found;
};

/* Checks one mount. Ignores one that is gone meanwhile. */
static bool look_at(struct device_changes *changes, uint64_t mount_id, struct wanted *wanted)
{
	struct device_recalled device;
	int r = device_of(changes, mount_id, &device);

	if (r == 0 && device.dev_major == wanted->dev_major && device.dev_minor == wanted->dev_minor)
		r = note_mount(mount_id, wanted->within, &wanted->found);
	return r == 0 || r == -ENOENT;
}

bool device_changes_find_mounts(struct device_changes *changes, const struct device_moment *moment,
				uint32_t dev_major, uint32_t dev_minor, const char *const within[static 2],
				struct device_mounts *ret)
{
	struct wanted wanted = {.dev_major = dev_major, .dev_minor = dev_minor, .within = within};
	uint64_t ids[IDS_AT_ONCE];
	uint64_t after = moment->mount_id;
	ssize_t n = ARRAY_SIZE(ids);

	if (!is_change(changes, moment, dev_major, dev_minor))
		return false;
	for (size_t all = 0; n == (ssize_t)ARRAY_SIZE(ids); all += (size_t)n) {
		n = sys_listmount(SYS_LSMT_ROOT, after, ids, ARRAY_SIZE(ids));
		if (n < 0 || all + (size_t)n > DEVICE_CHANGES_MOUNTS_MAX)
			return false;
		for (ssize_t i = 0; i < n; i++) {
			if (!look_at(changes, ids[i], &wanted))
				return false;
		}
		after = n > 0 ? ids[n - 1] : after;
	}
	*ret = wanted.found;
	return true;
}
