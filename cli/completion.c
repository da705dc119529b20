#include "completion.h"

#include "command.h"

#include "base/str.h"

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

	for (size_t i = 0; i < n_commands; i++) {
		char words[WORD_MAX];

		if (!command_in_group(commands[i].path, start) ||
		    !first_words(commands[i].path, n + 1, words) || str_eq(words, last))
			continue;
		(void)str_copy(last, sizeof(last), words);
		(void)fprintf(out, " %s", n ? words + strlen(start) + 1 : words);
	}
}

/* One case per beginning of @n words that goes on. */
static void print_groups(FILE *out, int n)
{
	char last[WORD_MAX] = "";

	for (size_t i = 0; i < n_commands; i++) {
		char start[WORD_MAX];

		if (!first_words(commands[i].path, n, start) || strlen(commands[i].path) == strlen(start) ||
		    str_eq(start, last))
			continue;
		(void)str_copy(last, sizeof(last), start);
		(void)fprintf(out, "\t\"%s\") words=\"", start);
		print_next_words(out, start, n);
		(void)fputs("\" ;;\n", out);
	}
}

static void print_options(FILE *out, uint64_t options)
{
	for (int id = 0; id < OPTION_N; id++)
		if (options & OPTION_BIT(id))
			(void)fprintf(out, " --%s", command_options[id].name);
}

/* A pattern of them: "--address|--ca|..." */
static void print_options_with_arguments(FILE *out)
{
	const char *divider = "";

	for (int id = 0; id < OPTION_N; id++) {
		if (!command_options[id].arg)
			continue;
		(void)fprintf(out, "%s--%s", divider, command_options[id].name);
		divider = "|";
	}
}

void completion_bash(FILE *out)
{
	(void)fputs("# bash completion for holdfast\n"
		    "_holdfast() {\n"
		    "\tlocal current=${COMP_WORDS[COMP_CWORD]} line='' words='' word before=''\n"
		    "\tfor word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
		    "\t\tcase $before in\n"
		    "\t\t",
		    out);
	print_options_with_arguments(out);
	(void)fputs(") ;;\n" /* the word is its argument */
		    "\t\t*) [[ $word == -* ]] || line+=\"${line:+ }$word\" ;;\n"
		    "\t\tesac\n"
		    "\t\tbefore=$word\n"
		    "\tdone\n"
		    "\tcase $line in\n",
		    out);
	(void)fputs("\t\"\") words=\"", out);
	print_next_words(out, "", 0);
	(void)fputs("\" ;;\n", out);
	print_groups(out, 1);
	print_groups(out, 2);
	(void)fputs("\tesac\n\tif [[ $current == -* ]]; then\n\t\tcase $line in\n", out);
	for (size_t i = 0; i < n_commands; i++) {
		(void)fprintf(out, "\t\t\"%s\"*) words=\"", commands[i].path);
		print_options(out, common_options | commands[i].options);
		(void)fputs("\" ;;\n", out);
	}
	(void)fputs("\t\tesac\n\tfi\n"
		    "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
		    "}\n"
		    "complete -o default -F _holdfast holdfast\n",
		    out);
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
	for (size_t i = 0; i < n_commands; i++) {
		(void)fprintf(out, "*%s*", commands[i].path);
		if (commands[i].args[0])
			(void)fprintf(out, " _%s_", commands[i].args);
		(void)fprintf(out, "\n\t%s.%s\n\n", commands[i].help,
			      commands[i].run ? "" : " Not built yet.");
	}
	(void)fputs("# OPTIONS\n\n", out);
	for (int id = 0; id < OPTION_N; id++)
		print_man_option(out, &command_options[id]);
}
