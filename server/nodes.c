#include "nodes.h"

#include "reply.h"
#include "server.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "model/pb.h"
#include "rpc/server.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <stdlib.h>

static void add_plugins(const struct node_entry *entry, Holdfast__V1__Node *view)
{
	const struct instance_entry *instance;

	view->plugins = calloc(NODE_PLUGINS_MAX, sizeof(Holdfast__V1__NodePlugin *));
	if (!view->plugins)
		return;
	LIST_FOREACH (instance, &entry->instances, of_node) {
		view->plugins[view->n_plugins] = node_plugin_to_pb(&instance->instance.plugin);
		if (!view->plugins[view->n_plugins])
			return; /* memory is short: a shorter list is still true */
		view->n_plugins++;
	}
}

/* Connected is what the session says, not what was stored. */
static Holdfast__V1__Node *node_view(const struct node_entry *entry)
{
	Holdfast__V1__Node *view = node_to_pb(&entry->node);

	if (!view)
		return NULL;
	add_plugins(entry, view);
	view->status = node_is_connected(entry) ? HOLDFAST__V1__NODE_STATUS__READY
						: HOLDFAST__V1__NODE_STATUS__DISCONNECTED;
	return view;
}

/* Live claims only; @list NULL: count. */
static size_t list_claims(const struct node_entry *entry, Holdfast__V1__Claim **list)
{
	struct claim_entry *claim;
	size_t n = 0;

	LIST_FOREACH (claim, &entry->claims, of_node) {
		if (!claim_is_live(&claim->claim))
			continue;
		if (list)
			list[n] = claim_to_pb(&claim->claim);
		if (!list || list[n])
			n++;
	}
	return n;
}

static size_t list_allocs(const struct node_entry *entry, Holdfast__V1__Allocation **list)
{
	struct alloc_entry *alloc;
	size_t n = 0;

	LIST_FOREACH (alloc, &entry->allocs, of_node) {
		if (alloc_is_client_terminal(&alloc->alloc))
			continue;
		if (list)
			list[n] = alloc_to_pb(&alloc->alloc);
		if (!list || list[n])
			n++;
	}
	return n;
}

static enum status handle_get(struct server *server, struct rpc_call *call,
			      const Holdfast__V1__GetNodeRequest *request, struct error *err)
{
	Holdfast__V1__GetNodeResponse *response;
	const struct node_entry *entry;

	entry = state_node(&server->state, request->id);
	if (!entry)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "there is no node %.64s; holdfast node status lists them", request->id);
	response = calloc(1, sizeof(*response));
	if (!response)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	holdfast__v1__get_node_response__init(response);
	response->node = node_view(entry);
	response->claims = calloc(list_claims(entry, NULL) + 1, sizeof(Holdfast__V1__Claim *));
	response->allocations = calloc(list_allocs(entry, NULL) + 1, sizeof(Holdfast__V1__Allocation *));
	if (response->claims)
		response->n_claims = list_claims(entry, response->claims);
	if (response->allocations)
		response->n_allocations = list_allocs(entry, response->allocations);
	reply_durable(server, call, &response->base);
	return STATUS_OK;
}

DEFINE_OPERATOR_METHOD(nodes_handle_get, Holdfast__V1__GetNodeRequest, handle_get)

static size_t list_nodes(struct server *server, const char *prefix, Holdfast__V1__Node **list)
{
	struct node_entry *entry = state_node_from(&server->state, prefix);
	size_t n = 0;

	for (; entry && str_starts_with(entry->node.id, prefix); entry = state_node_next(entry)) {
		if (list)
			list[n] = node_view(entry);
		if (!list || list[n])
			n++;
	}
	return n;
}

static enum status handle_list(struct server *server, struct rpc_call *call,
			       const Holdfast__V1__ListNodesRequest *request, struct error *err)
{
	Holdfast__V1__ListNodesResponse *response;

	response = calloc(1, sizeof(*response));
	if (!response)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	holdfast__v1__list_nodes_response__init(response);
	response->nodes = calloc(list_nodes(server, request->prefix, NULL) + 1, sizeof(Holdfast__V1__Node *));
	if (response->nodes)
		response->n_nodes = list_nodes(server, request->prefix, response->nodes);
	response->index = kv_revision(server->kv);
	reply_durable(server, call, &response->base);
	return STATUS_OK;
}

DEFINE_OPERATOR_METHOD(nodes_handle_list, Holdfast__V1__ListNodesRequest, handle_list)
