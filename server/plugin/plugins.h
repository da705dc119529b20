/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Plugins, derived from nodes' reports: an entry of a plugin counts as healthy while its node reports that
 * and has a session. Counts are computed from these facts, never kept by deltas; the result is cached until
 * one of the facts changes. An unreported plugin is not listed; volumes that name it stay, and show that.
 *
 * Handlers of the service Plugins. */

#include "state/change.h"
#include "state/state.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

struct rpc_call;

/** Summarizes the volume's plugin; for a native volume, only its profile. */
void plugin_summarize(struct plugin_entry *plugin, const struct volume *volume, struct plugin_summary *ret);

/** Summarizes the whole plugin: a node with several profiles counts once, as healthy if any of them is. */
void plugin_summarize_all(struct plugin_entry *plugin, struct plugin_summary *ret);

/** Does server.hcl list nodes for the plugin, and no listed node reports it? Then the report of another node
 * is no reason to leave a detach out. */
bool plugin_waits_for_listed(struct plugin_entry *plugin);

/** Decides for all nodes, into @ret, whether volumes of the plugin require a controller: by the reports of
 * the nodes that server.hcl lists, or by that of any node if these do not report a plugin that is listed by
 * name. False: each node's own report decides. */
bool plugin_decide_controller(struct plugin_entry *plugin, bool *ret);

/** Do volumes of the plugin require a controller on the node that reports @on_node? Unless that is decided
 * for all nodes, that report decides. */
bool plugin_requires_controller(struct plugin_entry *plugin, const struct node_plugin *on_node);

/** Can @volume be used now? It needs a healthy node service, and a healthy controller if it requires one.
 * @ret_reason of @size gets the cause and the next command, else it is empty. */
bool plugin_is_schedulable(const struct plugin_summary *summary, const struct volume *volume,
			   char *ret_reason, size_t size);

void plugins_handle_get(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void plugins_handle_list(struct rpc_call *call, const ProtobufCMessage *request, void *server);
