/* SPDX-License-Identifier: Apache-2.0 */
#include "hold/spec.h"

#include "base/str.h"
#include "call/connect.h"
#include "call/spec.h"
#include "command/settings.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum status hold_own_node(const char *path, char ret[static HOLD_NODE_SIZE], struct error *err)
{
	cleanup(conf_freep) struct conf *conf = NULL;
	const json_t *node;

	ret[0] = '\0';
	TRY(agent_settings_load(path, &conf, err));
	if (!conf)
		return STATUS_OK;
	node = json_object_get(conf_root(conf), "node_id");
	if (!json_is_string(node) || str_copy(ret, HOLD_NODE_SIZE, json_string_value(node)) < 0)
		return conf_error(conf, conf_root(conf), "node_id", err, "node_id names no node");
	return STATUS_OK;
}

static enum status set_node(const struct conf *conf, const char *agent_settings,
			    Holdfast__V1__Allocation *alloc, struct error *err)
{
	char node[HOLD_NODE_SIZE];
	enum status status = hold_own_node(agent_settings, node, err);
	char *copy;

	if (status != STATUS_OK)
		return status;
	if (alloc->node_id[0] != '\0' && node[0] != '\0' && !str_eq(alloc->node_id, node))
		return conf_error(
			conf, conf_root(conf), "node", err,
			"the volume would be mounted on node %s, and this is node %s (node_id in %s); leave "
			"node out",
			alloc->node_id, node, agent_settings);
	if (alloc->node_id[0] != '\0')
		return STATUS_OK;
	if (node[0] == '\0')
		return conf_error(conf, conf_root(conf), NULL, err,
				  "which node is this? %s cannot be read; write node = \"ID\" here",
				  agent_settings);
	copy = strdup(node);
	if (!copy)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "node %s", node);
	alloc->node_id = copy; /* it was the empty text, which is static */
	return STATUS_OK;
}

/* Checks that the allocation of a unit only has its volume: other units use it. */
static enum status hold_spec_check(const struct conf *conf, const Holdfast__V1__Allocation *alloc,
				   struct error *err)
{
	json_t *root = conf_root(conf);

	if (alloc->n_volumes != 1)
		return conf_error(conf, root, "volume", err,
				  "one volume is held by one unit, and here are %zu; make a file for each",
				  alloc->n_volumes);
	if (alloc->id[0] != '\0')
		return conf_error(conf, root, "id", err,
				  "leave id out: every start is an allocation of its own");
	if (alloc->driver[0] != '\0' && !str_eq(alloc->driver, "none"))
		return conf_error(conf, root, "driver", err,
				  "driver is \"none\" here: units that need the volume name it themselves "
				  "(BindsTo=, After=)");
	if (alloc->n_csi_plugins > 0)
		return conf_error(conf, root, "csi_plugin", err,
				  "a unit that holds a volume runs no plugin; see docs/drivers.md");
	return STATUS_OK;
}

enum status hold_spec_load(struct invocation *inv, const char *path, const char *agent_settings,
			   Holdfast__V1__Allocation **ret, struct error *err)
{
	cleanup_message Holdfast__V1__Allocation *alloc = NULL;
	cleanup(conf_freep) struct conf *conf = NULL;
	enum status status = conf_load(path, &conf, err);

	if (status == STATUS_OK)
		status = spec_alloc(conf, &alloc, err);
	if (status == STATUS_OK)
		status = hold_spec_check(conf, alloc, err);
	if (status == STATUS_OK)
		status = option_apply(inv, OPT_NAMESPACE, &alloc->namespace_, err);
	if (status == STATUS_OK)
		status = set_node(conf, agent_settings, alloc, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(alloc);
	return status;
}

enum status hold_spec_load_named(struct invocation *inv, const char *name, Holdfast__V1__Allocation **ret,
				 struct error *err)
{
	char path[PATH_MAX];
	enum status status;

	(void)str_format(path, sizeof(path), HOLDFAST_VOLUMES_PATH "/%s.hcl", name);
	status = hold_spec_load(inv, path, HOLDFAST_AGENT_SETTINGS_PATH, ret, err);
	if (status == STATUS_NOT_FOUND && access(path, F_OK) < 0)
		return error_set(err, status, 0,
				 "there is no file %s, which names this unit's volume. Next: see UNITS in "
				 "holdfast-volume(1), then systemctl start holdfast-volume@%s",
				 path, name);
	return status;
}
