#pragma once
/* A node: a machine with an agent, known by its certificate. */

#include "base/error.h"
#include "model/claim.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	NODE_PLUGINS_MAX = 32,
	NODE_TEXT_MAX = 127,
};

enum node_status {
	NODE_STATUS_UNSPECIFIED,
	NODE_READY,
	NODE_DISCONNECTED,
	NODE_DOWN,
	NODE_DRAINING,
	NODE_STATUS_N,
};

struct node_plugin {
	char plugin_id[PLUGIN_ID_MAX + 1];
	char profile[PROFILE_MAX + 1];
	enum source_class class;
	bool healthy;
	char health_description[NODE_TEXT_MAX + 1];
	char provider[NODE_TEXT_MAX + 1];
	char provider_version[NODE_TEXT_MAX + 1];
};

struct node {
	char id[NODE_ID_MAX + 1];
	char boot_id[UUID_TEXT_SIZE];
	enum node_status status;
	char agent_version[NODE_TEXT_MAX + 1];
	char kernel[NODE_TEXT_MAX + 1];
	char address[NODE_TEXT_MAX + 1];
	struct node_plugin plugins[NODE_PLUGINS_MAX];
	uint32_t n_plugins;
	int64_t last_seen_ms;
	int64_t create_time_ms;
	int64_t modify_time_ms;
	uint64_t create_index;
	uint64_t modify_index;
};

/** The fingerprint entry that serves @volume on this node, or NULL. */
const struct node_plugin *node_find_plugin(const struct node *node, const struct volume *volume);
