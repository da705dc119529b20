/* SPDX-License-Identifier: Apache-2.0 */
/* A drain of a node: started at the server, then watched in the node's claims until nothing is left. */

#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "command/values.h"
#include "rpc/pbjson_word.h"
#include "show/output.h"
#include "show/progress.h"
#include "show/show.h"

#include <assert.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <inttypes.h>
#include <string.h>

enum { ROUND_MS = 2000 }; /* of one look at what is left: a blocking query */

#define DRAIN_TIMEOUT_US (UINT64_C(7200) * USEC_PER_SEC)
#define DEADLINE_MAX_MS (UINT64_C(30) * 86400 * 1000)

struct drain_watch {
	struct connection *connection;
	const char *node;
	bool quiet; /* JSON: only the end is shown */
	uint64_t started_us;
	uint64_t deadline_us;
	size_t n_first;			     /* claims at the beginning */
	Holdfast__V1__GetNodeResponse *last; /* owned; NULL: not looked yet */
};

static int by_claim_id(const void *a, const void *b)
{
	return strcmp((*(Holdfast__V1__Claim *const *)a)->id, (*(Holdfast__V1__Claim *const *)b)->id);
}

static void sort_claims(Holdfast__V1__GetNodeResponse *answer)
{
	if (answer->n_claims > 1)
		qsort(answer->claims, answer->n_claims, sizeof(Holdfast__V1__Claim *), by_claim_id);
}

static void print_claim(const Holdfast__V1__Claim *claim, bool is_gone)
{
	char state[PBJSON_WORD_SIZE];

	progress_end();
	print_line(
		"volume %s/%s of allocation %s: %s%s%s", claim->namespace_, claim->volume_id,
		claim->allocation_id,
		is_gone ? "released"
			: pbjson_word_text(&holdfast__v1__claim_state__descriptor, (int)claim->state, state),
		!is_gone && claim->last_error[0] ? ": " : "", is_gone ? "" : claim->last_error);
}

static bool is_freed(const Holdfast__V1__Claim *claim)
{
	return claim->state == HOLDFAST__V1__CLAIM_STATE__FREED;
}

static bool has_moved(const Holdfast__V1__Claim *before, const Holdfast__V1__Claim *now)
{
	return before->state != now->state || !str_eq(before->last_error, now->last_error);
}

/* Print what changed between two looks. Both lists are in the order of ids. */
static void print_changes(const Holdfast__V1__GetNodeResponse *before,
			  const Holdfast__V1__GetNodeResponse *now)
{
	size_t k = 0;

	for (size_t i = 0; i < before->n_claims; i++) {
		const Holdfast__V1__Claim *old = before->claims[i];

		while (k < now->n_claims && strcmp(now->claims[k]->id, old->id) < 0)
			print_claim(now->claims[k++], false);
		if (k == now->n_claims || strcmp(now->claims[k]->id, old->id) != 0) {
			if (!is_freed(old))
				print_claim(old, true);
			continue;
		}
		if (has_moved(old, now->claims[k]))
			print_claim(now->claims[k], is_freed(now->claims[k]));
		k++;
	}
	for (; k < now->n_claims; k++)
		print_claim(now->claims[k], is_freed(now->claims[k]));
}

static size_t count_held(const Holdfast__V1__GetNodeResponse *answer)
{
	size_t n = 0;

	for (size_t i = 0; i < answer->n_claims; i++)
		n += !is_freed(answer->claims[i]);
	return n;
}

static enum status look(struct drain_watch *watch, struct error *err)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	cleanup_message Holdfast__V1__GetNodeResponse *answer = NULL;
	enum status status;

	request.id = (char *)(uintptr_t)watch->node;
	request.index = watch->last ? watch->last->index : 0;
	request.wait_ms = watch->last ? ROUND_MS : 0;
	status = connection_call(watch->connection, &holdfast__v1__nodes__descriptor, "Get", &request.base,
				 ROUND_MS * USEC_PER_MSEC + CALL_TIMEOUT_US, &answer, err);
	if (status != STATUS_OK)
		return status;
	if (!answer->node)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no node");
	sort_claims(answer);
	if (!watch->last)
		watch->n_first = count_held(answer);
	else if (!watch->quiet)
		print_changes(watch->last, answer);
	message_freep(&watch->last);
	watch->last = TAKE_PTR(answer);
	return STATUS_OK;
}

static bool is_done(const Holdfast__V1__Node *node)
{
	return !node->drain || node->drain->started_ms == 0 || node->drain->done_ms != 0;
}

static void show_wait(const struct drain_watch *watch)
{
	const Holdfast__V1__Drain *drain = watch->last->node->drain;
	char age[CLOCK_TEXT_SIZE];
	bool is_late = drain && drain->deadline_ms != 0 && clock_realtime_ms() > drain->deadline_ms;

	progress_show("draining node %s: %zu of %zu claims left, %s%s", watch->node, count_held(watch->last),
		      watch->n_first, clock_format_duration(clock_monotonic_us() - watch->started_us, age),
		      is_late ? ", LATE: holdfast volume status ID --why says what each waits for" : "");
}

static enum status watch_drain(struct drain_watch *watch, struct error *err)
{
	enum status status = STATUS_OK;

	for (;;) {
		status = look(watch, err);
		if (status != STATUS_OK || is_done(watch->last->node))
			break;
		if (clock_monotonic_us() >= watch->deadline_us) {
			status = error_set(err, STATUS_DEADLINE_EXCEEDED, 0,
					   "node %s still holds %zu claims; its drain goes on without us. "
					   "Next: holdfast "
					   "node status %s",
					   watch->node, count_held(watch->last), watch->node);
			break;
		}
		show_wait(watch);
	}
	progress_end();
	return status;
}

static void print_start(const Holdfast__V1__DrainNodeResponse *answer, const char *node)
{
	print_line("node %s is draining, %zu volume%s not released yet", node, answer->n_volumes,
		   answer->n_volumes == 1 ? " is" : "s are");
	for (size_t i = 0; i < answer->n_volumes; i++) {
		const Holdfast__V1__DrainVolume *v = answer->volumes[i];

		print_line("volume %s/%s of allocation %s: %s", v->namespace_, v->volume_id, v->allocation_id,
			   v->text);
	}
}

/* The answer of the whole command, as if it had been made at its end. */
static enum status print_end(struct invocation *inv, const struct drain_watch *watch, struct error *err)
{
	Holdfast__V1__DrainNodeResponse end = HOLDFAST__V1__DRAIN_NODE_RESPONSE__INIT;

	end.node = watch->last->node;
	if (inv->options[OPT_JSON])
		return print_answer(&end.base, err);
	print_line(
		"node %s is drained: it holds nothing, and nothing new is placed there. Next: holdfast node "
		"eligibility %s --enable",
		watch->node, watch->node);
	return STATUS_OK;
}

static enum status wait_for_end(struct invocation *inv, struct connection *connection, const char *node,
				struct error *err)
{
	struct drain_watch watch = {
		.connection = connection,
		.node = node,
		.quiet = inv->options[OPT_JSON] != NULL,
		.started_us = clock_monotonic_us(),
	};
	uint64_t timeout_us;
	enum status status = value_timeout(inv, DRAIN_TIMEOUT_US, &timeout_us, err);

	watch.deadline_us = watch.started_us + timeout_us;
	if (status == STATUS_OK)
		status = watch_drain(&watch, err);
	if (status == STATUS_OK)
		status = print_end(inv, &watch, err);
	message_freep(&watch.last);
	return status;
}

enum status node_drain_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DrainNodeRequest *request = message;
	uint64_t timeout_us;
	enum status status =
		value_duration(call->inv, OPT_DEADLINE, 0, DEADLINE_MAX_MS, &request->deadline_ms, err);

	if (status == STATUS_OK)
		status = value_timeout(call->inv, DRAIN_TIMEOUT_US, &timeout_us, err);
	if (status == STATUS_OK && call_has(call, OPT_CANCEL) && call_has(call, OPT_DEADLINE))
		return usage_error(call->inv, err, "--cancel ends the drain: it has no --deadline");
	call_set(call, &request->reason, call->inv->options[OPT_REASON]);
	request->cancel = call_has(call, OPT_CANCEL);
	return status;
}

/* All work of the node is to stop; --cancel and a look at a drain in progress stop nothing. */
static enum status confirm(struct call *call, const char *node, struct error *err)
{
	struct drain_watch watch = {.connection = call->connection, .node = node};
	char question[PICK_ID_SIZE + 64];
	bool is_draining;
	enum status status;

	if (call_has(call, OPT_CANCEL) || call_has(call, OPT_YES))
		return STATUS_OK;
	status = look(&watch, err);
	is_draining = status == STATUS_OK && !is_done(watch.last->node);
	message_freep(&watch.last);
	if (status != STATUS_OK || is_draining)
		return status;
	(void)str_format(question, sizeof(question), "Stop all allocations of node %s?", node);
	return value_confirm(call->inv, question, err);
}

enum status node_drain_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DrainNodeRequest *request = message;
	enum status status = call_pick(call, pick_node, call->inv->args[0], &request->id, err);

	return status == STATUS_OK ? confirm(call, request->id, err) : status;
}

enum status node_drain_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__DrainNodeRequest *request = call->request;
	const Holdfast__V1__DrainNodeResponse *answer = message;
	bool waits = !request->cancel && !call_has(call, OPT_DETACH) && !call_has(call, OPT_NO_WAIT);

	if (call_has(call, OPT_JSON) && !waits)
		return print_answer(&answer->base, err);
	if (request->cancel)
		print_line("the drain of node %s is cancelled; it stays ineligible. Next: holdfast node "
			   "eligibility %s "
			   "--enable",
			   request->id, request->id);
	else if (!call_has(call, OPT_JSON))
		print_start(answer, request->id);
	return waits ? wait_for_end(call->inv, call->connection, request->id, err) : STATUS_OK;
}
