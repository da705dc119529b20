/* SPDX-License-Identifier: Apache-2.0 */
#include "status/plugins.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = PLUGINS_MAX * (PLUGIN_INSTANCES_MAX + 1) };

static bool put_text(char **dst, const char *text)
{
	if (!text || text[0] == '\0')
		return true;
	*dst = strdup(text);
	return *dst != NULL;
}

static Holdfast__V1__AgentPlugin *add_row(Holdfast__V1__GetAgentStatusResponse *report, const char *plugin_id)
{
	Holdfast__V1__AgentPlugin *row = malloc(sizeof(*row));

	if (!row)
		return NULL;
	holdfast__v1__agent_plugin__init(row);
	report->plugins[report->n_plugins++] = row;
	return put_text(&row->plugin_id, plugin_id) ? row : NULL;
}

static bool put_calls(Holdfast__V1__AgentPlugin *row, const struct csi_client_stats *calls)
{
	row->calls_under_way = (uint32_t)calls->under_way;
	row->calls_waiting = (uint32_t)calls->waiting;
	row->calls = calls->calls;
	row->calls_failed = calls->failed;
	row->oldest_since_ms = calls->oldest_since_ms;
	return put_text(&row->oldest_call, calls->oldest_name);
}

static bool put_instance(Holdfast__V1__GetAgentStatusResponse *report, const struct plugins *plugins,
			 const struct plugin_instance_info *info)
{
	const struct node_plugin *facts = plugins_facts(plugins, info->plugin_id);
	Holdfast__V1__AgentPlugin *row = add_row(report, info->plugin_id);

	if (!row)
		return false;
	row->used = info->is_used;
	row->since_ms = info->since_ms;
	return put_text(&row->provider, facts ? facts->provider : NULL) &&
	       put_text(&row->provider_version, facts ? facts->provider_version : NULL) &&
	       put_text(&row->socket, info->socket) && put_text(&row->alloc_id, info->alloc_id) &&
	       put_text(&row->state, info->state) && put_text(&row->last_error, info->last_error) &&
	       put_calls(row, &info->calls);
}

static bool put_absent(Holdfast__V1__GetAgentStatusResponse *report, const struct node_plugin *facts)
{
	Holdfast__V1__AgentPlugin *row = add_row(report, facts->plugin_id);

	return row && put_text(&row->provider, facts->provider) &&
	       put_text(&row->provider_version, facts->provider_version) &&
	       put_text(&row->alloc_id, facts->allocation_id) && put_text(&row->state, "absent") &&
	       put_text(&row->last_error, facts->health_description);
}

static bool has_row(const Holdfast__V1__GetAgentStatusResponse *report, const char *plugin_id)
{
	for (size_t i = 0; i < report->n_plugins; i++) {
		assert(report->plugins[i]);
		if (str_eq(report->plugins[i]->plugin_id, plugin_id))
			return true;
	}
	return false;
}

bool report_put_plugins(Holdfast__V1__GetAgentStatusResponse *report, const struct plugins *plugins)
{
	cleanup_free struct plugin_instance_info *infos = calloc(ROWS_MAX, sizeof(*infos));
	cleanup_free struct node_plugin *known = calloc(PLUGINS_MAX, sizeof(*known));
	size_t n;

	report->plugins = calloc(ROWS_MAX, sizeof(void *));
	if (!report->plugins || !infos || !known)
		return false;
	n = plugins_instances(plugins, infos, ROWS_MAX);
	for (size_t i = 0; i < n; i++) {
		if (!put_instance(report, plugins, &infos[i]))
			return false;
	}
	n = plugins_fingerprint(plugins, known, PLUGINS_MAX);
	for (size_t i = 0; i < n; i++) {
		if (!has_row(report, known[i].plugin_id) && !put_absent(report, &known[i]))
			return false;
	}
	return true;
}
