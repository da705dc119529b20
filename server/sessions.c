#include "sessions.h"

#include "access.h"
#include "allocs.h"
#include "change.h"
#include "claims.h"
#include "controller.h"
#include "fingerprint.h"
#include "server.h"
#include "session.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "log/log.h"
#include "model/pb.h"

#include <assert.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <stdlib.h>
#include <string.h>

static bool said_hello(const struct session *session)
{
	return session->boot_id[0] != '\0';
}

/* The session that a node has when something became durable; it may be another one than at the beginning, or
 * none. */
static struct session *session_of(struct server *server, const char *node_id)
{
	struct node_entry *node = state_node(&server->state, node_id);

	return node ? node->session : NULL;
}

/* What to tell the node once a change is durable. */
struct told {
	char node_id[NODE_ID_MAX + 1];
	char id[UUID_TEXT_SIZE]; /* of the claim or allocation */
	bool released;
};

static struct told *told_new(const char *node_id, const char *id, bool released)
{
	struct told *told = calloc(1, sizeof(*told));

	if (!told)
		return NULL;
	(void)str_copy(told->node_id, sizeof(told->node_id), node_id);
	(void)str_copy(told->id, sizeof(told->id), id);
	told->released = released;
	return told;
}

static void on_receipt_durable(struct server *server, void *userdata)
{
	cleanup_free struct told *told = userdata;
	struct session *session = session_of(server, told->node_id);
	struct claim_entry *entry = state_claim(&server->state, told->id);

	if (session)
		session_receipt_ack(session, told->id, told->released);
	if (entry)
		claims_drive(server, entry);
}

static void on_terminal_durable(struct server *server, void *userdata)
{
	cleanup_free struct told *told = userdata;
	struct session *session = session_of(server, told->node_id);
	struct alloc_entry *alloc = state_alloc(&server->state, told->id);
	struct claim_entry *entry;

	if (session)
		session_forget_alloc(session, told->id);
	if (!alloc)
		return;
	LIST_FOREACH (entry, &alloc->claims, of_alloc)
		claims_drive(server, entry);
}

static void on_end_durable(struct server *server, void *userdata)
{
	cleanup_free struct told *told = userdata;
	struct session *session = session_of(server, told->node_id);

	if (session)
		session_stop_alloc(session, told->id);
}

/* Commit @change, which may be empty; afterwards tell the node with @done. */
static enum status commit_and_tell(struct session *session, struct change *change, change_done_fn *done,
				   const char *id, bool released, struct error *err)
{
	return change_commit_taking(session->server, change, done, told_new(session->node_id, id, released),
				    err);
}

static enum status take_published(const Holdfast__V1__AllocStatus *from, struct alloc *to, struct error *err)
{
	if (from->n_published > ALLOC_VOLUMES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "more than %d volumes are published",
				 ALLOC_VOLUMES_MAX);
	to->n_published = 0;
	memset(to->published, 0, sizeof(to->published));
	for (size_t i = 0; i < from->n_published; i++) {
		enum status st = alloc_volume_from_pb(from->published[i], &to->published[i], err);

		if (st != STATUS_OK)
			return st;
		to->n_published++;
	}
	return STATUS_OK;
}

static enum status apply_alloc_status(const Holdfast__V1__AllocStatus *from, struct alloc *to,
				      struct error *err)
{
	int status = (int)from->client_status;

	if (status <= CLIENT_UNSPECIFIED || status >= CLIENT_N)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "client status %d is not known here",
				 status);
	to->client_status = (enum client_status)status;
	to->client_code = from->code;
	str_copy_text(to->client_description, sizeof(to->client_description), from->description);
	return take_published(from, to, err);
}

/* The node's word about one allocation. */
static enum status take_alloc_status(struct session *session, const Holdfast__V1__AllocStatus *status,
				     struct error *err)
{
	struct server *server = session->server;
	struct alloc_entry *entry = state_alloc(&server->state, status->alloc_id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free struct alloc *alloc = malloc(sizeof(*alloc));
	enum status st;

	if (!alloc)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	if (!entry) {
		/* unknown means keep: after a restore from a backup the node may know more than the server */
		log_ctx(LOG_WARNING, &(struct log_ctx){.node = session->node_id, .alloc = status->alloc_id},
			"the node has an allocation that is not known here, ignoring");
		return STATUS_OK;
	}
	if (!str_eq(entry->alloc.node_id, session->node_id))
		return error_set(err, STATUS_PERMISSION_DENIED, 0, "allocation %s is not of node %s",
				 entry->alloc.id, session->node_id);
	*alloc = entry->alloc;
	st = apply_alloc_status(status, alloc, err);
	if (st != STATUS_OK)
		return st;
	if (alloc_is_client_terminal(&entry->alloc)) /* for ever: there the node has to get, too */
		return commit_and_tell(session, &change,
				       alloc_is_client_terminal(alloc) ? on_terminal_durable : on_end_durable,
				       alloc->id, false, err);
	alloc->modify_time_ms = clock_realtime_ms();
	change_put_alloc(&change, alloc);
	if (!alloc_is_client_terminal(alloc))
		return change_commit(server, &change, NULL, NULL, err);
	st = claims_end_work(&change, entry, alloc->modify_time_ms, err);
	if (st != STATUS_OK)
		return st;
	return commit_and_tell(session, &change, on_terminal_durable, alloc->id, false, err);
}

/* Does the receipt affirm one of the two? A field that is there but false denies it. */
static bool says_what(const Holdfast__V1__ClaimReceipt *receipt)
{
	switch (receipt->what_case) {
	case HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED:
		return receipt->mounted;
	case HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED:
		return receipt->released;
	case HOLDFAST__V1__CLAIM_RECEIPT__WHAT__NOT_SET:
	case _HOLDFAST__V1__CLAIM_RECEIPT__WHAT__CASE_IS_INT_SIZE:
		break;
	}
	return false;
}

static void receipt_event(const Holdfast__V1__ClaimReceipt *receipt, struct claim_event *event)
{
	*event = (struct claim_event){.now_ms = clock_realtime_ms()};
	if (receipt->error[0] != '\0') {
		event->type = CLAIM_EVENT_NODE_FAILED;
		event->detail = receipt->error;
	} else if (receipt->what_case == HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED) {
		event->type = CLAIM_EVENT_MOUNTED;
	} else {
		event->type = CLAIM_EVENT_EVIDENCE;
		event->evidence = EVIDENCE_RECEIPT;
	}
}

/* The node's word about one claim: only about its own, in the boot and generation in which it was granted. */
static enum status take_receipt(struct session *session, const Holdfast__V1__ClaimReceipt *receipt,
				struct error *err)
{
	struct server *server = session->server;
	struct claim_entry *entry = state_claim(&server->state, receipt->claim_id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	bool released = receipt->what_case == HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED;
	struct claim_event event;
	struct claim after;
	enum status st;

	if (!entry) /* long finished, and pruned: the repeat of a receipt whose acknowledgement was lost */
		return commit_and_tell(session, &change, on_receipt_durable, receipt->claim_id, released,
				       err);
	if (!str_eq(entry->claim.node_id, session->node_id))
		return error_set(err, STATUS_PERMISSION_DENIED, 0, "claim %s is not of node %s",
				 entry->claim.id, session->node_id);
	if (!str_eq(entry->claim.boot_id, receipt->boot_id) || entry->claim.generation != receipt->generation)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the receipt for claim %s is of another boot or generation",
				 entry->claim.id);
	if (receipt->error[0] == '\0' && !says_what(receipt))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the receipt for claim %s says nothing",
				 entry->claim.id);
	receipt_event(receipt, &event);
	st = claims_step(&change, entry, &event, &after, err);
	if (st != STATUS_OK)
		return st;
	if (event.type == CLAIM_EVENT_NODE_FAILED)
		return change_commit(server, &change, NULL, NULL, err);
	return commit_and_tell(session, &change, on_receipt_durable, entry->claim.id, released, err);
}

/* Another machine with the same certificate must not free what the first one holds: a later boot counts only
 * when the earlier one is not there any more. Keepalive ends dead sessions within seconds, so an honest
 * reboot gets in. */
static enum status check_rival(const struct session *session, const struct node_entry *node,
			       const char *boot_id, struct error *err)
{
	const struct session *rival = node->session;

	if (!rival || rival == session || !said_hello(rival) || str_eq(rival->boot_id, boot_id))
		return STATUS_OK;
	return error_set(err, STATUS_ALREADY_EXISTS, 0,
			 "node %s is connected already, in boot %s; is its certificate used by two machines?",
			 session->node_id, rival->boot_id);
}

static void node_from_hello(const struct session *session, const Holdfast__V1__SessionHello *hello,
			    const char *boot_id, const struct node *current, struct node *ret)
{
	*ret = *current;
	(void)str_copy(ret->id, sizeof(ret->id), session->node_id);
	(void)str_copy(ret->boot_id, sizeof(ret->boot_id), boot_id);
	str_copy_text(ret->agent_version, sizeof(ret->agent_version), hello->agent_version);
	str_copy_text(ret->kernel, sizeof(ret->kernel), hello->kernel);
	str_copy_text(ret->address, sizeof(ret->address), rpc_call_peer(session->call)->address);
	ret->status = NODE_READY;
	ret->last_seen_ms = ret->modify_time_ms = clock_realtime_ms();
	if (ret->create_time_ms == 0)
		ret->create_time_ms = ret->modify_time_ms;
}

static enum status store_node(struct session *session, const Holdfast__V1__SessionHello *hello,
			      const char *boot_id, struct error *err)
{
	struct server *server = session->server;
	const struct node_entry *entry = state_node(&server->state, session->node_id);
	static const struct node none;
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free struct node *node = malloc(sizeof(*node));
	enum status st;

	if (!node)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	node_from_hello(session, hello, boot_id, entry ? &entry->node : &none, node);
	change_put_node(&change, node);
	st = fingerprint_stage(server, &change, node->id, hello->plugins, hello->n_plugins, err);
	if (st != STATUS_OK)
		return st;
	return change_commit(server, &change, NULL, NULL, err);
}

static enum status take_statuses(struct session *session, const Holdfast__V1__SessionHello *hello,
				 struct error *err)
{
	for (size_t i = 0; i < hello->n_allocs; i++) {
		enum status st = take_alloc_status(session, hello->allocs[i], err);

		if (st != STATUS_OK)
			return st;
	}
	return STATUS_OK;
}

/* A crash could take a submission back that is still on its way to the disk: it is sent from there. */
static bool alloc_is_durable(const struct alloc_entry *entry)
{
	return entry->alloc.create_index > 0;
}

/* Everything the node should do, again: each message is idempotent. */
static void send_work(struct session *session, struct node_entry *node)
{
	struct alloc_entry *entry;

	LIST_FOREACH (entry, &node->allocs, of_node) {
		if (alloc_is_client_terminal(&entry->alloc) || !alloc_is_durable(entry))
			continue;
		if (entry->alloc.desired_status == DESIRED_RUN)
			session_run_alloc(session, &entry->alloc);
		else
			session_stop_alloc(session, entry->alloc.id);
	}
	claims_drive_node(session->server, node);
}

static enum status check_hello(const struct session *session, const Holdfast__V1__SessionHello *hello,
			       struct error *err)
{
	if (said_hello(session))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "a second hello on one session");
	if (!str_eq(hello->node_id, session->node_id))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "the agent calls itself node '%.64s' but its certificate is of node %s",
				 hello->node_id, session->node_id);
	if (!id_is_uuid(hello->boot_id)) /* another spelling would pass for another boot */
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the boot id is not a lower-case UUID");
	return STATUS_OK;
}

static void adopt_session(struct session *session, struct node_entry *node)
{
	static const struct error replaced = {.status = STATUS_ABORTED,
					      .msg = "the node has opened a newer session"};

	if (node->session && node->session != session)
		session_end(node->session, &replaced);
	node->session = session;
}

/* What follows from the node being in another boot than before. The new boot id is stored last: whatever
 * fails or is lost in a crash is then done again upon the next hello. */
static enum status take_new_boot(struct session *session, const Holdfast__V1__SessionHello *hello,
				 struct node_entry *node, struct error *err)
{
	enum status st = allocs_node_rebooted(session->server, node, err);

	if (st == STATUS_OK)
		st = claims_new_boot(session->server, node, session->boot_id, err);
	return st == STATUS_OK ? store_node(session, hello, session->boot_id, err) : st;
}

static enum status take_hello(struct session *session, const Holdfast__V1__SessionHello *hello,
			      struct error *err)
{
	struct server *server = session->server;
	struct node_entry *node = state_node(&server->state, session->node_id);
	char known_boot[UUID_TEXT_SIZE];
	bool rebooted;
	enum status st = check_hello(session, hello, err);

	if (st == STATUS_OK && node)
		st = check_rival(session, node, hello->boot_id, err);
	if (st != STATUS_OK)
		return st;
	rebooted = node && node->node.boot_id[0] != '\0' && !str_eq(node->node.boot_id, hello->boot_id);
	(void)str_copy(session->boot_id, sizeof(session->boot_id), hello->boot_id);
	(void)str_copy(known_boot, sizeof(known_boot), rebooted ? node->node.boot_id : session->boot_id);
	st = store_node(session, hello, known_boot, err);
	if (st != STATUS_OK)
		return st;
	node = state_node(&server->state, session->node_id);
	adopt_session(session, node);
	session_welcome(session); /* before anything else goes down */
	st = take_statuses(session, hello, err);
	if (st == STATUS_OK && rebooted)
		st = take_new_boot(session, hello, node, err);
	if (st != STATUS_OK)
		return st;
	log_ctx(LOG_NOTICE, &(struct log_ctx){.node = session->node_id, .op = "session"},
		"connected from %s, boot %s%s", rpc_call_peer(session->call)->address, session->boot_id,
		rebooted ? " (a new one)" : "");
	send_work(session, node);
	return STATUS_OK;
}

static enum status take_fingerprint(struct session *session, const Holdfast__V1__Fingerprint *fingerprint,
				    struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	enum status st = fingerprint_stage(session->server, &change, session->node_id, fingerprint->plugins,
					   fingerprint->n_plugins, err);

	return st == STATUS_OK ? change_commit(session->server, &change, NULL, NULL, err) : st;
}

static enum status take_message(struct session *session, const Holdfast__V1__SessionUp *up, struct error *err)
{
	struct node_entry *node = state_node(&session->server->state, session->node_id);

	if (up->message_case != HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO && !said_hello(session))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the first message of a session is hello");
	switch (up->message_case) {
	case HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO:
		return take_hello(session, up->hello, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT:
		if (node)
			node->node.last_seen_ms = clock_realtime_ms(); /* not worth a write of its own */
		return STATUS_OK;
	case HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC:
		return take_alloc_status(session, up->alloc, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT:
		return take_receipt(session, up->receipt, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_FINGERPRINT:
		return take_fingerprint(session, up->fingerprint, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_REPLY:
		controllers_take_reply(session, up->reply);
		return STATUS_OK;
	case HOLDFAST__V1__SESSION_UP__MESSAGE_REPORT: /* nothing was asked */
	case HOLDFAST__V1__SESSION_UP__MESSAGE__NOT_SET:
	case _HOLDFAST__V1__SESSION_UP__MESSAGE__CASE_IS_INT_SIZE:
		break;
	}
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "a session message of a kind not known here");
}

static void on_open(struct rpc_call *call, void *userdata)
{
	struct server *server = userdata;
	struct session *session;
	struct identity who;
	struct error err;

	if (access_check_node(server, call, &who, &err) != STATUS_OK) {
		rpc_call_fail(call, &err);
		return;
	}
	session = calloc(1, sizeof(*session));
	if (!session) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
		rpc_call_fail(call, &err);
		return;
	}
	*session = (struct session){.server = server, .call = call};
	LIST_INIT(&session->calls);
	(void)str_copy(session->node_id, sizeof(session->node_id), who.name);
	rpc_call_set_data(call, session);
	server->n_sessions++;
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct session *session = rpc_call_data(call);
	struct error err;

	(void)userdata;
	if (!session || session->closing)
		return;
	if (take_message(session, (const Holdfast__V1__SessionUp *)message, &err) != STATUS_OK)
		session_end(session, &err);
}

static void on_closed(struct rpc_call *call, void *userdata)
{
	struct session *session = rpc_call_data(call);
	struct server *server = userdata;
	struct node_entry *node;

	if (!session)
		return;
	node = state_node(&server->state, session->node_id);
	if (node && node->session == session) {
		node->session = NULL;
		log_ctx(LOG_NOTICE, &(struct log_ctx){.node = session->node_id, .op = "session"},
			"disconnected; its claims stay");
	}
	controllers_session_lost(session);
	server->n_sessions--;
	free(session);
}

const struct rpc_stream_handlers sessions_stream = {
	.on_open = on_open,
	.on_message = on_message,
	.on_closed = on_closed,
};
