/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The record of every write and of every refused one: who, what, why, result. A write's record is part of
 * its transaction, so there is no write without one; each record names the SHA-256 of the one before.
 *
 * Records are stored under consecutive numbers and not kept in memory; the head is. Their text is cut and
 * cleaned, so that no caller decides how large a record is or what it does to a terminal. A cut text ends
 * with the length and the SHA-256 of the whole. */

#include "base/error.h"
#include "base/rate.h"
#include "state/change.h"
#include "state/state.h"

#include <holdfast/v1/operator.pb-c.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct server;
struct rpc_call;
struct log_ctx;

enum {
	AUDIT_WHO_SIZE = 192,
	AUDIT_OBJECT_SIZE = 320,
	AUDIT_WHY_SIZE = 512,
	AUDIT_MESSAGE_SIZE = 512,
	AUDIT_CALLERS = 64, /* whose refusals are counted at the same time */
	/* Refusals are slow: any client causes them, and they would push all else out of the audit. */
	AUDIT_REFUSAL_COST_US = 60000000, /* of one caller, after the burst: one a minute */
	AUDIT_REFUSALS_BURST = 20,
	AUDIT_ALL_REFUSALS_COST_US = 3000000, /* of all callers together: 20 a minute */
	AUDIT_ALL_REFUSALS_BURST = 200,
	AUDIT_SUPPRESSED_S = 600, /* after so long, suppressed refusals are recorded without a further one */
};

struct audit_caller {
	char who[AUDIT_WHO_SIZE]; /* "": unused */
	struct rate rate;
	uint64_t left_out;
	uint64_t used_us; /* monotonic; who was not here for longest makes room */
};

/* How many refusals are recorded. All zero at first. */
struct audit_limits {
	struct audit_caller callers[AUDIT_CALLERS];
	struct rate rate;	/* of all */
	bool is_set;		/* the rate is */
	uint64_t left_out;	/* of callers that made room */
	sd_event_source *timer; /* owned; NULL: nothing was suppressed */
};

void audit_release(struct audit_limits *limits);

/** Stage in @change the record that the caller did @what ("Volumes.Register") to @object ("volume
 * default/db"), @why (may be NULL): the reason given, or the evidence. */
void audit_write(struct server *server, struct change *change, const struct rpc_call *call, const char *what,
		 const char *object, const char *why);

/** The same, with the fields @about for the log line; @call NULL: the server did it by itself. */
void audit_about(struct server *server, struct change *change, const struct rpc_call *call, const char *what,
		 const char *object, const char *why, const struct log_ctx *about);

/** The same for an operator's attestation about @claim, by which it may be freed; @call NULL: the server
 * itself, by an earlier attestation. Its log line is of that class. */
void audit_word(struct server *server, struct change *change, const struct rpc_call *call, const char *what,
		const struct claim *claim, const char *why);

/** audit_write() or, without @call, audit_own(), but without a log line: another one is logged once it is
 * durable. */
void audit_silent(struct server *server, struct change *change, const struct rpc_call *call, const char *what,
		  const char *object, const char *why);

/** Stage the record of an event that a node causes by itself. Above the rate of the node and kind it is left
 * out and counted, so that one node cannot push everything else out of the audit; the next record has the
 * count. */
void audit_node_event(struct server *server, struct change *change, enum node_event event,
		      const char *node_id, const char *why);

/** The same with @object in place of "node ID". */
void audit_node_event_about(struct server *server, struct change *change, enum node_event event,
			    const char *node_id, const char *object, const char *why);

/** Stage the record of something the server did by itself: "server" is who. */
void audit_own(struct server *server, struct change *change, const char *what, const char *object,
	       const char *why);

/** Records that a write was refused, in a transaction of its own. Bounded per caller and in all; the next
 * record has the number of suppressed ones. @about the fields for the log line; NULL: no fields. */
void audit_refused(struct server *server, const struct rpc_call *call, const char *what,
		   const struct log_ctx *about, const struct error *why);

/** The end of the chain, borrowed until the next write; first is 1 before there is any record. */
Holdfast__V1__AuditHead audit_head(struct server *server);

/** For change_commit(): number and chain the records of @change and stage them with the new head. */
void audit_seal(struct server *server, struct change *change);
