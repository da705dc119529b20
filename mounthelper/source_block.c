/* SPDX-License-Identifier: Apache-2.0 */
/* block: a disk or an image by its entry in /dev/disk/by-id. */
#include "source.h"
#include "trees.h"

#include "base/path.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

int by_id_target(const char *target, char ret[static DEVICE_NAME_SIZE])
{
	const char *name = str_starts_with(target, "../../") ? target + strlen("../../") : "";
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

	if (n == 0 || name[n] != '\0' || n >= DEVICE_NAME_SIZE)
		return -EINVAL;
	return str_copy(ret, DEVICE_NAME_SIZE, name);
}

int disk_find(const struct helper *h, const char *folder, const char *id,
	      char ret_name[static DEVICE_NAME_SIZE], struct place *ret)
{
	char path[sizeof("/disk/by-uuid/") + MH_BY_ID_SIZE];
	char target[DEVICE_NAME_SIZE + 8] = "";
	char link[NAME_MAX + 1];
	cleanup_close int dir = -EBADF;
	cleanup_close int fd = -EBADF;
	int n;

	(void)str_format(path, sizeof(path), "/disk/%s/%s", folder, id);
	dir = path_open_trusted_parent(h->dev_fd, path, link);
	n = dir < 0 ? dir : sys_readlinkat(dir, link, target, sizeof(target) - 1); /* a cut one is too long */
	if (n >= 0)
		n = by_id_target(target, ret_name);
	if (n < 0)
		return n;
	fd = sys_openat(h->dev_fd, ret_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? fd : place_of_fd(fd, ret);
}

/* Compare the number of the node with what the request expects. */
static struct outcome block_find(struct staging *s)
{
	const struct mh_source *source = &s->req->source;
	char name[DEVICE_NAME_SIZE];
	struct place node;
	int r = disk_find(s->h, "by-id", source->u.block.by_id, name, &node);

	if (r == -EINVAL)
		return outcome_stop(MH_REFUSED, STEP_SOURCE, REASON_LINK);
	if (r == -EPERM || r == -ENOTDIR || r == -ELOOP)
		return outcome_stop(MH_REFUSED, STEP_SOURCE, REASON_DEV_PATH);
	TRY_KERNEL(STEP_SOURCE, r);
	if (!S_ISBLK(node.mode))
		return outcome_stop(MH_REFUSED, STEP_SOURCE, REASON_NOT_BLOCK);
	if (node.rdev_major != source->u.block.major || node.rdev_minor != source->u.block.minor)
		return outcome_stop(MH_REFUSED, STEP_SOURCE, REASON_DEVICE_NUMBER);
	s->origin.dev_major = node.rdev_major;
	s->origin.dev_minor = node.rdev_minor;
	(void)str_format(s->source, sizeof(s->source), "/dev/%s", name);
	return OUTCOME_OK;
}

/* A device whose superblock is alive anywhere, even in a namespace that we cannot see, must not be shared:
 * its options would silently be the older ones. Before Linux 6.6 the kernel has no call to refuse that.
 * Then the superblocks that it shows must do, and the mount table for types that it does not show. */
static int create(const struct staging *s, int fs_fd)
{
	struct census census = {.dev_major = s->origin.dev_major, .dev_minor = s->origin.dev_minor};
	int r = sys_fsconfig(fs_fd, SYS_FSCONFIG_CMD_CREATE_EXCL, NULL, NULL, 0);

	/* EOPNOTSUPP of the file system? If the kernel knows the command, an argument is EINVAL at once */
	if (r != -EOPNOTSUPP || sys_fsconfig(fs_fd, SYS_FSCONFIG_CMD_CREATE_EXCL, NULL, NULL, 1) != r)
		return r;
	/* Linux 5.19 to 6.3 opens the devices whose paths are in an erofs, and shows their contents */
	if (s->profile->kind == FS_EROFS && s->profile->trust != TRUST_TRUSTED)
		return -EXDEV;
	TRY_SYS(census_take(s->h, &census));
	if (census.on_device != 0 ||
	    superblock_is_alive(s->h, fs_names[s->profile->kind], s->origin.dev_major, s->origin.dev_minor))
		return -EBUSY;
	return sys_fsconfig(fs_fd, SYS_FSCONFIG_CMD_CREATE, NULL, NULL, 0);
}

const struct source_class source_block = {.find = block_find, .make = filesystem_make, .create = create};
