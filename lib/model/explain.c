#include "model/explain.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "model/volume.h"

#include <inttypes.h>

static void say_holder(struct strbuf *sb, const struct claim *claim, int64_t now_ms)
{
	char age[CLOCK_TEXT_SIZE];
	uint64_t ms = now_ms > claim->create_time_ms ? (uint64_t)(now_ms - claim->create_time_ms) : 0;

	strbuf_printf(sb, "held for %s by allocation %s on node %s for %s, claim %s",
		      claim_mode_name(claim->mode), claim->allocation_id, claim->node_id,
		      clock_format_duration(ms * USEC_PER_MSEC, age), claim_state_name(claim->state));
	if (claim->generation > 0)
		strbuf_printf(sb, " (generation %" PRIu64 ")", claim->generation);
}

/* The command that records an operator's word, whole. */
static void say_attest(struct strbuf *sb, const struct claim *claim)
{
	bool is_default = str_eq(claim->namespace, NAMESPACE_DEFAULT);

	strbuf_printf(sb, "holdfast volume detach %s %s%s%s --attest REASON", claim->volume_id,
		      claim->node_id, is_default ? "" : " --namespace ", is_default ? "" : claim->namespace);
}

/* The work goes on, as far as is known here. */
static void say_working(struct strbuf *sb, const struct claim *claim, const struct holder *holder)
{
	strbuf_puts(sb, "; its work has not ended");
	if (!holder->is_connected)
		strbuf_puts(sb, ", as far as is known: the node is not connected");
	strbuf_printf(sb, ". Next: holdfast alloc stop %s", claim->allocation_id);
	if (holder->is_connected)
		return;
	strbuf_puts(sb, "; then bring the node back, or: ");
	say_attest(sb, claim);
}

static void say_releasing(struct strbuf *sb, const struct claim *claim, const struct holder *holder)
{
	strbuf_printf(
		sb,
		"; missing: evidence that node %s let go (its receipt, a new boot, or an operator's word)",
		claim->node_id);
	if (holder->is_connected) {
		strbuf_printf(sb,
			      "; being retried on the node, at most 30s apart. Next: see what is in the way, "
			      "on the node: holdfast agent status");
		return;
	}
	strbuf_puts(sb, "; the node is not connected, so without it this lasts until somebody acts. Next: "
			"bring the node back, or: ");
	say_attest(sb, claim);
}

static void say_missing(struct strbuf *sb, const struct claim *claim, const struct holder *holder)
{
	switch (claim->state) {
	case CLAIM_RESERVED:
	case CLAIM_TAKEN:
		if (holder->is_stopping)
			say_releasing(sb, claim, holder);
		else
			say_working(sb, claim, holder);
		break;
	case CLAIM_UNPUBLISHING:
		say_releasing(sb, claim, holder);
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

char *explain_claim(const struct claim *claim, const struct holder *holder, int64_t now_ms,
		    char dst[static EXPLAIN_SIZE])
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4096);

	say_holder(&sb, claim, now_ms);
	say_missing(&sb, claim, holder);
	if (claim->last_error[0] != '\0')
		strbuf_printf(&sb, "; last error (attempt %" PRIu32 "): %s", claim->attempts,
			      claim->last_error);
	str_copy_text(dst, EXPLAIN_SIZE, sb.data ? sb.data : "");
	return dst;
}
