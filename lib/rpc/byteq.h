/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A first-in first-out queue of bytes in one block of memory. Callers bound its length. Taken bytes are
 * wiped, because secrets pass through here. */

#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct byteq {
	struct strbuf buf;
	size_t head; /* bytes at the front that were taken already */
};

/* Far above what any caller's own limit allows. */
#define BYTEQ_INIT                                                        \
	{                                                                 \
		.buf = {.max = (size_t)1 << 30, .wipes = true}, .head = 0 \
	}

void byteq_release(struct byteq *q);

size_t byteq_len(const struct byteq *q);

/** The bytes in the queue; valid until the next call that changes it. */
const uint8_t *byteq_data(const struct byteq *q);

/** Make room for @n more bytes at once, for callers that put them piece by piece. Without memory, byteq_put()
 * fails. */
void byteq_reserve(struct byteq *q, size_t n);

/** Append @n bytes; false when memory is short, and from then on always. */
bool byteq_put(struct byteq *q, const void *bytes, size_t n);

/** Drop @n bytes from the front; @n must not exceed the length. */
void byteq_take(struct byteq *q, size_t n);
