/* SPDX-License-Identifier: Apache-2.0 */
#include "access/refused_peers.h"

#include "server.h"

#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "rpc/caller.h"

#include <string.h>

enum { REFUSALS_PER_SECOND = 1, REFUSALS_BURST = 10 };

static const uint64_t AGAIN_US = 3600 * USEC_PER_SEC;

void refused_peers_init(struct refused_peers *refused, uint64_t now_us)
{
	memset(refused, 0, sizeof(*refused));
	rate_init(&refused->rate, REFUSALS_PER_SECOND, REFUSALS_BURST, now_us);
}

bool refused_peers_note(struct refused_peers *refused, const char *host, uint64_t now_us)
{
	size_t slot = 0;

	for (size_t i = 0; i < REFUSED_PEERS_N; i++) {
		if (str_eq(refused->entries[i].host, host)) {
			if (now_us - refused->entries[i].logged_us < AGAIN_US)
				return false;
			slot = i;
			break;
		}
		if (refused->entries[i].logged_us < refused->entries[slot].logged_us)
			slot = i;
	}
	if (!rate_take(&refused->rate, now_us))
		return false;
	(void)str_copy(refused->entries[slot].host, sizeof(refused->entries[slot].host), host);
	refused->entries[slot].logged_us = now_us;
	return true;
}

void refused_peers_log(const struct rpc_peer *peer, const struct error *why, void *userdata)
{
	struct server *server = userdata;
	char host[RPC_ADDRESS_SIZE];

	if (why->status == STATUS_UNAVAILABLE)
		return; /* it only came and went, as checks of a port do */
	caller_origin(peer, host);
	if (!refused_peers_note(server->refused_peers, host, clock_monotonic_us()))
		return;
	log_ctx(LOG_WARNING, &(struct log_ctx){.op = "connect", .peer = peer->address, .err = why},
		"a connection is refused%s; further ones from %s are not logged for an hour",
		why->status == STATUS_UNAUTHENTICATED
			? " for its certificate, see there: openssl x509 -noout -issuer -dates -in CERT.pem"
			: "",
		host);
}
