/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/allocs.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "claim/claims.h"
#include "model/alloc_health.h"
#include "node/lookup.h"
#include "node/session.h"
#include "state/change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool alloc_has_live_claims(const struct alloc_entry *entry)
{
	const struct claim_entry *claim;

	LIST_FOREACH (claim, &entry->claims, of_alloc)
		if (claim_is_live(&claim->claim))
			return true;
	return false;
}

void allocs_stage_stop(struct change *change, const struct alloc_entry *entry, const struct node_entry *node)
{
	char stopped[] = "stopped before it ran";
	struct alloc alloc = entry->alloc;

	if (alloc.desired_status == DESIRED_STOP)
		return;
	alloc.desired_status = DESIRED_STOP;
	alloc.modify_time_ms = clock_realtime_ms();
	/* without a claim it cannot have mounted anything, and from here on it gets no claim; but a node that
	 * must report may run it with one that the store has forgotten */
	if (!node_is_connected(node) && !node->is_unreported && !alloc_has_live_claims(entry) &&
	    alloc.client_status == CLIENT_PENDING) {
		alloc.client_status = CLIENT_COMPLETE;
		alloc.client_description = stopped;
		alloc_note_times(&alloc, &entry->alloc, alloc.modify_time_ms);
	}
	change_put_alloc(change, &alloc);
}

/* Has a person submitted it for a node that was away? It has begun nothing. */
static bool waits_for_node(const struct alloc *alloc)
{
	return alloc->client_status == CLIENT_PENDING && alloc->job_id[0] == '\0' &&
	       alloc->desired_status != DESIRED_STOP;
}

static enum status lose_alloc(struct server *server, struct alloc_entry *entry, const char *reason,
			      struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	TRY(claims_lose_alloc(&change, entry, reason, err));
	return change_commit(server, &change, NULL, NULL, err);
}

enum status allocs_node_gone(struct server *server, struct node_entry *node, bool for_good,
			     const char *reason, struct error *err)
{
	struct alloc_entry *next;

	for (struct alloc_entry *entry = LIST_FIRST(&node->allocs); entry; entry = next) {
		next = LIST_NEXT(entry, of_node); /* one that is lost leaves the list */
		/* one with a claim may still write: its end needs evidence */
		if (!alloc_has_live_claims(entry) && (for_good || !waits_for_node(&entry->alloc)))
			TRY(lose_alloc(server, entry, reason, err));
	}
	return STATUS_OK;
}

enum status allocs_node_rebooted(struct server *server, struct node_entry *node, struct error *err)
{
	struct alloc_entry *next;

	for (struct alloc_entry *entry = LIST_FIRST(&node->allocs); entry; entry = next) {
		next = LIST_NEXT(entry, of_node); /* one that is lost leaves the list */
		/* one that never got a claim has nothing to lose: it runs in the new boot, if it was
		 * submitted */
		if (entry->alloc.client_status != CLIENT_PENDING || alloc_has_live_claims(entry) ||
		    entry->alloc.adopted)
			TRY(lose_alloc(server, entry, "the node was rebooted", err));
	}
	return STATUS_OK;
}

int64_t allocs_disconnected_ms(const struct server *server, const struct alloc_entry *entry)
{
	return entry->alloc.node_id[0] != '\0' ? nodes_disconnected_ms(server, entry->node) : 0;
}

void allocs_send(const struct alloc_entry *entry)
{
	if (!node_is_connected(entry->node) || alloc_is_client_terminal(&entry->alloc))
		return;
	if (entry->alloc.desired_status == DESIRED_RUN)
		session_run_alloc(entry->node->session, &entry->alloc);
	else
		session_stop_alloc(entry->node->session, entry->alloc.id);
}

static void on_durable(struct server *server, void *userdata)
{
	cleanup_free char *id = userdata;
	const struct alloc_entry *entry = state_alloc(&server->state, id);

	if (entry)
		allocs_send(entry);
}

enum status allocs_commit(struct server *server, struct change *change, const struct alloc *alloc,
			  struct error *err)
{
	return change_commit_taking(server, change, on_durable, strdup(alloc->id), err);
}

const char *alloc_object(const struct alloc *alloc, char ret[static ALLOC_OBJECT_SIZE])
{
	(void)str_format(ret, ALLOC_OBJECT_SIZE, "allocation %s/%s", alloc->namespace, alloc->id);
	return ret;
}
