#include "plugins.h"

#include "base/str.h"

#include <string.h>

static void add_instance(const struct instance_entry *entry, struct plugin_summary *ret)
{
	const struct node_plugin *plugin = &entry->instance.plugin;
	bool connected = node_is_connected(entry->node);

	ret->nodes_expected += plugin->has_node;
	ret->nodes_healthy += node_plugin_is_healthy(plugin) && connected;
	ret->controllers_expected += plugin->has_controller;
	ret->controllers_healthy += plugin->has_controller && plugin->controller.healthy && connected;
	ret->controller_required = ret->controller_required || plugin->controller_required;
	if (entry->instance.modify_index < ret->modify_index)
		return;
	ret->modify_index = entry->instance.modify_index;
	memcpy(ret->provider, plugin->provider, sizeof(ret->provider));
	memcpy(ret->provider_version, plugin->provider_version, sizeof(ret->provider_version));
}

void plugin_summarize(const struct plugin_entry *plugin, const struct volume *volume,
		      struct plugin_summary *ret)
{
	const struct instance_entry *entry;

	*ret = (struct plugin_summary){0};
	LIST_FOREACH (entry, &plugin->instances, of_plugin)
		if (node_plugin_serves(&entry->instance.plugin, volume))
			add_instance(entry, ret);
}

bool plugin_is_schedulable(const struct plugin_summary *summary, const struct volume *volume,
			   char *ret_reason, size_t size)
{
	bool has_profile = volume->profile[0] != '\0';

	ret_reason[0] = '\0';
	if (summary->nodes_healthy == 0)
		(void)str_format(ret_reason, size,
				 "no connected node offers plugin %s%s%s in good health; see holdfast node "
				 "status NODE",
				 volume->plugin_id, has_profile ? " with profile " : "", volume->profile);
	else if (summary->controller_required && summary->controllers_healthy == 0)
		(void)str_format(
			ret_reason, size,
			"no connected node runs a healthy controller of plugin %s; see holdfast plugin "
			"status %s",
			volume->plugin_id, volume->plugin_id);
	return ret_reason[0] == '\0';
}
