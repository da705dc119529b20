/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of fencers. */

#include "fence/fencers.h"

#include "server.h"

#include "access/audit.h"
#include "access/caller.h"
#include "access/words.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/rate_counted.h"
#include "base/str.h"
#include "log/log.h"
#include "node/lookup.h"
#include "rpc/wakeup.h"
#include "state/change.h"
#include "ticket/ticket.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/queue.h>

enum {
	HELLO_MAX_MS = 10000,
	HEARTBEATS_MISSED = 3,
	KEYS_MAX = 4,		/* in a fencer's file */
	LINE_COST_US = 1000000, /* about the switches of one fencer, after LINES_BURST: one a second */
	LINES_BURST = 20,
	CONNECT_COST_US = 60000000, /* records of one fencer's sessions, after CONNECTS_BURST: one a minute */
	CONNECTS_BURST = 10,
};

#define CERTIFICATE_WARN_MS (INT64_C(30) * 24 * 3600 * 1000)

/* A node in a fencer's file. */
struct fencer_node {
	char id[NODE_ID_MAX + 1];
	char agent[NODE_ID_MAX + 1];
	int64_t checked_ms;
	char error[FENCER_TEXT_SIZE];
	uint64_t named; /* the hello that named it first, by number; each hello since has named it too */
};

/* A stream of a fencer. */
struct stream {
	struct fencer *fencer;
	struct rpc_call *call;
	bool is_closing;
	sd_event_source *timer; /* owned; until hello, then while nothing is heard */
};

struct fencer {
	struct server *server;
	LIST_ENTRY(fencer) of_fencers;
	char name[NODE_ID_MAX + 1];
	char address[RPC_ADDRESS_SIZE];
	char version[NODE_ID_MAX + 1];
	struct stream *dialed;	/* owned; the newest without hello; NULL: no such stream */
	struct stream *session; /* owned; the one whose hello was taken; NULL: it is away */
	uint8_t keys[KEYS_MAX * TICKET_KEY_ID_SIZE]; /* of its last hello */
	size_t n_keys;				     /* 0: it shows no key */
	bool has_other_keys;	       /* its file has not this server's ticket key: it refuses every order */
	int64_t since_ms;	       /* that it is connected, or away */
	int64_t issued_ms, expires_ms; /* its certificate */
	struct fencer_node *nodes;     /* owned; in the order of their ids */
	size_t n_nodes;
	struct rate_counted lines;    /* of the log about its switches */
	struct rate_counted connects; /* records of its sessions */
};

LIST_HEAD(fencer_list, fencer);

struct fencers {
	const struct server *server;
	const struct fence_bindings *bindings; /* borrowed, of the settings */
	const struct fencer_events *events;
	struct fencer_list list;
	size_t n;
	uint64_t n_hellos;
};

enum status fencers_new(struct server *server, const struct fencer_events *events, struct fencers **ret,
			struct error *err)
{
	struct fencers *fencers = calloc(1, sizeof(*fencers));

	if (!fencers)
		return error_no_memory(err, "the list of fencers");
	fencers->server = server;
	fencers->bindings = &server->config.fence_bindings;
	fencers->events = events;
	LIST_INIT(&fencers->list);
	*ret = fencers;
	return STATUS_OK;
}

/* Frees the stream, whose call has ended or is ended by the caller; NULL is allowed. */
static void stream_free(struct stream *stream)
{
	if (stream)
		wakeup_disarm(&stream->timer);
	free(stream);
}

static void fencer_free(struct fencers *fencers, struct fencer *fencer)
{
	LIST_REMOVE(fencer, of_fencers);
	fencers->n--;
	stream_free(fencer->dialed);
	stream_free(fencer->session);
	free(fencer->nodes);
	free(fencer);
}

void fencers_free(struct fencers *fencers)
{
	struct fencer *fencer;

	if (!fencers)
		return;
	while ((fencer = LIST_FIRST(&fencers->list)))
		fencer_free(fencers, fencer);
	free(fencers);
}

static bool is_ready(const struct fencer *fencer)
{
	return fencer->session && !fencer->session->is_closing;
}

static bool is_greeted(const struct stream *stream)
{
	return stream->fencer->session == stream;
}

/* Also one that is away. */
static struct fencer *find_any(const struct fencers *fencers, const char *name)
{
	struct fencer *fencer;

	LIST_FOREACH (fencer, &fencers->list, of_fencers)
		if (str_eq(fencer->name, name))
			return fencer;
	return NULL;
}

const struct fencer *fencers_find(const struct fencers *fencers, const char *name)
{
	const struct fencer *fencer = find_any(fencers, name);

	return fencer && is_ready(fencer) ? fencer : NULL;
}

static int compare_id(const void *id, const void *node)
{
	return strcmp(id, ((const struct fencer_node *)node)->id);
}

static int compare_nodes(const void *a, const void *b)
{
	return compare_id(((const struct fencer_node *)a)->id, b);
}

static struct fencer_node *find_node(const struct fencer *fencer, const char *node)
{
	return fencer->n_nodes > 0
		       ? bsearch(node, fencer->nodes, fencer->n_nodes, sizeof(*fencer->nodes), compare_id)
		       : NULL;
}

bool fencers_allow(const struct fencers *fencers, const char *fencer, const char *node)
{
	return fence_bindings_allow(fencers->bindings, fencer, node);
}

static bool is_healthy(const struct fencer *fencer, const struct fencer_node *node)
{
	return node->checked_ms != 0 && node->error[0] == '\0' && !fencer->has_other_keys;
}

/* A healthy one first; of two, the one that named the node first, also when another dials later. */
static bool comes_before(const struct fencer *a, const struct fencer_node *of_a, const struct fencer *b,
			 const struct fencer_node *of_b)
{
	if (is_healthy(a, of_a) != is_healthy(b, of_b))
		return is_healthy(a, of_a);
	return of_a->named < of_b->named;
}

const struct fencer *fencers_for_node(const struct fencers *fencers, const char *node)
{
	const struct fencer *fencer, *best = NULL;
	const struct fencer_node *entry, *of_best = NULL;

	LIST_FOREACH (fencer, &fencers->list, of_fencers) {
		entry = is_ready(fencer) ? find_node(fencer, node) : NULL;
		if (!entry || !fencers_allow(fencers, fencer->name, node) ||
		    (best && !comes_before(fencer, entry, best, of_best)))
			continue;
		best = fencer;
		of_best = entry;
	}
	return best;
}

static bool was_tried(const char *name, const char *last, char *const *tried, size_t n_tried)
{
	for (size_t i = 0; i < n_tried; i++)
		if (str_eq(tried[i], name))
			return true;
	return str_eq(name, last);
}

const struct fencer *fencers_other(const struct fencers *fencers, const char *node, const char *last,
				   char *const *tried, size_t n_tried)
{
	const struct fencer *fencer;
	const struct fencer_node *entry;

	LIST_FOREACH (fencer, &fencers->list, of_fencers) {
		entry = is_ready(fencer) ? find_node(fencer, node) : NULL;
		if (entry && is_healthy(fencer, entry) && fencers->bindings->n > 0 &&
		    fencers_allow(fencers, fencer->name, node) &&
		    !was_tried(fencer->name, last, tried, n_tried))
			return fencer;
	}
	return NULL;
}

const char *fencer_name(const struct fencer *fencer)
{
	return fencer->name;
}

const char *fencer_address(const struct fencer *fencer)
{
	return fencer->address;
}

/* --- the stream --- */

static void end_stream(struct stream *stream, const struct error *err)
{
	if (stream->is_closing)
		return;
	stream->is_closing = true;
	log_ctx(LOG_WARNING, &(struct log_ctx){.op = "fencer", .err = err}, "ending the session of fencer %s",
		stream->fencer->name);
	rpc_call_fail(stream->call, err);
}

/* Ends the stream, if there is one, because a newer one takes its place. */
static void replace_stream(struct stream *stream)
{
	static const struct error replaced = {.status = STATUS_ABORTED,
					      .msg = "the fencer has opened a newer session"};

	if (!stream)
		return;
	rpc_call_set_data(stream->call, NULL);
	if (!stream->is_closing)
		rpc_call_fail(stream->call, &replaced);
	stream_free(stream);
}

static enum status send_down(struct fencer *fencer, const Holdfast__V1__FencerDown *down, struct error *err)
{
	struct error sending;

	if (!is_ready(fencer))
		return error_set(err, STATUS_UNAVAILABLE, 0, "fencer %s is not connected", fencer->name);
	if (rpc_call_send(fencer->session->call, &down->base, &sending) == STATUS_OK)
		return STATUS_OK;
	end_stream(fencer->session, &sending);
	if (err)
		*err = sending;
	return sending.status;
}

enum status fencer_send(const struct fencer *fencer, const void *order, size_t n, struct error *err)
{
	Holdfast__V1__FencerDown down = HOLDFAST__V1__FENCER_DOWN__INIT;

	down.message_case = HOLDFAST__V1__FENCER_DOWN__MESSAGE_ORDER;
	down.order = (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)order}; /* only read */
	return send_down(find_any(fencer->server->fencers, fencer->name), &down, err);
}

static int on_silent(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct stream *stream = userdata;
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
			is_greeted(stream) ? "nothing was heard of fencer %s for %d heartbeats"
					   : "no hello came from fencer %s in time (%d ms)",
			stream->fencer->name, is_greeted(stream) ? HEARTBEATS_MISSED : HELLO_MAX_MS);
	end_stream(stream, &err);
	return 0;
}

static enum status rearm(struct stream *stream, struct error *err)
{
	struct server *server = stream->fencer->server;
	uint64_t delay_us = is_greeted(stream) ? HEARTBEATS_MISSED * server->config.heartbeat_us
					       : HELLO_MAX_MS * USEC_PER_MSEC;

	return wakeup_arm(server->event, &stream->timer, delay_us, on_silent, stream, err);
}

static enum status copy_node(const Holdfast__V1__FencerNode *from, struct fencer_node *to, struct error *err)
{
	if (!id_is_name(from->id, NODE_ID_MAX) || !id_is_name(from->agent, NODE_ID_MAX))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "a fencer's node or agent is no name of up to %d bytes", NODE_ID_MAX);
	(void)str_copy(to->id, sizeof(to->id), from->id);
	(void)str_copy(to->agent, sizeof(to->agent), from->agent);
	to->checked_ms = from->checked_ms;
	str_copy_text(to->error, sizeof(to->error), from->error);
	return STATUS_OK;
}

static enum status send_welcome(struct fencer *fencer, struct error *err)
{
	Holdfast__V1__FencerDown down = HOLDFAST__V1__FENCER_DOWN__INIT;
	Holdfast__V1__FencerWelcome welcome = HOLDFAST__V1__FENCER_WELCOME__INIT;
	static char version[] = HOLDFAST_VERSION;

	welcome.server_version = version;
	welcome.cluster = fencer->server->config.cluster;
	welcome.heartbeat_ms = (uint32_t)(fencer->server->config.heartbeat_us / USEC_PER_MSEC);
	welcome.clock_ms = clock_realtime_ms();
	down.message_case = HOLDFAST__V1__FENCER_DOWN__MESSAGE_WELCOME;
	down.welcome = &welcome;
	return send_down(fencer, &down, err);
}

/* A fencer that shows no keys is taken at its orders. */
static bool has_our_key(const struct fencer *fencer)
{
	uint8_t ours[TICKET_KEY_SIZE];

	ticket_issuer_public_key(fencer->server->issuer, ours);
	for (size_t i = 0; i < fencer->n_keys; i++)
		if (memcmp(fencer->keys + i * TICKET_KEY_ID_SIZE, ours, TICKET_KEY_ID_SIZE) == 0)
			return true;
	return fencer->n_keys == 0;
}

static void take_keys(struct fencer *fencer, const ProtobufCBinaryData *keys)
{
	fencer->n_keys = MIN(keys->len / TICKET_KEY_ID_SIZE, (size_t)KEYS_MAX);
	if (fencer->n_keys > 0)
		memcpy(fencer->keys, keys->data, fencer->n_keys * TICKET_KEY_ID_SIZE);
	fencer->has_other_keys = !has_our_key(fencer);
}

void fencers_compare_keys(struct fencers *fencers)
{
	struct fencer *fencer;

	if (!fencers)
		return;
	LIST_FOREACH (fencer, &fencers->list, of_fencers)
		fencer->has_other_keys = !has_our_key(fencer);
}

/* A node that the fencer named in its last session keeps its place. */
static void keep_place(const struct fencer *fencer, struct fencer_node *node)
{
	const struct fencer_node *before = find_node(fencer, node->id);

	node->named = before ? before->named : fencer->server->fencers->n_hellos;
}

/* Records the new session and the open one that it replaces, which may be another machine's. The session is
 * taken without the record too: fences go on while the disk has room only for releases. */
static void note_connect(struct fencer *fencer, const struct stream *stream)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[sizeof("fencer ") + NODE_ID_MAX], why[AUDIT_WHY_SIZE], more[RATE_MORE_SIZE];
	struct error err;

	if (!rate_take_counted(&fencer->connects, CONNECT_COST_US, CONNECTS_BURST, clock_monotonic_us(),
			       more))
		return;
	(void)str_format(object, sizeof(object), "fencer %s", fencer->name);
	(void)str_format(why, sizeof(why), "from %s%s%s%s", rpc_call_peer(stream->call)->address,
			 is_ready(fencer) ? "; it replaces the open session from " : "",
			 is_ready(fencer) ? fencer->address : "", more);
	audit_silent(fencer->server, &change, NULL, "Fences.Connect", object, why);
	if (change_commit(fencer->server, &change, NULL, NULL, &err) != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "fencer", .err = &err},
			"cannot record the session of %s %s, ignoring", object, why);
}

static void adopt_session(struct fencer *fencer, struct stream *stream)
{
	const struct rpc_peer *peer = rpc_call_peer(stream->call);

	if (fencer->session) {
		replace_stream(TAKE_PTR(fencer->session));
		fencer->server->fencers->events->left(fencer->server, fencer->name);
	}
	fencer->dialed = NULL;
	fencer->session = stream;
	fencer->since_ms = clock_realtime_ms();
	fencer->issued_ms = peer->issued_ms;
	fencer->expires_ms = peer->expires_ms;
	str_copy_text(fencer->address, sizeof(fencer->address), peer->address);
}

static enum status take_hello(struct stream *stream, const Holdfast__V1__FencerHello *hello,
			      struct error *err)
{
	struct fencer *fencer = stream->fencer;
	cleanup_free struct fencer_node *nodes = NULL;

	if (is_greeted(stream))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "a second hello of a fencer");
	if (hello->n_nodes > FENCER_NODES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "a fencer has at most %d nodes",
				 FENCER_NODES_MAX);
	nodes = calloc(hello->n_nodes + 1, sizeof(*nodes));
	if (!nodes)
		return error_no_memory(err, "a fencer");
	fencer->server->fencers->n_hellos++;
	for (size_t i = 0; i < hello->n_nodes; i++) {
		TRY(copy_node(hello->nodes[i], &nodes[i], err));
		keep_place(fencer, &nodes[i]);
	}
	qsort(nodes, hello->n_nodes, sizeof(*nodes), compare_nodes);
	note_connect(fencer, stream);
	adopt_session(fencer, stream);
	free(fencer->nodes);
	fencer->nodes = TAKE_PTR(nodes);
	fencer->n_nodes = hello->n_nodes;
	str_copy_text(fencer->version, sizeof(fencer->version), hello->fencer_version);
	take_keys(fencer, &hello->ticket_keys);
	TRY(send_welcome(fencer, err));
	log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "fencer", .peer = fencer->address},
		"fencer %s is connected, with the switches of %zu node%s", fencer->name, fencer->n_nodes,
		str_s(fencer->n_nodes));
	fencer->server->fencers->events->ready(fencer->server, fencer->name);
	return STATUS_OK;
}

static enum status take_node(struct fencer *fencer, const Holdfast__V1__FencerNode *from, struct error *err)
{
	struct fencer_node node = {.checked_ms = 0};
	struct fencer_node *entry;
	char more[RATE_MORE_SIZE];

	TRY(copy_node(from, &node, err));
	entry = find_node(fencer, node.id);
	if (!entry)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the fencer's hello has no node %s",
				 node.id);
	if (node.error[0] != '\0' && !str_eq(node.error, entry->error) &&
	    rate_take_counted(&fencer->lines, LINE_COST_US, LINES_BURST, clock_monotonic_us(), more))
		log_ctx(LOG_WARNING, &(struct log_ctx){.node = node.id, .op = "fencer"},
			"fencer %s cannot look at the power switch of node %s: %s%s", fencer->name, node.id,
			node.error, more);
	node.named = entry->named;
	*entry = node;
	return STATUS_OK;
}

static enum status take_message(struct stream *stream, const Holdfast__V1__FencerUp *up, struct error *err)
{
	struct fencer *fencer = stream->fencer;

	if (up->message_case == HOLDFAST__V1__FENCER_UP__MESSAGE_HELLO)
		return take_hello(stream, up->hello, err);
	if (!is_greeted(stream))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the first message of a fencer's session is hello");
	switch (up->message_case) {
	case HOLDFAST__V1__FENCER_UP__MESSAGE_HEARTBEAT:
		return STATUS_OK;
	case HOLDFAST__V1__FENCER_UP__MESSAGE_NODE:
		return take_node(fencer, up->node, err);
	case HOLDFAST__V1__FENCER_UP__MESSAGE_ANSWER:
		fencer->server->fencers->events->answer(fencer->server, fencer->name, up->answer);
		return STATUS_OK;
	case HOLDFAST__V1__FENCER_UP__MESSAGE_HELLO:
	case HOLDFAST__V1__FENCER_UP__MESSAGE__NOT_SET:
	case _HOLDFAST__V1__FENCER_UP__MESSAGE__CASE_IS_INT_SIZE:
		break;
	}
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "a fencer's message of a kind not known here");
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct stream *stream = rpc_call_data(call);
	struct error err;

	if (!stream || stream->is_closing)
		return;
	words_take(message);
	if (take_message(stream, (const Holdfast__V1__FencerUp *)(const void *)message, &err) != STATUS_OK ||
	    rearm(stream, &err) != STATUS_OK)
		end_stream(stream, &err);
}

/* The entry of the name: a new one, or that of a fencer which is away. */
static enum status take_entry(struct server *server, const char *name, struct fencer **ret, struct error *err)
{
	struct fencers *fencers = server->fencers;
	struct fencer *fencer = find_any(fencers, name);

	if (!fencer && fencers->n == FENCERS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "%d fencers are known already",
				 FENCERS_MAX);
	if (!fencer) {
		fencer = calloc(1, sizeof(*fencer));
		if (!fencer)
			return error_no_memory(err, "a fencer");
		fencer->server = server;
		fencer->since_ms = clock_realtime_ms();
		(void)str_copy(fencer->name, sizeof(fencer->name), name);
		LIST_INSERT_HEAD(&fencers->list, fencer, of_fencers);
		fencers->n++;
	}
	*ret = fencer;
	return STATUS_OK;
}

/* An open session goes on until the hello of the new stream is taken. One stream waits for its hello. */
static enum status dial(struct fencer *fencer, struct rpc_call *call, struct error *err)
{
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return error_no_memory(err, "a fencer's session");
	stream->fencer = fencer;
	stream->call = call;
	if (rearm(stream, err) != STATUS_OK) {
		stream_free(stream);
		return err->status;
	}
	replace_stream(fencer->dialed);
	fencer->dialed = stream;
	rpc_call_set_data(call, stream);
	return STATUS_OK;
}

static void on_open(struct rpc_call *call, void *userdata)
{
	struct server *server = userdata;
	struct fencer *fencer = NULL;
	struct identity who;
	struct error err;
	enum status status = access_check_fencer(server, call, &who, &err);

	if (status == STATUS_OK)
		status = take_entry(server, who.name, &fencer, &err);
	if (status == STATUS_OK)
		status = dial(fencer, call, &err);
	if (status != STATUS_OK)
		rpc_call_fail(call, &err);
}

static void on_closed(struct rpc_call *call, void *userdata)
{
	struct stream *stream = rpc_call_data(call);
	struct fencer *fencer;

	if (!stream)
		return;
	fencer = stream->fencer;
	if (is_greeted(stream)) {
		fencer->session = NULL;
		fencer->since_ms = clock_realtime_ms();
		fencer->server->fencers->events->left(fencer->server, fencer->name);
		if (!fencer->server->is_ending)
			log_ctx(LOG_WARNING,
				&(struct log_ctx){.op = "fencer", .event = LOG_EVENT_FENCER_AWAY},
				"fencer %s is disconnected: it cannot fence anything before it is back",
				fencer->name);
	} else {
		fencer->dialed = NULL;
	}
	stream_free(stream);
}

const struct rpc_stream_handlers fencers_stream = {
	.on_open = on_open,
	.on_message = on_message,
	.on_closed = on_closed,
	.is_prompt = true,
};

/* --- for people --- */

/* Why it is in doubt whether the fencer has the switch of the node. False: there is no doubt. */
static bool describe_doubt(const struct fencer *fencer, const char *node, char ret[static FENCER_TEXT_SIZE])
{
	const struct fencers *fencers = fencer->server->fencers;
	const struct fencer *other;

	if (!fencers_allow(fencers, fencer->name, node)) {
		(void)str_format(ret, FENCER_TEXT_SIZE,
				 "the block of fencer %s in server.hcl does not have this node",
				 fencer->name);
		return true;
	}
	LIST_FOREACH (other, &fencers->list, of_fencers) {
		if (fencers->bindings->n > 0 || other == fencer || !is_ready(other) ||
		    !find_node(other, node))
			continue;
		(void)str_format(ret, FENCER_TEXT_SIZE,
				 "fencer %s has this node too, and server.hcl binds neither to it: see "
				 "holdfast-server.hcl(5), fencer",
				 other->name);
		return true;
	}
	return false;
}

static bool show_node(const struct fencer *fencer, const struct fencer_node *node,
		      Holdfast__V1__FencerNode *ret)
{
	char doubt[FENCER_TEXT_SIZE] = "";

	if (node->error[0] == '\0')
		(void)describe_doubt(fencer, node->id, doubt);
	ret->id = strdup(node->id);
	ret->agent = strdup(node->agent);
	ret->checked_ms = node->checked_ms;
	ret->error = strdup(doubt[0] != '\0' ? doubt : node->error);
	return ret->id && ret->agent && ret->error;
}

static bool show(const struct fencer *fencer, Holdfast__V1__Fencer *ret)
{
	ret->name = strdup(fencer->name);
	ret->address = strdup(fencer->address);
	ret->version = strdup(fencer->version);
	ret->connected_ms = fencer->since_ms;
	ret->nodes = calloc(fencer->n_nodes + 1, sizeof(Holdfast__V1__FencerNode *));
	if (!ret->name || !ret->address || !ret->version || !ret->nodes)
		return false;
	for (size_t i = 0; i < fencer->n_nodes; i++) {
		Holdfast__V1__FencerNode *node = malloc(sizeof(*node));

		if (!node)
			return false;
		holdfast__v1__fencer_node__init(node);
		ret->nodes[ret->n_nodes++] = node;
		if (!show_node(fencer, &fencer->nodes[i], node))
			return false;
	}
	return true;
}

bool fencers_show(const struct fencers *fencers, Holdfast__V1__ListFencesResponse *response)
{
	const struct fencer *fencer;

	response->fencers = calloc(fencers->n + 1, sizeof(Holdfast__V1__Fencer *));
	if (!response->fencers)
		return false;
	LIST_FOREACH (fencer, &fencers->list, of_fencers) {
		Holdfast__V1__Fencer *shown = is_ready(fencer) ? malloc(sizeof(*shown)) : NULL;

		if (!is_ready(fencer))
			continue;
		if (!shown)
			return false;
		holdfast__v1__fencer__init(shown);
		response->fencers[response->n_fencers++] = shown;
		if (!show(fencer, shown))
			return false;
	}
	return true;
}

static const struct fencer_node *find_failing(const struct fencer *fencer)
{
	for (size_t i = 0; i < fencer->n_nodes; i++)
		if (fencer->nodes[i].error[0] != '\0')
			return &fencer->nodes[i];
	return NULL;
}

/* Has the fencer of the block not connected since this server began to lead, long enough ago? */
static bool is_missing(const struct fencers *fencers, const struct fence_binding *binding)
{
	return nodes_led_ms(fencers->server) >= nodes_grace_ms(fencers->server) &&
	       !find_any(fencers, binding->fencer);
}

struct fencers_count fencers_count(const struct fencers *fencers)
{
	struct fencers_count count = {.connected = 0};
	const struct fencer *fencer;

	if (!fencers)
		return count;
	for (size_t i = 0; i < fencers->bindings->n; i++)
		count.away += is_missing(fencers, &fencers->bindings->list[i]);
	LIST_FOREACH (fencer, &fencers->list, of_fencers) {
		count.connected += is_ready(fencer);
		count.away += !is_ready(fencer);
		for (size_t i = 0; is_ready(fencer) && i < fencer->n_nodes; i++) {
			count.switches++;
			count.failing += fencer->nodes[i].error[0] != '\0';
		}
	}
	return count;
}

static bool warn_of_doubt(const struct fencer *fencer, char ret[static FENCERS_WARNING_SIZE])
{
	char doubt[FENCER_TEXT_SIZE];

	for (size_t i = 0; is_ready(fencer) && i < fencer->n_nodes; i++)
		if (describe_doubt(fencer, fencer->nodes[i].id, doubt)) {
			(void)str_format(ret, FENCERS_WARNING_SIZE, "fencer %s, node %s: %s", fencer->name,
					 fencer->nodes[i].id, doubt);
			return true;
		}
	return false;
}

/* In the last quarter of its life, at most 30 days before: nothing renews it. */
static bool ends_soon(const struct fencer *fencer)
{
	int64_t warn_ms = (fencer->expires_ms - fencer->issued_ms) / 4;

	if (warn_ms > CERTIFICATE_WARN_MS)
		warn_ms = CERTIFICATE_WARN_MS;
	return fencer->expires_ms > 0 && fencer->expires_ms - clock_realtime_ms() < warn_ms;
}

static bool warn_of_missing(const struct fencers *fencers, char ret[static FENCERS_WARNING_SIZE])
{
	for (size_t i = 0; i < fencers->bindings->n; i++)
		if (is_missing(fencers, &fencers->bindings->list[i])) {
			(void)str_format(ret, FENCERS_WARNING_SIZE,
					 "fencer %s of server.hcl has not connected since this server began "
					 "to lead: nodes that only it can switch off keep their volumes if "
					 "they fail; see systemctl status holdfast-fencer on its machine",
					 fencers->bindings->list[i].fencer);
			return true;
		}
	return false;
}

bool fencers_warning(const struct fencers *fencers, char ret[static FENCERS_WARNING_SIZE])
{
	const struct fencer_node *node;
	const struct fencer *fencer;
	char time[CLOCK_TEXT_SIZE];

	LIST_FOREACH (fencer, &fencers->list, of_fencers)
		if (warn_of_doubt(fencer, ret))
			return true;
	LIST_FOREACH (fencer, &fencers->list, of_fencers) {
		if (!is_ready(fencer)) {
			(void)str_format(
				ret, FENCERS_WARNING_SIZE,
				"fencer %s is away since %s: nodes that only it can switch off keep "
				"their volumes if they fail; see systemctl status holdfast-fencer on "
				"its machine",
				fencer->name, clock_format(fencer->since_ms, time));
			return true;
		}
		if (fencer->has_other_keys) {
			(void)str_format(ret, FENCERS_WARNING_SIZE,
					 "fencer %s refuses every order: ticket_keys of its file lack the "
					 "cluster's key, which holdfast operator status shows",
					 fencer->name);
			return true;
		}
		if (ends_soon(fencer)) {
			(void)str_format(
				ret, FENCERS_WARNING_SIZE,
				"the certificate of fencer %s expires at %s, which ends its session; "
				"make another: holdfast operator cert enroll fencer/%s",
				fencer->name, clock_format(fencer->expires_ms, time), fencer->name);
			return true;
		}
		node = find_failing(fencer);
		if (node) {
			(void)str_format(ret, FENCERS_WARNING_SIZE,
					 "fencer %s cannot look at the power switch of node %s: %s. Try: "
					 "holdfast node fence --test %s",
					 fencer->name, node->id, node->error, node->id);
			return true;
		}
	}
	return warn_of_missing(fencers, ret);
}
