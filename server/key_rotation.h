/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The change of the key that signs tickets and orders.
 *
 * The server makes the next key and goes on signing with the one before. Root adds the next key to the
 * policies of the nodes and to the files of their drivers. Once each of them has reported it to this
 * leader, the server signs with it by itself, unless there are fencers. No mount is refused meanwhile.
 * Tickets of former keys stay evidence. */

#include "rpc/server.h"

#include <stdbool.h>
#include <stdint.h>
#include <ticket.h>

struct server;

enum {
	KEY_ROTATION_KEYS_MAX = 16, /* the oldest former one gives way */
	KEY_ROTATION_WARNING_SIZE = 1024,
};

/** Remember the keys of the store: after it was loaded. */
void key_rotation_load(struct server *server);

/** Use the next key if every node and driver knows it; now and then. */
void key_rotation_look(struct server *server);

/** Is there a next key? @ret its public half. */
bool key_rotation_next(struct server *server, uint8_t ret[static TICKET_KEY_SIZE]);

/** Names what the next key waits for. False: there is no next key. */
bool key_rotation_warning(struct server *server, char ret[static KEY_ROTATION_WARNING_SIZE]);

/** Operator.RotateKey */
rpc_unary_fn key_rotation_handle;
