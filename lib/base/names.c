/* SPDX-License-Identifier: Apache-2.0 */
#include "base/names.h"

#include <errno.h>
#include <string.h>

const char *names_get(const char *const *table, size_t n, int value)
{
	return value >= 0 && (size_t)value < n ? table[value] : NULL;
}

int names_find(const char *const *table, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (table[i] && strcmp(table[i], name) == 0)
			return (int)i;
	return -EINVAL;
}
