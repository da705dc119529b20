/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/names.h"

#include <limits.h>

static const char *const colours[] = {"red", NULL, "blue"};

TEST(a_value_has_its_name)
{
	assert_string_equal(names_get(colours, 3, 0), "red");
	assert_string_equal(names_get(colours, 3, 2), "blue");
}

TEST(values_outside_or_without_a_name_have_no_name)
{
	assert_null(names_get(colours, 3, 1));
	assert_null(names_get(colours, 3, 3));
	assert_null(names_get(colours, 3, -1));
	assert_null(names_get(colours, 3, INT_MIN));
	assert_null(names_get(colours, 2, 2));
}

TEST(a_name_leads_to_its_value_exactly)
{
	assert_int_equal(names_find(colours, 3, "red"), 0);
	assert_int_equal(names_find(colours, 3, "blue"), 2);
	assert_int_equal(names_find(colours, 2, "blue"), -EINVAL);
	assert_int_equal(names_find(colours, 3, "Red"), -EINVAL);
	assert_int_equal(names_find(colours, 3, "re"), -EINVAL);
	assert_int_equal(names_find(colours, 3, "redd"), -EINVAL);
	assert_int_equal(names_find(colours, 3, ""), -EINVAL);
}
