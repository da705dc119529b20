#include "attach.h"
#include "block_source.h"
#include "locks.h"
#include "ops.h"
#include "trees.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

enum { TMPFS_PAGE = 4096, ST_NOSYMFOLLOW_ = 0x2000 };

/* STAGE under construction. */
struct staging {
	struct helper *h;
	const struct mh_stage *req;
	const struct profile *profile;
	const struct fs_type *type;
	struct block_source block; /* class block */
	char source[MH_LABEL_SIZE + 16];
	struct place target;
	enum propagation propagation;
};

static void staging_release(struct staging *s)
{
	place_release(&s->target);
}

static bool is_block(const struct staging *s)
{
	return s->type->class == MH_CLASS_BLOCK;
}

uint64_t tmpfs_bytes(const struct mh_source *source)
{
	if (source->class != MH_CLASS_TMPFS)
		return 0;
	return (source->u.tmpfs.size_bytes + TMPFS_PAGE - 1) / TMPFS_PAGE * TMPFS_PAGE;
}

/* Stage mounts are inert, whatever the publish may allow: nobody but the helper reaches them. */
static int64_t floor_flags(const struct staging *s)
{
	return ST_NOSUID | ST_NODEV | ST_NOEXEC | ST_NOSYMFOLLOW_ | (s->req->read_only ? ST_RDONLY : 0);
}

/* Is the mount that already stands there the one that is asked for? */
static bool is_as_asked(const struct staging *s, const struct mount_facts *facts, const struct statfs *fs)
{
	bool same_medium = is_block(s) ? s->target.dev_major == s->block.dev_major &&
						 s->target.dev_minor == s->block.dev_minor
				       : fs->f_blocks * TMPFS_PAGE == tmpfs_bytes(&s->req->source) &&
						 fs->f_files == s->req->source.u.tmpfs.inodes;

	return same_medium && (uint64_t)fs->f_type == s->type->magic && facts->root_is_whole &&
	       (fs->f_flags & floor_flags(s)) == floor_flags(s) &&
	       ((fs->f_flags & ST_RDONLY) != 0) == (s->req->read_only == 1);
}

static struct outcome already_there(struct staging *s)
{
	struct mount_facts facts = {.peer_group = 0};
	struct statfs fs = {.f_type = 0};
	struct outcome outcome;
	int r = sys_fstatfs(s->target.fd, &fs);

	if (r == 0)
		r = mount_facts(s->h, &s->target, &facts);
	if (r < 0)
		return outcome_kernel(STEP_TABLE, r);
	if (!is_as_asked(s, &facts, &fs))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_OTHER_MOUNT);
	outcome = attach_mend(s->h, &s->target, s->propagation, 0);
	if (outcome.status != MH_OK)
		return outcome;
	return outcome_mounted(MH_ALREADY, &s->target, &fs, MH_STATE_STAGED);
}

/* Count the volume, and forget what was staged under its name: should this process die between attaching and
 * remembering, the source is unknown, and PUBLISH is refused until STAGE came again. */
static struct outcome count_in(const struct staging *s)
{
	const struct agent_policy *agent = s->h->agent;
	const struct state_limits limits = {.max_staged = agent->max_staged,
					    .max_tmpfs_total = agent->max_tmpfs_total};
	int r = lock_table(s->h->state_fd);

	if (r < 0)
		return outcome_kernel(STEP_LOCK, r);
	r = state_begin_stage(s->h->state, s->req->volume, tmpfs_bytes(&s->req->source), &limits,
			      clock_realtime_ms());
	unlock_table(s->h->state_fd);
	if (r == -EMFILE)
		return outcome_stop(MH_LIMIT, STEP_STATE, REASON_MAX_STAGED);
	if (r == -EDQUOT)
		return outcome_stop(MH_LIMIT, STEP_STATE, REASON_MAX_TMPFS);
	return r < 0 ? outcome_stop(MH_LIMIT, STEP_STATE, REASON_STATE_FULL)
		     : outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

/* Without CREATE_EXCL, before Linux 6.6, only our own namespace can be looked through. */
static struct outcome check_device_unmounted(const struct staging *s)
{
	struct census census = {.dev_major = s->block.dev_major, .dev_minor = s->block.dev_minor};
	int r = census_take(s->h, &census);

	if (r < 0)
		return outcome_kernel(STEP_TABLE, r);
	if (census.on_device != 0)
		return outcome_stop(MH_CONFLICT, STEP_TABLE, REASON_DEVICE_MOUNTED);
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

static int set_option(int fs_fd, const char *key, const char *value)
{
	if (!value)
		return sys_fsconfig(fs_fd, SYS_FSCONFIG_SET_FLAG, key, NULL, 0);
	return sys_fsconfig(fs_fd, SYS_FSCONFIG_SET_STRING, key, value, 0);
}

static int set_tmpfs_options(const struct staging *s, int fs_fd)
{
	char number[24];
	int r;

	(void)str_format(number, sizeof(number), "%" PRIu64, tmpfs_bytes(&s->req->source));
	r = set_option(fs_fd, "size", number);
	if (r < 0)
		return r;
	(void)str_format(number, sizeof(number), "%" PRIu64, s->req->source.u.tmpfs.inodes);
	r = set_option(fs_fd, "nr_inodes", number);
	return r < 0 ? r : set_option(fs_fd, "mode", "1777");
}

static int set_options(const struct staging *s, int fs_fd)
{
	int r = set_option(fs_fd, "source", s->source);

	if (r == 0 && s->type->forced_key)
		r = set_option(fs_fd, s->type->forced_key, s->type->forced_value);
	if (r == 0 && s->req->read_only)
		r = set_option(fs_fd, "ro", NULL);
	if (r == 0 && s->req->read_only && s->type->read_only_option)
		r = set_option(fs_fd, s->type->read_only_option, NULL);
	if (r == 0 && s->type->class == MH_CLASS_TMPFS)
		r = set_tmpfs_options(s, fs_fd);
	for (int i = 0; i < FS_OPTION_N && r == 0; i++)
		if ((s->profile->options & UINT32_C(1) << i) != 0 && fs_options[i].key)
			r = set_option(fs_fd, fs_options[i].key, fs_options[i].value);
	return r;
}

static unsigned int mount_attributes(const struct staging *s)
{
	unsigned int attributes = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC |
				  SYS_MOUNT_ATTR_NOSYMFOLLOW;

	if (s->req->read_only)
		attributes |= SYS_MOUNT_ATTR_RDONLY;
	for (int i = 0; i < FS_OPTION_N; i++)
		if ((s->profile->options & UINT32_C(1) << i) != 0)
			attributes |= fs_options[i].attribute;
	return attributes;
}

/* A block device whose superblock is alive anywhere, even in a namespace that we cannot see, must not be
 * shared: its options would silently be the older ones. */
static struct outcome create_superblock(const struct staging *s, int fs_fd)
{
	struct outcome outcome = outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
	int r = -EOPNOTSUPP;

	if (is_block(s)) {
		r = sys_fsconfig(fs_fd, SYS_FSCONFIG_CMD_CREATE_EXCL, NULL, NULL, 0);
		if (r == -EOPNOTSUPP)
			outcome = check_device_unmounted(s);
	}
	if (r == -EOPNOTSUPP && outcome.status == MH_OK)
		r = sys_fsconfig(fs_fd, SYS_FSCONFIG_CMD_CREATE, NULL, NULL, 0);
	if (outcome.status != MH_OK)
		return outcome;
	if (r == -EBUSY)
		return outcome_stop(MH_CONFLICT, STEP_CREATE, REASON_DEVICE_MOUNTED);
	return r < 0 ? outcome_kernel(STEP_CREATE, r) : outcome;
}

static struct outcome make_detached(const struct staging *s, int *ret_fd)
{
	cleanup_close int fs_fd = sys_fsopen(s->type->name, SYS_FSOPEN_CLOEXEC);
	cleanup_close int mount_fd = -EBADF;
	struct place root = PLACE_INIT;
	struct statfs fs = {.f_type = 0};
	struct outcome outcome;
	int r;

	if (fs_fd == -ENODEV)
		return outcome_stop(MH_UNAVAILABLE, STEP_FSOPEN, REASON_TYPE_UNAVAILABLE);
	if (fs_fd < 0)
		return outcome_kernel(STEP_FSOPEN, fs_fd);
	r = set_options(s, fs_fd);
	if (r < 0)
		return outcome_kernel(STEP_OPTION, r);
	outcome = create_superblock(s, fs_fd);
	if (outcome.status != MH_OK)
		return outcome;
	mount_fd = sys_fsmount(fs_fd, SYS_FSMOUNT_CLOEXEC, mount_attributes(s));
	if (mount_fd < 0)
		return outcome_kernel(STEP_FSMOUNT, mount_fd);
	r = place_of_fd(mount_fd, &root);
	if (r == 0)
		r = sys_fstatfs(mount_fd, &fs);
	if (r < 0)
		return outcome_kernel(STEP_VERIFY, r);
	if ((uint64_t)fs.f_type != s->type->magic ||
	    (is_block(s) && (root.dev_major != s->block.dev_major || root.dev_minor != s->block.dev_minor)))
		return outcome_stop(MH_INTERNAL, STEP_VERIFY, REASON_POSTCONDITION);
	*ret_fd = TAKE_FD(mount_fd);
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

static void count_out(const struct staging *s)
{
	if (lock_table(s->h->state_fd) < 0)
		return;
	state_clear_staged(s->h->state, s->req->volume);
	unlock_table(s->h->state_fd);
}

static struct outcome attach_new(struct staging *s)
{
	cleanup_close int mount_fd = -EBADF;
	struct attach attach = {.dir_fd = s->h->stage.fd,
				.name = s->req->volume,
				.target = &s->target,
				.want_flags = floor_flags(s),
				.deny_flags = s->req->read_only ? 0 : ST_RDONLY,
				.propagation = s->propagation};
	struct outcome outcome = make_detached(s, &mount_fd);

	if (outcome.status != MH_OK)
		return outcome;
	attach.mount_fd = TAKE_FD(mount_fd);
	outcome = attach_mount(s->h, &attach);
	close_fdp(&attach.mount_fd);
	if (outcome.status == MH_OK)
		outcome.state |= MH_STATE_STAGED;
	return outcome;
}

static struct outcome stage_new(struct staging *s)
{
	struct outcome outcome;

	if (!place_is_own(s->h, &s->h->stage, &s->target))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	outcome = count_in(s);
	if (outcome.status == MH_OK) {
		outcome = attach_new(s);
		if (outcome.status != MH_OK)
			count_out(s);
	}
	if (outcome.status != MH_OK)
		(void)sys_rmdirat(s->h->stage.fd, s->req->volume); /* tidy; a mount there refuses */
	return outcome;
}

static struct outcome stage(struct helper *h, const struct mh_stage *req, const struct admission *admission)
{
	cleanup(staging_release) struct staging s = {
		.h = h,
		.req = req,
		.profile = admission->profile,
		.type = &fs_types[admission->profile->kind],
		.target = PLACE_INIT,
		.propagation = admission->profile->shared ? PROPAGATION_PEER : PROPAGATION_PRIVATE};
	struct outcome outcome = {.status = MH_OK};
	int r;

	if (is_block(&s)) {
		outcome = block_source_find(h, &req->source, &s.block);
		(void)str_copy(s.source, sizeof(s.source), s.block.path);
	} else {
		(void)str_format(s.source, sizeof(s.source), "holdfast:%s", req->volume);
	}
	if (outcome.status != MH_OK)
		return outcome;
	r = place_make(h->stage.fd, req->volume, &s.target);
	if (r < 0)
		return outcome_kernel(STEP_DIRECTORY, r);
	return s.target.is_mount_root ? already_there(&s) : stage_new(&s);
}

/* Where the mount of an earlier boot of this table, or of nobody, stands already, it is counted now. */
static struct outcome remember_staged(struct helper *h, const struct mh_stage *req,
				      const struct admission *admission, struct outcome outcome)
{
	const struct state_limits unlimited = {.max_staged = UINT32_MAX, .max_tmpfs_total = UINT64_MAX};
	const struct state_slot *slot;
	int r = lock_table(h->state_fd);

	if (r < 0)
		return outcome_kernel(STEP_LOCK, r);
	slot = state_find(h->state, req->volume);
	if (!slot || slot->stage == STATE_UNSTAGED) {
		r = state_begin_stage(h->state, req->volume, tmpfs_bytes(&req->source), &unlimited,
				      clock_realtime_ms());
		/* nobody knows how often it is published: one too many makes UNSTAGE look */
		if (r == 0)
			r = state_begin_publish(h->state, req->volume, 0, UINT32_MAX);
	}
	if (r == 0)
		state_set_staged(h->state, req->volume, req->profile, admission->source_digest);
	unlock_table(h->state_fd);
	/* the mount stands; without the memory of its source a publish that needs it is refused */
	return r < 0 ? outcome_stop(MH_LIMIT, STEP_STATE, REASON_STATE_FULL) : outcome;
}

struct outcome op_stage(struct helper *h, const struct mh_stage *req, const struct admission *admission)
{
	struct outcome outcome = stage(h, req, admission);

	if (outcome.status != MH_OK && outcome.status != MH_ALREADY)
		return outcome;
	return remember_staged(h, req, admission, outcome);
}
