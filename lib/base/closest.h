/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* "Did you mean ...?" */

#include <stddef.h>

/** The one of @n @candidates that @word was probably meant to be, or NULL when none is near: at most a third
 * of its letters (at least one) inserted, dropped, changed or swapped with a neighbour. Words of more than 64
 * bytes are near nothing. */
const char *closest(const char *word, const char *const *candidates, size_t n);
