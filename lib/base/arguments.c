/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arguments.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>

enum { FIRST = 256 }; /* value of the first option, beyond all letters */

int arguments_refuse(const char *program)
{
	(void)fprintf(stderr, "Try: %s --help\n", program);
	return ARGUMENTS_USAGE;
}

static bool take_option(const struct arguments *args, int c)
{
	for (size_t i = 0; i < args->n; i++) {
		const struct argument *option = &args->options[i];

		if (c != FIRST + (int)i && (option->letter == '\0' || c != option->letter))
			continue;
		if (option->text)
			*option->text = optarg;
		else
			*option->flag = true;
		return true;
	}
	return false;
}

int arguments_parse(const struct arguments *args, int argc, char **argv)
{
	struct option table[ARGUMENTS_MAX + 3] = {{"version", no_argument, NULL, 'V'},
						  {"help", no_argument, NULL, 'h'}};
	char letters[2 * ARGUMENTS_MAX + 3] = "Vh";
	size_t n = 2;
	bool is_right = true;
	int c;

	assert(args->n <= ARGUMENTS_MAX);
	for (size_t i = 0; i < args->n; i++) {
		const struct argument *option = &args->options[i];

		table[2 + i] = (struct option){option->name, option->text ? required_argument : no_argument,
					       NULL, FIRST + (int)i};
		if (option->letter == '\0')
			continue;
		letters[n++] = option->letter;
		if (option->text)
			letters[n++] = ':';
	}
	while ((c = getopt_long(argc, argv, letters, table, NULL)) >= 0) {
		if (c == 'V')
			return printf("%s %s\n", args->program, args->version) < 0;
		if (c == 'h')
			return fputs(args->usage, stdout) < 0;
		is_right = take_option(args, c) && is_right;
	}
	if (optind < argc)
		(void)fprintf(stderr, "%s: unexpected argument '%s'\n", args->program, argv[optind]);
	return is_right && optind == argc ? -1 : arguments_refuse(args->program);
}
