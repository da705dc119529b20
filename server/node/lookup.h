/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Registered nodes: the one of an id, and since when it is away. */

#include "base/error.h"
#include "state/state.h"

#include <stdint.h>

struct server;

/** The registered node, or STATUS_NOT_FOUND. */
enum status nodes_find(struct server *server, const char *id, struct node_entry **ret, struct error *err);

enum { NODES_GRACE_MS = 30 * 1000 }; /* plus a lease and three heartbeats */

/** For how long this server leads, and after how long nodes that are alive have come back to it. */
int64_t nodes_led_ms(const struct server *server);
int64_t nodes_grace_ms(const struct server *server);

/** Since when it has no session, as far as is known; 0: it has one. */
int64_t nodes_disconnected_ms(const struct server *server, const struct node_entry *node);
