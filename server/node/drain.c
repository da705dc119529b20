/* SPDX-License-Identifier: Apache-2.0 */
#include "node/drain.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "alloc/allocs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "claim/release.h"
#include "log/log.h"
#include "model/explain.h"
#include "model/pb.h"
#include "node/lookup.h"
#include "node/nodes.h"
#include "node/session.h"
#include "state/change.h"
#include "volume/view.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <stdlib.h>
#include <string.h>

enum {
	DRAIN_SLICE = 32, /* allocations ordered to stop in one transaction */
	DRAIN_DEADLINE_DEFAULT_MS = 3600 * 1000,
	OBJECT_SIZE = 128,
	TEXT_SIZE = EXPLAIN_SIZE + 64,
};
#define DRAIN_DEADLINE_MAX_MS (INT64_C(30) * 24 * 3600 * 1000)

/* Allocations ordered to stop, to be passed on when that is durable. */
struct slice {
	char node_id[NODE_ID_MAX + 1];
	char ids[DRAIN_SLICE][UUID_TEXT_SIZE];
	int n;
};

/* The node reports one allocation for a plugin, also where one runs its controller and another its node half.
 */
static bool runs_plugin(const struct alloc_entry *alloc)
{
	return alloc->alloc.n_plugins > 0;
}

static size_t live_claims_of(const struct alloc_entry *alloc)
{
	const struct claim_entry *claim;
	size_t n = 0;

	LIST_FOREACH (claim, &alloc->claims, of_alloc)
		n += claim_is_live(&claim->claim);
	return n;
}

/* A node that must report may hold what the server has forgotten. */
static bool holds_nothing(const struct node_entry *node)
{
	return !node->is_unreported && node->n_live == 0 && node->n_live_allocs == 0;
}

/* Is nothing left but allocations that run plugins, and what they hold themselves? */
static bool only_plugins_are_left(const struct node_entry *node)
{
	const struct alloc_entry *alloc;
	size_t n_claims = 0;

	if (node->is_unreported)
		return false;
	LIST_FOREACH (alloc, &node->allocs, of_node) {
		if (!runs_plugin(alloc))
			return false;
		n_claims += live_claims_of(alloc);
	}
	return n_claims == node->n_live;
}

static void on_slice_durable(struct server *server, void *userdata)
{
	cleanup_free struct slice *slice = userdata;
	struct node_entry *node = state_node(&server->state, slice->node_id);

	if (!node)
		return;
	for (int i = 0; i < slice->n; i++) {
		const struct alloc_entry *alloc = state_alloc(&server->state, slice->ids[i]);

		if (alloc && node->session && !alloc_is_client_terminal(&alloc->alloc))
			session_stop_alloc(node->session, slice->ids[i]);
	}
	drain_continue(server, node);
}

/* The plugins of which the node has live claims. */
struct needs {
	const char *plugin_ids[NODE_PLUGINS_MAX]; /* borrowed */
	size_t n;
};

static bool has_need(const struct needs *needs, const char *plugin_id)
{
	for (size_t i = 0; i < needs->n; i++)
		if (str_eq(needs->plugin_ids[i], plugin_id))
			return true;
	return false;
}

static void list_needs(const struct node_entry *node, struct needs *ret)
{
	const struct claim_entry *claim;

	LIST_FOREACH (claim, &node->claims, of_node)
		if (claim_is_live(&claim->claim) && ret->n < NODE_PLUGINS_MAX &&
		    !has_need(ret, claim->claim.plugin_id))
			ret->plugin_ids[ret->n++] = claim->claim.plugin_id;
}

/* Does @alloc run a plugin that must release a volume? No allocation has a volume of its own plugin. */
static bool is_needed(const struct needs *needs, const struct alloc_entry *alloc)
{
	for (uint32_t i = 0; i < alloc->alloc.n_plugins; i++)
		if (has_need(needs, alloc->alloc.plugins[i].id))
			return true;
	return false;
}

/* Which of the allocations that run plugins stop in addition to all others. */
enum plugin_turn { NO_PLUGIN, PLUGINS_NOT_NEEDED, ALL_PLUGINS };

static bool is_to_stop(const struct alloc_entry *alloc, enum plugin_turn turn, const struct needs *needs)
{
	if (alloc->alloc.desired_status == DESIRED_STOP)
		return false;
	return !runs_plugin(alloc) || turn == ALL_PLUGINS ||
	       (turn == PLUGINS_NOT_NEEDED && !is_needed(needs, alloc));
}

/* Stages the stop of the next allocations. */
static void fill_slice(struct change *change, const struct node_entry *node, enum plugin_turn turn,
		       const struct needs *needs, struct slice *slice)
{
	const struct alloc_entry *alloc;

	LIST_FOREACH (alloc, &node->allocs, of_node) {
		if (slice->n == DRAIN_SLICE)
			break;
		if (!is_to_stop(alloc, turn, needs))
			continue;
		allocs_stage_stop(change, alloc, node);
		memcpy(slice->ids[slice->n++], alloc->alloc.id, UUID_TEXT_SIZE);
	}
}

static bool is_any_stopping(const struct node_entry *node)
{
	const struct alloc_entry *alloc;

	LIST_FOREACH (alloc, &node->allocs, of_node)
		if (alloc->alloc.desired_status == DESIRED_STOP)
			return true;
	return false;
}

/* Orders the next allocations that are not stopping yet to stop. Plugins that need each other would wait for
 * ever: they stop together. */
static enum status stop_slice(struct server *server, struct node_entry *node, struct error *err)
{
	struct slice *slice = calloc(1, sizeof(*slice));
	cleanup(change_release) struct change change = CHANGE_INIT;
	enum plugin_turn turn = only_plugins_are_left(node) ? PLUGINS_NOT_NEEDED : NO_PLUGIN;
	struct needs needs = {.n = 0};

	if (!slice)
		return error_no_memory(err, "a drain");
	memcpy(slice->node_id, node->node.id, sizeof(slice->node_id));
	if (turn == PLUGINS_NOT_NEEDED)
		list_needs(node, &needs);
	fill_slice(&change, node, turn, &needs, slice);
	if (slice->n == 0 && turn == PLUGINS_NOT_NEEDED && !is_any_stopping(node))
		fill_slice(&change, node, ALL_PLUGINS, &needs, slice);
	if (slice->n == 0) {
		free(slice);
		return STATUS_OK;
	}
	return change_commit_taking(server, &change, on_slice_durable, slice, err);
}

static enum status drain_finish(struct server *server, struct node_entry *entry, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free struct node *node = malloc(sizeof(*node));
	char object[sizeof("node ") + NODE_ID_MAX];

	if (!node)
		return error_no_memory(err, "a drain");
	*node = entry->node;
	node->drain.done_ms = node->modify_time_ms = clock_realtime_ms();
	change_put_node(&change, node);
	(void)str_format(object, sizeof(object), "node %s", node->id);
	audit_own(server, &change, "Nodes.Drain", object, "done: it holds no claim");
	return change_commit(server, &change, NULL, NULL, err);
}

void drain_continue(struct server *server, struct node_entry *node)
{
	enum status status;
	struct error err;

	if (!node_is_registered(node) || !node_is_draining(&node->node))
		return;
	status = holds_nothing(node) ? drain_finish(server, node, &err) : stop_slice(server, node, &err);
	if (status != STATUS_OK) /* the next event of the node, or the operator's next look, tries again */
		log_ctx(LOG_ERR, &(struct log_ctx){.node = node->id, .op = "drain", .err = &err},
			"the drain does not continue");
}

static struct node_entry *node_of(struct server *server, const struct change_object *object)
{
	const struct claim *claim = object->kind == OBJECT_CLAIM ? object->value : NULL;
	const struct alloc *alloc = object->kind == OBJECT_ALLOC ? object->value : NULL;
	const struct node *node = object->kind == OBJECT_NODE ? object->value : NULL; /* it reported */
	const char *id = claim ? claim->node_id : alloc ? alloc->node_id : node ? node->id : NULL;

	return id ? state_node(&server->state, id) : NULL;
}

void drain_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision)
{
	struct node_entry *node, *last = NULL;

	for (size_t i = 0; i < n; i++) {
		node = node_of(server, &objects[i]);
		if (node && node != last) /* it looks at all allocations of the node */
			drain_continue(server, node);
		last = node ? node : last;
	}
}

/* The call. */

static Holdfast__V1__DrainVolume *progress_of(struct server *server, const struct claim_entry *entry,
					      bool is_overdue)
{
	const struct claim *claim = &entry->claim;
	Holdfast__V1__DrainVolume *volume = calloc(1, sizeof(*volume));
	struct holder holder = claim_holder(server, claim);
	char why[EXPLAIN_SIZE];
	char text[TEXT_SIZE];

	if (!volume)
		return NULL;
	holdfast__v1__drain_volume__init(volume);
	(void)str_format(text, sizeof(text), "%s%s",
			 is_overdue ? "overdue: the deadline of the drain has passed; " : "",
			 explain_claim(claim, &holder, clock_realtime_ms(), why));
	volume->state = (Holdfast__V1__ClaimState)claim->state;
	volume->volume_id = strdup(claim->volume_id);
	volume->namespace_ = strdup(claim->namespace);
	volume->allocation_id = strdup(claim->allocation_id);
	volume->claim_id = strdup(claim->id);
	volume->text = strdup(text);
	if (volume->volume_id && volume->namespace_ && volume->allocation_id && volume->claim_id &&
	    volume->text)
		return volume;
	holdfast__v1__drain_volume__free_unpacked(volume, NULL);
	return NULL;
}

/* Adds the volumes that the caller may see. False when memory is short. */
static bool add_progress(struct server *server, const struct rpc_call *call, const struct node_entry *node,
			 Holdfast__V1__DrainNodeResponse *response)
{
	struct nodes_sight sight;
	bool is_overdue = node_is_draining(&node->node) && clock_realtime_ms() > node->node.drain.deadline_ms;
	const struct claim_entry *entry;

	nodes_sight_init(server, call, &sight);
	response->volumes = calloc(node->n_live + 1, sizeof(Holdfast__V1__DrainVolume *));
	if (!response->volumes)
		return false;
	LIST_FOREACH (entry, &node->claims, of_node) {
		if (!claim_is_live(&entry->claim) || !nodes_sees_claim(&sight, entry->claim.namespace))
			continue;
		response->volumes[response->n_volumes] = progress_of(server, entry, is_overdue);
		if (!response->volumes[response->n_volumes])
			return false;
		response->n_volumes++;
	}
	return true;
}

static void on_drain_durable(struct server *server, void *userdata)
{
	cleanup_free struct answer_waiting *waiting = userdata;
	Holdfast__V1__DrainNodeResponse *response;
	struct nodes_sight sight;
	struct node_entry *node;
	struct error err;

	if (nodes_find(server, waiting->id, &node, &err) != STATUS_OK) {
		rpc_call_fail(waiting->call, &err);
		return;
	}
	drain_continue(server, node);
	response = calloc(1, sizeof(*response));
	if (response) {
		holdfast__v1__drain_node_response__init(response);
		nodes_sight_init(server, waiting->call, &sight);
		response->node = nodes_view(server, node, &sight);
		if (response->node && add_progress(server, waiting->call, node, response)) {
			answer_durable(server, waiting->call, &response->base);
			return;
		}
		protobuf_c_message_free_unpacked(&response->base, NULL);
	}
	answer_error(waiting->call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

static void drain_begin(const Holdfast__V1__DrainNodeRequest *request, const char *who, struct node *node)
{
	int64_t now_ms = clock_realtime_ms();

	node->drain = (struct drain){.started_ms = now_ms};
	node->drain.deadline_ms = now_ms + (request->deadline_ms > 0 ? (int64_t)request->deadline_ms
								     : DRAIN_DEADLINE_DEFAULT_MS);
	str_copy_text(node->drain.by, sizeof(node->drain.by), who);
	str_copy_text(node->drain.reason, sizeof(node->drain.reason), request->reason);
	node->ineligible = true;
	(void)snprintf(node->eligibility_reason, sizeof(node->eligibility_reason),
		       "a drain was begun by %.80s", who);
}

/* Cancels the drain. Stopped allocations stay stopped; the node stays ineligible. */
static void cancel(const char *who, struct node *node)
{
	node->drain = (struct drain){0};
	(void)snprintf(node->eligibility_reason, sizeof(node->eligibility_reason),
		       "a drain was cancelled by %.80s", who);
}

/* Changes the node. A repeat changes nothing: a drain in progress stays as it is, and so does one that is
 * done while nothing new has come. */
static bool change_node(const Holdfast__V1__DrainNodeRequest *request, const char *who,
			const struct node_entry *entry, struct node *node)
{
	bool is_done = node->drain.done_ms != 0 && holds_nothing(entry) && node->ineligible;

	if (request->cancel ? !node_is_draining(node) : node_is_draining(node) || is_done)
		return false;
	if (request->cancel)
		cancel(who, node);
	else
		drain_begin(request, who, node);
	node->modify_time_ms = clock_realtime_ms();
	return true;
}

static enum status handle_drain(struct server *server, struct rpc_call *call,
				const Holdfast__V1__DrainNodeRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free struct node *node = malloc(sizeof(*node));
	char who[ACCESS_WHO_SIZE];
	char object[OBJECT_SIZE];
	struct node_entry *entry;

	if (request->deadline_ms > DRAIN_DEADLINE_MAX_MS)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "deadline_ms: more than 30 days");
	TRY(nodes_find(server, request->id, &entry, err));
	if (!node)
		return error_no_memory(err, "a drain");
	*node = entry->node;
	if (change_node(request, access_who(server, call, who), entry, node)) {
		change_put_node(&change, node);
		(void)str_format(object, sizeof(object), "node %s%s", node->id,
				 request->cancel ? ", cancelled" : "");
		audit_write(server, &change, call, "Nodes.Drain", object, request->reason);
	}
	return change_commit_taking(server, &change, on_drain_durable, answer_waiting_new(call, node->id),
				    err);
}

DEFINE_WRITE_METHOD(drain_handle, Holdfast__V1__DrainNodeRequest, "Nodes.Drain", handle_drain)
