/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Finds the owner of the NFS superblock that has a number now: the kernel gives the number of one that is
 * gone to the next one. Decides by the mounts that this process sees. */

#include "base/mountinfo.h"
#include "kernel/device.h"

struct nfs_owner {
	/* asked: of a volume that is no longer staged */
	uint32_t dev_major;
	uint32_t dev_minor;
	const char *stage_base;
	bool is_own; /* its superblock was staged with nosharecache: no other mount(2) shares it */
	/* found */
	bool is_other;		       /* another superblock has the number now */
	char point[DEVICE_POINT_SIZE]; /* else the first mount of the number; cut at the end; or empty */
};

/** A mount_visit_fn that takes one mount into account; always 0. Pure. */
int nfs_owner_look(const struct mount_entry *entry, void *owner);

/** One pass over the whole mount table. Nothing is found when it cannot be read. */
void nfs_owner_find(struct nfs_owner *owner);
