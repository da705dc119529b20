/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Explains the situation of a claim: its holder, the missing evidence, who must act, the longest duration,
 * the next command. First for programs (struct explanation), and from that as text. Pure. */

#include "model/claim.h"
#include "model/node.h"

#include <holdfast/v1/explain.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	EXPLAIN_SIZE = 1536, /* text; of long names more than an error's message holds */
	EXPLAIN_WHO_SIZE = 256,
	EXPLAIN_COMMAND_SIZE = 384,
};

/* The parts of the worst case, in milliseconds. */
enum {
	EXPLAIN_COMMIT_MS = 1000,	/* one durable write of the server */
	EXPLAIN_RETRY_MAX_MS = 30000,	/* between two tries of one step, at most */
	EXPLAIN_DETACH_MAX_MS = 120000, /* deadline of a controller's detach, unless it is configured */
};

/* Facts about the holder of a claim in addition to the claim. Unset ones mean the normal case. */
struct holder {
	bool is_connected;	 /* its node has a session now */
	bool is_stopping;	 /* its allocation has been ordered to stop */
	bool is_draining;	 /* its node is being drained */
	bool is_purged;		 /* its node is unknown */
	bool must_report;	 /* its node has not reported what it holds in the present epoch */
	bool has_controller;	 /* a connected node runs a healthy controller of the volume's plugin */
	bool waits_for_other;	 /* another claim with its attachment is detached with it, or before */
	bool can_power_fence;	 /* a fencer can switch the machine off that holds the claim */
	bool can_network_fence;	 /* the storage of the claim's plugin can refuse that machine */
	enum node_disk disk;	 /* of its node's agent, as it reported last */
	const char *disk_path;	 /* borrowed; of a disk in trouble */
	bool can_fence;		 /* that controller's confirmation that the node is cut off is evidence */
	int64_t disconnected_ms; /* since when its node has no session; 0: not known */
	uint64_t detach_ms;	 /* deadline of a controller's detach; 0: EXPLAIN_DETACH_MAX_MS */
	const char *doing; /* borrowed; its node's description of the step of a mount or release; may be empty
			      or NULL */
	int64_t next_attempt_ms; /* of the step that is being retried; 0: not retried by time */
};

/* Commands for the operator. The next one only looks; those that end or free something follow, with a
 * condition. */
enum explain_command {
	EXPLAIN_COMMAND_NONE,
	EXPLAIN_COMMAND_STOP,	     /* the allocation */
	EXPLAIN_COMMAND_ATTEST,	     /* an operator's attestation in place of the missing evidence, if that is
					unavailable */
	EXPLAIN_COMMAND_FENCE,	     /* have the provider cut the node off */
	EXPLAIN_COMMAND_POWER_FENCE, /* have a fencer switch the node off */
	EXPLAIN_COMMAND_NETWORK_FENCE,	/* have the plugin's storage refuse the node */
	EXPLAIN_COMMAND_AGENT,		/* look at the obstacle, on the node */
	EXPLAIN_COMMAND_PLUGIN,		/* see why there is no controller */
	EXPLAIN_COMMAND_AGAIN,		/* ask again */
	EXPLAIN_COMMAND_WITHOUT_PLUGIN, /* let the node continue without a plugin that will never do its part
					 */
	EXPLAIN_COMMAND_ALLOC,		/* see whose it is and what it does */
	EXPLAIN_COMMAND_NODE,		/* see since when the node is away */
	EXPLAIN_COMMAND_DISK,		/* see there what fills the disk of its agent */
};

/* The party that must act for a claim to continue. */
enum explain_actor {
	ACTOR_NOBODY,
	ACTOR_SERVER,
	ACTOR_ALLOC,	      /* its work continues: the volume is in use */
	ACTOR_NODE,	      /* and its dependencies: its plugin, the users of a mount */
	ACTOR_NODE_OR_PERSON, /* the node is not connected */
	ACTOR_PERSON,
	ACTOR_CONTROLLER,
	ACTOR_CONTROLLER_BACK, /* there is no healthy one */
	ACTOR_OTHER,	       /* another claim of the volume comes first */
	ACTOR_N,
};

struct explanation {
	const struct claim *claim; /* borrowed */
	struct holder holder;
	int64_t now_ms;
	enum evidence missing[EVIDENCE_N]; /* any one of them lets it continue */
	uint32_t n_missing;
	char waiting_for[EXPLAIN_WHO_SIZE]; /* who must act; may be empty */
	uint64_t worst_case_ms;		    /* see explain() */
	enum explain_command next, then;    /* then: if the next one does not help */
	const char *what;		    /* for people: the situation of the claim */
};

/** Explain @claim, which must outlive @ret.
 *
 * The worst case is the time from the missing evidence, or from now if nothing is missing, until the claim is
 * free. Without a detach: one commit. Else a commit before and after the detach, one wait for the next try
 * and the detach's deadline, provided that a healthy controller is there, no other claim comes first and the
 * last detach did not fail; without that nothing bounds it and it is 0. For a free claim it is 0 as well. */
void explain(const struct claim *claim, const struct holder *holder, int64_t now_ms, struct explanation *ret);

/** Whom @claim waits for: as explain() has it, at the cost of a look into a table. */
enum explain_actor explain_actor(const struct claim *claim, const struct holder *holder);

/** The name for programs: "node-away"; "invalid" outside the enum. */
const char *explain_actor_name(enum explain_actor actor);

/** Write @command for @claim, exact and whole but for the REASON a person has to give; returns @dst. */
char *explain_command(enum explain_command command, const struct claim *claim,
		      char dst[static EXPLAIN_COMMAND_SIZE]);

/** The same as text, one or more sentences in one line. Cut at the end when too long: errors come last. */
char *explanation_text(const struct explanation *in, char dst[static EXPLAIN_SIZE]);

/** The message, with the text; owned by the caller. NULL when memory is short. */
Holdfast__V1__ClaimExplanation *explanation_to_pb(const struct explanation *in);

/** explain() and explanation_text() at once. Returns @dst. */
char *explain_claim(const struct claim *claim, const struct holder *holder, int64_t now_ms,
		    char dst[static EXPLAIN_SIZE]);
