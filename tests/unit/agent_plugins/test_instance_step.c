/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for the life of an instance. Each step is in tests/golden/steps.txt. */

#include "unit.h"

#include "service/instance_step.h"

enum {
	CALLS = INSTANCE_DO_PROBE | INSTANCE_DO_FACTS,
	TIMERS = INSTANCE_DO_BACKOFF | INSTANCE_DO_INTERVAL | INSTANCE_DO_SOON,
};

TEST(nothing_leaves_gone)
{
	for (unsigned int event = 0; event < INSTANCE_EVENT_N; event++) {
		struct instance_step step = instance_step(INSTANCE_GONE, (enum instance_event)event);

		assert_int_equal(step.state, INSTANCE_GONE);
		assert_int_equal(step.actions, 0);
	}
}

/* A walk through every state and every event that can come there: there is always exactly one thing that will
 * end, a call or a timer, so that no instance is ever forgotten, and health never changes silently. */
TEST(an_instance_is_never_forgotten)
{
	/* is it waiting for a probe, facts or a timer? */
	enum { PROBE, FACTS, TIMER, WAITS_N };
	static const enum instance_event ends[WAITS_N][2] = {
		[PROBE] = {INSTANCE_PROBE_OK, INSTANCE_PROBE_FAILED},
		[FACTS] = {INSTANCE_FACTS_OK, INSTANCE_FACTS_FAILED},
		[TIMER] = {INSTANCE_DUE, INSTANCE_DUE},
	};
	bool seen[INSTANCE_STATE_N][WAITS_N] = {0};
	struct {
		enum instance_state state;
		int wait;
	} todo[64] = {{INSTANCE_DIALLING, TIMER}};
	size_t n = 1;

	while (n > 0) {
		enum instance_state from = todo[--n].state;
		int wait = todo[n].wait;
		const enum instance_event events[] = {ends[wait][0], ends[wait][1], INSTANCE_LOST,
						      INSTANCE_RECREATED};

		if (seen[from][wait])
			continue;
		seen[from][wait] = true;
		for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
			struct instance_step step = instance_step(from, events[i]);
			bool ended = i < 2 || (step.actions & INSTANCE_DO_CANCEL);
			unsigned int next = step.actions & (CALLS | TIMERS);

			if (instance_state_is_healthy(step.state) != instance_state_is_healthy(from))
				assert_true(step.actions & INSTANCE_DO_TELL);
			if (!ended) {
				assert_int_equal(next, 0);
				continue;
			}
			assert_true(next != 0 && (next & (next - 1)) == 0);
			todo[n].state = step.state;
			todo[n++].wait = next == INSTANCE_DO_PROBE   ? PROBE
					 : next == INSTANCE_DO_FACTS ? FACTS
								     : TIMER;
			assert_true(n < ARRAY_SIZE(todo));
		}
	}
	for (unsigned int i = 0; i < INSTANCE_GONE; i++)
		assert_true(seen[i][PROBE] || seen[i][FACTS] || seen[i][TIMER]);
}

TEST(each_state_has_a_name)
{
	for (unsigned int i = 0; i < INSTANCE_STATE_N; i++)
		assert_non_null(instance_state_name((enum instance_state)i));
	assert_string_equal(instance_state_name(INSTANCE_RECHECKING), "healthy");
}
