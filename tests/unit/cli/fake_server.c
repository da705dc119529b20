/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_server.h"

#include "unit.h"

#include "base/clock.h"
#include "rpc/client.h"
#include "rpc/pbjson.h"

#include <holdfast/v1/agent.pb-c.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <jansson.h>
#include <malloc.h>
#include <systemd/sd-event.h>

struct fake_server fake;

static sd_event *fake_event;		  /* of the client that was made last */
static const struct fake_answer *refusal; /* of the call that ended last, or NULL */

ProtobufCMessage *__wrap_rpc_client_details(const struct rpc_client *client,
					    const ProtobufCMessageDescriptor *descriptor);
void __wrap_rpc_stream_cancel(struct rpc_stream *stream);

WRAPPED(enum status, rpc_tls_new, const struct rpc_tls_files *files, struct rpc_tls **ret, struct error *err)
{
	*ret = files->ca ? malloc(1) : NULL;
	return STATUS_OK;
}

WRAPPED(void, rpc_tls_free, struct rpc_tls *tls)
{
	free(tls);
}

WRAPPED(enum status, rpc_client_new, sd_event *event, const struct rpc_endpoint *endpoint,
	struct rpc_client **ret, struct error *err)
{
	fake_event = event;
	(void)str_copy(fake.token, sizeof(fake.token), endpoint->token ? endpoint->token : "");
	*ret = endpoint->unix_path || endpoint->tls ? malloc(1) : NULL;
	return STATUS_OK;
}

WRAPPED(void, rpc_client_free, struct rpc_client *client)
{
	free(client);
}

static void called(const char *service, const char *method, const char *argument)
{
	size_t n = strlen(fake.calls);

	(void)str_format(fake.calls + n, sizeof(fake.calls) - n, "%s.%s(%s) ", service, method, argument);
}

/* An answer of @descriptor, all fields at their defaults. */
static void *answer_new(const ProtobufCMessageDescriptor *descriptor)
{
	ProtobufCMessage *answer = calloc(1, descriptor->sizeof_message);

	descriptor->message_init(answer);
	return answer;
}

/* Give @list room for FAKE_MAX messages. */
static void *list_new(void)
{
	return calloc(FAKE_MAX, sizeof(void *));
}

static Holdfast__V1__Volume *volume_new(const char *id)
{
	Holdfast__V1__Volume *volume = answer_new(&holdfast__v1__volume__descriptor);

	volume->id = strdup(id);
	volume->namespace_ = strdup("default");
	return volume;
}

static Holdfast__V1__Allocation *alloc_new(const char *id, unsigned int step)
{
	Holdfast__V1__Allocation *alloc = answer_new(&holdfast__v1__allocation__descriptor);

	while (step > 0 && !fake.steps[step].client_status)
		step--;
	alloc->id = strdup(id);
	alloc->node_id = strdup("node-1");
	alloc->client_status = (Holdfast__V1__ClientStatus)fake.steps[step].client_status;
	alloc->client_description = strdup(fake.steps[step].description ? fake.steps[step].description : "");
	alloc->modify_index = step + 1;
	return alloc;
}

static void note_heap(bool is_first)
{
	const struct mallinfo2 info = mallinfo2();
	size_t bytes = info.uordblks + info.hblkhd;

	if (is_first)
		fake.heap_least = fake.heap_most = bytes;
	fake.heap_most = bytes > fake.heap_most ? bytes : fake.heap_most;
}

/* A page of n_volumes; the token is the number of its first one. */
static ProtobufCMessage *many_volumes(const Holdfast__V1__ListVolumesRequest *ask,
				      Holdfast__V1__ListVolumesResponse *answer)
{
	size_t at = strtoul(ask->next_token, NULL, 10);
	char text[FAKE_TEXT];

	note_heap(at == 0);
	answer->volumes = calloc(ask->per_page, sizeof(*answer->volumes));
	for (; answer->n_volumes < ask->per_page && at < fake.n_volumes; at++) {
		(void)str_format(text, sizeof(text), "volume-%06zu", at);
		answer->volumes[answer->n_volumes++] = volume_new(text);
	}
	(void)str_format(text, sizeof(text), "%zu", at);
	answer->next_token = strdup(at < fake.n_volumes ? text : "");
	return &answer->base;
}

static ProtobufCMessage *list_volumes(const ProtobufCMessage *request)
{
	const Holdfast__V1__ListVolumesRequest *ask = (const void *)request;
	Holdfast__V1__ListVolumesResponse *answer =
		answer_new(&holdfast__v1__list_volumes_response__descriptor);

	called("Volumes", "List", ask->prefix);
	if (fake.n_volumes > 0)
		return many_volumes(ask, answer);
	answer->volumes = list_new();
	for (size_t i = 0; i < FAKE_MAX && fake.volume_ids[i]; i++)
		if (str_starts_with(fake.volume_ids[i], ask->prefix))
			answer->volumes[answer->n_volumes++] = volume_new(fake.volume_ids[i]);
	return &answer->base;
}

static ProtobufCMessage *get_volume(const ProtobufCMessage *request)
{
	const Holdfast__V1__GetVolumeRequest *ask = (const void *)request;
	Holdfast__V1__GetVolumeResponse *answer = answer_new(&holdfast__v1__get_volume_response__descriptor);

	called("Volumes", "Get", ask->id);
	fake.why = ask->why;
	answer->volume = volume_new(ask->id);
	answer->why = strdup(ask->why ? "held by nobody\nnext: nothing" : "");
	return &answer->base;
}

static ProtobufCMessage *register_volume(const ProtobufCMessage *request)
{
	const Holdfast__V1__RegisterVolumeRequest *ask = (const void *)request;
	Holdfast__V1__RegisterVolumeResponse *answer =
		answer_new(&holdfast__v1__register_volume_response__descriptor);

	called("Volumes", "Register", ask->volume->id);
	(void)str_copy(fake.spec_id, sizeof(fake.spec_id), ask->volume->id);
	answer->volume = volume_new(ask->volume->id);
	answer->created = true;
	answer->volume->unschedulable_reason = strdup("no node has it");
	return &answer->base;
}

static ProtobufCMessage *deregister_volume(const ProtobufCMessage *request)
{
	called("Volumes", "Deregister",
	       ((const Holdfast__V1__DeregisterVolumeRequest *)(const void *)request)->id);
	return answer_new(&holdfast__v1__deregister_volume_response__descriptor);
}

static ProtobufCMessage *detach_volume(const ProtobufCMessage *request)
{
	const Holdfast__V1__DetachVolumeRequest *ask = (const void *)request;

	called("Volumes", "Detach", ask->id);
	(void)str_copy(fake.node_id, sizeof(fake.node_id), ask->node_id);
	(void)str_copy(fake.attest_reason, sizeof(fake.attest_reason), ask->attest_reason);
	(void)str_copy(fake.without_plugin_reason, sizeof(fake.without_plugin_reason),
		       ask->without_plugin_reason);
	return answer_new(&holdfast__v1__detach_volume_response__descriptor);
}

static ProtobufCMessage *list_nodes(const ProtobufCMessage *request)
{
	const Holdfast__V1__ListNodesRequest *ask = (const void *)request;
	Holdfast__V1__ListNodesResponse *answer = answer_new(&holdfast__v1__list_nodes_response__descriptor);

	called("Nodes", "List", ask->prefix);
	answer->nodes = list_new();
	for (size_t i = 0; i < FAKE_MAX && fake.node_ids[i]; i++) {
		Holdfast__V1__Node *node;

		if (!str_starts_with(fake.node_ids[i], ask->prefix))
			continue;
		node = answer_new(&holdfast__v1__node__descriptor);
		node->id = strdup(fake.node_ids[i]);
		answer->nodes[answer->n_nodes++] = node;
	}
	return &answer->base;
}

static ProtobufCMessage *get_node(const ProtobufCMessage *request)
{
	const Holdfast__V1__GetNodeRequest *ask = (const void *)request;
	Holdfast__V1__GetNodeResponse *answer = answer_new(&holdfast__v1__get_node_response__descriptor);

	called("Nodes", "Get", ask->id);
	answer->node = answer_new(&holdfast__v1__node__descriptor);
	answer->node->id = strdup(ask->id);
	return &answer->base;
}

static ProtobufCMessage *run_alloc(const ProtobufCMessage *request)
{
	const Holdfast__V1__RunAllocationRequest *ask = (const void *)request;
	Holdfast__V1__RunAllocationResponse *answer =
		answer_new(&holdfast__v1__run_allocation_response__descriptor);

	called("Allocations", "Run", ask->allocation->name);
	(void)str_copy(fake.spec_id, sizeof(fake.spec_id), ask->allocation->id);
	(void)str_copy(fake.node_id, sizeof(fake.node_id), ask->allocation->node_id);
	answer->allocation = alloc_new(ask->allocation->id, 0);
	return &answer->base;
}

static ProtobufCMessage *stop_alloc(const ProtobufCMessage *request)
{
	const Holdfast__V1__StopAllocationRequest *ask = (const void *)request;
	Holdfast__V1__StopAllocationResponse *answer =
		answer_new(&holdfast__v1__stop_allocation_response__descriptor);

	called("Allocations", "Stop", ask->id);
	answer->allocation = alloc_new(ask->id, 0);
	answer->node_disconnected_ms = fake.node_disconnected_ms;
	return &answer->base;
}

static ProtobufCMessage *get_alloc(const ProtobufCMessage *request)
{
	const Holdfast__V1__GetAllocationRequest *ask = (const void *)request;
	Holdfast__V1__GetAllocationResponse *answer =
		answer_new(&holdfast__v1__get_allocation_response__descriptor);

	called("Allocations", "Get", ask->id);
	if (ask->wait_ms > fake.longest_wait_ms)
		fake.longest_wait_ms = ask->wait_ms;
	fake.gets++;
	fake.last_index = ask->index;
	answer->allocation = alloc_new(ask->id, fake.gets < 8 ? fake.gets : 7);
	answer->node_disconnected_ms = fake.node_disconnected_ms;
	answer->index = answer->allocation->modify_index + fake.claims_ahead;
	if (fake.held_volume) {
		Holdfast__V1__Claim *claim = answer_new(&holdfast__v1__claim__descriptor);

		claim->volume_id = strdup(fake.held_volume);
		claim->state = HOLDFAST__V1__CLAIM_STATE__NODE_DETACHED;
		answer->claims = list_new();
		answer->claims[answer->n_claims++] = claim;
	}
	return &answer->base;
}

static ProtobufCMessage *list_allocs(const ProtobufCMessage *request)
{
	const Holdfast__V1__ListAllocationsRequest *ask = (const void *)request;
	Holdfast__V1__ListAllocationsResponse *answer =
		answer_new(&holdfast__v1__list_allocations_response__descriptor);

	called("Allocations", "List", ask->prefix);
	(void)str_copy(fake.node_id, sizeof(fake.node_id), ask->node_id);
	answer->allocations = list_new();
	for (size_t i = 0; i < FAKE_MAX && fake.alloc_ids[i]; i++)
		if (str_starts_with(fake.alloc_ids[i], ask->prefix))
			answer->allocations[answer->n_allocations++] = alloc_new(fake.alloc_ids[i], 0);
	return &answer->base;
}

static ProtobufCMessage *operator_status(const ProtobufCMessage *request)
{
	Holdfast__V1__GetStatusResponse *answer = answer_new(&holdfast__v1__get_status_response__descriptor);

	called("Operator", "Status", "");
	answer->cluster = strdup("demo");
	answer->volumes = 3;
	answer->ticket_key.data = malloc(32);
	answer->ticket_key.len = 32;
	memset(answer->ticket_key.data, 0xab, 32);
	return &answer->base;
}

static ProtobufCMessage *agent_status(const ProtobufCMessage *request)
{
	Holdfast__V1__GetAgentStatusResponse *answer =
		answer_new(&holdfast__v1__get_agent_status_response__descriptor);

	called("Agent", "Status", "");
	answer->node_id = strdup("n1");
	answer->last_session_error = strdup("bad \033[2J bytes\xc2\x9b and \xe2\x80\xae reversed");
	answer->helper = answer_new(&holdfast__v1__agent_helper__descriptor);
	answer->helper->last_error = strdup("its policy is damaged");
	answer->mounts = list_new();
	answer->mounts[answer->n_mounts++] = answer_new(&holdfast__v1__agent_mount__descriptor);
	answer->mounts[0]->path = strdup("/run/holdfast/pub/1");
	answer->mounts[0]->volume_id = strdup("models");
	answer->mounts[0]->usage = answer_new(&holdfast__v1__volume_usage__descriptor);
	answer->mounts[0]->usage->percent = 42;
	answer->mounts[0]->usage->condition = strdup("read-only: the kernel stopped writes");
	answer->mounts[0]->stale = strdup("the file server behind it has died; holdfast alloc stop a1");
	answer->plugins = list_new();
	answer->plugins[answer->n_plugins++] = answer_new(&holdfast__v1__agent_plugin__descriptor);
	answer->plugins[0]->plugin_id = strdup("ebs");
	answer->plugins[0]->provider = strdup("ebs.csi.aws.com");
	answer->plugins[0]->provider_version = strdup("1.30");
	answer->plugins[0]->state = strdup("unhealthy");
	answer->plugins[0]->socket = strdup("/run/holdfast/plugins/ebs/csi.sock");
	answer->plugins[0]->last_error = strdup("plugin ebs: Probe: no \033[2Jcredentials");
	answer->plugins[0]->calls = 9;
	answer->plugins[0]->calls_failed = 4;
	answer->plugins[0]->calls_in_flight = 2;
	answer->plugins[0]->calls_waiting = 1;
	answer->plugins[0]->oldest_call = strdup("NodeStageVolume");
	answer->drivers = list_new();
	answer->drivers[answer->n_drivers++] = answer_new(&holdfast__v1__agent_driver__descriptor);
	answer->drivers[0]->name = strdup("container");
	answer->drivers[0]->version = strdup("4.3.1");
	answer->drivers[0]->reason = strdup("the engine \033[2Jis away");
	answer->operations = list_new();
	answer->operations[answer->n_operations++] = answer_new(&holdfast__v1__agent_operation__descriptor);
	answer->operations[0]->volume_id = strdup("orders");
	answer->operations[0]->alloc_id = strdup("a1");
	answer->operations[0]->step = strdup("plugin unpublish");
	answer->operations[0]->attempts = 3;
	answer->operations[0]->deadline_ms = clock_realtime_ms() + 59900;
	answer->operations[0]->last_error =
		strdup("plugin ebs, volume v-1: NodeUnpublishVolume: no answer in time");
	return &answer->base;
}

static void log_request(const ProtobufCServiceDescriptor *service, const char *method,
			const ProtobufCMessage *request)
{
	size_t n = strlen(fake.requests);
	cleanup(json_decrefp) json_t *json = NULL;
	cleanup_free char *text = NULL;

	if (pbjson_encode(request, PBJSON_PROTO_NAMES, &json, NULL) != STATUS_OK)
		abort();
	text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
	(void)str_format(fake.requests + n, sizeof(fake.requests) - n, "%s.%s %s\n", service->short_name,
			 method, text);
}

static ProtobufCMessage *from_json(const ProtobufCMessageDescriptor *descriptor, const char *text)
{
	cleanup(json_decrefp) json_t *json = json_loads(text, 0, NULL);
	ProtobufCMessage *message = NULL;
	struct error err = {.msg = ""};

	if (!json || pbjson_decode(descriptor, json, PBJSON_SPEC, &message, &err) != STATUS_OK) {
		(void)fprintf(stderr, "%s is no %s: %s\n", text, descriptor->name, err.msg);
		abort();
	}
	return message;
}

/* The answer for this call among those that a test prepared. */
static const struct fake_answer *find_prepared(const char *service, const char *method)
{
	char name[FAKE_TEXT];
	const struct fake_answer *last = NULL;

	(void)str_format(name, sizeof(name), "%s.%s", service, method);
	for (size_t i = 0; i < ARRAY_SIZE(fake.answers) && fake.answers[i].method; i++) {
		if (!str_eq(fake.answers[i].method, name))
			continue;
		last = &fake.answers[i];
		if (fake.given[i]++ == 0)
			return last;
	}
	return last;
}

static enum status give(const struct fake_answer *answer, const ProtobufCServiceDescriptor *service,
			const char *method, ProtobufCMessage **ret, struct error *err)
{
	const ProtobufCMethodDescriptor *descriptor =
		protobuf_c_service_descriptor_get_method_by_name(service, method);

	if (answer->before)
		answer->before();
	if (answer->json) {
		*ret = from_json(descriptor->output, answer->json);
		return STATUS_OK;
	}
	refusal = answer;
	(void)error_set(err, answer->status, 0, "%s", answer->lost ? answer->lost : "the server refuses");
	err->sys_errno = answer->sys_errno; /* its text is in the message already */
	return answer->status;
}

WRAPPED(bool, rpc_client_may_have_begun, const struct rpc_client *client)
{
	return !(refusal && refusal->lost && str_starts_with(refusal->lost, "cannot connect"));
}

WRAPPED(const char *, rpc_client_message, const struct rpc_client *client)
{
	return refusal && refusal->lost ? NULL : "";
}

ProtobufCMessage *__wrap_rpc_client_details(const struct rpc_client *client,
					    const ProtobufCMessageDescriptor *descriptor)
{
	return refusal && refusal->details ? from_json(descriptor, refusal->details) : NULL;
}

/* A stream: all its events come in one turn of the loop, then its end. */
struct rpc_stream {
	const struct rpc_stream_events *events;
	void *userdata;
	const ProtobufCMessageDescriptor *output;
	const ProtobufCServiceDescriptor *service;
	const char *method;
	sd_event_source *source;
};

static int deliver(sd_event_source *source, void *userdata)
{
	struct rpc_stream *stream = userdata;
	struct error err;

	for (size_t i = 0; i < FAKE_MAX && fake.events[i]; i++) {
		cleanup_pb ProtobufCMessage *event = from_json(stream->output, fake.events[i]);

		stream->events->on_message(stream, event, stream->userdata);
	}
	if (fake.stream_end != STATUS_OK)
		(void)error_set(&err, fake.stream_end, 0, "the server ends the stream");
	stream->events->on_closed(stream, fake.stream_end, fake.stream_end ? &err : NULL, stream->userdata);
	__wrap_rpc_stream_cancel(stream);
	return 0;
}

WRAPPED(enum status, rpc_stream_open, struct rpc_client *client, const ProtobufCServiceDescriptor *service,
	const char *method, uint64_t connect_timeout_us, const struct rpc_stream_events *events,
	void *userdata, struct rpc_stream **ret, struct error *err)
{
	struct rpc_stream *stream = calloc(1, sizeof(*stream));

	if (!stream || connect_timeout_us == 0)
		abort();
	stream->events = events;
	stream->userdata = userdata;
	stream->service = service;
	stream->method = method;
	stream->output = protobuf_c_service_descriptor_get_method_by_name(service, method)->output;
	if (fake.stream_end != STATUS_CANCELLED) /* that one stays open */
		(void)sd_event_add_defer(fake_event, &stream->source, deliver, stream);
	*ret = stream;
	return STATUS_OK;
}

WRAPPED(enum status, rpc_stream_send, struct rpc_stream *stream, const ProtobufCMessage *message,
	struct error *err)
{
	log_request(stream->service, stream->method, message);
	return STATUS_OK;
}

void __wrap_rpc_stream_cancel(struct rpc_stream *stream)
{
	if (!stream)
		return;
	sd_event_source_disable_unref(stream->source);
	free(stream);
}

WRAPPED(enum status, rpc_client_call_sync, struct rpc_client *client,
	const ProtobufCServiceDescriptor *service, const char *method, const ProtobufCMessage *request,
	uint64_t timeout_us, ProtobufCMessage **ret_response, struct error *err)
{
	static const struct {
		const char *service, *method;
		ProtobufCMessage *(*answer)(const ProtobufCMessage *request);
	} methods[] = {
		{"Volumes", "List", list_volumes},
		{"Volumes", "Get", get_volume},
		{"Volumes", "Register", register_volume},
		{"Volumes", "Deregister", deregister_volume},
		{"Volumes", "Detach", detach_volume},
		{"Nodes", "List", list_nodes},
		{"Nodes", "Get", get_node},
		{"Allocations", "Run", run_alloc},
		{"Allocations", "Stop", stop_alloc},
		{"Allocations", "Get", get_alloc},
		{"Allocations", "List", list_allocs},
		{"Operator", "Status", operator_status},
		{"Agent", "Status", agent_status},
	};

	const struct fake_answer *answer;

	refusal = NULL;
	if (timeout_us == 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "no timeout");
	log_request(service, method, request);
	answer = find_prepared(service->short_name, method);
	if (answer)
		return give(answer, service, method, ret_response, err);
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (!str_eq(service->short_name, methods[i].service) || !str_eq(method, methods[i].method))
			continue;
		if (fake.failing && str_eq(fake.failing, method))
			return error_set(err, fake.failure, 0, "the server says no");
		*ret_response = methods[i].answer(request);
		return STATUS_OK;
	}
	return error_set(err, STATUS_UNIMPLEMENTED, 0, "%s.%s is not modelled", service->short_name, method);
}

/* A call that is answered in the next turn of the loop. */
struct rpc_pending {
	rpc_done_fn *done;
	void *userdata;
	enum status status;
	ProtobufCMessage *response;
	struct error err;
	sd_event_source *source;
};

void __wrap_rpc_pending_cancel(struct rpc_pending *pending);

static int on_answer(sd_event_source *source, void *userdata)
{
	struct rpc_pending *pending = userdata;

	pending->done(pending->status, pending->response, &pending->err, pending->userdata);
	__wrap_rpc_pending_cancel(pending);
	return 0;
}

WRAPPED(enum status, rpc_client_call, struct rpc_client *client, const ProtobufCServiceDescriptor *service,
	const char *method, const ProtobufCMessage *request, uint64_t timeout_us, rpc_done_fn *done,
	void *userdata, struct rpc_pending **ret, struct error *err)
{
	struct rpc_pending *pending = calloc(1, sizeof(*pending));

	if (!pending)
		abort();
	pending->done = done;
	pending->userdata = userdata;
	pending->status = __wrap_rpc_client_call_sync(client, service, method, request, timeout_us,
						      &pending->response, &pending->err);
	(void)sd_event_add_defer(fake_event, &pending->source, on_answer, pending);
	*ret = pending;
	return STATUS_OK;
}

void __wrap_rpc_pending_cancel(struct rpc_pending *pending)
{
	sd_event_source_disable_unref(pending->source);
	protobuf_c_message_free_unpacked(pending->response, NULL);
	free(pending);
}

WRAPPED(void, rpc_client_move_on, struct rpc_client *client)
{
}
