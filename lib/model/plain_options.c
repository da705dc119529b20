/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plain_options.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <string.h>

/* mount(8) runs a program for some other types: mount.fuse runs what the type names. The contents of f2fs
 * name further devices by path, those of btrfs by an id, and a tenant can write them. */
static const char *const types[] = {"",	     "ext2", "ext3", "ext4", "xfs",  "vfat", "exfat",
				    "ntfs3", "nfs",  "nfs4", "cifs", "smb3", "ceph"};

/* No name is that of a path, a server, a device, a part of the storage or an identity at it, gives more
 * rights than a mount without it has, lets a mount come later than its call (bg), or stops the machine
 * (errors=panic). The names of xfs(5), ext4(5), btrfs(5), nfs(5), mount.cifs(8) and mount(8). */
static const char names[] =
	"ac acdirmax acdirmin acl acregmax acregmin actimeo allocsize async attr2 autodefrag "
	"barrier cache codepage commit compress compress-force cto data delalloc dir_mode "
	"dirsync discard dmask echo_interval file_mode fmask gid gquota grpquota hard "
	"inode32 inode64 iocharset iversion largeio lazytime local_lock lock logbsize logbufs "
	"lookupcache max_inline mfsymlinks minorversion nconnect nfsvers noac noacl noatime "
	"noattr2 noauto_da_alloc nobarrier nobrl nocto nodelalloc nodev nodiratime nodiscard "
	"noexec noiversion nolargeio nolazytime nolock noquota nordirplus noresvport noserverino "
	"nosharecache nosharesock nosuid nouser_xattr nouuid pquota prjquota proto quota rdirplus "
	"relatime resvport retrans ro rsize serverino sharecache soft softerr ssd "
	"strictatime stripe sunit swidth sync tcp timeo udp uid umask uquota user_xattr usrquota "
	"utf8 vers wsize";

bool fs_type_is_plain(const char *fs_type)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (str_eq(types[i], fs_type))
			return true;
	return false;
}

static bool is_name(const char *text, size_t n)
{
	const char *at = names;
	size_t len;

	for (; *at != '\0'; at += len + strspn(at + len, " ")) {
		len = strcspn(at, " ");
		if (len == n && memcmp(at, text, n) == 0)
			return true;
	}
	return false;
}

bool mount_flag_is_plain(const char *flag)
{
	while (true) {
		size_t n = strcspn(flag, ","), n_name = strcspn(flag, "=,");

		/* such a value is no path, and no blank or quote ends it for another program */
		if (!is_name(flag, n_name) ||
		    strspn(flag + n_name,
			   "=.:_-0123456789"
			   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") < n - n_name)
			return false;
		if (flag[n] == '\0')
			return true;
		flag += n + 1;
	}
}

bool mount_options_are_plain(const Holdfast__V1__MountOptions *options)
{
	for (size_t i = 0; options && i < options->n_mount_flags; i++)
		if (!mount_flag_is_plain(options->mount_flags[i]))
			return false;
	return !options || fs_type_is_plain(options->fs_type);
}
