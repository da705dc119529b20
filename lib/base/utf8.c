/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdint.h>

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

bool utf8_is_valid(const char *bytes, size_t n)
{
	for (size_t i = 0; i < n;) {
		uint8_t low;
		uint8_t high;
		size_t length = sequence((uint8_t)bytes[i], &low, &high);

		if (length == 0 || length > n - i)
			return false;
		for (size_t k = 1; k < length; k++) {
			uint8_t next = (uint8_t)bytes[i + k];

			if (next < low || next > high)
				return false;
			low = 0x80;
			high = 0xbf;
		}
		i += length;
	}
	return true;
}
