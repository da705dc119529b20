/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A claim is on the storage, not on the name: every decision about claims walks those of all volumes of one
 * storage, which storage_first() of state.h knows, and unmatched ones that name it. */

#include "model/storage.h"
#include "state/state.h"

/** The next volume other than @volume of the same storage. @at NULL: the first of them. */
struct volume_entry *storage_next_other(const struct volume_entry *volume, struct volume_entry *at);

/** Live claims on that storage, as storage_next_claim() finds them. */
size_t storage_n_live(const struct volume_entry *volume);

/** An unmatched claim is live, and on another storage than its volume has, or its volume is known only from a
 * report: only nodes' reports make them. Returns the one behind @at (NULL: the first one) that names the
 * storage of @volume, which is @id, by its id or the digest of a ticket. Without a context that is all that
 * its id names. */
struct claim_entry *storage_next_unmatched(struct state *state, const struct volume *volume,
					   const struct storage_id *id, const struct claim_entry *at);

/** The claim behind @at (NULL: the first one) of @volume, then of the others of its storage, then the
 * unmatched ones that name it. */
struct claim_entry *storage_next_claim(const struct volume_entry *volume, const struct claim_entry *at);

/** The same over all volumes that have one id at the provider, in any context: it attaches and detaches
 * them as one. */
struct claim_entry *storage_next_attached(const struct volume_entry *volume, const struct claim_entry *at);

/* A walk as one of these that ends early: it finds fewer claims, not others. */
struct storage_walk {
	const struct volume_entry *volume;
	bool is_attached;  /* as storage_next_attached() */
	bool is_by_others; /* without the claims of the name @volume */
	size_t n_left; /* of claims and names that may be skipped: others' parts, and names without claims */
};

struct claim_entry *storage_walk_next(struct storage_walk *walk, const struct claim_entry *at);

/** Does one detach from a node take both away? */
bool storage_is_attached_as(const struct volume_entry *a, const struct volume_entry *b);

#define STORAGE_FOREACH_CLAIM(entry, volume)                                \
	for ((entry) = storage_next_claim((volume), NULL); (entry) != NULL; \
	     (entry) = storage_next_claim((volume), (entry)))
