/* SPDX-License-Identifier: Apache-2.0 */
/* UNPUBLISH and UNSTAGE: unmount the mount at one name, if it is the right one and not needed, and remove the
 * directory. */

#include "attach.h"
#include "ops.h"
#include "trees.h"

struct removal {
	struct helper *h;
	const char *volume;
	bool detach;
	struct outcome (*check)(struct removal *r, struct place *mount); /* may it go? */
	/* of UNPUBLISH */
	int alloc_fd;
	uint8_t slot;
	/* of UNSTAGE */
	const struct state_slot *staged; /* the volume's slot of the state table */
	const char *plugin;		 /* in whose folder it is; native: empty */
	bool is_plugins;		 /* below its directory, where the plugin mounts as it likes */
	/* the result */
	bool unmounted;
	bool plugin_left;  /* what the plugin should have unmounted */
	struct place last; /* the last mount that was unmounted, released */
	char type[16];	   /* of its file system; only for UNSTAGE */
};

/* Distinguishes open files from mounts that a task or another process made below. */
static struct outcome busy(struct removal *r, int dir_fd, const char *name)
{
	cleanup_place struct place place = PLACE_INIT;
	bool has_submounts =
		place_open(dir_fd, name, &place) == 0 && mount_has_submounts(&r->h->mountinfo, &place) > 0;

	return outcome_stop(MH_BUSY, STEP_UNMOUNT, has_submounts ? REASON_SUBMOUNT : REASON_IN_USE);
}

/* Unmounts the mount at @name and removes the directory. MH_ALREADY when the name does not exist. */
static struct outcome remove_mount_point(struct removal *r, int dir_fd, const char *name)
{
	struct place place = PLACE_INIT;
	int e = place_look(dir_fd, name, &place); /* a descriptor of the mount would keep it busy */

	if (e == -ENOENT)
		return outcome_stop(MH_ALREADY, STEP_NONE, REASON_NONE);
	TRY_KERNEL(STEP_OPEN, e);
	if (place.is_mount_root) {
		TRY_OUTCOME(r->check(r, &place));
		e = place_unmount(r->h, dir_fd, name, r->detach ? SYS_UMOUNT_DETACH : 0);
		if (e == -EBUSY)
			return busy(r, dir_fd, name);
		TRY_KERNEL(STEP_UNMOUNT, e);
		r->unmounted = true;
		r->last = place;
	}
	e = sys_rmdirat(dir_fd, name);
	/* a mount still exists there: another process stacked one */
	if (e == -EBUSY)
		return outcome_stop(MH_CONFLICT, STEP_VERIFY, REASON_STACKED);
	if (e == -ENOENT)
		return outcome_stop(MH_ALREADY, STEP_NONE, REASON_NONE);
	TRY_KERNEL(STEP_REMOVE, e);
	return OUTCOME_OK;
}

/* The parent of a mount of the helper is the tree itself; any other parent means a stacked mount. */
static struct outcome may_be_ours(const struct tree *tree, const struct mount_facts *facts)
{
	return facts->parent == tree->mount_id ? OUTCOME_OK
					       : outcome_stop(MH_CONFLICT, STEP_TABLE, REASON_STACKED);
}

static struct outcome may_unpublish(struct removal *r, struct place *mount)
{
	struct mount_facts facts = {.peer_group = 0};
	int is_ours = publish_is_of(r->alloc_fd, r->slot, r->volume);

	TRY_KERNEL(STEP_OPEN, is_ours);
	TRY_KERNEL(STEP_OPEN, mount_flags(&r->h->mountinfo, mount, &facts));
	if (is_ours == 0)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_OTHER_MOUNT);
	return may_be_ours(&r->h->publish, &facts);
}

struct outcome op_unpublish(struct helper *h, const union mh_request *request,
			    const struct admission *admission)
{
	const struct mh_unpublish *req = &request->unpublish;
	const struct publish_name name = {req->volume, req->alloc, req->slot};
	struct removal r = {.h = h,
			    .volume = req->volume,
			    .detach = req->detach,
			    .check = may_unpublish,
			    .slot = req->slot};
	cleanup_place struct place alloc = PLACE_INIT;
	char slot[SLOT_NAME_SIZE];
	struct outcome outcome;
	int e;

	assert(req->volume[0] != '\0' && req->slot <= MH_SLOT_MAX);
	(void)admission; /* the state table does not decide about publishes */
	TRY_KERNEL(STEP_LOCK, lock_alloc(h->state_fd, req->alloc));
	e = place_open(h->publish.fd, req->alloc, &alloc);
	if (e == -ENOENT)
		return outcome_stop(MH_ALREADY, STEP_NONE, REASON_NONE);
	TRY_KERNEL(STEP_OPEN, e);
	if (!place_is_own(h, &h->publish, &alloc))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	r.alloc_fd = alloc.fd;
	outcome = remove_mount_point(&r, alloc.fd, slot_name(req->slot, slot));
	outcome.dev_major = r.last.dev_major;
	outcome.dev_minor = r.last.dev_minor;
	if (outcome.status != MH_OK && outcome.status != MH_ALREADY)
		return outcome;
	TRY_KERNEL(STEP_REMOVE, publish_unmark(alloc.fd, req->slot, req->volume));
	TRY_KERNEL(STEP_REMOVE, publish_note(h, &name, false));
	e = sys_rmdirat(h->publish.fd, req->alloc);
	if (e < 0 && e != -ENOENT && e != -ENOTEMPTY)
		return outcome_kernel(STEP_REMOVE, e);
	return outcome;
}

static struct outcome may_unstage(struct removal *r, struct place *mount)
{
	struct mount_facts facts = {.peer_group = 0};
	int has_submounts;

	TRY_KERNEL(STEP_TABLE, mount_facts(&r->h->mountinfo, mount, &facts));
	/* root's own, or a plugin's of before the state file was lost: STAGE makes it known again */
	if (r->staged->stage == STATE_UNSTAGED && (facts.attributes & STAGE_FLOOR) != STAGE_FLOOR)
		return outcome_stop(MH_CONFLICT, STEP_STATE, REASON_SOURCE_UNKNOWN);
	/* without detach the kernel refuses */
	has_submounts = r->detach ? mount_has_submounts(&r->h->mountinfo, mount) : 0;
	TRY_KERNEL(STEP_TABLE, has_submounts);
	(void)str_copy(r->type, sizeof(r->type), facts.type);
	if (has_submounts > 0)
		return outcome_stop(MH_BUSY, STEP_TABLE, REASON_SUBMOUNT);
	return r->is_plugins ? OUTCOME_OK : may_be_ours(&r->h->stage, &facts);
}

/* Is the volume published anywhere? Without a note it is not. Otherwise, as a death leaves one too many, the
 * mount table and the marks decide, even if the state file is lost. Later mounts of a plugin do not matter.
 */
static struct outcome check_publishes(const struct removal *r)
{
	struct census census = {.volume = r->volume};

	if (publish_notes_are_none(r->h, r->volume))
		return OUTCOME_OK;
	TRY_KERNEL(STEP_TABLE, census_take(r->h, &census));
	return census.of_volume == 0 ? OUTCOME_OK : outcome_stop(MH_BUSY, STEP_TABLE, REASON_PUBLISHED);
}

/* The directories of a csi plugin, and what one that died left mounted there. */
static struct outcome remove_inside(struct removal *r, const struct place *volume)
{
	static const char *const names[] = {MH_CSI_PUBLISH_RO, MH_CSI_PUBLISH_RW, MH_CSI_STAGING};
	struct outcome outcome = OUTCOME_OK;

	if (!place_is_own(r->h, &r->h->stage, volume))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	r->is_plugins = r->plugin[0] != '\0';
	for (size_t i = 0; i < ARRAY_SIZE(names) && r->is_plugins && outcome.status == MH_OK; i++) {
		outcome = remove_mount_point(r, volume->fd, names[i]);
		if (outcome.status == MH_ALREADY)
			outcome = OUTCOME_OK;
	}
	r->plugin_left = r->unmounted;
	r->is_plugins = false;
	return outcome;
}

/* The folder of the plugin stays: its container keeps the one that it has started with. */
static struct outcome remove_volume(struct removal *r)
{
	cleanup_place struct place folder = PLACE_INIT;
	struct place volume = PLACE_INIT;
	struct outcome outcome = OUTCOME_OK;
	int e = r->plugin[0] == '\0' ? 0 : plugin_folder_open(r->h, r->plugin, false, &folder);
	int dir_fd = r->plugin[0] == '\0' ? r->h->stage.fd : folder.fd;

	if (e == -ENOENT)
		return outcome_stop(MH_ALREADY, STEP_NONE, REASON_NONE);
	if (e > 0)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	TRY_KERNEL(STEP_OPEN, e);
	if (place_open(dir_fd, r->volume, &volume) == 0 && !volume.is_mount_root)
		outcome = remove_inside(r, &volume);
	place_release(&volume);
	TRY_OUTCOME(outcome);
	return remove_mount_point(r, dir_fd, r->volume);
}

/* Removing the directory also detaches copies of the mount that other namespaces still hold; only then does
 * the superblock show whether anything is left. */
struct outcome op_unstage(struct helper *h, const union mh_request *request,
			  const struct admission *admission)
{
	const struct mh_unstage *req = &request->unstage;
	struct removal r = {.h = h,
			    .volume = req->volume,
			    .detach = req->detach,
			    .staged = &admission->slot,
			    .plugin = req->profile,
			    .check = may_unstage};
	struct outcome outcome;

	/* nothing is there; if that ended the count, an object in the other folder would not be counted */
	if (!state_is_at(r.staged, r.plugin))
		return outcome_stop(MH_CONFLICT, STEP_STATE, REASON_STAGED_PROFILE);
	outcome = check_publishes(&r);
	if (outcome.status == MH_OK)
		outcome = remove_volume(&r);
	/* A file below is not ours, and nothing is ever removed recursively; a file in place of a directory
	 * is the device of a block attachment, and the errno in the reply distinguishes it. */
	if (outcome.status == MH_KERNEL &&
	    (outcome.sys_errno == -ENOTEMPTY || outcome.sys_errno == -ENOTDIR)) {
		outcome.status = MH_BUSY;
		outcome.reason = REASON_PLUGIN_TARGET;
	}
	/* also of an unmount before the failure */
	outcome.dev_major = r.last.dev_major;
	outcome.dev_minor = r.last.dev_minor;
	if (outcome.status != MH_OK && outcome.status != MH_ALREADY)
		return outcome;
	counts_end_stage(h, req->volume);
	outcome.reason = r.plugin_left ? REASON_PLUGIN_LEFT : REASON_NONE;
	if (superblock_is_alive(h, r.type, r.last.dev_major, r.last.dev_minor))
		outcome.state = MH_STATE_SB_ALIVE;
	return outcome;
}
