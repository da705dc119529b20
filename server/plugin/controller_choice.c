/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "base/str.h"
#include "node/session.h"
#include "plugin/controller_internal.h"

static bool can_ask(const struct instance_entry *entry)
{
	const struct session *session = entry->node->session;

	return session && !session->closing && entry->instance.plugin.controller.healthy;
}

struct instance_entry *controller_find(struct plugin_entry *plugin, const char *after)
{
	struct instance_entry *entry = state_controller_after(plugin, after);

	while (entry && !can_ask(entry))
		entry = state_controller_next(entry);
	return entry;
}

const struct controller_half *controller_capabilities(struct plugin_entry *plugin)
{
	const struct instance_entry *entry = controller_find(plugin, "");

	return entry ? &entry->instance.plugin.controller : NULL;
}

struct session *controller_find_node_service(struct server *server, const char *plugin_id,
					     const char *node_id)
{
	const struct instance_entry *entry = state_instance(&server->state, node_id, plugin_id, "");
	struct session *session = entry ? entry->node->session : NULL;

	return session && !session->closing && entry->instance.plugin.has_node ? session : NULL;
}

struct session *controller_choose_session(struct plugin_job *job)
{
	struct server *server = job->controllers->server;
	struct plugin_entry *plugin;
	struct instance_entry *entry;

	if (job->is_directed)
		return controller_find_node_service(server, job->queue->plugin_id, job->node_id);
	plugin = state_plugin(&server->state, job->queue->plugin_id);
	entry = plugin ? controller_find(plugin, job->node_id) : NULL;
	if (!entry)
		return NULL;
	(void)str_copy(job->node_id, sizeof(job->node_id), entry->node->id);
	return entry->node->session;
}

enum status controller_none(const struct plugin_job *job, const char *plugin_id, struct error *err)
{
	if (job && job->is_directed)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "plugin %s: node %s is not connected, or does not run its node service; see "
				 "holdfast node status %s",
				 plugin_id, job->node_id, job->node_id);
	if (job && job->node_id[0] != '\0')
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "plugin %s: node %s says that its controller is not there, and no other "
				 "connected node has a healthy one; see holdfast plugin status %s",
				 plugin_id, job->node_id, plugin_id);
	return error_set(
		err, STATUS_UNAVAILABLE, 0,
		"plugin %s: no connected node runs a healthy controller; see holdfast plugin status %s",
		plugin_id, plugin_id);
}
