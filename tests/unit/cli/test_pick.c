/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "call/pick.h"

static const struct candidate volumes[] = {{.id = "db"}, {.id = "db2"}, {.id = "db-old"}, {.id = "web"}};

TEST(an_exact_match_wins_over_longer_ones)
{
	size_t found = 99;

	assert_int_equal(pick("volume", "db", volumes, 4, &found, NULL), STATUS_OK);
	assert_int_equal(found, 0);
	assert_int_equal(pick("volume", "db2", volumes, 4, &found, NULL), STATUS_OK);
	assert_int_equal(found, 1);
	/* wherever it stands */
	assert_ok(pick("volume", "db", (struct candidate[]){{.id = "db2"}, {.id = "db"}, {.id = "db3"}}, 3,
		       &found, NULL));
	assert_int_equal(found, 1);
}

TEST(the_only_beginning_is_meant)
{
	size_t found = 99;

	assert_int_equal(pick("volume", "w", volumes, 4, &found, NULL), STATUS_OK);
	assert_int_equal(found, 3);
	assert_int_equal(pick("volume", "db-", volumes, 4, &found, NULL), STATUS_OK);
	assert_int_equal(found, 2);
}

TEST(an_empty_prefix_matches_no_object)
{
	struct error err = {.msg = ""};
	size_t found = 99;

	assert_error(pick("volume", "", volumes, 1, &found, &err), STATUS_INVALID_ARGUMENT, err,
		     "the id of a volume is wanted");
	assert_int_equal(pick("volume", "", volumes, 0, &found, NULL), STATUS_INVALID_ARGUMENT);
	assert_int_equal(found, 99);
}

TEST(ambiguous_and_unmatched_prefixes_are_refused)
{
	struct error err = {.msg = ""};
	size_t found = 99;

	assert_int_equal(pick("volume", "d", volumes, 4, &found, &err), STATUS_FAILED_PRECONDITION);
	assert_string_equal(err.msg,
			    "more than one volume begins with 'd', give more of it: db, db2, db-old");
	assert_int_equal(pick("volume", "x", volumes, 4, &found, &err), STATUS_NOT_FOUND);
	assert_string_equal(err.msg, "no volume is called 'x' or begins with it");
	assert_int_equal(pick("volume", "x", NULL, 0, &found, &err), STATUS_NOT_FOUND);
	assert_int_equal(found, 99);
}

TEST(many_are_cut_short)
{
	struct candidate many[13];
	struct error err = {.msg = ""};
	size_t found;

	for (size_t i = 0; i < 13; i++)
		many[i] = (struct candidate){.id = "aa"};
	many[0].id = "ab";
	assert_int_equal(pick("node", "a", many + 2, 10, &found, &err), STATUS_FAILED_PRECONDITION);
	assert_null(strstr(err.msg, " and "));
	for (size_t i = 0; i < 13; i++)
		many[i].id = i % 2 ? "ab" : "ac";
	assert_error(pick("node", "a", many, 13, &found, &err), STATUS_FAILED_PRECONDITION, err,
		     " and 3 more");
}

TEST(the_same_id_in_two_namespaces_asks_for_the_namespace)
{
	static const struct candidate two[] = {{.id = "db", .namespace = "a"},
					       {.id = "db", .namespace = "b"},
					       {.id = "db2", .namespace = "a"}};
	struct error err = {.msg = ""};
	size_t found;

	assert_int_equal(pick("volume", "db", two, 3, &found, &err), STATUS_FAILED_PRECONDITION);
	assert_string_equal(err.msg, "more than one volume is called 'db', give --namespace: a/db, b/db");
	assert_int_equal(pick("volume", "db2", two, 3, &found, &err), STATUS_OK);
}
