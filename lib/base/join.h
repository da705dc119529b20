/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Texts one after the other in a caller-owned array: keys are made for every request, and printf takes a
 * microsecond for what copying does in a fraction. */

#include <stddef.h>

/** Write @parts, of which the last is followed by NULL, into @dst of @size bytes. Returns the length, or
 * -ENAMETOOLONG and an empty @dst. */
int str_join_parts(char *dst, size_t size, const char *const *parts);

/** str_join(key, sizeof(key), "claim/", id) */
#define str_join(dst, size, ...) str_join_parts((dst), (size), (const char *const[]){__VA_ARGS__, NULL})
