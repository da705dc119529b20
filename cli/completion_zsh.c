/* SPDX-License-Identifier: Apache-2.0 */
/* Completion for zsh: a function that finds the command in the line and describes what may follow. */
#include "completion_parts.h"

#include "base/str.h"

#include <string.h>

/* " 'NAME:HELP'" as _describe takes it. */
static void put_described(FILE *out, const char *before, const char *name, const char *help)
{
	(void)fprintf(out, " '%s%s", before, name);
	for (const char *at = help ? help : ""; *at != '\0'; at++) {
		(void)fputs(at == help ? ":" : "", out);
		if (*at == '\'')
			(void)fputs("'\\''", out);
		else
			(void)fputc(*at, out);
	}
	(void)fputc('\'', out);
}

/* Offers each part that may come after @start, which has @level parts. */
static void put_next(FILE *out, const char *start, int level)
{

	(void)fprintf(out, "\t(\"%s\") next=(", start);
	for (size_t i = 0; i < command_count(); i++) {
		const struct command *command = command_at(i);
		char words[COMPLETION_WORDS_MAX];

		if (!command_in_group(command->path, start) ||
		    !completion_first_words(i, level + 1, 0, words))
			continue;

		put_described(out, "", level > 0 ? words + strlen(start) + 1 : words,
			      str_eq(words, command->path) ? command->help : NULL);
	}
	(void)fputs(") ;;\n", out);
}

static void put_groups(FILE *out)
{
	for (int level = 0; level < COMPLETION_LEVELS; level++)
		for (size_t i = 0; i < command_count(); i++) {
			char start[COMPLETION_WORDS_MAX];

			if (completion_first_words(i, level, 1, start))
				put_next(out, start, level);
		}
}

static void put_options(FILE *out, option_set options)
{
	for (int id = 0; id < OPTION_N; id++)
		if (options & OPTION_BIT(id))
			put_described(out, "--", command_options[id].name, command_options[id].help);
}

static int count_words(const char *path)
{
	int n = 1;

	for (; *path != '\0'; path++)
		n += *path == ' ';
	return n;
}

static void put_command(FILE *out, const struct command *command)
{
	(void)fprintf(out, "\t(\"%s\"|\"%s \"*) command=1 kinds=(", command->path, command->path);
	for (size_t k = 0; k < ARG_KINDS_MAX; k++)
		(void)fprintf(out, "%s%s", k ? " " : "", completion_argument(command, k));
	(void)fprintf(out, ") max=%d n=$((${#line} - %d)) options=(", command->max_args,
		      count_words(command->path));
	put_options(out, command->options);
	(void)fputs(") ;;\n", out);
}

static void put_option_kinds(FILE *out)
{
	for (int kind = WORD_NONE; kind < WORD_KIND_N; kind++) {
		option_set set = completion_with_kind((enum word_kind)kind);

		if (!set)
			continue;
		(void)fputs("\t(", out);
		completion_put_names(out, set, "|");
		(void)fprintf(out, ") kind=%s ;;\n", kind ? completion_kind((enum word_kind)kind) : "other");
	}
}

static const char script_begin[] = "#compdef holdfast\n"
				   "# zsh completion for holdfast\n"
				   "_holdfast() {\n"
				   "\tlocal before='' kind='' part\n"
				   "\tlocal -a line connect kinds options next ids\n"
				   "\tinteger i max=0 n=0 command=0\n"
				   "\tfor ((i = 2; i < CURRENT; i++)); do\n"
				   "\t\tpart=${words[i]}\n"
				   "\t\tcase $before in\n"
				   "\t\t(";

static const char script_middle[] = ") connect+=(\"$before\" \"$part\"); before=''; continue ;;\n"
				    "\t\t(";

static const char script_loop[] = ") before=''; continue ;;\n"
				  "\t\tesac\n"
				  "\t\t[[ $part == -* ]] || line+=(\"$part\")\n"
				  "\t\tbefore=$part\n"
				  "\tdone\n"
				  "\tcase $before in\n";

/* Ids that the server knows are asked for; it is waited for two seconds at most. */
static const char script_end[] =
	"\tif [[ -z $kind && $PREFIX == -* ]]; then\n"
	"\t\t_describe -o option options\n"
	"\t\treturn\n"
	"\tfi\n"
	"\t[[ -z $kind ]] && ((${#next})) && _describe command next\n"
	"\t((command && n < max)) && [[ -z $kind ]] && kind=${kinds[n < 1 ? 1 : 2]}\n"
	"\tcase $kind in\n"
	"\t(file) _files ;;\n"
	"\t(''|other) ;;\n"

	"\t(*)\n"
	"\t\tids=(${(f)\"$(timeout 2 holdfast completion ids $kind \"$PREFIX\" \"${connect[@]}\" "
	"2>/dev/null)\"})\n"
	"\t\tcompadd -a ids ;;\n"
	"\tesac\n"
	"}\n"
	"if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
	"\t_holdfast \"$@\"\n"
	"else\n"
	"\tcompdef _holdfast holdfast\n"
	"fi\n";

void completion_zsh(FILE *out)
{
	(void)fputs(script_begin, out);
	completion_put_names(out, completion_connecting, "|");
	(void)fputs(script_middle, out);
	completion_put_names(out, completion_with_argument() & ~completion_connecting, "|");
	(void)fputs(script_loop, out);
	put_option_kinds(out);
	(void)fputs("\tesac\n\tcase \"${line[*]}\" in\n", out);
	put_groups(out);
	(void)fputs("\tesac\n\tcase \"${line[*]}\" in\n", out);
	for (size_t i = command_count();
	     i-- > 0;) /* "operator backup" must not hide "operator backup verify" */
		put_command(out, command_at(i));

	(void)fputs("\tesac\n\toptions+=(", out);
	put_options(out, common_options);
	(void)fputs(")\n", out);
	(void)fputs(script_end, out);
}
