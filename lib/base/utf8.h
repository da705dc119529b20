/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* UTF-8. A receiver refuses a protobuf message if one of its strings is invalid. */

#include <stdbool.h>
#include <stddef.h>

/** Are the @n bytes well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF?
 * Source: RFC 3629 section 4. */
bool utf8_is_valid(const char *bytes, size_t n);

/** Replaces each byte that is no part of a valid character by "?"; valid text stays. */
void utf8_mask(char *bytes, size_t n);
