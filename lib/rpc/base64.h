/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Base64 with the usual alphabet, for JSON and for binary metadata of gRPC. Pure. Source: RFC 4648 section 4.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes of the text for @n bytes, its NUL included. */
#define BASE64_SIZE(n) (((n) + 2) / 3 * 4 + 1)

/** Write @n bytes, at most INT_MAX, as padded text into @text of BASE64_SIZE(@n). */
void base64_encode(char *text, const void *bytes, size_t n);

/** Read @length characters strictly: no blanks, no line ends, padding complete or, if @unpadded_too, absent.
 * @ret   owned by the caller, free(); NULL for an empty text
 * Returns 0, -EINVAL or -ENOMEM; outputs untouched then. */
int base64_decode(const char *text, size_t length, bool unpadded_too, uint8_t **ret, size_t *ret_n);
