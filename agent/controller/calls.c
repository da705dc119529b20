/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/calls.h"

#include "base/cleanup.h"
#include "controller/map.h"
#include "log/log.h"
#include "model/message.h"
#include "volume/manager.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct controller_call {
	TAILQ_ENTRY(controller_call) link; /* under_way or refused */
	struct controller_calls *calls;
	Holdfast__V1__PluginCall *pb; /* owned; its secrets are redacted in the answer */
	struct node_plugin facts;     /* when it began */
	struct service_call *csi;     /* NULL: the volume manager's, or refused */
	bool is_dropped;	      /* its session is over, the reply has no receiver */
	bool not_here;
	struct error err; /* of one that is refused */
};

TAILQ_HEAD(call_list, controller_call);

struct controller_calls {
	struct plugins *plugins;
	struct volume_manager *volumes;
	controller_reply_fn *reply;
	void *userdata;
	struct call_list in_flight;
	size_t n_in_flight;
	struct call_list refused; /* whose replies are due when the event loop runs again */
	sd_event_source *soon;
};

static void call_free(struct controller_call *call)
{
	message_free_secret(&call->pb->base);
	free(call);
}
DEFINE_CLEANUP(struct controller_call, call_free)

/* NULL when memory is short. */
static struct controller_call *call_new(struct controller_calls *calls, const Holdfast__V1__PluginCall *pb)
{
	struct controller_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->calls = calls;
	call->pb = (Holdfast__V1__PluginCall *)(void *)message_copy_secret(&pb->base);
	if (!call->pb) {
		free(call);
		return NULL;
	}
	return call;
}

static const char *call_name(const struct controller_call *call)
{
	enum csi_method method = controller_method(call->pb);

	return method < CSI_METHOD_N ? csi_methods[method].name : "unknown call";
}

static void send_reply(const struct controller_call *call, const Holdfast__V1__PluginReply *reply)
{
	if (!call->is_dropped)
		call->calls->reply(reply, call->calls->userdata);
}

static void send_failure(const struct controller_call *call, const struct error *err)
{
	struct log_ctx ctx = {.plugin = call->pb->plugin_id, .op = call_name(call), .err = err};
	struct controller_reply reply;

	if (controller_reply_fail(call->pb, err, &reply))
		log_ctx(LOG_NOTICE, &ctx, "the plugin reports that the object to remove does not exist");
	else
		log_ctx(LOG_INFO, &ctx, "a call of the server failed");
	reply.pb.not_here = call->not_here;
	send_reply(call, &reply.pb);
	controller_reply_release(&reply);
}

/* Off the list before its reply, which may bring the next call. */
static void end_call(struct controller_call *call)
{
	TAILQ_REMOVE(&call->calls->in_flight, call, link);
	call->calls->n_in_flight--;
}

static void on_answered(const ProtobufCMessage *response, const struct error *failure, void *userdata)
{
	cleanup(call_freep) struct controller_call *call = userdata;
	struct controller_reply reply;
	struct error err;

	end_call(call);
	if (failure) {
		send_failure(call, failure);
		return;
	}
	if (controller_reply_make(call->pb, &call->facts, response, &reply, &err) == STATUS_OK)
		send_reply(call, &reply.pb);
	else
		send_failure(call, &err);
	controller_reply_release(&reply);
}

static void on_expanded(uint64_t bytes, const struct error *failure, void *userdata)
{
	cleanup(call_freep) struct controller_call *call = userdata;
	struct controller_reply reply;

	end_call(call);
	if (failure) {
		send_failure(call, failure);
		return;
	}
	controller_reply_node_expand(call->pb, bytes, &reply);
	send_reply(call, &reply.pb);
}

/* Adds root's settings of this node: the server has no secret of a fence service. */
static enum status add_fence_args(const struct controller_call *call, enum csi_method method,
				  struct fence_maps *maps, struct controller_request *request,
				  struct error *err)
{
	if (method != CSI_FENCE_CLUSTER_NETWORK && method != CSI_UNFENCE_CLUSTER_NETWORK &&
	    method != CSI_LIST_CLUSTER_FENCE)
		return STATUS_OK;
	TRY(fence_maps_make(plugins_fence_args(call->calls->plugins, call->facts.plugin_id), maps, err));
	if (method == CSI_FENCE_CLUSTER_NETWORK)
		FENCE_MAPS_LEND(maps, &request->fence_network);
	else if (method == CSI_UNFENCE_CLUSTER_NETWORK)
		FENCE_MAPS_LEND(maps, &request->unfence_network);
	else
		FENCE_MAPS_LEND(maps, &request->list_fenced);
	return STATUS_OK;
}

static enum status call_plugin(struct controller_call *call, struct service_client *client, struct error *err)
{
	const Holdfast__V1__PluginCall *pb = call->pb;
	cleanup_free struct controller_request *request = malloc(sizeof(*request));
	struct fence_maps maps = {.n = {0}};
	enum status status;

	if (!request)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "call plugin %s",
				 call->facts.plugin_id);
	TRY(controller_request_make(pb, &call->facts, request, err));
	status = add_fence_args(call, controller_method(pb), &maps, request, err);
	if (status == STATUS_OK)
		status = service_call_start(
			client,
			&(struct service_request){.method = controller_method(pb),
						  .message = &request->base,
						  .timeout_us = controller_timeout_us(pb->timeout_ms),
						  .done = on_answered,
						  .userdata = call},
			&call->csi, err);
	fence_maps_release(&maps);
	return status;
}

static enum status find_plugin(struct controller_call *call, struct service_client **ret, struct error *err)
{
	const char *plugin_id = call->pb->plugin_id;
	const struct node_plugin *facts;
	enum status status =
		plugins_client(call->calls->plugins, plugin_id, controller_half_of(call->pb), ret, err);

	if (status != STATUS_OK && status != STATUS_NOT_FOUND)
		return status;
	facts = status == STATUS_OK ? plugins_facts(call->calls->plugins, plugin_id) : NULL;
	if (!facts) { /* never NOT_FOUND, which would be a plugin's answer about the volume */
		call->not_here = true;
		return error_set(err, STATUS_UNAVAILABLE, 0, "plugin %.128s: this half of it is not here",
				 plugin_id);
	}
	call->facts = *facts;
	return STATUS_OK;
}

static enum status controller_call_begin(struct controller_call *call, struct error *err)
{
	struct controller_calls *calls = call->calls;
	const Holdfast__V1__PluginCall *pb = call->pb;
	enum csi_method method = controller_method(pb);
	struct service_client *client;

	if (method == CSI_METHOD_N)
		return controller_check(pb, NULL, err);
	if (calls->n_in_flight >= CONTROLLER_CALLS_MAX)
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"plugin %.128s: %s was not called: %d calls to plugins are in flight on this "
			"node already",
			pb->plugin_id, call_name(call), CONTROLLER_CALLS_MAX);
	TRY(find_plugin(call, &client, err));
	TRY(controller_check(pb, &call->facts, err));
	if (method != CSI_NODE_EXPAND_VOLUME)
		return call_plugin(call, client, err);
	return volume_manager_expand(calls->volumes, pb->plugin_id, pb->node_expand,
				     controller_timeout_us(pb->timeout_ms), on_expanded, call, NULL, err);
}

void controller_calls_take(struct controller_calls *calls, const Holdfast__V1__PluginCall *pb)
{
	struct controller_call *call = call_new(calls, pb);

	if (!call) {
		log_ctx(LOG_ERR, &(struct log_ctx){.plugin = pb->plugin_id, .op = "plugin call"},
			"no memory for a call of the server: it will give up after its time");
		return;
	}
	if (controller_call_begin(call, &call->err) == STATUS_OK) {
		TAILQ_INSERT_TAIL(&calls->in_flight, call, link);
		calls->n_in_flight++;
		return;
	}
	TAILQ_INSERT_TAIL(&calls->refused, call, link);
	(void)sd_event_source_set_enabled(calls->soon, SD_EVENT_ONESHOT); /* of a source that exists */
}

static void drop_refused(struct controller_calls *calls)
{
	struct controller_call *call;

	while ((call = TAILQ_FIRST(&calls->refused))) {
		TAILQ_REMOVE(&calls->refused, call, link);
		call_free(call);
	}
}

static int on_soon(sd_event_source *source, void *userdata)
{
	struct controller_calls *calls = userdata;
	struct controller_call *call;

	while ((call = TAILQ_FIRST(&calls->refused))) {
		TAILQ_REMOVE(&calls->refused, call, link);
		send_failure(call, &call->err);
		call_free(call);
	}
	return 0;
}

void controller_calls_drop(struct controller_calls *calls)
{
	struct controller_call *call;

	TAILQ_FOREACH (call, &calls->in_flight, link)
		call->is_dropped = true;
	drop_refused(calls);
}

enum status controller_calls_new(sd_event *event, struct plugins *plugins, struct volume_manager *volumes,
				 controller_reply_fn *reply, void *userdata, struct controller_calls **ret,
				 struct error *err)
{
	struct controller_calls *calls = calloc(1, sizeof(*calls));
	int r;

	if (!calls)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot take calls to plugins");
	*calls = (struct controller_calls){
		.plugins = plugins, .volumes = volumes, .reply = reply, .userdata = userdata};
	TAILQ_INIT(&calls->in_flight);
	TAILQ_INIT(&calls->refused);
	r = sd_event_add_defer(event, &calls->soon, on_soon, calls);
	if (r >= 0)
		r = sd_event_source_set_enabled(calls->soon, SD_EVENT_OFF);
	if (r < 0) {
		controller_calls_free(calls);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "cannot take calls to plugins");
	}
	*ret = calls;
	return STATUS_OK;
}

void controller_calls_free(struct controller_calls *calls)
{
	struct controller_call *call;

	if (!calls)
		return;
	while ((call = TAILQ_FIRST(&calls->in_flight))) {
		TAILQ_REMOVE(&calls->in_flight, call, link);
		service_call_cancel(call->csi); /* the volume manager is freed before it could call back */
		call_free(call);
	}
	drop_refused(calls);
	sd_event_source_unref(calls->soon);
	free(calls);
}
