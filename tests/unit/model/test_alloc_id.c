/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/id.h"
#include "model/alloc_id.h"

TEST(the_mark_of_a_namespace_is_the_beginning_of_its_sha_256)
{
	static const struct {
		const char *namespace, *mark;
	} cases[] = {{"", "837a-8eec1ce19687"},
		     {"default", "837a-8eec1ce19687"},
		     {"shop", "88d9-001d32c6a703"},
		     {"team", "8ca8-b22d0db83a22"}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char mark[ALLOC_ID_MARK_SIZE];

		alloc_id_mark(cases[i].namespace, mark);
		assert_string_equal(mark, cases[i].mark);
	}
}

TEST(an_id_is_of_the_namespace_whose_mark_is_its_end)
{
	static const struct {
		const char *id;
		bool is_of_shop;
	} cases[] = {
		{"01890001-0000-7000-88d9-001d32c6a703", true},
		{"01890001-0000-7000-88d9-001d32c6a704", false},
		{"01890001-0000-7000-98d9-001d32c6a703", false},
		{"01890001-0000-7000-837a-8eec1ce19687", false},
		{"8d9001d3-2c6a-7000-8000-000000000001", false},
		{"88d9-001d32c6a703", false}, /* no UUID */
		{"", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(alloc_id_is_of(cases[i].id, "shop"), cases[i].is_of_shop);
}

TEST(new_ids_of_a_namespace_have_its_mark_and_differ)
{
	char a[UUID_SIZE], b[UUID_SIZE];

	assert_int_equal(alloc_id_new("shop", a), 0);
	assert_int_equal(alloc_id_new("shop", b), 0);
	assert_true(id_is_uuid(a) && alloc_id_is_of(a, "shop"));
	assert_true(id_is_uuid(b) && alloc_id_is_of(b, "shop"));
	assert_string_not_equal(a, b);
	assert_memory_equal(a, b, 6); /* the time; a unit may end in between */
	assert_int_equal(a[14], '8');
	assert_int_equal(alloc_id_new("", a), 0);
	assert_true(alloc_id_is_of(a, "default"));
}
