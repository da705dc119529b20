/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* TLS 1.3 identities: a key, a certificate and the CA that both sides trust. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct rpc_tls;

enum { RPC_TLS_SHA256_SIZE = 32 };

struct rpc_tls_files {
	const char *ca;		  /* PEM; certificates of peers must chain to it; NULL: @ca_sha256 */
	const uint8_t *ca_sha256; /* SHA-256 of a CA in DER, which peers must show in their chain */
	const char *cert;	  /* PEM chain; NULL for a client without identity */
	const char *key;	  /* PEM; refused when others than its owner can read it */
};

/** Load and cross-check (key belongs to certificate). Errors name the file and its fault.
 * @ret owned by the caller, rpc_tls_free() */
enum status rpc_tls_new(const struct rpc_tls_files *files, struct rpc_tls **ret, struct error *err);

/** Load the same files again; on failure the old identity stays. Open connections keep theirs. */
enum status rpc_tls_reload(struct rpc_tls *tls, struct error *err);

/** Load @files instead, with rpc_tls_reload()'s rules: on failure all stays. */
enum status rpc_tls_use(struct rpc_tls *tls, const struct rpc_tls_files *files, struct error *err);

/** Are the files others than those that were loaded, or tried, last? Looks at them. */
bool rpc_tls_has_changed(const struct rpc_tls *tls);

/** SHA-256 of the CA that @tls shows at the end of its chain, in DER; false: its CA file lacks it. */
bool rpc_tls_anchor(const struct rpc_tls *tls, uint8_t ret[static RPC_TLS_SHA256_SIZE]);

void rpc_tls_free(struct rpc_tls *tls);
