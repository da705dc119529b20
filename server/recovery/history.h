/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The server's history, the marks of it that nodes keep, and the steps when the server is behind a mark.
 *
 * A mark is the position of the server's history at some moment: store, epoch, index, and the number of nodes
 * that were ever registered, missing ones included; and the node and machine that got it. A machine that
 * becomes a registered node counts as a node: the forgotten time may have had each. Every node gets a mark
 * with welcome, with each grant, and at intervals while it is connected; it journals the highest and shows it
 * in hello. A server whose store is behind a mark has lost history: it decides a new epoch (new_epoch.h),
 * grants nothing more, and restarts in it.
 *
 * A mark is proven by a code that only the ticket key makes, so that a node cannot stop the grants of all
 * nodes by inventing one: only that node must report, and it is on record. Where tickets prove nothing
 * (restore_proof.h), because the key has changed, one unproven mark counts: the epoch that it begins takes no
 * other. */

#include "base/error.h"
#include "base/uuid.h"
#include "model/claim.h"
#include "model/node.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

struct change;
struct node;
struct server;
struct session;

enum {
	HISTORY_PROOF_SIZE = 32,
	HISTORY_MARK_INTERVAL_MS = 30000, /* between marks during a session, sent when a heartbeat comes */
};

/* A mark with the memory of its fields. */
struct history_mark {
	Holdfast__V1__Mark pb;
	char store_id[UUID_SIZE];
	char node[NODE_ID_MAX + 1];
	char machine[NODE_MACHINE_MAX + 1];
	uint8_t proof[HISTORY_PROOF_SIZE];
};

/** Fills the mark of the present history for @node: every index that was ever answered is at or before it. */
void history_mark(struct server *server, const char *node, struct history_mark *ret);

/** Checks the mark in @hello, also in that of a machine that will be refused. Notes in the session that the
 * node must report, or that its machine is back from the lost time. STATUS_UNAVAILABLE: the store is behind,
 * a new epoch is decided and the server restarts. */
enum status history_check(struct session *session, const Holdfast__V1__SessionHello *hello,
			  struct error *err);

/** Checks @granted, a claim of the node that the store does not know, proven by its ticket. In one epoch the
 * generations of a volume only grow, also over a deregistration, and a node sees only durable ones. So a
 * generation above @known, the store's, was granted in lost time, also in a later epoch; then it does the
 * same as history_check(). A claim of an earlier epoch proves nothing. */
enum status history_check_grant(struct session *session, const struct claim *granted, uint64_t known,
				struct error *err);

/** Keep in @node, as it is being stored, the highest mark that it has shown. @current is the node as it was.
 * A lower mark, or no mark, in the same boot means that the node was put back in time: the session notes that
 * it must report. */
void history_take_node_mark(struct session *session, const Holdfast__V1__Mark *mark,
			    const struct node *current, struct node *node);

/** Nodes that may hold volumes: that were ever registered, and that are missing. */
uint64_t history_nodes(struct server *server);

/** Has the server begun the present epoch by itself, and are nodes still waited for? */
bool history_is_lost(struct server *server);

/** Stage the changes of a hello to the count of nodes: a new node is counted for marks, and a machine that is
 * back is no longer missing. A mark from before the epoch may have a larger number of nodes. */
void history_count_node(const struct session *session, bool is_registered,
			const Holdfast__V1__SessionHello *hello, struct change *change);

/** Stages that @machine becomes @node, which is registered: if it never was, it is counted for marks. */
void history_count_machine(struct server *server, struct change *change, const struct node *node,
			   const char *machine);

/** If the session's @machine, which is refused, is back from the lost time, stages that it is a replaced one
 * (replaced.h) instead of a missing one, and returns true. */
bool history_note_refused(const struct session *session, const char *machine, struct change *change);

/** Stages with the purge of @node that its marks make no missing node known. A node that was new in this
 * epoch has no earlier marks that could: only how far its marks can be is noted. */
void history_forget_node(struct server *server, struct change *change, const struct node *node);

/** Is the session's node, which is not registered, new or purged? Else the forgotten time may have had it. */
bool history_is_stranger(const struct session *session);

/** Nodes that were registered in the time that was forgotten, and are not known. */
uint64_t history_missing_nodes(struct server *server);

/** Stage an operator's attestation that no missing node is left. */
void history_forget_missing(struct server *server, struct change *change);
