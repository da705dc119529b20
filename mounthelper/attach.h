#pragma once
/* Put a detached mount into one of the trees: the part that STAGE and PUBLISH share. */

#include "helper.h"
#include "outcome.h"
#include "trees.h"

struct attach {
	int mount_fd;	      /* the detached mount; closed by attach_mount() when it has to undo */
	int dir_fd;	      /* pinned parent of the target */
	const char *name;     /* of the target in it */
	struct place *target; /* as it was checked */
	int64_t want_flags;   /* ST_* the mount must show */
	int64_t deny_flags;   /* ST_* it must not show */
};

/** Attach, make private (a shared parent has just made it shared), and read back that exactly this mount
 * stands there with the flags wanted. On failure what was attached is unmounted again. Returns MH_OK with
 * state and device filled, or what failed. */
struct outcome attach_mount(struct helper *h, struct attach *attach);

/** Make the mount at @mount_fd private if the table says that it is not. Returns 0 or a negative errno. */
int attach_make_private(struct helper *h, int mount_fd, uint64_t mount_id, struct mount_facts *ret_facts);
