/* SPDX-License-Identifier: Apache-2.0 */
/* The outcome of each power fence, and its next step. */

#include "fence/fences.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "api/watch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "claim/attest_record.h"
#include "claim/claims.h"
#include "fence/fencers.h"
#include "log/log.h"
#include "model/fence.h"
#include "model/fence_order.h"
#include "node/lookup.h"
#include "node/session.h"
#include "rpc/wakeup.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/records.h"
#include "ticket/ticket.h"

#include <holdfast/v1/fences.pb-c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>

#define WHAT_FENCE "Fences.Fence"
#define WHAT_STEP "Fences.Step"
#define WHAT_TEST "Fences.Test"
#define WHAT_BEGIN "Fences.Begin"

enum { OBJECT_SIZE = 128, TEXT_SIZE = 512, LOOK_MS = 5000 };

typedef Holdfast__V1__Fence Fence;
typedef Holdfast__V1__FenceAnswer Answer;

/* A test that a fencer makes for a caller. Nothing of it is stored. */
struct test {
	LIST_ENTRY(test) of_fences;
	struct fences *fences;
	struct rpc_call *call;
	char fencer[NODE_ID_MAX + 1];
	uint8_t nonce[FENCE_ORDER_NONCE_SIZE];
	sd_event_source *timer; /* owned */
};

LIST_HEAD(test_list, test);

struct fences {
	struct server *server;
	sd_event_source *timer; /* owned; the next look at fences that are open */
	struct test_list tests;
};

/* --- records --- */

static char *key_of(const char *node_id, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_FENCE "%s", node_id);
	return ret;
}

static const Fence *find_fence(struct server *server, const char *node_id)
{
	char key[OBJECT_KEY_SIZE];

	return records_get(&server->state.records, key_of(node_id, key));
}

static struct record_entry *next_record(struct server *server, struct record_entry *entry)
{
	entry = entry ? records_next(entry) : records_from(&server->state.records, PREFIX_FENCE);
	return entry && str_starts_with(entry->key, PREFIX_FENCE) ? entry : NULL;
}

static enum fence_state state_of(const Fence *fence)
{
	/* one of a later version waits for a server that knows it */
	return (unsigned int)fence->state < FENCE_STATE_N ? (enum fence_state)fence->state : FENCE_UNKNOWN;
}

static bool is_unproved(enum fence_state state)
{
	return state == FENCE_REFUSED || state == FENCE_FAILED || state == FENCE_UNKNOWN;
}

struct fences_count fences_count(struct server *server)
{
	struct fences_count count = {.open = 0};
	struct record_entry *entry = NULL;

	while ((entry = next_record(server, entry))) {
		enum fence_state state = state_of((const void *)entry->record.message);

		count.open += fence_is_open(state);
		count.unproved += is_unproved(state);
	}
	return count;
}

const Fence *fences_of_node(struct server *server, const char *node_id)
{
	return find_fence(server, node_id);
}

size_t fences_count_automatic(struct server *server, int64_t since_ms)
{
	struct record_entry *entry = NULL;
	size_t n = 0;

	while ((entry = next_record(server, entry))) {
		const Fence *fence = (const void *)entry->record.message;

		n += fence->automatic && fence->create_time_ms > since_ms;
	}
	return n;
}

static void stage(struct change *change, const Fence *fence)
{
	char key[OBJECT_KEY_SIZE];

	change_put_record(change, key_of(fence->node_id, key), &fence->base);
}

static const char *name_object(const Fence *fence, char ret[static OBJECT_SIZE])
{
	(void)str_format(ret, OBJECT_SIZE, "node %s, boot %s", fence->node_id, fence->boot_id);
	return ret;
}

static enum log_event event_of(enum fence_state state)
{
	if (state == FENCE_RECORDED)
		return LOG_EVENT_NODE_FENCED;
	return is_unproved(state) ? LOG_EVENT_FENCE_UNPROVED : LOG_EVENT_NONE;
}

/* The record of a step, for people. */
static void put_on_record(struct server *server, struct change *change, const Fence *fence)
{
	const struct log_ctx about = {
		.node = fence->node_id, .op = "fence", .event = event_of(state_of(fence))};
	char object[OBJECT_SIZE], why[TEXT_SIZE];

	(void)str_format(why, sizeof(why), "%s%s%s%s%.300s", fence_state_name(state_of(fence)),
			 fence->fencer[0] != '\0' ? ", fencer " : "", fence->fencer,
			 fence->error[0] != '\0' ? ": " : "", fence->error);
	audit_own(server, change, WHAT_STEP, name_object(fence, object), why);
	log_ctx(is_unproved(state_of(fence)) ? LOG_ERR : LOG_NOTICE, &about,
		"the fence of node %s, boot %s: %s", fence->node_id, fence->boot_id, why);
}

/* Takes the step of @event, with what @draft has for the next state; nothing if the state refuses the event
 * or has passed it. */
static enum status advance(struct server *server, const Fence *draft, enum fence_event event,
			   struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	enum fence_state next;
	Fence fence = *draft;

	if (!fence_step(state_of(draft), event, &next) || next == state_of(draft))
		return STATUS_OK;
	fence.state = (Holdfast__V1__FenceState)next;
	fence.modify_time_ms = clock_realtime_ms();
	stage(&change, &fence);
	put_on_record(server, &change, &fence);
	return change_commit(server, &change, NULL, NULL, err);
}

static enum status end_fence(struct server *server, const Fence *fence, enum fence_event event,
			     const char *why, struct error *err)
{
	Fence draft = *fence;

	draft.error = (char *)(uintptr_t)why; /* only read */
	return advance(server, &draft, event, err);
}

/* --- orders --- */

static enum status make_order(struct server *server, enum fence_order_action action, const char *fencer,
			      const struct node *node, const char *who, struct fence_order *ret,
			      struct error *err)
{
	*ret = (struct fence_order){.magic = FENCE_ORDER_MAGIC,
				    .version = FENCE_ORDER_VERSION,
				    .action = (uint8_t)action,
				    .not_after_ms = (uint64_t)clock_realtime_ms() + FENCE_ORDER_VALID_MS};
	str_copy_text(ret->who, sizeof(ret->who), who);
	if (str_copy(ret->cluster, sizeof(ret->cluster), server->config.cluster) < 0 ||
	    str_copy(ret->fencer, sizeof(ret->fencer), fencer) < 0 ||
	    str_copy(ret->node, sizeof(ret->node), node->id) < 0 ||
	    !id_uuid_bytes(node->boot_id, ret->boot_id) ||
	    getrandom(ret->nonce, sizeof(ret->nonce), 0) != (ssize_t)sizeof(ret->nonce))
		return error_set(err, STATUS_INTERNAL, 0, "cannot order a fence of node %s", node->id);
	ticket_issuer_sign(server->issuer, ret, FENCE_ORDER_SIGNED_SIZE, ret->signature);
	return STATUS_OK;
}

/* The order is durable before it is sent: fences_note_durable() sends it. */
static enum status order_off(struct server *server, const Fence *fence, const struct node_entry *node,
			     struct error *err)
{
	const struct fencer *fencer = fencers_for_node(server->fencers, fence->node_id);
	struct fence_order order;
	Fence draft = *fence;

	if (!fencer)
		return STATUS_OK; /* one may come */
	TRY(make_order(server, FENCE_ORDER_OFF, fencer_name(fencer), &node->node, fence->by, &order, err));
	draft.fencer = (char *)(uintptr_t)fencer_name(fencer);
	draft.order = (ProtobufCBinaryData){.len = sizeof(order), .data = (uint8_t *)&order};
	draft.not_after_ms = (int64_t)order.not_after_ms;
	return advance(server, &draft, FENCE_EVENT_SENT, err);
}

/* A repeat is the same order, which the fencer carries out once. */
static void send_order(struct server *server, const Fence *fence)
{
	const struct fencer *fencer = fencers_find(server->fencers, fence->fencer);

	if (fencer)
		(void)fencer_send(fencer, fence->order.data, fence->order.len, NULL);
}

/* --- off --- */

/* "fencer f1: fence_ipmilan off at TIME, status off at TIME; NAME: reason", which is cut at its end. */
static void describe_proof(const Fence *fence, char ret[static EVIDENCE_DETAIL_MAX + 1])
{
	char off[CLOCK_TEXT_SIZE], status[CLOCK_TEXT_SIZE], text[TEXT_SIZE];

	(void)str_format(text, sizeof(text), "fencer %s: %.40s off at %s, status off at %s; %.60s: %.180s",
			 fence->fencer, fence->agent, clock_format(fence->off_ms, off),
			 clock_format(fence->status_ms, status), fence->by, fence->reason);
	str_copy_text(ret, EVIDENCE_DETAIL_MAX + 1, text);
}

/* Ids of the claims that wait for evidence about the boot. @ret owned by the caller. */
static size_t list_claims(const struct node_entry *node, const char *boot_id, char (**ret)[UUID_TEXT_SIZE])
{
	const struct claim_entry *entry;
	size_t n = 0;

	*ret = calloc(node->n_live + 1, sizeof(**ret));
	if (!*ret)
		return 0;
	LIST_FOREACH (entry, &node->claims, of_node)
		if (entry->claim.state <= CLAIM_UNPUBLISHING && str_eq(entry->claim.boot_id, boot_id))
			memcpy((*ret)[n++], entry->claim.id, UUID_TEXT_SIZE);
	return n;
}

static enum status free_claims(struct server *server, const struct node_entry *node, const Fence *fence,
			       uint32_t *ret_n, struct error *err)
{
	char detail[EVIDENCE_DETAIL_MAX + 1], boot_id[UUID_TEXT_SIZE];
	const struct claim_event fenced = {.type = CLAIM_EVENT_EVIDENCE,
					   .evidence = EVIDENCE_POWER_FENCE,
					   .detail = detail,
					   .boot_id = boot_id,
					   .now_ms = clock_realtime_ms()};
	cleanup_free char(*ids)[UUID_TEXT_SIZE] = NULL;
	size_t n;

	describe_proof(fence, detail);
	(void)str_copy(boot_id, sizeof(boot_id), fence->boot_id);
	n = list_claims(node, boot_id, &ids);
	if (!ids)
		return error_no_memory(err, "a fence");
	for (size_t i = 0; i < n; i++) {
		cleanup(change_release) struct change change = CHANGE_INIT;
		const struct claim_entry *entry = state_claim(&server->state, ids[i]);

		if (!entry)
			continue;
		TRY(claims_take_from_node(&change, entry, &fenced,
					  "its node was switched off by a power fence", err));
		TRY(change_commit(server, &change, NULL, NULL, err));
		++*ret_n;
	}
	return STATUS_OK;
}

static bool is_connected_in(const struct node_entry *node, const char *boot_id)
{
	return node->session && str_eq(node->session->boot_id, boot_id);
}

/* The proof is durable. As long as the node's session has not ended it may speak for itself. */
static enum status take_proof(struct server *server, const struct node_entry *node, const Fence *fence,
			      struct error *err)
{
	Fence draft;
	uint32_t n = 0;

	if (is_connected_in(node, fence->boot_id))
		return STATUS_OK;
	if (node->node.last_seen_ms > fence->answer_time_ms)
		return end_fence(
			server, fence, FENCE_EVENT_HEARD,
			"the node was heard after it was proved off: the switch may be another "
			"machine's; compare the fencer's file with the machine, and see holdfast node "
			"fence --test",
			err);
	TRY(free_claims(server, node, fence, &n, err));
	draft = *fence;
	draft.freed += n;
	return advance(server, &draft, FENCE_EVENT_RECORDED, err);
}

/* --- the next step --- */

static enum status check_time(struct server *server, const Fence *fence, struct error *err)
{
	int64_t now_ms = clock_realtime_ms();

	if (state_of(fence) == FENCE_ASKED && now_ms > fence->not_after_ms)
		return end_fence(
			server, fence, FENCE_EVENT_EXPIRED,
			"no fencer that can switch the node was connected; start it, then ask again: "
			"holdfast node fence",
			err);
	if (state_of(fence) == FENCE_SENT && now_ms > fence->not_after_ms + FENCE_ANSWER_MAX_MS)
		return end_fence(
			server, fence, FENCE_EVENT_EXPIRED,
			"the fencer did not answer: the node may be off; look at it, then ask again: "
			"holdfast node fence",
			err);
	return STATUS_OK;
}

static enum status take_step(struct server *server, const char *node_id, struct error *err)
{
	const struct node_entry *node = state_node(&server->state, node_id);
	const Fence *fence = find_fence(server, node_id);

	if (!fence)
		return STATUS_OK;
	if (!node || !str_eq(node->node.boot_id, fence->boot_id))
		return end_fence(server, fence, FENCE_EVENT_REBOOTED, "the node is in another boot", err);
	TRY(check_time(server, fence, err));
	fence = find_fence(server, node_id);
	if (state_of(fence) == FENCE_ASKED)
		return order_off(server, fence, node, err);
	if (state_of(fence) == FENCE_OFF)
		return take_proof(server, node, fence, err);
	return STATUS_OK;
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata);

/* While a fence is open, it is looked at for its time, and for failures on the way. */
static void rearm(struct fences *fences)
{
	if (fences->timer || fences->server->is_ending || fences_count(fences->server).open == 0)
		return;
	if (wakeup_arm(fences->server->event, &fences->timer, LOOK_MS * USEC_PER_MSEC, on_look, fences,
		       NULL) != STATUS_OK)
		log_line(LOG_ERR, "cannot look at open fences, ignoring");
}

static void drive(struct server *server, const char *node_id)
{
	struct error err;

	if (take_step(server, node_id, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.node = node_id, .op = "fence", .err = &err},
			"the fence does not continue; trying again");
	rearm(server->fences);
}

static void drive_all(struct server *server)
{
	struct record_entry *entry = NULL;
	char node_id[NODE_ID_MAX + 1];

	while ((entry = next_record(server, entry))) {
		const Fence *fence = (const void *)entry->record.message;

		if (!fence_is_open(state_of(fence)))
			continue;
		(void)str_copy(node_id, sizeof(node_id), fence->node_id);
		drive(server, node_id); /* replaces the record, not its entry */
	}
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct fences *fences = userdata;

	wakeup_disarm(&fences->timer);
	drive_all(fences->server);
	rearm(fences);
	return 0;
}

/* Sends the order of @durable, the record in the store; memory may be ahead of it. */
static void note_fence(struct server *server, const Fence *durable)
{
	const Fence *fence = find_fence(server, durable->node_id);

	if (!fence)
		return;
	if (state_of(durable) == FENCE_SENT && state_of(fence) == FENCE_SENT)
		send_order(server, durable);
	drive(server, durable->node_id);
}

void fences_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision)
{
	for (size_t i = 0; server->fences && i < n; i++) {
		const struct node *node = objects[i].value;
		const struct record *record = objects[i].value;

		if (objects[i].kind == OBJECT_RECORD && !objects[i].is_deletion &&
		    str_starts_with(objects[i].key, PREFIX_FENCE))
			note_fence(server, (const void *)record->message);
		else if (objects[i].kind == OBJECT_NODE && find_fence(server, node->id))
			drive(server, node->id);
	}
}

/* --- answers --- */

/* Off and status off, at times that do not fit. */
static void describe_times(const struct fence_answer *outcome, char ret[static TEXT_SIZE])
{
	char off[CLOCK_TEXT_SIZE], status[CLOCK_TEXT_SIZE], created[CLOCK_TEXT_SIZE],
		answered[CLOCK_TEXT_SIZE];

	(void)str_format(
		ret, TEXT_SIZE,
		"the fencer's times (off %s, status %s) are not between the fence and its answer (%s "
		"to %s): the node may be off; set the clock of the fencer's machine, then ask "
		"again: holdfast node fence",
		clock_format(outcome->off_ms, off), clock_format(outcome->status_ms, status),
		clock_format(outcome->created_ms, created), clock_format(outcome->answered_ms, answered));
}

static const char *outcome_text(const Answer *answer, const struct fence_answer *outcome,
				enum fence_event event, char ret[static TEXT_SIZE])
{
	if (event == FENCE_EVENT_PROVED)
		return "";
	if (event == FENCE_EVENT_FAILED && !answer->refused && outcome->off == FENCE_OUTCOME_DONE &&
	    outcome->status == FENCE_OUTCOME_IS_OFF) {
		describe_times(outcome, ret);
		return ret;
	}
	(void)str_format(ret, TEXT_SIZE, "%s: off %s, status %s%s%.250s", fence_state_name(FENCE_FAILED),
			 fence_outcome_name((enum fence_outcome)answer->off),
			 fence_outcome_name((enum fence_outcome)answer->status),
			 answer->error[0] != '\0' ? ": " : "", answer->error);
	if (event == FENCE_EVENT_REFUSED || event == FENCE_EVENT_UNSURE)
		str_copy_text(ret, TEXT_SIZE, answer->error);
	return ret;
}

static bool is_for(const Answer *answer, const Fence *fence, const char *fencer)
{
	struct fence_order order;

	return str_eq(fence->fencer, fencer) && answer->nonce.len == sizeof(order.nonce) &&
	       fence_order_read(fence->order.data, fence->order.len, &order, NULL) == STATUS_OK &&
	       memcmp(order.nonce, answer->nonce.data, sizeof(order.nonce)) == 0;
}

static const Fence *find_ordered(struct server *server, const Answer *answer, const char *fencer)
{
	struct record_entry *entry = NULL;

	while ((entry = next_record(server, entry)))
		if (is_for(answer, (const void *)entry->record.message, fencer))
			return (const void *)entry->record.message;
	return NULL;
}

static void take_answer(struct server *server, const Fence *fence, const Answer *answer)
{
	const struct fence_answer outcome = {.was_refused = answer->refused,
					     .is_unsure = answer->unsure,
					     .off = (enum fence_outcome)answer->off,
					     .status = (enum fence_outcome)answer->status,
					     .off_ms = answer->off_ms,
					     .status_ms = answer->status_ms,
					     .created_ms = fence->create_time_ms,
					     .answered_ms = clock_realtime_ms()};
	enum fence_event event = fence_judge(&outcome);
	char text[TEXT_SIZE], agent[NODE_ID_MAX + 1], error[TEXT_SIZE];
	Fence draft = *fence;
	struct error err;

	str_copy_text(agent, sizeof(agent), answer->agent);
	str_copy_text(error, sizeof(error), outcome_text(answer, &outcome, event, text));
	draft.agent = agent;
	draft.error = error;
	draft.off = answer->off;
	draft.status = answer->status;
	draft.off_ms = answer->off_ms;
	draft.status_ms = answer->status_ms;
	draft.answer_time_ms = outcome.answered_ms;
	if (advance(server, &draft, event, &err) != STATUS_OK) /* the fencer is asked again when it is back */
		log_ctx(LOG_ERR, &(struct log_ctx){.node = fence->node_id, .op = "fence", .err = &err},
			"cannot store the answer of fencer %s", fence->fencer);
}

static void end_test(struct test *test)
{
	LIST_REMOVE(test, of_fences);
	wakeup_disarm(&test->timer);
	free(test);
}

static bool take_test(struct fences *fences, const char *fencer, const Answer *answer)
{
	Holdfast__V1__TestFenceResponse response = HOLDFAST__V1__TEST_FENCE_RESPONSE__INIT;
	struct test *test;

	LIST_FOREACH (test, &fences->tests, of_fences)
		if (str_eq(test->fencer, fencer) && answer->nonce.len == sizeof(test->nonce) &&
		    memcmp(test->nonce, answer->nonce.data, sizeof(test->nonce)) == 0)
			break;
	if (!test)
		return false;
	response.fencer = test->fencer;
	response.agent = answer->agent;
	response.monitor = answer->monitor;
	response.status = answer->status;
	response.error = answer->error;
	rpc_call_reply(test->call, &response.base);
	end_test(test);
	return true;
}

static void on_answer(struct server *server, const char *fencer, const Answer *answer)
{
	const Fence *fence;

	if (take_test(server->fences, fencer, answer))
		return;
	fence = find_ordered(server, answer, fencer);
	if (fence && fencers_allow(server->fencers, fencer, fence->node_id))
		take_answer(server, fence, answer);
	else if (fence)
		log_ctx(LOG_WARNING, &(struct log_ctx){.node = fence->node_id, .op = "fence"},
			"fencer %s answers for node %s, which no block fencer of the settings gives it, "
			"ignoring",
			fencer, fence->node_id);
	else
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "fence"},
			"fencer %s answers an order that is not known here, ignoring", fencer);
}

/* An order may not have reached it, or its answer not the server. */
static void on_ready(struct server *server, const char *fencer)
{
	struct record_entry *entry = NULL;

	while ((entry = next_record(server, entry))) {
		const Fence *fence = (const void *)entry->record.message;

		if (str_eq(fence->fencer, fencer) &&
		    (state_of(fence) == FENCE_SENT || state_of(fence) == FENCE_UNKNOWN))
			send_order(server, fence);
	}
	drive_all(server);
}

static const struct fencer_events fencer_events = {.ready = on_ready, .answer = on_answer};

/* --- asking --- */

static enum status refuse_without_fencer(struct server *server, const char *node_id, struct error *err)
{
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "no fencer that is connected has node %s in its file (%zu connected); nothing was "
			 "changed. See holdfast-fencer.hcl(5), node",
			 node_id, fencers_count(server->fencers).connected);
}

static enum status check_fence(struct server *server, const struct node_entry *node,
			       const Holdfast__V1__FenceNodeRequest *request, struct error *err)
{
	if (node_is_connected(node) && !request->alive)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s is connected and can release its volumes itself: holdfast node "
				 "drain %s. If it must be switched off although it is alive: holdfast node "
				 "fence %s --alive --reason TEXT",
				 node->id, node->id, node->id);
	if (!fencers_for_node(server->fencers, node->id))
		return refuse_without_fencer(server, node->id, err);
	return STATUS_OK;
}

static void on_asked(struct server *server, void *userdata)
{
	cleanup_free struct answer_waiting *waiting = userdata;
	Holdfast__V1__FenceNodeResponse response = HOLDFAST__V1__FENCE_NODE_RESPONSE__INIT;

	response.fence = (Fence *)(uintptr_t)find_fence(server, waiting->id); /* only read */
	answer_durable(server, waiting->call, message_copy(&response.base));
}

/* @ret borrows from @node, @by and @reason. */
static void begin_fence(const struct node_entry *node, const char *by, const char *reason, Fence *ret)
{
	holdfast__v1__fence__init(ret);
	ret->node_id = (char *)(uintptr_t)node->id; /* only read, as the others */
	ret->boot_id = (char *)(uintptr_t)node->node.boot_id;
	ret->by = (char *)(uintptr_t)by;
	ret->reason = (char *)(uintptr_t)reason;
	ret->alive = node_is_connected(node);
	ret->create_time_ms = ret->modify_time_ms = clock_realtime_ms();
	ret->not_after_ms = ret->create_time_ms + FENCE_FENCER_WAIT_MS;
}

static enum status ask(struct server *server, struct rpc_call *call, const struct node_entry *node,
		       const Holdfast__V1__FenceNodeRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char detail[EVIDENCE_DETAIL_MAX + 1], who[ACCESS_WHO_SIZE], object[OBJECT_SIZE];
	Fence fence;

	TRY(attest_detail(server, call, "reason", request->reason, detail, err));
	TRY(check_fence(server, node, request, err));
	begin_fence(node, access_who(server, call, who), request->reason, &fence);
	stage(&change, &fence);
	audit_write(server, &change, call, WHAT_FENCE, name_object(&fence, object), request->reason);
	return change_commit_taking(server, &change, on_asked, answer_waiting_new(call, node->id), err);
}

enum status fences_begin(struct server *server, const struct node_entry *node, const char *reason,
			 struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[OBJECT_SIZE];
	Fence fence;

	begin_fence(node, "server", reason, &fence);
	fence.automatic = true;
	stage(&change, &fence);
	audit_own(server, &change, WHAT_BEGIN, name_object(&fence, object), reason);
	return change_commit(server, &change, NULL, NULL, err);
}

/* A node that is being fenced in this boot is not fenced twice: the caller gets the fence that there is. */
static enum status handle_fence(struct server *server, struct rpc_call *call,
				const Holdfast__V1__FenceNodeRequest *request, struct error *err)
{
	struct change nothing = CHANGE_INIT;
	struct node_entry *node;
	const Fence *fence;

	TRY(nodes_find(server, request->id, &node, err));
	fence = find_fence(server, node->id);
	if (fence && fence_is_open(state_of(fence)) && str_eq(fence->boot_id, node->node.boot_id))
		return change_commit_taking(server, &nothing, on_asked, answer_waiting_new(call, node->id),
					    err);
	return ask(server, call, node, request, err);
}

DEFINE_WRITE_METHOD(fences_handle_fence, Holdfast__V1__FenceNodeRequest, WHAT_FENCE, handle_fence)

/* --- tests --- */

static int on_test_overdue(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct test *test = userdata;
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
			"fencer %s did not answer; see systemctl status holdfast-fencer on its machine",
			test->fencer);
	rpc_call_fail(test->call, &err);
	end_test(test);
	return 0;
}

static enum status begin_test(struct fences *fences, struct rpc_call *call, const struct fencer *fencer,
			      const struct fence_order *order, struct error *err)
{
	struct test *test = calloc(1, sizeof(*test));
	enum status status;

	if (!test)
		return error_no_memory(err, "a test of a fence");
	test->fences = fences;
	test->call = call;
	(void)str_copy(test->fencer, sizeof(test->fencer), fencer_name(fencer));
	memcpy(test->nonce, order->nonce, sizeof(test->nonce));
	LIST_INSERT_HEAD(&fences->tests, test, of_fences);
	status = wakeup_arm(fences->server->event, &test->timer, FENCE_TEST_MAX_MS * USEC_PER_MSEC,
			    on_test_overdue, test, err);
	if (status == STATUS_OK)
		status = fencer_send(fencer, order, sizeof(*order), err);
	if (status != STATUS_OK)
		end_test(test);
	return status;
}

static enum status handle_test(struct server *server, struct rpc_call *call,
			       const Holdfast__V1__TestFenceRequest *request, struct error *err)
{
	const struct fencer *fencer;
	struct fence_order order;
	struct node_entry *node;
	char who[ACCESS_WHO_SIZE];

	TRY(nodes_find(server, request->id, &node, err));
	fencer = fencers_for_node(server->fencers, node->id);
	if (!fencer)
		return refuse_without_fencer(server, node->id, err);
	TRY(make_order(server, FENCE_ORDER_TEST, fencer_name(fencer), &node->node,
		       access_who(server, call, who), &order, err));
	return begin_test(server->fences, call, fencer, &order, err);
}

DEFINE_WRITE_METHOD(fences_handle_test, Holdfast__V1__TestFenceRequest, WHAT_TEST, handle_test)

/* --- reads --- */

static enum status handle_get(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
			      struct error *err)
{
	const char *id = ((const Holdfast__V1__GetFenceRequest *)(const void *)request)->id;
	Holdfast__V1__GetFenceResponse response = HOLDFAST__V1__GET_FENCE_RESPONSE__INIT;

	response.fence = (Fence *)(uintptr_t)find_fence(server, id); /* only read */
	if (!response.fence)
		return error_set(err, STATUS_NOT_FOUND, 0, "node %.64s was not fenced", id);
	answer_durable(server, call, message_copy(&response.base));
	return STATUS_OK;
}

static const struct read_method get_method = {.handle = handle_get};
DEFINE_READ_METHOD(fences_handle_get, get_method)

static bool show_fences(struct server *server, Holdfast__V1__ListFencesResponse *response)
{
	struct record_entry *entry = NULL;
	size_t n = 0;

	while ((entry = next_record(server, entry)))
		n++;
	response->fences = calloc(n + 1, sizeof(Fence *));
	if (!response->fences)
		return false;
	while ((entry = next_record(server, entry))) {
		response->fences[response->n_fences] = (Fence *)(void *)message_copy(entry->record.message);
		if (!response->fences[response->n_fences])
			return false;
		response->n_fences++;
	}
	return true;
}

static enum status handle_list(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
			       struct error *err)
{
	Holdfast__V1__ListFencesResponse *response = malloc(sizeof(*response));

	if (!response)
		return error_no_memory(err, "a list of fences");
	holdfast__v1__list_fences_response__init(response);
	if (!fencers_show(server->fencers, response) || !show_fences(server, response)) {
		holdfast__v1__list_fences_response__free_unpacked(response, NULL);
		return error_no_memory(err, "a list of fences");
	}
	answer_durable(server, call, &response->base);
	return STATUS_OK;
}

static const struct read_method list_method = {.handle = handle_list};
DEFINE_READ_METHOD(fences_handle_list, list_method)

/* --- the part --- */

static bool can_power_fence(const struct server *server, const char *node_id)
{
	return server->fencers && fencers_for_node(server->fencers, node_id) != NULL;
}

enum status fences_new(struct server *server, struct fences **ret, struct error *err)
{
	struct fences *fences = calloc(1, sizeof(*fences));

	if (!fences)
		return error_no_memory(err, "fences");
	fences->server = server;
	LIST_INIT(&fences->tests);
	*ret = fences;
	if (!server->fencers)
		TRY(fencers_new(server, &fencer_events, &server->fencers, err));
	server->can_power_fence = can_power_fence;
	drive_all(server);
	return STATUS_OK;
}

void fences_free(struct fences *fences)
{
	static const struct error ended = {.status = STATUS_UNAVAILABLE, .msg = "the server is ending"};
	struct test *test;

	if (!fences)
		return;
	while ((test = LIST_FIRST(&fences->tests))) {
		rpc_call_fail(test->call, &ended);
		end_test(test);
	}
	wakeup_disarm(&fences->timer);
	free(fences);
}
