/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"

#include <string.h>

static bool is_between(char c, uint8_t low, uint8_t high)
{
	return (uint8_t)c >= low && (uint8_t)c <= high;
}

size_t str_utf8_sequence(const char *s)
{
	/* First byte, second byte, length; every further byte is 80..bf. A NUL ends the comparison early. */
	static const struct {
		uint8_t first[2];
		uint8_t second[2];
		size_t n;
	} forms[] = {
		{{0xc2, 0xdf}, {0x80, 0xbf}, 2}, {{0xe0, 0xe0}, {0xa0, 0xbf}, 3},
		{{0xe1, 0xec}, {0x80, 0xbf}, 3}, {{0xed, 0xed}, {0x80, 0x9f}, 3},
		{{0xee, 0xef}, {0x80, 0xbf}, 3}, {{0xf0, 0xf0}, {0x90, 0xbf}, 4},
		{{0xf1, 0xf3}, {0x80, 0xbf}, 4}, {{0xf4, 0xf4}, {0x80, 0x8f}, 4},
	};

	if (is_between(s[0], 0, 0x7f))
		return 1;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		if (!is_between(s[0], forms[i].first[0], forms[i].first[1]))
			continue;
		if (!is_between(s[1], forms[i].second[0], forms[i].second[1]))
			return 0;
		for (size_t k = 2; k < forms[i].n; k++)
			if (!is_between(s[k], 0x80, 0xbf))
				return 0;
		return forms[i].n;
	}
	return 0;
}

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
	size_t n = str_utf8_sequence(s);
	unsigned int character = n > 0 && n < 4 ? number_of(s, n) : ' ';

	return is_obeyed(character) ? character : 0;
}

size_t str_printable(const char *s)
{
	size_t n = str_utf8_sequence(s);

	return n > 0 && n < 4 && is_obeyed(number_of(s, n)) ? 0 : n;
}

/* May the @n bytes at @s be the beginning of a longer character? */
static bool is_begun(const char *s, size_t n)
{
	uint8_t first = (uint8_t)s[0];
	size_t wanted = first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 1;

	for (size_t i = 1; i < n; i++)
		if (!is_between(s[i], 0x80, 0xbf))
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
		bool is_ascii = is_between(*src, 0x20, 0x7e); /* most are, and cost little */
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

bool str_is_text(const char *s)
{
	while (*s != '\0') {
		bool is_ascii = is_between(*s, 0x20, 0x7e); /* a start reads millions of texts */
		size_t n = is_ascii ? 1 : str_printable(s);

		if (n == 0)
			return false;
		s += n;
	}
	return true;
}

void str_make_one_reason(char *s)
{
	for (; *s != '\0'; s++) {
		if (str_starts_with(s, "; "))
			*s = ',';
		else if (str_starts_with(s, "Next:"))
			*s = 'n';
	}
}
