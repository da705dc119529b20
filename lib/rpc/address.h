/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Where servers are: "HOST:PORT" or "[V6ADDRESS]:PORT", and lists of them. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RPC_HOST_SIZE = 256, RPC_SERVER_NAME_SIZE = RPC_HOST_SIZE + 16, RPC_SERVERS_MAX = 16 };

struct rpc_address {
	char host[RPC_HOST_SIZE]; /* numeric, or a name */
	uint16_t port;
};

/** Returns 0 or -EINVAL. */
int rpc_address_parse(const char *text, struct rpc_address *ret);

/** Is @host an IPv4 or IPv6 address for a listener? The interface of a scope, as in fe80::1%eth0, must exist.
 */
bool rpc_is_numeric_host(const char *host);

/** Addresses with commas, and any blanks, between them; at least one. Returns how many, or -EINVAL, also for
 * more than RPC_SERVERS_MAX. */
ssize_t rpc_addresses_parse(const char *text, struct rpc_address ret[static RPC_SERVERS_MAX]);

/** As rpc_address_parse() reads it. Returns @text. */
char *rpc_address_text(const struct rpc_address *address, char text[static RPC_SERVER_NAME_SIZE]);
