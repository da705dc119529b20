/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "rpc/pbjson_word.h"
#include "show/output.h"
#include "show/show.h"

#include <holdfast/v1/plugins.pb-c.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_SIZE = 32, ABILITIES_SIZE = 512 };

static const char *count_text(uint32_t healthy, uint32_t expected, char text[static COUNT_SIZE])
{
	(void)str_format(text, COUNT_SIZE, "%" PRIu32 "/%" PRIu32, healthy, expected);
	return text;
}

static enum status show_plugins(Holdfast__V1__Plugin *const *plugins, size_t n, bool verbose,
				struct error *err)
{
	static const struct column columns[] = {
		{.name = "ID"},
		{.name = "PROVIDER"},
		{.name = "VERSION"},
		{.name = "SCHEDULABLE", .is_state = true},
		{.name = "CONTROLLERS HEALTHY"},
		{.name = "NODES HEALTHY"},
		{.name = "VOLUMES", .is_number = true},
		{.name = "NOT SCHEDULABLE BECAUSE", .is_wide = true},
	};
	cleanup(table_freep) struct table *table = NULL;

	if (n == 0) {
		print_line("no plugins");
		return STATUS_OK;
	}
	table = table_new(columns, ARRAY_SIZE(columns));
	table_show_whole(table, verbose);
	for (size_t i = 0; i < n; i++) {
		const Holdfast__V1__Plugin *p = plugins[i];
		char controllers[COUNT_SIZE], nodes[COUNT_SIZE], volumes[16];

		(void)str_format(volumes, sizeof(volumes), "%" PRIu32, p->volumes);
		table_add(table,
			  (const char *const[]){p->id, p->provider, p->provider_version,
						p->schedulable ? "yes" : "no",
						p->controller_required || p->controllers_expected
							? count_text(p->controllers_healthy,
								     p->controllers_expected, controllers)
							: "",
						count_text(p->nodes_healthy, p->nodes_expected, nodes),
						volumes, p->unschedulable_reason});
	}
	return table_print(table, NULL, err);
}

struct ability {
	protobuf_c_boolean has;
	const char *name;
};

/* Each of them stands for itself: what is not said is not there. The length of @text; all names fit. */
static size_t put_abilities(const struct ability *abilities, size_t n_abilities,
			    char text[static ABILITIES_SIZE])
{
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n_abilities; i++)
		if (abilities[i].has)
			n += (size_t)snprintf(text + n, ABILITIES_SIZE - n, "%s%s", n ? " " : "",
					      abilities[i].name);
	return n;
}

static void controller_abilities(const Holdfast__V1__ControllerHalf *half, char text[static ABILITIES_SIZE])
{
	const struct ability abilities[] = {
		{half->create_delete, "create-delete"},
		{half->attach_detach, "attach-detach"},
		{half->list_volumes, "list-volumes"},
		{half->get_capacity, "get-capacity"},
		{half->create_delete_snapshot, "create-delete-snapshot"},
		{half->list_snapshots, "list-snapshots"},
		{half->clone, "clone"},
		{half->readonly_attach, "readonly-attach"},
		{half->expand, "expand"},
		{half->condition, "condition"},
		{half->get_volume, "get-volume"},
		{half->single_node_multi_writer, "single-node-multi-writer"},
	};

	(void)put_abilities(abilities, ARRAY_SIZE(abilities), text);
}

static void node_abilities(const Holdfast__V1__NodeHalf *half, char text[static ABILITIES_SIZE])
{
	const struct ability abilities[] = {
		{half->stage, "stage"},
		{half->stats, "stats"},
		{half->expand, "expand"},
		{half->condition, "condition"},
		{half->single_node_multi_writer, "single-node-multi-writer"},
	};
	size_t n = put_abilities(abilities, ARRAY_SIZE(abilities), text);

	for (size_t i = 0; half->topology && i < half->topology->n_segments && n < ABILITIES_SIZE / 2; i++)
		n += (size_t)snprintf(text + n, ABILITIES_SIZE - n, "%s%.96s=%.96s", n ? " " : "",
				      half->topology->segments[i]->key, half->topology->segments[i]->value);
}

static void add_half(struct table *table, const Holdfast__V1__PluginInstance *instance, bool is_controller)
{
	const Holdfast__V1__NodePlugin *p = instance->plugin;
	char abilities[ABILITIES_SIZE] = "", max[24] = "";
	bool healthy = is_controller ? p->controller->healthy : p->healthy;

	if (is_controller)
		controller_abilities(p->controller, abilities);
	else if (p->node)
		node_abilities(p->node, abilities);
	if (!is_controller && p->node && p->node->max_volumes > 0)
		(void)str_format(max, sizeof(max), "%" PRId64, p->node->max_volumes);
	table_add(table, (const char *const[]){
				 instance->node_id, p->profile, is_controller ? "controller" : "node",
				 instance->connected ? "yes" : "no", healthy ? "yes" : "no", max, abilities});
}

static int compare_nodes(const void *a, const void *b)
{
	const Holdfast__V1__PluginInstance *const *x = a, *const *y = b;

	return strcmp((*x)->node_id, (*y)->node_id);
}

/* Whole, as a terminal has no room for them in the table. What is said of both halves is said once. */
static void show_reasons(const Holdfast__V1__Plugin *plugin)
{
	for (size_t i = 0; i < plugin->n_instances; i++) {
		const Holdfast__V1__PluginInstance *instance = plugin->instances[i];
		const char *of_node = instance->plugin ? instance->plugin->health_description : "";
		const char *of_controller = instance->plugin && instance->plugin->controller
						    ? instance->plugin->controller->health_description
						    : "";

		if (of_node[0])
			print_line("node %s: %s", instance->node_id, of_node);
		if (of_controller[0] && !str_eq(of_controller, of_node))
			print_line("node %s, controller: %s", instance->node_id, of_controller);
	}
}

static enum status show_instances(const Holdfast__V1__Plugin *plugin, bool verbose, struct error *err)
{
	enum { COLUMNS = 6 };
	static const struct column columns[] = {
		{.name = "NODE"},
		{.name = "PROFILE"},
		{.name = "HALF"},
		{.name = "CONNECTED", .is_state = true},
		{.name = "HEALTHY", .is_state = true},
		{.name = "MAX VOLUMES", .is_number = true},
		/* verbose */
		{.name = "CAPABILITIES AND TOPOLOGY"},
	};
	cleanup(table_freep) struct table *table = NULL;

	if (plugin->n_instances == 0)
		return STATUS_OK;
	table = table_new(columns, verbose ? ARRAY_SIZE(columns) : COLUMNS);
	table_show_whole(table, verbose);
	/* ours, as the whole answer is */
	qsort(plugin->instances, plugin->n_instances, sizeof(Holdfast__V1__PluginInstance *), compare_nodes);
	for (size_t i = 0; i < plugin->n_instances; i++) {
		const Holdfast__V1__PluginInstance *instance = plugin->instances[i];

		if (!instance->plugin)
			continue;
		if (instance->plugin->controller)
			add_half(table, instance, true);
		if (instance->plugin->node || !instance->plugin->controller)
			add_half(table, instance, false);
	}
	TRY(table_print(table, "nodes", err));
	show_reasons(plugin);
	return STATUS_OK;
}

static enum status show_events(const Holdfast__V1__Plugin *plugin, struct error *err)
{
	static const struct column columns[] = {{.name = "EVENT"},	{.name = "AGE"},
						{.name = "NODE"},	{.name = "PROFILE"},
						{.name = "ALLOCATION"}, {.name = "DETAILS", .is_wide = true}};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (plugin->n_events == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < plugin->n_events; i++) {
		const Holdfast__V1__PluginEvent *event = plugin->events[i];
		char type[PBJSON_WORD_SIZE], age[AGE_SIZE];

		table_add(table, (const char *const[]){
					 pbjson_word_text(&holdfast__v1__allocation_event_type__descriptor,
							  (int)event->type, type),
					 age_text(event->time_ms, now_ms, age), event->node_id,
					 event->profile, event->allocation_id, event->text});
	}
	return table_print(table, "events", err);
}

static enum status show_plugin(const Holdfast__V1__Plugin *plugin, bool verbose, struct error *err)
{
	char text[COUNT_SIZE];

	if (!plugin)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no plugin");
	print_field("ID", plugin->id);
	print_field("provider", plugin->provider);
	print_field("version", plugin->provider_version);
	print_field("schedulable", plugin->schedulable ? "yes" : "no");
	if (!plugin->schedulable)
		print_field("because", plugin->unschedulable_reason);
	print_field("controller required", plugin->controller_required ? "yes" : "no");
	print_field("controllers healthy",
		    count_text(plugin->controllers_healthy, plugin->controllers_expected, text));
	print_field("nodes healthy", count_text(plugin->nodes_healthy, plugin->nodes_expected, text));
	(void)str_format(text, sizeof(text), "%" PRIu32, plugin->volumes);
	print_field("volumes", text);
	TRY(show_instances(plugin, verbose, err));
	TRY(show_events(plugin, err));
	return show_allocs(plugin->allocations, plugin->n_allocations, "allocations", verbose, err);
}

static enum status plugin_list_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ListPluginsResponse *answer = message;

	return show_plugins(answer->plugins, answer->n_plugins, call_has(call, OPT_VERBOSE), err);
}

static enum status plugin_get_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__GetPluginRequest *request = message;

	return call_pick(call, pick_plugin, call->inv->args[0], &request->id, err);
}

static enum status plugin_get_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__GetPluginResponse *answer = message;

	return show_plugin(answer->plugin, call_has(call, OPT_VERBOSE), err);
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
		  .fill = plugin_get_fill,
		  .show = plugin_get_show,
		  .pages = PAGES_WHOLE},
	 .list = {.service = &holdfast__v1__plugins__descriptor,
		  .method = "List",
		  .show = plugin_list_show,
		  .pages = PAGES_LIST}},
};

const struct command_table plugin_commands = {commands, ARRAY_SIZE(commands)};
