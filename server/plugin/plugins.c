/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/plugins.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "api/list_page.h"
#include "api/watch.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/message.h"
#include "model/pb.h"
#include "rpc/server.h"
#include "state/keys.h"

#include <assert.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <stdlib.h>
#include <string.h>

enum {
	PLUGINS_PER_PAGE_MAX = 1000,
	INSTANCES_PER_PAGE_MAX = 1000,
	/* Instances that one turn of the loop counts for a page; one plugin is counted whole */
	PLUGINS_COUNTED_MAX = 20 * 1000,
	REASON_SIZE = 512,
};

/* Where the next page of a plugin begins. */
#define TOKEN_NODE "node/"
#define TOKEN_ALLOC "allocation/"

static bool is_healthy(const struct instance_entry *entry)
{
	return node_plugin_is_healthy(&entry->instance.plugin) && node_is_connected(entry->node);
}

static bool has_healthy_controller(const struct instance_entry *entry)
{
	const struct node_plugin *plugin = &entry->instance.plugin;

	return plugin->has_controller && plugin->controller.healthy && node_is_connected(entry->node);
}

static void note_provider(const struct instance_entry *entry, const struct instance_entry **newest)
{
	if (!*newest || (*newest)->instance.modify_index < entry->instance.modify_index)
		*newest = entry;
}

static void copy_provider(const struct instance_entry *newest, struct plugin_summary *ret)
{
	if (!newest)
		return;
	memcpy(ret->provider, newest->instance.plugin.provider, sizeof(ret->provider));
	memcpy(ret->provider_version, newest->instance.plugin.provider_version,
	       sizeof(ret->provider_version));
}

static void add_controller(const struct instance_entry *entry, struct plugin_summary *ret)
{
	ret->controllers_expected += entry->instance.plugin.has_controller;
	ret->controllers_healthy += has_healthy_controller(entry);
	ret->controller_required = ret->controller_required || entry->instance.plugin.controller_required;
}

static bool is_to_run(const struct alloc_entry *entry)
{
	return entry->alloc.desired_status == DESIRED_RUN && !alloc_is_client_terminal(&entry->alloc);
}

/* Notes in each node which allocation counts there, the last in their order: while one version is replaced by
 * another, two run the plugin. */
static void choose_runners(struct plugin_entry *plugin)
{
	struct plugin_runner *runner;

	for (runner = state_plugin_runner_from(plugin, "", ""); runner;
	     runner = state_plugin_runner_next(runner))
		if (is_to_run(runner->alloc))
			runner->alloc->node->counted = runner;
}

/* Adds plugins that allocations must run and their nodes do not report, and members of jobs without an
 * allocation. */
static void add_runners(struct plugin_entry *plugin, struct plugin_summary *ret)
{
	struct plugin_runner *runner;

	ret->nodes_expected += plugin->nodes_wanted;
	ret->controllers_expected += plugin->controllers_wanted;
	choose_runners(plugin);
	for (runner = state_plugin_runner_from(plugin, "", ""); runner;
	     runner = state_plugin_runner_next(runner)) {
		struct node_entry *node = runner->alloc->node;
		const struct csi_plugin *runs = plugin_runner_plugin(runner);
		const struct instance_entry *instance = NULL;

		if (node->counted != runner)
			continue;
		node->counted = NULL;
		LIST_FOREACH (instance, &node->instances, of_node)
			if (instance->plugin == plugin)
				break;
		ret->nodes_expected +=
			csi_plugin_has_node(runs) && !(instance && instance->instance.plugin.has_node);
		ret->controllers_expected += csi_plugin_has_controller(runs) &&
					     !(instance && instance->instance.plugin.has_controller);
	}
}

static const struct controller_list *list_of(const struct plugin_entry *plugin)
{
	const struct server *server = plugin->state->server;

	return server ? controller_nodes_find(&server->config.controller_nodes, plugin->id) : NULL;
}

/* Reads from the reports of listed nodes whether the plugin requires a controller: any other node could lie.
 * False if no listed node reports it; then @ret is unchanged. */
static bool read_listed(struct plugin_entry *plugin, bool *ret)
{
	const struct controller_list *list = list_of(plugin);
	bool is_reported = false, is_required = false;

	for (size_t i = 0; list && i < CONTROLLER_NODES_MAX && list->nodes[i][0] != '\0'; i++) {
		const struct instance_entry *entry =
			state_instance(plugin->state, list->nodes[i], plugin->id, "");

		is_reported = is_reported || entry;
		is_required = is_required || (entry && entry->instance.plugin.controller_required);
	}
	if (is_reported)
		*ret = is_required;
	return is_reported;
}

/* "*" covers plugins without a controller too, and with [] no node may run one. */
static bool expects_controller(const struct controller_list *list)
{
	return list && list->nodes[0][0] != '\0' && !str_eq(list->plugin_id, CONTROLLER_ANY_PLUGIN);
}

bool plugin_waits_for_listed(struct plugin_entry *plugin)
{
	bool ignored;

	return expects_controller(list_of(plugin)) && !read_listed(plugin, &ignored);
}

bool plugin_decide_controller(struct plugin_entry *plugin, bool *ret)
{
	struct plugin_summary summary;

	if (read_listed(plugin, ret))
		return true;
	if (!expects_controller(list_of(plugin)))
		return false;
	plugin_summarize_all(plugin, &summary);
	*ret = summary.controller_required;
	return true;
}

bool plugin_requires_controller(struct plugin_entry *plugin, const struct node_plugin *on_node)
{
	bool is_required;

	return plugin_decide_controller(plugin, &is_required) ? is_required : on_node->controller_required;
}

static void summarize_offer(const struct plugin_offer *offer, struct plugin_summary *ret)
{
	const struct instance_entry *newest = NULL;
	const struct instance_entry *entry;

	*ret = (struct plugin_summary){0};
	LIST_FOREACH (entry, &offer->instances, of_offer) {
		ret->nodes_expected += entry->instance.plugin.has_node;
		ret->nodes_healthy += is_healthy(entry);
		add_controller(entry, ret);
		note_provider(entry, &newest);
	}
	copy_provider(newest, ret);
}

/* One offer per plugin, unless it is the native one. */
static struct plugin_offer *offer_for(struct plugin_entry *plugin, const struct volume *volume)
{
	return plugin_find_offer(plugin, volume->type == VOLUME_NATIVE ? volume->profile : "");
}

void plugin_summarize(struct plugin_entry *plugin, const struct volume *volume, struct plugin_summary *ret)
{
	struct plugin_offer *offer = offer_for(plugin, volume);

	if (!offer && volume->type == VOLUME_CSI) {
		plugin_summarize_all(plugin, ret); /* no node reports it */
		return;
	}
	if (!offer) {
		*ret = (struct plugin_summary){.modify_index = plugin->modify_index};
		return;
	}
	if (!offer->is_fresh) {
		summarize_offer(offer, &offer->summary);
		(void)read_listed(plugin, &offer->summary.controller_required);
		if (volume->type == VOLUME_CSI)
			add_runners(plugin, &offer->summary);
	}
	offer->is_fresh = true;
	*ret = offer->summary;
	ret->modify_index = plugin->modify_index;
}

/* The node's report of the plugin, from all its entries. */
struct on_node {
	bool is_first; /* @entry represents the node */
	bool has_node;
	bool is_healthy;
};

static struct on_node look_at_node(const struct instance_entry *entry)
{
	const struct instance_entry *other;
	struct on_node on_node = {.is_first = true};
	bool seen = false;

	LIST_FOREACH (other, &entry->node->instances, of_node) {
		if (other->plugin != entry->plugin)
			continue;
		if (!seen)
			on_node.is_first = other == entry;
		seen = true;
		on_node.has_node = on_node.has_node || other->instance.plugin.has_node;
		on_node.is_healthy = on_node.is_healthy || is_healthy(other);
	}
	return on_node;
}

static void summarize_whole(struct plugin_entry *plugin, struct plugin_summary *ret)
{
	const struct instance_entry *newest = NULL;
	struct instance_entry *entry;

	*ret = (struct plugin_summary){0};
	for (entry = state_plugin_instance_from(plugin, ""); entry;
	     entry = state_plugin_instance_next(entry)) {
		struct on_node on_node = look_at_node(entry);

		if (on_node.is_first) {
			ret->nodes_expected += on_node.has_node;
			ret->nodes_healthy += on_node.is_healthy;
		}
		add_controller(entry, ret);
		note_provider(entry, &newest);
	}
	(void)read_listed(plugin, &ret->controller_required);
	add_runners(plugin, ret);
	copy_provider(newest, ret);
}

void plugin_summarize_all(struct plugin_entry *plugin, struct plugin_summary *ret)
{
	if (!plugin->is_fresh)
		summarize_whole(plugin, &plugin->summary);
	plugin->is_fresh = true;
	*ret = plugin->summary;
	ret->modify_index = plugin->modify_index;
}

/* @next: the command that shows more */
static bool explain_schedulable(const struct plugin_summary *summary, const struct volume *volume,
				const char *next, char *ret_reason, size_t size)
{
	bool has_profile = volume->profile[0] != '\0';

	ret_reason[0] = '\0';
	if (summary->nodes_expected == 0 && summary->controllers_expected == 0)
		(void)str_format(ret_reason, size,
				 "no node has plugin %s%s%s; see holdfast plugin status and holdfast node "
				 "status",
				 volume->plugin_id, has_profile ? " with profile " : "", volume->profile);
	else if (summary->nodes_healthy == 0)
		(void)str_format(ret_reason, size,
				 "no connected node offers plugin %s%s%s in good health; see holdfast %s",
				 volume->plugin_id, has_profile ? " with profile " : "", volume->profile,
				 next);
	else if (summary->controller_required && summary->controllers_healthy == 0)
		(void)str_format(ret_reason, size,
				 "no connected node runs a healthy controller of plugin %s; see holdfast %s",
				 volume->plugin_id, next);
	return ret_reason[0] == '\0';
}

bool plugin_is_schedulable(const struct plugin_summary *summary, const struct volume *volume,
			   char *ret_reason, size_t size)
{
	char next[PLUGIN_ID_MAX + sizeof("plugin status ")];

	(void)str_format(next, sizeof(next), "plugin status %s", volume->plugin_id);
	return explain_schedulable(summary, volume, next, ret_reason, size);
}

/* One page of a plugin: its instances, then the allocations that must run it. */
struct plugin_page {
	struct server *server;
	struct plugin_entry *plugin;
	Holdfast__V1__Plugin *view;
	size_t size; /* records that it looks at, but for the last node's, which is shown whole */
	size_t n;
	struct access_scope read; /* of jobs */
	bool may_read;		  /* somewhere: the scope above is good */
};

/* Its node's last report may be out of date. False when memory is short. */
static bool show_away(Holdfast__V1__PluginInstance *instance)
{
	Holdfast__V1__ControllerHalf *controller = instance->plugin->controller;
	char why[NODE_ID_MAX + 64];

	(void)str_format(why, sizeof(why), "it is not connected; see holdfast node status %s",
			 instance->node_id);
	instance->plugin->healthy = false;
	if (controller)
		controller->healthy = false;
	return message_set_text(&instance->plugin->health_description, why) &&
	       (!controller || message_set_text(&controller->health_description, why));
}

static bool is_visible(struct plugin_page *page, const struct alloc_entry *alloc)
{
	return page->may_read && access_scope_has(&page->read, alloc->alloc.namespace);
}

/* Returns the id if the caller may know it. The namespace of one that is gone is unknown. */
static const char *visible_id(struct plugin_page *page, const char *id)
{
	const struct alloc_entry *alloc = state_alloc(&page->server->state, id);

	return (alloc ? is_visible(page, alloc) : page->may_read && page->read.is_all) ? id : "";
}

/* False when memory is short. */
static bool add_instance(struct plugin_page *page, const struct instance_entry *entry)
{
	Holdfast__V1__PluginInstance *instance = plugin_instance_to_pb(&entry->instance);

	if (!instance)
		return false;
	instance->connected = node_is_connected(entry->node);
	if (!message_set_text(&instance->plugin->allocation_id,
			      visible_id(page, entry->instance.plugin.allocation_id)) ||
	    (!instance->connected && !show_away(instance))) {
		holdfast__v1__plugin_instance__free_unpacked(instance, NULL);
		return false;
	}
	page->view->instances[page->view->n_instances++] = instance;
	return true;
}

static bool is_listed(const Holdfast__V1__Plugin *view, const char *alloc_id)
{
	for (size_t i = 0; i < view->n_allocations; i++) {
		assert(view->allocations[i]);
		if (str_eq(view->allocations[i]->id, alloc_id))
			return true;
	}
	return false;
}

/* False when memory is short. */
static bool add_alloc(struct plugin_page *page, const struct alloc_entry *alloc)
{
	Holdfast__V1__Plugin *view = page->view;

	if (!is_visible(page, alloc))
		return true;
	view->allocations[view->n_allocations] = alloc_to_pb_short(&alloc->alloc);
	return view->allocations[view->n_allocations] && ++view->n_allocations > 0;
}

/* Adds the allocation that an instance names, unless it is listed among those that must run the plugin. A
 * missing one is left out, and the later ones are still listed. False when memory is short. */
static bool add_alloc_of(struct plugin_page *page, const struct instance_entry *entry)
{
	const struct alloc_entry *alloc =
		state_alloc(&page->server->state, entry->instance.plugin.allocation_id);

	if (!alloc || (alloc_entry_runs(alloc, page->plugin) && is_to_run(alloc)))
		return true;
	page->n++;
	return is_listed(page->view, alloc->id) || add_alloc(page, alloc);
}

static enum status end_page(char **token, const char *kind, const char *namespace, const char *id,
			    struct error *err)
{
	char text[OBJECT_KEY_SIZE];

	(void)str_format(text, sizeof(text), "%s%s%s%s", kind, namespace, namespace[0] != '\0' ? "." : "",
			 id);
	return message_set_text(token, text) ? STATUS_OK : error_no_memory(err, "a plugin");
}

/* A namespace that the caller may not see costs one step, and no token names an allocation of it. */
static enum status fill_runners(struct plugin_page *page, const char *from, char **token, struct error *err)
{
	char namespace[NAMESPACE_MAX + 1] = "", id[UUID_TEXT_SIZE] = "";
	struct plugin_runner *runner, *next;

	if (from[0] != '\0')
		TRY(list_page_token(from, namespace, id, sizeof(id), err));
	for (runner = state_plugin_runner_from(page->plugin, namespace, id); runner; runner = next) {
		const struct alloc_entry *alloc = runner->alloc;

		if (!is_visible(page, alloc)) {
			next = state_plugin_runner_from(page->plugin, alloc->alloc.namespace, BEHIND);
			continue;
		}
		next = state_plugin_runner_next(runner);
		if (page->n++ >= page->size)
			return end_page(token, TOKEN_ALLOC, alloc->alloc.namespace, alloc->id, err);
		if (is_to_run(alloc) && !add_alloc(page, alloc))
			return error_no_memory(err, "a plugin");
	}
	return STATUS_OK;
}

static enum status fill_instances(struct plugin_page *page, const char *from, char **token, struct error *err)
{
	const struct node_entry *node = NULL;
	struct instance_entry *entry;

	for (entry = state_plugin_instance_from(page->plugin, from); entry;
	     entry = state_plugin_instance_next(entry)) {
		if (page->n++ >= page->size && entry->node != node)
			return end_page(token, TOKEN_NODE, "", entry->node->id, err);
		node = entry->node;
		if (!add_instance(page, entry) || !add_alloc_of(page, entry))
			return error_no_memory(err, "a plugin");
	}
	return fill_runners(page, "", token, err);
}

static Holdfast__V1__PluginEvent *event_view(struct plugin_page *page, const struct plugin_event *event)
{
	Holdfast__V1__PluginEvent *view = malloc(sizeof(*view));

	if (!view)
		return NULL;
	holdfast__v1__plugin_event__init(view);
	view->time_ms = event->time_ms;
	view->type = event->is_gone ? HOLDFAST__V1__ALLOCATION_EVENT_TYPE__ALLOCATION_EVENT_TYPE_PLUGIN_GONE
		     : event->is_healthy
			     ? HOLDFAST__V1__ALLOCATION_EVENT_TYPE__ALLOCATION_EVENT_TYPE_PLUGIN_HEALTHY
			     : HOLDFAST__V1__ALLOCATION_EVENT_TYPE__ALLOCATION_EVENT_TYPE_PLUGIN_UNHEALTHY;
	if (message_set_text(&view->node_id, event->node_id) &&
	    message_set_text(&view->profile, event->profile) &&
	    message_set_text(&view->allocation_id, visible_id(page, event->allocation_id)) &&
	    message_set_text(&view->text, event->text))
		return view;
	holdfast__v1__plugin_event__free_unpacked(view, NULL);
	return NULL;
}

static enum status fill_events(struct plugin_page *page, struct error *err)
{
	const struct plugin_entry *plugin = page->plugin;
	Holdfast__V1__Plugin *view = page->view;
	size_t n = plugin->n_events < PLUGIN_EVENTS_MAX ? plugin->n_events : PLUGIN_EVENTS_MAX;

	view->events = calloc(n + 1, sizeof(Holdfast__V1__PluginEvent *));
	for (size_t i = plugin->n_events - n; view->events && i < plugin->n_events; i++) {
		view->events[view->n_events] = event_view(page, &plugin->events[i % PLUGIN_EVENTS_MAX]);
		if (!view->events[view->n_events])
			break;
		view->n_events++;
	}
	return view->events && view->n_events == n ? STATUS_OK : error_no_memory(err, "a plugin");
}

static enum status fill_plugin(struct plugin_page *page, const char *from, char **token, struct error *err)
{
	/* of each node once more than fits, and with each instance an allocation */
	size_t n = page->size + NODE_PLUGINS_MAX;

	page->view->instances = calloc(n, sizeof(Holdfast__V1__PluginInstance *));
	page->view->allocations = calloc(n, sizeof(Holdfast__V1__Allocation *));
	if (!page->view->instances || !page->view->allocations)
		return error_no_memory(err, "a plugin");
	if (str_starts_with(from, TOKEN_ALLOC))
		return fill_runners(page, from + strlen(TOKEN_ALLOC), token, err);
	if (str_starts_with(from, TOKEN_NODE))
		return fill_instances(page, from + strlen(TOKEN_NODE), token, err);
	if (from[0] == '\0' && fill_events(page, err) != STATUS_OK)
		return err->status;
	return from[0] == '\0' ? fill_instances(page, "", token, err)
			       : error_set(err, STATUS_INVALID_ARGUMENT, 0,
					   "next_token: not one of an answer of Plugins.Get");
}

/* The node of the first instance that cannot be used. */
static const char *sick_node(struct plugin_entry *plugin)
{
	struct instance_entry *entry = state_plugin_instance_from(plugin, "");

	while (entry && node_is_connected(entry->node) && node_plugin_is_whole(&entry->instance.plugin))
		entry = state_plugin_instance_next(entry);
	return entry ? entry->node->id : "";
}

static Holdfast__V1__Plugin *plugin_view(struct plugin_entry *plugin)
{
	Holdfast__V1__Plugin *view = calloc(1, sizeof(*view));
	struct volume any = {.type = VOLUME_CSI};
	char reason[REASON_SIZE], next[NODE_ID_MAX + sizeof("node status ")];
	struct plugin_summary summary;

	if (!view)
		return NULL;
	holdfast__v1__plugin__init(view);
	plugin_summarize_all(plugin, &summary);
	(void)str_copy(any.plugin_id, sizeof(any.plugin_id), plugin->plugin_id);
	view->controller_required = summary.controller_required;
	view->controllers_healthy = summary.controllers_healthy;
	view->controllers_expected = summary.controllers_expected;
	view->nodes_healthy = summary.nodes_healthy;
	view->nodes_expected = summary.nodes_expected;
	view->volumes = (uint32_t)plugin->n_volumes;
	view->modify_index = summary.modify_index;
	(void)str_format(next, sizeof(next), "node status %s", sick_node(plugin));
	view->schedulable = explain_schedulable(&summary, &any, next, reason, sizeof(reason));
	if (message_set_text(&view->id, plugin->id) && message_set_text(&view->provider, summary.provider) &&
	    message_set_text(&view->provider_version, summary.provider_version) &&
	    message_set_text(&view->unschedulable_reason, reason))
		return view;
	holdfast__v1__plugin__free_unpacked(view, NULL);
	return NULL;
}

/* Does the plugin exist? Yes if a node reports it, or an allocation must run it; a volume that names it is
 * not enough. */
static bool is_there(struct plugin_entry *plugin)
{
	struct plugin_runner *runner;

	if (!RB_EMPTY(&plugin->instances) || plugin->nodes_wanted + plugin->controllers_wanted > 0)
		return true;
	for (runner = state_plugin_runner_from(plugin, "", ""); runner;
	     runner = state_plugin_runner_next(runner))
		if (is_to_run(runner->alloc))
			return true;
	return false;
}

static struct plugin_entry *find_plugin(struct server *server, const char *id)
{
	struct plugin_entry *plugin = state_plugin(&server->state, id);

	return plugin && is_there(plugin) ? plugin : NULL;
}

static enum status no_such_plugin(struct server *server, const char *id, struct error *err)
{
	const struct plugin_entry *plugin = state_plugin(&server->state, id);

	return error_set(
		err, STATUS_NOT_FOUND, 0,
		"no node reports a plugin '%.64s' (volumes that name it: %zu); holdfast plugin status "
		"lists those that are there, holdfast node status NODE what a node offers",
		id, plugin ? plugin->n_volumes : 0);
}

static enum status handle_get(struct server *server, struct rpc_call *call, const ProtobufCMessage *message,
			      struct error *err)
{
	const Holdfast__V1__GetPluginRequest *request = (const void *)message;
	struct plugin_page page = {.server = server, .plugin = find_plugin(server, request->id)};
	enum status status = list_page_size(request->per_page, INSTANCES_PER_PAGE_MAX, &page.size, err);
	Holdfast__V1__GetPluginResponse *response;

	if (status != STATUS_OK)
		return status;
	if (!page.plugin)
		return no_such_plugin(server, request->id, err);
	page.may_read = access_scope_init(server, call, ACCESS_JOB_READ, &page.read, NULL) == STATUS_OK;
	response = calloc(1, sizeof(*response));
	if (!response)
		return error_no_memory(err, "a plugin");
	holdfast__v1__get_plugin_response__init(response);
	response->plugin = page.view = plugin_view(page.plugin);
	status = page.view ? fill_plugin(&page, request->next_token, &response->next_token, err)
			   : error_no_memory(err, "a plugin");
	if (status != STATUS_OK) {
		protobuf_c_message_free_unpacked(&response->base, NULL);
		return status;
	}
	response->index = watch_object_index(server, page.plugin->modify_index);
	answer_durable(server, call, &response->base);
	return STATUS_OK;
}

static void get_name(const ProtobufCMessage *message, char ret[static OBJECT_KEY_SIZE])
{
	const Holdfast__V1__GetPluginRequest *request = (const void *)message;

	(void)str_format(ret, OBJECT_KEY_SIZE, WATCH_PLUGIN "%.64s", request->id);
}

static uint64_t get_index(struct server *server, const ProtobufCMessage *message)
{
	const Holdfast__V1__GetPluginRequest *request = (const void *)message;
	struct plugin_entry *plugin = find_plugin(server, request->id);

	return plugin ? watch_object_index(server, plugin->modify_index) : UINT64_MAX;
}

static const struct read_method get_method = {.handle = handle_get, .name = get_name, .index = get_index};
DEFINE_READ_METHOD(plugins_handle_get, get_method)

static enum status fill_page(struct server *server, const Holdfast__V1__ListPluginsRequest *request,
			     Holdfast__V1__ListPluginsResponse *response, struct error *err)
{
	const char *from =
		strcmp(request->next_token, request->prefix) > 0 ? request->next_token : request->prefix;
	struct plugin_entry *plugin = state_plugin_from(&server->state, from);
	size_t counted = 0;
	size_t per_page;

	TRY(list_page_size(request->per_page, PLUGINS_PER_PAGE_MAX, &per_page, err));
	response->plugins = calloc(per_page, sizeof(Holdfast__V1__Plugin *));
	for (; plugin && str_starts_with(plugin->id, request->prefix); plugin = state_plugin_next(plugin)) {
		Holdfast__V1__Plugin *view;

		if (!is_there(plugin))
			continue;
		counted += plugin->is_fresh ? 0 : plugin->n_instances + plugin->n_runners;
		if (response->n_plugins == per_page ||
		    (response->n_plugins > 0 && counted > PLUGINS_COUNTED_MAX))
			return end_page(&response->next_token, "", "", plugin->id, err);
		view = response->plugins ? plugin_view(plugin) : NULL;
		if (!view)
			return error_no_memory(err, "a plugin");
		response->plugins[response->n_plugins++] = view;
	}
	return STATUS_OK;
}

static enum status handle_list(struct server *server, struct rpc_call *call, const ProtobufCMessage *message,
			       struct error *err)
{
	Holdfast__V1__ListPluginsResponse *response = calloc(1, sizeof(*response));
	enum status status;

	if (!response)
		return error_no_memory(err, "a plugin");
	holdfast__v1__list_plugins_response__init(response);
	status = fill_page(server, (const void *)message, response, err);
	if (status != STATUS_OK) {
		protobuf_c_message_free_unpacked(&response->base, NULL);
		return status;
	}
	response->index = watch_index(server, WATCH_PLUGIN);
	answer_durable(server, call, &response->base);
	return STATUS_OK;
}

static void list_name(const ProtobufCMessage *message, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_copy(ret, OBJECT_KEY_SIZE, WATCH_PLUGIN);
}

static const struct read_method list_method = {.handle = handle_list, .name = list_name};
DEFINE_READ_METHOD(plugins_handle_list, list_method)
