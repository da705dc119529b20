/* SPDX-License-Identifier: Apache-2.0 */
#include "model/explain.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/names.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "model/volume.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The situations of a claim. LOST: its node is not connected. */
enum situation {
	GRANTING,
	ATTACHING,
	ATTACHING_STUCK,
	MOUNTING,
	MOUNTING_LOST,
	WORKING,
	WORKING_LOST,
	STOPPING,
	STOPPING_LOST,
	RELEASING,
	RELEASING_LOST,
	RELEASING_PURGED,
	DETACHING,
	DETACHING_STUCK,
	DETACHING_WITH_OTHER,
	ENDING,
	FREED,
	SITUATION_N,
};

#define BIT(e) (1U << (e))

/* The node may have it mounted. A connected node is asked; no person attests for it. */
#define OF_NODE (BIT(EVIDENCE_RECEIPT) | BIT(EVIDENCE_NEW_BOOT))
#define OF_LOST (OF_NODE | BIT(EVIDENCE_OPERATOR))

static const struct row {
	const char *what;
	unsigned int missing;
	enum explain_actor actor;
	enum explain_command next, then;
} rows[SITUATION_N] = {
	[GRANTING] = {"it is being granted and was not sent to the node yet", BIT(EVIDENCE_NEVER_SENT),
		      ACTOR_SERVER, EXPLAIN_COMMAND_AGAIN, EXPLAIN_COMMAND_NONE},
	[ATTACHING] = {"the controller is attaching it; it was not sent to the node yet",
		       BIT(EVIDENCE_NEVER_SENT), ACTOR_CONTROLLER, EXPLAIN_COMMAND_PLUGIN,
		       EXPLAIN_COMMAND_STOP},
	[ATTACHING_STUCK] = {"it must be attached, and no healthy controller of its plugin is connected",
			     BIT(EVIDENCE_NEVER_SENT), ACTOR_CONTROLLER_BACK, EXPLAIN_COMMAND_PLUGIN,
			     EXPLAIN_COMMAND_STOP},
	[MOUNTING] = {"the node is mounting it and has sent no mount receipt yet", OF_NODE, ACTOR_NODE,
		      EXPLAIN_COMMAND_AGENT, EXPLAIN_COMMAND_STOP},
	[MOUNTING_LOST] = {"it was sent to the node, which may have mounted it", OF_LOST,
			   ACTOR_NODE_OR_PERSON, EXPLAIN_COMMAND_NODE, EXPLAIN_COMMAND_STOP},
	[WORKING] = {"its work has not ended", OF_NODE, ACTOR_ALLOC, EXPLAIN_COMMAND_ALLOC,
		     EXPLAIN_COMMAND_NONE},
	[WORKING_LOST] = {"its work has not ended, as far as is known", OF_LOST, ACTOR_NODE_OR_PERSON,
			  EXPLAIN_COMMAND_NODE, EXPLAIN_COMMAND_STOP},
	[STOPPING] = {"its work was ordered to stop", OF_NODE, ACTOR_NODE, EXPLAIN_COMMAND_AGENT,
		      EXPLAIN_COMMAND_NONE},
	[STOPPING_LOST] = {"its work must stop", OF_LOST, ACTOR_NODE_OR_PERSON, EXPLAIN_COMMAND_NODE,
			   EXPLAIN_COMMAND_ATTEST},
	[RELEASING] = {"its work has ended", OF_NODE, ACTOR_NODE, EXPLAIN_COMMAND_AGENT,
		       EXPLAIN_COMMAND_NONE},
	[RELEASING_LOST] = {"its work has ended", OF_LOST, ACTOR_NODE_OR_PERSON, EXPLAIN_COMMAND_NODE,
			    EXPLAIN_COMMAND_ATTEST},
	[RELEASING_PURGED] = {"its work has ended and its node was purged", OF_LOST, ACTOR_PERSON,
			      EXPLAIN_COMMAND_AGAIN, EXPLAIN_COMMAND_ATTEST},
	[DETACHING] = {"the node released it; the controller must detach it", 0, ACTOR_CONTROLLER,
		       EXPLAIN_COMMAND_PLUGIN, EXPLAIN_COMMAND_NONE},
	[DETACHING_STUCK] = {"the node released it; it must be detached, and no healthy controller of its "
			     "plugin is connected",
			     0, ACTOR_CONTROLLER_BACK, EXPLAIN_COMMAND_PLUGIN, EXPLAIN_COMMAND_NONE},
	[DETACHING_WITH_OTHER] = {"the node released it; another claim with the same attachment is "
				  "detached with it, or must end before",
				  0, ACTOR_OTHER, EXPLAIN_COMMAND_AGAIN, EXPLAIN_COMMAND_NONE},
	[ENDING] = {"nothing is missing; it is about to be freed", 0, ACTOR_SERVER, EXPLAIN_COMMAND_AGAIN,
		    EXPLAIN_COMMAND_NONE},
	[FREED] = {"it is history and does not block the volume", 0, ACTOR_NOBODY, EXPLAIN_COMMAND_NONE,
		   EXPLAIN_COMMAND_NONE},
};

static bool has_to_detach(const struct claim *claim)
{
	return claim->attach != ATTACH_NONE && claim->state <= CLAIM_NODE_DETACHED;
}

static enum situation while_reserved(const struct claim *claim, const struct holder *holder)
{
	if (!claim->sent_to_node) {
		if (claim->attach == ATTACH_NONE)
			return GRANTING;
		return holder->has_controller ? ATTACHING : ATTACHING_STUCK;
	}
	if (holder->is_stopping)
		return holder->is_connected ? STOPPING : STOPPING_LOST;
	return holder->is_connected ? MOUNTING : MOUNTING_LOST;
}

static enum situation while_taken(const struct holder *holder)
{
	if (holder->is_stopping)
		return holder->is_connected ? STOPPING : STOPPING_LOST;
	return holder->is_connected ? WORKING : WORKING_LOST;
}

static enum situation situation_of(const struct claim *claim, const struct holder *holder)
{
	switch (claim->state) {
	case CLAIM_RESERVED:
		return while_reserved(claim, holder);
	case CLAIM_TAKEN:
		return while_taken(holder);
	case CLAIM_UNPUBLISHING:
		if (holder->is_connected)
			return RELEASING;
		return holder->is_purged ? RELEASING_PURGED : RELEASING_LOST;
	case CLAIM_NODE_DETACHED:
		if (!has_to_detach(claim))
			return ENDING;
		if (holder->waits_for_other)
			return DETACHING_WITH_OTHER;
		return holder->has_controller ? DETACHING : DETACHING_STUCK;
	case CLAIM_CONTROLLER_DETACHED:
		return ENDING;
	case CLAIM_FREED:
		return FREED;
	case CLAIM_STATE_UNSPECIFIED:
	case CLAIM_STATE_N:
		break;
	}
	assert(false); /* there is no claim without a state */
	return FREED;
}

static void name_actor(enum explain_actor actor, const struct claim *claim, char dst[static EXPLAIN_WHO_SIZE])
{
	switch (actor) {
	case ACTOR_SERVER:
		(void)str_copy(dst, EXPLAIN_WHO_SIZE, "the server");
		return;
	case ACTOR_ALLOC:
		(void)str_format(dst, EXPLAIN_WHO_SIZE, "allocation %s to end", claim->allocation_id);
		return;
	case ACTOR_NODE:
		(void)str_format(dst, EXPLAIN_WHO_SIZE, "node %s", claim->node_id);
		return;
	case ACTOR_NODE_OR_PERSON:
		(void)str_format(dst, EXPLAIN_WHO_SIZE, "node %s to come back, or a person", claim->node_id);
		return;
	case ACTOR_PERSON:
		(void)str_copy(dst, EXPLAIN_WHO_SIZE, "a person");
		return;
	case ACTOR_CONTROLLER:
		(void)str_format(dst, EXPLAIN_WHO_SIZE, "a controller of plugin %s", claim->plugin_id);
		return;
	case ACTOR_CONTROLLER_BACK:
		(void)str_format(dst, EXPLAIN_WHO_SIZE, "a healthy controller of plugin %s to come back",
				 claim->plugin_id);
		return;
	case ACTOR_OTHER:
		(void)str_format(dst, EXPLAIN_WHO_SIZE, "the other claims of the attachment to node %s",
				 claim->node_id);
		return;
	case ACTOR_NOBODY:
	case ACTOR_N:
		break;
	}
	dst[0] = '\0';
}

enum explain_actor explain_actor(const struct claim *claim, const struct holder *holder)
{
	return rows[situation_of(claim, holder)].actor;
}

const char *explain_actor_name(enum explain_actor actor)
{
	static const char *const names[ACTOR_N] = {
		[ACTOR_NOBODY] = "nobody",
		[ACTOR_SERVER] = "server",
		[ACTOR_ALLOC] = "allocation",
		[ACTOR_NODE] = "node",
		[ACTOR_NODE_OR_PERSON] = "node-away",
		[ACTOR_PERSON] = "operator",
		[ACTOR_CONTROLLER] = "controller",
		[ACTOR_CONTROLLER_BACK] = "controller-away",
		[ACTOR_OTHER] = "claim",
	};

	const char *name = names_get(names, ACTOR_N, (int)actor);

	return name ? name : "invalid";
}

char *explain_command(enum explain_command command, const struct claim *claim,
		      char dst[static EXPLAIN_COMMAND_SIZE])
{
	switch (command) {
	case EXPLAIN_COMMAND_STOP:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE, "holdfast alloc stop %s", claim->allocation_id);
		break;
	case EXPLAIN_COMMAND_ATTEST:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE,
				 "holdfast volume detach %s %s%s%s --attest REASON", claim->volume_id,
				 claim->node_id, NAMESPACE_OPTION(claim->namespace));
		break;
	case EXPLAIN_COMMAND_FENCE:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE, "holdfast volume detach %s %s%s%s --fence REASON",
				 claim->volume_id, claim->node_id, NAMESPACE_OPTION(claim->namespace));
		break;
	case EXPLAIN_COMMAND_POWER_FENCE:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE, "holdfast node fence %s --reason REASON",
				 claim->node_id);
		break;
	case EXPLAIN_COMMAND_NETWORK_FENCE:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE,
				 "holdfast node fence %s --network %s --reason REASON", claim->node_id,
				 claim->plugin_id);
		break;
	case EXPLAIN_COMMAND_AGENT:
		(void)str_copy(dst, EXPLAIN_COMMAND_SIZE, "holdfast agent status");
		break;
	case EXPLAIN_COMMAND_PLUGIN:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE, "holdfast plugin status %s", claim->plugin_id);
		break;
	case EXPLAIN_COMMAND_AGAIN:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE, "holdfast volume status %s%s%s --why",
				 claim->volume_id, NAMESPACE_OPTION(claim->namespace));
		break;
	case EXPLAIN_COMMAND_WITHOUT_PLUGIN:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE,
				 "holdfast volume detach %s %s%s%s --without-plugin REASON", claim->volume_id,
				 claim->node_id, NAMESPACE_OPTION(claim->namespace));
		break;
	case EXPLAIN_COMMAND_ALLOC:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE, "holdfast alloc status %s", claim->allocation_id);
		break;
	case EXPLAIN_COMMAND_DISK:
		(void)str_copy(dst, EXPLAIN_COMMAND_SIZE, "holdfast agent status");
		break;
	case EXPLAIN_COMMAND_NODE:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE, "holdfast node status %s", claim->node_id);
		break;
	case EXPLAIN_COMMAND_NONE:
		dst[0] = '\0';
		break;
	}
	return dst;
}

/* Its node tries, and has failed. If the volume is in use there, an attestation for the plugin cannot help;
 * else a person must read whether the plugin is at fault. */
static bool may_leave_plugin_out(const struct claim *claim, const struct holder *holder)
{
	bool has_ended = claim->state == CLAIM_UNPUBLISHING ||
			 (claim->state <= CLAIM_TAKEN && claim->sent_to_node && holder->is_stopping);

	return has_ended && holder->is_connected && claim->attempts > 0 &&
	       claim->last_error_code != STATUS_FAILED_PRECONDITION && claim->plugin_waiver[0] == '\0' &&
	       claim->plugin_id[0] != '\0' && !str_eq(claim->plugin_id, PLUGIN_NATIVE);
}

static uint64_t worst_case(const struct claim *claim, const struct holder *holder)
{
	bool at_detach = claim->state == CLAIM_NODE_DETACHED;

	if (claim->state == CLAIM_FREED)
		return 0;
	if (!has_to_detach(claim))
		return EXPLAIN_COMMIT_MS;
	if (!holder->has_controller || (at_detach && (holder->waits_for_other || claim->attempts > 0)))
		return 0;
	return 2 * EXPLAIN_COMMIT_MS + EXPLAIN_RETRY_MAX_MS +
	       (holder->detach_ms > 0 ? holder->detach_ms : EXPLAIN_DETACH_MAX_MS);
}

static bool is_of_node(enum explain_actor actor)
{
	return actor == ACTOR_NODE || actor == ACTOR_NODE_OR_PERSON;
}

void explain(const struct claim *claim, const struct holder *holder, int64_t now_ms, struct explanation *ret)
{
	const struct row *row = &rows[situation_of(claim, holder)];
	unsigned int missing = row->missing;

	*ret = (struct explanation){
		.claim = claim,
		.holder = *holder,
		.now_ms = now_ms,
		.worst_case_ms = worst_case(claim, holder),
		.next = row->next,
		.then = row->then,
		.what = row->what,
	};
	if (missing & BIT(EVIDENCE_OPERATOR) && holder->can_fence && claim->attach != ATTACH_NONE)
		missing |= BIT(EVIDENCE_STORAGE_FENCE);
	if (missing & BIT(EVIDENCE_STORAGE_FENCE) && ret->then == EXPLAIN_COMMAND_ATTEST)
		ret->then = EXPLAIN_COMMAND_FENCE; /* stronger than an attestation */
	if (missing & BIT(EVIDENCE_OPERATOR) && holder->can_network_fence) {
		missing |= BIT(EVIDENCE_NETWORK_FENCE);
		ret->then = EXPLAIN_COMMAND_NETWORK_FENCE;
	}
	if (missing & BIT(EVIDENCE_OPERATOR) && holder->can_power_fence) {
		missing |= BIT(EVIDENCE_POWER_FENCE);
		ret->then = EXPLAIN_COMMAND_POWER_FENCE; /* a proof, and of all that the node holds */
	}
	if (has_to_detach(claim) && claim->state == CLAIM_NODE_DETACHED && claim->attempts > 0 &&
	    !holder->waits_for_other)
		ret->then = EXPLAIN_COMMAND_ATTEST;
	if (may_leave_plugin_out(claim, holder))
		ret->then = EXPLAIN_COMMAND_WITHOUT_PLUGIN;
	if (holder->disk != NODE_DISK_ROOM && is_of_node(row->actor)) {
		ret->next = EXPLAIN_COMMAND_DISK; /* the machine is well: it needs room, not a fence */
		if (ret->then == EXPLAIN_COMMAND_FENCE || ret->then == EXPLAIN_COMMAND_POWER_FENCE ||
		    ret->then == EXPLAIN_COMMAND_NETWORK_FENCE)
			ret->then = EXPLAIN_COMMAND_ATTEST;
	}
	for (unsigned int e = EVIDENCE_NONE + 1; e < EVIDENCE_N; e++)
		if (missing & BIT(e))
			ret->missing[ret->n_missing++] = (enum evidence)e;
	name_actor(row->actor, claim, ret->waiting_for);
}

char *explain_claim(const struct claim *claim, const struct holder *holder, int64_t now_ms,
		    char dst[static EXPLAIN_SIZE])
{
	struct explanation explanation;

	explain(claim, holder, now_ms, &explanation);
	return explanation_text(&explanation, dst);
}

/* The node's name comes first. */
static const char *const evidence_words[EVIDENCE_N] = {
	[EVIDENCE_NONE] = "",
	[EVIDENCE_RECEIPT] = "its receipt that it released it",
	[EVIDENCE_NEW_BOOT] = "a new boot of it",
	[EVIDENCE_STORAGE_FENCE] = "a detach that the storage provider confirmed",
	[EVIDENCE_OPERATOR] = "an operator's attestation",
	[EVIDENCE_NEVER_SENT] = "that it was never sent",
	[EVIDENCE_POWER_FENCE] = "a proof that its power is off",
	[EVIDENCE_NETWORK_FENCE] = "a proof that the storage refuses it",
};

/* For how long it has been so since @since_ms. */
static const char *age(const struct explanation *in, int64_t since_ms, char text[static CLOCK_TEXT_SIZE])
{
	int64_t ms = in->now_ms > since_ms ? in->now_ms - since_ms : 0;

	return clock_format_duration((uint64_t)ms * USEC_PER_MSEC, text);
}

static void write_holder(struct strbuf *sb, const struct explanation *in)
{
	const struct claim *claim = in->claim;
	char text[CLOCK_TEXT_SIZE];

	strbuf_printf(sb, "%s for %s by allocation %s on node %s for %s, claim %s",
		      claim_is_live(claim) ? "held" : "was held", claim_mode_name(claim->mode),
		      claim->allocation_id, claim->node_id, age(in, claim->create_time_ms, text),
		      claim_state_name(claim->state));
	if (claim->state_time_ms > 0)
		strbuf_printf(sb, " for %s", age(in, claim->state_time_ms, text));
	if (claim->generation > 0)
		strbuf_printf(sb, " (generation %" PRIu64 ")", claim->generation);
	if (claim->adopted)
		strbuf_puts(sb, ", learned from its node's report");
	if (claim->was_freed)
		strbuf_puts(sb, ", freed before: its node reports that it still has it mounted");
}

static void write_node(struct strbuf *sb, const struct explanation *in)
{
	char text[CLOCK_TEXT_SIZE];
	char disk[NODE_DISK_TEXT_SIZE];

	if (in->claim->state > CLAIM_UNPUBLISHING)
		return; /* its node has released it */
	if (in->holder.is_purged) {
		strbuf_puts(sb, ", the node is no longer known");
	} else if (!in->holder.is_connected && !in->claim->other_machine) {
		strbuf_puts(sb, ", the node is not connected");
		if (in->holder.disconnected_ms > 0)
			strbuf_printf(sb, " for %s", age(in, in->holder.disconnected_ms, text));
	}
	if (in->holder.disk != NODE_DISK_ROOM)
		strbuf_printf(sb, "%s%s",
			      in->holder.is_connected ? ", the node reports: " : ", it reported last: ",
			      node_disk_text(in->holder.disk, in->holder.disk_path, disk));
	if (in->holder.is_draining)
		strbuf_puts(sb, ", the node is being drained");
	if (in->holder.must_report)
		strbuf_puts(sb, ", and in the present epoch it has not reported what it holds");
}

static void write_missing(struct strbuf *sb, const struct explanation *in)
{
	if (in->n_missing == 0)
		return;
	strbuf_printf(sb, "; missing: evidence about node %s (", in->claim->node_id);
	for (uint32_t i = 0; i < in->n_missing; i++)
		strbuf_printf(sb, "%s%s", i == 0 ? "" : " or ", evidence_words[in->missing[i]]);
	strbuf_puts(sb, ")");
}

static void write_evidence(struct strbuf *sb, const struct claim *claim)
{
	if (claim->evidence == EVIDENCE_NONE)
		return;
	strbuf_printf(sb, "; %s: %s", claim->state == CLAIM_UNPUBLISHING ? "refuted evidence" : "evidence",
		      evidence_name(claim->evidence));
	if (claim->evidence == EVIDENCE_OPERATOR)
		strbuf_puts(sb, ", weaker than any other,");
	if (claim->evidence_detail[0] != '\0' && claim->evidence != EVIDENCE_NEW_BOOT) /* tenants read this */
		strbuf_printf(sb, " (%s)", claim->evidence_detail);
	if (claim->detach_evidence == EVIDENCE_OPERATOR)
		strbuf_printf(sb,
			      "; that the provider released it: operator, weaker than its controller's "
			      "answer, (%s)",
			      claim->detach_detail);
}

static void explain_forced(struct strbuf *sb, const struct claim *claim)
{
	if (claim->other_machine && claim->state <= CLAIM_UNPUBLISHING)
		strbuf_printf(sb,
			      "; node %s is now another machine than the one that holds it: no receipt and "
			      "no boot of it counts, only an attestation, a fence at its storage, or that "
			      "the former machine is the node again",
			      claim->node_id);
	if (claim->plugin_waiver[0] != '\0' && claim->state <= CLAIM_UNPUBLISHING)
		strbuf_printf(sb, "; the node continues without plugin %s, as an operator wants (%s)",
			      claim->plugin_id, claim->plugin_waiver);
}

static void write_waiting(struct strbuf *sb, const struct explanation *in)
{
	char text[CLOCK_TEXT_SIZE];
	int64_t until_ms =
		in->holder.next_attempt_ms > in->now_ms ? in->holder.next_attempt_ms - in->now_ms : 0;

	if (in->waiting_for[0] != '\0')
		strbuf_printf(sb, "; waiting for %s", in->waiting_for);
	if (in->holder.next_attempt_ms == 0)
		return;
	(void)clock_format_duration((uint64_t)until_ms * USEC_PER_MSEC, text);
	if (in->claim->state == CLAIM_RESERVED)
		strbuf_printf(sb, ", taken back in %s unless the node asks again", text);
	else
		strbuf_printf(sb, ", tried again in %s", text);
}

/* The event from which on the time counts. */
static void write_first(struct strbuf *sb, const struct explanation *in)
{
	const struct claim *claim = in->claim;
	enum explain_actor actor = explain_actor(claim, &in->holder);
	bool has_ended = claim->state == CLAIM_UNPUBLISHING || in->holder.is_stopping;
	bool is_busy = has_ended && claim->last_error_code == STATUS_FAILED_PRECONDITION;

	if (in->n_missing == 0)
		strbuf_puts(sb, "; ");
	else if (actor == ACTOR_ALLOC)
		strbuf_printf(sb, "; when allocation %s has ended and node %s has unmounted it, ",
			      claim->allocation_id, claim->node_id);
	else if (actor == ACTOR_NODE)
		strbuf_printf(sb, "; when %snode %s has unmounted it, ",
			      is_busy ? "nothing uses it there and " : "", claim->node_id);
	else
		strbuf_puts(sb, "; after that evidence ");
}

/* How long it can take, and after which event. */
static void write_bound(struct strbuf *sb, const struct explanation *in)
{
	char text[CLOCK_TEXT_SIZE];

	if (!claim_is_live(in->claim))
		return;
	if (in->n_missing > 0 && !in->holder.is_connected)
		strbuf_puts(sb, "; no timer ends this");
	write_first(sb, in);
	if (in->worst_case_ms > 0)
		strbuf_printf(sb, "it is free within %s",
			      clock_format_duration(in->worst_case_ms * USEC_PER_MSEC, text));
	else if (in->holder.waits_for_other && in->claim->state == CLAIM_NODE_DETACHED)
		strbuf_puts(sb, "it waits without limit for the end of the others");
	else if (in->holder.has_controller)
		strbuf_printf(sb,
			      "the detach is tried without limit until a controller of plugin %s succeeds",
			      in->claim->plugin_id);
	else
		strbuf_printf(sb, "the detach waits without limit for a healthy controller of plugin %s",
			      in->claim->plugin_id);
}

/* The conditions under which it is right. */
static void write_condition(struct strbuf *sb, const struct explanation *in, enum explain_command command)
{
	const struct claim *claim = in->claim;

	if (command == EXPLAIN_COMMAND_ATTEST && claim->state == CLAIM_NODE_DETACHED)
		strbuf_puts(sb, "if it is certain that the provider has released it: ");
	else if (command == EXPLAIN_COMMAND_ATTEST)
		strbuf_printf(sb, "if node %s cannot be brought back and you have made sure that it is off: ",
			      claim->node_id);
	if (command == EXPLAIN_COMMAND_POWER_FENCE)
		strbuf_printf(sb, "if node %s cannot be brought back, have a fencer switch it off: ",
			      claim->node_id);
	if (command == EXPLAIN_COMMAND_NETWORK_FENCE)
		strbuf_printf(sb,
			      "if node %s cannot be brought back, have the storage of plugin %s refuse it: ",
			      claim->node_id, claim->plugin_id);
	if (command == EXPLAIN_COMMAND_FENCE)
		strbuf_printf(sb, "if node %s cannot be brought back, have the provider cut it off: ",
			      claim->node_id);
	if (command == EXPLAIN_COMMAND_WITHOUT_PLUGIN)
		strbuf_printf(sb, "if plugin %s will never release it: ", claim->plugin_id);
	if (command == EXPLAIN_COMMAND_DISK)
		strbuf_printf(sb, "make room on the disk of node %s, then the node continues by itself: ",
			      claim->node_id);
	if (command == EXPLAIN_COMMAND_AGENT)
		strbuf_printf(sb, "see the cause, on node %s: ", claim->node_id);
	if (command == EXPLAIN_COMMAND_AGENT && claim->last_error_code == STATUS_FAILED_PRECONDITION)
		strbuf_puts(
			sb,
			"fuser -vm PATH or lsof +f -- PATH name who holds a file open, the paths are in ");
	if (command == EXPLAIN_COMMAND_STOP && in->holder.is_connected)
		strbuf_puts(sb, "to give it up: ");
	else if (command == EXPLAIN_COMMAND_STOP)
		strbuf_puts(sb, "if its work is not to continue when the node is back: ");
}

static void write_command(struct strbuf *sb, const struct explanation *in, enum explain_command command)
{
	char text[EXPLAIN_COMMAND_SIZE];

	write_condition(sb, in, command);
	strbuf_puts(sb, explain_command(command, in->claim, text));
}

static void write_next(struct strbuf *sb, const struct explanation *in)
{
	if (in->next == EXPLAIN_COMMAND_NONE)
		return;
	strbuf_puts(sb, ". Next: ");
	write_command(sb, in, in->next);
	if (in->then == EXPLAIN_COMMAND_NONE)
		return;
	strbuf_puts(sb, "; then ");
	write_command(sb, in, in->then);
}

/* A node or a plugin has chosen the text from @at on, behind "; ": it must not look like our advice. */
static void one_reason(struct strbuf *sb, size_t at)
{
	if (sb->data && sb->len > at)
		str_make_one_reason(sb->data + at + 1);
}

char *explanation_text(const struct explanation *in, char dst[static EXPLAIN_SIZE])
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4096);
	size_t reported_at;

	write_holder(&sb, in);
	write_node(&sb, in);
	strbuf_printf(&sb, "; %s", in->what);
	write_evidence(&sb, in->claim);
	explain_forced(&sb, in->claim);
	write_missing(&sb, in);
	write_waiting(&sb, in);
	write_bound(&sb, in);
	write_next(&sb, in);
	reported_at = sb.len;
	if (in->claim->last_error[0] != '\0')
		strbuf_printf(&sb, "; last error (attempt %" PRIu32 "): %s", in->claim->attempts,
			      in->claim->last_error);
	one_reason(&sb, reported_at);
	reported_at = sb.len;
	if ((in->claim->state == CLAIM_RESERVED || in->holder.is_stopping) && in->holder.doing &&
	    in->holder.doing[0] != '\0')
		strbuf_printf(&sb, "; its node reports: %s", in->holder.doing);
	one_reason(&sb, reported_at);
	str_copy_text(dst, EXPLAIN_SIZE, sb.data ? sb.data : "");
	return dst;
}

/* A string of the message: protobuf-c frees every string except its own empty one. */
static bool put_string(char **dst, const char *src)
{
	char *copy = strdup(src);

	if (copy)
		*dst = copy;
	return copy != NULL;
}

static bool put_strings(Holdfast__V1__ClaimExplanation *pb, const struct explanation *in)
{
	char text[EXPLAIN_SIZE];
	char command[EXPLAIN_COMMAND_SIZE];

	return put_string(&pb->volume_id, in->claim->volume_id) &&
	       put_string(&pb->namespace_, in->claim->namespace) &&
	       put_string(&pb->claim_id, in->claim->id) &&
	       put_string(&pb->allocation_id, in->claim->allocation_id) &&
	       put_string(&pb->node_id, in->claim->node_id) &&
	       put_string(&pb->waiting_for, in->waiting_for) &&
	       put_string(&pb->last_error, in->claim->last_error) &&
	       put_string(&pb->next_command, explain_command(in->next, in->claim, command)) &&
	       put_string(&pb->then_command, explain_command(in->then, in->claim, command)) &&
	       put_string(&pb->text, explanation_text(in, text));
}

Holdfast__V1__ClaimExplanation *explanation_to_pb(const struct explanation *in)
{
	Holdfast__V1__ClaimExplanation *pb = calloc(1, sizeof(*pb));

	if (!pb)
		return NULL;
	holdfast__v1__claim_explanation__init(pb);
	pb->missing = calloc(EVIDENCE_N, sizeof(*pb->missing));
	if (!pb->missing || !put_strings(pb, in)) {
		holdfast__v1__claim_explanation__free_unpacked(pb, NULL);
		return NULL;
	}
	for (uint32_t i = 0; i < in->n_missing; i++)
		pb->missing[i] = (Holdfast__V1__Evidence)in->missing[i];
	pb->n_missing = in->n_missing;
	pb->mode = (Holdfast__V1__ClaimMode)in->claim->mode;
	pb->access_mode = (Holdfast__V1__AccessMode)in->claim->access_mode;
	pb->state = (Holdfast__V1__ClaimState)in->claim->state;
	pb->generation = in->claim->generation;
	pb->since_ms = in->claim->create_time_ms;
	pb->state_since_ms = in->claim->state_time_ms;
	pb->attempts = in->claim->attempts;
	pb->next_attempt_ms = in->holder.next_attempt_ms;
	pb->worst_case_ms = in->worst_case_ms;
	return pb;
}
