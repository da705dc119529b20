/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "base/cleanup.h"
#include "recovery/epoch.h"
#include "state/change.h"
#include "volume/call.h"
#include "volume/identity.h"
#include "volume/phase.h"
#include "volume/store.h"
#include "volume/view.h"
#include "volume/volumes.h"
#include "volume/why.h"
#include "volume/work.h"

#include <holdfast/v1/volumes.pb-c.h>
#include <stdlib.h>

/* Delete and Expand: checked, stored, then carried out at the provider by volume_work. */

#define DELETE "Volumes.Delete"
#define EXPAND "Volumes.Expand"

static void answer_deleted(struct server *server, struct rpc_call *call, const char *namespace,
			   const char *id, const struct error *err)
{
	Holdfast__V1__DeleteVolumeResponse response = HOLDFAST__V1__DELETE_VOLUME_RESPONSE__INIT;

	if (err)
		answer_refused(server, call, DELETE, err);
	else
		rpc_call_reply(call, &response.base);
}

static void on_deleting(struct server *server, void *userdata)
{
	cleanup_free struct volumes_waiting *waiting = userdata;

	volume_work_start(server, waiting->namespace, waiting->id, waiting->call, answer_deleted);
}

static void answer_expanded(struct server *server, struct rpc_call *call, const char *namespace,
			    const char *id, const struct error *err)
{
	Holdfast__V1__ExpandVolumeResponse response = HOLDFAST__V1__EXPAND_VOLUME_RESPONSE__INIT;
	struct volume_entry *entry = err ? NULL : state_volume(&server->state, namespace, id);

	if (err) {
		answer_refused(server, call, EXPAND, err);
		return;
	}
	response.volume = entry ? volume_view(server, entry, false, NULL) : NULL;
	if (response.volume)
		rpc_call_reply(call, &response.base);
	else
		answer_error(call, STATUS_ABORTED, "the volume was deregistered meanwhile");
	holdfast__v1__volume__free_unpacked(response.volume, NULL);
}

static void on_expanding(struct server *server, void *userdata)
{
	cleanup_free struct volumes_waiting *waiting = userdata;

	volume_work_start(server, waiting->namespace, waiting->id, waiting->call, answer_expanded);
}

static enum status check_csi(const struct volume *volume, const char *what, const char *instead,
			     struct error *err)
{
	if (volume->type == VOLUME_CSI)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "volume %s is native: it has no provider that could %s it; %s", volume->id, what,
			 instead);
}

static enum status overlay_secrets(struct volume_parts *parts, struct message_text_entry *const *secrets,
				   size_t n, struct error *err)
{
	TRY(volume_secrets_take(parts->secrets, secrets, n, err));
	/* both together have the same bounds: they are stored, so that a server after this one can continue
	 */
	return volume_check_map("secrets", VOLUME_MAP(parts->secrets->secrets), parts->secrets->n_secrets,
				err);
}

/* Is the volume still as the caller has read it? */
static enum status check_asked(const struct volume *volume, const Holdfast__V1__VolumeDetail *detail,
			       const Holdfast__V1__DeleteVolumeRequest *request, struct error *err)
{
	bool is_kept = !detail->plain || detail->plain->reclaim != HOLDFAST__V1__RECLAIM__RECLAIM_DELETE;

	TRY(volume_check_same(volume, request->if_create_index, err));
	if (!request->if_reclaimed || !is_kept)
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"volume %s has changed since it was read: its data is kept (reclaim). Next: holdfast "
		"volume status %s%s%s",
		volume->id, volume->id, NAMESPACE_OPTION(volume->namespace));
}

static enum status check_deletable(struct server *server, const struct rpc_call *call,
				   struct volume_entry *entry, const Holdfast__V1__VolumeDetail *detail,
				   const Holdfast__V1__DeleteVolumeRequest *request, struct error *err)
{
	const struct volume *volume = &entry->volume;
	char name[VOLUME_PROVIDER_NAME_SIZE];
	enum status status = check_asked(volume, detail, request, err);

	if (status == STATUS_OK)
		status = check_csi(volume, "delete", "forget it with holdfast volume deregister", err);
	if (status == STATUS_OK)
		status = volume_check_registered(volume, err);
	/* before the provider is asked; a volume in phase deleting cannot be claimed */
	if (status == STATUS_OK)
		status = volume_check_unused(server, entry, err);
	if (status == STATUS_OK) /* claims that a restored server has lost count, too */
		status = epoch_check(server, volume, err);
	if (status == STATUS_OK)
		status = identity_check_alone(server, call, entry, err);
	if (status == STATUS_OK)
		status = identity_check_delete(server, call, entry, err);
	if (status == STATUS_OK && detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"volume %s is not known to exist at its provider yet%s%.256s; finish it with "
			"holdfast volume create, or forget it with holdfast volume deregister %s%s%s, and "
			"look at the provider for one named %s",
			volume->id, detail->phase_error[0] != '\0' ? ": " : "", detail->phase_error,
			volume->id, NAMESPACE_OPTION(volume->namespace),
			volume_provider_name(server, volume, detail, name));
	return status == STATUS_OK ? volume_check_ability(server, volume->plugin_id, &VOLUME_CAN_CREATE, err)
				   : status;
}

static enum status provider_begin(struct volume_parts *parts, Holdfast__V1__VolumePhase phase,
				  struct error *err)
{
	if (parts->detail->phase == phase || volume_phase_begin(parts->detail, phase))
		return STATUS_OK;
	return error_no_memory(err, "a volume");
}

static enum status store_and_work(struct server *server, struct rpc_call *call, struct volume_parts *parts,
				  const char *what, change_done_fn *done, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[VOLUME_OBJECT_SIZE];

	volume_store_stage(server, &change, parts);
	audit_write(server, &change, call, what, volume_object(&parts->volume, object), NULL);
	return change_commit_taking(server, &change, done, volumes_waiting_new(call, &parts->volume), err);
}

static enum status handle_delete(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__DeleteVolumeRequest *request, struct error *err)
{
	cleanup(volume_parts_release) struct volume_parts parts = VOLUME_PARTS_INIT;
	const char *namespace = namespace_or_default(request->namespace_);
	struct volume_entry *entry;

	TRY(volume_store_find(server, namespace, request->id, &entry, err));
	TRY(volume_store_load(server, entry, &parts, err));
	TRY(check_deletable(server, call, entry, parts.detail, request, err));
	TRY(identity_check_parameters(server, call, parts.volume.plugin_id, parts.volume.namespace,
				      PARAMETERS_SECRETS, VOLUME_MAP(request->secrets), request->n_secrets,
				      err));
	TRY(overlay_secrets(&parts, VOLUME_MAP(request->secrets), request->n_secrets, err));
	TRY(provider_begin(&parts, HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING, err));
	return store_and_work(server, call, &parts, DELETE, on_deleting, err);
}

DEFINE_WRITE_METHOD(volumes_handle_delete, Holdfast__V1__DeleteVolumeRequest, DELETE, handle_delete)

static enum status check_expandable(struct server *server, const struct volume_parts *parts,
				    struct error *err)
{
	TRY(check_csi(&parts->volume, "expand", "grow its source and the file system on the node", err));
	TRY(volume_check_registered(&parts->volume, err));
	TRY(volume_store_check_usable(server, &parts->volume, err));
	return volume_check_ability(server, parts->volume.plugin_id, &VOLUME_CAN_EXPAND, err);
}

static enum status resize(struct volume_parts *parts, const Holdfast__V1__ExpandVolumeRequest *request,
			  struct error *err)
{
	bool changed;

	if (request->capacity_min == 0 && request->capacity_max == 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "capacity_min: missing: the smallest size of the volume");
	return volume_detail_resize(parts->detail, request->capacity_min, request->capacity_max, &changed,
				    err);
}

static enum status handle_expand(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__ExpandVolumeRequest *request, struct error *err)
{
	cleanup(volume_parts_release) struct volume_parts parts = VOLUME_PARTS_INIT;
	const char *namespace = namespace_or_default(request->namespace_);
	struct volume_entry *entry;

	TRY(volume_store_find(server, namespace, request->id, &entry, err));
	TRY(volume_store_load(server, entry, &parts, err));
	TRY(check_expandable(server, &parts, err));
	TRY(resize(&parts, request, err));
	TRY(identity_check_parameters(server, call, parts.volume.plugin_id, parts.volume.namespace,
				      PARAMETERS_SECRETS, VOLUME_MAP(request->secrets), request->n_secrets,
				      err));
	TRY(overlay_secrets(&parts, VOLUME_MAP(request->secrets), request->n_secrets, err));
	/* at its provider it is large enough: the nodes may be behind */
	if (parts.detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY &&
	    parts.detail->capacity >= parts.detail->capacity_min && volume_phase_may_be_behind(entry) &&
	    !volume_phase_all_behind(parts.detail, entry))
		return error_no_memory(err, "a volume");
	TRY(provider_begin(&parts, HOLDFAST__V1__VOLUME_PHASE__VOLUME_EXPANDING, err));
	return store_and_work(server, call, &parts, EXPAND, on_expanding, err);
}

DEFINE_WRITE_METHOD(volumes_handle_expand, Holdfast__V1__ExpandVolumeRequest, EXPAND, handle_expand)
