#include "ops.h"
#include "trees.h"

#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>

struct unstaging {
	struct helper *h;
	const struct mh_unstage *req;
	char sysfs_name[128]; /* TYPE/DEVICE below /sys/fs; empty when the type has none */
	uint32_t dev_major;
	uint32_t dev_minor;
};

/* Where the kernel shows the superblock as long as it lives. */
static void note_superblock(struct unstaging *u, const struct statfs *fs, const struct mount_facts *facts)
{
	static const char dev[] = "/dev/";
	int kind = fs_kind_of_magic((uint64_t)fs->f_type);

	if (kind < 0 || !fs_types[kind].has_sysfs || !str_starts_with(facts->source, dev))
		return;
	(void)str_format(u->sysfs_name, sizeof(u->sysfs_name), "%s/%s", fs_types[kind].name,
			 facts->source + strlen(dev));
}

static struct outcome examine(struct unstaging *u, const struct place *staged)
{
	struct census census = {
		.dev_major = staged->dev_major, .dev_minor = staged->dev_minor, .parent = staged->mount_id};
	struct mount_facts facts = {.shared = false};
	struct statfs fs = {.f_type = 0};
	int r = census_take(u->h, &census);

	if (r == 0)
		r = mountinfo_find(&u->h->mountinfo, staged->mount_id, &facts);
	if (r < 0)
		return outcome_kernel(STEP_TABLE, r);
	if (census.published_on_device != 0)
		return outcome_stop(MH_BUSY, STEP_TABLE, REASON_PUBLISHED);
	if (census.children != 0)
		return outcome_stop(MH_BUSY, STEP_TABLE, REASON_SUBMOUNT);
	r = sys_fstatfs(staged->fd, &fs);
	if (r < 0)
		return outcome_kernel(STEP_OPEN, r);
	note_superblock(u, &fs, &facts);
	u->dev_major = staged->dev_major;
	u->dev_minor = staged->dev_minor;
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

static struct outcome unmount(const struct unstaging *u)
{
	cleanup_place struct place left = PLACE_INIT;
	int r = place_unmount(u->h, u->h->stage.fd, u->req->volume, u->req->detach);

	if (r == -EBUSY)
		return outcome_stop(MH_BUSY, STEP_UNMOUNT, REASON_IN_USE);
	if (r < 0)
		return outcome_kernel(STEP_UNMOUNT, r);
	r = place_open(u->h->stage.fd, u->req->volume, &left);
	if (r < 0)
		return outcome_kernel(STEP_VERIFY, r);
	if (left.is_mount_root)
		return outcome_stop(MH_CONFLICT, STEP_VERIFY, REASON_STACKED);
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

/* Removing the directory also detaches copies of the mount that other namespaces still hold; only then does
 * the superblock show whether anything is left. */
static struct outcome remove_and_look(const struct unstaging *u)
{
	struct outcome outcome = {.status = MH_OK, .dev_major = u->dev_major, .dev_minor = u->dev_minor};
	struct stat st;
	int r = sys_rmdirat(u->h->stage.fd, u->req->volume);

	if (r < 0)
		return outcome_kernel(STEP_REMOVE, r);
	if (u->sysfs_name[0] != '\0' &&
	    sys_fstatat(u->h->sysfs_fd, u->sysfs_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		outcome.state = MH_STATE_SB_ALIVE;
	return outcome;
}

struct outcome op_unstage(struct helper *h, const struct mh_unstage *req)
{
	struct unstaging u = {.h = h, .req = req};
	struct place staged = PLACE_INIT;
	struct outcome outcome = {.status = MH_OK};
	int r = place_open(h->stage.fd, req->volume, &staged);

	if (r == -ENOENT)
		return outcome_stop(MH_ALREADY, STEP_NONE, REASON_NONE);
	if (r < 0)
		return outcome_kernel(STEP_OPEN, r);
	if (staged.is_mount_root)
		outcome = examine(&u, &staged);
	else if (!place_is_own(h, &h->stage, &staged))
		outcome = outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	place_release(&staged); /* a descriptor of the mount would keep it busy */
	if (outcome.status == MH_OK && staged.is_mount_root)
		outcome = unmount(&u);
	return outcome.status == MH_OK ? remove_and_look(&u) : outcome;
}
