/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The identity of the other end of a connection, from the kernel or the certificate. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum rpc_peer_kind {
	RPC_PEER_UNIX, /* SO_PEERCRED: uid, gid, pid; each -1 if another server vouches. No certificate, also
			  if its uid has a uri */
	RPC_PEER_TLS,  /* uri of the verified client certificate; empty without a certificate */
};

enum {
	RPC_URI_SIZE = 256,
	RPC_ADDRESS_SIZE = 128,
	RPC_SERIAL_SIZE = 2 * 20 + 1,
	RPC_KEY_ID_SIZE = 2 * 20 + 1
};

struct rpc_peer {
	enum rpc_peer_kind kind;
	uid_t uid;
	gid_t gid;
	pid_t pid;
	int64_t expires_ms; /* of its certificate, since the epoch; 0 without a certificate, or if unknown */
	int64_t issued_ms;  /* likewise, from when on it is valid */
	char serial[RPC_SERIAL_SIZE]; /* of its certificate, hex digits as openssl prints them; may be empty
				       */
	char renewed_serial[RPC_SERIAL_SIZE]; /* of the one that expires_ms is of, if it came over the
					       * connection; else empty */
	char issuer[RPC_KEY_ID_SIZE]; /* identifier of the key that signed it, hex digits; may be empty */
	char uri[RPC_URI_SIZE];	      /* the one URI in subjectAltName, e.g. "holdfast://CLUSTER/node/NAME" */
	char address[RPC_ADDRESS_SIZE]; /* "127.0.0.1:40312", or the path of the unix socket; for people */
};

/** Does its identity come from a certificate? Decides wherever the CA counts: no field of the certificate
 * does. */
static inline bool rpc_peer_has_certificate(const struct rpc_peer *peer)
{
	return peer->kind == RPC_PEER_TLS && peer->uri[0] != '\0';
}
