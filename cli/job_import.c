/* SPDX-License-Identifier: Apache-2.0 */
/* `job import`: a file of Nomad as Holdfast takes it. */
#include "base/cleanup.h"
#include "base/str.h"
#include "command/commands.h"
#include "nomad/import.h"
#include "show/output.h"

#include <string.h>

static const char *const fates[] = {"taken", "changed", "dropped", "refused"};

/* --var NAME=VALUE as an object. @ret owned by the caller, json_decref() */
static enum status read_values(struct invocation *inv, json_t **ret, struct error *err)
{
	cleanup(json_decrefp) json_t *values = json_object();
	const char *text;
	size_t at = 0;

	while ((text = option_next(inv, OPT_VAR, &at)) != NULL) {
		const char *value = strchr(text, '=');
		char name[256];

		if (!value || value == text ||
		    str_format(name, sizeof(name), "%.*s", (int)(value - text), text) < 0)
			return usage_error(inv, err, "--var: '%.64s' is not NAME=VALUE", text);
		if (json_object_set_new(values, name, json_string(value + 1)) < 0)
			return usage_error(inv, err, "--var: '%.64s' is no text in UTF-8", name);
	}
	*ret = TAKE_PTR(values);
	return STATUS_OK;
}

static enum status show_json(const struct nomad_import *import, struct error *err)
{
	json_t *remarks = json_array();

	for (size_t i = 0; i < import->n_remarks; i++) {
		const struct nomad_remark *remark = &import->remarks[i];

		if (json_array_append_new(remarks, json_pack("{sI ss so}", "line", (json_int_t)remark->line,
							     "kind", fates[remark->fate], "text",
							     json_text(remark->text))) < 0) {
			json_decref(remarks);
			return error_no_memory(err, "the answer");
		}
	}
	return print_json(json_pack("{ss so}", "job", import->text, "remarks", remarks), err);
}

static void show(const char *name, const struct nomad_import *import)
{
	print_text(stdout, import->text);
	/* one line each: a key of the file may have line ends */
	for (size_t i = 0; i < import->n_remarks; i++)
		print_note("%s:%u: %s", name, import->remarks[i].line, import->remarks[i].text);
}

static enum status cmd_job_import(struct invocation *inv, struct error *err)
{
	cleanup(nomad_import_release) struct nomad_import import = {.text = NULL};
	cleanup(json_decrefp) json_t *values = NULL;
	cleanup(conf_freep) struct conf *conf = NULL;
	enum status status;

	TRY(read_values(inv, &values, err));
	TRY(conf_load_whole(inv->args[0], CONF_EXPRESSIONS, &conf, err));
	TRY(conf_mistakes(conf, err));
	TRY(nomad_import(conf, values, &import, err));
	if (!inv->options[OPT_JSON])
		show(inv->args[0], &import);
	status = inv->options[OPT_JSON] ? show_json(&import, err) : STATUS_OK;
	if (status != STATUS_OK || import.n_refused == 0)
		return status;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "%s: %zu line%s refused, so the printed job differs. Next: correct them and import "
			 "the file again, or add to the printed file what they do",
			 inv->args[0], import.n_refused, import.n_refused == 1 ? " is" : "s are");
}

static const struct command commands[] = {
	{.path = "job import",
	 .args = "FILE|- [--var NAME=VALUE]",
	 .help = "Print a job file of Nomad as Holdfast takes it, with a remark for each line that changed",
	 .example = "web.nomad.hcl",
	 .options = OPTION_BIT(OPT_VAR),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .run = cmd_job_import},
};

const struct command_table job_import_commands = {commands, ARRAY_SIZE(commands)};
