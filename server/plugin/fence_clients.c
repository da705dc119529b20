/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that nodes have reported for network fences. */

#include "plugin/fence_clients.h"

#include "server.h"

#include "base/str.h"
#include "log/log.h"
#include "model/fence_net.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/fences.pb-c.h>

typedef Holdfast__V1__FenceClients Clients;

enum { TEXT_SIZE = 256 };

static char *key_of(const char *node_id, const char *plugin_id, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_FENCE_CLIENTS "%s/%s", node_id, plugin_id);
	return ret;
}

static struct record_entry *next_record(struct server *server, struct record_entry *entry)
{
	entry = entry ? records_next(entry) : records_from(&server->state.records, PREFIX_FENCE_CLIENTS);
	return entry && str_starts_with(entry->key, PREFIX_FENCE_CLIENTS) ? entry : NULL;
}

/* Those of one node only. */
static struct record_entry *next_of_node(struct server *server, const char *node_id,
					 struct record_entry *entry)
{
	char prefix[OBJECT_KEY_SIZE];

	(void)key_of(node_id, "", prefix);
	entry = entry ? records_next(entry) : records_from(&server->state.records, prefix);
	return entry && str_starts_with(entry->key, prefix) ? entry : NULL;
}

static bool is_in(const Clients *clients, const char *cidr)
{
	for (size_t i = 0; i < clients->n_cidrs; i++)
		if (str_eq(clients->cidrs[i], cidr))
			return true;
	return false;
}

/* At most FENCE_CLIENTS_MAX are read. Returns their number. */
static size_t read_nets(const Clients *clients, struct fence_net ret[static FENCE_CLIENTS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < clients->n_cidrs && n < FENCE_CLIENTS_MAX; i++)
		n += fence_net_read_any(clients->cidrs[i], &ret[n]);
	return n;
}

static bool overlap(const struct fence_net *nets, size_t n, const Clients *clients)
{
	struct fence_net others[FENCE_CLIENTS_MAX];
	size_t n_others = read_nets(clients, others);

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n_others; k++)
			if (fence_nets_overlap(&nets[i], &others[k]))
				return true;
	return false;
}

/* Another node with one of the addresses, at any plugin: an address is a machine's. Costs the number of
 * records. */
static const Clients *find_other(struct server *server, const Clients *clients)
{
	struct fence_net nets[FENCE_CLIENTS_MAX];
	size_t n = read_nets(clients, nets);
	struct record_entry *entry = NULL;

	while ((entry = next_record(server, entry))) {
		const Clients *other = (const void *)entry->record.message;

		if (!str_eq(other->node_id, clients->node_id) && overlap(nets, n, other))
			return other;
	}
	return NULL;
}

/* Adds new addresses to @clients, whose array has room for FENCE_CLIENTS_MAX. Returns whether it changed. */
static bool add_all(Clients *clients, const struct node_plugin *plugin, char error[static TEXT_SIZE])
{
	size_t before = clients->n_cidrs;
	struct error err = {.msg = ""};

	for (uint32_t i = 0; i < plugin->node.n_fence_clients; i++) {
		const char *cidr = plugin->node.fence_clients[i].cidr;
		struct fence_net net;

		if (is_in(clients, cidr))
			continue;
		if (clients->n_cidrs == FENCE_CLIENTS_MAX)
			(void)error_set(&err, STATUS_INVALID_ARGUMENT, 0, "more than %d addresses",
					FENCE_CLIENTS_MAX);
		else if (fence_net_read(cidr, &net, &err) == STATUS_OK)
			clients->cidrs[clients->n_cidrs++] = (char *)(uintptr_t)cidr; /* only read */
	}
	if (err.msg[0] != '\0' && clients->error[0] == '\0') {
		str_copy_text(error, TEXT_SIZE, err.msg);
		clients->error = error;
		return true;
	}
	return clients->n_cidrs > before;
}

static void log_refusal(const Clients *clients)
{
	const struct log_ctx about = {
		.node = clients->node_id, .plugin = clients->plugin_id, .op = "fingerprint"};

	if (clients->error[0] != '\0')
		log_ctx(LOG_ERR, &about,
			"node %s reports addresses by which it cannot be fenced: %s; a network fence of it "
			"at plugin %s is refused",
			clients->node_id, clients->error, clients->plugin_id);
	else if (clients->other_node_id[0] != '\0')
		log_ctx(LOG_ERR, &about,
			"node %s reports an address of node %s: a network fence of either is refused. If "
			"node %s is gone: holdfast node purge %s",
			clients->node_id, clients->other_node_id, clients->other_node_id,
			clients->other_node_id);
}

void fence_clients_begin(struct server *server, struct change *change, const char *node_id,
			 const char *boot_id)
{
	struct record_entry *entry = NULL;

	while ((entry = next_of_node(server, node_id, entry)))
		if (!str_eq(((const Clients *)(const void *)entry->record.message)->boot_id, boot_id))
			change_delete_record(change, entry->key);
}

static bool has_room(struct server *server, const char *node_id, const char *plugin_id)
{
	struct record_entry *entry = NULL;
	size_t n = 0;

	while ((entry = next_of_node(server, node_id, entry)))
		n++;
	if (n < NODE_PLUGINS_MAX)
		return true;
	log_ctx(LOG_ERR, &(struct log_ctx){.node = node_id, .plugin = plugin_id, .op = "fingerprint"},
		"node %s has reported addresses at %zu plugins in this boot, at most %d are taken: a network "
		"fence of it at plugin %s is refused",
		node_id, n, NODE_PLUGINS_MAX, plugin_id);
	return false;
}

void fence_clients_take(struct server *server, struct change *change, const char *node_id,
			const char *boot_id, const char *machine, const struct node_plugin *plugin)
{
	char key[OBJECT_KEY_SIZE], *cidrs[FENCE_CLIENTS_MAX] = {NULL}, error[TEXT_SIZE];
	const Clients *known = records_get(&server->state.records, key_of(node_id, plugin->plugin_id, key));
	Clients clients = HOLDFAST__V1__FENCE_CLIENTS__INIT;
	const Clients *other;

	if (plugin->node.n_fence_clients == 0 || (!known && !has_room(server, node_id, plugin->plugin_id)))
		return;
	if (known && str_eq(known->boot_id, boot_id))
		clients = *known;
	clients.cidrs = cidrs;
	for (size_t i = 0; i < clients.n_cidrs; i++)
		cidrs[i] = known->cidrs[i];
	clients.node_id = (char *)(uintptr_t)node_id; /* only read, as the next two */
	clients.plugin_id = (char *)(uintptr_t)plugin->plugin_id;
	clients.boot_id = (char *)(uintptr_t)boot_id;
	if (!add_all(&clients, plugin, error) && str_eq(clients.machine, machine))
		return;
	clients.machine = (char *)(uintptr_t)machine;
	other = find_other(server, &clients);
	clients.other_node_id = other ? other->node_id : (char *)(uintptr_t) "";
	log_refusal(&clients);
	change_put_record(change, key, &clients.base);
}

static const Clients *find_conflict(struct server *server, const Clients *clients, struct error *err)
{
	const Clients *other = find_other(server, clients);

	if (other)
		(void)error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"nodes %s and %s have reported the same address, so a network fence of one "
			"could stop the other: see holdfast node status, and if one is gone: holdfast "
			"node purge",
			clients->node_id, other->node_id);
	return other;
}

enum status fence_clients_find(struct server *server, const char *node_id, const char *plugin_id,
			       const char *boot_id, const Clients **ret, struct error *err)
{
	char key[OBJECT_KEY_SIZE];
	const Clients *clients = records_get(&server->state.records, key_of(node_id, plugin_id, key));

	if (!clients || !str_eq(clients->boot_id, boot_id))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s has not reported in this boot by which addresses the storage of "
				 "plugin %.64s knows it; see holdfast-agent(8), PLUGINS",
				 node_id, plugin_id);
	if (clients->error[0] != '\0')
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s cannot be fenced by the addresses that it has reported at plugin "
				 "%.64s: %s",
				 node_id, plugin_id, clients->error);
	if (find_conflict(server, clients, err))
		return STATUS_FAILED_PRECONDITION;
	*ret = clients;
	return STATUS_OK;
}

void fence_clients_forget(struct server *server, struct change *change, const char *node_id)
{
	struct record_entry *entry = NULL;

	while ((entry = next_of_node(server, node_id, entry)))
		change_delete_record(change, entry->key);
}

/* A conflict is over when the other node has left. */
static bool is_refused(struct server *server, const Clients *clients)
{
	return clients->error[0] != '\0' ||
	       (clients->other_node_id[0] != '\0' && find_other(server, clients) != NULL);
}

size_t fence_clients_refused(struct server *server)
{
	struct record_entry *entry = NULL;
	size_t n = 0;

	while ((entry = next_record(server, entry)))
		n += is_refused(server, (const void *)entry->record.message);
	return n;
}

bool fence_clients_warning(struct server *server, char ret[static FENCE_CLIENTS_WARNING_SIZE])
{
	struct record_entry *entry = NULL;

	while ((entry = next_record(server, entry))) {
		const Clients *clients = (const void *)entry->record.message;
		const Clients *found;
		struct error err;

		if (!is_refused(server, clients))
			continue;
		(void)fence_clients_find(server, clients->node_id, clients->plugin_id, clients->boot_id,
					 &found, &err);
		str_copy_text(ret, FENCE_CLIENTS_WARNING_SIZE, err.msg);
		return true;
	}
	return false;
}
