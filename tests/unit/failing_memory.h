/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Every allocation fails in turn: a program includes this once, and wraps malloc, calloc, realloc and strdup.
 */

#include "unit.h"

#include <stdbool.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);

static long countdown = -1; /* allocations until the one that fails; negative: none does */

static bool now_fails(void)
{
	return countdown >= 0 && countdown-- == 0;
}

WRAPPED(void *, malloc, size_t n)
{
	return now_fails() ? NULL : __real_malloc(n);
}

WRAPPED(void *, calloc, size_t n, size_t size)
{
	return now_fails() ? NULL : __real_calloc(n, size);
}

WRAPPED(void *, realloc, void *p, size_t n)
{
	return now_fails() ? NULL : __real_realloc(p, n);
}

WRAPPED(char *, strdup, const char *s)
{
	return now_fails() ? NULL : __real_strdup(s);
}
