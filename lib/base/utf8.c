/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include "base/cleanup.h"

#include <stdint.h>
#include <string.h>

static bool is_between(char c, uint8_t low, uint8_t high)
{
	return (uint8_t)c >= low && (uint8_t)c <= high;
}

size_t utf8_character(const char *bytes, size_t n)
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

	if (n > 0 && is_between(bytes[0], 0, 0x7f))
		return 1;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		if (n < forms[i].n || !is_between(bytes[0], forms[i].first[0], forms[i].first[1]))
			continue;
		if (!is_between(bytes[1], forms[i].second[0], forms[i].second[1]))
			return 0;
		for (size_t k = 2; k < forms[i].n; k++)
			if (!is_between(bytes[k], 0x80, 0xbf))
				return 0;
		return forms[i].n;
	}
	return 0;
}

/* Are all @n bytes ASCII? Nearly all texts are, and each message has many. */
static bool is_ascii(const char *bytes, size_t n)
{
	uint64_t word, bits = 0;

	for (; n >= sizeof(word); n -= sizeof(word), bytes += sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		bits |= word;
	}
	for (; n > 0; n--)
		bits |= (uint8_t)*bytes++;
	return (bits & UINT64_C(0x8080808080808080)) == 0;
}

bool utf8_is_valid(const char *bytes, size_t n)
{
	size_t length;

	if (is_ascii(bytes, n))
		return true;
	for (size_t i = 0; i < n; i += length) {
		length = utf8_character(bytes + i, n - i);
		if (length == 0)
			return false;
	}
	return true;
}

void utf8_mask(char *bytes, size_t n)
{
	if (is_ascii(bytes, n))
		return;
	for (size_t i = 0, length; i < n; i += length) {
		length = utf8_character(bytes + i, n - i);
		if (length > 0)
			continue;
		bytes[i] = '?';
		length = 1;
	}
}
