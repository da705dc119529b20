/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The token of "authorization: Bearer TOKEN". Pure. Source: RFC 6750 section 2.1. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { BEARER_MAX = 127 }; /* bytes of a token */

/** Are these bytes a token: letters, digits, "-._~+/", then "=" at the end, 1 to BEARER_MAX of them? */
bool bearer_is_token(const uint8_t *bytes, size_t n);

/** Where the token begins in the value of an authorization header, to its end; -EINVAL when it has another
 * scheme or no well-formed token. */
ssize_t bearer_read(const uint8_t *value, size_t n);
