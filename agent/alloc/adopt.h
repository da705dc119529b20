/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Decides after a restart how an allocation continues, from its journal record and the kernel's mounts.
 * Pure. */

#include "alloc/record.h"
#include "base/error.h"
#include "helper/mount_snapshot.h"
#include "kernel/mount_table.h"

#include <stdbool.h>
#include <stdint.h>

enum adopt_action {
	ADOPT_NOTHING,	/* finished before */
	ADOPT_KEEP,	/* runs as journalled: nothing is claimed or mounted again */
	ADOPT_CONTINUE, /* claiming, mounting or stopping continues from the journalled step */
	ADOPT_REMOUNT,	/* mounts are missing: they are made again, under their claims */
	ADOPT_FAIL,	/* another one exists there, or something has worked without its mount */
	ADOPT_REBOOTED, /* its mounts ended with the last boot */
	ADOPT_ACTION_N,
};

/** @observed of this boot
 * @table  where a device that a csi plugin bound shows; NULL: it cannot be read, and the journal counts
 * @ret_why filled for ADOPT_FAIL and ADOPT_REMOUNT; may be NULL */
enum adopt_action adopt_decide(const struct alloc_record *record, const struct mount_snapshot *observed,
			       const struct mount_table *table, const char *boot_id, struct error *ret_why);

/** Returns whether volume @i of an ADOPT_REMOUNT is missing. */
bool adopt_is_missing(const struct alloc_record *record, uint32_t i, const struct mount_snapshot *observed);
