/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that nodes have reported for network fences. */

#include "plugin/fence_clients.h"

#include "server.h"

#include "base/str.h"
#include "log/log.h"
#include "model/fence.h"
#include "model/fence_net.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/fences.pb-c.h>

typedef Holdfast__V1__FenceClients Clients;
typedef Holdfast__V1__Fence Fence;

enum { TEXT_SIZE = 256 };

static char *key_of(const char *node_id, const char *plugin_id, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_FENCE_CLIENTS "%s/%s", node_id, plugin_id);
	return ret;
}

/* The key of what a former machine of the node has reported in its boot, while it has claims. */
static char *former_key_of(const Clients *clients, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_FENCE_CLIENTS "%s/%s/%s", clients->node_id,
			 clients->plugin_id, clients->boot_id);
	return ret;
}

/* The reports, or the fences at storages, of one node, or with @node_id "" of all. */
static struct record_entry *next_of(struct server *server, const char *sort, const char *node_id,
				    struct record_entry *entry)
{
	char prefix[OBJECT_KEY_SIZE];

	(void)str_format(prefix, sizeof(prefix), "%s%s%s", sort, node_id, node_id[0] != '\0' ? "/" : "");
	entry = entry ? records_next(entry) : records_from(&server->state.records, prefix);
	return entry && str_starts_with(entry->key, prefix) ? entry : NULL;
}

static struct record_entry *next_record(struct server *server, struct record_entry *entry)
{
	return next_of(server, PREFIX_FENCE_CLIENTS, "", entry);
}

static struct record_entry *next_of_node(struct server *server, const char *node_id,
					 struct record_entry *entry)
{
	return next_of(server, PREFIX_FENCE_CLIENTS, node_id, entry);
}

static const Clients *find_in_boot(struct server *server, const char *node_id, const char *plugin_id,
				   const char *boot_id)
{
	const Clients wanted = {.node_id = (char *)(uintptr_t)node_id, /* only read, as the next two */
				.plugin_id = (char *)(uintptr_t)plugin_id,
				.boot_id = (char *)(uintptr_t)boot_id};
	char key[OBJECT_KEY_SIZE];
	const Clients *clients = records_get(&server->state.records, key_of(node_id, plugin_id, key));

	if (clients && str_eq(clients->boot_id, boot_id))
		return clients;
	return records_get(&server->state.records, former_key_of(&wanted, key));
}

static bool is_in(const Clients *clients, const char *cidr)
{
	for (size_t i = 0; i < clients->n_cidrs; i++)
		if (str_eq(clients->cidrs[i], cidr))
			return true;
	return false;
}

struct nets {
	struct fence_net nets[FENCE_CLIENTS_MAX];
	size_t n;
};

/* At most FENCE_CLIENTS_MAX are read. */
static struct nets read_nets(char *const *cidrs, size_t n_cidrs)
{
	struct nets ret = {.n = 0};

	for (size_t i = 0; i < n_cidrs && ret.n < FENCE_CLIENTS_MAX; i++)
		ret.n += fence_net_read_any(cidrs[i], &ret.nets[ret.n]);
	return ret;
}

static bool overlap(const struct nets *nets, char *const *cidrs, size_t n_cidrs)
{
	const struct nets others = read_nets(cidrs, n_cidrs);

	for (size_t i = 0; i < nets->n; i++)
		for (size_t k = 0; k < others.n; k++)
			if (fence_nets_overlap(&nets->nets[i], &others.nets[k]))
				return true;
	return false;
}

/* Returns the report of another node with one of the addresses, at any plugin: an address is a machine's.
 * @node_id: looks only at that node; "": costs the number of records. */
static const Clients *find_other(struct server *server, const Clients *clients, const char *node_id)
{
	const struct nets nets = read_nets(clients->cidrs, clients->n_cidrs);
	struct record_entry *entry = NULL;

	while ((entry = next_of(server, PREFIX_FENCE_CLIENTS, node_id, entry))) {
		const Clients *other = (const void *)entry->record.message;

		if (!str_eq(other->node_id, clients->node_id) && overlap(&nets, other->cidrs, other->n_cidrs))
			return other;
	}
	return NULL;
}

/* Does the present machine of the node have an address of the former one that has reported @clients? A fence
 * of the present one by it is allowed: the claims of the former one stay. */
static bool is_present_address(struct server *server, const Clients *clients)
{
	const struct nets nets = read_nets(clients->cidrs, clients->n_cidrs);
	const struct node_entry *node = state_node(&server->state, clients->node_id);
	struct record_entry *entry = NULL;

	while (node && (entry = next_of_node(server, clients->node_id, entry))) {
		const Clients *other = (const void *)entry->record.message;

		if (!str_eq(clients->boot_id, node->node.boot_id) &&
		    str_eq(other->boot_id, node->node.boot_id) &&
		    !node_machine_differs(other->machine, node->node.machine) &&
		    overlap(&nets, other->cidrs, other->n_cidrs))
			return true;
	}
	return false;
}

bool fence_clients_is_kept(const Fence *fence)
{
	/* also one of a later version */
	return fence->plugin_id[0] != '\0' && ((unsigned int)fence->state >= FENCE_STATE_N ||
					       fence->state == HOLDFAST__V1__FENCE_STATE__FENCE_STATE_ASKED ||
					       fence_is_in_force((enum fence_state)fence->state));
}

/* An unknown machine may be the one that has reported. */
static bool is_of_machine(const Fence *fence, const Clients *clients)
{
	return str_eq(fence->node_id, clients->node_id) &&
	       !node_machine_differs(fence->machine, clients->machine);
}

bool fence_clients_is_own(const Fence *fence, const Clients *clients)
{
	return is_of_machine(fence, clients) && str_eq(fence->boot_id, clients->boot_id);
}

/* Returns a fence that keeps one of the addresses, and is not of this machine in this boot. A second fence
 * would end with it, or its lift would end the second one. Two plugins may have one storage. @node_id: as
 * above. */
static const Fence *find_fence(struct server *server, const Clients *clients, const char *node_id)
{
	const struct nets nets = read_nets(clients->cidrs, clients->n_cidrs);
	struct record_entry *entry = NULL;

	while ((entry = next_of(server, PREFIX_FENCE, node_id, entry))) {
		const Fence *fence = (const void *)entry->record.message;

		if (fence_clients_is_kept(fence) && !fence_clients_is_own(fence, clients) &&
		    overlap(&nets, fence->cidrs, fence->n_cidrs))
			return fence;
	}
	return NULL;
}

/* Returns the node whose machine has one of the addresses, or had it when a storage began to refuse it; NULL:
 * no machine. A fence of the same machine does not count: its return lifts it. @node_id: as above. */
static const char *find_rival(struct server *server, const Clients *clients, const char *node_id)
{
	const Clients *other = find_other(server, clients, node_id);
	const Fence *fence = other ? NULL : find_fence(server, clients, node_id);

	if (other)
		return other->node_id;
	return fence && !is_of_machine(fence, clients) ? fence->node_id : NULL;
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
			"node %s reports an address of another machine, which is or was node %s: a network "
			"fence by it is refused; see holdfast operator status",
			clients->node_id, clients->other_node_id);
}

/* Does a machine that the node is no longer hold a claim that a fence by @clients would free? */
static bool holds_claim(const struct node_entry *node, const Clients *clients)
{
	const struct claim_entry *entry;

	LIST_FOREACH (entry, &node->claims, of_node)
		if (entry->claim.other_machine && entry->claim.state <= CLAIM_UNPUBLISHING &&
		    str_eq(entry->claim.boot_id, clients->boot_id) &&
		    str_eq(entry->claim.plugin_id, clients->plugin_id))
			return true;
	return false;
}

void fence_clients_begin(struct server *server, struct change *change, const char *node_id,
			 const char *boot_id)
{
	const struct node_entry *node = state_node(&server->state, node_id);
	struct record_entry *entry = NULL;

	while ((entry = next_of_node(server, node_id, entry))) {
		const Clients *clients = (const void *)entry->record.message;
		bool is_kept = node && holds_claim(node, clients);
		char key[OBJECT_KEY_SIZE];

		(void)former_key_of(clients, key);
		if (str_eq(clients->boot_id, boot_id) || (is_kept && str_eq(entry->key, key)))
			continue;
		if (is_kept)
			change_put_record(change, key, &clients->base);
		change_delete_record(change, entry->key);
	}
}

static bool has_room(struct server *server, const char *node_id, const char *boot_id, const char *plugin_id)
{
	struct record_entry *entry = NULL;
	size_t n = 0;

	while ((entry = next_of_node(server, node_id, entry)))
		n += str_eq(((const Clients *)(const void *)entry->record.message)->boot_id, boot_id);
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
	const Clients *known = find_in_boot(server, node_id, plugin->plugin_id, boot_id);
	Clients clients = HOLDFAST__V1__FENCE_CLIENTS__INIT;
	const char *other;

	if (plugin->node.n_fence_clients == 0 ||
	    (!known && !has_room(server, node_id, boot_id, plugin->plugin_id)))
		return;
	if (known)
		clients = *known;
	clients.cidrs = cidrs;
	for (size_t i = 0; i < clients.n_cidrs; i++)
		cidrs[i] = known->cidrs[i];
	clients.node_id = (char *)(uintptr_t)node_id; /* only read, as the next two */
	clients.plugin_id = (char *)(uintptr_t)plugin->plugin_id;
	clients.boot_id = (char *)(uintptr_t)boot_id;
	if (!add_all(&clients, plugin, error) && str_eq(clients.machine, machine) &&
	    (clients.other_node_id[0] == '\0' || find_rival(server, &clients, clients.other_node_id)))
		return;
	clients.machine = (char *)(uintptr_t)machine;
	other = find_rival(server, &clients, "");
	clients.other_node_id = (char *)(uintptr_t)(other ? other : "");
	log_refusal(&clients);
	change_put_record(change, key_of(node_id, plugin->plugin_id, key), &clients.base);
}

enum status fence_clients_refuse(const Fence *fence, struct error *err)
{
	if (fence->state == HOLDFAST__V1__FENCE_STATE__FENCE_STATE_LIFTING)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the fence of the last boot of node %s at plugin %.64s is being "
				 "lifted%s%.200s: see holdfast node fence, and ask again when that is done",
				 fence->node_id, fence->plugin_id, fence->error[0] != '\0' ? ": " : "",
				 fence->error);
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "the fence of node %s in boot %s at plugin %.64s keeps its addresses until that "
			 "machine is back in another boot, or, if it is off for good, until a person ends "
			 "it: holdfast node fence %s --network %.64s --lift --reason TEXT",
			 fence->node_id, fence->boot_id, fence->plugin_id, fence->node_id, fence->plugin_id);
}

static enum status check_conflict(struct server *server, const Clients *clients, struct error *err)
{
	const Clients *other = find_other(server, clients, "");
	const Fence *fence = find_fence(server, clients, "");

	if (other)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"nodes %s (plugin %s) and %s (plugin %s) have reported the same address, so a "
			"network fence of one could stop the other: see holdfast node status, and if one "
			"is gone: holdfast node purge",
			clients->node_id, clients->plugin_id, other->node_id, other->plugin_id);
	if (fence)
		return fence_clients_refuse(fence, err);
	if (is_present_address(server, clients))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s is another machine now and has an address of the former one, so a "
				 "network fence of that one would stop it: give node %s another address and "
				 "reboot it, or attest that the former machine is off: holdfast node attest",
				 clients->node_id, clients->node_id);
	return STATUS_OK;
}

enum status fence_clients_find(struct server *server, const char *node_id, const char *plugin_id,
			       const char *boot_id, const Clients **ret, struct error *err)
{
	const Clients *clients = find_in_boot(server, node_id, plugin_id, boot_id);

	if (!clients)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s has not reported in this boot by which addresses the storage of "
				 "plugin %.64s knows it; see holdfast-agent(8), PLUGINS",
				 node_id, plugin_id);
	if (clients->error[0] != '\0')
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s cannot be fenced by the addresses that it has reported at plugin "
				 "%.64s: %s",
				 node_id, plugin_id, clients->error);
	TRY(check_conflict(server, clients, err));
	*ret = clients;
	return STATUS_OK;
}

void fence_clients_forget(struct server *server, struct change *change, const char *node_id)
{
	struct record_entry *entry = NULL;

	while ((entry = next_of_node(server, node_id, entry)))
		change_delete_record(change, entry->key);
}

/* A conflict is over when the other node has left. One with a third node shows in the next report: of many
 * nodes, each look at all the others would cost too much. */
static bool is_refused(struct server *server, const Clients *clients)
{
	return clients->error[0] != '\0' ||
	       (clients->other_node_id[0] != '\0' && find_rival(server, clients, clients->other_node_id));
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
