/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Lists the file systems of the kernel's NFS client in this process's network namespace, for mounts of all
 * mount namespaces: /proc/net/nfsfs/volumes. One is listed from before its first mount until after its last
 * write has reached the server: the kernel takes it from the list when its superblock is shut down. Source:
 * Linux 6.1 and 6.18, fs/nfs/client.c nfs_volume_list_show(), fs/nfs/super.c nfs_kill_super(). */

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	NFS_LIST_LINE_MAX = 256, /* without its newline; the kernel's are shorter than 128 */
	NFS_LIST_MAX = 1 << 20,	 /* bytes of the whole list: some 14 000 file systems */
	NFS_LIST_READS_MAX = 8,
};

/** Is device @dev_major:@dev_minor in the @n bytes of the list's @text? STATUS_INTERNAL when that is not what
 * the kernel writes, with everything before it looked at. Pure. */
enum status nfs_list_find(const char *text, size_t n, uint32_t dev_major, uint32_t dev_minor, bool *ret,
			  struct error *err);

/** The same of the kernel's list as it is now. Any error means that nothing is known: STATUS_NOT_FOUND there
 * is no list, STATUS_UNAVAILABLE it has changed during each of NFS_LIST_READS_MAX reads. */
enum status nfs_list_has(uint32_t dev_major, uint32_t dev_minor, bool *ret, struct error *err);
