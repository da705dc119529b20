/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "privileged/keyline.h"

TEST(values_outside_the_alphabet_cannot_forge_anything)
{
	struct keyline line = KEYLINE_INIT;

	keyline_word(&line, "a", "x\nop=stage");
	keyline_word(&line, "b", "x y");
	keyline_word(&line, "c", "it's");
	keyline_word(&line, "d", "");
	keyline_word(&line, "e", "a=b");
	keyline_word(&line, "f", "Az09._:+/@,-");
	keyline_number(&line, "g", UINT64_MAX);
	keyline_sha256(&line, "h", "\xab\x01", 2);
	keyline_word(&line, "i", "\"\xff");
	assert_false(line.overflow);
	assert_string_equal(line.text,
			    " a=780A6F703D7374616765 b=782079 c=69742773 d= e=613D62 f=Az09._:+/@,- "
			    "g=18446744073709551615 h=sha256:ab01 i=22FF");
	assert_int_equal(line.len, strlen(line.text));
}

TEST(a_device_is_two_numbers)
{
	struct keyline line = KEYLINE_INIT;

	keyline_device(&line, "dev", 8, 0);
	keyline_device(&line, "dev", UINT32_MAX, UINT32_MAX);
	assert_string_equal(line.text, " dev=8:0 dev=4294967295:4294967295");
}

TEST(several_words_are_appended_in_order)
{
	struct keyline line = KEYLINE_INIT;

	keyline_words(&line, "a", "1", "b", "x y", "c", "");
	assert_string_equal(line.text, " a=1 b=782079 c=");
}

TEST(every_byte_is_either_plain_or_encoded)
{
	for (int c = 1; c < 256; c++) {
		struct keyline line = KEYLINE_INIT;
		const char value[] = {(char)c, '\0'};

		keyline_word(&line, "k", value);
		assert_int_equal(strspn(line.text + 3, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
						       "0123456789._:+/@,-"),
				 strlen(line.text + 3));
		assert_true(strlen(line.text + 3) == 1 || strlen(line.text + 3) == 2);
	}
}

TEST(a_value_that_is_too_long_is_not_cut_but_told)
{
	struct keyline line = KEYLINE_INIT;
	char value[KEYLINE_VALUE_MAX + 2];

	memset(value, 'a', sizeof(value));
	value[KEYLINE_VALUE_MAX] = '\0';
	keyline_word(&line, "a", value);
	assert_false(line.overflow);
	value[KEYLINE_VALUE_MAX] = 'a';
	value[KEYLINE_VALUE_MAX + 1] = '\0';
	keyline_word(&line, "b", value);
	assert_true(line.overflow);
	assert_int_equal(line.len, KEYLINE_VALUE_MAX + 3);
	assert_int_equal(strlen(line.text), line.len);
}

TEST(a_full_line_takes_no_more)
{
	char value[KEYLINE_VALUE_MAX + 1];
	struct keyline line = KEYLINE_INIT;

	memset(value, ' ', sizeof(value)); /* twice as long when encoded */
	value[KEYLINE_VALUE_MAX] = '\0';
	keyline_word(&line, "a", value);
	assert_int_equal(line.len, 3 + 2 * KEYLINE_VALUE_MAX);
	value[(KEYLINE_SIZE - 1 - line.len - 3) / 2] = '\0';
	keyline_word(&line, "b", value);
	assert_false(line.overflow);
	assert_true(line.len >= KEYLINE_SIZE - 2);
	keyline_word(&line, "c", "x");
	assert_true(line.overflow);
	assert_int_equal(strlen(line.text), line.len);
}

TEST(a_line_takes_another_one_whole_or_not_at_all)
{
	char value[KEYLINE_VALUE_MAX + 1];
	struct keyline line = KEYLINE_INIT, more = KEYLINE_INIT;
	size_t full;

	keyline_append(&line, &more);
	assert_string_equal(line.text, "");
	keyline_word(&line, "a", "1");
	keyline_words(&more, "b", "2", "c", "3");
	keyline_append(&line, &more);
	assert_string_equal(line.text, " a=1 b=2 c=3");
	assert_int_equal(line.len, strlen(line.text));
	memset(value, 'v', sizeof(value));
	value[KEYLINE_VALUE_MAX] = '\0';
	while (!more.overflow)
		keyline_word(&more, "b", value);
	more.overflow = false;
	/* up to the last byte before the NUL */
	line.len = sizeof(line.text) - 1 - more.len;
	keyline_append(&line, &more);
	assert_false(line.overflow);
	assert_int_equal(line.len, sizeof(line.text) - 1);
	assert_int_equal(line.text[line.len], '\0');
	full = line.len = sizeof(line.text) - more.len;
	keyline_append(&line, &more);
	assert_true(line.overflow);
	assert_int_equal(line.len, full);
	assert_int_equal(line.text[full], '\0');
}

TEST(appending_an_overflowed_line_overflows_the_target)
{
	struct keyline line = KEYLINE_INIT;
	struct keyline more = {.overflow = true};

	keyline_append(&line, &more);
	assert_true(line.overflow);
}
