/* SPDX-License-Identifier: Apache-2.0 */
/* The health of an engine that answers, is late with its version, or says nonsense: a fake one on a unix
 * socket. */
#include "driver.h"
#include "engine.h"
#include "fake_engine.h"

#include "base/clock.h"

#include <holdfast/driver/v1/driver.pb-c.h>

#define HEAD "HTTP/1.1 200 OK\r\nConnection: close\r\n"
#define HEALTH(name) HOLDFAST__DRIVER__V1__HEALTH__HEALTH_##name

/* --- a stream of the agent, instead of a call of the server --- */

struct stream {
	void *data;
	bool is_full, has_no_memory;
	int n_tried, n_sent;
	int health; /* as it was sent last */
};

void *__wrap_rpc_call_data(struct rpc_call *call);
void __wrap_rpc_call_set_data(struct rpc_call *call, void *data);
bool __wrap_rpc_call_is_full(struct rpc_call *call);
enum status __wrap_rpc_call_send(struct rpc_call *call, const ProtobufCMessage *message, struct error *err);

static struct stream *stream_of(struct rpc_call *call)
{
	return (struct stream *)(void *)call;
}

static struct rpc_call *call_of(struct stream *stream)
{
	return (struct rpc_call *)(void *)stream;
}

void *__wrap_rpc_call_data(struct rpc_call *call)
{
	return stream_of(call)->data;
}

void __wrap_rpc_call_set_data(struct rpc_call *call, void *data)
{
	stream_of(call)->data = data;
}

bool __wrap_rpc_call_is_full(struct rpc_call *call)
{
	stream_of(call)->n_tried++;
	return stream_of(call)->is_full;
}

enum status __wrap_rpc_call_send(struct rpc_call *call, const ProtobufCMessage *message, struct error *err)
{
	struct stream *stream = stream_of(call);

	if (stream->has_no_memory)
		return error_no_memory(err, "a report");
	stream->n_sent++;
	stream->health =
		(int)((const Holdfast__Driver__V1__FingerprintResponse *)(const void *)message)->health;
	return STATUS_OK;
}

static void *serve(void *userdata)
{
	struct fake *fake = userdata;
	int silent = -1, fd;

	while ((fd = accept(fake->fd, NULL, NULL)) >= 0) {
		char request[4096] = "";
		const char *answer = HEAD "Content-Length: 2\r\n\r\nOK";

		(void)recv(fd, request, sizeof(request) - 1, 0);
		if (strstr(request, "/version"))
			answer = fake->answer;
		if (answer)
			(void)send(fd, answer, strlen(answer), MSG_NOSIGNAL);
		if (answer)
			(void)close(fd);
		else
			silent = fd;
	}
	if (silent >= 0)
		(void)close(silent);
	return NULL;
}

/* What is known of an engine that answers @version, when it is @health or a while has passed. */
static void look(const char *version, int health, struct driver *driver)
{
	static const struct settings settings = {
		.cluster = "prod", .node_id = "node-1", .engine_timeout_us = USEC_PER_SEC};
	uint64_t end_us = clock_monotonic_us() + 10 * USEC_PER_SEC;
	struct fake fake = {.answer = version};

	memset(driver, 0, sizeof(*driver));
	driver->settings = &settings; /* it lists what an earlier boot left, and is answered nonsense */
	fake_begin(&fake, serve);
	assert_true(sd_event_new(&driver->event) >= 0);
	assert_int_equal(engine_new(driver->event, fake.path, &driver->engine, NULL), STATUS_OK);
	assert_int_equal(fingerprint_begin(driver, NULL), STATUS_OK);
	while ((driver->health != health || (version && driver->asked_version)) &&
	       clock_monotonic_us() < end_us)
		assert_true(sd_event_run(driver->event, USEC_PER_SEC / 10) >= 0);
	fingerprint_end(driver);
	engine_free(driver->engine);
	json_decref(driver->leftovers);
	(void)sd_event_unref(driver->event);
	fake_end(&fake);
	assert_int_equal(driver->health, health);
}

TEST(an_engine_that_answers_is_healthy_and_known)
{
	struct driver driver;

	look(HEAD "\r\n{\"Version\": \"4.3\", \"Components\": [{\"Name\": \"Podman Engine\"}]}",
	     HEALTH(HEALTHY), &driver);
	assert_string_equal(driver.engine_name, "Podman Engine");
	assert_string_equal(driver.engine_version, "4.3");
	assert_true(driver.version_us > clock_monotonic_us() + 1800 * USEC_PER_SEC); /* not with each probe */
}

/* podman asks rpm and dpkg whose its programs are. */
TEST(an_engine_that_is_late_with_its_version_is_healthy)
{
	struct driver driver;

	look(NULL, HEALTH(HEALTHY), &driver);
	assert_string_equal(driver.engine_version, "");
}

TEST(an_engine_that_does_not_say_its_version_is_not)
{
	struct driver driver;

	look(HEAD "\r\n{}", HEALTH(UNHEALTHY), &driver);
	assert_non_null(strstr(driver.health_text, "does not report its version"));
}

/* Runs until the stream was tried, or sent to, @n times. */
static void run_until(const struct driver *driver, const int *count, int n)
{
	uint64_t end_us = clock_monotonic_us() + 600 * USEC_PER_SEC;

	while (*count < n && clock_monotonic_us() < end_us)
		assert_true(sd_event_run(driver->event, USEC_PER_SEC / 10) >= 0);
	assert_true(*count >= n);
}

TEST(a_report_that_could_not_be_sent_is_sent_later)
{
	static const struct settings settings = {
		.cluster = "prod", .node_id = "node-1", .engine_timeout_us = USEC_PER_SEC};
	struct fake fake = {.answer = HEAD "\r\n{\"Version\": \"4.3\"}"};
	struct stream full = {.is_full = false}, poor = {.is_full = false};
	struct driver driver = {.settings = &settings};
	int sent;

	fake_begin(&fake, serve);
	assert_true(sd_event_new(&driver.event) >= 0);
	assert_int_equal(engine_new(driver.event, fake.path, &driver.engine, NULL), STATUS_OK);
	assert_int_equal(fingerprint_begin(&driver, NULL), STATUS_OK);
	fingerprint_stream.on_message(call_of(&full), NULL, &driver);
	fingerprint_stream.on_message(call_of(&poor), NULL, &driver);
	assert_int_equal(full.n_sent, 1);
	assert_int_equal(poor.n_sent, 1);
	full.is_full = poor.has_no_memory = true;
	run_until(&driver, &poor.n_tried, 4); /* its health, its version, and they do not change again */
	assert_int_equal(driver.health, HEALTH(HEALTHY));
	assert_int_equal(full.n_sent, 1);
	full.is_full = false;
	fingerprint_stream.on_drained(call_of(&full), &driver);
	assert_int_equal(full.n_sent, 2);
	assert_int_equal(full.health, HEALTH(HEALTHY));
	fingerprint_stream.on_drained(call_of(&full), &driver); /* it has it */
	assert_int_equal(full.n_sent, 2);
	assert_int_equal(poor.n_sent, 1);
	poor.has_no_memory = false;
	sent = full.n_sent;
	run_until(&driver, &poor.n_sent, 2);
	assert_int_equal(poor.health, HEALTH(HEALTHY));
	assert_int_equal(full.n_sent, sent);
	fingerprint_stream.on_closed(call_of(&full), &driver);
	fingerprint_stream.on_closed(call_of(&poor), &driver);
	fingerprint_end(&driver);
	engine_free(driver.engine);
	json_decref(driver.leftovers);
	(void)sd_event_unref(driver.event);
	fake_end(&fake);
}

/* The second page is empty. */
static void *serve_list(void *userdata)
{
	static const char last[] = HEAD "\r\n[]";
	struct fake *fake = userdata;
	int fd;

	while ((fd = accept(fake->fd, NULL, NULL)) >= 0) {
		char request[4096] = "";
		const char *answer;

		(void)recv(fd, request, sizeof(request) - 1, 0);
		answer = strstr(request, "before") ? last : fake->answer;
		if (strstr(request, "GET /v1.40/containers/json?all=1&limit=32&filters=") &&
		    !strstr(request, "status") && strstr(request, "prod%2Fnode-1"))
			(void)send(fd, answer, strlen(answer), MSG_NOSIGNAL);
		(void)close(fd);
	}
	return NULL;
}

#define ALLOC "0190a6f2-0000-7000-8000-0000000000a1"
#define LISTED(name, state)                                           \
	"{\"Id\":\"c1\",\"Names\":[\"/" name "\"],\"State\":\"" state \
	"\",\"Labels\":{\"dev.holdfast.alloc\":\"" ALLOC "\",\"dev.holdfast.task\":\"web\"}}"
#define TASK(state) LISTED("holdfast-" ALLOC "-web", state)
#define FOUR TASK("exited") "," TASK("exited") "," TASK("exited") "," TASK("exited")

TEST(a_node_is_idle_if_the_engine_says_so)
{
	static const struct {
		const char *answer, *says;
		enum status status;
	} rows[] = {
		{HEAD "\r\n[]", "", STATUS_OK},
		{HEAD "\r\n[" TASK("exited") "," TASK("created") "," TASK("dead") "]", "", STATUS_OK},
		{HEAD "\r\n[" TASK("exited") "," TASK("running") "]", "run: /holdfast-" ALLOC "-web",
		 STATUS_FAILED_PRECONDITION},
		{HEAD "\r\n[" TASK("stopping") "]", "run: /holdfast-", STATUS_FAILED_PRECONDITION},
		{HEAD "\r\n[" TASK("restarting") "]", "run: /holdfast-", STATUS_FAILED_PRECONDITION},
		{HEAD "\r\n[" TASK("a new word") "]", "run: /holdfast-", STATUS_FAILED_PRECONDITION},
		{HEAD "\r\n[" TASK("") "]", "run: /holdfast-", STATUS_FAILED_PRECONDITION},
		{HEAD "\r\n[" LISTED("mine", "running") "]", "", STATUS_OK}, /* labels of its image */
		{HEAD "\r\n[" FOUR "," FOUR "," FOUR "," FOUR "," FOUR "," FOUR "," FOUR "," FOUR "]", "",
		 STATUS_OK},
		{HEAD "\r\n[" FOUR "," FOUR "," FOUR "," FOUR "," FOUR "," FOUR "," FOUR
		      "," TASK("paused") "," TASK("exited") "," TASK("exited") ",{}]",
		 "no end", STATUS_INTERNAL},
		{HEAD "\r\n{}", "", STATUS_INTERNAL},
		{HEAD "\r\n", "", STATUS_INTERNAL},
		{"", "", STATUS_UNAVAILABLE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct settings settings = {
			.cluster = "prod", .node_id = "node-1", .engine_timeout_us = USEC_PER_SEC};
		struct fake fake = {.answer = rows[i].answer};
		struct error err = {0};

		fake_begin(&fake, serve_list);
		(void)str_copy(settings.engine_socket, sizeof(settings.engine_socket), fake.path);
		assert_int_equal(check_idle(&settings, &err), rows[i].status);
		assert_non_null(strstr(err.msg, rows[i].says));
		fake_end(&fake);
	}
}
