#include "volumes.h"

#include "access.h"
#include "allocs.h"
#include "attest.h"
#include "change.h"
#include "claims.h"
#include "reply.h"
#include "server.h"
#include "volume_view.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "model/pb.h"
#include "rpc/server.h"

#include <holdfast/v1/volumes.pb-c.h>
#include <stdlib.h>
#include <string.h>

/* A call about one volume that waits for its change to be durable. */
struct waiting {
	struct rpc_call *call;
	char namespace[NAMESPACE_MAX + 1];
	char id[VOLUME_ID_MAX + 1];
	char node_id[NODE_ID_MAX + 1]; /* detach */
	bool created;		       /* register */
};

static const char *or_default(const char *namespace)
{
	return namespace[0] != '\0' ? namespace : NAMESPACE_DEFAULT;
}

static struct waiting *waiting_new(struct rpc_call *call, const struct volume *volume)
{
	struct waiting *waiting = calloc(1, sizeof(*waiting));

	if (!waiting)
		return NULL;
	waiting->call = call;
	memcpy(waiting->namespace, volume->namespace, sizeof(waiting->namespace));
	memcpy(waiting->id, volume->id, sizeof(waiting->id));
	return waiting;
}

static enum status no_such_volume(const char *namespace, const char *id, struct error *err)
{
	return error_set(err, STATUS_NOT_FOUND, 0,
			 "there is no volume %.128s in namespace %.64s; holdfast volume status lists them",
			 id, namespace);
}

static void on_registered(struct server *server, void *userdata)
{
	cleanup_free struct waiting *waiting = userdata;
	struct volume_entry *entry = state_volume(&server->state, waiting->namespace, waiting->id);
	Holdfast__V1__RegisterVolumeResponse response = HOLDFAST__V1__REGISTER_VOLUME_RESPONSE__INIT;

	response.volume = entry ? volume_view(server, entry, false) : NULL;
	response.created = waiting->created;
	if (response.volume)
		rpc_call_reply(waiting->call, &response.base);
	else
		reply_error(waiting->call, STATUS_ABORTED, "the volume was deregistered meanwhile");
	holdfast__v1__volume__free_unpacked(response.volume, NULL);
}

static enum status register_new(struct server *server, struct rpc_call *call, struct volume *volume,
				struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct waiting *waiting = waiting_new(call, volume);

	volume->generation = state_generation_floor(&server->state);
	volume->create_index = volume->modify_index = 0;
	volume->create_time_ms = volume->modify_time_ms = clock_realtime_ms();
	change_put_volume(&change, volume);
	if (waiting)
		waiting->created = true;
	log_ctx(LOG_NOTICE, &(struct log_ctx){.volume = volume->id, .op = "register"},
		"registered in namespace %s", volume->namespace);
	return change_commit_taking(server, &change, on_registered, waiting, err);
}

/* Of the live claims; as many as there are, at most one for each capability of the volume. */
static size_t capabilities_in_use(const struct volume_entry *entry,
				  struct capability ret[static VOLUME_CAPABILITIES_MAX])
{
	const struct claim_entry *claim;
	size_t n = 0;

	for (uint32_t i = 0; i < entry->volume.n_capabilities; i++)
		LIST_FOREACH (claim, &entry->claims, of_volume)
			if (claim_is_live(&claim->claim) &&
			    claim->claim.access_mode == entry->volume.capabilities[i].access_mode &&
			    claim->claim.attachment_mode == entry->volume.capabilities[i].attachment_mode) {
				ret[n++] = entry->volume.capabilities[i];
				break;
			}
	return n;
}

static enum status register_again(struct server *server, struct rpc_call *call,
				  const struct volume_entry *entry, const struct volume *update,
				  struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume merged = entry->volume;
	bool changed = false;
	struct capability in_use[VOLUME_CAPABILITIES_MAX];
	size_t n_in_use = capabilities_in_use(entry, in_use);
	enum status st = volume_merge(&merged, update, in_use, n_in_use, &changed, err);

	if (st != STATUS_OK)
		return st;
	if (changed) {
		merged.modify_time_ms = clock_realtime_ms();
		change_put_volume(&change, &merged);
	}
	return change_commit_taking(server, &change, on_registered, waiting_new(call, &merged), err);
}

static enum status handle_register(struct server *server, struct rpc_call *call,
				   const Holdfast__V1__RegisterVolumeRequest *request, struct error *err)
{
	const struct volume_entry *entry;
	struct volume volume;
	enum status st;

	if (!request->volume)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "volume: missing");
	st = volume_from_pb(request->volume, &volume, err);
	if (st != STATUS_OK)
		return st;
	volume_default(&volume);
	st = volume_validate(&volume, err);
	if (st != STATUS_OK)
		return st;
	entry = state_volume(&server->state, volume.namespace, volume.id);
	return entry ? register_again(server, call, entry, &volume, err)
		     : register_new(server, call, &volume, err);
}

DEFINE_OPERATOR_METHOD(volumes_handle_register, Holdfast__V1__RegisterVolumeRequest, handle_register)

static enum status handle_get(struct server *server, struct rpc_call *call,
			      const Holdfast__V1__GetVolumeRequest *request, struct error *err)
{
	const char *namespace = or_default(request->namespace_);
	Holdfast__V1__GetVolumeResponse *response;
	struct volume_entry *entry;

	entry = state_volume(&server->state, namespace, request->id);
	if (!entry)
		return no_such_volume(namespace, request->id, err);
	response = calloc(1, sizeof(*response));
	if (!response)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	holdfast__v1__get_volume_response__init(response);
	response->volume = volume_view(server, entry, true);
	if (request->why) {
		char *why = volume_why(server, entry);

		if (why)
			response->why = why;
	}
	if (!response->volume) {
		protobuf_c_message_free_unpacked(&response->base, NULL);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	}
	reply_durable(server, call, &response->base);
	return STATUS_OK;
}

DEFINE_OPERATOR_METHOD(volumes_handle_get, Holdfast__V1__GetVolumeRequest, handle_get)

/* Entries of one namespace, or of all ("*"), whose id begins with @prefix; @list NULL: count only. */
static size_t list_volumes(struct server *server, const char *namespace, const char *prefix,
			   Holdfast__V1__Volume **list)
{
	bool all = str_eq(namespace, "*");
	struct volume_entry *entry =
		state_volume_from(&server->state, all ? "" : namespace, all ? "" : prefix);
	size_t n = 0;

	for (; entry; entry = state_volume_next(entry)) {
		if (!all && (!str_eq(entry->volume.namespace, namespace) ||
			     !str_starts_with(entry->volume.id, prefix)))
			break; /* in order: nothing that matches follows */
		if (!str_starts_with(entry->volume.id, prefix))
			continue;
		if (list)
			list[n] = volume_view(server, entry, false);
		if (!list || list[n])
			n++;
	}
	return n;
}

static enum status handle_list(struct server *server, struct rpc_call *call,
			       const Holdfast__V1__ListVolumesRequest *request, struct error *err)
{
	const char *namespace = or_default(request->namespace_);
	Holdfast__V1__ListVolumesResponse *response;

	response = calloc(1, sizeof(*response));
	if (!response)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	holdfast__v1__list_volumes_response__init(response);
	response->volumes = calloc(list_volumes(server, namespace, request->prefix, NULL) + 1,
				   sizeof(Holdfast__V1__Volume *));
	if (response->volumes)
		response->n_volumes = list_volumes(server, namespace, request->prefix, response->volumes);
	response->index = kv_revision(server->kv);
	reply_durable(server, call, &response->base);
	return STATUS_OK;
}

DEFINE_OPERATOR_METHOD(volumes_handle_list, Holdfast__V1__ListVolumesRequest, handle_list)

static void on_deregistered(struct server *server, void *userdata)
{
	cleanup_free struct waiting *waiting = userdata;
	Holdfast__V1__DeregisterVolumeResponse response = HOLDFAST__V1__DEREGISTER_VOLUME_RESPONSE__INIT;

	(void)server;
	rpc_call_reply(waiting->call, &response.base);
}

static enum status refuse_in_use(struct server *server, struct volume_entry *entry, struct error *err)
{
	cleanup_free char *why = volume_why(server, entry);

	if (why)
		why[strcspn(why, "\n")] = '\0';
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "volume %s is claimed (live claims: %zu; the newest: %s)", entry->volume.id,
			 entry->n_live, why ? why : "(out of memory)");
}

static enum status handle_deregister(struct server *server, struct rpc_call *call,
				     const Holdfast__V1__DeregisterVolumeRequest *request, struct error *err)
{
	const char *namespace = or_default(request->namespace_);
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume_entry *entry;
	struct claim_entry *claim;

	entry = state_volume(&server->state, namespace, request->id);
	if (!entry)
		return no_such_volume(namespace, request->id, err);
	if (entry->n_live > 0)
		return refuse_in_use(server, entry, err);
	LIST_FOREACH (claim, &entry->claims, of_volume)
		change_delete_claim(&change, &claim->claim);
	change_delete_volume(&change, &entry->volume);
	if (entry->volume.generation > state_generation_floor(&server->state))
		change_put_floor(&change, entry->volume.generation);
	log_ctx(LOG_NOTICE, &(struct log_ctx){.volume = entry->volume.id, .op = "deregister"},
		"deregistered from namespace %s", namespace);
	return change_commit_taking(server, &change, on_deregistered, waiting_new(call, &entry->volume), err);
}

DEFINE_OPERATOR_METHOD(volumes_handle_deregister, Holdfast__V1__DeregisterVolumeRequest, handle_deregister)

static void on_detached(struct server *server, void *userdata)
{
	cleanup_free struct waiting *waiting = userdata;
	struct volume_entry *entry = state_volume(&server->state, waiting->namespace, waiting->id);
	Holdfast__V1__DetachVolumeResponse *response = calloc(1, sizeof(*response));
	struct claim_entry *claim;
	size_t n = 0;

	if (!response) {
		reply_error(waiting->call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	holdfast__v1__detach_volume_response__init(response);
	if (entry)
		LIST_FOREACH (claim, &entry->claims, of_volume)
			n++;
	response->claims = calloc(n + 1, sizeof(Holdfast__V1__Claim *));
	if (entry && response->claims) {
		LIST_FOREACH (claim, &entry->claims, of_volume) {
			if (!str_eq(claim->claim.node_id, waiting->node_id))
				continue;
			claims_drive(server, claim);
			response->claims[response->n_claims] = claim_to_pb(&claim->claim);
			if (!response->claims[response->n_claims])
				break;
			response->n_claims++;
		}
	}
	reply_durable(server, waiting->call, &response->base);
}

static bool is_held_by(const struct claim_entry *entry, const struct node_entry *node)
{
	return claim_is_live(&entry->claim) && str_eq(entry->claim.node_id, node->node.id);
}

static enum status refuse_working(struct server *server, const struct claim *claim, struct error *err)
{
	struct holder holder = claim_holder(server, claim);
	char why[EXPLAIN_SIZE];

	return error_set(err, STATUS_FAILED_PRECONDITION, 0, "volume %s is in use: %s", claim->volume_id,
			 explain_claim(claim, &holder, clock_realtime_ms(), why));
}

static enum status detach_all(struct server *server, struct volume_entry *volume,
			      const struct node_entry *node, struct error *err)
{
	const struct claim *working = NULL;
	struct claim_entry *entry;
	size_t n = 0;

	LIST_FOREACH (entry, &volume->claims, of_volume) {
		if (!is_held_by(entry, node))
			continue;
		n++;
		if (entry->claim.state < CLAIM_UNPUBLISHING)
			working = &entry->claim;
	}
	if (n == 0)
		return error_set(err, STATUS_NOT_FOUND, 0, "node %s holds no claim of volume %s",
				 node->node.id, volume->volume.id);
	/* else only what is being released is driven: on_detached() does */
	return working ? refuse_working(server, working, err) : STATUS_OK;
}

static enum status check_detach(const Holdfast__V1__DetachVolumeRequest *request,
				const struct node_entry *node, struct error *err)
{
	if (!node)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "there is no node %.64s; holdfast node status lists them", request->node_id);
	if (request->attest_reason[0] != '\0' && node_is_connected(node))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"node %s is connected and can give its own receipt; an operator's word is for nodes "
			"that cannot answer",
			node->node.id);
	return STATUS_OK;
}

static enum status handle_detach(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__DetachVolumeRequest *request, struct error *err)
{
	const char *namespace = or_default(request->namespace_);
	struct node_entry *node = state_node(&server->state, request->node_id);
	struct volume_entry *entry = state_volume(&server->state, namespace, request->id);
	cleanup(change_release) struct change nothing = CHANGE_INIT; /* durable after all the others */
	struct waiting *waiting;
	enum status st = access_check(server, call, ACCESS_VOLUME_WRITE, namespace, err);

	if (st != STATUS_OK)
		return st;
	if (!entry)
		return no_such_volume(namespace, request->id, err);
	st = check_detach(request, node, err);
	if (st != STATUS_OK)
		return st;
	st = request->attest_reason[0] != '\0'
		     ? attest_volume(server, call, "Volumes.Detach", node, entry, request->attest_reason, err)
		     : detach_all(server, entry, node, err);
	if (st != STATUS_OK)
		return st;
	waiting = waiting_new(call, &entry->volume);
	if (waiting)
		(void)str_copy(waiting->node_id, sizeof(waiting->node_id), node->node.id);
	return change_commit_taking(server, &nothing, on_detached, waiting, err);
}

DEFINE_OPERATOR_METHOD(volumes_handle_detach, Holdfast__V1__DetachVolumeRequest, handle_detach)
