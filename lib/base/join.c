/* SPDX-License-Identifier: Apache-2.0 */
#include "base/join.h"

#include <errno.h>
#include <string.h>

int str_join_parts(char *dst, size_t size, const char *const *parts)
{
	size_t at = 0;

	for (; *parts; parts++) {
		size_t n = strlen(*parts);

		if (n >= size - at) {
			if (size > 0)
				dst[0] = '\0';
			return -ENAMETOOLONG;
		}
		memcpy(dst + at, *parts, n);
		at += n;
	}
	if (size == 0)
		return -ENAMETOOLONG;
	dst[at] = '\0';
	return (int)at;
}
