#include "attach.h"
#include "block_source.h"
#include "locks.h"
#include "ops.h"
#include "trees.h"

#include "base/cleanup.h"
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
};

static void staging_release(struct staging *s)
{
	place_release(&s->target);
}

static bool is_block(const struct staging *s)
{
	return s->type->class == MH_CLASS_BLOCK;
}

static uint64_t tmpfs_blocks(const struct staging *s)
{
	return (s->req->source.u.tmpfs.size_bytes + TMPFS_PAGE - 1) / TMPFS_PAGE;
}

/* Stage mounts are inert, whatever the publish may allow: nobody but the helper reaches them. */
static int64_t floor_flags(const struct staging *s)
{
	return ST_NOSUID | ST_NODEV | ST_NOEXEC | ST_NOSYMFOLLOW_ | (s->req->read_only ? ST_RDONLY : 0);
}

/* Is the mount that already stands there the one that is asked for? */
static bool is_as_asked(const struct staging *s, const struct mount_facts *facts, const struct statfs *fs)
{
	bool same_medium = is_block(s)
				   ? s->target.dev_major == s->block.dev_major &&
					     s->target.dev_minor == s->block.dev_minor
				   : str_eq(facts->source, s->source) && fs->f_blocks == tmpfs_blocks(s) &&
					     fs->f_files == s->req->source.u.tmpfs.inodes;

	return same_medium && (uint64_t)fs->f_type == s->type->magic && facts->root_is_whole &&
	       (fs->f_flags & floor_flags(s)) == floor_flags(s) &&
	       ((fs->f_flags & ST_RDONLY) != 0) == (s->req->read_only == 1);
}

static struct outcome already_there(struct staging *s)
{
	struct mount_facts facts = {.shared = false};
	struct statfs fs = {.f_type = 0};
	int r = sys_fstatfs(s->target.fd, &fs);

	if (r == 0)
		r = mountinfo_find(&s->h->mountinfo, s->target.mount_id, &facts);
	if (r < 0)
		return outcome_kernel(STEP_TABLE, r);
	if (!is_as_asked(s, &facts, &fs))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_OTHER_MOUNT);
	/* an instance that was killed between attaching and making private left it shared */
	r = attach_make_private(s->h, s->target.fd, s->target.mount_id, &facts);
	if (r < 0)
		return outcome_kernel(STEP_PRIVATE, r);
	if (facts.shared || facts.slave)
		return outcome_stop(MH_INTERNAL, STEP_PRIVATE, REASON_POSTCONDITION);
	return (struct outcome){.status = MH_ALREADY,
				.state = outcome_state(MH_STATE_STAGED, fs.f_flags),
				.dev_major = s->target.dev_major,
				.dev_minor = s->target.dev_minor};
}

static struct outcome check_room(struct staging *s)
{
	struct census census = {.dev_major = s->block.dev_major, .dev_minor = s->block.dev_minor};
	const struct agent_policy *agent = s->h->agent;
	int r;

	if (!is_block(s)) {
		r = lock_tmpfs(s->h->state_fd);
		if (r < 0)
			return outcome_kernel(STEP_LOCK, r);
	}
	r = census_take(s->h, &census);
	if (r < 0)
		return outcome_kernel(STEP_TABLE, r);
	if (census.on_device != 0)
		return outcome_stop(MH_CONFLICT, STEP_TABLE, REASON_DEVICE_MOUNTED);
	if (census.staged >= agent->max_staged)
		return outcome_stop(MH_LIMIT, STEP_TABLE, REASON_MAX_STAGED);
	if (!is_block(s) && (census.tmpfs_bytes > agent->max_tmpfs_total ||
			     tmpfs_blocks(s) * TMPFS_PAGE > agent->max_tmpfs_total - census.tmpfs_bytes))
		return outcome_stop(MH_LIMIT, STEP_TABLE, REASON_MAX_TMPFS);
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

	(void)str_format(number, sizeof(number), "%" PRIu64, tmpfs_blocks(s) * TMPFS_PAGE);
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
 * shared: its options would silently be the older ones. Kernels before 6.6 do not know the command; there
 * check_room() has looked through our own namespace. */
static int create_superblock(const struct staging *s, int fs_fd)
{
	int r = -EOPNOTSUPP;

	if (is_block(s))
		r = sys_fsconfig(fs_fd, SYS_FSCONFIG_CMD_CREATE_EXCL, NULL, NULL, 0);
	if (r == -EOPNOTSUPP)
		r = sys_fsconfig(fs_fd, SYS_FSCONFIG_CMD_CREATE, NULL, NULL, 0);
	return r;
}

static struct outcome make_detached(const struct staging *s, int *ret_fd)
{
	cleanup_close int fs_fd = sys_fsopen(s->type->name, SYS_FSOPEN_CLOEXEC);
	cleanup_close int mount_fd = -EBADF;
	struct place root = PLACE_INIT;
	struct statfs fs = {.f_type = 0};
	int r;

	if (fs_fd == -ENODEV)
		return outcome_stop(MH_UNAVAILABLE, STEP_FSOPEN, REASON_TYPE_UNAVAILABLE);
	if (fs_fd < 0)
		return outcome_kernel(STEP_FSOPEN, fs_fd);
	r = set_options(s, fs_fd);
	if (r < 0)
		return outcome_kernel(STEP_OPTION, r);
	r = create_superblock(s, fs_fd);
	if (r == -EBUSY)
		return outcome_stop(MH_CONFLICT, STEP_CREATE, REASON_DEVICE_MOUNTED);
	if (r < 0)
		return outcome_kernel(STEP_CREATE, r);
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

/* What was staged under this name before must not be remembered of this mount, should this process die
 * between attaching and remembering: then the source is unknown, and PUBLISH is refused until STAGE came
 * again. */
static struct outcome forget_source(const struct staging *s)
{
	int r = lock_table(s->h->state_fd);

	if (r < 0)
		return outcome_kernel(STEP_LOCK, r);
	state_clear_staged(s->h->state, s->req->volume);
	unlock_table(s->h->state_fd);
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

static struct outcome stage_new(struct staging *s)
{
	cleanup_close int mount_fd = -EBADF;
	struct attach attach = {.dir_fd = s->h->stage.fd,
				.name = s->req->volume,
				.target = &s->target,
				.want_flags = floor_flags(s),
				.deny_flags = s->req->read_only ? 0 : ST_RDONLY};
	struct outcome outcome;

	if (!place_is_own(s->h, &s->h->stage, &s->target))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	outcome = check_room(s);
	if (outcome.status == MH_OK)
		outcome = make_detached(s, &mount_fd);
	if (outcome.status == MH_OK)
		outcome = forget_source(s);
	if (outcome.status == MH_OK) {
		attach.mount_fd = TAKE_FD(mount_fd);
		outcome = attach_mount(s->h, &attach);
		outcome.state |= outcome.status == MH_OK ? MH_STATE_STAGED : 0;
		close_fdp(&attach.mount_fd);
	}
	if (outcome.status != MH_OK)
		(void)sys_rmdirat(s->h->stage.fd, s->req->volume); /* tidy; a mount there refuses */
	return outcome;
}

struct outcome op_stage(struct helper *h, const struct mh_stage *req, const struct admission *admission)
{
	cleanup(staging_release) struct staging s = {.h = h,
						     .req = req,
						     .profile = admission->profile,
						     .type = &fs_types[admission->profile->kind],
						     .target = PLACE_INIT};
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
