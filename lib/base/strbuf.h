/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A growing byte buffer with a hard limit.
 *
 * Invariants: data is NULL until the first byte; data[len] is NUL whenever data is not NULL; len < cap <=
 * max + 1. The first failure (out of memory, or past the limit) sticks: later calls do nothing and
 * strbuf_error() reports it. */

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct strbuf {
	char *data; /* owned */
	size_t len;
	size_t cap;
	size_t max; /* most bytes of content; below SIZE_MAX / 2 */
	int error;  /* 0, -ENOMEM or -EMSGSIZE */
	bool wipes; /* what it held does not stay behind in memory that it frees or does not use */
};

#define STRBUF_INIT(max_)     \
	{                     \
		.max = (max_) \
	}

void strbuf_release(struct strbuf *sb);

/** Makes room for @n more bytes at once, for callers that know a rough number. */
void strbuf_reserve(struct strbuf *sb, size_t n);

/** strbuf_put() of what does not fit the room there is. */
void strbuf_put_growing(struct strbuf *sb, const void *bytes, size_t n);

static inline void strbuf_put(struct strbuf *sb, const void *bytes, size_t n)
{
	if (sb->error != 0 || n == 0 || n >= sb->cap - sb->len) {
		strbuf_put_growing(sb, bytes, n);
		return;
	}
	memcpy(sb->data + sb->len, bytes, n);
	sb->len += n;
	sb->data[sb->len] = '\0';
}

void strbuf_puts(struct strbuf *sb, const char *s);
void strbuf_printf(struct strbuf *sb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** Drops the first @n bytes; @n must not exceed the length. */
void strbuf_consume(struct strbuf *sb, size_t n);

/** Hands the content over to the caller, who frees it; NULL when the buffer failed. "" for an empty buffer.
 */
char *strbuf_take(struct strbuf *sb);

#define cleanup_strbuf cleanup(strbuf_release)
