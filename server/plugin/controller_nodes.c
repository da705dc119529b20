/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/controller_nodes.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"

static const struct controller_list *find(const struct controller_nodes *lists, const char *label)
{
	for (size_t i = 0; i < lists->n_lists; i++)
		if (str_eq(lists->lists[i].plugin_id, label))
			return &lists->lists[i];
	return NULL;
}

const struct controller_list *controller_nodes_find(const struct controller_nodes *lists,
						    const char *plugin_id)
{
	const struct controller_list *list = find(lists, plugin_id);

	return list ? list : find(lists, CONTROLLER_ANY_PLUGIN);
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
		return conf_error(conf, body, NULL, err, "controller: the native plugin has no controller");
	if (lists->n_lists == CONTROLLER_LISTS_MAX)
		return conf_error(conf, body, NULL, err, "controller: more than %d blocks",
				  CONTROLLER_LISTS_MAX);
	return STATUS_OK;
}

static const struct conf_field fields[] = {
	{.key = "nodes",
	 .type = CONF_STRINGS,
	 .offset = offsetof(struct controller_list, nodes),
	 .size = sizeof(((struct controller_list *)0)->nodes[0]),
	 .max = CONTROLLER_NODES_MAX,
	 .required = true},
};

enum status controller_nodes_bind(const struct conf *conf, const char *label, json_t *body,
				  struct controller_nodes *lists, struct error *err)
{
	struct controller_list list = {.plugin_id = ""};

	TRY(check_label(conf, label, body, lists, err));
	TRY(conf_bind(conf, body, fields, ARRAY_SIZE(fields), &list, err));
	for (size_t i = 0; i < CONTROLLER_NODES_MAX && list.nodes[i][0] != '\0'; i++)
		if (!id_is_name(list.nodes[i], NODE_ID_MAX))
			return conf_error(conf, body, "nodes", err,
					  "controller %s: nodes: '%s' is no node's id", label, list.nodes[i]);
	(void)str_copy(list.plugin_id, sizeof(list.plugin_id), label);
	lists->lists[lists->n_lists++] = list;
	return STATUS_OK;
}

bool controller_nodes_allow(const struct controller_nodes *lists, const char *plugin_id, const char *node_id)
{
	const struct controller_list *list = controller_nodes_find(lists, plugin_id);

	if (!list)
		return true;
	for (size_t i = 0; i < CONTROLLER_NODES_MAX && list->nodes[i][0] != '\0'; i++)
		if (str_eq(list->nodes[i], node_id))
			return true;
	return false;
}
