/* SPDX-License-Identifier: Apache-2.0 */
/* Which fencer may prove which nodes off. */

#include "fence/bindings.h"

#include "base/id.h"
#include "base/str.h"

#include <string.h>

static const struct fence_binding *find_binding(const struct fence_bindings *bindings, const char *fencer)
{
	for (size_t i = 0; i < bindings->n; i++)
		if (str_eq(bindings->list[i].fencer, fencer))
			return &bindings->list[i];
	return NULL;
}

static enum status check_label(const struct conf *conf, const char *label, const json_t *body,
			       const struct fence_bindings *bindings, struct error *err)
{
	if (!label || !id_is_name(label, NODE_ID_MAX))
		return conf_error(conf, body, NULL, err,
				  "fencer: '%.64s' is no fencer's name; write fencer \"NAME\" { }",
				  label ? label : "");
	if (find_binding(bindings, label))
		return conf_error(conf, body, NULL, err, "fencer %s: it has a block already", label);
	if (bindings->n == FENCE_BINDINGS_MAX)
		return conf_error(conf, body, NULL, err, "fencer: more than %d blocks", FENCE_BINDINGS_MAX);
	return STATUS_OK;
}

/* "n1", "rack-*", "*" */
static bool is_pattern(const char *text)
{
	char id[NODE_ID_MAX + 2];
	size_t n = text ? strlen(text) : 0;

	if (n == 0 || str_copy(id, sizeof(id), text) < 0)
		return false;
	if (id[n - 1] == '*')
		id[n - 1] = '\0';
	return id[0] == '\0' || id_is_name(id, NODE_ID_MAX);
}

static enum status add_pattern(const struct conf *conf, json_t *body, const char *text,
			       struct fence_binding *binding, struct error *err)
{
	if (!is_pattern(text))
		return conf_error(
			conf, body, "nodes", err,
			"fencer %s: nodes: '%.64s' is no node's id, nor the begin of one with a last *",
			binding->fencer, text ? text : "");
	if (binding->n_nodes == FENCE_PATTERNS_MAX)
		return conf_error(conf, body, "nodes", err, "fencer %s: nodes: more than %d", binding->fencer,
				  FENCE_PATTERNS_MAX);
	(void)str_copy(binding->nodes[binding->n_nodes++], sizeof(binding->nodes[0]), text);
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

enum status fence_bindings_bind(const struct conf *conf, const char *label, json_t *body,
				struct fence_bindings *bindings, struct error *err)
{
	struct fence_binding *binding = &bindings->list[bindings->n];
	json_t *nodes = json_object_get(body, "nodes");
	enum status status = STATUS_OK;

	TRY(check_label(conf, label, body, bindings, err));
	TRY(check_keys(conf, body, err));
	*binding = (struct fence_binding){.n_nodes = 0};
	(void)str_copy(binding->fencer, sizeof(binding->fencer), label);
	if (!json_is_array(nodes))
		return conf_error(conf, body, "nodes", err,
				  "fencer %s: nodes: a list of node ids is wanted, which may be []", label);
	for (size_t i = 0; i < json_array_size(nodes) && status == STATUS_OK; i++)
		status = add_pattern(conf, body, json_string_value(json_array_get(nodes, i)), binding, err);
	if (status == STATUS_OK)
		bindings->n++;
	return status;
}

static bool matches(const char *pattern, const char *node)
{
	size_t n = strlen(pattern);

	return n > 0 && pattern[n - 1] == '*' ? strncmp(pattern, node, n - 1) == 0 : str_eq(pattern, node);
}

bool fence_bindings_allow(const struct fence_bindings *bindings, const char *fencer, const char *node)
{
	const struct fence_binding *binding = find_binding(bindings, fencer);

	for (size_t i = 0; binding && i < binding->n_nodes; i++)
		if (matches(binding->nodes[i], node))
			return true;
	return bindings->n == 0;
}
