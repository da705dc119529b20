#include "mount_table.h"

#include "base/cleanup.h"
#include "base/names.h"
#include "base/str.h"

#include <errno.h>
#include <libmount/libmount.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

#define MOUNTINFO_PATH "/proc/self/mountinfo"

struct mount_table {
	struct libmnt_table *mounts;
};

static const char *const propagation_names[MOUNT_PROPAGATION_N] = {
	[MOUNT_PRIVATE] = "private",	       [MOUNT_SHARED] = "shared",	  [MOUNT_SLAVE] = "slave",
	[MOUNT_SLAVE_SHARED] = "slave,shared", [MOUNT_UNBINDABLE] = "unbindable",
};

const char *mount_propagation_name(enum mount_propagation propagation)
{
	const char *name = names_get(propagation_names, MOUNT_PROPAGATION_N, (int)propagation);

	return name ? name : "invalid";
}

enum status mount_table_read(struct mount_table **ret, struct error *err)
{
	struct mount_table *table = calloc(1, sizeof(*table));

	if (table)
		table->mounts = mnt_new_table_from_file(MOUNTINFO_PATH);
	if (!table || !table->mounts) {
		int saved = errno;

		free(table);
		return error_set(err, STATUS_INTERNAL, saved, "cannot read the mount table %s",
				 MOUNTINFO_PATH);
	}
	*ret = table;
	return STATUS_OK;
}

void mount_table_free(struct mount_table *table)
{
	if (!table)
		return;
	mnt_unref_table(table->mounts);
	free(table);
}

static enum mount_propagation read_propagation(struct libmnt_fs *fs)
{
	unsigned long flags = 0;

	if (mnt_fs_get_propagation(fs, &flags) < 0)
		return MOUNT_SHARED; /* the answer that proves nothing */
	if (flags & MS_UNBINDABLE)
		return MOUNT_UNBINDABLE;
	if (flags & MS_SHARED)
		return flags & MS_SLAVE ? MOUNT_SLAVE_SHARED : MOUNT_SHARED;
	return flags & MS_SLAVE ? MOUNT_SLAVE : MOUNT_PRIVATE;
}

static bool has_option(const char *options, const char *name)
{
	return options && mnt_optstr_get_option(options, name, NULL, NULL) == 0;
}

/* Empty for what does not fit: a part of it would name something else. */
static void copy_text(char *dst, size_t size, const char *text)
{
	(void)str_copy(dst, size, text ? text : "");
}

enum status mount_table_find(const struct mount_table *table, const char *path, struct mount_view *ret,
			     struct error *err)
{
	struct mount_view view = {0};
	struct libmnt_fs *fs;
	const char *options;

	/* by the string alone: resolving links would look at paths that tasks may have changed */
	fs = mnt_table_find_target(table->mounts, path, MNT_ITER_BACKWARD);
	if (!fs || strcmp(mnt_fs_get_target(fs), path) != 0)
		return error_set(err, STATUS_NOT_FOUND, 0, "nothing is mounted at %s", path);
	view.dev_major = major(mnt_fs_get_devno(fs));
	view.dev_minor = minor(mnt_fs_get_devno(fs));
	options = mnt_fs_get_vfs_options(fs);
	view.is_nosuid = has_option(options, "nosuid");
	view.is_nodev = has_option(options, "nodev");
	view.is_noexec = has_option(options, "noexec");
	view.is_read_only = has_option(options, "ro") || has_option(mnt_fs_get_fs_options(fs), "ro");
	view.propagation = read_propagation(fs);
	if (options) {
		size_t n = strnlen(options, sizeof(view.options) - 1);

		memcpy(view.options, options, n);
	}
	copy_text(view.root, sizeof(view.root), mnt_fs_get_root(fs));
	copy_text(view.fs_type, sizeof(view.fs_type), mnt_fs_get_fstype(fs));
	*ret = view;
	return STATUS_OK;
}
