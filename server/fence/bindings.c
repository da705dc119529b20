/* SPDX-License-Identifier: Apache-2.0 */
/* Which fencer may prove which nodes off. */

#include "fence/bindings.h"

#include "base/cleanup.h"
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
	size_t n = strlen(text);

	(void)str_copy(id, sizeof(id), text); /* same size */
	if (id[n - 1] == '*')
		id[n - 1] = '\0';
	return id[0] == '\0' || id_is_name(id, NODE_ID_MAX);
}

static const struct conf_field fields[] = {
	{.key = "nodes",
	 .type = CONF_STRINGS,
	 .offset = offsetof(struct fence_binding, nodes),
	 .size = sizeof(((struct fence_binding *)0)->nodes[0]),
	 .max = FENCE_PATTERNS_MAX,
	 .required = true},
};

enum status fence_bindings_bind(const struct conf *conf, const char *label, json_t *body,
				struct fence_bindings *bindings, struct error *err)
{
	struct fence_binding binding = {.fencer = ""};

	TRY(check_label(conf, label, body, bindings, err));
	TRY(conf_bind(conf, body, fields, ARRAY_SIZE(fields), &binding, err));
	for (size_t i = 0; i < FENCE_PATTERNS_MAX && binding.nodes[i][0] != '\0'; i++)
		if (!is_pattern(binding.nodes[i]))
			return conf_error(
				conf, body, "nodes", err,
				"fencer %s: nodes: '%s' is no node's id, nor the begin of one with a last *",
				label, binding.nodes[i]);
	(void)str_copy(binding.fencer, sizeof(binding.fencer), label);
	bindings->list[bindings->n++] = binding;
	return STATUS_OK;
}

static bool matches(const char *pattern, const char *node)
{
	size_t n = strlen(pattern);

	return n > 0 && pattern[n - 1] == '*' ? strncmp(pattern, node, n - 1) == 0 : str_eq(pattern, node);
}

bool fence_bindings_allow(const struct fence_bindings *bindings, const char *fencer, const char *node)
{
	const struct fence_binding *binding = find_binding(bindings, fencer);

	for (size_t i = 0; binding && i < FENCE_PATTERNS_MAX && binding->nodes[i][0] != '\0'; i++)
		if (matches(binding->nodes[i], node))
			return true;
	return bindings->n == 0;
}
