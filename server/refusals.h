#pragma once
/* Connections that were refused, in the log: each address once an hour, and never many at once. */

#include "base/error.h"
#include "base/rate.h"
#include "rpc/peer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REFUSALS_N = 64 }; /* addresses that are remembered; the oldest gives way */

struct refusals {
	struct {
		char host[RPC_ADDRESS_SIZE]; /* without port; empty: free */
		uint64_t logged_us;	     /* monotonic */
	} entries[REFUSALS_N];
	struct rate rate;
};

void refusals_init(struct refusals *refusals, uint64_t now_us);

/** Is a refusal of @host to be logged now? Pure. */
bool refusals_note(struct refusals *refusals, const char *host, uint64_t now_us);

/** The rpc_refused_fn of the server. */
void refusals_log(const struct rpc_peer *peer, const struct error *why, void *server);
