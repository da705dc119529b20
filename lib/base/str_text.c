/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* The number of the character at @s of @n bytes, 1 to 3. */
static unsigned int number_of(const char *s, size_t n)
{
	const uint8_t *b = (const uint8_t *)s;

	if (n == 1)
		return b[0];
	return n == 2 ? (b[0] & 0x1fU) << 6 | (b[1] & 0x3fU)
		      : (b[0] & 0xfU) << 12 | (b[1] & 0x3fU) << 6 | (b[2] & 0x3fU);
}

/* Is the character a control, or one that turns lines or the direction of writing, so that text behind it is
 * not shown as it is? */
static bool is_obeyed(unsigned int character)
{
	static const unsigned int ranges[][2] = {{0, 0x1f},	   {0x7f, 0x9f},     {0x61c, 0x61c},
						 {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (character >= ranges[i][0] && character <= ranges[i][1])
			return true;
	return false;
}

unsigned int str_unprintable(const char *s)
{
	size_t n = utf8_sequence(s);
	unsigned int character = n > 0 && n < 4 ? number_of(s, n) : ' ';

	return is_obeyed(character) ? character : 0;
}

size_t str_printable(const char *s)
{
	size_t n = utf8_sequence(s);

	return n > 0 && n < 4 && is_obeyed(number_of(s, n)) ? 0 : n;
}

/* May the @n bytes at @s be the beginning of a longer character? */
static bool is_begun(const char *s, size_t n)
{
	uint8_t first = (uint8_t)s[0];
	size_t wanted = first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 1;

	for (size_t i = 1; i < n; i++)
		if (((uint8_t)s[i] & 0xc0) != 0x80)
			return false;
	return n < wanted;
}

size_t str_mask_text(char *text, size_t n)
{
	size_t at = 0, taken;

	for (; at < n; at += taken) {
		char *s = text + at;

		taken = *s == '\n' || *s == '\t' ? 1 : str_printable(s);
		if (*s == '\r' && n - at > 1) {
			taken = s[1] == '\n' ? 2 : 1;
			*s = taken == 2 ? '\r' : '\n';
		}
		if (taken > 0)
			continue;
		if (*s == '\r' || is_begun(s, n - at))
			break;
		*s = '?';
		taken = 1;
	}
	return at;
}

void str_copy_text(char *dst, size_t size, const char *src)
{
	size_t at = 0;

	while (*src != '\0') {
		bool is_ascii = *src >= ' ' && *src <= '~'; /* most are, and cost little */
		size_t n = is_ascii ? 1 : str_printable(src);
		size_t taken = n > 0 ? n : 1;

		if (taken >= size - at)
			break;
		if (is_ascii)
			dst[at] = *src;
		else if (n > 0)
			memcpy(dst + at, src, n);
		else
			memset(dst + at, strchr("\t\n\r", *src) ? ' ' : '?', taken);
		at += taken;
		src += taken;
	}
	dst[at] = '\0';
}

/* Appends @text to @dst; false: it does not fit. */
static bool append(char *dst, size_t size, size_t *at, const char *text)
{
	size_t n = strlen(text);

	if (n + 1 >= size - *at)
		return false;
	memcpy(dst + *at, text, n + 1);
	*at += n;
	return true;
}

void str_copy_argument(char *dst, size_t size, const char *src)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+:@%=,";
	bool is_plain = strspn(src, plain) == strlen(src);
	bool has_room = true;
	size_t at = 0;

	dst[0] = '\0';
	has_room = is_plain ? append(dst, size, &at, src) : append(dst, size, &at, "'");
	for (size_t n; !is_plain && has_room && *src != '\0'; src += n) {
		char one[5] = "?";

		n = str_printable(src);
		if (n > 0)
			(void)snprintf(one, sizeof(one), "%.*s", (int)n, src);
		has_room = append(dst, size, &at, *src == '\'' ? "'\\''" : one);
		n = n > 0 ? n : 1;
	}
	if (!is_plain)
		has_room = has_room && append(dst, size, &at, "'");
	if (!has_room)
		(void)snprintf(dst, size, "PATH");
}

bool str_is_text(const char *s)
{
	while (*s != '\0') {
		bool is_ascii = *s >= ' ' && *s <= '~'; /* a start reads millions of texts */
		size_t n = is_ascii ? 1 : str_printable(s);

		if (n == 0)
			return false;
		s += n;
	}
	return true;
}

void str_make_one_reason(char *s)
{
	for (char *end = s; (end = strpbrk(end, "\t\n\r")) != NULL;)
		*end = ' ';
	for (; *s != '\0'; s++) {
		if (str_starts_with(s, "; "))
			*s = ',';
		else if (str_starts_with(s, "Next:"))
			*s = 'n';
	}
}
