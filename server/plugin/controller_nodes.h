/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* On which nodes the controller of a CSI plugin may be.
 *
 * A controller is handed the secrets of its plugin's volumes, and its word that a volume was detached frees
 * it. Without a list any node of the cluster can say that it runs one; with it, whoever has another node's
 * certificate gains nothing by that. Settings: the blocks controller "ID" { nodes = [...] } of server.hcl. */

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

#define CONTROLLER_ANY_PLUGIN "*" /* label of the block for plugins that have none of their own */

struct controller_list {
	char plugin_id[PLUGIN_ID_MAX + 1];		   /* or CONTROLLER_ANY_PLUGIN */
	char nodes[CONTROLLER_NODES_MAX][NODE_ID_MAX + 1]; /* ends with an empty one unless it is full */
};

struct controller_nodes {
	struct controller_list lists[CONTROLLER_LISTS_MAX];
	size_t n_lists;
};

/** Add what a block says. Errors name file and line. Matches the callback of struct conf_field but for
 * @lists. */
enum status controller_nodes_bind(const struct conf *conf, const char *label, json_t *body,
				  struct controller_nodes *lists, struct error *err);

/** Does the word of @node_id count that the controller of @plugin_id is there? Yes for a plugin that no block
 * is about. */
bool controller_nodes_allow(const struct controller_nodes *lists, const char *plugin_id, const char *node_id);
