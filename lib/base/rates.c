/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rates.h"

#include "base/rate.h"
#include "base/tree.h"

#include <bsd/sys/queue.h>
#include <stdlib.h>
#include <string.h>

struct payer {
	RB_ENTRY(payer) by_name;
	TAILQ_ENTRY(payer) by_use;
	struct rate rate;
	char name[];
};
RB_HEAD(payer_tree, payer);
TAILQ_HEAD(payer_list, payer);

struct rates {
	struct payer_tree by_name;
	struct payer_list by_use; /* the one that asked last comes last */
};

static int compare(const struct payer *a, const struct payer *b)
{
	return strcmp(a->name, b->name);
}

TREE_GENERATE(payer_tree, payer, by_name, compare)

struct rates *rates_new(void)
{
	struct rates *rates = calloc(1, sizeof(*rates));

	if (rates)
		TAILQ_INIT(&rates->by_use);
	return rates;
}

static void drop(struct rates *rates, struct payer *payer)
{
	RB_REMOVE(payer_tree, &rates->by_name, payer);
	TAILQ_REMOVE(&rates->by_use, payer, by_use);
	free(payer);
}

void rates_free(struct rates *rates)
{
	while (rates && !TAILQ_EMPTY(&rates->by_use))
		drop(rates, TAILQ_FIRST(&rates->by_use));
	free(rates);
}

/* Drop those that owe nothing, of the ones that asked first. */
static void drop_settled(struct rates *rates, uint64_t now_us)
{
	struct payer *first;

	while ((first = TAILQ_FIRST(&rates->by_use)) && first->rate.paid_us <= now_us)
		drop(rates, first);
}

bool rates_take(struct rates *rates, const char *name, uint64_t cost_us, uint32_t burst, uint64_t now_us)
{
	size_t size = strlen(name) + 1;
	struct payer *payer, *known;

	drop_settled(rates, now_us);
	payer = calloc(1, sizeof(*payer) + size);
	if (!payer)
		return false;
	memcpy(payer->name, name, size);
	payer->rate = (struct rate){.cost_us = cost_us, .most_us = cost_us * burst};
	known = RB_INSERT(payer_tree, &rates->by_name, payer);
	if (known) {
		free(payer);
		payer = known;
		TAILQ_REMOVE(&rates->by_use, payer, by_use);
	}
	TAILQ_INSERT_TAIL(&rates->by_use, payer, by_use);
	return rate_take(&payer->rate, now_us);
}

void rates_add(struct rates *rates, const char *name, uint64_t cost_us)
{
	struct payer *payer;

	TAILQ_FOREACH_REVERSE(payer, &rates->by_use, payer_list, by_use)
	if (strcmp(payer->name, name) == 0) {
		payer->rate.paid_us += cost_us;
		return;
	}
}
