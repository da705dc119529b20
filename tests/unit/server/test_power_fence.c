/* SPDX-License-Identifier: Apache-2.0 */
/* Power fences: a node that a fencer has proved off loses what it held in that boot, and nothing else does.
 */

#include "asks.h"
#include "fake_fencer.h"
#include "lines.h"
#include "unit.h"

#include "access/caller.h"
#include "fence/fencers.h"
#include "fence/fences.h"
#include "fence/loss.h"
#include "model/fence.h"
#include "model/fence_order.h"
#include "node/down.h"
#include "node/lookup.h"
#include "state/keys.h"
#include "state/records.h"
#include "ticket/ticket.h"

#include <holdfast/v1/fences.pb-c.h>

struct world {
	struct fixture *f;
	struct fake_fencer f1, f2;
};

static void disconnect_fencer(struct world *w, struct fake_fencer *fencer)
{
	rpc_stream_cancel(fencer->stream);
	fencer->stream = NULL;
	run_idle(w->f->event);
}

static enum status fence(struct fixture *f, bool alive, const char *reason, struct error *err)
{
	ProtobufCMessage *response = NULL;
	Holdfast__V1__FenceNodeRequest request =
		V1(fence_node_request, .id = "n1", .reason = TEXT(reason), .alive = alive);

	TRY(call(&f->operator, FENCES, "Fence", &request.base, &response, err));
	protobuf_c_message_free_unpacked(response, NULL);
	return STATUS_OK;
}

static void must_fence(struct fixture *f, bool alive)
{
	struct error err;

	assert_succeeds(fence(f, alive, "it does not answer", &err), err);
}

/* The last fence of n1, in a text that is good until the next call. */
static const Holdfast__V1__Fence *fence_of(struct fixture *f)
{
	return records_get(&f->server->state.records, PREFIX_FENCE "n1");
}

static bool is_in(struct fixture *f, enum fence_state wanted)
{
	return fence_of(f) && (enum fence_state)fence_of(f)->state == wanted;
}

static void wait_for(struct fixture *f, enum fence_state wanted)
{
	UNTIL(f, is_in(f, wanted));
	run_idle(f->event);
	assert_true(is_in(f, wanted));
}

static void put(struct fixture *f, const char *key, const ProtobufCMessage *record)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	change_put_record(&change, key, record);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	run_idle(f->event);
}

UNIT_SETUP(setup_world, struct world, w)
{
	void *fixture = NULL;

	assert_int_equal(setup(&fixture), 0);
	w->f = fixture;
	caller_init(&w->f1.caller, w->f, "holdfast://c1/fencer/f1", NULL);
	caller_init(&w->f2.caller, w->f, "holdfast://c1/fencer/f2", NULL);
	take_volume(w->f);
	run_idle(w->f->event); /* what a node sends later is heard after a proof */
}

static int teardown_world(void **state)
{
	struct world *w = *state;
	void *fixture = w->f;

	caller_release(&w->f1.caller);
	caller_release(&w->f2.caller);
	free(w);
	return teardown(&fixture);
}

#define WORLD_TEST(name) TEST_ON(name, struct world, w, setup_world, teardown_world)

/* n1 is away with its claim, f1 has the order to switch it off. */
static const struct fence_order *strand(struct world *w)
{
	lose(w->f, &w->f->n1);
	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
	return &w->f1.orders[0];
}

static void start_again(struct world *w)
{
	if (w->f1.stream)
		disconnect_fencer(w, &w->f1);
	caller_release(&w->f1.caller);
	caller_release(&w->f2.caller);
	restart(w->f);
	caller_init(&w->f1.caller, w->f, "holdfast://c1/fencer/f1", NULL);
	caller_init(&w->f2.caller, w->f, "holdfast://c1/fencer/f2", NULL);
}

static void pass(struct fixture *f, uint64_t ms)
{
	unit_clock_advance(ms * USEC_PER_MSEC);
	settle(f);
}

/* Past the grace of a server that has just begun to lead. */
static void lead_long(struct fixture *f)
{
	pass(f, NODES_GRACE_MS + (f->server->config.etcd.lease_us + 3 * f->server->config.heartbeat_us) /
					 USEC_PER_MSEC);
}

static void claim_db(struct fake_node *node)
{
	assert_int_equal(fake_node_claim(node, "db", ALLOC_2, NULL, NULL), STATUS_OK);
}

WORLD_TEST(a_node_that_is_proved_off_loses_its_claims)
{
	const struct fence_order *order = strand(w);
	uint8_t key[TICKET_KEY_SIZE];
	struct claim claim;

	ticket_issuer_public_key(w->f->server->issuer, key);
	assert_true(fence_order_is_signed(order, key));
	assert_int_equal(order->action, FENCE_ORDER_OFF);
	assert_string_equal(order->cluster, "c1");
	assert_string_equal(order->fencer, "f1");
	assert_string_equal(order->node, "n1");
	assert_string_equal(order->who, "operator/dev");
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN); /* an order is no evidence */
	fake_fencer_prove(&w->f1, order);
	wait_for(w->f, FENCE_RECORDED);
	claim = claim_of(w->f, ALLOC_1);
	assert_int_equal(claim.state, CLAIM_FREED);
	assert_int_equal(claim.evidence, EVIDENCE_POWER_FENCE);
	assert_non_null(strstr(claim.evidence_detail, "fencer f1: fence_dummy off at 20"));
	assert_non_null(strstr(claim.evidence_detail, "status off at 20"));
	assert_non_null(strstr(claim.evidence_detail, "operator/dev: it does not answer"));
	assert_int_equal(fence_of(w->f)->freed, 1);
	assert_int_equal(state_alloc(&w->f->server->state, ALLOC_1)->alloc.client_status, CLIENT_LOST);
	assert_int_equal(run_alloc(w->f, ALLOC_2, "n2", NULL), STATUS_OK);
	claim_db(&w->f->n2);
	assert_int_equal(w->f1.n, 1);
}

WORLD_TEST(an_answer_that_proves_nothing_keeps_the_claims)
{
	static const struct {
		Holdfast__V1__FenceOutcome off, status;
		bool refused, unsure;
		enum fence_state then;
	} answers[] = {
		{HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_DONE,
		 HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_ON, false, false, FENCE_FAILED},
		{HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_DONE,
		 HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_FAILED, false, false, FENCE_FAILED},
		{HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_FAILED,
		 HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_OFF, false, false, FENCE_FAILED},
		{0, 0, true, false, FENCE_REFUSED},
		{0, 0, false, true, FENCE_UNKNOWN},
	};

	lose(w->f, &w->f->n1);
	fake_fencer_connect(&w->f1, "");
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		Holdfast__V1__FenceAnswer answer = fake_fencer_proof();
		char why[] = "the switch says no";

		answer.off = answers[i].off;
		answer.status = answers[i].status;
		answer.refused = answers[i].refused;
		answer.unsure = answers[i].unsure;
		answer.error = why;
		must_fence(w->f, false);
		UNTIL(w->f, w->f1.n == i + 1);
		if (i > 0) /* each asks anew */
			assert_memory_not_equal(w->f1.orders[i].nonce, w->f1.orders[i - 1].nonce,
						FENCE_ORDER_NONCE_SIZE);
		fake_fencer_answer(&w->f1, &w->f1.orders[i], &answer);
		wait_for(w->f, answers[i].then);
		assert_non_null(strstr(fence_of(w->f)->error, why));
		assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
	}
}

WORLD_TEST(a_connected_node_is_fenced_only_by_a_persons_word_and_freed_when_it_is_silent)
{
	struct error err;

	fake_fencer_connect(&w->f1, "");
	assert_error(fence(w->f, false, "it is slow", &err), STATUS_FAILED_PRECONDITION, err, "--alive");
	assert_null(fence_of(w->f));
	must_fence(w->f, true);
	UNTIL(w->f, w->f1.n == 1);
	assert_true(fence_of(w->f)->alive);
	fake_fencer_prove(&w->f1, &w->f1.orders[0]);
	wait_for(w->f, FENCE_OFF);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
	lose(w->f, &w->f->n1);
	wait_for(w->f, FENCE_RECORDED);
	assert_int_equal(claim_of(w->f, ALLOC_1).evidence, EVIDENCE_POWER_FENCE);
}

WORLD_TEST(a_node_that_is_heard_after_its_proof_keeps_its_claims)
{
	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, true);
	UNTIL(w->f, w->f1.n == 1);
	fake_fencer_prove(&w->f1, &w->f1.orders[0]);
	wait_for(w->f, FENCE_OFF);
	unit_clock_advance(10 * USEC_PER_MSEC);
	fake_node_send_heartbeat(&w->f->n1); /* the switch was another machine's */
	run_for(w->f->event, 6000);
	assert_non_null(
		w->f->n1.stream); /* it is stored while the node is connected: a new leader knows it */
	assert_true(is_in(w->f, FENCE_FAILED));
	assert_non_null(strstr(fence_of(w->f)->error, "heard after it was proved off"));
	start_again(w);
	lead_long(w->f);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

/* What counts is the order of things, whatever the clock says. */
WORLD_TEST(a_node_that_is_heard_after_its_proof_and_a_step_of_the_clock_keeps_its_claims)
{
	const Holdfast__V1__FenceAnswer answer = fake_fencer_proof();

	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, true);
	UNTIL(w->f, w->f1.n == 1);
	fake_fencer_answer(&w->f1, &w->f1.orders[0], &answer);
	wait_for(w->f, FENCE_OFF);
	unit_clock_step(-200000);
	fake_node_send_heartbeat(&w->f->n1);
	run_idle(w->f->event);
	fake_fencer_answer(&w->f1, &w->f1.orders[0], &answer); /* the same answer again */
	run_idle(w->f->event);
	lose(w->f, &w->f->n1);
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

WORLD_TEST(a_node_that_is_heard_after_a_proof_that_was_not_stored_keeps_its_claims)
{
	const Holdfast__V1__FenceAnswer answer = fake_fencer_proof();

	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, true);
	UNTIL(w->f, w->f1.n == 1);
	w->f->server->is_superseded = true;
	fake_fencer_answer(&w->f1, &w->f1.orders[0], &answer);
	run_idle(w->f->event);
	w->f->server->is_superseded = false;
	unit_clock_step(-200000);
	fake_node_send_heartbeat(&w->f->n1);
	run_idle(w->f->event);
	assert_true(is_in(w->f, FENCE_SENT));
	fake_fencer_answer(&w->f1, &w->f1.orders[0], &answer);
	run_idle(w->f->event);
	lose(w->f, &w->f->n1);
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

WORLD_TEST(a_node_that_a_former_server_may_have_heard_keeps_its_claims_whatever_the_clock_says)
{
	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, true);
	UNTIL(w->f, w->f1.n == 1);
	fake_fencer_prove(&w->f1, &w->f1.orders[0]);
	wait_for(w->f, FENCE_OFF);
	unit_clock_step(-600000);
	start_again(w);
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

/* n1 is back for a moment, after the fencer has proved it off, and before the fencer answers. */
static Holdfast__V1__FenceAnswer hear_before_the_answer(struct world *w)
{
	Holdfast__V1__FenceAnswer answer;

	(void)strand(w);
	answer = fake_fencer_proof();
	unit_clock_advance(10 * USEC_PER_MSEC);
	fake_node_connect(&w->f->n1, "n1", BOOT_1, NULL, 0);
	lose(w->f, &w->f->n1);
	unit_clock_advance(10 * USEC_PER_MSEC);
	return answer;
}

WORLD_TEST(a_node_that_was_heard_before_a_late_answer_keeps_its_claims)
{
	const Holdfast__V1__FenceAnswer answer = hear_before_the_answer(w);

	fake_fencer_answer(&w->f1, &w->f1.orders[0], &answer);
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

WORLD_TEST(a_fencers_clock_that_is_ahead_makes_no_proof_younger_than_its_answer)
{
	Holdfast__V1__FenceAnswer answer;

	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, true);
	UNTIL(w->f, w->f1.n == 1);
	answer = fake_fencer_proof();
	answer.status_ms += 60000;
	fake_fencer_answer(&w->f1, &w->f1.orders[0], &answer);
	wait_for(w->f, FENCE_OFF);
	unit_clock_advance(10 * USEC_PER_MSEC);
	fake_node_send_heartbeat(&w->f->n1);
	run_idle(w->f->event);
	lose(w->f, &w->f->n1);
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
	must_fence(w->f, false); /* by the right switch */
	UNTIL(w->f, w->f1.n == 2);
	fake_fencer_prove(&w->f1, &w->f1.orders[1]);
	wait_for(w->f, FENCE_RECORDED);
}

WORLD_TEST(a_fence_that_no_fencer_answers_ends_also_when_the_clock_is_set_back)
{
	(void)strand(w);
	unit_clock_step(-3600000);
	wait_for(w->f, FENCE_UNKNOWN);
}

WORLD_TEST(a_fence_without_a_proof_is_over_when_the_node_is_back_in_another_boot)
{
	Holdfast__V1__FenceAnswer answer = fake_fencer_proof();

	(void)strand(w);
	answer.status = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_ON;
	fake_fencer_answer(&w->f1, &w->f1.orders[0], &answer);
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(metric_of(w->f, "fences_unproved"), 1);
	fake_node_connect(&w->f->n1, "n1", BOOT_2, NULL, 0);
	wait_for(w->f, FENCE_OVERTAKEN);
	assert_int_equal(metric_of(w->f, "fences_unproved"), 0);
}

/* The server that heard it ended before it had stored that the proof is over. */
WORLD_TEST(a_node_that_a_former_server_heard_after_its_proof_keeps_its_claims)
{
	const struct node_entry *n1;
	Holdfast__V1__Fence off;

	(void)strand(w);
	start_again(w);
	n1 = state_node(&w->f->server->state, "n1");
	off = *fence_of(w->f);
	off.state = HOLDFAST__V1__FENCE_STATE__FENCE_STATE_OFF;
	off.answer_time_ms = n1->node.last_seen_ms - 1;
	off.status_ms = n1->node.last_seen_ms + 60000; /* the fencer's clock is ahead */
	put(w->f, PREFIX_FENCE "n1", &off.base);
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

WORLD_TEST(nothing_is_fenced_without_a_fencer_of_the_node_or_without_a_reason)
{
	struct error err;

	lose(w->f, &w->f->n1);
	assert_error(fence(w->f, false, "gone", &err), STATUS_FAILED_PRECONDITION, err, "no fencer");
	fake_fencer_connect(&w->f1, "");
	assert_int_equal(fence(w->f, false, "", &err), STATUS_INVALID_ARGUMENT);
	assert_null(fence_of(w->f));
	assert_int_equal(w->f1.n, 0);
}

WORLD_TEST(a_fence_in_flight_is_asked_for_once)
{
	const struct fence_order *order = strand(w);

	must_fence(w->f, false);
	run_idle(w->f->event);
	assert_int_equal(w->f1.n, 1);
	disconnect_fencer(w, &w->f1);
	fake_fencer_connect(&w->f1, "");
	UNTIL(w->f, w->f1.n == 2); /* the same order: the fencer carries it out once */
	assert_memory_equal(&w->f1.orders[1], order, sizeof(*order));
	fake_fencer_prove(&w->f1, order);
	fake_fencer_prove(&w->f1, order);
	wait_for(w->f, FENCE_RECORDED);
}

WORLD_TEST(a_server_that_starts_again_continues_a_fence)
{
	(void)strand(w);
	start_again(w);
	fake_fencer_connect(&w->f1, "");
	UNTIL(w->f, w->f1.n == 2);
	assert_memory_equal(&w->f1.orders[1], &w->f1.orders[0], sizeof(w->f1.orders[0]));
	fake_fencer_prove(&w->f1, &w->f1.orders[1]);
	wait_for(w->f, FENCE_RECORDED);
	assert_int_equal(claim_of(w->f, ALLOC_1).evidence, EVIDENCE_POWER_FENCE);
}

/* The server dies after the intent is durable, and before an order is. */
WORLD_TEST(a_server_that_starts_again_orders_a_fence_that_was_asked_for)
{
	Holdfast__V1__Fence fence = V1(fence, .node_id = "n1", .boot_id = BOOT_1, .by = "operator/dev",
				       .reason = "it does not answer");

	lose(w->f, &w->f->n1);
	fence.create_time_ms = fence.modify_time_ms = clock_realtime_ms();
	fence.not_after_ms = fence.create_time_ms + 60000;
	put(w->f, PREFIX_FENCE "n1", &fence.base);
	assert_true(is_in(w->f, FENCE_ASKED));
	start_again(w);
	assert_true(is_in(w->f, FENCE_ASKED));
	fake_fencer_connect(&w->f1, "");
	UNTIL(w->f, w->f1.n == 1);
	fake_fencer_prove(&w->f1, &w->f1.orders[0]);
	wait_for(w->f, FENCE_RECORDED);
	assert_int_equal(w->f1.n, 1);
	assert_int_equal(claim_of(w->f, ALLOC_1).evidence, EVIDENCE_POWER_FENCE);
}

WORLD_TEST(a_fence_that_waits_for_a_fencer_ends_when_its_node_is_connected_again)
{
	for (int alive = 0; alive < 2; alive++) { /* unless it was asked for although the node was alive */
		Holdfast__V1__Fence fence =
			V1(fence, .node_id = "n1", .boot_id = BOOT_1, .by = "operator/dev",
			   .reason = "it does not answer", .alive = alive == 1);

		if (w->f->n1.stream)
			lose(w->f, &w->f->n1);
		fence.create_time_ms = fence.modify_time_ms = clock_realtime_ms();
		fence.not_after_ms = fence.create_time_ms + 60000;
		put(w->f, PREFIX_FENCE "n1", &fence.base);
		start_again(w);
		fake_node_connect(&w->f->n1, "n1", BOOT_1, NULL, 0);
		settle(w->f);
		assert_true(is_in(w->f, alive ? FENCE_ASKED : FENCE_REFUSED));
		fake_fencer_connect(&w->f1, "");
		settle(w->f);
		assert_int_equal(w->f1.n, alive);
		assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
		disconnect_fencer(w, &w->f1);
	}
}

/* A proof of the time before this server began to lead, in the state in which a former one has left it. */
static void leave_proof(struct world *w)
{
	Holdfast__V1__Fence proved = *fence_of(w->f);

	proved.state = HOLDFAST__V1__FENCE_STATE__FENCE_STATE_OFF;
	proved.off = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_DONE;
	proved.status = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_OFF;
	proved.off_ms = proved.status_ms = proved.answer_time_ms = w->f->server->started_ms;
	put(w->f, PREFIX_FENCE "n1", &proved.base);
}

/* n1 is away, and the server has begun to lead after the proof. */
static void lead_after_the_proof(struct world *w)
{
	(void)strand(w);
	start_again(w);
	leave_proof(w);
	start_again(w);
	assert_true(is_in(w->f, FENCE_OFF));
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

/* The server dies after the proof is durable, and before a claim is freed. Nodes that are alive have the
 * time to come back. */
WORLD_TEST(a_server_that_starts_again_takes_a_proof_without_another_order)
{
	lead_after_the_proof(w);
	pass(w->f, NODES_GRACE_MS);
	assert_true(is_in(w->f, FENCE_OFF));
	lead_long(w->f);
	wait_for(w->f, FENCE_RECORDED);
	assert_int_equal(w->f1.n, 1);
	assert_int_equal(claim_of(w->f, ALLOC_1).evidence, EVIDENCE_POWER_FENCE);
}

WORLD_TEST(a_new_leader_whose_clock_is_behind_waits_for_nodes_to_come_back)
{
	(void)strand(w);
	start_again(w);
	leave_proof(w);
	unit_clock_step(-200000);
	start_again(w);
	fake_fencer_connect(&w->f1, "");
	fake_fencer_prove(&w->f1, &w->f1.orders[0]); /* again, to this server */
	pass(w->f, NODES_GRACE_MS);
	assert_true(is_in(w->f, FENCE_OFF));
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
	lead_long(w->f);
	wait_for(w->f, FENCE_RECORDED);
}

WORLD_TEST(a_node_that_comes_back_to_a_new_leader_refutes_the_proof_of_the_former_one)
{
	lead_after_the_proof(w);
	pass(w->f, NODES_GRACE_MS);
	fake_node_connect(&w->f->n1, "n1", BOOT_1, NULL, 0);
	wait_for(w->f, FENCE_FAILED);
	lose(w->f, &w->f->n1);
	lead_long(w->f);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

/* When the server heard it is known to that server only. */
WORLD_TEST(a_node_that_was_connected_as_the_server_ended_is_not_freed_by_an_earlier_proof)
{
	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, true);
	UNTIL(w->f, w->f1.n == 1);
	fake_fencer_prove(&w->f1, &w->f1.orders[0]);
	wait_for(w->f, FENCE_OFF);
	unit_clock_advance(10 * USEC_PER_MSEC);
	start_again(w);
	wait_for(w->f, FENCE_FAILED);
	lead_long(w->f);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

/* The answer comes after the node is down: that has another time than the end of its session. */
WORLD_TEST(a_node_that_is_down_is_not_freed_by_a_proof_from_before_the_server_began)
{
	Holdfast__V1__FenceAnswer answer;

	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, true);
	UNTIL(w->f, w->f1.n == 1);
	answer = fake_fencer_proof();
	unit_clock_advance(10 * USEC_PER_MSEC);
	start_again(w);
	w->f->server->config.node_down_after_us = 0;
	node_down_rearm(w->f->server);
	UNTIL(w->f, state_node(&w->f->server->state, "n1")->node.status == NODE_DOWN);
	assert_true(state_node(&w->f->server->state, "n1")->node.disconnected_ms != 0);
	fake_fencer_connect(&w->f1, "");
	fake_fencer_answer(&w->f1, &w->f1.orders[0], &answer);
	lead_long(w->f);
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

/* The order of a former server is sent again. @ahead_ms: the fencer's clock, with which it has made @answer.
 */
static void answer_the_next_lead(struct world *w, Holdfast__V1__FenceAnswer answer, int64_t ahead_ms)
{
	start_again(w);
	unit_clock_advance(USEC_PER_SEC);
	fake_fencer_connect(&w->f1, "");
	UNTIL(w->f, w->f1.n == 2);
	answer.off_ms += ahead_ms;
	answer.status_ms += ahead_ms;
	fake_fencer_answer(&w->f1, &w->f1.orders[0], &answer);
	run_idle(w->f->event);
}

/* The switch was another machine's: n1 has had no time yet to show that. */
static void refute_in_the_grace(struct world *w)
{
	assert_true(is_in(w->f, FENCE_OFF));
	pass(w->f, NODES_GRACE_MS);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
	fake_node_connect(&w->f->n1, "n1", BOOT_1, NULL, 0);
	wait_for(w->f, FENCE_FAILED);
	assert_non_null(strstr(fence_of(w->f)->error, "was heard after it was proved off"));
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

WORLD_TEST(a_node_that_was_back_as_the_server_ended_has_the_grace_to_refute_a_younger_proof)
{
	(void)strand(w);
	fake_node_connect(&w->f->n1, "n1", BOOT_1, NULL, 0);
	answer_the_next_lead(w, fake_fencer_proof(), 2000);
	refute_in_the_grace(w);
}

WORLD_TEST(a_connected_node_that_a_former_server_ordered_off_has_the_grace_to_refute_a_younger_proof)
{
	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, true);
	UNTIL(w->f, w->f1.n == 1);
	w->f->server->config.node_down_after_us = 0;
	answer_the_next_lead(w, fake_fencer_proof(), 2000);
	w->f->server->config.node_down_after_us = USEC_PER_SEC;
	node_down_rearm(w->f->server);
	UNTIL(w->f, state_node(&w->f->server->state, "n1")->node.status == NODE_DOWN);
	refute_in_the_grace(w);
}

WORLD_TEST(a_fencers_clock_that_is_ahead_leaves_a_connected_node_the_grace_of_the_next_leader)
{
	Holdfast__V1__FenceAnswer answer;

	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, true);
	UNTIL(w->f, w->f1.n == 1);
	answer = fake_fencer_proof();
	unit_clock_advance(10 * USEC_PER_SEC);
	fake_node_send_heartbeat(&w->f->n1);
	run_idle(w->f->event);
	answer_the_next_lead(w, answer, 30000);
	refute_in_the_grace(w);
}

/* It was lost with a server, and the next one ordered its fence and ended. */
static void miss_for_two_leads(struct world *w)
{
	start_again(w);
	w->f->server->config.heartbeat_us = USEC_PER_SEC; /* it is not down after the grace */
	lead_long(w->f);
	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
}

WORLD_TEST(a_node_that_two_servers_have_missed_is_freed_after_the_grace)
{
	miss_for_two_leads(w);
	answer_the_next_lead(w, fake_fencer_proof(), 2000);
	assert_true(is_in(w->f, FENCE_OFF));
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
	lead_long(w->f);
	wait_for(w->f, FENCE_RECORDED);
	assert_int_equal(claim_of(w->f, ALLOC_1).evidence, EVIDENCE_POWER_FENCE);
}

WORLD_TEST(a_proof_from_before_a_restore_frees_nothing)
{
	Holdfast__V1__Fence older;

	lead_after_the_proof(w);
	older = *fence_of(w->f);
	older.epoch++; /* not that of the store */
	put(w->f, PREFIX_FENCE "n1", &older.base);
	lead_long(w->f);
	assert_true(is_in(w->f, FENCE_FAILED));
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

WORLD_TEST(a_node_that_is_back_in_another_boot_overtakes_its_fence)
{
	const struct fence_order *order = strand(w);

	fake_node_connect(&w->f->n1, "n1", BOOT_2, NULL, 0);
	wait_for(w->f, FENCE_OVERTAKEN);
	assert_int_equal(claim_of(w->f, ALLOC_1).evidence, EVIDENCE_NEW_BOOT);
	assert_int_equal(run_alloc(w->f, ALLOC_2, "n1", NULL), STATUS_OK);
	claim_db(&w->f->n1);
	lose(w->f, &w->f->n1);
	fake_fencer_prove(&w->f1, order); /* late, and of the boot that is over */
	settle(w->f);
	assert_true(is_in(w->f, FENCE_OVERTAKEN));
	assert_true(claim_of(w->f, ALLOC_2).state < CLAIM_UNPUBLISHING);
}

WORLD_TEST(time_ends_a_fence_and_frees_nothing)
{
	const struct fence_order *order = strand(w);

	unit_clock_advance((FENCE_ORDER_VALID_MS + FENCE_ANSWER_MAX_MS + 1000) * USEC_PER_MSEC);
	wait_for(w->f, FENCE_UNKNOWN);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
	fake_fencer_prove(&w->f1, order); /* late, and still a proof about that boot */
	wait_for(w->f, FENCE_RECORDED);
	assert_int_equal(claim_of(w->f, ALLOC_1).evidence, EVIDENCE_POWER_FENCE);
}

/* As while a restore is prepared, or the disk is full. */
static void lose_proof(struct world *w, const struct fence_order *order)
{
	w->f->server->is_superseded = true;
	fake_fencer_prove(&w->f1, order);
	run_idle(w->f->event);
	w->f->server->is_superseded = false;
	assert_int_equal(w->f1.n, 1);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
	UNTIL(w->f, w->f1.n == 2);
	assert_memory_equal(&w->f1.orders[1], &w->f1.orders[0], sizeof(*order));
	fake_fencer_prove(&w->f1, order);
	wait_for(w->f, FENCE_RECORDED);
}

WORLD_TEST(a_proof_that_could_not_be_stored_is_asked_for_again)
{
	lose_proof(w, strand(w));
}

WORLD_TEST(a_late_proof_that_could_not_be_stored_is_asked_for_again)
{
	const struct fence_order *order = strand(w);

	unit_clock_advance((FENCE_ORDER_VALID_MS + FENCE_ANSWER_MAX_MS + 1000) * USEC_PER_MSEC);
	wait_for(w->f, FENCE_UNKNOWN);
	lose_proof(w, order);
}

WORLD_TEST(the_fencer_whose_switch_answers_is_asked)
{
	lose(w->f, &w->f->n1);
	fake_fencer_connect(&w->f2, "");
	fake_fencer_connect(&w->f1, "no route to the switch");
	must_fence(w->f, false);
	UNTIL(w->f, w->f2.n == 1);
	assert_int_equal(w->f1.n, 0);
	assert_string_equal(w->f2.orders[0].fencer, "f2");
}

WORLD_TEST(a_proof_with_the_time_of_another_day_frees_nothing)
{
	static const int64_t times[] = {1, INT64_MAX};
	const struct fence_order *order = strand(w);

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		Holdfast__V1__FenceAnswer answer = fake_fencer_proof();

		if (i > 0) {
			must_fence(w->f, false);
			UNTIL(w->f, w->f1.n == i + 1);
		}
		answer.off_ms = answer.status_ms = times[i];
		fake_fencer_answer(&w->f1, &order[i], &answer);
		wait_for(w->f, FENCE_FAILED);
		assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
		assert_non_null(
			strstr(fence_of(w->f)->error, "compare the clocks of the fencer's and this machine"));
	}
}

WORLD_TEST(a_fencer_that_names_the_node_later_does_not_displace_the_first)
{
	lose(w->f, &w->f->n1);
	fake_fencer_connect(&w->f1, "");
	fake_fencer_connect(&w->f2, "");
	disconnect_fencer(w, &w->f1);
	fake_fencer_connect(&w->f1, ""); /* it is no newcomer */
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n + w->f2.n == 1);
	assert_string_equal(fence_of(w->f)->fencer, "f1");
}

static void bind(struct world *w, const char *fencer, const char *nodes)
{
	struct fence_bindings *bindings = &w->f->server->config.fence_bindings;
	struct fence_binding *binding = &bindings->list[bindings->n++];

	(void)str_copy(binding->fencer, sizeof(binding->fencer), fencer);
	(void)str_copy(binding->nodes[0], sizeof(binding->nodes[0]), nodes);
}

WORLD_TEST(a_fencer_gets_orders_only_for_nodes_that_it_is_bound_to)
{
	struct error err;

	bind(w, "f2", "rack-*");
	lose(w->f, &w->f->n1);
	fake_fencer_connect(&w->f1, ""); /* without a block */
	fake_fencer_connect(&w->f2, "");
	assert_int_equal(fence(w->f, false, "it does not answer", &err), STATUS_FAILED_PRECONDITION);
	bind(w, "f1", "n*");
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
	assert_int_equal(w->f2.n, 0);
}

WORLD_TEST(a_proof_of_a_fencer_that_is_not_bound_to_the_node_frees_nothing)
{
	const struct fence_order *order = strand(w);

	bind(w, "f2", "n1");
	fake_fencer_prove(&w->f1, order);
	run_idle(w->f->event);
	run_idle(w->f->event);
	assert_true(is_in(w->f, FENCE_SENT));
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

/* @fencer has answered with @off and @refused. */
static void fail_fencer(struct fake_fencer *fencer, Holdfast__V1__FenceOutcome off, bool refused)
{
	Holdfast__V1__FenceAnswer answer = fake_fencer_proof();

	answer.off = off;
	answer.status = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_NONE;
	answer.refused = refused;
	answer.error = "the switch says no";
	fake_fencer_answer(fencer, &fencer->orders[fencer->n - 1], &answer);
}

static void fail_first(struct world *w, Holdfast__V1__FenceOutcome off, bool refused)
{
	fail_fencer(&w->f1, off, refused);
}

WORLD_TEST(a_fence_asks_three_of_four_fencers)
{
	static const char *const names[] = {"f1", "f2", "f3", "f4"};
	struct fake_fencer more[2] = {{.n = 0}, {.n = 0}};
	struct fake_fencer *fencers[] = {&w->f1, &w->f2, &more[0], &more[1]};

	caller_init(&more[0].caller, w->f, "holdfast://c1/fencer/f3", NULL);
	caller_init(&more[1].caller, w->f, "holdfast://c1/fencer/f4", NULL);
	lose(w->f, &w->f->n1);
	for (size_t i = 0; i < ARRAY_SIZE(fencers); i++) {
		bind(w, names[i], "n1");
		fake_fencer_connect(fencers[i], "");
	}
	must_fence(w->f, false);
	for (size_t n = 1; n <= FENCE_TRIES_MAX; n++) {
		UNTIL(w->f, w->f1.n + w->f2.n + more[0].n + more[1].n == n);
		fail_fencer(fencers[fence_of(w->f)->fencer[1] - '1'],
			    HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_FAILED, false);
	}
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(w->f1.n + w->f2.n + more[0].n + more[1].n, FENCE_TRIES_MAX);
	caller_release(&more[0].caller);
	caller_release(&more[1].caller);
}

WORLD_TEST(the_next_fencer_that_is_bound_to_the_node_is_asked_when_one_refuses_or_fails)
{
	bind(w, "f1", "n1");
	bind(w, "f2", "n1");
	lose(w->f, &w->f->n1);
	fake_fencer_connect(&w->f1, "");
	fake_fencer_connect(&w->f2, "");
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
	fail_first(w, HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_FAILED, false);
	UNTIL(w->f, w->f2.n == 1); /* at once */
	assert_string_equal(fence_of(w->f)->fencer, "f2");
	assert_string_equal(fence_of(w->f)->tried[0], "f1");
	assert_non_null(strstr(fence_of(w->f)->error, "the switch says no"));
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
	fake_fencer_prove(&w->f1, &w->f1.orders[0]); /* it has had its turn */
	run_idle(w->f->event);
	assert_true(is_in(w->f, FENCE_SENT));
	fake_fencer_prove(&w->f2, &w->f2.orders[0]);
	wait_for(w->f, FENCE_RECORDED);
	assert_int_equal(w->f1.n, 1);
}

WORLD_TEST(no_other_fencer_is_asked_for_a_node_that_is_connected_again)
{
	bind(w, "f1", "n1");
	bind(w, "f2", "n1");
	lose(w->f, &w->f->n1);
	fake_fencer_connect(&w->f1, "");
	fake_fencer_connect(&w->f2, "");
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
	fake_node_connect(&w->f->n1, "n1", BOOT_1, NULL, 0);
	settle(w->f);
	fail_first(w, HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_FAILED, false);
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(w->f2.n, 0);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

/* The first one may have switched it off: "refused" would say that nothing was touched. */
WORLD_TEST(a_refusal_after_a_failure_is_a_failure)
{
	Holdfast__V1__FenceAnswer answer = V1(fence_answer, .refused = true);

	bind(w, "f1", "n1");
	bind(w, "f2", "n1");
	lose(w->f, &w->f->n1);
	fake_fencer_connect(&w->f1, "");
	fake_fencer_connect(&w->f2, "");
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
	fail_first(w, HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_FAILED, false);
	UNTIL(w->f, w->f2.n == 1);
	fake_fencer_answer(&w->f2, &w->f2.orders[0], &answer);
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(w->f1.n + w->f2.n, 2); /* each once */
}

WORLD_TEST(no_fencer_is_asked_next_that_is_not_bound_to_the_node_or_whose_switch_fails)
{
	lose(w->f, &w->f->n1);
	fake_fencer_connect(&w->f1, "");
	fake_fencer_connect(&w->f2, "");
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
	fail_first(w, HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_NONE, true);
	wait_for(w->f, FENCE_REFUSED);
	bind(w, "f1", "n1");
	bind(w, "f2", "n1");
	disconnect_fencer(w, &w->f2);
	fake_fencer_connect(&w->f2, "no route to the switch");
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 2);
	fail_first(w, HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_FAILED, false);
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(w->f2.n, 0);
}

/* The error that the list shows for n1 of the fencer. */
static void assert_listed(struct world *w, const char *fencer, const char *wanted)
{
	Holdfast__V1__ListFencesResponse list = HOLDFAST__V1__LIST_FENCES_RESPONSE__INIT;
	Holdfast__V1__ListFencesResponse *shown = NON_NULL(calloc(1, sizeof(*shown)));
	bool is_there = false;

	*shown = list;
	assert_true(fencers_show(w->f->server->fencers, shown));
	for (size_t i = 0; i < shown->n_fencers; i++)
		if (str_eq(shown->fencers[i]->name, fencer)) {
			const char *error = shown->fencers[i]->nodes[0]->error;

			is_there = true;
			assert_true(wanted[0] == '\0' ? error[0] == '\0' : strstr(error, wanted) != NULL);
		}
	assert_true(is_there);
	holdfast__v1__list_fences_response__free_unpacked(shown, NULL);
}

WORLD_TEST(two_fencers_of_one_node_are_an_alarm_unless_both_are_bound_to_it)
{
	char warning[FENCERS_WARNING_SIZE];

	fake_fencer_connect(&w->f1, "");
	assert_false(fencers_warning(w->f->server->fencers, warning));
	fake_fencer_connect(&w->f2, "");
	assert_true(fencers_warning(w->f->server->fencers, warning));
	assert_non_null(strstr(warning, "node n1: fencer f"));
	assert_listed(w, "f1", "fencer f2 has this node too");
	assert_listed(w, "f2", "fencer f1 has this node too");
	bind(w, "f1", "n1");
	assert_true(fencers_warning(w->f->server->fencers, warning));
	assert_string_equal(
		warning, "fencer f2, node n1: the block of fencer f2 in server.hcl does not have this node");
	assert_listed(w, "f1", "");
	assert_listed(w, "f2", "does not have this node");
	bind(w, "f2", "n*");
	assert_false(fencers_warning(w->f->server->fencers, warning));
	assert_listed(w, "f2", "");
}

WORLD_TEST(a_fencer_that_is_away_and_a_switch_that_fails_are_alarms)
{
	struct fixture *f = w->f;
	char warning[FENCERS_WARNING_SIZE];

	assert_false(fencers_warning(w->f->server->fencers, warning));
	assert_int_equal(metric_of(f, "fencers{status=\"connected\"}"), 0);
	fake_fencer_connect(&w->f1, "no route to the switch");
	assert_int_equal(metric_of(f, "fencers{status=\"connected\"}"), 1);
	assert_int_equal(metric_of(f, "power_switches{status=\"failing\"}"), 1);
	assert_true(fencers_warning(w->f->server->fencers, warning));
	assert_non_null(strstr(warning, "holdfast node fence --test n1"));
	expect_warning_events(f, "fencers", 1, 0);
	disconnect_fencer(w, &w->f1);
	UNTIL(f, metric_of(f, "fencers{status=\"away\"}") == 1);
	assert_true(fencers_warning(w->f->server->fencers, warning));
	assert_non_null(strstr(warning, "fencer f1 is away"));
	fake_fencer_connect(&w->f1, "");
	assert_int_equal(metric_of(f, "fencers{status=\"away\"}"), 0);
	assert_int_equal(metric_of(f, "power_switches{status=\"failing\"}"), 0);
	assert_false(fencers_warning(w->f->server->fencers, warning));
	expect_warning_events(f, "fencers", 1, 1);
}

WORLD_TEST(a_fencer_of_the_settings_that_has_not_connected_is_an_alarm)
{
	char warning[FENCERS_WARNING_SIZE];

	bind(w, "f1", "n*");
	assert_false(fencers_warning(w->f->server->fencers, warning)); /* it may be on its way */
	assert_int_equal(metric_of(w->f, "fencers{status=\"away\"}"), 0);
	lead_long(w->f);
	assert_int_equal(metric_of(w->f, "fencers{status=\"away\"}"), 1);
	assert_true(fencers_warning(w->f->server->fencers, warning));
	assert_contains(warning, "fencer f1 of server.hcl has not connected");
	fake_fencer_connect(&w->f1, "");
	assert_int_equal(metric_of(w->f, "fencers{status=\"away\"}"), 0);
	assert_false(fencers_warning(w->f->server->fencers, warning));
}

/* Nothing renews it: its end is an alarm before. */
WORLD_TEST(the_session_of_a_fencer_ends_with_its_certificate)
{
	enum { HOUR_S = 3600 };
	char warning[FENCERS_WARNING_SIZE];

	w->f->server->config.heartbeat_us = 100 * HOUR_S * USEC_PER_SEC;
	fake_fencer_connect(&w->f1, ""); /* its certificate is good for a day */
	unit_clock_advance(17 * HOUR_S * USEC_PER_SEC);
	assert_false(fencers_warning(w->f->server->fencers, warning));
	unit_clock_advance(2 * HOUR_S * USEC_PER_SEC);
	assert_true(fencers_warning(w->f->server->fencers, warning));
	assert_non_null(strstr(warning, "the certificate of fencer f1 expires at "));
	run_for(w->f->event, 12000); /* two looks */
	assert_non_null(w->f1.stream);
	unit_clock_advance(6 * HOUR_S * USEC_PER_SEC);
	UNTIL(w->f, !w->f1.stream);
	assert_int_equal(w->f1.closed_status, STATUS_UNAUTHENTICATED);
	fake_fencer_dial(&w->f1);
	run_idle(w->f->event); /* at once: no look is due */
	assert_null(w->f1.stream);
	assert_int_equal(w->f1.closed_status, STATUS_UNAUTHENTICATED);
}

WORLD_TEST(a_revoked_fencer_has_no_session_and_gets_no_order)
{
	struct error err;

	fake_fencer_connect(&w->f1, "");
	operator_does(w->f, "Operator.RevokeCertificate",
		      "{\"identity\": \"fencer/f1\", \"reason\": \"stolen\"}");
	UNTIL(w->f, !w->f1.stream);
	assert_int_equal(w->f1.closed_status, STATUS_UNAUTHENTICATED);
	fake_fencer_dial(&w->f1);
	UNTIL(w->f, !w->f1.stream);
	assert_int_equal(w->f1.closed_status, STATUS_UNAUTHENTICATED);
	assert_int_equal(fencers_count(w->f->server->fencers).connected, 0);
	assert_int_equal(fence(w->f, true, "it is stolen", &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(w->f1.n, 0);
}

WORLD_TEST(a_fencer_that_lacks_the_clusters_key_is_an_alarm_and_asked_last)
{
	char warning[FENCERS_WARNING_SIZE];
	uint8_t key[TICKET_KEY_SIZE];

	ticket_issuer_public_key(w->f->server->issuer, key);
	bind(w, "f1", "n1");
	bind(w, "f2", "n1");
	w->f2.keys = (const char *)key;
	w->f1.keys = "none";
	fake_fencer_connect(&w->f2, "");
	fake_fencer_connect(&w->f1, "");
	assert_true(fencers_warning(w->f->server->fencers, warning));
	assert_non_null(strstr(warning, "fencer f1 refuses every order"));
	lose(w->f, &w->f->n1);
	must_fence(w->f, false);
	UNTIL(w->f, w->f2.n == 1);
	assert_int_equal(w->f1.n, 0);
}

WORLD_TEST(a_node_that_is_purged_takes_its_fence_with_it)
{
	fake_fencer_prove(&w->f1, strand(w));
	wait_for(w->f, FENCE_RECORDED);
	assert_int_equal(purge(w->f, "n1", NULL), STATUS_OK);
	assert_null(fence_of(w->f));
}

WORLD_TEST(a_fence_that_is_not_proved_is_an_alarm_until_it_is)
{
	struct fixture *f = w->f;
	Holdfast__V1__FenceAnswer answer = fake_fencer_proof();

	answer.status = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_ON;
	(void)strand(w);
	assert_int_equal(metric_of(f, "fences_open"), 1);
	fake_fencer_answer(&w->f1, &w->f1.orders[0], &answer);
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(metric_of(f, "fences_open"), 0);
	assert_int_equal(metric_of(f, "fences_unproved"), 1);
	assert_int_equal(n_events(f, "node n1", "Fences.Step", "failed"), 1);
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 2);
	fake_fencer_prove(&w->f1, &w->f1.orders[1]);
	wait_for(w->f, FENCE_RECORDED);
	assert_int_equal(metric_of(f, "fences_unproved"), 0);
}

WORLD_TEST(a_refusal_names_the_fence_once_a_fencer_can_switch_the_node)
{
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = "db", .why = true);

	lose(w->f, &w->f->n1);
	for (int i = 0; i < 2; i++) {
		cleanup_pb ProtobufCMessage *response = NULL;
		const char *why;

		assert_ok(call(&w->f->operator, & holdfast__v1__volumes__descriptor, "Get", &request.base,
			       &response, NULL));
		why = ((Holdfast__V1__GetVolumeResponse *)(void *)response)->why;
		assert_int_equal(strstr(why, "holdfast node fence n1 --reason REASON") != NULL, i == 1);
		if (i == 0)
			fake_fencer_connect(&w->f1, "");
	}
}

/* --- by the server itself --- */

enum { AFTER_MS = 20000 };

static void want_fence(struct fixture *f)
{
	Holdfast__V1__OnNodeLoss loss =
		V1(on_node_loss, .after_ms = AFTER_MS,
		   .do_ = HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_POWER_FENCE);
	Holdfast__V1__VolumeDetail detail = V1(volume_detail, .on_node_loss = &loss);
	cleanup(change_release) struct change change = CHANGE_INIT;

	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	run_idle(f->event);
}

static void set_automatic(struct fixture *f, bool off)
{
	Holdfast__V1__SetAutomaticRequest request =
		V1(set_automatic_request, .off = off, .reason = "maintenance");

	assert_int_equal(call(&f->operator, FENCES, "SetAutomatic", &request.base, NULL, NULL), STATUS_OK);
}

/* The verdict about n1, in a text that is good until the next call; "": it is not lost. */
static const char *plan_of(struct fixture *f)
{
	static char text[128];
	Holdfast__V1__PlanFencesRequest request = HOLDFAST__V1__PLAN_FENCES_REQUEST__INIT;
	cleanup_pb ProtobufCMessage *response = NULL;
	const Holdfast__V1__PlanFencesResponse *plan;

	assert_int_equal(call(&f->operator, FENCES, "Plan", &request.base, &response, NULL), STATUS_OK);
	plan = (const void *)response;
	str_copy_text(text, sizeof(text), plan->n_plans > 0 ? plan->plans[0]->verdict : "");
	return text;
}

WORLD_TEST(a_lost_node_is_fenced_by_the_server_after_the_volumes_time)
{
	w->f->server->config.heartbeat_us = USEC_PER_SEC;
	w->f->server->config.fence_max_per_minute = 3;
	want_fence(w->f);
	fake_fencer_connect(&w->f1, "");
	lead_long(w->f);
	fake_fencer_connect(&w->f1, ""); /* it sends no heartbeats */
	assert_string_equal(plan_of(w->f), "");
	lose(w->f, &w->f->n1);
	assert_string_equal(plan_of(w->f), "it is away for less than the volume's after");
	run_for(w->f->event, AFTER_MS / 2);
	assert_null(fence_of(w->f));
	fake_fencer_connect(&w->f1, "");
	run_for(w->f->event, AFTER_MS / 2 - 1000);
	fake_fencer_connect(&w->f1, "");
	UNTIL(w->f, w->f1.n == 1);
	assert_true(fence_of(w->f)->automatic);
	assert_string_equal(fence_of(w->f)->by, "server");
	assert_non_null(strstr(fence_of(w->f)->reason, "on_node_loss of volume default/db"));
	run_for(w->f->event, LOSS_RETRY_MS);
	fake_fencer_connect(&w->f1, "");
	run_for(w->f->event, 2 * LOSS_LOOK_MS);
	assert_string_equal(plan_of(w->f), "it is being fenced");
	UNTIL(w->f, w->f1.n == 2); /* the same order */
	assert_memory_equal(&w->f1.orders[1], &w->f1.orders[0], sizeof(w->f1.orders[0]));
	fake_fencer_prove(&w->f1, &w->f1.orders[0]);
	wait_for(w->f, FENCE_RECORDED);
	assert_int_equal(claim_of(w->f, ALLOC_1).evidence, EVIDENCE_POWER_FENCE);
	assert_string_equal(plan_of(w->f), "");
}

#define MACHINE_1 "11111111111111111111111111111111"
#define MACHINE_2 "22222222222222222222222222222222"

static void hello_in(struct world *w, const char *machine, const char *boot_id)
{
	if (w->f->n1.stream)
		lose(w->f, &w->f->n1);
	w->f->n1.machine = machine;
	fake_node_connect(&w->f->n1, "n1", boot_id, NULL, 0);
	run_idle(w->f->event);
}

static void hello_as(struct world *w, const char *machine)
{
	hello_in(w, machine, BOOT_1);
}

/* The switch may be that of the new machine, which has not connected yet. */
WORLD_TEST(the_switch_of_a_nodes_new_machine_frees_nothing_of_the_first_one)
{
	struct error err;

	want_fence(w->f);
	hello_as(w, MACHINE_1);
	hello_as(w, MACHINE_2); /* it is refused */
	assert_string_not_equal(plan_of(w->f), "");
	assert_succeeds(identify(w->f, "n1", MACHINE_2, &err), err);
	assert_string_equal(plan_of(w->f), "");
	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
	fake_fencer_prove(&w->f1, &w->f1.orders[0]);
	wait_for(w->f, FENCE_RECORDED);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(fence_of(w->f)->freed, 0);
}

/* n1 becomes @machine, which is refused first. */
static void identify_as(struct world *w, const char *machine, const char *boot_id)
{
	struct error err;

	hello_in(w, machine, boot_id);
	assert_succeeds(identify(w->f, "n1", machine, &err), err);
}

/* The fencer's file has the switch of the machine that was the node for a while. */
WORLD_TEST(the_switch_of_a_machine_that_is_the_node_no_more_frees_nothing_of_the_first_one)
{
	static const bool answers_first[] = {false, true};

	hello_as(w, MACHINE_1);
	fake_fencer_connect(&w->f1, "");
	for (size_t i = 0; i < ARRAY_SIZE(answers_first); i++) {
		Holdfast__V1__FenceAnswer unsure = V1(fence_answer, .unsure = true);

		identify_as(w, MACHINE_2, BOOT_2);
		must_fence(w->f, false);
		UNTIL(w->f, w->f1.n == i + 1);
		if (answers_first[i]) {
			fake_fencer_answer(&w->f1, &w->f1.orders[i], &unsure);
			wait_for(w->f, FENCE_UNKNOWN);
		}
		identify_as(w, MACHINE_1, BOOT_1);
		fake_fencer_prove(&w->f1, &w->f1.orders[i]);
		wait_for(w->f, FENCE_OVERTAKEN);
		assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
	}
}

/* The machine that was the node for a while has connected: the last boot of the node is its boot. */
static void take_back(struct world *w)
{
	hello_as(w, MACHINE_1);
	identify_as(w, MACHINE_2, BOOT_2);
	hello_in(w, MACHINE_2, BOOT_2);
	assert_string_equal(state_node(&w->f->server->state, "n1")->node.boot_id, BOOT_2);
	identify_as(w, MACHINE_1, BOOT_1);
	run_idle(w->f->event);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_UNPUBLISHING); /* its work is over */
}

WORLD_TEST(a_fence_after_an_identify_that_was_taken_back_is_of_the_first_machines_boot)
{
	want_fence(w->f);
	take_back(w);
	assert_string_not_equal(plan_of(w->f), ""); /* also the server fences it by itself */
	fake_fencer_connect(&w->f1, "");
	assert_non_null(strstr(why(w->f), "holdfast node fence n1"));
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
	assert_string_equal(fence_of(w->f)->boot_id, BOOT_1);
	unit_clock_advance(10 * USEC_PER_MSEC);
	fake_fencer_prove(&w->f1, &w->f1.orders[0]);
	wait_for(w->f, FENCE_RECORDED);
	assert_int_equal(claim_of(w->f, ALLOC_1).evidence, EVIDENCE_POWER_FENCE);
}

/* It must be rebooted before it connects, and writes until then. */
WORLD_TEST(a_machine_that_is_refused_after_its_proof_keeps_its_claims)
{
	Holdfast__V1__FenceAnswer answer;

	take_back(w);
	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
	answer = fake_fencer_proof();
	unit_clock_advance(10 * USEC_PER_MSEC);
	hello_as(w, MACHINE_1);
	assert_null(w->f->n1.stream);
	unit_clock_advance(10 * USEC_PER_MSEC);
	fake_fencer_answer(&w->f1, &w->f1.orders[0], &answer);
	wait_for(w->f, FENCE_FAILED);
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_UNPUBLISHING);
}

/* The allocation that holds db wants this, as it was submitted. */
static void hold_with(struct fixture *f, Holdfast__V1__OnNodeLoss *loss)
{
	Holdfast__V1__AllocationOptions options = V1(allocation_options, .on_node_loss = loss);

	put(f, PREFIX_ALLOC_OPTIONS ALLOC_1, &options.base);
}

WORLD_TEST(the_block_of_an_allocation_overrides_that_of_the_volume)
{
	Holdfast__V1__OnNodeLoss loss = HOLDFAST__V1__ON_NODE_LOSS__INIT;

	hold_with(w->f, &loss); /* wait */
	want_fence(w->f);
	lose(w->f, &w->f->n1);
	run_for(w->f->event, LOSS_LOOK_MS);
	assert_string_equal(policy_of(w->f), "");
	loss.after_ms = AFTER_MS;
	loss.do_ = HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_POWER_FENCE;
	hold_with(w->f, &loss);
	want_fence(w->f);
	assert_string_equal(policy_of(w->f), "allocation " ALLOC_1);
}

WORLD_TEST(a_node_that_is_heard_after_its_fence_is_recorded_is_not_fenced_by_the_server_again)
{
	w->f->server->config.fence_max_per_minute = 3;
	w->f->server->config.heartbeat_us = USEC_PER_SEC;
	want_fence(w->f);
	fake_fencer_prove(&w->f1, strand(w));
	wait_for(w->f, FENCE_RECORDED);
	unit_clock_advance(10 * USEC_PER_MSEC);
	fake_node_connect(&w->f->n1, "n1", BOOT_1, NULL, 0); /* the switch was another machine's */
	assert_int_equal(run_alloc(w->f, ALLOC_2, "n1", NULL), STATUS_OK);
	claim_db(&w->f->n1);
	lose(w->f, &w->f->n1);
	lead_long(w->f);
	run_for(w->f->event, LOSS_RETRY_MS);
	fake_fencer_connect(&w->f1, "");
	run_for(w->f->event, 2 * LOSS_LOOK_MS);
	assert_string_equal(plan_of(w->f), "it was heard after it was proved off: look at its switch");
	assert_int_equal(w->f1.n, 1);
}

WORLD_TEST(a_node_that_was_connected_after_its_fence_is_not_fenced_by_the_next_leader)
{
	want_fence(w->f);
	fake_fencer_prove(&w->f1, strand(w));
	wait_for(w->f, FENCE_RECORDED);
	unit_clock_step(-200000);
	fake_node_connect(&w->f->n1, "n1", BOOT_1, NULL, 0); /* the switch was another machine's */
	assert_int_equal(run_alloc(w->f, ALLOC_2, "n1", NULL), STATUS_OK);
	claim_db(&w->f->n1);
	start_again(w);
	assert_string_equal(plan_of(w->f), "it is away for less than the volume's after");
	lead_long(w->f);
	assert_string_equal(plan_of(w->f), "it was heard after it was proved off: look at its switch");
}

/* The former server may have heard n1 after the proof, and nobody knows that it has. */
static void doubt_proof(struct world *w)
{
	const Holdfast__V1__FenceAnswer answer = fake_fencer_proof();

	want_fence(w->f);
	miss_for_two_leads(w);
	unit_clock_advance(USEC_PER_SEC);
	answer_the_next_lead(w, answer, 500);
	wait_for(w->f, FENCE_FAILED);
	assert_non_null(strstr(fence_of(w->f)->error, "may have heard"));
	w->f->server->config.fence_max_per_minute = 3;
	w->f->server->config.heartbeat_us = USEC_PER_SEC;
	fake_node_connect(&w->f->n2, "n2", BOOT_1, NULL, 0);
}

WORLD_TEST(a_node_that_a_former_server_may_have_heard_is_fenced_by_the_server_again)
{
	doubt_proof(w);
	disconnect_fencer(w, &w->f1);
	lead_long(w->f);
	run_for(w->f->event, LOSS_RETRY_MS);
	fake_node_connect(&w->f->n2, "n2", BOOT_1, NULL, 0);
	fake_fencer_connect(&w->f1, "");
	UNTIL(w->f, w->f1.n == 3);
	unit_clock_advance(USEC_PER_SEC);
	fake_fencer_prove(&w->f1, &w->f1.orders[2]);
	wait_for(w->f, FENCE_RECORDED);
	assert_int_equal(claim_of(w->f, ALLOC_1).evidence, EVIDENCE_POWER_FENCE);
}

WORLD_TEST(a_node_that_is_back_after_a_proof_in_doubt_is_not_fenced_by_the_server_again)
{
	doubt_proof(w);
	fake_node_connect(&w->f->n1, "n1", BOOT_1, NULL, 0); /* the switch was another machine's */
	run_idle(w->f->event);
	start_again(w);
	lead_long(w->f);
	assert_string_equal(plan_of(w->f), "it was heard after it was proved off: look at its switch");
}

/* The answer is no proof, and says nothing of the switch. */
WORLD_TEST(a_node_whose_fence_has_times_that_do_not_fit_is_fenced_by_the_server_again)
{
	Holdfast__V1__FenceAnswer answer;

	w->f->server->config.fence_max_per_minute = 3;
	w->f->server->config.heartbeat_us = USEC_PER_SEC;
	want_fence(w->f);
	(void)strand(w);
	answer = fake_fencer_proof();
	answer.off_ms = answer.status_ms -= 3600000;
	fake_fencer_answer(&w->f1, &w->f1.orders[0], &answer);
	wait_for(w->f, FENCE_FAILED);
	lead_long(w->f);
	run_for(w->f->event, LOSS_RETRY_MS);
	fake_fencer_connect(&w->f1, "");
	UNTIL(w->f, w->f1.n == 2);
}

WORLD_TEST(a_person_stops_fences_that_the_server_begins_by_itself)
{
	w->f->server->config.fence_max_per_minute = 3;
	w->f->server->config.heartbeat_us = USEC_PER_SEC;
	want_fence(w->f);
	set_automatic(w->f, true);
	lose(w->f, &w->f->n1);
	lead_long(w->f);
	run_for(w->f->event, AFTER_MS);
	fake_fencer_connect(&w->f1, "");
	run_for(w->f->event, 2 * LOSS_LOOK_MS);
	assert_string_equal(plan_of(w->f), "automatic fencing is off");
	assert_null(fence_of(w->f));
	set_automatic(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
}

WORLD_TEST(no_lost_node_is_fenced_while_fewer_than_half_are_connected)
{
	w->f->server->config.fence_max_per_minute = 3;
	w->f->server->config.heartbeat_us = USEC_PER_SEC;
	want_fence(w->f);
	lose(w->f, &w->f->n1);
	lose(w->f, &w->f->n2);
	lead_long(w->f);
	run_for(w->f->event, AFTER_MS);
	fake_fencer_connect(&w->f1, "");
	run_for(w->f->event, 2 * LOSS_LOOK_MS);
	assert_string_equal(plan_of(w->f), "fewer than half of the nodes are connected");
	assert_null(fence_of(w->f));
	fake_node_connect(&w->f->n2, "n2", BOOT_1, NULL, 0);
	UNTIL(w->f, w->f1.n == 1);
}

/* The server ends the session of a node whose certificate expires. That says nothing of the machine. */
WORLD_TEST(no_node_is_fenced_because_its_certificate_has_expired)
{
	struct node_entry *n1 = state_node(&w->f->server->state, "n1");

	want_fence(w->f);
	w->f->server->config.fence_max_per_minute = 3;
	w->f->server->config.heartbeat_us = USEC_PER_SEC;
	n1->certificate_expires_ms = clock_realtime_ms();
	lose(w->f, &w->f->n1);
	lead_long(w->f);
	run_for(w->f->event, AFTER_MS);
	fake_fencer_connect(&w->f1, "");
	run_for(w->f->event, 2 * LOSS_LOOK_MS);
	assert_non_null(strstr(plan_of(w->f), "its certificate has expired"));
	assert_null(fence_of(w->f));
	n1->certificate_expires_ms = clock_realtime_ms(); /* it was good when the session ended */
	UNTIL(w->f, w->f1.n == 1);
}

static void fence_after_a_step(struct world *w, int64_t step_ms)
{
	struct node_entry *n1 = state_node(&w->f->server->state, "n1");

	w->f->server->config.fence_max_per_minute = 3;
	w->f->server->config.heartbeat_us = USEC_PER_SEC;
	want_fence(w->f);
	lead_long(w->f);
	lose(w->f, &w->f->n1);
	n1->node.disconnected_ms -= step_ms;
	n1->node.last_seen_ms -= step_ms;
	run_for(w->f->event, 2 * LOSS_LOOK_MS);
	assert_string_equal(plan_of(w->f), "it is away for less than the volume's after");
	run_for(w->f->event, AFTER_MS);
	fake_fencer_connect(&w->f1, "");
	UNTIL(w->f, w->f1.n == 1);
	fake_fencer_prove(&w->f1, &w->f1.orders[0]);
	UNTIL(w->f, state_of(w->f, ALLOC_1) == CLAIM_FREED);
}

WORLD_TEST(a_step_of_the_clock_fences_no_node)
{
	fence_after_a_step(w, 10 * AFTER_MS);
}

WORLD_TEST(a_clock_that_is_set_back_delays_no_fence)
{
	fence_after_a_step(w, -3600000);
}

/* Its clock was ahead then, and n1 was connected to it. */
WORLD_TEST(a_start_of_a_time_to_come_refutes_no_proof)
{
	start_again(w);
	w->f->server->started_ms += 3600000;
	w->f->server->config.heartbeat_us = USEC_PER_SEC;
	lead_long(w->f);
	assert_int_equal(state_node(&w->f->server->state, "n1")->node.disconnected_ms, 0);
	fake_fencer_connect(&w->f1, "");
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
	fake_fencer_prove(&w->f1, &w->f1.orders[0]);
	UNTIL(w->f, state_of(w->f, ALLOC_1) == CLAIM_FREED);
}

WORLD_TEST(a_node_that_was_connected_until_the_server_began_is_not_switched_off)
{
	struct error err;

	start_again(w);
	fake_fencer_connect(&w->f1, "");
	assert_error(fence(w->f, false, "it burnt", &err), STATUS_FAILED_PRECONDITION, err, "may come back");
	assert_int_equal(w->f1.n, 0);
	disconnect_fencer(w, &w->f1);
	fake_node_connect(&w->f->n1, "n1", BOOT_1, NULL, 0);
	fake_fencer_prove(&w->f1, strand(w)); /* it was back, and is away */
	wait_for(w->f, FENCE_RECORDED);
}

WORLD_TEST(a_server_that_has_just_begun_fences_nothing_by_itself)
{
	want_fence(w->f);
	lose(w->f, &w->f->n1);
	run_for(w->f->event, AFTER_MS + 1000);
	w->f->server->config.fence_max_per_minute = 3;
	fake_fencer_connect(&w->f1, "");
	run_for(w->f->event, 2 * LOSS_LOOK_MS);
	assert_string_equal(plan_of(w->f), "the server leads for too short a time");
	assert_null(fence_of(w->f));
}

/* --- attacks --- */

WORLD_TEST(a_proof_of_another_fencer_or_of_another_order_frees_nothing)
{
	const struct fence_order *order = strand(w);
	struct fence_order guessed = *order;

	fake_fencer_connect(&w->f2, "");
	fake_fencer_prove(&w->f2, order); /* it is not its order */
	guessed.nonce[0] ^= 1;
	fake_fencer_prove(&w->f1, &guessed);
	settle(w->f);
	assert_true(is_in(w->f, FENCE_SENT));
	assert_int_equal(state_of(w->f, ALLOC_1), CLAIM_TAKEN);
}

WORLD_TEST(only_a_fencers_certificate_opens_a_session)
{
	static const char *const others[] = {"holdfast://c1/node/n1", "holdfast://c1/operator/ann",
					     "holdfast://c1/server/s1", "holdfast://c2/fencer/f1",
					     "holdfast://c1/fencers/f1"};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct fake_fencer thief = {.n = 0};

		caller_init(&thief.caller, w->f, others[i], NULL);
		fake_fencer_dial(&thief);
		fake_fencer_hello(&thief, "");
		UNTIL(w->f, !thief.stream || thief.is_welcome);
		assert_false(thief.is_welcome);
		assert_true(thief.closed_status == STATUS_PERMISSION_DENIED ||
			    thief.closed_status == STATUS_UNAUTHENTICATED);
		caller_release(&thief.caller);
	}
}

WORLD_TEST(nodes_and_fencers_cause_no_fence)
{
	static const char *const others[] = {"holdfast://c1/node/n1", "holdfast://c1/node/n2",
					     "holdfast://c1/fencer/f1", "holdfast://c1/server/s1",
					     "holdfast://c2/operator/ann"};

	lose(w->f, &w->f->n1);
	fake_fencer_connect(&w->f1, "");
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		cleanup(caller_release) struct caller_client thief;
		struct error err;

		caller_init(&thief, w->f, others[i], NULL);
		assert_int_not_equal(caller_call(&thief, "Fences.Fence",
						 "{\"id\": \"n1\", \"reason\": \"r\", \"alive\": true}", NULL,
						 &err),
				     STATUS_OK);
		assert_int_not_equal(caller_call(&thief, "Fences.Test", "{\"id\": \"n1\"}", NULL, &err),
				     STATUS_OK);
	}
	assert_null(fence_of(w->f));
	assert_int_equal(w->f1.n, 0);
}

/* --- tests of a switch --- */

struct tested {
	bool is_done;
	enum status status;
	Holdfast__V1__FenceOutcome monitor, seen;
};

static void on_tested(enum status status, const ProtobufCMessage *response, const struct error *err,
		      void *userdata)
{
	const Holdfast__V1__TestFenceResponse *answer = (const void *)response;
	struct tested *tested = userdata;

	tested->is_done = true;
	tested->status = status;
	if (answer) {
		assert_string_equal(answer->fencer, "f1");
		assert_string_equal(answer->error, "?[2Jfirst second ??? third, next: x");
		tested->monitor = answer->monitor;
		tested->seen = answer->status;
	}
}

WORLD_TEST(a_test_looks_at_the_switch_of_a_node_and_changes_nothing)
{
	struct tested tested = {.is_done = false};
	Holdfast__V1__FenceAnswer answer =
		V1(fence_answer, .error = "\033[2Jfirst\nsecond \xe2\x80\xae third; Next: x",
		   .monitor = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_DONE,
		   .status = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_ON);
	Holdfast__V1__TestFenceRequest request = V1(test_fence_request, .id = "n1");

	fake_fencer_connect(&w->f1, "");
	assert_ok(rpc_client_call(w->f->operator.client, FENCES, "Test", &request.base, TIMEOUT_US, on_tested,
				  &tested, NULL, NULL));
	UNTIL(w->f, w->f1.n == 1);
	assert_int_equal(w->f1.orders[0].action, FENCE_ORDER_TEST);
	fake_fencer_answer(&w->f1, &w->f1.orders[0], &answer);
	UNTIL(w->f, tested.is_done);
	assert_int_equal(tested.status, STATUS_OK);
	assert_int_equal(tested.monitor, HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_DONE);
	assert_int_equal(tested.seen, HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_ON);
	assert_null(fence_of(w->f));
}

WORLD_TEST(a_test_ends_with_the_session_of_its_fencer)
{
	struct tested tested = {.is_done = false};
	Holdfast__V1__TestFenceRequest request = V1(test_fence_request, .id = "n1");

	fake_fencer_connect(&w->f1, "");
	assert_ok(rpc_client_call(w->f->operator.client, FENCES, "Test", &request.base,
				  FENCE_TEST_MAX_MS * USEC_PER_MSEC, on_tested, &tested, NULL, NULL));
	UNTIL(w->f, w->f1.n == 1);
	disconnect_fencer(w, &w->f1);
	run_idle(w->f->event);
	assert_true(tested.is_done);
	assert_int_equal(tested.status, STATUS_DEADLINE_EXCEEDED);
}

/* --- a thief of f1's certificate: w->f2 dials with it --- */

static void steal_certificate(struct world *w)
{
	caller_release(&w->f2.caller);
	caller_init(&w->f2.caller, w->f, "holdfast://c1/fencer/f1", NULL);
}

WORLD_TEST(a_stream_without_a_hello_replaces_no_session_of_its_fencer)
{
	struct fake_fencer third = {.n = 0};

	fake_fencer_connect(&w->f1, "");
	steal_certificate(w);
	fake_fencer_dial(&w->f2);
	run_idle(w->f->event);
	assert_non_null(w->f1.stream);
	assert_int_equal(fencers_count(w->f->server->fencers).connected, 1);
	caller_init(&third.caller, w->f, "holdfast://c1/fencer/f1", NULL);
	fake_fencer_dial(&third); /* one of them waits for its hello */
	UNTIL(w->f, !w->f2.stream);
	assert_int_equal(w->f2.closed_status, STATUS_ABORTED);
	assert_non_null(third.stream);
	pass(w->f, 11000);
	assert_int_equal(third.closed_status, STATUS_DEADLINE_EXCEEDED);
	lose(w->f, &w->f->n1);
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
	assert_int_equal(n_events(w->f, "fencer f1", "Fences.Connect", ""), 1);
	caller_release(&third.caller);
}

WORLD_TEST(a_session_that_replaces_another_one_of_its_fencer_is_on_record)
{
	static const char replaces[] = "; it replaces the open session from 127.0.0.1:";

	fake_fencer_connect(&w->f1, "");
	assert_int_equal(n_events(w->f, "fencer f1", "Fences.Connect", "from 127.0.0.1:"), 1);
	assert_int_equal(n_events(w->f, "fencer f1", "Fences.Connect", "replaces"), 0);
	disconnect_fencer(w, &w->f1);
	fake_fencer_connect(&w->f1, "");
	assert_int_equal(n_events(w->f, "fencer f1", "Fences.Connect", "replaces"), 0);
	steal_certificate(w);
	fake_fencer_connect(&w->f2, "");
	UNTIL(w->f, !w->f1.stream);
	assert_int_equal(w->f1.closed_status, STATUS_ABORTED);
	assert_int_equal(n_events(w->f, "fencer f1", "Fences.Connect", replaces), 1);
	for (int i = 0; i < 10; i++) { /* they take turns */
		fake_fencer_connect(&w->f1, "");
		UNTIL(w->f, !w->f2.stream);
		fake_fencer_connect(&w->f2, "");
		UNTIL(w->f, !w->f1.stream);
	}
	assert_in_range(n_events(w->f, "fencer f1", "Fences.Connect", ""), 10, 12);
}

WORLD_TEST(a_fencer_whose_session_cannot_be_recorded_gets_orders)
{
	w->f->server->is_superseded = true; /* the store takes nothing */
	fake_fencer_connect(&w->f1, "");
	w->f->server->is_superseded = false;
	lose(w->f, &w->f->n1);
	must_fence(w->f, false);
	UNTIL(w->f, w->f1.n == 1);
}

WORLD_TEST(the_address_of_a_fencer_that_answers_is_on_record)
{
	(void)strand(w);
	fake_fencer_prove(&w->f1, &w->f1.orders[0]);
	wait_for(w->f, FENCE_RECORDED);
	assert_non_null(strstr(claim_of(w->f, ALLOC_1).evidence_detail, ", from 127.0.0.1:"));
	assert_int_equal(n_events(w->f, "node n1", "Fences.Step", "off, fencer f1 at 127.0.0.1:"), 1);
}

WORLD_TEST(a_test_ends_when_another_session_replaces_that_of_its_fencer)
{
	struct tested tested = {.is_done = false};
	Holdfast__V1__TestFenceRequest request = V1(test_fence_request, .id = "n1");

	fake_fencer_connect(&w->f1, "");
	steal_certificate(w);
	assert_ok(rpc_client_call(w->f->operator.client, FENCES, "Test", &request.base,
				  FENCE_TEST_MAX_MS * USEC_PER_MSEC, on_tested, &tested, NULL, NULL));
	UNTIL(w->f, w->f1.n == 1);
	fake_fencer_connect(&w->f2, "");
	run_idle(w->f->event);
	assert_true(tested.is_done);
	assert_int_equal(tested.status, STATUS_DEADLINE_EXCEEDED);
}

WORLD_TEST(a_fencer_whose_errors_change_is_logged_so_often_only)
{
	char text[32], warning[FENCERS_WARNING_SIZE];
	Holdfast__V1__FencerNode node = V1(fencer_node, .id = "n1", .agent = "fence_dummy", .error = text);
	Holdfast__V1__FencerUp up =
		V1(fencer_up, .message_case = HOLDFAST__V1__FENCER_UP__MESSAGE_NODE, .node = &node);
	static struct lines lines;

	fake_fencer_connect(&w->f1, "");
	run_idle(w->f->event);
	lines_begin(&lines);
	for (int i = 0; i < 90; i++) {
		(void)str_format(text, sizeof(text), "error %d", i);
		assert_int_equal(rpc_stream_send(w->f1.stream, &up.base, NULL), STATUS_OK);
	}
	UNTIL(w->f, fencers_warning(w->f->server->fencers, warning) && strstr(warning, "error 89"));
	lines_end(&lines);
	assert_in_range(lines_with(&lines, "cannot look at the power switch"), 20, 60);
}
