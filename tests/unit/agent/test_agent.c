/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_parts.h"
#include "port.h"
#include "scenario.h"

#include "base/clock.h"
#include "base/uuid.h"
#include "session/attributes.h"
#include "session/machine.h"

#include <limits.h>
#include <systemd/sd-id128.h>

static bool a_and_b_run(struct world *w)
{
	return a_runs(w) && status_of(w, ALLOC_B) == CLIENT_RUNNING;
}

static bool two_heartbeats(struct world *w)
{
	return w->server.heartbeats >= 2;
}

WORLD_TEST(an_allocation_runs_with_its_volumes_and_gives_them_back)
{
	const struct model_alloc *a;

	start_with_a(w, 2);
	a = model_server_alloc(&w->server, ALLOC_A);
	assert_int_equal(a->alloc.n_published, 2);
	assert_string_equal(a->alloc.published[1].path, FAKE_PUBLISH_BASE "/" ALLOC_A "/1");
	assert_string_equal(a->alloc.published[1].claim_id,
			    model_server_claim(&w->server, ALLOC_A, "v1")->claim.id);
	assert_true(model_server_claim(&w->server, ALLOC_A, "v0")->is_mounted);
	assert_int_equal(w->server.hello_plugins, 1);
	stop_a(w);
	assert_int_equal(a->alloc.client_status, CLIENT_COMPLETE);
	for (unsigned int i = 0; i < w->server.n_claims; i++)
		assert_true(w->server.claims[i].released_clock < a->clock);
	expect_nothing_mounted(w);
	assert_int_equal(done(w, MH_OP_STAGE), 2);
	assert_int_equal(done(w, MH_OP_PUBLISH), 2);
	assert_int_equal(w->server.claim_calls, 2);
}

WORLD_TEST(ended_allocations_are_forgotten)
{
	uint64_t end;
	unsigned int hellos;

	start_with_a(w, 1);
	stop_a(w);
	world_idle(w, 50);
	world_kill_agent(w);
	hellos = w->server.hellos;
	world_start_agent(w);
	end = world_deadline();
	while (w->server.hellos == hellos || !w->server.adoption_complete)
		world_turn(w, end, "the mount snapshot of the agent started again");
	assert_int_equal(w->server.hello_allocs, 0);
}

WORLD_TEST(the_session_beats)
{
	world_start_agent(w);
	WORLD_UNTIL(w, two_heartbeats);
	assert_true(w->server.adoption_complete);
}

static bool one_heartbeat(struct world *w)
{
	return w->server.heartbeats >= 1;
}

static bool has_greeted(struct world *w)
{
	return w->server.hellos >= 1;
}

WORLD_TEST(no_heartbeat_is_sent_for_an_interval_after_anything_else)
{
	enum { INTERVAL_MS = 1000 };

	w->server.heartbeat_ms = INTERVAL_MS;
	world_start_agent(w);
	WORLD_UNTIL(w, has_greeted);
	world_idle(w, INTERVAL_MS / 2);
	run_a(w, 0);
	WORLD_UNTIL(w, a_runs);
	assert_int_equal(w->server.heartbeats, 0);
	WORLD_UNTIL(w, one_heartbeat);
	assert_true(w->server.heartbeat_us - w->server.status_us >= INTERVAL_MS * USEC_PER_MSEC / 4 * 3);
}

WORLD_TEST(an_allocation_without_volumes_runs)
{
	start_with_a(w, 0);
	stop_a(w);
	assert_int_equal(w->server.claim_calls, 0);
}

/* One of three is there, another one takes over with what it knew. */
WORLD_TEST(another_server_of_the_list_changes_no_mount)
{
	uint16_t ports[] = {free_port(), w->server.port, free_port()};
	Holdfast__V1__GetAgentStatusResponse *report;

	for (size_t i = 0; i < ARRAY_SIZE(ports); i++)
		(void)str_format(w->config.servers[i], sizeof(w->config.servers[i]), "127.0.0.1:%u",
				 (unsigned int)ports[i]);
	start_with_a(w, 1);
	WORLD_UNTIL(w, all_is_acknowledged);
	report = world_report(w);
	assert_string_equal(report->server, w->config.servers[1]);
	protobuf_c_message_free_unpacked(&report->base, NULL);
	model_server_stop(&w->server);
	w->server.hellos = 0;
	model_server_start(&w->server, world_pki(), ports[0]);
	WORLD_UNTIL(w, is_connected);
	WORLD_UNTIL(w, all_is_acknowledged);
	report = world_report(w);
	assert_string_equal(report->server, w->config.servers[0]);
	protobuf_c_message_free_unpacked(&report->base, NULL);
	assert_true(a_runs(w));
	assert_int_equal(done(w, MH_OP_STAGE), 1);
	assert_int_equal(done(w, MH_OP_UNSTAGE), 0);
	assert_int_equal(w->server.claim_calls, 1);
	stop_a(w);
}

/* The server may have lost the one that leads, and have the session again without another handshake. */
WORLD_TEST(a_session_that_ended_begins_again_where_it_was)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t n = sizeof(address);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, n), 0);
	assert_int_equal(listen(fd, 8), 0); /* it would keep the agent waiting */
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &n), 0);
	/* the node begins with the second one */
	(void)str_format(w->config.servers[0], sizeof(w->config.servers[0]), "127.0.0.1:%u",
			 (unsigned int)ntohs(address.sin_port));
	(void)str_format(w->config.servers[1], sizeof(w->config.servers[1]), "127.0.0.1:%u",
			 (unsigned int)w->server.port);
	start_with_a(w, 1);
	WORLD_UNTIL(w, all_is_acknowledged);
	w->server.hellos = 0;
	model_server_hang_up(&w->server);
	WORLD_UNTIL(w, is_connected);
	assert_int_equal(accept(fd, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	(void)close(fd);
	stop_a(w);
}

WORLD_TEST(a_volume_shared_on_the_node_is_unstaged_by_its_last_user)
{
	uint64_t end;
	const struct alloc b = records_alloc(ALLOC_B, 1);

	start_with_a(w, 1);
	model_server_run(&w->server, &b);
	WORLD_UNTIL(w, a_and_b_run);
	assert_int_equal(done(w, MH_OP_STAGE), 1);
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, a_ended);
	assert_int_equal(done(w, MH_OP_UNSTAGE), 0);
	assert_non_null(fake_helper_mount(&w->fake, world_wire("vol0"), "", 0));
	assert_true(model_server_claim(&w->server, ALLOC_A, "v0")->is_released);
	model_server_want_stop(&w->server, ALLOC_B);
	end = world_deadline();
	while (model_server_unreleased(&w->server) > 0)
		world_turn(w, end, "all claims to be released");
	expect_nothing_mounted(w);
}

WORLD_TEST(the_same_order_again_only_repeats_the_status)
{
	uint64_t end;
	unsigned int before;

	start_with_a(w, 2);
	before = model_server_alloc(&w->server, ALLOC_A)->statuses;
	model_server_run_again(&w->server, ALLOC_A);
	model_server_run_again(&w->server, ALLOC_A);
	end = world_deadline();
	while (model_server_alloc(&w->server, ALLOC_A)->statuses < before + 2)
		world_turn(w, end, "two more statuses");
	assert_int_equal(w->server.claim_calls, 2);
	assert_int_equal(done(w, MH_OP_STAGE), 2);
	stop_a(w);
}

static bool unknown_is_complete(struct world *w)
{
	return status_of(w, ALLOC_B) == CLIENT_COMPLETE;
}

WORLD_TEST(stopping_an_unknown_allocation_completes)
{
	struct alloc b = records_alloc(ALLOC_B, 1);

	b.desired_status = DESIRED_STOP;
	model_server_run(&w->server, &b); /* nobody is connected: only noted */
	world_start_agent(w);
	WORLD_UNTIL(w, unknown_is_complete);
	assert_int_equal(w->server.claim_calls, 0);
}

static bool foreign_was_refused(struct world *w)
{
	return w->server.foreign_statuses == 1;
}

static bool foreign_was_unknown(struct world *w)
{
	return w->server.foreign_statuses == 2;
}

static bool foreign_claim_stays(struct world *w)
{
	return w->server.claims[0].errors == 1;
}

static bool foreign_claim_stays_after_the_end(struct world *w)
{
	return w->server.claims[0].errors == 2;
}

static bool one_stream_ended(struct world *w)
{
	return w->server.streams == 1;
}

static bool two_streams_ended(struct world *w)
{
	return w->server.streams == 2;
}

/* A tenant can submit the id of another one's allocation that the server has forgotten. */
WORLD_TEST(orders_about_another_namespace_reach_no_allocation_of_that_id)
{
	struct alloc other = records_alloc(ALLOC_A, 0);
	struct model_claim claim;
	unsigned int statuses;

	start_with_a(w, 1);
	WORLD_UNTIL(w, all_is_acknowledged);
	model_server_want_logs(&w->server, ALLOC_A, "web");
	WORLD_UNTIL(w, one_stream_ended);
	assert_int_equal(w->server.stream_code, STATUS_NOT_FOUND);
	assert_contains(w->server.stream_message, "has no task 'web'");
	statuses = model_server_alloc(&w->server, ALLOC_A)->statuses;
	w->server.namespace = "b";
	(void)str_copy(other.namespace, sizeof(other.namespace), "b");
	model_server_run(&w->server, &other);
	WORLD_UNTIL(w, foreign_was_refused);
	assert_int_equal(w->server.foreign_status, CLIENT_FAILED);
	assert_int_equal(w->server.foreign_code, STATUS_ALREADY_EXISTS);
	assert_string_equal(w->server.foreign_namespace, "b");
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, foreign_was_unknown);
	assert_int_equal(w->server.foreign_status, CLIENT_COMPLETE);
	assert_string_equal(w->server.foreign_namespace, "b");
	model_server_want_logs(&w->server, ALLOC_A, "web");
	WORLD_UNTIL(w, two_streams_ended);
	assert_null(strstr(w->server.stream_message, "has no task 'web'")); /* its driver is asked */
	claim = w->server.claims[0];
	(void)str_copy(claim.claim.namespace, sizeof(claim.claim.namespace), "b");
	model_server_release(&w->server, &claim);
	WORLD_UNTIL(w, foreign_claim_stays);
	assert_contains(w->server.claims[0].last_error, "of another namespace");
	assert_int_equal(model_server_alloc(&w->server, ALLOC_A)->statuses, statuses);
	assert_int_equal(done(w, MH_OP_UNPUBLISH), 0);
	w->server.namespace = NULL;
	w->server.hold_forget = true;
	stop_a(w);
	claim.claim.state = CLAIM_UNPUBLISHING;
	(void)uuid_new(claim.claim.id); /* else its receipt is repeated */
	(void)str_copy(w->server.claims[0].claim.id, sizeof(w->server.claims[0].claim.id), claim.claim.id);
	model_server_release(&w->server, &claim);
	WORLD_UNTIL(w, foreign_claim_stays_after_the_end);
	assert_contains(w->server.claims[0].last_error, "of another namespace");
}

static bool receipts_came_twice(struct world *w)
{
	return w->server.n_claims == 1 && w->server.claims[0].receipts >= 2;
}

WORLD_TEST(receipts_are_repeated_until_they_are_acknowledged)
{
	uint64_t end;
	Holdfast__V1__GetAgentStatusResponse *report;

	w->server.hold_acks = true;
	start_with_a(w, 1);
	assert_int_equal(w->server.claims[0].receipts, 1);
	model_server_hang_up(&w->server);
	WORLD_UNTIL(w, receipts_came_twice);
	report = world_report(w);
	assert_int_equal(report->receipts_pending, 1);
	protobuf_c_message_free_unpacked(&report->base, NULL);
	w->server.hold_acks = false;
	world_kill_agent(w); /* the journal has it too */
	world_start_agent(w);
	end = world_deadline();
	while (w->server.claims[0].receipts < 3)
		world_turn(w, end, "the third receipt");
	world_idle(w, 50);
	report = world_report(w);
	assert_int_equal(report->receipts_pending, 0);
	protobuf_c_message_free_unpacked(&report->base, NULL);
}

static bool claim_is_held(struct world *w)
{
	return w->server.n_held > 0;
}

WORLD_TEST(a_stop_before_the_claim_is_answered_gives_it_back)
{
	w->server.hold_claims = true;
	world_start_agent(w);
	run_a(w, 2);
	WORLD_UNTIL(w, claim_is_held);
	model_server_want_stop(&w->server, ALLOC_A);
	world_idle(w, 50);
	assert_false(a_ended(w));
	model_server_answer(&w->server);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_COMPLETE);
	assert_int_equal(w->server.claim_calls, 1);
	assert_int_equal(done(w, MH_OP_STAGE), 0);
}

static bool a_claim_was_refused(struct world *w)
{
	return w->server.claim_calls >= 1 && status_of(w, ALLOC_A) == CLIENT_PENDING &&
	       strstr(alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc),
		      "the model says no");
}

WORLD_TEST(a_claim_is_asked_for_again_while_the_trouble_passes)
{
	Holdfast__V1__GetAgentStatusResponse *report;

	w->server.fail_claims = 2;
	w->server.fail_status = STATUS_UNAVAILABLE;
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, a_claim_was_refused);
	report = world_report(w);
	assert_int_equal(report->n_operations, 1);
	assert_string_equal(report->operations[0]->step, "claim");
	assert_string_equal(report->operations[0]->volume_id, "vol0");
	assert_non_null(strstr(report->operations[0]->last_error, "the model says no"));
	protobuf_c_message_free_unpacked(&report->base, NULL);
	WORLD_UNTIL(w, a_runs);
	assert_int_equal(w->server.claim_calls, 3);
	assert_string_equal(alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc), "");
}

static bool three_claims_failed(struct world *w)
{
	return w->server.claim_calls >= 3;
}

WORLD_TEST(a_stop_does_not_wait_for_the_next_attempt)
{
	Holdfast__V1__GetAgentStatusResponse *report;
	uint64_t end;
	int64_t next_ms;
	uint32_t attempts;

	w->server.fail_claims = UINT32_MAX;
	w->server.fail_status = STATUS_UNAVAILABLE;
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, three_claims_failed);
	end = world_deadline();
	do {
		report = world_report(w);
		assert_int_equal(report->n_operations, 1);
		attempts = report->operations[0]->attempts; /* more than three where this is slow */
		next_ms = attempts >= 3 ? report->operations[0]->deadline_ms : 0;
		protobuf_c_message_free_unpacked(&report->base, NULL);
		if (next_ms == 0)
			world_turn(w, end, "the third attempt to be reported");
	} while (next_ms == 0);
	stop_a(w);
	assert_true(clock_realtime_ms() < next_ms);
	assert_int_equal(w->server.claim_calls, attempts);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_COMPLETE);
}

static bool a_failed(struct world *w)
{
	return status_of(w, ALLOC_A) == CLIENT_FAILED;
}

WORLD_TEST(a_grant_for_another_boot_is_not_used)
{
	w->server.other_boot = true;
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, a_failed);
	assert_contains(alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc), "another boot");
	assert_int_equal(done(w, MH_OP_STAGE), 0);
}

static void use_foreign_ticket(struct world *w, size_t size)
{
	w->server.foreign_ticket_size = size;
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, a_failed);
	assert_contains(alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc),
			"Next: upgrade this node");
	assert_int_equal(done(w, MH_OP_STAGE), 0);
}

TEST_FIXTURE(a_grant_with_a_ticket_of_another_version_is_not_used, world_setup, world_teardown)
{
	use_foreign_ticket(*state, sizeof(struct ticket) + 16);
}

TEST_FIXTURE(a_grant_with_a_ticket_of_another_version_and_the_same_size_is_not_used, world_setup,
	     world_teardown)
{
	use_foreign_ticket(*state, sizeof(struct ticket));
}

WORLD_TEST(a_claim_that_is_refused_fails_the_allocation_with_the_servers_words)
{
	const struct model_alloc *a;

	w->server.fail_claims = 1;
	w->server.fail_status = STATUS_FAILED_PRECONDITION;
	world_start_agent(w);
	run_a(w, 2);
	WORLD_UNTIL(w, a_ended);
	a = model_server_alloc(&w->server, ALLOC_A);
	assert_int_equal(a->alloc.client_status, CLIENT_FAILED);
	assert_int_equal(a->alloc.client_code, STATUS_FAILED_PRECONDITION);
	assert_string_equal(alloc_description(&a->alloc), "volume vol0: the model says no");
	assert_int_equal(w->server.claim_calls, 1);
}

WORLD_TEST(an_expired_ticket_is_renewed_once)
{
	w->server.ticket_ttl_ms = -1;
	w->fake.state->refuse_stage = 1;
	start_with_a(w, 1);
	assert_int_equal(w->server.claim_calls, 2);
	assert_int_equal(w->server.n_claims, 1);
	stop_a(w);
}

WORLD_TEST(a_second_refusal_is_final)
{
	w->server.ticket_ttl_ms = -1;
	w->fake.state->refuse_stage = 2;
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_FAILED);
	assert_int_equal(w->server.claim_calls, 2);
}

static void write_hardware(struct world *w, const char *text)
{
	char path[PATH_MAX];
	FILE *f;

	(void)str_format(path, sizeof(path), "%s/holdfast.hardware", w->config.data_dir);
	f = NON_NULL(fopen(path, "w"));
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static const char *problem_with(struct world *w, const char *what, char problems[][AGENT_PROBLEM_SIZE])
{
	size_t n = agent_problems(w->agent, problems);

	for (size_t i = 0; i < n; i++)
		if (strstr(problems[i], what))
			return problems[i];
	return NULL;
}

#define CASE(name) TEST_ON(name, struct world, w, world_setup, world_teardown)

CASE(a_mount_that_the_trail_takes_no_record_of_fails_and_is_a_problem_of_the_node)
{
	char problems[AGENT_PROBLEMS_MAX][AGENT_PROBLEM_SIZE];

	w->fake.state->no_trail = 1;
	world_start_agent(w);
	assert_null(problem_with(w, "trail", problems));
	run_a(w, 1);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_FAILED);
	assert_contains(alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc),
			"its trail cannot be written");
	assert_non_null(problem_with(w, "trail cannot be written", problems));
}

CASE(an_agent_whose_disk_is_full_refuses_an_allocation_and_mounts_nothing)
{
	char problems[AGENT_PROBLEMS_MAX][AGENT_PROBLEM_SIZE];

	w->config.disk_reserve = UINT64_C(1) << 60; /* no disk has so much free */
	world_start_agent(w);
	assert_non_null(problem_with(w, "its disk is full: ", problems));
	run_a(w, 1);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_FAILED);
	assert_contains(alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc),
			"this node takes no new allocation: its disk is full: ");
}

CASE(a_refusal_that_a_wrong_clock_explains_reports_it)
{
	char problems[AGENT_PROBLEMS_MAX][AGENT_PROBLEM_SIZE];

	w->server.clock_ms = -200000;
	w->server.ticket_ttl_ms = -80000; /* granted for two minutes by the server's clock */
	w->fake.state->refuse_stage = 2;
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_FAILED);
	assert_contains(alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc),
			"this node's clock is 3m");
	assert_non_null(problem_with(w, "clock", problems));
	assert_true(w->server.hello_clock_ms != 0);
}

CASE(a_refusal_that_a_clock_does_not_explain_reports_nothing_of_clocks)
{
	char problems[AGENT_PROBLEMS_MAX][AGENT_PROBLEM_SIZE];

	w->server.clock_ms = -200000; /* and the ticket is good all the same */
	w->fake.state->refuse_stage = 1;
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_null(strstr(alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc), "clock"));
	assert_non_null(problem_with(w, "clock", problems));
}

WORLD_TEST(hello_tells_which_machine_it_is_and_not_its_machine_id)
{
	char other[NODE_MACHINE_MAX + 1], again[NODE_MACHINE_MAX + 1];
	sd_id128_t id;
	char plain[SD_ID128_STRING_MAX];

	if (sd_id128_get_machine(&id) < 0)
		skip();
	world_start_agent(w);
	WORLD_UNTIL(w, two_heartbeats);
	assert_true(node_machine_is_valid(w->server.hello_machine));
	assert_null(strstr(w->server.hello_machine, sd_id128_to_string(id, plain)));
	machine_read(MODEL_CLUSTER, again);
	assert_string_equal(again, w->server.hello_machine);
	machine_read("another", other); /* two clusters cannot compare */
	assert_true(node_machine_differs(other, again));
	assert_int_equal(setenv("CREDENTIALS_DIRECTORY", w->config.data_dir, 1), 0);
	write_hardware(w, "4C4C4544-0000-4000-8000-000000000001\n");
	machine_read(MODEL_CLUSTER, again);
	write_hardware(w, "4C4C4544-0000-4000-8000-000000000002\n");
	machine_read(MODEL_CLUSTER, other);
	assert_true(node_machine_differs(other, again));
	assert_null(strstr(other, "4c4c4544"));
	write_hardware(w, "none");
	machine_read(MODEL_CLUSTER, other);
	assert_string_equal(other, w->server.hello_machine); /* as without */
	assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
}

WORLD_TEST(clocks_that_agree_are_no_problem)
{
	char problems[AGENT_PROBLEMS_MAX][AGENT_PROBLEM_SIZE];

	world_start_agent(w);
	WORLD_UNTIL(w, two_heartbeats);
	assert_null(problem_with(w, "clock", problems));
}

WORLD_TEST(a_refused_stage_undoes_earlier_volumes)
{
	uint64_t end;

	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	w->server.hold_claims = true;
	run_a(w, 2);
	WORLD_UNTIL(w, claim_is_held);
	model_server_answer(&w->server);
	end = world_deadline();
	while (done(w, MH_OP_PUBLISH) < 1)
		world_turn(w, end, "the first publish");
	w->fake.state->refuse_stage = 1; /* the second volume's */
	expect_failed_and_undone(
		w, STATUS_PERMISSION_DENIED,
		"STAGE of volume vol1: mount helper: profile-read-only: the profile at line 12");
	assert_int_equal(w->server.n_claims, 2);
}

/* Whatever the ticket lets it be: the profile or the medium is read-only. */
WORLD_TEST(a_readers_stage_that_cannot_be_writable_is_read_only)
{
	struct alloc alloc = records_alloc(ALLOC_A, 1);

	alloc.volumes[0].read_only = true;
	w->fake.state->refuse_stage = 1;
	world_start_agent(w);
	model_server_run(&w->server, &alloc);
	WORLD_UNTIL(w, a_runs);
	assert_int_equal(fake_helper_count(&w->fake, MH_OP_STAGE, MH_REFUSED, NULL, NULL), 1);
	assert_int_equal(done(w, MH_OP_STAGE), 1);
	assert_true(w->fake.state->mounts[0].is_used && w->fake.state->mounts[0].read_only);
	stop_a(w);
	expect_nothing_mounted(w);
}

WORLD_TEST(a_publish_that_is_refused_undoes_the_stage)
{
	w->fake.state->refuse_publish = 1;
	world_start_agent(w);
	run_a(w, 1);
	expect_failed_and_undone(w, STATUS_PERMISSION_DENIED, "PUBLISH of volume vol0");
	assert_int_equal(done(w, MH_OP_UNSTAGE), 1);
}

WORLD_TEST(a_publish_weaker_than_asked_for_is_undone)
{
	w->fake.state->weak_publish = true;
	world_start_agent(w);
	run_a(w, 1);
	expect_failed_and_undone(w, STATUS_FAILED_PRECONDITION, "not as asked for");
}

WORLD_TEST(a_device_that_is_not_there_fails_before_anything_is_staged)
{
	struct alloc alloc = records_alloc(ALLOC_A, 1);

	w->server.class = SOURCE_BLOCK;
	(void)str_copy(alloc.volumes[0].source, sizeof(alloc.volumes[0].source), "missing");
	world_start_agent(w);
	model_server_run(&w->server, &alloc);
	expect_failed_and_undone(w, STATUS_NOT_FOUND, "/dev/disk/by-id/disk-missing");
	assert_int_equal(done(w, MH_OP_STAGE), 0);
}

WORLD_TEST(an_unsupported_driver_is_refused)
{
	struct alloc alloc = records_alloc(ALLOC_A, 1);

	(void)str_copy(alloc.driver, sizeof(alloc.driver), "docker");
	world_start_agent(w);
	model_server_run(&w->server, &alloc);
	expect_failed_and_undone(w, STATUS_UNIMPLEMENTED, "docker");
	assert_int_equal(w->server.claim_calls, 0);
}

static bool two_beats(struct world *w)
{
	return w->server.heartbeats >= 2;
}

static bool two_calls_answered(struct world *w)
{
	return w->server.not_here == 2;
}

WORLD_TEST(a_call_to_a_plugin_that_does_not_run_here_is_answered_so)
{
	world_start_agent(w);
	WORLD_UNTIL(w, two_beats);
	model_server_call_plugin(&w->server, "ebs", 7);
	model_server_call_plugin(&w->server, "ebs", 8);
	WORLD_UNTIL(w, two_calls_answered);
	assert_int_equal(w->server.answered_call, 8);
	assert_int_equal(w->server.hellos, 1); /* and the session continues */
}

TEST(attributes_of_this_machine_are_those_that_can_be_named)
{
	const struct node_meta meta = {.name = "meta.rack", .value = "r1"};
	struct message_list *attributes = NULL;

	assert_true(attributes_read(&meta, 1, &attributes));
	assert_string_equal(node_attribute(attributes, "meta.rack"), "r1");
	assert_string_equal(node_attribute(attributes, "attr.kernel.name"), "linux");
	assert_non_null(node_attribute(attributes, "attr.cpu.arch"));
	assert_non_null(node_attribute(attributes, "attr.memory.totalbytes"));
	for (size_t i = 0; i < message_list_n(attributes); i++) {
		const Holdfast__Driver__V1__KeyValue *one = (const void *)attributes->messages[i];

		assert_true(reference_is_of_node(one->key));
		assert_true(node_attribute_value_is_valid(one->value));
	}
	message_list_unref(attributes);
}

TEST_GROUP(world_group_setup, world_group_teardown)
