/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Connections that were refused, in the log: each address once an hour, and never many at once. */

#include "base/error.h"
#include "base/rate.h"
#include "rpc/peer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REFUSED_PEERS_N = 64 }; /* addresses that are remembered; the oldest gives way */

struct refused_peers {
	struct {
		char host[RPC_ADDRESS_SIZE]; /* without port; empty: free */
		uint64_t logged_us;	     /* monotonic */
	} entries[REFUSED_PEERS_N];
	struct rate rate;
};

void refused_peers_init(struct refused_peers *refused, uint64_t now_us);

/** Is a refusal of @host to be logged now? Pure. */
bool refused_peers_note(struct refused_peers *refused, const char *host, uint64_t now_us);

/** Logs it, unless it was logged lately. An rpc_refused_fn. */
void refused_peers_log(const struct rpc_peer *peer, const struct error *why, void *server);
