/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/facts_read.h"

#include "base/cleanup.h"
#include "base/str.h"

static csi_done_fn on_answer;

static bool always(const struct facts_read *read)
{
	(void)read;
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

static enum status take_info(struct facts_read *read, const ProtobufCMessage *response, struct error *err)
{
	return facts_take_info(&read->facts, (const void *)response, err);
}

static enum status take_services(struct facts_read *read, const ProtobufCMessage *response, struct error *err)
{
	read->has_controller = facts_take_services(&read->facts, (const void *)response);
	return STATUS_OK;
}

static enum status take_controller(struct facts_read *read, const ProtobufCMessage *response,
				   struct error *err)
{
	facts_take_controller(&read->facts, (const void *)response);
	return STATUS_OK;
}

static enum status take_node(struct facts_read *read, const ProtobufCMessage *response, struct error *err)
{
	facts_take_node(&read->facts, (const void *)response);
	return STATUS_OK;
}

static enum status take_node_info(struct facts_read *read, const ProtobufCMessage *response,
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
	{CSI_GET_PLUGIN_INFO, always, take_info, false},
	{CSI_GET_PLUGIN_CAPABILITIES, always, take_services, false},
	{CSI_CONTROLLER_GET_CAPABILITIES, is_controller_asked, take_controller, true},
	{CSI_NODE_GET_CAPABILITIES, is_node_asked, take_node, true},
	{CSI_NODE_GET_INFO, has_node, take_node_info, false},
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

static void finish(struct facts_read *read, const struct error *err)
{
	struct node_plugin facts = read->facts;

	read->done(err ? NULL : &facts, err, read->userdata);
}

/* Make the next call that is wanted; after the last one there is nothing under way. */
static enum status go_on(struct facts_read *read, struct error *err)
{
	while (read->step < ARRAY_SIZE(calls) && !calls[read->step].is_wanted(read))
		read->step++;
	if (read->step == ARRAY_SIZE(calls))
		return facts_check(&read->facts, &read->wanted, err);
	return csi_call_start(read->client, calls[read->step].method, request_of(calls[read->step].method), 0,
			      on_answer, read, &read->call, err);
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
		finish(read, why);
		return;
	}
	read->step++;
	if (status == STATUS_OK)
		status = go_on(read, &err);
	if (status != STATUS_OK)
		finish(read, &err);
	else if (!read->call)
		finish(read, NULL);
}

enum status facts_read_start(struct facts_read *read, struct csi_client *client, const char *plugin_id,
			     const struct facts_wanted *wanted, facts_done_fn *done, void *userdata,
			     struct error *err)
{
	*read = (struct facts_read){.client = client, .wanted = *wanted, .done = done, .userdata = userdata};
	(void)str_copy(read->facts.plugin_id, sizeof(read->facts.plugin_id), plugin_id);
	return go_on(read, err);
}

void facts_read_cancel(struct facts_read *read)
{
	csi_call_cancel(read->call);
	read->call = NULL;
}
