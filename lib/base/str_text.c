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

/* Turns the character at @s, of three bytes, lines or the direction of writing: U+2028 to U+202E, U+2066 to
 * U+2069? Text behind it is not shown as it is. */
static bool turns_text(const char *s)
{
	return is_between(s[0], 0xe2, 0xe2) &&
	       ((is_between(s[1], 0x80, 0x80) && is_between(s[2], 0xa8, 0xae)) ||
		(is_between(s[1], 0x81, 0x81) && is_between(s[2], 0xa6, 0xa9)));
}

/* The second range of controls is U+0080 to U+009f. */
size_t str_printable(const char *s)
{
	size_t n = str_utf8_sequence(s);

	if (n == 1 && (is_between(s[0], 0, 0x1f) || s[0] == 0x7f))
		return 0;
	if (n == 2 && is_between(s[0], 0xc2, 0xc2) && is_between(s[1], 0x80, 0x9f))
		return 0;
	return n == 3 && turns_text(s) ? 0 : n;
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
		size_t n = str_printable(s);

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
