/* SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"
#include "source.h"

#include "base/clock.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static const struct source_class *const classes[MH_CLASS_N] = {
	[MH_CLASS_BLOCK] = &source_block,
	[MH_CLASS_TMPFS] = &source_tmpfs,
	[MH_CLASS_NFS4] = &source_nfs4,
	[MH_CLASS_BIND] = &source_bind,
	[MH_CLASS_CSI] = NULL, /* its plugin mounts */
};

/* Is this of the device that was found, if one was? */
static bool is_of_device(const struct staging *s, const struct place *root)
{
	return (s->origin.dev_major == 0 && s->origin.dev_minor == 0) ||
	       (s->origin.dev_major == root->dev_major && s->origin.dev_minor == root->dev_minor);
}

/* Is the existing mount the one that is asked for? */
static bool is_same(const struct staging *s, const struct mount_facts *facts)
{
	const struct profile *profile = s->profile;

	return is_of_device(s, &s->target) &&
	       (profile->kind == FS_ANY || str_eq(facts->type, fs_names[profile->kind])) &&
	       mount_shows(facts, stage_attributes(s)) &&
	       (s->class->is_same ? s->class->is_same(s, facts) : facts->root_is_whole);
}

/* Counts the volume, and forgets the source that was staged under its name. If this process dies between
 * attaching and remembering, the source is unknown, and PUBLISH is refused until the next STAGE. */
static struct outcome count_in(const struct staging *s)
{
	int r;

	TRY_KERNEL(STEP_LOCK, lock_table(s->h->state_fd));
	r = state_begin_stage(s->h->state, s->req->volume, s->plugin, source_tmpfs_bytes(&s->req->source),
			      s->admission->source_digest, s->h->agent, clock_realtime_ms());
	unlock_table(s->h->state_fd);
	if (r == 0)
		return OUTCOME_OK;
	return outcome_stop(MH_LIMIT, STEP_STATE,
			    r == -EMFILE   ? REASON_MAX_STAGED
			    : r == -EDQUOT ? REASON_MAX_TMPFS
					   : REASON_STATE_FULL);
}

/* The mount is as it should be: remembers its source. If the mount @was_there and the table was made after
 * it, the volume was not counted. */
static struct outcome remember(const struct staging *s, bool was_there)
{
	int r = 0;

	TRY_KERNEL(STEP_LOCK, lock_table(s->h->state_fd));
	if (was_there && s->admission->slot.stage == STATE_UNSTAGED)
		r = state_begin_stage(s->h->state, s->req->volume, s->plugin,
				      source_tmpfs_bytes(&s->req->source), s->admission->source_digest, NULL,
				      clock_realtime_ms());
	state_set_staged(s->h->state, s->req->volume, s->req->profile, s->admission->source_digest);
	unlock_table(s->h->state_fd);
	return r < 0 ? outcome_stop(MH_LIMIT, STEP_STATE, REASON_STATE_FULL) : OUTCOME_OK;
}

static struct outcome already_there(struct staging *s)
{
	struct mount_facts facts = {.peer_group = 0};
	unsigned int state = MH_STATE_STAGED;
	bool was_known = s->admission->slot.stage == STATE_STAGED;
	struct outcome outcome = OUTCOME_OK;

	TRY_KERNEL(STEP_TABLE, mount_facts(&s->h->mountinfo, &s->target, &facts));
	/* a plugin's has the flags that the plugin gave it, and there may be others below: floor and refusal
	 * come with the publish */
	if (s->class && facts.parent != s->h->stage.mount_id)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_STACKED);
	if ((s->class && !is_same(s, &facts)) || own_is_shown(s->h, facts.root))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_OTHER_MOUNT);
	/* the profile decides about exec and propagation of the publishes */
	if (was_known && !str_eq(s->admission->slot.profile, s->req->profile))
		return outcome_stop(MH_CONFLICT, STEP_STATE, REASON_STAGED_PROFILE);
	/* a plugin's mount stays as it is, unless publishes must be in its peer group; a finished stage had
	 * its propagation: a different one was set on purpose, or the policy has changed */
	if (s->class || s->propagation == TICKET_PROPAGATION_BIDIRECTIONAL)
		outcome = attach_repair(s->h, &s->target, s->propagation, was_known ? facts.peer_group : 0);
	TRY_OUTCOME(outcome);
	state |= outcome.state;
	TRY_OUTCOME(remember(s, true));
	return outcome_mounted(s->class || was_known ? MH_ALREADY : MH_OK, &s->target, &facts, state);
}

static struct outcome attach_new(struct staging *s)
{
	struct attach attach = {.tree = &s->h->stage,
				.dir_fd = s->h->stage.fd,
				.name = s->req->volume,
				.attributes = stage_attributes(s),
				.propagation = s->propagation};
	struct place root = PLACE_INIT;
	cleanup_close int mount_fd = -EBADF;
	struct outcome outcome;

	TRY_OUTCOME(s->class->make(s, &mount_fd));
	TRY_KERNEL(STEP_VERIFY, place_of_fd(mount_fd, &root));
	/* a name in /dev may have come to mean another device between our look and the kernel's */
	if (!is_of_device(s, &root))
		return outcome_stop(MH_INTERNAL, STEP_VERIFY, REASON_POSTCONDITION);
	attach.mount_fd = TAKE_FD(mount_fd);
	outcome = attach_mount(s->h, &attach);
	close_fdp(&attach.mount_fd);
	outcome.state |= outcome.status == MH_OK ? MH_STATE_STAGED : 0;
	return outcome;
}

static struct outcome stage_new(struct staging *s)
{
	struct outcome outcome;

	TRY_OUTCOME(count_in(s));
	outcome = attach_new(s);
	if (outcome.status != MH_OK)
		counts_end_stage(s->h, s->req->volume);
	TRY_OUTCOME(outcome);
	/* the mount exists; without its source in the table a publish is refused until the next STAGE */
	TRY_OUTCOME(remember(s, false));
	return outcome;
}

/* A block attachment: has the plugin bound a file of /dev at its target of this use? */
static bool has_device(const struct staging *s, struct place *ret)
{
	cleanup_close int fd =
		sys_openat(s->target.fd, csi_target_name(s->req->read_only), O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct mount_facts facts = {.peer_group = 0};

	return fd >= 0 && place_of_fd(fd, ret) == 0 && S_ISBLK(ret->mode) &&
	       mount_facts(&s->h->mountinfo, ret, &facts) == 0 && str_eq(facts.type, "devtmpfs");
}

/* The plugin mounts later, and STAGE comes again. */
static struct outcome prepare(struct staging *s)
{
	struct outcome outcome = count_in(s);
	struct place device = PLACE_INIT;

	if (outcome.status != MH_OK) {
		(void)sys_rmdirat(s->target.fd, MH_CSI_STAGING);
		return outcome;
	}
	outcome.state = MH_STATE_PREPARED;
	if (has_device(s, &device)) {
		outcome.state |= MH_STATE_DEVICE;
		outcome.dev_major = device.rdev_major;
		outcome.dev_minor = device.rdev_minor;
	}
	return outcome;
}

/* csi: make the folders for the plugin; what it mounted for this use is the target, if it is there. */
static struct outcome csi_enter(struct staging *s)
{
	cleanup_place struct place staging = PLACE_INIT;
	cleanup_place struct place target = PLACE_INIT;
	int r;

	TRY_KERNEL(STEP_DIRECTORY, place_make(s->target.fd, MH_CSI_STAGING, &staging));
	if (!staging.is_mount_root && !place_is_own(s->h, &s->h->stage, &staging))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	r = mount_open(s->target.fd, csi_target_name(s->req->read_only), &target);
	if (r == -ENOENT)
		return OUTCOME_OK;
	TRY_KERNEL(STEP_OPEN, r);
	place_release(&s->target);
	s->target = target;
	target.fd = -EBADF;
	return OUTCOME_OK;
}

/* The folder that the volume's directory is in. */
static int folder_fd(const struct staging *s)
{
	return s->class ? s->h->stage.fd : s->folder.fd;
}

static struct outcome open_target(struct staging *s)
{
	int r = s->class ? 0 : plugin_folder_open(s->h, s->plugin, true, &s->folder);

	if (r > 0)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	TRY_KERNEL(STEP_DIRECTORY, r);
	TRY_KERNEL(STEP_DIRECTORY, place_make(folder_fd(s), s->req->volume, &s->target));
	if (s->class && s->target.is_mount_root)
		return OUTCOME_OK;
	if (!place_is_own(s->h, &s->h->stage, &s->target))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	return s->class ? OUTCOME_OK : csi_enter(s);
}

static struct outcome stage(struct staging *s)
{
	struct outcome outcome;

	if (!state_is_at(&s->admission->slot, s->plugin))
		return outcome_stop(MH_CONFLICT, STEP_STATE, REASON_STAGED_PROFILE);
	/* its plugin may have mounted another storage for the volume, and the mount does not show which */
	if (!s->class && s->admission->slot.stage != STATE_UNSTAGED &&
	    memcmp(s->admission->slot.source_digest, s->admission->source_digest, TICKET_DIGEST_SIZE) != 0)
		return outcome_stop(MH_CONFLICT, STEP_STATE, REASON_TICKET_SOURCE);
	if (s->class && s->class->find)
		TRY_OUTCOME(s->class->find(s));
	TRY_OUTCOME(open_target(s));
	if (s->target.is_mount_root)
		return already_there(s);
	outcome = s->class ? stage_new(s) : prepare(s);
	if (outcome.status != MH_OK)
		(void)sys_rmdirat(folder_fd(s), s->req->volume); /* tidy; a mount there refuses */
	return outcome;
}

struct outcome op_stage(struct helper *h, const union mh_request *request, const struct admission *admission)
{
	const struct mh_stage *req = &request->stage;
	struct staging s = {.h = h,
			    .req = req,
			    .profile = admission->profile,
			    .class = classes[req->source.class],
			    .admission = admission,
			    .origin = PLACE_INIT,
			    .plugin = req->source.class == MH_CLASS_CSI ? req->profile : "",
			    .folder = PLACE_INIT,
			    .target = PLACE_INIT,
			    .propagation = admission->profile->shared ? TICKET_PROPAGATION_BIDIRECTIONAL
								      : TICKET_PROPAGATION_PRIVATE};
	struct outcome outcome;

	assert(admission->profile->class == req->source.class);
	(void)str_format(s.source, sizeof(s.source), "holdfast:%s", req->volume);
	outcome = stage(&s);
	place_release(&s.origin);
	place_release(&s.folder);
	place_release(&s.target);
	return outcome;
}
