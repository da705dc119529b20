/* SPDX-License-Identifier: Apache-2.0 */
#include "node/session.h"

#include "server.h"

#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "model/pb.h"
#include "rpc/timer.h"
#include "state/change.h"
#include "state/freed.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <stdlib.h>
#include <string.h>

/* Sessions whose node has fallen silent: its agent hangs, or the network drops what it sends while the
 * connection stays open.
 *
 * Time passes here by looks, each worth what lies between two of them, and a look comes only after all that
 * had arrived was read (lowest priority). While the server itself is stopped, or behind with reading, no time
 * passes, and no node is missed for that. Silence disconnects a node and releases nothing. */

enum {
	HEARTBEATS_MISSED = 3,
	LOOKS_PER_HEARTBEAT = 4,
	SESSIONS_PER_LOOK = 64, /* ended in one turn of the loop: each costs a write */
	ACCURACY_US = 10000,
};

static uint64_t silent_us(const struct silence *silence, const struct session *session)
{
	return silence->listened_us - session->heard_us;
}

static void end_silent(struct session *session)
{
	char heartbeat[CLOCK_TEXT_SIZE], silent[CLOCK_TEXT_SIZE];
	struct error err;

	(void)error_set(
		&err, STATUS_DEADLINE_EXCEEDED, 0,
		"nothing was heard of node %s for %s, which is more than %d heartbeats of %s: its agent "
		"hangs, or the network drops what it sends",
		session->node_id,
		clock_format_duration(silent_us(&session->server->silence, session), silent),
		HEARTBEATS_MISSED, clock_format_duration(session->heartbeat_us, heartbeat));
	session->server->silence.n_ended++;
	session_end(session, &err);
}

/* Returns whether there are more. Sessions with a longer interval than others may precede them. */
static bool end_some(struct silence *silence)
{
	struct session *session = TAILQ_FIRST(&silence->sessions);
	struct session *next;

	for (int n = 0; session; session = next) {
		next = TAILQ_NEXT(session, by_silence);
		if (silent_us(silence, session) <= HEARTBEATS_MISSED * silence->heartbeat_min_us)
			return false;
		/* the message before the last look may have come at its end */
		if (silent_us(silence, session) <=
		    HEARTBEATS_MISSED * session->heartbeat_us + silence->look_us)
			continue;
		if (n++ == SESSIONS_PER_LOOK)
			return true;
		end_silent(session);
	}
	return false;
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct silence *silence = userdata;
	bool has_more;

	silence->listened_us += silence->look_us;
	has_more = end_some(silence);
	if (has_more) /* the same look continues in the next turn */
		silence->listened_us -= silence->look_us;
	if (sd_event_source_set_time_relative(source, has_more ? 0 : silence->look_us) < 0 ||
	    sd_event_source_set_enabled(source, SD_EVENT_ONESHOT) < 0)
		log_line(LOG_ERR, "cannot look for silent nodes; the server continues without that");
	return 0;
}

void session_heard(struct session *session)
{
	struct silence *silence = &session->server->silence;
	struct node_entry *node = state_node(&session->server->state, session->node_id);

	session->heard_us = silence->listened_us;
	if (!session->is_listed)
		return;
	TAILQ_REMOVE(&silence->sessions, session, by_silence);
	TAILQ_INSERT_TAIL(&silence->sessions, session, by_silence);
	if (node && node->session == session)
		node_note_heard(node);
}

void session_list(struct session *session)
{
	struct silence *silence = &session->server->silence;

	if (silence->heartbeat_min_us == 0 || session->heartbeat_us < silence->heartbeat_min_us)
		silence->heartbeat_min_us = session->heartbeat_us;
	session->heard_us = silence->listened_us;
	session->is_listed = true;
	TAILQ_INSERT_TAIL(&silence->sessions, session, by_silence);
}

void session_unlist(struct session *session)
{
	if (!session->is_listed)
		return;
	session->is_listed = false;
	TAILQ_REMOVE(&session->server->silence.sessions, session, by_silence);
}

uint64_t session_silence_us(const struct server *server)
{
	const struct session *first = TAILQ_FIRST(&server->silence.sessions);

	return first ? silent_us(&server->silence, first) : 0;
}

/* The session outlives the certificate that it began with, if the node has renewed it. */
static int64_t expires_at(const struct server *server, const struct session *session)
{
	/* the look-up changes nothing */
	const struct node_entry *node =
		state_node((struct state *)(uintptr_t)&server->state, session->node_id);

	return node && node->session == session ? node->certificate_expires_ms : 0;
}

int64_t session_first_expiry_ms(const struct server *server)
{
	const struct session *session;
	int64_t first_ms = 0;

	TAILQ_FOREACH (session, &server->silence.sessions, by_silence) {
		int64_t expires_ms = expires_at(server, session);

		if (expires_ms != 0 && (first_ms == 0 || expires_ms < first_ms))
			first_ms = expires_ms;
	}
	return first_ms;
}

size_t session_expiries(const struct server *server, struct session_expiry ret[static SESSION_EXPIRIES_MAX])
{
	const struct session *session;
	size_t n = 0;

	TAILQ_FOREACH (session, &server->silence.sessions, by_silence) {
		int64_t expires_ms = expires_at(server, session);
		size_t at = n;

		while (at > 0 && ret[at - 1].expires_ms > expires_ms)
			at--;
		if (expires_ms == 0 || at == SESSION_EXPIRIES_MAX)
			continue;
		n += n < SESSION_EXPIRIES_MAX;
		memmove(&ret[at + 1], &ret[at], (n - at - 1) * sizeof(ret[0]));
		ret[at] = (struct session_expiry){.node_id = session->node_id, .expires_ms = expires_ms};
	}
	return n;
}

enum status session_silence_start(struct server *server, struct error *err)
{
	struct silence *silence = &server->silence;
	int r;

	silence->look_us = server->config.heartbeat_us / LOOKS_PER_HEARTBEAT;
	r = sd_event_add_time_relative(server->event, &silence->timer, CLOCK_MONOTONIC, silence->look_us,
				       ACCURACY_US, on_look, silence);
	if (r >= 0)
		r = sd_event_source_set_priority(silence->timer, SD_EVENT_PRIORITY_IDLE);
	return r < 0 ? error_set(err, status_from_errno(r), r, "look for silent nodes") : STATUS_OK;
}

void session_end(struct session *session, const struct error *err)
{
	if (session->closing)
		return;
	session->closing = true;
	session_unlist(session);
	str_copy_text(session->end_reason, sizeof(session->end_reason), err->msg);
	log_ctx(LOG_WARNING, &(struct log_ctx){.node = session->node_id, .op = "session", .err = err},
		"ending the session");
	rpc_call_fail(session->call, err);
}

static enum status try_send_down(struct session *session, const Holdfast__V1__SessionDown *message,
				 struct error *err)
{
	enum status status;

	if (session->closing)
		return error_set(err, STATUS_UNAVAILABLE, 0, "the session is ending");
	status = rpc_call_send(session->call, &message->base, err);
	if (status != STATUS_OK)
		session_end(session, err);
	return status;
}

void session_send(struct session *session, const Holdfast__V1__SessionDown *message)
{
	struct error err;

	(void)try_send_down(session, message, &err); /* the node gets it again in its next session */
}

/* One message may name thousands of claims. From the second one on, only those in the list of the node are
 * read. */
static enum status search_claim(struct session *session, const char *id, struct claim_entry **ret,
				struct error *err)
{
	struct freed_ids *freed = &session->freed;

	if (session->n_searches++ > 0) {
		if (!freed->is_read)
			TRY(freed_ids_read(session->server, session->node_id, freed, err));
		if (!freed_ids_have(freed, id))
			return STATUS_OK;
	}
	return freed_find(session->server, id, ret, err);
}

enum status session_check_search(struct session *session, struct error *err)
{
	struct node_entry *node = state_node(&session->server->state, session->node_id);
	char more[RATE_MORE_SIZE];

	if (!node ||
	    rate_take_counted(&node->searches, 1, SESSION_SEARCH_BURST_US, clock_monotonic_us(), more))
		return STATUS_OK;
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
			 "node %s names too many claims that are not live or not proven: the server "
			 "has searched them for %d ms, and does so for a tenth of the time from then on",
			 session->node_id,
			 SESSION_SEARCH_BURST_US / SESSION_SEARCH_SHARE / (int)USEC_PER_MSEC);
}

void session_pay_search(struct session *session, uint64_t start_us)
{
	struct node_entry *node = state_node(&session->server->state, session->node_id);

	if (node)
		node->searches.rate.paid_us += SESSION_SEARCH_SHARE * (clock_monotonic_us() - start_us);
}

/* After a restore another node may have an id that this one names: that is on record, and it is no claim of
 * this node. */
static struct claim_entry *own_claim(struct session *session, struct claim_entry *entry)
{
	struct error err;

	if (!entry || str_eq(entry->claim.node_id, session->node_id))
		return entry;
	(void)error_set(&err, STATUS_PERMISSION_DENIED, 0, "claim %s is not of node %s", entry->id,
			session->node_id);
	audit_refused(session->server, session->call, "Nodes.Session: claim", NULL, &err);
	return NULL;
}

/* The event loop waits for the store meanwhile: a node pays by the time of its searches. */
enum status session_find_claim(struct session *session, const char *id, struct claim_entry **ret,
			       struct error *err)
{
	struct server *server = session->server;
	uint64_t start_us = clock_monotonic_us();
	enum status status;

	*ret = state_claim(&server->state, id);
	if (*ret) {
		*ret = own_claim(session, *ret);
		return STATUS_OK;
	}
	TRY(session_check_search(session, err));
	status = search_claim(session, id, ret, err);
	*ret = own_claim(session, *ret);
	session_pay_search(session, start_us);
	return status;
}

void session_end_message(struct session *session)
{
	session->n_searches = 0;
	freed_ids_release(&session->freed);
}

bool session_is_greeted(const struct session *session)
{
	return session->boot_id[0] != '\0';
}

void session_open_task_stream(struct session *session, const Holdfast__V1__OpenTaskStream *wanted)
{
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;

	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_STREAM;
	down.stream = (Holdfast__V1__OpenTaskStream *)(uintptr_t)wanted; /* only read */
	session_send(session, &down);
}

void session_run_alloc(struct session *session, const struct alloc *alloc)
{
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;
	Holdfast__V1__RunAlloc run = HOLDFAST__V1__RUN_ALLOC__INIT;

	if (alloc->adopted) /* it was not submitted: its node has it, or it is over */
		return;
	run.alloc = alloc_to_pb_without_events(alloc);
	if (!run.alloc)
		return; /* memory is short: the node gets it when it connects again */
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_RUN;
	down.run = &run;
	session_send(session, &down);
	holdfast__v1__allocation__free_unpacked(run.alloc, NULL);
}

/* Adds an expired ticket: the node can show it in a report, but not mount with it. If OpenSSL fails, there
 * is no ticket to show. A claim that is adopted, was freed, or is on other storage than @volume now gets no
 * ticket: it would be proof of a grant that never was. */
static void add_ticket(const struct server *server, const struct claim *claim, const struct volume *volume,
		       struct ticket *ticket, ProtobufCBinaryData *ret)
{
	struct volume granted = *volume; /* as it was then: a later generation is another holder's */
	struct error err;

	granted.generation = claim->generation;
	if (!claim->adopted && !claim->was_freed && claim_is_on_storage(claim, volume) &&
	    ticket_issue(server->issuer, claim, &granted, 0, ticket, &err) == STATUS_OK)
		*ret = (ProtobufCBinaryData){.len = sizeof(*ticket), .data = (uint8_t *)ticket};
}

void session_release_claim(struct session *session, const struct claim *claim)
{
	const struct volume_entry *volume =
		state_volume(&session->server->state, claim->namespace, claim->volume_id);
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;
	Holdfast__V1__ReleaseClaim release = HOLDFAST__V1__RELEASE_CLAIM__INIT;
	char wire_volume[WIRE_VOLUME_SIZE];
	struct ticket ticket;

	/* one that is not durable may be lost, and its generation granted again: it is driven when it is */
	if (claim->create_index == 0 || claim_is_elsewhere(claim, session->boot_id))
		return;
	release.claim = claim_to_pb(claim);
	if (!release.claim)
		return; /* retried by the claim's timer */
	volume_wire_name(claim->namespace, claim->volume_id, wire_volume);
	release.wire_volume = wire_volume;
	if (volume)
		add_ticket(session->server, claim, &volume->volume, &ticket, &release.ticket);
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_RELEASE;
	down.release = &release;
	session_send(session, &down);
	holdfast__v1__claim__free_unpacked(release.claim, NULL);
}

void session_request_report(struct session *session, uint64_t epoch)
{
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;
	Holdfast__V1__ReportRequest report = HOLDFAST__V1__REPORT_REQUEST__INIT;

	report.epoch = epoch;
	report.reverted = session->is_reverted;
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_REPORT;
	down.report = &report;
	session_send(session, &down);
}

void session_notify(struct session *session, enum session_notice kind, const char *id)
{
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;
	Holdfast__V1__StopAlloc stop = HOLDFAST__V1__STOP_ALLOC__INIT;
	Holdfast__V1__ForgetAlloc forget = HOLDFAST__V1__FORGET_ALLOC__INIT;
	Holdfast__V1__ReceiptAck ack = HOLDFAST__V1__RECEIPT_ACK__INIT;
	struct claim_entry *entry = NULL;
	const struct alloc_entry *alloc;
	char text[UUID_TEXT_SIZE];

	(void)str_copy(text, sizeof(text), id);
	stop.alloc_id = forget.alloc_id = ack.claim_id = text;
	ack.released = kind == SESSION_ACK_RELEASED;
	switch (kind) {
	case SESSION_WITHOUT_PLUGIN:
		if (freed_find(session->server, id, &entry, NULL) == STATUS_OK && entry)
			session_release_claim(session, &entry->claim);
		return;
	case SESSION_NOTHING:
	case SESSION_DRIVE_CLAIM:
	case SESSION_NOTICE_N:
		return;
	case SESSION_STOP_ALLOC:
	case SESSION_FORGET_ALLOC:
		alloc = state_alloc(&session->server->state, id);
		if (!alloc) /* collected: the node names it in its next hello */
			return;
		stop.namespace_ = forget.namespace_ = (char *)(uintptr_t)alloc->alloc.namespace;
		if (kind == SESSION_STOP_ALLOC) {
			down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_STOP;
			down.stop = &stop;
		} else {
			down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_FORGET;
			down.forget = &forget;
		}
		break;
	case SESSION_ACK_MOUNTED:
	case SESSION_ACK_RELEASED:
		down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_RECEIPT_ACK;
		down.receipt_ack = &ack;
		break;
	}
	session_send(session, &down);
}

enum status session_plugin_call(struct session *session, Holdfast__V1__PluginCall *call, struct error *err)
{
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;

	call->call_id = ++session->last_call_id;
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_CALL;
	down.call = call;
	return try_send_down(session, &down, err);
}

/* Must the allocation be sent? No if the node has reported in this session that it runs, and must run. A
 * submission that is not durable yet could be lost in a crash: allocs_send() sends it later. */
static bool is_sendable(const struct session *session, const struct alloc_entry *entry)
{
	bool runs = entry->runs_in == session->serial && entry->alloc.desired_status == DESIRED_RUN;

	return !runs && !alloc_is_client_terminal(&entry->alloc) && entry->alloc.create_index > 0;
}

static void send_alloc(struct session *session, const char *id)
{
	const struct alloc_entry *entry = state_alloc(&session->server->state, id);

	if (!entry || !is_sendable(session, entry))
		return; /* it ended, went, or was reported, since the list was made */
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
		session->server->session_events->node_back(session->server, node);
}

static bool send_work_slice(struct session *session)
{
	for (int i = 0; i < SESSION_WORK_SLICE && session->next_work < session->n_work; i++)
		send_alloc(session, session->work[session->next_work++]);
	return session->next_work < session->n_work && !session->closing;
}

static int on_turn(sd_event_source *source, void *userdata)
{
	struct session *session = userdata;

	if (send_work_slice(session))
		timer_again(&session->work_source, on_turn);
	else
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
		if (is_sendable(session, entry))
			memcpy(session->work[session->n_work++], entry->alloc.id, UUID_TEXT_SIZE);
	return true;
}

void session_send_work(struct session *session, struct node_entry *node)
{
	struct error err;
	int r;

	if (!list_work(session, node)) {
		(void)error_no_memory(&err, "a session");
		session_end(session, &err);
		return;
	}
	if (!send_work_slice(session)) {
		end_work(session);
		return;
	}
	r = sd_event_add_defer(session->server->event, &session->work_source, on_turn, session);
	if (r < 0) {
		(void)error_set(&err, STATUS_INTERNAL, r, "send node %s its work", session->node_id);
		session_end(session, &err);
	}
}

/* A message for the node once a change is durable. */
struct notice {
	char node_id[NODE_ID_MAX + 1];
	enum session_notice kind;
	char id[UUID_TEXT_SIZE]; /* of the claim or allocation */
	size_t weight;		 /* in node_entry.n_pending */
	size_t bytes;		 /* in node_entry.pending_bytes */
};

static struct notice *notice_new(const struct session *session, enum session_notice kind, const char *id)
{
	struct notice *notice = calloc(1, sizeof(*notice));

	if (!notice)
		return NULL;
	(void)str_copy(notice->node_id, sizeof(notice->node_id), session->node_id);
	(void)str_copy(notice->id, sizeof(notice->id), id);
	notice->kind = kind;
	return notice;
}

static void drive_claim(struct server *server, const char *id)
{
	struct claim_entry *entry = state_claim(&server->state, id);

	if (entry)
		server->session_events->drive_claim(server, entry);
}

static void drive_alloc(struct server *server, const char *id)
{
	struct alloc_entry *alloc = state_alloc(&server->state, id);
	struct claim_entry *entry;

	if (alloc)
		LIST_FOREACH (entry, &alloc->claims, of_alloc)
			server->session_events->drive_claim(server, entry);
}

/* Bounds the changes of one node that are not durable yet, so that it cannot fill the store's queue. */
static enum status check_pending(const struct node_entry *node, struct error *err)
{
	/* of the node: a session of its own for every so many would be cheap */
	if (!node ||
	    (node->n_pending < SESSION_PENDING_MAX && node->pending_bytes < SESSION_PENDING_BYTES_MAX))
		return STATUS_OK;
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
			 "node %s reports more than the disk can take: %zu changes of %zu bytes are not "
			 "durable yet, and %d or %d bytes are the limit",
			 node->id, node->n_pending, node->pending_bytes, SESSION_PENDING_MAX,
			 SESSION_PENDING_BYTES_MAX);
}

/* Stores the end of the node's last session, which was refused, unless a newer one is stored. */
static void store_end(struct server *server, struct node_entry *node)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	if (!node->is_end_due || check_pending(node, NULL) != STATUS_OK)
		return;
	node->is_end_due = false;
	if (node->session || !node_is_registered(node))
		return;
	change_put_node(&change, &node->node);
	audit_node_event(server, &change, NODE_EVENT_DISCONNECT, node->id, node->node.disconnect_reason);
	node->is_end_due = change_commit(server, &change, NULL, NULL, NULL) != STATUS_OK;
}

void session_store_ends(struct server *server)
{
	struct node_entry *node = server->has_ends_due ? state_node_from(&server->state, "") : NULL;

	server->has_ends_due = false;
	for (; node; node = state_node_next(node)) {
		store_end(server, node);
		server->has_ends_due |= node->is_end_due;
	}
}

static void on_durable(struct server *server, void *userdata)
{
	cleanup_free struct notice *notice = userdata;
	struct node_entry *node = state_node(&server->state, notice->node_id);
	struct session *session = node ? node->session : NULL;

	if (node) { /* purged and back meanwhile: it counts from 0 */
		node->n_pending -= notice->weight < node->n_pending ? notice->weight : node->n_pending;
		node->pending_bytes -=
			notice->bytes < node->pending_bytes ? notice->bytes : node->pending_bytes;
	}
	if (session)
		session_notify(session, notice->kind, notice->id);
	switch (notice->kind) {
	case SESSION_ACK_MOUNTED:
	case SESSION_ACK_RELEASED:
	case SESSION_DRIVE_CLAIM:
		drive_claim(server, notice->id);
		break;
	case SESSION_FORGET_ALLOC:
		drive_alloc(server, notice->id);
		break;
	case SESSION_NOTHING:
	case SESSION_STOP_ALLOC:
	case SESSION_WITHOUT_PLUGIN:
	case SESSION_NOTICE_N:
		break;
	}
}

enum status session_commit(struct session *session, struct change *change, enum session_notice kind,
			   const char *id, struct error *err)
{
	struct node_entry *node = state_node(&session->server->state, session->node_id);
	size_t before = kv_pending_bytes(session->server->kv);
	size_t weight = change->n > 0 ? change->n : 1;
	struct notice *notice;

	TRY(check_pending(node, err));
	notice = notice_new(session, kind, id);
	TRY(change_commit_taking(session->server, change, on_durable, notice, err));
	notice->weight = weight; /* it is not durable yet */
	notice->bytes = kv_pending_bytes(session->server->kv) - before;
	node = state_node(&session->server->state, session->node_id);
	if (node) {
		node->n_pending += weight;
		node->pending_bytes += notice->bytes;
	}
	return STATUS_OK;
}
