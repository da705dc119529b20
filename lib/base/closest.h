/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* "Did you mean ...?" */

#include <stddef.h>

/** Returns the closest of @n @candidates to @word, or NULL: at most a third of its letters (at least one) may
 * be inserted, dropped, changed or swapped with a neighbour. A text of more than 64 bytes has no match. */
const char *closest(const char *word, const char *const *candidates, size_t n);
