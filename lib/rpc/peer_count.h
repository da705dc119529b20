/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* How many connections each peer has, by a text that names it, and what they hold. Pure. */

#include "base/tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct peer_count;
struct server_conn;
TAILQ_HEAD(peer_conns, server_conn);
RB_HEAD(peer_count_tree, peer_count);

/** One more of @name, unless it has @max. NULL if it has (then *@ret_full is true), or without memory. */
struct peer_count *peer_count_enter(struct peer_count_tree *tree, const char *name, size_t max,
				    bool *ret_full);

/** So many has it. */
size_t peer_count_number(const struct peer_count *count);

/** Bytes that are held for it: the caller's to count, 0 at first. */
size_t *peer_count_bytes(struct peer_count *count);

/** NULL if it has no connections. */
struct peer_count *peer_count_find(struct peer_count_tree *tree, const char *name);

/** Connections of it that give their places to others: the caller's to fill and to empty. */
struct peer_conns *peer_count_idle(struct peer_count *count);

/** Whose connections it counts. */
const char *peer_count_name(const struct peer_count *count);

/** One less. NULL is allowed. */
void peer_count_leave(struct peer_count_tree *tree, struct peer_count *count);
