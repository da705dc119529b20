/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What is left behind in the memory of this process. */

#include <stdbool.h>
#include <stddef.h>

enum { MEMORY_TEXT_MAX = 64 };

/** Do the @n bytes stand anywhere on the heap or in other anonymous memory, freed or not? The stack, where
 * the caller has them, does not count.
 * @n at most MEMORY_TEXT_MAX */
bool memory_holds(const void *bytes, size_t n);
