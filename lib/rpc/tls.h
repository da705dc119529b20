/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* TLS 1.3 identities: a key, a certificate and the CA that both sides trust. */

#include "base/error.h"

struct rpc_tls;

struct rpc_tls_files {
	const char *ca;	  /* PEM; certificates of peers must chain to it */
	const char *cert; /* PEM chain; NULL for a client without identity */
	const char *key;  /* PEM; refused when others than its owner can read it */
};

/** Load and cross-check (key belongs to certificate). Errors name the file and its fault.
 * @ret owned by the caller, rpc_tls_free() */
enum status rpc_tls_new(const struct rpc_tls_files *files, struct rpc_tls **ret, struct error *err);

/** Load the same files again; on failure the old identity stays. Open connections keep theirs. */
enum status rpc_tls_reload(struct rpc_tls *tls, struct error *err);

void rpc_tls_free(struct rpc_tls *tls);
