/* SPDX-License-Identifier: Apache-2.0 */
#include "claim/held_twice.h"

#include "server.h"

#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/join.h"
#include "base/str.h"
#include "claim/claims.h"
#include "log/log.h"
#include "model/admission.h"
#include "node/session.h"
#include "state/change.h"
#include "state/claim_log.h"
#include "state/freed.h"
#include "state/storage_index.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum {
	HOLDER_SIZE = 256,
	WHAT_SIZE = 768,
	COMMAND_SIZE = 128,
	/* ends of claims that were taken back before, and claims without a ticket: a machine was reverted */
	AGAIN_FREE_PER_VOLUME = 8,
	AGAIN_COST_US = 60000000, /* of those of a node beyond these: one a minute */
	AGAIN_BURST = 8,
	PAIRS_MAX = 2,	  /* of a claim with rivals of other names */
	LOOKS_MAX = 64,	  /* at claims of other names, for these */
	SKIPS_MAX = 1024, /* of claims on other parts, likewise */
	OF_NAME_MAX = 8,  /* claims of each mode that are paired after a start */
};

/* Describes the holder to readers of namespace @own (NULL: of all). */
static const char *describe_holder(const struct claim *claim, const char *own, char ret[static HOLDER_SIZE])
{
	if (own && !str_eq(claim->namespace, own))
		(void)str_copy(ret, HOLDER_SIZE, FOREIGN_VOLUME);
	else
		(void)str_format(ret, HOLDER_SIZE, "allocation %s (generation %" PRIu64 ")",
				 claim->allocation_id, claim->generation);
	return ret;
}

/* Describes the other holder of the volume, newest first; empty: no other holder. */
static const char *other_holder(const struct volume_entry *volume, const struct claim *but, const char *own,
				char ret[static HOLDER_SIZE])
{
	char name[HOLDER_SIZE];
	const struct claim_entry *entry;

	ret[0] = '\0';
	STORAGE_FOREACH_CLAIM (entry, volume) {
		const struct claim *claim = &entry->claim;

		if (!claim_is_live(claim) || str_eq(claim->id, but->id))
			continue;
		(void)str_format(ret, HOLDER_SIZE, ", and node %s holds it for %s", claim->node_id,
				 describe_holder(claim, own, name));
		break;
	}
	return ret;
}

/* May it, or another name of its storage, have such a claim? */
static bool may_be_freed(const struct volume_entry *volume)
{
	const struct volume_entry *other = volume;
	struct volume_entry *at = NULL;

	if (!RB_EMPTY(&volume->state->unmatched))
		return true;
	for (; other; other = at = storage_next_other(volume, at))
		if (other->n_was_freed > 0)
			return true;
	return false;
}

enum status held_twice_check(const struct volume_entry *volume, struct error *err)
{
	const struct claim_entry *entry = NULL;
	char name[HOLDER_SIZE], other[HOLDER_SIZE];

	if (!may_be_freed(volume))
		return STATUS_OK;
	STORAGE_FOREACH_CLAIM (entry, volume)
		if (entry->claim.was_freed && claim_is_live(&entry->claim))
			break;
	if (!entry)
		return STATUS_OK;
	return error_set(err, STATUS_UNAVAILABLE, 0,
			 "volume %s is held twice: node %s has it mounted for %s by a claim "
			 "which was freed%s. Nothing is granted before node %s has released it, as it is "
			 "ordered to, is fenced, rebooted or attested: holdfast volume status %s%s%s --why",
			 volume->volume.id, entry->claim.node_id,
			 describe_holder(&entry->claim, volume->namespace, name),
			 other_holder(volume, &entry->claim, volume->namespace, other), entry->claim.node_id,
			 volume->volume.id, NAMESPACE_OPTION(volume->namespace));
}

/* Is @claim surely on another part of one id than the volume of @other? That may be of other storage than its
 * claim. */
static bool is_on_other_part(const struct claim_entry *claim, const struct claim_entry *other)
{
	return !other->is_unmatched && claim_is_of_other_context(&claim->claim, &other->volume->volume);
}

/* Is @entry a claim that excludes @own? Another name may be on another part of what the provider's id names;
 * claims of one name count on any part, as for the state's count. */
static bool is_rival(const struct claim_entry *entry, const struct claim_entry *own)
{
	return entry != own && claim_is_live(&entry->claim) &&
	       admission_are_rivals(&entry->claim, &own->claim) &&
	       (entry->volume == own->volume ||
		(!is_on_other_part(own, entry) && !is_on_other_part(entry, own)));
}

typedef struct claim_entry *walk_fn(const struct volume_entry *volume, const struct claim_entry *at);

/* The next rival of @own behind @at (NULL: the first) of those that @walk finds for @volume. */
static struct claim_entry *next_rival(const struct claim_entry *own, walk_fn *walk,
				      const struct volume_entry *volume, const struct claim_entry *at)
{
	struct claim_entry *entry;

	do
		at = entry = walk(volume, at);
	while (entry && !is_rival(entry, own));
	return entry;
}

/* May @own, whose storage is @storage, be on another part of the id of its volume? Then claims on any part
 * may be its rivals. */
static bool is_part_of(const struct claim_entry *own, const struct volume_entry *storage)
{
	return own->is_unmatched && storage == own->volume;
}

static const struct claim_entry *find_rival(const struct claim_entry *own)
{
	struct volume_entry unknown, *storage;
	const struct rival_link *link;
	struct claim_entry *rival;

	LIST_FOREACH (link, &own->rivals, of_claim)
		if (is_rival(link->other, own))
			return link->other;
	if (own->n_rivals == 0 && storage_is_alone(own->volume) && RB_EMPTY(&own->volume->state->unmatched))
		return NULL;
	storage = claims_storage(own, &unknown);
	rival = next_rival(own, is_part_of(own, storage) ? storage_next_attached : storage_next_claim,
			   own->volume, NULL);
	if (rival || storage == own->volume)
		return rival;
	return next_rival(own, storage_next_attached, storage, NULL);
}

/* Rivals of the same name are counted by the state. An alarm needs one rival, and a node may report any
 * number of claims. Grants and orders walk all of them. */
static void pair_on(struct claim_entry *own, struct storage_walk walk)
{
	struct claim_entry *entry = NULL;
	int n_pairs = 0, n_looks = 0;

	walk.n_left = SKIPS_MAX;
	while (n_looks < LOOKS_MAX && n_pairs < PAIRS_MAX && (entry = storage_walk_next(&walk, entry))) {
		if (walk.n_left > 0 && is_on_other_part(own, entry)) {
			walk.n_left--;
			continue;
		}
		n_looks++;
		if (entry->volume == own->volume || !is_rival(entry, own))
			continue;
		n_pairs++;
		if (!state_pair_rivals(own->volume->state, own, entry))
			log_line(LOG_ERR, "out of memory: no metric shows that volume %s is held twice",
				 own->claim.volume_id);
	}
}

static void pair(struct claim_entry *own)
{
	struct volume_entry unknown, *storage = claims_storage(own, &unknown);

	pair_on(own, (struct storage_walk){.volume = own->volume,
					   .is_attached = is_part_of(own, storage),
					   .is_by_others = true});
	if (storage != own->volume)
		pair_on(own, (struct storage_walk){.volume = storage, .is_attached = true});
}

/* Pairs that still exclude each other stay: the other claim may have no further one. */
static void drop_ended(struct claim_entry *own)
{
	struct rival_link *next, *link = LIST_FIRST(&own->rivals);

	for (; link; link = next) {
		next = LIST_NEXT(link, of_claim);
		if (!is_rival(link->other, own))
			state_drop_pair(own->volume->state, own, link);
	}
}

void held_twice_pair(struct claim_entry *own)
{
	drop_ended(own);
	if (LIST_EMPTY(&own->rivals))
		pair(own);
}

/* Those that lost their last pair: a claim lists only a few of its rivals. */
static void pair_unpaired(struct state *state)
{
	struct claim_entry *entry;

	while ((entry = LIST_FIRST(&state->unpaired))) {
		state_unlist_unpaired(entry);
		if (LIST_EMPTY(&entry->rivals))
			pair(entry);
	}
}

void held_twice_note_durable(struct server *server, struct change_object *objects, size_t n,
			     uint64_t revision)
{
	for (size_t i = 0; i < n && server->state.n_volumes_held_twice > 0; i++) {
		const struct volume *stored = objects[i].kind == OBJECT_VOLUME ? objects[i].value : NULL;
		struct volume_entry *volume =
			stored ? state_volume(&server->state, stored->namespace, stored->id) : NULL;
		struct claim_entry *entry =
			volume && volume->n_rivals > 0 ? LIST_FIRST(&volume->claims) : NULL;

		for (; entry; entry = LIST_NEXT(entry, of_volume))
			drop_ended(entry);
	}
	pair_unpaired(&server->state);
}

/* A few claims of each name that write, and that read: others of that name have the same rivals. */
void held_twice_pair_all(struct server *server)
{
	struct volume_entry *volume = state_volume_from(&server->state, "", "");
	struct claim_entry *entry;

	for (; volume && server->state.n_claims_adopted > 0; volume = state_volume_next(volume)) {
		int n[CLAIM_MODE_N] = {0};

		LIST_FOREACH (entry, &volume->claims, of_volume)
			if (entry->claim.adopted && claim_is_live(&entry->claim) &&
			    n[entry->claim.mode]++ < OF_NAME_MAX)
				pair(entry);
	}
}

/* Returns the command that ends @entry. If the server does not know its work, or has it at another node, the
 * command shows the node: a stop would end the work of the other one. So it does if it is not of namespace
 * @own. */
static const char *end_command(const struct claim_entry *entry, const char *own,
			       char ret[static COMMAND_SIZE])
{
	const struct claim *claim = &entry->claim;

	if (str_eq(claim->namespace, own) && state_alloc_of(&entry->server->state, claim))
		(void)str_join(ret, COMMAND_SIZE, "holdfast alloc stop ", claim->allocation_id);
	else
		(void)str_join(ret, COMMAND_SIZE, "holdfast node status ", claim->node_id);
	return ret;
}

/* The caller has not mounted it, or does not know that it has. */
enum status held_twice_check_repeat(const struct claim_entry *entry, struct error *err)
{
	const struct claim_entry *other = find_rival(entry);
	const struct claim *claim = &entry->claim;
	char command[COMMAND_SIZE], other_command[COMMAND_SIZE], name[HOLDER_SIZE], other_name[HOLDER_SIZE];

	if (!other)
		return STATUS_OK;
	return error_set(
		err, STATUS_UNAVAILABLE, 0,
		"volume %s is held twice: node %s for %s, and node %s for %s, though %s allows one of them. "
		"Both are kept, and neither is granted again before "
		"the other is released: see which of them works, holdfast volume status %s%s%s --why, "
		"then end the other: %s, or %s",
		claim->volume_id, claim->node_id, describe_holder(claim, claim->namespace, name),
		other->claim.node_id, describe_holder(&other->claim, claim->namespace, other_name),
		access_mode_name(claim->access_mode), claim->volume_id, NAMESPACE_OPTION(claim->namespace),
		end_command(entry, claim->namespace, command),
		end_command(other, claim->namespace, other_command));
}

enum status held_twice_check_rivals(const struct volume_entry *volume, struct error *err)
{
	const struct claim_entry *entry;
	int n_looks = 0; /* until a stored volume is durable, a pair may have ended */

	if (volume->n_rivals == 0)
		return STATUS_OK;
	LIST_FOREACH (entry, &volume->claims, of_volume)
		if (entry->n_rivals > 0 && ++n_looks <= OF_NAME_MAX)
			TRY(held_twice_check_repeat(entry, err));
	return STATUS_OK;
}

/* It is as if the work had just ended. The evidence that is refuted stays to be seen until there is another.
 * The machine of the session is in the claim's boot: it is no former one. */
static void reopen_claim(const struct claim *freed, struct claim *ret)
{
	*ret = *freed;
	ret->state = CLAIM_UNPUBLISHING;
	ret->was_freed = true;
	ret->sent_to_node = true;
	ret->detach_evidence = EVIDENCE_NONE;
	ret->detach_detail[0] = ret->plugin_waiver[0] = ret->last_error[0] = '\0';
	ret->last_error_code = STATUS_OK;
	ret->fence_asked = ret->other_machine = false;
	ret->attempts = 0;
	ret->modify_time_ms = ret->state_time_ms = clock_realtime_ms();
}

static void describe(const struct claim_entry *entry, char ret[static WHAT_SIZE])
{
	const struct claim *claim = &entry->claim;
	char other[HOLDER_SIZE];

	(void)str_format(ret, WHAT_SIZE,
			 "node %s has volume %s mounted for allocation %s by claim %s, generation %" PRIu64
			 ", which was freed by evidence %s%s",
			 claim->node_id, claim->volume_id, claim->allocation_id, claim->id, claim->generation,
			 evidence_name(claim->evidence), other_holder(entry->volume, claim, NULL, other));
}

enum status held_twice_take(struct session *session, const char *claim_id, struct error *err)
{
	struct server *server = session->server;
	struct claim_entry *entry;
	char object[sizeof("volume /, claim ") + NAMESPACE_MAX + VOLUME_ID_MAX + UUID_TEXT_SIZE];
	cleanup(change_release) struct change change = CHANGE_INIT;
	char what[WHAT_SIZE];
	struct claim_log log;
	struct claim claim;

	TRY(session_find_claim(session, claim_id, &entry, err));
	/* a mount of another boot is gone; of a claim that is not known the node has to report */
	if (!entry || claim_is_live(&entry->claim) || !str_eq(entry->claim.boot_id, session->boot_id))
		return STATUS_OK;
	describe(entry, what);
	reopen_claim(&entry->claim, &claim);
	(void)str_format(object, sizeof(object), "volume %s/%s, claim %s", claim.namespace, claim.volume_id,
			 claim.id);
	freed_stage_deletion(&change, &claim);
	change_put_claim(&change, &claim);
	audit_silent(server, &change, NULL, "Claims.TakeBack", object, what);
	log_ctx(LOG_CRIT, claim_log(&log, &claim, "session", LOG_EVENT_VOLUME_HELD_TWICE, NULL),
		"held twice: %s. It is ordered to release it, and nothing of the volume is granted before",
		what);
	entry->work.is_taken_back_again = entry->claim.was_freed;
	return session_commit(session, &change, SESSION_NOTHING, "", err);
}

/* A node may invent an allocation that is adopted. */
static bool is_free_again(struct alloc_entry *alloc)
{
	if (!alloc || alloc->alloc.adopted ||
	    alloc->n_again >= AGAIN_FREE_PER_VOLUME * alloc->alloc.n_volumes)
		return false;
	alloc->n_again++;
	return true;
}

static bool may_again(struct alloc_entry *alloc, struct node_entry *node)
{
	char more[RATE_MORE_SIZE];

	return is_free_again(alloc) ||
	       rate_take_counted(&node->again, AGAIN_COST_US, AGAIN_BURST, clock_monotonic_us(), more);
}

enum status held_twice_check_end(struct claim_entry *entry, struct error *err)
{
	if (!claim_is_live(&entry->claim) || !entry->work.is_taken_back_again)
		return STATUS_OK;
	if (!may_again(state_alloc_of(&entry->server->state, &entry->claim), entry->node))
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"node %s reports again and again that it has volume %s mounted, by claim %s, "
			"which it had released; such a claim ends once a minute. Look at its agent: "
			"journalctl -u holdfast-agent",
			entry->claim.node_id, entry->claim.volume_id, entry->id);
	entry->work.is_taken_back_again = false;
	return STATUS_OK;
}

enum status held_twice_admit(struct server *server, const struct claim *claim, struct error *err)
{
	const struct alloc_entry *alloc = state_alloc_of(&server->state, claim);
	struct volume_entry *volume = state_volume(&server->state, claim->namespace, claim->volume_id);
	const struct claim *blocker;
	struct claim_entry *entry;
	char name[HOLDER_SIZE];

	if (!alloc || !alloc_asks_for(&alloc->alloc, claim))
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "volume %s: no allocation of the server's asks for it", claim->volume_id);
	if (!volume)
		return STATUS_OK;
	if (!volume_has_capability(&volume->volume, claim->access_mode, claim->attachment_mode))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s is not registered with the capability %s/%s", claim->volume_id,
				 access_mode_name(claim->access_mode),
				 attachment_mode_name(claim->attachment_mode));
	STORAGE_FOREACH_CLAIM (entry, volume) {
		const struct claim *held = &entry->claim;
		bool is_own = str_eq(held->allocation_id, claim->allocation_id) &&
			      str_eq(held->namespace, claim->namespace);

		if (claim_is_live(held) && !is_own &&
		    !admission_has_room(claim_capability(claim), claim->mode, claim->node_id, &held, 1,
					&blocker))
			return error_set(err, STATUS_FAILED_PRECONDITION, 0,
					 "volume %s: node %s holds it for %s", claim->volume_id,
					 held->node_id, describe_holder(held, claim->namespace, name));
	}
	return STATUS_OK;
}

enum status held_twice_admit_again(struct server *server, const struct claim *claim, struct error *err)
{
	struct alloc_entry *alloc;

	TRY(held_twice_admit(server, claim, err));
	alloc = state_alloc_of(&server->state, claim);
	assert(alloc); /* it asks for the volume */
	if (may_again(alloc, alloc->node))
		return STATUS_OK;
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
			 "volume %s: one such claim counts a minute, after eight a volume of allocation %s",
			 claim->volume_id, claim->allocation_id);
}
