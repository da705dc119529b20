/* SPDX-License-Identifier: Apache-2.0 */
#include "raw.h"
#include "tls_world.h"

#include <jansson.h>
#include <sys/epoll.h>
#include <sys/wait.h>

static const struct raw_field json_get[] = RAW_POST("/holdfast.v1.Volumes/Get", "application/json");

/* The text at @key of the answer's object; "" when there is none. */
static const char *text_of(const char *body, const char *key)
{
	static char text[2 * ERROR_MSG_MAX];
	json_error_t err;
	json_t *json = json_loads(body, 0, &err);
	const char *value;

	assert_msg(json, "no JSON: %s", body);
	value = json_string_value(json_object_get(json, key));
	assert_int_equal(str_copy(text, sizeof(text), value ? value : ""), 0);
	json_decref(json);
	return text;
}

static void post(struct raw *raw, const char *body, struct raw_answer *answer)
{
	raw_call(raw, &(struct raw_request){.fields = json_get, .body = body, .body_len = strlen(body)},
		 answer);
}

RAW_TEST(a_call_is_answered_in_json_with_the_names_of_the_proto_file)
{
	struct raw_answer answer;

	post(raw, "{\"id\": \"db\"}", &answer);
	assert_non_null(strstr(answer.headers, ":status: 200\n"));
	assert_non_null(strstr(answer.headers, "content-type: application/json\n"));
	assert_non_null(strstr(answer.body, "\"id\":\"db\""));
	assert_non_null(strstr(answer.body, "\"external_id\":\"\"")); /* defaults are shown */
	assert_null(strstr(answer.headers, "grpc-status"));
}

RAW_TEST(errors_have_connects_code_and_status_and_the_whole_message)
{
	struct raw_answer answer;

	post(raw, "{\"id\": \"missing\"}", &answer);
	assert_non_null(strstr(answer.headers, ":status: 404\n"));
	assert_string_equal(text_of(answer.body, "code"), "not_found");
	assert_string_equal(text_of(answer.body, "message"), "volume \"missing\" is 100% away\nna\xc3\xafve");
	post(raw, "{\"id\": \"long\"}", &answer);
	assert_non_null(strstr(answer.headers, ":status: 429\n"));
	assert_int_equal(strlen(text_of(answer.body, "message")), ERROR_MSG_MAX - 1);
}

RAW_TEST(requests_that_are_no_json_or_no_message_report_where)
{
	static const struct row {
		const char *body, *text;
	} rows[] = {
		{"", "empty"},
		{"{", "line 1"},
		{"{}x", "line 1"},
		{"\n\n[}", "line 3"},
		{"{\"id\": 1}", "id"},
		{"{\"nonsense\": 1}", "nonsense"},
		{"{\"id\": \"a\", \"id\": \"b\"}", "duplicate"},
		{"[]", ""},
		{"\"\xff\"", "0xff"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct raw_answer answer;

		post(raw, rows[i].body, &answer);
		assert_non_null(strstr(answer.headers, ":status: 400\n"));
		assert_string_equal(text_of(answer.body, "code"), "invalid_argument");
		assert_msg(strstr(text_of(answer.body, "message"), rows[i].text), "row %zu: %s", i,
			   answer.body);
	}
	assert_int_equal(world->n_calls, 0);
}

WORLD_TEST(deeply_nested_json_is_refused)
{
	enum { DEPTH = 60000 };
	struct raw_answer answer;
	char *body = NON_NULL(malloc(DEPTH + 1));
	cleanup(raw_close) struct raw raw;

	memset(body, '[', DEPTH);
	body[DEPTH] = '\0';
	raw_open(&raw, world, true);
	post(&raw, body, &answer);
	assert_non_null(strstr(answer.headers, ":status: 400\n"));
	free(body);
}

RAW_TEST(other_paths_kinds_and_methods_are_refused_with_their_status)
{
	static const struct row {
		struct raw_field fields[6];
		const char *status, *code, *text;
	} rows[] = {
		ROW({{":method", "POST"},
		     {":scheme", "http"},
		     {":path", "/a.B/C"},
		     {"content-type", "application/json"}},
		    ":status: 501\n", "unimplemented", "/a.B/C"),
		ROW({{":method", "POST"},
		     {":scheme", "http"},
		     {":path", "/holdfast.v1.Nodes/Session"},
		     {"content-type", "application/json"}},
		    ":status: 501\n", "unimplemented", "stream"),
		ROW({{":method", "GET"}, {":scheme", "http"}, {":path", "/v1/volumes"}}, ":status: 405\n",
		    "invalid_argument", "POST"),
		ROW({{":method", "POST"},
		     {":scheme", "http"},
		     {":path", "/"},
		     {"content-type", "text/plain"}},
		    ":status: 415\n", "invalid_argument", "application/json"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct raw_answer answer;

		raw_call(raw, &(struct raw_request){.fields = rows[i].fields}, &answer);
		assert_non_null(strstr(answer.headers, rows[i].status));
		assert_string_equal(text_of(answer.body, "code"), rows[i].code);
		assert_non_null(strstr(text_of(answer.body, "message"), rows[i].text));
	}
}

RAW_TEST(the_deadline_of_a_json_call_is_kept)
{
	static const struct raw_field fields[] =
		RAW_POST("/holdfast.v1.Volumes/Get", "application/json", {"connect-timeout-ms", "30"});
	static const char hold[] = "{\"id\": \"hold\"}";
	struct raw_answer answer;

	raw_call(raw, &(struct raw_request){.fields = fields, .body = hold, .body_len = strlen(hold)},
		 &answer);
	assert_non_null(strstr(answer.headers, ":status: 504\n"));
	assert_string_equal(text_of(answer.body, "code"), "deadline_exceeded");
	world_answer(TAKE_PTR(world->held[0]), "late");
	world_settle(world);
}

static void set_window(struct raw *raw, uint32_t size)
{
	const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, size};

	assert_int_equal(nghttp2_submit_settings(raw->session, NGHTTP2_FLAG_NONE, &entry, 1), 0);
	raw_flush(raw);
}

RAW_TEST(a_late_answer_does_not_mix_with_the_deadlines_error)
{
	static const struct raw_field fields[] =
		RAW_POST("/holdfast.v1.Volumes/Get", "application/json", {"connect-timeout-ms", "30"});
	static const char hold[] = "{\"id\": \"hold\"}";
	struct raw_answer answer;

	set_window(raw, 0); /* so that the error cannot be sent before the answer comes */
	raw_start(raw, &(struct raw_request){.fields = fields, .body = hold, .body_len = strlen(hold)},
		  &answer);
	while (answer.headers[0] == '\0')
		assert_true(sd_event_run(world->event, WORLD_CALL_US) > 0);
	world_answer(TAKE_PTR(world->held[0]), "late");
	world_settle(world);
	set_window(raw, 65535);
	world_run_until(world, &answer.done);
	assert_non_null(strstr(answer.headers, ":status: 504\n"));
	assert_string_equal(text_of(answer.body, "code"), "deadline_exceeded");
	assert_null(strstr(answer.body, "late"));
}

RAW_TEST(an_error_that_is_no_utf8_is_still_an_error)
{
	static const char hold[] = "{\"id\": \"hold\"}";
	struct error err;
	struct raw_answer answer;

	raw_start(raw, &(struct raw_request){.fields = json_get, .body = hold, .body_len = strlen(hold)},
		  &answer);
	world_run_until_count(world, &world->n_held, 1);
	(void)error_set(&err, STATUS_INTERNAL, 0, "cut \xc3");
	rpc_call_fail(TAKE_PTR(world->held[0]), &err);
	world_run_until(world, &answer.done);
	assert_non_null(strstr(answer.headers, ":status: 500\n"));
	assert_string_equal(text_of(answer.body, "code"), "internal");
	assert_string_equal(text_of(answer.body, "message"), "cut ?");
}

static int setup_small(void **state)
{
	return world_setup_with(state, &(struct rpc_server_limits){.message_bytes = 1000});
}

/* A JSON request for the volume "db" of @n bytes. */
static char *padded_request(size_t n)
{
	static const char head[] = "{\"id\": \"db\"";
	char *body = NON_NULL(malloc(n + 1));

	memset(body, ' ', n);
	memcpy(body, head, strlen(head));
	body[n - 1] = '}';
	body[n] = '\0';
	return body;
}

TEST_ON(json_requests_have_the_limit_of_messages, struct world, world, setup_small, world_teardown)
{
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, true);
	for (size_t n = 1000; n <= 1001; n++) {
		char *body = padded_request(n);
		struct raw_answer answer;

		post(&raw, body, &answer);
		assert_non_null(strstr(answer.headers, n == 1000 ? ":status: 200\n" : ":status: 429\n"));
		free(body);
	}
}

struct curl {
	char out[4096];
	size_t n;
	bool ended;
};

static int on_curl_output(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct curl *curl = userdata;
	ssize_t n = read(fd, curl->out + curl->n, sizeof(curl->out) - 1 - curl->n);

	if (n > 0) {
		curl->n += (size_t)n;
		return 0;
	}
	curl->ended = true;
	return sd_event_source_set_enabled(source, SD_EVENT_OFF);
}

static void run_curl(struct world *world, const char *const *args, struct curl *curl)
{
	sd_event_source *io = NULL;
	int status = 0, fds[2];
	pid_t pid;

	*curl = (struct curl){.n = 0};
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)dup2(fds[1], 1);
		(void)dup2(fds[1], 2);
		(void)execvp("curl", (char *const *)(uintptr_t)args);
		_exit(127);
	}
	(void)close(fds[1]);
	assert_true(sd_event_add_io(world->event, &io, fds[0], EPOLLIN, on_curl_output, curl) >= 0);
	world_run_until(world, &curl->ended);
	(void)sd_event_source_disable_unref(io);
	(void)close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WEXITSTATUS(status) == 127) {
		print_message("curl is not installed\n");
		skip();
	}
}

TLS_TEST(curl_calls_over_tls_with_http2_and_http1)
{
	static const char *const versions[] = {"--http2", "--http1.1"};
	char url[128];

	(void)str_format(url, sizeof(url), "https://localhost:%u/holdfast.v1.Volumes/Get", tw->port);
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		const char *const args[] = {"curl",	"-sS",
					    "-i",	versions[i],
					    "--cacert", world_path(tw->world, "ca.crt"),
					    "--cert",	world_path(tw->world, "node.crt"),
					    "--key",	world_path(tw->world, "node.key"),
					    "-H",	"content-type: application/json",
					    "-d",	"{\"id\": \"db\"}",
					    url,	NULL};
		struct curl curl;

		run_curl(tw->world, args, &curl);
		assert_msg(strstr(curl.out, i == 0 ? "HTTP/2 200" : "HTTP/1.1 200") &&
				   strstr(curl.out, "\"id\":\"db\""),
			   "%s", curl.out);
		assert_string_equal(tw->world->peer.uri, NODE_URI);
	}
}

TLS_TEST(curl_calls_over_the_unix_socket)
{
	const char *const args[] = {"curl",
				    "-sS",
				    "--unix-socket",
				    tw->world->socket,
				    "-H",
				    "content-type: application/json",
				    "-d",
				    "{\"id\": \"missing\"}",
				    "http://localhost/holdfast.v1.Volumes/Get",
				    NULL};
	struct curl curl;

	run_curl(tw->world, args, &curl);
	assert_string_equal(text_of(curl.out, "code"), "not_found");
	assert_int_equal(tw->world->peer.uid, getuid());
}
