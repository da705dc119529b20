/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "base/str.h"
#include "claim/release.h"
#include "log/log.h"
#include "node/session.h"

#include <stdlib.h>
#include <string.h>

/* A crash could take a submission back that is still on its way to the disk: it is sent from there. */
static bool is_told(const struct alloc_entry *entry)
{
	return !alloc_is_client_terminal(&entry->alloc) && entry->alloc.create_index > 0;
}

static void tell_alloc(struct session *session, const char *id)
{
	const struct alloc_entry *entry = state_alloc(&session->server->state, id);

	if (!entry || !is_told(entry))
		return; /* it ended, or went, since the list was made */
	if (entry->alloc.desired_status == DESIRED_RUN)
		session_run_alloc(session, &entry->alloc);
	else
		session_stop_alloc(session, entry->alloc.id);
}

static void end_work(struct session *session)
{
	struct node_entry *node = state_node(&session->server->state, session->node_id);

	session->work_source = sd_event_source_disable_unref(session->work_source);
	free(session->work);
	session->work = NULL;
	if (node && node->session == session && !session->closing)
		release_node_back(session->server, node);
}

static bool tell_slice(struct session *session)
{
	for (int i = 0; i < SESSION_WORK_SLICE && session->next_work < session->n_work; i++)
		tell_alloc(session, session->work[session->next_work++]);
	return session->next_work < session->n_work && !session->closing;
}

static int on_turn(sd_event_source *source, void *userdata)
{
	struct session *session = userdata;

	(void)source;
	if (!tell_slice(session))
		end_work(session);
	return 0;
}

static bool list_work(struct session *session, struct node_entry *node)
{
	struct alloc_entry *entry;

	session->n_work = session->next_work = 0;
	session->work = calloc(node->n_live_allocs + 1, sizeof(*session->work));
	if (!session->work)
		return false;
	LIST_FOREACH (entry, &node->allocs, of_node)
		if (is_told(entry))
			memcpy(session->work[session->n_work++], entry->alloc.id, UUID_TEXT_SIZE);
	return true;
}

void session_tell_work(struct session *session, struct node_entry *node)
{
	struct error err;
	int r;

	if (!list_work(session, node)) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
		session_end(session, &err);
		return;
	}
	if (!tell_slice(session)) {
		end_work(session);
		return;
	}
	r = sd_event_add_defer(session->server->event, &session->work_source, on_turn, session);
	if (r >= 0)
		r = sd_event_source_set_enabled(session->work_source, SD_EVENT_ON);
	if (r < 0) {
		(void)error_set(&err, STATUS_INTERNAL, r, "tell node %s its work", session->node_id);
		session_end(session, &err);
	}
}
