/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "privileged/layout.h"

enum { WORD = 1 };

static bool is_x(const char *text)
{
	return text[0] == 'x';
}

static const struct layout_text texts[] = {[WORD] = {4, is_x}};
static const uint16_t layout[] = {WORD,		LAYOUT_ANY + 2, LAYOUT_ZERO + 2, LAYOUT_UP_TO + 7,
				  LAYOUT_UP_TO, LAYOUT_END};

TEST(the_size_is_the_sum_of_the_fields)
{
	static const uint16_t empty[] = {LAYOUT_END};
	static const uint16_t large[] = {LAYOUT_ANY + 4095, LAYOUT_ZERO + 4095, LAYOUT_UP_TO + 255,
					 LAYOUT_END};

	assert_int_equal(layout_size(layout, texts), 4 + 2 + 2 + 1 + 1);
	assert_int_equal(layout_size(empty, texts), 0);
	assert_int_equal(layout_size(large, texts), 2 * 4095 + 1);
}

/* Every value of every byte of one message. */
TEST(each_byte_has_the_values_of_its_field)
{
	static const uint8_t good[10] = {'x', 'y', 0, 0, 1, 2, 0, 0, 7, 0};

	for (size_t at = 0; at < sizeof(good); at++) {
		for (unsigned int value = 0; value < 256; value++) {
			uint8_t bytes[sizeof(good)];
			bool expected = value == good[at];

			memcpy(bytes, good, sizeof(good));
			bytes[at] = (uint8_t)value;
			if (at == 1 || at == 2 || at == 4 || at == 5) /* text within and just behind, any */
				expected = true;
			if (at == 8)
				expected = value <= 7;
			assert_int_equal(layout_is_valid(layout, texts, bytes), expected);
		}
	}
}
