/* SPDX-License-Identifier: Apache-2.0 */
/* Completion for fish: a line for each command, option and argument, with the condition under which it is
 * offered. */
#include "completion_parts.h"

#include "base/str.h"

#include <string.h>

/* In fish's quotes. */
static void put_quoted(FILE *out, const char *text)
{
	(void)fputc('\'', out);
	for (; *text != '\0'; text++)
		(void)fprintf(out, "%s%c", *text == '\'' || *text == '\\' ? "\\" : "", *text);
	(void)fputc('\'', out);
}

/* Offers the next part of a command once, with the help if it is the last part. */
static void put_word(FILE *out, size_t i, int level)
{
	const struct command *command = command_at(i);
	char words[COMPLETION_WORDS_MAX];
	const char *blank;

	if (!completion_first_words(i, level + 1, 0, words))
		return;
	blank = strrchr(words, ' ');
	(void)fprintf(out, "complete -c holdfast -n '__holdfast_is %.*s' -a %s",
		      blank ? (int)(blank - words) : 0, words, blank ? blank + 1 : words);

	if (str_eq(words, command->path)) {
		(void)fputs(" -d ", out);
		put_quoted(out, command->help);
	}
	(void)fputc('\n', out);
}

static void put_option(FILE *out, const struct option_info *info, const char *path)
{
	(void)fputs("complete -c holdfast", out);
	if (path)
		(void)fprintf(out, " -n '__holdfast_in \"%s\"'", path);
	(void)fprintf(out, " -l %s", info->name);
	if (info->letter)
		(void)fprintf(out, " -s %c", info->letter);
	if (info->arg && info->arg_kind == WORD_FILE)
		(void)fputs(" -rF", out);
	else if (info->arg && info->arg_kind == WORD_NONE)
		(void)fputs(" -x", out);
	else if (info->arg)
		(void)fprintf(out, " -xa '(__holdfast_ids %s)'", completion_kind(info->arg_kind));
	(void)fputs(" -d ", out);
	put_quoted(out, info->help);
	(void)fputc('\n', out);
}

static void put_options(FILE *out, option_set options, const char *path)
{
	for (int id = 0; id < OPTION_N; id++)
		if (options & OPTION_BIT(id))
			put_option(out, &command_options[id], path);
}

/* Each kind of argument, from its place on; the last one is for all that follow. */
static void put_arguments(FILE *out, const struct command *command)
{
	for (size_t k = 0; k < ARG_KINDS_MAX && (int)k < command->max_args; k++) {
		const char *kind = completion_argument(command, k);
		int last = k + 1 < ARG_KINDS_MAX ? (int)k : command->max_args - 1;

		if (str_eq(kind, "other"))
			continue;
		(void)fprintf(out, "complete -c holdfast -n '__holdfast_in \"%s\" %zu %d' ", command->path, k,
			      last);
		if (str_eq(kind, "file"))
			(void)fputs("-F\n", out);
		else
			(void)fprintf(out, "-a '(__holdfast_ids %s)'\n", kind);
	}
}

static const char functions[] =
	"# fish completion for holdfast\n"
	"# The line before the cursor, without options and their arguments.\n"
	"function __holdfast_parts\n"
	"\tset -l before ''\n"
	"\tfor part in (commandline -opc)[2..-1]\n"
	"\t\tif contains -- \"$before\" $__holdfast_arguments\n"
	"\t\t\tset before ''\n"
	"\t\t\tcontinue\n"
	"\t\tend\n"
	"\t\tstring match -q -- '-*' $part; or echo -- $part\n"
	"\t\tset before $part\n"
	"\tend\n"
	"end\n"
	"# Is the line these commands?\n"
	"function __holdfast_is\n"
	"\tset -l parts (__holdfast_parts)\n"
	"\ttest \"$parts\" = \"$argv\"\n"
	"end\n"
	"# Is it this command, and the argument under the cursor one of these places?\n"
	"function __holdfast_in\n"
	"\tset -l parts (__holdfast_parts)\n"
	"\tset -l path (string split ' ' -- $argv[1])\n"
	"\tset -l n (count $path)\n"
	"\ttest (count $parts) -ge $n; and test \"$parts[1..$n]\" = \"$argv[1]\"; or return 1\n"
	"\tset -q argv[2]; or return 0\n"
	"\tset -l place (math (count $parts) - $n)\n"
	"\ttest $place -ge $argv[2]; and test $place -le $argv[3]\n"
	"end\n"
	"# Ids that the server knows; it is waited for two seconds at most.\n"
	"function __holdfast_ids\n"
	"\tset -l connect\n"
	"\tset -l before ''\n"
	"\tfor part in (commandline -opc)[2..-1]\n"
	"\t\tcontains -- \"$before\" $__holdfast_connecting; and set -a connect $before $part\n"
	"\t\tset before $part\n"
	"\tend\n"
	"\ttimeout 2 holdfast completion ids $argv[1] (commandline -ct) $connect 2>/dev/null\n"
	"end\n"
	"complete -c holdfast -f\n";

void completion_fish(FILE *out)
{
	(void)fputs("set -g __holdfast_arguments ", out);
	completion_put_names(out, completion_with_argument(), " ");
	(void)fputs("\nset -g __holdfast_connecting ", out);
	completion_put_names(out, completion_connecting, " ");
	(void)fprintf(out, "\n%s", functions);
	for (int level = 0; level < COMPLETION_LEVELS; level++)
		for (size_t i = 0; i < command_count(); i++)
			put_word(out, i, level);

	put_options(out, common_options, NULL);
	for (size_t i = 0; i < command_count(); i++) {
		put_options(out, command_at(i)->options, command_at(i)->path);
		put_arguments(out, command_at(i));
	}
}
