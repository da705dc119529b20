#include "claims.h"
#include "server.h"
#include "session.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

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

static void receipt_event(const Holdfast__V1__ClaimReceipt *receipt, struct claim_event *event)
{
	*event = (struct claim_event){.now_ms = clock_realtime_ms()};
	if (receipt->error[0] != '\0') {
		event->type = CLAIM_EVENT_NODE_FAILED;
		event->detail = receipt->error;
	} else if (receipt->what_case == HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED) {
		event->type = CLAIM_EVENT_MOUNTED;
	} else {
		event->type = CLAIM_EVENT_EVIDENCE;
		event->evidence = EVIDENCE_RECEIPT;
	}
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

/* The node's word about one claim: only about its own, in the boot and generation in which it was granted. */
enum status session_take_receipt(struct session *session, const Holdfast__V1__ClaimReceipt *receipt,
				 struct error *err)
{
	struct claim_entry *entry = state_claim(&session->server->state, receipt->claim_id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	enum session_word ack = receipt->what_case == HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED
					? SESSION_ACK_RELEASED
					: SESSION_ACK_MOUNTED;
	struct claim_event event;
	struct claim after;
	enum status st;

	if (!entry) /* long finished, and pruned: the repeat of a receipt whose acknowledgement was lost */
		return session_commit(session, &change, ack, receipt->claim_id, err);
	st = check_receipt(session, &entry->claim, receipt, err);
	if (st != STATUS_OK)
		return st;
	receipt_event(receipt, &event);
	st = claims_step(&change, entry, &event, &after, err);
	if (st != STATUS_OK)
		return st;
	if (event.type == CLAIM_EVENT_NODE_FAILED)
		return session_commit(session, &change, SESSION_NOTHING, "", err);
	return session_commit(session, &change, ack, entry->claim.id, err);
}
