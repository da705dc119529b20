/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Name tables of enums: a constant array of strings indexed by the enum's value. */

#include <stddef.h>

/** Name of @value in @table of @n entries, or NULL when it is outside or has no name. */
const char *names_get(const char *const *table, size_t n, int value);

/** Index of @name in @table, or -EINVAL. Exact comparison. */
int names_find(const char *const *table, size_t n, const char *name);
