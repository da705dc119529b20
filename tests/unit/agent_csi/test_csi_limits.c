/* SPDX-License-Identifier: Apache-2.0 */
/* How much a plugin may say, and where its socket may be. */

#include "quirks.h"

#include "base/clock.h"
#include "rpc/unpack.h"

#include <sys/socket.h>
#include <sys/un.h>

static void fill(char *text, size_t n, char c)
{
	memset(text, c, n);
	text[n] = '\0';
}

/* One call that is answered with an error of these headers. */
static void call_with_headers(const char *block, struct end *end, size_t *ret_conns)
{
	const struct step steps[] = {LAST(block), {.kind = STEP_END}};
	struct csi_world *world;
	struct end next = {0};
	void *state;

	(void)csi_world_setup(&state);
	world = state;
	world->plugin.scripts[0] = steps;
	world->plugin.n_scripts = 1;
	csi_world_call(world, CSI_NODE_STAGE_VOLUME, 0, end);
	csi_world_call(world, CSI_PROBE, 0, &next);
	assert_true(next.is_answered);
	*ret_conns = world->plugin.n_conns;
	(void)csi_world_teardown(&state);
}

/* ... whose text, as sent, is @message. */
static void call_with_message(const char *message, struct end *end, size_t *ret_conns)
{
	static char block[20 * 1024];

	(void)snprintf(block, sizeof(block), GRPC "grpc-status: 13\ngrpc-message: %s\n", message);
	call_with_headers(block, end, ret_conns);
}

TEST(a_stack_trace_of_several_kilobytes_becomes_one_line_that_is_cut_and_reports_it)
{
	static const char line[] = "TypeError: cannot read x%0A    at Object.stage (/app/index.js:1)%0A";
	static char message[16 * 1024];
	struct end end = {0};
	size_t n_conns = 0;

	for (size_t at = 0; at + sizeof(line) < sizeof(message); at += sizeof(line) - 1)
		memcpy(message + at, line, sizeof(line));
	call_with_message(message, &end, &n_conns);
	assert_error(end.err.status, STATUS_INTERNAL, end.err,
		     SAID "INTERNAL: TypeError: cannot read x\\n    at Object");
	assert_in_range(strlen(end.err.msg), strlen(SAID "INTERNAL: ") + CSI_TEXT_MAX - 40,
			strlen(SAID "INTERNAL: ") + CSI_TEXT_MAX);
	assert_non_null(strstr(end.err.msg, "... "));
	assert_null(strchr(end.err.msg, '\n'));
	assert_int_equal(n_conns, 1);
}

TEST(the_text_of_an_error_is_cut_at_its_limit_and_not_before)
{
	char message[CSI_TEXT_MAX + 2];
	struct end end = {0};
	size_t n_conns = 0;

	fill(message, CSI_TEXT_MAX, 'x');
	call_with_message(message, &end, &n_conns);
	assert_string_equal(end.err.msg + strlen(end.err.msg) - 3, "xxx");
	assert_int_equal(strlen(end.err.msg), strlen(SAID "INTERNAL: ") + CSI_TEXT_MAX);
	fill(message, CSI_TEXT_MAX + 1, 'x');
	call_with_message(message, &end, &n_conns);
	assert_non_null(strstr(end.err.msg, "x... x"));
	assert_int_equal(strlen(end.err.msg), strlen(SAID "INTERNAL: ") + CSI_TEXT_MAX);
}

/* As the mounter of Kubernetes words it: the cause comes last. */
TEST(a_long_error_keeps_the_mount_output_at_its_end)
{
	static const char before[] = "rpc error: cannot stage volume pvc-1 at /x";
	static const char cause[] =
		"Output: mount: /x: wrong fs type, bad option, bad superblock on /dev/sdb.";
	char message[900];
	struct end end = {0};
	size_t n_conns = 0;

	(void)snprintf(message, sizeof(message), "%s%*s%s", before, 600, " ", cause);
	for (char *c = message; *c != '\0'; c++)
		if (*c == ' ' && c[1] == ' ')
			*c = 'o';
	call_with_message(message, &end, &n_conns);
	assert_non_null(strstr(end.err.msg, before));
	assert_string_equal(end.err.msg + strlen(end.err.msg) - strlen(cause), cause);
	assert_int_equal(strlen(end.err.msg), strlen(SAID "INTERNAL: ") + CSI_TEXT_MAX);
}

/* We announce 64 KiB, which every stack that was seen respects. */
TEST(headers_above_the_limit_are_refused_in_words)
{
	static const struct {
		size_t size; /* of each field */
		size_t n;
		enum status status;
		const char *text;
		size_t n_conns;
	} cases[] = {
		{60 * 1024, 1, STATUS_INTERNAL, "NodeStageVolume answered INTERNAL: xxx", 1},
		{30 * 1024, 3, STATUS_RESOURCE_EXHAUSTED, "the answer's headers are larger than 65536 bytes",
		 1},
		/* one field that HPACK's decoder does not take: nothing can be decoded after it */
		{70 * 1024, 1, STATUS_UNAVAILABLE, "breaks its rules: ", 2},
	};
	static char block[200 * 1024], value[80 * 1024];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t at = (size_t)snprintf(block, sizeof(block), GRPC "grpc-status: 13\n");
		struct end end = {0};
		size_t n_conns = 0;

		fill(value, cases[i].size, 'x');
		for (size_t k = 0; k < cases[i].n; k++)
			at += (size_t)snprintf(block + at, sizeof(block) - at, "%s: %s\n",
					       k == 0 ? "grpc-message" : "x", value);
		call_with_headers(block, &end, &n_conns);
		assert_int_equal(end.err.status, cases[i].status);
		assert_msg(strstr(end.err.msg, cases[i].text), "%s", end.err.msg);
		assert_int_equal(n_conns, cases[i].n_conns);
	}
}

static size_t answer_of(uint8_t *frame, size_t n)
{
	memset(frame, 0, 5 + n);
	frame[3] = (uint8_t)(n >> 8);
	frame[4] = (uint8_t)n;
	frame[5] = 0x0a; /* node_id */
	frame[6] = (uint8_t)((n - 3) % 128 + 128);
	frame[7] = (uint8_t)((n - 3) / 128);
	memset(frame + 8, 'n', n - 3);
	return 5 + n;
}

WORLD_TEST(an_answer_of_the_limit_is_taken_and_one_byte_more_refused)
{
	enum { LIMIT = 1000 };
	const struct service_client_options options = {
		.name = "nfs", .socket = world->plugin.path, .message_bytes = LIMIT};
	uint8_t frames[2][LIMIT + 16];
	struct step steps[2][4];
	struct end end = {0};

	service_client_free(world->client);
	assert_ok(service_client_new(world->event, &csi_kind, &options, &world->client, NULL));
	for (size_t i = 0; i < 2; i++) {
		memcpy(steps[i], (struct step[]){HEAD(GRPC), DATA(""), LAST(OK), {.kind = STEP_END}},
		       sizeof(steps[i]));
		steps[i][1].text = (const char *)frames[i];
		steps[i][1].n = answer_of(frames[i], LIMIT + i);
		world->plugin.scripts[i] = steps[i];
		world->plugin.n_scripts = i + 1;
	}
	csi_world_call(world, CSI_NODE_GET_INFO, 0, &end);
	assert_true(end.is_answered);
	csi_world_call(world, CSI_NODE_GET_INFO, 0, &end);
	assert_error(end.err.status, STATUS_RESOURCE_EXHAUSTED, end.err, "1001 bytes, the limit is 1000");
}

/* grpc-go refuses 5 MiB at the prefix: the rest of the request is never read. */
WORLD_TEST(a_refusal_is_heard_while_the_request_is_still_being_sent)
{
	static const struct step refusal[] = {
		{.kind = STEP_EARLY},
		LAST(GRPC "grpc-status: 8\ngrpc-message: grpc: received message larger than max\n"),
		NUMBER(STEP_RESET, 0),
		{.kind = STEP_END}};
	static const struct step window[] = {NUMBER(STEP_WINDOW, 65535), {.kind = STEP_END}};
	static char name[1 << 20];
	Csi__V1__CreateVolumeRequest request = PB(csi__v1__create_volume_request, .name = name);
	struct end end = {0};

	fill(name, sizeof(name) - 1, 'n');
	world->plugin.scripts[0] = refusal;
	world->plugin.n_scripts = 1;
	assert_ok(service_call_start(world->client,
				     &(struct service_request){.method = CSI_CREATE_VOLUME,
							       .message = &request.base,
							       .done = csi_world_done,
							       .userdata = &end},
				     NULL, NULL));
	csi_world_run(world, &end.n_done, 1);
	assert_error(end.err.status, STATUS_RESOURCE_EXHAUSTED, end.err,
		     "nnn...: CreateVolume answered RESOURCE_EXHAUSTED: grpc: received");
	assert_true(world->plugin.requests[0].body_len < sizeof(name));
	plugin_play(&world->plugin, 0, window);
	csi_world_call(world, CSI_PROBE, 0, &end);
	assert_true(end.is_answered);
	assert_int_equal(world->plugin.n_conns, 1);
}

/* The ends of the socket, in the order of a plugin's life. */
WORLD_TEST(a_plugin_that_restarts_is_found_again_however_its_socket_looks_meanwhile)
{
	struct end end = {0};

	csi_world_call(world, CSI_PROBE, 0, &end);
	assert_true(end.is_answered);

	plugin_kill(&world->plugin); /* the file stays */
	csi_world_settle(world);
	csi_world_call(world, CSI_PROBE, 0, &end);
	assert_error(end.err.status, STATUS_UNAVAILABLE, end.err,
		     "cannot connect: no program listens on the socket");

	assert_int_equal(unlink(world->plugin.path), 0);
	csi_world_call(world, CSI_PROBE, 0, &end);
	assert_error(end.err.status, STATUS_UNAVAILABLE, end.err, "cannot connect: there is no socket");

	plugin_start(&world->plugin);
	csi_world_call(world, CSI_PROBE, 0, &end);
	assert_true(end.is_answered);

	plugin_hang_up(&world->plugin); /* and at once a call, over a connection that is dead */
	csi_world_call(world, CSI_PROBE, 0, &end);
	assert_int_equal(end.err.status, STATUS_UNAVAILABLE);
	csi_world_call(world, CSI_PROBE, 0, &end);
	assert_true(end.is_answered);
}

WORLD_TEST(a_plugin_that_takes_no_connections_is_distinguished_from_one_that_is_gone)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct end end = {0};
	int fds[64];
	size_t n = 0;

	plugin_doze(&world->plugin);
	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), world->plugin.path), 0);
	do { /* until the backlog is full */
		assert_in_range(n, 0, ARRAY_SIZE(fds) - 1);
		fds[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_true(fds[n] >= 0);
	} while (connect(fds[n++], (const struct sockaddr *)&address, sizeof(address)) == 0);
	csi_world_call(world, CSI_PROBE, 0, &end);
	assert_error(end.err.status, STATUS_UNAVAILABLE, end.err, "does not take connections fast enough");
	while (n > 0)
		(void)close(fds[--n]);
}

/* In the backlog of a process that sleeps. */
WORLD_TEST(a_plugin_that_never_wakes_costs_a_deadline_and_no_more)
{
	struct end end = {0};

	plugin_doze(&world->plugin);
	csi_world_call(world, CSI_PROBE, 30 * 1000, &end);
	assert_error(end.err.status, STATUS_DEADLINE_EXCEEDED, end.err, "no answer in time");
}

WORLD_TEST(a_call_takes_no_longer_by_itself_than_the_client_lets_it)
{
	const struct service_client_options options = {
		.name = "nfs", .socket = world->plugin.path, .call_timeout_us = 30 * 1000};
	struct end end = {0};

	service_client_free(world->client);
	assert_ok(service_client_new(world->event, &csi_kind, &options, &world->client, NULL));
	plugin_doze(&world->plugin);
	csi_world_call(world, CSI_PROBE, 0, &end);
	assert_int_equal(end.err.status, STATUS_DEADLINE_EXCEEDED);
}

/* protobuf keeps each entry, and copies a list for each time that a message comes again. */
TEST(an_answer_full_of_small_things_takes_no_more_than_its_budget)
{
	enum { LIMIT = CSI_MESSAGE_MAX };
	static const struct {
		enum csi_method method;
		const char *unit;
		size_t n;
	} cases[] = {
		{CSI_NODE_GET_INFO, "\x1a\0", 2},		  /* accessible_topology */
		{CSI_NODE_GET_INFO, "\x1a\x04\x0a\x02\x0a\0", 6}, /* one segment more each time */
		{CSI_NODE_GET_INFO, "\x0a\x01x", 3},		  /* node_id */
		{CSI_NODE_GET_CAPABILITIES, "\x0a\0", 2},	  /* capabilities */
		{CSI_CONTROLLER_PUBLISH_VOLUME, "\x0a\0", 2},	  /* publish_context */
		{CSI_CREATE_VOLUME, "\x0a\x04\x1a\x02\x0a\0", 6}, /* volume_context */
		{CSI_GET_PLUGIN_INFO, "\x1a\0", 2},		  /* manifest */
		{CSI_PROBE, "\x78\x01", 2},			  /* what nobody knows */
	};
	uint8_t *bytes = NON_NULL(malloc(LIMIT));

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t since_us = clock_monotonic_us();
		ProtobufCMessage *message = NULL;
		struct error err;
		size_t n = 0;

		while (n + cases[i].n <= LIMIT) {
			memcpy(bytes + n, cases[i].unit, cases[i].n);
			n += cases[i].n;
		}
		assert_int_equal(unpack_message(csi_methods[cases[i].method].response, bytes, n, LIMIT,
						&message, &err),
				 STATUS_RESOURCE_EXHAUSTED);
		assert_null(message);
		assert_true(clock_monotonic_us() - since_us < 10 * USEC_PER_SEC);
	}
	free(bytes);
}

WORLD_TEST(a_plugin_that_floods_and_does_not_read_is_left)
{
	enum { PING = 17, PER_STEP = 100, STEPS = 400 };
	static char pings[PER_STEP * PING];
	static const struct step flood[] = {{.kind = STEP_BYTES, .text = pings, .n = sizeof(pings)},
					    {.kind = STEP_END}};
	struct end end = {0};
	struct error err;

	for (size_t i = 0; i < PER_STEP; i++)
		memcpy(pings + i * PING, "\0\0\x08\6\0\0\0\0\0abcdefgh", PING);
	world->plugin.holds = true;
	assert_int_equal(csi_world_start(world, CSI_PROBE, 0, &end, &err), STATUS_OK);
	csi_world_run(world, &world->plugin.n_whole, 1);
	plugin_deafen(&world->plugin);
	for (size_t i = 0; i < STEPS && end.n_done == 0; i++) {
		plugin_play(&world->plugin, 0, flood);
		csi_world_settle(world);
	}
	assert_int_equal(end.n_done, 1);
	assert_error(end.err.status, STATUS_UNAVAILABLE, end.err, "connection lost");
	world->plugin.holds = false;
	csi_world_call(world, CSI_PROBE, 0, &end);
	assert_true(end.is_answered);
}

WORLD_TEST(a_path_too_long_for_a_socket_is_refused_in_words)
{
	char path[200];
	const struct service_client_options options = {.name = "nfs", .socket = path};
	struct end end = {0};

	fill(path, sizeof(path) - 1, 'p');
	service_client_free(world->client);
	assert_ok(service_client_new(world->event, &csi_kind, &options, &world->client, NULL));
	csi_world_call(world, CSI_PROBE, 0, &end);
	assert_error(end.err.status, STATUS_INVALID_ARGUMENT, end.err, "is longer than 107 bytes");
}
