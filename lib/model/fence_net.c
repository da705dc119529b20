/* SPDX-License-Identifier: Apache-2.0 */
/* Networks of a node that is fenced at its storage. */

#include "model/fence_net.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/str.h"

#include <arpa/inet.h>

/* Addresses that do not belong to one machine. */
static const struct fence_net reserved[] = {
	{4, 8, {0}},	       {4, 8, {127}},
	{4, 16, {169, 254}},   {4, 3, {224}}, /* multicast, and all above */
	{6, 8, {0}},			      /* unspecified, loopback, IPv4 in IPv6 */
	{6, 10, {0xfe, 0x80}}, {6, 8, {0xff}},
};

bool fence_net_read_any(const char *text, struct fence_net *ret)
{
	struct fence_net net = {0};

	if (parse_network(text, &net.family, net.addr, &net.bits) < 0)
		return false;
	*ret = net;
	return true;
}

enum status fence_net_read(const char *text, struct fence_net *ret, struct error *err)
{
	struct fence_net net;

	if (!fence_net_read_any(text, &net))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "'%.64s' is no network in CIDR notation",
				 text);
	if (net.bits < (net.family == 4 ? FENCE_NET_BITS_MIN_V4 : FENCE_NET_BITS_MIN_V6))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "%.64s is larger than a /%d, the largest network of one node", text,
				 net.family == 4 ? FENCE_NET_BITS_MIN_V4 : FENCE_NET_BITS_MIN_V6);
	for (size_t i = 0; i < ARRAY_SIZE(reserved); i++)
		if (fence_net_covers(&reserved[i], &net))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%.64s is no address of a machine",
					 text);
	*ret = net;
	return STATUS_OK;
}

char *fence_net_text(const struct fence_net *net, char ret[static FENCE_NET_TEXT_SIZE])
{
	char addr[INET6_ADDRSTRLEN] = "";

	(void)inet_ntop(net->family == 4 ? AF_INET : AF_INET6, net->addr, addr, sizeof(addr));
	(void)str_format(ret, FENCE_NET_TEXT_SIZE, "%s/%d", addr, net->bits);
	return ret;
}

bool fence_net_covers(const struct fence_net *a, const struct fence_net *b)
{
	return a->family == b->family && a->bits <= b->bits && network_contains(a->addr, a->bits, b->addr);
}

bool fence_nets_overlap(const struct fence_net *a, const struct fence_net *b)
{
	return fence_net_covers(a, b) || fence_net_covers(b, a);
}
