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
	char slot[SLOT_NAME_SIZE];
	bool nosymfollow;
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

static struct outcome open_staged(struct publishing *p)
{
	struct statfs fs = {.f_type = 0};
	int r = place_open(p->h->stage.fd, p->req->volume, &p->staged);

	if (r == -ENOENT || (r == 0 && !p->staged.is_mount_root))
		return outcome_stop(MH_NOT_FOUND, STEP_OPEN, REASON_NONE);
	if (r == 0)
		r = sys_fstatfs(p->staged.fd, &fs);
	if (r < 0)
		return outcome_kernel(STEP_OPEN, r);
	if ((uint64_t)fs.f_type != fs_types[p->profile->kind].magic)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_STAGED_PROFILE);
	if ((fs.f_flags & ST_RDONLY) != 0 && !p->req->read_only)
		return outcome_stop(MH_REFUSED, STEP_OPEN, REASON_STAGED_READ_ONLY);
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

/* The ticket names a source: it must be what stands there. Without a ticket the profile still must be the one
 * that staged: it decides about exec and symlinks. */
static struct outcome check_source(const struct publishing *p, const struct ticket *ticket)
{
	struct outcome outcome = outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
	const struct state_slot *staged;
	int r = lock_table(p->h->state_fd);

	if (r < 0)
		return outcome_kernel(STEP_LOCK, r);
	staged = state_staged(p->h->state, p->req->volume);
	if (!staged)
		outcome = outcome_stop(MH_REFUSED, STEP_STATE, REASON_SOURCE_UNKNOWN);
	else if (!str_eq(staged->profile, p->req->profile))
		outcome = outcome_stop(MH_REFUSED, STEP_STATE, REASON_STAGED_PROFILE);
	else if (ticket && memcmp(staged->source_digest, ticket->source_digest, TICKET_DIGEST_SIZE) != 0)
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
	struct mount_facts facts = {.shared = false};
	struct statfs fs = {.f_type = 0};
	int r = sys_fstatfs(p->target.fd, &fs);

	if (r < 0)
		return outcome_kernel(STEP_OPEN, r);
	if (!place_is_same(&p->target, &p->staged) || (fs.f_flags & want_flags(p)) != want_flags(p) ||
	    (fs.f_flags & deny_flags(p)) != 0)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_OTHER_MOUNT);
	/* an instance that was killed between attaching and making private left it shared */
	r = attach_make_private(p->h, p->target.fd, p->target.mount_id, &facts);
	if (r < 0)
		return outcome_kernel(STEP_PRIVATE, r);
	if (facts.shared || facts.slave)
		return outcome_stop(MH_INTERNAL, STEP_PRIVATE, REASON_POSTCONDITION);
	return (struct outcome){.status = MH_ALREADY,
				.state = outcome_state(MH_STATE_PUBLISHED, fs.f_flags),
				.dev_major = p->target.dev_major,
				.dev_minor = p->target.dev_minor};
}

static struct outcome check_room(struct publishing *p)
{
	struct census census = {.alloc = p->req->alloc, .parent = p->staged.mount_id};
	const struct agent_policy *agent = p->h->agent;
	int r = census_take(p->h, &census);

	if (r < 0)
		return outcome_kernel(STEP_TABLE, r);
	/* a clone without its submounts would uncover what they hide */
	if (census.children != 0)
		return outcome_stop(MH_CONFLICT, STEP_TABLE, REASON_SUBMOUNT);
	if (census.published >= agent->max_published)
		return outcome_stop(MH_LIMIT, STEP_TABLE, REASON_MAX_PUBLISHED);
	if (census.in_alloc >= agent->max_per_alloc)
		return outcome_stop(MH_LIMIT, STEP_TABLE, REASON_MAX_PER_ALLOC);
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

/* One call gives the clone all its final attributes while nobody can see it. */
static struct outcome make_clone(const struct publishing *p, int *ret_fd)
{
	struct sys_mount_attr attr = {.attr_set = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV,
				      .propagation = MS_PRIVATE};
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
				.deny_flags = deny_flags(p)};
	struct outcome outcome;

	if (!place_is_own(p->h, &p->h->publish, &p->target))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	outcome = check_room(p);
	if (outcome.status == MH_OK)
		outcome = make_clone(p, &clone_fd);
	if (outcome.status != MH_OK)
		return outcome;
	attach.mount_fd = TAKE_FD(clone_fd);
	outcome = attach_mount(p->h, &attach);
	outcome.state |= outcome.status == MH_OK ? MH_STATE_PUBLISHED : 0;
	close_fdp(&attach.mount_fd);
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
