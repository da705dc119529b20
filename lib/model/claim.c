/* SPDX-License-Identifier: Apache-2.0 */
#include "model/claim.h"

#include "base/ends.h"
#include "base/grid.h"
#include "base/names.h"
#include "base/str.h"

#include <assert.h>
#include <string.h>

static const char *const state_names[CLAIM_STATE_N] = {
	[CLAIM_STATE_UNSPECIFIED] = "unspecified",
	[CLAIM_RESERVED] = "reserved",
	[CLAIM_TAKEN] = "taken",
	[CLAIM_UNPUBLISHING] = "unpublishing",
	[CLAIM_NODE_DETACHED] = "node-detached",
	[CLAIM_CONTROLLER_DETACHED] = "controller-detached",
	[CLAIM_FREED] = "freed",
};

static const char *const evidence_names[EVIDENCE_N] = {
	[EVIDENCE_NONE] = "none",
	[EVIDENCE_RECEIPT] = "receipt",
	[EVIDENCE_NEW_BOOT] = "new_boot",
	[EVIDENCE_STORAGE_FENCE] = "storage_fence",
	[EVIDENCE_OPERATOR] = "operator",
	[EVIDENCE_NEVER_SENT] = "never_sent",
	[EVIDENCE_POWER_FENCE] = "power_fence",
	[EVIDENCE_NETWORK_FENCE] = "network_fence",
};

static const char *const event_names[CLAIM_EVENT_N] = {
	[CLAIM_EVENT_SENT] = "grant to the node",
	[CLAIM_EVENT_ATTACH_FAILED] = "failed controller attach",
	[CLAIM_EVENT_MOUNTED] = "mount receipt",
	[CLAIM_EVENT_WORK_ENDED] = "end of the work",
	[CLAIM_EVENT_EVIDENCE] = "evidence",
	[CLAIM_EVENT_NODE_FAILED] = "failed release on the node",
	[CLAIM_EVENT_CONTROLLER_DETACHED] = "controller detach",
	[CLAIM_EVENT_CONTROLLER_FAILED] = "failed controller detach",
	[CLAIM_EVENT_FREE] = "end of the claim",
	[CLAIM_EVENT_FENCE_ASKED] = "fence at the provider",
	[CLAIM_EVENT_DETACH_ATTESTED] = "operator's attestation of the detach",
	[CLAIM_EVENT_FORCED] = "release without the plugin",
};

/* The effect of an event in a state. */
enum step {
	NO = GRID_NO, /* it is refused */
	STAY,	      /* nothing: the state has passed it already */
	FAILURE,      /* count it */
	SENT,
	FENCE,
	FORCE,
	TAKEN,
	UNPUBLISH, /* or FREED, if the grant was never sent to the node */
	EVIDENCE,  /* node-detached */
	DETACHED,  /* controller-detached */
	ATTEST,	   /* controller-detached, by an operator's attestation */
	FREED,
};

/* clang-format off */
static const uint8_t steps[CLAIM_EVENT_N][CLAIM_STATE_N] = {
	/*                                       reserved   taken      unpublishing node-detached ctl-detached  freed */
	[CLAIM_EVENT_SENT] =                {NO, SENT,      STAY,      NO,          NO,           NO,           NO},
	[CLAIM_EVENT_ATTACH_FAILED] =       {NO, FAILURE,   NO,        NO,          NO,           NO,           NO},
	[CLAIM_EVENT_MOUNTED] =             {NO, TAKEN,     STAY,      STAY,        STAY,         STAY,         STAY},
	[CLAIM_EVENT_WORK_ENDED] =          {NO, UNPUBLISH, UNPUBLISH, STAY,        STAY,         STAY,         STAY},
	[CLAIM_EVENT_EVIDENCE] =            {NO, EVIDENCE,  EVIDENCE,  EVIDENCE,    STAY,         STAY,         STAY},
	[CLAIM_EVENT_NODE_FAILED] =         {NO, FAILURE,   FAILURE,   FAILURE,     STAY,         STAY,         STAY},
	[CLAIM_EVENT_CONTROLLER_DETACHED] = {NO, NO,        NO,        NO,          DETACHED,     STAY,         STAY},
	[CLAIM_EVENT_CONTROLLER_FAILED] =   {NO, NO,        NO,        NO,          FAILURE,      STAY,         STAY},
	[CLAIM_EVENT_FREE] =                {NO, NO,        NO,        NO,          NO,           FREED,        STAY},
	[CLAIM_EVENT_FENCE_ASKED] =         {NO, FENCE,     FENCE,     FENCE,       STAY,         STAY,         STAY},
	[CLAIM_EVENT_DETACH_ATTESTED] =     {NO, NO,        NO,        NO,          ATTEST,       STAY,         STAY},
	[CLAIM_EVENT_FORCED] =              {NO, FORCE,     FORCE,     FORCE,       STAY,         STAY,         STAY},
};
/* clang-format on */

const char *claim_state_name(enum claim_state state)
{
	const char *name = names_get(state_names, CLAIM_STATE_N, (int)state);

	return name ? name : "invalid";
}

const char *evidence_name(enum evidence evidence)
{
	const char *name = names_get(evidence_names, EVIDENCE_N, (int)evidence);

	return name ? name : "invalid";
}

bool claim_is_live(const struct claim *claim)
{
	return claim->state != CLAIM_FREED;
}

struct capability claim_capability(const struct claim *claim)
{
	return (struct capability){claim->access_mode, claim->attachment_mode};
}

void claim_set_storage(struct claim *claim, const struct volume *volume)
{
	claim->external_id[0] = '\0';
	memcpy(claim->context_digest, volume->context_digest, sizeof(claim->context_digest));
	if (volume->type == VOLUME_NATIVE)
		volume_source_hex(volume, claim->external_id);
	if (claim->external_id[0] == '\0')
		memcpy(claim->external_id, volume->external_id, sizeof(claim->external_id));
}

bool claim_is_on_storage(const struct claim *claim, const struct volume *volume)
{
	char source[VOLUME_SOURCE_HEX_SIZE];

	if (!str_eq(claim->plugin_id, volume->plugin_id) ||
	    (volume->type == VOLUME_NATIVE && !str_eq(claim->profile, volume->profile)))
		return false;
	if (claim->external_id[0] == '\0')
		return true;
	/* that of a placeholder is not known: it is any that its id names */
	if (str_eq(claim->external_id, volume->external_id))
		return volume_is_placeholder(volume) || str_eq(claim->context_digest, volume->context_digest);
	volume_source_hex(volume, source);
	return str_eq(claim->external_id, source);
}

bool claim_is_of_other_context(const struct claim *claim, const struct volume *volume)
{
	return (claim->storage_proven || !claim->adopted) && claim->context_digest[0] != '\0' &&
	       volume->context_digest[0] != '\0' && !str_eq(claim->context_digest, volume->context_digest);
}

/* Cuts a text that is too long: it is for people, not a name. */
static void note_text(char *dst, size_t size, const char *text)
{
	str_copy_text(dst, size, text ? text : "");
}

/* A fence proves nothing about a boot that began after it. */
static enum status check_fence(const struct claim *claim, const struct claim_event *event, struct error *err)
{
	if (!event->detail || event->detail[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "claim %s: a fence needs its proof",
				 claim->id);
	if (!event->boot_id || !str_eq(event->boot_id, claim->boot_id))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "claim %s: node %s was fenced in another boot than the one in which the "
				 "claim was granted",
				 claim->id, claim->node_id);
	if (event->evidence == EVIDENCE_NETWORK_FENCE &&
	    (!event->plugin_id || !str_eq(event->plugin_id, claim->plugin_id)))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "claim %s: node %s was fenced at the storage of another plugin than %s",
				 claim->id, claim->node_id, claim->plugin_id);
	return STATUS_OK;
}

/* Is the evidence worth something for this claim in this state? */
static enum status check_evidence(const struct claim *claim, const struct claim_event *event,
				  struct error *err)
{
	switch (event->evidence) {
	case EVIDENCE_RECEIPT:
		return STATUS_OK;
	case EVIDENCE_STORAGE_FENCE:
		if (claim->fence_asked)
			return STATUS_OK;
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "claim %s: its provider was not asked to cut node %s off", claim->id,
				 claim->node_id);
	case EVIDENCE_NEW_BOOT:
		if (event->detail && event->detail[0] != '\0' && !str_eq(event->detail, claim->boot_id))
			return STATUS_OK;
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "claim %s: node %s is still in the boot in which the claim was granted",
				 claim->id, claim->node_id);
	case EVIDENCE_OPERATOR:
		if (!event->detail || event->detail[0] == '\0')
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "claim %s: operator evidence needs a name and a reason", claim->id);
		if (claim->state != CLAIM_UNPUBLISHING)
			return error_set(
				err, STATUS_FAILED_PRECONDITION, 0,
				"claim %s: its allocation %s has not ended; stop it first: holdfast alloc "
				"stop %s",
				claim->id, claim->allocation_id, claim->allocation_id);
		return STATUS_OK;
	case EVIDENCE_NEVER_SENT:
		if (!claim->sent_to_node)
			return STATUS_OK;
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "claim %s: it was sent to node %s",
				 claim->id, claim->node_id);
	case EVIDENCE_POWER_FENCE:
	case EVIDENCE_NETWORK_FENCE:
		return check_fence(claim, event, err);
	case EVIDENCE_NONE:
	case EVIDENCE_N:
		break;
	}
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "claim %s: no evidence was given", claim->id);
}

static void enter(struct claim *claim, enum claim_state state, int64_t now_ms)
{
	assert(state > CLAIM_STATE_UNSPECIFIED && state < CLAIM_STATE_N && claim->state != CLAIM_FREED);
	claim->state = state;
	claim->attempts = 0;
	claim->last_error[0] = '\0';
	claim->last_error_code = STATUS_OK;
	claim->modify_time_ms = claim->state_time_ms = now_ms;
}

static void note_failure(struct claim *claim, const struct claim_event *event)
{
	if (claim->attempts < UINT32_MAX)
		claim->attempts++;
	str_copy_ends(claim->last_error, sizeof(claim->last_error), event->detail ? event->detail : "");
	claim->last_error_code = event->code;
	claim->modify_time_ms = event->now_ms;
}

/* False: it was noted before. */
static bool note_sent(struct claim *claim, int64_t now_ms)
{
	assert(claim->state == CLAIM_RESERVED || claim->sent_to_node);
	if (claim->sent_to_node)
		return false;
	claim->sent_to_node = true;
	if (claim->attach == ATTACH_ASKED)
		claim->attach = ATTACH_DONE;
	enter(claim, CLAIM_RESERVED, now_ms);
	return true;
}

/* @ret_changed false: it was noted before. */
static enum status note_fence(struct claim *claim, int64_t now_ms, bool *ret_changed, struct error *err)
{
	if (claim->attach == ATTACH_NONE || !claim->sent_to_node)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "claim %s: no controller has attached volume %s for node %s, so a detach "
				 "cannot cut the node off",
				 claim->id, claim->volume_id, claim->node_id);
	*ret_changed = !claim->fence_asked;
	if (!claim->fence_asked)
		claim->modify_time_ms = now_ms;
	claim->fence_asked = true;
	return STATUS_OK;
}

/* @ret_changed false: the same was noted before. */
static enum status note_forced(struct claim *claim, const struct claim_event *event, bool *ret_changed,
			       struct error *err)
{
	if (!event->detail || event->detail[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "claim %s: forcing it without its plugin needs a name and a reason",
				 claim->id);
	if (claim->plugin_id[0] == '\0' || str_eq(claim->plugin_id, PLUGIN_NATIVE))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "claim %s: volume %s is native and has no plugin that could be bypassed",
				 claim->id, claim->volume_id);
	if (!claim->sent_to_node)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"claim %s: it was never sent to node %s, so no plugin there has anything of it",
			claim->id, claim->node_id);
	*ret_changed = !str_eq(claim->plugin_waiver, event->detail);
	if (*ret_changed)
		claim->modify_time_ms = event->now_ms;
	note_text(claim->plugin_waiver, sizeof(claim->plugin_waiver), event->detail);
	return STATUS_OK;
}

static enum status apply_attestation(struct claim *claim, const struct claim_event *event, struct error *err)
{
	assert(claim->state == CLAIM_NODE_DETACHED);
	if (!event->detail || event->detail[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "claim %s: operator evidence needs a name and a reason", claim->id);
	enter(claim, CLAIM_CONTROLLER_DETACHED, event->now_ms);
	claim->detach_evidence = EVIDENCE_OPERATOR;
	note_text(claim->detach_detail, sizeof(claim->detach_detail), event->detail);
	return STATUS_OK;
}

static void end_work(struct claim *claim, int64_t now_ms)
{
	if (claim->state == CLAIM_RESERVED && !claim->sent_to_node) {
		/* what the controller was asked for has still to be taken back */
		enter(claim, claim->attach == ATTACH_NONE ? CLAIM_FREED : CLAIM_NODE_DETACHED, now_ms);
		claim->evidence = EVIDENCE_NEVER_SENT;
		return;
	}
	enter(claim, CLAIM_UNPUBLISHING, now_ms);
}

static enum status apply_evidence(struct claim *claim, const struct claim_event *event, struct error *err)
{
	TRY(check_evidence(claim, event, err));
	enter(claim, CLAIM_NODE_DETACHED, event->now_ms);
	claim->evidence = event->evidence;
	note_text(claim->evidence_detail, sizeof(claim->evidence_detail), event->detail);
	return STATUS_OK;
}

enum status claim_step(struct claim *claim, const struct claim_event *event, bool *ret_changed,
		       struct error *err)
{
	assert(claim->state > CLAIM_STATE_UNSPECIFIED && claim->state < CLAIM_STATE_N);
	assert(event->type < CLAIM_EVENT_N);
	switch ((enum step)steps[event->type][claim->state]) {
	case STAY:
		*ret_changed = false;
		return STATUS_OK;
	case NO:
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "claim %s is %s: %s is not possible yet",
				 claim->id, claim_state_name(claim->state), event_names[event->type]);
	case FAILURE:
		note_failure(claim, event);
		break;
	case SENT:
		*ret_changed = note_sent(claim, event->now_ms);
		return STATUS_OK;
	case FENCE:
		return note_fence(claim, event->now_ms, ret_changed, err);
	case FORCE:
		return note_forced(claim, event, ret_changed, err);
	case TAKEN:
		enter(claim, CLAIM_TAKEN, event->now_ms);
		break;
	case UNPUBLISH:
		end_work(claim, event->now_ms);
		break;
	case EVIDENCE:
		TRY(apply_evidence(claim, event, err));
		break;
	case DETACHED:
		enter(claim, CLAIM_CONTROLLER_DETACHED, event->now_ms);
		break;
	case ATTEST:
		TRY(apply_attestation(claim, event, err));
		break;
	case FREED:
		enter(claim, CLAIM_FREED, event->now_ms);
		break;
	}
	*ret_changed = true;
	return STATUS_OK;
}

bool claim_is_elsewhere(const struct claim *claim, const char *boot_id)
{
	return claim->other_machine && !str_eq(claim->boot_id, boot_id);
}
