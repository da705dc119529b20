/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/nfs_owner.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "STAGE_BASE/VOLUME": what the helper has staged, not what a plugin has mounted below its folders. */
static bool is_stage(const char *point, const char *stage_base)
{
	size_t n = strlen(stage_base);

	return n > 0 && strncmp(point, stage_base, n) == 0 && point[n] == '/' && point[n + 1] != '\0' &&
	       !strchr(point + n + 1, '/');
}

int nfs_owner_look(const struct mount_entry *entry, void *userdata)
{
	struct nfs_owner *owner = userdata;
	bool is_unshared;

	if (entry->dev_major != owner->dev_major || entry->dev_minor != owner->dev_minor)
		return 0;
	/* If mounted with this option, the kernel never looks for a superblock to share, and never shares
	 * this one. So another superblock has the number if another volume was staged with the option; and if
	 * ours had the option, and the mounted one has not. Source: Linux 6.1 and 6.18,
	 * nfs_get_tree_common(), nfs_compare_super(), nfs_show_mount_options(). */
	is_unshared = mount_option_is_set(entry->super_options, "nosharecache");
	if (is_unshared ? is_stage(entry->point, owner->stage_base) : owner->is_own)
		owner->is_other = true;
	if (owner->point[0] == '\0')
		(void)snprintf(owner->point, sizeof(owner->point), "%s", entry->point);
	return 0;
}

void nfs_owner_find(struct nfs_owner *owner)
{
	cleanup_close int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	cleanup_free struct mountinfo *mountinfo = fd < 0 ? NULL : malloc(sizeof(*mountinfo));
	struct nfs_owner seen = *owner;

	if (!mountinfo)
		return;
	mountinfo->fd = fd;
	if (mountinfo_each(mountinfo, nfs_owner_look, &seen) == 0)
		*owner = seen;
}
