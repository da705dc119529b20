/* SPDX-License-Identifier: Apache-2.0 */
#include "completion.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "command/commands.h"
#include "show/output.h"

#include <string.h>

enum { WORD_MAX = 64 };

/* Up to the @n-th word of @path; 0 words are "". Returns false when it has fewer. */
static bool first_words(const char *path, int n, char ret[WORD_MAX])
{
	size_t length = 0;

	for (int i = 0; i < n; i++) {
		if (path[length] == '\0')
			return false;
		length += i > 0;
		length += strcspn(path + length, " ");
	}
	return str_format(ret, WORD_MAX, "%.*s", (int)length, path) >= 0;
}

/* The words that may come after @start, which has @n words; each once, as commands sharing a word are next to
 * each other. */
static void print_next_words(FILE *out, const char *start, int n)
{
	char last[WORD_MAX] = "";

	for (size_t i = 0; i < command_count(); i++) {
		char words[WORD_MAX];

		if (!command_in_group(command_at(i)->path, start) ||
		    !first_words(command_at(i)->path, n + 1, words) || str_eq(words, last))
			continue;
		(void)str_copy(last, sizeof(last), words);
		(void)fprintf(out, " %s", n ? words + strlen(start) + 1 : words);
	}
}

/* One case per beginning of @n words that continues. */
static void print_groups(FILE *out, int n)
{
	char last[WORD_MAX] = "";

	for (size_t i = 0; i < command_count(); i++) {
		char start[WORD_MAX];

		if (!first_words(command_at(i)->path, n, start) ||
		    strlen(command_at(i)->path) == strlen(start) || str_eq(start, last))
			continue;
		(void)str_copy(last, sizeof(last), start);
		(void)fprintf(out, "\t\"%s\") words=\"", start);
		print_next_words(out, start, n);
		(void)fputs("\" ;;\n", out);
	}
}

static void print_options(FILE *out, option_set options)
{
	for (int id = 0; id < OPTION_N; id++)
		if (options & OPTION_BIT(id))
			(void)fprintf(out, " --%s", command_options[id].name);
}

/* What the server has to be asked with. */
static const option_set connecting = OPTION_BIT(OPT_ADDRESS) | OPTION_BIT(OPT_CA) | OPTION_BIT(OPT_CERT) |
				     OPTION_BIT(OPT_KEY) | OPTION_BIT(OPT_SERVER_URI) |
				     OPTION_BIT(OPT_DEV_DIR) | OPTION_BIT(OPT_NAMESPACE) |
				     OPTION_BIT(OPT_TOKEN_FILE) | OPTION_BIT(OPT_CONTEXT);

static option_set with_argument(void)
{
	option_set set = 0;

	for (int id = 0; id < OPTION_N; id++)
		if (command_options[id].arg)
			set |= OPTION_BIT(id);
	return set;
}

static option_set with_kind(enum word_kind kind)
{
	option_set set = 0;

	for (int id = 0; id < OPTION_N; id++)
		if (command_options[id].arg && command_options[id].arg_kind == kind)
			set |= OPTION_BIT(id);
	return set;
}

/* "--address|--ca|...)" */
static void print_pattern(FILE *out, option_set set)
{
	const char *before = "\t";

	for (int id = 0; id < OPTION_N; id++) {
		if (!(set & OPTION_BIT(id)))
			continue;
		(void)fprintf(out, "%s--%s", before, command_options[id].name);
		before = "|";
	}
	(void)fputs(")", out);
}

/* The kind of the word after an option. */
static void print_option_kinds(FILE *out)
{
	(void)fputs("\tcase $before in\n", out);
	for (int kind = WORD_NONE; kind < WORD_KIND_N; kind++) {
		option_set set = with_kind((enum word_kind)kind);

		if (!set)
			continue;
		print_pattern(out, set);
		(void)fprintf(out, " kind='%s' ;;\n", kind ? completion_kind((enum word_kind)kind) : "none");
	}
	(void)fputs("\tesac\n", out);
}

static const char *argument_kind(const struct command *command, size_t k)
{
	enum word_kind kind = command->arg_kinds[k];

	/* a list of files or ids continues as it begins */
	if (kind == WORD_NONE && command->max_args == ANY_ARGS)
		kind = command->arg_kinds[0];
	return kind == WORD_NONE ? "none" : completion_kind(kind);
}

/* The kinds of a command's arguments, and its options. */
static void print_commands(FILE *out)
{
	(void)fputs("\tcase $line in\n", out);
	for (size_t i = command_count(); i-- > 0;) { /* "volume" must not hide "volume snapshot list" */
		const struct command *command = command_at(i);

		(void)fprintf(out, "\t\"%s\"*) path=\"%s\" kinds=(", command->path, command->path);
		for (size_t k = 0; k < ARG_KINDS_MAX; k++)
			(void)fprintf(out, "%s%s", k ? " " : "", argument_kind(command, k));
		(void)fprintf(out, ") max=%d options=\"", command->max_args);
		print_options(out, common_options | command->options);
		(void)fputs("\" ;;\n", out);
	}
	(void)fputs("\tesac\n", out);
}

static const char script_begin[] =
	"# bash completion for holdfast\n"
	"_holdfast() {\n"
	"\tlocal current=${COMP_WORDS[COMP_CWORD]} line='' words='' word before='' kind='' path='' "
	"options=''\n"
	"\tlocal max=0 kinds=() connect=() rest\n"
	"\tfor word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
	"\t\t[[ $word == = ]] && continue\n"
	"\t\tcase $before in\n";

/* An argument that the server knows is asked for; the shell waits two seconds at most. */
static const char script_end[] = "\tif [[ -z $kind && $current == -* ]]; then\n"
				 "\t\twords=$options\n"
				 "\telif [[ -z $kind && -n $path ]]; then\n"
				 "\t\trest=${line#\"$path\"}\n"
				 "\t\tread -ra rest <<<\"$rest\"\n"
				 "\t\tword=${#rest[@]}\n"
				 "\t\t((word >= max)) || kind=${kinds[word < 2 ? word : 1]}\n"
				 "\tfi\n"
				 "\tcase $kind in\n"
				 "\tvolume|node|plugin|alloc|job|context)\n"
				 "\t\twords+=\" $(timeout 2 holdfast completion ids \"$kind\" \"$current\" "
				 "\"${connect[@]}\" 2>/dev/null)\" ;;\n"
				 "\tfile)\n"
				 "\t\tcompopt -o filenames 2>/dev/null\n"
				 "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
				 "\t\treturn ;;\n"
				 "\tesac\n"
				 "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
				 "}\n"
				 "complete -F _holdfast holdfast\n";

void completion_bash(FILE *out)
{
	(void)fputs(script_begin, out);
	print_pattern(out, connecting);
	(void)fputs(" connect+=(\"$before\" \"$word\") ;;\n", out);
	print_pattern(out, with_argument() & ~connecting);
	(void)fputs(" ;;\n" /* the word is its argument */
		    "\t\t*) [[ $word == -* ]] || line+=\"${line:+ }$word\" ;;\n"
		    "\t\tesac\n"
		    "\t\tbefore=$word\n"
		    "\tdone\n"
		    "\tcase $line in\n"
		    "\t\"\") words=\"",
		    out);
	print_next_words(out, "", 0);
	(void)fputs("\" ;;\n", out);
	print_groups(out, 1);
	print_groups(out, 2);
	(void)fputs("\tesac\n", out);
	print_option_kinds(out);
	print_commands(out);
	(void)fputs(script_end, out);
}

static void print_man_option(FILE *out, const struct option_info *info)
{
	if (info->letter)
		(void)fprintf(out, "*-%c*, ", info->letter);
	(void)fprintf(out, "*--%s*", info->name);
	if (info->arg)
		(void)fprintf(out, " _%s_", info->arg);
	(void)fprintf(out, "\n\t%s.\n\n", info->help);
}

void completion_man(FILE *out)
{
	(void)fputs("# COMMANDS\n\n", out);
	for (size_t i = 0; i < command_count(); i++) {
		(void)fprintf(out, "*%s*", command_at(i)->path);
		if (command_at(i)->args[0])
			(void)fprintf(out, " _%s_", command_at(i)->args);
		(void)fprintf(out, "\n\t%s.\n\n", command_at(i)->help);
	}
	(void)fputs("# OPTIONS\n\n", out);
	for (int id = 0; id < OPTION_N; id++)
		print_man_option(out, &command_options[id]);
}

static enum status cmd_version(struct invocation *inv, struct error *err)
{
	if (inv->options[OPT_JSON])
		return print_json(json_pack("{ss}", "version", HOLDFAST_VERSION), err);
	print_line("holdfast %s", HOLDFAST_VERSION);
	return STATUS_OK;
}

static enum status cmd_completion(struct invocation *inv, struct error *err)
{
	if (str_eq(inv->args[0], "ids"))
		return completion_ids(inv, err);
	if (inv->n_args > 1)
		return usage_error(inv, err, "unexpected argument '%s'", inv->args[1]);
	if (str_eq(inv->args[0], "bash"))
		completion_bash(stdout);
	else if (str_eq(inv->args[0], "man"))
		completion_man(stdout);
	else
		return usage_error(inv, err, "no completion for '%s': bash, man, ids", inv->args[0]);
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "version",
	 .args = "",
	 .help = "Print the version",
	 .example = "",
	 .options = OPTION_BIT(OPT_VERSION),
	 .run = cmd_version},
	{.path = "completion",
	 .args = "bash|man|ids [KIND PREFIX]",
	 .help = "Print completion for bash, the commands for the manual, or ids that begin with a prefix",
	 .example = "bash",
	 .min_args = 1,
	 .max_args = 3,
	 .run = cmd_completion},
};

const struct command_table completion_commands = {commands, ARRAY_SIZE(commands)};
