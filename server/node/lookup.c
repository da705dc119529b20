/* SPDX-License-Identifier: Apache-2.0 */
#include "node/lookup.h"

#include "server.h"

#include "base/clock.h"

enum status nodes_find(struct server *server, const char *id, struct node_entry **ret, struct error *err)
{
	struct node_entry *entry = state_node(&server->state, id);

	if (id[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "id: missing; holdfast node status lists the nodes");
	if (!entry || !node_is_registered(entry))
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "there is no node %.64s; holdfast node status lists them", id);
	*ret = entry;
	return STATUS_OK;
}

int64_t nodes_disconnected_ms(const struct server *server, const struct node_entry *node)
{
	if (node->session)
		return 0;
	/* one that was connected when the server ended is missed since it began again */
	return node->node.disconnected_ms != 0 ? node->node.disconnected_ms : server->started_ms;
}

int64_t nodes_led_ms(const struct server *server)
{
	return (int64_t)((clock_monotonic_us() - server->leads_since_us) / USEC_PER_MSEC);
}

int64_t nodes_grace_ms(const struct server *server)
{
	enum { HEARTBEATS = 3 };
	uint64_t silent_us = server->config.etcd.lease_us + HEARTBEATS * server->config.heartbeat_us;

	return NODES_GRACE_MS + (int64_t)(silent_us / USEC_PER_MSEC);
}
