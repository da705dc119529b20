/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "rpc/bearer.h"
#include "rpc/request_head.h"

static ssize_t read_text(const char *text)
{
	return bearer_read((const uint8_t *)text, strlen(text));
}

TEST(a_token_is_found_behind_its_scheme)
{
	assert_int_equal(read_text("Bearer abc"), 7);
	assert_int_equal(read_text("bearer abc"), 7);
	assert_int_equal(read_text("BEARER   a-._~+/9=="), 9);
}

TEST(every_byte_of_a_token_is_taken_and_no_other)
{
	static const char bytes[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/";

	for (int c = 0; c <= UINT8_MAX; c++) {
		const uint8_t byte = (uint8_t)c;

		assert_int_equal(bearer_is_token(&byte, 1), memchr(bytes, c, sizeof(bytes) - 1) != NULL);
	}
}

TEST(a_malformed_token_is_refused)
{
	static const char *const values[] = {
		"",	    "Bearer",	  "Bearer ",   "Bearer a b",   "Bearer a ",  "Basic YTpi",     "abc",
		"Bearer =", "Bearer a=b", "Bearerabc", "Bearer \"a\"", "Bearer a,b", "Bearer \xc3\xa9"};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		assert_msg(read_text(values[i]) == -EINVAL, "'%s' is taken", values[i]);
	assert_int_equal(bearer_read((const uint8_t *)"Bearer a\0b", 10), -EINVAL);
}

TEST(a_token_may_be_as_long_as_the_limit_and_no_longer)
{
	uint8_t bytes[BEARER_MAX + 1];

	memset(bytes, 't', sizeof(bytes));
	assert_true(bearer_is_token(bytes, BEARER_MAX));
	assert_false(bearer_is_token(bytes, BEARER_MAX + 1));
	assert_false(bearer_is_token(bytes, 0));
}

struct field {
	const char *name, *value;
};

static enum status check(const struct field *fields, struct request_head *head, int *ret_http,
			 struct error *err)
{
	static const struct field call[] = {{":method", "POST"},
					    {":scheme", "http"},
					    {":path", "/a.B/C"},
					    {"content-type", "application/grpc"},
					    {NULL, NULL}};

	*head = (struct request_head){0};
	for (const struct field *f = call; f->name; f++)
		request_head_add(head, (const uint8_t *)f->name, strlen(f->name), (const uint8_t *)f->value,
				 strlen(f->value));
	for (const struct field *f = fields; f->name; f++)
		request_head_add(head, (const uint8_t *)f->name, strlen(f->name), (const uint8_t *)f->value,
				 strlen(f->value));
	return request_head_check(head, ret_http, err);
}

TEST(both_headers_carry_the_token_of_a_request)
{
	static const struct field rows[][3] = {
		{{"authorization", "Bearer s3cret"}, {NULL, NULL}},
		{{"x-nomad-token", "s3cret"}, {NULL, NULL}},
		{{"x-nomad-token", "s3cret"}, {"authorization", "Bearer s3cret"}, {NULL, NULL}},
	};
	struct request_head head;
	struct error err;
	int http = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(check(rows[i], &head, &http, &err), STATUS_OK);
		assert_string_equal(head.token, "s3cret");
	}
}

TEST(tokens_that_cannot_be_read_or_differ_are_refused_without_being_shown)
{
	static const struct field rows[][3] = {
		{{"authorization", "Basic s3cret"}, {NULL, NULL}},
		{{"x-nomad-token", "s3cret s3cret"}, {NULL, NULL}},
		{{"x-nomad-token", ""}, {NULL, NULL}},
		{{"x-nomad-token", "s3cret"}, {"authorization", "Bearer s3cret2"}, {NULL, NULL}},
	};
	struct request_head head;
	int http = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct error err = {0};

		assert_int_equal(check(rows[i], &head, &http, &err), STATUS_UNAUTHENTICATED);
		assert_error(http, 401, err, "Bearer");
		assert_null(strstr(err.msg, "s3cret"));
	}
}
