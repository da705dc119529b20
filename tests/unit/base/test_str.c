/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <inttypes.h>

TEST(a_copy_fits_or_is_empty)
{
	char dst[5];

	assert_int_equal(str_copy(dst, sizeof(dst), "abcd"), 0);
	assert_string_equal(dst, "abcd");
	assert_int_equal(str_copy(dst, sizeof(dst), "abcde"), -ENAMETOOLONG);
	assert_string_equal(dst, "");
	assert_int_equal(str_copy(dst, sizeof(dst), ""), 0);
	assert_string_equal(dst, "");
	assert_int_equal(str_copy(dst, 1, ""), 0);
	memset(dst, 'X', sizeof(dst));
	assert_int_equal(str_copy(dst, 0, ""), -ENAMETOOLONG);
	assert_int_equal(dst[0], 'X');
}

TEST(a_formatted_text_fits_or_is_empty)
{
	char dst[5];

	assert_int_equal(str_format(dst, sizeof(dst), "%d", 1234), 4);
	assert_string_equal(dst, "1234");
	assert_int_equal(str_format(dst, sizeof(dst), "%d", 12345), -ENAMETOOLONG);
	assert_string_equal(dst, "");
	assert_int_equal(str_format(dst, 0, "%d", 1), -ENAMETOOLONG);
}

TEST(a_number_is_written_as_printf_writes_it_or_not_at_all)
{
	static const uint64_t numbers[] = {0, 1, 9, 10, 31, 99, 100, UINT32_MAX, UINT64_MAX};
	char wanted[21], dst[21];

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		int n = str_format(wanted, sizeof(wanted), "%" PRIu64, numbers[i]);

		assert_int_equal(str_decimal(dst, sizeof(dst), numbers[i]), n);
		assert_string_equal(dst, wanted);
		assert_int_equal(str_decimal(dst, (size_t)n + 1, numbers[i]), n);
		assert_int_equal(str_decimal(dst, (size_t)n, numbers[i]), -ENAMETOOLONG);
		assert_string_equal(dst, "");
	}
}

TEST(comparison_is_of_the_whole_or_of_the_beginning)
{
	assert_true(str_eq("a", "a"));
	assert_true(str_eq("", ""));
	assert_false(str_eq("a", "ab"));
	assert_false(str_eq("a", "A"));
	assert_true(str_starts_with("abc", "ab"));
	assert_true(str_starts_with("abc", ""));
	assert_true(str_starts_with("ab", "ab"));
	assert_false(str_starts_with("a", "ab"));
	assert_false(str_starts_with("xab", "ab"));
}

TEST(every_byte_survives_hex)
{
	uint8_t bytes[256], back[256];
	char hex[513];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	hex_encode(hex, bytes, sizeof(bytes));
	assert_int_equal(strlen(hex), 512);
	assert_memory_equal(hex, "000102", 6);
	assert_string_equal(hex + 506, "fdfeff");
	assert_int_equal(hex_decode(back, sizeof(back), hex), 0);
	assert_memory_equal(bytes, back, sizeof(bytes));
}

TEST(hex_has_exactly_the_digits_that_are_wanted)
{
	static const char *const refused[] = {"",     "0a1",  "0a1b2", "0a1b2c", "0g1b", "0a1/",
					      "0a1:", "0a1@", "0a1`",  "0a1G",	 " a1b", "0x1b"};
	uint8_t bytes[2] = {7, 7};

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		assert_int_equal(hex_decode(bytes, sizeof(bytes), refused[i]), -EINVAL);
		assert_true(bytes[0] == 7 && bytes[1] == 7);
	}
	assert_int_equal(hex_decode(bytes, sizeof(bytes), "aFA0"), 0);
	assert_true(bytes[0] == 0xaf && bytes[1] == 0xa0);
	assert_int_equal(hex_decode(bytes, 0, ""), 0);
}

TEST(a_text_for_people_is_cut_between_characters_and_cleaned)
{
	static const struct {
		size_t size;
		const char *from, *to;
		bool is_clean;
	} cases[] = {
		{1, "a", "", true},
		{2, "\xc3\xa4", "", true},
		{3, "\xc3\xa4", "\xc3\xa4", true},
		{4, "\xc3\xa4\xc3\xa4", "\xc3\xa4", true},
		{5, "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", true},
		{4, "\xf0\x9f\x98\x80", "", true},
		{16, "a\tb\r\nc", "a b  c", false},
		{16, "\x1b[31m\x7f\x01", "?[31m??", false},
		{16,
		 "\xc2\x9b"
		 "1m\xc2\xa0",
		 "??1m\xc2\xa0"}, /* CSI in one character */
		{16, "\xff\xe2\x82", "???", false},
		{16,
		 "a\xe2\x80\xae"
		 "b\xe2\x81\xa6"
		 "c",
		 "a???b???c", false}, /* from right to left, isolated */
		{16, "\xe2\x80\xa8\xe2\x80\xa7\xe2\x80\xaf", "???\xe2\x80\xa7\xe2\x80\xaf", false},
		{16, "\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\x8d", "??????\xe2\x80\x8d",
		 false}, /* marks of direction */
		{16, "\xd8\x9b\xd8\x9c\xd8\x9d", "\xd8\x9b??\xd8\x9d", false},
	};
	char dst[16];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(dst, 'x', sizeof(dst));
		str_copy_text(dst, cases[i].size, cases[i].from);
		assert_string_equal(dst, cases[i].to);
		assert_true(str_is_text(dst));
		assert_int_equal(str_is_text(cases[i].from), cases[i].is_clean);
	}
}

TEST(a_path_is_an_argument_of_a_shell)
{
	static const struct {
		const char *path, *argument;
	} rows[] = {
		{"/mnt/Db-1_2.x+y:z@a%b=c,d", "/mnt/Db-1_2.x+y:z@a%b=c,d"},
		{"/mnt/a;$(b)`c`*?", "'/mnt/a;$(b)`c`*?'"},
		{"/mnt/a b's", "'/mnt/a b'\\''s'"},
		{"/mnt/M\xc3\xbcller", "'/mnt/M\xc3\xbcller'"},
		{"/mnt/a\nb\x1b\xff", "'/mnt/a?b?"
				      "?'"},
		{"/mnt/a-path-of-thirty-one-bytes", "PATH"},
		{"/mnt/in-quotes-thirty-one-of;", "PATH"},
		{"", ""},
	};
	char dst[32];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		str_copy_argument(dst, sizeof(dst), rows[i].path);
		assert_string_equal(dst, rows[i].argument);
	}
}

TEST(a_character_that_a_terminal_obeys_has_a_number)
{
	static const struct {
		const char *text;
		unsigned int number;
	} rows[] = {{"a", 0},
		    {"\x1b", 0x1b},
		    {"\x7f", 0x7f},
		    {"\xc2\x80", 0x80},
		    {"\xc2\x9f", 0x9f},
		    {"\xc2\xa0", 0},
		    {"\xe2\x80\xae", 0x202e},
		    {"\xe2\x81\xa9", 0x2069},
		    {"\xe2\x81\xaa", 0},
		    {"\xd8\x9c", 0x61c},
		    {"\x9b", 0},
		    {"\xf0\x9f\x98\x80", 0}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(str_unprintable(rows[i].text), rows[i].number);
}

/* Any output is cut anywhere, and what is done is the same as without the cut. */
TEST(masked_output_does_not_depend_on_its_pieces)
{
	static const char output[] =
		"a\r\nb\rc\xe2\x82\xac\xc2\x9b\xf0\x9f\x98\x80\xf0\x9f\x98\xe2\x80\xae\x80\x1b\t\xff";
	static const char wanted[] = "a\r\nb\nc\xe2\x82\xac??\xf0\x9f\x98\x80?"
				     "?"
				     "?"
				     "?"
				     "?"
				     "?"
				     "?"
				     "?\t?";

	for (size_t cut = 0; cut < sizeof(output); cut++) {
		char text[sizeof(output)] = "";
		size_t done;

		memcpy(text, output, cut);
		done = str_mask_text(text, cut);
		assert_in_range(cut - done, 0, 3);
		memcpy(text + cut, output + cut, sizeof(output) - cut);
		assert_int_equal(str_mask_text(text + done, sizeof(output) - 1 - done),
				 sizeof(output) - 1 - done);
		assert_string_equal(text, wanted);
	}
}

/* Values of the FNV reference, for the seed 0. */
TEST(a_hash_is_fnv_and_depends_on_seed_and_text)
{
	assert_true(str_hash(0, "") == UINT64_C(0xcbf29ce484222325));
	assert_true(str_hash(0, "a") == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(str_hash(0, "foobar") == UINT64_C(0x85944171f73967e8));
	assert_true(str_hash(1, "a") != str_hash(0, "a"));
	assert_true(str_hash(0, "ab") != str_hash(0, "ba"));
}

TEST(made_of_accepts_letters_digits_and_listed_characters)
{
	assert_true(str_is_made_of("", ""));
	assert_true(str_is_made_of("azAZ09", ""));
	assert_true(str_is_made_of("a-b.c", ".-"));
	for (unsigned int c = 1; c < 256; c++) {
		const char text[] = {'a', (char)c, '\0'};
		bool is_alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		assert_int_equal(str_is_made_of(text, ""), is_alnum);
		assert_int_equal(str_is_made_of(text, "_"), is_alnum || c == '_');
	}
}

TEST(a_padded_string_has_one_form)
{
	char bytes[8] = "abc";

	assert_true(str_is_padded(bytes, sizeof(bytes)));
	assert_true(str_is_padded("", 1));
	assert_false(str_is_padded("", 0));
	assert_false(str_is_padded(bytes, 3)); /* not terminated */
	assert_true(str_is_padded(bytes, 4));
	for (size_t i = 4; i < sizeof(bytes); i++) {
		bytes[i] = 1;
		assert_false(str_is_padded(bytes, sizeof(bytes)));
		assert_false(bytes_are_zero(bytes + 3, sizeof(bytes) - 3));
		bytes[i] = 0;
	}
	assert_true(bytes_are_zero(bytes + 3, sizeof(bytes) - 3));
	assert_true(bytes_are_zero(bytes, 0));
	memset(bytes, 'x', sizeof(bytes));
	assert_false(str_is_padded(bytes, sizeof(bytes)));
}
