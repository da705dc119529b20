/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* How much of the server's memory each namespace takes, so that no tenant takes all of it: volumes and
 * snapshots with their records, claims, allocations, jobs with their versions. Kept by state.c and records.c.
 */

#include "base/error.h"
#include "base/tree.h"
#include "model/volume.h"

#include <stdbool.h>
#include <stddef.h>

struct namespace_entry {
	const char *name; /* of the array below: the tree's key */
	char namespace[NAMESPACE_MAX + 1];
	RB_ENTRY(namespace_entry) by_name;
	size_t bytes;
	size_t ended_bytes; /* of these, allocations that ended */
};
RB_HEAD(namespace_tree, namespace_entry);

struct namespaces {
	struct namespace_tree by_name;
	const uint64_t *max; /* borrowed; bytes of one namespace */
};

/** NULL: it stores nothing. */
struct namespace_entry *namespaces_find(struct namespaces *namespaces, const char *name);

/** Adds @bytes, and @ended of these; -n takes n away. False when memory is short, as it never is if the
 * namespace has some. */
bool namespaces_charge(struct namespaces *namespaces, const char *name, size_t bytes, size_t ended);

/** May the namespace store more? The last part is for changes of what exists and for members of jobs, and not
 * for what @is_new. STATUS_RESOURCE_EXHAUSTED. */
enum status namespaces_check_room(struct namespaces *namespaces, const char *name, bool is_new,
				  struct error *err);

/** The one that takes most, or NULL while nothing is stored. @ret_percent: its share of the limit. Walks them
 * all. */
const struct namespace_entry *namespaces_fullest(struct namespaces *namespaces, uint64_t *ret_percent);

/** Returns how many bytes its allocations that ended take beyond their share. */
size_t namespaces_ended_surplus(struct namespaces *namespaces, const char *name);
