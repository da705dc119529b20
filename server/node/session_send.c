/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "model/pb.h"
#include "node/session.h"
#include "recovery/history.h"
#include "state/freed.h"

#include <holdfast/v1/nodes.pb-c.h>

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
	enum status st;

	if (session->closing)
		return error_set(err, STATUS_UNAVAILABLE, 0, "the session is ending");
	st = rpc_call_send(session->call, &message->base, err);
	if (st != STATUS_OK)
		session_end(session, err);
	return st;
}

static void send_down(struct session *session, const Holdfast__V1__SessionDown *message)
{
	struct error err;

	(void)try_send_down(session, message, &err); /* the node gets it again in its next session */
}

void session_run_alloc(struct session *session, const struct alloc *alloc)
{
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;
	Holdfast__V1__RunAlloc run = HOLDFAST__V1__RUN_ALLOC__INIT;

	run.alloc = alloc_to_pb(alloc);
	if (!run.alloc)
		return; /* memory is short: the node gets it when it connects again */
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_RUN;
	down.run = &run;
	send_down(session, &down);
	holdfast__v1__allocation__free_unpacked(run.alloc, NULL);
}

/* One that is expired: the node can show it in a report, and mounts nothing with it. Without it, which takes
 * a failure of OpenSSL, it has none to show. */
static void add_ticket(const struct server *server, const struct claim *claim, const struct volume *volume,
		       struct ticket *ticket, ProtobufCBinaryData *ret)
{
	struct error err;

	if (ticket_issue(server->issuer, claim, volume, 0, ticket, &err) == STATUS_OK)
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

	if (claim_is_elsewhere(claim, session->boot_id))
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
	send_down(session, &down);
	holdfast__v1__claim__free_unpacked(release.claim, NULL);
}

/* Rarer than the setting where there are so many nodes that the loop would have more to do for heartbeats
 * than for calls. By nodes that are registered, as after a restart all of them come at once. */
static uint32_t heartbeat_ms(const struct server *server)
{
	uint64_t setting_ms = server->config.heartbeat_us / USEC_PER_MSEC;
	uint64_t shared_ms = server->state.n_nodes * 1000 / SESSION_HEARTBEATS_PER_S;

	if (shared_ms > SESSION_HEARTBEAT_SHARED_MAX_MS)
		shared_ms = SESSION_HEARTBEAT_SHARED_MAX_MS;
	return (uint32_t)(shared_ms > setting_ms ? shared_ms : setting_ms);
}

void session_welcome(struct session *session)
{
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;
	Holdfast__V1__SessionWelcome welcome = HOLDFAST__V1__SESSION_WELCOME__INIT;
	char version[] = HOLDFAST_VERSION;
	uint8_t key[TICKET_KEY_SIZE];
	struct history_mark mark;

	ticket_issuer_public_key(session->server->issuer, key);
	welcome.ticket_key = (ProtobufCBinaryData){.len = TICKET_KEY_ID_SIZE, .data = key};
	history_mark(session->server, &mark);
	session->mark_index = mark.pb.index;
	session->mark_us = clock_monotonic_us();
	welcome.mark = &mark.pb;
	welcome.server_version = version;
	welcome.cluster = session->server->config.cluster;
	welcome.heartbeat_ms = heartbeat_ms(session->server);
	session->heartbeat_us = welcome.heartbeat_ms * USEC_PER_MSEC;
	welcome.clock_ms = clock_realtime_ms();
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME;
	down.welcome = &welcome;
	send_down(session, &down);
}

void session_send_mark(struct session *session)
{
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;
	uint64_t now_us = clock_monotonic_us();
	struct history_mark mark;

	if (kv_revision(session->server->kv) == session->mark_index ||
	    now_us - session->mark_us < HISTORY_MARK_INTERVAL_MS * USEC_PER_MSEC)
		return;
	history_mark(session->server, &mark);
	session->mark_index = mark.pb.index;
	session->mark_us = now_us;
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_MARK;
	down.mark = &mark.pb;
	send_down(session, &down);
}

void session_request_report(struct session *session, uint64_t epoch)
{
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;
	Holdfast__V1__ReportRequest report = HOLDFAST__V1__REPORT_REQUEST__INIT;

	report.epoch = epoch;
	report.reverted = session->is_reverted;
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_REPORT;
	down.report = &report;
	send_down(session, &down);
}

void session_tell(struct session *session, enum session_word word, const char *id)
{
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;
	Holdfast__V1__StopAlloc stop = HOLDFAST__V1__STOP_ALLOC__INIT;
	Holdfast__V1__ForgetAlloc forget = HOLDFAST__V1__FORGET_ALLOC__INIT;
	Holdfast__V1__ReceiptAck ack = HOLDFAST__V1__RECEIPT_ACK__INIT;
	struct claim_entry *entry = NULL;
	char text[UUID_TEXT_SIZE];

	(void)str_copy(text, sizeof(text), id);
	stop.alloc_id = forget.alloc_id = ack.claim_id = text;
	ack.released = word == SESSION_ACK_RELEASED;
	switch (word) {
	case SESSION_WITHOUT_PLUGIN:
		if (freed_find(session->server, id, &entry, NULL) == STATUS_OK && entry)
			session_release_claim(session, &entry->claim);
		return;
	case SESSION_NOTHING:
	case SESSION_DRIVE_CLAIM:
	case SESSION_WORD_N:
		return;
	case SESSION_STOP_ALLOC:
		down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_STOP;
		down.stop = &stop;
		break;
	case SESSION_FORGET_ALLOC:
		down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_FORGET;
		down.forget = &forget;
		break;
	case SESSION_ACK_MOUNTED:
	case SESSION_ACK_RELEASED:
		down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_RECEIPT_ACK;
		down.receipt_ack = &ack;
		break;
	}
	send_down(session, &down);
}

enum status session_plugin_call(struct session *session, Holdfast__V1__PluginCall *call, struct error *err)
{
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;

	call->call_id = ++session->last_call_id;
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_CALL;
	down.call = call;
	return try_send_down(session, &down, err);
}
