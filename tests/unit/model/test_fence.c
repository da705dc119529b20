/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for the steps of a fence. Each step is in tests/golden/steps.txt. */

#include "fixture.h"

#include "model/fence.h"

#define ANSWER(...) \
	(&(const struct fence_answer){.created_ms = CREATED_AT, .answered_ms = ANSWERED_AT, __VA_ARGS__})

enum { CREATED_AT = 500, OFF_AT = 1000, STATUS_AT = 2000, ANSWERED_AT = 2500, ROUNDS = 100000 };

TEST(off_is_proved_by_a_second_action_only)
{
	for (unsigned int off = 0; off < FENCE_OUTCOME_N; off++)
		for (unsigned int status = 0; status < FENCE_OUTCOME_N; status++) {
			enum fence_event event = fence_judge(
				ANSWER(.off = (enum fence_outcome)off, .status = (enum fence_outcome)status,
				       .off_ms = OFF_AT, .status_ms = STATUS_AT));
			bool is_proved = off == FENCE_OUTCOME_DONE && status == FENCE_OUTCOME_IS_OFF;

			assert_int_equal(event, is_proved ? FENCE_EVENT_PROVED : FENCE_EVENT_FAILED);
		}
}

TEST(a_status_from_before_the_power_off_proves_nothing)
{
	assert_int_equal(fence_judge(ANSWER(.off = FENCE_OUTCOME_DONE, .status = FENCE_OUTCOME_IS_OFF,
					    .off_ms = STATUS_AT, .status_ms = OFF_AT)),
			 FENCE_EVENT_FAILED);
	assert_int_equal(fence_judge(ANSWER(.off = FENCE_OUTCOME_DONE, .status = FENCE_OUTCOME_IS_OFF)),
			 FENCE_EVENT_FAILED);
}

TEST(a_proof_is_from_between_the_fence_and_its_answer)
{
	const int64_t now = INT64_C(1800000000000), early = now - FENCE_CLOCK_SKEW_MS,
		      late = now + 1000 + FENCE_CLOCK_SKEW_MS;
	const struct {
		int64_t off_ms, status_ms;
		bool is_proved;
	} cases[] = {
		{now, now + 1000, true}, {early, early, true},		{late, late, true},
		{early - 1, now, false}, {now, late + 1, false},	{1, 1, false},
		{1, INT64_MAX, false},	 {INT64_MAX, INT64_MAX, false}, {INT64_MIN, INT64_MIN, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(fence_judge(&(const struct fence_answer){.off = FENCE_OUTCOME_DONE,
									  .status = FENCE_OUTCOME_IS_OFF,
									  .off_ms = cases[i].off_ms,
									  .status_ms = cases[i].status_ms,
									  .created_ms = now,
									  .answered_ms = now + 1000}),
				 cases[i].is_proved ? FENCE_EVENT_PROVED : FENCE_EVENT_FAILED);
}

TEST(an_answer_that_contradicts_itself_is_a_failure)
{
	assert_int_equal(fence_judge(ANSWER(.was_refused = true)), FENCE_EVENT_REFUSED);
	assert_int_equal(fence_judge(ANSWER(.is_unsure = true)), FENCE_EVENT_UNSURE);
	assert_int_equal(fence_judge(ANSWER(.is_unsure = true, .was_refused = true)), FENCE_EVENT_FAILED);
	assert_int_equal(fence_judge(ANSWER(.was_refused = true, .off = FENCE_OUTCOME_DONE)),
			 FENCE_EVENT_FAILED);
	assert_int_equal(
		fence_judge(ANSWER(.is_unsure = true, .off = FENCE_OUTCOME_DONE,
				   .status = FENCE_OUTCOME_IS_OFF, .off_ms = OFF_AT, .status_ms = STATUS_AT)),
		FENCE_EVENT_UNSURE);
}

/* 100 000 random events: claims are freed only after a proof that followed an order, and after a fence has
 * ended without a proof nothing but a late proof or a new boot changes it. */
TEST(claims_are_recorded_only_after_an_order_and_its_proof)
{
	enum fence_state now = FENCE_ASKED;
	bool was_sent = false, was_proved = false, was_heard = false;
	uint64_t seed = 45;

	for (int i = 0; i < ROUNDS; i++) {
		enum fence_event event;
		enum fence_state next = FENCE_STATE_N;

		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		event = (enum fence_event)((seed >> 33) % FENCE_EVENT_N);
		if (!fence_step(now, event, &next)) {
			assert_int_equal(next, FENCE_STATE_N);
			continue;
		}
		was_sent |= event == FENCE_EVENT_SENT && next == FENCE_SENT;
		was_proved |= event == FENCE_EVENT_PROVED && next == FENCE_OFF;
		was_heard |= event == FENCE_EVENT_HEARD && now == FENCE_OFF;
		if (next == FENCE_OFF || next == FENCE_RECORDED)
			assert_true(was_sent && was_proved && !was_heard);
		if (event == FENCE_EVENT_EXPIRED) /* time is no evidence */
			assert_true(next == now || next == FENCE_REFUSED || next == FENCE_UNKNOWN);
		now = next;
		if (!fence_is_open(now) && (now != FENCE_UNKNOWN || i % 3 == 0)) {
			now = FENCE_ASKED; /* the next fence */
			was_sent = was_proved = was_heard = false;
		}
	}
}

TEST(a_node_in_another_boot_is_never_freed_by_a_late_proof)
{
	static const enum fence_event events[] = {FENCE_EVENT_REBOOTED, FENCE_EVENT_RETURNED,
						  FENCE_EVENT_LIFT};

	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		for (unsigned int from = 0; from < FENCE_STATE_N; from++) {
			enum fence_state now = (enum fence_state)from;

			assert_true(fence_step(now, events[i], &now));
			if (now == FENCE_RECORDED)
				continue; /* it was freed before */
			assert_false(fence_step(now, FENCE_EVENT_PROVED, &now) && now == FENCE_OFF);
			assert_false(fence_step(now, FENCE_EVENT_RECORDED, &now));
		}
}

/* It has touched nothing. */
TEST(a_refused_fence_is_over_when_the_node_is_back_or_a_person_lifts_it)
{
	static const enum fence_event events[] = {FENCE_EVENT_REBOOTED, FENCE_EVENT_RETURNED,
						  FENCE_EVENT_LIFT};

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		enum fence_state now = FENCE_REFUSED;

		assert_true(fence_step(now, events[i], &now));
		assert_int_equal(now, FENCE_OVERTAKEN);
	}
}

/* 100 000 random events: a fence that a storage may carry out is lifted only after the node's return, and by
 * an answer of its own. */
TEST(a_network_fence_is_in_force_until_the_node_has_returned)
{
	enum fence_state now = FENCE_ASKED;
	bool may_refuse = false, has_returned = false;
	uint64_t seed = 46;

	for (int i = 0; i < ROUNDS; i++) {
		enum fence_event event;

		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		event = (enum fence_event)((seed >> 33) % FENCE_EVENT_N);
		/* of power fences; and a refusal of one that has touched something is a failure */
		if (event == FENCE_EVENT_REBOOTED || event == FENCE_EVENT_REFUSED ||
		    !fence_step(now, event, &now))
			continue;
		may_refuse |= now == FENCE_SENT;
		has_returned |= event == FENCE_EVENT_RETURNED || event == FENCE_EVENT_LIFT;
		if (may_refuse && now != FENCE_LIFTED)
			assert_true(fence_is_in_force(now));
		if (now == FENCE_LIFTING || now == FENCE_LIFTED)
			assert_true(has_returned && may_refuse);
		if (now == FENCE_LIFTING)
			assert_true(fence_is_open(now)); /* it is tried again */
		if (now == FENCE_LIFTED || (!may_refuse && !fence_is_open(now))) {
			now = FENCE_ASKED;
			may_refuse = has_returned = false;
		}
	}
}

TEST(an_address_that_comes_after_the_proof_needs_a_proof_of_its_own)
{
	for (unsigned int from = 0; from < FENCE_STATE_N; from++) {
		bool is_proved = from == FENCE_OFF || from == FENCE_RECORDED;
		enum fence_state now = (enum fence_state)from;

		assert_true(fence_step(now, FENCE_EVENT_MORE, &now));
		assert_int_equal(now, is_proved ? FENCE_SENT : from);
		assert_false(is_proved && fence_step(now, FENCE_EVENT_RECORDED, &now));
	}
}

TEST(another_fencer_is_asked_only_while_the_first_one_has_the_order)
{
	for (unsigned int from = 0; from < FENCE_STATE_N; from++) {
		enum fence_state now = (enum fence_state)from;

		assert_int_equal(fence_step(now, FENCE_EVENT_NEXT, &now), from == FENCE_SENT);
		assert_int_equal(now, from);
	}
}

TEST(states_and_outcomes_have_names)
{
	assert_string_equal(fence_state_name(FENCE_RECORDED), "recorded");
	assert_string_equal(fence_state_name(FENCE_STATE_N), "invalid");
	assert_string_equal(fence_outcome_name(FENCE_OUTCOME_IS_OFF), "off");
	assert_string_equal(fence_outcome_name(FENCE_OUTCOME_N), "invalid");
}

/* --- by itself --- */

static struct fence_auto_facts due(void)
{
	return (struct fence_auto_facts){.has_fencer = true,
					 .away_ms = 30000,
					 .after_ms = 30000,
					 .led_ms = 60000,
					 .grace_ms = 60000,
					 .n_connected = 2,
					 .n_nodes = 4,
					 .since_last_ms = -1,
					 .retry_ms = 60000,
					 .max_per_minute = 3};
}

#define VERDICT(change, verdict)                               \
	do {                                                   \
		struct fence_auto_facts facts = due();         \
                                                               \
		facts.change;                                  \
		assert_int_equal(fence_auto(&facts), verdict); \
	} while (0)

TEST(each_limit_alone_keeps_the_server_from_fencing_by_itself)
{
	VERDICT(n_connected = 2, FENCE_AUTO_NOW);
	VERDICT(is_connected = true, FENCE_AUTO_CONNECTED);
	VERDICT(after_ms = -1, FENCE_AUTO_NOT_WANTED);
	VERDICT(away_ms = 29999, FENCE_AUTO_NOT_DUE);
	VERDICT(is_open = true, FENCE_AUTO_OPEN);
	VERDICT(was_contradicted = true, FENCE_AUTO_CONTRADICTED);
	VERDICT(is_switched_off = true, FENCE_AUTO_SWITCHED_OFF);
	VERDICT(led_ms = 59999, FENCE_AUTO_NEW_LEADER);
	VERDICT(has_expired = true, FENCE_AUTO_EXPIRED);
	VERDICT(n_nodes = 5, FENCE_AUTO_TOO_FEW);
	VERDICT(has_fencer = false, FENCE_AUTO_NO_FENCER);
	VERDICT(since_last_ms = 59999, FENCE_AUTO_RETRY_LATER);
	VERDICT(since_last_ms = 60000, FENCE_AUTO_NOW);
	VERDICT(n_last_minute = 3, FENCE_AUTO_RATE);
	VERDICT(max_per_minute = 0, FENCE_AUTO_RATE);
	for (unsigned int i = 0; i < FENCE_AUTO_N; i++)
		assert_string_not_equal(fence_auto_text((enum fence_verdict_auto)i), "invalid");
}
