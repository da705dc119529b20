/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The allocations that wait for a volume or start with it, by the volume's namespace and id, whether it
 * exists or not. First those that wait. Then those that start, by kind: allocations of one kind are in the
 * way of the same requests, except for their nodes, so a search skips all others of a kind. Within a kind
 * they are in the order of their nodes. An allocation that names a volume twice comes twice. */

#include "base/tree.h"
#include "model/alloc.h"

#include <stdbool.h>
#include <stdint.h>

struct alloc_entry;

/* A volume that an allocation waits for or starts with. */
struct volume_wish {
	struct alloc_entry *entry;
	const struct alloc *alloc; /* its value */
	uint32_t number;	   /* of the volume, in the allocation */
	bool is_starting;
	uint64_t seen; /* of alloc/pending.c: the search that has found all that wait for the volume */
	RB_ENTRY(volume_wish) by_volume;
};
RB_HEAD(wish_tree, volume_wish);

/* Those of one allocation. */
struct alloc_wishes {
	struct volume_wish *list; /* owned; one for each volume, in its order; NULL: no room for any */
	bool are_listed;	  /* it waits for its volumes, or is_starting */
	bool is_starting;	  /* it may still claim its volumes, or keeps a place */
};

/** Makes room for the volumes of @alloc, the next value, if it waits or starts. False when memory is short.
 */
bool wish_prepare(struct alloc_wishes *wishes, const struct alloc *alloc);

/** Lists the volumes of @alloc, the value of @entry, if it waits or starts; after wish_prepare(). The value
 * stays as it is until wish_unlist(), except for what the order does not use. */
void wish_list(struct wish_tree *tree, struct alloc_wishes *wishes, const struct alloc *alloc,
	       struct alloc_entry *entry);
void wish_unlist(struct wish_tree *tree, struct alloc_wishes *wishes);

/** Returns the first one of that volume, and the next one; NULL at the end. */
struct volume_wish *wish_first(struct wish_tree *tree, const char *namespace, const char *id);
struct volume_wish *wish_next(struct volume_wish *wish);

/** Returns the first one of the next kind, or of the next node or kind. Costs the logarithm of the number of
 * all. */
struct volume_wish *wish_next_kind(struct wish_tree *tree, const struct volume_wish *wish);
struct volume_wish *wish_next_node(struct wish_tree *tree, const struct volume_wish *wish);

/** Returns the volume as the allocation asks for it. */
const struct volume_request *wish_request(const struct volume_wish *wish);

/** Returns the node that the allocation has, or waits for; "": any. */
const char *wish_node_of(const struct alloc *alloc);

/** Is it of a job, or has it waited? */
bool wish_came_by_queue(const struct alloc *alloc);
