/* SPDX-License-Identifier: Apache-2.0 */
#include "session/session.h"

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "helper/client.h"
#include "log/log.h"
#include "model/node.h"
#include "model/pb.h"
#include "rpc/wakeup.h"
#include "session/hello.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum session_state {
	SESSION_DOWN,	 /* waiting to connect, or not started */
	SESSION_OPENING, /* until the server has accepted the stream */
	SESSION_GREETED, /* hello is sent, until welcome */
	SESSION_UP,
};

struct session {
	sd_event *event;	   /* borrowed */
	struct rpc_client *client; /* borrowed */
	struct session_options options;
	const struct session_handlers *handlers;
	void *userdata;
	enum session_state state;
	struct rpc_stream *stream;
	struct backoff backoff;
	bool sends_statuses; /* with the welcome: the hello was short, or one has changed since */
	uint64_t heartbeat_us;
	uint64_t sent_us;	/* monotonic: the last message up */
	int64_t hello_ms;	/* when hello was sent */
	sd_event_source *timer; /* of the state: next attempt, welcome deadline, heartbeat */
	struct session_info info;
};

typedef Holdfast__V1__SessionUp session_up;
typedef Holdfast__V1__SessionDown session_down;

static int on_attempt(sd_event_source *source, uint64_t usec, void *userdata);

static void wait_to_connect(struct session *session, uint64_t delay_us)
{
	struct error err;

	session->state = SESSION_DOWN;
	session->info.is_up = false;
	session->info.since_ms = 0;
	if (wakeup_arm(session->event, &session->timer, delay_us, on_attempt, session, &err) != STATUS_OK) {
		session->info.last_error = err;
		session->handlers->on_down(&err, session->userdata);
	}
}

/* The session is lost, or could not be had. */
static void lose(struct session *session, const struct error *err)
{
	uint64_t delay_us = backoff_next(&session->backoff, backoff_random());

	rpc_stream_cancel(session->stream);
	session->stream = NULL;
	/* where there was a session there may be one again, without another handshake: the server may have
	 * lost the one that leads. Else another one may be better off. */
	if (session->state != SESSION_UP)
		rpc_client_move_on(session->client);
	if (err->status == STATUS_UNAUTHENTICATED) /* another certificate may be loaded meanwhile */
		rpc_client_reconnect(session->client);
	session->info.attempts = session->backoff.attempts;
	session->info.last_error = *err;
	wait_to_connect(session, delay_us);
	session->handlers->on_down(err, session->userdata);
}

static void send_up(struct session *session, const session_up *up)
{
	struct error err;

	session->sent_us = clock_monotonic_us();
	if (rpc_stream_send(session->stream, &up->base, &err) != STATUS_OK)
		lose(session, &err);
}

static int on_welcome_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct session *session = userdata;
	char text[CLOCK_TEXT_SIZE];
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0, "the server did not send welcome within %s",
			clock_format_duration(session->options.connect_timeout_us, text));
	lose(session, &err);
	return 0;
}

static int on_heartbeat(sd_event_source *source, uint64_t usec, void *userdata)
{
	Holdfast__V1__Heartbeat heartbeat = HOLDFAST__V1__HEARTBEAT__INIT;
	session_up up = HOLDFAST__V1__SESSION_UP__INIT;
	struct session *session = userdata;
	char boot_id[UUID_TEXT_SIZE];
	struct error err;
	uint64_t quiet_us = clock_monotonic_us() - session->sent_us;
	/* every message is a sign of life; one sent a moment ago is not worth another timer */
	bool is_due = quiet_us >= session->heartbeat_us / 8 * 7;

	/* it has lasted: the next loss begins with the shortest delay */
	backoff_reset(&session->backoff);
	(void)str_copy(boot_id, sizeof(boot_id), session->options.boot_id);
	heartbeat.boot_id = boot_id;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT;
	up.heartbeat = &heartbeat;
	if (wakeup_arm(session->event, &session->timer, session->heartbeat_us - (is_due ? 0 : quiet_us),
		       on_heartbeat, session, &err) != STATUS_OK) {
		lose(session, &err);
		return 0;
	}
	if (is_due)
		send_up(session, &up);
	return 0;
}

static void on_open(struct rpc_stream *stream, void *userdata)
{
	session_up up = HOLDFAST__V1__SESSION_UP__INIT;
	struct session *session = userdata;
	Holdfast__V1__SessionHello *hello;
	struct error err;

	hello = session->handlers->make_hello(&session->sends_statuses, session->userdata);
	if (!hello || wakeup_arm(session->event, &session->timer, session->options.connect_timeout_us,
				 on_welcome_timeout, session, &err) != STATUS_OK) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot greet the server");
		protobuf_c_message_free_unpacked((ProtobufCMessage *)hello, NULL);
		lose(session, &err);
		return;
	}
	session->hello_ms = hello->clock_ms = clock_realtime_ms();
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO;
	up.hello = hello;
	session->state = SESSION_GREETED;
	send_up(session, &up);
	protobuf_c_message_free_unpacked(&hello->base, NULL);
}

/* The server has read its clock between hello and welcome: beyond these two the clocks differ, however long
 * the way was. */
static void apply_clock(struct session *session, int64_t server_ms)
{
	bool was_off = node_clock_is_off(session->info.clock_skew_ms);
	int64_t now_ms = clock_realtime_ms();
	char text[NODE_CLOCK_TEXT_SIZE];
	int64_t skew_ms = 0;

	if (server_ms > now_ms)
		skew_ms = now_ms - server_ms;
	else if (server_ms < session->hello_ms)
		skew_ms = session->hello_ms - server_ms;
	session->info.clock_skew_ms = skew_ms;
	if (node_clock_is_off(skew_ms) && !was_off)
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "session"},
			"this node's clock is %s the server's; tickets expire by this one. Set the one that "
			"is "
			"wrong (chronyc makestep), and restart that program",
			node_clock_text(skew_ms, text));
}

static enum status handle_welcome(struct session *session, const session_down *down, struct error *err)
{
	const Holdfast__V1__SessionWelcome *welcome = down->welcome;
	uint32_t heartbeat_ms = welcome->heartbeat_ms;

	if (session->state != SESSION_GREETED)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "the server sent welcome twice");
	if (!str_eq(welcome->cluster, session->options.cluster))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the server is of cluster '%.64s', this agent of '%s' (cluster, servers)",
				 welcome->cluster, session->options.cluster);
	if (heartbeat_ms == 0)
		heartbeat_ms = SESSION_HEARTBEAT_DEFAULT_MS;
	if (heartbeat_ms < SESSION_HEARTBEAT_MIN_MS)
		heartbeat_ms = SESSION_HEARTBEAT_MIN_MS;
	if (heartbeat_ms > SESSION_HEARTBEAT_MAX_MS)
		heartbeat_ms = SESSION_HEARTBEAT_MAX_MS;
	session->heartbeat_us = heartbeat_ms * USEC_PER_MSEC;
	rpc_client_set_keepalive(session->client, session->heartbeat_us);
	TRY(wakeup_arm(session->event, &session->timer, session->heartbeat_us, on_heartbeat, session, err));
	apply_clock(session, welcome->clock_ms);
	memset(session->info.ticket_key, 0, TICKET_KEY_ID_SIZE);
	if (welcome->ticket_key.len == TICKET_KEY_ID_SIZE)
		memcpy(session->info.ticket_key, welcome->ticket_key.data, TICKET_KEY_ID_SIZE);
	session->state = SESSION_UP;
	session->info.is_up = true;
	session->info.is_reverted = false; /* a request for a report follows at once if it is */
	session->info.since_ms = clock_realtime_ms();
	session->info.attempts = 0;
	if (welcome->mark)
		session->handlers->on_mark(welcome->mark, session->userdata);
	session->handlers->on_up(session->sends_statuses, session->userdata);
	return STATUS_OK;
}

static enum status handle_run(struct session *session, const session_down *down, struct error *err)
{
	cleanup(alloc_release) struct alloc alloc = {0};
	enum status status;

	status = down->run->alloc ? alloc_from_pb(down->run->alloc, &alloc, err)
				  : error_set(err, STATUS_INVALID_ARGUMENT, 0, "it is empty");
	if (status == STATUS_OK) {
		alloc_default(&alloc);
		session->handlers->on_run(&alloc, session->userdata);
	}
	return status;
}

static enum status handle_stop(struct session *session, const session_down *down, struct error *err)
{
	session->handlers->on_stop(down->stop->namespace_, down->stop->alloc_id, session->userdata);
	return STATUS_OK;
}

static enum status handle_ack(struct session *session, const session_down *down, struct error *err)
{
	session->handlers->on_ack(down->receipt_ack->claim_id, down->receipt_ack->released,
				  session->userdata);
	return STATUS_OK;
}

static enum status handle_release(struct session *session, const session_down *down, struct error *err)
{
	const ProtobufCBinaryData *bytes = &down->release->ticket;
	/* one of a server of another version is useless; a release needs no ticket */
	bool has_ticket = ticket_is_current(bytes->data, bytes->len);
	struct ticket ticket;
	struct claim claim;

	if (!down->release->claim)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "it names no claim");
	if (has_ticket)
		memcpy(&ticket, bytes->data, sizeof(ticket));
	TRY(claim_from_pb(down->release->claim, &claim, err));
	session->handlers->on_release(&claim, down->release->wire_volume, has_ticket ? &ticket : NULL,
				      session->userdata);
	return STATUS_OK;
}

static enum status handle_forget(struct session *session, const session_down *down, struct error *err)
{
	session->handlers->on_forget(down->forget->namespace_, down->forget->alloc_id, session->userdata);
	return STATUS_OK;
}

static enum status handle_call(struct session *session, const session_down *down, struct error *err)
{
	session->handlers->on_call(down->call, session->userdata);
	return STATUS_OK;
}

static enum status handle_task_stream(struct session *session, const session_down *down, struct error *err)
{
	session->handlers->on_task_stream(down->stream, session->userdata);
	return STATUS_OK;
}

static enum status handle_report(struct session *session, const session_down *down, struct error *err)
{
	session->info.is_reverted = down->report->reverted;
	session->handlers->on_report_wanted(down->report->epoch, down->report->reverted, session->userdata);
	return STATUS_OK;
}

static enum status handle_mark(struct session *session, const session_down *down, struct error *err)
{
	session->handlers->on_mark(down->mark, session->userdata);
	return STATUS_OK;
}

static const struct message_kind {
	Holdfast__V1__SessionDown__MessageCase kind;
	const char *name;
	enum status (*take)(struct session *session, const session_down *down, struct error *err);
} message_kinds[] = {
	{HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME, "welcome", handle_welcome},
	{HOLDFAST__V1__SESSION_DOWN__MESSAGE_RUN, "order to run an allocation", handle_run},
	{HOLDFAST__V1__SESSION_DOWN__MESSAGE_STOP, "order to stop an allocation", handle_stop},
	{HOLDFAST__V1__SESSION_DOWN__MESSAGE_RECEIPT_ACK, "acknowledgement", handle_ack},
	{HOLDFAST__V1__SESSION_DOWN__MESSAGE_RELEASE, "order to release a claim", handle_release},
	{HOLDFAST__V1__SESSION_DOWN__MESSAGE_FORGET, "order to forget an allocation", handle_forget},
	{HOLDFAST__V1__SESSION_DOWN__MESSAGE_CALL, "call to a plugin", handle_call},
	{HOLDFAST__V1__SESSION_DOWN__MESSAGE_STREAM, "request for a stream to a task", handle_task_stream},
	{HOLDFAST__V1__SESSION_DOWN__MESSAGE_REPORT, "request for a report", handle_report},
	{HOLDFAST__V1__SESSION_DOWN__MESSAGE_MARK, "mark of its history", handle_mark},
};

/* Returns NULL for a kind that only a later server sends; the agent ignores it. */
static const struct message_kind *find_kind(const session_down *down)
{
	for (size_t i = 0; i < ARRAY_SIZE(message_kinds); i++) {
		if (message_kinds[i].kind == down->message_case)
			return &message_kinds[i];
	}
	return NULL;
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const session_down *down = (const session_down *)(const void *)message;
	const struct message_kind *kind = find_kind(down);
	struct session *session = userdata;
	struct error err;

	if (!kind)
		return;
	if (session->state != SESSION_UP && kind->kind != HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME) {
		(void)error_set(&err, STATUS_FAILED_PRECONDITION, 0,
				"the server's first message is no welcome");
		lose(session, &err);
		return;
	}
	if (kind->take(session, down, &err) != STATUS_OK) {
		(void)error_prefix(&err, "the server's %s", kind->name);
		lose(session, &err);
	}
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct session *session = userdata;
	struct error ended;

	session->stream = NULL;
	if (!err) {
		(void)error_set(&ended, STATUS_UNAVAILABLE, 0, "the server ended the session");
		err = &ended;
	}
	lose(session, err);
}

static const struct rpc_stream_events stream_events = {
	.on_open = on_open,
	.on_message = on_message,
	.on_closed = on_closed,
};

static int on_attempt(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct session *session = userdata;
	struct error err;

	wakeup_disarm(&session->timer);
	session->state = SESSION_OPENING;
	if (rpc_stream_open(session->client, &holdfast__v1__nodes__descriptor, "Session",
			    session->options.connect_timeout_us, &stream_events, session, &session->stream,
			    &err) != STATUS_OK)
		lose(session, &err);
	return 0;
}

void session_restart(struct session *session)
{
	rpc_stream_cancel(session->stream);
	session->stream = NULL;
	wait_to_connect(session, 0);
}

const struct session_info *session_info(const struct session *session)
{
	return &session->info;
}

static void send_alloc(struct session *session, Holdfast__V1__AllocStatus *status)
{
	session_up up = HOLDFAST__V1__SESSION_UP__INIT;

	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC;
	up.alloc = status;
	send_up(session, &up);
}

void session_send_status(struct session *session, const struct alloc *alloc)
{
	Holdfast__V1__AllocStatus *status;
	struct error err;

	if (session->state == SESSION_GREETED)
		session->sends_statuses = true; /* the hello has the one before */
	if (session->state != SESSION_UP)
		return;
	status = hello_alloc_status(alloc, false);
	if (!status) {
		/* the next hello has it */
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot notify the server");
		lose(session, &err);
		return;
	}
	send_alloc(session, status);
	protobuf_c_message_free_unpacked(&status->base, NULL);
}

void session_send_receipt(struct session *session, const struct receipt *receipt,
			  const struct trail_head *head)
{
	struct trail_head shown = *head;
	Holdfast__V1__TrailHead trail = HOLDFAST__V1__TRAIL_HEAD__INIT;
	Holdfast__V1__ClaimReceipt pb = HOLDFAST__V1__CLAIM_RECEIPT__INIT;
	session_up up = HOLDFAST__V1__SESSION_UP__INIT;
	struct receipt copy = *receipt;

	if (session->state != SESSION_UP)
		return;
	pb.claim_id = copy.claim_id;
	pb.boot_id = copy.boot_id;
	pb.generation = copy.generation;
	pb.what_case = copy.is_released ? HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED
					: HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED;
	if (copy.is_released)
		pb.released = true;
	else
		pb.mounted = true;
	pb.without_plugin = copy.is_without_plugin;
	pb.kernel = copy.kernel;
	trail.record = shown.record;
	trail.sha256 = (ProtobufCBinaryData){.len = sizeof(shown.sha256), .data = shown.sha256};
	if (shown.record != 0)
		pb.trail = &trail;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT;
	up.receipt = &pb;
	send_up(session, &up);
}

void session_send_release_error(struct session *session, const char *claim_id, uint64_t generation,
				const struct error *why)
{
	Holdfast__V1__ClaimReceipt pb = HOLDFAST__V1__CLAIM_RECEIPT__INIT;
	session_up up = HOLDFAST__V1__SESSION_UP__INIT;
	char claim[UUID_TEXT_SIZE], boot_id[UUID_TEXT_SIZE], text[ERROR_MSG_MAX];

	if (session->state != SESSION_UP)
		return;
	(void)str_copy(claim, sizeof(claim), claim_id);
	(void)str_copy(boot_id, sizeof(boot_id), session->options.boot_id);
	(void)str_copy(text, sizeof(text), why->msg);
	pb.claim_id = claim;
	pb.boot_id = boot_id;
	pb.generation = generation;
	pb.error = text;
	pb.error_code = (uint32_t)why->status;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT;
	up.receipt = &pb;
	send_up(session, &up);
}

void session_send_reply(struct session *session, const Holdfast__V1__PluginReply *reply)
{
	session_up up = HOLDFAST__V1__SESSION_UP__INIT;

	if (session->state != SESSION_UP)
		return;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_REPLY;
	up.reply = (Holdfast__V1__PluginReply *)(uintptr_t)reply; /* only read */
	send_up(session, &up);
}

void session_send_fingerprint(struct session *session, const Holdfast__V1__Fingerprint *fingerprint)
{
	session_up up = HOLDFAST__V1__SESSION_UP__INIT;

	if (session->state != SESSION_UP)
		return;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_FINGERPRINT;
	up.fingerprint = (Holdfast__V1__Fingerprint *)(uintptr_t)fingerprint; /* only read */
	send_up(session, &up);
}

bool session_send_report(struct session *session, const Holdfast__V1__NodeReport *report)
{
	session_up up = HOLDFAST__V1__SESSION_UP__INIT;

	if (session->state != SESSION_UP)
		return false;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_REPORT;
	up.report = (Holdfast__V1__NodeReport *)(uintptr_t)report; /* only read */
	send_up(session, &up);
	return session->state == SESSION_UP;
}

bool session_send_usage(struct session *session, const Holdfast__V1__VolumeUsageReport *report)
{
	session_up up = HOLDFAST__V1__SESSION_UP__INIT;

	if (session->state != SESSION_UP)
		return false;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_USAGE;
	up.usage = (Holdfast__V1__VolumeUsageReport *)(uintptr_t)report; /* only read */
	send_up(session, &up);
	return session->state == SESSION_UP;
}

static void send_short_status(struct session *session, const char *namespace, const char *alloc_id,
			      Holdfast__V1__ClientStatus client_status, const struct error *why)
{
	Holdfast__V1__AllocStatus pb = HOLDFAST__V1__ALLOC_STATUS__INIT;
	char id[UUID_TEXT_SIZE], of[NAMESPACE_MAX + 1], text[ERROR_MSG_MAX];

	if (session->state != SESSION_UP || str_copy(id, sizeof(id), alloc_id) < 0 ||
	    str_copy(of, sizeof(of), namespace) < 0)
		return;
	(void)str_copy(text, sizeof(text), why->msg);
	pb.alloc_id = id;
	pb.namespace_ = of;
	pb.client_status = client_status;
	pb.description = text;
	pb.code = (int32_t)why->status;
	send_alloc(session, &pb);
}

void session_send_refusal(struct session *session, const char *namespace, const char *alloc_id,
			  const struct error *why)
{
	send_short_status(session, namespace, alloc_id, HOLDFAST__V1__CLIENT_STATUS__FAILED, why);
}

void session_send_unknown(struct session *session, const char *namespace, const char *alloc_id)
{
	const struct error why = {.msg = "not known on this node"};

	send_short_status(session, namespace, alloc_id, HOLDFAST__V1__CLIENT_STATUS__COMPLETE, &why);
}

enum status session_new(sd_event *event, struct rpc_client *client, const struct session_options *options,
			const struct session_handlers *handlers, void *userdata, struct session **ret,
			struct error *err)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot make a session");
	session->event = event;
	session->client = client;
	session->options = *options;
	session->handlers = handlers;
	session->userdata = userdata;
	session->backoff = (struct backoff)BACKOFF_INIT(SESSION_RETRY_MIN_MS * USEC_PER_MSEC,
							SESSION_RETRY_MAX_MS * USEC_PER_MSEC);
	*ret = session;
	return STATUS_OK;
}

void session_free(struct session *session)
{
	if (!session)
		return;
	rpc_stream_cancel(session->stream);
	wakeup_disarm(&session->timer);
	free(session);
}
