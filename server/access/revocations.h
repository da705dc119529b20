/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Revoked certificates: single ones by serial number, and all of an identity that are valid at a moment, see
 * PKI_AHEAD_MS: the server issues the next one as of after that.
 *
 * The list is in the store, so every server has it. A new entry ends the calls, streams and sessions of the
 * certificates that it covers in the next turn of the loop, on each server; a revoked token ends its own, and
 * a changed policy, at the server that leads, those that it no longer allows.
 * The claims of a node are kept: a revocation is no evidence. Entries end with the certificates that they
 * cover.
 */

#include "base/error.h"
#include "rpc/peer.h"
#include "rpc/server.h"
#include "state/change.h"
#include "store/kv.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server;

enum {
	REVOCATIONS_MAX = 8192,
	REVOCATIONS_WARN = REVOCATIONS_MAX / 4 * 3,
	REVOCATIONS_WARNING_SIZE = 512,
	REVOCATION_REASON_MAX = 255,
};

/** STATUS_UNAUTHENTICATED with who revoked the certificate of @peer and when. */
enum status revocation_check(struct server *server, const struct rpc_peer *peer, struct error *err);

/** The same of the caller; also if its certificate is of a CA that is not trusted any longer. */
enum status revocation_check_call(struct server *server, const struct rpc_call *call, struct error *err);

/** The same of the certificate that this server serves with. */
enum status revocation_check_own(struct server *server, struct error *err);

/** Stage the revocation of every certificate of @identity ("node/NAME") that is valid now.
 * STATUS_RESOURCE_EXHAUSTED above REVOCATIONS_MAX. */
enum status revocation_stage(struct server *server, struct change *change, const struct rpc_call *call,
			     const char *identity, const char *reason, struct error *err);

/** The number of entries. Costs that number. */
size_t revocations_count(struct server *server);

/** Writes a warning if the list has REVOCATIONS_WARN entries or more; false: it has fewer. */
bool revocations_warning(struct server *server, char ret[static REVOCATIONS_WARNING_SIZE]);

/** Certificates of @identity are good again if they count as issued after this, in ms; 0: always. */
int64_t revocation_cutoff_ms(struct server *server, const char *identity);
/** The same of the identity in @uri. */
int64_t revocation_cutoff_of(struct server *server, const char *uri);

/** Ends the calls and streams that revocation_check_call() or access_check_open() refuses, and those of
 * revoked tokens. */
void revocations_end(struct server *server);

/** Ends the calls and streams of tokens and certificates that have expired. */
void revocations_end_expired(struct server *server);

/** In daemon.c's table: calls are reviewed after a revocation or a change of a policy. */
void revocations_note_durable(struct server *server, struct change_object *objects, size_t n,
			      uint64_t revision);

/** On a server that follows: a record has come. */
void revocations_note_followed(struct server *server, const struct kv_item *item);

rpc_unary_fn revocations_handle_revoke;
rpc_unary_fn revocations_handle_list;
