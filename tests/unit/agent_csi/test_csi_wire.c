/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of quirks.c, played over a socket. */

#include "quirks.h"

#include "rpc/client.h"
#include "rpc/client_internal.h"
#include "rpc/timer.h"

/* @text with the socket's path as the word SOCKET. */
static void hide_path(const char *text, const char *path, char ret[static ERROR_MSG_MAX])
{
	const char *at = strstr(text, path);

	if (at)
		(void)snprintf(ret, ERROR_MSG_MAX, "%.*sSOCKET%s", (int)(at - text), text, at + strlen(path));
	else
		(void)snprintf(ret, ERROR_MSG_MAX, "%s", text);
}

/* What every request must have, whatever the answer is. */
static void check_request(const struct plugin_request *request)
{
	static const char *const needed[] = {
		":method: POST\n", ":authority: localhost\n",	       "te: trailers\n",
		":scheme: http\n", "content-type: application/grpc\n", "grpc-accept-encoding: identity\n",
	};
	const char *timeout = strstr(request->headers, "grpc-timeout: ");

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		assert_non_null(strstr(request->headers, needed[i]));
	assert_null(strstr(request->headers, "grpc-encoding"));
	assert_non_null(timeout);
	assert_in_range(strcspn(timeout + strlen("grpc-timeout: "), "\n"), 2, 9);
	if (request->is_whole)
		assert_int_equal(request->body[0], 0); /* not compressed */
}

/* The whole text, or its beginning up to a star. */
static bool is_like(const char *text, const char *wanted)
{
	size_t n = strlen(wanted);

	if (n > 0 && wanted[n - 1] == '*')
		return strlen(text) > n - 1 && strncmp(text, wanted, n - 1) == 0;
	return str_eq(text, wanted);
}

static int n_failed;

static void say(const struct quirk *row, const char *what, const char *have, const char *want)
{
	n_failed++;
	print_error("%s: %s is\n  %s\nand not\n  %s\n", row->name, what, have, want);
}

static void check_number(const struct quirk *row, const char *what, size_t have, size_t want)
{
	char texts[2][24];

	if (have == want)
		return;
	(void)snprintf(texts[0], sizeof(texts[0]), "%zu", have);
	(void)snprintf(texts[1], sizeof(texts[1]), "%zu", want);
	say(row, what, texts[0], texts[1]);
}

static void play_row(const struct quirk *row)
{
	enum csi_method method = row->method ? row->method : CSI_NODE_STAGE_VOLUME;
	struct csi_world *world;
	struct end end = {0};
	struct end next = {0};
	char text[ERROR_MSG_MAX];
	size_t at = 0; /* of the row's request */
	void *state;

	(void)csi_world_setup(&state);
	world = state;
	if (row->opening[0].kind != STEP_END)
		world->plugin.opening = row->opening;
	world->plugin.grants = row->grants;
	if (row->opening[0].kind == STEP_SETTINGS) { /* which must have arrived before what they are for */
		csi_world_call(world, CSI_PROBE, 0, &next);
		at = 1;
	}
	world->plugin.scripts[at] = row->steps;
	world->plugin.n_scripts = at + 1;
	csi_world_call(world, method, row->timeout_us, &end);
	csi_world_settle(world);
	hide_path(end.is_answered ? end.text : end.err.msg, world->plugin.path, text);
	if (end.err.status != row->status)
		say(row, "the status", status_name(end.err.status), status_name(row->status));
	if (!is_like(text, row->text))
		say(row, "the text", text, row->text);
	check_number(row, "answered PINGs", world->plugin.n_ping_acks, row->n_ping_acks);
	check_number(row, "resets", world->plugin.n_resets, row->reset_code ? 1 : 0);
	if (row->reset_code)
		check_number(row, "its code", world->plugin.requests[at].reset_code, row->reset_code);

	/* whatever it was, the next call is none the worse for it */
	world->plugin.opening = NULL;
	if (row->after == STUCK)
		plugin_hang_up(&world->plugin);
	csi_world_settle(world);
	csi_world_call(world, CSI_PROBE, 0, &next);
	if (!next.is_answered)
		say(row, "the next call", next.err.msg, "answered");
	check_number(row, "connections", world->plugin.n_conns, row->after == KEPT ? 1 : 2);
	for (size_t i = 0; i < world->plugin.n_requests; i++)
		check_request(&world->plugin.requests[i]);
	check_number(row, "PINGs of our own", world->plugin.n_pings, 0);
	csi_world_settle(world);
	check_number(row, "times it was told", end.n_done, 1);
	(void)csi_world_teardown(&state);
}

TEST(whatever_a_plugin_does_on_the_wire_the_caller_is_reported_in_a_code_and_a_sentence)
{
	for (size_t i = 0; i < n_quirks; i++)
		play_row(&quirks[i]);
	assert_int_equal(n_failed, 0);
}

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	*(size_t *)userdata = 1 + (status == STATUS_OK);
}

static int on_pause(sd_event_source *source, uint64_t usec, void *userdata)
{
	*(size_t *)userdata = 1;
	return 0;
}

/* With a clock a thousand times as quick: plugins answer PINGs that they find too many with GOAWAY. */
TEST_ON(no_ping_is_sent_while_a_call_runs_nor_when_nothing_does, struct csi_world, world, csi_world_setup,
	csi_world_teardown)
{
	const struct rpc_endpoint endpoint = {.unix_path = world->plugin.path};
	const struct step answer[] = {HEAD(GRPC), DATA(EMPTY), LAST(OK), {.kind = STEP_END}};
	Csi__V1__ProbeRequest request = CSI__V1__PROBE_REQUEST__INIT;
	struct rpc_client *client = NULL;
	size_t done = 0;

	assert_int_equal(rpc_client_new(world->event, &endpoint, &client, NULL), STATUS_OK);
	client->timing.keepalive_us = 2000;
	client->timing.silence_us = 2000;
	world->plugin.holds = true;
	assert_ok(rpc_client_call(client, &csi__v1__identity__descriptor, "Probe", &request.base,
				  10 * USEC_PER_SEC, on_done, &done, NULL, NULL));
	csi_world_run(world, &world->plugin.n_whole, 1);
	for (int i = 0; i < 2; i++) { /* while it runs, and when it has ended */
		sd_event_source *pause = NULL;
		size_t paused = 0;

		assert_true(timer_arm(world->event, &pause, 30 * 1000, on_pause, &paused) >= 0);
		csi_world_run(world, &paused, 1);
		(void)sd_event_source_disable_unref(pause);
		if (i == 0)
			plugin_play(&world->plugin, 0, answer);
	}
	assert_int_equal(done, 2);
	assert_int_equal(world->plugin.n_pings, 0);
	assert_int_equal(world->plugin.n_conns, 1);
	rpc_client_free(client);
}
