/* SPDX-License-Identifier: Apache-2.0 */
/* The offer of the driver, so that the server places nothing that the driver would refuse. */
#include "offer.h"

#include "order_check.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <assert.h>
#include <string.h>

#define USER_OF_IMAGE "image"
#define PROPAGATION(name) HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_##name

typedef Holdfast__Driver__V1__FieldLimit limit_t;

/* Protobuf-c only lacks the const. */
static char *lent(const char *text)
{
	return (char *)(uintptr_t)text;
}

static limit_t *limit_begin(struct offer *offer, const char *field)
{
	limit_t *limit = &offer->limits[offer->n_limits];

	assert(offer->n_limits < ARRAY_SIZE(offer->limits));
	holdfast__driver__v1__field_limit__init(limit);
	limit->field = lent(field);
	limit->allowed = &offer->texts[offer->n_texts];
	offer->limit_list[offer->n_limits++] = limit;
	return limit;
}

static void allow(struct offer *offer, limit_t *limit, const char *text)
{
	assert(offer->n_texts < ARRAY_SIZE(offer->texts));
	offer->texts[offer->n_texts++] = lent(text);
	limit->n_allowed++;
}

static void allow_list(struct offer *offer, limit_t *limit, const char *list, size_t n, size_t size)
{
	for (size_t i = 0; i < n && list[i * size] != '\0'; i++)
		allow(offer, limit, list + i * size);
}
#define ALLOW(limit, list) allow_list(offer, (limit), (list)[0], ARRAY_SIZE(list), sizeof((list)[0]))

static bool allows_network(const struct settings *settings, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings->networks); i++)
		if (str_eq(settings->networks[i], name))
			return !str_eq(name, "isolated") || settings->infra_image[0] != '\0';
	return false;
}

static void fill_networks(struct offer *offer, const struct settings *settings)
{
	static const struct {
		const char *name;
		Holdfast__Driver__V1__NetworkMode mode;
	} networks[] = {{"host", HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_HOST},
			{"none", HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_NONE},
			{"isolated", HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED}};
	limit_t *limit = limit_begin(offer, "network");

	for (size_t i = 0; i < ARRAY_SIZE(networks); i++)
		if (allows_network(settings, networks[i].name)) {
			offer->modes[offer->response.n_network_modes++] = networks[i].mode;
			allow(offer, limit, networks[i].name);
		}
	if (allows_network(settings, "none")) /* the default of a task */
		allow(offer, limit, "");
	offer->response.network_modes = offer->modes;
}

static void fill_users(struct offer *offer, const struct settings *settings)
{
	limit_t *limit = limit_begin(offer, "user");

	for (size_t i = 0; i < ARRAY_SIZE(settings->users) && settings->users[i][0] != '\0'; i++)
		allow(offer, limit, str_eq(settings->users[i], USER_OF_IMAGE) ? "" : settings->users[i]);
}

/* @plugin NULL: the limits of every task */
static void fill_config(struct offer *offer, const struct settings *settings,
			const struct settings_plugin *plugin)
{
	limit_t *limit = limit_begin(offer, "config.image");

	if (plugin)
		ALLOW(limit, plugin->images);
	else
		ALLOW(limit, settings->images);
	limit = limit_begin(offer, "config.cap_add");
	ALLOW(limit, settings->capabilities);
	if (plugin)
		ALLOW(limit, plugin->capabilities);
	limit = limit_begin(offer, "config.privileged");
	if (settings->privileged || (plugin && plugin->privileged))
		allow(offer, limit, "true");
	if (!plugin) {
		limit = limit_begin(offer, "config.host_paths");
		ALLOW(limit, settings->host_paths);
	}
}

static void fill_plugins(struct offer *offer, const struct settings *settings)
{
	for (size_t i = 0; i < SETTINGS_PLUGINS_MAX; i++) {
		const struct settings_plugin *plugin = &settings->csi_plugins[i];
		Holdfast__Driver__V1__PluginLimits *limits = &offer->plugins[offer->response.n_plugin_limits];

		if (plugin->id[0] == '\0')
			continue;
		holdfast__driver__v1__plugin_limits__init(limits);
		limits->id = lent(plugin->id);
		limits->limits = &offer->limit_list[offer->n_limits];
		fill_config(offer, settings, plugin);
		limits->n_limits = OFFER_PLUGIN_LIMITS;
		offer->plugin_list[offer->response.n_plugin_limits++] = limits;
	}
	offer->response.plugin_limits = offer->plugin_list;
	offer->response.csi_plugins = offer->response.n_plugin_limits > 0;
}

void offer_fill(struct offer *offer, const struct settings *settings)
{
	static Holdfast__Driver__V1__MountPropagation propagation[] = {
		PROPAGATION(PRIVATE), PROPAGATION(HOST_TO_TASK), PROPAGATION(BIDIRECTIONAL)};
	Holdfast__Driver__V1__CapabilitiesResponse *response = &offer->response;

	memset(offer, 0, sizeof(*offer));
	holdfast__driver__v1__capabilities_response__init(response);
	response->name = lent(DRIVER_NAME);
	response->version = lent(HOLDFAST_VERSION);
	response->order_version = ORDER_VERSION;
	response->send_signals = response->exec = response->exec_streaming = true;
	response->must_initiate_network = true; /* tasks join a container, not a namespace */
	response->n_mount_propagation = ARRAY_SIZE(propagation);
	response->mount_propagation = propagation;
	response->disable_log_collection = response->task_logs = response->task_stats = true;
	response->restart_tasks = response->health_checks = true;
	fill_networks(offer, settings);
	fill_users(offer, settings);
	fill_config(offer, settings, NULL);
	response->limits = offer->limit_list;
	response->n_limits = offer->n_limits;
	assert(response->n_limits == OFFER_LIMITS);
	fill_plugins(offer, settings);
	if (protobuf_c_message_get_packed_size(&response->base) > OFFER_BYTES_MAX)
		response->n_limits = response->n_plugin_limits = 0;
}
