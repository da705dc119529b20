/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The caller: a certificate, a token, or both. Identity is the certificate, never a field of a message. */

#include "base/error.h"
#include "model/node.h"
#include "model/volume.h"
#include "rpc/peer.h"
#include "rpc/server.h"
#include "state/objects.h"
#include "state/token_index.h"

#include <holdfast/v1/operator.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

struct server;

enum role {
	ROLE_NONE,
	ROLE_OPERATOR,
	ROLE_NODE,
	ROLE_SERVER,
	ROLE_FENCER,
	ROLE_N,
};

struct identity {
	enum role role;
	char name[NODE_ID_MAX + 1];
};

/** Read "holdfast://CLUSTER/ROLE/NAME". STATUS_UNAUTHENTICATED for anything else, and for another cluster. */
enum status identity_parse(const char *uri, const char *cluster, struct identity *ret, struct error *err);

/** STATUS_UNAUTHENTICATED after the end of the peer's certificate: TLS looks at it only in the handshake. */
enum status access_check_end(const struct rpc_peer *peer, struct error *err);

/** The caller must be an operator. If @dev, a caller without a certificate is one. @ret may be NULL. */
enum status access_operator(const struct rpc_peer *peer, const char *cluster, bool dev, struct identity *ret,
			    struct error *err);

/** The caller must be a node. */
enum status access_node(const struct rpc_peer *peer, const char *cluster, struct identity *ret,
			struct error *err);

/* The caller: a certificate, a token, or both. If there is a token, it decides. */
struct caller {
	struct identity identity;		/* ROLE_NONE: no certificate */
	const Holdfast__V1__StoredToken *token; /* borrowed from the state; NULL: no token */
};

/** STATUS_UNAUTHENTICATED for a certificate of another cluster, and, with any certificate, for a token that
 * is unknown, revoked or expired, or that the server does not accept (`acl = false`).
 * STATUS_PERMISSION_DENIED for a token with the certificate of a node or server. A caller without both is
 * also valid. */
enum status access_caller(struct server *server, const struct rpc_call *call, struct caller *ret,
			  struct error *err);

/** The caller must be a node by its certificate, which has not expired: access_node() that accepts no token.
 */
enum status access_check_node(struct server *server, const struct rpc_call *call, struct identity *ret,
			      struct error *err);

/** The caller must be a fencer, by its certificate, which has not expired, without a token. */
enum status access_check_fencer(struct server *server, const struct rpc_call *call, struct identity *ret,
				struct error *err);

/** Returns the node that the caller's token is bound to, borrowed as the token is; NULL: no such node. */
const char *access_bound_node(struct server *server, const struct rpc_call *call);

/* Helpers for tokens, see tokens.h. */
void token_key(const char *accessor, char ret[static OBJECT_KEY_SIZE]);
void token_hash(const char *secret, uint8_t ret[static TOKEN_HASH_SIZE]);
bool token_is_expired(const Holdfast__V1__Token *token, int64_t at_ms);

enum { ACCESS_WHO_SIZE = 192 };

/** The caller for records and messages: "operator/alice", "node/n1", "token 0189... (deploy)", and with both
 * "token 0189... (deploy) of operator/alice". Never the secret. */
char *access_who(struct server *server, const struct rpc_call *call, char ret[static ACCESS_WHO_SIZE]);

/** Writes for whom a call of no namespace counts where namespaces share something: the namespace that its
 * token is bound to, else the token or the certificate, as a text that is no name of a namespace. */
void access_sharer(struct server *server, const struct rpc_call *call, char ret[static NAMESPACE_MAX + 1]);

struct change_author;

/** Writes the same, uncut, and whether it is a person, for the bounds of what waits for the store. */
void access_author(struct server *server, const struct rpc_call *call, struct change_author *ret);

/** Returns the server that handed the call on and vouches for the caller, as its own certificate names it:
 * "server/s2 at ADDRESS"; "": a direct call. */
char *access_vouched_by(const struct server *server, const struct rpc_call *call,
			char ret[static ACCESS_WHO_SIZE]);
