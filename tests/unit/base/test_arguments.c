/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/arguments.h"

#include <getopt.h>

TEST(options_fill_their_variables_and_mistakes_are_refused)
{
	static const struct {
		const char *argv[5];
		int code;
		const char *path;
		bool is_check;
	} rows[] = {
		{{"prog"}, -1, "default", false},
		{{"prog", "-c", "a"}, -1, "a", false},
		{{"prog", "--config=b", "--check"}, -1, "b", true},
		{{"prog", "--config"}, ARGUMENTS_USAGE, "default", false},
		{{"prog", "--check=1"}, ARGUMENTS_USAGE, "default", false},
		{{"prog", "-x", "--check"}, ARGUMENTS_USAGE, "default", true},
		{{"prog", "--check", "word"}, ARGUMENTS_USAGE, "default", true},
		{{"prog", "--version", "-x"}, 0, "default", false},
		{{"prog", "-h"}, 0, "default", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *path = "default";
		bool is_check = false;
		const struct argument options[] = {{"config", 'c', &path, NULL},
						   {"check", '\0', NULL, &is_check}};
		const struct arguments args = {"prog", "1", "usage\n", options, ARRAY_SIZE(options)};
		char *argv[ARRAY_SIZE(rows[0].argv) + 1] = {NULL};
		int argc = 0;

		for (; argc < (int)ARRAY_SIZE(rows[0].argv) && rows[i].argv[argc]; argc++)
			argv[argc] = (char *)(uintptr_t)rows[i].argv[argc]; /* of which some are swapped */
		optind = 0;						    /* getopt begins again */
		assert_int_equal(arguments_parse(&args, argc, argv), rows[i].code);
		assert_string_equal(path, rows[i].path);
		assert_int_equal(is_check, rows[i].is_check);
	}
}
