/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for every step table of the agent: from its first state each state can be reached, from each
 * reachable state the last one, which nothing leaves. */
#include "unit.h"

#include "alloc/step.h"
#include "service/instance_step.h"
#include "unit/task_step.h"
#include "volume/step.h"

enum { STATES_MAX = 32, REFUSED = -1 };

static int step_alloc(int phase, int event)
{
	enum alloc_phase next = alloc_phase_step((enum alloc_phase)phase, (enum alloc_event_type)event);

	return next == ALLOC_PHASE_N ? REFUSED : (int)next;
}

static int step_unit(int state, int event)
{
	return (int)task_step((enum task_state)state, (enum task_event)event).state;
}

static int step_instance(int state, int event)
{
	return (int)instance_step((enum instance_state)state, (enum instance_event)event).state;
}

static int step_volume(int state, int event)
{
	struct volume_op_step step = volume_op_step((enum volume_op_state)state, (enum volume_op_event)event);

	return step.action == VOLUME_OP_REFUSE ? REFUSED : (int)step.next;
}

static const struct machine {
	const char *name;
	int (*step)(int state, int event);
	int n_states, n_events, first, last;
	int other_first; /* where it begins after a restart of the agent */
} machines[] = {
	{"allocation", step_alloc, ALLOC_PHASE_N, ALLOC_EVENT_N, ALLOC_NEW, ALLOC_STOPPED, ALLOC_NEW},
	{"unit", step_unit, TASK_STATE_N, TASK_EVENT_N, TASK_FIRST, TASK_OVER, TASK_RESUMED},
	{"instance", step_instance, INSTANCE_STATE_N, INSTANCE_EVENT_N, INSTANCE_DIALLING, INSTANCE_GONE,
	 INSTANCE_DIALLING},
	{"volume", step_volume, VOLUME_OP_STATE_N, VOLUME_OP_EVENT_N, VOLUME_OP_IDLE, VOLUME_OP_ENDED,
	 VOLUME_OP_IDLE},
};

#define FOREACH_MACHINE(m) \
	for (const struct machine *m = machines; m < machines + sizeof(machines) / sizeof(*machines); m++)

static void walk(const struct machine *machine, int state, bool reached[static STATES_MAX])
{
	assert_in_range(state, 0, machine->n_states - 1);
	if (reached[state])
		return;
	reached[state] = true;
	for (int event = 0; event < machine->n_events; event++) {
		int next = machine->step(state, event);

		if (next != REFUSED)
			walk(machine, next, reached);
	}
}

TEST(every_state_is_reached_from_the_first)
{
	FOREACH_MACHINE(machine)
	{
		bool reached[STATES_MAX] = {false};

		assert_true(machine->n_states <= STATES_MAX);
		walk(machine, machine->first, reached);
		walk(machine, machine->other_first, reached);
		for (int s = 0; s < machine->n_states; s++) {
			assert_msg(reached[s], "%s: state %d is never reached", machine->name, s);
		}
	}
}

TEST(the_last_state_is_reached_from_every_other)
{
	FOREACH_MACHINE(machine)
	{
		for (int s = 0; s < machine->n_states; s++) {
			bool reached[STATES_MAX] = {false};

			walk(machine, s, reached);
			assert_msg(reached[machine->last], "%s: state %d has no way to the end",
				   machine->name, s);
		}
	}
}

TEST(nothing_leaves_the_last_state)
{
	FOREACH_MACHINE(machine)
	{
		for (int event = 0; event < machine->n_events; event++) {
			int next = machine->step(machine->last, event);

			assert_true(next == REFUSED || next == machine->last);
		}
	}
}
