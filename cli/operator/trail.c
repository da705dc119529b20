/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the heads of the nodes' trails that the server has received, and accepts those that went back, by an
 * operator's statement. */

#include "base/cleanup.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "command/values.h"
#include "show/rows.h"

#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>

/* Shows the last head and the last break of each trail. */
static DEFINE_ROWS(trail_table, holdfast__v1__node_trail, NULL, COL("NODE", "{node_id}"),
		   COL_NUMBER("RECORD", "{heads.record}"), COL("AGE", "{heads.time_ms:age}"),
		   COL("STATE", "{breaks?went back {breaks} times, last {breaks.shown.time_ms:age} ago|"
				"{behind_since_ms?behind for {behind_since_ms:age}: it mounted and "
				"showed no new head|ok}}"),
		   COL("SHA-256", "{heads.sha256}"));

static DEFINE_ROWS_OF(accept_page, holdfast__v1__accept_trail_response,
		      &holdfast__v1__accept_trail_request__descriptor, NULL,
		      LINE(NULL,
			   "the trail of node {^node_id} counts as whole from its last head on; that it "
			   "went back stays in the audit (holdfast operator audit --object 'node "
			   "{^node_id}')"));

static const struct command commands[] = {
	{.path = "operator trail",
	 .args = "[NODE]",
	 .help = "Show the heads of the nodes' trails that the server was shown",
	 .example = "worker-3",
	 .max_args = 1,
	 .arg_kinds = {WORD_NODE},
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "ListTrails",
		  .fields = {{"prefix", ARG(0)}},
		  .rows = &trail_table,
		  .pages = PAGES_LIST}},
	{.path = "operator trail accept",
	 .args = "NODE",
	 .help = "Record why the trail of a node went back; it counts as whole from its last head on",
	 .example = "worker-3 --reason 'reinstalled, ticket 4711'",
	 .options = OPTION_BIT(OPT_REASON) | OPTION_BIT(OPT_YES),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_NODE},
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "AcceptTrail",
		  .fields = {{"node_id", ARG(0)}, {"reason", OPT_REASON, FIELD_REASON}},
		  .question =
			  "Do you know why the trail of node {node_id:64} went back, and that nobody hides "
			  "anything by it?",
		  .rows = &accept_page}},
};

const struct command_table trail_commands = {commands, ARRAY_SIZE(commands)};
