/* SPDX-License-Identifier: Apache-2.0 */
/* The heads of the nodes' trails, as the server was shown them, and what a person says of those that went
 * back. */

#include "commands.h"
#include "connect.h"
#include "output.h"
#include "values.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

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

enum status cmd_operator_trail(struct invocation *inv, struct error *err)
{
	static const struct column columns[] = {
		{.name = "NODE"},    {.name = "RECORD", .is_number = true},
		{.name = "AGE"},     {.name = "STATE", .is_wide = true},
		{.name = "SHA-256"},
	};
	Holdfast__V1__ListTrailsRequest request = HOLDFAST__V1__LIST_TRAILS_REQUEST__INIT;
	cleanup(table_freep) struct table *table = table_new(columns, ARRAY_SIZE(columns));
	cleanup_connection struct connection *connection = NULL;
	cleanup_message Holdfast__V1__ListTrailsResponse *page = NULL;
	int64_t now_ms = clock_realtime_ms();
	enum status st = connect_server(inv, &connection, err);

	if (inv->n_args > 0)
		request.prefix = inv->args[0];
	while (st == STATUS_OK) {
		cleanup_message Holdfast__V1__ListTrailsResponse *before = TAKE_PTR(page);

		request.next_token = before ? before->next_token : request.next_token;
		st = connection_call(connection, &holdfast__v1__operator__descriptor, "ListTrails",
				     &request.base, CALL_TIMEOUT_US, (ProtobufCMessage **)(void *)&page, err);
		if (st == STATUS_OK && inv->options[OPT_JSON])
			st = print_answer(&page->base, err);
		for (size_t i = 0; st == STATUS_OK && i < page->n_trails && table; i++)
			add_row(table, page->trails[i], now_ms);
		if (st != STATUS_OK || page->next_token[0] == '\0')
			break;
	}
	if (st != STATUS_OK || inv->options[OPT_JSON])
		return st;
	return table_print(table, NULL, err);
}

enum status cmd_operator_trail_accept(struct invocation *inv, struct error *err)
{
	Holdfast__V1__AcceptTrailRequest request = HOLDFAST__V1__ACCEPT_TRAIL_REQUEST__INIT;
	cleanup_message Holdfast__V1__AcceptTrailResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char question[QUESTION_SIZE];
	enum status st = value_reason(inv, OPT_REASON, &request.reason, err);

	if (st == STATUS_OK)
		st = connect_server(inv, &connection, err);
	request.node_id = inv->args[0];
	(void)str_format(
		question, sizeof(question),
		"Do you know why the trail of node %.64s went back, and that nobody hides anything by it?",
		request.node_id);
	if (st == STATUS_OK)
		st = value_confirm(inv, question, err);
	if (st == STATUS_OK)
		st = connection_call(connection, &holdfast__v1__operator__descriptor, "AcceptTrail",
				     &request.base, CALL_TIMEOUT_US, (ProtobufCMessage **)(void *)&answer,
				     err);
	if (st != STATUS_OK)
		return st;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line(
		"the trail of node %s counts as whole from its last head on; that it went back stays in the "
		"audit (holdfast operator audit --object 'node %s')",
		request.node_id, request.node_id);
	return STATUS_OK;
}
