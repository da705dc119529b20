/* SPDX-License-Identifier: Apache-2.0 */
/* The health of an engine that answers, is late with its version, or says nonsense: a fake one on a unix
 * socket. */
#include "driver.h"
#include "engine.h"
#include "engine_version.h"
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

	look(HEAD "\r\n{\"Version\": \"4.3.0\", \"Components\": [{\"Name\": \"Podman Engine\"}, "
		  "{\"Name\": \"OCI Runtime (crun)\"}]}",
	     HEALTH(HEALTHY), &driver);
	assert_string_equal(driver.engine_name, "Podman Engine");
	assert_string_equal(driver.engine_version, "4.3.0");
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

TEST(a_runc_has_the_fix_from_its_first_version_on)
{
	static const struct {
		const char *text;
		bool is_fixed;
	} rows[] = {
		{"1.1.5+ds1", false},
		{"1.1.99", false},
		{"1.0.0-rc93", false},
		{"0.1.1", false},
		{"1.2.7", false},
		{"1.2.8", true},
		{"1.2.8+ds1", true},
		{"1.3.2", false},
		{"1.3.3", true},
		{"1.3.3-0ubuntu1~24.04.3", true},
		{"1.3.10", true},
		{"1.4.0", true},
		{"1.4.0+dev", true},
		{"1.4.0-0ubuntu1", true},
		{"1.4.0-9ubuntu1", true},
		{"1.4.0-rc.2", false},
		{"1.4.0-rc.2+dev", false},
		{"1.4.0~rc2+ds1", false},
		{"1.4.0~rc3", true},
		{"1.4.0-rc.3", true},
		{"1.4.0-rc.10", true},
		{"1.4.0-rc", false},
		{"1.4.0-beta", false},
		{"1.4.1", true},
		{"1.4.1-rc.1", true},
		{"1.5.0-rc.1", true},
		{"2.0.0", true},
		{"runc version 1.1.5+ds1\ncommit: 1.4.0\nspec: 1.0.2-dev", false},
		{"runc version 1.3.3\ncommit: 1.1.5\nspec: 1.2.1", true},
		{"a wrapper 1.4.0\nrunc version 1.1.5", false},
		{"1.4", false},
		{"1.4.x", false},
		{"1.4.0x", false},
		{"1,4,0", false},
		{"v1.4.0", false},
		{"unknown", false},
		{"", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_msg(runc_is_fixed(rows[i].text) == rows[i].is_fixed, "%s", rows[i].text);
}

#define DOCKER(runtime, version)                                                                           \
	HEAD "\r\n{\"Version\": \"20.10\", \"Components\": [{\"Name\": \"Engine\", \"Version\": "          \
	     "\"20.10\"}, "                                                                                \
	     "{\"Name\": \"containerd\", \"Version\": \"1.6.20~ds1\"}, {\"Name\": \"" runtime "\"" version \
	     "}, {\"Name\": \"docker-init\", \"Version\": \"0.19.0\"}]}"
#define PODMAN(runtime, version)                                                                         \
	HEAD "\r\n{\"Version\": \"4.3.1\", \"Components\": [{\"Name\": \"Podman Engine\", \"Version\": " \
	     "\"4.3.1\"}, "                                                                              \
	     "{\"Name\": \"Conmon\", \"Version\": \"conmon version 2.1.6, commit: unknown\"}, "          \
	     "{\"Name\": \"OCI Runtime (" runtime ")\", \"Version\": \"" version "\"}]}"

TEST(an_engine_whose_runc_is_not_fixed_is_unhealthy)
{
	static const struct {
		const char *answer, *runc; /* NULL: it is healthy */
	} rows[] = {
		{DOCKER("runc", ", \"Version\": \"1.1.5+ds1\""), "runc 1.1.5+ds1 of"},
		{DOCKER("io.containerd.runc.v2", ""), "runc of unknown version of"},
		{DOCKER("runc", ", \"Version\": \" 1.1.5\""), "runc of unknown version of"},
		/* root's name for it, or Docker could not ask it */
		{DOCKER("nvidia", ", \"Version\": \"1.3.3\""), "runc of unknown version of"},
		{HEAD "\r\n{\"Version\": \"20.10\", \"Components\": [{\"Name\": \"Engine\"}]}",
		 "runc of unknown version of"},
		{HEAD "\r\n{\"Version\": \"20.10\"}", "runc of unknown version of"},
		{DOCKER("runc", ", \"Version\": \"1.3.3\""), NULL},
		{DOCKER("crun", ", \"Version\": \"1.1.5\""), NULL},
		{PODMAN("runc", "runc version 1.1.5+ds1\\ncommit: 1.1.5+ds1-1+deb12u1\\nspec: 1.0.2-dev"),
		 "runc 1.1.5+ds1 of"},
		{PODMAN("own", "runc version 1.2.7\\ncommit: v1.2.7"), "runc 1.2.7 of"},
		{PODMAN("runc", "runc version 1.4.0\\ncommit: v1.4.0"), NULL},
		{PODMAN("crun", "crun version 1.8.1\\ncommit: f8a0\\nspec: 1.0.0"), NULL},
	};
	struct driver driver;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		look(rows[i].answer, rows[i].runc ? HEALTH(UNHEALTHY) : HEALTH(HEALTHY), &driver);
		assert_msg(!rows[i].runc || strstr(driver.health_text, rows[i].runc), "%zu: %s", i,
			   driver.health_text);
		assert_msg(!rows[i].runc || strstr(driver.health_text, "see old_runc in"), "%s",
			   driver.health_text);
		/* a mended one is found soon */
		assert_msg((driver.version_us < clock_monotonic_us() + 1800 * USEC_PER_SEC) ==
				   (rows[i].runc != NULL),
			   "%zu", i);
	}
}

TEST(an_engine_whose_old_runc_root_accepts_is_healthy)
{
	static const struct settings refuses = {.old_runc = "refuse"}, accepts = {.old_runc = "accept"};
	struct driver driver = {.settings = &refuses};
	json_t *old = json_pack("{s:s, s:[{s:s, s:s}]}", "Version", "20.10", "Components", "Name", "runc",
				"Version", "1.2.7");
	json_t *fixed = json_pack("{s:s, s:[{s:s, s:s}]}", "Version", "20.10", "Components", "Name", "runc",
				  "Version", "1.2.8");
	json_t *nonsense = json_pack("{}");

	assert_non_null(nonsense);
	engine_version_read(&driver, old);
	assert_int_equal(engine_check_runc(&driver, NULL), STATUS_FAILED_PRECONDITION);
	engine_version_read(&driver, nonsense);
	assert_int_equal(engine_check_runc(&driver, NULL), STATUS_FAILED_PRECONDITION);
	driver.settings = &accepts;
	assert_int_equal(engine_check_runc(&driver, NULL), STATUS_OK);
	driver.settings = &refuses;
	engine_version_read(&driver, fixed);
	assert_int_equal(engine_check_runc(&driver, NULL), STATUS_OK);
	json_decref(old);
	json_decref(fixed);
	json_decref(nonsense);
}

static const struct podman {
	const char *version;
	bool is_old;
} podmans[] = {
	{"3.4.4", true},       {"4.2.9", true},	 {"4.3.0", false},  {"4.3.1-rc1", false}, {"4.10.0", false},
	{"4.9.4-rhel", false}, {"5.0.0", false}, {"10.0.0", false}, {"4.3", true},	  {"unknown", true},
};

TEST(a_podman_that_does_not_know_each_member_of_the_requests_is_unhealthy)
{
	struct driver driver;
	char text[512];

	for (size_t i = 0; i < ARRAY_SIZE(podmans); i++) {
		bool is_old = podmans[i].is_old;

		(void)snprintf(text, sizeof(text),
			       HEAD "\r\n{\"Version\": \"%s\", \"Components\": [{\"Name\": \"Podman "
				    "Engine\"}, {\"Name\": \"OCI Runtime (crun)\"}]}",
			       podmans[i].version);
		look(text, is_old ? HEALTH(UNHEALTHY) : HEALTH(HEALTHY), &driver);
		assert_msg(!is_old || strstr(driver.health_text, "is too old"), "%s", driver.health_text);
		assert_msg((driver.version_us < clock_monotonic_us() + 1800 * USEC_PER_SEC) == is_old, "%s",
			   podmans[i].version);
	}
	look(DOCKER("crun", ""), HEALTH(HEALTHY), &driver);
}

/* Runs until the stream was tried, or sent to, @n times. */
static void run_until(const struct driver *driver, const int *count, int n)
{
	uint64_t end_us = clock_monotonic_us() + 600 * USEC_PER_SEC;

	while (*count < n && clock_monotonic_us() < end_us)
		assert_true(sd_event_run(driver->event, USEC_PER_SEC / 10) >= 0);
	assert_true(*count >= n);
}

static void probe_again(const struct driver *driver, const struct stream *watcher)
{
	int n = watcher->n_tried;

	(void)sd_event_source_set_time(driver->probe_timer, 0);
	run_until(driver, &watcher->n_tried, n + 1);
	assert_int_equal(driver->health, HEALTH(UNHEALTHY));
}

/* It is unhealthy and answers: each probe would list its containers. */
TEST(an_engine_whose_runc_is_old_lists_leftovers_when_it_is_back)
{
	static const struct settings settings = {
		.cluster = "prod", .node_id = "node-1", .engine_timeout_us = USEC_PER_SEC};
	struct fake fake = {.answer = DOCKER("runc", ", \"Version\": \"1.1.5\"")};
	struct stream watcher = {.has_no_memory = true};
	struct driver driver = {.settings = &settings};
	bool has_listed = false;

	fake_begin(&fake, serve);
	assert_true(sd_event_new(&driver.event) >= 0);
	assert_int_equal(engine_new(driver.event, fake.path, &driver.engine, NULL), STATUS_OK);
	assert_int_equal(fingerprint_begin(&driver, NULL), STATUS_OK);
	fingerprint_stream.on_message(call_of(&watcher), NULL, &driver);
	while (driver.health != HEALTH(UNHEALTHY) || driver.leftovers) {
		assert_true(sd_event_run(driver.event, USEC_PER_SEC / 10) >= 0);
		has_listed = has_listed || driver.leftovers;
	}
	assert_true(has_listed);
	probe_again(&driver, &watcher);
	assert_null(driver.leftovers);
	driver.is_away = true;
	probe_again(&driver, &watcher);
	assert_non_null(driver.leftovers);
	fingerprint_stream.on_closed(call_of(&watcher), &driver);
	fingerprint_end(&driver);
	engine_free(driver.engine);
	leftovers_forget(&driver);
	(void)sd_event_unref(driver.event);
	fake_end(&fake);
}

TEST(a_report_that_could_not_be_sent_is_sent_later)
{
	static const struct settings settings = {
		.cluster = "prod", .node_id = "node-1", .engine_timeout_us = USEC_PER_SEC};
	struct fake fake = {.answer = PODMAN("crun", "crun version 1.8.1")};
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
