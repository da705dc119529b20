/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_plugins.h"

#include "unit.h"

#include "base/clock.h"

enum { ENTRIES_MAX = 4, POLL_US = 1000 };

struct entry {
	struct fake_csi_plugin *model;
	struct service_client *client;
	struct node_plugin facts;
};

struct plugins {
	sd_event *event;
	struct entry entries[ENTRIES_MAX];
	size_t n;
};

struct plugin_wait {
	struct plugins *plugins;
	char plugin_id[PLUGIN_ID_MAX + 1];
	uint64_t end_us;
	plugin_ready_fn *done;
	void *userdata;
	sd_event_source *timer;
};

struct plugins *fake_plugins_new(sd_event *event)
{
	struct plugins *plugins = calloc(1, sizeof(*plugins));

	assert_non_null(plugins);
	plugins->event = event;
	return plugins;
}

static bool announces(const struct fake_csi_plugin *model, int rpc)
{
	for (size_t i = 0; i < model->n_node_rpcs; i++) {
		if (model->node_rpcs[i] == rpc)
			return true;
	}
	return false;
}

static void read_facts(struct entry *entry, const char *plugin_id)
{
	const struct fake_csi_plugin *model = entry->model;

	entry->facts = (struct node_plugin){
		.healthy = true,
		.has_node = true,
		.node = {.stage = announces(
				 model, CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__STAGE_UNSTAGE_VOLUME),
			 .expand =
				 announces(model, CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__EXPAND_VOLUME),
			 .single_node_multi_writer = announces(
				 model,
				 CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__SINGLE_NODE_MULTI_WRITER)},
	};
	(void)str_copy(entry->facts.plugin_id, sizeof(entry->facts.plugin_id), plugin_id);
	(void)str_copy(entry->facts.node.provider_node_id, sizeof(entry->facts.node.provider_node_id),
		       model->node_id);
}

void fake_plugins_add(struct plugins *plugins, const char *plugin_id, struct fake_csi_plugin *model)
{
	const struct service_client_options options = {.name = plugin_id, .socket = model->socket};
	struct entry *entry = &plugins->entries[plugins->n++];

	assert_true(plugins->n <= ENTRIES_MAX);
	entry->model = model;
	assert_int_equal(service_client_new(plugins->event, &csi_kind, &options, &entry->client, NULL),
			 STATUS_OK);
	read_facts(entry, plugin_id);
}

void fake_plugins_look_again(struct plugins *plugins, const char *plugin_id)
{
	for (size_t i = 0; i < plugins->n; i++)
		if (str_eq(plugins->entries[i].facts.plugin_id, plugin_id))
			read_facts(&plugins->entries[i], plugin_id);
}

static const struct entry *find(const struct plugins *plugins, const char *plugin_id)
{
	for (size_t i = 0; i < plugins->n; i++) {
		if (str_eq(plugins->entries[i].facts.plugin_id, plugin_id))
			return &plugins->entries[i];
	}
	return NULL;
}

const struct node_plugin *plugins_facts(const struct plugins *plugins, const char *plugin_id)
{
	const struct entry *entry = find(plugins, plugin_id);

	return entry ? &entry->facts : NULL;
}

enum status plugins_client(const struct plugins *plugins, const char *plugin_id, enum plugin_half half,
			   struct service_client **ret, struct error *err)
{
	const struct entry *entry = find(plugins, plugin_id);

	assert_int_equal(half, PLUGIN_NODE);
	if (!entry)
		return error_set(err, STATUS_NOT_FOUND, 0, "it was never here");
	if (!entry->model->is_up)
		return error_set(err, STATUS_UNAVAILABLE, 0, "its socket is closed");
	*ret = entry->client;
	return STATUS_OK;
}

static int on_poll(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugin_wait *wait = userdata;
	plugin_ready_fn *done = wait->done;
	void *done_userdata = wait->userdata;
	struct service_client *client;
	struct error err;
	enum status status = plugins_client(wait->plugins, wait->plugin_id, PLUGIN_NODE, &client, &err);

	if (status != STATUS_OK && clock_monotonic_us() < wait->end_us) {
		(void)sd_event_source_set_time_relative(source, POLL_US);
		(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
		return 0;
	}
	plugin_wait_cancel(wait);
	done(status == STATUS_OK ? NULL : &err, done_userdata);
	return 0;
}

enum status plugins_wait(struct plugins *plugins, const char *plugin_id, enum plugin_half half,
			 uint64_t timeout_us, plugin_ready_fn *done, void *userdata, struct plugin_wait **ret,
			 struct error *err)
{
	struct plugin_wait *wait = calloc(1, sizeof(*wait));

	assert_non_null(wait);
	assert_int_equal(half, PLUGIN_NODE);
	wait->plugins = plugins;
	(void)str_copy(wait->plugin_id, sizeof(wait->plugin_id), plugin_id);
	wait->end_us = clock_monotonic_us() + timeout_us;
	wait->done = done;
	wait->userdata = userdata;
	assert_true(sd_event_add_time_relative(plugins->event, &wait->timer, CLOCK_MONOTONIC, 0, 1, on_poll,
					       wait) >= 0);
	*ret = wait;
	return STATUS_OK;
}

void plugin_wait_cancel(struct plugin_wait *wait)
{
	if (!wait)
		return;
	sd_event_source_disable_unref(wait->timer);
	free(wait);
}

void plugins_free(struct plugins *plugins)
{
	for (size_t i = 0; i < plugins->n; i++)
		service_client_free(plugins->entries[i].client);
	free(plugins);
}
