/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Cases in a text file: "== NAME" begins one, and each line "KEY TEXT" below it is a step. A line that begins
 * with a tab continues the text before it, '#' begins a comment. "let NAME TEXT" before the first case
 * defines %NAME%.
 *
 * In a text %NAME% is what was defined, %N*TEXT% is TEXT N times, and %N,TEXT% the same with commas between,
 * where
 * '#' is the number of each from 0 on. */

#include "unit.h"

#include <stddef.h>

struct case_step {
	int line;
	const char *key;
	const char *text; /* expanded */
};

struct case_text {
	const char *name;
	struct case_step *steps;
	size_t n;
	size_t (*run)(const struct case_step *step); /* returns how many mistakes it printed */
};

/** Register each case of the file @path, in whose steps @run finds no mistake. */
void cases_add(const char *path, size_t (*run)(const struct case_step *step));

/* At most once in a program. */
#define TEST_CASES(path, run)                                        \
	__attribute__((constructor)) static void cases_add_all(void) \
	{                                                            \
		cases_add(path, run);                                \
	}
