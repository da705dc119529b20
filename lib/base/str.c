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

bool str_eq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

bool str_starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
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
	for (size_t i = 0; i < n; i++)
		out[i] = (uint8_t)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
	return 0;
}
