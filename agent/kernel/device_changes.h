/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Finds file systems of block devices that are younger than a moment, and their mounts, among the mounts made
 * since. The cost does not depend on the number of other mounts.
 *
 * A moment records the youngest mount and the file systems that the kernel listed. Every mount of a file
 * system that was not among them was made after the moment, because mount ids only grow and are given when a
 * mount is made. A later attach or move changes no id. Source: listmount(2), statmount(2) (Linux 6.8); before
 * that nothing is known. */

#include "base/tree.h"
#include "kernel/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DEVICE_CHANGES_DEVICES_MAX = 4096, /* with a file system; with more of them nothing is known */
	DEVICE_CHANGES_MOUNTS_MAX = 65536, /* made since a moment; with more of them nothing is known */
	DEVICE_CHANGES_RECALLED = 1024,	   /* mounts whose device is not asked for again */
};

struct device_seen {
	RB_ENTRY(device_seen) entry;
	char name[DEVICE_NAME_SIZE];
	uint64_t since; /* the first of all looks up to the last one that have found it */
	uint64_t look;	/* the last one that has */
};

RB_HEAD(device_seen_tree, device_seen);

struct device_changes {
	struct device_seen_tree seen;
	size_t n_seen;
	uint64_t look;	   /* number of the last one */
	uint64_t whole;	   /* the first of all looks up to the last one that found everything */
	uint64_t mount_id; /* the youngest mount so far */
	struct device_recalled {
		uint64_t mount_id; /* never given again, and of one device as long as the mount exists */
		uint32_t dev_major;
		uint32_t dev_minor;
	} recalled[DEVICE_CHANGES_RECALLED];
};

/* All zero: no moment. */
struct device_moment {
	uint64_t look;
	uint64_t mount_id;
};

void device_changes_init(struct device_changes *changes);
void device_changes_release(struct device_changes *changes);

/** Returns the current moment; or no moment, whose changes are unknown. */
struct device_moment device_changes_now(struct device_changes *changes);

/** As device_find_mounts(), of a device whose file system is younger than the moment.
 * @ret untouched on failure
 * Returns whether that is so, and known. */
bool device_changes_find_mounts(struct device_changes *changes, const struct device_moment *moment,
				uint32_t dev_major, uint32_t dev_minor, const char *const within[static 2],
				struct device_mounts *ret);
