/* SPDX-License-Identifier: Apache-2.0 */
#include "fstypes.h"

enum { MOUNT_ATTR_NOATIME_ = 0x10 };

const char *const fs_names[FS_N] = {
	[FS_EXT4] = "ext4",	    [FS_XFS] = "xfs",	  [FS_EROFS] = "erofs",
	[FS_SQUASHFS] = "squashfs", [FS_TMPFS] = "tmpfs", [FS_NFS4] = "nfs4",
};

const struct fs_type fs_types[FS_N] = {
	/* has_sysfs, always_read_only, fit_for_untrusted */
	[FS_EXT4] = {MH_CLASS_BLOCK, true, false, false},
	[FS_XFS] = {MH_CLASS_BLOCK, true, false, false},
	[FS_EROFS] = {MH_CLASS_BLOCK, true, true, true},
	[FS_SQUASHFS] = {MH_CLASS_BLOCK, false, true, true},
	[FS_TMPFS] = {MH_CLASS_TMPFS, false, false, false},
	[FS_NFS4] = {MH_CLASS_NFS4, false, false, false},
};

enum {
	EXT4 = 1 << FS_EXT4,
	XFS = 1 << FS_XFS,
	TMPFS = 1 << FS_TMPFS,
	NFS4 = 1 << FS_NFS4,
	EVERY = (1 << FS_N) - 1,
};

const struct fs_option fs_options[FS_OPTION_N] = {
	{NULL, EVERY, FS_READ_ONLY, "ro", NULL, 0},
	/* the superblock of an image may ask for a panic of the whole node on its first error */
	{NULL, EXT4, FS_ALWAYS, "errors", "remount-ro", 0},
	/* a read-only mount would replay the journal; xfs writes to its log even when it is clean. Not even
	 * noload keeps ext4 from deleting orphans: against that only a read-only device helps */
	{NULL, EXT4, FS_READ_ONLY, "noload", NULL, 0},
	{NULL, XFS, FS_READ_ONLY, "norecovery", NULL, 0},
	{NULL, TMPFS, FS_ALWAYS, "mode", "1777", 0},
	/* a writer waits for its server, because a write that is given up is lost; a reader gets an error */
	{NULL, NFS4, FS_WRITABLE, "hard", NULL, 0},
	{NULL, NFS4, FS_READ_ONLY, "softerr", NULL, 0},
	{NULL, NFS4, FS_READ_ONLY, "timeo", "100", 0},
	{NULL, NFS4, FS_READ_ONLY, "retrans", "2", 0},
	/* a superblock, and its number, that no other mount has: the agent sees when it is gone */
	{NULL, NFS4, FS_ALWAYS, "nosharecache", NULL, 0},
	/* for the policy to choose */
	{"noatime", EXT4 | XFS | TMPFS, FS_ALWAYS, NULL, NULL, MOUNT_ATTR_NOATIME_},
	{"discard", EXT4 | XFS, FS_WRITABLE, "discard", NULL, 0},
	{"nodelalloc", EXT4, FS_WRITABLE, "nodelalloc", NULL, 0},
	{"data-journal", EXT4, FS_WRITABLE, "data", "journal", 0},
	{"nouuid", XFS, FS_ALWAYS, "nouuid", NULL, 0},
};
