/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/volumes.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "alloc/allocs.h"
#include "api/watch.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "claim/claims.h"
#include "log/log.h"
#include "recovery/epoch.h"
#include "state/keys.h"
#include "volume/identity.h"
#include "volume/snapshots.h"
#include "volume/store.h"
#include "volume/view.h"
#include "volume/why.h"

#include <holdfast/v1/volumes.pb-c.h>
#include <stdlib.h>
#include <string.h>

struct volumes_waiting *volumes_waiting_new(struct rpc_call *call, const struct volume *volume)
{
	struct volumes_waiting *waiting = calloc(1, sizeof(*waiting));

	if (!waiting)
		return NULL;
	waiting->call = call;
	memcpy(waiting->namespace, volume->namespace, sizeof(waiting->namespace));
	memcpy(waiting->id, volume->id, sizeof(waiting->id));
	return waiting;
}

static const Holdfast__V1__GetVolumeRequest *get_request(const ProtobufCMessage *request)
{
	return (const Holdfast__V1__GetVolumeRequest *)(const void *)request;
}

static void name_get(const ProtobufCMessage *request, char ret[static OBJECT_KEY_SIZE])
{
	/* one that does not fit is an empty name, under which nothing ever changes */
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_VOLUME "%s/%s",
			 namespace_or_default(get_request(request)->namespace_), get_request(request)->id);
}

static uint64_t index_get(struct server *server, const ProtobufCMessage *request)
{
	const Holdfast__V1__GetVolumeRequest *get = get_request(request);
	struct volume_entry *entry =
		state_volume(&server->state, namespace_or_default(get->namespace_), get->id);

	return entry ? volume_store_index(server, entry) : UINT64_MAX;
}

/* Adds the allocations that wait for it. False when memory is short; the response owns the ids. */
static bool add_pending(struct server *server, const struct volume_entry *entry,
			Holdfast__V1__GetVolumeResponse *response)
{
	size_t n;
	cleanup_free struct alloc_entry **list = pending_of_volume(server, entry->namespace, entry->id, &n);
	bool is_whole = list != NULL;

	response->pending = calloc(n + 1, sizeof(char *));
	for (size_t i = 0; is_whole && i < n; i++) {
		char *id = response->pending ? strdup(list[i]->id) : NULL;

		is_whole = id != NULL;
		if (id)
			response->pending[response->n_pending++] = id;
	}
	return is_whole && response->pending;
}

static enum status handle_get(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
			      struct error *err)
{
	const Holdfast__V1__GetVolumeRequest *get = get_request(request);
	Holdfast__V1__GetVolumeResponse *response;
	struct volume_entry *entry;

	TRY(volume_store_find(server, namespace_or_default(get->namespace_), get->id, &entry, err));
	response = calloc(1, sizeof(*response));
	if (!response)
		return error_no_memory(err, "a volume");
	holdfast__v1__get_volume_response__init(response);
	response->index = volume_store_index(server, entry);
	response->volume = volume_view(server, entry, true, NULL);
	if (!response->volume || !add_pending(server, entry, response) ||
	    (get->why && !volume_explain(server, call, entry, response))) {
		protobuf_c_message_free_unpacked(&response->base, NULL);
		return error_no_memory(err, "a volume");
	}
	claims_hide_boots(server, call, response->volume->claims, response->volume->n_claims);
	answer_durable(server, call, &response->base);
	return STATUS_OK;
}

static const struct read_method get_method = {
	.handle = handle_get,
	.name = name_get,
	.index = index_get,
};

DEFINE_READ_METHOD(volumes_handle_get, get_method)

static void on_deregistered(struct server *server, void *userdata)
{
	cleanup_free struct volumes_waiting *waiting = userdata;
	Holdfast__V1__DeregisterVolumeResponse response = HOLDFAST__V1__DEREGISTER_VOLUME_RESPONSE__INIT;

	if (waiting->left_at_provider[0] != '\0')
		response.left_at_provider = waiting->left_at_provider;
	rpc_call_reply(waiting->call, &response.base);
}

static enum status handle_deregister(struct server *server, struct rpc_call *call,
				     const Holdfast__V1__DeregisterVolumeRequest *request, struct error *err)
{
	const char *namespace = namespace_or_default(request->namespace_);
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[VOLUME_OBJECT_SIZE];
	struct volumes_waiting *waiting;
	struct volume_entry *entry;

	TRY(volume_store_find(server, namespace, request->id, &entry, err));
	TRY(volume_check_same(&entry->volume, request->if_create_index, err));
	TRY(volume_check_unused(server, entry, err));
	TRY(epoch_check(server, &entry->volume, err)); /* no node that a restored server forgot uses it */
	TRY(volume_work_check_idle(server, &entry->volume, err));
	TRY(identity_check_forget(server, call, entry, err));
	waiting = volumes_waiting_new(call, &entry->volume);
	if (waiting && volume_is_creating(server, &entry->volume))
		(void)volume_provider_name(server, &entry->volume, volume_detail_of(server, &entry->volume),
					   waiting->left_at_provider);
	snapshots_forget_unmade(server, &change, &entry->volume);
	volume_store_stage_deletion(server, &change, entry);
	audit_about(server, &change, call, "Volumes.Deregister", volume_object(&entry->volume, object), NULL,
		    &(struct log_ctx){.volume = entry->volume.id, .op = "deregister"});
	return change_commit_taking(server, &change, on_deregistered, waiting, err);
}

DEFINE_WRITE_METHOD(volumes_handle_deregister, Holdfast__V1__DeregisterVolumeRequest, "Volumes.Deregister",
		    handle_deregister)
