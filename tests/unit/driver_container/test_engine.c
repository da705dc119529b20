/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of an engine that is away, hangs, lies or talks without end: a fake one on a unix socket. */
#include "engine.h"
#include "fake_engine.h"

#include "base/clock.h"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

static void *serve(void *userdata)
{
	static char junk[64 << 10];
	struct fake *fake = userdata;
	int fd = accept(fake->fd, NULL, NULL);
	char request[4096];

	if (fd < 0)
		return NULL;
	(void)recv(fd, request, sizeof(request), 0);
	if (fake->answer) {
		(void)send(fd, fake->answer, strlen(fake->answer), MSG_NOSIGNAL);
		memset(junk, 'x', sizeof(junk));
		for (size_t i = 0; i < fake->repeat; i++)
			if (send(fd, junk, sizeof(junk), MSG_NOSIGNAL) < 0)
				break;
	} else {
		while (recv(fd, request, sizeof(request), 0) > 0)
			;
	}
	(void)close(fd);
	return NULL;
}

struct said {
	sd_event *event;
	enum status status;
	char text[ERROR_MSG_MAX];
	int n;
};

static void on_done(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct said *said = userdata;
	const char *id = json_string_value(json_object_get(json, "Id"));

	said->n++;
	said->status = status;
	(void)snprintf(said->text, sizeof(said->text), "%s", err ? err->msg : id ? id : "");
	(void)sd_event_exit(said->event, 0);
}

static size_t answer_max;	   /* of the next request */
static const char *method = "GET"; /* likewise */

static struct said ask(const char *socket, uint64_t timeout_us)
{
	const struct engine_request request = {
		.method = method, .path = "/x", .timeout_us = timeout_us, .answer_max = answer_max};
	struct engine *engine = NULL;
	struct said said = {.n = 0};

	assert_true(sd_event_new(&said.event) >= 0);
	assert_int_equal(engine_new(said.event, socket, &engine, NULL), STATUS_OK);
	assert_int_equal(engine_send(engine, &request, on_done, &said, NULL, NULL), STATUS_OK);
	assert_int_equal(said.n, 0);
	assert_true(sd_event_loop(said.event) >= 0);
	assert_int_equal(said.n, 1);
	assert_int_equal(engine_n_calls(engine), 0);
	engine_free(engine);
	(void)sd_event_unref(said.event);
	return said;
}

struct row {
	const char *answer;
	enum status status;
	const char *text;
};

static void expect(const struct row *row)
{
	struct fake fake = {.answer = row->answer};
	struct said said;

	fake_begin(&fake, serve);
	said = ask(fake.path, 30 * USEC_PER_SEC);
	fake_end(&fake);
	assert_int_equal(said.status, row->status);
	assert_non_null(strstr(said.text, row->text));
}

TEST(each_answer_is_a_status)
{
	static const struct row answers[] = {
		{HEAD "Content-Length: 12\r\n\r\n{\"Id\":\"ab1\"}", STATUS_OK, "ab1"},
		{"HTTP/1.1 204 No Content\r\n\r\n", STATUS_OK, ""},
		{"HTTP/1.1 304 Not Modified\r\n\r\n", STATUS_OK, ""},
		{"HTTP/1.1 404 Not Found\r\nContent-Length: 17\r\n\r\n{\"message\":\"none\"}",
		 STATUS_NOT_FOUND, "404"},
		{"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n", STATUS_FAILED_PRECONDITION, "409"},
		{"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n",
		 STATUS_INTERNAL, "302"},
		{"HTTP/1.1 500 No\r\nContent-Length: 27\r\n\r\n{\"message\":\"a\\u001b[2Jb\\n\"}",
		 STATUS_FAILED_PRECONDITION, "a?[2Jb"},
		{HEAD "Content-Length: 5\r\n\r\nhello", STATUS_INTERNAL, "no JSON"},
		{HEAD "Content-Length: 900\r\n\r\n{\"Id\"", STATUS_UNAVAILABLE, "broke off"},
		{"SSH-2.0-nonsense\r\n", STATUS_UNAVAILABLE, "broke off"},
		{"", STATUS_UNAVAILABLE, "broke off"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
		expect(&answers[i]);
}

TEST(an_engine_that_talks_without_end_is_cut_off)
{
	struct fake fake = {.answer = HEAD "Transfer-Encoding: identity\r\n\r\n", .repeat = 1000};
	struct said said;

	fake_begin(&fake, serve);
	said = ask(fake.path, 60 * USEC_PER_SEC);
	fake_end(&fake);
	assert_int_equal(said.status, STATUS_INTERNAL);
	assert_non_null(strstr(said.text, "more than"));
}

TEST(a_path_is_described_in_the_head)
{
	static const struct row answers[] = {
		{HEAD "X-Docker-Container-Path-Stat: eyJJZCI6ImFiMSJ9\r\nContent-Length: 9\r\n\r\n",
		 STATUS_OK, "ab1"},
		{HEAD "\r\n", STATUS_INTERNAL, "described no path"},
		{HEAD "X-Docker-Container-Path-Stat: !\r\n\r\n", STATUS_INTERNAL, "described no path"},
		{HEAD "X-Docker-Container-Path-Stat: aGVsbG8=\r\n\r\n", STATUS_INTERNAL, "described no path"},
		{"HTTP/1.1 404 No\r\nX-Docker-Container-Path-Stat: eyJJZCI6ImFiMSJ9\r\nContent-Length: "
		 "9\r\n\r\n",
		 STATUS_OK, "ab1"},
		{"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\n", STATUS_NOT_FOUND, "404"},
		{"HTTP/1.1 500 No\r\nX-Docker-Container-Path-Stat: eyJJZCI6ImFiMSJ9\r\nContent-Length: "
		 "9\r\n\r\n",
		 STATUS_FAILED_PRECONDITION, "500"},
		/* as podman encodes {"Id":"~~~?"} */
		{HEAD "X-Docker-Container-Path-Stat: eyJJZCI6In5-fj8ifQ==\r\n\r\n", STATUS_OK, "~~~?"},
	};

	method = "HEAD";
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
		expect(&answers[i]);
	method = "GET";
}

/* Containers of an image with many labels, in which many commands ran, are described at length. */
TEST(an_answer_of_some_megabytes_is_read_unless_less_is_allowed)
{
	static const char head[] = HEAD "Content-Length: 2097152\r\n\r\n";
	static char text[3 << 20];

	for (int i = 0; i < 2; i++) {
		struct fake fake = {.answer = text};
		struct said said;

		memset(text, ' ', sizeof(text)); /* blanks before the JSON */
		memcpy(text, head, strlen(head));
		(void)strcpy(text + strlen(head) + (2 << 20) - 12, "{\"Id\":\"ab1\"}");
		answer_max = i == 0 ? 0 : (size_t)1 << 20;
		fake_begin(&fake, serve);
		said = ask(fake.path, 60 * USEC_PER_SEC);
		fake_end(&fake);
		assert_int_equal(said.status, i == 0 ? STATUS_OK : STATUS_INTERNAL);
		assert_contains(said.text, i == 0 ? "ab1" : "more than 1048576 bytes");
	}
	answer_max = 0;
}

TEST(an_engine_that_hangs_has_a_deadline)
{
	struct fake fake = {.answer = NULL};
	struct said said;

	fake_begin(&fake, serve);
	said = ask(fake.path, 200 * USEC_PER_MSEC);
	fake_end(&fake);
	assert_int_equal(said.status, STATUS_DEADLINE_EXCEEDED);
}

static void ask_data(struct fake *fake, struct said *said, engine_data_fn *data, struct engine **ret,
		     struct engine_call **ret_call)
{
	const struct engine_request request = {
		.method = "GET", .path = "/x", .silence_us = USEC_PER_SEC, .data = data};

	fake_begin(fake, serve);
	assert_true(sd_event_new(&said->event) >= 0);
	assert_int_equal(engine_new(said->event, fake->path, ret, NULL), STATUS_OK);
	assert_int_equal(engine_send(*ret, &request, on_done, said, ret_call, NULL), STATUS_OK);
}

static bool take_all(const uint8_t *bytes, size_t n, void *userdata)
{
	return true;
}

static bool is_reading;

static bool take_when_reading(const uint8_t *bytes, size_t n, void *userdata)
{
	return is_reading && take_all(bytes, n, userdata);
}

TEST(an_engine_that_reports_nothing_any_more_is_left)
{
	struct fake fake = {.answer = NULL};
	struct said said = {.n = 0};
	struct engine *engine;

	ask_data(&fake, &said, take_all, &engine, NULL);
	assert_true(sd_event_loop(said.event) >= 0);
	engine_free(engine);
	fake_end(&fake);
	(void)sd_event_unref(said.event);
	assert_int_equal(said.status, STATUS_DEADLINE_EXCEEDED);
}

TEST(output_that_is_not_read_yet_is_no_silence_of_the_engine)
{
	struct fake fake = {.answer = HEAD "Content-Length: 65536\r\n\r\n", .repeat = 1};
	struct said said = {.n = 0};
	struct engine_call *call;
	struct engine *engine;
	uint64_t end = clock_monotonic_us() + 3 * USEC_PER_SEC;

	is_reading = false;
	ask_data(&fake, &said, take_when_reading, &engine, &call);
	while (clock_monotonic_us() < end)
		assert_true(sd_event_run(said.event, 100 * USEC_PER_MSEC) >= 0);
	assert_int_equal(said.n, 0);
	is_reading = true;
	engine_resume(call);
	while (said.n == 0)
		assert_true(sd_event_run(said.event, USEC_PER_SEC) >= 0);
	engine_free(engine);
	fake_end(&fake);
	(void)sd_event_unref(said.event);
	assert_int_equal(said.status, STATUS_OK);
}

TEST(a_path_that_was_cut_is_not_sent)
{
	char path[ENGINE_PATH_SIZE];
	const struct engine_request request = {.method = "GET", .path = path};
	struct engine *engine = NULL;
	sd_event *event = NULL;

	memset(path, '/', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	assert_true(sd_event_new(&event) >= 0);
	assert_int_equal(engine_new(event, "/nowhere", &engine, NULL), STATUS_OK);
	assert_int_equal(engine_send(engine, &request, on_done, NULL, NULL, NULL), STATUS_RESOURCE_EXHAUSTED);
	path[sizeof(path) - 2] = '\0';
	assert_int_equal(engine_send(engine, &request, on_done, NULL, NULL, NULL), STATUS_OK);
	engine_free(engine);
	(void)sd_event_unref(event);
}

TEST(an_engine_that_is_away_is_reported)
{
	struct said said = ask("/nonexistent/engine.sock", 10 * USEC_PER_SEC);

	assert_int_equal(said.status, STATUS_UNAVAILABLE);
	assert_non_null(strstr(said.text, "group"));
}

/* Slow ones of all kinds leave them some. */
TEST(requests_that_release_have_places_of_their_own)
{
	enum { OTHERS = 448, ALL = 512 };
	struct engine_request request = {.method = "GET", .path = "/x"};
	struct engine *engine = NULL;
	struct said said = {.n = 0};
	struct error err;

	assert_true(sd_event_new(&said.event) >= 0);
	assert_ok(engine_new(said.event, "/nonexistent/engine.sock", &engine, NULL));
	for (int i = 0; i < OTHERS; i++)
		assert_ok(engine_send(engine, &request, on_done, &said, NULL, NULL));
	assert_error(engine_send(engine, &request, on_done, &said, NULL, &err), STATUS_RESOURCE_EXHAUSTED,
		     err, "448 are in flight");
	request.is_release = true;
	for (int i = OTHERS; i < ALL; i++)
		assert_ok(engine_send(engine, &request, on_done, &said, NULL, NULL));
	assert_error(engine_send(engine, &request, on_done, &said, NULL, &err), STATUS_RESOURCE_EXHAUSTED,
		     err, "512 are in flight");
	engine_free(engine);
	(void)sd_event_unref(said.event);
}

TEST(a_cancelled_request_reports_nothing)
{
	const struct engine_request request = {.method = "GET", .path = "/x"};
	cleanup(fake_end) struct fake fake = {.answer = NULL};
	struct engine_call *call = NULL;
	struct engine *engine = NULL;
	struct said said = {.n = 0};

	fake_begin(&fake, serve);
	assert_true(sd_event_new(&said.event) >= 0);
	assert_int_equal(engine_new(said.event, fake.path, &engine, NULL), STATUS_OK);
	assert_int_equal(engine_send(engine, &request, on_done, &said, &call, NULL), STATUS_OK);
	assert_true(sd_event_run(said.event, 100 * USEC_PER_MSEC) >= 0);
	engine_cancel(call);
	assert_int_equal(engine_n_calls(engine), 0);
	assert_int_equal(engine_send(engine, &request, on_done, &said, &call, NULL), STATUS_OK);
	engine_free(engine); /* with one in flight */
	(void)sd_event_unref(said.event);
	assert_int_equal(said.n, 0);
}
