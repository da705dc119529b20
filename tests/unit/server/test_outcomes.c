/* SPDX-License-Identifier: Apache-2.0 */
/* Every end that a call to a controller can have, of attach and of detach, with a server that continues and
 * with one that is killed behind it: the claim ends released, or it says why not; there are never two
 * writers; and nothing stays attached that no live claim knows of. */

#include "cluster.h"
#include "unit.h"

#include "claim/release.h"
#include "plugin/controller.h"

#define ATTACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_ATTACH
#define DETACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH

enum { DEADLINE_US = 20000 };

struct end {
	enum model_outcome outcome;
	enum status code; /* that comes with it, or that it has here; OK: it is as good as done */
};

struct way {
	struct end end;
	bool is_restarted;
	char alloc[UUID_TEXT_SIZE]; /* new for each, on n1 */
	char rival[UUID_TEXT_SIZE]; /* on n2 */
};

static int setup_csi(void **state)
{
	struct fixture *f;

	assert_int_equal(setup(state), 0);
	f = *state;
	f->controller_timeout_us = DEADLINE_US;
	register_csi(f, "db");
	restart(f);
	connect_csi(f);
	return 0;
}

static void answer_late(struct fixture *f)
{
	settle(f);
	if (f->n2.stream)
		fake_node_answer(&f->n2);
	settle(f);
}

/* The server was killed, or the controller's node was away: a release continues at once. */
static void restart_behind(struct fixture *f, const struct way *way)
{
	answer_late(f);
	if (way->is_restarted) {
		restart(f);
		connect_csi(f);
		return;
	}
	fake_node_disconnect(&f->n2);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n2")));
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
}

static void expect_nobody_else_gets_it(struct fixture *f, const struct way *way)
{
	struct volume_entry *volume = state_volume(&f->server->state, "default", "db");
	struct error err;

	assert_int_equal(volume->n_live, 1);
	if (!f->n2.stream) { /* it is away itself */
		assert_int_equal(run_alloc(f, way->rival, "n2", &err), STATUS_UNAVAILABLE);
		return;
	}
	assert_error(run_alloc(f, way->rival, "n2", &err), STATUS_FAILED_PRECONDITION, err, way->alloc);
}

static void expect_all_gone(struct fixture *f, const struct way *way)
{
	UNTIL(f, state_of(f, way->alloc) == CLAIM_FREED);
	answer_late(f);
	assert_int_equal(f->plugin.n_attachments, 0);
	assert_int_equal(f->server->state.n_claims, 0);
	assert_string_equal(f->plugin.violation, "");
}

static struct asked ask(struct fixture *f, const struct way *way)
{
	static struct asked asked;

	asked = (struct asked){0};
	fake_node_start_claim(&f->n1, "db", way->alloc, asked_take, &asked);
	UNTIL(f, asked.answers == 1);
	return asked;
}

/* The node releases whatever it may hold. */
static void end_work(struct fixture *f, const struct way *way)
{
	struct claim claim = claim_of(f, way->alloc);

	if (claim.sent_to_node)
		fake_node_send_released(&f->n1, &claim);
	fake_node_send_alloc(&f->n1, way->alloc, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
}

static void go_through_attach(struct fixture *f, const struct way *way)
{
	struct claim claim;

	assert_int_equal(run_alloc(f, way->alloc, "n1", NULL), STATUS_OK);
	model_plugin_order(&f->plugin, ATTACH, way->end.outcome, 1, way->end.code);
	assert_int_equal(ask(f, way).status, way->end.code);
	restart_behind(f, way);
	claim = claim_of(f, way->alloc);
	assert_int_equal(claim.state, CLAIM_RESERVED);
	assert_int_equal(claim.sent_to_node, way->end.code == STATUS_OK);
	assert_int_equal(claim.attach, way->end.code == STATUS_OK ? ATTACH_DONE : ATTACH_ASKED);
	assert_int_equal(claim.last_error[0] == '\0', way->end.code == STATUS_OK);
	expect_no_stray_attachment(f);
	expect_nobody_else_gets_it(f, way);
	end_work(f, way);
	expect_all_gone(f, way);
	assert_int_equal(claim_of(f, way->alloc).evidence,
			 way->end.code == STATUS_OK ? EVIDENCE_RECEIPT : EVIDENCE_NEVER_SENT);
}

static bool is_over(struct fixture *f, const struct way *way)
{
	struct claim claim = claim_of(f, way->alloc);

	return way->end.code == STATUS_OK ? claim.state == CLAIM_FREED : claim.attempts > 0;
}

static void go_through_detach(struct fixture *f, const struct way *way)
{
	struct claim claim;

	assert_int_equal(run_alloc(f, way->alloc, "n1", NULL), STATUS_OK);
	assert_int_equal(ask(f, way).status, STATUS_OK);
	model_plugin_order(&f->plugin, DETACH, way->end.outcome, 1, way->end.code);
	end_work(f, way);
	UNTIL(f, is_over(f, way));
	claim = claim_of(f, way->alloc);
	if (way->end.code != STATUS_OK) {
		assert_int_equal(claim.state, CLAIM_NODE_DETACHED);
		assert_int_equal(claim.evidence, EVIDENCE_RECEIPT);
		assert_non_null(strstr(claim.last_error, "plugin ebs"));
		expect_nobody_else_gets_it(f, way);
	}
	settle(f);
	restart_behind(f, way); /* the controller is back, so it is tried at once */
	expect_all_gone(f, way);
	assert_int_equal(claim_of(f, way->alloc).evidence, EVIDENCE_RECEIPT);
}

static void go_all_ways(struct fixture *f, void (*go)(struct fixture *f, const struct way *way),
			const struct end *ends, size_t n_ends)
{
	static int serial;

	for (size_t i = 0; i < 2 * n_ends; i++) {
		struct way way = {.end = ends[i / 2], .is_restarted = i % 2 == 1};

		serial++;
		(void)str_format(way.alloc, sizeof(way.alloc), "018%05d-0000-7000-" ID_MARK, serial);
		(void)str_format(way.rival, sizeof(way.rival), "018%05d-0000-7900-" ID_MARK, serial);
		print_message("outcome %d, %s, %s\n", (int)way.end.outcome, status_name(way.end.code),
			      way.is_restarted ? "restarted" : "going on");
		go(f, &way);
	}
}

static const struct end ends[] = {
	{MODEL_OK, STATUS_OK},
	{MODEL_TWICE, STATUS_OK},
	{MODEL_NOT_HERE, STATUS_UNAVAILABLE}, /* there is no other controller */
	{MODEL_HOLD, STATUS_DEADLINE_EXCEEDED},
	{MODEL_HOLD_DONE, STATUS_DEADLINE_EXCEEDED},
	{MODEL_LOSE_BEFORE, STATUS_UNKNOWN},
	{MODEL_LOSE_AFTER, STATUS_UNKNOWN},
	{MODEL_OTHER_ANSWER, STATUS_UNKNOWN},
};

static void with_every_code(struct fixture *f, void (*go)(struct fixture *f, const struct way *way))
{
	for (int code = 1; code < STATUS_N; code++) {
		const struct end failures[] = {{MODEL_FAIL, (enum status)code},
					       {MODEL_FAIL_DONE, (enum status)code}};

		go_all_ways(f, go, failures, ARRAY_SIZE(failures));
	}
}

TEST_FIXTURE(an_attach_that_ends_in_whatever_way_is_released_or_explained, setup_csi, teardown)
{
	go_all_ways(*state, go_through_attach, ends, ARRAY_SIZE(ends));
}

TEST_FIXTURE(an_attach_that_fails_with_whatever_code_is_released_or_explained, setup_csi, teardown)
{
	with_every_code(*state, go_through_attach);
}

TEST_FIXTURE(a_detach_that_ends_in_whatever_way_is_released_or_explained, setup_csi, teardown)
{
	go_all_ways(*state, go_through_detach, ends, ARRAY_SIZE(ends));
}

TEST_FIXTURE(a_detach_that_fails_with_whatever_code_is_released_or_explained, setup_csi, teardown)
{
	with_every_code(*state, go_through_detach);
}
