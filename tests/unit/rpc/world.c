/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include "base/clock.h"

void world_answer(struct rpc_call *call, const char *id)
{
	Holdfast__V1__Volume volume = V1(volume, .id = TEXT(id));
	Holdfast__V1__GetVolumeResponse response = V1(get_volume_response, .volume = &volume);

	rpc_call_reply(call, &response.base);
}

static void answer_with_bytes(struct rpc_call *call, size_t n)
{
	cleanup_free char *why = NON_NULL(malloc(n + 1));
	Holdfast__V1__GetVolumeResponse response = V1(get_volume_response, .why = why);

	memset(why, 'w', n);
	why[n] = '\0';
	rpc_call_reply(call, &response.base);
}

static void fail_long(struct rpc_call *call)
{
	struct error err = {.status = STATUS_RESOURCE_EXHAUSTED};

	memset(err.msg, '%', sizeof(err.msg) - 1);
	rpc_call_fail(call, &err);
}

static void on_get(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__GetVolumeRequest *request = (const Holdfast__V1__GetVolumeRequest *)message;
	struct world *world = userdata;
	struct error err;

	world->n_calls++;
	world->peer = *rpc_call_peer(call);
	if (str_eq(request->id, "missing")) {
		(void)error_set(&err, STATUS_NOT_FOUND, 0, "volume \"missing\" is 100%% away\nna\xc3\xafve");
		rpc_call_fail(call, &err);
	} else if (str_eq(request->id, "hold")) {
		assert_true(world->n_held < WORLD_HELD_MAX);
		world->held[world->n_held++] = call;
	} else if (str_eq(request->id, "long")) {
		fail_long(call);
	} else if (str_eq(request->id, "huge")) {
		answer_with_bytes(call, world->answer_bytes);
	} else {
		world_answer(call, strlen(request->id) > 32 ? "long id" : request->id);
	}
}

static enum status welcome(struct rpc_call *call, const char *text, struct error *err)
{
	Holdfast__V1__SessionWelcome message = V1(session_welcome, .server_version = TEXT(text));
	Holdfast__V1__SessionDown down =
		V1(session_down, .message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME,
		   .welcome = &message);

	return rpc_call_send(call, &down.base, err);
}

static void flood(struct world *world, struct rpc_call *call)
{
	char text[4096];
	struct error err;

	memset(text, 'f', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	do
		world->flood_status = welcome(call, text, &err);
	while (world->flood_status == STATUS_OK && ++world->n_flood < 1000000);
}

static void on_session_open(struct rpc_call *call, void *userdata)
{
	struct world *world = userdata;

	world->n_opened++;
	world->stream = call;
	assert_null(rpc_call_data(call));
	rpc_call_set_data(call, world);
}

static void on_session_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__SessionUp *up = (const Holdfast__V1__SessionUp *)message;
	struct world *world = userdata;
	const char *text = up->message_case == HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT
				   ? up->heartbeat->boot_id
				   : "no heartbeat";
	struct error err;

	world->n_messages++;
	assert_ptr_equal(rpc_call_data(call), world);
	if (str_eq(text, "finish")) {
		rpc_call_finish(call);
		assert_int_equal(welcome(call, text, &err), STATUS_UNAVAILABLE);
	} else if (str_eq(text, "fail")) {
		(void)error_set(&err, STATUS_ABORTED, 0, "as you wish");
		rpc_call_fail(call, &err);
	} else if (str_eq(text, "flood")) {
		flood(world, call);
	} else {
		(void)welcome(call, text, &err);
	}
}

static void on_session_half_close(struct rpc_call *call, void *userdata)
{
	struct world *world = userdata;

	world->n_half_closed++;
	rpc_call_finish(call);
}

static void on_session_closed(struct rpc_call *call, void *userdata)
{
	struct world *world = userdata;

	world->n_closed++;
	if (world->stream == call)
		world->stream = NULL;
}

static const struct rpc_stream_handlers session_handlers = {
	.on_open = on_session_open,
	.on_message = on_session_message,
	.on_closed = on_session_closed,
	.on_half_close = on_session_half_close,
};

static void on_gone(struct rpc_call *call, void *userdata)
{
	struct world *world = userdata;

	world->n_gone++;
}

static const struct rpc_method volume_methods[] = {{.name = "Get", .unary = on_get, .on_gone = on_gone}};

static void fill_services(struct world *world)
{
	world->handlers = session_handlers;
	world->node_methods[0] = (struct rpc_method){.name = "Session", .stream = &world->handlers};
	world->services[0] = (struct rpc_service){&holdfast__v1__volumes__descriptor, volume_methods,
						  ARRAY_SIZE(volume_methods)};
	world->services[1] = (struct rpc_service){&holdfast__v1__nodes__descriptor, world->node_methods,
						  ARRAY_SIZE(world->node_methods)};
}

int world_setup_with(void **state, const struct rpc_server_limits *limits)
{
	struct world *world = NON_NULL(calloc(1, sizeof(*world)));
	struct error err;

	temp_dir_make(world->dir);
	(void)str_format(world->socket, sizeof(world->socket), "%s/s", world->dir);
	assert_true(sd_event_new(&world->event) >= 0);
	fill_services(world);
	assert_ok(rpc_server_new(world->event, world->services, ARRAY_SIZE(world->services), limits, world,
				 &world->server, &err));
	assert_succeeds(rpc_server_listen_unix(world->server, world->socket, 0600, &err), err);
	world->client = world_client(world);
	*state = world;
	return 0;
}

int world_setup(void **state)
{
	return world_setup_with(state, NULL);
}

int world_teardown(void **state)
{
	cleanup_free struct world *world = *state;

	rpc_client_free(world->client);
	rpc_server_free(world->server);
	for (size_t i = 0; i < world->n_held; i++)
		if (world->held[i])
			world_answer(world->held[i], "too late");
	sd_event_unref(world->event);
	temp_dir_remove(world->dir);
	return 0;
}

static void run_once(struct world *world, uint64_t until_us)
{
	uint64_t now_us = clock_monotonic_us();

	assert_msg(now_us < until_us, "nothing happened for %d seconds", WORLD_WAIT_S);
	assert_true(sd_event_run(world->event, until_us - now_us) >= 0);
}

void world_run_until(struct world *world, const bool *flag)
{
	uint64_t until_us = clock_monotonic_us() + WORLD_WAIT_S * USEC_PER_SEC;

	while (!*flag)
		run_once(world, until_us);
}

void world_run_until_count(struct world *world, const size_t *count, size_t n)
{
	uint64_t until_us = clock_monotonic_us() + WORLD_WAIT_S * USEC_PER_SEC;

	while (*count < n)
		run_once(world, until_us);
}

void world_settle(struct world *world)
{
	int r;

	do
		r = sd_event_run(world->event, 0);
	while (r > 0);
	assert_int_equal(r, 0);
}

const char *world_path(struct world *world, const char *name)
{
	static char paths[4][TEMP_PATH_SIZE];
	static size_t next;

	return temp_dir_path(paths[next++ % ARRAY_SIZE(paths)], world->dir, name);
}

struct rpc_client *world_client(struct world *world)
{
	const struct rpc_endpoint endpoint = {.unix_path = world->socket};
	struct rpc_client *client = NULL;
	struct error err;

	assert_int_equal(rpc_client_new(world->event, &endpoint, &client, &err), STATUS_OK);
	return client;
}

void world_on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		   void *userdata)
{
	const Holdfast__V1__GetVolumeResponse *message = (const Holdfast__V1__GetVolumeResponse *)response;
	struct answer *answer = userdata;

	answer->done = true;
	answer->n_done++;
	answer->status = status;
	assert_int_equal(status == STATUS_OK, err == NULL);
	assert_int_equal(status == STATUS_OK, response != NULL);
	if (err) {
		assert_int_equal(err->status, status);
		answer->err = *err;
		return;
	}
	if (!message) {
		fail();
		return;
	}
	answer->why_len = strlen(message->why);
	if (message->volume)
		assert_int_equal(str_copy(answer->id, sizeof(answer->id), message->volume->id), 0);
}

struct rpc_pending *world_get(struct world *world, struct rpc_client *client, const char *id,
			      uint64_t timeout_us, struct answer *answer)
{
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = TEXT(id));
	struct rpc_pending *pending = NULL;
	struct error err;

	*answer = (struct answer){.done = false};
	assert_succeeds(rpc_client_call(client, &holdfast__v1__volumes__descriptor, "Get", &request.base,
					timeout_us, world_on_done, answer, &pending, &err),
			err);
	assert_false(answer->done);
	return pending;
}

enum status world_get_now(struct world *world, struct rpc_client *client, const char *id,
			  struct answer *answer)
{
	(void)world_get(world, client, id, WORLD_CALL_US, answer);
	world_run_until(world, &answer->done);
	return answer->status;
}

static void on_open(struct rpc_stream *stream, void *userdata)
{
	struct session *session = userdata;

	session->opened = true;
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__SessionDown *down = (const Holdfast__V1__SessionDown *)message;
	struct session *session = userdata;

	assert_true(session->opened);
	session->n_messages++;
	if (strlen(down->welcome->server_version) < sizeof(session->last))
		(void)str_copy(session->last, sizeof(session->last), down->welcome->server_version);
	if (session->cancel_on_message)
		rpc_stream_cancel(stream);
	if (session->free_on_message)
		rpc_client_free(session->free_on_message);
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct session *session = userdata;

	assert_false(session->closed);
	session->closed = true;
	session->stream = NULL;
	session->status = status;
	assert_int_equal(status == STATUS_OK, err == NULL);
	if (err)
		session->err = *err;
}

const struct rpc_stream_events *session_events = &(const struct rpc_stream_events){
	.on_open = on_open,
	.on_message = on_message,
	.on_closed = on_closed,
};

static void open_stream(struct session *session, struct world *world, struct rpc_client *client,
			const char *method, uint64_t timeout_us)
{
	struct error err;

	*session = (struct session){.world = world};
	assert_succeeds(rpc_stream_open(client, &holdfast__v1__nodes__descriptor, method, timeout_us,
					session_events, session, &session->stream, &err),
			err);
	assert_false(session->opened);
}

void session_open(struct session *session, struct world *world, struct rpc_client *client)
{
	open_stream(session, world, client, "Session", WORLD_CALL_US);
}

void session_open_within(struct session *session, struct world *world, struct rpc_client *client,
			 uint64_t timeout_us)
{
	open_stream(session, world, client, "Session", timeout_us);
}

void session_open_method(struct session *session, struct world *world, struct rpc_client *client,
			 const char *method)
{
	open_stream(session, world, client, method, WORLD_CALL_US);
}

enum status session_send(struct session *session, const char *boot_id, struct error *err)
{
	Holdfast__V1__Heartbeat heartbeat = V1(heartbeat, .boot_id = TEXT(boot_id));
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT,
		   .heartbeat = &heartbeat);

	return rpc_stream_send(session->stream, &up.base, err);
}

void session_say(struct session *session, const char *boot_id)
{
	struct error err = {.msg = ""};

	assert_succeeds(session_send(session, boot_id, &err), err);
}
