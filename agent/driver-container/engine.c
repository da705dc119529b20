/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "rpc/unpack.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>

enum {
	CALLS_MAX = 512,
	CONNECTIONS_KEPT = 8,
	CONNECT_MS = 5000,
	TIMER_ACCURACY_US = 500, /* 0 would be 250 ms */
	MESSAGE_MAX = 400,
	ERROR_ANSWER_MAX = 16 << 10,
	BUFFER_SIZE = 16 << 10,
};

struct engine_call {
	LIST_ENTRY(engine_call) link;
	struct engine *engine;
	CURL *easy;
	struct curl_slist *headers;
	char *text; /* of the body; owned */
	char what[128];
	struct strbuf answer;
	engine_data_fn *data;
	engine_done_fn *done;
	void *userdata;
	bool is_text;
	bool is_too_large;
};

struct engine {
	sd_event *event;
	const char *socket;
	CURLM *multi;
	sd_event_source *timer;
	LIST_HEAD(, engine_call) calls;
	size_t n_calls;
};

static void call_free(struct engine_call *call)
{
	(void)curl_multi_remove_handle(call->engine->multi, call->easy);
	curl_easy_cleanup(call->easy);
	curl_slist_free_all(call->headers);
	LIST_REMOVE(call, link);
	call->engine->n_calls--;
	strbuf_release(&call->answer);
	free(call->text);
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

static enum status explain_failure(const struct engine_call *call, CURLcode code, struct error *err)
{
	if (call->is_too_large)
		return error_set(err, STATUS_INTERNAL, 0,
				 "the engine at %s answered more than %d bytes to %s", call->engine->socket,
				 ENGINE_ANSWER_MAX, call->what);
	if (code == CURLE_OPERATION_TIMEDOUT)
		return error_set(err, STATUS_DEADLINE_EXCEEDED, 0,
				 "the engine at %s did not answer %s in time; see its own log",
				 call->engine->socket, call->what);
	if (code == CURLE_COULDNT_CONNECT)
		return error_set(
			err, STATUS_UNAVAILABLE, 0,
			"the engine at %s cannot be reached: start it, and let the driver's account into "
			"the socket's group",
			call->engine->socket);
	return error_set(err, STATUS_UNAVAILABLE, 0, "the engine at %s broke off at %s: %s",
			 call->engine->socket, call->what, curl_easy_strerror(code));
}

static enum status classify_answer(struct engine_call *call, CURLcode code, json_t **ret, struct error *err)
{
	long http = 0;

	(void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &http);
	if (code != CURLE_OK)
		return explain_failure(call, code, err);
	if ((http < 200 || http > 299) && http != 304)
		return engine_refusal(call->engine->socket, http, call->what, call->answer.data,
				      call->answer.len, err);
	if (call->data || call->is_text || call->answer.len == 0)
		return STATUS_OK;
	if (unpack_json("it", call->answer.data, call->answer.len, ret, NULL) != STATUS_OK)
		return error_set(err, STATUS_INTERNAL, 0, "the engine at %s answered no JSON to %s",
				 call->engine->socket, call->what);
	return STATUS_OK;
}

static void engine_call_finish(struct engine_call *call, CURLcode code)
{
	engine_done_fn *done = call->done;
	void *userdata = call->userdata;
	json_t *json = NULL;
	struct error err;
	enum status status = classify_answer(call, code, &json, &err);

	call_free(call);
	done(status, status == STATUS_OK ? NULL : &err, json, userdata);
	json_decref(json);
}

static void collect(struct engine *engine)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(engine->multi, &left))) {
		struct engine_call *call = NULL;
		CURLcode code = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call);
		engine_call_finish(call, code);
	}
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct engine *engine = userdata;
	int bits = ((events & EPOLLIN) ? CURL_CSELECT_IN : 0) | ((events & EPOLLOUT) ? CURL_CSELECT_OUT : 0) |
		   ((events & (EPOLLERR | EPOLLHUP)) ? CURL_CSELECT_ERR | CURL_CSELECT_IN : 0);
	int running;

	(void)source;
	(void)curl_multi_socket_action(engine->multi, fd, bits, &running);
	collect(engine);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct engine *engine = userdata;
	int running;

	(void)source;
	(void)usec;
	(void)curl_multi_socket_action(engine->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	collect(engine);
	return 0;
}

/* libcurl says which socket it waits for. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *userdata, void *socket_data)
{
	struct engine *engine = userdata;
	sd_event_source *source = socket_data;
	uint32_t events = ((what & CURL_POLL_IN) ? EPOLLIN : 0U) | ((what & CURL_POLL_OUT) ? EPOLLOUT : 0U);

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		(void)sd_event_source_disable_unref(source);
		(void)curl_multi_assign(engine->multi, fd, NULL);
		return 0;
	}
	if (source)
		return sd_event_source_set_io_events(source, events) < 0 ? -1 : 0;
	if (sd_event_add_io(engine->event, &source, fd, events, on_io, engine) < 0)
		return -1;
	(void)curl_multi_assign(engine->multi, fd, source);
	return 0;
}

static int on_curl_timer(CURLM *multi, long ms, void *userdata)
{
	struct engine *engine = userdata;

	(void)multi;
	if (ms < 0)
		return sd_event_source_set_enabled(engine->timer, SD_EVENT_OFF) < 0 ? -1 : 0;
	if (sd_event_source_set_time(engine->timer, clock_monotonic_us() + (uint64_t)ms * USEC_PER_MSEC) < 0)
		return -1;
	return sd_event_source_set_enabled(engine->timer, SD_EVENT_ONESHOT) < 0 ? -1 : 0;
}

DEFINE_CLEANUP(struct engine, engine_free)

enum status engine_new(sd_event *event, const char *socket, struct engine **ret, struct error *err)
{
	cleanup(engine_freep) struct engine *engine = calloc(1, sizeof(*engine));
	int r;

	if (!engine)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "speak to the engine");
	LIST_INIT(&engine->calls);
	engine->event = event;
	engine->socket = socket;
	r = sd_event_add_time(event, &engine->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_US, on_timer, engine);
	if (r >= 0)
		r = sd_event_source_set_enabled(engine->timer, SD_EVENT_OFF);
	engine->multi = curl_global_init(CURL_GLOBAL_NOTHING) == CURLE_OK ? curl_multi_init() : NULL;
	if (r < 0 || !engine->multi)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "speak to the engine");
	(void)curl_multi_setopt(engine->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	(void)curl_multi_setopt(engine->multi, CURLMOPT_SOCKETDATA, engine);
	(void)curl_multi_setopt(engine->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
	(void)curl_multi_setopt(engine->multi, CURLMOPT_TIMERDATA, engine);
	(void)curl_multi_setopt(engine->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
	*ret = TAKE_PTR(engine);
	return STATUS_OK;
}

void engine_free(struct engine *engine)
{
	if (!engine)
		return;
	while (!LIST_EMPTY(&engine->calls))
		call_free(LIST_FIRST(&engine->calls));
	if (engine->multi)
		(void)curl_multi_cleanup(engine->multi);
	(void)sd_event_source_disable_unref(engine->timer);
	free(engine);
}

static size_t on_write(char *bytes, size_t size, size_t n, void *userdata)
{
	struct engine_call *call = userdata;
	long http = 0;
	size_t max;

	(void)size; /* 1 */
	(void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &http);
	if (http < 300 && call->data)
		return call->data((const uint8_t *)bytes, n, call->userdata) ? n : CURL_WRITEFUNC_PAUSE;
	if (http < 300 && call->is_text)
		return n;
	max = http < 300 ? ENGINE_ANSWER_MAX : ERROR_ANSWER_MAX;
	if (call->answer.len + n > max) {
		call->is_too_large = true;
		return 0;
	}
	strbuf_put(&call->answer, bytes, n);
	return call->answer.error == 0 ? n : 0;
}

static bool set_options(struct engine_call *call, const struct engine_request *request, const char *url)
{
	CURL *easy = call->easy;
	long timeout_ms = (long)(request->timeout_us / USEC_PER_MSEC);
	long silence_s = (long)(request->silence_us / USEC_PER_SEC);

	return curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, call->engine->socket) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http") == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)BUFFER_SIZE) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, silence_s > 0 ? 1L : 0L) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, silence_s) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_WRITEDATA, call) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_PRIVATE, call) == CURLE_OK;
}

/* Of every method but GET, which has none: so that POST without one says that it has none. */
static bool set_body(struct engine_call *call, const struct engine_request *request)
{
	const char *text = call->text ? call->text : "";

	if (str_eq(request->method, "GET") || str_eq(request->method, "DELETE"))
		return true;
	return curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(text)) == CURLE_OK &&
	       curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, text) == CURLE_OK;
}

static struct engine_call *call_new(struct engine *engine, const struct engine_request *request,
				    engine_done_fn *done, void *userdata)
{
	struct engine_call *call = calloc(1, sizeof(*call));
	char *text = request->body ? json_dumps(request->body, JSON_COMPACT) : NULL;
	CURL *easy = curl_easy_init();
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");

	if (!call || !easy || !headers || (request->body && !text)) {
		free(call);
		free(text);
		curl_easy_cleanup(easy);
		curl_slist_free_all(headers);
		return NULL;
	}
	*call = (struct engine_call){.engine = engine,
				     .easy = easy,
				     .headers = headers,
				     .text = text,
				     .answer = STRBUF_INIT(ENGINE_ANSWER_MAX + BUFFER_SIZE),
				     .data = request->data,
				     .is_text = request->is_text,
				     .done = done,
				     .userdata = userdata};
	(void)snprintf(call->what, sizeof(call->what), "%s %s", request->method, request->path);
	LIST_INSERT_HEAD(&engine->calls, call, link);
	engine->n_calls++;
	return call;
}

enum status engine_send(struct engine *engine, const struct engine_request *request, engine_done_fn *done,
			void *userdata, struct engine_call **ret, struct error *err)
{
	struct engine_call *call = NULL;
	char url[ENGINE_PATH_SIZE + 32];

	assert(request->path[0] == '/');
	if (str_format(url, sizeof(url), "http://engine" ENGINE_API "%s", request->path) > 0 &&
	    engine->n_calls < CALLS_MAX)
		call = call_new(engine, request, done, userdata);
	json_decref(request->body);
	if (!call)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "no room for another request to the engine: %zu are in flight",
				 engine->n_calls);
	if (!set_options(call, request, url) || !set_body(call, request) ||
	    curl_multi_add_handle(engine->multi, call->easy) != CURLM_OK) {
		call_free(call);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "ask the engine");
	}
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
	(void)curl_easy_pause(call->easy, CURLPAUSE_CONT);
}

size_t engine_n_calls(const struct engine *engine)
{
	return engine->n_calls;
}
