/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/controller_nodes.h"

#include "base/id.h"
#include "base/str.h"

static const struct controller_list *controller_nodes_find(const struct controller_nodes *lists,
							   const char *plugin_id)
{
	for (size_t i = 0; i < lists->n_lists; i++)
		if (str_eq(lists->lists[i].plugin_id, plugin_id))
			return &lists->lists[i];
	return NULL;
}

static enum status check_label(const struct conf *conf, const char *label, const json_t *body,
			       const struct controller_nodes *lists, struct error *err)
{
	if (!label || (!str_eq(label, CONTROLLER_ANY_PLUGIN) && !id_is_plugin(label)))
		return conf_error(conf, body, NULL, err,
				  "controller: '%.64s' is no plugin id; write controller \"ID\" { }, or "
				  "\"" CONTROLLER_ANY_PLUGIN "\" for all that have no block of their own",
				  label ? label : "");
	if (str_eq(label, PLUGIN_NATIVE))
		return conf_error(conf, body, NULL, err, "controller: the native plugin has none");
	if (lists->n_lists == CONTROLLER_LISTS_MAX)
		return conf_error(conf, body, NULL, err, "controller: more than %d blocks",
				  CONTROLLER_LISTS_MAX);
	return STATUS_OK;
}

static enum status add_node(const struct conf *conf, json_t *body, const char *node_id,
			    struct controller_list *list, struct error *err)
{
	if (!node_id || !id_is_name(node_id, NODE_ID_MAX))
		return conf_error(conf, body, "nodes", err, "controller %s: nodes: '%.64s' is no node's id",
				  list->plugin_id, node_id ? node_id : "");
	if (list->n_nodes == CONTROLLER_NODES_MAX)
		return conf_error(conf, body, "nodes", err, "controller %s: nodes: more than %d",
				  list->plugin_id, CONTROLLER_NODES_MAX);
	(void)str_copy(list->nodes[list->n_nodes++], sizeof(list->nodes[0]), node_id);
	return STATUS_OK;
}

static enum status check_keys(const struct conf *conf, json_t *body, struct error *err)
{
	static const char *const known[] = {"nodes"};
	const char *key;
	json_t *value;

	json_object_foreach (body, key, value)
		if (!str_eq(key, known[0]))
			return conf_unknown_key(conf, body, key, known, 1, err);
	return STATUS_OK;
}

enum status controller_nodes_bind(const struct conf *conf, const char *label, json_t *body,
				  struct controller_nodes *lists, struct error *err)
{
	struct controller_list *list = &lists->lists[lists->n_lists];
	json_t *nodes = json_object_get(body, "nodes");
	enum status status = STATUS_OK;

	TRY(check_label(conf, label, body, lists, err));
	TRY(check_keys(conf, body, err));
	*list = (struct controller_list){.n_nodes = 0};
	(void)str_copy(list->plugin_id, sizeof(list->plugin_id), label);
	if (!json_is_array(nodes))
		return conf_error(conf, body, "nodes", err,
				  "controller %s: nodes: a list of node ids is wanted; [] for none", label);
	for (size_t i = 0; i < json_array_size(nodes) && status == STATUS_OK; i++)
		status = add_node(conf, body, json_string_value(json_array_get(nodes, i)), list, err);
	if (status == STATUS_OK)
		lists->n_lists++;
	return status;
}

bool controller_nodes_allow(const struct controller_nodes *lists, const char *plugin_id, const char *node_id)
{
	const struct controller_list *list = controller_nodes_find(lists, plugin_id);

	if (!list)
		list = controller_nodes_find(lists, CONTROLLER_ANY_PLUGIN);
	if (!list)
		return true;
	for (size_t i = 0; i < list->n_nodes; i++)
		if (str_eq(list->nodes[i], node_id))
			return true;
	return false;
}
