/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "hold/classify.h"
#include "hold/hold.h"

enum { STEPS_MAX = 10 };

struct step {
	enum hold_event event;
	enum hold_action action;
};

/* A life, from where it begins to where it is after its steps. */
struct life {
	const char *what;
	enum hold_state begin;
	struct step steps[STEPS_MAX];
	int n_steps;
	enum hold_state end;
	enum hold_outcome outcome;
};

static const struct life lives[] = {
	ROW("a start, and a stop that waits for the claim", HOLD_SUBMITTING,
	    {{HOLD_PENDING, HOLD_WATCH},
	     {HOLD_PENDING, HOLD_WATCH},
	     {HOLD_RUNNING, HOLD_READY},
	     {HOLD_RUNNING, HOLD_WATCH},
	     {HOLD_SIGTERM, HOLD_RELEASE},
	     {HOLD_ENDING, HOLD_WATCH},
	     {HOLD_ENDING, HOLD_WATCH},
	     {HOLD_FREED, HOLD_FORGET}},
	    8, HOLD_ENDED, HOLD_DONE),
	ROW("a lost answer to Run: the same id is asked for again", HOLD_SUBMITTING,
	    {{HOLD_LOST, HOLD_RETRY}, {HOLD_RUNNING, HOLD_WATCH}, {HOLD_RUNNING, HOLD_READY}}, 3, HOLD_HELD,
	    HOLD_DONE),
	ROW("it waits for its turn without a deadline, and mounts", HOLD_SUBMITTING,
	    {{HOLD_QUEUED, HOLD_SUSPEND},
	     {HOLD_QUEUED, HOLD_WATCH},
	     {HOLD_LOST, HOLD_RETRY},
	     {HOLD_PENDING, HOLD_BEGIN},
	     {HOLD_RUNNING, HOLD_READY}},
	    5, HOLD_HELD, HOLD_DONE),
	ROW("a process that was killed while it waited keeps its turn", HOLD_LOOKING,
	    {{HOLD_QUEUED, HOLD_SUSPEND}, {HOLD_RUNNING, HOLD_READY}}, 2, HOLD_HELD, HOLD_DONE),
	ROW("a stop while it waits leaves the queue", HOLD_STANDBY,
	    {{HOLD_SIGTERM, HOLD_RELEASE}, {HOLD_ENDING, HOLD_WATCH}, {HOLD_FREED, HOLD_FORGET}}, 3,
	    HOLD_ENDED, HOLD_DONE),
	ROW("its time to wait is over", HOLD_STANDBY, {{HOLD_FREED, HOLD_FORGET}}, 1, HOLD_ENDED,
	    HOLD_NOT_AVAILABLE),
	ROW("the server lost it while it waited: it asks again", HOLD_STANDBY, {{HOLD_ABSENT, HOLD_ANEW}}, 1,
	    HOLD_SUBMITTING, HOLD_DONE),
	ROW("the server lost it while it was mounted: the next start looks whether it is", HOLD_WAITING,
	    {{HOLD_ABSENT, HOLD_LEAVE}}, 1, HOLD_ENDED, HOLD_FAILED),
	ROW("the server lost it before it was released: likewise", HOLD_RELEASING,
	    {{HOLD_ABSENT, HOLD_LEAVE}}, 1, HOLD_ENDED, HOLD_DONE),
	ROW("a process that was killed finds its allocation", HOLD_LOOKING,
	    {{HOLD_LOST, HOLD_RETRY}, {HOLD_RUNNING, HOLD_READY}}, 2, HOLD_HELD, HOLD_DONE),
	ROW("one that was killed before Run arrived runs the same id, not another one", HOLD_LOOKING,
	    {{HOLD_ABSENT, HOLD_ASK}, {HOLD_PENDING, HOLD_WATCH}}, 2, HOLD_WAITING, HOLD_DONE),
	ROW("one whose token may not see an id that nobody has asks for it all the same", HOLD_LOOKING,
	    {{HOLD_DENIED, HOLD_RETRY}, {HOLD_PENDING, HOLD_WATCH}}, 2, HOLD_WAITING, HOLD_DONE),
	ROW("after a boot the server still says RUNNING, and nothing is mounted", HOLD_LOOKING,
	    {{HOLD_UNMOUNTED, HOLD_WATCH},
	     {HOLD_ENDING, HOLD_WATCH},
	     {HOLD_FREED, HOLD_ANEW},
	     {HOLD_PENDING, HOLD_WATCH},
	     {HOLD_RUNNING, HOLD_READY}},
	    5, HOLD_HELD, HOLD_DONE),
	ROW("what an earlier stop could not end is ended before the next one begins", HOLD_CLEARING,
	    {{HOLD_LOST, HOLD_RETRY},
	     {HOLD_ENDING, HOLD_WATCH},
	     {HOLD_ENDING, HOLD_WATCH},
	     {HOLD_FREED, HOLD_ANEW},
	     {HOLD_PENDING, HOLD_WATCH}},
	    5, HOLD_WAITING, HOLD_DONE),
	ROW("the file was changed while an answer was lost: the old one ends first", HOLD_SUBMITTING,
	    {{HOLD_OTHER, HOLD_ASK}, {HOLD_ENDING, HOLD_WATCH}, {HOLD_FREED, HOLD_ANEW}}, 3, HOLD_SUBMITTING,
	    HOLD_DONE),
	ROW("another holder has the volume", HOLD_SUBMITTING, {{HOLD_REFUSED, HOLD_FORGET}}, 1, HOLD_ENDED,
	    HOLD_NOT_AVAILABLE),
	ROW("the volume does not exist", HOLD_SUBMITTING, {{HOLD_INVALID, HOLD_FORGET}}, 1, HOLD_ENDED,
	    HOLD_WRONG_SPEC),
	ROW("a token that may nothing; what an id of before stands for is not forgotten", HOLD_SUBMITTING,
	    {{HOLD_DENIED, HOLD_LEAVE}}, 1, HOLD_ENDED, HOLD_NOT_ALLOWED),
	ROW("not mounted in time: it is stopped, and the start has failed", HOLD_WAITING,
	    {{HOLD_DEADLINE, HOLD_RELEASE}, {HOLD_ENDING, HOLD_WATCH}, {HOLD_FREED, HOLD_FORGET}}, 3,
	    HOLD_ENDED, HOLD_TIMED_OUT),
	ROW("not even stopped in time", HOLD_WAITING,
	    {{HOLD_DEADLINE, HOLD_RELEASE}, {HOLD_LOST, HOLD_RETRY}, {HOLD_DEADLINE, HOLD_LEAVE}}, 3,
	    HOLD_ENDED, HOLD_TIMED_OUT),
	ROW("it fails on the node, which has to release it first", HOLD_WAITING,
	    {{HOLD_ENDING, HOLD_WATCH}, {HOLD_ENDING, HOLD_WATCH}, {HOLD_FREED, HOLD_FORGET}}, 3, HOLD_ENDED,
	    HOLD_FAILED),
	ROW("a token that may run but not look releases what it ran", HOLD_WAITING,
	    {{HOLD_DENIED, HOLD_RELEASE}, {HOLD_ENDING, HOLD_WATCH}, {HOLD_DENIED, HOLD_LEAVE}}, 3,
	    HOLD_ENDED, HOLD_NOT_ALLOWED),
	{"an operator stops it", HOLD_HELD, {{HOLD_ENDING, HOLD_LEAVE}}, 1, HOLD_ENDED, HOLD_TAKEN_AWAY},
	ROW("it is unmounted by hand", HOLD_HELD, {{HOLD_UNMOUNTED, HOLD_LEAVE}}, 1, HOLD_ENDED,
	    HOLD_TAKEN_AWAY),
	ROW("a stop without a server ends in time and says so", HOLD_HELD,
	    {{HOLD_SIGTERM, HOLD_RELEASE},
	     {HOLD_LOST, HOLD_RETRY},
	     {HOLD_SIGTERM, HOLD_NOTHING},
	     {HOLD_DEADLINE, HOLD_LEAVE}},
	    4, HOLD_ENDED, HOLD_TIMED_OUT),
};

TEST(it_lives_as_it_should)
{
	for (size_t i = 0; i < ARRAY_SIZE(lives); i++) {
		const struct life *life = &lives[i];
		struct hold hold = {.state = life->begin};

		for (int k = 0; k < life->n_steps; k++) {
			enum hold_action action = hold_step(&hold, life->steps[k].event);

			assert_msg(action == life->steps[k].action, "%s: step %d: action %d, not %d",
				   life->what, k, (int)action, (int)life->steps[k].action);
		}
		if (hold.state != life->end || hold.outcome != life->outcome)
			fail_msg("%s: %s with %d, not %s with %d", life->what, hold_state_name(hold.state),
				 (int)hold.outcome, hold_state_name(life->end), (int)life->outcome);
	}
}

/* One step from @state. */
static struct hold after(enum hold_state state, enum hold_event event, enum hold_action *ret_action)
{
	struct hold hold = {.state = state};

	*ret_action = hold_step(&hold, event);
	return hold;
}

TEST(held_facts_are_dropped_for_facts_only)
{
	for (int event = 0; event < HOLD_EVENT_N; event++) {
		bool is_fact = event == HOLD_ENDING || event == HOLD_FREED || event == HOLD_UNMOUNTED ||
			       event == HOLD_SIGTERM;
		enum hold_action action;
		struct hold hold = after(HOLD_HELD, (enum hold_event)event, &action);

		assert_int_equal(hold.state != HOLD_HELD, is_fact);
	}
}

TEST(no_answer_is_asked_for_again_after_a_pause)
{
	for (int from = 0; from < HOLD_ENDED; from++) {
		enum hold_action action;
		struct hold hold = after((enum hold_state)from, HOLD_LOST, &action);

		assert_int_equal(hold.state, from);
		assert_int_equal(action, HOLD_RETRY);
	}
}

TEST(every_state_ends_after_two_deadlines_but_the_one_that_holds)
{
	for (int from = 0; from < HOLD_ENDED; from++) {
		struct hold hold = {.state = (enum hold_state)from};

		for (int i = 0; i < 2 && hold.state != HOLD_ENDED; i++)
			(void)hold_step(&hold, HOLD_DEADLINE);
		assert_int_equal(hold.state, from == HOLD_HELD ? HOLD_HELD : HOLD_ENDED);
		assert_int_equal(hold.outcome, from == HOLD_HELD ? HOLD_DONE : HOLD_TIMED_OUT);
	}
}

TEST(a_stop_is_heard_in_every_state)
{
	for (int from = 0; from < HOLD_ENDED; from++) {
		enum hold_action action;
		struct hold hold = after((enum hold_state)from, HOLD_SIGTERM, &action);

		assert_true(hold.state == HOLD_STOPPING || hold.state == HOLD_RELEASING);
		assert_int_equal(hold.outcome, HOLD_DONE);
	}
}

TEST(the_time_limit_begins_at_the_end_of_the_wait)
{
	for (int event = 0; event < HOLD_EVENT_N; event++) {
		enum hold_action action;
		struct hold hold = after(HOLD_STANDBY, (enum hold_event)event, &action);
		bool begins = action == HOLD_BEGIN || action == HOLD_ANEW || action == HOLD_RELEASE;

		assert_int_equal(begins, hold.state != HOLD_STANDBY && hold.state != HOLD_HELD &&
						 hold.state != HOLD_ENDED);
	}
}

/* An allocation that may still run must not be forgotten: a second one would be made beside it. */
TEST(an_allocation_is_forgotten_only_when_it_is_surely_nowhere)
{
	for (int from = 0; from < HOLD_ENDED; from++)
		for (int event = 0; event < HOLD_EVENT_N; event++) {
			enum hold_action action;
			struct hold hold = after((enum hold_state)from, (enum hold_event)event, &action);
			bool is_nowhere = event == HOLD_FREED || event == HOLD_ABSENT;

			assert_int_equal(hold.state == HOLD_ENDED,
					 action == HOLD_FORGET || action == HOLD_LEAVE);
			if (from == HOLD_SUBMITTING) /* refused: it was never there */
				is_nowhere = is_nowhere || event == HOLD_REFUSED || event == HOLD_INVALID;
			if (action == HOLD_FORGET || action == HOLD_ANEW)
				assert_true(is_nowhere);
		}
}

TEST(the_first_bad_outcome_stays)
{
	struct hold hold = {.state = HOLD_WAITING};

	(void)hold_step(&hold, HOLD_DENIED);
	(void)hold_step(&hold, HOLD_DEADLINE);
	assert_int_equal(hold.outcome, HOLD_NOT_ALLOWED);
}

TEST(an_allocation_is_classified_by_desired_and_client_status)
{
	static const struct {
		Holdfast__V1__DesiredStatus desired;
		Holdfast__V1__ClientStatus client;
		size_t n_published;
		enum hold_event without_claim, with_claim;
	} cases[] = {
		{HOLDFAST__V1__DESIRED_STATUS__RUN, HOLDFAST__V1__CLIENT_STATUS__PENDING, 0, HOLD_PENDING,
		 HOLD_PENDING},
		{HOLDFAST__V1__DESIRED_STATUS__RUN, HOLDFAST__V1__CLIENT_STATUS__RUNNING, 0, HOLD_PENDING,
		 HOLD_PENDING},
		{HOLDFAST__V1__DESIRED_STATUS__RUN, HOLDFAST__V1__CLIENT_STATUS__RUNNING, 1, HOLD_RUNNING,
		 HOLD_RUNNING},
		{HOLDFAST__V1__DESIRED_STATUS__RUN, HOLDFAST__V1__CLIENT_STATUS__FAILED, 0, HOLD_FREED,
		 HOLD_ENDING},
		{HOLDFAST__V1__DESIRED_STATUS__RUN, HOLDFAST__V1__CLIENT_STATUS__LOST, 0, HOLD_FREED,
		 HOLD_ENDING},
		{HOLDFAST__V1__DESIRED_STATUS__STOP, HOLDFAST__V1__CLIENT_STATUS__PENDING, 0, HOLD_ENDING,
		 HOLD_ENDING},
		{HOLDFAST__V1__DESIRED_STATUS__STOP, HOLDFAST__V1__CLIENT_STATUS__RUNNING, 1, HOLD_ENDING,
		 HOLD_ENDING},
		{HOLDFAST__V1__DESIRED_STATUS__STOP, HOLDFAST__V1__CLIENT_STATUS__COMPLETE, 0, HOLD_FREED,
		 HOLD_ENDING},
	};
	Holdfast__V1__Claim claim = HOLDFAST__V1__CLAIM__INIT;
	Holdfast__V1__Claim *claims[] = {&claim};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Holdfast__V1__Allocation alloc = V1(
			allocation, .node_id = (char *)(uintptr_t) "n1", .desired_status = cases[i].desired,
			.client_status = cases[i].client, .n_published = cases[i].n_published);
		Holdfast__V1__GetAllocationResponse answer =
			V1(get_allocation_response, .allocation = &alloc, .claims = claims);

		assert_int_equal(hold_classify_get(&answer), cases[i].without_claim);
		assert_int_not_equal(hold_classify_alloc(&alloc), HOLD_FREED);
		answer.n_claims = 1;
		claim.state = HOLDFAST__V1__CLAIM_STATE__FREED;
		assert_int_equal(hold_classify_get(&answer), cases[i].without_claim);
		for (int live = HOLDFAST__V1__CLAIM_STATE__RESERVED; live < HOLDFAST__V1__CLAIM_STATE__FREED;
		     live++) {
			claim.state = (Holdfast__V1__ClaimState)live;
			assert_int_equal(hold_classify_get(&answer), cases[i].with_claim);
			assert_ptr_equal(hold_live_claim(claims, 1), &claim);
		}
	}
}

TEST(a_pending_allocation_without_a_node_waits_in_a_queue)
{
	Holdfast__V1__Allocation alloc =
		V1(allocation, .client_status = HOLDFAST__V1__CLIENT_STATUS__PENDING);

	assert_int_equal(hold_classify_alloc(&alloc), HOLD_QUEUED);
	alloc.desired_status = HOLDFAST__V1__DESIRED_STATUS__STOP;
	assert_int_equal(hold_classify_alloc(&alloc), HOLD_ENDING);
}

TEST(an_error_is_classified_by_its_code_and_the_request)
{
	static const struct {
		enum status status;
		enum hold_event get, run, stop;
	} cases[] = {
		{STATUS_NOT_FOUND, HOLD_ABSENT, HOLD_INVALID, HOLD_ABSENT},
		{STATUS_INVALID_ARGUMENT, HOLD_INVALID, HOLD_INVALID, HOLD_INVALID},
		{STATUS_UNIMPLEMENTED, HOLD_INVALID, HOLD_INVALID, HOLD_INVALID},
		{STATUS_PERMISSION_DENIED, HOLD_DENIED, HOLD_DENIED, HOLD_DENIED},
		{STATUS_UNAUTHENTICATED, HOLD_DENIED, HOLD_DENIED, HOLD_DENIED},
		{STATUS_ALREADY_EXISTS, HOLD_OTHER, HOLD_OTHER, HOLD_OTHER},
		{STATUS_UNAVAILABLE, HOLD_LOST, HOLD_LOST, HOLD_LOST},
		{STATUS_DEADLINE_EXCEEDED, HOLD_LOST, HOLD_LOST, HOLD_LOST},
		{STATUS_INTERNAL, HOLD_LOST, HOLD_LOST, HOLD_LOST},
		{STATUS_RESOURCE_EXHAUSTED, HOLD_LOST, HOLD_LOST, HOLD_LOST},
		{STATUS_FAILED_PRECONDITION, HOLD_LOST, HOLD_LOST, HOLD_LOST},
	};
	Holdfast__V1__ErrorDetails details = HOLDFAST__V1__ERROR_DETAILS__INIT;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(hold_classify_error(HOLD_GET, cases[i].status, NULL), cases[i].get);
		assert_int_equal(hold_classify_error(HOLD_RUN, cases[i].status, NULL), cases[i].run);
		assert_int_equal(hold_classify_error(HOLD_STOP, cases[i].status, NULL), cases[i].stop);
	}
	/* a node that is not ready may be in a moment; who has the volume keeps it */
	assert_int_equal(hold_classify_error(HOLD_RUN, STATUS_FAILED_PRECONDITION, &details), HOLD_LOST);
	details.n_claims = 1;
	assert_int_equal(hold_classify_error(HOLD_RUN, STATUS_FAILED_PRECONDITION, &details), HOLD_REFUSED);
	assert_int_equal(hold_classify_error(HOLD_GET, STATUS_FAILED_PRECONDITION, &details), HOLD_LOST);
}
