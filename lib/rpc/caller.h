/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* For whom a server makes a call that it hands on: the header
 * "holdfast-caller: EXPIRES_MS ADDRESS [URI [ISSUED_MS [SERIAL[,RENEWED] [ISSUER]]]]", which ends with the
 * address if the caller has no identity. RENEWED is the serial number of a certificate that came over the
 * caller's connection: the caller is refused if either one is revoked. An address that is a path is of a unix
 * socket: the identity is of no certificate. rpc_server_set_vouching() decides who may send it. Pure. */

#include "base/error.h"
#include "rpc/peer.h"
#include "rpc/peer_count.h"
#include "rpc/request_head.h"

/** STATUS_INVALID_ARGUMENT for an identity or address that is not printable ASCII, or has a blank. */
enum status caller_format(const struct rpc_peer *peer, char ret[static REQUEST_CALLER_MAX + 1],
			  struct error *err);

/** STATUS_INVALID_ARGUMENT for a text that caller_format() does not make. */
enum status caller_parse(const char *text, struct rpc_peer *ret, struct error *err);

/** Writes the network whose connections and calls count together if the peer has no identity: the host of its
 * address, "192.0.2.1", or its IPv6 network, "2001:db8:1:2::/64", all of which one host may have. */
void caller_origin(const struct rpc_peer *peer, char ret[static RPC_ADDRESS_SIZE]);

/** Have both peers the same host? Their ports may differ. */
bool caller_is_of_host(const struct rpc_peer *a, const struct rpc_peer *b);

/* Identity or address, and the digest of a token, in hexadecimal. */
enum { CALLER_KEY_SIZE = RPC_URI_SIZE + RPC_ADDRESS_SIZE + 2 * 32 + 4 };

/** Writes a text that is the same for all connections of a caller: its certificate's identity and the digest
 * of the token, or caller_origin() if it has neither. A wrong token makes another caller.
 * @token a secret, or NULL */
void caller_key(const struct rpc_peer *peer, const char *token, char ret[static CALLER_KEY_SIZE]);

/** Counts one more of @what for the caller. STATUS_RESOURCE_EXHAUSTED if it has @max: it does not take the
 * places of others by opening more connections. Leave *@ret with peer_count_leave().
 * @token a secret, or NULL */
enum status caller_count(const struct rpc_peer *peer, const char *token, struct peer_count_tree *tree,
			 size_t max, const char *what, struct peer_count **ret, struct error *err);
