/* SPDX-License-Identifier: Apache-2.0 */
/* What one event costs the loop when hundreds of connections are ready at once, and who waits for whom. */

#include "raw.h"
#include "unit_clock.h"

#include "base/clock.h"
#include "rpc/poller.h"
#include "rpc/server_internal.h"

enum { MANY = 240, WORK_US = 1000 };

static const struct rpc_server_limits limits = {.connections = 2 * MANY, .per_user = 2 * MANY};

static int setup(void **state)
{
	return world_setup_with(state, &limits);
}

static struct raw raws[MANY];
static struct raw_answer answers[MANY];

static void close_all(void)
{
	for (size_t i = 0; i < MANY; i++)
		raw_close(&raws[i]);
}

TEST_ON(an_event_costs_the_same_however_many_connections_are_ready, struct world, world, setup,
	world_teardown)
{
	static const char request[] = "POST /holdfast.v1.Volumes/Get HTTP/1.1\r\nhost: h\r\n"
				      "content-type: application/json\r\ncontent-length: 13\r\n\r\n"
				      "{\"id\": \"vol\"}";

	for (size_t i = 0; i < MANY; i++) {
		raw_open(&raws[i], world, false);
		(void)raw_send(&raws[i], request, sizeof(request) - 1);
		raw_expect(&raws[i], "\"vol\"");
		raw_read(&raws[i], false); /* what the server does is counted alone */
	}
	world_settle(world);
	for (size_t i = 0; i < MANY; i++)
		(void)raw_send(&raws[i], request, sizeof(request) - 1);
	unit_clock_events = 0;
	world_settle(world);
	assert_msg(unit_clock_events <= (size_t)4 * MANY, "%zu events for %d requests", unit_clock_events,
		   MANY);
	for (size_t i = 0; i < MANY; i++) {
		size_t before = raws[i].n_received;

		raw_read(&raws[i], true);
		while (raws[i].n_received == before)
			assert_true(sd_event_run(world->event, WORLD_CALL_US) > 0);
	}
	close_all();
}

static void work_for_a_while(void)
{
	const uint64_t end = clock_monotonic_us() + WORK_US;

	while (clock_monotonic_us() < end)
		;
}

static void work_on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct world *world = userdata;

	world->n_messages++;
	work_for_a_while();
}

static size_t heartbeat_frame(uint8_t frame[static 64])
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__Heartbeat heartbeat = HOLDFAST__V1__HEARTBEAT__INIT;
	size_t n;

	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT;
	up.heartbeat = &heartbeat;
	n = protobuf_c_message_pack(&up.base, frame + 5);
	memset(frame, 0, 4);
	frame[4] = (uint8_t)n;
	return n + 5;
}

/* Sessions of a method in the background, or not, each with a message that waits to be read. */
static void have_sessions_ready(struct world *world, bool is_background)
{
	static const struct raw_field session[] = RAW_POST("/holdfast.v1.Nodes/Session", "application/grpc");
	uint8_t frame[64];
	const struct raw_request heartbeat = {
		.body = frame, .body_len = heartbeat_frame(frame), .open = true};

	world->handlers.on_message = work_on_message;
	world->node_methods[0].is_background = is_background;
	for (size_t i = 0; i < MANY; i++) {
		raw_open(&raws[i], world, true);
		raw_start(&raws[i], &(struct raw_request){.fields = session, .open = true}, &answers[i]);
		world_run_until_count(world, &world->n_opened, i + 1);
		raw_read(&raws[i], false);
	}
	world_settle(world);
	for (size_t i = 0; i < MANY; i++)
		raw_continue(&raws[i], &heartbeat, &answers[i]);
}

TEST_ON(a_turn_ends_though_hundreds_of_connections_are_ready, struct world, world, setup, world_teardown)
{
	size_t most = 0;

	have_sessions_ready(world, false);
	while (world->n_messages < MANY) {
		size_t before = world->n_messages;

		assert_true(sd_event_run(world->event, WORLD_CALL_US) >= 0);
		if (world->n_messages - before > most)
			most = world->n_messages - before;
	}
	assert_msg(most <= 4, "%zu messages of %d us in one turn", most, WORK_US);
	close_all();
}

TEST_ON(a_call_does_not_wait_for_hundreds_of_sessions_that_are_ready, struct world, world, setup,
	world_teardown)
{
	struct answer answer;

	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
	have_sessions_ready(world, true);
	while (world->n_messages == 0)
		assert_true(sd_event_run(world->event, WORLD_CALL_US) > 0);
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
	assert_msg(world->n_messages <= MANY / 4, "answered after %zu of %d messages of sessions",
		   world->n_messages, MANY);
	world_run_until_count(world, &world->n_messages, MANY); /* and they have their turns too */
	close_all();
}

/* --- a poller by itself --- */

enum { ITEMS = 3 };

struct watched {
	struct poll_item item;
	int fds[2];
	size_t n_ready, n_woken;
	struct watched *removes; /* when it is called */
	struct poller *frees;
};

static void on_watched(struct poll_item *item, uint32_t events)
{
	struct watched *watched = (struct watched *)item;

	watched->n_ready += events != 0;
	watched->n_woken += events == 0;
	if (watched->removes)
		poller_remove(&watched->removes->item);
	if (watched->frees)
		poller_free(watched->frees);
}

struct small_world {
	sd_event *event;
	struct poller *poller;
	struct watched items[ITEMS];
};

UNIT_SETUP(small_setup, struct small_world, small)
{
	assert_true(sd_event_new(&small->event) >= 0);
	assert_int_equal(poller_new(small->event, &small->poller), 0);
	for (size_t i = 0; i < ITEMS; i++) {
		struct watched *watched = &small->items[i];

		assert_int_equal(pipe(watched->fds), 0);
		assert_int_equal(write(watched->fds[1], "x", 1), 1);
		assert_int_equal(
			poller_add(small->poller, &watched->item, watched->fds[0], EPOLLIN, on_watched), 0);
	}
}

UNIT_TEARDOWN(small_teardown, struct small_world, small)
{
	for (size_t i = 0; i < ITEMS; i++) {
		poller_remove(&small->items[i].item);
		(void)close(small->items[i].fds[0]);
		(void)close(small->items[i].fds[1]);
	}
	poller_free(small->poller);
	(void)sd_event_unref(small->event);
}

#define CASE(name) TEST_ON(name, struct small_world, small, small_setup, small_teardown)

CASE(an_item_removed_in_a_turn_is_not_called_in_it)
{
	size_t called = 0;

	for (size_t i = 0; i < ITEMS; i++) {
		small->items[i].removes = &small->items[(i + 1) % ITEMS];
		poller_wake(&small->items[i].item);
	}
	(void)sd_event_run(small->event, 0);
	for (size_t i = 0; i < ITEMS; i++)
		called += small->items[i].n_ready + small->items[i].n_woken > 0;
	assert_true(called > 0 && called < ITEMS);
	for (size_t i = 0; i < ITEMS; i++)
		if (!small->items[i].item.poller)
			assert_true(small->items[i].n_woken <= 1);
}

CASE(an_item_woken_twice_is_called_once_and_a_paused_one_only_when_woken)
{
	struct watched *watched = &small->items[0];

	poller_pause(&watched->item);
	poller_wake(&watched->item);
	poller_wake(&watched->item);
	while (sd_event_run(small->event, 0) > 0 && small->items[1].n_ready < 5)
		;
	assert_int_equal(watched->n_woken, 1);
	assert_int_equal(watched->n_ready, 0);
	assert_int_equal(small->items[1].n_ready, 5);
}

CASE(a_moved_item_is_served_by_the_other_poller_alone)
{
	struct watched *watched = &small->items[0];
	struct poller *other = NULL;

	assert_int_equal(poller_new(small->event, &other), 0);
	poller_wake(&watched->item);
	poller_move(&watched->item, other);
	poller_free(small->poller);
	small->poller = NULL;
	assert_true(sd_event_run(small->event, 0) > 0);
	assert_int_equal(watched->n_woken, 1);
	assert_true(watched->n_ready >= 1);
	assert_int_equal(small->items[1].n_ready, 0);
	poller_free(other);
}

CASE(a_poller_freed_in_its_turn_makes_no_more_calls)
{
	size_t called = 0;

	for (size_t i = 0; i < ITEMS; i++)
		small->items[i].frees = small->poller;
	for (size_t i = 0; i < ITEMS; i++)
		poller_wake(&small->items[i].item);
	assert_true(sd_event_run(small->event, 0) > 0);
	small->poller = NULL;
	(void)sd_event_run(small->event, 0);
	for (size_t i = 0; i < ITEMS; i++)
		called += small->items[i].n_ready + small->items[i].n_woken;
	assert_int_equal(called, 1);
}

/* Woken again by each call, as connections are of which hundreds have something left to do. */
static void on_restless(struct poll_item *item, uint32_t events)
{
	work_for_a_while();
	on_watched(item, events);
	poller_wake(item);
}

CASE(woken_items_of_one_poller_do_not_hold_up_those_of_another)
{
	struct watched calm = {0};
	struct poller *other = NULL;
	size_t turns = 0;

	assert_int_equal(poller_new(small->event, &other), 0);
	assert_int_equal(pipe(calm.fds), 0);
	assert_int_equal(poller_add(other, &calm.item, calm.fds[0], EPOLLIN, on_watched), 0);
	small->items[0].item.fn = on_restless;
	poller_wake(&small->items[0].item);
	while (turns++ < 5)
		assert_true(sd_event_run(small->event, 0) > 0);
	assert_int_equal(calm.n_ready, 0);
	assert_int_equal(write(calm.fds[1], "x", 1), 1);
	for (turns = 0; turns < 8 && calm.n_ready == 0; turns++)
		assert_true(sd_event_run(small->event, 0) > 0);
	assert_msg(calm.n_ready != 0, "not called in %zu turns of the loop", turns);
	assert_true(small->items[0].n_woken > 5); /* which has its turns too */
	poller_remove(&calm.item);
	poller_free(other);
	(void)close(calm.fds[0]);
	(void)close(calm.fds[1]);
}
