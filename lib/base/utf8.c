/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

/* Returns the length of the sequence that @first starts, 0 if it is invalid; and the range of its second
 * byte.
 */
static size_t sequence(uint8_t first, uint8_t *ret_low, uint8_t *ret_high)
{
	*ret_low = 0x80;
	*ret_high = 0xbf;
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		return 2;
	if (first >= 0xe0 && first <= 0xef) {
		if (first == 0xe0)
			*ret_low = 0xa0; /* shorter forms exist below */
		if (first == 0xed)
			*ret_high = 0x9f; /* surrogates above */
		return 3;
	}
	if (first >= 0xf0 && first <= 0xf4) {
		if (first == 0xf0)
			*ret_low = 0x90;
		if (first == 0xf4)
			*ret_high = 0x8f; /* past U+10FFFF */
		return 4;
	}
	return 0;
}

/* Returns the length of the character at the start of @bytes, 0 if it is invalid or does not end within @n.
 */
static size_t character(const char *bytes, size_t n)
{
	uint8_t low;
	uint8_t high;
	size_t length = sequence((uint8_t)bytes[0], &low, &high);

	if (length > n)
		return 0;
	for (size_t k = 1; k < length; k++) {
		uint8_t next = (uint8_t)bytes[k];

		if (next < low || next > high)
			return 0;
		low = 0x80;
		high = 0xbf;
	}
	return length;
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
		length = character(bytes + i, n - i);
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
		length = character(bytes + i, n - i);
		if (length > 0)
			continue;
		bytes[i] = '?';
		length = 1;
	}
}
