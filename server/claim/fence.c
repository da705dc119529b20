/* SPDX-License-Identifier: Apache-2.0 */
#include "claim/fence.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "access/foreign.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "claim/attest_record.h"
#include "claim/claims.h"
#include "model/pb.h"
#include "model/release.h"
#include "node/lookup.h"
#include "plugin/args.h"
#include "plugin/controller.h"
#include "recovery/epoch.h"
#include "state/change.h"
#include "state/storage_index.h"
#include "volume/store.h"
#include "volume/view.h"

#include <assert.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <stdlib.h>
#include <string.h>

#define DETACH "Volumes.Detach"

enum { LOOKS_MAX = 8192 }; /* at claims on storage that no volume has */

/* One request, from its check to its answer. */
struct fence {
	struct rpc_call *call;
	char namespace[NAMESPACE_MAX + 1];
	char volume_id[VOLUME_ID_MAX + 1];
	char node_id[NODE_ID_MAX + 1];
	char claim_id[UUID_TEXT_SIZE]; /* one of those that are fenced: it names the attachment */
	char external_node_id[EXTERNAL_NODE_ID_MAX + 1]; /* from which the provider is asked to detach, */
	char external_id[EXTERNAL_ID_MAX + 1];		 /* and what */
	bool has_freed;					 /* what the node had under another provider id */
	uint64_t since;					 /* the revision before it */
	char detail[EVIDENCE_DETAIL_MAX + 1];
};

/* Is @entry on the storage of @volume, or of its name if no volume has its storage? */
static bool is_attached_as(const struct claim_entry *entry, const struct volume_entry *volume)
{
	struct volume_entry unknown, *storage = claims_storage(entry, &unknown);

	return storage == &unknown ? entry->volume == volume : storage_is_attached_as(volume, storage);
}

static bool is_held(const struct claim_entry *entry, const struct volume_entry *volume)
{
	return is_attached_as(entry, volume) && entry->claim.state <= CLAIM_UNPUBLISHING;
}

/* Has it an attachment that the provider can be asked to take? */
static bool is_callable(struct server *server, const struct claim *claim)
{
	return plugin_args_external_id(&server->state, claim)[0] != '\0';
}

static bool can_detach(struct server *server, const char *plugin_id)
{
	struct plugin_entry *plugin = state_plugin(&server->state, plugin_id);
	const struct controller_half *controller = plugin ? controller_capabilities(plugin) : NULL;

	return controller && controller->attach_detach;
}

/* The claims of @volume on @node, as the model wants them. Costs the number of the node's claims. */
static enum status list_claims(struct server *server, const struct node_entry *node,
			       const struct volume_entry *volume, struct fence_claim **ret, size_t *ret_n,
			       struct error *err)
{
	cleanup_free struct fence_claim *claims = calloc(FENCE_CLAIMS_MAX, sizeof(*claims));
	const struct claim_entry *entry;
	size_t n = 0;

	if (!claims)
		return error_no_memory(err, "a fence");
	LIST_FOREACH (entry, &node->claims, of_node) {
		if (!is_held(entry, volume))
			continue;
		if (n == FENCE_CLAIMS_MAX)
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
					 "volume %s has more than %d claims on node %s", volume->id,
					 FENCE_CLAIMS_MAX, node->id);
		claims[n++] = (struct fence_claim){.claim = &entry->claim,
						   .may_run = claims_may_run(server, &entry->claim)};
	}
	*ret_n = n;
	*ret = TAKE_PTR(claims);
	return STATUS_OK;
}

/* The detach takes claims of any namespace: the caller needs the right to attest in each of them. */
static enum status check_right(struct server *server, const struct rpc_call *call,
			       const struct claim_entry *entry, const struct volume_entry *volume,
			       struct error *err)
{
	char name[FOREIGN_NAME_SIZE];

	if (str_eq(entry->claim.namespace, volume->namespace) ||
	    access_check(server, call, ACCESS_VOLUME_ATTEST, entry->claim.namespace, NULL) == STATUS_OK)
		return STATUS_OK;
	return error_set(
		err, STATUS_PERMISSION_DENIED, 0,
		"a detach of volume %s from node %s would take %s from it, too, which the provider "
		"knows by the same id: it needs the capability 'csi-attest-volume' in that namespace",
		volume->id, entry->node->id,
		foreign_name(server, call, volume->namespace, &entry->volume->volume, name));
}

static enum status check_rights(struct server *server, const struct rpc_call *call,
				const struct node_entry *node, const struct volume_entry *volume,
				struct error *err)
{
	const struct claim_entry *entry;

	LIST_FOREACH (entry, &node->claims, of_node)
		if (is_held(entry, volume))
			TRY(check_right(server, call, entry, volume, err));
	return STATUS_OK;
}

static enum status refuse_working(struct server *server, const struct rpc_call *call,
				  const struct volume_entry *volume, const struct node_entry *node,
				  const struct claim *claim, struct error *err)
{
	assert(claim); /* of the work */
	if (!foreign_shows_claims(server, call, volume->namespace, claim->namespace))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "work of " FOREIGN_VOLUME " on node %s may continue with volume %s, and "
				 "would lose it; it is stopped in that namespace first",
				 node->id, volume->id);
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "allocation %s on node %s may continue with volume %s, and would lose it; stop it "
			 "first: holdfast alloc stop %s",
			 claim->allocation_id, node->id, volume->id, claim->allocation_id);
}

static enum status refuse(struct server *server, const struct rpc_call *call, enum fence_verdict verdict,
			  const struct volume_entry *volume, const struct node_entry *node,
			  const struct claim *claim, struct error *err)
{
	switch (verdict) {
	case FENCE_POSSIBLE:
	case FENCE_VERDICT_N:
		break;
	case FENCE_NOTHING_HELD:
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s holds no claim of volume %s that it has not released: nothing was "
				 "changed; holdfast volume status %s%s%s --why shows who does",
				 node->id, volume->id, volume->id, NAMESPACE_OPTION(volume->namespace));
	case FENCE_NODE_ANSWERS:
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"node %s is connected and can give its own receipt for volume %s; a fence is "
			"for nodes that cannot answer. Without it: holdfast volume detach %s %s%s%s",
			node->id, volume->id, volume->id, node->id, NAMESPACE_OPTION(volume->namespace));
	case FENCE_WORK_CONTINUES:
		return refuse_working(server, call, volume, node, claim, err);
	case FENCE_NOT_ATTACHED:
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s was not attached to node %s by a controller of plugin %s, so no "
				 "detach can cut the node off; bring the node back, or take responsibility: "
				 "holdfast volume detach %s %s%s%s --attest REASON",
				 volume->id, node->id, volume->volume.plugin_id, volume->id, node->id,
				 NAMESPACE_OPTION(volume->namespace));
	case FENCE_NOBODY_TO_ASK:
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"plugin %s has no healthy controller that detaches volumes on a connected node, so "
			"node %s cannot be cut off from volume %s; see holdfast plugin status %s",
			volume->volume.plugin_id, node->id, volume->id, volume->volume.plugin_id);
	}
	return STATUS_OK;
}

/* Is an earlier one alike in all that names its attachment? Then what holds for that holds for this one. */
static bool is_repeat(const struct fence_claim *claims, size_t i)
{
	const struct claim *own = claims[i].claim;

	for (size_t j = i; j-- > 0;) {
		const struct claim *other = claims[j].claim;

		if (str_eq(other->volume_id, own->volume_id) && str_eq(other->namespace, own->namespace) &&
		    str_eq(other->plugin_id, own->plugin_id) &&
		    str_eq(other->external_id, own->external_id) &&
		    str_eq(other->external_node_id, own->external_node_id) &&
		    other->other_machine == own->other_machine && other->adopted == own->adopted &&
		    other->storage_proven == own->storage_proven &&
		    other->storage_digest == own->storage_digest)
			return true;
	}
	return false;
}

/* Refuses if the detach would take the device of another node's claim, which the provider knows by the same
 * id. */
static enum status check_others(struct server *server, const struct rpc_call *call,
				const struct volume_entry *volume, const struct fence_claim *claims, size_t n,
				struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		const struct claim *claim = claims[i].claim;
		const struct claim *other =
			is_repeat(claims, i)
				? NULL
				: claims_find_other_holder(state_claim(&server->state, claim->id));

		if (other && !foreign_shows_claims(server, call, volume->namespace, other->namespace))
			return error_set(err, STATUS_FAILED_PRECONDITION, 0,
					 "node %s holds " FOREIGN_VOLUME ", and the provider knows it by the "
					 "ids of volume %s and node %s, or may, so a detach would take it "
					 "from node %s",
					 other->node_id, volume->id, claim->node_id, other->node_id);
		if (other)
			return error_set(
				err, STATUS_FAILED_PRECONDITION, 0,
				"node %s holds volume %s for allocation %s, and the provider knows it "
				"by the id of node %s, or may, so a detach would take the volume "
				"from node %s; stop that allocation first: holdfast alloc stop %s; or, "
				"if node %s can no longer write, take responsibility: holdfast volume "
				"detach %s %s%s%s --attest REASON",
				other->node_id, other->volume_id, other->allocation_id, claim->node_id,
				other->node_id, other->allocation_id, claim->node_id, claim->volume_id,
				claim->node_id, NAMESPACE_OPTION(claim->namespace));
	}
	return STATUS_OK;
}

/* If no volume has the storage of a claim, those that the node has on it by other names are not in @claims.
 */
static enum status check_other_names(struct server *server, const struct rpc_call *call,
				     const struct node_entry *node, const struct volume_entry *volume,
				     const struct fence_claim *claims, size_t n, struct error *err)
{
	size_t n_looks = 0;

	for (size_t i = 0; i < n; i++) {
		const struct claim_entry *at = NULL;
		struct volume_entry unknown, *storage;

		if (is_repeat(claims, i))
			continue;
		storage = claims_storage(state_claim(&server->state, claims[i].claim->id), &unknown);
		while (storage == &unknown && (at = storage_next_attached(storage, at))) {
			if (++n_looks > LOOKS_MAX)
				return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
						 "the storage that node %s has by volume %s has too many "
						 "claims, of all nodes; register that storage first",
						 node->id, volume->id);
			if (at->node != node || at->volume == volume || at->claim.state > CLAIM_UNPUBLISHING)
				continue;
			TRY(check_right(server, call, at, volume, err));
			if (claims_may_run(server, &at->claim))
				return refuse_working(server, call, volume, node, &at->claim, err);
		}
	}
	return STATUS_OK;
}

static enum status check_claims(struct server *server, const struct rpc_call *call,
				const struct node_entry *node, const struct volume_entry *volume,
				struct error *err)
{
	cleanup_free struct fence_claim *claims = NULL;
	const struct fence_facts facts = {.node_is_connected = node_is_connected(node),
					  .can_detach = can_detach(server, volume->volume.plugin_id)};
	struct plugin_detach_args args;
	enum fence_verdict verdict;
	size_t index = 0;
	size_t n;

	TRY(nodes_check_away(server, node, err));
	TRY(list_claims(server, node, volume, &claims, &n, err));
	verdict = release_may_fence(claims, n, &facts, &index);
	if (verdict != FENCE_POSSIBLE)
		return refuse(server, call, verdict, volume, node, n > 0 ? claims[index].claim : NULL, err);
	TRY(check_others(server, call, volume, claims, n, err));
	TRY(check_other_names(server, call, node, volume, claims, n, err));
	for (index = 0; index + 1 < n && !is_callable(server, claims[index].claim);)
		index++;
	/* to CSI, no node means all nodes */
	if (!plugin_detach_args(&server->state, claims[index].claim, &args))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "how the provider of plugin %s calls node %s is not known, so it cannot be "
				 "cut off from just volume %s",
				 volume->volume.plugin_id, node->id, volume->id);
	/* after a restore it may hold more than is known here, and work with it */
	return epoch_check(server, &volume->volume, err);
}

enum status fence_check(struct server *server, const struct rpc_call *call, struct node_entry *node,
			struct volume_entry *volume, const char *reason, struct error *err)
{
	char detail[EVIDENCE_DETAIL_MAX + 1];

	TRY(attest_detail(server, call, "fence_reason", reason, detail, err));
	TRY(check_rights(server, call, node, volume, err));
	return check_claims(server, call, node, volume, err);
}

bool fence_is_possible(struct server *server, const struct claim_entry *entry)
{
	return entry->claim.attach != ATTACH_NONE &&
	       (!node_is_connected(entry->node) || entry->claim.other_machine) &&
	       can_detach(server, entry->claim.plugin_id) && !claims_find_other_holder(entry);
}

/* --- the answer --- */

static void answer(struct server *server, void *userdata)
{
	Holdfast__V1__DetachVolumeResponse *response = calloc(1, sizeof(*response));
	cleanup_free struct fence *fence = userdata;
	const struct volume_entry *volume = state_volume(&server->state, fence->namespace, fence->volume_id);

	if (!response) {
		answer_error(fence->call, STATUS_RESOURCE_EXHAUSTED, "out of memory; the node is cut off");
		return;
	}
	holdfast__v1__detach_volume_response__init(response);
	if (volume) /* when memory is short: a shorter list is still true */
		(void)volume_show_claims(server, volume, fence->node_id, fence->since, &response->claims,
					 &response->n_claims, NULL);
	claims_hide_boots(server, fence->call, response->claims, response->n_claims);
	answer_durable(server, fence->call, &response->base);
}

static enum status release_one(struct server *server, const struct claim_entry *entry,
			       const struct fence *fence, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const struct claim_event fenced = {.type = CLAIM_EVENT_EVIDENCE,
					   .evidence = EVIDENCE_STORAGE_FENCE,
					   .detail = fence->detail,
					   .now_ms = clock_realtime_ms()};
	const struct claim_event detached = {.type = CLAIM_EVENT_CONTROLLER_DETACHED,
					     .now_ms = fenced.now_ms};
	struct claim after;

	/* the detach counts also for a claim that was released before */
	TRY(entry->claim.state == CLAIM_NODE_DETACHED
		    ? claims_step(&change, entry, &detached, &after, err)
		    : claims_take_from_node(&change, entry, &fenced,
					    "its node was cut off from its storage by the provider", err));
	return change_commit(server, &change, NULL, NULL, err);
}

/* Is the attachment that the provider has removed that of this claim? The server refuses a new attachment
 * there meanwhile. An id that is not stored may have been reported since: such a claim has a detach of its
 * own. */
static bool is_fenced(const struct claim_entry *entry, const struct volume_entry *volume,
		      const struct fence *fence)
{
	const char *stored = entry->claim.external_node_id;

	if (entry->claim.attach == ATTACH_NONE || !is_attached_as(entry, volume) ||
	    !str_eq(plugin_args_external_id(&entry->server->state, &entry->claim), fence->external_id) ||
	    !(stored[0] != '\0' ? str_eq(stored, fence->external_node_id)
				: str_eq(entry->id, fence->claim_id)))
		return false;
	return entry->claim.state == CLAIM_NODE_DETACHED ||
	       (is_held(entry, volume) && entry->claim.fence_asked);
}

/* Returns the next fenced claim. Releasing one may drop others as history, and drive the next one. */
static struct claim_entry *next_fenced(const struct node_entry *node, const struct volume_entry *volume,
				       const struct fence *fence)
{
	struct claim_entry *entry;

	LIST_FOREACH (entry, &node->claims, of_node)
		if (is_fenced(entry, volume, fence))
			return entry;
	return NULL;
}

static enum status release_all(struct server *server, const struct fence *fence, struct error *err)
{
	struct volume_entry *volume = state_volume(&server->state, fence->namespace, fence->volume_id);
	struct node_entry *node = state_node(&server->state, fence->node_id);
	struct claim_entry *entry;
	enum status status = STATUS_OK;

	while (status == STATUS_OK && volume && node && (entry = next_fenced(node, volume, fence)))
		status = release_one(server, entry, fence, err); /* each leaves those that are fenced */
	return status;
}

/* Puts a claim into @fence that the provider knows as another node's than the one that was just detached, and
 * so still holds the volume. Returns whether it found one. */
static bool find_other_name(struct server *server, struct fence *fence)
{
	const struct volume_entry *volume = state_volume(&server->state, fence->namespace, fence->volume_id);
	const struct node_entry *node = state_node(&server->state, fence->node_id);
	const struct claim_entry *entry;

	if (!volume || !node)
		return false;
	LIST_FOREACH (entry, &node->claims, of_node) {
		if (!is_held(entry, volume) || !entry->claim.fence_asked ||
		    entry->claim.attach == ATTACH_NONE || !is_callable(server, &entry->claim))
			continue;
		(void)str_copy(fence->claim_id, sizeof(fence->claim_id), entry->id);
		return true;
	}
	return false;
}

/* --- the call --- */

/* Still, when it is scheduled? The claims are what they were checked to be, but the node may be back. */
static bool is_fence_wanted(struct server *server, void *userdata)
{
	const struct fence *fence = userdata;
	struct volume_entry *volume = state_volume(&server->state, fence->namespace, fence->volume_id);
	struct node_entry *node = state_node(&server->state, fence->node_id);

	return volume && node && check_claims(server, fence->call, node, volume, NULL) == STATUS_OK;
}

static void refuse_fence(struct server *server, const struct fence *fence, const struct error *err)
{
	struct error why = *err;

	(void)error_prefix(&why,
			   "node %s was not cut off from volume %s, as far as is known; %s was released",
			   fence->node_id, fence->volume_id,
			   fence->has_freed ? "only what it held under another provider id" : "nothing");
	answer_refused(server, fence->call, DETACH, &why);
}

/* A plugin that knows no such volume, or no such node, has cut off nothing. */
static bool is_no_proof(const Holdfast__V1__PluginReply *reply, struct error *ret)
{
	if (!reply->detach || !reply->detach->not_found)
		return false;
	(void)error_set(ret, STATUS_FAILED_PRECONDITION, 0,
			"its plugin does not know the volume or the node, which proves nothing: %s; look at "
			"the storage, then attest it with holdfast node attest",
			reply->detach->message);
	return true;
}

static void on_noted(struct server *server, void *userdata);

static void on_fenced(struct server *server, const Holdfast__V1__PluginReply *reply, const struct error *err,
		      void *userdata)
{
	cleanup_free struct fence *fence = userdata;
	struct change nothing = CHANGE_INIT; /* durable after all the others */
	struct error failure;
	enum status status;

	if (!reply || is_no_proof(reply, &failure)) {
		refuse_fence(server, fence, reply ? &failure : err);
		return;
	}
	status = release_all(server, fence, &failure);
	if (status == STATUS_OK && find_other_name(server, fence)) {
		fence->has_freed = true;
		on_noted(server, TAKE_PTR(fence));
		return;
	}
	if (status == STATUS_OK)
		status = change_commit(server, &nothing, answer, fence, &failure);
	if (status == STATUS_OK)
		(void)TAKE_PTR(fence);
	else
		answer_refused(server, fence->call, DETACH, &failure);
}

static enum status call_detach(struct server *server, struct fence *fence, struct error *err)
{
	const struct claim_entry *entry = state_claim(&server->state, fence->claim_id);
	struct plugin_detach_args args;
	struct controller_call call = {.wanted = is_fence_wanted, .done = on_fenced, .userdata = fence};

	call.call = entry ? plugin_detach_args(&server->state, &entry->claim, &args) : NULL;
	if (!call.call)
		return error_set(err, STATUS_ABORTED, 0, "it was released meanwhile");
	call.plugin_id = entry->claim.plugin_id;
	(void)str_copy(fence->external_node_id, sizeof(fence->external_node_id), args.external_node_id);
	(void)str_copy(fence->external_id, sizeof(fence->external_id), args.external_id);
	return controller_call(server, &call, err);
}

/* It is on record that the provider may be asked. */
static void on_noted(struct server *server, void *userdata)
{
	cleanup_free struct fence *fence = userdata;
	struct error err;

	if (call_detach(server, fence, &err) == STATUS_OK)
		(void)TAKE_PTR(fence);
	else
		refuse_fence(server, fence, &err);
}

/* @is_named: the volume is on record as fenced. */
static enum status note_one(struct server *server, const struct fence *fence, const struct claim_entry *entry,
			    bool is_named, struct error *err)
{
	const struct claim_event asked = {.type = CLAIM_EVENT_FENCE_ASKED, .now_ms = clock_realtime_ms()};
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[VOLUME_OBJECT_SIZE];
	struct claim after;

	TRY(claims_step(&change, entry, &asked, &after, err));
	if (!is_named)
		audit_write(server, &change, fence->call, DETACH,
			    volume_object(&entry->volume->volume, object), fence->detail);
	return change_commit(server, &change, NULL, NULL, err);
}

enum status fence_volume(struct server *server, struct rpc_call *call, struct node_entry *node,
			 struct volume_entry *volume, const char *reason, struct error *err)
{
	cleanup_free struct fence *fence = calloc(1, sizeof(*fence));
	cleanup(change_release) struct change change = CHANGE_INIT; /* durable after all the others */
	const struct volume_entry *named = volume;
	char object[VOLUME_OBJECT_SIZE];
	struct claim_entry *entry;
	enum status status;

	if (!fence)
		return error_no_memory(err, "a fence");
	fence->call = call;
	fence->since = kv_revision(server->kv);
	(void)str_copy(fence->namespace, sizeof(fence->namespace), volume->namespace);
	(void)str_copy(fence->volume_id, sizeof(fence->volume_id), volume->id);
	(void)str_copy(fence->node_id, sizeof(fence->node_id), node->id);
	status = attest_detail(server, call, "fence_reason", reason, fence->detail, err);
	LIST_FOREACH (entry, &node->claims, of_node) { /* no claim leaves the list by that */
		if (status != STATUS_OK || !is_held(entry, volume))
			continue;
		if (fence->claim_id[0] == '\0' || is_callable(server, &entry->claim))
			(void)str_copy(fence->claim_id, sizeof(fence->claim_id), entry->id);
		status = note_one(server, fence, entry, entry->volume == named || entry->volume == volume,
				  err);
		named = entry->volume;
	}
	if (status != STATUS_OK)
		return status;
	audit_write(server, &change, call, DETACH, volume_object(&volume->volume, object), fence->detail);
	TRY(change_commit(server, &change, on_noted, fence, err));
	(void)TAKE_PTR(fence);
	return STATUS_OK;
}
