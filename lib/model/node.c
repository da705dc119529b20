#include "model/node.h"

#include "base/str.h"

const struct node_plugin *node_find_plugin(const struct node *node, const struct volume *volume)
{
	for (uint32_t i = 0; i < node->n_plugins; i++) {
		const struct node_plugin *plugin = &node->plugins[i];

		if (!str_eq(plugin->plugin_id, volume->plugin_id))
			continue;
		if (volume->type != VOLUME_NATIVE || str_eq(plugin->profile, volume->profile))
			return plugin;
	}
	return NULL;
}
