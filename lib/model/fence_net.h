/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Addresses from which a node reaches the storage of a plugin: networks in CIDR notation, as bytes. Pure.
 *
 * A node's report decides which addresses the storage refuses when the node is fenced. So a network is small,
 * and its addresses are those of a machine. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	FENCE_CLIENTS_MAX = 8, /* of one node at one plugin */
	FENCE_NET_TEXT_SIZE = 48,
	FENCE_NET_BITS_MIN_V4 = 24,
	FENCE_NET_BITS_MIN_V6 = 64,
};

/* The text of a network that could not be read; no network has it. */
#define FENCE_NET_UNREADABLE "?"

struct fence_net {
	uint8_t family; /* 4 or 6 */
	uint8_t bits;
	uint8_t addr[16]; /* network order, zero to the end */
};

/** "192.0.2.7/32", "192.0.2.7", "2001:db8::/64". STATUS_INVALID_ARGUMENT: it is no network, has address bits
 * beyond its prefix, is larger than the limit, or has addresses that are not a machine's: unspecified,
 * loopback, link-local, multicast, IPv4 in IPv6. */
enum status fence_net_read(const char *text, struct fence_net *ret, struct error *err);

/** The same for an entry in a plugin's list: a network of any size, and any address. */
bool fence_net_read_any(const char *text, struct fence_net *ret);

/** Writes it with its prefix, as fence_net_read() reads it. Returns @ret. */
char *fence_net_text(const struct fence_net *net, char ret[static FENCE_NET_TEXT_SIZE]);

/** Is each address of @b one of @a? */
bool fence_net_covers(const struct fence_net *a, const struct fence_net *b);

/** Do they have an address in common? */
bool fence_nets_overlap(const struct fence_net *a, const struct fence_net *b);
