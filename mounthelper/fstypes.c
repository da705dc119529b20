#include "fstypes.h"

#include "base/str.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>

enum { XFS_MAGIC = 0x58465342, MOUNT_ATTR_NOATIME_ = 0x10 };

/* errors=remount-ro: the superblock of an ext4 image may ask for a panic of the whole node on its first
 * error. noload, norecovery: a read-only mount would replay the journal, which writes to the medium. */
const struct fs_type fs_types[FS_N] = {
	[FS_EXT4] = {.name = "ext4",
		     .class = MH_CLASS_BLOCK,
		     .magic = EXT4_SUPER_MAGIC,
		     .has_sysfs = true,
		     .read_only_option = "noload",
		     .forced_key = "errors",
		     .forced_value = "remount-ro"},
	[FS_XFS] = {.name = "xfs",
		    .class = MH_CLASS_BLOCK,
		    .magic = XFS_MAGIC,
		    .has_sysfs = true,
		    .read_only_option = "norecovery"},
	[FS_EROFS] = {.name = "erofs",
		      .class = MH_CLASS_BLOCK,
		      .magic = EROFS_SUPER_MAGIC_V1,
		      .always_read_only = true,
		      .fit_for_untrusted = true,
		      .has_sysfs = true},
	[FS_SQUASHFS] = {.name = "squashfs",
			 .class = MH_CLASS_BLOCK,
			 .magic = SQUASHFS_MAGIC,
			 .always_read_only = true,
			 .fit_for_untrusted = true},
	[FS_TMPFS] = {.name = "tmpfs", .class = MH_CLASS_TMPFS, .magic = TMPFS_MAGIC},
	[FS_NFS4] = {.name = "nfs4", .class = MH_CLASS_NFS4, .magic = NFS_SUPER_MAGIC},
};

#define KIND(k) (UINT32_C(1) << (k))

const struct fs_option fs_options[FS_OPTION_N] = {
	{"noatime", KIND(FS_EXT4) | KIND(FS_XFS) | KIND(FS_TMPFS), NULL, NULL, MOUNT_ATTR_NOATIME_},
	{"discard", KIND(FS_EXT4) | KIND(FS_XFS), "discard", NULL, 0},
	{"nodelalloc", KIND(FS_EXT4), "nodelalloc", NULL, 0},
	{"data-journal", KIND(FS_EXT4), "data", "journal", 0},
	{"nouuid", KIND(FS_XFS), "nouuid", NULL, 0},
};

int fs_kind_find(const char *name)
{
	for (int i = 0; i < FS_N; i++)
		if (str_eq(fs_types[i].name, name))
			return i;
	return -EINVAL;
}

int fs_option_find(const char *word, size_t n)
{
	for (int i = 0; i < FS_OPTION_N; i++)
		if (strlen(fs_options[i].word) == n && memcmp(fs_options[i].word, word, n) == 0)
			return i;
	return -EINVAL;
}

int fs_kind_of_magic(uint64_t magic)
{
	for (int i = 0; i < FS_N; i++)
		if (fs_types[i].magic == magic)
			return i;
	return -EINVAL;
}
