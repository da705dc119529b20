/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the server says of its own history, what nodes say of it, and what follows when it is behind.
 *
 * A mark is where the server's history was at some moment: store, epoch, index, and how many nodes were ever
 * registered, with those that were missing then. Every node gets one with welcome, with each grant, and now
 * and then while it is connected; it journals the highest and shows it in hello. A server whose store is
 * behind a mark has lost history: it decides a new epoch (new_epoch.h), grants nothing more, and starts anew
 * in it.
 *
 * A mark is proven by a code that only the ticket key makes, so that a node cannot stop everybody's grants by
 * inventing one: that node alone has to report, and it is on record. Where tickets prove nothing
 * (restore_proof.h), because the key has changed, one unproven mark counts: the epoch that it begins takes no
 * other. */

#include "base/error.h"
#include "base/uuid.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

struct change;
struct claim;
struct node;
struct server;
struct session;

enum {
	HISTORY_PROOF_SIZE = 32,
	HISTORY_MARK_INTERVAL_MS = 30000, /* between marks during a session, sent when a heartbeat comes */
};

/* A mark with the memory that it stands on. */
struct history_mark {
	Holdfast__V1__Mark pb;
	char store_id[UUID_SIZE];
	uint8_t proof[HISTORY_PROOF_SIZE];
};

/** Where the history is now: everything that anybody was told is at or before it. */
void history_mark(struct server *server, struct history_mark *ret);

/** What the hello of @session shows; NULL: nothing. Notes in the session that the node has to report, or that
 * it is back from the time that was forgotten. STATUS_UNAVAILABLE: the store is behind, a new epoch is
 * decided and the server starts anew. */
enum status history_check(struct session *session, const Holdfast__V1__Mark *mark, struct error *err);

/** @granted: a claim of the node that the store does not know, proven by its ticket. In one epoch generations
 * of a volume only grow, also of one that was deregistered and registered again, and none is shown to a node
 * before it is durable: one above @known, the store's, was granted in a time that it has forgotten. Then as
 * history_check(). What was granted in an earlier epoch says nothing. */
enum status history_check_grant(struct session *session, const struct claim *granted, uint64_t known,
				struct error *err);

/** Keep in @node, as it is being stored, the highest mark that it has shown. @current as it was: a lower one,
 * or none, in the same boot is of a node that was put back: it has to report, which is noted in the session.
 */
void history_take_node_mark(struct session *session, const Holdfast__V1__Mark *mark,
			    const struct node *current, struct node *node);

/** Nodes that may hold volumes: that were ever registered, and that are missing. */
uint64_t history_nodes(struct server *server);

/** Has the server begun the present epoch by itself, and are nodes still waited for? */
bool history_is_lost(struct server *server);

/** Stage what follows from a hello for the count of nodes: one that is not registered yet is counted, for
 * marks and, if it is back, as one less that is missing; a mark of before the epoch may say of more. */
void history_count_node(const struct session *session, bool is_registered, struct change *change);

/** Nodes that were registered in the time that was forgotten, and are not known. */
uint64_t history_missing_nodes(struct server *server);

/** Stage an operator's word that none of those is left. */
void history_forget_missing(struct server *server, struct change *change);
