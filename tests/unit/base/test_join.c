/* SPDX-License-Identifier: Apache-2.0 */
#include "cmocka_all.h"

#include "base/join.h"
#include "base/str.h"

#include <errno.h>
#include <string.h>

static void parts_stand_one_after_the_other(void **state)
{
	char dst[8];

	(void)state;
	assert_int_equal(str_join(dst, sizeof(dst), "ab", "", "cd", "e"), 5);
	assert_string_equal(dst, "abcde");
	assert_int_equal(str_join(dst, sizeof(dst), "x"), 1);
	assert_string_equal(dst, "x");
	assert_int_equal(str_join(dst, sizeof(dst), ""), 0);
	assert_string_equal(dst, "");
}

static void what_is_joined_fits_or_is_empty(void **state)
{
	static const char *const parts[] = {"ab", "cde", "f", NULL};
	char dst[16];

	(void)state;
	for (size_t size = 0; size <= 10; size++) {
		memset(dst, 'X', sizeof(dst));
		assert_int_equal(str_join_parts(dst, size, parts), size > 6 ? 6 : -ENAMETOOLONG);
		assert_string_equal(size > 0 ? dst : "", size > 6 ? "abcdef" : "");
		for (size_t i = size; i < sizeof(dst); i++)
			assert_int_equal(dst[i], 'X');
	}
}

static void no_parts_are_an_empty_text(void **state)
{
	static const char *const none[] = {NULL};
	char dst[1] = {'X'};

	(void)state;
	assert_int_equal(str_join_parts(dst, 0, none), -ENAMETOOLONG);
	assert_int_equal(dst[0], 'X');
	assert_int_equal(str_join_parts(dst, 1, none), 0);
	assert_string_equal(dst, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_stand_one_after_the_other),
		cmocka_unit_test(what_is_joined_fits_or_is_empty),
		cmocka_unit_test(no_parts_are_an_empty_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
