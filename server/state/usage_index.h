/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Reports of nodes about the usage of their volumes, ordered by fullness and counted. Memory only: one value
 * for a claim, dropped with it. */

#include "base/tree.h"
#include "model/usage.h"

#include <stddef.h>

struct claim_entry;

/* The value of one claim. */
struct claim_usage {
	RB_ENTRY(claim_usage) by_fullness;
	const struct claim_entry *claim;
	uint64_t serial; /* orders equally full ones */
	uint64_t report; /* that it was in last, by their number */
	uint32_t permille;
	bool is_full; /* at its volume's level, or not far enough below it yet */
	char condition[USAGE_CONDITION_MAX + 1];
	Holdfast__V1__VolumeUsage usage; /* its texts are borrowed */
};
RB_HEAD(usage_tree, claim_usage);

struct usages {
	struct usage_tree by_fullness; /* the fullest first */
	uint64_t serial;
	uint64_t reports; /* taken so far */
	size_t n_full, n_read_only, n_abnormal, n_unknown;
};

/** Insert or remove; it is changed in between only. */
void usages_insert(struct usages *usages, struct claim_usage *usage);
void usages_remove(struct usages *usages, struct claim_usage *usage);

/** Remove and free; NULL is allowed. */
void usages_drop(struct usages *usages, struct claim_usage **usage);

/** Is @a fuller than @b? */
bool usage_is_fuller(const struct claim_usage *a, const struct claim_usage *b);

/** The fullest value, and the next one; NULL: the end. */
const struct claim_usage *usages_first(const struct usages *usages);
const struct claim_usage *usages_next(const struct claim_usage *usage);
