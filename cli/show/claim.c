/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "show/rows.h"
#include "show/show.h"

DEFINE_ROWS(show_claims, holdfast__v1__claim, NULL, COL("VOLUME", "{volume_id}"),
	    COL("ALLOCATION", "{allocation_id}"), COL("NODE", "{node_id}"), COL_STATE("STATE", "{state}"),
	    COL("MODE", "{access_mode}"), COL("EVIDENCE", "{evidence?{evidence}}"),
	    COL("AGE", "{create_time_ms:age}"), COL_NUMBER("TRIES", "{attempts}"),
	    COL("LAST ERROR", "{last_error}"));

DEFINE_ROWS(show_claim_errors, holdfast__v1__claim, NULL,
	    LINE("{last_error}", "volume {volume_id} on node {node_id}: {last_error}"));

/* Lists the evidence that would let a claim in this state go without an operator. */
static void put_missing(const struct shown *shown, struct strbuf *sb)
{
	switch (((const Holdfast__V1__Claim *)(const void *)shown->message)->state) {
	case HOLDFAST__V1__CLAIM_STATE__RESERVED:
	case HOLDFAST__V1__CLAIM_STATE__TAKEN:
	case HOLDFAST__V1__CLAIM_STATE__UNPUBLISHING:
		strbuf_puts(sb, "the node's receipt, a new boot of the node, or a detach confirmed at the "
				"provider");
		return;
	case HOLDFAST__V1__CLAIM_STATE__NODE_DETACHED:
		strbuf_puts(sb, "the provider's confirmation of the detach");
		return;
	case HOLDFAST__V1__CLAIM_STATE__CLAIM_STATE_UNSPECIFIED:
	case HOLDFAST__V1__CLAIM_STATE__CONTROLLER_DETACHED:
	case HOLDFAST__V1__CLAIM_STATE__FREED:
	case _HOLDFAST__V1__CLAIM_STATE_IS_INT_SIZE:
		break;
	}
	strbuf_puts(sb, "none");
}

DEFINE_ROWS(show_bypassed, holdfast__v1__claim, NULL, COL("VOLUME", "{volume_id}"),
	    COL("ALLOCATION", "{allocation_id}"), COL("NODE", "{node_id}"),
	    COL_PUT("BYPASSED EVIDENCE", put_missing));
