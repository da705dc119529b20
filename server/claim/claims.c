/* SPDX-License-Identifier: Apache-2.0 */
#include "claim/claims.h"

#include "server.h"

#include "access/access.h"
#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/alloc_health.h"
#include "plugin/args.h"
#include "state/storage_index.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stages the volume's generation when its claim leaves memory: the store may have it only in the claim. */
static void keep_generation(struct change *change, const struct claim_entry *entry)
{
	const struct volume_entry *volume = entry->volume;
	uint64_t generation = entry->claim.generation;

	if (generation == volume->volume.generation && generation > volume->stored_generation)
		change_put_volume(change, &volume->volume);
}

/* Takes steps that need no other party: frees a claim that is not attached, or is detached. */
static enum status follow_up(struct claim *claim, int64_t now_ms, struct error *err)
{
	const struct claim_event detached = {.type = CLAIM_EVENT_CONTROLLER_DETACHED, .now_ms = now_ms};
	const struct claim_event end = {.type = CLAIM_EVENT_FREE, .now_ms = now_ms};
	enum status status = STATUS_OK;
	bool changed;

	/* that fence is the detach */
	if (claim->state == CLAIM_NODE_DETACHED &&
	    (claim->attach == ATTACH_NONE || claim->evidence == EVIDENCE_STORAGE_FENCE))
		status = claim_step(claim, &detached, &changed, err);
	if (status == STATUS_OK && claim->state == CLAIM_CONTROLLER_DETACHED)
		status = claim_step(claim, &end, &changed, err);
	return status;
}

/* Audits a step that the server made by itself: evidence was accepted, or the claim was freed. */
static void audit_step(struct change *change, const struct claim_entry *entry, const struct claim *after)
{
	char object[sizeof("volume /, claim ") + NAMESPACE_MAX + VOLUME_ID_MAX + UUID_TEXT_SIZE];
	char why[2 * EVIDENCE_DETAIL_MAX + 64];
	bool is_freed = !claim_is_live(after);
	bool is_word = after->detach_evidence == EVIDENCE_OPERATOR;

	if (after->state == entry->claim.state || after->state < CLAIM_NODE_DETACHED)
		return;
	(void)str_format(object, sizeof(object), "volume %s/%s, claim %s", after->namespace, after->volume_id,
			 after->id);
	(void)str_format(why, sizeof(why), "evidence %s%s%s%s%s", evidence_name(after->evidence),
			 after->evidence_detail[0] != '\0' ? ": " : "", after->evidence_detail,
			 is_word ? "; detach operator: " : "", is_word ? after->detach_detail : "");
	if (is_freed)
		audit_silent(entry->server, change, NULL, "Claims.Free", object, why);
	else
		audit_own(entry->server, change, "Claims.TakeEvidence", object, why);
}

/* Audits the failure that makes holdfast_claims_failing count the claim: later ones of the same step change
 * nothing. */
static void audit_failing(struct change *change, const struct claim_entry *entry, const struct claim *after)
{
	char object[AUDIT_OBJECT_SIZE];
	char why[AUDIT_WHY_SIZE];

	if (after->attempts != CLAIM_FAILING_ATTEMPTS || entry->claim.attempts == after->attempts)
		return;
	(void)str_format(object, sizeof(object), "volume %s/%s, claim %s, node %s", after->namespace,
			 after->volume_id, after->id, after->node_id);
	(void)str_format(why, sizeof(why), "failed %d times, tried again: %.400s", CLAIM_FAILING_ATTEMPTS,
			 after->last_error);
	audit_own(entry->server, change, "Claims.Fail", object, why);
}

enum status claims_step(struct change *change, const struct claim_entry *entry,
			const struct claim_event *event, struct claim *ret, struct error *err)
{
	struct claim claim = entry->claim;
	bool changed = false;

	TRY(claim_step(&claim, event, &changed, err));
	if (changed)
		TRY(follow_up(&claim, event->now_ms, err));
	if (changed) {
		change_put_claim(change, &claim);
		if (!claim_is_live(&claim))
			keep_generation(change, entry);
		audit_step(change, entry, &claim);
		audit_failing(change, entry, &claim);
	}
	*ret = claim;
	return STATUS_OK;
}

bool claims_may_run(struct server *server, const struct claim *claim)
{
	const struct alloc_entry *alloc = state_alloc_of(&server->state, claim);

	return alloc && !alloc_is_client_terminal(&alloc->alloc) &&
	       alloc->alloc.desired_status != DESIRED_STOP;
}

struct volume_entry *claims_storage(const struct claim_entry *entry, struct volume_entry *unknown)
{
	struct state *state = entry->volume->state;
	const char *external_id = plugin_args_external_id(state, &entry->claim);
	struct volume_entry *other;
	struct storage_id id;

	/* a claim that is only believed counts, too, though the provider is not asked about it */
	if (external_id[0] == '\0' && !entry->claim.storage_digest)
		external_id = entry->claim.external_id;
	if (str_eq(entry->claim.plugin_id, PLUGIN_NATIVE) ||
	    (str_eq(external_id, entry->volume->volume.external_id) &&
	     str_eq(entry->claim.plugin_id, entry->volume->volume.plugin_id)))
		return entry->volume;
	storage_identify_external(entry->claim.plugin_id, external_id, &id);
	if (!id.is_known)
		return entry->volume;
	other = storage_first(state, &id);
	if (other)
		return other;
	*unknown = (struct volume_entry){.state = state, .storage = id, .volume = {.type = VOLUME_CSI}};
	(void)str_copy(unknown->volume.namespace, sizeof(unknown->volume.namespace), entry->claim.namespace);
	(void)str_copy(unknown->volume.id, sizeof(unknown->volume.id), entry->claim.volume_id);
	(void)str_copy(unknown->volume.plugin_id, sizeof(unknown->volume.plugin_id), entry->claim.plugin_id);
	(void)str_copy(unknown->volume.external_id, sizeof(unknown->volume.external_id), external_id);
	return unknown;
}

const struct claim *claims_find_other_holder(const struct claim_entry *entry)
{
	struct state *state = entry->volume->state;
	const struct claim_entry *at = NULL;
	struct volume_entry unknown, *volume = claims_storage(entry, &unknown);

	while ((at = storage_next_attached(volume, at))) {
		const struct claim *other = &at->claim;

		if (other->state > CLAIM_UNPUBLISHING || str_eq(other->node_id, entry->claim.node_id))
			continue;
		if (plugin_args_same_node(state, other, &entry->claim) ||
		    (other->attach != ATTACH_NONE && plugin_args_node_id(state, other)[0] == '\0'))
			return other;
	}
	return NULL;
}

enum status claims_end_work(struct change *change, struct alloc_entry *alloc, int64_t now_ms,
			    struct error *err)
{
	struct claim_entry *entry;

	LIST_FOREACH (entry, &alloc->claims, of_alloc) {
		const struct claim_event event = {.type = CLAIM_EVENT_WORK_ENDED, .now_ms = now_ms};
		struct claim after;

		TRY(claims_step(change, entry, &event, &after, err));
	}
	return STATUS_OK;
}

enum status claims_lose_alloc(struct change *change, struct alloc_entry *entry, const char *reason,
			      struct error *err)
{
	struct alloc alloc = entry->alloc;
	char description[ALLOC_DESCRIPTION_MAX + 1];

	(void)snprintf(description, sizeof(description), "%s", reason);
	alloc.client_description = description;
	alloc.client_status = CLIENT_LOST;
	alloc.modify_time_ms = clock_realtime_ms();
	alloc_note_times(&alloc, &entry->alloc, alloc.modify_time_ms);
	alloc.n_published = 0;
	change_put_alloc(change, &alloc);
	return claims_end_work(change, entry, alloc.modify_time_ms, err);
}

enum status claims_take_from_node(struct change *change, const struct claim_entry *entry,
				  const struct claim_event *evidence, const char *why, struct error *err)
{
	const struct claim_event ended = {.type = CLAIM_EVENT_WORK_ENDED, .now_ms = evidence->now_ms};
	struct alloc_entry *alloc = state_alloc_of(&entry->server->state, &entry->claim);
	struct claim_entry ending = *entry;
	enum status status = STATUS_OK;
	struct claim after;
	bool changed;

	if (alloc && !alloc_is_client_terminal(&alloc->alloc) && !node_is_connected(entry->node))
		status = claims_lose_alloc(change, alloc, why, err);
	if (status == STATUS_OK)
		status = claim_step(&ending.claim, &ended, &changed, err);
	if (status == STATUS_OK && ending.claim.state == CLAIM_UNPUBLISHING)
		status = claims_step(change, &ending, evidence, &after, err);
	return status;
}

/* Does a boot @boot_id of its node prove that nothing is left of it there? */
static bool is_over_with_boot(const struct claim *claim, const char *boot_id)
{
	return claim_is_live(claim) && !str_eq(claim->boot_id, boot_id) && !claim->other_machine;
}

/* Ids of the node's live claims that were granted in another boot than @boot_id. @ret owned by the caller. */
static size_t claims_of_other_boots(const struct node_entry *node, const char *boot_id,
				    char (**ret)[UUID_TEXT_SIZE])
{
	struct claim_entry *entry;
	size_t n = 0;

	LIST_FOREACH (entry, &node->claims, of_node)
		n += is_over_with_boot(&entry->claim, boot_id);
	*ret = calloc(n + 1, sizeof(**ret));
	if (!*ret)
		return 0;
	n = 0;
	LIST_FOREACH (entry, &node->claims, of_node)
		if (is_over_with_boot(&entry->claim, boot_id))
			memcpy((*ret)[n++], entry->claim.id, UUID_TEXT_SIZE);
	return n;
}

void claims_hide_boots(struct server *server, const struct rpc_call *call, Holdfast__V1__Claim **claims,
		       size_t n)
{
	if (access_check(server, call, ACCESS_NODE_READ, NULL, NULL) == STATUS_OK)
		return;
	for (size_t i = 0; i < n; i++) {
		if (claims[i]->boot_id[0] != '\0') /* else it may be a constant */
			claims[i]->boot_id[0] = '\0';
		if (claims[i]->evidence == HOLDFAST__V1__EVIDENCE__EVIDENCE_NEW_BOOT &&
		    claims[i]->evidence_detail[0] != '\0') /* the boot in which the node is now */
			claims[i]->evidence_detail[0] = '\0';
	}
}

enum status claims_new_boot(struct server *server, struct node_entry *node, const char *boot_id,
			    struct error *err)
{
	const struct claim_event event = {
		.type = CLAIM_EVENT_EVIDENCE,
		.evidence = EVIDENCE_NEW_BOOT,
		.detail = boot_id,
		.now_ms = clock_realtime_ms(),
	};
	cleanup_free char(*ids)[UUID_TEXT_SIZE] = NULL;
	size_t n = claims_of_other_boots(node, boot_id, &ids);

	if (!ids)
		return error_no_memory(err, "a claim");
	for (size_t i = 0; i < n; i++) {
		cleanup(change_release) struct change change = CHANGE_INIT;
		const struct claim_entry *entry = state_claim(&server->state, ids[i]);
		struct claim after;

		assert(entry); /* live claims are never history */
		TRY(claims_step(&change, entry, &event, &after, err));
		TRY(change_commit(server, &change, NULL, NULL, err));
	}
	return STATUS_OK;
}
