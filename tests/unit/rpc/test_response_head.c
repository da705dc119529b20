/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "rpc/response_head.h"

struct field {
	const char *name, *value;
};

static void collect(struct response_head *head, const struct field *fields)
{
	*head = (struct response_head){0};
	for (; fields->name; fields++)
		response_head_add(head, (const uint8_t *)fields->name, strlen(fields->name),
				  (const uint8_t *)fields->value, strlen(fields->value));
}

TEST(answers_of_the_usual_servers_are_understood)
{
	static const struct row {
		struct field fields[6];
		enum status status;
		const char *text; /* in the message */
	} rows[] = {
		{{{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "0"}},
		 STATUS_OK,
		 ""},
		{{{":status", "200"}, {"grpc-status", "0"}, {"grpc-message", "OK"}}, STATUS_OK, ""},
		{{{":status", "200"}, {"grpc-status", "0"}, {"grpc-message", ""}}, STATUS_OK, ""},
		{{{":status", "200"}, {"grpc-status", "5"}, {"grpc-message", "no%20such"}},
		 STATUS_NOT_FOUND,
		 "no such"},
		{{{":status", "200"}, {"grpc-message", "m"}, {"grpc-status", "12"}},
		 STATUS_UNIMPLEMENTED,
		 "m"},
		{{{":status", "200"}, {"grpc-status", "12"}},
		 STATUS_UNIMPLEMENTED,
		 "S/M: answered UNIMPLEMENTED"},
		{{{":status", "415"}, {"content-type", "application/grpc"}, {"grpc-status", "3"}},
		 STATUS_INVALID_ARGUMENT,
		 "INVALID_ARGUMENT"},
		{{{":status", "503"}, {"content-type", "text/html"}}, STATUS_UNAVAILABLE, "503"},
		{{{":status", "404"}}, STATUS_UNIMPLEMENTED, "404"},
		{{{":status", "20x"}}, STATUS_UNKNOWN, "0"},
		{{{":status", "200"}}, STATUS_UNKNOWN, "without a status"},
		{{{":status", "200"}, {"grpc-status", "nonsense"}}, STATUS_UNKNOWN, "UNKNOWN"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct response_head head;
		struct error err = {0};

		collect(&head, rows[i].fields);
		assert_int_equal(response_head_status(&head, "S/M", &err), rows[i].status);
		assert_error(err.status, rows[i].status, err, rows[i].text);
	}
}

TEST(only_grpc_content_types_count)
{
	static const struct row {
		const char *value;
		bool is_grpc;
	} rows[] = {
		{"application/grpc", true}, {"application/grpc+proto", true},
		{"Application/gRPC", true}, {"application/grp", false},
		{"text/html", false},	    {"", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct response_head head;

		collect(&head, (const struct field[]){{"content-type", rows[i].value}, {NULL, NULL}});
		assert_int_equal(head.is_grpc, rows[i].is_grpc);
	}
}

TEST(trailers_larger_than_the_limit_are_an_error_of_their_own)
{
	static char value[RESPONSE_HEADERS_MAX];
	struct response_head head;
	struct error err;

	memset(value, 'v', sizeof(value));
	for (size_t over = 0; over <= 1; over++) {
		collect(&head,
			(const struct field[]){{":status", "200"}, {"grpc-status", "0"}, {NULL, NULL}});
		response_head_add(&head, (const uint8_t *)"grpc-message", 12, (const uint8_t *)value,
				  RESPONSE_HEADERS_MAX - head.bytes - 12 - 32 + over);
		assert_int_equal(response_head_status(&head, "S/M", &err),
				 over ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
		assert_int_equal(strlen(head.message), ERROR_MSG_MAX - 1);
	}
}
