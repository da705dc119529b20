/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One fence: a node is kept from writing, and that is proved, so that what it held in that boot is released.
 * Pure; server/fence carries it out.
 *
 * A power fence has a fencer switch the node off. A network fence has the storage of one plugin refuse the
 * node's addresses, and frees volumes of that plugin only.
 *
 *   asked --order--> sent --proof--> off --claims freed--> recorded
 *     |               |              |                     |
 *     |               |              |                     +-- network: another boot --> lifting --> lifted
 *     |               |              +-- power: the node was heard afterwards --> failed
 *     |               +-- no proof --> refused, failed, unknown: claims stay
 *     +-- no fencer or controller took the order in time --> refused
 *
 * A node that comes back in another boot overtakes the fence: the new boot is the evidence then. Time starts
 * and ends a fence; it is never evidence. The power of a node that is being fenced is switched on by a
 * person, and only in the state recorded. A network fence is in force until the node has reported from
 * another boot; only then the storage is asked to accept it again. */

#include <stdbool.h>
#include <stdint.h>

enum fence_state {
	FENCE_ASKED,	 /* the intent is durable; no fencer or controller has the order */
	FENCE_SENT,	 /* a fencer or controller may have carried the order out */
	FENCE_OFF,	 /* proved by a second action; the proof is durable, claims are not freed yet */
	FENCE_RECORDED,	 /* what the node held in that boot is free, and that is durable */
	FENCE_REFUSED,	 /* nothing was touched */
	FENCE_FAILED,	 /* it was not proved, or a node that was proved off was heard after that */
	FENCE_UNKNOWN,	 /* the node may be fenced; the outcome did not arrive */
	FENCE_OVERTAKEN, /* the node is back in another boot */
	FENCE_LIFTING,	 /* network: it is back in another boot, and the storage may still refuse it */
	FENCE_LIFTED,	 /* network: the storage does not list its addresses */
	FENCE_STATE_N,
};

enum fence_event {
	FENCE_EVENT_SENT,     /* the order is about to be sent to a fencer; a repeat sends the same order */
	FENCE_EVENT_PROVED,   /* fence_judge() */
	FENCE_EVENT_NEXT,     /* another fencer or controller gets the order, after a refusal or failure */
	FENCE_EVENT_REFUSED,  /* before the agent or the plugin was called */
	FENCE_EVENT_FAILED,   /* off failed, or the second action does not show off */
	FENCE_EVENT_UNSURE,   /* the fencer began and does not know the outcome */
	FENCE_EVENT_EXPIRED,  /* the order has expired without an answer */
	FENCE_EVENT_HEARD,    /* the node was heard in that boot */
	FENCE_EVENT_RECORDED, /* every claim of that boot is free */
	FENCE_EVENT_REBOOTED, /* the node is back in another boot */
	FENCE_EVENT_RETURNED, /* the same, of a network fence */
	FENCE_EVENT_LIFT, /* network: a person ends it; again, if a late call has fenced the node once more */
	FENCE_EVENT_DOUBT,  /* network: the server has lost history, and a later fence may be in force */
	FENCE_EVENT_MORE,   /* network: the node has reported another address in the boot that is fenced */
	FENCE_EVENT_LIFTED, /* network: the storage accepts it again, by a second action */
	FENCE_EVENT_N,
};

/* The result of one action of a fencer's agent, or of a plugin: FenceClusterNetwork is its off,
 * ListClusterFence its status. */
enum fence_outcome {
	FENCE_OUTCOME_NONE,   /* the action was not run */
	FENCE_OUTCOME_DONE,   /* of off: the agent reports success */
	FENCE_OUTCOME_IS_ON,  /* of status; the storage does not list each of the node's addresses */
	FENCE_OUTCOME_IS_OFF, /* of status; it lists each */
	FENCE_OUTCOME_FAILED, /* anything else, with a time-out */
	FENCE_OUTCOME_N,
};

/* How far a fencer's clock may be from the server's. */
#define FENCE_CLOCK_SKEW_MS ((int64_t)5 * 60 * 1000)

/* The fencer's answer to an order. */
struct fence_answer {
	bool was_refused; /* before it called the agent */
	bool is_unsure;	  /* it was interrupted after it began */
	enum fence_outcome off, status;
	int64_t off_ms, status_ms;	 /* when each action ended, on the fencer's clock */
	int64_t created_ms, answered_ms; /* the fence, and the arrival of the answer, on the server's clock */
};

/** Did both actions end between the creation of the fence and the answer? FENCE_CLOCK_SKEW_MS is allowed. */
bool fence_times_fit(const struct fence_answer *answer);

/** Returns what the answer proves: FENCE_EVENT_PROVED only if off succeeded, a status that ended later
 * showed off, and fence_times_fit(). An answer that contradicts itself is FENCE_EVENT_FAILED. */
enum fence_event fence_judge(const struct fence_answer *answer);

/** Apply one event. Returns false if the state refuses it; @ret is untouched then. An event that changes
 * nothing is accepted. */
bool fence_step(enum fence_state state, enum fence_event event, enum fence_state *ret);

/** Does the fence still wait for something? */
bool fence_is_open(enum fence_state state);

/** May the storage refuse the node, by a network fence in this state? */
bool fence_is_in_force(enum fence_state state);

/* Whether the server asks for a fence by itself, because a volume's on_node_loss wants it: the first that
 * holds. */
enum fence_verdict_auto {
	FENCE_AUTO_NOW,
	FENCE_AUTO_CONNECTED,	 /* the node is connected */
	FENCE_AUTO_NOT_WANTED,	 /* no volume that it holds wants it */
	FENCE_AUTO_NOT_DUE,	 /* it is away for less than the volume's `after` */
	FENCE_AUTO_OPEN,	 /* it is being fenced */
	FENCE_AUTO_CONTRADICTED, /* it was proved off in this boot, and heard afterwards: a person must look
				  */
	FENCE_AUTO_SWITCHED_OFF, /* a person has stopped automatic fences */
	FENCE_AUTO_NEW_LEADER,	 /* this server leads for less than the grace: nodes are coming back */
	FENCE_AUTO_EXPIRED,	 /* the server ended its session with its certificate: it runs, perhaps */
	FENCE_AUTO_TOO_FEW,   /* fewer than half of the nodes are connected: it may be the server's network */
	FENCE_AUTO_NO_FENCER, /* no connected fencer can switch it, or no controller can fence it */
	FENCE_AUTO_RETRY_LATER, /* the last one did not prove it, a moment ago */
	FENCE_AUTO_RATE,	/* fence_max_per_minute */
	FENCE_AUTO_N,
};

struct fence_auto_facts {
	bool is_connected, is_open, was_contradicted, is_switched_off, has_fencer;
	bool has_expired; /* its certificate, before its session ended */
	int64_t away_ms;  /* for how long the node is not connected */
	int64_t after_ms; /* of the volume that is the first to want it; negative: no volume wants it */
	int64_t led_ms, grace_ms;
	uint64_t n_connected, n_nodes;
	int64_t since_last_ms; /* since the end of the last fence of this boot; negative: no fence yet */
	int64_t retry_ms;
	uint64_t n_last_minute, max_per_minute;
};

/** May the server ask for a fence now? Pure; each limit errs towards waiting. */
enum fence_verdict_auto fence_auto(const struct fence_auto_facts *facts);

/** A sentence for people: "now", "the node is connected", ... */
const char *fence_auto_text(enum fence_verdict_auto verdict);

/** "asked", "sent", "off", "recorded", "refused", "failed", "unknown", "overtaken",
 * "lifting", "lifted"; "invalid". */
const char *fence_state_name(enum fence_state state);

/** "not run", "done", "on", "off", "failed"; "invalid". */
const char *fence_outcome_name(enum fence_outcome outcome);
