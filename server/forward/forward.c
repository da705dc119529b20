/* SPDX-License-Identifier: Apache-2.0 */
#include "forward/forward.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "lead/lead.h"
#include "rpc/caller.h"
#include "rpc/client.h"
#include "rpc/peer_count.h"
#include "rpc/timer.h"

#include <assert.h>
#include <holdfast/v1/explain.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

static const uint64_t OPEN_US = 10 * USEC_PER_SEC;   /* a stream, at the leader */
static const uint64_t CALL_US = 3600 * USEC_PER_SEC; /* without a deadline of the caller's */
static const uint64_t TRY_US = 200 * USEC_PER_MSEC;  /* between two tries of a leader that was lost */
static const uint64_t PROBE_US = USEC_PER_SEC;	     /* between two, of a leader that is doubted */
static const uint64_t PROBE_ANSWER_US = 5 * USEC_PER_SEC;
static const uint64_t HOLD_US = FORWARD_HOLD_S * USEC_PER_SEC;

enum { WHO_SIZE = LEAD_NAME_SIZE + LEAD_ADDRESS_SIZE + 8 };

/* A connection to the leader. */
struct upstream {
	struct rpc_client *client;
	size_t n_used; /* calls or streams in flight */
	LIST_ENTRY(upstream) all;
};

/* Connections for calls, for sessions, or for other streams, whose readers may be slow. */
struct pool {
	LIST_HEAD(, upstream) upstreams;
	size_t n;
};

struct forward {
	sd_event *event;	   /* borrowed */
	struct rpc_server *server; /* borrowed */
	struct rpc_tls *tls;	   /* borrowed */
	struct lead *lead;	   /* borrowed; NULL: not known yet */
	forward_changes_fn *changes;
	forward_renewed_fn *renewed;
	char uri[RPC_URI_SIZE];	   /* how the identity of a server of this cluster begins */
	char name[LEAD_NAME_SIZE]; /* of the leader that the connections are of */
	char address[LEAD_ADDRESS_SIZE];
	struct rpc_client *prober; /* NULL: not yet */
	struct pool calls, streams, sessions;
	struct peer_count_tree callers; /* of calls and streams in flight */
	bool is_lost;			/* no leader is known, or it was not to be reached: streams wait */
	bool is_trying;			/* but the next one */
	uint64_t lost_us;		/* monotonic, since when */
	sd_event_source *retry;
	struct rpc_pending *probe; /* NULL: no probe in flight */
	sd_event_source *probe_timer;
	bool is_doubted;    /* the leader */
	bool has_no_answer; /* to the last probe */
};

/* --- connections to the leader --- */

static void stop_probing(struct forward *f)
{
	if (f->probe)
		rpc_pending_cancel(f->probe);
	f->probe = NULL;
	timer_disarm(f->probe_timer);
}

static void drop_pool(struct pool *pool)
{
	struct upstream *upstream;

	while ((upstream = LIST_FIRST(&pool->upstreams)) != NULL) {
		LIST_REMOVE(upstream, all);
		pool->n--;
		rpc_client_free(upstream->client); /* its calls and streams end */
		free(upstream);
	}
}

static void drop_connections(struct forward *f)
{
	stop_probing(f);
	rpc_client_free(f->prober);
	f->prober = NULL;
	drop_pool(&f->calls);
	drop_pool(&f->streams);
	drop_pool(&f->sessions);
}

/* --- streams that wait for a leader --- */

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata);

static void retry_later(struct forward *f)
{
	/* memory short: they wait until another one leads */
	(void)timer_arm(f->event, &f->retry, TRY_US, on_retry, f);
}

static void disconnect_leader(struct forward *f)
{
	if (!f->is_lost)
		f->lost_us = clock_monotonic_us();
	f->is_lost = true;
	retry_later(f);
}

static void find_leader(struct forward *f)
{
	f->is_lost = false;
	timer_disarm(f->retry);
	rpc_server_retry(f->server, SIZE_MAX);
}

/* A server that no other leader would help refuses at once: its callers find another server. */
static bool may_hold(const struct forward *f)
{
	return !trouble_is_of_one_server(lead_trouble(f->lead)) &&
	       clock_monotonic_us() - f->lost_us < HOLD_US;
}

/* Lets one waiting stream try again: there is no notice that a cut-off leader is back. */
static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct forward *f = userdata;

	f->is_trying = true;
	rpc_server_retry(f->server, may_hold(f) ? 1 : SIZE_MAX);
	retry_later(f);
	return 0;
}

static enum status connect_leader(struct forward *f, struct rpc_client **ret, struct error *err)
{
	struct rpc_address address;
	const struct rpc_endpoint endpoint = {
		.servers = &address, .n_servers = 1, .tls = f->tls, .server_uri = f->uri};

	if (f->address[0] == '\0') {
		struct lead_view view;

		lead_view(f->lead, &view);
		if (!view.is_known)
			return lead_check(f->lead, err); /* why no server leads */
		if (view.is_own)
			return error_set(err, STATUS_UNAVAILABLE, 0,
					 "no server leads just now; ask again in some seconds");
		memcpy(f->name, view.name, sizeof(f->name));
		memcpy(f->address, view.address, sizeof(f->address));
	}
	if (rpc_address_parse(f->address, &address) < 0)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "the server that leads gives its address as '%s', which is no HOST:PORT: "
				 "see advertise in its store \"etcd\"",
				 f->address);
	return rpc_client_new(f->event, &endpoint, ret, err);
}

/* --- a leader that etcd does not confirm, or that has not seen this server's certificate --- */

static void probe_in(struct forward *f, uint64_t delay_us);

/* Any answer but this one comes from a leader: other servers answer UNAVAILABLE. */
static void on_probed(enum status status, const ProtobufCMessage *response, const struct error *err,
		      void *userdata)
{
	struct forward *f = userdata;

	f->probe = NULL;
	f->has_no_answer = status == STATUS_UNAVAILABLE || status == STATUS_DEADLINE_EXCEEDED;
	if (status != STATUS_CANCELLED && (f->is_doubted || f->has_no_answer))
		probe_in(f, f->is_doubted && f->has_no_answer ? 0 : PROBE_US);
}

static void probe(struct forward *f)
{
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;

	if ((!f->prober && connect_leader(f, &f->prober, NULL) != STATUS_OK) ||
	    rpc_client_call(f->prober, &holdfast__v1__operator__descriptor, "Status", &request.base,
			    PROBE_ANSWER_US, on_probed, f, &f->probe, NULL) != STATUS_OK)
		probe_in(f, PROBE_US);
}

static int on_probe_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct forward *f = userdata;

	if (f->is_doubted && f->has_no_answer)
		lead_forget(f->lead);
	else if (!f->probe)
		probe(f);
	return 0;
}

static void probe_in(struct forward *f, uint64_t delay_us)
{
	/* memory short: the leader is kept until etcd answers */
	(void)timer_arm(f->event, &f->probe_timer, delay_us, on_probe_time, f);
}

static void follow_view(struct forward *f, const struct lead_view *view)
{
	f->is_doubted = view->is_doubted;
	f->has_no_answer = false;
	stop_probing(f);
	if (view->is_known && !view->is_own)
		probe_in(f, 0);
}

static void on_change(const struct lead_view *view, void *userdata)
{
	struct forward *f = userdata;

	if (view->is_known && !view->is_own && str_eq(view->name, f->name) &&
	    str_eq(view->address, f->address)) {
		follow_view(f, view);
		return;
	}
	f->name[0] = f->address[0] = '\0';
	drop_connections(f);
	if (view->is_known)
		find_leader(f);
	else
		disconnect_leader(f);
	follow_view(f, view);
}

static enum status new_upstream(struct forward *f, struct pool *pool, struct upstream **ret,
				struct error *err)
{
	struct upstream *upstream;
	enum status status;

	if (pool->n >= FORWARD_CONNS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "this server hands on %d %s already; ask another one",
				 FORWARD_CONNS_MAX * FORWARD_STREAMS_MAX,
				 pool == &f->calls ? "calls" : "streams");
	upstream = calloc(1, sizeof(*upstream));
	if (!upstream)
		return error_no_memory(err, "a connection to the server that leads");
	status = connect_leader(f, &upstream->client, err);
	if (status != STATUS_OK) {
		free(upstream);
		return status;
	}
	LIST_INSERT_HEAD(&pool->upstreams, upstream, all);
	pool->n++;
	*ret = upstream;
	return STATUS_OK;
}

/* Returns a connection with room. At most FORWARD_CONNS_MAX are looked at. */
static enum status find_upstream(struct forward *f, struct pool *pool, struct upstream **ret,
				 struct error *err)
{
	struct upstream *upstream;

	LIST_FOREACH (upstream, &pool->upstreams, all)
		if (upstream->n_used < FORWARD_STREAMS_MAX) {
			*ret = upstream;
			return STATUS_OK;
		}
	return new_upstream(f, pool, ret, err);
}

/* One caller does not take all connections to the leader. */
static enum status count_caller(struct forward *f, const struct rpc_call *call, struct peer_count **ret,
				struct error *err)
{
	return caller_count(rpc_call_peer(call), rpc_call_token(call), &f->callers, FORWARD_PER_CALLER_MAX,
			    "forwarded calls and streams", ret, err);
}

/* --- errors --- */

static const char *name_leader(const struct forward *f, char who[static WHO_SIZE])
{
	if (f->address[0] == '\0')
		(void)str_copy(who, WHO_SIZE, "the server that led");
	else
		(void)str_format(who, WHO_SIZE, "%s (%s), which leads,", f->name, f->address);
	return who;
}

/* Makes the caller's error from one that did not come from the leader. */
static void explain_loss(const struct forward *f, const struct rpc_client *client, bool is_write,
			 const struct error *err, struct error *ret)
{
	char who[WHO_SIZE];

	if (err->status == STATUS_DEADLINE_EXCEEDED || err->status == STATUS_INVALID_ARGUMENT ||
	    (err->status == STATUS_RESOURCE_EXHAUSTED &&
	     !is_write)) /* too large: asking again does not help */
		*ret = *err;
	else if (is_write && rpc_client_may_have_begun(client))
		(void)error_set(ret, STATUS_UNKNOWN, 0,
				"%s was lost during the call: whether it was carried out is not known; look, "
				"then ask again (%s)",
				name_leader(f, who), err->msg);
	else
		(void)error_set(ret, STATUS_UNAVAILABLE, 0, "%s does not answer; ask again (%s)",
				name_leader(f, who), err->msg);
}

static void fail_call(const struct forward *f, struct rpc_call *call, const struct rpc_client *client,
		      bool is_write, const struct error *err)
{
	bool may_have_begun = rpc_client_may_have_begun(client);
	ProtobufCMessage *details = NULL;
	struct error reported;

	if (rpc_client_message(client)) {
		reported = *err;
		(void)str_copy(reported.msg, sizeof(reported.msg), rpc_client_message(client));
		details = rpc_client_details(client, &holdfast__v1__error_details__descriptor);
	} else {
		explain_loss(f, client, is_write, err, &reported);
		may_have_begun &= is_write;
	}
	if (reported.status == STATUS_UNAVAILABLE && !may_have_begun)
		rpc_call_fail_unchanged(call, &reported, details);
	else
		rpc_call_fail_details(call, &reported, details);
	protobuf_c_message_free_unpacked(details, NULL);
}

/* --- calls --- */

struct unary {
	struct forward *forward;
	struct rpc_call *call;
	struct upstream *upstream;
	struct peer_count *caller;
	struct rpc_pending *pending; /* at the leader */
	bool is_write;
};

static void unary_free(struct unary *unary)
{
	peer_count_leave(&unary->forward->callers, unary->caller);
	free(unary);
}
DEFINE_CLEANUP(struct unary, unary_free)

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	cleanup(unary_freep) struct unary *unary = userdata;

	unary->upstream->n_used--;
	if (status == STATUS_OK) {
		unary->forward->renewed(unary->call, response);
		rpc_call_reply(unary->call, response);
	} else {
		fail_call(unary->forward, unary->call, unary->upstream->client, unary->is_write, err);
	}
}

static enum status start_call(struct forward *f, struct rpc_call *call, const ProtobufCMessage *request,
			      bool is_write, struct error *err)
{
	const struct rpc_behalf behalf = {.peer = rpc_call_peer(call), .token = rpc_call_token(call)};
	uint64_t left_us = rpc_call_left_us(call);
	cleanup(unary_freep) struct unary *unary = malloc(sizeof(*unary));

	if (!unary)
		return error_no_memory(err, "a call");
	*unary = (struct unary){.forward = f, .call = call, .is_write = is_write};
	TRY(count_caller(f, call, &unary->caller, err));
	TRY(find_upstream(f, &f->calls, &unary->upstream, err));
	TRY(rpc_client_call_for(unary->upstream->client, &behalf, rpc_call_service(call),
				rpc_call_method(call), request, left_us < CALL_US ? left_us : CALL_US,
				on_done, unary, &unary->pending, err));
	rpc_call_set_data(call, unary);
	TAKE_PTR(unary)->upstream->n_used++;
	return STATUS_OK;
}

static void hand_on(struct rpc_call *call, const ProtobufCMessage *request, void *userdata, bool is_write)
{
	struct error err;

	if (start_call(userdata, call, request, is_write, &err) != STATUS_OK)
		rpc_call_fail_unchanged(call, &err, NULL);
}

static void hand_on_read(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	hand_on(call, request, userdata, false);
}

/* Not for writes: the leader carries them out, and each counts for its caller as long. */
static void on_read_gone(struct rpc_call *call, void *userdata)
{
	static const struct error gone = {.status = STATUS_CANCELLED, .msg = "the caller has gone"};
	cleanup(unary_freep) struct unary *unary = rpc_call_data(call);

	rpc_pending_cancel(unary->pending);
	unary->upstream->n_used--;
	rpc_call_fail(call, &gone);
}

static void hand_on_write(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	hand_on(call, request, userdata, true);
}

/* --- streams --- */

struct relayed {
	struct forward *forward;
	struct rpc_call *call; /* NULL: its caller has gone */
	struct upstream *upstream;
	struct peer_count *caller;
	struct rpc_stream *stream; /* at the leader; NULL: it has ended */
	bool is_write;		   /* the leader may have changed something for it */
};

static void leave_leader(struct relayed *relayed)
{
	if (!relayed->stream)
		return;
	relayed->upstream->n_used--;
	relayed->stream = NULL;
}

/* One side cannot take what the other one sends. */
static void give_up(struct relayed *relayed, const struct error *err)
{
	rpc_stream_cancel(relayed->stream);
	leave_leader(relayed);
	rpc_call_fail(relayed->call, err);
}

static void on_leader_open(struct rpc_stream *stream, void *userdata)
{
	const struct relayed *relayed = userdata;

	if (relayed->forward->is_lost)
		find_leader(relayed->forward);
}

static void on_leader_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	struct relayed *relayed = userdata;
	struct error err;

	if (rpc_call_send(relayed->call, message, &err) != STATUS_OK)
		give_up(relayed, &err);
	else if (rpc_call_is_full(relayed->call))
		rpc_stream_pause(stream, true);
}

static void on_leader_drained(struct rpc_stream *stream, void *userdata)
{
	const struct relayed *relayed = userdata;

	rpc_call_pause(relayed->call, false);
}

static void on_leader_closed(struct rpc_stream *stream, enum status status, const struct error *err,
			     void *userdata)
{
	struct relayed *relayed = userdata;
	const struct rpc_client *client = relayed->upstream->client;

	leave_leader(relayed);
	if (status == STATUS_UNAVAILABLE && !rpc_client_message(client) && !rpc_client_was_refused(client))
		disconnect_leader(relayed->forward);
	else if (status != STATUS_UNAVAILABLE && rpc_client_message(client) && relayed->forward->is_lost)
		find_leader(relayed->forward); /* a refusal is an answer */
	if (status == STATUS_OK)
		rpc_call_finish(relayed->call);
	else if (status != STATUS_CANCELLED || rpc_client_message(client) || !rpc_call_abort(relayed->call))
		fail_call(relayed->forward, relayed->call, client, relayed->is_write, err);
}

static enum status open_stream(struct forward *f, struct pool *pool, struct relayed *relayed,
			       struct error *err)
{
	static const struct rpc_stream_events events = {.on_open = on_leader_open,
							.on_message = on_leader_message,
							.on_closed = on_leader_closed,
							.on_drained = on_leader_drained};
	const struct rpc_behalf behalf = {.peer = rpc_call_peer(relayed->call),
					  .token = rpc_call_token(relayed->call)};

	TRY(count_caller(f, relayed->call, &relayed->caller, err));
	TRY(find_upstream(f, pool, &relayed->upstream, err));
	TRY(rpc_stream_open_for(relayed->upstream->client, &behalf, rpc_call_service(relayed->call),
				rpc_call_method(relayed->call), OPEN_US, &events, relayed, &relayed->stream,
				err));
	relayed->upstream->n_used++;
	return STATUS_OK;
}

/* Only the leader knows the rights of a caller. A caller without an identity has no rights. */
static enum status check_identity(const struct rpc_call *call, struct error *err)
{
	if (rpc_call_token(call) || rpc_call_peer(call)->uri[0] != '\0')
		return STATUS_OK;
	return error_set(err, STATUS_UNAUTHENTICATED, 0,
			 "this call needs a token (--token-file) or a certificate (--cert and --key)");
}

static void open_from(struct rpc_call *call, struct forward *f, struct pool *pool)
{
	struct relayed *relayed = NULL;
	struct error err;
	enum status status = check_identity(call, &err);

	if (status != STATUS_OK) {
		rpc_call_fail(call, &err);
		return;
	}
	relayed = malloc(sizeof(*relayed));
	if (!relayed) {
		(void)error_no_memory(&err, "a stream");
		rpc_call_fail(call, &err);
		return;
	}
	*relayed = (struct relayed){.forward = f, .call = call};
	rpc_call_set_data(call, relayed);
	status = open_stream(f, pool, relayed, &err);
	if (status != STATUS_OK)
		rpc_call_fail(call, &err);
}

static void on_open(struct rpc_call *call, void *userdata)
{
	struct forward *f = userdata;

	open_from(call, f, &f->streams);
}

static void on_open_session(struct rpc_call *call, void *userdata)
{
	struct forward *f = userdata;

	open_from(call, f, &f->sessions);
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct relayed *relayed = rpc_call_data(call);
	struct error err;

	if (!relayed->stream)
		return;
	if (rpc_stream_send(relayed->stream, message, &err) != STATUS_OK)
		give_up(relayed, &err);
	else if (rpc_stream_is_full(relayed->stream))
		rpc_call_pause(call, true);
}

/* A method that changes something, such as Exec, does so once it has a message. */
static void on_write_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct relayed *relayed = rpc_call_data(call);

	relayed->is_write = true;
	on_message(call, message, userdata);
}

static void on_half_close(struct rpc_call *call, void *userdata)
{
	const struct relayed *relayed = rpc_call_data(call);

	if (relayed->stream)
		rpc_stream_half_close(relayed->stream);
}

static void on_drained(struct rpc_call *call, void *userdata)
{
	const struct relayed *relayed = rpc_call_data(call);

	if (relayed->stream)
		rpc_stream_pause(relayed->stream, false);
}

static void on_closed(struct rpc_call *call, void *userdata)
{
	struct relayed *relayed = rpc_call_data(call);

	if (!relayed)
		return;
	rpc_stream_cancel(relayed->stream);
	leave_leader(relayed);
	peer_count_leave(&relayed->forward->callers, relayed->caller);
	free(relayed);
}

/* --- which --- */

/* The one that finds out whether a leader that was lost is there again? */
static bool reset_trying(struct forward *f, const struct lead_view *view)
{
	bool is_trying = f->is_trying && view->is_known;

	f->is_trying = false;
	return is_trying;
}

const struct rpc_method *forward_relay(const struct rpc_call *call, const struct rpc_method *method,
				       void *userdata)
{
	static const struct rpc_stream_handlers handlers = {.on_open = on_open,
							    .on_message = on_message,
							    .on_half_close = on_half_close,
							    .on_drained = on_drained,
							    .on_closed = on_closed};
	static const struct rpc_stream_handlers write_handlers = {.on_open = on_open,
								  .on_message = on_write_message,
								  .on_half_close = on_half_close,
								  .on_drained = on_drained,
								  .on_closed = on_closed};
	static const struct rpc_stream_handlers session_handlers = {.on_open = on_open_session,
								    .on_message = on_message,
								    .on_half_close = on_half_close,
								    .on_drained = on_drained,
								    .on_closed = on_closed,
								    .is_prompt = true};
	static const struct rpc_method read = {
		.name = "read", .unary = hand_on_read, .on_gone = on_read_gone};
	static const struct rpc_method write = {.name = "write", .unary = hand_on_write};
	static const struct rpc_method stream = {.name = "stream", .stream = &handlers};
	static const struct rpc_method write_stream = {.name = "write", .stream = &write_handlers};
	static const struct rpc_method session = {.name = "session", .stream = &session_handlers};
	static const struct rpc_method background = {
		.name = "background", .stream = &session_handlers, .is_background = true};
	struct forward *f = userdata;
	struct lead_view view;

	if (!f->lead)
		return NULL;
	lead_view(f->lead, &view);
	if (method->stream && f->is_lost && !view.is_own && check_identity(call, NULL) == STATUS_OK &&
	    !reset_trying(f, &view) && may_hold(f))
		return &rpc_relay_later;
	if (!view.is_known || view.is_own) /* the gate reports it */
		return NULL;
	if (method->stream && f->changes(method))
		return &write_stream;
	if (method->stream && method->stream->is_prompt)
		return method->is_background ? &background : &session;
	if (method->stream)
		return &stream;
	return f->changes(method) ? &write : &read;
}

/* --- life --- */

enum status forward_new(sd_event *event, struct rpc_server *server, struct rpc_tls *tls, const char *cluster,
			forward_changes_fn *changes, forward_renewed_fn *renewed, struct forward **ret,
			struct error *err)
{
	struct forward *f = calloc(1, sizeof(*f));

	if (!f)
		return error_no_memory(err, "the call that is handed on");
	*f = (struct forward){.event = event,
			      .server = server,
			      .tls = tls,
			      .changes = changes,
			      .renewed = renewed,
			      .calls.upstreams = LIST_HEAD_INITIALIZER(f->calls.upstreams),
			      .streams.upstreams = LIST_HEAD_INITIALIZER(f->streams.upstreams),
			      .sessions.upstreams = LIST_HEAD_INITIALIZER(f->sessions.upstreams),
			      .callers = RB_INITIALIZER(&f->callers)};
	(void)str_format(f->uri, sizeof(f->uri), "holdfast://%s/server/", cluster);
	*ret = f;
	return STATUS_OK;
}

void forward_follow(struct forward *f, struct lead *lead)
{
	assert(!f->lead);
	f->lead = lead;
	lead_watch(lead, on_change, f);
	disconnect_leader(f); /* until one is known */
}

static void reconnect_pool(const struct pool *pool)
{
	const struct upstream *upstream;

	LIST_FOREACH (upstream, &pool->upstreams, all)
		rpc_client_reconnect(upstream->client);
}

void forward_reconnect(struct forward *f)
{
	struct lead_view view;

	if (!f)
		return;
	reconnect_pool(&f->calls);
	reconnect_pool(&f->streams);
	reconnect_pool(&f->sessions);
	if (f->prober)
		rpc_client_reconnect(f->prober);
	if (!f->lead)
		return;
	lead_view(f->lead, &view);
	follow_view(f, &view);
}

void forward_free(struct forward *f)
{
	if (!f)
		return;
	if (f->lead)
		lead_watch(f->lead, NULL, NULL);
	(void)sd_event_source_disable_unref(f->retry);
	f->retry = NULL;
	drop_connections(f);
	(void)sd_event_source_disable_unref(f->probe_timer);
	free(f);
}
