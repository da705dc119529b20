/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/caller.h"

#include "base/parse.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <openssl/sha.h>
#include <string.h>

static bool is_word(const char *s)
{
	for (; *s != '\0'; s++)
		if (*s <= ' ' || *s > '~')
			return false;
	return true;
}

/* "URI ISSUED_MS SERIAL[,RENEWED] ISSUER" of the certificate, each part only if it is known. */
static int format_certificate(const struct rpc_peer *peer, char *ret, size_t size)
{
	if (peer->uri[0] == '\0')
		return str_copy(ret, size, "");
	if (peer->issued_ms <= 0 && peer->serial[0] == '\0')
		return str_format(ret, size, " %s", peer->uri);
	if (peer->serial[0] == '\0')
		return str_format(ret, size, " %s %" PRId64, peer->uri, peer->issued_ms);
	return str_format(ret, size, " %s %" PRId64 " %s%s%s%s%s", peer->uri,
			  peer->issued_ms > 0 ? peer->issued_ms : 0, peer->serial,
			  peer->renewed_serial[0] != '\0' ? "," : "", peer->renewed_serial,
			  peer->issuer[0] != '\0' ? " " : "", peer->issuer);
}

/* A uid means nothing on another machine. */
static bool is_unnamed_local(const struct rpc_peer *peer)
{
	return peer->kind == RPC_PEER_UNIX && peer->uri[0] == '\0';
}

enum status caller_format(const struct rpc_peer *peer, char ret[static REQUEST_CALLER_MAX + 1],
			  struct error *err)
{
	char certificate[REQUEST_CALLER_MAX + 1];

	/* no header may end with a blank: unknown parts are left out */
	if (is_unnamed_local(peer) || peer->address[0] == '\0' || !is_word(peer->address) ||
	    !is_word(peer->uri) || !is_word(peer->serial) || !is_word(peer->renewed_serial) ||
	    !is_word(peer->issuer) || format_certificate(peer, certificate, sizeof(certificate)) < 0 ||
	    str_format(ret, REQUEST_CALLER_MAX + 1, "%" PRId64 " %s%s", peer->expires_ms, peer->address,
		       certificate) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "a call of a caller without an address or a name, or whose certificate's "
				 "identity is not plain text, is not handed on");
	return STATUS_OK;
}

/* Cut @text at the first @end in it; NULL: there is no @end. */
static char *cut(char *text, char end)
{
	char *found = text ? strchr(text, end) : NULL;

	if (!found)
		return NULL;
	*found = '\0';
	return found + 1;
}

static bool is_part(const char *part)
{
	return !part || (part[0] != '\0' && is_word(part));
}

enum status caller_parse(const char *text, struct rpc_peer *ret, struct error *err)
{
	char copy[REQUEST_CALLER_MAX + 1];
	uint64_t expires_ms;
	uint64_t issued_ms = 0;
	char *address;
	char *uri;
	char *issued;
	char *serial;
	char *issuer;
	char *renewed;

	*ret = (struct rpc_peer){.kind = RPC_PEER_TLS};
	address = str_copy(copy, sizeof(copy), text) < 0 ? NULL : cut(copy, ' ');
	uri = cut(address, ' ');
	issued = cut(uri, ' ');
	serial = cut(issued, ' ');
	issuer = cut(serial, ' ');
	renewed = cut(serial, ',');
	if (!address || !is_part(address) || !is_part(uri) || !is_part(serial) || !is_part(issuer) ||
	    !is_part(renewed) || parse_u64(copy, 0, INT64_MAX, &expires_ms) < 0 ||
	    (issued && parse_u64(issued, 0, INT64_MAX, &issued_ms) < 0) ||
	    str_copy(ret->address, sizeof(ret->address), address) < 0 ||
	    str_copy(ret->uri, sizeof(ret->uri), uri ? uri : "") < 0 ||
	    str_copy(ret->serial, sizeof(ret->serial), serial ? serial : "") < 0 ||
	    str_copy(ret->renewed_serial, sizeof(ret->renewed_serial), renewed ? renewed : "") < 0 ||
	    str_copy(ret->issuer, sizeof(ret->issuer), issuer ? issuer : "") < 0)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"invalid header " RPC_CALLER_HEADER
			": expected EXPIRES_MS ADDRESS [URI [ISSUED_MS [SERIAL[,RENEWED] [ISSUER]]]]");
	if (ret->address[0] == '/') {
		ret->kind = RPC_PEER_UNIX;
		ret->uid = (uid_t)-1;
		ret->gid = (gid_t)-1;
		ret->pid = -1;
	}
	ret->expires_ms = (int64_t)expires_ms;
	ret->issued_ms = (int64_t)issued_ms;
	return STATUS_OK;
}

/* Returns whether the host is an IPv6 one, @ret_v6. */
static bool write_host(const struct rpc_peer *peer, char ret[static RPC_ADDRESS_SIZE],
		       struct in6_addr *ret_v6)
{
	const char *host = peer->address;
	const char *colon = strrchr(host, ':');
	bool is_v6 = host[0] == '[';
	size_t n = is_v6 ? strcspn(++host, "]%") : colon ? (size_t)(colon - host) : strlen(host);

	(void)str_format(ret, RPC_ADDRESS_SIZE, "%.*s", (int)n, host);
	if (!is_v6 || inet_pton(AF_INET6, ret, ret_v6) != 1)
		return false;
	if (!IN6_IS_ADDR_V4MAPPED(ret_v6))
		return true;
	(void)inet_ntop(AF_INET, &ret_v6->s6_addr[12], ret, RPC_ADDRESS_SIZE);
	return false;
}

bool caller_is_of_host(const struct rpc_peer *a, const struct rpc_peer *b)
{
	char of_a[RPC_ADDRESS_SIZE], of_b[RPC_ADDRESS_SIZE];
	struct in6_addr v6;

	(void)write_host(a, of_a, &v6);
	(void)write_host(b, of_b, &v6);
	return str_eq(of_a, of_b);
}

void caller_origin(const struct rpc_peer *peer, char ret[static RPC_ADDRESS_SIZE])
{
	struct in6_addr v6;
	size_t n;

	if (!write_host(peer, ret, &v6))
		return;
	memset(&v6.s6_addr[8], 0, 8);
	(void)inet_ntop(AF_INET6, &v6, ret, RPC_ADDRESS_SIZE);
	n = strlen(ret);
	(void)str_copy(ret + n, RPC_ADDRESS_SIZE - n, "/64");
}

void caller_key(const struct rpc_peer *peer, const char *token, char ret[static CALLER_KEY_SIZE])
{
	char origin[RPC_ADDRESS_SIZE];
	uint8_t digest[SHA256_DIGEST_LENGTH];
	size_t n;

	caller_origin(peer, origin);
	(void)str_format(ret, CALLER_KEY_SIZE, "%s %s", peer->uri,
			 peer->uri[0] != '\0' || token ? "" : origin);
	if (!token)
		return;
	(void)SHA256((const unsigned char *)token, strlen(token), digest);
	n = strlen(ret);
	hex_encode(ret + n, digest, sizeof(digest));
	ret[n + 2 * sizeof(digest)] = '\0';
}

enum status caller_count(const struct rpc_peer *peer, const char *token, struct peer_count_tree *tree,
			 size_t max, const char *what, struct peer_count **ret, struct error *err)
{
	char key[CALLER_KEY_SIZE];
	bool is_full;

	caller_key(peer, token, key);
	*ret = peer_count_enter(tree, key, max, &is_full);
	if (is_full)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "this caller has %zu %s already, the most that one may have; end some", max,
				 what);
	return *ret ? STATUS_OK : error_no_memory(err, what);
}
