/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "recovery/epoch.h"
#include "volume/call.h"
#include "volume/phase.h"
#include "volume/volumes.h"
#include "volume/work_internal.h"

#include <stdlib.h>
#include <string.h>

static bool take_created(struct volume_work *work, struct volume_parts *parts,
			 const Holdfast__V1__PluginReply *reply)
{
	const Holdfast__V1__ControllerCreateResponse *made = reply->create;

	(void)work;
	if (str_copy(parts->volume.external_id, sizeof(parts->volume.external_id), made->external_id) < 0)
		return false;
	return volume_phase_created(parts->detail, made);
}

static void on_created(struct server *server, const Holdfast__V1__PluginReply *reply, const struct error *err,
		       void *userdata)
{
	struct error bad;

	(void)server;
	if (!err && reply->create &&
	    volume_check_map("context", VOLUME_MAP(reply->create->context), reply->create->n_context, &bad) !=
		    STATUS_OK) {
		(void)error_prefix(&bad, "the plugin made the volume with what cannot be kept");
		bad.status = STATUS_INTERNAL; /* it is made: this must not read as a refusal */
		err = &bad;
	}
	if (!err && (!reply->create || reply->create->external_id[0] == '\0' ||
		     strlen(reply->create->external_id) > EXTERNAL_ID_MAX)) {
		(void)error_set(
			&bad, STATUS_INTERNAL, 0,
			"the plugin made the volume but named it with no id, or one of more than %d bytes",
			EXTERNAL_ID_MAX);
		err = &bad;
	}
	volume_work_take_reply(userdata, reply, err, "Volumes.Create", take_created);
}

static bool take_expanded(struct volume_work *work, struct volume_parts *parts,
			  const Holdfast__V1__PluginReply *reply)
{
	return volume_phase_expanded(parts->detail, volume_work_entry(work), reply->expand);
}

static void on_expanded(struct server *server, const Holdfast__V1__PluginReply *reply,
			const struct error *err, void *userdata)
{
	struct error bad;

	(void)server;
	if (!err && !reply->expand) {
		(void)error_set(&bad, STATUS_INTERNAL, 0, "the plugin gave no answer to expand");
		err = &bad;
	}
	volume_work_take_reply(userdata, reply, err, "Volumes.Expand", take_expanded);
}

static void on_deleted(struct server *server, const Holdfast__V1__PluginReply *reply, const struct error *err,
		       void *userdata)
{
	struct volume_work *work = userdata;
	bool is_gone = !err || err->status == STATUS_NOT_FOUND;
	struct error in_use;

	(void)reply;
	if (!is_gone) {
		volume_work_take_reply(work, NULL, err, NULL, NULL);
		return;
	}
	if (!volume_work_entry(work)) {
		volume_work_end(work, NULL);
		return;
	}
	if (volumes_check_unused(server, volume_work_entry(work), &work->error) != STATUS_OK) {
		/* learned from a node meanwhile: its claims are kept, to be released as any */
		in_use = work->error;
		(void)error_prefix(&in_use, "deleted at its provider although it is in use");
		volume_work_take_reply(work, NULL, &in_use, NULL, NULL);
		return;
	}
	volume_work_forget(work, "Volumes.Delete",
			   err ? "the provider has no such volume" : "deleted at its provider");
}

/* Node whose file system was asked for, in a call's userdata. */
struct node_call {
	struct volume_work *work;
	char node_id[NODE_ID_MAX + 1];
};

static void node_failed(struct volume_work *work, const struct volume_parts *parts, const char *node_id,
			const struct error *err)
{
	work->node_failed = true;
	work->error = *err;
	(void)error_prefix(
		&work->error,
		"volume %s has %llu bytes at its provider, but its file system on node %s is behind",
		work->id, (unsigned long long)parts->detail->capacity, node_id);
}

static void on_node_expanded(struct server *server, const Holdfast__V1__PluginReply *reply,
			     const struct error *err, void *userdata)
{
	cleanup(volume_parts_release) struct volume_parts parts = VOLUME_PARTS_INIT;
	cleanup_free struct node_call *call = userdata;
	struct volume_work *work = call->work;

	(void)server;
	if (!volume_work_load(work, &parts))
		return;
	if (err && err->status != STATUS_NOT_FOUND) {
		node_failed(work, &parts, call->node_id, err);
		volume_work_step(work);
		return;
	}
	if (err) /* not found: not there any more, so there is nothing to expand */
		volume_phase_node_done(parts.detail, call->node_id, 0);
	else
		volume_phase_node_expanded(parts.detail, call->node_id,
					   reply->node_expand ? reply->node_expand->bytes : 0);
	volume_work_store(work, &parts, NULL, NULL, volume_work_on_stored);
}

static enum status ask_node(struct volume_work *work, struct volume_parts *parts, const struct claim *claim,
			    struct error *err)
{
	struct node_call *call = calloc(1, sizeof(*call));
	enum status st;

	if (!call)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	call->work = work;
	(void)str_copy(call->node_id, sizeof(call->node_id), claim->node_id);
	st = volume_call_node_expand(work->server, parts, claim, on_node_expanded, call, err);
	if (st != STATUS_OK)
		free(call);
	return st;
}

/* A node that cannot be asked delays no other one. */
static bool ask_next_node(struct volume_work *work, struct volume_parts *parts)
{
	struct volume_entry *entry = volume_work_entry(work);
	const struct claim *claim;
	struct error err;

	while ((claim = volume_phase_next_node(parts->detail, entry, work->after))) {
		(void)str_copy(work->after, sizeof(work->after), claim->node_id);
		if (ask_node(work, parts, claim, &err) == STATUS_OK)
			return true;
		node_failed(work, parts, claim->node_id, &err);
	}
	return false;
}

static enum status step_expanding(struct volume_work *work, struct volume_parts *parts, bool *ret_asked,
				  struct error *err)
{
	struct capability used;
	bool is_used = volume_phase_used_as(volume_work_entry(work), &used);

	*ret_asked = true;
	if (parts->detail->capacity < parts->detail->capacity_min)
		return volume_call_expand(work->server, parts, is_used ? &used : NULL, on_expanded, work,
					  err);
	*ret_asked = ask_next_node(work, parts);
	if (!*ret_asked && !work->node_failed &&
	    volume_phase_add_mounted(parts->detail, volume_work_entry(work))) {
		work->after[0] = '\0';
		*ret_asked = true;
		volume_work_store(work, parts, NULL, NULL, volume_work_on_stored);
	}
	return STATUS_OK;
}

/* A server that was restored may carry on an old deletion: nothing is deleted that may be in use by now. */
static enum status step_deleting(struct volume_work *work, struct volume_parts *parts, struct error *err)
{
	enum status st = epoch_check(work->server, &parts->volume, err);

	return st == STATUS_OK ? volume_call_delete(work->server, parts, on_deleted, work, err) : st;
}

/* Everything the phase asks for has been done, or failed where only nodes are behind. */
static void finish(struct volume_work *work, struct volume_parts *parts)
{
	volume_phase_drop_unused(parts->detail, volume_work_entry(work));
	if (work->node_failed) {
		volume_work_failed(work, parts, true);
		return;
	}
	if (volume_phase_end(parts->detail, NULL))
		volume_work_store(work, parts, NULL, NULL, volume_work_on_done);
	else
		volume_work_retry(work);
}

static enum status step(struct volume_work *work, struct volume_parts *parts, bool *ret_asked,
			struct error *err)
{
	char name[VOLUME_PROVIDER_NAME_SIZE];

	*ret_asked = true;
	switch (parts->detail->phase) {
	case HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING:
		return volume_call_create(work->server, parts,
					  volume_provider_name(work->server, &parts->volume, name),
					  on_created, work, err);
	case HOLDFAST__V1__VOLUME_PHASE__VOLUME_EXPANDING:
		return step_expanding(work, parts, ret_asked, err);
	case HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING:
		return step_deleting(work, parts, err);
	case HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY:
	case _HOLDFAST__V1__VOLUME_PHASE_IS_INT_SIZE:
		break;
	}
	*ret_asked = false;
	return STATUS_OK;
}

/* Do the next thing that the stored phase asks for. */
void volume_work_step(struct volume_work *work)
{
	cleanup(volume_parts_release) struct volume_parts parts = VOLUME_PARTS_INIT;
	struct error err;
	bool asked;

	work->is_busy = true;
	if (!volume_work_load(work, &parts))
		return;
	if (parts.detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY) {
		work->is_busy = false;
		volume_work_end(work, NULL);
		return;
	}
	if (parts.detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING &&
	    volumes_check_unused(work->server, volume_work_entry(work), &work->error) != STATUS_OK) {
		volume_work_failed(work, &parts, false); /* and that ends it */
		return;
	}
	if (step(work, &parts, &asked, &err) != STATUS_OK) {
		/* the code is this server's, not the provider's: only what cannot be put in a call ends it */
		if (err.status != STATUS_INVALID_ARGUMENT)
			err.status = STATUS_UNAVAILABLE;
		work->error = err;
		volume_work_failed(work, &parts, false);
		return;
	}
	if (!asked)
		finish(work, &parts);
}
