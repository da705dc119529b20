#include "model/node.h"

#include "base/str.h"

bool node_plugin_serves(const struct node_plugin *plugin, const struct volume *volume)
{
	return str_eq(plugin->plugin_id, volume->plugin_id) &&
	       (volume->type != VOLUME_NATIVE || str_eq(plugin->profile, volume->profile));
}

bool node_plugin_is_healthy(const struct node_plugin *plugin)
{
	return plugin->has_node && plugin->healthy;
}
