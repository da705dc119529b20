/* SPDX-License-Identifier: Apache-2.0 */
/* Counts and limits the memory of each namespace. */
#include "state/namespaces.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum { MIB_SHIFT = 20, KEPT_SHARE = 8, ENDED_SHARE = 8 }; /* shares: an eighth of the whole */

static int compare(const struct namespace_entry *a, const struct namespace_entry *b)
{
	return strcmp(a->name, b->name);
}

TREE_GENERATE(namespace_tree, namespace_entry, by_name, compare)

struct namespace_entry *namespaces_find(struct namespaces *namespaces, const char *name)
{
	struct namespace_entry wanted;

	wanted.name = name;
	return RB_FIND(namespace_tree, &namespaces->by_name, &wanted);
}

bool namespaces_charge(struct namespaces *namespaces, const char *name, size_t bytes, size_t ended)
{
	struct namespace_entry *entry = namespaces_find(namespaces, name);

	if (!entry) {
		entry = calloc(1, sizeof(*entry));
		if (!entry)
			return false;
		(void)str_copy(entry->namespace, sizeof(entry->namespace), name);
		entry->name = entry->namespace;
		RB_INSERT(namespace_tree, &namespaces->by_name, entry);
	}
	entry->bytes += bytes;
	entry->ended_bytes += ended;
	if (entry->bytes == 0) {
		RB_REMOVE(namespace_tree, &namespaces->by_name, entry);
		free(entry);
	}
	return true;
}

enum status namespaces_check_room(struct namespaces *namespaces, const char *name, bool is_new,
				  struct error *err)
{
	const struct namespace_entry *entry = namespaces_find(namespaces, name);
	uint64_t max = is_new ? *namespaces->max - *namespaces->max / KEPT_SHARE : *namespaces->max;

	if (!entry || entry->bytes < max)
		return STATUS_OK;
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
			 "namespace %s has no room for %s: its jobs, allocations, volumes and snapshots take "
			 "%zu MiB of the server's memory, and the limit is %zu MiB; remove some, for example "
			 "with holdfast job stop --purge, or raise namespace_memory in "
			 "holdfast-server.hcl(5)",
			 name, is_new ? "new ones" : "a change", entry->bytes >> MIB_SHIFT,
			 (size_t)max >> MIB_SHIFT);
}

const struct namespace_entry *namespaces_fullest(struct namespaces *namespaces, uint64_t *ret_percent)
{
	const struct namespace_entry *fullest = NULL;
	struct namespace_entry *entry;

	RB_FOREACH (entry, namespace_tree, &namespaces->by_name)
		if (!fullest || entry->bytes > fullest->bytes)
			fullest = entry;
	*ret_percent = fullest ? (uint64_t)fullest->bytes * 100 / *namespaces->max : 0;
	return fullest;
}

size_t namespaces_ended_surplus(struct namespaces *namespaces, const char *name)
{
	const struct namespace_entry *entry = namespaces_find(namespaces, name);
	uint64_t share = *namespaces->max / ENDED_SHARE;

	return entry && entry->ended_bytes > share ? entry->ended_bytes - share : 0;
}
