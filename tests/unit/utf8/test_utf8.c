/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/str.h"
#include "base/utf8.h"

/* The bytes of a code point of @length bytes, whether it may be written so or not. */
static size_t put(uint32_t code, size_t length, char *out)
{
	static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0, 0xf8};

	if (length == 1) {
		out[0] = (char)code;
		return 1;
	}
	for (size_t i = length; i-- > 1; code >>= 6)
		out[i] = (char)(0x80 | (code & 0x3f));
	out[0] = (char)(lead[length] | code);
	return length;
}

static size_t shortest(uint32_t code)
{
	return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

TEST(every_code_point_is_valid_in_its_shortest_form_alone)
{
	for (uint32_t code = 0; code < 0x110400; code++) {
		bool good = code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);

		for (size_t length = shortest(code); length <= 4; length++) {
			char text[4];
			size_t n = put(code, length, text);

			if (utf8_is_valid(text, n) != (good && length == shortest(code)))
				fail_msg("U+%04X in %zu bytes", code, length);
		}
	}
}

TEST(a_cut_sequence_is_invalid_wherever_it_is_cut)
{
	static const char *const texts[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x92\xa9"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		for (size_t n = 1; n < strlen(texts[i]); n++) {
			cleanup_free char *cut = strndup(texts[i], n);

			assert_false(utf8_is_valid(texts[i], n));
			assert_int_equal(utf8_character(texts[i], n), 0);
			assert_int_equal(utf8_sequence(cut), 0);
		}
	assert_int_equal(utf8_character("a", 0), 0);
	assert_int_equal(utf8_sequence(""), 1);
}

TEST(one_bad_byte_spoils_good_text)
{
	assert_true(utf8_is_valid("", 0));
	assert_true(utf8_is_valid("gr\xc3\xbc\xc3\x9f dich", 11));
	assert_false(utf8_is_valid("gr\xfc dich", 8));
	assert_false(utf8_is_valid("a\x80", 2));
	assert_false(utf8_is_valid("\xc3(", 2));
}

TEST(each_byte_of_no_whole_character_is_masked)
{
	static const char *const rows[][2] = {
		{"", ""},
		{"gr\xc3\xbc\xc3\x9f dich", "gr\xc3\xbc\xc3\x9f dich"},
		{"gr\xfc dich", "gr? dich"},
		{"\xe5\xad;\x80", "??;?"},
		{"\xc0\xaf\xed\xa0\x80", "?????"},
		{"eight bytes\xf0\x9f\x92\xa9\xf0\x9f\x92", "eight bytes\xf0\x9f\x92\xa9???"},
		{"eight bytes and \x80", "eight bytes and ?"},
		{"\x80 before sixteen bytes", "? before sixteen bytes"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[64];

		(void)str_copy(text, sizeof(text), rows[i][0]);
		utf8_mask(text, strlen(text));
		assert_string_equal(text, rows[i][1]);
	}
}

TEST(nothing_behind_the_end_is_masked_or_taken_for_a_part)
{
	char text[] = "ab\xe5\xad\x98";

	utf8_mask(text, 4);
	assert_string_equal(text, "ab??\x98");
}
