/* SPDX-License-Identifier: Apache-2.0 */
#include "model/admission.h"

#include "base/clock.h"
#include "base/str.h"

#include <assert.h>
#include <stdbool.h>

/* May a new claim exist next to @held under the rules of @access? @same_node: on the same machine, not only
 * under the same name. */
static bool may_stand_beside(enum access_mode access, const struct claim *held, enum claim_mode mode,
			     bool same_node)
{
	switch (access) {
	case SINGLE_NODE_READER_ONLY:
	case SINGLE_NODE_SINGLE_WRITER:
		return false;
	case SINGLE_NODE_WRITER:
		return same_node && held->mode == CLAIM_READ && mode == CLAIM_WRITE;
	case SINGLE_NODE_MULTI_WRITER:
		return same_node;
	case MULTI_NODE_READER_ONLY:
		return true;
	case MULTI_NODE_SINGLE_WRITER:
		return mode == CLAIM_READ || held->mode == CLAIM_READ;
	case MULTI_NODE_MULTI_WRITER:
		return true;
	case ACCESS_MODE_UNSPECIFIED:
	case ACCESS_MODE_N:
		break;
	}
	return false;
}

/* On one node CSI knows one capability of a volume: a plugin refuses to attach or stage it there as another
 * one (ALREADY_EXISTS). */
static bool shares_attachment(enum access_mode access, const struct claim *held, const char *node_id)
{
	return held->access_mode == access || str_eq(held->plugin_id, PLUGIN_NATIVE) ||
	       !str_eq(held->node_id, node_id);
}

/* Does @access allow a claim of @mode at all? */
static bool allows_mode(enum access_mode access, enum claim_mode mode)
{
	return mode == CLAIM_READ || access_mode_is_writer(access);
}

/* Is the machine that is node @node_id now the one that holds @held? */
static bool is_held_by(const struct claim *held, const char *node_id)
{
	return str_eq(held->node_id, node_id) && !held->other_machine;
}

/* A machine is never in the boot of another one. */
static bool are_of_one_machine(const struct claim *a, const struct claim *b)
{
	return str_eq(a->node_id, b->node_id) &&
	       (str_eq(a->boot_id, b->boot_id) || (!a->other_machine && !b->other_machine));
}

/* The rules of both sides must allow it: the newcomer's, and those under which the other is held. */
static bool has_room_beside(struct capability as, enum claim_mode mode, const char *node_id, bool same_node,
			    const struct claim *held)
{
	return held->attachment_mode == as.attachment_mode && allows_mode(held->access_mode, mode) &&
	       may_stand_beside(as.access_mode, held, mode, same_node) &&
	       may_stand_beside(held->access_mode, held, mode, same_node) &&
	       shares_attachment(as.access_mode, held, node_id);
}

bool admission_has_room(struct capability as, enum claim_mode mode, const char *node_id,
			const struct claim *const *claims, size_t n_claims, const struct claim **ret_blocker)
{
	*ret_blocker = NULL;
	if (!allows_mode(as.access_mode, mode))
		return false;
	for (size_t i = 0; i < n_claims; i++) {
		assert(claims[i]);
		if (has_room_beside(as, mode, node_id, is_held_by(claims[i], node_id), claims[i]))
			continue;
		*ret_blocker = claims[i];
		return false;
	}
	return true;
}

bool admission_are_rivals(const struct claim *a, const struct claim *b)
{
	bool same_node = are_of_one_machine(a, b);

	return !has_room_beside(claim_capability(a), a->mode, a->node_id, same_node, b) &&
	       !has_room_beside(claim_capability(b), b->mode, b->node_id, same_node, a);
}

static enum status check_alloc(const struct admission *in, const struct volume_request **ret,
			       struct error *err)
{
	const struct volume_request *request;

	if (!in->alloc)
		return error_set(err, STATUS_NOT_FOUND, 0, "volume %s: there is no allocation %s",
				 in->volume_id, in->alloc_id);
	if (!in->node || !str_eq(in->alloc->node_id, in->node->id))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "volume %s: allocation %s is not assigned to this node", in->volume_id,
				 in->alloc_id);
	if (in->alloc->desired_status != DESIRED_RUN || alloc_is_client_terminal(in->alloc))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s: allocation %s is not to run (desired %s, client %s)",
				 in->volume_id, in->alloc_id, desired_status_name(in->alloc->desired_status),
				 client_status_name(in->alloc->client_status));
	request = alloc_find_volume(in->alloc, in->volume_name);
	if (!request || !str_eq(request->source, in->volume->id) ||
	    !str_eq(in->alloc->namespace, in->volume->namespace))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "volume %s: allocation %s does not ask for it as '%.64s'", in->volume_id,
				 in->alloc_id, in->volume_name);
	*ret = request;
	return STATUS_OK;
}

static enum status check_capability(const struct admission *in, const struct volume_request *request,
				    struct error *err)
{
	if (!volume_has_capability(in->volume, request->access_mode, request->attachment_mode))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"volume %s is not registered with the capability %s/%s; add a capability block and "
			"register it again",
			in->volume_id, access_mode_name(request->access_mode),
			attachment_mode_name(request->attachment_mode));
	return STATUS_OK;
}

static enum status check_plugin(const struct admission *in, struct error *err)
{
	if (!in->plugin)
		return error_set(
			err, STATUS_UNAVAILABLE, 0,
			"volume %s: node %s does not offer plugin %s%s%s; see holdfast node status %s",
			in->volume_id, in->node->id, in->volume->plugin_id,
			in->volume->profile[0] != '\0' ? " with profile " : "", in->volume->profile,
			in->node->id);
	if (!node_plugin_is_healthy(in->plugin))
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "volume %s: plugin %s on node %s is not healthy: %s", in->volume_id,
				 in->volume->plugin_id, in->node->id, in->plugin->health_description);
	return STATUS_OK;
}

static const struct claim *find_own(const struct admission *in)
{
	/* the node, too: it may report a claim for the allocation of another one */
	for (size_t i = 0; i < in->n_claims; i++)
		if (str_eq(in->claims[i]->allocation_id, in->alloc->id) &&
		    str_eq(in->claims[i]->node_id, in->node->id) &&
		    str_eq(in->claims[i]->volume_id, in->volume->id) &&
		    str_eq(in->claims[i]->namespace, in->volume->namespace))
			return in->claims[i];
	return NULL;
}

static const struct holder *find_holder(const struct admission *in, const struct claim *claim)
{
	static const struct holder working = {.is_connected = true, .is_stopping = false};

	for (size_t i = 0; in->holders && i < in->n_claims; i++)
		if (in->claims[i] == claim)
			return &in->holders[i];
	return &working;
}

static enum status refuse_held(const struct admission *in, const struct volume_request *request,
			       const struct claim *blocker, struct error *err)
{
	char why[EXPLAIN_SIZE];
	bool is_other;

	if (blocker && !str_eq(blocker->namespace, in->volume->namespace))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s is not free for %s (%s): " FOREIGN_VOLUME " holds its storage",
				 in->volume_id, claim_mode_name(volume_request_mode(request)),
				 access_mode_name(request->access_mode));
	if (blocker && blocker->attachment_mode != request->attachment_mode)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s is attached as %s by allocation %s; %s was asked for",
				 in->volume_id, attachment_mode_name(blocker->attachment_mode),
				 blocker->allocation_id, attachment_mode_name(request->attachment_mode));
	if (blocker && !shares_attachment(request->access_mode, blocker, in->node->id) &&
	    may_stand_beside(request->access_mode, blocker, volume_request_mode(request),
			     is_held_by(blocker, in->node->id)))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"volume %s is attached to node %s as %s by allocation %s, and a CSI volume is "
			"attached to a node in one access mode; ask for %s there (with read_only = true "
			"to only read), or run on another node",
			in->volume_id, in->node->id, access_mode_name(blocker->access_mode),
			blocker->allocation_id, access_mode_name(blocker->access_mode));
	if (!blocker)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "volume %s: access mode %s does not allow writing; set read_only = true",
				 in->volume_id, access_mode_name(request->access_mode));
	is_other = !str_eq(blocker->volume_id, in->volume->id);
	return error_set(err, STATUS_FAILED_PRECONDITION, 0, "volume %s is not free for %s (%s): %s%s%s%s",
			 in->volume_id, claim_mode_name(volume_request_mode(request)),
			 access_mode_name(request->access_mode), is_other ? "its storage is volume " : "",
			 is_other ? blocker->volume_id : "", is_other ? " too: " : "",
			 explain_claim(blocker, find_holder(in, blocker), in->now_ms, why));
}

/* An adopted claim may have other modes than any that was granted: its node reported it. */
static enum status repeat_own(const struct admission *in, const struct volume_request *request,
			      const struct claim *own, const struct claim **ret_same, struct error *err)
{
	if (own->access_mode != request->access_mode || own->attachment_mode != request->attachment_mode ||
	    own->mode != volume_request_mode(request))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s: allocation %s asks for %s (%s/%s) and holds it for %s (%s/%s); "
				 "stop it: holdfast alloc stop %s",
				 in->volume_id, in->alloc_id, claim_mode_name(volume_request_mode(request)),
				 access_mode_name(request->access_mode),
				 attachment_mode_name(request->attachment_mode), claim_mode_name(own->mode),
				 access_mode_name(own->access_mode),
				 attachment_mode_name(own->attachment_mode), in->alloc_id);
	*ret_same = own;
	return STATUS_ALREADY_EXISTS;
}

/* The release of its own claim has begun, and there is no way back to holding it. One that expired before its
 * node had it is asked for again. */
static enum status refuse_own(const struct admission *in, const struct volume_request *request,
			      const struct claim *own, struct error *err)
{
	if (own->evidence == EVIDENCE_NEVER_SENT)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "volume %s: the claim of allocation %s expired before node %s had it, and "
				 "is being freed; retry",
				 in->volume_id, in->alloc_id, in->node->id);
	return refuse_held(in, request, own, err);
}

enum status admission_check(const struct admission *in, const struct claim **ret_same, struct error *err)
{
	const struct volume_request *request = NULL;
	const struct claim *blocker = NULL;
	const struct claim *own;

	if (!in->volume)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "there is no volume %s; register it: holdfast volume register FILE%s%s",
				 in->volume_id, NAMESPACE_OPTION(in->alloc ? in->alloc->namespace : ""));
	TRY(check_alloc(in, &request, err));
	TRY(check_capability(in, request, err));
	own = find_own(in);
	if (own && (own->state == CLAIM_RESERVED || own->state == CLAIM_TAKEN))
		return repeat_own(in, request, own, ret_same, err);
	if (own)
		return refuse_own(in, request, own, err);
	TRY(check_plugin(in, err));
	if (!admission_has_room(volume_request_capability(request), volume_request_mode(request),
				in->node->id, in->claims, in->n_claims, &blocker))
		return refuse_held(in, request, blocker, err);
	return STATUS_OK;
}
