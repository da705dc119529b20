#include "model/node.h"

#include "base/names.h"
#include "base/str.h"

static const char *const status_names[NODE_STATUS_N] = {
	[NODE_STATUS_UNSPECIFIED] = "unspecified",
	[NODE_READY] = "ready",
	[NODE_DISCONNECTED] = "disconnected",
	[NODE_DOWN] = "down",
	[NODE_DRAINING] = "draining",
};

const char *node_status_name(enum node_status status)
{
	const char *name = names_get(status_names, NODE_STATUS_N, (int)status);

	return name ? name : "invalid";
}

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
