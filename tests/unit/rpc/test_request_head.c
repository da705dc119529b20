/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "rpc/request_head.h"

enum { FIELDS_MAX = 8 };

/* A header block, ended by a NULL name. */
struct field {
	const char *name, *value;
};

static void collect(struct request_head *head, const struct field *fields)
{
	*head = (struct request_head){0};
	for (; fields->name; fields++)
		request_head_add(head, (const uint8_t *)fields->name, strlen(fields->name),
				 (const uint8_t *)fields->value, strlen(fields->value));
}

#define PSEUDO                                    \
	{":method", "POST"}, {":scheme", "http"}, \
	{                                         \
		":path", "/a.B/C"                 \
	}

TEST(a_call_is_accepted_as_clients_send_it)
{
	static const struct row {
		struct field fields[FIELDS_MAX];
		enum request_kind kind;
		uint64_t timeout_us;
	} rows[] = {
		{{PSEUDO, {"content-type", "application/grpc"}}, REQUEST_GRPC, 0},
		{{PSEUDO, {"content-type", "application/grpc+proto"}}, REQUEST_GRPC, 0},
		{{PSEUDO, {"content-type", "Application/GRPC; x=y"}}, REQUEST_GRPC, 0},
		{{PSEUDO, {"content-type", "application/json"}}, REQUEST_JSON, 0},
		{{PSEUDO, {"content-type", "application/json; charset=utf-8"}}, REQUEST_JSON, 0},
		/* old clients put the socket's path here */
		ROW({{":authority", "/run/x.sock"}, PSEUDO, {"content-type", "application/grpc"}},
		    REQUEST_GRPC, 0),
		ROW({PSEUDO, {"content-type", "application/grpc"}, {"grpc-timeout", "20m"}}, REQUEST_GRPC,
		    20000),
		ROW({PSEUDO, {"content-type", "application/json"}, {"connect-timeout-ms", "3"}}, REQUEST_JSON,
		    3000),
		ROW({PSEUDO, {"content-type", "application/grpc"}, {"grpc-encoding", "identity"}},
		    REQUEST_GRPC, 0),
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct request_head head;
		struct error err;
		int http = 0;

		collect(&head, rows[i].fields);
		assert_false(request_head_is_malformed(&head));
		assert_int_equal(request_head_check(&head, &http, &err), STATUS_OK);
		assert_string_equal(head.path, "/a.B/C");
		assert_int_equal(head.kind, rows[i].kind);
		assert_int_equal(head.has_timeout, rows[i].timeout_us > 0);
		assert_int_equal(head.timeout_us, rows[i].timeout_us);
	}
}

TEST(a_request_that_is_no_call_gets_its_own_status)
{
	static const struct row {
		struct field fields[FIELDS_MAX];
		int http;
		enum status status;
	} rows[] = {
		ROW({{":method", "GET"},
		     {":scheme", "http"},
		     {":path", "/"},
		     {"content-type", "application/grpc"}},
		    405, STATUS_INVALID_ARGUMENT),
		ROW({{":method", "POSTPOSTPOSTPOST"},
		     {":scheme", "http"},
		     {":path", "/"},
		     {"content-type", "application/json"}},
		    405, STATUS_INVALID_ARGUMENT),
		{{PSEUDO}, 415, STATUS_INVALID_ARGUMENT},
		{{PSEUDO, {"content-type", "text/html"}}, 415, STATUS_INVALID_ARGUMENT},
		{{PSEUDO, {"content-type", "application/grpc-web"}}, 415, STATUS_INVALID_ARGUMENT},
		{{PSEUDO, {"content-type", "application/grpc+json"}}, 415, STATUS_INVALID_ARGUMENT},
		{{PSEUDO, {"content-type", "application/jsonx"}}, 415, STATUS_INVALID_ARGUMENT},
		{{PSEUDO, {"content-type", "application/jso"}}, 415, STATUS_INVALID_ARGUMENT},
		{{PSEUDO, {"content-type", ""}}, 415, STATUS_INVALID_ARGUMENT},
		ROW({PSEUDO, {"content-type", "application/grpc"}, {"grpc-encoding", "gzip"}}, 501,
		    STATUS_UNIMPLEMENTED),
		ROW({PSEUDO, {"content-type", "application/json"}, {"content-encoding", "br"}}, 501,
		    STATUS_UNIMPLEMENTED),
		ROW({PSEUDO, {"content-type", "application/grpc"}, {"grpc-timeout", "123456789S"}}, 400,
		    STATUS_INVALID_ARGUMENT),
		ROW({PSEUDO, {"content-type", "application/json"}, {"connect-timeout-ms", "12345678901"}},
		    400, STATUS_INVALID_ARGUMENT),
		ROW({PSEUDO, {"content-type", "application/json"}, {"connect-timeout-ms", "-1"}}, 400,
		    STATUS_INVALID_ARGUMENT),
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct request_head head;
		struct error err = {0};
		int http = 0;

		collect(&head, rows[i].fields);
		assert_false(request_head_is_malformed(&head));
		assert_int_equal(request_head_check(&head, &http, &err), rows[i].status);
		assert_int_equal(http, rows[i].http);
		assert_int_equal(err.status, rows[i].status);
		assert_true(strlen(err.msg) > 10);
	}
}

TEST(pseudo_headers_that_are_missing_doubled_unknown_or_late_are_malformed)
{
	static const struct field blocks[][FIELDS_MAX] = {
		{{NULL, NULL}},
		{{":method", "POST"}, {":scheme", "http"}},
		{{":method", "POST"}, {":path", "/"}},
		{{":scheme", "http"}, {":path", "/"}},
		{PSEUDO, {":path", "/other"}},
		{PSEUDO, {":method", "POST"}},
		{PSEUDO, {":status", "200"}},
		{PSEUDO, {":", ""}},
		{{":method", "POST"}, {"te", "trailers"}, {":scheme", "http"}, {":path", "/"}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
		struct request_head head;

		collect(&head, blocks[i]);
		assert_true(request_head_is_malformed(&head));
	}
}

TEST(a_path_may_be_as_long_as_the_limit_and_no_longer)
{
	struct field fields[] = {{":method", "POST"},
				 {":scheme", "http"},
				 {":path", NULL},
				 {"content-type", "application/grpc"},
				 {NULL, NULL}};
	struct request_head head;
	struct error err;
	int http = 0;

	for (size_t n = REQUEST_PATH_MAX; n <= REQUEST_PATH_MAX + 1; n++) {
		cleanup_free char *path = NON_NULL(calloc(1, n + 1));

		memset(path, '/', n);
		fields[2].value = path;
		collect(&head, fields);
		if (n == REQUEST_PATH_MAX) {
			assert_int_equal(request_head_check(&head, &http, &err), STATUS_OK);
			assert_string_equal(head.path, path);
		} else {
			assert_int_equal(request_head_check(&head, &http, &err), STATUS_UNIMPLEMENTED);
			assert_int_equal(http, 414);
			assert_string_equal(head.path, "");
			assert_int_equal(request_head_check_form(&head, &http, &err), STATUS_UNIMPLEMENTED);
		}
	}
}

TEST(a_path_with_a_nul_inside_is_not_its_first_half)
{
	struct request_head head = {0};

	request_head_add(&head, (const uint8_t *)":path", 5, (const uint8_t *)"/a.B/C\0x", 8);
	assert_string_equal(head.path, "");
	assert_true(head.long_path);
}

TEST(header_lists_may_be_as_large_as_the_limit_and_no_larger)
{
	static const struct field fields[] = {PSEUDO, {"content-type", "application/grpc"}, {NULL, NULL}};
	static char value[REQUEST_HEADERS_MAX];
	struct request_head head;
	struct error err;
	int http = 0;

	memset(value, 'v', sizeof(value));
	for (size_t over = 0; over <= 1; over++) {
		size_t rest;

		collect(&head, fields);
		rest = REQUEST_HEADERS_MAX - head.bytes - strlen("x") - 32 + over;
		request_head_add(&head, (const uint8_t *)"x", 1, (const uint8_t *)value, rest);
		assert_int_equal(head.bytes, REQUEST_HEADERS_MAX + over);
		assert_int_equal(request_head_check(&head, &http, &err),
				 over ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
		assert_int_equal(request_head_check_form(&head, &http, &err),
				 over ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
	}
	assert_int_equal(http, 431);
}

TEST(secrets_in_a_header_are_bounded_and_come_once)
{
	char longest[REQUEST_SECRETS_MAX + 2];
	struct request_head head;
	struct error err;
	int http = 0;

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	for (int over = 0; over < 2; over++) {
		const struct field fields[] = {
			PSEUDO, {"x-nomad-csi-secrets", longest + !over}, {NULL, NULL}};

		collect(&head, fields);
		assert_int_equal(request_head_check_form(&head, &http, &err),
				 over ? STATUS_INVALID_ARGUMENT : STATUS_OK);
		assert_int_equal(strlen(head.secrets), over ? 0 : REQUEST_SECRETS_MAX);
	}
	collect(&head, (const struct field[]){PSEUDO,
					      {"x-nomad-csi-secrets", "a=hunter2"},
					      {"x-nomad-csi-secrets", "b=2"},
					      {NULL, NULL}});
	assert_int_equal(request_head_check_form(&head, &http, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(http, 400);
	assert_null(strstr(err.msg, "hunter2"));
}
