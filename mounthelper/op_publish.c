#include "attach.h"
#include "locks.h"
#include "ops.h"
#include "trees.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

enum { ST_NOSYMFOLLOW_ = 0x2000 };

/* PUBLISH under construction. */
struct publishing {
	struct helper *h;
	const struct mh_publish *req;
	const struct profile *profile;
	struct place staged;
	struct place alloc;
	struct place target;
	uint64_t group; /* the stage's peer group, 0 when it is private */
	enum propagation propagation;
	char slot[SLOT_NAME_SIZE];
	bool nosymfollow;
};

static const enum propagation propagations[TICKET_PROPAGATION_N] = {
	[TICKET_PROPAGATION_PRIVATE] = PROPAGATION_PRIVATE,
	[TICKET_PROPAGATION_HOST_TO_TASK] = PROPAGATION_SLAVE,
	[TICKET_PROPAGATION_BIDIRECTIONAL] = PROPAGATION_PEER,
};

static void publishing_release(struct publishing *p)
{
	place_release(&p->target);
	place_release(&p->alloc);
	place_release(&p->staged);
}

static int64_t want_flags(const struct publishing *p)
{
	return ST_NOSUID | ST_NODEV | (p->req->read_only ? ST_RDONLY : 0) | (p->req->exec ? 0 : ST_NOEXEC) |
	       (p->nosymfollow ? ST_NOSYMFOLLOW_ : 0);
}

static int64_t deny_flags(const struct publishing *p)
{
	return (p->req->read_only ? 0 : ST_RDONLY) | (p->req->exec ? ST_NOEXEC : 0);
}

/* Where the volume's mount stands: a csi plugin's own publish lies one level deeper. */
static int open_stage(struct publishing *p)
{
	cleanup_place struct place volume = PLACE_INIT;
	int r;

	if (p->profile->class != MH_CLASS_CSI)
		return place_open(p->h->stage.fd, p->req->volume, &p->staged);
	r = place_open(p->h->stage.fd, p->req->volume, &volume);
	return r < 0 ? r : place_open(volume.fd, MH_CSI_PUBLISH, &p->staged);
}

static struct outcome open_staged(struct publishing *p)
{
	struct mount_facts facts = {.peer_group = 0};
	struct statfs fs = {.f_type = 0};
	int r = open_stage(p);

	if (r == -ENOENT || (r == 0 && !p->staged.is_mount_root))
		return outcome_stop(MH_NOT_FOUND, STEP_OPEN, REASON_NONE);
	if (r == 0)
		r = sys_fstatfs(p->staged.fd, &fs);
	if (r == 0)
		r = mount_facts(p->h, &p->staged, &facts);
	if (r < 0)
		return outcome_kernel(STEP_OPEN, r);
	if (p->profile->kind != FS_ANY && (uint64_t)fs.f_type != fs_types[p->profile->kind].magic)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_STAGED_PROFILE);
	if ((fs.f_flags & ST_RDONLY) != 0 && !p->req->read_only)
		return outcome_stop(MH_REFUSED, STEP_OPEN, REASON_STAGED_READ_ONLY);
	if (p->propagation != PROPAGATION_PRIVATE && facts.peer_group == 0)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_PROPAGATION);
	/* a clone without its submounts would uncover what they hide */
	if (facts.has_submounts)
		return outcome_stop(MH_CONFLICT, STEP_TABLE, REASON_SUBMOUNT);
	p->group = facts.peer_group;
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

/* The ticket names a source: it must be what stands there. Without a ticket the profile still must be the one
 * that staged: it decides about exec and symlinks. */
static struct outcome check_source(const struct publishing *p, const struct ticket *ticket)
{
	struct outcome outcome = outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
	const struct state_slot *slot;
	int r = lock_table(p->h->state_fd);

	if (r < 0)
		return outcome_kernel(STEP_LOCK, r);
	slot = state_find(p->h->state, p->req->volume);
	if (!slot || slot->stage != STATE_STAGED)
		outcome = outcome_stop(MH_REFUSED, STEP_STATE, REASON_SOURCE_UNKNOWN);
	else if (!str_eq(slot->profile, p->req->profile))
		outcome = outcome_stop(MH_REFUSED, STEP_STATE, REASON_STAGED_PROFILE);
	else if (ticket && memcmp(slot->source_digest, ticket->source_digest, TICKET_DIGEST_SIZE) != 0)
		outcome = outcome_stop(MH_REFUSED, STEP_STATE, REASON_TICKET_SOURCE);
	unlock_table(p->h->state_fd);
	return outcome;
}

static struct outcome make_target(struct publishing *p)
{
	int r = lock_alloc(p->h->state_fd, p->req->alloc);

	if (r < 0)
		return outcome_kernel(STEP_LOCK, r);
	r = place_make(p->h->publish.fd, p->req->alloc, &p->alloc);
	if (r < 0)
		return outcome_kernel(STEP_DIRECTORY, r);
	if (!place_is_own(p->h, &p->h->publish, &p->alloc))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	r = place_make(p->alloc.fd, p->slot, &p->target);
	return r < 0 ? outcome_kernel(STEP_DIRECTORY, r) : outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

static struct outcome already_there(struct publishing *p)
{
	struct statfs fs = {.f_type = 0};
	struct outcome outcome;
	int r = sys_fstatfs(p->target.fd, &fs);

	if (r < 0)
		return outcome_kernel(STEP_OPEN, r);
	if (!place_is_same(&p->target, &p->staged) || (fs.f_flags & want_flags(p)) != want_flags(p) ||
	    (fs.f_flags & deny_flags(p)) != 0)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_OTHER_MOUNT);
	outcome = attach_mend(p->h, &p->target, p->propagation, p->group);
	if (outcome.status != MH_OK)
		return outcome;
	return outcome_mounted(MH_ALREADY, &p->target, &fs, MH_STATE_PUBLISHED | outcome.state);
}

/* Counted before the mount is there, so that a death leaves the count too high, never too low. */
static struct outcome count_in(const struct publishing *p)
{
	int r = lock_table(p->h->state_fd);

	if (r < 0)
		return outcome_kernel(STEP_LOCK, r);
	r = state_begin_publish(p->h->state, p->req->volume, p->h->agent->max_published);
	unlock_table(p->h->state_fd);
	if (r < 0)
		return outcome_stop(MH_LIMIT, STEP_STATE, REASON_MAX_PUBLISHED);
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

static void count_out(const struct publishing *p)
{
	if (lock_table(p->h->state_fd) < 0)
		return;
	state_end_publish(p->h->state, p->req->volume);
	unlock_table(p->h->state_fd);
}

/* One call gives the clone all its final attributes while nobody can see it. */
static struct outcome make_clone(const struct publishing *p, int *ret_fd)
{
	static const uint64_t propagation_flags[] = {
		[PROPAGATION_PRIVATE] = MS_PRIVATE,
		[PROPAGATION_SLAVE] = MS_SLAVE,
		[PROPAGATION_PEER] = 0, /* a clone begins as a peer of what it is cloned from */
	};
	struct sys_mount_attr attr = {.attr_set = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV,
				      .propagation = propagation_flags[p->propagation]};
	cleanup_close int fd =
		sys_open_tree(p->staged.fd, "", SYS_OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH);
	int r;

	if (fd < 0)
		return outcome_kernel(STEP_CLONE, fd);
	if (p->req->read_only)
		attr.attr_set |= SYS_MOUNT_ATTR_RDONLY;
	if (p->req->exec)
		attr.attr_clr |= SYS_MOUNT_ATTR_NOEXEC;
	else
		attr.attr_set |= SYS_MOUNT_ATTR_NOEXEC;
	if (p->nosymfollow)
		attr.attr_set |= SYS_MOUNT_ATTR_NOSYMFOLLOW;
	else
		attr.attr_clr |= SYS_MOUNT_ATTR_NOSYMFOLLOW;
	r = sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr);
	if (r < 0)
		return outcome_kernel(STEP_RESTRICT, r);
	*ret_fd = TAKE_FD(fd);
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

static struct outcome publish_new(struct publishing *p)
{
	cleanup_close int clone_fd = -EBADF;
	struct attach attach = {.dir_fd = p->alloc.fd,
				.name = p->slot,
				.target = &p->target,
				.want_flags = want_flags(p),
				.deny_flags = deny_flags(p),
				.propagation = p->propagation,
				.group = p->group};
	struct outcome outcome;

	if (!place_is_own(p->h, &p->h->publish, &p->target))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	outcome = make_clone(p, &clone_fd);
	if (outcome.status == MH_OK)
		outcome = count_in(p);
	if (outcome.status != MH_OK)
		return outcome;
	attach.mount_fd = TAKE_FD(clone_fd);
	outcome = attach_mount(p->h, &attach);
	close_fdp(&attach.mount_fd);
	if (outcome.status == MH_OK)
		outcome.state |= MH_STATE_PUBLISHED;
	else
		count_out(p);
	return outcome;
}

/* Remove the empty directories of a publish that did not come about; a mount or another slot there refuses.
 */
static void tidy(const struct publishing *p)
{
	if (p->target.fd >= 0 && place_is_own(p->h, &p->h->publish, &p->target))
		(void)sys_rmdirat(p->alloc.fd, p->slot);
	if (p->alloc.fd >= 0 && place_is_own(p->h, &p->h->publish, &p->alloc))
		(void)sys_rmdirat(p->h->publish.fd, p->req->alloc);
}

struct outcome op_publish(struct helper *h, const struct mh_publish *req, const struct admission *admission)
{
	cleanup(publishing_release) struct publishing p = {.h = h,
							   .req = req,
							   .profile = admission->profile,
							   .staged = PLACE_INIT,
							   .alloc = PLACE_INIT,
							   .target = PLACE_INIT,
							   .propagation = propagations[req->propagation],
							   .nosymfollow = admission->profile->trust ==
									  TRUST_UNTRUSTED};
	struct outcome outcome = open_staged(&p);

	if (outcome.status == MH_OK)
		outcome = check_source(&p, admission->ticket);
	if (outcome.status != MH_OK)
		return outcome;
	(void)slot_name(req->slot, p.slot);
	outcome = make_target(&p);
	if (outcome.status == MH_OK)
		outcome = p.target.is_mount_root ? already_there(&p) : publish_new(&p);
	if (outcome.status != MH_OK && outcome.status != MH_ALREADY)
		tidy(&p);
	return outcome;
}
