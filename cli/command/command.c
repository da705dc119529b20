/* SPDX-License-Identifier: Apache-2.0 */
#include "command/command.h"

#include "base/cleanup.h"
#include "base/closest.h"
#include "base/str.h"
#include "command/aliases.h"

#include <getopt.h>
#include <protobuf-c/protobuf-c.h>
#include <stdarg.h>
#include <string.h>

enum {
	COMMAND_WORDS_MAX = 3,
	COMMAND_NAME_SIZE = 96,
	FIRST_LONG = 256, /* getopt's value of option 0, above all characters */
};

static bool is_given(const struct invocation *inv, int id)
{
	return inv->options[id] != NULL;
}

/* Tables for getopt_long(), made from ours. */
struct getopt_tables {
	struct option options[OPTION_N + 1];
	char letters[3 * OPTION_N + 2];
};

static const struct command *command_of(char *const *words, int n, int *ret_used);

/* Does @command have another option of this one's name or letter? Two may share one when no command has both;
 * without a command the first one counts. */
static bool is_of_others(const struct command *command, int id)
{
	for (int other = 0; other < OPTION_N; other++) {
		bool is_alike = strcmp(command_options[other].name, command_options[id].name) == 0 ||
				(command_options[id].letter &&
				 command_options[other].letter == command_options[id].letter);

		if (other != id && is_alike)
			return command ? (command->options & OPTION_BIT(other)) != 0 : false;
	}
	return false;
}

/* @command that the first arguments name; NULL: it is unknown */
static void make_tables(const struct command *command, struct getopt_tables *tables)
{
	size_t n_options = 0;
	size_t n = 0;

	*tables = (struct getopt_tables){.letters = ":"};
	n++;
	for (int id = 0; id < OPTION_N; id++) {
		const struct option_info *info = &command_options[id];

		if (is_of_others(command, id))
			continue;
		tables->options[n_options++] = (struct option){
			.name = info->name,
			.has_arg = info->arg ? required_argument : no_argument,
			.val = FIRST_LONG + id,
		};
		if (!info->letter)
			continue;
		tables->letters[n++] = info->letter;
		if (info->arg)
			tables->letters[n++] = ':';
	}
	tables->letters[n] = '\0';
}

static int id_of_letter(const struct command *command, int letter)
{
	for (int id = 0; letter && id < OPTION_N; id++)
		if (command_options[id].letter == letter && !is_of_others(command, id))
			return id;
	return -1;
}

/* getopt_long() returned '?' or ':'. */
static enum status bad_option(const struct command *command, int found, char **argv, struct error *err)
{
	int id = optopt >= FIRST_LONG ? optopt - FIRST_LONG : id_of_letter(command, optopt);
	const char *names[OPTION_N];
	const char *given = argv[optind - 1];
	const char *meant;
	char name[COMMAND_NAME_SIZE];

	if (found == ':')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "option --%s needs its %s",
				 command_options[id].name, command_options[id].arg);
	if (id >= 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "option --%s takes no argument",
				 command_options[id].name);
	if (optopt)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "unknown option -%c", optopt);
	for (int i = 0; i < OPTION_N; i++)
		names[i] = command_options[i].name;
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(given + 2, "="), given + 2);
	meant = closest(name, names, OPTION_N);
	if (meant)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "unknown option --%s, did you mean --%s?",
				 name, meant);
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "unknown option --%s", name);
}

static int words_behind(int argc, char *const *argv)
{
	for (int i = 1; i < argc; i++)
		if (str_eq(argv[i], "--"))
			return argc - i - 1;
	return -1;
}

/* Does this option take the next argument? */
static bool takes_next(const char *option)
{
	int id = option[1] != '-' && option[1] != '\0' && option[2] == '\0' ? id_of_letter(NULL, option[1])
									    : -1;

	for (int other = 0; id < 0 && str_starts_with(option, "--") && other < OPTION_N; other++)
		if (str_eq(option + 2, command_options[other].name))
			id = other;
	return id >= 0 && command_options[id].arg;
}

/* The command of the line, before its options are known: which ones share a name or letter depends on it. */
static const struct command *look_ahead(int argc, char *const *argv)
{
	char *words[COMMAND_WORDS_MAX] = {NULL};
	int n = 0, used;

	for (int i = 1; i < argc && n < COMMAND_WORDS_MAX; i++)
		if (argv[i][0] != '-')
			words[n++] = argv[i];
		else if (takes_next(argv[i]))
			i++;
	return command_of(words, n, &used);
}

/* Refuses a name of an option behind one dash, which getopt_long() would read as letters. */
static enum status check_dashes(int argc, char *const *argv, struct error *err)
{
	for (int i = 1; i < argc && !str_eq(argv[i], "--"); i++) {
		size_t length = strcspn(argv[i], "=");

		if (takes_next(argv[i])) {
			i++;
			continue;
		}
		if (argv[i][0] != '-' || argv[i][1] == '-' || length < 3)
			continue;
		for (int id = 0; id < OPTION_N; id++)
			if (strlen(command_options[id].name) == length - 1 &&
			    strncmp(command_options[id].name, argv[i] + 1, length - 1) == 0)
				return error_set(err, STATUS_INVALID_ARGUMENT, 0,
						 "unknown option -%s, options have two dashes: --%s",
						 command_options[id].name, command_options[id].name);
	}
	return STATUS_OK;
}

static enum status parse_options(int argc, char **argv, struct invocation *inv, struct error *err)
{
	struct getopt_tables tables;
	int found;
	const struct command *command = look_ahead(argc, argv);

	TRY(check_dashes(argc, argv, err));
	make_tables(command, &tables);
	inv->n_behind = words_behind(argc, argv); /* before they are put in order */
	opterr = 0;
	optind = 0; /* start over */
	while ((found = getopt_long(argc, argv, tables.letters, tables.options, NULL)) != -1) {
		int id = found >= FIRST_LONG ? found - FIRST_LONG : id_of_letter(command, found);

		if (found == '?' || found == ':')
			return bad_option(command, found, argv, err);
		if (inv->options[id] && command_options[id].arg && !command_options[id].repeats)
			return error_set(err, STATUS_INVALID_ARGUMENT, 0, "option --%s is given twice",
					 command_options[id].name);
		if (command_options[id].repeats && inv->n_repeated == OPTION_REPEATS_MAX)
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "option --%s is given more than %d times", command_options[id].name,
					 OPTION_REPEATS_MAX);
		if (command_options[id].repeats)
			inv->repeated[inv->n_repeated++] =
				(struct repeated_option){.id = (enum option_id)id, .value = optarg};
		inv->options[id] = optarg ? optarg : "";
	}
	inv->n_args = argc - optind;
	inv->args = argv + optind;
	return STATUS_OK;
}

/* Returns how many arguments are the path of @command; 0 when it is another command. */
static int match_words(const char *path, char *const *words, int n)
{
	int used = 0;

	while (*path) {
		size_t length = strcspn(path, " ");

		if (used == n || strlen(words[used]) != length || strncmp(words[used], path, length) != 0)
			return 0;
		used++;
		path += length;
		path += strspn(path, " ");
	}
	return used;
}

bool command_in_group(const char *path, const char *group)
{
	size_t n = group ? strlen(group) : 0;

	return n == 0 || (strncmp(path, group, n) == 0 && path[n] == ' ');
}

static bool is_group(const char *word)
{
	for (size_t i = 0; i < command_count(); i++)
		if (command_in_group(command_at(i)->path, word))
			return true;
	return false;
}

/* Joins the first @n_words arguments, cut at the size. */
static void joined(const struct invocation *inv, int n_words, char *name, size_t size)
{
	name[0] = '\0';
	for (int i = 0; i < inv->n_args && i < n_words; i++) {
		size_t n = strlen(name);

		(void)snprintf(name + n, size - n, "%s%s", n ? " " : "", inv->args[i]);
	}
}

/* Finds the most arguments that begin the path of some command; returns how many. */
static int find_group(struct invocation *inv)
{
	int n = inv->n_args < COMMAND_WORDS_MAX - 1 ? inv->n_args : COMMAND_WORDS_MAX - 1;

	for (; n > 0; n--) {
		joined(inv, n, inv->group, sizeof(inv->group));
		if (is_group(inv->group))
			return n;
	}
	inv->group[0] = '\0';
	return 0;
}

/* @n_group of the arguments name a group. */
static enum status unknown_command(const struct invocation *inv, int n_group, struct error *err)
{
	const char *paths[128];
	char name[COMMAND_NAME_SIZE];
	const char *meant;
	size_t n = 0;

	if (inv->n_args == 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "no command is given");
	meant = alias_hint(inv->args, inv->n_args);
	if (meant) {
		joined(inv, COMMAND_WORDS_MAX - 1, name, sizeof(name));
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "unknown command '%s', did you mean '%s'?",
				 name, meant);
	}
	if (n_group > 0 && inv->n_args == n_group)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "what should '%s' do?", inv->group);
	for (; n < command_count() && n < ARRAY_SIZE(paths); n++)
		paths[n] = command_at(n)->path;
	joined(inv, n_group > 1 ? n_group + 1 : COMMAND_WORDS_MAX - 1, name, sizeof(name));
	meant = closest(name, paths, n);
	if (!meant && inv->n_args > 1)
		meant = closest(inv->args[0], paths, n);
	if (meant)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "unknown command '%s', did you mean '%s'?",
				 name, meant);
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "unknown command '%s'", name);
}

static const struct command *command_named(const char *path)
{
	for (size_t i = 0; i < command_count(); i++)
		if (str_eq(command_at(i)->path, path))
			return command_at(i);
	return NULL;
}

/* Returns the command whose path matches the most arguments; NULL and 0: there is no such command. */
static const struct command *command_of(char *const *words, int n, int *ret_used)
{
	const struct command *command = NULL;
	const char *alias;
	int used;

	*ret_used = 0;
	for (size_t i = 0; i < command_count(); i++) {
		used = match_words(command_at(i)->path, words, n);
		if (used <= *ret_used)
			continue;
		*ret_used = used;
		command = command_at(i);
	}
	if (command)
		return command;
	alias = alias_find(words, n, &used);
	*ret_used = alias ? used : 0;
	return alias ? command_named(alias) : NULL;
}

static enum status find_command(struct invocation *inv, struct error *err)
{
	int used;
	int n_group;

	if (inv->n_args > 0 && str_eq(inv->args[0], "help")) {
		inv->options[OPT_HELP] = "";
		inv->args++;
		inv->n_args--;
	}
	inv->command = command_of(inv->args, inv->n_args, &used);
	if (inv->n_args == 0 && is_given(inv, OPT_VERSION))
		inv->command = command_named("version");
	if (inv->command) {
		inv->args += used;
		inv->n_args -= used;
		return STATUS_OK;
	}
	n_group = find_group(inv);
	if (is_given(inv, OPT_HELP) && inv->n_args == n_group)
		return STATUS_OK;
	return unknown_command(inv, n_group, err);
}

static enum status check_command(const struct invocation *inv, struct error *err)
{
	const struct command *command = inv->command;

	for (int id = 0; id < OPTION_N; id++)
		if (is_given(inv, id) && !((common_options | command->options) & OPTION_BIT(id)))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s has no option --%s",
					 command->path, command_options[id].name);
	if (inv->n_args < command->min_args)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s needs more arguments: %s",
				 command->path, command->args);
	if (inv->n_args > command->max_args)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: unexpected argument '%s'",
				 command->path, inv->args[command->max_args]);
	/* as a beginning it would fit everything; a script's variable was not set */
	for (int i = 0; i < inv->n_args; i++)
		if (inv->args[i][0] == '\0')
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "%s: argument %d is empty; give all of: %s", command->path, i + 1,
					 command->args);
	return STATUS_OK;
}

enum status command_parse(int argc, char **argv, struct invocation *ret, struct error *err)
{
	enum status status;

	*ret = (struct invocation){.command = NULL};
	status = parse_options(argc, argv, ret, err);
	if (status == STATUS_OK)
		status = find_command(ret, err);
	if (status != STATUS_OK || !ret->command || is_given(ret, OPT_HELP))
		return status;
	return check_command(ret, err);
}

enum status usage_error(struct invocation *inv, struct error *err, const char *fmt, ...)
{
	char message[ERROR_MSG_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	inv->is_usage_error = true;
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s", message);
}

const char *option_next(const struct invocation *inv, enum option_id id, size_t *at)
{
	while (*at < inv->n_repeated) {
		const struct repeated_option *option = &inv->repeated[(*at)++];

		if (option->id == id)
			return option->value;
	}
	return NULL;
}

char *option_text(const struct invocation *inv, enum option_id id)
{
	return (char *)(uintptr_t)(inv->options[id] ? inv->options[id] : "");
}

enum status option_apply(struct invocation *inv, enum option_id id, char **field, struct error *err)
{
	const char *value = inv->options[id];
	char *copy;

	if (!value || str_eq(value, *field))
		return STATUS_OK;
	if ((*field)[0] != '\0')
		return usage_error(inv, err, "--%s %s contradicts the file, which has '%s'",
				   command_options[id].name, value, *field);
	copy = strdup(value);
	if (!copy)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "--%s", command_options[id].name);
	if (*field != protobuf_c_empty_string)
		free(*field);
	*field = copy;
	return STATUS_OK;
}

static void print_option(FILE *out, const struct option_info *info)
{
	char text[COMMAND_NAME_SIZE];

	(void)snprintf(text, sizeof(text), "--%s%s%s", info->name, info->arg ? " " : "",
		       info->arg ? info->arg : "");
	if (info->letter)
		(void)fprintf(out, "  -%c, %-24s %s\n", info->letter, text, info->help);
	else
		(void)fprintf(out, "      %-24s %s\n", text, info->help);
}

void command_usage(FILE *out, const struct command *command)
{
	(void)fprintf(out, "usage: holdfast %s [options]%s%s\n\n%s.\n\noptions:\n", command->path,
		      command->args[0] ? " " : "", command->args, command->help);
	for (int id = 0; id < OPTION_N; id++)
		if (command->options & OPTION_BIT(id))
			print_option(out, &command_options[id]);
	for (int id = 0; id < OPTION_N; id++)
		if (common_options & OPTION_BIT(id))
			print_option(out, &command_options[id]);
	if (command->example)
		(void)fprintf(out, "\nexample:\n  holdfast %s%s%s\n", command->path,
			      command->example[0] ? " " : "", command->example);
}

void command_list(FILE *out, const char *group)
{
	for (size_t i = 0; i < command_count(); i++)
		if (command_in_group(command_at(i)->path, group))
			(void)fprintf(out, "  %-24s %s\n", command_at(i)->path, command_at(i)->help);
}
