/* SPDX-License-Identifier: Apache-2.0 */
/* What a node tells a server that was restored from a backup. */

#include "lines.h"
#include "scenario.h"

#include "log/log.h"
#include "session/report.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bool has_reported(struct world *w)
{
	return w->server.report_complete;
}

static void ask(struct world *w)
{
	model_server_want_report(&w->server, 7);
	WORLD_UNTIL(w, has_reported);
}

WORLD_TEST(running_allocations_are_reported_with_their_claims)
{
	start_with_a(w, 2);
	ask(w);
	assert_int_equal(w->server.report_parts, 1);
	assert_int_equal(w->server.n_reported_allocs, 1);
	assert_string_equal(w->server.reported_allocs[0].id, ALLOC_A);
	assert_int_equal(w->server.reported_allocs[0].client_status, CLIENT_RUNNING);
	assert_int_equal(w->server.reported_allocs[0].desired_status, DESIRED_RUN);
	assert_int_equal(w->server.reported_allocs[0].n_volumes, 2);
	assert_int_equal(w->server.n_reported, 2);
	for (unsigned int i = 0; i < 2; i++) {
		const struct claim *told = &w->server.reported[i], *granted = NULL;

		for (unsigned int k = 0; k < w->server.n_claims; k++)
			if (str_eq(w->server.claims[k].claim.id, told->id))
				granted = NON_NULL(&w->server.claims[k].claim);
		assert_int_equal(told->state, CLAIM_TAKEN);
		assert_int_equal(told->generation, granted->generation);
		assert_int_equal(told->mode, granted->mode);
		assert_int_equal(told->access_mode, granted->access_mode);
		assert_string_equal(told->volume_id, granted->volume_id);
		assert_string_equal(told->namespace, granted->namespace);
		assert_string_equal(told->allocation_id, ALLOC_A);
		assert_string_equal(told->node_id, granted->node_id);
		assert_string_equal(told->boot_id, world_boot_id());
		assert_string_equal(told->plugin_id, PLUGIN_NATIVE);
	}
}

static bool a_claim_is_asked_for(struct world *w)
{
	return w->server.n_held > 0;
}

WORLD_TEST(an_ungranted_claim_is_not_reported_as_held)
{
	w->server.hold_claims = true;
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	run_a(w, 1);
	WORLD_UNTIL(w, a_claim_is_asked_for);
	ask(w);
	assert_int_equal(w->server.n_reported_allocs, 1);
	assert_int_equal(w->server.n_reported, 0);
	w->server.hold_claims = false;
	model_server_answer(&w->server);
	WORLD_UNTIL(w, a_runs);
}

WORLD_TEST(an_ended_allocation_is_reported_as_stopped)
{
	w->server.hold_forget = true;
	start_with_a(w, 1);
	stop_a(w);
	ask(w);
	assert_int_equal(w->server.n_reported_allocs, 1);
	assert_int_equal(w->server.reported_allocs[0].desired_status, DESIRED_STOP);
	/* a provider may have it attached still */
	assert_int_equal(w->server.n_reported, 1);
	assert_int_equal(w->server.reported[0].state, CLAIM_NODE_DETACHED);
}

static bool a_is_over(struct world *w)
{
	return status_of(w, ALLOC_A) == CLIENT_LOST;
}

WORLD_TEST(volumes_held_before_a_reboot_are_reported_as_released_under_their_boot)
{
	start_with_a(w, 2);
	WORLD_UNTIL(w, all_is_acknowledged);
	world_kill_agent(w);
	age_journal(w);
	for (unsigned int i = 0; i < w->server.n_claims; i++)
		(void)str_copy(w->server.claims[i].claim.boot_id, UUID_TEXT_SIZE, EARLIER_BOOT);
	w->server.hold_forget = true;
	memset(w->fake.state->mounts, 0, sizeof(w->fake.state->mounts));
	world_start_agent(w);
	WORLD_UNTIL(w, a_is_over);
	ask(w);
	assert_int_equal(w->server.n_reported, 2);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(w->server.reported[i].state, CLAIM_NODE_DETACHED);
		assert_string_equal(w->server.reported[i].boot_id, EARLIER_BOOT);
		assert_string_equal(w->server.reported[i].allocation_id, ALLOC_A);
	}
}

WORLD_TEST(a_node_that_holds_nothing_reports_it)
{
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	ask(w);
	assert_int_equal(w->server.report_parts, 1);
	assert_int_equal(w->server.n_reported_allocs, 0);
	assert_int_equal(w->server.n_reported, 0);
}

/* Every new node is asked once. */
WORLD_TEST(only_a_node_that_knew_a_history_logs_that_it_may_be_lost)
{
	static struct lines lines;

	w->server.shows_marks = true;
	for (size_t i = 0; i < 2; i++) {
		w->server.hellos = 0;
		w->server.adoption_complete = false;
		lines_begin(&lines);
		log_set_level(LOG_NOTICE);
		world_start_agent(w);
		WORLD_UNTIL(w, has_mount_snapshot);
		ask(w);
		log_set_level(-1);
		lines_end(&lines);
		assert_int_equal(lines_with(&lines, "the server has lost history, or may have"), i);
		world_kill_agent(w);
	}
}

WORLD_TEST(a_restarted_agent_reports_the_claims_of_its_journal)
{
	start_with_a(w, 2);
	world_kill_agent(w);
	w->server.hellos = 0;
	w->server.adoption_complete = false;
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	ask(w);
	assert_int_equal(w->server.n_reported, 2);
}

static bool a_release_failed(struct world *w)
{
	return w->server.claims[0].errors > 0;
}

static bool all_is_released(struct world *w)
{
	return model_server_unreleased(&w->server) == 0;
}

WORLD_TEST(a_claim_that_is_being_cleaned_up_is_held_until_that_is_done)
{
	const struct model_claim *claim =
		model_server_add_claim(&w->server, ALLOC_B, "vol0", world_boot_id());

	fake_helper_put(&w->fake, world_wire("vol0"), "", 0, 77);
	fake_helper_put(&w->fake, world_wire("vol0"), ALLOC_B, 0, 77);
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	w->fake.state->busy_unpublish = UINT32_MAX;
	model_server_release(&w->server, claim);
	WORLD_UNTIL(w, a_release_failed);
	ask(w);
	assert_int_equal(w->server.n_reported, 1);
	assert_string_equal(w->server.reported[0].id, claim->claim.id);
	w->fake.state->busy_unpublish = 0;
	WORLD_UNTIL(w, all_is_released);
	ask(w);
	assert_int_equal(w->server.n_reported, 0);
}

static bool all_run(struct world *w)
{
	for (unsigned int i = 0; i < w->server.n_allocs; i++)
		if (w->server.allocs[i].alloc.client_status != CLIENT_RUNNING)
			return false;
	return true;
}

WORLD_TEST(much_is_reported_in_parts)
{
	enum { N = NODE_REPORT_ALLOCS + 1 };
	char id[UUID_TEXT_SIZE];

	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	for (int i = 0; i < N; i++) {
		struct alloc alloc;

		(void)snprintf(id, sizeof(id), "0190a5a0-0000-7000-8000-%012d", i);
		alloc = records_alloc(id, 1);
		(void)snprintf(alloc.volumes[0].source, sizeof(alloc.volumes[0].source), "vol%d", i);
		model_server_run(&w->server, &alloc);
	}
	WORLD_UNTIL(w, all_run);
	ask(w);
	assert_int_equal(w->server.report_parts, 2);
	assert_int_equal(w->server.n_reported_allocs, N);
	assert_int_equal(w->server.n_reported, N);
}

TEST_GROUP(world_group_setup, world_group_teardown)

static int metrics_fd = -1;
static char metrics_text[1 << 16];

static bool has_metrics(struct world *w)
{
	size_t n = strlen(metrics_text);
	ssize_t got = recv(metrics_fd, metrics_text + n, sizeof(metrics_text) - 1 - n, MSG_DONTWAIT);

	return got == 0;
}

WORLD_TEST(an_agent_with_a_place_for_metrics_answers_there)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\n\r\n";
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	(void)str_format(w->config.metrics, sizeof(w->config.metrics), "%s/metrics", w->fake.folder);
	start_with_a(w, 2);
	metrics_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)str_copy(address.sun_path, sizeof(address.sun_path), w->config.metrics);
	assert_int_equal(connect(metrics_fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(send(metrics_fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
	WORLD_UNTIL(w, has_metrics);
	(void)close(metrics_fd);
	assert_non_null(strstr(metrics_text, "\nholdfast_agent_connected 1\n"));
	assert_non_null(strstr(metrics_text, "\nholdfast_agent_allocations 1\n"));
	assert_non_null(strstr(metrics_text, "\nholdfast_agent_mounts 2\n"));
	assert_non_null(strstr(metrics_text, "\nholdfast_agent_helper_running 1\n"));
}
