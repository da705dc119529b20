/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include "server.h"

#include "access/access.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "claim/claims.h"
#include "node/nodes.h"
#include "rpc/timer.h"
#include "state/change.h"
#include "state/keys.h"

#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum topic { TOPIC_VOLUME, TOPIC_CLAIM, TOPIC_NODE, TOPIC_PLUGIN, TOPIC_ALLOCATION, TOPIC_JOB, TOPIC_N };

static const struct {
	const char *name;
	enum access_right right;
	bool has_namespace;
} topics[TOPIC_N] = {
	[TOPIC_VOLUME] = {"volume", ACCESS_VOLUME_READ, true},
	[TOPIC_CLAIM] = {"claim", ACCESS_VOLUME_READ, true},
	[TOPIC_NODE] = {"node", ACCESS_NODE_READ, false},
	[TOPIC_PLUGIN] = {"plugin", ACCESS_PLUGIN_READ, false},
	[TOPIC_ALLOCATION] = {"allocation", ACCESS_JOB_READ, true},
	[TOPIC_JOB] = {"job", ACCESS_JOB_READ, true},
};

struct event {
	uint64_t index;
	enum topic topic;
	char *key;	 /* owned; as people name it */
	char *namespace; /* owned; NULL: no namespace */
	void *bytes;	 /* owned; NULL: deleted */
	size_t len;
};

struct watcher {
	LIST_ENTRY(watcher) entry;
	struct events *events;
	struct rpc_call *call;
	unsigned int topics;
	char namespace[NAMESPACE_MAX + 1]; /* "*": all that it may read */
	uint64_t next;			   /* serial of the event to be sent next */
	sd_event_source *pump;		   /* owned; while it catches up. Off until its stream is drained */
	bool has_begun, has_ended;
	char who[ACCESS_WHO_SIZE];
};

/* The last event of a topic that is no longer kept. */
struct lost {
	uint64_t index;
	uint64_t next; /* the serial behind it */
};

/* Events have serials from 0; [first, next) are kept. */
struct events {
	struct server *server;
	struct event ring[EVENTS_MAX];
	uint64_t first, next;
	uint64_t index; /* everything up to here was published */
	struct lost lost[TOPIC_N];
	size_t bytes;
	LIST_HEAD(, watcher) watchers;
	size_t n_watchers;
};

static struct event *event_at(struct events *events, uint64_t serial)
{
	return &events->ring[serial % EVENTS_MAX];
}

static size_t size_of(const struct event *event)
{
	return sizeof(*event) + event->len + strlen(event->key) + (event->namespace ? NAMESPACE_MAX : 0);
}

static void release_event(struct event *event)
{
	free(event->key);
	free(event->namespace);
	free(event->bytes);
}

static void drop_first(struct events *events)
{
	struct event *event = event_at(events, events->first++);

	events->lost[event->topic] = (struct lost){event->index, events->first};
	events->bytes -= size_of(event);
	release_event(event);
}

/* Drops every event: nothing is known up to @index. */
static void lose_all(struct events *events, uint64_t index)
{
	while (events->first < events->next)
		drop_first(events);
	for (int i = 0; i < TOPIC_N; i++)
		events->lost[i] = (struct lost){index, events->next};
}

enum status events_new(struct server *server, uint64_t index, struct events **ret, struct error *err)
{
	struct events *events = calloc(1, sizeof(*events));

	if (!events)
		return error_no_memory(err, "an event");
	events->server = server;
	events->index = index;
	lose_all(events, index);
	LIST_INIT(&events->watchers);
	*ret = events;
	return STATUS_OK;
}

void events_free(struct events *events)
{
	if (!events)
		return;
	lose_all(events, 0);
	free(events);
}

/* --- sending --- */

static bool wants(const struct watcher *watcher, const struct event *event)
{
	if (!(watcher->topics & (1U << event->topic)))
		return false;
	return !event->namespace || str_eq(watcher->namespace, "*") ||
	       str_eq(watcher->namespace, event->namespace);
}

static void end_watcher(struct watcher *watcher, const struct error *err)
{
	watcher->has_ended = true;
	watcher->pump = sd_event_source_disable_unref(watcher->pump);
	rpc_call_fail(watcher->call, err);
}

static void end_overtaken(struct watcher *watcher)
{
	struct error err;

	(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, 0,
			"this watcher reads more slowly than things change, or the server is short of "
			"memory; list again, then watch from there");
	end_watcher(watcher, &err);
}

/* Asked for every event: what a token may read can change while it watches, and one that is revoked or has
 * expired watches no longer. */
static bool may_read(struct watcher *watcher, const struct event *event)
{
	struct error err;
	enum status status = access_check(watcher->events->server, watcher->call, topics[event->topic].right,
					  event->namespace, &err);

	if (status == STATUS_UNAUTHENTICATED)
		end_watcher(watcher, &err);
	return status == STATUS_OK;
}

static void set_indexes(ProtobufCMessage *message, uint64_t index)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "modify_index");

	if (field)
		memcpy((char *)message + field->offset, &index, sizeof(index));
}

static void free_payload(ProtobufCMessage *payload)
{
	if (payload)
		protobuf_c_message_free_unpacked(payload, NULL);
}

/* Makes the message of the event in @ret; the caller owns the payload. */
static ProtobufCMessage *describe(struct server *server, const struct event *event,
				  Holdfast__V1__WatchEvent *ret)
{
	static const ProtobufCMessageDescriptor *const payloads[TOPIC_N] = {
		[TOPIC_VOLUME] = &holdfast__v1__volume__descriptor,
		[TOPIC_CLAIM] = &holdfast__v1__claim__descriptor,
		[TOPIC_NODE] = &holdfast__v1__node__descriptor,
		[TOPIC_ALLOCATION] = &holdfast__v1__allocation__descriptor,
		[TOPIC_JOB] = &holdfast__v1__job__descriptor,
	};
	const ProtobufCMessageDescriptor *descriptor = payloads[event->topic];
	ProtobufCMessage *payload = NULL;

	holdfast__v1__watch_event__init(ret);
	ret->index = event->index;
	ret->topic = (char *)(uintptr_t)topics[event->topic].name; /* only read */
	ret->key = event->key;
	ret->deleted = !event->bytes;
	if (event->bytes && descriptor)
		payload = protobuf_c_message_unpack(descriptor, NULL, event->len, event->bytes);
	if (!payload)
		return NULL;
	if (event->topic == TOPIC_NODE && !nodes_hide_machines(server, (Holdfast__V1__Node *)payload)) {
		free_payload(payload);
		return NULL;
	}
	set_indexes(payload, event->index);
	if (event->topic == TOPIC_VOLUME)
		ret->volume = (Holdfast__V1__Volume *)payload;
	else if (event->topic == TOPIC_CLAIM)
		ret->claim = (Holdfast__V1__Claim *)payload;
	else if (event->topic == TOPIC_NODE)
		ret->node = (Holdfast__V1__Node *)payload;
	else if (event->topic == TOPIC_JOB)
		ret->job = (Holdfast__V1__Job *)payload;
	else
		ret->allocation = (Holdfast__V1__Allocation *)payload;
	return payload;
}

static void send_event(struct watcher *watcher, const Holdfast__V1__WatchEvent *message)
{
	struct error err;

	if (rpc_call_send(watcher->call, &message->base, &err) != STATUS_OK)
		end_overtaken(watcher);
}

static bool has_missed(const struct watcher *watcher)
{
	for (int i = 0; i < TOPIC_N; i++)
		if (watcher->topics & (1U << i) && watcher->next < watcher->events->lost[i].next)
			return true;
	return false;
}

static void send_alone(struct watcher *watcher, const struct event *event)
{
	struct server *server = watcher->events->server;
	Holdfast__V1__WatchEvent message;
	ProtobufCMessage *payload = describe(server, event, &message);

	if (message.claim)
		claims_hide_boots(server, watcher->call, &message.claim, 1);
	send_event(watcher, &message);
	free_payload(payload);
}

static void send_one(struct watcher *watcher, const struct event *event)
{
	if (!wants(watcher, event) || !may_read(watcher, event))
		return;
	send_alone(watcher, event);
}

/* Sends some of the kept events, a turn of the loop at a time, as long as the stream takes them. A watcher
 * that events overtake ends when its stream has drained: little waits behind that end. */
static int on_pump(sd_event_source *source, void *userdata)
{
	struct watcher *watcher = userdata;
	struct events *events = watcher->events;
	bool is_full = rpc_call_is_full(watcher->call);

	if (has_missed(watcher)) {
		end_overtaken(watcher);
		return 0;
	}
	if (watcher->next < events->first)
		watcher->next = events->first;
	for (int i = 0; i < EVENTS_PER_TURN && watcher->next < events->next && !is_full; i++) {
		send_one(watcher, event_at(events, watcher->next++));
		if (watcher->has_ended) /* @source has gone with it */
			return 0;
		is_full = rpc_call_is_full(watcher->call);
	}
	if (watcher->next == events->next)
		watcher->pump = sd_event_source_disable_unref(watcher->pump);
	else if (!is_full)
		timer_again(&watcher->pump, on_pump);
	return 0;
}

static enum status start_pump(struct watcher *watcher, struct error *err)
{
	int r;

	if (watcher->next == watcher->events->next)
		return STATUS_OK;
	r = sd_event_add_defer(watcher->events->server->event, &watcher->pump, on_pump, watcher);
	return r < 0 ? error_set(err, status_from_errno(r), r, "catch up") : STATUS_OK;
}

/* Sends the event, just published, to all watchers that have seen everything before it; those whose stream is
 * full get it later. There are at most WATCHERS_MAX; the message is made once, if a watcher wants it. */
static void send_to_all(struct events *events, const struct event *event)
{
	Holdfast__V1__WatchEvent message;
	ProtobufCMessage *payload = NULL;
	bool is_described = false;
	struct watcher *watcher;
	struct error err;

	LIST_FOREACH (watcher, &events->watchers, entry) {
		if (!watcher->has_begun || watcher->has_ended || watcher->pump)
			continue;
		if (rpc_call_is_full(watcher->call)) {
			if (start_pump(watcher, &err) != STATUS_OK)
				end_watcher(watcher, &err);
			continue;
		}
		watcher->next = events->next;
		if (!wants(watcher, event) || !may_read(watcher, event))
			continue;
		if (event->topic == TOPIC_CLAIM &&
		    access_check(events->server, watcher->call, ACCESS_NODE_READ, NULL, NULL) != STATUS_OK) {
			send_alone(watcher, event); /* without the boot */
			continue;
		}
		if (!is_described)
			payload = describe(events->server, event, &message);
		is_described = true;
		send_event(watcher, &message);
	}
	free_payload(payload);
}

/* --- publishing --- */

/* @ret_namespace is empty for an object without one. */
static bool key_of(enum object_kind kind, const void *value, enum topic *ret_topic,
		   char ret_namespace[static NAMESPACE_MAX + 1], char key[static OBJECT_KEY_SIZE])
{
	const char *prefix = kind == OBJECT_RECORD ? PREFIX_JOB : object_type(kind)->prefix;
	const char *namespace = "";

	object_type(kind)->key(value, key);
	if (!str_starts_with(key, prefix)) /* of the other records some are details, others are secret */
		return false;
	memmove(key, key + strlen(prefix), strlen(key) - strlen(prefix) + 1);
	(void)str_copy(ret_namespace, NAMESPACE_MAX + 1, "");
	switch (kind) {
	case OBJECT_VOLUME:
		*ret_topic = TOPIC_VOLUME;
		namespace = ((const struct volume *)value)->namespace;
		break;
	case OBJECT_CLAIM:
		*ret_topic = TOPIC_CLAIM;
		namespace = ((const struct claim *)value)->namespace;
		break;
	case OBJECT_ALLOC:
		*ret_topic = TOPIC_ALLOCATION;
		namespace = ((const struct alloc *)value)->namespace;
		break;
	case OBJECT_NODE:
		*ret_topic = TOPIC_NODE;
		break;
	case OBJECT_NODE_PLUGIN:
		*ret_topic = TOPIC_PLUGIN;
		break;
	case OBJECT_RECORD:
		*ret_topic = TOPIC_JOB;
		return str_format(ret_namespace, NAMESPACE_MAX + 1, "%.*s", (int)strcspn(key, "/"), key) >= 0;
	case OBJECT_KIND_N:
		return false;
	}
	return str_copy(ret_namespace, NAMESPACE_MAX + 1, namespace) >= 0;
}

/* Memory is short. A watcher that catches up finds it itself. */
static void lose_event(struct events *events, uint64_t index)
{
	struct watcher *watcher;

	lose_all(events, index);
	LIST_FOREACH (watcher, &events->watchers, entry)
		if (watcher->has_begun && !watcher->has_ended && !watcher->pump)
			end_overtaken(watcher);
}

void events_publish(struct events *events, enum object_kind kind, const void *value, void *bytes, size_t len,
		    uint64_t index)
{
	struct event event = {.index = index, .bytes = bytes, .len = len};
	char key[OBJECT_KEY_SIZE], namespace[NAMESPACE_MAX + 1];

	if (!key_of(kind, value, &event.topic, namespace, key)) {
		free(bytes);
		return;
	}
	event.key = strdup(key);
	event.namespace = namespace[0] != '\0' ? strdup(namespace) : NULL;
	if (!event.key || (namespace[0] != '\0' && !event.namespace)) {
		release_event(&event);
		lose_event(events, index);
		return;
	}
	while (events->first < events->next && (events->next - events->first == EVENTS_MAX ||
						events->bytes + size_of(&event) > EVENTS_BYTES_MAX))
		drop_first(events);
	events->bytes += size_of(&event);
	*event_at(events, events->next++) = event;
	send_to_all(events, event_at(events, events->next - 1));
}

void events_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision)
{
	for (size_t i = 0; i < n; i++)
		events_publish(server->events, objects[i].kind, objects[i].value, TAKE_PTR(objects[i].packed),
			       objects[i].packed_len, revision);
	server->events->index = revision;
}

/* --- watching --- */

static enum status find_topic(const char *name, enum topic *ret, struct error *err)
{
	for (int i = 0; i < TOPIC_N; i++)
		if (str_eq(topics[i].name, name)) {
			*ret = (enum topic)i;
			return STATUS_OK;
		}
	return error_set(err, STATUS_INVALID_ARGUMENT, 0,
			 "topics: '%.64s' is unknown; there are volume, claim, node, plugin, allocation, job",
			 name);
}

static const char *namespace_of(const struct watcher *watcher, enum topic topic)
{
	return topics[topic].has_namespace && !str_eq(watcher->namespace, "*") ? watcher->namespace : NULL;
}

static enum status check_topic(const struct watcher *watcher, enum topic topic, struct error *err)
{
	return access_check(watcher->events->server, watcher->call, topics[topic].right,
			    namespace_of(watcher, topic), err);
}

/* All that the caller may read; at least one. */
static enum status apply_all_topics(struct watcher *watcher, struct error *err)
{
	for (int i = 0; i < TOPIC_N; i++)
		if (check_topic(watcher, (enum topic)i, err) == STATUS_OK)
			watcher->topics |= 1U << i;
	return watcher->topics != 0 ? STATUS_OK : err->status;
}

static enum status apply_topics(struct watcher *watcher, const Holdfast__V1__WatchRequest *request,
				struct error *err)
{
	enum status status = STATUS_OK;

	if (request->n_topics == 0)
		return apply_all_topics(watcher, err);
	for (size_t i = 0; i < request->n_topics && status == STATUS_OK; i++) {
		enum topic topic = TOPIC_N;

		status = find_topic(request->topics[i], &topic, err);
		if (status == STATUS_OK)
			status = check_topic(watcher, topic, err);
		if (status == STATUS_OK)
			watcher->topics |= 1U << topic;
	}
	return status;
}

/* Is everything known that happened after @index to what it watches? A busy topic displaces events of all. */
static bool is_known(const struct watcher *watcher, uint64_t index)
{
	for (int i = 0; i < TOPIC_N; i++)
		if (watcher->topics & (1U << i) && index < watcher->events->lost[i].index)
			return false;
	return true;
}

/* The first event of @index or after it, or the next one to come: who has seen one event of a transaction may
 * have missed the others. */
static enum status find_place(struct watcher *watcher, uint64_t index, struct error *err)
{
	struct events *events = watcher->events;
	uint64_t low = events->first;
	uint64_t high = events->next;

	watcher->next = high;
	if (index == 0)
		return STATUS_OK;
	if (!is_known(watcher, index) || index > kv_revision(events->server->kv))
		return error_set(err, STATUS_OUT_OF_RANGE, 0,
				 "what happened after index %" PRIu64
				 " is no longer known; list again, then watch from the index of the list, "
				 "each topic by itself",
				 index);
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (event_at(events, middle)->index >= index)
			high = middle;
		else
			low = middle + 1;
	}
	watcher->next = low;
	return STATUS_OK;
}

/* Sends the index from which on the watcher gets every event. */
static enum status send_place(struct watcher *watcher, uint64_t index, struct error *err)
{
	Holdfast__V1__WatchEvent message = HOLDFAST__V1__WATCH_EVENT__INIT;

	message.index = index != 0 ? index : watcher->events->index;
	return rpc_call_send(watcher->call, &message.base, err);
}

static enum status watch(struct watcher *watcher, const Holdfast__V1__WatchRequest *request,
			 struct error *err)
{
	const char *namespace = request->namespace_[0] != '\0' ? request->namespace_ : "default";
	enum status status;

	if (watcher->has_begun)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "a watch takes one request; open another stream for another");
	if (str_copy(watcher->namespace, sizeof(watcher->namespace), namespace) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "namespace: longer than %d bytes",
				 NAMESPACE_MAX);
	status = apply_topics(watcher, request, err);
	if (status == STATUS_OK)
		status = find_place(watcher, request->index, err);
	if (status == STATUS_OK)
		status = send_place(watcher, request->index, err);
	if (status == STATUS_OK)
		status = start_pump(watcher, err);
	watcher->has_begun = status == STATUS_OK;
	return status;
}

/* Checks the caller before there is a request: one without a right to read takes no place from others. */
static enum status check_caller(struct server *server, const struct rpc_call *call, struct error *err)
{
	enum status status = STATUS_OK;

	for (int i = 0; i < TOPIC_N; i++) {
		status = access_check(server, call, topics[i].right, NULL, err);
		if (status == STATUS_OK)
			return status;
	}
	return status;
}

/* Nor does one caller, however many connections it has, take them all. */
static enum status check_room(const struct events *events, const char *who, struct error *err)
{
	const struct watcher *watcher;
	size_t n = 0;

	if (events->n_watchers >= WATCHERS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "there are %zu watchers, at most %d; end some, or use index and wait",
				 events->n_watchers, WATCHERS_MAX);
	LIST_FOREACH (watcher, &events->watchers, entry)
		n += str_eq(watcher->who, who);
	if (n >= WATCHERS_PER_CALLER_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%s has %zu watchers, the most that one caller may have; end some, or use "
				 "index and wait",
				 who, n);
	return STATUS_OK;
}

enum status events_check(struct server *server, const struct rpc_call *call, struct error *err)
{
	const struct watcher *watcher = rpc_call_data(call);
	enum status status = STATUS_OK;

	if (!watcher->has_begun)
		return check_caller(server, call, err);
	for (int i = 0; i < TOPIC_N; i++) {
		if (!(watcher->topics & (1U << i)))
			continue;
		status = check_topic(watcher, (enum topic)i, err);
		if (status == STATUS_OK)
			return status;
	}
	return status;
}

static enum status new_watcher(struct server *server, struct rpc_call *call, struct watcher **ret,
			       struct error *err)
{
	char who[ACCESS_WHO_SIZE];
	enum status status = check_caller(server, call, err);
	struct watcher *watcher;

	if (status == STATUS_OK)
		status = check_room(server->events, access_who(server, call, who), err);
	if (status != STATUS_OK)
		return status;
	watcher = calloc(1, sizeof(*watcher));
	if (!watcher)
		return error_no_memory(err, "an event");
	*watcher = (struct watcher){.events = server->events, .call = call};
	memcpy(watcher->who, who, sizeof(watcher->who));
	*ret = watcher;
	return STATUS_OK;
}

static void on_open(struct rpc_call *call, void *userdata)
{
	struct server *server = userdata;
	struct events *events = server->events;
	struct watcher *watcher = NULL;
	struct error err;

	if (new_watcher(server, call, &watcher, &err) != STATUS_OK) {
		rpc_call_fail(call, &err);
		return;
	}
	LIST_INSERT_HEAD(&events->watchers, watcher, entry);
	events->n_watchers++;
	rpc_call_set_data(call, watcher);
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct watcher *watcher = rpc_call_data(call);
	struct error err;

	if (!watcher || watcher->has_ended)
		return;
	if (watch(watcher, (const Holdfast__V1__WatchRequest *)message, &err) != STATUS_OK)
		end_watcher(watcher, &err);
}

/* A caller may end its side after the request. */
static void on_half_close(struct rpc_call *call, void *userdata)
{
}

static void on_drained(struct rpc_call *call, void *userdata)
{
	struct watcher *watcher = rpc_call_data(call);

	if (watcher && watcher->pump)
		timer_again(&watcher->pump, on_pump);
}

static void on_closed(struct rpc_call *call, void *userdata)
{
	struct watcher *watcher = rpc_call_data(call);

	if (!watcher)
		return;
	(void)sd_event_source_disable_unref(watcher->pump);
	LIST_REMOVE(watcher, entry);
	watcher->events->n_watchers--;
	free(watcher);
}

const struct rpc_stream_handlers events_stream = {
	.on_open = on_open,
	.on_message = on_message,
	.on_closed = on_closed,
	.on_half_close = on_half_close,
	.on_drained = on_drained,
};
