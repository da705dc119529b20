/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Registered nodes: the one of an id, and since when it is away. */

#include "base/error.h"
#include "state/state.h"

#include <stdint.h>

struct server;

/** The registered node, or STATUS_NOT_FOUND. */
enum status nodes_find(struct server *server, const char *id, struct node_entry **ret, struct error *err);

/** Since when it has no session, as far as is known; 0: it has one. */
int64_t nodes_disconnected_ms(const struct server *server, const struct node_entry *node);
