#include "plugins/plugins.h"

#include <errno.h>
#include <stdlib.h>

struct plugins {
	sd_event *event; /* borrowed */
};

enum status plugins_new(sd_event *event, const struct plugins_options *options,
			const struct plugins_handlers *handlers, void *userdata, struct plugins **ret,
			struct error *err)
{
	struct plugins *plugins = calloc(1, sizeof(*plugins));

	if (!plugins)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot look for plugins");
	plugins->event = event;
	*ret = plugins;
	return STATUS_OK;
}

enum status plugins_start(struct plugins *plugins, struct error *err)
{
	return STATUS_OK;
}

void plugins_free(struct plugins *plugins)
{
	free(plugins);
}

size_t plugins_fingerprint(const struct plugins *plugins, struct node_plugin *ret, size_t max)
{
	return 0;
}

enum status plugins_client(const struct plugins *plugins, const char *plugin_id, enum plugin_half half,
			   struct csi_client **ret, struct error *err)
{
	return error_set(err, STATUS_NOT_FOUND, 0, "plugin %s is not on this node", plugin_id);
}

const struct node_plugin *plugins_facts(const struct plugins *plugins, const char *plugin_id)
{
	return NULL;
}

enum status plugins_wait(struct plugins *plugins, const char *plugin_id, enum plugin_half half,
			 uint64_t timeout_us, plugin_ready_fn *done, void *userdata, struct plugin_wait **ret,
			 struct error *err)
{
	return error_set(err, STATUS_NOT_FOUND, 0, "plugin %s is not known here", plugin_id);
}

void plugin_wait_cancel(struct plugin_wait *wait)
{
}
