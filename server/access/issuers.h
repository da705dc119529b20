/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* People, fencers and followers with a certificate of a former CA, while the cluster changes its CA. Known
 * since this server leads; an entry ends with its certificate, or when the caller comes with one of the new
 * CA. */

#include "base/error.h"
#include "rpc/peer.h"

#include <stddef.h>
#include <stdint.h>

enum { ISSUERS_CALLERS_MAX = 64 }; /* the one whose certificate ends first gives way */

struct issuers {
	char ca[RPC_KEY_ID_SIZE];   /* key of the new CA; "": no change is under way */
	char only[RPC_KEY_ID_SIZE]; /* key of the only CA since a change was finished; "": others are trusted
				     */
	size_t n;
	struct {
		char uri[RPC_URI_SIZE];
		int64_t expires_ms;
	} callers[ISSUERS_CALLERS_MAX];
};

/** Begin to note callers, all over again if @ca is another one. "": end. */
void issuers_begin(struct issuers *issuers, const char *ca);

void issuers_note(struct issuers *issuers, const char *cluster, const struct rpc_peer *peer);

/** STATUS_UNAUTHENTICATED if the certificate of @peer is of a former CA that is not trusted any longer: its
 * connection may be older than the end of that trust. A caller without a certificate passes: its token or its
 * uid decides. */
enum status issuers_check(const struct issuers *issuers, const struct rpc_peer *peer, struct error *err);

/** Forget those whose certificates have expired. */
void issuers_expire(struct issuers *issuers, int64_t now_ms);
