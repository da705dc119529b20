/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include "http_answer.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "rpc/base64.h"
#include "rpc/unpack.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	CALLS_MAX = 512,
	CALLS_OTHERS = 448,	       /* that release nothing begin while there are fewer */
	CONNECT_US = 5 * USEC_PER_SEC, /* for room in the engine's queue of connections */
	CONNECT_PAUSE_US = 10 * USEC_PER_MSEC,
	TIMER_ACCURACY_US = 500, /* 0 would be 250 ms */
	MESSAGE_MAX = 400,
	BUFFER_SIZE = 16 << 10,
};

/* Why a request has ended without an answer. */
enum failure { NO_FAILURE, NOT_REACHED, TOO_LATE, TOO_LARGE, BROKE_OFF, NO_HTTP };

/* One connection, for one request. */
struct engine_call {
	LIST_ENTRY(engine_call) link;
	struct engine *engine;
	int fd; /* or negative: not connected yet */
	sd_event_source *io;
	sd_event_source *timer;
	struct strbuf out; /* the unsent rest of the request */
	char what[128];
	char in[BUFFER_SIZE]; /* what came and was not read */
	size_t in_at;
	size_t in_n;
	struct http_answer http;
	struct strbuf answer;
	uint64_t begun_us;
	uint64_t heard_us;   /* when bytes came last */
	uint64_t timeout_us; /* 0: no limit */
	uint64_t silence_us; /* the same */
	engine_data_fn *data;
	engine_done_fn *done;
	void *userdata;
	bool is_text;
	bool is_paused;
};

struct engine {
	sd_event *event;
	const char *socket;
	LIST_HEAD(, engine_call) calls;
	size_t n_calls;
};

static void call_free(struct engine_call *call)
{
	(void)sd_event_source_disable_unref(call->io);
	(void)sd_event_source_disable_unref(call->timer);
	close_fdp(&call->fd);
	LIST_REMOVE(call, link);
	call->engine->n_calls--;
	strbuf_release(&call->out);
	strbuf_release(&call->answer);
	free(call);
}

static enum status status_of_http(long code)
{
	static const struct {
		long code;
		enum status status;
	} map[] = {{400, STATUS_INVALID_ARGUMENT},    {404, STATUS_NOT_FOUND},
		   {409, STATUS_FAILED_PRECONDITION}, {500, STATUS_FAILED_PRECONDITION},
		   {501, STATUS_UNIMPLEMENTED},	      {503, STATUS_UNAVAILABLE}};

	for (size_t i = 0; i < ARRAY_SIZE(map); i++)
		if (map[i].code == code)
			return map[i].status;
	return STATUS_INTERNAL;
}

enum status engine_refusal(const char *socket, long code, const char *what, const char *answer, size_t n,
			   struct error *err)
{
	json_t *json = json_loadb(n > 0 ? answer : "", n, JSON_DISABLE_EOF_CHECK, NULL);
	const char *message = json_string_value(json_object_get(json, "message"));
	char reported[MESSAGE_MAX];
	enum status status;

	if (!message)
		message = json_string_value(json_object_get(json, "cause"));
	str_copy_text(reported, sizeof(reported), message ? message : "nothing more");
	status = error_set(err, status_of_http(code), 0, "the engine at %s answered %ld to %s: %s", socket,
			   code, what, reported);
	json_decref(json);
	return status;
}

static enum status explain_failure(const struct engine_call *call, enum failure failure, struct error *err)
{
	const char *socket = call->engine->socket;

	if (failure == TOO_LARGE)
		return error_set(err, STATUS_INTERNAL, 0,
				 "the engine at %s answered more than %zu bytes to %s", socket,
				 call->answer.max, call->what);
	if (failure == TOO_LATE)
		return error_set(err, STATUS_DEADLINE_EXCEEDED, 0,
				 "the engine at %s did not answer %s in time; see its own log", socket,
				 call->what);
	if (failure == NOT_REACHED)
		return error_set(
			err, STATUS_UNAVAILABLE, 0,
			"the engine at %s cannot be reached: start it, and let the driver's account into "
			"the socket's group",
			socket);
	return error_set(err, STATUS_UNAVAILABLE, 0, "the engine at %s broke off at %s: %s", socket,
			 call->what,
			 failure == NO_HTTP ? "what it answered is no HTTP/1.1" : "the connection has ended");
}

/* The description of a path is a field of the head. */
static enum status read_path_stat(const struct engine_call *call, json_t **ret, struct error *err)
{
	cleanup_free char *text = strdup(call->http.path_stat ? call->http.path_stat : "");
	cleanup_free uint8_t *bytes = NULL;
	size_t n = 0;

	for (char *p = text; p && (p = strpbrk(p, "-_")); p++) /* podman has the alphabet for URLs */
		*p = *p == '-' ? '+' : '/';
	if (text && base64_decode(text, strlen(text), true, &bytes, &n) == 0 &&
	    unpack_json("it", (const char *)bytes, n, ret, NULL) == STATUS_OK)
		return STATUS_OK;
	return error_set(err, STATUS_INTERNAL, 0, "the engine at %s described no path to %s",
			 call->engine->socket, call->what);
}

static enum status classify_answer(struct engine_call *call, enum failure failure, json_t **ret,
				   struct error *err)
{
	int code = call->http.code;

	if (failure != NO_FAILURE)
		return explain_failure(call, failure, err);
	/* podman answers 404 to a link that leads to nothing, and describes it */
	if (call->http.is_head && (code == 200 || (code == 404 && call->http.path_stat)))
		return read_path_stat(call, ret, err);
	if ((code < 200 || code > 299) && code != 304)
		return engine_refusal(call->engine->socket, code, call->what, call->answer.data,
				      call->answer.len, err);
	if (call->data || call->is_text || call->answer.len == 0)
		return STATUS_OK;
	if (unpack_json("it", call->answer.data, call->answer.len, ret, NULL) != STATUS_OK)
		return error_set(err, STATUS_INTERNAL, 0, "the engine at %s answered no JSON to %s",
				 call->engine->socket, call->what);
	return STATUS_OK;
}

static void call_finish(struct engine_call *call, enum failure failure)
{
	engine_done_fn *done = call->done;
	void *userdata = call->userdata;
	json_t *json = NULL;
	struct error err;
	enum status status = classify_answer(call, failure, &json, &err);

	call_free(call);
	done(status, status == STATUS_OK ? NULL : &err, json, userdata);
	json_decref(json);
}

/* Bytes of the body. False: not now. */
static bool take_body(struct engine_call *call, const char *bytes, size_t n, enum failure *ret)
{
	bool is_good = call->http.code < 300;

	if (n == 0 || (is_good && !call->data && call->is_text))
		return true;
	if (is_good && call->data)
		return call->data((const uint8_t *)bytes, n, call->userdata);
	strbuf_put(&call->answer, bytes, n);
	if (call->answer.error != 0)
		*ret = TOO_LARGE;
	return true;
}

/* Read what came. Returns true while the request goes on; then the call may be paused. */
static bool call_read(struct engine_call *call, enum failure *ret)
{
	while (call->in_at < call->in_n && call->http.state < HTTP_OVER && *ret == NO_FAILURE) {
		enum http_state state = call->http.state;
		uint64_t left = call->http.left;
		const char *body = NULL;
		size_t n_body = 0;
		size_t n = http_answer_read(&call->http, call->in + call->in_at, call->in_n - call->in_at,
					    &body, &n_body);

		if (!take_body(call, body, n_body, ret)) {
			call->http.state = state; /* the same bytes come again */
			call->http.left = left;
			call->is_paused = true;
			return true;
		}
		call->in_at += n;
	}
	if (*ret == NO_FAILURE && call->http.state == HTTP_BAD)
		*ret = NO_HTTP;
	return *ret == NO_FAILURE && call->http.state != HTTP_OVER;
}

/* Sets the events and the time that the call waits for next. */
static enum failure call_arm(struct engine_call *call)
{
	uint32_t events = (call->is_paused ? 0U : EPOLLIN) | (call->out.len > 0 ? EPOLLOUT : 0U);
	uint64_t due_us = UINT64_MAX;

	if (call->timeout_us > 0)
		due_us = call->begun_us + call->timeout_us;
	if (call->silence_us > 0 && !call->is_paused && call->heard_us + call->silence_us < due_us)
		due_us = call->heard_us + call->silence_us;
	if (call->fd < 0 && clock_monotonic_us() + CONNECT_PAUSE_US < due_us)
		due_us = clock_monotonic_us() + CONNECT_PAUSE_US;
	/* a source without events gets a hang-up in each turn, so it is off */
	if (call->io && (sd_event_source_set_io_events(call->io, events) < 0 ||
			 sd_event_source_set_enabled(call->io, events != 0 ? SD_EVENT_ON : SD_EVENT_OFF) < 0))
		return BROKE_OFF;
	if (sd_event_source_set_time(call->timer, due_us) < 0 ||
	    sd_event_source_set_enabled(call->timer, due_us < UINT64_MAX ? SD_EVENT_ONESHOT : SD_EVENT_OFF) <
		    0)
		return BROKE_OFF;
	return NO_FAILURE;
}

static enum failure call_send(struct engine_call *call)
{
	ssize_t n = call->out.len > 0 ? send(call->fd, call->out.data, call->out.len, MSG_NOSIGNAL) : 0;

	if (n > 0)
		strbuf_consume(&call->out, (size_t)n);
	/* an engine that has answered may have closed its half: its answer counts */
	if (n < 0 && errno == EPIPE)
		call->out.len = 0;
	return n < 0 && errno != EAGAIN && errno != EINTR && errno != EPIPE ? BROKE_OFF : NO_FAILURE;
}

/* Once in a turn. @ret_end: the connection has ended. */
static enum failure call_receive(struct engine_call *call, bool *ret_end)
{
	assert(call->in_at == call->in_n);

	ssize_t n = recv(call->fd, call->in, sizeof(call->in), 0);

	*ret_end = n == 0 || (n < 0 && errno == ECONNRESET);
	if (n < 0 && !*ret_end && errno != EAGAIN && errno != EINTR)
		return BROKE_OFF;
	call->in_at = 0;
	call->in_n = n > 0 ? (size_t)n : 0;
	if (n > 0)
		call->heard_us = clock_monotonic_us();
	return NO_FAILURE;
}

/* The call may be gone when this returns. */
static void call_step(struct engine_call *call, bool is_ended, enum failure failure)
{
	bool goes_on = failure == NO_FAILURE && call_read(call, &failure);

	if (goes_on && is_ended && !call->is_paused) {
		goes_on = false;
		failure = http_answer_may_end(&call->http) ? NO_FAILURE : BROKE_OFF;
	}
	if (goes_on)
		failure = call_arm(call);
	if (!goes_on || failure != NO_FAILURE)
		call_finish(call, failure);
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct engine_call *call = userdata;
	enum failure failure = NO_FAILURE;
	bool is_ended = false;

	if (events & EPOLLOUT)
		failure = call_send(call);
	if (failure == NO_FAILURE && call->in_at == call->in_n && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
		failure = call_receive(call, &is_ended);
	call_step(call, is_ended, failure);
	return 0;
}

/* Returns NO_FAILURE also while the engine's queue of connections is full: the call has no descriptor yet. */
static enum failure call_connect(struct engine_call *call)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || str_copy(address.sun_path, sizeof(address.sun_path), call->engine->socket) < 0)
		return NOT_REACHED;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return errno == EAGAIN && clock_monotonic_us() - call->begun_us < CONNECT_US ? NO_FAILURE
											     : NOT_REACHED;
	if (sd_event_add_io(call->engine->event, &call->io, fd, EPOLLIN | EPOLLOUT, on_io, call) < 0)
		return NOT_REACHED;
	call->fd = TAKE_FD(fd);
	return NO_FAILURE;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct engine_call *call = userdata;
	uint64_t now_us = clock_monotonic_us();
	enum failure failure = NO_FAILURE;

	if ((call->timeout_us > 0 && now_us >= call->begun_us + call->timeout_us) ||
	    (call->silence_us > 0 && !call->is_paused && now_us >= call->heard_us + call->silence_us))
		failure = TOO_LATE;
	else if (call->fd < 0)
		failure = call_connect(call);
	call_step(call, false, failure);
	return 0;
}

enum status engine_new(sd_event *event, const char *socket, struct engine **ret, struct error *err)
{
	struct engine *engine = calloc(1, sizeof(*engine));

	if (!engine)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "speak to the engine");
	LIST_INIT(&engine->calls);
	engine->event = event;
	engine->socket = socket;
	*ret = engine;
	return STATUS_OK;
}

void engine_free(struct engine *engine)
{
	if (!engine)
		return;
	while (!LIST_EMPTY(&engine->calls))
		call_free(LIST_FIRST(&engine->calls));
	free(engine);
}

/* Neither a blank nor a control character: they would end the line. A path that fills its place may have been
 * cut, and would name another thing. */
static bool is_path(const char *path)
{
	for (const char *p = path; *p; p++)
		if (*p <= ' ' || *p >= 127)
			return false;
	return path[0] == '/' && strlen(path) < ENGINE_PATH_SIZE - 1;
}

/* POST and PUT without a body have Content-Length: 0. */
static void put_request(struct strbuf *out, const struct engine_request *request, const char *text)
{
	strbuf_printf(out, "%s " ENGINE_API "%s HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n",
		      request->method, request->path);
	if (str_eq(request->method, "POST") || str_eq(request->method, "PUT"))
		strbuf_printf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(text));
	strbuf_printf(out, "\r\n%s", text);
}

static struct engine_call *call_new(struct engine *engine, const struct engine_request *request,
				    engine_done_fn *done, void *userdata)
{
	struct engine_call *call = calloc(1, sizeof(*call));
	cleanup_free char *text = request->body ? json_dumps(request->body, JSON_COMPACT) : NULL;
	uint64_t now_us = clock_monotonic_us();

	if (!call)
		return NULL;
	*call = (struct engine_call){
		.engine = engine,
		.fd = -EBADF,
		.out = STRBUF_INIT(ENGINE_ANSWER_MAX),
		.answer = STRBUF_INIT(request->answer_max > 0 ? request->answer_max : ENGINE_ANSWER_MAX),
		.begun_us = now_us,
		.heard_us = now_us,
		.timeout_us = request->timeout_us,
		.silence_us = request->silence_us,
		.data = request->data,
		.http = {.is_head = str_eq(request->method, "HEAD")},
		.is_text = request->is_text,
		.done = done,
		.userdata = userdata};
	(void)snprintf(call->what, sizeof(call->what), "%s %s", request->method, request->path);
	LIST_INSERT_HEAD(&engine->calls, call, link);
	engine->n_calls++;
	put_request(&call->out, request, text ? text : "");
	/* done() never runs inside of engine_send(): the call connects in the loop's next turn */
	if ((request->body && !text) || call->out.error != 0 ||
	    sd_event_add_time(engine->event, &call->timer, CLOCK_MONOTONIC, now_us, TIMER_ACCURACY_US,
			      on_timer, call) < 0) {
		call_free(call);
		return NULL;
	}
	return call;
}

void engine_put_encoded(struct strbuf *path, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char c = text[i];
		bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
				(c != '\0' && strchr("0123456789-._~", c));

		strbuf_printf(path, is_plain ? "%c" : "%%%02X", (unsigned char)c);
	}
}

enum status engine_send(struct engine *engine, const struct engine_request *request, engine_done_fn *done,
			void *userdata, struct engine_call **ret, struct error *err)
{
	struct engine_call *call = NULL;

	if (is_path(request->path) && engine->n_calls < (request->is_release ? CALLS_MAX : CALLS_OTHERS))
		call = call_new(engine, request, done, userdata);
	json_decref(request->body);
	if (!call)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "no room for another request to the engine: %zu are in flight",
				 engine->n_calls);
	if (ret)
		*ret = call;
	return STATUS_OK;
}

void engine_cancel(struct engine_call *call)
{
	if (call)
		call_free(call);
}

void engine_resume(struct engine_call *call)
{
	if (!call->is_paused)
		return;
	call->is_paused = false;
	call->heard_us = clock_monotonic_us();
	/* what waits is read in the loop's next turn */
	(void)sd_event_source_set_time(call->timer, call->heard_us);
	(void)sd_event_source_set_enabled(call->timer, SD_EVENT_ONESHOT);
}

size_t engine_n_calls(const struct engine *engine)
{
	return engine->n_calls;
}
