/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that people type, over HTTP/2 and HTTP/1.1. */

#include "raw.h"

#include "rpc/server_internal.h"

static void on_text(struct rpc_call *call, void *userdata)
{
	struct error err;

	if (userdata && ((struct world *)userdata)->answer_bytes == 0)
		rpc_call_reply_text(call, "text/plain; version=0.0.4", "volumes 1\n");
	else
		rpc_call_fail(call, (error_set(&err, STATUS_PERMISSION_DENIED, 0, "not for you"), &err));
}

static const struct rpc_route routes[] = {
	ROW(.method = "GET", .pattern = "/v1/volume/csi/{id}", .service = "holdfast.v1.Volumes",
	    .call = "Get", .index = "index"),
	{.method = "PUT", .pattern = "/v1/volume/csi/{id}", .service = "holdfast.v1.Volumes", .call = "Get"},
	{.method = "POST", .pattern = "/v1/get", .service = "holdfast.v1.Volumes", .call = "Get"},
	ROW(.method = "POST", .pattern = "/Any.Get", .service = "holdfast.v1.Volumes", .call = "Get",
	    .takes_any_type = true, .error_name = "Err"),
	{.method = "GET", .pattern = "/v1/plugins", .service = "holdfast.v1.Plugins", .call = "List"},
	{.method = "GET", .pattern = "/v1/expand", .service = "holdfast.v1.Volumes", .call = "Expand"},
	{.method = "GET", .pattern = "/metrics", .text = on_text},
};

static int setup(void **state)
{
	struct world *world;

	if (world_setup(state) != 0)
		return -1;
	world = *state;
	rpc_server_set_routes(world->server, routes, ARRAY_SIZE(routes));
	return 0;
}

/* One request and what its answer has to hold; each of the texts may be NULL. */
struct row {
	const char *method, *target;
	const char *type; /* of the body */
	const char *body, *status, *header, *text;
	bool is_of_page;
};

static const struct row rows[] = {
	{"GET", "/v1/volume/csi/db", NULL, NULL, "200", NULL, "\"id\":\"db\""},
	{"GET", "/v1/volume/csi/db?pretty", NULL, NULL, "200", NULL, "    \"id\": \"db\",\n"},
	{"GET", "/v1/volume/csi/d%20b?why&index=1", NULL, NULL, "200", NULL, "\"id\":\"d b\""},
	{"GET", "/v1/volume/csi/db", NULL, NULL, "200", "x-holdfast-index: 0", NULL},
	{"GET", "/v1/volume/csi/db", NULL, NULL, "200", "x-nomad-index: 0", NULL},
	{"PUT", "/v1/volume/csi/db", "application/json", "{\"why\": true}", "200", NULL, "\"id\":\"db\""},
	{"PUT", "/v1/volume/csi/db", NULL, NULL, "200", NULL, "\"id\":\"db\""},
	{"POST", "/v1/get", "application/json", "{\"id\": \"db\"}", "200", NULL, "\"id\":\"db\""},
	{"POST", "/Any.Get", "application/vnd.x+json", "{\"id\": \"db\"}", "200", NULL, "\"id\":\"db\""},
	{"POST", "/Any.Get", NULL, "{\"id\": \"db\"}", "200", NULL, "\"id\":\"db\""},
	{"POST", "/v1/get?id=db", NULL, NULL, "200", NULL, "\"id\":\"db\""},
	{"GET", "/metrics", NULL, NULL, "200", "content-type: text/plain; version=0.0.4", "volumes 1\n"},
	/* refusals */
	{"POST", "/Any.Get", "text/plain", "{", "400", NULL, "{\"Err\":\"the body is no JSON"},
	{"POST", "/Any.Get", NULL, "{\"id\": \"missing\"}", "404", NULL, "{\"Err\":\""},
	{"GET", "/v1/volume/csi/missing", NULL, NULL, "404", NULL, "\"code\":\"not_found\""},
	{"GET", "/v1/volume/csi/db?type=csi", NULL, NULL, "400", NULL, "\\\"type\\\""},
	{"GET", "/v1/volume/csi/db%", NULL, NULL, "400", NULL, "the id in the path"},
	{"GET", "/v1/volume/csi/db", "application/json", "{}", "400", NULL, "no body"},
	{"PUT", "/v1/volume/csi/db", "application/x-www-form-urlencoded", "{}", "415", NULL,
	 "application/json"},
	{"PUT", "/v1/volume/csi/db", NULL, "{}", "415", NULL, "application/json"},
	/* of a page of any site: a form, a fetch() without a body, and what needs the server's consent */
	{"POST", "/v1/get?id=db", "application/x-www-form-urlencoded", NULL, "415", NULL, "web page", true},
	{"POST", "/v1/get?id=db", NULL, NULL, "415", NULL, "web page", true},
	{"POST", "/v1/get?id=db", "application/json", NULL, "200", NULL, "\"id\":\"db\"", true},
	{"GET", "/v1/volume/csi/db", NULL, NULL, "200", NULL, "\"id\":\"db\"", true},
	{"DELETE", "/v1/volume/csi/db", NULL, NULL, "405", "allow: GET, PUT\n", "takes GET, PUT"},
	{"GET", "/v1/get", NULL, NULL, "405", "allow: POST\n", NULL},
	{"POST", "/metrics", "application/json", "{}", "405", "allow: GET\n", NULL},
	/* the text that is quoted here is cut within a character */
	{"PUT", "/v1/volume/csi/db", "application/json", "{\"e\":{\"\\\xe3\x9e\xb9\xea\x8a\x9e\":\"k[\"}}",
	 "400", NULL, "the body is no JSON"},
	{"POST", "/Any.Get", "application/json", "{\"e\":{\"\\\xe3\x9e\xb9\xea\x8a\x9e\":\"k[\"}}", "400",
	 NULL, "{\"Err\":\"the body is no JSON"},
	{"GET", "/metrics?x", NULL, NULL, "400", NULL, "\\\"x\\\""},
	{"GET", "/v1/volume", NULL, NULL, "404", NULL, "nothing at /v1/volume"},
	{"POST", "/v1/volume", NULL, NULL, "404", NULL, "nothing at /v1/volume"},
	{"GET", "/", NULL, NULL, "404", NULL, "nothing at /"},
	{"GET", "/favicon.ico", NULL, NULL, "404", NULL, "favicon"},
	{"GET", "/holdfast.v1.Volumes/Get", NULL, NULL, "405", "allow: POST\n", NULL},
	{"POST", "/holdfast.v1.Volumes/Nope", "application/json", "{}", "501", NULL, "Nope"},
	{"GET", "/v1/plugins", NULL, NULL, "501", NULL, "/holdfast.v1.Plugins/List"},
	{"GET", "/v1/expand", NULL, NULL, "501", NULL, "/holdfast.v1.Volumes/Expand"},
};

static bool has_line(const char *headers, const char *line)
{
	size_t n = strlen(line);

	for (const char *at = strstr(headers, line); at; at = strstr(at + 1, line))
		if ((at == headers || at[-1] == '\n') &&
		    (line[n - 1] == '\n' || at[n] == '\n' || at[n] == '\r'))
			return true;
	return false;
}

#define CASE(name) TEST_ON(name, struct world, world, setup, world_teardown)

CASE(every_request_over_http2_gets_its_answer)
{
	struct raw raw;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		struct raw_field fields[7] = {
			{":method", row->method}, {":scheme", "http"}, {":path", row->target}};
		struct raw_request request = {.fields = fields, .body = row->body ? row->body : ""};
		struct raw_answer answer;
		char status[32];

		request.body_len = strlen(request.body);
		if (row->type)
			fields[3] = (struct raw_field){"content-type", row->type};
		if (row->is_of_page)
			fields[row->type ? 4 : 3] = (struct raw_field){"origin", "https://a.example"};
		raw_open(&raw, world, true);
		raw_call(&raw, &request, &answer);
		(void)str_format(status, sizeof(status), ":status: %s", row->status);
		if (!has_line(answer.headers, status) ||
		    (row->header && !has_line(answer.headers, row->header)) ||
		    (row->text && !strstr(answer.body, row->text)))
			fail_msg("%s %s: %s%s", row->method, row->target, answer.headers, answer.body);
		raw_close(&raw);
	}
}

CASE(every_request_over_http1_gets_the_same_answer)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		const char *body = row->body ? row->body : "";
		char request[512], line[64];
		cleanup(raw_close) struct raw raw;
		int n;

		n = str_format(request, sizeof(request),
			       "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n%s%s%s%s\r\n%s",
			       row->method, row->target, strlen(body),
			       row->is_of_page ? "Origin: null\r\n" : "", row->type ? "Content-Type: " : "",
			       row->type ? row->type : "", row->type ? "\r\n" : "", body);
		assert_true(n > 0);
		raw_open(&raw, world, false);
		assert_int_equal(raw_send(&raw, request, (size_t)n), n);
		(void)str_format(line, sizeof(line), "HTTP/1.1 %s ", row->status);
		raw_expect(&raw, line);
		if (row->header) {
			(void)str_format(line, sizeof(line), "%.*s\r\n", (int)strcspn(row->header, "\n"),
					 row->header);
			raw_expect(&raw, line);
		}
		if (row->text)
			raw_expect(&raw, row->text);
	}
}

CASE(a_route_with_text_may_fail_like_a_call)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	cleanup(raw_close) struct raw raw;

	world->answer_bytes = 1;
	raw_open(&raw, world, false);
	(void)raw_send(&raw, request, strlen(request));
	raw_expect(&raw, "HTTP/1.1 403 ");
	raw_expect(&raw, "\"code\":\"permission_denied\"");
}

CASE(the_token_comes_with_an_address_too)
{
	static const char request[] =
		"GET /v1/volume/csi/hold HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s3cret\r\n\r\n";
	static const char bad[] =
		"GET /v1/volume/csi/db HTTP/1.1\r\nHost: x\r\nAuthorization: Basic s3cret\r\n\r\n";
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, false);
	(void)raw_send(&raw, request, strlen(request));
	world_run_until_count(world, &world->n_held, 1);
	assert_string_equal(rpc_call_token(world->held[0]), "s3cret");
	world_answer(TAKE_PTR(world->held[0]), "db");
	raw_expect(&raw, "\"id\":\"db\"");
	raw_close(&raw);
	raw_open(&raw, world, false);
	(void)raw_send(&raw, bad, strlen(bad));
	raw_expect(&raw, "HTTP/1.1 401 ");
	assert_null(strstr(raw.text, "s3cret"));
}

CASE(grpc_has_no_addresses)
{
	static const struct raw_field fields[] = RAW_POST("/v1/get", "application/grpc");
	struct raw_answer answer;
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, true);
	raw_call(&raw, &(struct raw_request){.fields = fields}, &answer);
	assert_true(has_line(answer.headers, "grpc-status: 12"));
}

CASE(an_address_of_the_largest_size_is_answered_and_one_byte_more_is_not)
{
	for (size_t over = 0; over <= 1; over++) {
		char request[REQUEST_PATH_MAX + 64], target[REQUEST_PATH_MAX + 2];
		cleanup(raw_close) struct raw raw;
		int n;

		memset(target, 'x', sizeof(target));
		memcpy(target, "/v1/volume/csi/", strlen("/v1/volume/csi/"));
		target[REQUEST_PATH_MAX + over] = '\0';
		n = str_format(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target);
		raw_open(&raw, world, false);
		assert_int_equal(raw_send(&raw, request, (size_t)n), n);
		raw_expect(&raw, over ? "HTTP/1.1 414 " : "HTTP/1.1 200 ");
	}
}
