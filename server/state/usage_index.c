/* SPDX-License-Identifier: Apache-2.0 */
#include "state/usage_index.h"

#include <stdlib.h>

static int compare_usages(const struct claim_usage *a, const struct claim_usage *b)
{
	if (a->permille != b->permille)
		return a->permille > b->permille ? -1 : 1;
	return a->serial < b->serial ? -1 : a->serial > b->serial;
}

TREE_GENERATE(usage_tree, claim_usage, by_fullness, compare_usages)

bool usage_is_fuller(const struct claim_usage *a, const struct claim_usage *b)
{
	return compare_usages(a, b) < 0;
}

const struct claim_usage *usages_first(const struct usages *usages)
{
	struct usage_tree root = usages->by_fullness; /* a look-up changes nothing */

	return RB_MIN(usage_tree, &root);
}

const struct claim_usage *usages_next(const struct claim_usage *usage)
{
	return RB_NEXT(usage_tree, NULL, (struct claim_usage *)(uintptr_t)usage);
}

static void count(struct usages *usages, const struct claim_usage *usage, size_t n)
{
	usages->n_full += usage->is_full ? n : 0;
	usages->n_read_only += usage->usage.read_only ? n : 0;
	usages->n_abnormal += usage->condition[0] != '\0' ? n : 0;
	usages->n_unknown += usage->usage.unknown_since_ms != 0 ? n : 0;
}

void usages_insert(struct usages *usages, struct claim_usage *usage)
{
	RB_INSERT(usage_tree, &usages->by_fullness, usage);
	count(usages, usage, 1);
}

void usages_remove(struct usages *usages, struct claim_usage *usage)
{
	RB_REMOVE(usage_tree, &usages->by_fullness, usage);
	count(usages, usage, (size_t)-1);
}

void usages_drop(struct usages *usages, struct claim_usage **usage)
{
	if (*usage)
		usages_remove(usages, *usage);
	free(*usage);
	*usage = NULL;
}
