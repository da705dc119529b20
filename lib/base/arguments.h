/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The command line of a daemon: options only, with --version and --help. */

#include <stdbool.h>
#include <stddef.h>

enum { ARGUMENTS_MAX = 8, ARGUMENTS_USAGE = 2 };

struct argument {
	const char *name;
	char letter; /* '\0': only the name */
	const char **text;
	bool *flag; /* of an option without a value */
};

struct arguments {
	const char *program, *version, *usage;
	const struct argument *options; /* at most ARGUMENTS_MAX */
	size_t n;
};

/** Fill what the options point to. Returns a negative number, or the exit code after --version, --help or a
 * mistake. */
int arguments_parse(const struct arguments *args, int argc, char **argv);

/** Print where help is, after a mistake. Returns the exit code. */
int arguments_refuse(const char *program);
