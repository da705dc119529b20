/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "pb/reflect.h"
#include "show/show.h"

#include <holdfast/v1/plugins.pb-c.h>
#include <stdlib.h>
#include <string.h>

static DEFINE_ROWS(plugin_table, holdfast__v1__plugin, "no plugins", COL("ID", "{id}"),
		   COL("PROVIDER", "{provider}"), COL("VERSION", "{provider_version}"),
		   COL_STATE("SCHEDULABLE", "{schedulable}"),
		   COL("CONTROLLERS HEALTHY",
		       "{controller_required?{controllers_healthy}/{controllers_expected}|"
		       "{controllers_expected?{controllers_healthy}/{controllers_expected}}}"),
		   COL("NODES HEALTHY", "{nodes_healthy}/{nodes_expected}"),
		   COL_NUMBER("VOLUMES", "{volumes}"),
		   COL("NOT SCHEDULABLE BECAUSE", "{unschedulable_reason}"));

/* Prints the names of the flags that are set. */
static void put_abilities(const ProtobufCMessage *half, struct strbuf *sb)
{
	for (unsigned int i = 0; half && i < half->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &half->descriptor->fields[i];

		if (field->type != PROTOBUF_C_TYPE_BOOL || str_eq(field->name, "healthy") ||
		    !reflect_is_set(half, field))
			continue;
		strbuf_puts(sb, sb->len ? " " : "");
		for (const char *c = field->name; *c; c++)
			strbuf_put(sb, *c == '_' ? "-" : c, 1);
	}
}

static void put_controller(const struct shown *shown, struct strbuf *sb)
{
	const Holdfast__V1__PluginInstance *instance = (const void *)shown->message;

	put_abilities(&instance->plugin->controller->base, sb);
}

static void put_node(const struct shown *shown, struct strbuf *sb)
{
	const Holdfast__V1__PluginInstance *instance = (const void *)shown->message;
	const Holdfast__V1__NodeHalf *half = instance->plugin->node;

	put_abilities(half ? &half->base : NULL, sb);
	for (size_t i = 0; half && half->topology && i < half->topology->n_segments; i++)
		strbuf_printf(sb, "%s%.96s=%.96s", sb->len ? " " : "", half->topology->segments[i]->key,
			      half->topology->segments[i]->value);
}

#define HALF(half, healthy, max, abilities)                                              \
	COL("NODE", "{node_id}"), COL("PROFILE", "{plugin.profile}"), COL("HALF", half), \
		COL_STATE("CONNECTED", "{connected}"), COL_STATE("HEALTHY", healthy),    \
		COL_NUMBER("MAX VOLUMES", max),                                          \
		COLUMN("CAPABILITIES AND TOPOLOGY", "", .put = (abilities), .is_verbose = true)

static DEFINE_ROWS(controller_table, holdfast__v1__plugin_instance, NULL,
		   HALF("controller", "{plugin.controller.healthy}", "", put_controller));
static DEFINE_ROWS(node_table, holdfast__v1__plugin_instance, NULL,
		   HALF("node", "{plugin.healthy}", "{plugin.node.max_volumes?{plugin.node.max_volumes}}",
			put_node));

/* Whole, as a terminal has no room for them in the table. */
static DEFINE_ROWS(reasons_page, holdfast__v1__plugin_instance, NULL,
		   LINE("{plugin.health_description}", "node {node_id}: {plugin.health_description}"));
static DEFINE_ROWS(controller_reasons_page, holdfast__v1__plugin_instance, NULL,
		   LINE("{plugin.controller.health_description}",
			"node {node_id}, controller: {plugin.controller.health_description}"));

static int compare_nodes(const void *a, const void *b)
{
	const Holdfast__V1__PluginInstance *const *x = a, *const *y = b;

	return strcmp((*x)->node_id, (*y)->node_id);
}

/* A reason that both halves give is shown once. */
static enum status show_reasons(const Holdfast__V1__PluginInstance *instance, struct error *err)
{
	const Holdfast__V1__NodePlugin *plugin = instance->plugin;

	TRY(show_page(&reasons_page, instance, NULL, false, err));
	if (plugin && plugin->controller &&
	    str_eq(plugin->controller->health_description, plugin->health_description))
		return STATUS_OK;
	return show_page(&controller_reasons_page, instance, NULL, false, err);
}

static enum status show_instances(const Holdfast__V1__Plugin *plugin, bool verbose, struct error *err)
{
	cleanup(table_freep) struct table *table = show_table_new(&node_table, verbose);

	if (plugin->n_instances == 0)
		return STATUS_OK;
	/* ours, as the whole answer is */
	qsort(plugin->instances, plugin->n_instances, sizeof(Holdfast__V1__PluginInstance *), compare_nodes);
	for (size_t i = 0; i < plugin->n_instances; i++) {
		const Holdfast__V1__NodePlugin *of = plugin->instances[i]->plugin;
		struct shown shown = {.message = &plugin->instances[i]->base, .verbose = verbose};

		if (of && of->controller)
			show_table_add(table, &controller_table, &shown);
		if (of && (of->node || !of->controller))
			show_table_add(table, &node_table, &shown);
	}
	TRY(table_print(table, "nodes", err));
	for (size_t i = 0; i < plugin->n_instances; i++)
		TRY(show_reasons(plugin->instances[i], err));
	return STATUS_OK;
}

static DEFINE_ROWS(event_table, holdfast__v1__plugin_event, NULL, COL("EVENT", "{type}"),
		   COL("AGE", "{time_ms:age}"), COL("NODE", "{node_id}"), COL("PROFILE", "{profile}"),
		   COL("ALLOCATION", "{allocation_id}"), COL("DETAILS", "{text}"));

static DEFINE_ROWS(plugin_page, holdfast__v1__plugin, NULL, COL("ID", "{id}"), COL("provider", "{provider}"),
		   COL("version", "{provider_version}"), COL("schedulable", "{schedulable}"),
		   COL_WHEN("{schedulable?|y}", "because", "{unschedulable_reason}"),
		   COL("controller required", "{controller_required}"),
		   COL("controllers healthy", "{controllers_healthy}/{controllers_expected}"),
		   COL("nodes healthy", "{nodes_healthy}/{nodes_expected}"), COL("volumes", "{volumes}"));
static DEFINE_ROWS(plugin_lists_page, holdfast__v1__plugin, NULL, TABLE("events", "events", &event_table),
		   TABLE("allocations", "allocations", &show_allocs));

static enum status plugin_get_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__Plugin *plugin = ((const Holdfast__V1__GetPluginResponse *)message)->plugin;
	bool verbose = call_has(call, OPT_VERBOSE);

	if (!plugin)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no plugin");
	TRY(show_page(&plugin_page, plugin, NULL, verbose, err));
	TRY(show_instances(plugin, verbose, err));
	return show_page(&plugin_lists_page, plugin, NULL, verbose, err);
}

static const struct command commands[] = {
	{.path = "plugin status",
	 .args = "[ID]",
	 .help = "List plugins, or show one with its nodes",
	 .example = "ebs --verbose",
	 .options = OPTION_BIT(OPT_LIMIT) | OPTION_BIT(OPT_VERBOSE),
	 .max_args = 1,
	 .arg_kinds = {WORD_PLUGIN},
	 .call = {.service = &holdfast__v1__plugins__descriptor,
		  .method = "Get",
		  .fields = {{"id", ARG(0), FIELD_PLUGIN}},
		  .show = plugin_get_show,
		  .pages = PAGES_WHOLE},
	 .list = {.service = &holdfast__v1__plugins__descriptor,
		  .method = "List",
		  .rows = &plugin_table,
		  .pages = PAGES_LIST}},
};

const struct command_table plugin_commands = {commands, ARRAY_SIZE(commands)};
