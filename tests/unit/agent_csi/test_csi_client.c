/* SPDX-License-Identifier: Apache-2.0 */
/* The order of calls, their deadlines and their ends. The plugin holds what it is asked until it is told to
 * answer. */

#include "csi_world.h"

/* How calls end is static where some are left: freeing the client tells them. */
enum { LONG_US = 15 * USEC_PER_SEC, SHORT_US = 30 * 1000 };

static const struct step answer[] = {HEAD(GRPC), DATA(EMPTY), LAST(OK), {.kind = STEP_END}};

static void start(struct csi_world *world, enum csi_method method, uint64_t timeout_us, struct end *end)
{
	struct error err;

	*end = (struct end){.n_done = 0};
	assert_succeeds(csi_world_start(world, method, timeout_us, end, &err), err);
}

static struct service_stats stats_of(const struct csi_world *world)
{
	struct service_stats stats;

	service_client_stats(world->client, &stats);
	return stats;
}

WORLD_TEST(nothing_is_dialled_before_the_first_call_and_done_never_runs_inside_start)
{
	static struct end end;

	csi_world_settle(world);
	assert_int_equal(world->plugin.n_conns, 0);
	plugin_kill(&world->plugin); /* what cannot be connected fails at once, if anything does */
	start(world, CSI_PROBE, 0, &end);
	assert_int_equal(end.n_done, 0);
	csi_world_run(world, &end.n_done, 1);
	assert_int_equal(end.err.status, STATUS_UNAVAILABLE);
}

/* A plugin writes to its folder: it may put a link to another plugin's socket there after we looked. */
WORLD_TEST(a_link_in_the_place_of_the_socket_leads_no_call_to_another_plugin)
{
	char other[TEMP_PATH_SIZE + 8];
	static struct end end;

	(void)str_format(other, sizeof(other), "%s.other", world->plugin.path);
	assert_int_equal(rename(world->plugin.path, other), 0);
	assert_int_equal(symlink(other, world->plugin.path), 0);
	start(world, CSI_NODE_STAGE_VOLUME, LONG_US, &end);
	csi_world_run(world, &end.n_done, 1);
	assert_int_equal(end.err.status, STATUS_UNAVAILABLE);
	csi_world_settle(world);
	assert_int_equal(world->plugin.n_conns, 0);
	assert_int_equal(rename(other, world->plugin.path), 0);
	start(world, CSI_NODE_STAGE_VOLUME, LONG_US, &end);
	csi_world_run(world, &end.n_done, 1);
	assert_true(end.is_answered);
}

WORLD_TEST(so_many_calls_are_in_flight_and_the_others_wait_in_their_order)
{
	enum { N = CSI_CALLS_MAX - CSI_CALLS_KEPT + 3 };
	struct service_stats stats;
	static struct end ends[N];

	world->plugin.holds = true;
	for (size_t i = 0; i < N; i++)
		start(world, CSI_NODE_STAGE_VOLUME, LONG_US, &ends[i]);
	csi_world_run(world, &world->plugin.n_whole, N - 3);
	csi_world_settle(world);
	assert_int_equal(world->plugin.n_whole, N - 3);
	stats = stats_of(world);
	assert_int_equal(stats.in_flight, N - 3);
	assert_int_equal(stats.waiting, 3);
	assert_int_equal(stats.calls, N);
	assert_string_equal(stats.oldest_name, "NodeStageVolume");
	assert_in_range(clock_realtime_ms() - stats.oldest_since_ms, 0, 10000);

	/* one goes, one comes */
	plugin_play(&world->plugin, 5, answer);
	csi_world_run(world, &ends[5].n_done, 1);
	csi_world_run(world, &world->plugin.n_whole, N - 2);
	csi_world_settle(world);
	assert_int_equal(world->plugin.n_whole, N - 2);
	assert_int_equal(stats_of(world).waiting, 2);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(ends[i].n_done, i == 5);
}

WORLD_TEST(a_probe_passes_calls_that_hang_and_calls_that_wait)
{
	enum { N = CSI_CALLS_MAX + 5 };
	static struct end ends[N], probe, other;

	world->plugin.holds = true;
	for (size_t i = 0; i < N; i++)
		start(world, CSI_NODE_PUBLISH_VOLUME, LONG_US, &ends[i]);
	csi_world_run(world, &world->plugin.n_whole, CSI_CALLS_MAX - CSI_CALLS_KEPT);
	start(world, CSI_PROBE, LONG_US, &probe);
	start(world, CSI_GET_PLUGIN_INFO, LONG_US, &other);
	csi_world_run(world, &world->plugin.n_whole, CSI_CALLS_MAX);
	csi_world_settle(world);
	assert_int_equal(world->plugin.n_whole,
			 CSI_CALLS_MAX); /* the other one waits: none is above the most */
	assert_non_null(strstr(world->plugin.requests[CSI_CALLS_MAX - 1].headers, "Identity/Probe"));
	plugin_play(&world->plugin, CSI_CALLS_MAX - 1, answer);
	csi_world_run(world, &probe.n_done, 1);
	assert_true(probe.is_answered);
	csi_world_run(world, &world->plugin.n_whole, CSI_CALLS_MAX + 1);
	assert_non_null(strstr(world->plugin.requests[CSI_CALLS_MAX].headers, "Identity/GetPluginInfo"));
}

WORLD_TEST(a_deadline_begins_at_the_start_and_not_when_the_turn_comes)
{
	enum { N = CSI_CALLS_MAX - CSI_CALLS_KEPT };
	static struct end ends[N], late;

	world->plugin.holds = true;
	for (size_t i = 0; i < N; i++)
		start(world, CSI_CREATE_VOLUME, LONG_US, &ends[i]);
	start(world, CSI_NODE_UNSTAGE_VOLUME, SHORT_US, &late);
	csi_world_run(world, &late.n_done, 1);
	assert_int_equal(late.err.status, STATUS_DEADLINE_EXCEEDED);
	assert_string_equal(late.err.msg,
			    "plugin nfs, volume vol-1: NodeUnstageVolume: not sent in time; 15 calls are in "
			    "flight before it, the oldest is CreateVolume");
	csi_world_settle(world);
	assert_int_equal(world->plugin.n_whole, N);
	assert_int_equal(stats_of(world).waiting, 0);
	assert_int_equal(stats_of(world).failed, 1);
}

WORLD_TEST(the_plugin_gets_the_time_that_is_left)
{
	const char *timeout;
	struct end end = {0};

	csi_world_call(world, CSI_PROBE, 0, &end); /* its own: 10 s */
	timeout = NON_NULL(strstr(world->plugin.requests[0].headers, "grpc-timeout: "));
	assert_in_range(strtoull(timeout + strlen("grpc-timeout: "), NULL, 10), 5 * USEC_PER_SEC,
			10 * USEC_PER_SEC);
	csi_world_call(world, CSI_PROBE, 3 * USEC_PER_SEC, &end);
	timeout = strstr(world->plugin.requests[1].headers, "grpc-timeout: ");
	assert_in_range(strtoull(timeout + strlen("grpc-timeout: "), NULL, 10), USEC_PER_SEC,
			3 * USEC_PER_SEC);
}

WORLD_TEST(a_call_that_hangs_ends_at_its_deadline_and_gives_its_place_to_another)
{
	enum { N = CSI_CALLS_MAX - CSI_CALLS_KEPT };
	static struct end ends[N], next;

	world->plugin.holds = true;
	for (size_t i = 0; i < N; i++)
		start(world, CSI_NODE_STAGE_VOLUME, i == 3 ? SHORT_US : LONG_US, &ends[i]);
	start(world, CSI_NODE_PUBLISH_VOLUME, LONG_US, &next);
	csi_world_run(world, &ends[3].n_done, 1);
	assert_int_equal(ends[3].err.status, STATUS_DEADLINE_EXCEEDED);
	csi_world_run(world, &world->plugin.n_whole, N + 1);
	assert_true(world->plugin.requests[3].was_reset);
	plugin_play(&world->plugin, 3, answer); /* nobody waits for it any more */
	plugin_play(&world->plugin, N, answer);
	csi_world_run(world, &next.n_done, 1);
	assert_true(next.is_answered);
	assert_int_equal(ends[3].n_done, 1);
}

WORLD_TEST(cancelled_calls_are_never_heard_of_again_and_make_room)
{
	enum { N = CSI_CALLS_MAX - CSI_CALLS_KEPT };
	static struct end ends[N], waits, next;

	world->plugin.holds = true;
	for (size_t i = 0; i < N; i++)
		start(world, CSI_NODE_STAGE_VOLUME, LONG_US, &ends[i]);
	start(world, CSI_NODE_STAGE_VOLUME, LONG_US, &waits);
	start(world, CSI_NODE_PUBLISH_VOLUME, LONG_US, &next);
	csi_world_run(world, &world->plugin.n_whole, N);
	service_call_cancel(waits.call);
	service_call_cancel(ends[0].call);
	service_call_cancel(NULL);
	csi_world_run(world, &world->plugin.n_whole, N + 1);
	assert_non_null(strstr(world->plugin.requests[N].headers, "NodePublishVolume"));
	assert_int_equal(world->plugin.n_resets, 1);
	assert_int_equal(world->plugin.requests[0].reset_code, 8);
	plugin_play(&world->plugin, N, answer);
	csi_world_run(world, &next.n_done, 1);
	assert_int_equal(waits.n_done, 0);
	assert_int_equal(ends[0].n_done, 0);
	assert_int_equal(stats_of(world).waiting, 0);
	assert_int_equal(stats_of(world).in_flight, N - 1);
	assert_int_equal(stats_of(world).failed, 0);
}

WORLD_TEST(the_queue_takes_so_many_and_refuses_the_next_in_words)
{
	enum { N = CSI_QUEUE_MAX };
	static struct end ends[N + 1];
	struct error err;

	for (size_t i = 0; i < N; i++)
		start(world, CSI_NODE_STAGE_VOLUME, LONG_US, &ends[i]);
	assert_int_equal(csi_world_start(world, CSI_NODE_STAGE_VOLUME, LONG_US, &ends[N], &err),
			 STATUS_RESOURCE_EXHAUSTED);
	assert_string_equal(err.msg,
			    "plugin nfs: NodeStageVolume: 1024 calls wait already, behind 0 that are "
			    "in flight, the oldest is gone");
	service_call_cancel(ends[7].call);
	start(world, CSI_NODE_STAGE_VOLUME, LONG_US, &ends[N]);
	assert_int_equal(stats_of(world).waiting, N);
}

/* A CreateVolume of @n bytes. */
static enum status start_large(struct csi_world *world, size_t n, struct end *end, struct error *err)
{
	Csi__V1__CreateVolumeRequest request = PB(csi__v1__create_volume_request, .name = malloc(n + 1));
	enum status status;

	assert_non_null(request.name);
	memset(request.name, 'n', n);
	request.name[n] = '\0';
	while (protobuf_c_message_get_packed_size(&request.base) > n)
		request.name[strlen(request.name) - 1] = '\0';
	*end = (struct end){.n_done = 0};
	status = service_call_start(world->client,
				    &(struct service_request){.method = CSI_CREATE_VOLUME,
							      .message = &request.base,
							      .timeout_us = LONG_US,
							      .done = csi_world_done,
							      .userdata = end},
				    &end->call, err);
	free(request.name);
	return status;
}

WORLD_TEST(the_queue_holds_so_many_bytes_and_no_more)
{
	enum { LARGE = 4 << 20 };
	static struct end ends[6];
	struct error err;

	for (size_t i = 0; i < 4; i++)
		assert_int_equal(start_large(world, LARGE, &ends[i], &err), STATUS_OK);
	assert_int_equal(start_large(world, 10, &ends[4], &err), STATUS_RESOURCE_EXHAUSTED);
	service_call_cancel(ends[0].call);
	assert_int_equal(start_large(world, LARGE, &ends[4], &err), STATUS_OK);
	assert_int_equal(start_large(world, 10, &ends[5], &err), STATUS_RESOURCE_EXHAUSTED);
}

WORLD_TEST(a_request_larger_than_any_server_takes_is_refused_here)
{
	static struct end end;
	struct error err;

	assert_int_equal(start_large(world, CSI_REQUEST_MAX, &end, &err), STATUS_OK);
	service_call_cancel(end.call);
	assert_int_equal(start_large(world, CSI_REQUEST_MAX + 1, &end, &err), STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "plugin nfs: CreateVolume: the request has 4194305 bytes, more than the "
				     "4194304 that a plugin takes");
}

WORLD_TEST(freeing_the_client_ends_running_and_queued_calls)
{
	enum { N = CSI_CALLS_MAX + 4 };
	static struct end ends[N];

	world->plugin.holds = true;
	for (size_t i = 0; i < N; i++)
		start(world, CSI_NODE_STAGE_VOLUME, LONG_US, &ends[i]);
	csi_world_run(world, &world->plugin.n_whole, CSI_CALLS_MAX - CSI_CALLS_KEPT);
	service_client_free(TAKE_PTR(world->client));
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(ends[i].n_done, 1);
		assert_int_equal(ends[i].err.status, STATUS_UNAVAILABLE);
		assert_string_equal(ends[i].err.msg, "plugin nfs, volume vol-1: NodeStageVolume: the "
						     "connection is given up on our side");
	}
}

/* Whatever the call's end is, its owner may free the client in it. */
TEST_FIXTURE(the_client_may_be_freed_in_the_done_of_any_call, csi_world_setup, csi_world_teardown)
{
	static const struct step failure[] = {LAST(GRPC "grpc-status: 5\n"), {.kind = STEP_END}};
	static const struct step hangs[] = {{.kind = STEP_LATE}, {.kind = STEP_END}};
	static const struct step closes[] = {{.kind = STEP_CLOSE}, {.kind = STEP_END}};
	const struct step *const scripts[] = {answer, failure, hangs, closes};

	(void)csi_world_teardown(state);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(scripts); i++) {
		struct csi_world *world;
		struct end ends[3];

		(void)csi_world_setup(state);
		world = *state;
		world->plugin.holds = true;
		world->plugin.scripts[0] = scripts[i / 2];
		world->plugin.n_scripts = 1;
		if (i % 2 == 1)
			plugin_kill(&world->plugin);
		start(world, CSI_NODE_STAGE_VOLUME, SHORT_US, &ends[0]);
		start(world, CSI_NODE_STAGE_VOLUME, LONG_US, &ends[1]);
		ends[0].frees = true;
		csi_world_run(world, &ends[0].n_done, 1);
		assert_null(world->client);
		assert_int_equal(ends[1].n_done, 1);
		csi_world_settle(world);
		(void)csi_world_teardown(state);
	}
	(void)csi_world_setup(state);
}

struct starter {
	struct csi_world *world;
	struct end *next;
	enum status status;
	size_t n_done;
};

static void start_another(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct starter *starter = userdata;

	starter->n_done++;
	starter->status = csi_world_start(starter->world, CSI_PROBE, LONG_US, starter->next, NULL);
}

static enum status start_starter(struct csi_world *world, struct starter *starter)
{
	Csi__V1__ProbeRequest request = CSI__V1__PROBE_REQUEST__INIT;

	return service_call_start(world->client,
				  &(struct service_request){.method = CSI_PROBE,
							    .message = &request.base,
							    .timeout_us = LONG_US,
							    .done = start_another,
							    .userdata = starter},
				  NULL, NULL);
}

WORLD_TEST(a_done_may_start_another_call_unless_the_client_is_being_freed)
{
	struct end next = {0};
	struct starter starter = {.world = world, .next = &next};

	assert_int_equal(start_starter(world, &starter), STATUS_OK);
	csi_world_run(world, &next.n_done, 1);
	assert_true(next.is_answered);
	assert_int_equal(start_starter(world, &starter), STATUS_OK);
	assert_int_equal(starter.status, STATUS_OK);
	service_client_free(world->client);
	world->client = NULL;
	assert_int_equal(starter.n_done, 2);
	assert_int_equal(starter.status, STATUS_UNAVAILABLE);
}
