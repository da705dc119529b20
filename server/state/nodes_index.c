/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "state/state_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int compare_nodes(const struct node_entry *a, const struct node_entry *b)
{
	return strcmp(a->id, b->id);
}

TREE_GENERATE(node_tree, node_entry, by_id, compare_nodes)

struct node_entry *state_node(struct state *state, const char *id)
{
	struct node_entry key;

	key.id = id;
	return RB_FIND(node_tree, &state->nodes, &key);
}

struct node_entry *state_node_from(struct state *state, const char *id)
{
	struct node_entry key;

	key.id = id;
	return RB_NFIND(node_tree, &state->nodes, &key);
}

struct node_entry *state_node_next(struct node_entry *entry)
{
	return RB_NEXT(node_tree, NULL, entry);
}

bool node_is_registered(const struct node_entry *node)
{
	return node->node.boot_id[0] != '\0';
}

bool node_is_connected(const struct node_entry *node)
{
	return node->session != NULL;
}

struct node_entry *node_or_new(struct state *state, const char *id)
{
	struct node_entry *entry = state_node(state, id);

	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	(void)str_copy(entry->node.id, sizeof(entry->node.id), id);
	entry->id = entry->node.id;
	LIST_INIT(&entry->allocs);
	LIST_INIT(&entry->claims);
	LIST_INIT(&entry->instances);
	RB_INSERT(node_tree, &state->nodes, entry);
	return entry;
}

void node_drop_unnamed(struct state *state, struct node_entry *entry)
{
	if (node_is_registered(entry) || !LIST_EMPTY(&entry->allocs) || !LIST_EMPTY(&entry->claims) ||
	    !LIST_EMPTY(&entry->instances))
		return;
	assert(!entry->session);
	RB_REMOVE(node_tree, &state->nodes, entry);
	free(entry);
}

static void count_node(struct state *state, const struct node *node, int change)
{
	if (node->ineligible)
		state->n_nodes_ineligible += (size_t)change;
	if (node->drain.started_ms != 0 && node->drain.done_ms == 0)
		state->n_nodes_draining += (size_t)change;
	if (node->status == NODE_DOWN)
		state->n_nodes_down += (size_t)change;
	if (node->other_ticket_keys[0] != '\0')
		state->n_nodes_other_key += (size_t)change;
	if (node_clock_is_off(node->clock_skew_ms))
		state->n_nodes_clock_off += (size_t)change;
}

void state_list_absent(struct state *state, struct node_entry *node)
{
	if (node->is_absent)
		return;
	node->is_absent = true;
	TAILQ_INSERT_TAIL(&state->absent, node, of_absent);
}

void state_unlist_absent(struct state *state, struct node_entry *node)
{
	if (!node->is_absent)
		return;
	node->is_absent = false;
	TAILQ_REMOVE(&state->absent, node, of_absent);
}

static void list_unreported(struct state *state, struct node_entry *entry, bool is_unreported)
{
	if (entry->is_unreported == is_unreported)
		return;
	entry->is_unreported = is_unreported;
	if (is_unreported) {
		LIST_INSERT_HEAD(&state->unreported, entry, of_unreported);
		state->n_unreported++;
	} else {
		LIST_REMOVE(entry, of_unreported);
		state->n_unreported--;
	}
}

enum status state_put_node(struct state *state, const struct node *node, struct error *err)
{
	struct node_entry *entry = node_or_new(state, node->id);

	if (!entry)
		return state_no_memory(err, "node");
	count_node(state, &entry->node, -1);
	state->n_nodes -= node_is_registered(entry);
	entry->node = *node;
	count_node(state, &entry->node, 1);
	state->n_nodes += node_is_registered(entry);
	list_unreported(state, entry,
			node_is_registered(entry) &&
				(node->report_wanted || node->reported_epoch < state_epoch(state)));
	return STATUS_OK;
}

void state_set_session(struct state *state, struct node_entry *node, struct session *session)
{
	struct instance_entry *instance;

	state->n_connected -= node->session != NULL;
	state->n_connected += session != NULL;
	node->session = session;
	if (session)
		state_unlist_absent(state, node);
	else if (node_is_registered(node))
		state_list_absent(state, node);
	LIST_FOREACH (instance, &node->instances, of_node)
		instance_changed(instance);
}

void state_delete_node(struct state *state, struct node_entry *entry)
{
	struct instance_entry *instance;

	while ((instance = LIST_FIRST(&entry->instances)))
		state_delete_instance(state, instance);
	count_node(state, &entry->node, -1);
	entry->node.status = NODE_STATUS_UNSPECIFIED;
	entry->node.ineligible = false;
	entry->node.drain = (struct drain){0};
	entry->node.clock_skew_ms = 0;
	entry->node.other_ticket_keys[0] = '\0';
	list_unreported(state, entry, false);
	state->n_nodes -= node_is_registered(entry);
	if (entry->session)
		state_set_session(state, entry, NULL);
	state_unlist_absent(state, entry);
	entry->node.boot_id[0] = '\0'; /* what is left is a name */
	node_drop_unnamed(state, entry);
}
