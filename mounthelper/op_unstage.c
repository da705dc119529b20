#include "locks.h"
#include "mounts.h"
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

/* Where the kernel shows the superblock as long as it lives: its device by the name of its node. */
static void note_superblock(struct unstaging *u, const struct place *staged, const struct statfs *fs)
{
	int kind = fs_kind_of_magic((uint64_t)fs->f_type);
	char device[24];
	char target[256];
	char *name;
	int n;

	if (kind < 0 || !fs_types[kind].has_sysfs)
		return;
	(void)str_format(device, sizeof(device), "%u:%u", staged->dev_major, staged->dev_minor);
	n = sys_readlinkat(u->h->sysfs_block_fd, device, target, sizeof(target) - 1);
	if (n <= 0)
		return;
	target[n] = '\0';
	name = strrchr(target, '/');
	if (name)
		(void)str_format(u->sysfs_name, sizeof(u->sysfs_name), "%s/%s", fs_types[kind].name,
				 name + 1);
}

/* The count of publishes is never too low: only when it is not zero the mount table is asked. */
static struct outcome check_publishes(const struct unstaging *u, const struct place *staged)
{
	struct census census = {.dev_major = staged->dev_major, .dev_minor = staged->dev_minor};
	const struct state_slot *slot;
	bool counted;
	int r = lock_table(u->h->state_fd);

	if (r < 0)
		return outcome_kernel(STEP_LOCK, r);
	slot = state_find(u->h->state, u->req->volume);
	counted = !slot || slot->stage == STATE_UNSTAGED || slot->published != 0;
	unlock_table(u->h->state_fd);
	if (!counted)
		return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
	r = census_take(u->h, &census);
	if (r < 0)
		return outcome_kernel(STEP_TABLE, r);
	if (census.published_on_device != 0)
		return outcome_stop(MH_BUSY, STEP_TABLE, REASON_PUBLISHED);
	r = lock_table(u->h->state_fd);
	if (r < 0)
		return outcome_kernel(STEP_LOCK, r);
	state_set_published(u->h->state, u->req->volume, 0);
	unlock_table(u->h->state_fd);
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

static struct outcome examine(struct unstaging *u, const struct place *staged)
{
	struct mount_facts facts = {.peer_group = 0};
	struct statfs fs = {.f_type = 0};
	struct outcome outcome = check_publishes(u, staged);
	int r;

	if (outcome.status != MH_OK)
		return outcome;
	r = mount_facts(u->h, staged, &facts);
	if (r < 0)
		return outcome_kernel(STEP_TABLE, r);
	if (facts.has_submounts)
		return outcome_stop(MH_BUSY, STEP_TABLE, REASON_SUBMOUNT);
	r = sys_fstatfs(staged->fd, &fs);
	if (r < 0)
		return outcome_kernel(STEP_OPEN, r);
	note_superblock(u, staged, &fs);
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

static struct outcome unstage(struct helper *h, const struct mh_unstage *req)
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

struct outcome op_unstage(struct helper *h, const struct mh_unstage *req)
{
	struct outcome outcome = unstage(h, req);

	if ((outcome.status == MH_OK || outcome.status == MH_ALREADY) && lock_table(h->state_fd) == 0) {
		state_clear_staged(h->state, req->volume);
		unlock_table(h->state_fd);
	}
	return outcome;
}
