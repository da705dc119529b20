/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The nodes on which the controller of a CSI plugin may be.
 *
 * A controller gets the secrets of its plugin's volumes, and its confirmation of a detach frees the
 * volume. Without a list any node of the cluster can report that it runs one; a list makes a stolen
 * certificate of another node useless here. Settings: the blocks controller "ID" { nodes = [...] } of
 * server.hcl. */

#include "base/error.h"
#include "conf/conf.h"
#include "model/node.h"
#include "model/volume.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	CONTROLLER_LISTS_MAX = 32, /* blocks */
	CONTROLLER_NODES_MAX = 16, /* of a block */
};

#define CONTROLLER_ANY_PLUGIN "*" /* label of the block for plugins without a block of their own */

struct controller_list {
	char plugin_id[PLUGIN_ID_MAX + 1];		   /* or CONTROLLER_ANY_PLUGIN */
	char nodes[CONTROLLER_NODES_MAX][NODE_ID_MAX + 1]; /* ends with an empty one unless it is full */
};

struct controller_nodes {
	struct controller_list lists[CONTROLLER_LISTS_MAX];
	size_t n_lists;
};

/** Adds a block's lists. Errors name file and line. Matches the callback of struct conf_field except for
 * @lists. */
enum status controller_nodes_bind(const struct conf *conf, const char *label, json_t *body,
				  struct controller_nodes *lists, struct error *err);

/** Returns the plugin's block, or that of all plugins without one; NULL: no block. */
const struct controller_list *controller_nodes_find(const struct controller_nodes *lists,
						    const char *plugin_id);

/** May @node_id report the controller of @plugin_id? True for a plugin without a block. */
bool controller_nodes_allow(const struct controller_nodes *lists, const char *plugin_id, const char *node_id);
