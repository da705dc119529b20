/* SPDX-License-Identifier: Apache-2.0 */
/* The row of CSI plugins for service/instance: which calls read a plugin's facts. */
#include "plugins/instance.h"

#include "base/cleanup.h"
#include "base/ends.h"
#include "base/str.h"
#include "csi/csi_client.h"
#include "log/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

DEFINE_CLEANUP(struct instance, instance_free)

/* --- the node's addresses --- */

/* A plugin that lacks its secrets refuses, and the log has the cause. */
static const ProtobufCMessage *make_fence_request(struct instance *instance)
{
	struct error err;

	fence__get_fence_clients_request__init(&instance->fence_request);
	fence_maps_release(&instance->fence_maps);
	if (fence_maps_make(instance->fence_args, &instance->fence_maps, &err) != STATUS_OK)
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.plugin = instance->base.name, .op = "plugin", .err = &err},
			"cannot read a secret of the plugin's fence service, asking without it");
	FENCE_MAPS_LEND(&instance->fence_maps, &instance->fence_request);
	return &instance->fence_request.base;
}

static const ProtobufCMessage *request(const struct service_instance *base, unsigned int method)
{
	return method == CSI_GET_FENCE_CLIENTS ? make_fence_request((struct instance *)(uintptr_t)base)
					       : NULL;
}

static void on_fence_clients(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct instance *instance = userdata;
	struct node_plugin now = instance->facts;

	instance->fence_call = NULL;
	if (!response)
		return; /* the last report counts */
	facts_take_fence_clients(&now, (const void *)response);
	if (now.node.n_fence_clients == instance->facts.node.n_fence_clients &&
	    memcmp(now.node.fence_clients, instance->facts.node.fence_clients,
		   sizeof(now.node.fence_clients)) == 0)
		return;
	instance->facts = now;
	log_ctx(LOG_NOTICE, &(struct log_ctx){.plugin = instance->base.name, .op = "plugin"},
		"plugin %s reports other addresses of this node", instance->base.name);
	instance->changed(instance->userdata);
}

/* They may change while the plugin runs. It is asked with every tenth probe. */
static void ask_fence_clients(struct instance *instance)
{
	struct service_request request = {
		.method = CSI_GET_FENCE_CLIENTS, .done = on_fence_clients, .userdata = instance};
	struct error err;

	if (!instance->has_fence_clients || !instance->facts.has_node || instance->fence_call ||
	    !service_instance_is_settled(&instance->base) ||
	    ++instance->n_probes < PLUGIN_FENCE_CLIENTS_PROBES)
		return;
	instance->n_probes = 0;
	request.message = make_fence_request(instance);
	if (service_call_start(instance->base.client, &request, &instance->fence_call, &err) != STATUS_OK)
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.plugin = instance->base.name, .op = "plugin", .err = &err},
			"cannot ask for the node's addresses; asking again later");
	fence_maps_release(&instance->fence_maps);
}

/* --- facts --- */

static enum status take(struct service_instance *base, unsigned int method, const ProtobufCMessage *response,
			struct error *err)
{
	struct instance *instance = (struct instance *)base;
	const void *answer = response;

	switch (method) {
	case CSI_PROBE:
		if (facts_is_ready(answer)) {
			ask_fence_clients(instance);
			return STATUS_OK;
		}
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "plugin %s: Probe: it reports that it is not ready", base->name);
	case CSI_GET_PLUGIN_INFO:
		instance->reading = (struct node_plugin){0};
		instance->has_fence_clients = false;
		memcpy(instance->reading.plugin_id, base->name, sizeof(instance->reading.plugin_id));
		return facts_take_info(&instance->reading, answer, err);
	case CSI_GET_PLUGIN_CAPABILITIES:
		instance->has_controller = facts_take_services(&instance->reading, answer);
		return STATUS_OK;
	case CSI_CONTROLLER_GET_CAPABILITIES:
		facts_take_controller(&instance->reading, answer);
		return STATUS_OK;
	case CSI_NODE_GET_CAPABILITIES:
		facts_take_node(&instance->reading, answer);
		return STATUS_OK;
	case CSI_ADDONS_GET_CAPABILITIES:
		instance->has_fence_clients = facts_take_addons(&instance->reading, answer);
		return STATUS_OK;
	case CSI_GET_FENCE_CLIENTS:
		facts_take_fence_clients(&instance->reading, answer);
		return STATUS_OK;
	default:
		return facts_take_node_info(&instance->reading, answer, err);
	}
}

/* Returns whether @method is called. A service that is not announced is not called, except the node service,
 * which CSI does not announce: a plugin without it answers UNIMPLEMENTED. */
static bool is_asked(const struct service_instance *base, unsigned int method)
{
	const struct instance *instance = (const struct instance *)base;
	const struct facts_wanted *wanted = &instance->wanted;

	switch (method) {
	case CSI_CONTROLLER_GET_CAPABILITIES:
		return instance->has_controller && (!wanted->is_stated || wanted->has_controller);
	case CSI_NODE_GET_CAPABILITIES:
		return !wanted->is_stated || wanted->has_node;
	case CSI_NODE_GET_INFO:
		return instance->reading.has_node;
	case CSI_GET_FENCE_CLIENTS:
		return instance->has_fence_clients && instance->reading.has_node;
	default:
		return true;
	}
}

static enum status check(struct service_instance *base, struct error *err)
{
	struct instance *instance = (struct instance *)base;

	fence_maps_release(&instance->fence_maps);
	instance->n_probes = 0;
	TRY(facts_check(&instance->reading, &instance->wanted, err));
	instance->facts = instance->reading;
	memcpy(instance->facts.allocation_id, instance->alloc_id, sizeof(instance->alloc_id));
	instance->has_facts = true;
	return STATUS_OK;
}

static void log_health(const struct service_instance *base)
{
	const struct instance *instance = (const struct instance *)base;
	const struct node_plugin *facts = &instance->facts;
	struct log_ctx ctx = {.plugin = base->name,
			      .alloc = instance->alloc_id[0] != '\0' ? instance->alloc_id : NULL,
			      .op = "plugin"};

	if (service_instance_is_healthy(base)) {
		ctx.event = LOG_EVENT_PLUGIN_HEALTHY;
		log_ctx(LOG_NOTICE, &ctx, "plugin %s is healthy: %s %s at %s%s%s%s%s", base->name,
			facts->provider, facts->provider_version, base->path,
			facts->has_controller ? ", with a controller service" : "",
			facts->has_node ? ", with a node service, which calls this node '" : "",
			facts->has_node ? facts->node.provider_node_id : "", facts->has_node ? "'" : "");
		return;
	}
	ctx.event = LOG_EVENT_PLUGIN_UNHEALTHY;
	ctx.err = base->last_error.status != STATUS_OK ? &base->last_error : NULL;
	log_ctx(LOG_WARNING, &ctx, "plugin %s is not healthy at %s; mounts stay", base->name, base->path);
}

static void changed(struct service_instance *base)
{
	const struct instance *instance = (struct instance *)base;

	instance->changed(instance->userdata);
}

static const struct service_question questions[] = {
	{.method = CSI_PROBE, .timeout_ms = INSTANCE_PROBE_TIMEOUT_MS},
	{.method = CSI_GET_PLUGIN_INFO},
	{.method = CSI_GET_PLUGIN_CAPABILITIES},
	{.method = CSI_CONTROLLER_GET_CAPABILITIES, .may_be_absent = true},
	{.method = CSI_NODE_GET_CAPABILITIES, .may_be_absent = true},
	{.method = CSI_NODE_GET_INFO},
	/* of csi-addons: a plugin is healthy without it */
	{.method = CSI_ADDONS_GET_CAPABILITIES, .timeout_ms = INSTANCE_PROBE_TIMEOUT_MS, .is_extra = true},
	{.method = CSI_GET_FENCE_CLIENTS, .is_extra = true},
};

static const struct service_row row = {
	.kind = &csi_kind,
	.questions = questions,
	.n_questions = ARRAY_SIZE(questions),
	.request = request,
	.is_asked = is_asked,
	.take = take,
	.check = check,
	.log = log_health,
	.changed = changed,
	.no_access = "set UMask=0002 in the plugin's unit, see PLUGINS in holdfast-agent(8)",
	.is_told_of_loss = true,
};

enum status instance_new(sd_event *event, const struct plugins_options *options, const char *plugin_id,
			 const char *socket, instance_changed_fn *changed_fn, void *userdata,
			 struct instance **ret, struct error *err)
{
	cleanup(instance_freep) struct instance *instance = calloc(1, sizeof(*instance));
	const struct service_instance_options base = {
		.event = event,
		.row = &row,
		.dir = options->plugin_dir,
		.name = plugin_id,
		.socket = socket,
		.probe_interval_us = options->probe_interval_us,
		.message_bytes = options->message_bytes,
		.call_timeout_us = options->call_timeout_us,
	};

	if (!instance)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot take plugin %s", plugin_id);
	instance->changed = changed_fn;
	instance->userdata = userdata;
	instance->fence_args = fence_args_find(options->fences, options->n_fences, plugin_id);
	TRY(service_instance_init(&instance->base, &base, err));
	*ret = TAKE_PTR(instance);
	return STATUS_OK;
}

void instance_free(struct instance *instance)
{
	if (!instance)
		return;
	service_call_cancel(TAKE_PTR(instance->fence_call));
	service_instance_release(&instance->base);
	fence_maps_release(&instance->fence_maps);
	free(instance);
}

void instance_end(struct instance *instance)
{
	service_instance_end(&instance->base);
	instance_free(instance);
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
		service_instance_ask_again(&instance->base);
}

void instance_info(const struct instance *instance, struct plugin_instance_info *ret)
{
	const struct service_instance *base = &instance->base;

	*ret = (struct plugin_instance_info){
		.state = instance_state_name(base->state),
		.since_ms = base->since_ms,
	};
	memcpy(ret->plugin_id, base->name, sizeof(ret->plugin_id));
	memcpy(ret->socket, base->path, sizeof(ret->socket));
	memcpy(ret->alloc_id, instance->alloc_id, sizeof(ret->alloc_id));
	str_copy_ends(ret->last_error, sizeof(ret->last_error), base->last_error.msg);
	service_client_stats(base->client, &ret->calls);
}
