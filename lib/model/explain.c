#include "model/explain.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <inttypes.h>

static void say_holder(struct strbuf *sb, const struct claim *claim, int64_t now_ms)
{
	char age[CLOCK_TEXT_SIZE];
	uint64_t ms = now_ms > claim->create_time_ms ? (uint64_t)(now_ms - claim->create_time_ms) : 0;

	strbuf_printf(sb, "held for %s by allocation %s on node %s since %s, claim %s",
		      claim_mode_name(claim->mode), claim->allocation_id, claim->node_id,
		      clock_format_duration(ms * USEC_PER_MSEC, age), claim_state_name(claim->state));
	if (claim->generation > 0)
		strbuf_printf(sb, " (generation %" PRIu64 ")", claim->generation);
}

static void say_missing(struct strbuf *sb, const struct claim *claim, bool node_connected)
{
	switch (claim->state) {
	case CLAIM_RESERVED:
	case CLAIM_TAKEN:
		strbuf_printf(sb, "; its work has not ended. Next: holdfast alloc stop %s",
			      claim->allocation_id);
		break;
	case CLAIM_UNPUBLISHING:
		strbuf_printf(
			sb,
			"; missing: evidence that node %s let go (its receipt, a new boot, or an operator's "
			"word)",
			claim->node_id);
		if (!node_connected)
			strbuf_printf(sb,
				      "; the node is not connected, so without it this lasts until somebody "
				      "acts. Next: "
				      "bring the node back, or: holdfast volume detach %s %s --attest REASON",
				      claim->volume_id, claim->node_id);
		else
			strbuf_puts(sb, "; being retried on the node, at most 30s apart");
		break;
	case CLAIM_NODE_DETACHED:
		strbuf_puts(sb, "; missing: the detach by the volume's controller, which is being retried");
		break;
	case CLAIM_CONTROLLER_DETACHED:
		strbuf_puts(sb, "; about to be freed");
		break;
	case CLAIM_FREED:
		strbuf_printf(sb, "; freed with evidence %s", evidence_name(claim->evidence));
		break;
	case CLAIM_STATE_UNSPECIFIED:
	case CLAIM_STATE_N:
		break;
	}
}

char *explain_claim(const struct claim *claim, bool node_connected, int64_t now_ms,
		    char dst[static EXPLAIN_SIZE])
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4096);

	say_holder(&sb, claim, now_ms);
	say_missing(&sb, claim, node_connected);
	if (claim->last_error[0] != '\0')
		strbuf_printf(&sb, "; last error (attempt %" PRIu32 "): %s", claim->attempts,
			      claim->last_error);
	str_copy_text(dst, EXPLAIN_SIZE, sb.data ? sb.data : "");
	return dst;
}
