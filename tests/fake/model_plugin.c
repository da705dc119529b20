/* SPDX-License-Identifier: Apache-2.0 */
#include "model_plugin.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Holdfast__V1__PluginCall plugin_call;
typedef Holdfast__V1__PluginReply plugin_reply;

static void violate(struct model_plugin *plugin, const char *what, const char *id)
{
	if (!plugin->violation[0])
		(void)snprintf(plugin->violation, sizeof(plugin->violation), "%s: %s", what, id);
}

static char *copy(const char *text)
{
	char *ret = strdup(text);

	if (!ret)
		abort();
	return ret;
}

static char *many(size_t n)
{
	char *ret = calloc(1, n + 1);

	if (!ret)
		abort();
	memset(ret, 'x', n);
	return ret;
}

static void *message(const ProtobufCMessageDescriptor *descriptor)
{
	ProtobufCMessage *ret = calloc(1, descriptor->sizeof_message);

	if (!ret)
		abort();
	descriptor->message_init(ret);
	return ret;
}

static void reply_with(plugin_reply *reply, enum status code, const char *text)
{
	reply->code = (int32_t)code;
	reply->message = copy(text);
}

static struct model_attachment *find(struct model_plugin *plugin, const char *volume, const char *node)
{
	for (size_t i = 0; i < plugin->n_attachments; i++)
		if (str_eq(plugin->attachments[i].volume, volume) &&
		    (!node || str_eq(plugin->attachments[i].node, node)))
			return &plugin->attachments[i];
	return NULL;
}

bool model_plugin_is_attached(const struct model_plugin *plugin, const char *volume, const char *node)
{
	for (size_t i = 0; i < plugin->n_attachments; i++)
		if (str_eq(plugin->attachments[i].volume, volume) &&
		    str_eq(plugin->attachments[i].node, node))
			return true;
	return false;
}

static bool attach(struct model_plugin *plugin, const Holdfast__V1__ControllerAttachRequest *request,
		   plugin_reply *reply)
{
	struct model_attachment *known = find(plugin, request->external_id, request->external_node_id);

	if (request->external_id[0] == '\0' || request->external_node_id[0] == '\0' || !request->capability)
		violate(plugin, "an attach lacks a required field", request->external_id);
	if (!known && plugin->is_single_node && find(plugin, request->external_id, NULL)) {
		reply_with(reply, STATUS_FAILED_PRECONDITION, "the volume is attached to another node");
		return false;
	}
	if (known && known->is_read_only != request->read_only) {
		reply_with(reply, STATUS_ALREADY_EXISTS,
			   "the volume is attached with another read-only flag");
		return false;
	}
	if (known)
		return true;
	if (plugin->n_attachments == MODEL_ATTACHMENTS_MAX) {
		reply_with(reply, STATUS_RESOURCE_EXHAUSTED, "the node has no slot left");
		return false;
	}
	known = &plugin->attachments[plugin->n_attachments++];
	*known = (struct model_attachment){.is_read_only = request->read_only};
	(void)str_copy(known->volume, sizeof(known->volume), request->external_id);
	(void)str_copy(known->node, sizeof(known->node), request->external_node_id);
	return true;
}

static bool detach(struct model_plugin *plugin, const Holdfast__V1__ControllerDetachRequest *request)
{
	struct model_attachment *known = find(plugin, request->external_id, request->external_node_id);

	if (request->external_id[0] == '\0' || request->external_node_id[0] == '\0')
		violate(plugin, "a detach lacks a required field", request->external_id);
	if (known)
		*known = plugin->attachments[--plugin->n_attachments];
	return true; /* that it is not attached any more is what was asked for */
}

static void note_attach(struct model_plugin *plugin, const Holdfast__V1__ControllerAttachRequest *request)
{
	(void)snprintf(plugin->last_secret, sizeof(plugin->last_secret), "%s",
		       request->n_secrets > 0 ? request->secrets[0]->value : "");
	(void)snprintf(plugin->last_context, sizeof(plugin->last_context), "%s",
		       request->n_context > 0 ? request->context[0]->value : "");
	(void)snprintf(plugin->last_fs_type, sizeof(plugin->last_fs_type), "%s",
		       request->mount_options ? request->mount_options->fs_type : "");
	plugin->last_attachment_mode = request->capability ? (int)request->capability->attachment_mode : 0;
}

static void note_detach(struct model_plugin *plugin, const Holdfast__V1__ControllerDetachRequest *request)
{
	(void)snprintf(plugin->last_secret, sizeof(plugin->last_secret), "%s",
		       request->n_secrets > 0 ? request->secrets[0]->value : "");
}

/* The device that the provider made of it. */
static void add_context(const struct model_plugin *plugin, Holdfast__V1__ControllerAttachResponse *response,
			const char *volume)
{
	typedef Holdfast__V1__ControllerAttachResponse__PublishContextEntry entry_type;
	entry_type *entry =
		message(&holdfast__v1__controller_attach_response__publish_context_entry__descriptor);

	entry->key = copy("device");
	entry->value = plugin->context_bytes > 0 ? many(plugin->context_bytes) : copy(volume);
	response->publish_context = malloc(sizeof(entry_type *));
	if (!response->publish_context)
		abort();
	response->publish_context[0] = entry;
	response->n_publish_context = 1;
}

static void answer_attach(const struct model_plugin *plugin, const plugin_call *call, plugin_reply *reply)
{
	reply->response_case = HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_ATTACH;
	reply->attach = message(&holdfast__v1__controller_attach_response__descriptor);
	add_context(plugin, reply->attach, call->attach->external_id);
}

static void answer_rest(const plugin_call *call, plugin_reply *reply)
{
	const unsigned int number = (unsigned int)call->request_case;
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field(&holdfast__v1__plugin_reply__descriptor, number);

	reply->response_case = (Holdfast__V1__PluginReply__ResponseCase)number;
	reply->detach = message(field->descriptor); /* members of one union */
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_VALIDATE)
		reply->validate->confirmed = true;
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE)
		reply->create->external_id = copy(call->create->name);
}

bool model_plugin_is_fenced(const struct model_plugin *plugin, const char *cidr)
{
	for (size_t i = 0; i < MODEL_FENCED_MAX; i++)
		if (str_eq(plugin->fenced[i], cidr))
			return true;
	return false;
}

static void lift(struct model_plugin *plugin, const char *cidr)
{
	for (size_t i = 0; i < MODEL_FENCED_MAX; i++)
		if (str_eq(plugin->fenced[i], cidr))
			plugin->fenced[i][0] = '\0';
}

static void fence(struct model_plugin *plugin, const char *cidr)
{
	if (cidr[0] == '\0')
		violate(plugin, "a fence of nothing", cidr);
	for (size_t i = 0;
	     i < MODEL_FENCED_MAX && !plugin->forgets_fences && !model_plugin_is_fenced(plugin, cidr); i++)
		if (plugin->fenced[i][0] == '\0')
			(void)str_copy(plugin->fenced[i], sizeof(plugin->fenced[i]), cidr);
}

static void answer_list(const struct model_plugin *plugin, Holdfast__V1__ListFencedResponse *response)
{
	response->cidrs = calloc(MODEL_FENCED_MAX, sizeof(char *));
	if (!response->cidrs)
		abort();
	for (size_t i = 0; i < MODEL_FENCED_MAX && !plugin->hides_fences; i++)
		if (plugin->fenced[i][0] != '\0')
			response->cidrs[response->n_cidrs++] = copy(plugin->fenced[i]);
}

/* Do it; what it answers. */
static void perform(struct model_plugin *plugin, const plugin_call *call, plugin_reply *reply)
{
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_ATTACH) {
		if (attach(plugin, call->attach, reply))
			answer_attach(plugin, call, reply);
		return;
	}
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH)
		(void)detach(plugin, call->detach);
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_FENCE_NETWORK)
		for (size_t i = 0; i < call->fence_network->n_cidrs; i++)
			fence(plugin, call->fence_network->cidrs[i]);
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_UNFENCE_NETWORK)
		for (size_t i = 0; i < call->unfence_network->n_cidrs; i++)
			lift(plugin, call->unfence_network->cidrs[i]);
	answer_rest(call, reply);
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_LIST_FENCED)
		answer_list(plugin, reply->list_fenced);
}

static struct model_orders take_orders(struct model_plugin *plugin, int request)
{
	struct model_orders *orders = &plugin->orders[request];
	struct model_orders ret = *orders;

	if (orders->times == 0)
		return (struct model_orders){.outcome = MODEL_OK};
	orders->times--;
	return ret;
}

void model_plugin_order(struct model_plugin *plugin, int request, enum model_outcome outcome,
			unsigned int times, enum status code)
{
	plugin->orders[request] = (struct model_orders){.outcome = outcome, .times = times, .code = code};
}

static void note_node_expand(struct model_plugin *plugin, const Holdfast__V1__NodeExpandRequest *request)
{
	(void)snprintf(plugin->last_node_secret, sizeof(plugin->last_node_secret), "%s",
		       request->n_secrets > 0 ? request->secrets[0]->value : "");
}

static void begin(struct model_plugin *plugin, const plugin_call *call)
{
	plugin->calls[call->request_case]++;
	if (call->timeout_ms == 0)
		violate(plugin, "a call has no time", call->plugin_id);
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_ATTACH)
		note_attach(plugin, call->attach);
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH)
		note_detach(plugin, call->detach);
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_NODE_EXPAND)
		note_node_expand(plugin, call->node_expand);
	if (++plugin->in_flight > plugin->most_in_flight)
		plugin->most_in_flight = plugin->in_flight;
}

void model_plugin_done(struct model_plugin *plugin)
{
	plugin->in_flight--;
}

static void answer_other(plugin_reply *reply)
{
	plugin_reply *other = message(&holdfast__v1__plugin_reply__descriptor);
	plugin_reply swap;

	other->call_id = reply->call_id;
	other->response_case = HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_NODE_EXPAND;
	other->node_expand = message(&holdfast__v1__node_expand_response__descriptor);
	swap = *reply; /* the caller owns the one it knows */
	*reply = *other;
	*other = swap;
	protobuf_c_message_free_unpacked(&other->base, NULL);
}

void model_plugin_call(struct model_plugin *plugin, const plugin_call *call, struct model_answer *ret)
{
	struct model_orders orders = take_orders(plugin, (int)call->request_case);
	plugin_reply *reply = message(&holdfast__v1__plugin_reply__descriptor);
	plugin_reply *unused = NULL;

	*ret = (struct model_answer){.reply = reply, .times = 1};
	reply->call_id = call->call_id;
	if (orders.outcome == MODEL_NOT_HERE) {
		reply->not_here = true;
		return;
	}
	begin(plugin, call);
	switch (orders.outcome) {
	case MODEL_OK:
	case MODEL_TWICE:
		perform(plugin, call, reply);
		ret->times = orders.outcome == MODEL_TWICE ? 2 : 1;
		break;
	case MODEL_FAIL_DONE:
		unused = message(&holdfast__v1__plugin_reply__descriptor);
		perform(plugin, call, unused);
		protobuf_c_message_free_unpacked(&unused->base, NULL);
		reply_with(reply, orders.code, "the model says no, but did it");
		break;
	case MODEL_FAIL:
		reply_with(reply, orders.code, "the model says no");
		break;
	case MODEL_NOT_FOUND:
		reply->response_case = HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_DETACH;
		reply->detach = message(&holdfast__v1__controller_detach_response__descriptor);
		reply->detach->not_found = true;
		reply->detach->message = strdup("the model knows no such node");
		break;
	case MODEL_HOLD:
		reply_with(reply, STATUS_INTERNAL, "the model took its time, and failed");
		ret->times = 0;
		return;
	case MODEL_HOLD_DONE:
		perform(plugin, call, reply);
		ret->times = 0;
		return;
	case MODEL_LOSE_AFTER:
		perform(plugin, call, reply);
		ret->lose = true;
		break;
	case MODEL_LOSE_BEFORE:
		ret->lose = true;
		break;
	case MODEL_OTHER_ANSWER:
		perform(plugin, call, reply);
		answer_other(reply);
		break;
	case MODEL_NOT_HERE:
	case MODEL_OUTCOME_N:
		abort();
	}
	model_plugin_done(plugin);
}
