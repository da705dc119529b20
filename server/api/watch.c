/* SPDX-License-Identifier: Apache-2.0 */
#include "api/watch.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/tree.h"
#include "pb/reflect.h"
#include "rpc/caller.h"
#include "rpc/peer_count.h"
#include "rpc/timer.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/records.h"
#include "state/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum {
	WATCH_REQUEST_MAX = 4096, /* bytes; each is kept as long as it waits */
	TIMER_ACCURACY_US = 1000,
};

static const char *const tables[WATCH_TABLES] = {
	PREFIX_VOLUME, PREFIX_NODE, WATCH_PLUGIN, PREFIX_ALLOC, PREFIX_CLAIM, PREFIX_JOB, "",
};

/* One call that waits. */
struct watch {
	char name[OBJECT_KEY_SIZE];
	uint64_t serial; /* makes the key unique: (name, serial) */
	RB_ENTRY(watch) by_name;
	struct server *server;
	struct rpc_call *call;
	struct peer_count_tree *callers; /* borrowed: those of which caller is one */
	struct peer_count *caller;
	ProtobufCMessage *request; /* owned */
	const struct read_method *method;
	uint64_t after;		/* index that must be passed */
	sd_event_source *timer; /* owned */
	bool is_due;		/* it is in that queue */
	TAILQ_ENTRY(watch) in_due;
};

static int compare(const struct watch *a, const struct watch *b)
{
	int c = strcmp(a->name, b->name);

	if (c != 0)
		return c;
	return a->serial < b->serial ? -1 : a->serial > b->serial;
}

TREE_GENERATE(watch_tree, watch, by_name, compare)

static void watch_free(struct watch *watch)
{
	RB_REMOVE(watch_tree, &watch->server->watches, watch);
	if (watch->is_due)
		TAILQ_REMOVE(&watch->server->due, watch, in_due);
	watch->server->n_watches--;
	peer_count_leave(watch->callers, watch->caller);
	(void)sd_event_source_disable_unref(watch->timer);
	protobuf_c_message_free_unpacked(watch->request, NULL);
	free(watch);
}

/* The caller is allowed to. */
static void answer(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
		   const struct read_method *method)
{
	struct error err;

	server->reading = call;
	if (method->handle(server, call, request, &err) != STATUS_OK)
		rpc_call_fail(call, &err);
	server->reading = NULL;
}

/* Answers the call after its wait. The right to read is checked again: tokens are revoked, and expire. */
static void watch_end(struct watch *watch)
{
	struct error err;

	rpc_call_set_data(watch->call, NULL);
	if (rpc_call_ask_gate(watch->call, watch->request, &err) == STATUS_OK)
		answer(watch->server, watch->call, watch->request, watch->method);
	else
		rpc_call_fail(watch->call, &err);
	watch_free(watch);
}

/* One call a turn: hundreds may wait for one object, and an answer costs as much as the object is large. */
static int on_turn(sd_event_source *source, void *userdata)
{
	struct server *server = userdata;
	struct watch *watch = TAILQ_FIRST(&server->due);

	if (watch)
		watch_end(watch);
	if (!TAILQ_EMPTY(&server->due))
		timer_again(&server->watch_turn, on_turn);
	return 0;
}

static bool prepare_turns(struct server *server)
{
	if (server->watch_turn)
		return true;
	TAILQ_INIT(&server->due);
	return sd_event_add_defer(server->event, &server->watch_turn, on_turn, server) >= 0;
}

/* False when memory is short. */
static bool watch_set_due(struct watch *watch)
{
	struct server *server = watch->server;

	if (watch->is_due)
		return true;
	if (!prepare_turns(server))
		return false;
	watch->is_due = true;
	TAILQ_INSERT_TAIL(&server->due, watch, in_due);
	timer_again(&server->watch_turn, on_turn);
	return true;
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	watch_end(userdata);
	return 0;
}

static uint64_t number_of(const ProtobufCMessage *request, const char *name)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(request->descriptor, name);

	return field ? reflect_number(field->type, reflect_at(request, field)) : 0;
}

static uint64_t index_now(struct server *server, const ProtobufCMessage *request,
			  const struct read_method *method, const char *name)
{
	return method->index ? method->index(server, request) : watch_index(server, name);
}

/* Keeps the call, which is not answered yet. */
static enum status hold(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
			const struct read_method *method, const char *name, struct watch **ret,
			struct error *err)
{
	struct peer_count_tree *callers = method->is_long ? &server->long_callers : &server->watch_callers;
	struct peer_count *caller = NULL;
	struct watch *watch;

	if (server->n_watches >= WATCHES_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "more than %d calls are waiting for changes", WATCHES_MAX);
	TRY(caller_count(rpc_call_peer(call), rpc_call_token(call), callers,
			 method->is_long ? LONG_READS_PER_CALLER_MAX : WATCHES_PER_CALLER_MAX,
			 method->is_long ? "calls that take long" : "calls that wait for changes", &caller,
			 err));
	watch = calloc(1, sizeof(*watch));
	if (!watch) {
		peer_count_leave(callers, caller);
		return error_no_memory(err, "a waiting call");
	}
	*watch = (struct watch){.serial = ++server->watch_serial,
				.server = server,
				.call = call,
				.callers = callers,
				.caller = caller,
				.request = message_copy(request),
				.method = method,
				.after = number_of(request, "index")};
	(void)str_copy(watch->name, sizeof(watch->name), name);
	RB_INSERT(watch_tree, &server->watches, watch);
	server->n_watches++;
	*ret = watch;
	if (watch->request) {
		rpc_call_set_data(call, watch);
		return STATUS_OK;
	}
	watch_free(watch);
	return error_no_memory(err, "a waiting call");
}

static enum status await_change(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
				const struct read_method *method, const char *name, struct error *err)
{
	uint64_t wait_ms = number_of(request, "wait_ms");
	struct watch *watch;
	int r;

	if (protobuf_c_message_get_packed_size(request) > WATCH_REQUEST_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "a read that waits has at most %d bytes: leave wait_ms out, or ask for less",
				 WATCH_REQUEST_MAX);
	TRY(hold(server, call, request, method, name, &watch, err));
	if (wait_ms > WATCH_WAIT_MAX_MS)
		wait_ms = WATCH_WAIT_MAX_MS;
	r = sd_event_add_time_relative(server->event, &watch->timer, CLOCK_MONOTONIC, wait_ms * USEC_PER_MSEC,
				       TIMER_ACCURACY_US, on_time, watch);
	if (r >= 0)
		return STATUS_OK;
	watch_free(watch);
	return error_set(err, status_from_errno(r), r, "wait for a change");
}

static enum status take_turn(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
			     const struct read_method *method, struct error *err)
{
	struct watch *watch;

	TRY(hold(server, call, request, method, "", &watch, err));
	if (watch_set_due(watch))
		return STATUS_OK;
	watch_free(watch);
	return error_no_memory(err, "a turn of the loop");
}

void read_start(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
		const struct read_method *method)
{
	uint64_t after = number_of(request, "index");
	char name[OBJECT_KEY_SIZE];
	struct error err;

	if (method->is_long) {
		if (take_turn(server, call, request, method, &err) != STATUS_OK)
			rpc_call_fail(call, &err);
		return;
	}
	if (!method->name || after == 0 || number_of(request, "wait_ms") == 0) {
		answer(server, call, request, method);
		return;
	}
	method->name(request, name);
	if (index_now(server, request, method, name) > after)
		answer(server, call, request, method);
	else if (await_change(server, call, request, method, name, &err) != STATUS_OK)
		rpc_call_fail(call, &err);
}

const ProtobufCMessage *read_request(const struct rpc_call *call)
{
	const struct watch *watch = rpc_call_data(call);

	return watch->request;
}

void read_gone(struct rpc_call *call, void *userdata)
{
	static const struct error gone = {.status = STATUS_CANCELLED, .msg = "the caller has gone"};
	struct watch *watch = rpc_call_data(call);

	if (!watch) /* another module answers it */
		return;
	rpc_call_fail(call, &gone);
	watch_free(watch);
}

static size_t table_of(const char *prefix)
{
	size_t i = 0;

	while (i < WATCH_TABLES - 1 && !str_eq(tables[i], prefix))
		i++;
	return i; /* the last one is for all other prefixes */
}

uint64_t watch_index(const struct server *server, const char *prefix)
{
	return server->watch_indexes[table_of(prefix)];
}

uint64_t watch_object_index(const struct server *server, uint64_t index)
{
	return index > server->start_index ? index : server->start_index;
}

/* Checks the calls that wait under @name again. */
static void wake(struct server *server, const char *name)
{
	struct watch from = {.serial = 0};
	struct watch *watch;

	(void)str_copy(from.name, sizeof(from.name), name);
	for (watch = RB_NFIND(watch_tree, &server->watches, &from); watch && str_eq(watch->name, name);
	     watch = RB_NEXT(watch_tree, NULL, watch))
		if (index_now(server, watch->request, watch->method, watch->name) > watch->after)
			(void)watch_set_due(watch); /* else it waits until its time is over */
}

static void wake_object(struct server *server, const char *prefix, const char *rest)
{
	char name[OBJECT_KEY_SIZE];

	if (!RB_EMPTY(&server->watches) && str_format(name, sizeof(name), "%s%s", prefix, rest) >= 0)
		wake(server, name);
}

static void touch(struct server *server, const char *prefix, const char *rest, uint64_t revision)
{
	server->watch_indexes[table_of(prefix)] = revision;
	if (RB_EMPTY(&server->watches))
		return;
	wake(server, prefix);
	wake_object(server, prefix, rest);
}

static void touch_volume(struct server *server, const char *namespace, const char *id, uint64_t revision)
{
	char rest[OBJECT_KEY_SIZE] = "";

	if (!RB_EMPTY(&server->watches))
		(void)str_format(rest, sizeof(rest), "%s/%s", namespace, id);
	touch(server, PREFIX_VOLUME, rest, revision);
}

/* Raises the plugin's index first: calls that wait for a plugin read it. */
static void touch_plugin(struct server *server, const char *id, uint64_t revision)
{
	struct plugin_entry *plugin = state_plugin(&server->state, id);

	if (plugin && plugin->modify_index < revision)
		plugin->modify_index = revision;
	touch(server, WATCH_PLUGIN, id, revision);
}

/* A job is shown with its allocations, a list of jobs is not. Its index first, which it has no place for
 * without allocations. */
static void touch_job_of(struct server *server, const struct alloc *alloc, uint64_t revision)
{
	struct job_entry *job = state_job(&server->state, alloc->namespace, alloc->job_id);
	uint64_t *index = job ? &job->modify_index : &server->jobs_end_index;
	char rest[OBJECT_KEY_SIZE];

	if (*index < revision)
		*index = revision;
	if (str_format(rest, sizeof(rest), "%s/%s", alloc->namespace, alloc->job_id) >= 0)
		wake_object(server, PREFIX_JOB, rest);
}

/* A plugin is as healthy as the sessions of its nodes. */
static void touch_node(struct server *server, const struct node *node, uint64_t revision)
{
	const struct node_entry *entry = state_node(&server->state, node->id);
	const struct instance_entry *instance;

	touch(server, PREFIX_NODE, node->id, revision);
	if (entry)
		LIST_FOREACH (instance, &entry->instances, of_node)
			touch_plugin(server, instance->plugin->id, revision);
}

/* Plugins show how many volumes they have: for them only a volume that appears or disappears is a change. */
static void touch_volume_itself(struct server *server, const struct volume *volume, uint64_t revision)
{
	touch_volume(server, volume->namespace, volume->id, revision);
	if (volume->create_index == 0 || !state_volume(&server->state, volume->namespace, volume->id))
		touch_plugin(server, volume->plugin_id, revision);
}

static void note_object(struct server *server, enum object_kind kind, const void *value, uint64_t revision)
{
	switch (kind) {
	case OBJECT_VOLUME:
		touch_volume_itself(server, value, revision);
		break;
	case OBJECT_CLAIM: { /* shown with its volume, allocation and node */
		const struct claim *claim = value;

		touch(server, PREFIX_CLAIM, claim->id, revision);
		touch_volume(server, claim->namespace, claim->volume_id, revision);
		touch(server, PREFIX_ALLOC, claim->allocation_id, revision);
		touch(server, PREFIX_NODE, claim->node_id, revision);
		break;
	}
	case OBJECT_ALLOC: {
		const struct alloc *alloc = value;

		touch(server, PREFIX_ALLOC, alloc->id, revision);
		touch(server, PREFIX_NODE, alloc->node_id, revision);
		if (alloc->job_id[0] != '\0')
			touch_job_of(server, alloc, revision);
		for (uint32_t i = 0; i < alloc->n_plugins; i++)
			touch_plugin(server, alloc->plugins[i].id, revision);
		break;
	}
	case OBJECT_NODE:
		touch_node(server, value, revision);
		break;
	case OBJECT_NODE_PLUGIN: {
		const struct plugin_instance *instance = value;

		touch_plugin(server, instance->plugin.plugin_id, revision);
		touch(server, PREFIX_NODE, instance->node_id, revision);
		break;
	}
	case OBJECT_RECORD: { /* readers wait for volumes whose details they are, and for jobs by name */
		const char *key = ((const struct record *)value)->key;

		if (record_is_watched(key))
			touch(server, "", "", revision);
		if (str_starts_with(key, PREFIX_JOB))
			touch(server, PREFIX_JOB, key + strlen(PREFIX_JOB), revision);
		break;
	}
	case OBJECT_KIND_N:
		break;
	}
}

void watch_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision)
{
	for (size_t i = 0; i < n; i++)
		note_object(server, objects[i].kind, objects[i].value, revision);
}

void watch_cancel_all(struct server *server)
{
	static const struct error ending = {.status = STATUS_UNAVAILABLE, .msg = "the server is ending"};
	struct watch *watch;

	while ((watch = RB_MIN(watch_tree, &server->watches))) {
		rpc_call_fail(watch->call, &ending);
		watch_free(watch);
	}
	server->watch_turn = sd_event_source_disable_unref(server->watch_turn);
}
