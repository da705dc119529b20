/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/ends.h"

enum { SIZE = 64 };

TEST(a_text_that_fits_is_whole_and_one_byte_more_is_cut_in_the_middle)
{
	char text[SIZE + 2], dst[SIZE];

	for (size_t n = SIZE - 2; n <= SIZE; n++) {
		memset(text, 'x', n);
		text[0] = 'a';
		text[n - 1] = 'z';
		text[n] = '\0';
		str_copy_ends(dst, sizeof(dst), text);
		if (n < SIZE) {
			assert_string_equal(dst, text);
			continue;
		}
		assert_int_equal(strlen(dst), SIZE - 1);
		assert_true(str_starts_with(dst, "axxx"));
		assert_non_null(strstr(dst, "x... x"));
		assert_int_equal(dst[SIZE - 2], 'z');
	}
}

TEST(the_end_begins_at_a_word_and_is_the_larger_part)
{
	static const char text[] = "plugin nfs: NodeStageVolume answered INTERNAL: rpc error of many words "
				   "and no sense: mount: /x: wrong fs type";
	char dst[SIZE];

	str_copy_ends(dst, sizeof(dst), text);
	assert_string_equal(dst, "plugin nfs: NodeS... and no sense: mount: /x: wrong fs type");
}

/* At each place where a character of two bytes may lie. */
TEST(no_character_is_cut_and_no_control_character_is_kept)
{
	char text[4 * SIZE], dst[SIZE];

	for (size_t from = 0; from < 2; from++) {
		memset(text, 'x', sizeof(text));
		for (size_t at = from; at + 3 < sizeof(text); at += 2)
			memcpy(text + at, "\xc3\xa4", 2);
		text[sizeof(text) - 2] = '\n';
		text[sizeof(text) - 1] = '\0';
		str_copy_ends(dst, sizeof(dst), text);
		assert_true(str_is_text(dst));
		assert_null(strchr(dst, '?'));
		assert_true(strlen(dst) >= SIZE - 3);
	}
}
