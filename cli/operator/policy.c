/* SPDX-License-Identifier: Apache-2.0 */
/* Policies of tokens: files as Nomad has them, with blocks namespace "NAME", plugin, node and operator, and
 * also backup. */

#include "operator/policy.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "conf/conf.h"
#include "rpc/pbjson.h"
#include "show/rows.h"

#include <errno.h>
#include <holdfast/v1/operator.pb-c.h>
#include <string.h>

#define cleanup_json cleanup(json_decrefp)

static void release_conf(struct conf **conf)
{
	conf_free(*conf);
}

/* --- file to message --- */

/* Copy members of @body that are among @known into @into. */
static enum status copy_members(const struct conf *conf, const json_t *body, const char *const *known,
				size_t n_known, json_t *into, struct error *err)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)body, name, value) {
		bool found = false;

		for (size_t i = 0; i < n_known; i++)
			found |= str_eq(known[i], name);
		if (!found)
			return conf_unknown_key(conf, body, name, known, n_known, err);
		if (json_object_set(into, name, value) < 0)
			return error_no_memory(err, "the policy");
	}
	return STATUS_OK;
}

static enum status add_rules(const struct conf *conf, const json_t *root, const json_t *blocks, json_t *rules,
			     struct error *err)
{
	static const char *const known[] = {"policy", "capabilities"};
	const char *label;
	json_t *body;

	if (!json_is_object(blocks))
		return conf_error(conf, root, "namespace", err,
				  "'namespace' must be a block: namespace "
				  "\"NAME\" { }");
	json_object_foreach ((json_t *)(uintptr_t)blocks, label, body) {
		cleanup_json json_t *rule = json_pack("{ss}", "namespace", label);

		if (!rule)
			return error_no_memory(err, "the policy");
		if (!json_is_object(body))
			return conf_error(conf, root, "namespace", err,
					  "'namespace' must be a block: namespace \"NAME\" { }");
		TRY(copy_members(conf, body, known, ARRAY_SIZE(known), rule, err));
		if (json_array_append(rules, rule) < 0)
			return error_no_memory(err, "the policy");
	}
	return STATUS_OK;
}

/* plugin { policy = "read" }: its value is the field's. */
static enum status add_level(const struct conf *conf, const json_t *root, const char *key,
			     const json_t *block, json_t *policy, struct error *err)
{
	static const char *const known[] = {"policy"};
	cleanup_json json_t *members = json_object();
	enum status status;

	if (!json_is_object(block))
		return conf_error(conf, root, key, err, "'%s' must be a block: %s { policy = \"read\" }", key,
				  key);
	status = members ? copy_members(conf, block, known, ARRAY_SIZE(known), members, err)
			 : error_no_memory(err, "the policy");
	if (status == STATUS_OK && json_object_get(members, "policy") &&
	    json_object_set(policy, key, json_object_get(members, "policy")) < 0)
		return error_no_memory(err, "the policy");
	return status;
}

static enum status add_member(const struct conf *conf, const json_t *root, const char *key, json_t *value,
			      json_t *policy, struct error *err)
{
	static const char *const known[] = {"description", "namespace", "plugin",
					    "node",	   "operator",	"backup"};

	if (str_eq(key, "description"))
		return json_object_set(policy, key, value) < 0 ? error_no_memory(err, "the policy")
							       : STATUS_OK;
	if (str_eq(key, "namespace"))
		return add_rules(conf, root, value, json_object_get(policy, "namespaces"), err);
	if (str_eq(key, "plugin") || str_eq(key, "node") || str_eq(key, "operator") || str_eq(key, "backup"))
		return add_level(conf, root, key, value, policy, err);
	return conf_unknown_key(conf, root, key, known, ARRAY_SIZE(known), err);
}

enum status policy_read(int fd, const char *path, const char *name, Holdfast__V1__AccessPolicy **ret,
			struct error *err)
{
	cleanup(release_conf) struct conf *conf = NULL;
	cleanup_json json_t *policy = json_pack("{ss s[]}", "name", name, "namespaces");
	ProtobufCMessage *message = NULL;
	enum status status = conf_load_open(fd, path, CONF_NO_TEMPLATES, &conf, err);
	const char *key;
	json_t *value;

	if (status == STATUS_OK)
		status = conf_mistakes(conf, err);
	if (status != STATUS_OK)
		return status;
	if (!policy)
		return error_no_memory(err, "the policy");
	json_object_foreach (conf_root(conf), key, value) {
		TRY(add_member(conf, conf_root(conf), key, value, policy, err));
	}
	status = pbjson_decode(&holdfast__v1__access_policy__descriptor, policy, 0, &message, err);
	if (status != STATUS_OK)
		return err ? error_prefix(err, "%s", path) : status;
	*ret = (Holdfast__V1__AccessPolicy *)message;
	return STATUS_OK;
}

static enum status policy_put_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__PutPolicyRequest *request = message;

	return policy_read(-EBADF, call->inv->args[1], call->inv->args[0], &request->policy, err);
}

static DEFINE_ROWS_OF(put_page, holdfast__v1__put_policy_response,
		      &holdfast__v1__put_policy_request__descriptor, NULL,
		      LINE(NULL, "policy {^policy.name} is in force"));

/* --- list, delete --- */

/* A row of a policy; its name and description only in the first one. */
static DEFINE_ROWS_OF(rule_table, holdfast__v1__namespace_rule, &holdfast__v1__access_policy__descriptor,
		      NULL, COL("NAME", "{#?|{^name}}"), COL("OVER", "namespace {namespace}"),
		      COL("GIVES", "{policy}{capabilities?{policy?,}{capabilities}}"),
		      COL("DESCRIPTION", "{#?|{^description}}"));

#define LEVEL_COLUMNS(scope, gives)                                          \
	COL("NAME", "{#?|{name}}"), COL("OVER", scope), COL("GIVES", gives), \
		COL("DESCRIPTION", "{#?|{description}}")

static DEFINE_ROWS(plugin_table, holdfast__v1__access_policy, NULL, LEVEL_COLUMNS("plugin", "{plugin}"));
static DEFINE_ROWS(node_table, holdfast__v1__access_policy, NULL, LEVEL_COLUMNS("node", "{node}"));
static DEFINE_ROWS(operator_table, holdfast__v1__access_policy, NULL,
		   LEVEL_COLUMNS("operator", "{operator}"));
static DEFINE_ROWS(backup_table, holdfast__v1__access_policy, NULL, LEVEL_COLUMNS("backup", "{backup}"));
static DEFINE_ROWS(nothing_table, holdfast__v1__access_policy, NULL, LEVEL_COLUMNS("", "nothing"));

static void add_rows(struct table *table, const Holdfast__V1__AccessPolicy *policy)
{
	const struct {
		const struct rows *rows;
		bool is_given;
	} levels[] = {{&plugin_table, policy->plugin[0] != '\0'},
		      {&node_table, policy->node[0] != '\0'},
		      {&operator_table, policy->operator_[0] != '\0'},
		      {&backup_table, policy->backup[0] != '\0'}};
	struct shown shown = {.of = &policy->base};

	for (; shown.i < policy->n_namespaces; shown.i++) {
		shown.message = &policy->namespaces[shown.i]->base;
		show_table_add(table, &rule_table, &shown);
	}
	shown.message = &policy->base;
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		if (levels[i].is_given) {
			show_table_add(table, levels[i].rows, &shown);
			shown.i++;
		}
	if (shown.i == 0)
		show_table_add(table, &nothing_table, &shown);
}

static enum status policy_list_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ListPoliciesResponse *answer = message;
	cleanup(table_freep) struct table *table = show_table_new(&nothing_table, false);

	for (size_t i = 0; i < answer->n_policies && table; i++)
		add_rows(table, answer->policies[i]);
	return table_print(table, NULL, err);
}

static DEFINE_ROWS_OF(delete_page, holdfast__v1__delete_policy_response,
		      &holdfast__v1__delete_policy_request__descriptor, NULL,
		      LINE(NULL, "policy {^name} is deleted"));

static const struct command commands[] = {
	{.path = "operator policy put",
	 .args = "NAME FILE|-",
	 .arg_kinds = {WORD_NONE, WORD_FILE},
	 .help = "Make or change a policy of tokens",
	 .example = "readers readers.hcl",
	 .min_args = 2,
	 .max_args = 2,
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "PutPolicy",
		  .load = policy_put_load,
		  .rows = &put_page}},
	{.path = "operator policy list",
	 .args = "[PREFIX]",
	 .help = "List policies and what they give",
	 .example = "",
	 .max_args = 1,
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "ListPolicies",
		  .fields = {{"prefix", ARG(0)}},
		  .show = policy_list_show,
		  .rows = &nothing_table,
		  .pages = PAGES_LIST}},
	{.path = "operator policy delete",
	 .args = "NAME",
	 .help = "Delete a policy that no token has",
	 .example = "readers",
	 .min_args = 1,
	 .max_args = 1,
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "DeletePolicy",
		  .fields = {{"name", ARG(0)}},
		  .rows = &delete_page}},
};

const struct command_table operator_policy_commands = {commands, ARRAY_SIZE(commands)};
