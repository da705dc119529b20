/* SPDX-License-Identifier: Apache-2.0 */
#include "node/nodes.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "access/revocations.h"
#include "alloc/allocs.h"
#include "api/list_page.h"
#include "api/watch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/join.h"
#include "base/str.h"
#include "claim/attest_record.h"
#include "model/filter.h"
#include "model/pb.h"
#include "node/lookup.h"
#include "node/machine_code.h"
#include "node/session.h"
#include "node/trails.h"
#include "plugin/fence_clients.h"
#include "recovery/history.h"
#include "recovery/replaced.h"
#include "rpc/server.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/usage.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	NODES_PER_PAGE_MAX = 1000,
	NODES_LOOKED_AT = 4000, /* by a filter, for one page */
	OBJECT_SIZE = 256,
};

/* Ready, disconnected, down or draining, now. */
static enum node_status nodes_status(const struct server *server, const struct node_entry *node)
{
	return node_status_at(&node->node, nodes_disconnected_ms(server, node), clock_realtime_ms(),
			      (int64_t)(server->config.node_down_after_us / USEC_PER_MSEC));
}

void nodes_sight_init(struct server *server, const struct rpc_call *call, struct nodes_sight *ret)
{
	ret->has_jobs = access_scope_init(server, call, ACCESS_JOB_READ, &ret->jobs, NULL) == STATUS_OK;
	ret->has_volumes =
		access_scope_init(server, call, ACCESS_VOLUME_READ, &ret->volumes, NULL) == STATUS_OK;
}

static bool sees_alloc(struct nodes_sight *sight, const char *namespace)
{
	return sight->has_jobs && access_scope_has(&sight->jobs, namespace);
}

bool nodes_sees_claim(struct nodes_sight *sight, const char *namespace)
{
	return sees_alloc(sight, namespace) ||
	       (sight->has_volumes && access_scope_has(&sight->volumes, namespace));
}

/* Hides the allocation that runs the plugin from a caller who may not see it. The namespace of one that is
 * gone is unknown. False when memory is short. */
static bool hide_alloc(struct server *server, Holdfast__V1__NodePlugin *plugin, struct nodes_sight *sight)
{
	const struct alloc_entry *alloc = state_alloc(&server->state, plugin->allocation_id);
	bool is_seen =
		alloc ? sees_alloc(sight, alloc->alloc.namespace) : sight->has_jobs && sight->jobs.is_all;

	return is_seen || message_set_text(&plugin->allocation_id, "");
}

static bool add_plugins(struct server *server, const struct node_entry *entry, struct nodes_sight *sight,
			Holdfast__V1__Node *view)
{
	const struct instance_entry *instance;

	view->plugins = calloc(NODE_PLUGINS_MAX, sizeof(Holdfast__V1__NodePlugin *));
	if (!view->plugins)
		return false;
	LIST_FOREACH (instance, &entry->instances, of_node) {
		if (view->n_plugins == NODE_PLUGINS_MAX)
			break;
		view->plugins[view->n_plugins] = node_plugin_to_pb(&instance->instance.plugin);
		if (!view->plugins[view->n_plugins] ||
		    !hide_alloc(server, view->plugins[view->n_plugins++], sight))
			return false;
	}
	return true;
}

bool nodes_hide_machines(struct server *server, Holdfast__V1__Node *view)
{
	for (size_t i = 0; i < view->n_past_boots; i++)
		if (!machine_code_show(server, view->id, &view->past_boots[i]->machine))
			return false;
	return machine_code_show(server, view->id, &view->machine) &&
	       machine_code_show(server, view->id, &view->other_machine);
}

Holdfast__V1__Node *nodes_view(struct server *server, const struct node_entry *node,
			       struct nodes_sight *sight)
{
	Holdfast__V1__Node *view = node_to_pb(&node->node);

	if (!view)
		return NULL;
	view->status = (Holdfast__V1__NodeStatus)nodes_status(server, node);
	view->disconnected_ms = nodes_disconnected_ms(server, node);
	view->live_claims = node->n_live;
	view->unreported = node->is_unreported;
	view->certificate_expires_at_ms = node->session ? node->certificate_expires_ms : 0;
	if (nodes_hide_machines(server, view) && add_plugins(server, node, sight, view))
		return view;
	holdfast__v1__node__free_unpacked(view, NULL);
	return NULL;
}

/* Get. */

static bool add_drivers(const struct node_entry *entry, Holdfast__V1__Node *view)
{
	size_t n = message_list_n(entry->drivers);

	view->drivers = calloc(n + 1, sizeof(Holdfast__V1__NodeDriver *));
	for (size_t i = 0; view->drivers && i < n; i++) {
		const ProtobufCMessage *driver = entry->drivers->messages[i];

		view->drivers[i] = (void *)message_convert(driver->descriptor, driver);
		if (!view->drivers[i])
			return false;
		view->n_drivers = i + 1;
	}
	return view->drivers != NULL;
}

static bool add_attributes(const struct node_entry *entry, Holdfast__V1__Node *view)
{
	size_t n = message_list_n(entry->attributes);

	view->attributes = calloc(n + 1, sizeof(Holdfast__Driver__V1__KeyValue *));
	for (size_t i = 0; view->attributes && i < n; i++) {
		const ProtobufCMessage *one = entry->attributes->messages[i];

		view->attributes[i] = (void *)message_convert(one->descriptor, one);
		if (!view->attributes[i])
			return false;
		view->n_attributes = i + 1;
	}
	return view->attributes != NULL;
}

/* Lists the live claims of @entry, or those of them that another machine holds. @sight NULL: of all
 * namespaces. The response owns the contents of @ret, also upon false. */
static bool list_live(const struct node_entry *entry, bool of_other_machine, struct nodes_sight *sight,
		      Holdfast__V1__Claim ***ret, size_t *ret_n)
{
	const struct claim_entry *claim;

	*ret = calloc(entry->n_live + 1, sizeof(Holdfast__V1__Claim *));
	if (!*ret)
		return false;
	LIST_FOREACH (claim, &entry->claims, of_node) {
		if (!claim_is_live(&claim->claim) || (of_other_machine && !claim->claim.other_machine) ||
		    (sight && !nodes_sees_claim(sight, claim->claim.namespace)))
			continue;
		(*ret)[*ret_n] = claim_to_pb(&claim->claim);
		if (!(*ret)[*ret_n])
			return false;
		(*ret_n)++;
	}
	return true;
}

static bool add_allocs(const struct node_entry *entry, struct nodes_sight *sight,
		       Holdfast__V1__GetNodeResponse *response)
{
	const struct alloc_entry *alloc;

	response->allocations = calloc(entry->n_live_allocs + 1, sizeof(Holdfast__V1__Allocation *));
	if (!response->allocations)
		return false;
	LIST_FOREACH (alloc, &entry->allocs, of_node) {
		if (!sees_alloc(sight, alloc->alloc.namespace))
			continue;
		response->allocations[response->n_allocations] = alloc_to_pb_short(&alloc->alloc);
		if (!response->allocations[response->n_allocations])
			return false;
		response->n_allocations++;
	}
	return true;
}

static bool add_usages(const struct node_entry *entry, struct nodes_sight *sight,
		       Holdfast__V1__GetNodeResponse *response)
{
	bool is_whole = usage_of_node(entry, &response->usages, &response->n_usages);
	size_t n = 0;

	for (size_t i = 0; i < response->n_usages; i++)
		if (nodes_sees_claim(sight, response->usages[i]->namespace_))
			response->usages[n++] = response->usages[i];
		else
			holdfast__v1__volume_usage__free_unpacked(response->usages[i], NULL);
	response->n_usages = n;
	return is_whole;
}

static enum status handle_get(struct server *server, struct rpc_call *call, const ProtobufCMessage *message,
			      struct error *err)
{
	const Holdfast__V1__GetNodeRequest *request = (const void *)message;
	Holdfast__V1__GetNodeResponse *response;
	struct node_entry *entry;
	struct nodes_sight sight;

	TRY(nodes_find(server, request->id, &entry, err));
	nodes_sight_init(server, call, &sight);
	response = calloc(1, sizeof(*response));
	if (!response)
		return error_no_memory(err, "a node");
	holdfast__v1__get_node_response__init(response);
	response->node = nodes_view(server, entry, &sight);
	if (!response->node || !add_drivers(entry, response->node) ||
	    !add_attributes(entry, response->node) ||
	    !list_live(entry, false, &sight, &response->claims, &response->n_claims) ||
	    !add_allocs(entry, &sight, response) || !add_usages(entry, &sight, response)) {
		protobuf_c_message_free_unpacked(&response->base, NULL);
		return error_no_memory(err, "a node");
	}
	response->index = watch_index(server, PREFIX_NODE);
	answer_durable(server, call, &response->base);
	return STATUS_OK;
}

static void get_name(const ProtobufCMessage *message, char ret[static OBJECT_KEY_SIZE])
{
	const Holdfast__V1__GetNodeRequest *request = (const void *)message;

	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_NODE "%.64s", request->id);
}

/* The answer's index is the table's: it is never behind the node's claims and allocations, which are shown.
 */
static uint64_t get_index(struct server *server, const ProtobufCMessage *message)
{
	const Holdfast__V1__GetNodeRequest *request = (const void *)message;
	const struct node_entry *entry = state_node(&server->state, request->id);

	return entry && node_is_registered(entry) ? watch_index(server, PREFIX_NODE) : UINT64_MAX;
}

static const struct read_method get_method = {.handle = handle_get, .name = get_name, .index = get_index};
DEFINE_READ_METHOD(nodes_handle_get, get_method)

/* List. */

struct page {
	struct server *server;
	struct nodes_sight *sight;
	struct filter *filter; /* NULL: everything */
	size_t per_page;
	Holdfast__V1__ListNodesResponse *response;
};

static enum status add_node(const struct page *page, const struct node_entry *entry, struct error *err)
{
	Holdfast__V1__Node *view = nodes_view(page->server, entry, page->sight);

	if (!view)
		return error_no_memory(err, "a node");
	if (page->filter && !filter_matches(page->filter, &view->base))
		holdfast__v1__node__free_unpacked(view, NULL);
	else
		page->response->nodes[page->response->n_nodes++] = view;
	return STATUS_OK;
}

/* A page ends when it is full, or when enough was looked at: then it may be short, and the token leads on. */
static enum status fill_page(const struct page *page, struct node_entry *entry, const char *prefix,
			     struct error *err)
{
	Holdfast__V1__ListNodesResponse *response = page->response;
	enum status status = STATUS_OK;
	size_t bytes = 0, n_counted = 0;

	response->nodes = calloc(page->per_page, sizeof(Holdfast__V1__Node *));
	if (!response->nodes)
		return error_no_memory(err, "a node");
	for (size_t looked_at = 0; entry && str_starts_with(entry->id, prefix) && status == STATUS_OK;
	     entry = state_node_next(entry)) {
		if (!node_is_registered(entry))
			continue; /* no token names one */
		for (; n_counted < response->n_nodes; n_counted++)
			bytes += protobuf_c_message_get_packed_size(&response->nodes[n_counted]->base);
		if (response->n_nodes == page->per_page || looked_at++ == NODES_LOOKED_AT ||
		    bytes > LIST_PAGE_BYTES_MAX || filter_is_spent(page->filter)) {
			response->next_token = strdup(entry->id);
			return response->next_token ? STATUS_OK : error_no_memory(err, "a node");
		}
		status = add_node(page, entry, err);
	}
	return status;
}

DEFINE_CLEANUP(struct filter, filter_free)

static enum status list(struct server *server, const struct rpc_call *call,
			const Holdfast__V1__ListNodesRequest *request,
			Holdfast__V1__ListNodesResponse *response, struct error *err)
{
	cleanup(filter_freep) struct filter *filter = NULL;
	const char *from =
		strcmp(request->next_token, request->prefix) > 0 ? request->next_token : request->prefix;
	struct nodes_sight sight;
	struct page page = {.server = server, .sight = &sight, .response = response};

	nodes_sight_init(server, call, &sight);
	TRY(list_page_size(request->per_page, NODES_PER_PAGE_MAX, &page.per_page, err));
	if (request->filter[0] != '\0') {
		TRY(filter_new(request->filter, &holdfast__v1__node__descriptor, &filter, err));
		page.filter = filter;
	}
	response->index = watch_index(server, PREFIX_NODE);
	return fill_page(&page, state_node_from(&server->state, from), request->prefix, err);
}

static enum status handle_list(struct server *server, struct rpc_call *call, const ProtobufCMessage *message,
			       struct error *err)
{
	Holdfast__V1__ListNodesResponse *response = calloc(1, sizeof(*response));
	enum status status;

	if (!response)
		return error_no_memory(err, "a node");
	holdfast__v1__list_nodes_response__init(response);
	status = list(server, call, (const void *)message, response, err);
	if (status == STATUS_OK)
		answer_durable(server, call, &response->base);
	else
		protobuf_c_message_free_unpacked(&response->base, NULL);
	return status;
}

static void list_name(const ProtobufCMessage *message, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_copy(ret, OBJECT_KEY_SIZE, PREFIX_NODE);
}

static const struct read_method list_method = {.handle = handle_list, .name = list_name};
DEFINE_READ_METHOD(nodes_handle_list, list_method)

/* SetEligibility. */

static void on_eligibility_durable(struct server *server, void *userdata)
{
	Holdfast__V1__SetEligibilityResponse response = HOLDFAST__V1__SET_ELIGIBILITY_RESPONSE__INIT;
	cleanup_free struct answer_waiting *waiting = userdata;
	struct nodes_sight sight;
	struct node_entry *entry;
	struct error err;

	if (nodes_find(server, waiting->id, &entry, &err) != STATUS_OK) {
		rpc_call_fail(waiting->call, &err);
		return;
	}
	nodes_sight_init(server, waiting->call, &sight);
	response.node = nodes_view(server, entry, &sight);
	if (response.node)
		rpc_call_reply(waiting->call, &response.base);
	else
		answer_error(waiting->call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	holdfast__v1__node__free_unpacked(response.node, NULL);
}

static bool is_as_wanted(const Holdfast__V1__SetEligibilityRequest *request, const struct node *node)
{
	char reason[sizeof(node->eligibility_reason)];

	str_copy_text(reason, sizeof(reason), request->eligible ? "" : request->reason);
	return node->ineligible == !request->eligible && str_eq(node->eligibility_reason, reason) &&
	       (!request->eligible || node->drain.started_ms == 0);
}

static enum status set_eligibility(const Holdfast__V1__SetEligibilityRequest *request, struct node *node,
				   struct error *err)
{
	if (request->eligible && node_is_draining(node))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"node %s is being drained; cancel that first: holdfast node drain --cancel %s",
			node->id, node->id);
	node->ineligible = !request->eligible;
	str_copy_text(node->eligibility_reason, sizeof(node->eligibility_reason),
		      request->eligible ? "" : request->reason);
	if (request->eligible)
		node->drain = (struct drain){0}; /* done, and over */
	return STATUS_OK;
}

static enum status handle_set_eligibility(struct server *server, struct rpc_call *call,
					  const Holdfast__V1__SetEligibilityRequest *request,
					  struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free struct node *node = malloc(sizeof(*node));
	char object[OBJECT_SIZE];
	struct node_entry *entry;

	TRY(nodes_find(server, request->id, &entry, err));
	if (!node)
		return error_no_memory(err, "a node");
	*node = entry->node;
	TRY(set_eligibility(request, node, err));
	if (!is_as_wanted(request, &entry->node)) {
		node->modify_time_ms = clock_realtime_ms();
		change_put_node(&change, node);
		(void)str_format(object, sizeof(object), "node %s, %s", node->id,
				 node->ineligible ? "ineligible" : "eligible");
		audit_write(server, &change, call, "Nodes.SetEligibility", object, request->reason);
	}
	return change_commit_taking(server, &change, on_eligibility_durable,
				    answer_waiting_new(call, node->id), err);
}

DEFINE_WRITE_METHOD(nodes_handle_set_eligibility, Holdfast__V1__SetEligibilityRequest, "Nodes.SetEligibility",
		    handle_set_eligibility)

/* Purge. */

static enum status refuse_claims(const struct node_entry *entry, struct error *err)
{
	const struct claim_entry *claim;

	LIST_FOREACH (claim, &entry->claims, of_node)
		if (claim_is_live(&claim->claim))
			break;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"node %s still holds %zu claims, one of them of volume %s/%s (%s), which would be "
		"stranded; stop its work, then, if the node is gone for good: holdfast node attest %s "
		"%s/%s --reason TEXT",
		entry->id, entry->n_live, claim ? claim->claim.namespace : "",
		claim ? claim->claim.volume_id : "", claim ? claim_state_name(claim->claim.state) : "",
		entry->id, claim ? claim->claim.namespace : "", claim ? claim->claim.volume_id : "");
}

static enum status check_purge(struct server *server, const struct node_entry *entry,
			       const Holdfast__V1__PurgeNodeRequest *request, struct error *err)
{
	if (entry->session)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"node %s is connected; drain it (holdfast node drain %s) and stop its agent, "
			"or, if its machine or its key is lost: holdfast operator cert revoke "
			"node/%s",
			entry->id, entry->id, entry->id);
	TRY(nodes_check_away(server, entry, err));
	if (entry->is_unreported && request->reason[0] == '\0')
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s has not reported what it holds, and the purge lets others have it; "
				 "if the node is off or has nothing mounted: holdfast node purge %s --reason "
				 "TEXT",
				 entry->id, entry->id);
	return entry->n_live > 0 ? refuse_claims(entry, err) : STATUS_OK;
}

static void on_purged(struct server *server, void *userdata)
{
	Holdfast__V1__PurgeNodeResponse response = HOLDFAST__V1__PURGE_NODE_RESPONSE__INIT;
	cleanup_free struct answer_waiting *waiting = userdata;

	rpc_call_reply(waiting->call, &response.base);
}

/* Purges the unnamed nodes. Only the operator knows what they hold. */
static enum status purge_unknown(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__PurgeNodeRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	uint64_t n = history_missing_nodes(server), n_replaced = replaced_count(server);
	char object[OBJECT_SIZE];

	if (request->id[0] != '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "id: name one node, or all that are not known, not both");
	if (n + n_replaced == 0)
		return error_set(err, STATUS_NOT_FOUND, 0, "no node is missing that is not known by name");
	if (n > 0)
		history_forget_missing(server, &change);
	replaced_forget(server, &change);
	(void)str_format(object, sizeof(object),
			 "%" PRIu64 " nodes that are not known, %" PRIu64 " replaced machines", n,
			 n_replaced);
	audit_write(server, &change, call, "Nodes.Purge", object,
		    request->reason[0] ? request->reason : NULL);
	return change_commit_taking(server, &change, on_purged, answer_waiting_new(call, ""), err);
}

/* A network fence stays: the storage refuses the node until the fence is lifted. */
static void forget_fence(struct server *server, struct change *change, const char *node_id)
{
	char key[OBJECT_KEY_SIZE];

	(void)str_format(key, sizeof(key), PREFIX_FENCE "%s", node_id);
	if (records_get(&server->state.records, key))
		change_delete_record(change, key);
	fence_clients_forget(server, change, node_id);
}

/* Purges the node. Its claims and allocations keep their history. The node may come back as a new one,
 * with a new certificate. */
static enum status handle_purge(struct server *server, struct rpc_call *call,
				const Holdfast__V1__PurgeNodeRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const struct instance_entry *instance;
	char object[OBJECT_SIZE];
	struct node_entry *entry;
	struct answer_waiting *waiting;
	char identity[OBJECT_SIZE];

	if (request->unknown)
		return purge_unknown(server, call, request, err);
	TRY(nodes_find(server, request->id, &entry, err));
	TRY(check_purge(server, entry, request, err));
	(void)str_join(identity, sizeof(identity), "node/", entry->id);
	if (!request->keep_certificate)
		TRY(revocation_stage(server, &change, call, identity, "the node was purged", err));
	TRY(allocs_node_gone(server, entry, true, "its node was purged", err));
	LIST_FOREACH (instance, &entry->instances, of_node)
		change_delete(&change, OBJECT_NODE_PLUGIN, &instance->instance);
	attest_forget_node(server, &change, entry);
	trails_forget(server, &change, entry->id);
	forget_fence(server, &change, entry->id);
	history_forget_node(server, &change, &entry->node);
	change_delete(&change, OBJECT_NODE, &entry->node);
	(void)str_format(object, sizeof(object), "node %s, boot %s", entry->id, entry->node.boot_id);
	audit_write(server, &change, call, "Nodes.Purge", object,
		    request->reason[0] ? request->reason : NULL);
	waiting = answer_waiting_new(call, entry->id);
	return change_commit_taking(server, &change, on_purged, waiting, err);
}

DEFINE_WRITE_METHOD(nodes_handle_purge, Holdfast__V1__PurgeNodeRequest, "Nodes.Purge", handle_purge)

/* Identify. */

static void on_identified(struct server *server, void *userdata)
{
	cleanup_free struct answer_waiting *waiting = userdata;
	Holdfast__V1__IdentifyNodeResponse *response = calloc(1, sizeof(*response));
	struct nodes_sight sight;
	struct node_entry *entry;
	struct error err;

	if (nodes_find(server, waiting->id, &entry, &err) != STATUS_OK) {
		rpc_call_fail(waiting->call, &err);
		free(response);
		return;
	}
	if (response) {
		holdfast__v1__identify_node_response__init(response);
		nodes_sight_init(server, waiting->call, &sight);
		response->node = nodes_view(server, entry, &sight);
	}
	if (response && response->node &&
	    list_live(entry, true, NULL, &response->claims, &response->n_claims))
		rpc_call_reply(waiting->call, &response->base);
	else
		answer_error(waiting->call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	protobuf_c_message_free_unpacked((ProtobufCMessage *)response, NULL);
}

/* Which machine has the code that an operator names? */
static enum status find_machine(struct server *server, const struct node *node, const char *code,
				char ret[static NODE_MACHINE_MAX + 1], struct error *err)
{
	char own[NODE_MACHINE_MAX + 1], others[NODE_REFUSED_SIZE];

	/* the machine that was replaced last is not refused while it is taken for one that shows more */
	const char *replaced =
		node->n_past_boots > 0 && node->past_boots[0].replaced ? node->past_boots[0].machine : "";

	if (machine_code_find(server, node->id, node->machine, code, ret) ||
	    machine_code_find(server, node->id, node->other_machine, code, ret) ||
	    machine_code_find(server, node->id, replaced, code, ret))
		return STATUS_OK;
	(void)machine_code_list(server, node->id, node->other_machine, others);
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "machine: node %s has shown itself as machine %s%s%s, and lately as no other; "
			 "holdfast node status %s shows them",
			 node->id,
			 node->machine[0] ? machine_code(server, node->id, node->machine, own) : "(none)",
			 others[0] ? " and, refused, " : "", others, node->id);
}

static enum status check_identify(struct server *server, const struct node_entry *entry, const char *machine,
				  struct error *err)
{
	const struct node *node = &entry->node;

	if (str_eq(machine, node->machine))
		return STATUS_OK;
	if (entry->session)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the machine that node %s is so far is connected: empty it (holdfast node "
				 "drain %s), stop its agent, and repeat this",
				 node->id, node->id);
	return nodes_check_away(server, entry, err);
}

/* Keeps the former machine's claims: another machine of that name proves nothing about its mounts. If they
 * are many, the first ones are stored ahead of @change: without it a reboot is no evidence for them, and the
 * machine goes on in its boot. */
static enum status keep_claims(struct server *server, struct change *change, const struct node_entry *entry,
			       int64_t now_ms, struct error *err)
{
	const struct claim_entry *claim;

	LIST_FOREACH (claim, &entry->claims, of_node) {
		struct claim kept = claim->claim;

		if (!claim_is_live(&kept) || kept.other_machine || kept.state >= CLAIM_NODE_DETACHED)
			continue;
		kept.other_machine = true;
		kept.modify_time_ms = now_ms;
		change_put_claim(change, &kept);
		if (change->n >= CHANGE_OBJECTS_MAX / 2)
			TRY(change_commit(server, change, NULL, NULL, err));
	}
	return STATUS_OK;
}

/* The machine that is the node now is the one that holds these claims: its receipts and boots count again. */
static enum status return_claims(struct server *server, struct change *change, const struct node_entry *entry,
				 struct error *err)
{
	const struct claim_entry *claim;

	LIST_FOREACH (claim, &entry->claims, of_node) {
		struct claim own = claim->claim;

		if (!claim_is_live(&own) || !own.other_machine ||
		    !node_was_in_boot(&entry->node, own.boot_id))
			continue;
		own.other_machine = false;
		own.modify_time_ms = entry->node.modify_time_ms;
		change_put_claim(change, &own);
		if (change->n >= CHANGE_OBJECTS_MAX / 2)
			TRY(change_commit(server, change, NULL, NULL, err));
	}
	return STATUS_OK;
}

static enum status handle_identify(struct server *server, struct rpc_call *call,
				   const Holdfast__V1__IdentifyNodeRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free struct node *node = malloc(sizeof(*node));
	char machine[NODE_MACHINE_MAX + 1], detail[EVIDENCE_DETAIL_MAX + 1];
	char object[OBJECT_SIZE];
	struct node_entry *entry;

	TRY(nodes_find(server, request->id, &entry, err));
	TRY(attest_detail(server, call, "reason", request->reason, detail, err));
	TRY(find_machine(server, &entry->node, request->machine, machine, err));
	TRY(check_identify(server, entry, machine, err));
	if (!node)
		return error_no_memory(err, "a node");
	*node = entry->node;
	node->modify_time_ms = clock_realtime_ms();
	if (!str_eq(node->machine, machine)) {
		TRY(keep_claims(server, &change, entry, node->modify_time_ms, err));
		if (entry->is_unreported)
			replaced_add(&change, node->id, node->machine);
		history_count_machine(server, &change, node, machine);
		node_replace_machine(node, machine, node->modify_time_ms);
		if (replaced_is_due(server, node)) {
			node->reported_epoch = 0; /* the report was another machine's */
			node->report_wanted = true;
		}
	}
	node->other_machine[0] = '\0';
	node->other_machine_ms = 0;
	node->other_machines = 0;
	change_put_node(&change, node);
	(void)str_format(object, sizeof(object), "node %s, machine %s", node->id, request->machine);
	audit_write(server, &change, call, "Nodes.Identify", object, request->reason);
	TRY(change_commit(server, &change, NULL, NULL,
			  err)); /* until then a boot of the former machine counts */
	TRY(return_claims(server, &change, entry, err));
	return change_commit_taking(server, &change, on_identified, answer_waiting_new(call, node->id), err);
}

DEFINE_WRITE_METHOD(nodes_handle_identify, Holdfast__V1__IdentifyNodeRequest, "Nodes.Identify",
		    handle_identify)
