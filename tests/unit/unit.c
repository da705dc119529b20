/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdlib.h>

enum { CASES_MAX = 128 };

static struct {
	struct CMUnitTest cases[CASES_MAX];
	int lines[CASES_MAX];
	size_t n;
	CMFixtureFunction setup;
	CMFixtureFunction teardown;
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

int unit_run(void)
{
	return _cmocka_run_group_tests("tests", unit.cases, unit.n, unit.setup, unit.teardown);
}

__attribute__((weak)) int main(void)
{
	return unit_run();
}
