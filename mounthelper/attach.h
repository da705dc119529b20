/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Put a detached mount into one of the trees, with the propagation it shall have: the part that STAGE and
 * PUBLISH share. Source: mount_namespaces(7), shared subtrees. */

#include "outcome.h"
#include "trees.h"

/* Stage mounts are inert, even if a publish allows more: only the helper may reach them. */
enum {
	STAGE_FLOOR = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC |
		      SYS_MOUNT_ATTR_NOSYMFOLLOW,
};

/* The propagation a mount shall have: private, nothing crosses; host-to-task, a slave of the peer group
 * @group, where new mounts come from; bidirectional, of the peer group @group, of any when that is 0, which
 * may be a slave of others. */

/** MS_* for mount_setattr(2). Set on a clone while it is detached: it begins as a peer of what it was cloned
 * from. */
uint64_t propagation_flag(enum ticket_propagation propagation);

struct attach {
	int mount_fd;		 /* the detached mount; closed by attach_mount() when it has to undo */
	const struct tree *tree; /* the one it goes to */
	int dir_fd;		 /* pinned parent of the target, in the tree */
	const char *name;	 /* of the target in it, an empty directory of ours */
	uint64_t attributes;	 /* MOUNT_ATTR_* the mount has, see mount_shows() */
	enum ticket_propagation propagation;
	uint64_t group; /* see there; for a private one the one it must not be of */
};

/** Look at the target, attach there, set the propagation again (a shared parent has just made the mount
 * shared), and read back that exactly this mount exists there with the flags and the propagation wanted. On
 * failure the mount is unmounted again. Returns MH_OK with state and device filled, or the failure. */
struct outcome attach_mount(struct helper *h, struct attach *attach);

/** Give the existing mount at @place the propagation wanted, if an instance was killed between attaching and
 * setting it: then the mount has a peer group of its own, which a shared parent gives. Any other propagation
 * was set on purpose and is MH_CONFLICT. Returns MH_OK with the state's bits of the propagation, MH_KERNEL,
 * or MH_INTERNAL if the kernel does not show it afterwards. */
struct outcome attach_repair(struct helper *h, const struct place *place, enum ticket_propagation propagation,
			     uint64_t group);
