/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/caller.h"

#include "base/parse.h"
#include "base/str.h"

#include <inttypes.h>
#include <string.h>

static bool is_word(const char *s)
{
	for (; *s != '\0'; s++)
		if (*s <= ' ' || *s > '~')
			return false;
	return true;
}

enum status caller_format(const struct rpc_peer *peer, char ret[static REQUEST_CALLER_MAX + 1],
			  struct error *err)
{
	/* without a certificate the address is the last part: no header may end with a blank */
	if (peer->kind != RPC_PEER_TLS || peer->address[0] == '\0' || !is_word(peer->address) ||
	    !is_word(peer->uri) ||
	    str_format(ret, REQUEST_CALLER_MAX + 1, "%" PRId64 " %s%s%s", peer->expires_ms, peer->address,
		       peer->uri[0] != '\0' ? " " : "", peer->uri) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "a call of a caller without a TLS address, or whose certificate's identity "
				 "is not plain text, is not handed on");
	return STATUS_OK;
}

/* Cut @text at its first blank; NULL if it has no blank. */
static char *cut(char *text)
{
	char *blank = strchr(text, ' ');

	if (!blank)
		return NULL;
	*blank = '\0';
	return blank + 1;
}

enum status caller_parse(const char *text, struct rpc_peer *ret, struct error *err)
{
	char copy[REQUEST_CALLER_MAX + 1];
	uint64_t expires_ms;
	char *address;
	char *uri;

	*ret = (struct rpc_peer){.kind = RPC_PEER_TLS};
	address = str_copy(copy, sizeof(copy), text) < 0 ? NULL : cut(copy);
	uri = address ? cut(address) : NULL;
	if (!address || address[0] == '\0' || !is_word(address) ||
	    (uri && (uri[0] == '\0' || !is_word(uri))) || parse_u64(copy, 0, INT64_MAX, &expires_ms) < 0 ||
	    str_copy(ret->address, sizeof(ret->address), address) < 0 ||
	    str_copy(ret->uri, sizeof(ret->uri), uri ? uri : "") < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "invalid header " RPC_CALLER_HEADER ": expected EXPIRES_MS ADDRESS [URI]");
	ret->expires_ms = (int64_t)expires_ms;
	return STATUS_OK;
}
