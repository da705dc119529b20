/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/peer_count.h"

#include <stdlib.h>
#include <string.h>

struct peer_count {
	const char *name; /* the text below: the tree's key */
	size_t n;
	size_t n_bytes;
	struct peer_conns idle;
	RB_ENTRY(peer_count) by_name;
	char text[];
};

static int compare(const struct peer_count *a, const struct peer_count *b)
{
	return strcmp(a->name, b->name);
}

TREE_GENERATE(peer_count_tree, peer_count, by_name, compare)

static struct peer_count *count_new(struct peer_count_tree *tree, const char *name)
{
	size_t size = strlen(name) + 1;
	struct peer_count *count = calloc(1, sizeof(*count) + size);

	if (!count)
		return NULL;
	memcpy(count->text, name, size);
	count->name = count->text;
	TAILQ_INIT(&count->idle);
	RB_INSERT(peer_count_tree, tree, count);
	return count;
}

struct peer_count *peer_count_find(struct peer_count_tree *tree, const char *name)
{
	struct peer_count key = {.name = name};

	return RB_FIND(peer_count_tree, tree, &key);
}

struct peer_count *peer_count_enter(struct peer_count_tree *tree, const char *name, size_t max,
				    bool *ret_full)
{
	struct peer_count *count = peer_count_find(tree, name);

	*ret_full = (count ? count->n : 0) >= max;
	if (*ret_full)
		return NULL;
	if (!count)
		count = count_new(tree, name);
	if (count)
		count->n++;
	return count;
}

struct peer_conns *peer_count_idle(struct peer_count *count)
{
	return &count->idle;
}

size_t peer_count_number(const struct peer_count *count)
{
	return count->n;
}

size_t *peer_count_bytes(struct peer_count *count)
{
	return &count->n_bytes;
}

const char *peer_count_name(const struct peer_count *count)
{
	return count->name;
}

void peer_count_leave(struct peer_count_tree *tree, struct peer_count *count)
{
	if (!count || --count->n > 0)
		return;
	RB_REMOVE(peer_count_tree, tree, count);
	free(count);
}
