/* SPDX-License-Identifier: Apache-2.0 */
#include "model/explain.h"

#include "base/names.h"
#include "base/str.h"
#include "model/volume.h"

#include <assert.h>

/* What a claim can be at. LOST: its node is not connected. */
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

/* Of a node that may have it mounted. Who is connected is asked, not vouched for. */
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
	[ATTACHING_STUCK] = {"it has to be attached, and no healthy controller of its plugin is connected",
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
	[STOPPING] = {"its work was told to stop", OF_NODE, ACTOR_NODE, EXPLAIN_COMMAND_AGENT,
		      EXPLAIN_COMMAND_NONE},
	[STOPPING_LOST] = {"its work is to stop", OF_LOST, ACTOR_NODE_OR_PERSON, EXPLAIN_COMMAND_NODE,
			   EXPLAIN_COMMAND_ATTEST},
	[RELEASING] = {"its work has ended", OF_NODE, ACTOR_NODE, EXPLAIN_COMMAND_AGENT,
		       EXPLAIN_COMMAND_NONE},
	[RELEASING_LOST] = {"its work has ended", OF_LOST, ACTOR_NODE_OR_PERSON, EXPLAIN_COMMAND_NODE,
			    EXPLAIN_COMMAND_ATTEST},
	[RELEASING_PURGED] = {"its work has ended and its node was purged", OF_LOST, ACTOR_PERSON,
			      EXPLAIN_COMMAND_AGAIN, EXPLAIN_COMMAND_ATTEST},
	[DETACHING] = {"the node let go of it; the controller is to detach it", 0, ACTOR_CONTROLLER,
		       EXPLAIN_COMMAND_PLUGIN, EXPLAIN_COMMAND_NONE},
	[DETACHING_STUCK] = {"the node let go of it; it has to be detached, and no healthy controller of its "
			     "plugin is connected",
			     0, ACTOR_CONTROLLER_BACK, EXPLAIN_COMMAND_PLUGIN, EXPLAIN_COMMAND_NONE},
	[DETACHING_WITH_OTHER] =
		{"the node let go of it; another claim of the volume there is detached with it, or "
		 "has to be gone before",
		 0, ACTOR_OTHER, EXPLAIN_COMMAND_AGAIN, EXPLAIN_COMMAND_NONE},
	[ENDING] = {"nothing is missing; it is about to be freed", 0, ACTOR_SERVER, EXPLAIN_COMMAND_AGAIN,
		    EXPLAIN_COMMAND_NONE},
	[FREED] = {"it is history and keeps nobody from the volume", 0, ACTOR_NOBODY, EXPLAIN_COMMAND_NONE,
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
		(void)str_format(dst, EXPLAIN_WHO_SIZE, "the other claims of the volume on node %s",
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
	bool is_default = str_eq(claim->namespace, NAMESPACE_DEFAULT);
	const char *option = is_default ? "" : " --namespace ";
	const char *namespace = is_default ? "" : claim->namespace;

	switch (command) {
	case EXPLAIN_COMMAND_STOP:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE, "holdfast alloc stop %s", claim->allocation_id);
		break;
	case EXPLAIN_COMMAND_ATTEST:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE,
				 "holdfast volume detach %s %s%s%s --attest REASON", claim->volume_id,
				 claim->node_id, option, namespace);
		break;
	case EXPLAIN_COMMAND_FENCE:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE, "holdfast volume detach %s %s%s%s --fence REASON",
				 claim->volume_id, claim->node_id, option, namespace);
		break;
	case EXPLAIN_COMMAND_AGENT:
		(void)str_copy(dst, EXPLAIN_COMMAND_SIZE, "holdfast agent status");
		break;
	case EXPLAIN_COMMAND_PLUGIN:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE, "holdfast plugin status %s", claim->plugin_id);
		break;
	case EXPLAIN_COMMAND_AGAIN:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE, "holdfast volume status %s%s%s --why",
				 claim->volume_id, option, namespace);
		break;
	case EXPLAIN_COMMAND_WITHOUT_PLUGIN:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE,
				 "holdfast volume detach %s %s%s%s --without-plugin REASON", claim->volume_id,
				 claim->node_id, option, namespace);
		break;
	case EXPLAIN_COMMAND_ALLOC:
		(void)str_format(dst, EXPLAIN_COMMAND_SIZE, "holdfast alloc status %s", claim->allocation_id);
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

/* Its node tries, and has failed: by what is in use there the plugin cannot be helped, whoever says so; else
 * it is for a person to read whether by the plugin's fault. */
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
		ret->then = EXPLAIN_COMMAND_FENCE; /* stronger than a word */
	if (has_to_detach(claim) && claim->state == CLAIM_NODE_DETACHED && claim->attempts > 0 &&
	    !holder->waits_for_other)
		ret->then = EXPLAIN_COMMAND_ATTEST;
	if (may_leave_plugin_out(claim, holder))
		ret->then = EXPLAIN_COMMAND_WITHOUT_PLUGIN;
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
