/* SPDX-License-Identifier: Apache-2.0 */
/* The index of the allocations that wait for a volume or start with it. */
#include "state/wish_index.h"

#include "base/str.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const struct volume_request *wish_request(const struct volume_wish *wish)
{
	return &wish->alloc->volumes[wish->number];
}

const char *wish_node_of(const struct alloc *alloc)
{
	return alloc->node_id[0] != '\0' ? alloc->node_id : alloc_wait_node(alloc);
}

bool wish_came_by_queue(const struct alloc *alloc)
{
	return alloc->job_id[0] != '\0' || alloc->place_time_ms > 0;
}

/* 0: it waits. */
static uint32_t kind_of(const struct volume_wish *wish)
{
	const struct volume_request *request = wish_request(wish);
	const struct alloc *alloc = wish->alloc;

	if (!wish->is_starting)
		return 0;
	return 1U | (uint32_t)alloc->keeps_place << 1 | (uint32_t)(alloc->node_id[0] != '\0') << 2 |
	       (uint32_t)wish_came_by_queue(alloc) << 3 | (uint32_t)volume_request_mode(request) << 8 |
	       (uint32_t)request->access_mode << 16 | (uint32_t)request->attachment_mode << 24;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_to(const struct volume_wish *wish, const char *namespace, const char *volume_id)
{
	int c = strcmp(wish->alloc->namespace, namespace);

	return c != 0 ? c : strcmp(wish_request(wish)->source, volume_id);
}

static int compare_volumes(const struct volume_wish *a, const struct volume_wish *b)
{
	return compare_to(a, b->alloc->namespace, wish_request(b)->source);
}

static int compare_kinds(const struct volume_wish *a, const struct volume_wish *b)
{
	int c = compare_volumes(a, b);

	return c != 0 ? c : compare_numbers(kind_of(a), kind_of(b));
}

static int compare_nodes(const struct volume_wish *a, const struct volume_wish *b)
{
	int c = compare_kinds(a, b);

	return c != 0 ? c : strcmp(wish_node_of(a->alloc), wish_node_of(b->alloc));
}

/* Every part of the order stays as it is while the wish is listed. */
static int compare_wishes(const struct volume_wish *a, const struct volume_wish *b)
{
	int c = compare_nodes(a, b);

	if (c == 0)
		c = compare_numbers(a->alloc->queue_index, b->alloc->queue_index);
	if (c == 0)
		c = strcmp(a->alloc->id, b->alloc->id);
	return c != 0 ? c : compare_numbers(a->number, b->number);
}

TREE_GENERATE(wish_tree, volume_wish, by_volume, compare_wishes)

struct volume_wish *wish_first(struct wish_tree *tree, const char *namespace, const char *id)
{
	struct volume_wish *found = TREE_FIRST(tree, by_volume, at, compare_to(at, namespace, id) >= 0);

	return found && compare_to(found, namespace, id) == 0 ? found : NULL;
}

struct volume_wish *wish_next(struct volume_wish *wish)
{
	struct volume_wish *next = RB_NEXT(wish_tree, NULL, wish);

	return next && compare_volumes(wish, next) == 0 ? next : NULL;
}

/* Returns the first one of the volume whose kind, or node, is behind that of @wish. */
static struct volume_wish *next_behind(struct wish_tree *tree, const struct volume_wish *wish,
				       bool is_by_node)
{
	struct volume_wish *found = TREE_FIRST(
		tree, by_volume, at, (is_by_node ? compare_nodes(at, wish) : compare_kinds(at, wish)) > 0);

	return found && compare_volumes(wish, found) == 0 ? found : NULL;
}

struct volume_wish *wish_next_kind(struct wish_tree *tree, const struct volume_wish *wish)
{
	return next_behind(tree, wish, false);
}

struct volume_wish *wish_next_node(struct wish_tree *tree, const struct volume_wish *wish)
{
	return next_behind(tree, wish, true);
}

/* Has it a node, and volumes that it has not claimed yet or keeps a place for? */
static bool may_start(const struct alloc *alloc)
{
	return alloc->keeps_place || (alloc->node_id[0] != '\0' && alloc->desired_status == DESIRED_RUN &&
				      alloc->client_status == CLIENT_PENDING && !alloc->adopted);
}

static bool is_wishing(const struct alloc *alloc)
{
	return alloc->n_volumes > 0 && (may_start(alloc) || alloc_is_pending(alloc));
}

bool wish_prepare(struct alloc_wishes *wishes, const struct alloc *alloc)
{
	assert(!wishes->are_listed || wishes->list->alloc->n_volumes == alloc->n_volumes); /* never changes */
	if (!wishes->list && is_wishing(alloc))
		wishes->list = calloc(alloc->n_volumes, sizeof(*wishes->list));
	return wishes->list || !is_wishing(alloc);
}

void wish_list(struct wish_tree *tree, struct alloc_wishes *wishes, const struct alloc *alloc,
	       struct alloc_entry *entry)
{
	wishes->are_listed = is_wishing(alloc);
	wishes->is_starting = wishes->are_listed && may_start(alloc);
	if (!wishes->are_listed) {
		free(wishes->list);
		wishes->list = NULL;
	}
	for (uint32_t i = 0; wishes->are_listed && i < alloc->n_volumes; i++) {
		wishes->list[i] = (struct volume_wish){
			.entry = entry, .alloc = alloc, .number = i, .is_starting = wishes->is_starting};
		RB_INSERT(wish_tree, tree, &wishes->list[i]);
	}
}

void wish_unlist(struct wish_tree *tree, struct alloc_wishes *wishes)
{
	uint32_t n = wishes->are_listed ? wishes->list->alloc->n_volumes : 0;

	for (uint32_t i = 0; i < n; i++)
		RB_REMOVE(wish_tree, tree, &wishes->list[i]);
	wishes->are_listed = wishes->is_starting = false;
}
