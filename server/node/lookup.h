/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Registered nodes: the one of an id, and since when it is away. */

#include "base/error.h"
#include "state/state.h"

#include <stdbool.h>
#include <stdint.h>

struct server;

/** The registered node, or STATUS_NOT_FOUND. */
enum status nodes_find(struct server *server, const char *id, struct node_entry **ret, struct error *err);

enum {
	NODES_GRACE_MS = 30 * 1000, /* plus a lease and three heartbeats */
	/* An agent that is refused tries the next of at most 16 servers within 15 seconds: if it runs, it is
	 * refused here again in this time. */
	NODES_KEPT_OUT_MS = 5 * 60 * 1000,
};

/** The interval of heartbeats: longer than the setting if heartbeats would cost more time than calls. Uses
 * the number of registered nodes, as after a restart they all reconnect at once. */
uint32_t nodes_heartbeat_ms(const struct server *server);

/** For how long this server leads, and after how long nodes that are alive have come back to it. An agent
 * notices a silent loss of its connection after three heartbeats, and has no longer interval than 60 seconds.
 */
int64_t nodes_led_ms(const struct server *server);
int64_t nodes_grace_ms(const struct server *server);

/** When this server began to lead, by the present clock. */
int64_t nodes_started_ms(const struct server *server);

/** Was the node connected until this server began to lead, seconds ago, and has not come back yet? No for one
 * whose report is waited for: a restored store does not know. */
bool nodes_may_come_back(const struct server *server, const struct node_entry *node);

/** STATUS_FAILED_PRECONDITION: the node may come back. It is asked before a node is fenced, purged or
 * attested.
 */
enum status nodes_check_away(const struct server *server, const struct node_entry *node, struct error *err);

/** Others with the node's certificate have its place: a connection or a session without hello was refused or
 * ended, and may have been the node's own. A follower does not know nodes, and notes nothing. */
void nodes_note_kept_out(struct server *server, const char *node_id);

/** Notes the boot of a hello without a session to replace, until the node has reported after a restore. Each
 * of two other boots than the stored one may be that in which it holds what the store has forgotten: both
 * count as kept out, until one of them is silent for NODES_KEPT_OUT_MS. */
void nodes_note_boot(struct node_entry *node, const char *boot_id);

/** STATUS_FAILED_PRECONDITION: @boot_id, of a hello without a session to replace, is not that in which the
 * node may come back. Here also a node whose report is waited for may, until its first session, and one that
 * was kept out less than NODES_KEPT_OUT_MS ago. */
enum status nodes_check_boot(const struct server *server, const struct node_entry *node, const char *boot_id,
			     struct error *err);

/** Since when it has no session, as far as is known; 0: it has one. */
int64_t nodes_disconnected_ms(const struct server *server, const struct node_entry *node);
