/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to a driver that is another process, to be killed in the middle of each. */

#include "temp_dir.h"
#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "driver/driver_client.h"
#include "rpc/server.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SERVICE (&holdfast__driver__v1__driver__descriptor)

enum { RUN_US = 60 * USEC_PER_SEC, SHORT_US = 50 * 1000 };
static const uint64_t never_us = 3600 * USEC_PER_SEC;

/* What the driver does with calls: those of Fingerprint are always answered and stay open. */
struct manner {
	enum status status;    /* of the error that it answers; OK: it holds them */
	const char *is_served; /* the method that is answered well all the same */
	const char *is_absent; /* the method that is answered with NOT_FOUND */
};

/* ---- the driver's process ---- */

static struct manner manner;
static int seen_fd;

static void tell(void)
{
	assert_int_equal(write(seen_fd, "", 1), 1);
}

static void answer_error(struct rpc_call *call, enum status status)
{
	struct error err;

	(void)error_set(&err, status, 0, "engine\nis away");
	rpc_call_fail(call, &err);
}

static const ProtobufCMethodDescriptor *method_of(const ProtobufCMessage *request)
{
	for (unsigned int i = 0; i < SERVICE->n_methods; i++)
		if (SERVICE->methods[i].input == request->descriptor)
			return &SERVICE->methods[i];
	abort();
}

static void init(const ProtobufCMessageDescriptor *descriptor, char space[static 512])
{
	assert_true(descriptor->sizeof_message <= 512);
	protobuf_c_message_init(descriptor, space);
}

static void answer(struct rpc_call *call, const ProtobufCMessage *request, bool is_stream)
{
	const ProtobufCMethodDescriptor *method = method_of(request);
	_Alignas(16) char space[512];

	init(method->output, space);
	if (is_stream && str_eq(method->name, "Fingerprint") && manner.is_served)
		(void)rpc_call_send(call, (ProtobufCMessage *)space, NULL);
	else if (manner.is_served && str_eq(method->name, manner.is_served))
		rpc_call_reply(call, (ProtobufCMessage *)space);
	else if (manner.is_absent && str_eq(method->name, manner.is_absent))
		answer_error(call, STATUS_NOT_FOUND);
	else if (manner.status != STATUS_OK)
		answer_error(call, manner.status);
	tell();
}

static void on_unary(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	answer(call, request, false);
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	answer(call, message, true);
}

static void on_closed(struct rpc_call *call, void *userdata)
{
}

static const struct rpc_stream_handlers stream = {.on_message = on_message, .on_closed = on_closed};

static void serve(const char *path)
{
	struct rpc_method methods[DRIVER_METHOD_N] = {{.name = NULL}};
	const struct rpc_service service = {SERVICE, methods, SERVICE->n_methods};
	struct rpc_server *server;
	sd_event *event;

	for (unsigned int i = 0; i < SERVICE->n_methods; i++) {
		methods[i].name = SERVICE->methods[i].name;
		if (driver_kind.methods[i].is_stream)
			methods[i].stream = &stream;
		else
			methods[i].unary = on_unary;
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sd_event_new(&event) < 0 ||
	    rpc_server_new(event, &service, 1, NULL, NULL, &server, NULL) != STATUS_OK ||
	    rpc_server_listen_unix(server, path, 0600, NULL) != STATUS_OK)
		_exit(1);
	tell();
	(void)sd_event_loop(event);
	_exit(1);
}

/* ---- its caller ---- */

struct end {
	unsigned int n_done, n_messages;
	bool has_response;
	struct error err;
	struct service_call *call;
};

struct world {
	char dir[TEMP_DIR_SIZE], path[TEMP_PATH_SIZE];
	sd_event *event;
	struct service_client *client;
	pid_t pid; /* of the driver; 0: none */
	int fd;	   /* a byte for each call that it has seen */
	sd_event_source *source;
	unsigned int n_seen;
	struct end watch; /* a Fingerprint that stays */
};

UNIT_SETUP(setup, struct world, world)
{
	(void)signal(SIGPIPE, SIG_IGN);
	temp_dir_make(world->dir);
	(void)temp_dir_path(world->path, world->dir, "driver.sock");
	assert_true(sd_event_new(&world->event) >= 0);
}

static void kill_driver(struct world *world)
{
	assert_int_equal(kill(world->pid, SIGKILL), 0);
	assert_int_equal(waitpid(world->pid, NULL, 0), world->pid);
	world->pid = 0;
	world->source = sd_event_source_disable_unref(world->source);
	(void)close(world->fd);
}

UNIT_TEARDOWN(teardown, struct world, world)
{
	service_client_free(world->client);
	if (world->pid != 0)
		kill_driver(world);
	(void)sd_event_unref(world->event);
	temp_dir_remove(world->dir);
}

static int on_byte(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct world *world = userdata;
	char byte;

	assert_int_equal(read(fd, &byte, 1), 1);
	world->n_seen++;
	return 0;
}

static void start_driver(struct world *world, const struct manner *how)
{
	int ends[2];
	char byte;

	assert_int_equal(pipe2(ends, 0), 0);
	manner = *how;
	seen_fd = ends[1];
	world->pid = fork();
	assert_true(world->pid >= 0);
	if (world->pid == 0)
		serve(world->path);
	(void)close(ends[1]);
	world->fd = ends[0];
	assert_int_equal(read(world->fd, &byte, 1), 1);
	world->n_seen = 0;
	assert_true(sd_event_add_io(world->event, &world->source, world->fd, EPOLLIN, on_byte, world) >= 0);
}

static void start_client(struct world *world, uint64_t exit_wait_us)
{
	const struct service_client_options options = {
		.name = "container", .socket = world->path, .exit_wait_us = exit_wait_us};

	assert_ok(service_client_new(world->event, &driver_kind, &options, &world->client, NULL));
}

static void on_done(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct end *end = userdata;

	end->n_done++;
	end->has_response = response != NULL;
	end->err = err ? *err : (struct error){.status = STATUS_OK};
}

static void on_stream_message(const ProtobufCMessage *message, void *userdata)
{
	struct end *end = userdata;

	end->n_messages++;
}

static void start(struct world *world, enum driver_method method, uint64_t timeout_us, struct end *end)
{
	_Alignas(16) char space[512];
	const struct service_request request =
		ROW(.method = method, .message = (ProtobufCMessage *)space, .timeout_us = timeout_us,
		    .on_message = driver_kind.methods[method].is_stream ? on_stream_message : NULL,
		    .done = on_done, .userdata = end);
	struct error err;

	*end = (struct end){.n_done = 0};
	init(SERVICE->methods[method].input, space);
	assert_succeeds(service_call_start(world->client, &request, &end->call, &err), err);
	assert_int_equal(end->n_done, 0);
}

static void run(struct world *world, const unsigned int *count, unsigned int n)
{
	uint64_t end_us = clock_monotonic_us() + RUN_US;

	while (*count < n) {
		assert_true(sd_event_run(world->event, RUN_US) >= 0);
		assert_msg(clock_monotonic_us() <= end_us, "waited too long: %u of %u", *count, n);
	}
}

/* The driver is known to the client: it has answered. */
static void meet(struct world *world)
{
	start(world, DRIVER_FINGERPRINT, 0, &world->watch);
	run(world, &world->watch.n_messages, 1);
	run(world, &world->n_seen, 1);
}

TEST(the_methods_are_those_of_the_service)
{
	cleanup_free char *text = NULL;

	assert_int_equal(SERVICE->n_methods, DRIVER_METHOD_N);
	assert_int_equal(file_read(DRIVER_PROTO, 1 << 20, &text, NULL), 0);
	for (unsigned int i = 0; i < DRIVER_METHOD_N; i++) {
		char line[128];
		const char *at, *stream_at;

		assert_string_equal(driver_kind.methods[i].name, SERVICE->methods[i].name);
		(void)snprintf(line, sizeof(line), "rpc %s(", SERVICE->methods[i].name);
		at = NON_NULL(strstr(text, line));
		stream_at = strstr(at, "returns (stream ");
		assert_int_equal(driver_kind.methods[i].is_stream, stream_at && stream_at < strchr(at, ';'));
	}
}

#define CASE(name) TEST_ON(name, struct world, world, setup, teardown)

CASE(a_driver_that_is_killed_in_any_method_has_shut_down)
{
	for (unsigned int i = 0; i < SERVICE->n_methods; i++) {
		struct end end;
		char text[160];

		start_driver(world, &(struct manner){.is_served = ""});
		start_client(world, never_us);
		meet(world);
		start(world, i, never_us, &end);
		run(world, &world->n_seen, 2);
		kill_driver(world);
		run(world, &end.n_done, 1);
		run(world, &world->watch.n_done, 1);
		assert_true(service_is_shut_down(&end.err));
		assert_true(service_is_shut_down(&world->watch.err));
		(void)snprintf(text, sizeof(text),
			       "driver container: %s: driver shut down; what it has started is recovered "
			       "when it is back",
			       SERVICE->methods[i].name);
		assert_string_equal(end.err.msg, text);
		service_client_free(TAKE_PTR(world->client));
	}
}

static void check_answered(struct world *world, enum status status, bool is_waited_for)
{
	start_driver(world, &(struct manner){.status = status});
	start_client(world, is_waited_for ? SHORT_US : never_us);
	for (unsigned int i = 0; i < SERVICE->n_methods; i++) {
		uint64_t from_us = clock_monotonic_us();
		struct end end;
		char text[160];

		start(world, i, never_us, &end);
		run(world, &end.n_done, 1);
		assert_int_equal(end.err.status, status);
		assert_false(service_is_shut_down(&end.err));
		if (is_waited_for)
			assert_true(clock_monotonic_us() - from_us >= SHORT_US);
		(void)snprintf(text, sizeof(text), "driver container: %s answered %s: engine is away",
			       SERVICE->methods[i].name, status_name(status));
		assert_string_equal(end.err.msg, text);
	}
}

TEST_FIXTURE(unavailable_of_a_driver_that_stays_is_its_own_word_in_any_method, setup, teardown)
{
	check_answered(*state, STATUS_UNAVAILABLE, true);
}

TEST_FIXTURE(cancelled_by_a_driver_that_stays_is_its_own_word_in_any_method, setup, teardown)
{
	check_answered(*state, STATUS_CANCELLED, true);
}

TEST_FIXTURE(another_code_is_waited_for_in_no_method, setup, teardown)
{
	check_answered(*state, STATUS_FAILED_PRECONDITION, false);
}

static void start_unavailable(struct world *world)
{
	start_driver(world, &(struct manner)ROW(.status = STATUS_UNAVAILABLE, .is_served = "Capabilities",
						.is_absent = "InspectTask"));
	start_client(world, never_us);
	meet(world);
}

/* A call that ended with UNAVAILABLE and waits for the driver's exit. */
static void start_waiting(struct world *world, struct end *end)
{
	struct end later;

	start_unavailable(world);
	start(world, DRIVER_STOP_TASK, never_us, end);
	run(world, &world->n_seen, 2);
	start(world, DRIVER_INSPECT_TASK, never_us, &later);
	run(world, &later.n_done, 1); /* answers come in their order */
	assert_int_equal(later.err.status, STATUS_NOT_FOUND);
	assert_int_equal(end->n_done, 0);
}

CASE(a_driver_that_answers_unavailable_and_ends_has_shut_down)
{
	struct end end;

	start_waiting(world, &end);
	kill_driver(world);
	run(world, &end.n_done, 1);
	assert_true(service_is_shut_down(&end.err));
}

CASE(a_driver_whose_owner_says_that_it_is_gone_has_shut_down)
{
	struct end end;

	start_waiting(world, &end);
	service_client_exited(world->client);
	assert_int_equal(end.n_done, 0);
	run(world, &end.n_done, 1);
	assert_true(service_is_shut_down(&end.err));
}

CASE(the_callers_time_ends_the_wait)
{
	struct end end;

	start_unavailable(world);
	start(world, DRIVER_STOP_TASK, USEC_PER_SEC, &end);
	run(world, &end.n_done, 1);
	assert_int_equal(end.err.status, STATUS_DEADLINE_EXCEEDED);
	assert_false(service_is_shut_down(&end.err));
}

CASE(a_cancelled_call_gets_no_callback)
{
	struct end waits, hangs;

	start_waiting(world, &waits);
	start(world, DRIVER_TASK_LOGS, never_us, &hangs);
	service_call_cancel(waits.call);
	service_call_cancel(hangs.call);
	service_call_cancel(NULL);
	kill_driver(world);
	run(world, &world->watch.n_done, 1);
	service_client_free(TAKE_PTR(world->client));
	assert_int_equal(waits.n_done, 0);
	assert_int_equal(hangs.n_done, 0);
}

CASE(freeing_the_client_ends_all_calls)
{
	struct end waits, hangs;

	start_waiting(world, &waits);
	start(world, DRIVER_WAIT_TASK, never_us, &hangs);
	service_client_free(TAKE_PTR(world->client));
	assert_int_equal(waits.n_done, 1);
	assert_int_equal(hangs.n_done, 1);
	assert_int_equal(world->watch.n_done, 1);
	assert_string_equal(hangs.err.msg,
			    "driver container: WaitTask: the connection is given up on our side");
	assert_int_equal(waits.err.status, STATUS_UNAVAILABLE);
	assert_int_equal(world->watch.err.status, STATUS_UNAVAILABLE);
}

CASE(a_driver_is_gone_until_it_answers_again)
{
	static const struct manner how = {.is_served = "Capabilities"};
	struct end end;

	start_driver(world, &how);
	start_client(world, never_us);
	meet(world);
	kill_driver(world);
	run(world, &world->watch.n_done, 1);
	start(world, DRIVER_CAPABILITIES, never_us, &end);
	run(world, &end.n_done, 1);
	assert_true(service_is_shut_down(&end.err)); /* at once: there is nobody to wait for */

	start_driver(world, &how);
	start(world, DRIVER_CAPABILITIES, never_us, &end);
	run(world, &end.n_done, 1);
	assert_true(end.has_response);
	start(world, DRIVER_WAIT_TASK, never_us, &end);
	run(world, &world->n_seen, 2);
	kill_driver(world); /* the exit of this one counts, too */
	run(world, &end.n_done, 1);
	assert_true(service_is_shut_down(&end.err));
}

CASE(so_many_calls_are_in_flight_and_no_more)
{
	static struct end ends[DRIVER_CALLS_MAX];
	const Holdfast__Driver__V1__WaitTaskRequest wait = HOLDFAST__DRIVER__V1__WAIT_TASK_REQUEST__INIT;
	struct error err;

	start_client(world, never_us); /* nobody listens, and nothing is sent before the loop runs */
	for (size_t i = 0; i < DRIVER_CALLS_MAX; i++)
		start(world, DRIVER_WAIT_TASK, never_us, &ends[i]);
	assert_int_equal(
		service_call_start(world->client,
				   &(struct service_request)ROW(.method = DRIVER_WAIT_TASK,
								.message = &wait.base, .done = on_done),
				   NULL, &err),
		STATUS_RESOURCE_EXHAUSTED);
	service_call_cancel(ends[3].call);
	start(world, DRIVER_WAIT_TASK, never_us, &ends[3]);
}
