/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The file systems that the helper knows, and every option that it may give them: the forced ones, and the
 * closed list from which a policy may choose. Options that name a path, a device, a descriptor or a user are
 * absent on purpose. */

#include "mounthelper_wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fs_kind {
	FS_EXT4,
	FS_XFS,
	FS_EROFS,
	FS_SQUASHFS,
	FS_TMPFS,
	FS_NFS4,
	FS_N,
	FS_ANY = FS_N, /* of classes that mount no file system of their own: bind, csi */
};

struct fs_type {
	enum mh_class class;
	bool has_sysfs;		/* /sys/fs/NAME/DEVICE exists as long as the superblock does */
	bool always_read_only;	/* has no write support */
	bool fit_for_untrusted; /* small read-only code, may parse a foreign image */
};

enum fs_when {
	FS_ALWAYS,
	FS_WRITABLE,
	FS_READ_ONLY,
};

struct fs_option {
	const char *word;   /* in the policy; NULL: always set, the policy cannot change it */
	uint32_t kinds;	    /* 1 << enum fs_kind */
	enum fs_when when;  /* kind of mount it has a meaning for */
	const char *key;    /* for fsconfig(2), or NULL for an attribute of the mount */
	const char *value;  /* NULL: a flag */
	uint32_t attribute; /* MOUNT_ATTR_*, or 0 */
};

enum { FS_OPTION_N = 15 };

extern const char *const fs_names[FS_N]; /* for the policy, fsopen(2), and in the mount table */
extern const struct fs_type fs_types[FS_N];
extern const struct fs_option fs_options[FS_OPTION_N];
