/* SPDX-License-Identifier: Apache-2.0 */
#include "node/down.h"

#include "server.h"

#include "access/audit.h"
#include "alloc/allocs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "node/lookup.h"
#include "state/change.h"

#include <stdlib.h>

enum { TIMER_ACCURACY_US = 10000, RETRY_US = 10000000 };

/* Returns a monotonic time, so that a step of the clock changes nothing. */
static uint64_t due_us(const struct server *server, const struct node_entry *node)
{
	return node->gone_us + server->config.node_down_after_us;
}

static enum status go_down(struct server *server, struct node_entry *entry, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free struct node *node = malloc(sizeof(*node));
	char text[CLOCK_TEXT_SIZE];
	char object[sizeof("node ") + NODE_ID_MAX];

	if (!node)
		return error_no_memory(err, "a node");
	/* before the node, so that it is repeated after a crash */
	TRY(allocs_node_gone(server, entry, false, "its node is down", err));
	*node = entry->node;
	node->status = NODE_DOWN;
	node->disconnected_ms = nodes_disconnected_ms(server, entry);
	if (entry->node.disconnected_ms == 0) /* a former server may have heard it until then */
		node->last_seen_ms = node->disconnected_ms;
	change_put_node(&change, node);
	(void)str_format(object, sizeof(object), "node %s", entry->id);
	audit_silent(server, &change, NULL, "Nodes.Down", object, "not connected for too long");
	TRY(change_commit(server, &change, NULL, NULL, err));
	log_ctx(LOG_WARNING,
		&(struct log_ctx){.node = entry->id, .op = "session", .event = LOG_EVENT_NODE_DOWN},
		"node %s is down: not connected for %s; its %zu claims stay, and its allocations "
		"without a claim are lost. Bring it back, or see holdfast volume status ID --why",
		entry->id, clock_format_duration(clock_monotonic_us() - entry->gone_us, text), entry->n_live);
	return STATUS_OK;
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *server = userdata;
	struct node_entry *node;
	bool has_failed = false;
	struct error err;

	server->node_down_timer = sd_event_source_disable_unref(server->node_down_timer);
	for (int i = 0; i < NODE_DOWN_SLICE && (node = TAILQ_FIRST(&server->state.absent)); i++) {
		if (due_us(server, node) > clock_monotonic_us())
			break;
		has_failed = go_down(server, node, &err) != STATUS_OK;
		if (has_failed) /* the disk is full, or a restore is prepared */
			break;
		state_unlist_absent(&server->state, node);
	}
	node_down_rearm(server);
	if (!has_failed)
		return 0;
	log_ctx(LOG_WARNING, &(struct log_ctx){.node = node->id, .op = "session", .err = &err},
		"cannot store that the node is down; trying again");
	if (server->node_down_timer)
		(void)sd_event_source_set_time_relative(server->node_down_timer, RETRY_US);
	return 0;
}

void node_down_rearm(struct server *server)
{
	const struct node_entry *first = TAILQ_FIRST(&server->state.absent);
	uint64_t at_us = first ? due_us(server, first) : 0;

	server->node_down_timer = sd_event_source_disable_unref(server->node_down_timer);
	if (!first || server->is_ending)
		return;
	/* without memory for a timer, the next node that goes sees to it */
	(void)sd_event_add_time(server->event, &server->node_down_timer, CLOCK_MONOTONIC, at_us,
				TIMER_ACCURACY_US, on_time, server);
}

static int compare(const void *a, const void *b)
{
	const struct node_entry *const *x = a;
	const struct node_entry *const *y = b;
	int64_t first = (*x)->node.disconnected_ms, second = (*y)->node.disconnected_ms;

	return (first > second) - (first < second);
}

/* Counts the absence before this server began by the clock. A time to come counts as now. */
static void missed_before(const struct server *server, struct node_entry *node)
{
	int64_t before_ms = nodes_started_ms(server) - node->node.disconnected_ms;
	uint64_t before_us = before_ms > 0 ? (uint64_t)before_ms * USEC_PER_MSEC : 0;

	node->gone_us = before_us < node->gone_us ? node->gone_us - before_us : 1;
}

enum status node_down_start(struct server *server, struct error *err)
{
	cleanup_free struct node_entry **nodes =
		calloc(server->state.n_nodes + 1, sizeof(struct node_entry *));
	struct node_entry *node = nodes ? state_node_from(&server->state, "") : NULL;
	size_t n = 0;

	if (!nodes)
		return error_no_memory(err, "a node");
	for (; node; node = state_node_next(node))
		if (node_is_registered(node) && node->node.status != NODE_DOWN &&
		    node->node.disconnected_ms != 0)
			nodes[n++] = node;
	qsort(nodes, n, sizeof(struct node_entry *), compare);
	for (size_t i = 0; i < n; i++) {
		state_list_absent(&server->state, nodes[i]);
		missed_before(server, nodes[i]);
	}
	/* those that were connected when the server ended are missed since it began again */
	for (node = state_node_from(&server->state, ""); node; node = state_node_next(node))
		if (node_is_registered(node) && node->node.status != NODE_DOWN) {
			node->is_awaited = node->node.disconnected_ms == 0;
			state_list_absent(&server->state, node);
		}
	node_down_rearm(server);
	return STATUS_OK;
}
