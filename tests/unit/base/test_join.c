/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/join.h"

TEST(parts_stand_one_after_the_other)
{
	char dst[8];

	assert_int_equal(str_join(dst, sizeof(dst), "ab", "", "cd", "e"), 5);
	assert_string_equal(dst, "abcde");
	assert_int_equal(str_join(dst, sizeof(dst), "x"), 1);
	assert_string_equal(dst, "x");
	assert_int_equal(str_join(dst, sizeof(dst), ""), 0);
	assert_string_equal(dst, "");
}

TEST(a_joined_text_fits_or_is_empty)
{
	static const char *const parts[] = {"ab", "cde", "f", NULL};
	char dst[16];

	for (size_t size = 0; size <= 10; size++) {
		memset(dst, 'X', sizeof(dst));
		assert_int_equal(str_join_parts(dst, size, parts), size > 6 ? 6 : -ENAMETOOLONG);
		assert_string_equal(size > 0 ? dst : "", size > 6 ? "abcdef" : "");
		for (size_t i = size; i < sizeof(dst); i++)
			assert_int_equal(dst[i], 'X');
	}
}

TEST(no_parts_are_an_empty_text)
{
	static const char *const none[] = {NULL};
	char dst[1] = {'X'};

	assert_int_equal(str_join_parts(dst, 0, none), -ENAMETOOLONG);
	assert_int_equal(dst[0], 'X');
	assert_int_equal(str_join_parts(dst, 1, none), 0);
	assert_string_equal(dst, "");
}
