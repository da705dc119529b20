/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cmocka with the headers it needs, in the order it needs them, the headers that nearly every test needs
 * (cleanup.h has those of C as well), and cases that register themselves:
 * TEST(name) {...} is a case, which finds its fixture in state. A program runs its cases in the order of
 * their lines. */

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "base/cleanup.h"
#include "base/str.h"

#include <string.h>

/* Cases, fixtures and models are given parameters whether they use them or not. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Add a case; @line gives its place among the others. */
void unit_add(const struct CMUnitTest *test, int line);

/* What is run before the first case and after the last one. */
void unit_group(CMFixtureFunction setup, CMFixtureFunction teardown);

/* Run all cases; returns how many failed. main() of a test that has none of its own. */
int unit_run(void);

/* A case with a fixture of its own: @setup and @teardown may be NULL. */
#define TEST_FIXTURE(name, setup, teardown)                                                         \
	static void name(void **state);                                                             \
	__attribute__((constructor)) static void name##_add(void)                                   \
	{                                                                                           \
		unit_add(&(const struct CMUnitTest){#name, name, setup, teardown, NULL}, __LINE__); \
	}                                                                                           \
	static void name(void **state)

#define TEST(name) TEST_FIXTURE(name, NULL, NULL)

/* A case whose body has its fixture as @var, a pointer to @type. */
#define TEST_ON(name, type, var, setup, teardown)                                                          \
	static void name(type *var);                                                                       \
	static void name##_case(void **state)                                                              \
	{                                                                                                  \
		name(*state);                                                                              \
	}                                                                                                  \
	__attribute__((constructor)) static void name##_add(void)                                          \
	{                                                                                                  \
		unit_add(&(const struct CMUnitTest){#name, name##_case, setup, teardown, NULL}, __LINE__); \
	}                                                                                                  \
	static void name(type *var)

/* A row of a table. Its fields share lines, while those of plain braces have one each. */
#define ROW(...)            \
	{                   \
		__VA_ARGS__ \
	}

/* Begins the model of a function that the program is linked to replace (--wrap). */
#define WRAPPED(type, name, ...)         \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

/* At most once in a program. */
#define TEST_GROUP(setup, teardown)                              \
	__attribute__((constructor)) static void group_add(void) \
	{                                                        \
		unit_group(setup, teardown);                     \
	}
