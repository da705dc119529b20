/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "command/commands.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

/* The command line of holdfast-policy. */
struct tool {
	char words[OPTION_N + 4][PATH_MAX];
	char *argv[OPTION_N + 5];
	int n;
	bool is_too_long;
};

static void add_word(struct tool *tool, const char *dashes, const char *name, const char *equals,
		     const char *value)
{
	char *word = tool->words[tool->n];

	if (str_format(word, PATH_MAX, "%s%s%s%s", dashes, name, equals, value) < 0)
		tool->is_too_long = true;
	tool->argv[tool->n++] = word;
}

/* Become holdfast-policy, which compiles for the mount helper: what it prints and how it ends is the
 * command's answer. */
static enum status run_tool(struct invocation *inv, const char *const *words, struct error *err)
{
	static struct tool tool;

	tool.n = 0;
	add_word(&tool, "", "holdfast-policy", "", "");
	for (int id = 0; id < OPTION_N; id++) {
		const struct option_info *info = &command_options[id];

		if (inv->options[id] && (id == OPT_JSON || id >= OPT_UID))
			add_word(&tool, "--", info->name, info->arg ? "=" : "", inv->options[id]);
	}
	add_word(&tool, "--", "", "", "");
	for (; *words; words++)
		add_word(&tool, "", *words, "", "");
	tool.argv[tool.n] = NULL;
	if (tool.is_too_long)
		return usage_error(inv, err, "an argument of more than %d bytes", PATH_MAX - 1);
	(void)execv(HOLDFAST_POLICY_TOOL_PATH, tool.argv);
	return error_set(err, status_from_errno(errno), errno, "cannot run %s", HOLDFAST_POLICY_TOOL_PATH);
}

static enum status cmd_policy_check(struct invocation *inv, struct error *err)
{
	const char *file = inv->n_args > 0 ? inv->args[0] : HOLDFAST_POLICY_PATH;

	return run_tool(inv, (const char *const[]){"check", file, NULL}, err);
}

static enum status cmd_policy_apply(struct invocation *inv, struct error *err)
{
	const char *file = inv->n_args > 0 ? inv->args[0] : HOLDFAST_POLICY_PATH;

	return run_tool(inv, (const char *const[]){"apply", file, NULL}, err);
}

static enum status cmd_policy_explain(struct invocation *inv, struct error *err)
{
	const char *file = inv->n_args > 1 ? inv->args[1] : HOLDFAST_POLICY_PATH;

	return run_tool(inv, (const char *const[]){"explain", inv->args[0], file, NULL}, err);
}

/* From --uid to --detach: of holdfast-policy. */
#define REQUEST ((OPTION_BIT(OPT_DETACH + 1) - 1) & ~(OPTION_BIT(OPT_UID) - 1))

static const struct command commands[] = {
	{.path = "policy apply",
	 .args = "[FILE]",
	 .help = "Check the mount helper's policy and have the helper use it (as root)",
	 .example = "",
	 .arg_kinds = {WORD_FILE},
	 .max_args = 1,
	 .run = cmd_policy_apply},
	{.path = "policy check",
	 .args = "[FILE]",
	 .help = "Check the mount helper's policy",
	 .example = "",
	 .arg_kinds = {WORD_FILE},
	 .max_args = 1,
	 .run = cmd_policy_check},
	{.path = "policy explain",
	 .args = "stage|publish|unpublish|unstage [FILE]",
	 .help = "Show whether the mount helper's policy allows a request, and by which lines",
	 .example = "stage --profile db --by-id scsi-0SAN_17",
	 .arg_kinds = {WORD_NONE, WORD_FILE},
	 .options = REQUEST,
	 .min_args = 1,
	 .max_args = 2,
	 .run = cmd_policy_explain},
};

const struct command_table policy_commands = {commands, ARRAY_SIZE(commands)};
