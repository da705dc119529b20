/* SPDX-License-Identifier: Apache-2.0 */
#include "node/sessions.h"

#include "server.h"

#include "access/access.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "node/absent.h"
#include "node/session.h"
#include "plugin/controller.h"
#include "plugin/fingerprint.h"
#include "recovery/epoch.h"
#include "state/change.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <stdlib.h>

enum { TIMER_ACCURACY_US = 250000 };

static enum status take_fingerprint(struct session *session, const Holdfast__V1__Fingerprint *fingerprint,
				    struct error *err)
{
	const struct node_entry *entry = state_node(&session->server->state, session->node_id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free struct node *node = malloc(sizeof(*node));
	enum status st = fingerprint_stage(session->server, &change, session->node_id, fingerprint->plugins,
					   fingerprint->n_plugins, err);

	if (!node)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	*node = entry->node;
	fingerprint_take_keys(session->server, &fingerprint->ticket_keys, node);
	if (st == STATUS_OK && !str_eq(node->other_ticket_keys, entry->node.other_ticket_keys))
		change_put_node(&change, node);
	return st == STATUS_OK ? session_commit(session, &change, SESSION_NOTHING, "", err) : st;
}

static enum status take_message(struct session *session, const Holdfast__V1__SessionUp *up, struct error *err)
{
	if (up->message_case != HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO && !session_is_greeted(session))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the first message of a session is hello");
	switch (up->message_case) {
	case HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO:
		return session_take_hello(session, up->hello, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT:
		session_send_mark(session);
		return STATUS_OK;
	case HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC:
		return session_take_status(session, up->alloc, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT:
		return session_take_receipt(session, up->receipt, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_FINGERPRINT:
		return take_fingerprint(session, up->fingerprint, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_REPORT:
		return epoch_take_report(session, up->report, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_REPLY:
		controllers_take_reply(session, up->reply);
		return STATUS_OK;
	case HOLDFAST__V1__SESSION_UP__MESSAGE__NOT_SET:
	case _HOLDFAST__V1__SESSION_UP__MESSAGE__CASE_IS_INT_SIZE:
		break;
	}
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "a session message of a kind not known here");
}

static int on_hello_overdue(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct session *session = userdata;
	struct error err;

	(void)source;
	(void)usec;
	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0, "node %s did not say hello within %d ms",
			session->node_id, SESSION_HELLO_MAX_MS);
	session->hello_timer = sd_event_source_disable_unref(session->hello_timer);
	session_end(session, &err);
	return 0;
}

static enum status session_new(struct server *server, struct rpc_call *call, const char *node_id,
			       struct error *err)
{
	struct session *session;
	int r;

	if (server->n_greeting >= SESSIONS_GREETING_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%d sessions have not said hello yet; node %s is to try again later",
				 SESSIONS_GREETING_MAX, node_id);
	session = calloc(1, sizeof(*session));
	if (!session)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	*session = (struct session){.server = server, .call = call, .serial = ++server->session_serial};
	LIST_INIT(&session->calls);
	(void)str_copy(session->node_id, sizeof(session->node_id), node_id);
	r = sd_event_add_time_relative(server->event, &session->hello_timer, CLOCK_MONOTONIC,
				       SESSION_HELLO_MAX_MS * USEC_PER_MSEC, TIMER_ACCURACY_US,
				       on_hello_overdue, session);
	if (r < 0) {
		free(session);
		return error_set(err, status_from_errno(r), r, "wait for hello of node %s", node_id);
	}
	rpc_call_set_data(call, session);
	server->n_sessions++;
	server->n_greeting++;
	return STATUS_OK;
}

static void on_open(struct rpc_call *call, void *userdata)
{
	struct server *server = userdata;
	struct identity who;
	struct error err;
	enum status st = access_check_node(server, call, &who, &err);

	if (st == STATUS_OK)
		st = session_new(server, call, who.name, &err);
	if (st != STATUS_OK)
		rpc_call_fail(call, &err);
}

/* What one node says may not grow without end in front of the disk. */
static enum status check_pending(const struct session *session, struct error *err)
{
	const struct node_entry *node = state_node(&session->server->state, session->node_id);

	/* of the node: a session of its own for every so many would be cheap */
	if (!node || node->n_pending < SESSION_PENDING_MAX)
		return STATUS_OK;
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
			 "node %s says more than the disk can take: %d changes are not durable yet",
			 session->node_id, SESSION_PENDING_MAX);
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct session *session = rpc_call_data(call);
	struct error err;
	enum status st;

	(void)userdata;
	if (!session || session->closing)
		return;
	session_heard(session);
	st = check_pending(session, &err);
	if (st == STATUS_OK)
		st = take_message(session, (const Holdfast__V1__SessionUp *)message, &err);
	/* said again: a receipt until it is acknowledged */
	if (st == STATUS_RESOURCE_EXHAUSTED && session->server->disk.level == DISK_FULL &&
	    session_is_greeted(session) &&
	    ((const Holdfast__V1__SessionUp *)message)->message_case ==
		    HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT)
		return;
	if (st != STATUS_OK)
		session_end(session, &err);
}

/* Stored, so that it is known after a restart for how long the node has been away, and why. */
static void note_disconnect(struct session *session, struct node_entry *node)
{
	struct server *server = session->server;
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct error err;

	if (server->is_ending || !node_is_registered(node))
		return;
	node->node.disconnected_ms = clock_realtime_ms();
	(void)str_copy(node->node.disconnect_reason, sizeof(node->node.disconnect_reason),
		       session->end_reason);
	change_put_node(&change, &node->node);
	if (change_commit(server, &change, NULL, NULL, &err) != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.node = node->id, .op = "session", .err = &err},
			"cannot store since when the node is away, ignoring");
}

static void on_closed(struct rpc_call *call, void *userdata)
{
	struct session *session = rpc_call_data(call);
	struct server *server = userdata;
	struct node_entry *node;

	if (!session)
		return;
	session_unlist(session);
	node = state_node(&server->state, session->node_id);
	if (node && node->session == session) {
		state_set_session(&server->state, node, NULL);
		note_disconnect(session, node);
		absent_rearm(server);
		log_ctx(LOG_NOTICE,
			&(struct log_ctx){.node = session->node_id,
					  .op = "session",
					  .event = LOG_EVENT_NODE_DISCONNECTED},
			"node %s is disconnected; its claims stay%s%s", session->node_id,
			session->end_reason[0] != '\0' ? ": " : "", session->end_reason);
	}
	server->n_greeting -= !session_is_greeted(session);
	controllers_session_lost(session);
	server->n_sessions--;
	(void)sd_event_source_disable_unref(session->hello_timer);
	(void)sd_event_source_disable_unref(session->work_source);
	free(session->work);
	free(session);
}

const struct rpc_stream_handlers sessions_stream = {
	.on_open = on_open,
	.on_message = on_message,
	.on_closed = on_closed,
};
