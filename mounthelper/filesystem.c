/* SPDX-License-Identifier: Apache-2.0 */
/* A new mount of a file system of the kernel's: fsopen(2), options, fsmount(2). */
#include "source.h"
#include "trees.h"

int filesystem_set(int fs_fd, const char *key, const char *value)
{
	assert(fs_fd >= 0 && key[0] != '\0');
	return sys_fsconfig(fs_fd, value ? SYS_FSCONFIG_SET_STRING : SYS_FSCONFIG_SET_FLAG, key, value, 0);
}

static bool applies(const struct staging *s, int i)
{
	bool is_chosen = !fs_options[i].word || (s->profile->options & UINT32_C(1) << i) != 0;

	return is_chosen && (fs_options[i].kinds & UINT32_C(1) << s->profile->kind) != 0 &&
	       fs_options[i].when != (s->req->read_only ? FS_WRITABLE : FS_READ_ONLY);
}

static int set_options(const struct staging *s, int fs_fd)
{
	TRY_SYS(filesystem_set(fs_fd, "source", s->source));
	for (int i = 0; i < FS_OPTION_N; i++)
		if (fs_options[i].key && applies(s, i))
			TRY_SYS(filesystem_set(fs_fd, fs_options[i].key, fs_options[i].value));
	if (s->profile->selinux_context[0] != '\0')
		TRY_SYS(filesystem_set(fs_fd, "context", s->profile->selinux_context));
	return s->class->set_options ? s->class->set_options(s, fs_fd) : 0;
}

unsigned int stage_attributes(const struct staging *s)
{
	unsigned int attributes = STAGE_FLOOR | (s->req->read_only ? SYS_MOUNT_ATTR_RDONLY : 0);

	for (int i = 0; i < FS_OPTION_N; i++)
		if (applies(s, i))
			attributes |= fs_options[i].attribute;
	return attributes;
}

/* @option is one more, or NULL. A journal that the kernel uses must be inside, or it is REASON_JOURNAL. */
static struct outcome make(const struct staging *s, const char *option, const char *value, int *ret_fd)
{
	/* xfs opens other devices only by options; a flag is noload, which read-only ext4 has always */
	bool uses_journal = s->profile->kind == FS_EXT4 && !s->req->read_only && (!option || value);
	cleanup_close int fs_fd = sys_fsopen(fs_names[s->profile->kind], SYS_FSOPEN_CLOEXEC);
	int r;

	if (fs_fd == -ENODEV)
		return outcome_stop(MH_UNAVAILABLE, STEP_FSOPEN, REASON_TYPE_UNAVAILABLE);
	TRY_KERNEL(STEP_FSOPEN, fs_fd);
	TRY_KERNEL(STEP_OPTION, set_options(s, fs_fd));
	if (option)
		TRY_KERNEL(STEP_OPTION, filesystem_set(fs_fd, option, value));
	r = s->class->create ? s->class->create(s, fs_fd)
			     : sys_fsconfig(fs_fd, SYS_FSCONFIG_CMD_CREATE, NULL, NULL, 0);
	if (r == -EBUSY)
		return outcome_stop(MH_CONFLICT, STEP_CREATE, REASON_DEVICE_MOUNTED);
	if (r == -EXDEV)
		return outcome_stop(MH_REFUSED, STEP_CREATE, REASON_KERNEL_OLD);
	if (r == 0 && uses_journal && !journal_is_inside(s->h, &s->origin))
		return outcome_stop(MH_REFUSED, STEP_CREATE, REASON_JOURNAL);
	TRY_KERNEL(STEP_CREATE, r);
	*ret_fd = sys_fsmount(fs_fd, SYS_FSMOUNT_CLOEXEC, stage_attributes(s));
	TRY_KERNEL(STEP_FSMOUNT, *ret_fd);
	return OUTCOME_OK;
}

/* A file system without a journal on its own device may have no journal at all: only then does the kernel
 * refuse an interval of commits. Should its device answer differently now, noload keeps the kernel from
 * opening another one. (No option journal_dev: the superblock's own options, tune2fs -E mount_opts=, come
 * after it.) */
struct outcome filesystem_make(const struct staging *s, int *ret_fd)
{
	assert(s->profile->kind < FS_N);

	struct outcome outcome = make(s, NULL, NULL, ret_fd);

	if (outcome.reason != REASON_JOURNAL)
		return outcome;
	outcome = make(s, "commit", "6", ret_fd);
	return outcome.sys_errno == -EINVAL ? make(s, "noload", NULL, ret_fd) : outcome;
}
