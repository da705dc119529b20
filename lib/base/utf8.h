/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Is text what it claims to be? */

#include <stdbool.h>
#include <stddef.h>

/** Are the @n bytes well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF?
 * Source: RFC 3629 section 4. */
bool utf8_is_valid(const char *bytes, size_t n);
