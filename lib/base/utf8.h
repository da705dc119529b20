/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* UTF-8. A receiver refuses a protobuf message if one of its strings is invalid. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes of the character at the start of the @n bytes (1 to 4), or 0: no valid one ends within them.
 * NUL is a character of 1. Source: RFC 3629 section 4. */
size_t utf8_character(const char *bytes, size_t n);

/** The same for text that ends with NUL. */
static inline size_t utf8_sequence(const char *s)
{
	return utf8_character(s, SIZE_MAX);
}

/** Are the @n bytes well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF? */
bool utf8_is_valid(const char *bytes, size_t n);

/** Replaces each byte that is no part of a valid character by "?"; valid text stays. */
void utf8_mask(char *bytes, size_t n);
