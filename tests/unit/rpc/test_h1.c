/* SPDX-License-Identifier: Apache-2.0 */
#include "raw.h"

#include "base/clock.h"
#include "rpc/server_internal.h"

#define H1_POST(length)                                                                           \
	"POST /holdfast.v1.Volumes/Get HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" \
	"Content-Length: " length "\r\n"

static void say(struct raw *raw, const char *text)
{
	assert_int_equal(raw_send(raw, text, strlen(text)), strlen(text));
}

WORLD_TEST(calls_are_answered_over_http1_one_after_the_other)
{
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, false);
	say(&raw, H1_POST("12") "\r\n{\"id\": \"d1\"}");
	raw_expect(&raw, "\"id\":\"d1\"");
	assert_memory_equal(raw.text, "HTTP/1.1 200 OK\r\n", 17);
	say(&raw, H1_POST("17") "\r\n{\"id\": \"missing\"}");
	raw_expect(&raw, "HTTP/1.1 404 ");
	raw_expect(&raw, "\"code\":\"not_found\"");
	assert_false(raw.closed);
}

WORLD_TEST(any_cut_of_an_http1_request_gives_the_same_answer)
{
	static const char text[] = H1_POST("12") "\r\n{\"id\": \"d1\"}";

	for (size_t n = 1; n < sizeof(text) - 1; n++) {
		struct raw raw;

		raw_open(&raw, world, false);
		assert_int_equal(raw_send(&raw, text, n), n);
		world_settle(world);
		assert_int_equal(raw.n_received, 0);
		say(&raw, text + n);
		raw_expect(&raw, "\"id\":\"d1\"");
		raw_close(&raw);
		world_settle(world);
	}
	assert_int_equal(world->server->n_conns, 0);
}

WORLD_TEST(requests_sent_ahead_are_answered_in_their_order)
{
	const char *second;
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, false);
	say(&raw, H1_POST("14") "\r\n{\"id\": \"hold\"}" H1_POST("12") "\r\n{\"id\": \"d2\"}");
	world_run_until_count(world, &world->n_held, 1);
	world_settle(world);
	assert_int_equal(raw.n_received, 0);
	world_answer(TAKE_PTR(world->held[0]), "d1");
	raw_expect(&raw, "\"id\":\"d2\"");
	second = strstr(raw.text, "\"id\":\"d2\"");
	assert_true(strstr(raw.text, "\"id\":\"d1\"") < second);
}

WORLD_TEST(too_much_sent_ahead_ends_the_connection)
{
	static char filler[70000];
	struct raw raw;

	memset(filler, 'f', sizeof(filler));
	raw_open(&raw, world, false);
	say(&raw, H1_POST("14") "\r\n{\"id\": \"hold\"}");
	world_run_until_count(world, &world->n_held, 1);
	(void)raw_send(&raw, filler, sizeof(filler));
	world_run_until(world, &raw.closed);
	raw_close(&raw);
	world_answer(TAKE_PTR(world->held[0]), "late");
	assert_int_equal(world->server->n_conns, 0);
}

WORLD_TEST(the_connection_is_closed_when_the_client_asks_for_it)
{
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, false);
	say(&raw, H1_POST("12") "Connection: close\r\n\r\n{\"id\": \"d1\"}");
	world_run_until(world, &raw.closed);
	assert_non_null(strstr(raw.text, "connection: close\r\n"));
	assert_non_null(strstr(raw.text, "\"id\":\"d1\""));
}

WORLD_TEST(the_body_and_the_answer_of_the_last_request_may_take_their_time)
{
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, false);
	say(&raw, H1_POST("14") "Connection: close\r\n\r\n");
	world_settle(world);
	say(&raw, "{\"id\": \"hold\"}");
	world_run_until_count(world, &world->n_held, 1);
	world_settle(world);
	assert_false(raw.closed);
	world_answer(TAKE_PTR(world->held[0]), "d1");
	world_run_until(world, &raw.closed);
	assert_non_null(strstr(raw.text, "\"id\":\"d1\""));
}

WORLD_TEST(a_large_answer_is_sent_whole_before_the_connection_closes)
{
	cleanup(raw_close) struct raw raw;

	world->answer_bytes = 2000000;
	raw_open(&raw, world, false);
	raw_read(&raw, false);
	say(&raw, H1_POST("14") "Connection: close\r\n\r\n{\"id\": \"huge\"}");
	world_settle(world);
	raw_read(&raw, true);
	world_run_until(world, &raw.closed);
	assert_true(raw.n_received > 2000000);
}

WORLD_TEST(the_body_of_a_refused_request_is_skipped)
{
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, false);
	say(&raw, "POST /a.B/C HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
		  "12\r\n\r\n{\"id\"");
	raw_expect(&raw, "HTTP/1.1 501 ");
	say(&raw, ": \"d1\"}" H1_POST("12") "\r\n{\"id\": \"d2\"}");
	raw_expect(&raw, "\"id\":\"d2\"");
}

WORLD_TEST(http1_requests_that_cannot_be_read_are_answered_and_the_connection_ends)
{
	static const struct row {
		const char *text, *answer;
	} rows[] = {
		{"GARBAGE\r\n\r\n", "HTTP/1.1 400 "},
		{H1_POST("1000001") "\r\n", "HTTP/1.1 413 "},
		{"GET /v1/volumes HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 "},
		{"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 "},
		{"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 501 "},
	};

	world->server->limits.message_bytes = 1000000;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup(raw_close) struct raw raw;

		raw_open(&raw, world, false);
		say(&raw, rows[i].text);
		world_run_until(world, &raw.closed);
		assert_msg(strstr(raw.text, rows[i].answer), "row %zu: %s", i, raw.text);
		assert_non_null(strstr(raw.text, "connection: close\r\n"));
	}
	assert_int_equal(world->n_calls, 0);
}

WORLD_TEST(a_grpc_call_cannot_be_made_over_http1)
{
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, false);
	say(&raw,
	    "POST /holdfast.v1.Volumes/Get HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\n\r\n");
	raw_expect(&raw, "HTTP/1.1 415 ");
}

WORLD_TEST(a_client_that_waits_for_100_gets_it)
{
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, false);
	say(&raw, H1_POST("12") "Expect: 100-continue\r\n\r\n");
	raw_expect(&raw, "HTTP/1.1 100 Continue\r\n\r\n");
	say(&raw, "{\"id\": \"d1\"}");
	raw_expect(&raw, "\"id\":\"d1\"");
}

WORLD_TEST(slow_http1_clients_are_disconnected)
{
	static const char whole[] = H1_POST("12") "\r\n{\"id\": \"d1\"}"; /* and no other follows */
	static const char refused[] = H1_POST("12") "Expect: nothing\r\n\r\n{";
	static const char unended[] =
		H1_POST("12") "Content-Encoding: x\r\n\r\n{"; /* answered, but not over */
	static const char *const beginnings[] = {"P", "POST / HT", whole, refused, unended};

	world->server->timing.first_request_us = 30 * USEC_PER_MSEC;
	for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++) {
		cleanup(raw_close) struct raw raw;

		raw_open(&raw, world, false);
		say(&raw, beginnings[i]);
		world_run_until(world, &raw.closed);
	}
	assert_int_equal(world->server->n_conns, 0);
}

WORLD_TEST(the_deadline_of_an_http1_call_is_kept_while_its_handler_holds_it)
{
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, false);
	say(&raw, H1_POST("14") "Connect-Timeout-Ms: 30\r\n\r\n{\"id\": \"hold\"}");
	raw_expect(&raw, "HTTP/1.1 504 ");
	assert_int_equal(world->n_held, 1);
	say(&raw, H1_POST("12") "\r\n{\"id\": \"d2\"}");
	raw_expect(&raw, "\"id\":\"d2\"");
	world_answer(TAKE_PTR(world->held[0]), "late");
	world_settle(world);
	assert_null(strstr(raw.text, "late"));
}

WORLD_TEST(an_http1_client_that_dies_leaves_the_call_to_its_handler)
{
	struct raw raw;

	raw_open(&raw, world, false);
	say(&raw, H1_POST("14") "\r\n{\"id\": \"hold\"}");
	world_run_until_count(world, &world->n_held, 1);
	raw_close(&raw);
	world_settle(world);
	assert_int_equal(world->n_gone, 1);
	assert_int_equal(rpc_call_peer(world->held[0])->pid, getpid());
	world_answer(TAKE_PTR(world->held[0]), "for nobody");
	assert_int_equal(world->server->n_conns, 0);
}

WORLD_TEST(the_server_may_be_freed_with_http1_calls_in_progress)
{
	cleanup(raw_close) struct raw held, partial;

	raw_open(&held, world, false);
	raw_open(&partial, world, false);
	say(&held, H1_POST("14") "\r\n{\"id\": \"hold\"}");
	say(&partial, H1_POST("14") "\r\n{\"id\"");
	world_run_until_count(world, &world->n_held, 1);
	world_settle(world);
	rpc_server_free(TAKE_PTR(world->server));
	world_answer(TAKE_PTR(world->held[0]), "for nobody");
	world_run_until(world, &held.closed);
	world_run_until(world, &partial.closed);
}
