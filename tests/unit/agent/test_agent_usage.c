/* SPDX-License-Identifier: Apache-2.0 */
/* How full published volumes are: measured by a whole agent, and reported to the server. */

#include "scenario.h"

#include "base/clock.h"
#include "status/volume_usage.h"

enum { HOUR_S = 3600, INTERVAL_S = 10, WHILE_MS = 40 * 1000 };

static void start_measuring(struct world *w, uint64_t interval_s)
{
	w->config.volume_stats_us = interval_s * USEC_PER_SEC;
	w->server.heartbeat_ms = WHILE_MS; /* each one costs a turn of the loop */
	w->space = (struct path_space){.total_bytes = 1000, .used_bytes = 400, .free_bytes = 600};
	start_with_a(w, 1);
}

static const struct model_usage *reported(const struct world *w)
{
	return w->server.n_usages > 0 ? &w->server.usages[0] : NULL;
}

static uint64_t awaited;

static bool is_reported(struct world *w)
{
	return reported(w) && reported(w)->used_bytes == awaited;
}

static bool is_read_only(struct world *w)
{
	return reported(w) && reported(w)->read_only;
}

static bool is_writable(struct world *w)
{
	return reported(w) && !reported(w)->read_only;
}

static bool is_unknown(struct world *w)
{
	return reported(w) && reported(w)->is_unknown;
}

static void await_report(struct world *w, uint64_t used)
{
	awaited = used;
	WORLD_UNTIL(w, is_reported);
}

static void expect_condition(struct world *w, const char *condition)
{
	Holdfast__V1__GetAgentStatusResponse *report = world_report(w);

	assert_int_equal(report->n_mounts, 1);
	assert_non_null(report->mounts[0]->usage);
	assert_string_equal(report->mounts[0]->usage->condition, condition);
	protobuf_c_message_free_unpacked(&report->base, NULL);
}

WORLD_TEST(a_published_volume_is_measured_and_reported)
{
	Holdfast__V1__GetAgentStatusResponse *report;

	start_measuring(w, INTERVAL_S);
	await_report(w, 400);
	assert_int_equal(reported(w)->total_bytes, 1000);
	assert_false(reported(w)->is_unknown);
	assert_string_equal(reported(w)->claim_id, w->server.claims[0].claim.id);
	report = world_report(w);
	assert_int_equal(report->mounts[0]->usage->percent, 40);
	protobuf_c_message_free_unpacked(&report->base, NULL);
	w->space.used_bytes = 950;
	w->space.free_bytes = 50;
	await_report(w, 950);
}

WORLD_TEST(a_change_of_one_percent_is_not_reported)
{
	unsigned int looks;

	start_measuring(w, INTERVAL_S);
	await_report(w, 400);
	looks = w->looks;
	w->space.used_bytes = 410;
	world_idle(w, WHILE_MS);
	assert_true(w->looks > looks);
	assert_int_equal(reported(w)->reports, 1);
	w->space.used_bytes = 411;
	await_report(w, 411);
}

WORLD_TEST(measurements_come_at_the_interval)
{
	start_measuring(w, INTERVAL_S);
	await_report(w, 400);
	w->looks = 0;
	world_idle(w, WHILE_MS);
	assert_in_range(w->looks, 2, 6); /* 40 s by 7.5 to 15 */
}

WORLD_TEST(a_file_system_that_the_kernel_made_read_only_is_reported_between_measurements)
{
	start_measuring(w, HOUR_S);
	await_report(w, 400);
	w->is_fs_stopped = true;
	WORLD_UNTIL(w, is_read_only);
	assert_string_equal(reported(w)->condition, "read-only: the kernel stopped writes");
	expect_condition(w, "read-only: the kernel stopped writes");
	w->is_fs_stopped = false;
	WORLD_UNTIL(w, is_writable);
	expect_condition(w, "");
}

WORLD_TEST(a_disk_that_answers_with_an_io_error_has_stopped_writes)
{
	start_measuring(w, INTERVAL_S);
	await_report(w, 400);
	w->seen_errno = EIO; /* an xfs that was shut down */
	w->seen = PATH_FAILED;
	WORLD_UNTIL(w, is_read_only);
	assert_string_equal(reported(w)->condition,
			    "read-only: the kernel stopped writes; it cannot be measured");
	w->seen_errno = 0;
	w->seen = PATH_MOUNTED;
	WORLD_UNTIL(w, is_writable);
}

WORLD_TEST(a_volume_whose_file_server_hangs_is_unknown_until_it_answers)
{
	w->server.class = SOURCE_NFS4;
	start_measuring(w, INTERVAL_S);
	await_report(w, 400);
	w->seen = PATH_SILENT;
	WORLD_UNTIL(w, is_unknown);
	assert_string_equal(reported(w)->condition, "its file server does not answer");
	assert_int_equal(reported(w)->used_bytes, 400); /* the last that is known */
	w->seen = PATH_MOUNTED;
	w->space.used_bytes = 500;
	await_report(w, 500);
	assert_false(reported(w)->is_unknown);
	assert_string_equal(reported(w)->condition, "");
}

WORLD_TEST(the_next_session_gets_everything_again)
{
	start_measuring(w, HOUR_S);
	await_report(w, 400);
	w->server.n_usages = 0;
	memset(w->server.usages, 0, sizeof(w->server.usages));
	world_restart_server(w);
	await_report(w, 400);
}

WORLD_TEST(nothing_is_measured_when_nothing_is_published_or_it_is_off)
{
	w->config.volume_stats_us = INTERVAL_S * USEC_PER_SEC;
	w->server.heartbeat_ms = WHILE_MS;
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	world_idle(w, WHILE_MS);
	assert_int_equal(w->looks, 0);
	world_kill_agent(w);
	start_measuring(w, 0);
	w->looks = 0;
	world_idle(w, WHILE_MS);
	assert_int_equal(w->looks, 0);
	assert_null(reported(w));
}

WORLD_TEST(a_volume_that_is_released_is_measured_no_longer)
{
	start_measuring(w, INTERVAL_S);
	await_report(w, 400);
	stop_a(w);
	w->looks = 0;
	world_idle(w, WHILE_MS);
	assert_int_equal(w->looks, 0);
}

static bool is_known(struct world *w)
{
	return reported(w) && !reported(w)->is_unknown;
}

WORLD_TEST(a_mount_that_was_made_again_is_measured_before_the_next_round)
{
	start_measuring(w, 8 * INTERVAL_S);
	await_report(w, 400);
	w->seen = PATH_NOT_MOUNTED;
	world_idle(w, 16 * INTERVAL_S * 1000);
	assert_true(is_unknown(w));
	w->seen = PATH_MOUNTED;
	world_idle(w, 2 * VOLUME_USAGE_TICK_MS);
	assert_true(is_known(w));
}

static bool is_any_reported(struct world *w)
{
	return reported(w) != NULL;
}

WORLD_TEST(a_claim_does_not_inherit_the_condition_of_the_one_before)
{
	const struct alloc b = records_alloc(ALLOC_B, 1);

	start_measuring(w, INTERVAL_S);
	w->seen = PATH_SILENT;
	WORLD_UNTIL(w, is_unknown);
	stop_a(w);
	w->seen = PATH_MOUNTED;
	memset(w->server.usages, 0, sizeof(w->server.usages));
	w->server.n_usages = 0;
	model_server_run(&w->server, &b);
	WORLD_UNTIL(w, is_any_reported);
	assert_true(is_known(w));
}

TEST_GROUP(world_group_setup, world_group_teardown)
