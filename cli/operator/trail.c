/* SPDX-License-Identifier: Apache-2.0 */
/* The heads of the nodes' trails, as the server was shown them, and what a person says of those that went
 * back. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "command/values.h"
#include "show/output.h"

#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>

typedef Holdfast__V1__NodeTrail Trail;

enum { STATE_SIZE = 96, HEX_SIZE = 65, QUESTION_SIZE = 192 };

static const char *state_text(const Trail *trail, int64_t now_ms, char ret[static STATE_SIZE])
{
	char age[AGE_SIZE];

	(void)str_copy(ret, STATE_SIZE, "ok");
	if (trail->behind_since_ms != 0)
		(void)str_format(ret, STATE_SIZE, "behind for %s: it mounted and showed no new head",
				 age_text(trail->behind_since_ms, now_ms, age));
	if (trail->n_breaks > 0)
		(void)str_format(ret, STATE_SIZE, "went back %zu times, last %s ago", trail->n_breaks,
				 age_text(trail->breaks[trail->n_breaks - 1]->shown->time_ms, now_ms, age));
	return ret;
}

static void add_row(struct table *table, const Trail *trail, int64_t now_ms)
{
	const Holdfast__V1__TrailHead *head = trail->n_heads > 0 ? trail->heads[trail->n_heads - 1] : NULL;
	char record[24] = "";
	char sha256[HEX_SIZE] = "";
	char age[AGE_SIZE] = "";
	char state[STATE_SIZE];

	if (head) {
		(void)str_format(record, sizeof(record), "%" PRIu64, head->record);
		if (head->sha256.len == (HEX_SIZE - 1) / 2)
			hex_encode(sha256, head->sha256.data, head->sha256.len);
		(void)age_text(head->time_ms, now_ms, age);
	}
	table_add(table, (const char *const[]){trail->node_id, record, age, state_text(trail, now_ms, state),
					       sha256});
}

static enum status trail_list_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ListTrailsRequest *request = message;

	call_set(call, &request->prefix, call->inv->n_args > 0 ? call->inv->args[0] : NULL);
	return STATUS_OK;
}

static enum status trail_list_show(struct call *call, const void *message, struct error *err)
{
	static const struct column columns[] = {
		{.name = "NODE"},    {.name = "RECORD", .is_number = true},
		{.name = "AGE"},     {.name = "STATE", .is_wide = true},
		{.name = "SHA-256"},
	};
	const Holdfast__V1__ListTrailsResponse *answer = message;
	cleanup(table_freep) struct table *table = table_new(columns, ARRAY_SIZE(columns));
	int64_t now_ms = clock_realtime_ms();

	for (size_t i = 0; i < answer->n_trails && table; i++)
		add_row(table, answer->trails[i], now_ms);
	return table_print(table, NULL, err);
}

static enum status trail_accept_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__AcceptTrailRequest *request = message;

	call_set(call, &request->node_id, call->inv->args[0]);
	return call_reason(call, OPT_REASON, &request->reason, err);
}

static enum status trail_accept_fill(struct call *call, void *message, struct error *err)
{
	const Holdfast__V1__AcceptTrailRequest *request = message;
	char question[QUESTION_SIZE];

	(void)str_format(
		question, sizeof(question),
		"Do you know why the trail of node %.64s went back, and that nobody hides anything by it?",
		request->node_id);
	return value_confirm(call->inv, question, err);
}

static enum status trail_accept_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__AcceptTrailRequest *request = call->request;

	print_line(
		"the trail of node %s counts as whole from its last head on; that it went back stays in the "
		"audit (holdfast operator audit --object 'node %s')",
		request->node_id, request->node_id);
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "operator trail",
	 .args = "[NODE]",
	 .help = "Show the heads of the nodes' trails that the server was shown",
	 .example = "worker-3",
	 .max_args = 1,
	 .arg_kinds = {WORD_NODE},
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "ListTrails",
		  .load = trail_list_load,
		  .show = trail_list_show,
		  .pages = PAGES_LIST}},
	{.path = "operator trail accept",
	 .args = "NODE",
	 .help = "Say why the trail of a node went back; it counts as whole from its last head on",
	 .example = "worker-3 --reason 'reinstalled, ticket 4711'",
	 .options = OPTION_BIT(OPT_REASON) | OPTION_BIT(OPT_YES),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_NODE},
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "AcceptTrail",
		  .load = trail_accept_load,
		  .fill = trail_accept_fill,
		  .show = trail_accept_show}},
};

const struct command_table trail_commands = {commands, ARRAY_SIZE(commands)};
