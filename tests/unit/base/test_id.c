/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/id.h"

struct text_case {
	const char *text;
	bool expected;
};

TEST(labels_are_lower_case_without_dots)
{
	static const struct text_case cases[] = {
		{"a", true},	{"0", true},	     {"a-b", true},  {"a-", true},   {"db-01", true},
		{"", false},	{"-a", false},	     {"A", false},   {"aB", false},  {".", false},
		{"..", false},	{"a.b", false},	     {"a_b", false}, {"a/b", false}, {"a b", false},
		{"a\n", false}, {"\xc3\xbc", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(id_is_label(cases[i].text), cases[i].expected);
}

TEST(labels_have_at_most_63_characters)
{
	char text[65];

	memset(text, 'a', sizeof(text));
	text[64] = '\0';
	assert_false(id_is_label(text));
	text[63] = '\0';
	assert_true(id_is_label(text));
}

TEST(ids_of_plugins_have_dots_between_letters_and_digits)
{
	static const struct text_case cases[] = {
		{"a", true},
		{"ebs-csi", true},
		{"csi.hetzner.cloud", true},
		{"org.democratic-csi.nfs", true},
		{"a.0", true},
		{"a-", true},
		{"", false},
		{".", false},
		{"..", false},
		{".a", false},
		{"a.", false},
		{"a..b", false},
		{"a.-b", false},
		{"a-.b", false},
		{"-a.b", false},
		{"a./b", false},
		{"a.B", false},
		{"a_b", false},
		{"a.\n", false},
	};
	char text[65];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(id_is_plugin(cases[i].text), cases[i].expected);
	memset(text, 'a', sizeof(text));
	text[64] = '\0';
	assert_false(id_is_plugin(text));
	text[63] = '\0';
	assert_true(id_is_plugin(text));
	text[62] = '.';
	assert_false(id_is_plugin(text));
}

TEST(names_begin_with_a_letter_or_digit)
{
	static const struct text_case cases[] = {
		{"a", true},   {"Z9", true},  {"a_b-C", true}, {"a_", true},   {"", false},    {"_a", false},
		{"-a", false}, {".", false},  {"a.b", false},  {"a/b", false}, {"a b", false}, {"a\n", false},
		{"a@", false}, {"a[", false}, {"a`", false},   {"a{", false},  {"a/", false},  {"a:", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(id_is_name(cases[i].text, 8), cases[i].expected);
}

TEST(names_have_at_most_as_many_characters_as_allowed)
{
	assert_true(id_is_name("abcd", 4));
	assert_false(id_is_name("abcde", 4));
	assert_true(id_is_name("a", 1));
	assert_false(id_is_name("ab", 1));
	assert_false(id_is_name("a", 0));
}

TEST(uuids_have_36_lower_case_characters)
{
	static const struct text_case cases[] = {
		{"01890a5d-ac96-774b-bcce-b302099a8057", true},
		{"00000000-0000-0000-0000-000000000000", true},
		{"01890A5D-ac96-774b-bcce-b302099a8057", false},
		{"01890a5d-ac96-774b-bcce-b302099a805", false},
		{"01890a5d-ac96-774b-bcce-b302099a80577", false},
		{"01890a5dac96774bbcceb302099a8057", false},
		{"01890a5d0ac96-774b-bcce-b302099a805", false},
		{"0189-0a5d-ac96-774b-bcceb302099a8057", false},
		{"g1890a5d-ac96-774b-bcce-b302099a8057", false},
		{"01890a5d-ac96-774b-bcce-b302099a805/", false},
		{"01890a5d-ac96-774b-bcce-b302099a805:", false},
		{"01890a5d-ac96-774b-bcce-b302099a805`", false},
		{"", false},
	};

	uint8_t bytes[ID_UUID_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(id_is_uuid(cases[i].text), cases[i].expected);
		assert_int_equal(id_uuid_bytes(cases[i].text, bytes), cases[i].expected);
	}
}

TEST(the_bytes_of_a_uuid_are_those_that_it_writes_down)
{
	static const uint8_t wanted[ID_UUID_BYTES] = {0x01, 0x89, 0x0a, 0x5d, 0xac, 0x96, 0x77, 0x4b,
						      0xbc, 0xce, 0xb3, 0x02, 0x09, 0x9a, 0x80, 0x57};
	uint8_t bytes[ID_UUID_BYTES] = {0};

	assert_true(id_uuid_bytes("01890a5d-ac96-774b-bcce-b302099a8057", bytes));
	assert_memory_equal(bytes, wanted, sizeof(wanted));
	assert_false(id_uuid_bytes("f1890a5d-ac96-774b-bcce-b302099a805", bytes));
	assert_memory_equal(bytes, wanted, sizeof(wanted)); /* untouched */
}

TEST(a_service_unit_is_one_that_can_be_started)
{
	static const struct {
		const char *text;
		bool expected;
	} cases[] = {
		{"a.service", true},
		{"postgresql@15-main.service", true},
		{"dev-disk\\x2d1.service", true},
		{"A:b_c-1.x.service", true},
		{"a@b.c.service", true},
		{"", false},
		{".service", false},
		{"a", false},
		{"a.service ", false},
		{"a.service\n", false},
		{"a.services", false},
		{"a.Service", false},
		{"a.socket", false},
		{"a.mount", false},
		{"a@.service", false}, /* a template */
		{"@b.service", false},
		{"a@b@c.service", false},
		{"-a.service", false},
		{".a.service", false},
		{"a/b.service", false},
		{"a b.service", false},
		{"\xc3\xa4.service", false},
		{"*.service", false},
	};
	char text[ID_UNIT_MAX + 2];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_msg(id_is_service_unit(cases[i].text) == cases[i].expected, "'%s'", cases[i].text);
	for (size_t n = ID_UNIT_MAX; n <= ID_UNIT_MAX + 1; n++) {
		memset(text, 'a', n);
		memcpy(text + n - strlen(".service"), ".service", sizeof(".service"));
		assert_int_equal(id_is_service_unit(text), n == ID_UNIT_MAX);
	}
}
