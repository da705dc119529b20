/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdbool.h>

enum { CASES_MAX = 160 };

static struct {
	struct CMUnitTest cases[CASES_MAX];
	int lines[CASES_MAX];
	size_t n;
	CMFixtureFunction setup, teardown;
	bool has_run;
} unit;

/* Compilers are free in the order of constructors. */
void unit_add(const struct CMUnitTest *test, int line)
{
	size_t at = unit.n;

	if (unit.n == CASES_MAX)
		abort();
	for (; at > 0 && unit.lines[at - 1] > line; at--) {
		unit.lines[at] = unit.lines[at - 1];
		unit.cases[at] = unit.cases[at - 1];
	}
	unit.lines[at] = line;
	unit.cases[at] = *test;
	unit.n++;
}

void unit_group(CMFixtureFunction setup, CMFixtureFunction teardown)
{
	if (unit.setup || unit.teardown)
		abort();
	unit.setup = setup;
	unit.teardown = teardown;
}

void *unit_zeroed(size_t size)
{
	void *object = calloc(1, size);

	assert_non_null(object);
	return object;
}

void unit_succeeds(bool is_ok, const char *msg, const char *file, int line)
{
	if (is_ok)
		return;
	print_error("%s\n", msg);
	_fail(file, line);
}

void unit_contains(const char *text, const char *part, const char *file, int line)
{
	if (text && strstr(text, part))
		return;
	print_error("\"%s\" lacks \"%s\"\n", text ? text : "(NULL)", part);
	_fail(file, line);
}

int unit_run(void)
{
	unit.has_run = true;
	if (unit.n == 0)
		return EXIT_FAILURE; /* a program without cases tests nothing */
	return _cmocka_run_group_tests("tests", unit.cases, unit.n, unit.setup, unit.teardown);
}

/* A main() of its own that forgets unit_run() would lose its cases in silence. */
__attribute__((destructor)) static void unit_check(void)
{
	if (unit.n == 0 || unit.has_run)
		return;
	(void)fputs("TESTs were registered and not run: main() lacks unit_run()\n", stderr);
	_exit(EXIT_FAILURE);
}

static int list_cases(void)
{
	unit.has_run = true;
	for (size_t i = 0; i < unit.n; i++)
		(void)puts(unit.cases[i].name);
	return EXIT_SUCCESS;
}

/* With a pattern of names ('*' and '?'): only the cases that match it. --list prints the names. */
__attribute__((weak)) int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--list") == 0)
		return list_cases();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return unit_run();
}
