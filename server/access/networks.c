/* SPDX-License-Identifier: Apache-2.0 */
/* Compares addresses of callers with networks of tokens. */

#include "access/networks.h"

#include "base/parse.h"
#include "base/str.h"
#include "rpc/peer.h"

#include <stdint.h>
#include <string.h>

struct network {
	uint8_t family, bits;
	uint8_t address[16];
};

static bool read_network(const char *text, struct network *ret)
{
	return parse_network(text, &ret->family, ret->address, &ret->bits) == 0;
}

enum status networks_check(char *const *cidrs, size_t n, struct error *err)
{
	struct network network;

	if (n > NETWORKS_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "cidrs: more than %d", NETWORKS_MAX);
	for (size_t i = 0; i < n; i++)
		if (!read_network(cidrs[i], &network))
			return error_set(
				err, STATUS_INVALID_ARGUMENT, 0,
				"cidrs: '%.64s' is not a network; expected 192.0.2.0/24, 2001:db8::/32 "
				"or one address, with no bit set behind the prefix",
				cidrs[i]);
	return STATUS_OK;
}

/* "192.0.2.7:4000", "[2001:db8::7%eth0]:4000" */
static bool read_address(const char *address, struct network *ret)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	bool is_v6 = address[0] == '[';
	const char *first = is_v6 ? address + 1 : address;
	char text[RPC_ADDRESS_SIZE];

	(void)str_copy(text, sizeof(text), first);
	text[strcspn(text, is_v6 ? "]%" : ":")] = '\0';
	if (strchr(text, '/') || !read_network(text, ret))
		return false;
	if (is_v6 && memcmp(ret->address, mapped, sizeof(mapped)) == 0) {
		memmove(ret->address, ret->address + sizeof(mapped), 4);
		memset(ret->address + 4, 0, sizeof(mapped));
		ret->family = 4;
	}
	return true;
}

static bool contains(const struct network *network, const struct network *address)
{
	if (network->family != address->family)
		return false;
	for (uint8_t i = 0; i < network->bits; i++)
		if (((network->address[i / 8] ^ address->address[i / 8]) & 0x80U >> i % 8) != 0)
			return false;
	return true;
}

bool networks_have(char *const *cidrs, size_t n, const char *address)
{
	struct network caller, network;

	if (!read_address(address, &caller))
		return false;
	for (size_t i = 0; i < n; i++)
		if (read_network(cidrs[i], &network) && contains(&network, &caller))
			return true;
	return false;
}
