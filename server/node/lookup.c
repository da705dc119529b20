/* SPDX-License-Identifier: Apache-2.0 */
#include "node/lookup.h"

#include "server.h"

#include "base/clock.h"
#include "base/str.h"
#include "node/session.h"

#include <inttypes.h>
#include <sys/param.h>

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

int64_t nodes_led_ms(const struct server *server)
{
	return (int64_t)((clock_monotonic_us() - server->leads_since_us) / USEC_PER_MSEC);
}

uint32_t nodes_heartbeat_ms(const struct server *server)
{
	uint64_t setting_ms = server->config.heartbeat_us / USEC_PER_MSEC;
	uint64_t shared_ms = server->state.n_nodes * 1000 / SESSION_HEARTBEATS_PER_S;

	return (uint32_t)MAX(setting_ms, MIN(shared_ms, (uint64_t)SESSION_HEARTBEAT_SHARED_MAX_MS));
}

int64_t nodes_grace_ms(const struct server *server)
{
	enum { HEARTBEATS = 3 };

	return NODES_GRACE_MS + (int64_t)(server->config.etcd.lease_us / USEC_PER_MSEC) +
	       HEARTBEATS *
		       (int64_t)MIN(nodes_heartbeat_ms(server), (uint32_t)SESSION_HEARTBEAT_SHARED_MAX_MS);
}

/* It may have begun while the clock was ahead. */
int64_t nodes_started_ms(const struct server *server)
{
	return MIN(server->started_ms, clock_realtime_ms() - nodes_led_ms(server));
}

static bool has_grace(const struct server *server)
{
	return nodes_led_ms(server) < nodes_grace_ms(server);
}

bool nodes_may_come_back(const struct server *server, const struct node_entry *node)
{
	return node->is_awaited && !node->is_unreported && has_grace(server);
}

static enum status refuse_early(const struct server *server, const struct node_entry *node, struct error *err)
{
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"node %s may have been connected until this server began to lead, and may come back; ask "
		"again in %" PRId64 " seconds",
		node->id, (nodes_grace_ms(server) - nodes_led_ms(server)) / 1000 + 1);
}

enum status nodes_check_away(const struct server *server, const struct node_entry *node, struct error *err)
{
	return nodes_may_come_back(server, node) ? refuse_early(server, node, err) : STATUS_OK;
}

void nodes_note_kept_out(struct server *server, const char *node_id)
{
	struct node_entry *node = state_node(&server->state, node_id);

	if (node)
		node->kept_out_us = clock_monotonic_us();
}

static enum status check_kept_out(const struct node_entry *node, struct error *err)
{
	int64_t ago_ms = (int64_t)((clock_monotonic_us() - node->kept_out_us) / USEC_PER_MSEC);

	if (node->kept_out_us == 0 || ago_ms >= NODES_KEPT_OUT_MS)
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"node %s may run in its last boot: others with its certificate took a connection's or "
		"session's place. Another boot may connect in %" PRId64
		" seconds; is its certificate used by two machines?",
		node->id, (NODES_KEPT_OUT_MS - ago_ms) / 1000 + 1);
}

void nodes_note_boot(struct node_entry *node, const char *boot_id)
{
	uint64_t now_us = clock_monotonic_us();
	bool is_recent = node->tried_us != 0 && now_us - node->tried_us < NODES_KEPT_OUT_MS * USEC_PER_MSEC;

	if (!node->is_unreported || str_eq(node->node.boot_id, boot_id))
		return;
	if (is_recent && !str_eq(node->tried_boot, boot_id))
		node->kept_out_us = now_us;
	(void)str_copy(node->tried_boot, sizeof(node->tried_boot), boot_id);
	node->tried_us = now_us;
}

enum status nodes_check_boot(const struct server *server, const struct node_entry *node, const char *boot_id,
			     struct error *err)
{
	const char *known = node->node.boot_id;
	bool is_unreported = node->is_unreported && !node->has_hello;
	bool is_awaited = node->is_awaited || is_unreported;
	/* else it was another machine's; but after a restore the present one may run in an unknown boot */
	bool may_run = node_past_boot(&node->node, known) == 0 || is_unreported;

	if (str_eq(known, boot_id) || !may_run)
		return STATUS_OK;
	return is_awaited && has_grace(server) ? refuse_early(server, node, err) : check_kept_out(node, err);
}

int64_t nodes_disconnected_ms(const struct server *server, const struct node_entry *node)
{
	if (node->session)
		return 0;
	/* one that was connected when the server ended is missed since it began again */
	return node->node.disconnected_ms != 0 ? node->node.disconnected_ms : nodes_started_ms(server);
}
