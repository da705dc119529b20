/* UNPUBLISH and UNSTAGE: unmount what stands at one name, if it is what was meant and nothing needs it, and
 * remove the directory. */

#include "ops.h"
#include "trees.h"

struct removal {
	struct helper *h;
	const char *volume;
	bool detach;
	const struct state_slot *slot; /* UNSTAGE: what is known of the volume */
	struct outcome (*check)(struct removal *r, const struct place *mount); /* may it go? */
	bool unmounted;
	bool is_uncounted; /* whose publish it was is not known for sure: the count stays too high */
	struct place last; /* what was unmounted last, released */
	char type[16];	   /* of its file system; of UNSTAGE alone */
};

/* Open files, or mounts that a task or somebody else made below? */
static struct outcome busy(struct removal *r, int dir_fd, const char *name)
{
	cleanup_place struct place place = PLACE_INIT;
	bool has_submounts =
		place_open(dir_fd, name, &place) == 0 && mount_has_submounts(&r->h->mountinfo, &place) > 0;

	return outcome_stop(MH_BUSY, STEP_UNMOUNT, has_submounts ? REASON_SUBMOUNT : REASON_IN_USE);
}

/* Unmount what stands at @name and remove the directory. MH_ALREADY when there is nothing of that name. */
static struct outcome take_away(struct removal *r, int dir_fd, const char *name)
{
	struct place place = PLACE_INIT;
	struct outcome outcome = OUTCOME_OK;
	int e = place_look(dir_fd, name, &place); /* a descriptor of the mount would keep it busy */

	if (e == -ENOENT)
		return outcome_stop(MH_ALREADY, STEP_NONE, REASON_NONE);
	if (e < 0)
		return outcome_kernel(STEP_OPEN, e);
	if (place.is_mount_root)
		outcome = r->check(r, &place);
	if (outcome.status != MH_OK)
		return outcome;
	if (place.is_mount_root) {
		e = place_unmount(r->h, dir_fd, name, r->detach ? SYS_UMOUNT_DETACH : 0);
		if (e == -EBUSY)
			return busy(r, dir_fd, name);
		if (e < 0)
			return outcome_kernel(STEP_UNMOUNT, e);
		r->unmounted = true;
		r->last = place;
	}
	e = sys_rmdirat(dir_fd, name);
	/* a mount stands there all the same: somebody stacked one */
	if (e == -EBUSY)
		return outcome_stop(MH_CONFLICT, STEP_VERIFY, REASON_STACKED);
	if (e == -ENOENT)
		return outcome_stop(MH_ALREADY, STEP_NONE, REASON_NONE);
	return e < 0 ? outcome_kernel(STEP_REMOVE, e) : OUTCOME_OK;
}

/* Is @volume of class csi, whose plugin mounts anew as it likes? */
static bool is_plugins(const struct helper *h, const char *volume)
{
	cleanup_place struct place folder = PLACE_INIT;

	return place_open(h->stage.fd, volume, &folder) == 0 && place_is_own(h, &h->stage, &folder);
}

/* What is published must be the volume, as it is staged or as it was when it was published: a csi plugin that
 * died mounts anew. What no staged volume explains may go under any name: somebody unmounted its stage by
 * hand. */
static struct outcome may_unpublish(struct removal *r, const struct place *mount)
{
	struct census census = {.staged = 0};
	struct mount_facts facts = {.peer_group = 0};
	bool is_staged = false;
	int e;

	for (int read_only = 0; read_only < 2; read_only++) {
		cleanup_place struct place staged = PLACE_INIT;

		e = volume_open(r->h, r->volume, read_only, &staged);
		if (e == 0 && place_is_same(&staged, mount))
			return OUTCOME_OK;
		is_staged |= e != -ENOENT; /* also what cannot be looked at */
	}
	e = mount_facts(&r->h->mountinfo, mount, &facts);
	if (e < 0)
		return outcome_kernel(STEP_OPEN, e);
	if (counts_has_publish(r->h, r->volume, facts.key))
		return OUTCOME_OK;
	if (is_staged && !is_plugins(r->h, r->volume))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_OTHER_MOUNT);
	r->is_uncounted = is_staged;
	census.keys[0] = facts.key;
	e = census_take(r->h, &census);
	if (e < 0)
		return outcome_kernel(STEP_TABLE, e);
	return census.staged_alike == 0 ? OUTCOME_OK
					: outcome_stop(MH_CONFLICT, STEP_TABLE, REASON_OTHER_MOUNT);
}

struct outcome op_unpublish(struct helper *h, const struct mh_unpublish *req)
{
	struct removal r = {.h = h, .volume = req->volume, .detach = req->detach, .check = may_unpublish};
	cleanup_place struct place alloc = PLACE_INIT;
	char slot[SLOT_NAME_SIZE];
	struct outcome outcome;
	int e = lock_alloc(h->state_fd, req->alloc);

	if (e < 0)
		return outcome_kernel(STEP_LOCK, e);
	e = place_open(h->publish.fd, req->alloc, &alloc);
	if (e == -ENOENT)
		return outcome_stop(MH_ALREADY, STEP_NONE, REASON_NONE);
	if (e < 0)
		return outcome_kernel(STEP_OPEN, e);
	if (!place_is_own(h, &h->publish, &alloc))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	outcome = take_away(&r, alloc.fd, slot_name(req->slot, slot));
	/* what follows asks no file system, so that lock_release() is soon enough for the table, too */
	if (r.unmounted && !r.is_uncounted && lock_table(h->state_fd) == 0)
		state_end_publish(h->state, req->volume, false);
	if (outcome.status != MH_OK && outcome.status != MH_ALREADY)
		return outcome;
	e = sys_rmdirat(h->publish.fd, req->alloc);
	if (e < 0 && e != -ENOENT && e != -ENOTEMPTY)
		return outcome_kernel(STEP_REMOVE, e);
	outcome.dev_major = r.last.dev_major;
	outcome.dev_minor = r.last.dev_minor;
	return outcome;
}

/* The count of publishes is never too low. When it is not zero, or the volume was not counted, the mount
 * table decides: is a mount with the key of what is staged, or of what was published, among our publishes? */
static struct outcome check_publishes(struct removal *r, uint64_t staged_key)
{
	struct census census = {.keys = {staged_key, r->slot->published_keys[0], r->slot->published_keys[1]}};
	int e;

	if (r->slot->published == 0 && (r->slot->stage != STATE_UNSTAGED || staged_key == 0))
		return OUTCOME_OK;
	e = census_take(r->h, &census);
	if (e < 0)
		return outcome_kernel(STEP_TABLE, e);
	if (census.published_alike != 0)
		return outcome_stop(MH_BUSY, STEP_TABLE, REASON_PUBLISHED);
	counts_end_publish(r->h, r->volume, true);
	return OUTCOME_OK;
}

static struct outcome may_unstage(struct removal *r, const struct place *mount)
{
	struct mount_facts facts = {.peer_group = 0};
	int e = mount_facts(&r->h->mountinfo, mount, &facts);

	if (e == 0 && r->detach) /* else the kernel refuses */
		e = mount_has_submounts(&r->h->mountinfo, mount);
	if (e < 0)
		return outcome_kernel(STEP_TABLE, e);
	(void)str_copy(r->type, sizeof(r->type), facts.type);
	return e > 0 ? outcome_stop(MH_BUSY, STEP_TABLE, REASON_SUBMOUNT) : check_publishes(r, facts.key);
}

/* The directories of a csi plugin, and what one that died left mounted there. */
static struct outcome take_away_inside(struct removal *r, const struct place *volume)
{
	static const char *const names[] = {MH_CSI_PUBLISH_RO, MH_CSI_PUBLISH_RW, MH_CSI_STAGING};
	struct outcome outcome;

	if (!place_is_own(r->h, &r->h->stage, volume))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	outcome = check_publishes(r, 0);
	for (size_t i = 0; i < ARRAY_SIZE(names) && outcome.status == MH_OK; i++) {
		outcome = take_away(r, volume->fd, names[i]);
		if (outcome.status == MH_ALREADY)
			outcome = OUTCOME_OK;
	}
	return outcome;
}

/* Removing the directory also detaches copies of the mount that other namespaces still hold; only then does
 * the superblock show whether anything is left. */
struct outcome op_unstage(struct helper *h, const struct mh_unstage *req, const struct admission *admission)
{
	struct removal r = {.h = h,
			    .volume = req->volume,
			    .detach = req->detach,
			    .slot = &admission->slot,
			    .check = may_unstage};
	struct place volume = PLACE_INIT;
	struct outcome outcome = OUTCOME_OK;
	bool plugin_left;
	int e = place_open(h->stage.fd, req->volume, &volume);

	if (e == 0 && !volume.is_mount_root)
		outcome = take_away_inside(&r, &volume);
	place_release(&volume);
	plugin_left = r.unmounted;
	if (outcome.status == MH_OK)
		outcome = take_away(&r, h->stage.fd, req->volume);
	/* A file below is not ours, and nothing is ever removed recursively; one in place of a directory is
	 * the device of a block attachment, and the errno in the reply tells it from files. */
	if (outcome.status == MH_KERNEL &&
	    (outcome.sys_errno == -ENOTEMPTY || outcome.sys_errno == -ENOTDIR)) {
		outcome.status = MH_BUSY;
		outcome.reason = REASON_PLUGIN_TARGET;
	}
	if (outcome.status != MH_OK && outcome.status != MH_ALREADY)
		return outcome;
	counts_end_stage(h, req->volume);
	outcome.reason = plugin_left ? REASON_PLUGIN_LEFT : REASON_NONE;
	outcome.dev_major = r.last.dev_major;
	outcome.dev_minor = r.last.dev_minor;
	if (superblock_is_alive(h, r.type, r.last.dev_major, r.last.dev_minor))
		outcome.state = MH_STATE_SB_ALIVE;
	return outcome;
}
