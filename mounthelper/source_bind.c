/* SPDX-License-Identifier: Apache-2.0 */
/* bind: a directory of the host that the policy names. */
#include "source.h"

#include "base/path.h"

#include <string.h>
#include <sys/stat.h>

/* Is @place on the disk whose file system has the UUID of the policy? A file system without a device of its
 * own number, as btrfs, never is. */
static bool is_on_disk(const struct helper *h, const char *uuid, const struct place *place)
{
	char name[DEVICE_NAME_SIZE];
	struct place node;

	return disk_find(h, "by-uuid", uuid, name, &node) == 0 && S_ISBLK(node.mode) &&
	       node.rdev_major == place->dev_major && node.rdev_minor == place->dev_minor;
}

/* The kernel lists the submounts of a mount, not of a directory in it, so this is a pass over the whole
 * table. */
struct outcome host_volume_look(struct helper *h, const struct profile *profile, bool read_only,
				struct place *ret)
{
	assert(profile->class == MH_CLASS_BIND);

	struct mount_facts facts = {.peer_group = 0};
	struct mount_entry entry;
	int fd = path_open_trusted(h->root_fd, profile->path);
	int r = fd < 0 ? fd : place_of_fd(fd, ret);

	ret->fd = fd;
	if (r == -EPERM || r == -ELOOP || r == -ENOTDIR)
		return outcome_stop(MH_REFUSED, STEP_SOURCE, REASON_HOST_PATH);
	TRY_KERNEL(STEP_SOURCE, r);
	if ((profile->needs_mount && !ret->is_mount_root) ||
	    (profile->n_by_id > 0 && !is_on_disk(h, profile->by_id[0].text, ret)))
		return outcome_stop(MH_REFUSED, STEP_SOURCE, REASON_NOT_MOUNTED);
	TRY_KERNEL(STEP_SOURCE, mount_facts(&h->mountinfo, ret, &facts));
	if (ret->uid != profile->owner_uid || ((facts.attributes & SYS_MOUNT_ATTR_RDONLY) != 0 && !read_only))
		return outcome_stop(MH_REFUSED, STEP_SOURCE, REASON_HOST_PATH);
	mountinfo_rewind(&h->mountinfo);
	while ((r = mountinfo_next(&h->mountinfo, &entry)) > 0 &&
	       (!path_is_within(entry.point, profile->path) || str_eq(entry.point, profile->path)))
		;
	TRY_KERNEL(STEP_TABLE, r);
	if (r > 0)
		return outcome_stop(MH_CONFLICT, STEP_SOURCE, REASON_SUBMOUNT);
	r = own_find(h, h->root_fd, profile->path, false);
	TRY_KERNEL(STEP_SOURCE, r);
	return r > 0 && own_is_shown(h, h->own[h->n_own])
		       ? outcome_stop(MH_CONFLICT, STEP_SOURCE, REASON_OTHER_MOUNT)
		       : OUTCOME_OK;
}

static struct outcome bind_find(struct staging *s)
{
	return host_volume_look(s->h, s->profile, s->req->read_only, &s->origin);
}

/* A clone begins as a peer of what it is cloned from, and stays one if the profile is shared: so mounts cross
 * between the host's directory and the tasks. */
static struct outcome make(const struct staging *s, int *ret_fd)
{
	const struct sys_mount_attr attr = {.attr_set = stage_attributes(s),
					    .propagation = propagation_flag(s->propagation)};

	*ret_fd = sys_open_tree(s->origin.fd, "", SYS_OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH);
	TRY_KERNEL(STEP_CLONE, *ret_fd);
	TRY_KERNEL(STEP_RESTRICT, sys_mount_setattr(*ret_fd, "", AT_EMPTY_PATH, &attr));
	return OUTCOME_OK;
}

static bool is_same(const struct staging *s, const struct mount_facts *facts)
{
	return place_is_same(&s->target, &s->origin);
}

const struct source_class source_bind = {.find = bind_find, .make = make, .is_same = is_same};
