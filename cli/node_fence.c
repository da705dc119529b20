/* SPDX-License-Identifier: Apache-2.0 */
/* Fences by hand: have a fencer switch a node off, or the storage of a plugin refuse it, or look at a switch.
 */

#include "base/cleanup.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "command/values.h"
#include "show/progress.h"
#include "show/show.h"

#include <holdfast/v1/fences.pb-c.h>
#include <time.h>

enum { ROUND_MS = 300, QUESTION_SIZE = 2 * PICK_ID_SIZE + 64 };

#define FENCE_TIMEOUT_US (UINT64_C(600) * USEC_PER_SEC)
#define TEST_TIMEOUT_US (UINT64_C(400) * USEC_PER_SEC)

static DEFINE_ROWS(fence_page, holdfast__v1__fence, NULL, COL("node", "{node_id}"),
		   COL("boot ID", "{boot_id}"), COL("fence", "{state}"), COL_SET("because", "{error}"),
		   COL("asked by", "{by}"), COL("reason", "{reason}"),
		   COL_WHEN("{alive?y}", "node", "was connected when this was asked"),
		   COL_SET("plugin", "{plugin_id}"), COL_SET("addresses", "{cidrs}"),
		   COL_WHEN("{plugin_id?|{fencer}}", "fencer", "{fencer}"),
		   COL_WHEN("{plugin_id?{fencer}}", "controller on node", "{fencer}"),
		   COL_SET("tried before", "{tried}"), COL_SET("agent", "{agent}"),
		   COL_WHEN("{off_ms?y}", "off", "{off}, {off_ms:time}"),
		   COL_WHEN("{status_ms?y}", "status", "{status}, {status_ms:time}"),
		   COL_WHEN("{freed?y}", "freed claims", "{freed}"), COL("asked", "{create_time_ms:age}"));

static DEFINE_ROWS(fence_table, holdfast__v1__fence, NULL, COL("NODE", "{node_id}"),
		   COL("PLUGIN", "{plugin_id}"), COL_STATE("FENCE", "{state}"), COL("FENCER", "{fencer}"),
		   COL("ASKED BY", "{by}"), COL_NUMBER("FREED", "{freed}"),
		   COL("CHANGED", "{modify_time_ms:age}"), COL_CUT("ERROR", "{error}"));

static DEFINE_ROWS(fencer_table, holdfast__v1__fencer, "no fencer is connected", COL("FENCER", "{name}"),
		   COL("ADDRESS", "{address}"), COL("VERSION", "{version}"),
		   COL_NUMBER("SWITCHES", "{nodes}"), COL("CONNECTED", "{connected_ms:age}"));

static DEFINE_ROWS_OF(switch_table, holdfast__v1__fencer_node, &holdfast__v1__fencer__descriptor, NULL,
		      COL("NODE", "{id}"), COL("AGENT", "{agent}"),
		      COL_STATE("SWITCH", "{error?failing|healthy}"), COL("CHECKED", "{checked_ms:age}"),
		      COL_CUT("ERROR", "{error}"));

static DEFINE_ROWS(fencer_page, holdfast__v1__fencer, NULL, TABLE("switches", "nodes", &switch_table));

static DEFINE_ROWS(test_page, holdfast__v1__test_fence_response, NULL, COL("fencer", "{fencer}"),
		   COL("agent", "{agent}"), COL("monitor", "{monitor}"), COL("status", "{status}"),
		   COL_SET("because", "{error}"));

static bool is_open(const Holdfast__V1__Fence *fence)
{
	return fence->state <= HOLDFAST__V1__FENCE_STATE__FENCE_STATE_OFF ||
	       fence->state == HOLDFAST__V1__FENCE_STATE__FENCE_STATE_LIFTING;
}

static enum status get(struct call *call, Holdfast__V1__GetFenceResponse **ret, struct error *err)
{
	const Holdfast__V1__FenceNodeRequest *asked = call->request;
	Holdfast__V1__GetFenceRequest request = HOLDFAST__V1__GET_FENCE_REQUEST__INIT;

	request.id = asked->id;
	request.plugin_id = asked->plugin_id;
	TRY(connection_call(call->connection, &holdfast__v1__fences__descriptor, "Get", &request.base,
			    CALL_TIMEOUT_US, ret, err));
	return (*ret)->fence ? STATUS_OK
			     : error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no fence");
}

static enum status wait_for_end(struct call *call, const char *id, Holdfast__V1__GetFenceResponse **ret,
				struct error *err)
{
	static const struct timespec pause = {.tv_nsec = (long)ROUND_MS * 1000 * 1000};
	uint64_t timeout_us, deadline_us;

	TRY(value_timeout(call->inv, FENCE_TIMEOUT_US, &timeout_us, err));
	deadline_us = clock_monotonic_us() + timeout_us;
	for (;;) {
		message_freep(ret);
		*ret = NULL;
		TRY(get(call, ret, err));
		if (!is_open((*ret)->fence))
			return STATUS_OK;
		if (clock_monotonic_us() >= deadline_us)
			return error_set(
				err, STATUS_DEADLINE_EXCEEDED, 0,
				"the fence of node %s continues without this command. Next: holdfast "
				"node fence",
				id);
		progress_show("fencing node %s", id);
		(void)nanosleep(&pause, NULL);
	}
}

/* Another command may have lifted the fence, or fenced again. The answer to --no-wait may be open. */
static bool is_as_asked(const Holdfast__V1__Fence *fence, bool lift)
{
	if (fence->state == HOLDFAST__V1__FENCE_STATE__FENCE_STATE_LIFTING ||
	    fence->state == HOLDFAST__V1__FENCE_STATE__FENCE_STATE_LIFTED)
		return lift;
	return fence->state == HOLDFAST__V1__FENCE_STATE__FENCE_STATE_OVERTAKEN ||
	       (!lift && (is_open(fence) || fence->state == HOLDFAST__V1__FENCE_STATE__FENCE_STATE_RECORDED));
}

/* The answer of the whole command is the fence at its end. */
static enum status show_end(struct call *call, Holdfast__V1__Fence *fence, struct error *err)
{
	Holdfast__V1__FenceNodeResponse end = HOLDFAST__V1__FENCE_NODE_RESPONSE__INIT;

	end.fence = fence;
	if (call_has(call, OPT_JSON))
		TRY(print_answer(&end.base, err));
	else
		TRY(show_page(&fence_page, fence, NULL, call_has(call, OPT_VERBOSE), err));
	if (is_as_asked(fence, call_has(call, OPT_LIFT)))
		return STATUS_OK;
	if (call_has(call, OPT_LIFT))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"the storage of plugin %s may still refuse node %s: its fence was not lifted. Next: "
			"holdfast node fence, then repeat this command",
			fence->plugin_id, fence->node_id);
	if (fence->plugin_id[0] != '\0')
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"no proof that the storage of plugin %s refuses node %s; its claims stay. Next: "
			"holdfast plugin status %s, then repeat this command",
			fence->plugin_id, fence->node_id, fence->plugin_id);
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"there is no proof that node %s is off; its claims stay. Next: holdfast node fence --test %s",
		fence->node_id, fence->node_id);
}

static enum status node_fence_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__FenceNodeResponse *answer = message;
	const Holdfast__V1__FenceNodeRequest *request = call->request;
	cleanup_message Holdfast__V1__GetFenceResponse *last = NULL;
	enum status status;

	if (!answer->fence)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no fence");
	if (call_has(call, OPT_NO_WAIT))
		return show_end(call, answer->fence, err);
	status = wait_for_end(call, request->id, &last, err);
	progress_end();
	return status == STATUS_OK ? show_end(call, last->fence, err) : status;
}

static enum status node_fence_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__FenceNodeRequest *request = message;

	if (call_has(call, OPT_NETWORK) && option_text(call->inv, OPT_NETWORK)[0] == '\0') /* else power */
		return usage_error(call->inv, err,
				   "--network: name the plugin whose storage refuses the node");
	if (call_has(call, OPT_LIFT) && !call_has(call, OPT_NETWORK))
		return usage_error(call->inv, err, "--lift is for a network fence: add --network PLUGIN");
	if (call_has(call, OPT_TEST) && call_has(call, OPT_NETWORK))
		return usage_error(call->inv, err, "--test is for a power switch: it has no --network");
	if (!call_has(call, OPT_TEST))
		return call_reason(call, OPT_REASON, &request->reason, err);
	if (call_has(call, OPT_ALIVE))
		return usage_error(call->inv, err, "--test switches nothing: it has no --alive");
	return STATUS_OK;
}

static enum status test_switch(struct call *call, char *id, struct error *err)
{
	Holdfast__V1__TestFenceRequest request = HOLDFAST__V1__TEST_FENCE_REQUEST__INIT;
	cleanup_message Holdfast__V1__TestFenceResponse *answer = NULL;

	request.id = id;
	TRY(connection_call_long(call->connection, call->inv, &holdfast__v1__fences__descriptor, "Test",
				 &request.base, TEST_TIMEOUT_US, "looking at the power switch", &answer,
				 err));
	if (call_has(call, OPT_JSON))
		TRY(print_answer(&answer->base, err));
	else
		TRY(show_page(&test_page, answer, NULL, true, err));
	if (answer->monitor == HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_DONE &&
	    answer->status != HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_FAILED &&
	    answer->status != HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_NONE)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "fencer %s could not switch node %s off now: correct the node's block in "
			 "/etc/holdfast/fencer.hcl on the fencer's machine",
			 answer->fencer, id);
}

static enum status node_fence_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__FenceNodeRequest *request = message;
	char question[QUESTION_SIZE];

	call->is_over = call_has(call, OPT_TEST);
	if (call->is_over)
		return test_switch(call, request->id, err);
	if (request->lift)
		(void)str_format(question, sizeof(question), "Let node %s write again at plugin %s?",
				 request->id, request->plugin_id);
	else if (request->plugin_id[0] != '\0')
		(void)str_format(question, sizeof(question), "Have the storage of plugin %s refuse node %s?",
				 request->plugin_id, request->id);
	else
		(void)str_format(question, sizeof(question), "Switch node %s off?", request->id);
	return value_confirm(call->inv, question, err);
}

static enum status show_fencers(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ListFencesResponse *answer = message;
	bool verbose = call_has(call, OPT_VERBOSE);

	TRY(show_list(&fencer_table, NULL, answer->fencers, answer->n_fencers, verbose, err));
	for (size_t i = 0; i < answer->n_fencers; i++)
		TRY(show_page(&fencer_page, answer->fencers[i], NULL, verbose, err));
	return show_list(&fence_table, "last fences", answer->fences, answer->n_fences, verbose, err);
}

/* --- fences that the server begins by itself --- */

static DEFINE_ROWS(plan_table, holdfast__v1__fence_plan, NULL, COL("NODE", "{node_id}"),
		   COL("VOLUME", "{volume_id?{namespace}/{volume_id}}"),
		   COL("FENCE", "{plugin_id?network|power}"), COL("POLICY OF", "{policy}"),
		   COL("AWAY", "{away_ms:duration}"), COL("AFTER", "{after_ms:duration}"),
		   COL_STATE("FENCED", "{now?now|not yet}"), COL_CUT("BECAUSE", "{verdict}"));

static DEFINE_ROWS(switch_page, holdfast__v1__fencing_switch, NULL,
		   COL("automatic fencing", "{off?off|on}, by {by}, {time_ms:age} ago"),
		   COL("reason", "{reason}"));

static enum status show_plan(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__PlanFencesResponse *answer = message;

	if (answer->switch_)
		TRY(show_page(&switch_page, answer->switch_, NULL, false, err));
	else
		print_line("automatic fencing is on");
	if (answer->max_per_minute == 0)
		print_line("fence_max_per_minute of the server is 0: it begins no fence by itself");
	if (answer->n_plans == 0)
		print_line("no node that is away holds a volume with on_node_loss");
	return answer->n_plans == 0 ? STATUS_OK
				    : show_list(&plan_table, "lost nodes", answer->plans, answer->n_plans,
						call_has(call, OPT_VERBOSE), err);
}

static enum status fencing_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__SetAutomaticRequest *request = message;
	const char *word = call->inv->args[0];

	if (call_has(call, OPT_DRY_RUN))
		return usage_error(call->inv, err, "--dry-run shows lost nodes: it takes no on or off");
	if (!str_eq(word, "on") && !str_eq(word, "off"))
		return usage_error(call->inv, err, "'%.40s': it is on or off", word);
	request->off = str_eq(word, "off");
	return call_reason(call, OPT_REASON, &request->reason, err);
}

static enum status fencing_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__SetAutomaticRequest *request = call->request;

	print_line("automatic fencing is %s%s", request->off ? "off" : "on",
		   request->off ? "; holdfast node fence still fences by hand" : "");
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "node fence",
	 .args = "[ID]",
	 .help = "Have a node switched off, or refused by a storage, which frees its volumes; or list fences",
	 .example = "worker-3 --reason 'does not answer, ticket 4711'",
	 .options = OPTION_BIT(OPT_REASON) | OPTION_BIT(OPT_ALIVE) | OPTION_BIT(OPT_TEST) |
		    OPTION_BIT(OPT_NETWORK) | OPTION_BIT(OPT_LIFT) | OPTION_BIT(OPT_YES) |
		    OPTION_BIT(OPT_VERBOSE) | WAITING,
	 .max_args = 1,
	 .arg_kinds = {WORD_NODE},
	 .call = {.service = &holdfast__v1__fences__descriptor,
		  .method = "Fence",
		  .fields = {{"id", ARG(0), FIELD_KNOWN_NODE},
			     {"alive", OPT_ALIVE},
			     {"plugin_id", OPT_NETWORK, FIELD_KNOWN_PLUGIN},
			     {"lift", OPT_LIFT}},
		  .whole = "fence",
		  .load = node_fence_load,
		  .fill = node_fence_fill,
		  .show = node_fence_show,
		  .shows_json = true},
	 .list = {.service = &holdfast__v1__fences__descriptor, .method = "List", .show = show_fencers}},
};

const struct command_table node_fence_commands = {commands, ARRAY_SIZE(commands)};

static const struct command fencing_rows[] = {
	{.path = "operator fencing",
	 .args = "[on|off]",
	 .help = "Stop or start fences that the server begins by itself; or show which nodes it would fence",
	 .example = "off --reason 'network maintenance'",
	 .options = OPTION_BIT(OPT_REASON) | OPTION_BIT(OPT_DRY_RUN) | OPTION_BIT(OPT_VERBOSE),
	 .max_args = 1,
	 .call = {.service = &holdfast__v1__fences__descriptor,
		  .method = "SetAutomatic",
		  .load = fencing_load,
		  .show = fencing_show},
	 .list = {.service = &holdfast__v1__fences__descriptor, .method = "Plan", .show = show_plan}},
};

const struct command_table fencing_commands = {fencing_rows, ARRAY_SIZE(fencing_rows)};
