/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/claim_call.h"

#include "alloc/claim_details.h"
#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "model/pb.h"
#include "model/storage.h"
#include "model/volume_detail.h"

#include <errno.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <stdlib.h>
#include <string.h>

struct claim_call {
	struct claim_request request;
	struct rpc_pending *pending;
	claim_done_fn *done;
	void *userdata;
};

static enum status unusable(const struct claim_request *request, const char *what, struct error *err)
{
	return error_set(err, STATUS_INTERNAL, 0,
			 "the server's grant of volume %s to allocation %s cannot be used: %s",
			 request->alloc->volumes[request->volume].source, request->alloc->id, what);
}

static enum status check_native(const struct claim_request *request, const struct claim_grant *grant,
				struct error *err)
{
	if (!id_is_label(grant->volume.profile))
		return unusable(request, "its profile's name is malformed", err);
	return STATUS_OK;
}

/* Checks the modes of the grant: they select the plugin's request and the target that is published. */
static enum status check_csi(const struct claim_request *request, const struct claim_grant *grant,
			     struct error *err)
{
	const struct volume_request *wanted = &request->alloc->volumes[request->volume];

	if (!id_is_plugin(grant->volume.plugin_id))
		return unusable(request, "its plugin's id is malformed", err);
	if (!str_eq(grant->claim.plugin_id, grant->volume.plugin_id))
		return unusable(request, "its claim and its volume name different plugins", err);
	if (grant->claim.mode != volume_request_mode(wanted))
		return unusable(request, "it is for another claim mode", err);
	if (grant->claim.access_mode != wanted->access_mode)
		return unusable(request, "it is for another access mode", err);
	return STATUS_OK;
}

/* Is it what was asked for? A mix-up must not become a mount. */
static enum status check_grant(const struct claim_request *request, const struct claim_grant *grant,
			       struct error *err)
{
	const struct volume_request *wanted = &request->alloc->volumes[request->volume];

	if (!id_is_uuid(grant->claim.id))
		return unusable(request, "its id is not a UUID", err);
	if (!str_eq(grant->claim.allocation_id, request->alloc->id))
		return unusable(request, "it is for another allocation", err);
	if (!str_eq(grant->volume.id, wanted->source))
		return unusable(request, "it is for another volume", err);
	if (!str_eq(grant->claim.node_id, request->node_id))
		return unusable(request, "it is for another node", err);
	if (!str_eq(grant->claim.boot_id, request->boot_id))
		return unusable(request, "it is for another boot of this node", err);
	if (grant->claim.attachment_mode != wanted->attachment_mode)
		return unusable(request,
				wanted->attachment_mode == ATTACHMENT_BLOCK_DEVICE
					? "it is not for a block device"
					: "it is for a block device, a file system was asked for",
				err);
	if (!id_is_label(grant->wire_volume))
		return unusable(request, "its name towards the mount helper is malformed", err);
	if (grant->volume.type == VOLUME_CSI)
		return check_csi(request, grant, err);
	if (grant->volume.type == VOLUME_NATIVE)
		return check_native(request, grant, err);
	return unusable(request, "its volume is of a type that this agent does not know", err);
}

static enum status refuse_ticket(const struct claim_request *request, const ProtobufCBinaryData *ticket,
				 struct error *err)
{
	unsigned int version = ticket_version(ticket->data, ticket->len);
	char what[128];

	(void)str_format(what, sizeof(what),
			 "its ticket has version %u, this agent knows version %d. Next: upgrade %s", version,
			 TICKET_VERSION, version > TICKET_VERSION ? "this node" : "the claim server");
	return unusable(request, what, err);
}

static enum status handle_response(const struct claim_request *request,
				   const Holdfast__V1__ClaimVolumeResponse *pb, struct claim_grant *ret,
				   struct error *err)
{
	enum status status;

	if (!pb->claim || !pb->volume)
		return unusable(request, "it has no claim or no volume", err);
	status = claim_from_pb(pb->claim, &ret->claim, err);
	if (status == STATUS_OK)
		status = volume_from_pb(pb->volume, &ret->volume, err);
	if (status != STATUS_OK)
		return unusable(request, err->msg, err);
	if (str_copy(ret->wire_volume, sizeof(ret->wire_volume), pb->wire_volume) < 0)
		return unusable(request, "its name towards the mount helper is too long", err);
	if (pb->ticket.len != 0 && !ticket_is_current(pb->ticket.data, pb->ticket.len))
		return refuse_ticket(request, &pb->ticket, err);
	ret->mark = pb->mark;
	ret->has_ticket = pb->ticket.len != 0;
	if (ret->has_ticket)
		memcpy(&ret->ticket, pb->ticket.data, sizeof(ret->ticket));
	if (ret->volume.external_id[0] == '\0')
		(void)str_copy(ret->volume.external_id, sizeof(ret->volume.external_id), ret->volume.id);
	status = check_grant(request, ret, err);
	if (status != STATUS_OK || ret->volume.type != VOLUME_CSI)
		return status;
	storage_context_digest(VOLUME_MAP(pb->volume->context), pb->volume->n_context,
			       ret->volume.context_digest);
	status = claim_details_new(pb, &ret->details, err);
	return status == STATUS_OK ? STATUS_OK : unusable(request, err->msg, err);
}

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	struct claim_call *call = userdata;
	const struct claim_request request = call->request;
	claim_done_fn *done = call->done;
	void *done_userdata = call->userdata;
	struct claim_grant grant = {0};
	struct error failure;

	free(call);
	if (status == STATUS_OK)
		status = handle_response(&request,
					 (const Holdfast__V1__ClaimVolumeResponse *)(const void *)response,
					 &grant, &failure);
	else
		failure = *err;
	if (status == STATUS_OK)
		done(&grant, NULL, done_userdata);
	else
		done(NULL, &failure, done_userdata);
	secret_message_unref(grant.details);
}

enum status claim_call_start(struct rpc_client *client, const struct claim_request *request,
			     claim_done_fn *done, void *userdata, struct claim_call **ret, struct error *err)
{
	const struct volume_request *wanted = &request->alloc->volumes[request->volume];
	Holdfast__V1__ClaimVolumeRequest pb = HOLDFAST__V1__CLAIM_VOLUME_REQUEST__INIT;
	struct volume_request names = *wanted; /* protobuf-c wants writable strings */
	struct claim_call *call = calloc(1, sizeof(*call));
	char namespace[NAMESPACE_MAX + 1];
	char alloc_id[UUID_TEXT_SIZE];
	enum status status;

	if (!call)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot claim volume %s",
				 wanted->source);
	*call = (struct claim_call){.request = *request, .done = done, .userdata = userdata};
	memcpy(namespace, request->alloc->namespace, sizeof(namespace));
	memcpy(alloc_id, request->alloc->id, sizeof(alloc_id));
	pb.volume_id = names.source;
	pb.namespace_ = namespace;
	pb.allocation_id = alloc_id;
	pb.volume_name = names.name;
	status = rpc_client_call(client, &holdfast__v1__volumes__descriptor, "Claim", &pb.base,
				 request->timeout_us, on_done, call, &call->pending, err);
	if (status != STATUS_OK) {
		free(call);
		return status;
	}
	*ret = call;
	return STATUS_OK;
}

void claim_call_cancel(struct claim_call *call)
{
	if (!call)
		return;
	rpc_pending_cancel(call->pending);
	free(call);
}

bool claim_error_is_passing(enum status status)
{
	switch (status) {
	case STATUS_UNAVAILABLE:
	case STATUS_DEADLINE_EXCEEDED:
	case STATUS_ABORTED:
	case STATUS_CANCELLED:
	case STATUS_UNKNOWN: /* the leader was lost behind the server that was asked: asking again is safe */
	/* of a provider: this node has as many volumes attached as it can have, until another is detached; of
	 * the server: it is short of something now */
	case STATUS_RESOURCE_EXHAUSTED:
		return true;
	case STATUS_OK:
	case STATUS_INVALID_ARGUMENT:
	case STATUS_NOT_FOUND:
	case STATUS_ALREADY_EXISTS:
	case STATUS_PERMISSION_DENIED:
	case STATUS_FAILED_PRECONDITION:
	case STATUS_OUT_OF_RANGE:
	case STATUS_UNIMPLEMENTED:
	case STATUS_INTERNAL:
	case STATUS_DATA_LOSS:
	case STATUS_UNAUTHENTICATED:
	case STATUS_N:
		break;
	}
	return false;
}
