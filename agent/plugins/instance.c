/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/instance.h"

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/ends.h"
#include "base/error.h"
#include "base/str.h"
#include "csi/csi_client.h"
#include "log/log.h"
#include "plugins/facts.h"
#include "rpc/timer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The facts of a plugin, one call after the other: who it is, what it announces, and then what of that it
 * serves. A service that is not announced is not called, but for the node service, which CSI does not
 * announce: a plugin that answers UNIMPLEMENTED has none. */

/* @facts borrowed; NULL when @err says why there are none, with plugin and call. */
typedef void facts_done_fn(const struct node_plugin *facts, const struct error *err, void *userdata);

struct facts_read {
	struct service_client *client; /* borrowed */
	struct facts_wanted wanted;
	struct node_plugin facts; /* so far */
	bool has_controller;	  /* announced */
	unsigned int step;
	struct service_call *call; /* NULL: nothing is in flight */
	facts_done_fn *done;
	void *userdata;
};

static service_done_fn on_answer;

static bool always(const struct facts_read *read)
{
	return true;
}

static bool is_controller_asked(const struct facts_read *read)
{
	return read->has_controller && (!read->wanted.is_stated || read->wanted.has_controller);
}

static bool is_node_asked(const struct facts_read *read)
{
	return !read->wanted.is_stated || read->wanted.has_node;
}

static bool has_node(const struct facts_read *read)
{
	return read->facts.has_node;
}

static enum status parse_info(struct facts_read *read, const ProtobufCMessage *response, struct error *err)
{
	return facts_take_info(&read->facts, (const void *)response, err);
}

static enum status parse_services(struct facts_read *read, const ProtobufCMessage *response,
				  struct error *err)
{
	read->has_controller = facts_take_services(&read->facts, (const void *)response);
	return STATUS_OK;
}

static enum status parse_controller(struct facts_read *read, const ProtobufCMessage *response,
				    struct error *err)
{
	facts_take_controller(&read->facts, (const void *)response);
	return STATUS_OK;
}

static enum status parse_node(struct facts_read *read, const ProtobufCMessage *response, struct error *err)
{
	facts_take_node(&read->facts, (const void *)response);
	return STATUS_OK;
}

static enum status parse_node_info(struct facts_read *read, const ProtobufCMessage *response,
				   struct error *err)
{
	return facts_take_node_info(&read->facts, (const void *)response, err);
}

static const struct facts_call {
	enum csi_method method;
	bool (*is_wanted)(const struct facts_read *read);
	enum status (*take)(struct facts_read *read, const ProtobufCMessage *response, struct error *err);
	bool may_be_absent; /* UNIMPLEMENTED: it has no such service */
} calls[] = {
	{CSI_GET_PLUGIN_INFO, always, parse_info, false},
	{CSI_GET_PLUGIN_CAPABILITIES, always, parse_services, false},
	{CSI_CONTROLLER_GET_CAPABILITIES, is_controller_asked, parse_controller, true},
	{CSI_NODE_GET_CAPABILITIES, is_node_asked, parse_node, true},
	{CSI_NODE_GET_INFO, has_node, parse_node_info, false},
};

/* None of these requests has a field. */
static const ProtobufCMessage *request_of(enum csi_method method)
{
	static const Csi__V1__GetPluginInfoRequest info = CSI__V1__GET_PLUGIN_INFO_REQUEST__INIT;
	static const Csi__V1__GetPluginCapabilitiesRequest services =
		CSI__V1__GET_PLUGIN_CAPABILITIES_REQUEST__INIT;
	static const Csi__V1__ControllerGetCapabilitiesRequest controller =
		CSI__V1__CONTROLLER_GET_CAPABILITIES_REQUEST__INIT;
	static const Csi__V1__NodeGetCapabilitiesRequest node = CSI__V1__NODE_GET_CAPABILITIES_REQUEST__INIT;
	static const Csi__V1__NodeGetInfoRequest node_info = CSI__V1__NODE_GET_INFO_REQUEST__INIT;

	return method == CSI_GET_PLUGIN_INFO		   ? &info.base
	       : method == CSI_GET_PLUGIN_CAPABILITIES	   ? &services.base
	       : method == CSI_CONTROLLER_GET_CAPABILITIES ? &controller.base
	       : method == CSI_NODE_GET_CAPABILITIES	   ? &node.base
							   : &node_info.base;
}

static void facts_read_finish(struct facts_read *read, const struct error *err)
{
	struct node_plugin facts = read->facts;

	read->done(err ? NULL : &facts, err, read->userdata);
}

/* Make the next call that is wanted; after the last one there is nothing in flight. */
static enum status go_on(struct facts_read *read, struct error *err)
{
	while (read->step < ARRAY_SIZE(calls) && !calls[read->step].is_wanted(read))
		read->step++;
	if (read->step == ARRAY_SIZE(calls))
		return facts_check(&read->facts, &read->wanted, err);
	return service_call_start(read->client,
				  &(struct service_request){.method = calls[read->step].method,
							    .message = request_of(calls[read->step].method),
							    .done = on_answer,
							    .userdata = read},
				  &read->call, err);
}

static void on_answer(const ProtobufCMessage *response, const struct error *why, void *userdata)
{
	struct facts_read *read = userdata;
	const struct facts_call *call = &calls[read->step];
	enum status status = STATUS_OK;
	struct error err;

	read->call = NULL;
	if (response)
		status = call->take(read, response, &err);
	else if (!call->may_be_absent || why->status != STATUS_UNIMPLEMENTED) {
		facts_read_finish(read, why);
		return;
	}
	read->step++;
	if (status == STATUS_OK)
		status = go_on(read, &err);
	if (status != STATUS_OK)
		facts_read_finish(read, &err);
	else if (!read->call)
		facts_read_finish(read, NULL);
}

/* Begin; @done runs once, from the event loop, unless facts_read_cancel() comes first or this fails.
 * @read where it is kept, not in use */
static enum status facts_read_start(struct facts_read *read, struct service_client *client,
				    const char *plugin_id, const struct facts_wanted *wanted,
				    facts_done_fn *done, void *userdata, struct error *err)
{
	*read = (struct facts_read){.client = client, .wanted = *wanted, .done = done, .userdata = userdata};
	(void)str_copy(read->facts.plugin_id, sizeof(read->facts.plugin_id), plugin_id);
	return go_on(read, err);
}

/* Harmless when nothing is in flight. */
static void facts_read_cancel(struct facts_read *read)
{
	service_call_cancel(read->call);
	read->call = NULL;
}

struct instance {
	sd_event *event; /* borrowed */
	char plugin_id[PLUGIN_ID_MAX + 1];
	char path[sizeof(((struct plugin_instance_info *)0)->socket)];
	char alloc_id[UUID_TEXT_SIZE];
	uint64_t probe_interval_us;
	size_t message_bytes;
	uint64_t call_timeout_us;
	instance_changed_fn *changed;
	void *userdata;
	struct facts_wanted wanted;
	struct service_client *client;
	enum instance_state state;
	int64_t since_ms;
	struct backoff retry; /* of one that is not healthy */
	struct backoff soon;  /* of one that does not stay what it is */
	sd_event_source *timer;
	struct service_call *probe;
	struct facts_read facts_read;
	bool has_facts;
	struct node_plugin facts;
	struct error last_error;
};

DEFINE_CLEANUP(struct instance, instance_free)

static void step(struct instance *instance, enum instance_event event, const struct error *err);

static void on_probed(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct instance *instance = userdata;
	struct error why;

	instance->probe = NULL;
	if (!response && err->sys_errno == EACCES) {
		(void)error_set(&why, err->status, 0,
				"%s: set UMask=0002 in the plugin's unit, see PLUGINS in holdfast-agent(8)",
				err->msg);
		why.sys_errno = EACCES;
		err = &why;
	}
	if (!response) {
		step(instance, INSTANCE_PROBE_FAILED, err);
		return;
	}
	if (facts_is_ready((const void *)response)) {
		step(instance, INSTANCE_PROBE_OK, NULL);
		return;
	}
	(void)error_set(&why, STATUS_UNAVAILABLE, 0, "plugin %s: Probe: it says that it is not ready",
			instance->plugin_id);
	step(instance, INSTANCE_PROBE_FAILED, &why);
}

static void do_probe(struct instance *instance)
{
	static const Csi__V1__ProbeRequest request = CSI__V1__PROBE_REQUEST__INIT;
	struct error err;

	if (service_call_start(
		    instance->client,
		    &(struct service_request){.method = CSI_PROBE,
					      .message = &request.base,
					      .timeout_us = INSTANCE_PROBE_TIMEOUT_MS * USEC_PER_MSEC,
					      .done = on_probed,
					      .userdata = instance},
		    &instance->probe, &err) != STATUS_OK)
		step(instance, INSTANCE_PROBE_FAILED, &err);
}

static void on_facts(const struct node_plugin *facts, const struct error *err, void *userdata)
{
	struct instance *instance = userdata;

	if (!facts) {
		step(instance, INSTANCE_FACTS_FAILED, err);
		return;
	}
	instance->facts = *facts;
	memcpy(instance->facts.allocation_id, instance->alloc_id, sizeof(instance->alloc_id));
	instance->has_facts = true;
	step(instance, INSTANCE_FACTS_OK, NULL);
}

static void do_facts(struct instance *instance)
{
	struct error err;

	if (facts_read_start(&instance->facts_read, instance->client, instance->plugin_id, &instance->wanted,
			     on_facts, instance, &err) != STATUS_OK)
		step(instance, INSTANCE_FACTS_FAILED, &err);
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	step(userdata, INSTANCE_DUE, NULL);
	return 0;
}

static void arm(struct instance *instance, uint64_t delay_us)
{
	int r = timer_arm(instance->event, &instance->timer, delay_us, on_due, instance);
	struct error err;

	if (r >= 0)
		return;
	/* it stays as it is until its socket is bound anew */
	(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, r, "cannot arm a timer");
	log_ctx(LOG_ERR, &(struct log_ctx){.plugin = instance->plugin_id, .op = "plugin", .err = &err},
		"the plugin is not probed any more");
}

static void cancel(struct instance *instance)
{
	timer_disarm(instance->timer);
	service_call_cancel(instance->probe);
	instance->probe = NULL;
	facts_read_cancel(&instance->facts_read);
}

static void log_health(const struct instance *instance)
{
	struct log_ctx ctx = {.plugin = instance->plugin_id,
			      .alloc = instance->alloc_id[0] != '\0' ? instance->alloc_id : NULL,
			      .op = "plugin"};
	const struct node_plugin *facts = &instance->facts;

	if (instance_is_healthy(instance)) {
		ctx.event = LOG_EVENT_PLUGIN_HEALTHY;
		log_ctx(LOG_NOTICE, &ctx, "plugin %s is healthy: %s %s at %s%s%s%s%s", instance->plugin_id,
			facts->provider, facts->provider_version, instance->path,
			facts->has_controller ? ", with a controller service" : "",
			facts->has_node ? ", with a node service, which calls this node '" : "",
			facts->has_node ? facts->node.provider_node_id : "", facts->has_node ? "'" : "");
		return;
	}
	ctx.event = LOG_EVENT_PLUGIN_UNHEALTHY;
	ctx.err = instance->last_error.status != STATUS_OK ? &instance->last_error : NULL;
	log_ctx(LOG_WARNING, &ctx, "plugin %s is not healthy at %s, what is mounted stays",
		instance->plugin_id, instance->path);
}

/* Timers and calls that a step asks for. */
static void act(struct instance *instance, unsigned int actions)
{
	if (actions & INSTANCE_DO_SETTLE)
		backoff_reset(&instance->soon);
	if (actions & INSTANCE_DO_INTERVAL) {
		backoff_reset(&instance->retry);
		arm(instance, instance->probe_interval_us);
	}
	if (actions & INSTANCE_DO_BACKOFF)
		arm(instance, backoff_next(&instance->retry, backoff_random()));
	if (actions & INSTANCE_DO_SOON) {
		bool is_first = instance->soon.attempts == 0;
		uint64_t delay_us = backoff_next(&instance->soon, backoff_random());

		arm(instance, is_first ? 0 : delay_us);
	}
	if (actions & INSTANCE_DO_PROBE)
		do_probe(instance);
	if (actions & INSTANCE_DO_FACTS)
		do_facts(instance);
}

static void step(struct instance *instance, enum instance_event event, const struct error *err)
{
	struct instance_step next = instance_step(instance->state, event);

	if (!str_eq(instance_state_name(next.state), instance_state_name(instance->state)))
		instance->since_ms = clock_realtime_ms();
	instance->state = next.state;
	if (err)
		instance->last_error = *err;
	else if (event == INSTANCE_FACTS_OK)
		instance->last_error = (struct error){0};
	if (next.actions & INSTANCE_DO_CANCEL)
		cancel(instance);
	if (next.actions & INSTANCE_DO_TELL)
		log_health(instance);
	act(instance, next.actions);
	if (next.actions & (INSTANCE_DO_TELL | INSTANCE_DO_REASON))
		instance->changed(instance, instance->userdata);
}

static void on_lost(void *userdata)
{
	step(userdata, INSTANCE_LOST, NULL);
}

static enum status open_client(struct instance *instance, struct error *err)
{
	const struct service_client_options options = {
		.name = instance->plugin_id,
		.socket = instance->path,
		.message_bytes = instance->message_bytes,
		.call_timeout_us = instance->call_timeout_us,
		.on_lost = on_lost,
		.userdata = instance,
	};
	struct service_client *client;

	TRY(service_client_new(instance->event, &csi_kind, &options, &client, err));
	service_client_free(instance->client);
	instance->client = client;
	return STATUS_OK;
}

enum status instance_new(sd_event *event, const struct instance_options *options,
			 instance_changed_fn *changed, void *userdata, struct instance **ret,
			 struct error *err)
{
	cleanup(instance_freep) struct instance *instance = calloc(1, sizeof(*instance));
	int r;

	if (!instance)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot take plugin %s",
				 options->plugin_id);
	*instance = (struct instance){
		.event = event,
		.probe_interval_us = options->probe_interval_us,
		.message_bytes = options->message_bytes,
		.call_timeout_us = options->call_timeout_us,
		.changed = changed,
		.userdata = userdata,
		.since_ms = clock_realtime_ms(),
		.retry = BACKOFF_INIT(INSTANCE_RETRY_MIN_MS * USEC_PER_MSEC,
				      INSTANCE_RETRY_MAX_MS * USEC_PER_MSEC),
		.soon = BACKOFF_INIT(INSTANCE_SOON_MIN_MS * USEC_PER_MSEC,
				     INSTANCE_SOON_MAX_MS * USEC_PER_MSEC),
	};
	if (str_copy(instance->plugin_id, sizeof(instance->plugin_id), options->plugin_id) < 0 ||
	    str_copy(instance->path, sizeof(instance->path), options->path) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the path of the socket %s is too long",
				 options->path);
	TRY(open_client(instance, err));
	r = timer_arm(event, &instance->timer, 0, on_due, instance);
	if (r < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "cannot probe plugin %s",
				 instance->plugin_id);
	*ret = TAKE_PTR(instance);
	return STATUS_OK;
}

void instance_free(struct instance *instance)
{
	if (!instance)
		return;
	cancel(instance);
	sd_event_source_disable_unref(instance->timer);
	service_client_free(instance->client);
	free(instance);
}

void instance_end(struct instance *instance)
{
	struct error err;

	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "plugin %s: its socket %s is gone", instance->plugin_id,
			instance->path);
	step(instance, INSTANCE_REMOVED, &err);
	instance_free(instance);
}

void instance_recreate(struct instance *instance)
{
	struct error err;

	/* first what is in flight here, which is not to fail for its end */
	step(instance, INSTANCE_RECREATED, NULL);
	if (open_client(instance, &err) != STATUS_OK)
		log_ctx(LOG_ERR,
			&(struct log_ctx){.plugin = instance->plugin_id, .op = "plugin", .err = &err},
			"the plugin's old connection is kept");
}

void instance_retry(struct instance *instance)
{
	if (!instance_is_healthy(instance))
		step(instance, INSTANCE_RECREATED, NULL);
}

void instance_own(struct instance *instance, const char *alloc_id, const struct facts_wanted *wanted)
{
	bool is_other = instance->wanted.is_stated != wanted->is_stated ||
			instance->wanted.has_controller != wanted->has_controller ||
			instance->wanted.has_node != wanted->has_node;

	(void)str_copy(instance->alloc_id, sizeof(instance->alloc_id), alloc_id);
	memcpy(instance->facts.allocation_id, instance->alloc_id, sizeof(instance->alloc_id));
	instance->wanted = *wanted;
	if (is_other)
		step(instance, INSTANCE_RECREATED, NULL);
}

const char *instance_alloc(const struct instance *instance)
{
	return instance->alloc_id;
}

bool instance_is_healthy(const struct instance *instance)
{
	return instance_state_is_healthy(instance->state);
}

bool instance_is_settled(const struct instance *instance)
{
	return instance->state == INSTANCE_HEALTHY;
}

const struct node_plugin *instance_facts(const struct instance *instance)
{
	return instance->has_facts ? &instance->facts : NULL;
}

const struct error *instance_error(const struct instance *instance)
{
	return &instance->last_error;
}

struct service_client *instance_client(const struct instance *instance)
{
	return instance->client;
}

void instance_info(const struct instance *instance, struct plugin_instance_info *ret)
{
	*ret = (struct plugin_instance_info){
		.state = instance_state_name(instance->state),
		.since_ms = instance->since_ms,
	};
	memcpy(ret->plugin_id, instance->plugin_id, sizeof(ret->plugin_id));
	memcpy(ret->socket, instance->path, sizeof(ret->socket));
	memcpy(ret->alloc_id, instance->alloc_id, sizeof(ret->alloc_id));
	str_copy_ends(ret->last_error, sizeof(ret->last_error), instance->last_error.msg);
	service_client_stats(instance->client, &ret->calls);
}
