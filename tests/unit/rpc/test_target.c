/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "rpc/target.h"

TEST(a_query_is_taken_apart_and_decoded)
{
	struct target target;
	struct error err;

	assert_int_equal(target_read("/v1/volumes?prefix=a%2Fb+c&&why&x=1=2&y=", &target, &err), STATUS_OK);
	assert_int_equal(target.n_params, 4);
	assert_string_equal(target.params[0].name, "prefix");
	assert_string_equal(target.params[0].value, "a/b c");
	assert_string_equal(target.params[1].name, "why");
	assert_string_equal(target.params[1].value, "");
	assert_string_equal(target.params[2].value, "1=2");
	assert_string_equal(target.params[3].value, "");
	assert_int_equal(target_path_length("/v1/volumes?a"), 11);
	assert_int_equal(target_read("/v1/volumes", &target, &err), STATUS_OK);
	assert_int_equal(target.n_params, 0);
	assert_int_equal(target_read("/v1/volumes?", &target, &err), STATUS_OK);
	assert_int_equal(target.n_params, 0);
}

TEST(a_broken_query_is_refused_with_the_number_of_its_parameter)
{
	static const char *const queries[] = {"/?a&b=%",   "/?a&b=%4",	"/?a&b=%4g", "/?a&b=%00",
					      "/?a&%zz=1", "/?a&=1",	"/?a&b=%ff", "/?a&b=%c3",
					      "/?a&b=%+1", "/?a&b=%-1", "/?a&b=% 1", "/?a&b=%\xc3\xa9"};

	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		struct target target;
		struct error err;

		if (target_read(queries[i], &target, &err) != STATUS_INVALID_ARGUMENT)
			fail_msg("%s is read", queries[i]);
		assert_non_null(strstr(err.msg, "parameter 2 "));
	}
}

TEST(an_escape_ends_where_the_text_does)
{
	char text[8];

	assert_int_equal(percent_decode(text, "%41", 3, false), 1);
	assert_string_equal(text, "A");
	assert_int_equal(percent_decode(text, "%41", 2, false), -EINVAL);
	assert_int_equal(percent_decode(text, "a+b", 3, false), 3);
	assert_string_equal(text, "a+b");
}

TEST(a_query_may_have_as_many_parameters_as_the_limit_and_no_more)
{
	char text[2 * TARGET_PARAMS_MAX + 4];
	struct target target;
	struct error err;

	text[0] = '?';
	for (size_t i = 0; i < TARGET_PARAMS_MAX; i++)
		(void)memcpy(text + 1 + 2 * i, "a&", 3);
	assert_int_equal(target_read(text, &target, &err), STATUS_OK);
	assert_int_equal(target.n_params, TARGET_PARAMS_MAX);
	text[1 + 2 * TARGET_PARAMS_MAX] = 'a';
	text[2 + 2 * TARGET_PARAMS_MAX] = '\0';
	assert_int_equal(target_read(text, &target, &err), STATUS_INVALID_ARGUMENT);
}

TEST(a_query_that_fills_the_whole_path_fits)
{
	static char text[REQUEST_PATH_MAX + 1];
	struct target target;
	struct error err;

	memset(text, 'x', REQUEST_PATH_MAX);
	text[0] = '?';
	assert_int_equal(target_read(text, &target, &err), STATUS_OK);
	assert_int_equal(strlen(target.params[0].name), REQUEST_PATH_MAX - 1);
	text[REQUEST_PATH_MAX - 1] = '=';
	assert_int_equal(target_read(text, &target, &err), STATUS_OK);
	assert_int_equal(strlen(target.params[0].name), REQUEST_PATH_MAX - 2);
	assert_string_equal(target.params[0].value, "");
}

TEST(a_path_fits_a_pattern_segment_by_segment)
{
	static const struct row {
		const char *pattern, *path;
		bool fits;
	} rows[] = {
		{"/v1/volumes", "/v1/volumes", true},
		{"/v1/volumes", "/v1/volume", false},
		{"/v1/volumes", "/v1/volumes2", false},
		{"/v1/volumes", "/v1/volumes/", false},
		{"/v1/volumes", "/v1//volumes", false},
		{"/v1/volumes", "v1/volumes", false},
		{"/v1/volumes", "/V1/volumes", false},
		{"/v1/volumes", "", false},
		{"/v1/volumes", "/", false},
		{"/v1/volumes", "/v1", false},
		{"/v1/volume/csi/{id}", "/v1/volume/csi/db", true},
		{"/v1/volume/csi/{id}", "/v1/volume/csi/", false},
		{"/v1/volume/csi/{id}", "/v1/volume/csi", false},
		{"/v1/volume/csi/{id}", "/v1/volume/csi/a/b", false},
		{"/v1/volume/csi/{id}", "/v1/volume/csi/a%2fb", true},
		{"/v1/volume/csi/{id}/create", "/v1/volume/csi/db/create", true},
		{"/v1/volume/csi/{id}/create", "/v1/volume/csi/db/create/", false},
		{"/v1/volume/csi/{id}/create", "/v1/volume/csi//create", false},
		{"/v1/volume/csi/{id}/create", "/v1/volume/csi/db", false},
		{"/metrics", "/metrics", true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pattern_match match;

		if (pattern_match(rows[i].pattern, rows[i].path, strlen(rows[i].path), &match) !=
		    rows[i].fits)
			fail_msg("%s and %s", rows[i].pattern, rows[i].path);
	}
}

TEST(segments_in_braces_are_reported_by_name)
{
	static const char path[] = "/a/one/b/two%20x?c";
	struct pattern_match match;

	assert_true(pattern_match("/a/{volume.id}/b/{node}", path, target_path_length(path), &match));
	assert_int_equal(match.n, 2);
	assert_int_equal(match.fields[0].name_len, strlen("volume.id"));
	assert_memory_equal(match.fields[0].name, "volume.id", strlen("volume.id"));
	assert_int_equal(match.fields[0].value_len, 3);
	assert_memory_equal(match.fields[0].value, "one", 3);
	assert_int_equal(match.fields[1].value_len, strlen("two%20x"));
}
