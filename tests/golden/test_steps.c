/* SPDX-License-Identifier: Apache-2.0 */
/* Walks all pairs of state and event of each step table, and compares what it does with steps.txt: a line for
 * each pair, none for a pair that is refused. GOLDEN_UPDATE=1 ctest -R test_steps writes the file anew. */

#include "unit.h"

#include "alloc/step.h"
#include "driver/driver_task.h"
#include "hold/hold.h"
#include "model/claim.h"
#include "model/fence.h"
#include "service/instance_step.h"
#include "unit/task_step.h"
#include "volume/step.h"

#include <stdio.h>
#include <stdlib.h>

#define FILE_NAME GOLDEN_FOLDER "/steps.txt"

enum { CELL_SIZE = 64, LINE_SIZE = 160 };

/* clang-format off */
/* Names of states, events and actions. */
#define N(name) [CLAIM_##name] = #name
static const char *const claim_states[CLAIM_STATE_N] = {
	N(RESERVED), N(TAKEN), N(UNPUBLISHING), N(NODE_DETACHED), N(CONTROLLER_DETACHED), N(FREED),
};
#undef N
#define N(name) [CLAIM_EVENT_##name] = #name
static const char *const claim_events[CLAIM_EVENT_N] = {
	N(SENT), N(ATTACH_FAILED), N(MOUNTED), N(WORK_ENDED), N(EVIDENCE), N(NODE_FAILED),
	N(CONTROLLER_DETACHED), N(CONTROLLER_FAILED), N(FREE), N(FENCE_ASKED), N(DETACH_ATTESTED), N(FORCED),
};
#undef N
#define N(name) [FENCE_##name] = #name
static const char *const fence_states[FENCE_STATE_N] = {
	N(ASKED), N(SENT), N(OFF), N(RECORDED), N(REFUSED), N(FAILED), N(UNKNOWN), N(OVERTAKEN), N(LIFTING), N(LIFTED),
};
#undef N
#define N(name) [FENCE_EVENT_##name] = #name
static const char *const fence_events[FENCE_EVENT_N] = {
	N(SENT), N(PROVED), N(NEXT), N(REFUSED), N(FAILED), N(UNSURE), N(EXPIRED), N(HEARD), N(RECORDED), N(REBOOTED), N(RETURNED), N(LIFT), N(DOUBT), N(MORE), N(LIFTED),
};
#undef N
#define N(name) [ALLOC_##name] = #name
static const char *const alloc_states[ALLOC_PHASE_N] = {
	N(NEW), N(CLAIMING), N(MOUNTING), N(RUNNING), N(STOPPING), N(STOPPED),
};
#undef N
#define N(name) [ALLOC_EVENT_##name] = #name
static const char *const alloc_events[ALLOC_EVENT_N] = {
	N(CLAIM), N(CLAIMED), N(DEVICE), N(MOUNTED), N(UNMOUNTED), N(UNIT_START), N(UNIT_RUNS),
	N(UNIT_ENDED), N(TASK_START), N(TASK_RUNS), N(TASK_HEALTH), N(TASK_FAILED), N(TASK_DONE), N(TASK_ENDED), N(TASK_GONE),
	N(NETWORK_START), N(NETWORK_UP), N(NETWORK_GONE), N(RUN), N(FAIL), N(STOP), N(SHUTDOWN),
	N(RELEASED), N(FINISH), N(REBOOTED),
};
#undef N
#define N(name) [TASK_##name] = #name
static const char *const unit_states[TASK_STATE_N] = {
	N(FIRST), N(RESUMED), N(STARTING), N(RUNNING), N(STOPPING), N(OVER),
};
static const char *const unit_events[TASK_EVENT_N] = {
	N(SEES_UNKNOWN), N(SEES_ABSENT), N(SEES_IDLE), N(SEES_QUEUED), N(SEES_ENDED),
	N(SEES_FAILED), N(SEES_COMING), N(SEES_RESTARTING), N(SEES_ACTIVE), N(SEES_GOING),
	N(EVENT_JOURNALLED), N(EVENT_START_REFUSED), N(EVENT_START_UNSURE), N(EVENT_STOP),
};
#undef N
#define N(name) [TASK_DO_##name] = #name
static const char *const unit_actions[TASK_ACTION_N] = {
	N(NOTHING), N(JOURNAL), N(START), N(STOP), N(RUNS), N(REFUSE), N(FAILED), N(ENDED), N(STOPPED),
};
#undef N
#define N(name) [VOLUME_OP_##name] = #name
static const char *const volume_states[VOLUME_OP_STATE_N] = {
	N(IDLE), N(STAGING), N(WAITING), N(PLUGIN_STAGING), N(PLUGIN_PUBLISHING), N(CONFIRMING), N(PUBLISHING),
	N(VERIFYING), N(UNPUBLISHING), N(LOOKING), N(CHECKING), N(PLUGIN_UNPUBLISHING), N(RECHECKING),
	N(PLUGIN_UNSTAGING), N(UNSTAGING), N(EXPANDING), N(ENDED),
};
static const char *const volume_events[VOLUME_OP_EVENT_N] = {
	N(MOUNT), N(UNMOUNT), N(RELEASE), N(EXPAND), N(OK), N(PREPARED), N(DEVICE), N(UNSURE),
	N(FAILED), N(PENDING), N(AGAIN), N(UNSTAGED), N(CANCELLED), N(IN_USE), N(PLUGINS_TURN), N(FORCED),
};
static const char *const volume_actions[VOLUME_OP_ACTION_N] = {
	N(STAGE), N(WAIT_PLUGIN), N(PLUGIN_STAGE), N(PLUGIN_PUBLISH), N(PUBLISH), N(VERIFY), N(UNPUBLISH),
	N(LOOK), N(CHECK), N(PLUGIN_UNPUBLISH), N(RECHECK), N(PLUGIN_UNSTAGE), N(UNSTAGE),
	N(PLUGIN_EXPAND), N(SUCCEED), N(FAIL), N(FAIL_EMPTY), N(RETRY), N(PAUSE),
};
#undef N
#define N(name) [INSTANCE_##name] = #name
static const char *const instance_states[INSTANCE_STATE_N] = {
	N(DIALLING), N(FINGERPRINTING), N(HEALTHY), N(RECHECKING), N(UNHEALTHY), N(GONE),
};
static const char *const instance_events[INSTANCE_EVENT_N] = {
	N(DUE), N(PROBE_OK), N(PROBE_FAILED), N(FACTS_OK), N(FACTS_FAILED), N(LOST), N(RECREATED), N(REMOVED),
};
#undef N
#define N(name) [DRIVER_TASK_##name] = #name
static const char *const task_states[DRIVER_TASK_STATE_N] = {
	N(NEW), N(READY), N(ORDER), N(START), N(RECOVER), N(WAIT), N(EXITED), N(STOP), N(DESTROY),
	N(OVER), N(UP), N(REMAKE), N(RESTART),
};
static const char *const task_events[DRIVER_TASK_EVENT_N] = {
	N(OK), N(NOT_FOUND), N(PASSING), N(REFUSED), N(WRONG), N(JOURNALLED), N(STOP_WANTED), N(RESTART_WANTED),
};
#undef N
#define N(name) [DRIVER_TASK_DO_##name] = #name
static const char *const task_actions[DRIVER_TASK_ACTION_N] = {
	N(NOTHING), N(CALL), N(RETRY), N(JOURNAL), N(UP), N(RUNS), N(EXITED), N(LOST), N(FAILED), N(GONE),
};
#undef N
#define N(name) [HOLD_##name] = #name
static const char *const hold_states[HOLD_STATE_N] = {
	N(LOOKING), N(CLEARING), N(EMPTYING), N(SUBMITTING), N(STANDBY), N(WAITING), N(HELD), N(STOPPING), N(RELEASING),
	N(ENDED),
};
static const char *const hold_events[HOLD_EVENT_N] = {
	N(PENDING), N(QUEUED), N(RUNNING), N(ENDING), N(FREED), N(ABSENT), N(LOST), N(REFUSED), N(DENIED),
	N(INVALID), N(OTHER), N(UNMOUNTED), N(DEADLINE), N(SIGTERM),
};
static const char *const hold_actions[HOLD_ACTION_N] = {
	N(NOTHING), N(ASK), N(WATCH), N(RETRY), N(SUSPEND), N(BEGIN), N(ANEW), N(READY), N(RELEASE), N(FORGET), N(LEAVE),
};
static const char *const hold_outcomes[] = {
	N(FAILED), N(NOT_AVAILABLE), N(TIMED_OUT), N(NOT_ALLOWED), N(WRONG_SPEC), N(TAKEN_AWAY),
};
#undef N
/* clang-format on */

/* An attached claim whose grant was sent, with a receipt as evidence. */
static void print_claim(int state, int event, char *ret)
{
	struct claim claim = {.state = (enum claim_state)state,
			      .attach = ATTACH_DONE,
			      .sent_to_node = true,
			      .plugin_id = "ceph"};
	const struct claim before = claim;
	const struct claim_event happens = {.type = (enum claim_event_type)event,
					    .evidence = EVIDENCE_RECEIPT,
					    .detail = "detail",
					    .now_ms = 1};
	bool changed = false;
	struct error err;

	if (claim_step(&claim, &happens, &changed, &err) != STATUS_OK) {
		assert_int_equal(err.status, STATUS_FAILED_PRECONDITION);
		assert_memory_equal(&claim, &before, sizeof(claim));
		return;
	}
	/* NOLINTNEXTLINE(bugprone-*,cert-*): both are copies of one object, padding and all */
	assert_int_equal(changed, memcmp(&claim, &before, sizeof(claim)) != 0);
	assert_int_equal(claim.modify_time_ms, changed);
	(void)snprintf(ret, CELL_SIZE, "%s%s%s%s%s%s", claim_states[claim.state], changed ? "" : ", nothing",
		       claim.attempts ? ", counts a failure" : "", claim.fence_asked ? ", notes a fence" : "",
		       claim.plugin_waiver[0] ? ", notes a waiver" : "",
		       claim.detach_evidence == EVIDENCE_OPERATOR ? ", attested" : "");
}

static void print_fence(int state, int event, char *ret)
{
	enum fence_state next;

	if (fence_step((enum fence_state)state, (enum fence_event)event, &next))
		(void)str_copy(ret, CELL_SIZE, fence_states[next]);
}

static void print_alloc(int state, int event, char *ret)
{
	enum alloc_phase next = alloc_phase_step((enum alloc_phase)state, (enum alloc_event_type)event);

	if (next != ALLOC_PHASE_N)
		(void)str_copy(ret, CELL_SIZE, alloc_states[next]);
}

static void print_unit(int state, int event, char *ret)
{
	struct task_step step = task_step((enum task_state)state, (enum task_event)event);

	(void)snprintf(ret, CELL_SIZE, "%s, %s", unit_states[step.state], unit_actions[step.action]);
}

static void print_volume(int state, int event, char *ret)
{
	struct volume_op_step step = volume_op_step((enum volume_op_state)state, (enum volume_op_event)event);

	if (step.action == VOLUME_OP_REFUSE)
		assert_int_equal(step.next, state);
	else
		(void)snprintf(ret, CELL_SIZE, "%s, %s", volume_states[step.next],
			       volume_actions[step.action]);
}

static void print_instance(int state, int event, char *ret)
{
	static const char *const actions[] = {"PROBE",	"FACTS", "BACKOFF", "INTERVAL", "SOON",
					      "SETTLE", "TELL",	 "REASON",  "CANCEL"};
	struct instance_step step = instance_step((enum instance_state)state, (enum instance_event)event);
	size_t at;

	at = (size_t)snprintf(ret, CELL_SIZE, "%s%s", instance_states[step.state],
			      step.actions ? "" : ", NOTHING");
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
		if (step.actions & (1U << i))
			at += (size_t)snprintf(ret + at, CELL_SIZE - at, ", %s", actions[i]);
}

static void print_driver_step(struct driver_task_step step, char *ret)
{
	if (step.action != DRIVER_TASK_NO_STEP)
		(void)snprintf(ret, CELL_SIZE, "%s, %s", task_states[step.state], task_actions[step.action]);
}

static void print_task(int state, int event, char *ret)
{
	print_driver_step(driver_task_step((enum driver_task_state)state, (enum driver_task_event)event),
			  ret);
}

static void print_network(int state, int event, char *ret)
{
	print_driver_step(driver_network_step((enum driver_task_state)state, (enum driver_task_event)event),
			  ret);
}

static void print_hold(int state, int event, char *ret)
{
	struct hold hold = {.state = (enum hold_state)state};
	enum hold_action action = hold_step(&hold, (enum hold_event)event);

	assert_int_equal(hold.was_held, hold.state == HOLD_HELD);
	(void)snprintf(ret, CELL_SIZE, "%s, %s%s%s", hold_states[hold.state], hold_actions[action],
		       hold.outcome != HOLD_DONE ? ", " : "",
		       hold.outcome != HOLD_DONE ? hold_outcomes[hold.outcome] : "");
}

static const struct grid {
	const char *name;
	void (*print)(int state, int event, char *ret); /* leaves @ret empty if the event is refused */
	const char *const *states, *const *events;
	int first, n_states, n_events;
} grids[] = {
	{"claim", print_claim, claim_states, claim_events, CLAIM_RESERVED, CLAIM_STATE_N, CLAIM_EVENT_N},
	{"fence", print_fence, fence_states, fence_events, 0, FENCE_STATE_N, FENCE_EVENT_N},
	{"allocation", print_alloc, alloc_states, alloc_events, 0, ALLOC_PHASE_N, ALLOC_EVENT_N},
	{"unit", print_unit, unit_states, unit_events, 0, TASK_STATE_N, TASK_EVENT_N},
	{"volume", print_volume, volume_states, volume_events, 0, VOLUME_OP_STATE_N, VOLUME_OP_EVENT_N},
	{"instance", print_instance, instance_states, instance_events, 0, INSTANCE_STATE_N, INSTANCE_EVENT_N},
	{"task", print_task, task_states, task_events, 0, DRIVER_TASK_STATE_N, DRIVER_TASK_EVENT_N},
	{"network", print_network, task_states, task_events, 0, DRIVER_TASK_STATE_N, DRIVER_TASK_EVENT_N},
	{"hold", print_hold, hold_states, hold_events, 0, HOLD_ENDED, HOLD_EVENT_N},
};

/* Compares with the next line of @golden, or writes it. */
static void record(FILE *golden, bool is_updated, const char *line)
{
	char recorded[LINE_SIZE] = "";

	if (is_updated)
		assert_true(fputs(line, golden) >= 0);
	else if (!fgets(recorded, sizeof(recorded), golden) || !str_eq(recorded, line))
		fail_msg("%s%sis recorded as: %s", FILE_NAME ": ", line, recorded);
}

static void walk(const struct grid *grid, FILE *golden, bool is_updated)
{
	for (int state = grid->first; state < grid->n_states; state++)
		for (int event = 0; event < grid->n_events; event++) {
			char cell[CELL_SIZE] = "", line[LINE_SIZE];

			assert_true(grid->states[state] && grid->events[event]);
			grid->print(state, event, cell);
			(void)snprintf(line, sizeof(line), "%s %s on %s: %s\n", grid->name,
				       grid->states[state], grid->events[event], cell);
			if (cell[0] != '\0')
				record(golden, is_updated, line);
		}
}

TEST(each_step_is_as_recorded)
{
	bool is_updated = getenv("GOLDEN_UPDATE") != NULL;
	FILE *golden = fopen(FILE_NAME, is_updated ? "w" : "r");
	char rest[LINE_SIZE];

	assert_non_null(golden);
	for (size_t i = 0; i < ARRAY_SIZE(grids); i++)
		walk(&grids[i], golden, is_updated);
	assert_true(is_updated || !fgets(rest, sizeof(rest), golden));
	assert_int_equal(fclose(golden), 0);
}
