/* SPDX-License-Identifier: Apache-2.0 */
#include "completion.h"

#include "completion_parts.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "command/commands.h"
#include "show/output.h"

#include <string.h>

/* Prints the words that may come after @start, which has @n words. */
static void print_next_words(FILE *out, const char *start, int n)
{
	for (size_t i = 0; i < command_count(); i++) {
		char words[COMPLETION_WORDS_MAX];

		if (command_in_group(command_at(i)->path, start) &&
		    completion_first_words(i, n + 1, 0, words))
			(void)fprintf(out, " %s", n ? words + strlen(start) + 1 : words);
	}
}

/* Prints one case per beginning of @n words that continues. */
static void print_groups(FILE *out, int n)
{
	for (size_t i = 0; i < command_count(); i++) {
		char start[COMPLETION_WORDS_MAX];

		if (!completion_first_words(i, n, 1, start))
			continue;
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

/* "	--address|--ca|...)" */
static void print_pattern(FILE *out, option_set set)
{
	(void)fputs("\t", out);
	completion_put_names(out, set, "|");
	(void)fputs(")", out);
}

/* Prints the kind of each option's argument. */
static void print_option_kinds(FILE *out)
{
	(void)fputs("\tcase $before in\n", out);
	for (int kind = WORD_NONE; kind < WORD_KIND_N; kind++) {
		option_set set = completion_with_kind((enum word_kind)kind);

		if (!set)
			continue;
		print_pattern(out, set);
		(void)fprintf(out, " kind='%s' ;;\n", kind ? completion_kind((enum word_kind)kind) : "other");
	}
	(void)fputs("\tesac\n", out);
}

/* The kinds of a command's arguments, and its options. */
static void print_commands(FILE *out)
{
	(void)fputs("\tcase $line in\n", out);
	for (size_t i = command_count(); i-- > 0;) { /* "volume" must not hide "volume snapshot list" */
		const struct command *command = command_at(i);

		(void)fprintf(out, "\t\"%s\"*) path=\"%s\" kinds=(", command->path, command->path);
		for (size_t k = 0; k < ARG_KINDS_MAX; k++)
			(void)fprintf(out, "%s%s", k ? " " : "", completion_argument(command, k));
		(void)fprintf(out, ") max=%d options=\"", command->max_args);
		print_options(out, common_options | command->options);
		(void)fputs("\" ;;\n", out);
	}
	(void)fputs("\tesac\n", out);
}

static const char script_begin[] =
	"# bash completion for holdfast\n"
	"_holdfast() {\n"
	"\tlocal current=${COMP_WORDS[COMP_CWORD]} line='' words='' part before='' kind='' path='' "
	"options=''\n"
	"\tlocal max=0 kinds=() connect=() rest\n"
	"\tfor part in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
	"\t\t[[ $part == = ]] && continue\n"
	"\t\tcase $before in\n";

/* An argument that the server knows is asked for; the shell waits two seconds at most. compgen -W would
 * expand an id, so each is compared and quoted as data. */
static const char script_end[] =
	"\tif [[ -z $kind && $current == -* ]]; then\n"
	"\t\twords=$options\n"
	"\telif [[ -z $kind && -n $path ]]; then\n"
	"\t\trest=${line#\"$path\"}\n"
	"\t\tread -ra rest <<<\"$rest\"\n"
	"\t\tpart=${#rest[@]}\n"
	"\t\t((part >= max)) || kind=${kinds[part < 2 ? part : 1]}\n"
	"\tfi\n"
	"\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
	"\tcase $kind in\n"
	"\tvolume|node|plugin|alloc|job|context)\n"
	"\t\twhile IFS= read -r part; do\n"
	"\t\t\t[[ $part != \"$current\"* ]] || COMPREPLY+=(\"$(printf %q \"$part\")\")\n"
	"\t\tdone < <(timeout 2 holdfast completion ids \"$kind\" \"$current\" "
	"\"${connect[@]}\" 2>/dev/null) ;;\n"
	"\tfile)\n"
	"\t\tcompopt -o filenames 2>/dev/null\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
	"\tesac\n"
	"}\n"
	"complete -F _holdfast holdfast\n";

void completion_bash(FILE *out)
{
	(void)fputs(script_begin, out);
	print_pattern(out, completion_connecting);
	(void)fputs(" connect+=(\"$before\" \"$part\") ;;\n", out);
	print_pattern(out, completion_with_argument() & ~completion_connecting);
	(void)fputs(" ;;\n" /* the part is its argument */
		    "\t\t*) [[ $part == -* ]] || line+=\"${line:+ }$part\" ;;\n"
		    "\t\tesac\n"
		    "\t\tbefore=$part\n"
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
	else if (str_eq(inv->args[0], "zsh"))
		completion_zsh(stdout);
	else if (str_eq(inv->args[0], "fish"))
		completion_fish(stdout);
	else if (str_eq(inv->args[0], "man"))
		completion_man(stdout);
	else
		return usage_error(inv, err, "no completion for '%s': bash, zsh, fish, man, ids",
				   inv->args[0]);
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
	 .args = "bash|zsh|fish|man|ids [KIND PREFIX]",
	 .help = "Print completion for a shell, the commands for the manual, or ids that begin with a prefix",
	 .example = "bash",
	 .min_args = 1,
	 .max_args = 3,
	 .run = cmd_completion},
};

const struct command_table completion_commands = {commands, ARRAY_SIZE(commands)};
