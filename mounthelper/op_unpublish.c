#include "locks.h"
#include "mounts.h"
#include "ops.h"
#include "trees.h"

#include "base/sys.h"

#include <errno.h>

struct unpublishing {
	struct helper *h;
	const struct mh_unpublish *req;
	struct place alloc;
	char slot[SLOT_NAME_SIZE];
};

/* rmdir of the slot and, when it was the last one, of the allocation. */
static struct outcome remove_directories(const struct unpublishing *u, enum mh_status done)
{
	int r = sys_rmdirat(u->alloc.fd, u->slot);

	if (r < 0 && r != -ENOENT)
		return outcome_kernel(STEP_REMOVE, r);
	r = sys_rmdirat(u->h->publish.fd, u->req->alloc);
	if (r < 0 && r != -ENOENT && r != -ENOTEMPTY)
		return outcome_kernel(STEP_REMOVE, r);
	return outcome_stop(done, STEP_NONE, REASON_NONE);
}

/* Is another volume staged that what is published belongs to? Then the trail would name the wrong one. */
static struct outcome check_others(const struct unpublishing *u, const struct place *target)
{
	struct census census = {.dev_major = target->dev_major, .dev_minor = target->dev_minor};
	int r = census_take(u->h, &census);

	if (r < 0)
		return outcome_kernel(STEP_TABLE, r);
	if (census.staged_on_device != 0)
		return outcome_stop(MH_CONFLICT, STEP_TABLE, REASON_OTHER_MOUNT);
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

/* The volume's mount: a csi plugin's own publish lies one level deeper. */
static int open_staged(const struct unpublishing *u, struct place *ret)
{
	cleanup_place struct place volume = PLACE_INIT;
	int r = place_open(u->h->stage.fd, u->req->volume, &volume);

	if (r < 0 || volume.is_mount_root) {
		*ret = volume;
		volume.fd = -EBADF;
		return r;
	}
	return place_open(volume.fd, MH_CSI_PUBLISH, ret);
}

/* What is published must be the volume. What no staged volume explains may go under any name: somebody
 * unmounted its stage by hand. @ret_counted: it was counted as a publish of the volume. */
static struct outcome check_volume(const struct unpublishing *u, const struct place *target,
				   bool *ret_counted)
{
	cleanup_place struct place staged = PLACE_INIT;
	int r = open_staged(u, &staged);

	if (r < 0 && r != -ENOENT)
		return outcome_kernel(STEP_OPEN, r);
	if (r == -ENOENT || !staged.is_mount_root)
		return check_others(u, target);
	if (!place_is_same(&staged, target))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_OTHER_MOUNT);
	*ret_counted = true;
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

static struct outcome unmount(const struct unpublishing *u, bool counted)
{
	cleanup_place struct place left = PLACE_INIT;
	int r = place_unmount(u->h, u->alloc.fd, u->slot, u->req->detach);

	if (r == -EBUSY)
		return outcome_stop(MH_BUSY, STEP_UNMOUNT, REASON_IN_USE);
	if (r < 0)
		return outcome_kernel(STEP_UNMOUNT, r);
	if (counted && lock_table(u->h->state_fd) == 0) {
		state_end_publish(u->h->state, u->req->volume);
		unlock_table(u->h->state_fd);
	}
	r = place_open(u->alloc.fd, u->slot, &left);
	if (r < 0)
		return outcome_kernel(STEP_VERIFY, r);
	if (left.is_mount_root)
		return outcome_stop(MH_CONFLICT, STEP_VERIFY, REASON_STACKED);
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

static struct outcome unpublish_in_alloc(const struct unpublishing *u)
{
	struct place target = PLACE_INIT;
	struct outcome outcome = {.status = MH_OK};
	bool counted = false;
	int r;

	if (!place_is_own(u->h, &u->h->publish, &u->alloc))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	r = place_open(u->alloc.fd, u->slot, &target);
	if (r == -ENOENT)
		return remove_directories(u, MH_ALREADY);
	if (r < 0)
		return outcome_kernel(STEP_OPEN, r);
	if (target.is_mount_root)
		outcome = check_volume(u, &target, &counted);
	place_release(&target); /* a descriptor of the mount would keep it busy */
	if (outcome.status == MH_OK && target.is_mount_root)
		outcome = unmount(u, counted);
	if (outcome.status != MH_OK)
		return outcome;
	outcome = remove_directories(u, MH_OK);
	outcome.dev_major = target.dev_major;
	outcome.dev_minor = target.dev_minor;
	return outcome;
}

struct outcome op_unpublish(struct helper *h, const struct mh_unpublish *req)
{
	struct unpublishing u = {.h = h, .req = req, .alloc = PLACE_INIT};
	struct outcome outcome;
	int r = lock_alloc(h->state_fd, req->alloc);

	if (r < 0)
		return outcome_kernel(STEP_LOCK, r);
	(void)slot_name(req->slot, u.slot);
	r = place_open(h->publish.fd, req->alloc, &u.alloc);
	if (r == -ENOENT)
		return outcome_stop(MH_ALREADY, STEP_NONE, REASON_NONE);
	if (r < 0)
		return outcome_kernel(STEP_OPEN, r);
	outcome = unpublish_in_alloc(&u);
	place_release(&u.alloc);
	return outcome;
}
