/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strbuf.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void wipe(const struct strbuf *sb, char *bytes, size_t n)
{
	if (sb->wipes && n > 0)
		explicit_bzero(bytes, n);
}

void strbuf_release(struct strbuf *sb)
{
	wipe(sb, sb->data, sb->len);
	free(sb->data);
	sb->data = NULL;
	sb->len = sb->cap = 0;
}

/* As realloc(), which would leave a copy behind. */
static char *resize(struct strbuf *sb, size_t cap)
{
	char *data;

	if (!sb->wipes || !sb->data)
		return realloc(sb->data, cap);
	data = malloc(cap);
	if (!data)
		return NULL;
	memcpy(data, sb->data, sb->len + 1);
	wipe(sb, sb->data, sb->len);
	free(sb->data);
	return data;
}

/* Makes room for @n more bytes and the NUL. */
static bool grow(struct strbuf *sb, size_t n)
{
	size_t cap = sb->cap ? sb->cap : 256;
	char *data;

	assert(sb->max < SIZE_MAX / 2);
	if (sb->error)
		return false;
	if (n > sb->max || sb->len > sb->max - n) {
		sb->error = -EMSGSIZE;
		return false;
	}
	while (cap <= sb->len + n)
		cap *= 2;
	if (cap > sb->max + 1)
		cap = sb->max + 1;
	if (cap == sb->cap)
		return true;
	data = resize(sb, cap);
	if (!data) {
		sb->error = -ENOMEM;
		return false;
	}
	sb->data = data;
	sb->cap = cap;
	return true;
}

static bool reserve(struct strbuf *sb, size_t n)
{
	return (sb->error == 0 && n < sb->cap - sb->len) || grow(sb, n);
}

void strbuf_reserve(struct strbuf *sb, size_t n)
{
	if (reserve(sb, n))
		sb->data[sb->len] = '\0';
}

void strbuf_put_growing(struct strbuf *sb, const void *bytes, size_t n)
{
	if (!reserve(sb, n))
		return;
	if (n > 0)
		memcpy(sb->data + sb->len, bytes, n);
	sb->len += n;
	sb->data[sb->len] = '\0';
}

void strbuf_puts(struct strbuf *sb, const char *s)
{
	strbuf_put(sb, s, strlen(s));
}

void strbuf_printf(struct strbuf *sb, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0 && !sb->error)
		sb->error = -EMSGSIZE; /* longer than INT_MAX */
	if (n < 0 || !reserve(sb, (size_t)n))
		return;
	va_start(args, fmt);
	(void)vsnprintf(sb->data + sb->len, (size_t)n + 1, fmt, args);
	va_end(args);
	sb->len += (size_t)n;
}

void strbuf_consume(struct strbuf *sb, size_t n)
{
	assert(n <= sb->len);
	if (n == 0)
		return;
	memmove(sb->data, sb->data + n, sb->len - n + 1);
	sb->len -= n;
	wipe(sb, sb->data + sb->len, n);
}

char *strbuf_take(struct strbuf *sb)
{
	char *data;

	strbuf_put(sb, "", 0);
	if (sb->error) {
		strbuf_release(sb);
		return NULL;
	}
	data = TAKE_PTR(sb->data);
	sb->len = sb->cap = 0;
	return data;
}
