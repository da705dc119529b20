/* SPDX-License-Identifier: Apache-2.0 */
/* The heads of the nodes' trails, as the server was shown them, and what a person says of those that went
 * back. */

#include "base/cleanup.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "command/values.h"
#include "show/rows.h"

#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>

enum { QUESTION_SIZE = 192 };

/* Shows the last head and the last break of each trail. */
static DEFINE_ROWS(trail_table, holdfast__v1__node_trail, NULL, COL("NODE", "{node_id}"),
		   COL_NUMBER("RECORD", "{heads.record}"), COL("AGE", "{heads.time_ms:age}"),
		   COL_CUT("STATE", "{breaks?went back {breaks} times, last {breaks.shown.time_ms:age} ago|"
				    "{behind_since_ms?behind for {behind_since_ms:age}: it mounted and "
				    "showed no new head|ok}}"),
		   COL("SHA-256", "{heads.sha256}"));

static enum status trail_list_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ListTrailsRequest *request = message;

	call_set(call, &request->prefix, call->inv->n_args > 0 ? call->inv->args[0] : NULL);
	return STATUS_OK;
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
		  .rows = &trail_table,
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
