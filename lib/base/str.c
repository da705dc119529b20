/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int str_copy(char *dst, size_t size, const char *src)
{
	size_t n = strnlen(src, size);

	if (n >= size) {
		if (size > 0)
			dst[0] = '\0';
		return -ENAMETOOLONG;
	}
	memcpy(dst, src, n);
	dst[n] = '\0';
	return 0;
}

int str_format(char *dst, size_t size, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(dst, size, fmt, args);
	va_end(args);
	if (n < 0 || (size_t)n >= size) {
		if (size > 0)
			dst[0] = '\0';
		return -ENAMETOOLONG;
	}
	return n;
}

int str_decimal(char *dst, size_t size, uint64_t value)
{
	char text[sizeof("18446744073709551615")] = "";
	char *digit = text + sizeof(text) - 1;

	do {
		*--digit = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	return str_copy(dst, size, digit) < 0 ? -ENAMETOOLONG : (int)(text + sizeof(text) - 1 - digit);
}

bool str_eq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

bool str_starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_is_made_of(const char *s, const char *extra)
{
	for (; *s != '\0'; s++) {
		bool is_letter = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z');

		if (!is_letter && !(*s >= '0' && *s <= '9') && !strchr(extra, *s))
			return false;
	}
	return true;
}

bool bytes_are_zero(const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n; i++)
		if (p[i] != 0)
			return false;
	return true;
}

bool str_is_padded(const char *s, size_t n)
{
	size_t used = strnlen(s, n);

	return used < n && bytes_are_zero(s + used, n - used);
}

void hex_encode(char *dst, const void *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *in = bytes;

	for (size_t i = 0; i < n; i++) {
		dst[2 * i] = digits[in[i] >> 4];
		dst[2 * i + 1] = digits[in[i] & 15];
	}
	dst[2 * n] = '\0';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -EINVAL;
}

int hex_decode(void *dst, size_t n, const char *hex)
{
	uint8_t *out = dst;

	if (strnlen(hex, 2 * n + 1) != 2 * n)
		return -EINVAL;
	for (size_t i = 0; i < 2 * n; i++)
		if (hex_digit(hex[i]) < 0)
			return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		unsigned int high = (unsigned int)hex_digit(hex[2 * i]);
		unsigned int low = (unsigned int)hex_digit(hex[2 * i + 1]);

		out[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

uint64_t str_hash(uint64_t seed, const char *s)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;

	for (; *s != '\0'; s++)
		h = (h ^ (uint8_t)*s) * UINT64_C(0x100000001b3);
	return h;
}
