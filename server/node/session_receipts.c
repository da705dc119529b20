/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "claim/claims.h"
#include "claim/release.h"
#include "node/session.h"
#include "node/trails.h"
#include "recovery/epoch.h"
#include "state/freed.h"

/* Does the receipt affirm one of the two? A field that is there but false denies it. */
static bool says_what(const Holdfast__V1__ClaimReceipt *receipt)
{
	switch (receipt->what_case) {
	case HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED:
		return receipt->mounted;
	case HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED:
		return receipt->released;
	case HOLDFAST__V1__CLAIM_RECEIPT__WHAT__NOT_SET:
	case _HOLDFAST__V1__CLAIM_RECEIPT__WHAT__CASE_IS_INT_SIZE:
		break;
	}
	return false;
}

static bool was_given_up(const struct claim *claim)
{
	return (claim->state >= CLAIM_NODE_DETACHED || claim->was_freed) &&
	       (claim->evidence == EVIDENCE_OPERATOR || claim->evidence == EVIDENCE_STORAGE_FENCE);
}

/* The node has let go, by its mount helper alone: what its plugin still has nobody says. That is worth a
 * person's word and what the kernel showed. @detail for the event */
static void without_plugin_event(const struct claim *claim, const Holdfast__V1__ClaimReceipt *receipt,
				 char detail[static EVIDENCE_DETAIL_MAX + 1], struct claim_event *event)
{
	char kernel[KERNEL_WORDS_MAX + 1];
	/* a server that was restored may have forgotten who it was; the evidence is the weaker one anyway */
	const char *who = claim->plugin_waiver[0] != '\0' ? claim->plugin_waiver
			  : was_given_up(claim)		  ? claim->evidence_detail
							  : "without its plugin, by nobody on record";

	str_copy_text(kernel, sizeof(kernel), receipt->kernel);
	(void)str_format(detail, EVIDENCE_DETAIL_MAX + 1, "%s%s%s", who,
			 kernel[0] != '\0' ? "; kernel: " : "", kernel);
	event->evidence = EVIDENCE_OPERATOR;
	event->detail = detail;
}

static void receipt_event(const struct claim *claim, const Holdfast__V1__ClaimReceipt *receipt,
			  char detail[static EVIDENCE_DETAIL_MAX + 1], struct claim_event *event)
{
	*event = (struct claim_event){.now_ms = clock_realtime_ms()};
	if (receipt->error[0] != '\0') {
		event->type = CLAIM_EVENT_NODE_FAILED;
		event->detail = receipt->error;
		event->code = status_from_number((long)receipt->error_code);
	} else if (receipt->what_case == HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED) {
		event->type = CLAIM_EVENT_MOUNTED;
	} else {
		event->type = CLAIM_EVENT_EVIDENCE;
		event->evidence = EVIDENCE_RECEIPT;
		if (receipt->without_plugin)
			without_plugin_event(claim, receipt, detail, event);
	}
}

/* Does the node, whose release has failed, ask a plugin that is not to be waited for? A person said so, maybe
 * to an earlier run of its agent; or the claim was given up without the node's word. It is told not more
 * often than it is asked to release anything. */
static bool must_say_without_plugin(struct claim_entry *entry)
{
	uint64_t now_us = clock_monotonic_us();
	bool is_waived = entry->claim.state < CLAIM_NODE_DETACHED && entry->claim.plugin_waiver[0] != '\0';

	if (!is_waived && !was_given_up(&entry->claim))
		return false;
	if (entry->work.without_plugin_us != 0 &&
	    now_us - entry->work.without_plugin_us < RELEASE_RETRY_MIN_MS * USEC_PER_MSEC)
		return false;
	entry->work.without_plugin_us = now_us;
	return true;
}

static enum status check_receipt(const struct session *session, const struct claim *claim,
				 const Holdfast__V1__ClaimReceipt *receipt, struct error *err)
{
	if (!str_eq(claim->node_id, session->node_id))
		return error_set(err, STATUS_PERMISSION_DENIED, 0, "claim %s is not of node %s", claim->id,
				 session->node_id);
	if (!str_eq(claim->boot_id, receipt->boot_id) || claim->generation != receipt->generation)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the receipt for claim %s is of another boot or generation", claim->id);
	if (receipt->error[0] == '\0' && !says_what(receipt))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the receipt for claim %s says nothing",
				 claim->id);
	return STATUS_OK;
}

/* Does it say that its helper has just mounted something? A repeat does not; a device may need no mount. */
static bool has_mounted(const struct claim_entry *entry, const Holdfast__V1__ClaimReceipt *receipt)
{
	return entry && entry->claim.state == CLAIM_RESERVED && receipt->error[0] == '\0' &&
	       receipt->what_case == HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED &&
	       entry->claim.attachment_mode == ATTACHMENT_FILE_SYSTEM;
}

/* The node's word about one claim: only about its own, in the boot and generation in which it was granted. */
enum status session_take_receipt(struct session *session, const Holdfast__V1__ClaimReceipt *receipt,
				 struct error *err)
{
	struct claim_entry *entry;
	cleanup(change_release) struct change change = CHANGE_INIT;
	enum session_word ack = receipt->what_case == HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED
					? SESSION_ACK_RELEASED
					: SESSION_ACK_MOUNTED;
	char detail[EVIDENCE_DETAIL_MAX + 1];
	struct claim_event event;
	struct claim after;
	enum status st = freed_find(session->server, receipt->claim_id, &entry, err);

	if (st != STATUS_OK)
		return st;
	if (!entry && !session->was_asked && ack == SESSION_ACK_MOUNTED)
		return epoch_doubt(session, receipt->claim_id, err);
	trails_take(session->server, &change, session->node_id, receipt->trail, has_mounted(entry, receipt));
	/* long finished, and pruned: the repeat of a receipt whose acknowledgement was lost; or the node's
	 * report has it */
	if (!entry)
		return session_commit(session, &change, ack, receipt->claim_id, err);
	st = check_receipt(session, &entry->claim, receipt, err);
	if (st != STATUS_OK)
		return st;
	if (claim_is_elsewhere(&entry->claim, session->boot_id)) /* it can say nothing of that machine */
		return session_commit(session, &change, ack, receipt->claim_id, err);
	receipt_event(&entry->claim, receipt, detail, &event);
	/* its work is over where it was told to stop, though the allocation's end is told after the last of
	 * its volumes */
	st = event.evidence == EVIDENCE_OPERATOR
		     ? claims_take_from_node(&change, entry, &event,
					     "its node released it without the plugin", err)
		     : claims_step(&change, entry, &event, &after, err);
	if (st != STATUS_OK)
		return st;
	if (event.type == CLAIM_EVENT_NODE_FAILED)
		return session_commit(session, &change,
				      must_say_without_plugin(entry) ? SESSION_WITHOUT_PLUGIN
								     : SESSION_NOTHING,
				      entry->claim.id, err);
	return session_commit(session, &change, ack, entry->claim.id, err);
}
