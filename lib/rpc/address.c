/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/address.h"

#include "base/parse.h"
#include "base/str.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>

/* Addresses are written into settings as they are, so a host has no quote and no newline. */
static bool is_host(const char *host, size_t n)
{
	size_t good = strspn(host, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_%:");

	return good >= n;
}

int rpc_address_parse(const char *text, struct rpc_address *ret)
{
	const char *colon = strrchr(text, ':');
	const char *start = text;
	const char *end = colon;
	uint32_t port;

	if (!colon || colon == text || parse_u32(colon + 1, 1, UINT16_MAX, &port) < 0)
		return -EINVAL;
	if (text[0] == '[') {
		if (colon[-1] != ']')
			return -EINVAL;
		start++;
		end--;
	} else if (memchr(text, ':', (size_t)(colon - text))) {
		return -EINVAL; /* which colon of a bare IPv6 address? */
	}
	if (end <= start || !is_host(start, (size_t)(end - start)) ||
	    str_format(ret->host, sizeof(ret->host), "%.*s", (int)(end - start), start) < 0)
		return -EINVAL;
	ret->port = (uint16_t)port;
	return 0;
}

bool rpc_is_numeric_host(const char *host)
{
	const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
	struct addrinfo *info = NULL;
	bool is_one = getaddrinfo(host, NULL, &hints, &info) == 0;

	if (is_one)
		freeaddrinfo(info);
	return is_one;
}

ssize_t rpc_addresses_parse(const char *text, struct rpc_address ret[static RPC_SERVERS_MAX])
{
	char one[RPC_SERVER_NAME_SIZE];
	ssize_t n = 0;

	for (;; text++) {
		size_t length;

		text += strspn(text, " ");
		length = strcspn(text, ", ");
		if (n == RPC_SERVERS_MAX || str_format(one, sizeof(one), "%.*s", (int)length, text) < 0 ||
		    rpc_address_parse(one, &ret[n]) < 0)
			return -EINVAL;
		n++;
		text += length;
		text += strspn(text, " ");
		if (*text == '\0')
			return n;
		if (*text != ',')
			return -EINVAL;
	}
}

char *rpc_address_text(const struct rpc_address *address, char text[static RPC_SERVER_NAME_SIZE])
{
	(void)str_format(text, RPC_SERVER_NAME_SIZE, strchr(address->host, ':') ? "[%s]:%u" : "%s:%u",
			 address->host, (unsigned int)address->port);
	return text;
}
