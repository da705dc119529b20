/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/closest.h"

static const char *const words[] = {"address", "access_mode", "data_dir", "tls", "plugin_dir", "id"};

TEST(a_slip_of_the_finger_finds_the_word)
{
	static const struct {
		const char *typed;
		const char *meant; /* NULL: nothing is near */
	} cases[] = {
		{"adress", "address"},
		{"addresss", "address"},
		{"addresx", "address"},
		{"addrses", "address"},
		{"acces_mod", "access_mode"},
		{"data-dir", "data_dir"},
		{"tsl", "tls"},
		{"tl", "tls"},
		{"xxs", NULL},
		{"plugindir", "plugin_dir"},
		{"plugin", NULL},
		{"di", "id"},
		{"x", NULL},
		{"", NULL},
		{"socket", NULL},
		{"tls", "tls"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *found = closest(cases[i].typed, words, ARRAY_SIZE(words));

		if (cases[i].meant)
			assert_string_equal(found ? found : "nothing", cases[i].meant);
		else if (found)
			fail_msg("'%s' found '%s'", cases[i].typed, found);
	}
}

TEST(words_past_the_limit_are_near_nothing)
{
	char word[66];
	const char *candidate = word;

	memset(word, 'a', sizeof(word));
	word[64] = '\0';
	assert_ptr_equal(closest(word, &candidate, 1), word);
	word[64] = 'a';
	word[65] = '\0';
	assert_null(closest(word, &candidate, 1));
	assert_null(closest("aaa", &candidate, 1));
	assert_null(closest("aaa", NULL, 0));
}
