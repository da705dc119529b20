/* SPDX-License-Identifier: Apache-2.0 */
/* Policies of tokens: files as Nomad has them, with blocks namespace "NAME", plugin, node and
 * operator, and backup besides. */

#include "base/cleanup.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "conf/conf.h"
#include "rpc/pbjson.h"
#include "show/output.h"

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

static enum status read_policy(const struct invocation *inv, Holdfast__V1__AccessPolicy **ret,
			       struct error *err)
{
	cleanup(release_conf) struct conf *conf = NULL;
	cleanup_json json_t *policy = json_pack("{ss s[]}", "name", inv->args[0], "namespaces");
	ProtobufCMessage *message = NULL;
	enum status status = conf_load(inv->args[1], &conf, err);
	const char *key;
	json_t *value;

	if (status != STATUS_OK)
		return status;
	if (!policy)
		return error_no_memory(err, "the policy");
	json_object_foreach (conf_root(conf), key, value) {
		TRY(add_member(conf, conf_root(conf), key, value, policy, err));
	}
	status = pbjson_decode(&holdfast__v1__access_policy__descriptor, policy, 0, &message, err);
	if (status != STATUS_OK)
		return err ? error_prefix(err, "%s", inv->args[1]) : status;
	*ret = (Holdfast__V1__AccessPolicy *)message;
	return STATUS_OK;
}

static enum status policy_put_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__PutPolicyRequest *request = message;

	return read_policy(call->inv, &request->policy, err);
}

static enum status policy_put_show(struct call *call, const void *message, struct error *err)
{
	print_line("policy %s is in force", call->inv->args[0]);
	return STATUS_OK;
}

/* --- list, delete --- */

static void add_rule_row(struct table *table, const Holdfast__V1__AccessPolicy *policy, bool is_first,
			 const char *scope, const char *gives)
{
	table_add(table, (const char *const[]){is_first ? policy->name : "", scope, gives,
					       is_first ? policy->description : ""});
}

static void add_rows(struct table *table, const Holdfast__V1__AccessPolicy *policy)
{
	const struct {
		const char *scope;
		const char *level;
	} levels[] = {{"plugin", policy->plugin},
		      {"node", policy->node},
		      {"operator", policy->operator_},
		      {"backup", policy->backup}};
	bool is_first = true;

	for (size_t i = 0; i < policy->n_namespaces; i++) {
		const Holdfast__V1__NamespaceRule *rule = policy->namespaces[i];
		char scope[96];
		char gives[512];
		size_t at;

		(void)str_format(scope, sizeof(scope), "namespace %s", rule->namespace_);
		at = str_copy(gives, sizeof(gives), rule->policy) == 0 ? strlen(gives) : 0;
		for (size_t j = 0; j < rule->n_capabilities; j++) {
			int n = str_format(gives + at, sizeof(gives) - at, "%s%s", at > 0 ? "," : "",
					   rule->capabilities[j]);

			at += n > 0 ? (size_t)n : 0; /* cut between names */
		}
		add_rule_row(table, policy, is_first, scope, gives);
		is_first = false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		if (levels[i].level[0] == '\0')
			continue;
		add_rule_row(table, policy, is_first, levels[i].scope, levels[i].level);
		is_first = false;
	}
	if (is_first)
		add_rule_row(table, policy, true, "", "nothing");
}

static enum status policy_list_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ListPoliciesRequest *request = message;

	call_set(call, &request->prefix, call->inv->n_args > 0 ? call->inv->args[0] : NULL);
	return STATUS_OK;
}

static enum status policy_list_show(struct call *call, const void *message, struct error *err)
{
	static const struct column columns[] = {
		{.name = "NAME"}, {.name = "OVER"}, {.name = "GIVES"}, {.name = "DESCRIPTION"}};
	const Holdfast__V1__ListPoliciesResponse *answer = message;
	cleanup(table_freep) struct table *table = table_new(columns, ARRAY_SIZE(columns));

	for (size_t i = 0; i < answer->n_policies && table; i++)
		add_rows(table, answer->policies[i]);
	return table_print(table, NULL, err);
}

static enum status policy_delete_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DeletePolicyRequest *request = message;

	call_set(call, &request->name, call->inv->args[0]);
	return STATUS_OK;
}

static enum status policy_delete_show(struct call *call, const void *message, struct error *err)
{
	print_line("policy %s is deleted", call->inv->args[0]);
	return STATUS_OK;
}

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
		  .show = policy_put_show}},
	{.path = "operator policy list",
	 .args = "[PREFIX]",
	 .help = "List policies and what they give",
	 .example = "",
	 .max_args = 1,
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "ListPolicies",
		  .load = policy_list_load,
		  .show = policy_list_show,
		  .pages = PAGES_LIST}},
	{.path = "operator policy delete",
	 .args = "NAME",
	 .help = "Delete a policy that no token has",
	 .example = "readers",
	 .min_args = 1,
	 .max_args = 1,
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "DeletePolicy",
		  .load = policy_delete_load,
		  .show = policy_delete_show}},
};

const struct command_table operator_policy_commands = {commands, ARRAY_SIZE(commands)};
