/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/str.h"
#include "rpc/enroll_line.h"

#define TOKEN "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define DIGEST "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

TEST(a_line_survives_a_round_trip)
{
	static const char text[] =
		"holdfast-enroll/1/prod/worker-3/" TOKEN "/" DIGEST "/claims:4656,[::1]:4657";
	char back[ENROLL_LINE_SIZE];
	struct enroll_line line;

	assert_int_equal(enroll_line_parse(text, &line, NULL), STATUS_OK);
	assert_string_equal(line.cluster, "prod");
	assert_string_equal(line.role, ENROLL_ROLE_NODE);
	assert_string_equal(line.name, "worker-3");
	assert_int_equal(line.n_servers, 2);
	assert_string_equal(line.servers[1].host, "::1");
	assert_int_equal(line.ca_sha256[0], 0xff);
	assert_int_equal(enroll_line_format(&line, back, NULL), STATUS_OK);
	assert_string_equal(back, text);
}

TEST(a_line_names_a_role_and_its_holder)
{
	static const char text[] = "holdfast-enroll/1/prod/operator:ann/" TOKEN "/" DIGEST "/claims:4656";
	char back[ENROLL_LINE_SIZE], identity[ENROLL_IDENTITY_SIZE];
	struct enroll_line line;

	assert_int_equal(enroll_line_parse(text, &line, NULL), STATUS_OK);
	assert_string_equal(enroll_line_identity(&line, identity), "operator/ann");
	assert_int_equal(enroll_line_format(&line, back, NULL), STATUS_OK);
	assert_string_equal(back, text);
}

TEST(a_line_that_is_cut_or_changed_is_refused_without_its_token)
{
	static const char *const texts[] = {
		"",
		"holdfast-enroll/2/prod/n/" TOKEN "/" DIGEST "/c:1",
		"holdfast-enroll/1/prod/n/" TOKEN "/" DIGEST,
		"holdfast-enroll/1/prod/n/" TOKEN "/" DIGEST "/",
		"holdfast-enroll/1/prod/n/" TOKEN "/" DIGEST "/c",
		"holdfast-enroll/1/prod/n/" TOKEN "/" DIGEST "0/c:1",
		"holdfast-enroll/1/prod/n/" TOKEN "0/" DIGEST "/c:1",
		"holdfast-enroll/1/prod/n/g" TOKEN "/" DIGEST "/c:1",
		"holdfast-enroll/1/prod/../" TOKEN "/" DIGEST "/c:1",
		"holdfast-enroll/1/pr od/n/" TOKEN "/" DIGEST "/c:1",
		"holdfast-enroll/1/prod/king:n/" TOKEN "/" DIGEST "/c:1",
		"holdfast-enroll/1/prod/node:n/" TOKEN "/" DIGEST "/c:1",
		"holdfast-enroll/1/prod/operator:/" TOKEN "/" DIGEST "/c:1",
		"holdfast-enroll/1/prod/operator:a:b/" TOKEN "/" DIGEST "/c:1",
		"holdfast-enroll/1//n/" TOKEN "/" DIGEST "/c:1",
		"holdfast-enroll/1/prod/n/" TOKEN "/" DIGEST "/c:1,evil\nHOLDFAST_TOKEN=stolen\"]\nx=1:1",
	};
	struct enroll_line line;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(enroll_line_parse(texts[i], &line, &err), STATUS_INVALID_ARGUMENT);
		assert_null(strstr(err.msg, "00112233"));
	}
}
