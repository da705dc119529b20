/* SPDX-License-Identifier: Apache-2.0 */
#include "attach.h"
#include "ops.h"
#include "source.h"
#include "trees.h"

#include <string.h>

/* PUBLISH under construction. */
struct publishing {
	struct helper *h;
	const struct mh_publish *req;
	const struct admission *admission;
	struct place staged;
	struct place alloc;
	char slot[SLOT_NAME_SIZE];
	struct publish_name name;
	struct sys_mount_attr attr; /* of the clone, all in one call before it is visible */
	struct attach attach;
};

static void publishing_release(struct publishing *p)
{
	close_fdp(&p->attach.mount_fd);
	place_release(&p->alloc);
	place_release(&p->staged);
}

static void decide(struct publishing *p)
{
	const uint64_t may_clear = SYS_MOUNT_ATTR_NOEXEC | SYS_MOUNT_ATTR_NOSYMFOLLOW;
	bool untrusted = p->admission->profile->trust == TRUST_UNTRUSTED;

	p->attach.propagation = (enum ticket_propagation)p->req->propagation;
	p->attr.propagation = propagation_flag(p->attach.propagation);
	p->attr.attr_set = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV |
			   (p->req->read_only ? SYS_MOUNT_ATTR_RDONLY : 0U) |
			   (p->req->exec ? 0U : SYS_MOUNT_ATTR_NOEXEC) |
			   (untrusted ? SYS_MOUNT_ATTR_NOSYMFOLLOW : 0U);
	p->attr.attr_clr = may_clear & ~p->attr.attr_set;
	p->attach.attributes = p->attr.attr_set;
	p->attach.name = slot_name(p->req->slot, p->slot);
	p->attach.tree = &p->h->publish;
}

/* Pins the mount at @name. Returns 0, 1 when other mounts are below it, or a negative errno.
 *
 * MNT_EXPIRE unmounts only at the second call. For an unused mount with nothing mounted on it, the first call
 * fails with EAGAIN, at constant cost, and marks it. A look at the name removes an earlier mark, so the look
 * comes right before. For a mount in use it gives no reason. */
static int pin_alone(struct publishing *p, int dir_fd, const char *name)
{
	int r = place_look(dir_fd, name, &p->staged);
	bool is_alone = r == 0 && p->staged.is_mount_root &&
			place_unmount(p->h, dir_fd, name, SYS_UMOUNT_EXPIRE) == -EAGAIN;

	if (r == 0 || r == -ENOTDIR)
		r = mount_open(dir_fd, name, &p->staged);
	return r < 0 || is_alone ? r : mount_has_submounts(&p->h->mountinfo, &p->staged);
}

static struct outcome open_staged(struct publishing *p)
{
	const struct profile *profile = p->admission->profile;
	struct mount_facts facts = {.peer_group = 0};
	bool is_plugins = profile->class == MH_CLASS_CSI;
	cleanup_place struct place plugin = PLACE_INIT;
	cleanup_place struct place folder = PLACE_INIT;
	int r = is_plugins ? plugin_folder_open(p->h, profile->name, false, &plugin) : 0;

	if (r > 0)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	if (r == 0 && is_plugins)
		r = place_open(plugin.fd, p->req->volume, &folder);
	/* over the folder of a plugin's targets it would serve readers and writers alike */
	if (folder.is_mount_root)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_OTHER_MOUNT);
	if (r == 0)
		r = is_plugins ? pin_alone(p, folder.fd, csi_target_name(p->req->read_only))
			       : pin_alone(p, p->h->stage.fd, p->req->volume);
	if (r == -ENOENT)
		return outcome_stop(MH_NOT_FOUND, STEP_OPEN, REASON_NONE);
	if (r > 0) /* a clone without them would uncover what they hide */
		return outcome_stop(MH_CONFLICT, STEP_TABLE, REASON_SUBMOUNT);
	TRY_KERNEL(STEP_OPEN, r);
	TRY_KERNEL(STEP_OPEN, mount_facts(&p->h->mountinfo, &p->staged, &facts));
	if (own_is_shown(p->h, facts.root))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_OTHER_MOUNT);
	if (facts.parent != p->h->stage.mount_id)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_STACKED);
	if (profile->kind != FS_ANY && !str_eq(facts.type, fs_names[profile->kind]))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_STAGED_PROFILE);
	if (!p->req->read_only && mount_has_stopped(&p->staged))
		return outcome_stop(MH_REFUSED, STEP_OPEN, REASON_WRITES_STOPPED);
	if ((facts.attributes & SYS_MOUNT_ATTR_RDONLY) != 0 && !p->req->read_only)
		return outcome_stop(MH_REFUSED, STEP_OPEN, REASON_STAGED_READ_ONLY);
	if (p->attach.propagation != TICKET_PROPAGATION_PRIVATE && facts.peer_group == 0)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_PROPAGATION);
	p->attach.group = facts.peer_group;
	return OUTCOME_OK;
}

/* The source that policy and ticket admit must be that of the existing mount, and the profile the one that
 * staged it: it decides about exec and symlinks. */
static struct outcome check_source(const struct publishing *p)
{
	const struct state_slot *slot = &p->admission->slot;

	if (slot->stage != STATE_STAGED)
		return outcome_stop(MH_REFUSED, STEP_STATE, REASON_SOURCE_UNKNOWN);
	if (!str_eq(slot->profile, p->req->profile))
		return outcome_stop(MH_REFUSED, STEP_STATE, REASON_STAGED_PROFILE);
	if (memcmp(slot->source_digest, p->admission->source_digest, TICKET_DIGEST_SIZE) != 0)
		return outcome_stop(MH_REFUSED, STEP_STATE, REASON_TICKET_SOURCE);
	return OUTCOME_OK;
}

/* Checks the host's directory again: it, or the mounts below it, may have changed since it was staged. */
static struct outcome look_again(const struct publishing *p)
{
	cleanup_place struct place origin = PLACE_INIT;

	if (p->admission->profile->class != MH_CLASS_BIND)
		return OUTCOME_OK;
	TRY_OUTCOME(host_volume_look(p->h, p->admission->profile, p->req->read_only, &origin));
	return place_is_same(&origin, &p->staged)
		       ? OUTCOME_OK
		       : outcome_stop(MH_CONFLICT, STEP_SOURCE, REASON_OTHER_MOUNT);
}

static struct outcome open_alloc(struct publishing *p)
{
	/* against another instance's PUBLISH at the same slot, which would stack */
	TRY_KERNEL(STEP_LOCK, lock_alloc(p->h->state_fd, p->req->alloc));
	TRY_KERNEL(STEP_DIRECTORY, place_make(p->h->publish.fd, p->req->alloc, &p->alloc));
	p->attach.dir_fd = p->alloc.fd;
	return place_is_own(p->h, &p->h->publish, &p->alloc)
		       ? OUTCOME_OK
		       : outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
}

static struct outcome already_there(struct publishing *p, struct place *mount)
{
	struct mount_facts facts = {.peer_group = 0};
	struct outcome outcome;
	int is_ours = publish_is_of(p->alloc.fd, p->req->slot, p->req->volume);

	TRY_KERNEL(STEP_OPEN, is_ours);
	TRY_KERNEL(STEP_OPEN, mount_facts(&p->h->mountinfo, mount, &facts));
	if (is_ours == 0 || !place_is_same(mount, &p->staged) || !mount_shows(&facts, p->attach.attributes))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_OTHER_MOUNT);
	outcome = attach_repair(p->h, mount, p->attach.propagation, p->attach.group);
	TRY_OUTCOME(outcome);
	return outcome_mounted(MH_ALREADY, mount, &facts, MH_STATE_PUBLISHED | outcome.state);
}

static struct outcome publish_new(struct publishing *p)
{
	struct outcome outcome;
	int r = sys_open_tree(p->staged.fd, "", SYS_OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH);

	TRY_KERNEL(STEP_CLONE, r);
	p->attach.mount_fd = r;
	TRY_KERNEL(STEP_RESTRICT, sys_mount_setattr(p->attach.mount_fd, "", AT_EMPTY_PATH, &p->attr));
	/* before the mount is there, so that a death leaves a mark and a note too many, never one too few */
	TRY_KERNEL(STEP_DIRECTORY, publish_note(p->h, &p->name, true));
	r = publish_mark(p->alloc.fd, p->req->slot, p->req->volume);
	if (r == -EEXIST)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_OTHER_MOUNT);
	TRY_KERNEL(STEP_DIRECTORY, r);
	r = counts_begin_publish(p->h);
	if (r == -EMFILE)
		return outcome_stop(MH_LIMIT, STEP_STATE, REASON_MAX_PUBLISHED);
	TRY_KERNEL(STEP_STATE, r);
	outcome = attach_mount(p->h, &p->attach);
	if (outcome.status == MH_OK)
		outcome.state |= MH_STATE_PUBLISHED;
	return outcome;
}

static struct outcome publish(struct publishing *p)
{
	cleanup_place struct place present = PLACE_INIT;
	int r = sys_mkdirat(p->alloc.fd, p->slot, 0755);

	if (r == -EEXIST) {
		r = place_open(p->alloc.fd, p->slot, &present);
		if (r == 0 && present.is_mount_root)
			return already_there(p, &present);
	}
	TRY_KERNEL(STEP_DIRECTORY, r);
	return publish_new(p);
}

static struct outcome run(struct publishing *p)
{
	TRY_OUTCOME(open_staged(p));
	TRY_OUTCOME(check_source(p));
	TRY_OUTCOME(look_again(p));
	TRY_OUTCOME(open_alloc(p));
	return publish(p);
}

/* Remove the empty directories of a publish that did not come about; a mount or another slot there refuses.
 */
static void tidy(const struct publishing *p)
{
	const struct helper *h = p->h;
	struct place left = PLACE_INIT;

	if (place_look(p->alloc.fd, p->slot, &left) == 0 && place_is_own(h, &h->publish, &left))
		(void)sys_rmdirat(p->alloc.fd, p->slot);
	if (place_look(p->alloc.fd, p->slot, &left) == -ENOENT &&
	    publish_unmark(p->alloc.fd, p->req->slot, p->req->volume) == 0)
		(void)publish_note(h, &p->name, false);
	(void)sys_rmdirat(h->publish.fd, p->req->alloc);
}

struct outcome op_publish(struct helper *h, const union mh_request *request,
			  const struct admission *admission)
{
	const struct mh_publish *req = &request->publish;
	cleanup(publishing_release) struct publishing p = {.h = h,
							   .req = req,
							   .admission = admission,
							   .name = {req->volume, req->alloc, req->slot},
							   .staged = PLACE_INIT,
							   .alloc = PLACE_INIT,
							   .attach.mount_fd = -EBADF};
	struct outcome outcome;

	assert(admission->profile && req->slot <= MH_SLOT_MAX);
	decide(&p);
	outcome = run(&p);
	if (outcome.status != MH_OK && outcome.status != MH_ALREADY && place_is_own(h, &h->publish, &p.alloc))
		tidy(&p);
	return outcome;
}
