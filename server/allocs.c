#include "allocs.h"

#include "access.h"
#include "change.h"
#include "claim_grant.h"
#include "claims.h"
#include "keys.h"
#include "reply.h"
#include "server.h"
#include "session.h"
#include "watch.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "base/uuid.h"
#include "log/log.h"
#include "model/pb.h"
#include "rpc/server.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A call that waits for its allocation's change to be durable. */
struct waiting {
	struct rpc_call *call;
	char alloc_id[UUID_TEXT_SIZE];
};

static struct waiting *waiting_new(struct rpc_call *call, const char *alloc_id)
{
	struct waiting *waiting = calloc(1, sizeof(*waiting));

	if (!waiting)
		return NULL;
	waiting->call = call;
	(void)str_copy(waiting->alloc_id, sizeof(waiting->alloc_id), alloc_id);
	return waiting;
}

/* Commit @change and answer @call from @done. */
static enum status commit_for(struct server *server, struct change *change, struct rpc_call *call,
			      const char *alloc_id, change_done_fn *done, struct error *err)
{
	return change_commit_taking(server, change, done, waiting_new(call, alloc_id), err);
}

/* Answer with @response, whose member @slot is the allocation. */
static void reply_alloc(struct rpc_call *call, const ProtobufCMessage *response,
			Holdfast__V1__Allocation **slot, const struct alloc *alloc)
{
	*slot = alloc_to_pb(alloc);
	if (*slot)
		rpc_call_reply(call, response);
	else
		reply_error(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	holdfast__v1__allocation__free_unpacked(*slot, NULL);
}

static void on_run_durable(struct server *server, void *userdata)
{
	Holdfast__V1__RunAllocationResponse response = HOLDFAST__V1__RUN_ALLOCATION_RESPONSE__INIT;
	cleanup_free struct waiting *waiting = userdata;
	const struct alloc_entry *entry = state_alloc(&server->state, waiting->alloc_id);
	const struct node_entry *node = state_node(&server->state, entry->alloc.node_id);

	if (node && node_is_connected(node) && entry->alloc.desired_status == DESIRED_RUN &&
	    !alloc_is_client_terminal(&entry->alloc))
		session_run_alloc(node->session, &entry->alloc);
	reply_alloc(waiting->call, &response.base, &response.allocation, &entry->alloc);
}

/* Is @wanted what was submitted under this id before? */
static bool same_submission(const struct alloc *known, const struct alloc *wanted)
{
	if (!str_eq(known->namespace, wanted->namespace) || !str_eq(known->name, wanted->name) ||
	    !str_eq(known->node_id, wanted->node_id) || !str_eq(known->driver, wanted->driver) ||
	    known->n_volumes != wanted->n_volumes)
		return false;
	for (uint32_t i = 0; i < known->n_volumes; i++)
		if (!volume_request_eq(&known->volumes[i], &wanted->volumes[i]))
			return false;
	return true;
}

static enum status check_volumes(struct server *server, const struct alloc *alloc, struct error *err)
{
	const struct node_entry *node = state_node(&server->state, alloc->node_id);

	if (!node || node->node.boot_id[0] == '\0')
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "node %s has never connected; holdfast node status lists those that have",
				 alloc->node_id);
	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		enum status st = claim_grant_check(server, alloc, &alloc->volumes[i], err);

		if (st != STATUS_OK)
			return st;
	}
	return STATUS_OK;
}

static enum status submit(struct server *server, struct rpc_call *call, struct alloc *alloc,
			  struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	enum status st;
	int r = alloc->id[0] == '\0' ? uuid_new(alloc->id) : 0;

	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "make an allocation id");
	alloc->desired_status = DESIRED_RUN;
	alloc->client_status = CLIENT_PENDING;
	alloc->create_time_ms = alloc->modify_time_ms = clock_realtime_ms();
	alloc->create_index = alloc->modify_index = 0;
	alloc->client_code = 0;
	alloc->n_published = 0;
	memset(alloc->published, 0, sizeof(alloc->published));
	memset(alloc->client_description, 0, sizeof(alloc->client_description));
	st = check_volumes(server, alloc, err);
	if (st != STATUS_OK)
		return st;
	if (!node_is_connected(state_node(&server->state, alloc->node_id)))
		(void)str_format(alloc->client_description, sizeof(alloc->client_description),
				 "waiting for node %s, which is not connected", alloc->node_id);
	change_put_alloc(&change, alloc);
	log_ctx(LOG_NOTICE, &(struct log_ctx){.alloc = alloc->id, .node = alloc->node_id, .op = "run"},
		"allocation %s submitted", alloc->name);
	return commit_for(server, &change, call, alloc->id, on_run_durable, err);
}

static enum status handle_run(struct server *server, struct rpc_call *call,
			      const Holdfast__V1__RunAllocationRequest *request, struct error *err)
{
	cleanup_free struct alloc *alloc = malloc(sizeof(*alloc));
	cleanup(change_release) struct change nothing = CHANGE_INIT;
	const struct alloc_entry *known;
	enum status st;

	if (!alloc)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	if (!request->allocation)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "allocation: missing");
	st = alloc_from_pb(request->allocation, alloc, err);
	if (st != STATUS_OK)
		return st;
	alloc_default(alloc);
	st = alloc_validate(alloc, err);
	if (st != STATUS_OK)
		return st;
	known = state_alloc(&server->state, alloc->id);
	if (!known)
		return submit(server, call, alloc, err);
	if (!same_submission(&known->alloc, alloc))
		return error_set(err, STATUS_ALREADY_EXISTS, 0, "allocation %s exists with another content",
				 alloc->id);
	return commit_for(server, &nothing, call, alloc->id, on_run_durable, err);
}

DEFINE_OPERATOR_METHOD(allocs_handle_run, Holdfast__V1__RunAllocationRequest, handle_run)

static void on_stop_durable(struct server *server, void *userdata)
{
	Holdfast__V1__StopAllocationResponse response = HOLDFAST__V1__STOP_ALLOCATION_RESPONSE__INIT;
	cleanup_free struct waiting *waiting = userdata;
	const struct alloc_entry *entry = state_alloc(&server->state, waiting->alloc_id);
	const struct node_entry *node = state_node(&server->state, entry->alloc.node_id);

	if (node && node_is_connected(node) && !alloc_is_client_terminal(&entry->alloc))
		session_stop_alloc(node->session, entry->alloc.id);
	reply_alloc(waiting->call, &response.base, &response.allocation, &entry->alloc);
}

static bool has_live_claims(const struct alloc_entry *entry)
{
	const struct claim_entry *claim;

	LIST_FOREACH (claim, &entry->claims, of_alloc)
		if (claim_is_live(&claim->claim))
			return true;
	return false;
}

enum status allocs_stage_stop(struct change *change, const struct alloc_entry *entry,
			      const struct node_entry *node, struct error *err)
{
	cleanup_free struct alloc *alloc = malloc(sizeof(*alloc));

	if (!alloc)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	if (entry->alloc.desired_status == DESIRED_STOP)
		return STATUS_OK;
	*alloc = entry->alloc;
	alloc->desired_status = DESIRED_STOP;
	alloc->modify_time_ms = clock_realtime_ms();
	/* without a claim it cannot have mounted anything, and from here on it gets none */
	if (!node_is_connected(node) && !has_live_claims(entry) && alloc->client_status == CLIENT_PENDING) {
		alloc->client_status = CLIENT_COMPLETE;
		(void)str_copy(alloc->client_description, sizeof(alloc->client_description),
			       "stopped before it ran");
	}
	change_put_alloc(change, alloc);
	log_ctx(LOG_NOTICE, &(struct log_ctx){.alloc = alloc->id, .node = alloc->node_id, .op = "stop"},
		"allocation %s is to stop", alloc->name);
	return STATUS_OK;
}

static enum status stop(struct server *server, struct rpc_call *call, struct alloc_entry *entry,
			struct error *err)
{
	const struct node_entry *node = state_node(&server->state, entry->alloc.node_id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	enum status st = allocs_stage_stop(&change, entry, node, err);

	return st == STATUS_OK ? commit_for(server, &change, call, entry->alloc.id, on_stop_durable, err)
			       : st;
}

static enum status no_such_alloc(const char *id, struct error *err)
{
	return error_set(err, STATUS_NOT_FOUND, 0,
			 "there is no allocation %.64s; holdfast alloc status lists them", id);
}

static enum status handle_stop(struct server *server, struct rpc_call *call,
			       const Holdfast__V1__StopAllocationRequest *request, struct error *err)
{
	struct alloc_entry *entry;

	entry = state_alloc(&server->state, request->id);
	return entry ? stop(server, call, entry, err) : no_such_alloc(request->id, err);
}

DEFINE_OPERATOR_METHOD(allocs_handle_stop, Holdfast__V1__StopAllocationRequest, handle_stop)

static Holdfast__V1__GetAllocationResponse *make_get_response(struct alloc_entry *entry)
{
	Holdfast__V1__GetAllocationResponse *response = calloc(1, sizeof(*response));
	struct claim_entry *claim;
	size_t n = 0;

	if (!response)
		return NULL;
	holdfast__v1__get_allocation_response__init(response);
	response->allocation = alloc_to_pb(&entry->alloc);
	LIST_FOREACH (claim, &entry->claims, of_alloc)
		n++;
	response->claims = calloc(n + 1, sizeof(Holdfast__V1__Claim *));
	if (!response->allocation || !response->claims) {
		protobuf_c_message_free_unpacked(&response->base, NULL);
		return NULL;
	}
	LIST_FOREACH (claim, &entry->claims, of_alloc) {
		response->claims[response->n_claims] = claim_to_pb(&claim->claim);
		if (!response->claims[response->n_claims])
			break; /* memory is short: a shorter list is still true */
		response->n_claims++;
	}
	return response;
}

static enum status handle_get(struct server *server, struct rpc_call *call, const ProtobufCMessage *message,
			      struct error *err)
{
	const Holdfast__V1__GetAllocationRequest *request = (const void *)message;
	struct alloc_entry *entry = state_alloc(&server->state, request->id);

	if (!entry)
		return no_such_alloc(request->id, err);
	reply_durable(server, call, (ProtobufCMessage *)make_get_response(entry));
	return STATUS_OK;
}

static void get_name(const ProtobufCMessage *message, char ret[static OBJECT_KEY_SIZE])
{
	const Holdfast__V1__GetAllocationRequest *request = (const void *)message;

	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_ALLOC "%.36s", request->id);
}

static uint64_t get_index(struct server *server, const ProtobufCMessage *message)
{
	const Holdfast__V1__GetAllocationRequest *request = (const void *)message;
	const struct alloc_entry *entry = state_alloc(&server->state, request->id);

	return entry ? entry->alloc.modify_index : UINT64_MAX;
}

static enum status get_allow(struct server *server, struct rpc_call *call, const ProtobufCMessage *message,
			     struct error *err)
{
	const Holdfast__V1__GetAllocationRequest *request = (const void *)message;
	const struct alloc_entry *entry = state_alloc(&server->state, request->id);

	return access_check(server, call, ACCESS_JOB_READ, entry ? entry->alloc.namespace : NAMESPACE_DEFAULT,
			    err);
}

static const struct read_method get_method = {
	.allow = get_allow, .handle = handle_get, .name = get_name, .index = get_index};
DEFINE_READ_METHOD(allocs_handle_get, get_method)

static size_t list_allocs(struct server *server, const char *prefix, const char *node_id,
			  Holdfast__V1__Allocation **list)
{
	struct alloc_entry *entry = state_alloc_from(&server->state, prefix);
	size_t n = 0;

	for (; entry && str_starts_with(entry->alloc.id, prefix); entry = state_alloc_next(entry)) {
		if (node_id[0] != '\0' && !str_eq(entry->alloc.node_id, node_id))
			continue;
		if (list)
			list[n] = alloc_to_pb(&entry->alloc);
		if (!list || list[n])
			n++;
	}
	return n;
}

static enum status handle_list(struct server *server, struct rpc_call *call,
			       const Holdfast__V1__ListAllocationsRequest *request, struct error *err)
{
	Holdfast__V1__ListAllocationsResponse *response;

	response = calloc(1, sizeof(*response));
	if (!response)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	holdfast__v1__list_allocations_response__init(response);
	response->allocations = calloc(list_allocs(server, request->prefix, request->node_id, NULL) + 1,
				       sizeof(Holdfast__V1__Allocation *));
	if (response->allocations)
		response->n_allocations =
			list_allocs(server, request->prefix, request->node_id, response->allocations);
	response->index = kv_revision(server->kv);
	reply_durable(server, call, &response->base);
	return STATUS_OK;
}

DEFINE_OPERATOR_METHOD(allocs_handle_list, Holdfast__V1__ListAllocationsRequest, handle_list)

enum status allocs_lose(struct change *change, struct alloc_entry *entry, const char *reason,
			struct error *err)
{
	cleanup_free struct alloc *alloc = malloc(sizeof(*alloc));

	if (!alloc)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	*alloc = entry->alloc;
	alloc->client_status = CLIENT_LOST;
	(void)snprintf(alloc->client_description, sizeof(alloc->client_description), "%s", reason);
	alloc->modify_time_ms = clock_realtime_ms();
	alloc->n_published = 0;
	memset(alloc->published, 0, sizeof(alloc->published));
	change_put_alloc(change, alloc);
	return claims_end_work(change, entry, alloc->modify_time_ms, err);
}

enum status allocs_node_rebooted(struct server *server, struct node_entry *node, struct error *err)
{
	struct alloc_entry *entry;

	LIST_FOREACH (entry, &node->allocs, of_node) {
		cleanup(change_release) struct change change = CHANGE_INIT;
		enum status st;

		/* one that never got a claim has nothing to lose: it runs in the new boot */
		if (alloc_is_client_terminal(&entry->alloc) ||
		    (entry->alloc.client_status == CLIENT_PENDING && !has_live_claims(entry)))
			continue;
		st = allocs_lose(&change, entry, "the node was rebooted", err);
		if (st == STATUS_OK)
			st = change_commit(server, &change, NULL, NULL, err);
		if (st != STATUS_OK)
			return st;
	}
	return STATUS_OK;
}
