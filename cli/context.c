/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast context`: the servers that a person works with, by name. */
#include "completion.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "command/commands.h"
#include "command/contexts.h"
#include "show/output.h"
#include "show/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LENGTH = 63, KEY_SIZE = 32, CONTEXTS_MAX = 1000 };

static const char *text_of(const json_t *context, const char *key)
{
	const char *text = json_string_value(json_object_get(context, key));

	return text ? text : "";
}

static const char *server_of(const json_t *context)
{
	return text_of(context, "address")[0] ? text_of(context, "address") : text_of(context, "dev_dir");
}

static enum status print_context(struct invocation *inv, const char *name, json_t *context, struct error *err)
{
	const char *key;
	json_t *value;

	if (inv->options[OPT_JSON])
		return print_json(json_pack("{sssO}", "name", name, "context", context), err);
	print_field("name", name);
	json_object_foreach (context, key, value)
		print_field(key, json_string_value(value));
	return STATUS_OK;
}

static enum status cmd_context_list(struct invocation *inv, struct error *err)
{
	static const struct column columns[] = {{.name = "CURRENT"},
						{.name = "NAME"},
						{.name = "ADDRESS"},
						{.name = "NAMESPACE"},
						{.name = "CERT"}};
	cleanup(json_decrefp) json_t *contexts = NULL;
	cleanup(table_freep) struct table *table = NULL;
	const char *name;
	json_t *context;

	TRY(contexts_load(&contexts, err));
	if (inv->options[OPT_JSON])
		return print_json(TAKE_PTR(contexts), err);
	if (json_object_size(json_object_get(contexts, "contexts")) == 0) {
		print_line("no contexts");
		return STATUS_OK;
	}
	table = table_new(columns, ARRAY_SIZE(columns));
	json_object_foreach (json_object_get(contexts, "contexts"), name, context)
		table_add(table,
			  (const char *const[]){str_eq(name, text_of(contexts, "current")) ? "*" : "", name,
						server_of(context), text_of(context, "namespace"),
						text_of(context, "cert")});
	return table_print(table, NULL, err);
}

static enum status cmd_context_show(struct invocation *inv, struct error *err)
{
	cleanup(json_decrefp) json_t *contexts = NULL;
	const char *name;
	json_t *context;

	TRY(contexts_load(&contexts, err));
	name = inv->n_args > 0 ? inv->args[0] : text_of(contexts, "current");
	if (name[0] == '\0')
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "no context is in use. Next: holdfast context list");
	TRY(context_find(contexts, name, &context, err));
	return print_context(inv, name, context, err);
}

/* A folder or file is named from the root, as the next command may run in another folder. */
static enum status set_value(struct invocation *inv, enum option_id id, json_t *context, struct error *err)
{
	const char *given = inv->options[id];
	bool is_path = command_options[id].arg_kind == WORD_FILE || id == OPT_DEV_DIR || id == OPT_SOCKET;
	cleanup_free char *whole = is_path && given[0] ? realpath(given, NULL) : NULL;
	char key[KEY_SIZE];
	int r;

	(void)context_key(id, key);
	if (is_path && given[0] && !whole)
		return error_set(err, status_from_errno(errno), errno, "cannot find %s of --%s", given,
				 command_options[id].name);
	if (given[0] == '\0') /* --namespace= takes it away */
		return (void)json_object_del(context, key), STATUS_OK;
	r = json_object_set_new(context, key, json_string(whole ? whole : given));
	return r < 0 ? usage_error(inv, err, "--%s is not UTF-8", command_options[id].name) : STATUS_OK;
}

static enum status cmd_context_set(struct invocation *inv, struct error *err)
{
	cleanup(json_decrefp) json_t *contexts = NULL;
	const char *name = inv->args[0];
	json_t *all, *context;
	bool is_new;

	if (!id_is_name(name, NAME_MAX_LENGTH))
		return usage_error(inv, err, "'%s' is not a name: letters, digits, '-' and '_', at most %d",
				   name, NAME_MAX_LENGTH);
	TRY(contexts_load(&contexts, err));
	all = json_object_get(contexts, "contexts");
	is_new = !json_object_get(all, name);
	if (is_new && json_object_size(all) >= CONTEXTS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "there are %d contexts already",
				 CONTEXTS_MAX);
	if (is_new)
		(void)json_object_set_new(all, name, json_object());
	TRY(context_find(contexts, name, &context, err));
	for (int id = 0; id < OPTION_N; id++)
		if ((context_options & OPTION_BIT(id)) && inv->options[id])
			TRY(set_value(inv, (enum option_id)id, context, err));
	if (server_of(context)[0] == '\0')
		return usage_error(inv, err,
				   "context %s names no server: give --address HOST:PORT or --dev-dir DIR",
				   name);
	TRY(contexts_save(contexts, err));
	if (inv->options[OPT_JSON])
		return print_context(inv, name, context, err);
	print_line("context %s is %s", name, is_new ? "made" : "changed");
	return STATUS_OK;
}

static enum status use(struct invocation *inv, const char *name, struct error *err)
{
	cleanup(json_decrefp) json_t *contexts = NULL;
	json_t *context = NULL;

	TRY(contexts_load(&contexts, err));
	if (name[0] != '\0')
		TRY(context_find(contexts, name, &context, err));
	(void)json_object_set_new(contexts, "current", json_string(name));
	TRY(contexts_save(contexts, err));
	if (inv->options[OPT_JSON])
		return print_json(json_pack("{ss}", "current", name), err);
	if (name[0] == '\0')
		print_line("no context is in use");
	else
		print_line("context %s is in use: %s", name, server_of(context));
	return STATUS_OK;
}

static enum status cmd_context_use(struct invocation *inv, struct error *err)
{
	return use(inv, inv->args[0], err);
}

static enum status cmd_context_unset(struct invocation *inv, struct error *err)
{
	return use(inv, "", err);
}

static enum status cmd_context_delete(struct invocation *inv, struct error *err)
{
	cleanup(json_decrefp) json_t *contexts = NULL;
	const char *name = inv->args[0];
	json_t *context;

	TRY(contexts_load(&contexts, err));
	TRY(context_find(contexts, name, &context, err));
	(void)json_object_del(json_object_get(contexts, "contexts"), name);
	if (str_eq(name, text_of(contexts, "current")))
		(void)json_object_set_new(contexts, "current", json_string(""));
	TRY(contexts_save(contexts, err));
	if (inv->options[OPT_JSON])
		return print_json(json_pack("{ss}", "deleted", name), err);
	print_line("context %s is deleted; its certificates and tokens stay", name);
	return STATUS_OK;
}

enum status completion_contexts(const char *prefix, struct error *err)
{
	cleanup(json_decrefp) json_t *contexts = NULL;
	const char *name;
	json_t *context;

	TRY(contexts_load(&contexts, err));
	json_object_foreach (json_object_get(contexts, "contexts"), name, context)
		if (str_starts_with(name, prefix))
			print_line("%s", name);
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "context list",
	 .args = "",
	 .help = "List the contexts of this user, and the one in use",
	 .example = "",
	 .run = cmd_context_list},
	{.path = "context show",
	 .args = "[NAME]",
	 .help = "Show a context, or the one in use",
	 .example = "",
	 .max_args = 1,
	 .arg_kinds = {WORD_CONTEXT},
	 .run = cmd_context_show},
	{.path = "context use",
	 .args = "NAME",
	 .help = "Use a context from now on",
	 .example = "prod",
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_CONTEXT},
	 .run = cmd_context_use},
	{.path = "context set",
	 .args = "NAME",
	 .help = "Make or change a context by the options --address, --ca, --cert, --key, --token-file, "
		 "--namespace",
	 .example = "prod --address storage:4646 --ca ca.pem --cert ann.pem --key ann.key",
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_CONTEXT},
	 .run = cmd_context_set},
	{.path = "context unset",
	 .args = "",
	 .help = "Use no context",
	 .example = "",
	 .run = cmd_context_unset},
	{.path = "context delete",
	 .args = "NAME",
	 .help = "Forget a context; the files that it names stay",
	 .example = "old",
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_CONTEXT},
	 .run = cmd_context_delete},
};

const struct command_table context_commands = {commands, ARRAY_SIZE(commands)};
