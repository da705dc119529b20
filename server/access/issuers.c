/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers which callers still have a certificate of a former CA. */

#include "access/issuers.h"

#include "access/caller.h"
#include "base/str.h"

#include <stdbool.h>
#include <string.h>

void issuers_begin(struct issuers *issuers, const char *ca)
{
	if (str_eq(issuers->ca, ca))
		return;
	issuers->n = 0;
	(void)str_copy(issuers->ca, sizeof(issuers->ca), ca);
}

static void forget(struct issuers *issuers, size_t i)
{
	issuers->callers[i] = issuers->callers[--issuers->n];
}

static size_t find(const struct issuers *issuers, const char *uri)
{
	size_t i = 0;

	while (i < issuers->n && !str_eq(issuers->callers[i].uri, uri))
		i++;
	return i;
}

static size_t first_to_end(const struct issuers *issuers)
{
	size_t first = 0;

	for (size_t i = 1; i < issuers->n; i++)
		if (issuers->callers[i].expires_ms < issuers->callers[first].expires_ms)
			first = i;
	return first;
}

void issuers_note(struct issuers *issuers, const char *cluster, const struct rpc_peer *peer)
{
	struct identity who;
	size_t i;

	/* the store knows what nodes have */
	if (issuers->ca[0] == '\0' || !rpc_peer_has_certificate(peer) ||
	    identity_parse(peer->uri, cluster, &who, NULL) != STATUS_OK || who.role == ROLE_NODE)
		return;
	i = find(issuers, peer->uri);
	if (str_eq(peer->issuer, issuers->ca)) {
		if (i < issuers->n)
			forget(issuers, i);
		return;
	}
	if (i == ISSUERS_CALLERS_MAX)
		i = first_to_end(issuers);
	else if (i == issuers->n)
		issuers->n++;
	memcpy(issuers->callers[i].uri, peer->uri, sizeof(peer->uri));
	issuers->callers[i].expires_ms = peer->expires_ms;
}

enum status issuers_check(const struct issuers *issuers, const struct rpc_peer *peer, struct error *err)
{
	if (issuers->only[0] == '\0' || !rpc_peer_has_certificate(peer) ||
	    str_eq(peer->issuer, issuers->only))
		return STATUS_OK;
	return error_set(err, STATUS_UNAUTHENTICATED, 0,
			 "the certificate of %s is of a former CA, which the cluster trusts no longer; "
			 "another certificate is needed",
			 peer->uri);
}

void issuers_expire(struct issuers *issuers, int64_t now_ms)
{
	for (size_t i = issuers->n; i > 0; i--)
		if (issuers->callers[i - 1].expires_ms > 0 && issuers->callers[i - 1].expires_ms <= now_ms)
			forget(issuers, i - 1);
}
