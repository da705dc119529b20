/* SPDX-License-Identifier: Apache-2.0 */
#include "completion_parts.h"

#include "base/str.h"

#include <string.h>

const char *completion_kind(enum word_kind kind)
{
	static const char *const names[WORD_KIND_N] = {
		[WORD_NONE] = "",     [WORD_FILE] = "file",	  [WORD_VOLUME] = "volume",
		[WORD_NODE] = "node", [WORD_PLUGIN] = "plugin",	  [WORD_ALLOC] = "alloc",
		[WORD_JOB] = "job",   [WORD_CONTEXT] = "context",
	};

	return names[kind];
}

/* Returns the length of the first @n words of @path; 0: it has fewer. */
static size_t length_of(const char *path, int n)
{
	size_t length = 0;

	for (int i = 0; i < n; i++) {
		if (path[length] == '\0')
			return 0;
		length += i > 0;
		length += strcspn(path + length, " ");
	}
	return length;
}

bool completion_first_words(size_t i, int n, int more, char ret[static COMPLETION_WORDS_MAX])
{
	const char *path = command_at(i)->path;
	size_t length = length_of(path, n);

	if (length_of(path, n + more) == 0)
		return false;
	for (size_t k = 0; k < i; k++)
		if (length_of(command_at(k)->path, n + more) > 0 &&
		    strncmp(command_at(k)->path, path, length) == 0 &&
		    length_of(command_at(k)->path, n) == length)
			return false;
	return str_format(ret, COMPLETION_WORDS_MAX, "%.*s", (int)length, path) >= 0;
}

const option_set completion_connecting = OPTION_BIT(OPT_ADDRESS) | OPTION_BIT(OPT_CA) | OPTION_BIT(OPT_CERT) |
					 OPTION_BIT(OPT_KEY) | OPTION_BIT(OPT_SERVER_URI) |
					 OPTION_BIT(OPT_DEV_DIR) | OPTION_BIT(OPT_NAMESPACE) |
					 OPTION_BIT(OPT_TOKEN_FILE) | OPTION_BIT(OPT_CONTEXT);

option_set completion_with_argument(void)
{
	option_set set = 0;

	for (int id = 0; id < OPTION_N; id++)
		if (command_options[id].arg)
			set |= OPTION_BIT(id);
	return set;
}

option_set completion_with_kind(enum word_kind kind)
{
	option_set set = 0;

	for (int id = 0; id < OPTION_N; id++)
		if (command_options[id].arg && command_options[id].arg_kind == kind)
			set |= OPTION_BIT(id);
	return set;
}

void completion_put_names(FILE *out, option_set set, const char *between)
{
	const char *before = "";

	for (int id = 0; id < OPTION_N; id++) {
		if (!(set & OPTION_BIT(id)))
			continue;
		(void)fprintf(out, "%s--%s", before, command_options[id].name);
		before = between;
		if (command_options[id].letter && id != OPT_FILENAME) /* -f of others has no argument */
			(void)fprintf(out, "%s-%c", between, command_options[id].letter);
	}
}

const char *completion_argument(const struct command *command, size_t k)
{
	enum word_kind kind = command->arg_kinds[k];

	/* a list of files or ids continues as it begins */
	if (kind == WORD_NONE && command->max_args == ANY_ARGS)
		kind = command->arg_kinds[0];
	return kind == WORD_NONE ? "other" : completion_kind(kind);
}
