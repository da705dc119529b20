/* SPDX-License-Identifier: Apache-2.0 */
/* The outcome of each fence, and its next step. */

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
#include "base/tree.h"
#include "claim/attest_record.h"
#include "claim/claims.h"
#include "fence/fencers.h"
#include "fence/network.h"
#include "log/log.h"
#include "model/fence.h"
#include "model/fence_order.h"
#include "node/lookup.h"
#include "node/machine_code.h"
#include "node/session.h"
#include "plugin/fence_clients.h"
#include "rpc/wakeup.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/records.h"
#include "ticket/ticket.h"

#include <holdfast/v1/fences.pb-c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/queue.h>
#include <sys/random.h>

#define WHAT_FENCE "Fences.Fence"
#define WHAT_STEP "Fences.Step"
#define WHAT_TEST "Fences.Test"
#define WHAT_BEGIN "Fences.Begin"
#define WHAT_LIFT "Fences.Lift"

enum { OBJECT_SIZE = 256, TEXT_SIZE = 512, LOOK_MS = 5000 };

typedef Holdfast__V1__Fence Fence;
typedef Holdfast__V1__FenceClients Clients;
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

/* A caller who is answered with a fence. */
struct asked {
	struct rpc_call *call;
	char node_id[NODE_ID_MAX + 1], plugin_id[PLUGIN_ID_MAX + 1];
};

/* The lift of a network fence, from its first call until it has succeeded, in memory only. */
struct lift {
	RB_ENTRY(lift) by_key;
	char key[OBJECT_KEY_SIZE];
	uint64_t look;				       /* in which a controller was asked; 0: never */
	char controller[NODE_ID_MAX + 1];	       /* that one */
	char failed[FENCE_TRIES_MAX][NODE_ID_MAX + 1]; /* controllers whose failure is on record */
	size_t n_failed;
};

RB_HEAD(lift_tree, lift);

static int compare_lifts(const struct lift *a, const struct lift *b)
{
	return strcmp(a->key, b->key);
}

TREE_GENERATE(lift_tree, lift, by_key, compare_lifts)

struct fences {
	struct server *server;
	sd_event_source *timer; /* owned; the next look at fences that are open */
	uint64_t n_looks;	/* from 1 */
	struct lift_tree lifts;
	struct test_list tests;
	bool must_repeat; /* orders: the answer of one was not stored */
};

/* --- records --- */

/* @plugin_id empty: of a power fence. */
static char *key_of(const char *node_id, const char *plugin_id, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_FENCE "%s%s%s", node_id,
			 plugin_id[0] != '\0' ? "/" : "", plugin_id);
	return ret;
}

static const Fence *find_fence(struct server *server, const char *node_id, const char *plugin_id)
{
	char key[OBJECT_KEY_SIZE];

	return records_get(&server->state.records, key_of(node_id, plugin_id, key));
}

static bool is_network(const Fence *fence)
{
	return fence->plugin_id[0] != '\0';
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
		count.in_force += is_network((const void *)entry->record.message) && fence_is_in_force(state);
	}
	return count;
}

const Fence *fences_find(struct server *server, const char *node_id, const char *plugin_id)
{
	return find_fence(server, node_id, plugin_id);
}

/* The fencer's clock may be ahead: the proof is not of a time after its answer. */
static int64_t proved_ms(const Fence *fence)
{
	return fence->status_ms < fence->answer_time_ms ? fence->status_ms : fence->answer_time_ms;
}

/* Returns when the node was heard. While the clock was ahead, that is stored as a time to come. */
static int64_t heard_ms(const struct server *server, const struct node_entry *node)
{
	int64_t silent_ms = (int64_t)((clock_monotonic_us() - node->heard_us) / USEC_PER_MSEC);

	if (node->heard_us == 0)
		silent_ms = nodes_led_ms(server);
	return MIN(node->node.last_seen_ms, clock_realtime_ms() - silent_ms);
}

/* Is the proof from before this server began to lead? */
static bool is_old(const struct server *server, const struct node_entry *node, const Fence *fence)
{
	return node->proved_us == 0 || proved_ms(fence) <= nodes_started_ms(server);
}

/* The clock decides only about messages before this server got the proof: it may have been set since. */
bool fences_heard_after(const struct server *server, const struct node_entry *node, const Fence *fence)
{
	return node->heard_us > node->proved_us || heard_ms(server, node) > proved_ms(fence);
}

size_t fences_count_automatic(struct server *server, int64_t within_ms)
{
	const int64_t now_ms = clock_realtime_ms();
	struct record_entry *entry = NULL;
	size_t n = 0;

	while ((entry = next_record(server, entry))) {
		const Fence *fence = (const void *)entry->record.message;

		n += fence->automatic && llabs(now_ms - fence->create_time_ms) < within_ms;
	}
	return n;
}

static void stage(struct change *change, const Fence *fence)
{
	char key[OBJECT_KEY_SIZE];

	change_put_record(change, key_of(fence->node_id, fence->plugin_id, key), &fence->base);
}

static const char *name_object(const Fence *fence, char ret[static OBJECT_SIZE])
{
	(void)str_format(ret, OBJECT_SIZE, "node %s, boot %s%s%s", fence->node_id, fence->boot_id,
			 is_network(fence) ? ", plugin " : "", fence->plugin_id);
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

	(void)str_format(why, sizeof(why), "%s%s%s%s%.64s%s%.300s", fence_state_name(state_of(fence)),
			 fence->fencer[0] == '\0' ? ""
			 : is_network(fence)	  ? ", controller on node "
						  : ", fencer ",
			 fence->fencer, fence->fencer_address[0] != '\0' ? " at " : "", fence->fencer_address,
			 fence->error[0] != '\0' ? ": " : "", fence->error);
	audit_own(server, change, WHAT_STEP, name_object(fence, object), why);
	log_ctx(is_unproved(state_of(fence)) ? LOG_ERR : LOG_NOTICE, &about, "the fence of %s: %s", object,
		why);
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
			      const char *node_id, const char *boot_id, const char *who,
			      struct fence_order *ret, struct error *err)
{
	*ret = (struct fence_order){.magic = FENCE_ORDER_MAGIC,
				    .version = FENCE_ORDER_VERSION,
				    .action = (uint8_t)action,
				    .not_after_ms = (uint64_t)clock_realtime_ms() + FENCE_ORDER_VALID_MS};
	str_copy_text(ret->who, sizeof(ret->who), who);
	if (str_copy(ret->cluster, sizeof(ret->cluster), server->config.cluster) < 0 ||
	    str_copy(ret->fencer, sizeof(ret->fencer), fencer) < 0 ||
	    str_copy(ret->node, sizeof(ret->node), node_id) < 0 || !id_uuid_bytes(boot_id, ret->boot_id) ||
	    getrandom(ret->nonce, sizeof(ret->nonce), 0) != (ssize_t)sizeof(ret->nonce))
		return error_set(err, STATUS_INTERNAL, 0, "cannot order a fence of node %s", node_id);
	ticket_issuer_sign(server->issuer, ret, FENCE_ORDER_SIGNED_SIZE, ret->signature);
	return STATUS_OK;
}

/* The order is durable before it is sent: fences_note_durable() sends it. */
static enum status order_off(struct server *server, struct node_entry *node, const Fence *fence,
			     struct error *err)
{
	const struct fencer *fencer = fencers_for_node(server->fencers, fence->node_id);
	struct fence_order order;
	Fence draft = *fence;

	if (!fencer)
		return STATUS_OK; /* one may come */
	TRY(make_order(server, FENCE_ORDER_OFF, fencer_name(fencer), fence->node_id, fence->boot_id,
		       fence->by, &order, err));
	draft.fencer = (char *)(uintptr_t)fencer_name(fencer);
	draft.order = (ProtobufCBinaryData){.len = sizeof(order), .data = (uint8_t *)&order};
	draft.not_after_ms = (int64_t)order.not_after_ms;
	node->proved_us = 0;
	return advance(server, &draft, FENCE_EVENT_SENT, err);
}

/* A repeat is the same order, which the fencer carries out once. */
static void send_order(struct server *server, const Fence *fence)
{
	const struct fencer *fencer = fencers_find(server->fencers, fence->fencer);

	if (fencer)
		(void)fencer_send(fencer, fence->order.data, fence->order.len, NULL);
}

/* --- controllers --- */

static bool was_tried(const Fence *fence, const char *id)
{
	for (size_t i = 0; i < fence->n_tried; i++)
		if (str_eq(fence->tried[i], id))
			return true;
	return str_eq(fence->fencer, id);
}

/* A controller that can fence the node, and was not tried; never on the node itself. */
static const char *find_controller(struct server *server, const Fence *fence)
{
	const char *found = network_controller_after(server, fence->plugin_id, "");

	while (found && (str_eq(found, fence->node_id) || was_tried(fence, found)))
		found = network_controller_after(server, fence->plugin_id, found);
	return found;
}

static enum status ask_controller(struct server *server, const Fence *fence, struct error *err)
{
	const char *controller = find_controller(server, fence);
	Fence draft = *fence;

	if (!controller)
		return STATUS_OK;		      /* one may come */
	draft.fencer = (char *)(uintptr_t)controller; /* only read */
	draft.not_after_ms = clock_realtime_ms() + FENCE_NETWORK_MAX_MS;
	return advance(server, &draft, FENCE_EVENT_SENT, err);
}

/* --- the next fencer or controller --- */

static bool is_connected_in(const struct node_entry *node, const char *boot_id)
{
	return node->session && str_eq(node->session->boot_id, boot_id);
}

/* Is the node connected again? A fence that was not asked for a connected node must not begin then. One that
 * has freed claims goes on: others may write. */
static bool hits_present(const struct node_entry *node, const Fence *fence)
{
	return node && !fence->alive && fence->freed == 0 && is_connected_in(node, fence->boot_id);
}

static const char back[] =
	"the node is connected again, and nothing was touched; if it must be fenced although "
	"it is alive: holdfast node fence --alive";

static const char back_unsure[] = "the node is connected again; if its storage refuses it, lift the fence";

/* The same fence, for @next. The answer of the one before stays as the error. */
static enum status try_other(struct server *server, const Fence *fence, const char *next,
			     const struct fence_order *order, const char *why, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char *tried[FENCE_TRIES_MAX];
	Fence draft = *fence;

	for (size_t i = 0; i < fence->n_tried; i++)
		tried[i] = fence->tried[i];
	tried[draft.n_tried++] = fence->fencer;
	draft.tried = tried;
	draft.fencer = (char *)(uintptr_t)next; /* only read, as the next two */
	draft.error = (char *)(uintptr_t)why;
	if (order) {
		draft.order =
			(ProtobufCBinaryData){.len = sizeof(*order), .data = (uint8_t *)(uintptr_t)order};
		draft.not_after_ms = (int64_t)order->not_after_ms;
	}
	draft.modify_time_ms = clock_realtime_ms();
	stage(&change, &draft);
	put_on_record(server, &change, &draft);
	return change_commit(server, &change, NULL, NULL, err);
}

/* Returns whether another one was asked, after @fence has ended with @event. */
static bool ask_other(struct server *server, const Fence *fence, enum fence_event event, const char *why)
{
	const struct node_entry *node = state_node(&server->state, fence->node_id);
	const struct fencer *fencer = NULL;
	const char *next = NULL;
	struct fence_order order;
	enum fence_state state;

	if (!fence_step(state_of(fence), FENCE_EVENT_NEXT, &state) || !node || hits_present(node, fence) ||
	    fence->n_tried + 1 >= FENCE_TRIES_MAX)
		return false;
	if (is_network(fence)) {
		next = find_controller(server, fence);
		return next && try_other(server, fence, next, NULL, why, NULL) == STATUS_OK;
	}
	if (event != FENCE_EVENT_REFUSED && event != FENCE_EVENT_FAILED)
		return false; /* it may be about to answer */
	fencer = fencers_other(server->fencers, fence->node_id, fence->fencer, fence->tried, fence->n_tried);
	if (!fencer || make_order(server, FENCE_ORDER_OFF, fencer_name(fencer), fence->node_id,
				  fence->boot_id, fence->by, &order, NULL) != STATUS_OK)
		return false;
	return try_other(server, fence, fencer_name(fencer), &order, why, NULL) == STATUS_OK;
}

/* --- off --- */

/* "fencer f1: fence_ipmilan off at TIME, status off at TIME, from ADDRESS; NAME: reason", which is cut at its
 * end. */
static void describe_proof(const Fence *fence, char ret[static EVIDENCE_DETAIL_MAX + 1])
{
	char off[CLOCK_TEXT_SIZE], status[CLOCK_TEXT_SIZE], text[TEXT_SIZE];

	if (is_network(fence))
		(void)str_format(text, sizeof(text),
				 "plugin %s, controller on node %s: %s%s fenced at %s, listed at %s; %.60s: "
				 "%.100s",
				 fence->plugin_id, fence->fencer, fence->n_cidrs > 0 ? fence->cidrs[0] : "",
				 fence->n_cidrs > 1 ? " and others" : "", clock_format(fence->off_ms, off),
				 clock_format(fence->status_ms, status), fence->by, fence->reason);
	else
		(void)str_format(text, sizeof(text),
				 "fencer %s: %.40s off at %s, status off at %s%s%.64s; %.60s: %.180s",
				 fence->fencer, fence->agent, clock_format(fence->off_ms, off),
				 clock_format(fence->status_ms, status),
				 fence->fencer_address[0] != '\0' ? ", from " : "", fence->fencer_address,
				 fence->by, fence->reason);
	str_copy_text(ret, EVIDENCE_DETAIL_MAX + 1, text);
}

/* Ids of the claims that wait for the evidence of @fence. A switch may be the one of the node's new machine:
 * it proves nothing about the former one. @ret owned by the caller. */
static size_t list_claims(const struct node_entry *node, const Fence *fence, char (**ret)[UUID_TEXT_SIZE])
{
	const struct claim_entry *entry;
	size_t n = 0;

	*ret = calloc(node->n_live + 1, sizeof(**ret));
	if (!*ret)
		return 0;
	LIST_FOREACH (entry, &node->claims, of_node)
		if (entry->claim.state <= CLAIM_UNPUBLISHING &&
		    str_eq(entry->claim.boot_id, fence->boot_id) &&
		    (is_network(fence) ? str_eq(entry->claim.plugin_id, fence->plugin_id)
				       : !entry->claim.other_machine))
			memcpy((*ret)[n++], entry->claim.id, UUID_TEXT_SIZE);
	return n;
}

static enum status free_claims(struct server *server, const struct node_entry *node, const Fence *fence,
			       uint32_t *ret_n, struct error *err)
{
	char detail[EVIDENCE_DETAIL_MAX + 1];
	const struct claim_event fenced = {.type = CLAIM_EVENT_EVIDENCE,
					   .evidence = is_network(fence) ? EVIDENCE_NETWORK_FENCE
									 : EVIDENCE_POWER_FENCE,
					   .detail = detail,
					   .boot_id = fence->boot_id,
					   .plugin_id = fence->plugin_id,
					   .now_ms = clock_realtime_ms()};
	const char *why = is_network(fence) ? "its node was fenced at the storage of its plugin"
					    : "its node was switched off by a power fence";
	cleanup_free char(*ids)[UUID_TEXT_SIZE] = NULL;
	size_t n;

	describe_proof(fence, detail);
	n = list_claims(node, fence, &ids);
	if (!ids)
		return error_no_memory(err, "a fence");
	for (size_t i = 0; i < n; i++) {
		cleanup(change_release) struct change change = CHANGE_INIT;
		const struct claim_entry *entry = state_claim(&server->state, ids[i]);

		if (!entry)
			continue;
		TRY(claims_take_from_node(&change, entry, &fenced, why, err));
		TRY(change_commit(server, &change, NULL, NULL, err));
		++*ret_n;
	}
	return STATUS_OK;
}

static const char heard[] =
	"the node was heard after it was proved off: the switch may be another machine's, "
	"or the fencer's clock is behind; compare the fencer's file with the machine, "
	"and see holdfast node fence --test";

static enum status end_proof(struct server *server, const Fence *fence, bool doubted, const char *why,
			     struct error *err)
{
	Fence draft = *fence;

	draft.doubted = doubted;
	return end_fence(server, &draft, FENCE_EVENT_HEARD, why, err);
}

/* Ends a proof of a power fence that counts no longer: the server cannot know that it has heard nothing of
 * the machine since then. */
static enum status check_silence(struct server *server, const struct node_entry *node, const Fence *fence,
				 struct error *err)
{
	if (fence->epoch != state_epoch(&server->state))
		return end_proof(server, fence, true,
				 "the node was proved off before the server has lost history; ask again: "
				 "holdfast node fence",
				 err);
	if (fences_heard_after(server, node, fence))
		return end_proof(server, fence, false, heard, err);
	if (node->is_awaited && is_old(server, node, fence))
		return end_proof(
			server, fence, true,
			"a former server may have heard the node after it was proved off; ask again: "
			"holdfast node fence",
			err);
	return STATUS_OK;
}

/* A power fence waits for the session to end. Nodes that are alive have the time to come back to a new
 * leader: one that was connected until then refutes a proof of any time, others one from before. */
static bool must_wait(const struct server *server, const struct node_entry *node, const Fence *fence)
{
	return is_connected_in(node, fence->boot_id) || ((node->is_awaited || is_old(server, node, fence)) &&
							 nodes_led_ms(server) < nodes_grace_ms(server));
}

/* Its node is back in the boot in which it was proved off: the switch is another machine's. */
static enum status end_doubt(struct server *server, const Fence *fence, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Fence draft = *fence;

	draft.doubted = false;
	draft.error = (char *)(uintptr_t)heard; /* only read */
	draft.modify_time_ms = clock_realtime_ms();
	stage(&change, &draft);
	put_on_record(server, &change, &draft);
	return change_commit(server, &change, NULL, NULL, err);
}

/* The proof is durable. A node that is switched off may speak for itself as long as its session has not
 * ended; one that its storage refuses may be connected. */
static enum status take_proof(struct server *server, const struct node_entry *node, const Fence *fence,
			      struct error *err)
{
	Fence draft;
	uint32_t n = 0;

	if (node)
		TRY(free_claims(server, node, fence, &n, err));
	draft = *fence;
	draft.freed += n;
	return advance(server, &draft, FENCE_EVENT_RECORDED, err);
}

/* --- the next step --- */

static enum status check_time(struct server *server, const Fence *fence, struct error *err)
{
	int64_t now_ms = clock_realtime_ms();

	if (fence->not_after_ms > now_ms + FENCE_ANSWER_MAX_MS)
		now_ms = INT64_MAX; /* the clock was set back: since when it is open is unknown */
	if (is_network(fence) && now_ms > fence->not_after_ms &&
	    (state_of(fence) == FENCE_ASKED || state_of(fence) == FENCE_SENT))
		return end_fence(server, fence, FENCE_EVENT_EXPIRED,
				 "no other connected node ran a controller of the plugin that can fence; see "
				 "holdfast plugin status, then ask again: holdfast node fence",
				 err);
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

/* A node that was purged and registered again may be another machine, and the first may never have shown its
 * own. */
static bool is_of_fence(const struct node *node, const Fence *fence)
{
	return node->create_time_ms <= fence->create_time_ms &&
	       node_machine_shows(fence->machine, node->machine);
}

/* Has the node reported from another boot, on the same machine? A boot of another machine does not end what
 * the first one does. */
static bool has_returned(const struct node_entry *node, const Fence *fence)
{
	return node && node->node.boot_id[0] != '\0' && !str_eq(node->node.boot_id, fence->boot_id) &&
	       node_past_boot(&node->node, node->node.boot_id) == 0 && /* else it is another machine's */
	       is_of_fence(&node->node, fence);
}

/* Returns NULL when memory is short. */
static struct lift *find_lift(struct fences *fences, const Fence *fence)
{
	struct lift *made = calloc(1, sizeof(*made));
	struct lift *known;

	if (!made)
		return NULL;
	(void)key_of(fence->node_id, fence->plugin_id, made->key);
	str_copy_text(made->controller, sizeof(made->controller), fence->fencer);
	known = RB_INSERT(lift_tree, &fences->lifts, made);
	if (!known)
		return made;
	free(made);
	return known;
}

static void forget_lift(struct fences *fences, struct lift *lift)
{
	RB_REMOVE(lift_tree, &fences->lifts, lift);
	free(lift);
}

static void forget_ended_lifts(struct fences *fences)
{
	struct lift *next, *lift;

	RB_FOREACH_SAFE (lift, lift_tree, &fences->lifts, next) {
		const Fence *fence = records_get(&fences->server->state.records, lift->key);

		if (!fence || state_of(fence) != FENCE_LIFTING)
			forget_lift(fences, lift);
	}
}

/* One controller after the other is asked until the storage accepts the node again; the fenced node's own may
 * be one of them. Each look asks one: a failure that is stored, and any report of the node, come here too. */
static enum status lift(struct server *server, const Fence *fence, struct error *err)
{
	struct lift *lift = find_lift(server->fences, fence);
	const char *controller;

	if (!lift)
		return error_no_memory(err, "the lift of a fence");
	controller = network_controller_after(server, fence->plugin_id, lift->controller);
	if (!controller)
		controller = network_controller_after(server, fence->plugin_id, "");
	if (!controller || lift->look == server->fences->n_looks)
		return STATUS_OK;
	lift->look = server->fences->n_looks;
	str_copy_text(lift->controller, sizeof(lift->controller), controller);
	return network_begin(server->network, fence, controller, true, err);
}

/* A server that has lost history may know an earlier fence than that which is in force, and by that lift the
 * later one: the node may be fenced in the boot that it reports first. It is let in by the boot after that.
 */
static enum status doubt(struct server *server, const struct node_entry *node, const Fence *fence,
			 struct error *err)
{
	static char why[] =
		"the server has lost history: the storage may refuse the node in this boot. If its "
		"writes fail, reboot it, which lifts the fence";
	cleanup(change_release) struct change change = CHANGE_INIT;
	enum fence_state next = state_of(fence);
	Fence draft = *fence;

	if (!node || node->node.boot_id[0] == '\0' || node->is_unreported ||
	    node_past_boot(&node->node, node->node.boot_id) != 0 || !is_of_fence(&node->node, fence))
		return STATUS_OK; /* its machine has not reported yet, or a person lets it in */
	if (fence_is_in_force(state_of(fence)) &&
	    (!str_eq(node->node.boot_id, fence->boot_id) || state_of(fence) == FENCE_OFF)) {
		(void)fence_step(state_of(fence), FENCE_EVENT_DOUBT, &next);
		draft.boot_id = (char *)(uintptr_t)node->node.boot_id; /* only read */
		draft.error = why;
	}
	draft.state = (Holdfast__V1__FenceState)next;
	draft.epoch = state_epoch(&server->state);
	draft.modify_time_ms = clock_realtime_ms();
	stage(&change, &draft);
	put_on_record(server, &change, &draft);
	return change_commit(server, &change, NULL, NULL, err);
}

static bool has_address(const Fence *fence, const char *cidr)
{
	for (size_t i = 0; i < fence->n_cidrs; i++)
		if (str_eq(fence->cidrs[i], cidr))
			return true;
	return false;
}

/* Has the node reported an address in the fenced boot that the fence lacks? */
static bool lacks_address(const Fence *fence, const Clients *clients)
{
	for (size_t i = 0; i < clients->n_cidrs; i++)
		if (!has_address(fence, clients->cidrs[i]))
			return true;
	return false;
}

/* Fences the node once more, with all addresses of @clients. */
static enum status fence_more(struct server *server, const Fence *fence, const Clients *clients,
			      struct error *err)
{
	static char why[] = "the node has reported another address in the boot that is fenced";
	Fence draft = *fence;

	draft.cidrs = clients->cidrs;
	draft.n_cidrs = clients->n_cidrs;
	draft.error = why;
	draft.n_tried = 0;
	draft.not_after_ms = clock_realtime_ms() + FENCE_NETWORK_MAX_MS;
	return advance(server, &draft, FENCE_EVENT_MORE, err);
}

/* An address that comes after the proof. One by which the node cannot be fenced is an alarm. */
static enum status add_addresses(struct server *server, const Fence *fence, struct error *err)
{
	const Clients *clients;

	if (fence_clients_find(server, fence->node_id, fence->plugin_id, fence->boot_id, &clients, NULL) !=
		    STATUS_OK ||
	    !lacks_address(fence, clients))
		return STATUS_OK;
	return fence_more(server, fence, clients, err);
}

/* The storage refuses the addresses that the node had when the fence began. */
static enum status take_network_proof(struct server *server, const struct node_entry *node,
				      const Fence *fence, struct error *err)
{
	const Clients *clients;
	struct error why;

	if (!node)
		return take_proof(server, node, fence, err);
	if (fence_clients_find(server, fence->node_id, fence->plugin_id, fence->boot_id, &clients, &why) !=
	    STATUS_OK)
		return end_fence(server, fence, FENCE_EVENT_HEARD, why.msg, err);
	return lacks_address(fence, clients) ? fence_more(server, fence, clients, err)
					     : take_proof(server, node, fence, err);
}

static enum status take_network_step(struct server *server, const struct node_entry *node,
				     const char *node_id, const char *plugin_id, struct error *err)
{
	const Fence *fence = find_fence(server, node_id, plugin_id);

	if (network_is_busy(server->network, fence))
		return STATUS_OK; /* nothing overtakes a call: it could take effect after the next one */
	if (fence->epoch != state_epoch(&server->state))
		return doubt(server, node, fence, err);
	if (state_of(fence) == FENCE_LIFTING)
		return lift(server, fence, err);
	if (has_returned(node, fence))
		return end_fence(server, fence, FENCE_EVENT_RETURNED, "the node is in another boot", err);
	TRY(check_time(server, fence, err));
	fence = find_fence(server, node_id, plugin_id);
	if (state_of(fence) == FENCE_ASKED)
		return hits_present(node, fence) ? end_fence(server, fence, FENCE_EVENT_EXPIRED, back, err)
						 : ask_controller(server, fence, err);
	if (state_of(fence) == FENCE_SENT && !fence->touched && hits_present(node, fence))
		return end_fence(server, fence, FENCE_EVENT_EXPIRED, back_unsure, err);
	if (state_of(fence) == FENCE_SENT && network_can_ask(server, plugin_id, fence->fencer))
		return network_begin(server->network, fence, fence->fencer, false, err);
	if (state_of(fence) == FENCE_SENT) {
		Fence draft = *fence;

		draft.touched = true; /* it may have been called before this server started */
		(void)ask_other(server, &draft, FENCE_EVENT_UNSURE, "its controller has left");
		return STATUS_OK; /* the record may be another one now */
	}
	if (state_of(fence) == FENCE_OFF)
		return take_network_proof(server, node, fence, err);
	if (state_of(fence) == FENCE_RECORDED && node)
		return add_addresses(server, fence, err);
	return STATUS_OK;
}

/* The proof is of the machine that had the switch when the fence began, and of its boot. */
static enum status take_power_step(struct server *server, struct node_entry *node, const char *node_id,
				   struct error *err)
{
	const Fence *fence = find_fence(server, node_id, "");

	if (!node || !str_eq(node_own_boot(&node->node), fence->boot_id))
		return end_fence(server, fence, FENCE_EVENT_REBOOTED, "the node is in another boot", err);
	if (!str_eq(fence->machine, node->node.machine))
		return end_fence(server, fence, FENCE_EVENT_REBOOTED,
				 "the node's machine is not the one for which it was begun; ask again: "
				 "holdfast node fence",
				 err);
	TRY(check_time(server, fence, err));
	fence = find_fence(server, node_id, "");
	if (state_of(fence) == FENCE_ASKED)
		return hits_present(node, fence) ? end_fence(server, fence, FENCE_EVENT_EXPIRED, back, err)
						 : order_off(server, node, fence, err);
	if (fence->doubted && is_connected_in(node, fence->boot_id))
		return end_doubt(server, fence, err);
	if (state_of(fence) != FENCE_OFF)
		return STATUS_OK;
	TRY(check_silence(server, node, fence, err));
	fence = find_fence(server, node_id, "");
	return state_of(fence) == FENCE_OFF && !must_wait(server, node, fence)
		       ? take_proof(server, node, fence, err)
		       : STATUS_OK;
}

static enum status take_step(struct server *server, const char *node_id, const char *plugin_id,
			     struct error *err)
{
	struct node_entry *node = state_node(&server->state, node_id);
	const Fence *fence = find_fence(server, node_id, plugin_id);

	if (!fence)
		return STATUS_OK;
	return is_network(fence) ? take_network_step(server, node, node_id, plugin_id, err)
				 : take_power_step(server, node, node_id, err);
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata);

/* While a fence is open, or an answer is missed, fences are looked at: for time, and failures on the way. */
static void rearm(struct fences *fences)
{
	if (fences->timer || fences->server->is_ending ||
	    (fences_count(fences->server).open == 0 && !fences->must_repeat))
		return;
	if (wakeup_arm(fences->server->event, &fences->timer, LOOK_MS * USEC_PER_MSEC, on_look, fences,
		       NULL) != STATUS_OK)
		log_line(LOG_ERR, "cannot look at open fences, ignoring");
}

static void drive(struct server *server, const Fence *fence)
{
	char node_id[NODE_ID_MAX + 1], plugin_id[PLUGIN_ID_MAX + 1];
	struct error err;

	(void)str_copy(node_id, sizeof(node_id), fence->node_id); /* the record is replaced */
	(void)str_copy(plugin_id, sizeof(plugin_id), fence->plugin_id);
	if (take_step(server, node_id, plugin_id, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.node = node_id, .op = "fence", .err = &err},
			"the fence does not continue; trying again");
	rearm(server->fences);
}

/* Those that wait for something. */
static void drive_all(struct server *server)
{
	struct record_entry *entry = NULL;

	while ((entry = next_record(server, entry))) {
		const Fence *fence = (const void *)entry->record.message;

		if (fence_is_open(state_of(fence)))
			drive(server, fence); /* replaces the record, not its entry */
	}
}

static void drive_own(struct server *server, const char *node_id)
{
	const Fence *power = find_fence(server, node_id, "");
	char prefix[OBJECT_KEY_SIZE];
	struct record_entry *entry;

	if (power)
		drive(server, power);
	(void)str_format(prefix, sizeof(prefix), PREFIX_FENCE "%s/", node_id);
	for (entry = records_from(&server->state.records, prefix);
	     entry && str_starts_with(entry->key, prefix); entry = records_next(entry))
		drive(server, (const void *)entry->record.message);
}

static bool has_fencing_controller(const struct node_entry *node)
{
	const struct instance_entry *instance;

	LIST_FOREACH (instance, &node->instances, of_node)
		if (instance->instance.plugin.controller.network_fence)
			return true;
	return false;
}

/* The fences of other nodes wait only for a node that is back, or has left, with a controller. */
static void note_node(struct server *server, const char *node_id)
{
	const struct node_entry *node = state_node(&server->state, node_id);

	drive_own(server, node_id);
	if (node && has_fencing_controller(node))
		drive_all(server);
}

/* An order may not have reached its fencer, or its answer not the store. @fencer NULL: those of all. */
static void repeat_orders(struct server *server, const char *fencer)
{
	struct record_entry *entry = NULL;

	while ((entry = next_record(server, entry))) {
		const Fence *fence = (const void *)entry->record.message;

		if (!is_network(fence) && (!fencer || str_eq(fence->fencer, fencer)) &&
		    (state_of(fence) == FENCE_SENT || state_of(fence) == FENCE_UNKNOWN))
			send_order(server, fence);
	}
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct fences *fences = userdata;

	wakeup_disarm(&fences->timer);
	fences->n_looks++;
	forget_ended_lifts(fences);
	if (fences->must_repeat) {
		fences->must_repeat = false;
		repeat_orders(fences->server, NULL);
	}
	drive_all(fences->server);
	rearm(fences);
	return 0;
}

/* Sends the order of @durable, the record in the store; memory may be ahead of it. */
static void note_fence(struct server *server, const Fence *durable)
{
	const Fence *fence = find_fence(server, durable->node_id, durable->plugin_id);

	if (!fence)
		return;
	if (!is_network(fence) && state_of(durable) == FENCE_SENT && state_of(fence) == FENCE_SENT)
		send_order(server, durable);
	drive(server, durable);
}

void fences_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision)
{
	for (size_t i = 0; server->fences && i < n; i++) {
		const struct node *node = objects[i].value;
		const struct record *record = objects[i].value;

		if (objects[i].kind == OBJECT_RECORD && !objects[i].is_deletion &&
		    str_starts_with(objects[i].key, PREFIX_FENCE))
			note_fence(server, (const void *)record->message);
		else if (objects[i].kind == OBJECT_RECORD && !objects[i].is_deletion &&
			 str_starts_with(objects[i].key, PREFIX_FENCE_CLIENTS))
			drive_own(server, ((const Clients *)(const void *)record->message)->node_id);
		else if (objects[i].kind == OBJECT_NODE)
			note_node(server, node->id);
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
		"to %s): the node may be off; compare the clocks of the fencer's and this machine, "
		"then ask again: holdfast node fence",
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

/* A refusal is the end of all only if the ones before have touched nothing either. */
static enum fence_event judge(const Fence *fence, const struct fence_answer *outcome)
{
	enum fence_event event = fence_judge(outcome);

	return event == FENCE_EVENT_REFUSED && fence->touched ? FENCE_EVENT_FAILED : event;
}

static void take_outcome(struct server *server, const Fence *fence, const struct fence_answer *outcome,
			 const char *agent, const char *why)
{
	enum fence_event event = judge(fence, outcome);
	struct node_entry *node = state_node(&server->state, fence->node_id);
	const struct fencer *fencer = is_network(fence) ? NULL : fencers_find(server->fencers, fence->fencer);
	enum fence_state next = FENCE_STATE_N;
	Fence draft = *fence;
	struct error err;

	/* an answer that is repeated, also because it was not stored, proves nothing later */
	if (node && node->proved_us == 0 && !is_network(fence) && fence_step(state_of(fence), event, &next) &&
	    next == FENCE_OFF && state_of(fence) != FENCE_OFF)
		node->proved_us = clock_monotonic_us();
	draft.agent = (char *)(uintptr_t)agent; /* only read, as the next one */
	draft.error = (char *)(uintptr_t)why;
	draft.off = (Holdfast__V1__FenceOutcome)outcome->off;
	draft.status = (Holdfast__V1__FenceOutcome)outcome->status;
	draft.off_ms = outcome->off_ms;
	draft.status_ms = outcome->status_ms;
	draft.answer_time_ms = outcome->answered_ms;
	draft.touched = fence->touched || !outcome->was_refused;
	if (event != FENCE_EVENT_PROVED && ask_other(server, &draft, event, why))
		return;
	if (fencer) /* another one may use its certificate */
		draft.fencer_address = (char *)(uintptr_t)fencer_address(fencer);
	if (advance(server, &draft, event, &err) == STATUS_OK)
		return;
	log_ctx(LOG_ERR, &(struct log_ctx){.node = fence->node_id, .op = "fence", .err = &err},
		"cannot store the answer of %s; asking it again", fence->fencer);
	server->fences->must_repeat = true;
	rearm(server->fences);
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
	char text[TEXT_SIZE], agent[NODE_ID_MAX + 1], error[TEXT_SIZE];

	str_copy_text(agent, sizeof(agent), answer->agent);
	str_copy_text(error, sizeof(error), outcome_text(answer, &outcome, judge(fence, &outcome), text));
	take_outcome(server, fence, &outcome, agent, error);
}

static bool has_failed(const struct lift *lift, const char *controller)
{
	for (size_t i = 0; i < lift->n_failed; i++)
		if (str_eq(lift->failed[i], controller))
			return true;
	return false;
}

/* The next look tries again. The first failure of each of a few controllers is on record. Later ones are
 * shown if they differ and are of the controller that is shown, or that one has left. */
static void take_lift_failure(struct server *server, const Fence *fence, struct lift *lift,
			      const struct network_end *end)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	bool is_first = lift && lift->n_failed < FENCE_TRIES_MAX && !has_failed(lift, end->controller);
	bool is_shown = str_eq(fence->fencer, end->controller);
	Fence draft = *fence;

	if (is_shown ? str_eq(fence->error, end->error)
		     : !is_first && network_can_ask(server, fence->plugin_id, fence->fencer))
		return;
	draft.fencer = (char *)(uintptr_t)end->controller; /* only read, as the next one */
	draft.error = (char *)(uintptr_t)end->error;
	draft.modify_time_ms = clock_realtime_ms();
	stage(&change, &draft);
	if (is_first && !str_eq(fence->error, end->error))
		put_on_record(server, &change, &draft);
	if (change_commit(server, &change, NULL, NULL, NULL) == STATUS_OK && is_first)
		str_copy_text(lift->failed[lift->n_failed++], sizeof(lift->failed[0]), end->controller);
}

static void take_lift(struct server *server, const Fence *fence, const struct network_end *end)
{
	struct lift *lift = find_lift(server->fences, fence);
	Fence draft = *fence;

	if (end->outcome.off == FENCE_OUTCOME_DONE && end->outcome.status == FENCE_OUTCOME_IS_ON) {
		draft.fencer = (char *)(uintptr_t)end->controller; /* only read, as the next one */
		draft.error = (char *)(uintptr_t) "";
		if (advance(server, &draft, FENCE_EVENT_LIFTED, NULL) == STATUS_OK && lift)
			forget_lift(server->fences, lift);
		return;
	}
	take_lift_failure(server, fence, lift, end);
}

static void on_network_end(struct server *server, const struct network_end *end)
{
	const Fence *fence = find_fence(server, end->node_id, end->plugin_id);
	struct fence_answer outcome = end->outcome;
	char why[TEXT_SIZE] = "";

	if (!server->fences || !fence || !str_eq(fence->boot_id, end->boot_id))
		return;
	outcome.answered_ms = clock_realtime_ms();
	if (end->error[0] != '\0')
		(void)str_format(why, sizeof(why), "controller on node %s: %.300s", end->controller,
				 end->error);
	if (end->is_lift && state_of(fence) == FENCE_LIFTING)
		take_lift(server, fence, end);
	else if (!end->is_lift && state_of(fence) == FENCE_SENT && str_eq(fence->fencer, end->controller))
		take_outcome(server, fence, &outcome, "", why);
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
	char agent[NODE_ID_MAX + 1], error[TEXT_SIZE];
	struct test *test;

	LIST_FOREACH (test, &fences->tests, of_fences)
		if (str_eq(test->fencer, fencer) && answer->nonce.len == sizeof(test->nonce) &&
		    memcmp(test->nonce, answer->nonce.data, sizeof(test->nonce)) == 0)
			break;
	if (!test)
		return false;
	response.fencer = test->fencer;
	str_copy_text(agent, sizeof(agent), answer->agent);
	str_copy_text(error, sizeof(error), answer->error);
	response.agent = agent;
	response.monitor = answer->monitor;
	response.status = answer->status;
	response.error = error;
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

static void on_ready(struct server *server, const char *fencer)
{
	repeat_orders(server, fencer);
	drive_all(server);
}

/* --- asking --- */

static enum status refuse_without_fencer(struct server *server, const char *node_id, struct error *err)
{
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "no fencer that is connected has node %s in its file (%zu connected); nothing was "
			 "changed. See holdfast-fencer.hcl(5), node",
			 node_id, fencers_count(server->fencers).connected);
}

static enum status check_alive(struct server *server, const struct node_entry *node,
			       const Holdfast__V1__FenceNodeRequest *request, struct error *err)
{
	const char *plugin_id = request->plugin_id;

	if (request->alive)
		return STATUS_OK;
	if (!node_is_connected(node))
		return nodes_check_away(server, node, err);
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"node %s is connected and can release its volumes itself: holdfast node drain %s. If it "
		"must be %s although it is alive: holdfast node fence %s%s%.64s --alive --reason TEXT",
		node->id, node->id, plugin_id[0] != '\0' ? "fenced" : "switched off", node->id,
		plugin_id[0] != '\0' ? " --network " : "", plugin_id);
}

/* Returns the boot that a fence at the plugin is for. The present machine comes first if it is away and has
 * claims there, or if a person insists; then a former machine that has claims. */
static const char *boot_to_fence(const struct node_entry *node, const char *plugin_id, bool alive)
{
	const char *present = node_own_boot(&node->node);
	const char *former = NULL;
	const struct claim_entry *entry;

	LIST_FOREACH (entry, &node->claims, of_node) {
		bool is_present = str_eq(entry->claim.boot_id, present);

		if (entry->claim.state > CLAIM_UNPUBLISHING || !str_eq(entry->claim.plugin_id, plugin_id))
			continue;
		if (is_present && !node_is_connected(node))
			return present;
		former = is_present ? former : entry->claim.boot_id;
	}
	return former && !alive ? former : present;
}

/* Can the storage of the plugin refuse the node in that boot? @ret its addresses. */
static enum status check_network(struct server *server, const struct node_entry *node, const char *plugin_id,
				 const char *boot_id, const Clients **ret, struct error *err)
{
	const Fence *last = find_fence(server, node->id, plugin_id);
	const char *controller = network_controller_after(server, plugin_id, "");

	if (controller && str_eq(controller, node->id)) /* it does not fence itself */
		controller = network_controller_after(server, plugin_id, controller);
	if (node->is_unreported)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s has not reported in this epoch: it may use addresses that the "
				 "server has forgotten; nothing was changed. See holdfast node attest",
				 node->id);
	TRY(fence_clients_find(server, node->id, plugin_id, boot_id, ret, err));
	if (last && fence_clients_is_kept(last) &&
	    (state_of(last) == FENCE_LIFTING || !fence_clients_is_own(last, *ret)))
		return fence_clients_refuse(last, err); /* its record would be lost */
	if (!controller)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"no connected node other than %s runs a healthy controller of plugin %.64s that "
			"can fence; nothing was changed. See holdfast plugin status %.64s",
			node->id, plugin_id, plugin_id);
	return STATUS_OK;
}

static void on_asked(struct server *server, void *userdata)
{
	cleanup_free struct asked *asked = userdata;
	Holdfast__V1__FenceNodeResponse response = HOLDFAST__V1__FENCE_NODE_RESPONSE__INIT;
	const Fence *fence = find_fence(server, asked->node_id, asked->plugin_id);
	char code[NODE_MACHINE_MAX + 1];
	Fence shown;

	if (fence) {
		shown = *fence;
		shown.machine = (char *)(uintptr_t)machine_code(server, fence->node_id, fence->machine, code);
		response.fence = &shown;
	}
	answer_durable(server, asked->call, message_copy(&response.base));
}

/* Answer with the fence when @change is durable. */
static enum status answer_asked(struct server *server, struct change *change, struct rpc_call *call,
				const char *node_id, const char *plugin_id, struct error *err)
{
	struct asked *asked = calloc(1, sizeof(*asked));

	if (asked) {
		asked->call = call;
		str_copy_text(asked->node_id, sizeof(asked->node_id), node_id);
		str_copy_text(asked->plugin_id, sizeof(asked->plugin_id), plugin_id);
	}
	return change_commit_taking(server, change, on_asked, asked, err);
}

/* @ret borrows from all of these. @clients NULL: a power fence. */
static void begin_fence(struct server *server, const struct node_entry *node, const Clients *clients,
			const char *by, const char *reason, Fence *ret)
{
	static char unknown[] = "?"; /* differs from each machine: only a person lifts it */
	const Fence *last;

	holdfast__v1__fence__init(ret);
	ret->node_id = (char *)(uintptr_t)node->id; /* only read, as the others */
	ret->boot_id = (char *)(uintptr_t)node_own_boot(&node->node);
	ret->machine = (char *)(uintptr_t)node->node.machine;
	ret->epoch = state_epoch(&server->state);
	ret->by = (char *)(uintptr_t)by;
	ret->reason = (char *)(uintptr_t)reason;
	ret->alive = node_is_connected(node);
	ret->create_time_ms = ret->modify_time_ms = clock_realtime_ms();
	ret->not_after_ms = ret->create_time_ms + FENCE_FENCER_WAIT_MS;
	if (!clients)
		return;
	last = find_fence(server, node->id, clients->plugin_id);
	if (last && fence_is_in_force(state_of(last))) { /* of this boot: the storage may refuse it already */
		ret->state = HOLDFAST__V1__FENCE_STATE__FENCE_STATE_SENT;
		ret->fencer = last->fencer;
		ret->touched = true;
		ret->not_after_ms = ret->create_time_ms + FENCE_NETWORK_MAX_MS;
	}
	ret->plugin_id = clients->plugin_id;
	ret->cidrs = clients->cidrs;
	ret->n_cidrs = clients->n_cidrs;
	ret->boot_id = clients->boot_id;
	ret->alive = ret->alive && str_eq(clients->boot_id, node->node.boot_id);
	/* node is another one after an identify, until that one connects */
	if (clients->machine[0] != '\0' || !node_was_in_boot(&node->node, clients->boot_id))
		ret->machine = clients->machine[0] != '\0' ? clients->machine : unknown;
}

static enum status ask(struct server *server, struct rpc_call *call, const struct node_entry *node,
		       const char *boot_id, const Holdfast__V1__FenceNodeRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char detail[EVIDENCE_DETAIL_MAX + 1], who[ACCESS_WHO_SIZE], object[OBJECT_SIZE];
	const Clients *clients = NULL;
	Fence fence;

	TRY(attest_detail(server, call, "reason", request->reason, detail, err));
	if (str_eq(boot_id, node->node.boot_id))
		TRY(check_alive(server, node, request, err));
	if (request->plugin_id[0] != '\0')
		TRY(check_network(server, node, request->plugin_id, boot_id, &clients, err));
	else if (!fencers_for_node(server->fencers, node->id))
		return refuse_without_fencer(server, node->id, err);
	begin_fence(server, node, clients, access_who(server, call, who), request->reason, &fence);
	stage(&change, &fence);
	audit_write(server, &change, call, WHAT_FENCE, name_object(&fence, object), request->reason);
	return answer_asked(server, &change, call, node->id, request->plugin_id, err);
}

enum status fences_begin(struct server *server, const struct node_entry *node, const char *plugin_id,
			 const char *reason, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const Clients *clients = NULL;
	char object[OBJECT_SIZE];
	Fence fence;

	if (plugin_id[0] != '\0')
		TRY(check_network(server, node, plugin_id, node_own_boot(&node->node), &clients, err));
	begin_fence(server, node, clients, "server", reason, &fence);
	fence.automatic = true;
	stage(&change, &fence);
	audit_own(server, &change, WHAT_BEGIN, name_object(&fence, object), reason);
	return change_commit(server, &change, NULL, NULL, err);
}

/* A person ends a network fence whose node will not report a new boot. Its old boot must be over. */
static enum status handle_lift(struct server *server, struct rpc_call *call,
			       const Holdfast__V1__FenceNodeRequest *request, struct error *err)
{
	const Fence *fence = find_fence(server, request->id, request->plugin_id);
	const struct node_entry *node = state_node(&server->state, request->id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	char detail[EVIDENCE_DETAIL_MAX + 1], object[OBJECT_SIZE];
	enum fence_state next;
	Fence draft;

	TRY(attest_detail(server, call, "reason", request->reason, detail, err));
	if (!fence || request->plugin_id[0] == '\0')
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "node %.64s has no network fence at plugin '%.64s'", request->id,
				 request->plugin_id);
	if (node && str_eq(node_own_boot(&node->node), fence->boot_id))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"node %s was last seen in the boot that is fenced, and could write again: reboot "
			"it, which lifts the fence, or, if it is gone: holdfast node purge %s",
			fence->node_id, fence->node_id);
	if (network_is_busy(server->network, fence) || !fence_step(state_of(fence), FENCE_EVENT_LIFT, &next))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the fence of node %s is about to change; ask again", fence->node_id);
	draft = *fence;
	draft.state = (Holdfast__V1__FenceState)next;
	draft.epoch = state_epoch(&server->state); /* a person has decided */
	draft.modify_time_ms = clock_realtime_ms();
	stage(&change, &draft);
	audit_write(server, &change, call, WHAT_LIFT, name_object(fence, object), request->reason);
	return answer_asked(server, &change, call, request->id, request->plugin_id, err);
}

/* A node that is being fenced in this boot is not fenced twice: the caller gets the fence that there is,
 * unless it is being lifted. */
static enum status handle_fence(struct server *server, struct rpc_call *call,
				const Holdfast__V1__FenceNodeRequest *request, struct error *err)
{
	struct change nothing = CHANGE_INIT;
	struct node_entry *node;
	const char *boot_id;
	const Fence *fence;

	if (request->lift)
		return handle_lift(server, call, request, err);
	TRY(nodes_find(server, request->id, &node, err));
	if (request->plugin_id[0] != '\0' && !id_is_plugin(request->plugin_id))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "plugin_id: '%.64s' is no plugin id",
				 request->plugin_id);
	boot_id = request->plugin_id[0] != '\0' ? boot_to_fence(node, request->plugin_id, request->alive)
						: node_own_boot(&node->node);
	fence = find_fence(server, node->id, request->plugin_id);
	if (fence && fence_is_open(state_of(fence)) && state_of(fence) != FENCE_LIFTING &&
	    str_eq(fence->boot_id, boot_id))
		return answer_asked(server, &nothing, call, node->id, request->plugin_id, err);
	return ask(server, call, node, boot_id, request, err);
}

DEFINE_WRITE_METHOD(fences_handle_fence, Holdfast__V1__FenceNodeRequest, WHAT_FENCE, handle_fence)

/* --- tests --- */

static void fail_test(struct test *test)
{
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
			"fencer %s did not answer; see systemctl status holdfast-fencer on its machine",
			test->fencer);
	rpc_call_fail(test->call, &err);
	end_test(test);
}

static int on_test_overdue(sd_event_source *source, uint64_t usec, void *userdata)
{
	fail_test(userdata);
	return 0;
}

/* No test is repeated. */
static void on_left(struct server *server, const char *fencer)
{
	struct test *test, *next;

	if (!server->fences)
		return;
	for (test = LIST_FIRST(&server->fences->tests); test; test = next) {
		next = LIST_NEXT(test, of_fences);
		if (str_eq(test->fencer, fencer))
			fail_test(test);
	}
}

static const struct fencer_events fencer_events = {.ready = on_ready, .answer = on_answer, .left = on_left};

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
	TRY(make_order(server, FENCE_ORDER_TEST, fencer_name(fencer), node->id, node_own_boot(&node->node),
		       access_who(server, call, who), &order, err));
	return begin_test(server->fences, call, fencer, &order, err);
}

DEFINE_WRITE_METHOD(fences_handle_test, Holdfast__V1__TestFenceRequest, WHAT_TEST, handle_test)

/* --- reads --- */

/* Writes why a network fence stays in force, and its end; "": nothing is unusual. */
static void describe_stay(struct server *server, const Fence *fence, char ret[static TEXT_SIZE])
{
	const struct node_entry *node = state_node(&server->state, fence->node_id);

	ret[0] = '\0';
	if (!is_network(fence) || state_of(fence) != FENCE_RECORDED)
		return;
	if (node && is_connected_in(node, fence->boot_id))
		(void)str_format(
			ret, TEXT_SIZE,
			"the node is back in the boot that is fenced: the storage of plugin %s still "
			"refuses it, and its claims are gone. Next: reboot node %s, which lifts the fence",
			fence->plugin_id, fence->node_id);
	else if (!node || !str_eq(node_own_boot(&node->node), fence->boot_id))
		(void)str_format(
			ret, TEXT_SIZE,
			"the node was purged, or is another machine now: the fence stays until a person "
			"lifts it. Next: holdfast node fence %s --network %s --lift --reason TEXT",
			fence->node_id, fence->plugin_id);
}

/* The texts of a fence that are not the record's. */
struct fence_texts {
	char why[TEXT_SIZE], reason[TEXT_SIZE], machine[NODE_MACHINE_MAX + 1];
};

/* The server's own reason names a volume and its holder: for those who may see all of them. "away for 30s" is
 * left. */
static void hide_holder(struct server *server, const struct rpc_call *call, Fence *shown,
			char text[static TEXT_SIZE])
{
	if (!shown->automatic || access_check(server, call, ACCESS_VOLUME_READ, "*", NULL) == STATUS_OK)
		return;
	str_copy_text(text, TEXT_SIZE, shown->reason);
	text[strcspn(text, ",")] = '\0';
	shown->reason = text;
}

/* Borrows from @fence and @texts. */
static Fence show_fence(struct server *server, const struct rpc_call *call, const Fence *fence,
			struct fence_texts *texts)
{
	Fence shown = *fence;

	describe_stay(server, fence, texts->why);
	if (texts->why[0] != '\0')
		shown.error = texts->why;
	hide_holder(server, call, &shown, texts->reason);
	shown.machine =
		(char *)(uintptr_t)machine_code(server, fence->node_id, fence->machine, texts->machine);
	return shown;
}

static enum status handle_get(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
			      struct error *err)
{
	const Holdfast__V1__GetFenceRequest *wanted = (const void *)request;
	Holdfast__V1__GetFenceResponse response = HOLDFAST__V1__GET_FENCE_RESPONSE__INIT;
	const Fence *fence = find_fence(server, wanted->id, wanted->plugin_id);
	struct fence_texts texts;
	Fence shown;

	if (!fence)
		return error_set(err, STATUS_NOT_FOUND, 0, "node %.64s was not fenced", wanted->id);
	shown = show_fence(server, call, fence, &texts);
	response.fence = &shown;
	answer_durable(server, call, message_copy(&response.base));
	return STATUS_OK;
}

static const struct read_method get_method = {.handle = handle_get};
DEFINE_READ_METHOD(fences_handle_get, get_method)

static bool show_fences(struct server *server, const struct rpc_call *call,
			Holdfast__V1__ListFencesResponse *response)
{
	struct record_entry *entry = NULL;
	struct fence_texts texts;
	size_t n = 0;

	while ((entry = next_record(server, entry)))
		n++;
	response->fences = calloc(n + 1, sizeof(Fence *));
	if (!response->fences)
		return false;
	while ((entry = next_record(server, entry))) {
		const Fence shown = show_fence(server, call, (const void *)entry->record.message, &texts);

		response->fences[response->n_fences] = (Fence *)(void *)message_copy(&shown.base);
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
	if (!fencers_show(server->fencers, response) || !show_fences(server, call, response)) {
		holdfast__v1__list_fences_response__free_unpacked(response, NULL);
		return error_no_memory(err, "a list of fences");
	}
	answer_durable(server, call, &response->base);
	return STATUS_OK;
}

static const struct read_method list_method = {.handle = handle_list};
DEFINE_READ_METHOD(fences_handle_list, list_method)

/* --- the part --- */

static bool can_power_fence(struct server *server, const struct node_entry *node, const char *boot_id)
{
	return server->fencers && str_eq(node_own_boot(&node->node), boot_id) &&
	       fencers_for_node(server->fencers, node->id) != NULL;
}

static bool can_network_fence(struct server *server, const struct claim *claim)
{
	const struct node_entry *node = state_node(&server->state, claim->node_id);
	const Clients *clients;
	struct error err;

	return node && str_eq(boot_to_fence(node, claim->plugin_id, false), claim->boot_id) &&
	       check_network(server, node, claim->plugin_id, claim->boot_id, &clients, &err) == STATUS_OK;
}

/* A claim that is granted to it could not be used. */
static enum status check_not_fenced(struct server *server, const struct node_entry *node,
				    const char *plugin_id, struct error *err)
{
	const Fence *fence = find_fence(server, node->id, plugin_id);

	if (!fence || !is_network(fence))
		return STATUS_OK;
	if (state_of(fence) == FENCE_LIFTING && !node_machine_differs(fence->machine, node->node.machine))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s: the storage of plugin %s does not accept it again yet%s%s; see "
				 "holdfast node fence",
				 node->id, plugin_id, fence->error[0] != '\0' ? ": " : "", fence->error);
	if (!str_eq(fence->boot_id, node->node.boot_id) ||
	    (state_of(fence) != FENCE_OFF && state_of(fence) != FENCE_RECORDED))
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"node %s was fenced in this boot: the storage of plugin %s refuses its writes. Reboot "
		"node %s, which lifts the fence; see holdfast node fence",
		node->id, plugin_id, node->id);
}

enum status fences_check_network(struct server *server, const struct node_entry *node, const char *plugin_id,
				 struct error *err)
{
	const Clients *clients;

	return check_network(server, node, plugin_id, node_own_boot(&node->node), &clients, err);
}

enum status fences_new(struct server *server, struct fences **ret, struct error *err)
{
	struct fences *fences = calloc(1, sizeof(*fences));

	if (!fences)
		return error_no_memory(err, "fences");
	fences->server = server;
	fences->n_looks = 1;
	RB_INIT(&fences->lifts);
	LIST_INIT(&fences->tests);
	*ret = fences;
	if (!server->fencers)
		TRY(fencers_new(server, &fencer_events, &server->fencers, err));
	TRY(network_new(server, on_network_end, &server->network, err));
	server->can_power_fence = can_power_fence;
	server->can_network_fence = can_network_fence;
	server->check_not_fenced = check_not_fenced;
	drive_all(server);
	return STATUS_OK;
}

void fences_free(struct fences *fences)
{
	static const struct error ended = {.status = STATUS_UNAVAILABLE, .msg = "the server is ending"};
	struct lift *next, *lift;
	struct test *test;

	if (!fences)
		return;
	while ((test = LIST_FIRST(&fences->tests))) {
		rpc_call_fail(test->call, &ended);
		end_test(test);
	}
	RB_FOREACH_SAFE (lift, lift_tree, &fences->lifts, next)
		forget_lift(fences, lift);
	wakeup_disarm(&fences->timer);
	network_free(fences->server->network);
	fences->server->network = NULL;
	free(fences);
}
