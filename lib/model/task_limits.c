/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a task with the limits that its driver reports. */
#include "model/task_limits.h"

#include "base/cleanup.h"
#include "base/names.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

#define CONFIG "config."

enum { VALUES_MAX = 64 }; /* of a list or block that are compared for each node: the driver compares all */

typedef Holdfast__Driver__V1__TaskConfig task_t;
typedef Holdfast__Driver__V1__FieldLimit limit_t;
typedef Holdfast__Driver__V1__PluginLimits plugin_t;
typedef Holdfast__Driver__V1__CapabilitiesResponse offer_t;
typedef Holdfast__Driver__V1__ConfigValue value_t;

bool task_limits_allow(const char *allowed, const char *text)
{
	size_t n = strlen(allowed);

	if (n == 0 || allowed[n - 1] != '*')
		return str_eq(allowed, text);
	return strncmp(allowed, text, n - 1) == 0 && (n == 1 || strchr(allowed, '/') || !strchr(text, '/'));
}

static bool is_allowed(const limit_t *limit, const char *text)
{
	if (strstr(text, "${"))
		return true;
	for (size_t i = 0; i < limit->n_allowed; i++)
		if (task_limits_allow(limit->allowed[i], text))
			return true;
	return false;
}

static bool forbids(const limit_t *limit, const char *text, char ret[static TASK_LIMITS_TEXT_SIZE])
{
	if (is_allowed(limit, text))
		return false;
	if (text[0] == '\0')
		(void)snprintf(ret, TASK_LIMITS_TEXT_SIZE, "no %.64s", limit->field);
	else
		(void)snprintf(ret, TASK_LIMITS_TEXT_SIZE, "%.64s '%.100s'", limit->field, text);
	return true;
}

static const value_t *config_of(const task_t *task, const char *key)
{
	for (size_t i = 0; i < task->n_config; i++)
		if (str_eq(task->config[i]->key, key))
			return task->config[i];
	return NULL;
}

static bool forbids_value(const limit_t *limit, const value_t *value, char ret[static TASK_LIMITS_TEXT_SIZE])
{
	for (size_t i = 0; i < value->n_list && i < VALUES_MAX; i++)
		if (forbids(limit, value->list[i], ret))
			return true;
	for (size_t i = 0; i < value->n_map && i < VALUES_MAX; i++)
		if (forbids(limit, value->map[i]->key, ret))
			return true;
	if (value->text[0] != '\0' && forbids(limit, value->text, ret))
		return true;
	return value->flag && forbids(limit, "true", ret);
}

static const char *network_name(Holdfast__Driver__V1__NetworkMode mode)
{
	static const char *const names[] = {
		[HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_HOST] = "host",
		[HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_NONE] = "none",
		[HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED] = "isolated",
	};
	const char *name = names_get(names, ARRAY_SIZE(names), (int)mode);

	return name ? name : "";
}

static bool forbids_task(const limit_t *limit, const task_t *task, Holdfast__Driver__V1__NetworkMode network,
			 char ret[static TASK_LIMITS_TEXT_SIZE])
{
	const value_t *value;

	if (str_eq(limit->field, "user"))
		return forbids(limit, task->user, ret);
	if (str_eq(limit->field, "network"))
		return forbids(limit, network_name(network), ret);
	if (!str_starts_with(limit->field, CONFIG))
		return false;
	value = config_of(task, limit->field + strlen(CONFIG));
	return value && forbids_value(limit, value, ret);
}

static const plugin_t *plugin_of(const offer_t *offer, const char *id)
{
	for (size_t i = 0; i < offer->n_plugin_limits; i++)
		if (str_eq(offer->plugin_limits[i]->id, id))
			return offer->plugin_limits[i];
	return NULL;
}

/* The limit of that field that counts for the plugin. */
static const limit_t *limit_of(const plugin_t *plugin, const limit_t *limit)
{
	for (size_t i = 0; plugin && i < plugin->n_limits; i++)
		if (str_eq(plugin->limits[i]->field, limit->field))
			return plugin->limits[i];
	return limit;
}

bool task_limits_find_forbidden(const task_t *task, Holdfast__Driver__V1__NetworkMode network,
				const char *plugin_id, const offer_t *offer,
				char ret[static TASK_LIMITS_TEXT_SIZE])
{
	const plugin_t *plugin = plugin_id ? plugin_of(offer, plugin_id) : NULL;

	if (plugin_id && !plugin && offer->n_plugin_limits > 0) {
		(void)snprintf(ret, TASK_LIMITS_TEXT_SIZE, "csi_plugin '%.100s'", plugin_id);
		return true;
	}
	for (size_t i = 0; i < offer->n_limits; i++)
		if (forbids_task(limit_of(plugin, offer->limits[i]), task, network, ret))
			return true;
	return false;
}
