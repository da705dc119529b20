/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/snapshots.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/join.h"
#include "base/str.h"
#include "model/message.h"
#include "state/keys.h"
#include "volume/call.h"
#include "volume/identity.h"
#include "volume/limits.h"
#include "volume/phase.h"
#include "volume/store.h"

#include <assert.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <stdlib.h>
#include <string.h>

#define CREATE "Volumes.CreateSnapshot"
#define DELETE "Volumes.DeleteSnapshot"

enum {
	CLUSTER_IN_NAME = 40,
	OBJECT_NAME_SIZE = PLUGIN_ID_MAX + EXTERNAL_ID_MAX + 16, /* "snapshot PLUGIN/NAME" */
	WHY_SIZE = SNAPSHOT_NAME_MAX + EXTERNAL_ID_MAX + 16,
};

void snapshots_key(const char *plugin_id, const char *namespace, const char *name,
		   char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_SNAPSHOT "%s/%s/%s", plugin_id, namespace, name);
}

/* "auto-CLUSTER-": how the names begin that schedules give. */
static void write_auto(const struct server *server, char ret[static SNAPSHOT_NAME_SIZE])
{
	(void)str_format(ret, SNAPSHOT_NAME_SIZE, "auto-%.*s-", CLUSTER_IN_NAME, server->config.cluster);
}

void snapshots_auto_prefix(const struct server *server, const struct volume *volume,
			   char ret[static SNAPSHOT_NAME_SIZE])
{
	char wire[WIRE_VOLUME_SIZE];
	size_t n;

	write_auto(server, ret);
	n = strlen(ret);
	volume_wire_name(volume->namespace, volume->id, wire);
	(void)str_join(ret + n, SNAPSHOT_NAME_SIZE - n, wire, "-");
}

/* A name belongs to its namespace at the provider, too: another namespace neither sees nor takes it. A
 * snapshot of a schedule has the name of its record. */
static void name_at_provider(const struct server *server, const Holdfast__V1__Snapshot *snapshot,
			     char ret[static SNAPSHOT_NAME_SIZE])
{
	char wire[WIRE_VOLUME_SIZE];

	volume_wire_name(snapshot->namespace_, snapshot->name, wire);
	if (snapshot->scheduled_ms != 0)
		(void)str_copy(ret, SNAPSHOT_NAME_SIZE, snapshot->name);
	else
		(void)str_format(ret, SNAPSHOT_NAME_SIZE, "snap-%.*s-%s", CLUSTER_IN_NAME,
				 server->config.cluster, wire);
}

/* Does the entry's key begin as those of the plugin do? */
static struct record_entry *of_plugin(struct record_entry *entry, const char *plugin_id)
{
	char prefix[OBJECT_KEY_SIZE] = PREFIX_SNAPSHOT;

	if (plugin_id)
		(void)str_format(prefix, sizeof(prefix), PREFIX_SNAPSHOT "%s/", plugin_id);
	return entry && str_starts_with(entry->key, prefix) ? entry : NULL;
}

struct record_entry *snapshots_first(struct state *state, const char *plugin_id)
{
	char prefix[OBJECT_KEY_SIZE] = PREFIX_SNAPSHOT;

	if (plugin_id)
		(void)str_format(prefix, sizeof(prefix), PREFIX_SNAPSHOT "%s/", plugin_id);
	return of_plugin(records_from(&state->records, prefix), plugin_id);
}

struct record_entry *snapshots_next(struct record_entry *entry, const char *plugin_id)
{
	return of_plugin(records_next(entry), plugin_id);
}

const Holdfast__V1__Snapshot *snapshots_find(struct state *state, const char *plugin_id,
					     const char *snapshot_id)
{
	struct record_entry *entry = snapshots_first(state, plugin_id);

	for (; entry; entry = snapshots_next(entry, plugin_id))
		if (str_eq(snapshots_of(entry)->snapshot_id, snapshot_id))
			return snapshots_of(entry);
	return NULL;
}

const Holdfast__V1__Snapshot *snapshots_source(struct state *state, const struct volume_parts *parts)
{
	const Holdfast__V1__VolumeDetail *detail = parts->detail;

	return detail->clone_id[0] == '\0' && detail->snapshot_id[0] != '\0'
		       ? snapshots_find(state, parts->volume.plugin_id, detail->snapshot_id)
		       : NULL;
}

/* A snapshot while it is being made or deleted. At most one for a recorded name asks the provider: its result
 * is applied to the record that it began with. A server that leads next does not know of it; it goes by the
 * record, which has no id yet or is marked as deleting. */
struct snapshotting {
	LIST_ENTRY(snapshotting) of_server;
	struct rpc_call *call;	   /* NULL: the server does it by itself */
	snapshots_done_fn *done;   /* without call */
	struct volume_parts parts; /* of the source volume; deleting: secrets and plugin only */
	Holdfast__V1__Snapshot
		*snapshot; /* owned; as recorded. Deleting: with the ids only when not recorded */
	bool is_new; /* recorded, or marked as deleting, by this call: no earlier try may have done it */
	struct error unasked; /* it was no longer wanted when its turn came; else STATUS_OK */
};

static struct snapshotting *snapshotting_new(struct server *server, struct rpc_call *call,
					     snapshots_done_fn *done)
{
	struct snapshotting *work = calloc(1, sizeof(*work));

	if (!work)
		return NULL;
	work->call = call;
	work->done = done;
	LIST_INSERT_HEAD(&server->snapshottings, work, of_server);
	return work;
}

static void snapshotting_free(struct snapshotting *work)
{
	LIST_REMOVE(work, of_server);
	volume_parts_release(&work->parts);
	holdfast__v1__snapshot__free_unpacked(work->snapshot, NULL);
	free(work);
}
DEFINE_CLEANUP(struct snapshotting, snapshotting_free)

static const char *object_name(const Holdfast__V1__Snapshot *snapshot, char ret[static OBJECT_NAME_SIZE])
{
	if (snapshot->name[0] != '\0')
		(void)str_format(ret, OBJECT_NAME_SIZE, "snapshot %s/%s/%s", snapshot->plugin_id,
				 snapshot->namespace_, snapshot->name);
	else
		(void)str_format(ret, OBJECT_NAME_SIZE, "snapshot %s/%s", snapshot->plugin_id,
				 snapshot->snapshot_id);
	return ret;
}

static bool is_same(const Holdfast__V1__Snapshot *a, const Holdfast__V1__Snapshot *b)
{
	return str_eq(a->plugin_id, b->plugin_id) && str_eq(a->namespace_, b->namespace_) &&
	       str_eq(a->name, b->name);
}

/* Is no other call about the recorded snapshot in flight? */
static enum status check_alone(const struct server *server, const struct snapshotting *work,
			       struct error *err)
{
	const struct snapshotting *other;

	LIST_FOREACH (other, &server->snapshottings, of_server)
		if (other != work && other->snapshot && is_same(other->snapshot, work->snapshot))
			return error_set(err, STATUS_ABORTED, 0,
					 "snapshot %s: another call makes or deletes it; repeat this in a "
					 "moment, holdfast volume snapshot list shows its result",
					 work->snapshot->name);
	return STATUS_OK;
}

/* Stage the record of how it ended. The snapshots of a schedule are events of their volume. */
static void audit_end(struct server *server, struct change *change, const struct snapshotting *work,
		      const char *what, const char *why)
{
	const Holdfast__V1__Snapshot *snapshot = work->snapshot;
	char object[OBJECT_NAME_SIZE], text[WHY_SIZE];

	if (work->call) {
		audit_own(server, change, what, object_name(snapshot, object), why);
		return;
	}
	(void)str_format(object, sizeof(object), "volume %s/%s", snapshot->namespace_,
			 snapshot->source_volume_id);
	(void)str_format(text, sizeof(text), "%s: %s", snapshot->name, why);
	audit_own(server, change, str_eq(what, CREATE) ? "Snapshots.Made" : "Snapshots.Removed", object,
		  text);
}

/* Answers that it failed, and frees @work. */
static void refuse(struct server *server, struct snapshotting *work, const char *what,
		   const struct error *err)
{
	if (work->call)
		answer_refused(server, work->call, what, err);
	else
		work->done(server, work->snapshot, err);
	snapshotting_free(work);
}

static void put_record(struct change *change, const Holdfast__V1__Snapshot *snapshot)
{
	char key[OBJECT_KEY_SIZE];

	snapshots_key(snapshot->plugin_id, snapshot->namespace_, snapshot->name, key);
	change_put_record(change, key, &snapshot->base);
}

static void delete_record(struct change *change, const Holdfast__V1__Snapshot *snapshot)
{
	char key[OBJECT_KEY_SIZE];

	snapshots_key(snapshot->plugin_id, snapshot->namespace_, snapshot->name, key);
	change_delete_record(change, key);
}

/* Commit what became of it; @done answers and frees @work. */
static void commit(struct server *server, struct change *change, change_done_fn *done,
		   struct snapshotting *work, const char *what)
{
	struct error err;

	if (change_commit(server, change, done, work, &err) == STATUS_OK)
		return;
	refuse(server, work, what, &err);
}

static void on_made(struct server *server, void *userdata)
{
	cleanup(snapshotting_freep) struct snapshotting *work = userdata;
	Holdfast__V1__CreateSnapshotResponse response = HOLDFAST__V1__CREATE_SNAPSHOT_RESPONSE__INIT;
	Holdfast__V1__Snapshot shown = *work->snapshot;

	shown.limits = NULL; /* of the volume, which the caller may not read */
	response.snapshot = &shown;
	if (work->call)
		rpc_call_reply(work->call, &response.base);
	else
		work->done(server, work->snapshot, NULL);
}

static bool apply_made(Holdfast__V1__Snapshot *snapshot, const Holdfast__V1__ExternalSnapshot *made)
{
	snapshot->size_bytes = made->size_bytes;
	snapshot->ready = made->ready;
	if (made->create_time_ms > 0) /* a provider without it: the time of the request */
		snapshot->create_time_ms = made->create_time_ms;
	return message_set_text(&snapshot->snapshot_id, made->snapshot_id) &&
	       message_set_text(&snapshot->last_error, "");
}

static bool is_of_volume(const Holdfast__V1__Snapshot *snapshot, const struct volume *volume)
{
	return str_eq(snapshot->source_volume_id, volume->id) &&
	       str_eq(snapshot->namespace_, volume->namespace) &&
	       str_eq(snapshot->external_source_id, volume->external_id);
}

/* Is the volume that @work began with still there? */
static bool has_source(struct server *server, const struct snapshotting *work)
{
	const struct volume_entry *entry =
		state_volume(&server->state, work->snapshot->namespace_, work->snapshot->source_volume_id);

	return entry && is_of_volume(work->snapshot, &entry->volume);
}

/* May a snapshot of it be taken, or kept? It may have got to another namespace while the call waited. */
static enum status check_source(struct server *server, const struct snapshotting *work, struct error *err)
{
	if (has_source(server, work))
		return identity_check_copied(server, work->call, &work->parts.volume, err);
	return error_set(err, STATUS_ABORTED, 0,
			 "volume %s was deregistered before snapshot %s was made; nothing was kept",
			 work->parts.volume.id, work->snapshot->name);
}

static bool is_making_wanted(struct server *server, void *userdata)
{
	struct snapshotting *work = userdata;

	return check_source(server, work, &work->unasked) == STATUS_OK;
}

enum status snapshots_check_copied(struct server *server, const struct volume *volume, struct error *err)
{
	const struct snapshotting *work;

	LIST_FOREACH (work, &server->snapshottings, of_server)
		if (work->snapshot && !work->snapshot->deleting &&
		    str_eq(work->snapshot->plugin_id, volume->plugin_id) &&
		    str_eq(work->parts.volume.external_id, volume->external_id) &&
		    !str_eq(work->snapshot->namespace_, volume->namespace) &&
		    !identity_is_owner(server, volume)) /* else its right was asked for with the snapshot */
			return error_set(err, STATUS_FAILED_PRECONDITION, 0,
					 "external_id: a snapshot of this id is being made for another "
					 "namespace, and would get later writes to it; repeat this in a "
					 "moment");
	return STATUS_OK;
}

void snapshots_forget_unmade(struct server *server, struct change *change, const struct volume *volume)
{
	struct record_entry *entry = snapshots_first(&server->state, volume->plugin_id);
	char object[OBJECT_NAME_SIZE];

	for (; entry && change->n < CHANGE_OBJECTS_MAX / 2;
	     entry = snapshots_next(entry, volume->plugin_id)) {
		const Holdfast__V1__Snapshot *snapshot = snapshots_of(entry);

		if (snapshot->snapshot_id[0] != '\0' || !is_of_volume(snapshot, volume))
			continue;
		change_delete_record(change, entry->key);
		audit_own(server, change, CREATE, object_name(snapshot, object),
			  "forgotten with its volume; the provider may have made it");
	}
}

/* Takes @work. @was_asked: the provider may have heard of it. */
static void make_failed(struct server *server, struct snapshotting *work, bool was_asked,
			const struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__VolumeDetail creating = HOLDFAST__V1__VOLUME_DETAIL__INIT;
	enum volume_failure failure;

	/* the same codes mean the same as of a volume that is created */
	creating.phase = HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING;
	failure = volume_phase_failure(&creating, err->status, !work->is_new);
	if (failure == VOLUME_FAILURE_FORGETS || (work->is_new && !was_asked) ||
	    (work->snapshot->snapshot_id[0] == '\0' && !has_source(server, work))) {
		delete_record(&change, work->snapshot);
		if (work->call) /* a schedule records the cause */
			audit_end(server, &change, work, CREATE,
				  failure == VOLUME_FAILURE_FORGETS ? "the provider did not make it"
								    : err->msg);
	} else if (message_set_text(&work->snapshot->last_error, err->msg)) {
		put_record(&change, work->snapshot);
	}
	(void)change_commit(server, &change, NULL, NULL, NULL); /* if that fails, the stored intent is kept */
	refuse(server, work, CREATE, err);
}

static bool is_of_another(struct server *server, const Holdfast__V1__Snapshot *snapshot,
			  const char *snapshot_id)
{
	const Holdfast__V1__Snapshot *known =
		snapshots_find(&server->state, snapshot->plugin_id, snapshot_id);

	return known && !is_same(known, snapshot);
}

/* Returns the limits of a snapshot that is made of the volume now, or NULL. */
static Holdfast__V1__SourceLimits *limits_now(struct server *server, const struct volume_entry *entry)
{
	Holdfast__V1__SourceLimits *limits =
		limits_of(&entry->volume, volume_detail_of(server, &entry->volume),
			  volume_secrets_of(server, &entry->volume));

	if (limits)
		limits->was_device = identity_has_device(server, entry);
	return limits;
}

/* The volume may have been confined since the snapshot was asked for, by an earlier try perhaps, and either
 * may be what it holds. Unknown limits stay unknown. */
static void note_limits(struct server *server, const Holdfast__V1__ExternalSnapshot *made,
			Holdfast__V1__Snapshot *snapshot)
{
	const struct volume_entry *entry =
		state_volume(&server->state, snapshot->namespace_, snapshot->source_volume_id);
	Holdfast__V1__SourceLimits *before = snapshot->limits, *limits = NULL;

	if (!before || str_eq(snapshot->snapshot_id, made->snapshot_id))
		return;
	assert(entry); /* check_source() */
	if (made->external_source_id[0] == '\0' ||
	    str_eq(made->external_source_id, snapshot->external_source_id)) /* else it may be of any volume */
		limits = limits_now(server, entry);
	snapshot->limits = limits && limits_join(limits, before) ? limits : NULL;
	if (!snapshot->limits)
		holdfast__v1__source_limits__free_unpacked(limits, NULL);
	holdfast__v1__source_limits__free_unpacked(before, NULL);
}

static void on_provider_made(struct server *server, const Holdfast__V1__PluginReply *reply,
			     const struct error *err, void *userdata)
{
	struct snapshotting *work = userdata;
	const Holdfast__V1__ExternalSnapshot *made =
		reply && reply->create_snapshot ? reply->create_snapshot->snapshot : NULL;
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct error bad;

	if (!err && (!made || made->snapshot_id[0] == '\0' || strlen(made->snapshot_id) > EXTERNAL_ID_MAX ||
		     !str_is_text(made->snapshot_id))) { /* no request could name it */
		(void)error_set(&bad, STATUS_INTERNAL, 0,
				"plugin %s made the snapshot but named it with no id, or one that is no text "
				"or has more than %d bytes",
				work->snapshot->plugin_id, EXTERNAL_ID_MAX);
		err = &bad;
	}
	if (!err && check_source(server, work, &bad) != STATUS_OK) {
		bad.status = STATUS_ABORTED; /* it is made */
		err = &bad;
	}
	if (!err && is_of_another(server, work->snapshot, made->snapshot_id)) {
		(void)error_set(
			&bad, STATUS_ALREADY_EXISTS, 0,
			"snapshot %s: plugin %s answered with the id of another snapshot; nothing was "
			"kept",
			work->snapshot->name, work->snapshot->plugin_id);
		work->is_new = true; /* the provider has no snapshot of this name */
		err = &bad;
	}
	if (!err)
		note_limits(server, made, work->snapshot);
	if (!err && !apply_made(work->snapshot, made)) {
		(void)error_no_memory(&bad, "a snapshot");
		bad.status = STATUS_UNKNOWN; /* it is made */
		err = &bad;
	}
	if (err) {
		bool was_asked = work->unasked.status == STATUS_OK;

		make_failed(server, work, was_asked, was_asked ? err : &work->unasked);
		return;
	}
	put_record(&change, work->snapshot);
	audit_end(server, &change, work, CREATE, work->snapshot->snapshot_id);
	commit(server, &change, on_made, work, CREATE);
}

static enum status ask_to_make(struct server *server, struct snapshotting *work, struct error *err)
{
	Holdfast__V1__ControllerCreateSnapshotRequest make =
		HOLDFAST__V1__CONTROLLER_CREATE_SNAPSHOT_REQUEST__INIT;
	Holdfast__V1__PluginCall call = HOLDFAST__V1__PLUGIN_CALL__INIT;
	const struct controller_call controller = {.plugin_id = work->snapshot->plugin_id,
						   .namespace = work->snapshot->namespace_,
						   .call = &call,
						   .wanted = is_making_wanted,
						   .done = on_provider_made,
						   .userdata = work};
	char name[SNAPSHOT_NAME_SIZE];

	name_at_provider(server, work->snapshot, name);
	make.external_id = work->parts.volume.external_id;
	make.name = name;
	make.secrets = (void *)work->parts.secrets->secrets;
	make.n_secrets = work->parts.secrets->n_secrets;
	make.parameters = (void *)work->snapshot->parameters;
	make.n_parameters = work->snapshot->n_parameters;
	call.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE_SNAPSHOT;
	call.create_snapshot = &make;
	return controller_call(server, &controller, err);
}

static void on_intended(struct server *server, void *userdata)
{
	struct snapshotting *work = userdata;
	struct error err;

	if (ask_to_make(server, work, &err) != STATUS_OK)
		make_failed(server, work, false, &err);
}

static enum status check_create(struct server *server, const struct volume_entry *entry,
				const Holdfast__V1__CreateSnapshotRequest *request, struct error *err)
{
	const struct volume *volume = &entry->volume;

	if (volume->type != VOLUME_CSI)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s is native: it has no provider that makes snapshots", volume->id);
	if (request->name[0] == '\0' || strlen(request->name) > SNAPSHOT_NAME_MAX ||
	    !str_is_made_of(request->name, "._-"))
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"name: '%.64s' is no name of a snapshot (A-Z a-z 0-9 . _ and -, up to %d); its "
			"provider recognises a repeat by it",
			request->name, SNAPSHOT_NAME_MAX);
	TRY(volume_check_map("parameters", VOLUME_MAP(request->parameters), request->n_parameters, err));
	TRY(volume_check_secrets(VOLUME_MAP(request->secrets), request->n_secrets, err));
	TRY(volume_check_registered(volume, err));
	TRY(volume_store_check_usable(server, volume, err));
	return volume_check_ability(server, volume->plugin_id, &VOLUME_CAN_SNAPSHOT, err);
}

/* A repeat brings its own secrets, and the parameters of the record decide where they go. */
static enum status check_same(const Holdfast__V1__Snapshot *known, const struct volume *volume,
			      const Holdfast__V1__CreateSnapshotRequest *request, struct error *err)
{
	if (!is_of_volume(known, volume))
		return error_set(
			err, STATUS_ALREADY_EXISTS, 0,
			"name: namespace %s has a snapshot %s of another volume of plugin %s already (or of "
			"one that had this id before); take another name",
			known->namespace_, known->name, known->plugin_id);
	if (!message_text_maps_eq(VOLUME_MAP(known->parameters), known->n_parameters,
				  VOLUME_MAP(request->parameters), request->n_parameters))
		return error_set(err, STATUS_ALREADY_EXISTS, 0,
				 "parameters: snapshot %s was begun with others; repeat those, or take "
				 "another name",
				 known->name);
	return STATUS_OK;
}

/* The record as it is, or a new one. */
static enum status fill_snapshot(struct server *server, const struct volume_entry *entry,
				 const Holdfast__V1__CreateSnapshotRequest *request, int64_t scheduled_ms,
				 struct snapshotting *work, struct error *err)
{
	const struct volume *volume = &entry->volume;
	Holdfast__V1__Snapshot given = HOLDFAST__V1__SNAPSHOT__INIT;
	const Holdfast__V1__Snapshot *known;
	char key[OBJECT_KEY_SIZE];

	snapshots_key(volume->plugin_id, volume->namespace, request->name, key);
	known = records_get(&server->state.records, key);
	TRY(known ? check_same(known, volume, request, err)
		  : namespaces_check_room(&server->state.namespaces, volume->namespace, scheduled_ms == 0,
					  err));
	if (known && scheduled_ms != 0 && known->scheduled_ms == 0)
		return error_set(err, STATUS_ALREADY_EXISTS, 0,
				 "the volume has a snapshot %s that its schedule did not make", known->name);
	given.plugin_id = work->parts.volume.plugin_id;
	given.name = request->name;
	given.source_volume_id = work->parts.volume.id;
	given.namespace_ = work->parts.volume.namespace;
	given.external_source_id = work->parts.volume.external_id;
	given.create_time_ms = clock_realtime_ms();
	given.parameters = (void *)request->parameters;
	given.n_parameters = request->n_parameters;
	work->is_new = !known;
	work->snapshot = (Holdfast__V1__Snapshot *)(void *)message_copy(known ? &known->base : &given.base);
	if (work->snapshot && !known)
		work->snapshot->limits = limits_now(server, entry);
	if (!work->snapshot || !(known || work->snapshot->limits))
		return error_no_memory(err, "a snapshot");
	if (scheduled_ms != 0)
		work->snapshot->scheduled_ms = scheduled_ms;
	return STATUS_OK;
}

/* A parameter may name a server, to which the plugin sends what the secrets open. */
static enum status check_parameters(struct server *server, const struct snapshotting *work, bool has_given,
				    struct error *err)
{
	const struct volume_parts *parts = &work->parts;

	if (work->call && work->is_new)
		TRY(identity_check_parameters(server, work->call, parts->volume.plugin_id,
					      parts->volume.namespace, PARAMETERS_OF_CALLS,
					      VOLUME_MAP(work->snapshot->parameters),
					      work->snapshot->n_parameters, err));
	if (!work->call || work->snapshot->n_parameters == 0 || has_given || parts->secrets->n_secrets == 0 ||
	    access_check(server, work->call, ACCESS_VOLUME_ADOPT, parts->volume.namespace, err) == STATUS_OK)
		return STATUS_OK;
	return error_set(
		err, STATUS_INVALID_ARGUMENT, 0,
		"parameters: the stored secrets of volume %s go with no parameters of a request: give "
		"the secrets, too, or omit the parameters",
		parts->volume.id);
}

static enum status refuse_deleting(const Holdfast__V1__Snapshot *snapshot, struct error *err)
{
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"snapshot %s: its deletion began and may have happened; finish it with holdfast volume "
		"snapshot delete, holdfast volume snapshot list shows its id",
		snapshot->name);
}

static enum status snapshot_begin(struct server *server, const struct volume_entry *entry,
				  const Holdfast__V1__CreateSnapshotRequest *request, int64_t scheduled_ms,
				  struct snapshotting *work, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[OBJECT_NAME_SIZE];

	TRY(volume_store_load(server, entry, &work->parts, err));
	TRY(fill_snapshot(server, entry, request, scheduled_ms, work, err));
	if (work->call)
		TRY(identity_check_parameters(server, work->call, work->parts.volume.plugin_id,
					      work->parts.volume.namespace, PARAMETERS_SECRETS,
					      VOLUME_MAP(request->secrets), request->n_secrets, err));
	TRY(volume_secrets_take(work->parts.secrets, VOLUME_MAP(request->secrets), request->n_secrets, err));
	if (work->snapshot->snapshot_id[0] != '\0' && work->snapshot->ready && !work->snapshot->deleting)
		return change_commit(server, &change, on_made, work, err); /* made: answered when durable */
	TRY(check_parameters(server, work, request->n_secrets > 0, err));
	TRY(check_alone(server, work, err));
	if (work->snapshot->deleting)
		return refuse_deleting(work->snapshot, err);
	if (work->is_new || scheduled_ms != 0)
		put_record(&change, work->snapshot);
	if (work->call)
		audit_write(server, &change, work->call, CREATE, object_name(work->snapshot, object), NULL);
	return change_commit(server, &change, on_intended, work, err);
}

static enum status create(struct server *server, struct rpc_call *call, const struct volume_entry *entry,
			  const Holdfast__V1__CreateSnapshotRequest *request, int64_t scheduled_ms,
			  snapshots_done_fn *done, struct error *err)
{
	cleanup(snapshotting_freep) struct snapshotting *work = NULL;

	TRY(check_create(server, entry, request, err));
	TRY(identity_check_copied(server, call, &entry->volume, err));
	work = snapshotting_new(server, call, done);
	if (!work)
		return error_no_memory(err, "a snapshot");
	TRY(snapshot_begin(server, entry, request, scheduled_ms, work, err));
	(void)TAKE_PTR(work);
	return STATUS_OK;
}

/* The next names of a schedule are known in advance: taken by another volume, they would end its snapshots.
 */
static enum status check_not_reserved(const struct server *server, const struct volume *volume,
				      const char *name, struct error *err)
{
	char reserved[SNAPSHOT_NAME_SIZE], own[SNAPSHOT_NAME_SIZE];

	write_auto(server, reserved);
	snapshots_auto_prefix(server, volume, own);
	if (!str_starts_with(name, reserved) || str_starts_with(name, own))
		return STATUS_OK;
	return error_set(
		err, STATUS_INVALID_ARGUMENT, 0,
		"name: names that begin with '%s' are of the schedules of volumes; take another name",
		reserved);
}

static enum status handle_create(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__CreateSnapshotRequest *request, struct error *err)
{
	struct volume_entry *entry;

	TRY(volume_store_find(server, namespace_or_default(request->namespace_), request->volume_id, &entry,
			      err));
	TRY(check_not_reserved(server, &entry->volume, request->name, err));
	return create(server, call, entry, request, 0, NULL, err);
}

enum status snapshots_make(struct server *server, const struct volume_entry *entry, char *name,
			   int64_t scheduled_ms, snapshots_done_fn *done, struct error *err)
{
	Holdfast__V1__CreateSnapshotRequest request = HOLDFAST__V1__CREATE_SNAPSHOT_REQUEST__INIT;

	request.name = name;
	return create(server, NULL, entry, &request, scheduled_ms, done, err);
}

DEFINE_WRITE_METHOD(snapshots_handle_create, Holdfast__V1__CreateSnapshotRequest, CREATE, handle_create)

static void on_forgotten(struct server *server, void *userdata)
{
	cleanup(snapshotting_freep) struct snapshotting *work = userdata;
	Holdfast__V1__DeleteSnapshotResponse response = HOLDFAST__V1__DELETE_SNAPSHOT_RESPONSE__INIT;

	if (work->call)
		rpc_call_reply(work->call, &response.base);
	else
		work->done(server, work->snapshot, NULL);
}

/* Takes @work. @was_asked: the provider may have heard of it. */
static void delete_failed(struct server *server, struct snapshotting *work, bool was_asked,
			  const struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__VolumeDetail deleting = HOLDFAST__V1__VOLUME_DETAIL__INIT;

	/* the same codes mean the same as of a volume that is deleted */
	deleting.phase = HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING;
	if (work->is_new &&
	    (!was_asked || volume_phase_failure(&deleting, err->status, false) == VOLUME_FAILURE_ENDS)) {
		work->snapshot->deleting = false;
		put_record(&change, work->snapshot);
		(void)change_commit(server, &change, NULL, NULL, NULL); /* if that fails, the mark stays */
	}
	refuse(server, work, DELETE, err);
}

/* The id may have become another record's while the call waited in the plugin's line: an operator may delete
 * what no record knows, and the provider may give its id to a snapshot of the same name. */
static bool is_deletion_wanted(struct server *server, void *userdata)
{
	struct snapshotting *work = userdata;

	if (!is_of_another(server, work->snapshot, work->snapshot->snapshot_id))
		return true;
	(void)error_set(&work->unasked, STATUS_ABORTED, 0,
			"plugin %s: snapshot %.128s was recorded by another call while its deletion waited; "
			"nothing was deleted; holdfast volume snapshot list shows the snapshots",
			work->snapshot->plugin_id, work->snapshot->snapshot_id);
	return false;
}

static void on_provider_deleted(struct server *server, const Holdfast__V1__PluginReply *reply,
				const struct error *err, void *userdata)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct snapshotting *work = userdata;
	const Holdfast__V1__Snapshot *known =
		snapshots_find(&server->state, work->snapshot->plugin_id, work->snapshot->snapshot_id);

	if (work->unasked.status != STATUS_OK) {
		delete_failed(server, work, false, &work->unasked);
		return;
	}
	if (err && (err->status != STATUS_NOT_FOUND || !known)) {
		delete_failed(server, work, true, err);
		return;
	}
	if (known)
		delete_record(&change, known);
	audit_end(server, &change, work, DELETE,
		  err ? "the provider has no such snapshot" : "deleted at its provider");
	commit(server, &change, on_forgotten, work, DELETE);
}

static void on_delete_intended(struct server *server, void *userdata)
{
	struct snapshotting *work = userdata;
	Holdfast__V1__ControllerDeleteSnapshotRequest delete =
		HOLDFAST__V1__CONTROLLER_DELETE_SNAPSHOT_REQUEST__INIT;
	Holdfast__V1__PluginCall call = HOLDFAST__V1__PLUGIN_CALL__INIT;
	const struct controller_call controller = {.plugin_id = work->snapshot->plugin_id,
						   .namespace = work->snapshot->namespace_,
						   .call = &call,
						   .wanted = is_deletion_wanted,
						   .done = on_provider_deleted,
						   .userdata = work};
	struct error err;

	delete.snapshot_id = work->snapshot->snapshot_id;
	delete.secrets = (void *)work->parts.secrets->secrets;
	delete.n_secrets = work->parts.secrets->n_secrets;
	call.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE_SNAPSHOT;
	call.delete_snapshot = &delete;
	if (controller_call(server, &controller, &err) != STATUS_OK)
		delete_failed(server, work, false, &err);
}

static enum status check_delete(const Holdfast__V1__DeleteSnapshotRequest *request, struct error *err)
{
	if (!id_is_plugin(request->plugin_id))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "plugin_id: '%.64s' is no plugin id",
				 request->plugin_id);
	if (request->snapshot_id[0] == '\0' || strlen(request->snapshot_id) > EXTERNAL_ID_MAX ||
	    !str_is_text(request->snapshot_id))
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"snapshot_id: empty, longer than %d bytes or not text; holdfast volume snapshot "
			"list shows the ids",
			EXTERNAL_ID_MAX);
	return volume_check_secrets(VOLUME_MAP(request->secrets), request->n_secrets, err);
}

static enum status fill_delete(struct server *server, const Holdfast__V1__DeleteSnapshotRequest *request,
			       const Holdfast__V1__Snapshot *known, struct snapshotting *work,
			       struct error *err)
{
	struct volume_entry *source =
		known ? state_volume(&server->state, known->namespace_, known->source_volume_id) : NULL;
	const struct volume nothing = {.type = VOLUME_CSI};
	Holdfast__V1__Snapshot given = HOLDFAST__V1__SNAPSHOT__INIT;
	/* of the volume as long as it is the one it was made of */
	bool is_source = source && str_eq(source->volume.plugin_id, known->plugin_id) &&
			 str_eq(source->volume.external_id, known->external_source_id);

	TRY(is_source ? volume_store_load(server, source, &work->parts, err)
		      : volume_parts_copy(&nothing, NULL, NULL, &work->parts, err));
	if (work->call)
		TRY(identity_check_parameters(server, work->call, request->plugin_id,
					      known ? known->namespace_ : NULL, PARAMETERS_SECRETS,
					      VOLUME_MAP(request->secrets), request->n_secrets, err));
	TRY(volume_secrets_take(work->parts.secrets, VOLUME_MAP(request->secrets), request->n_secrets, err));
	given.plugin_id = request->plugin_id;
	given.snapshot_id = request->snapshot_id;
	work->is_new = known && !known->deleting;
	work->snapshot = (Holdfast__V1__Snapshot *)(void *)message_copy(known ? &known->base : &given.base);
	if (!work->snapshot)
		return error_no_memory(err, "a snapshot");
	work->snapshot->deleting = true;
	return STATUS_OK;
}

/* A snapshot belongs to the namespace of its volume; one that was not made here to the operators. To those
 * without rights there, one of another namespace is as one that no record knows. */
static enum status check_delete_access(struct server *server, struct rpc_call *call,
				       const Holdfast__V1__Snapshot *known, struct error *err)
{
	enum status status;

	if (known && access_check(server, call, ACCESS_VOLUME_WRITE, known->namespace_, NULL) == STATUS_OK)
		return STATUS_OK;
	status = access_check(server, call, ACCESS_OPERATOR_WRITE, NULL, err);
	if (status != STATUS_OK || !known)
		return status;
	return error_set(err, STATUS_PERMISSION_DENIED, 0,
			 "snapshot_id: plugin %s has no snapshot of this id that you may delete",
			 known->plugin_id);
}

static enum status begin_delete(struct server *server, struct rpc_call *call,
				const Holdfast__V1__DeleteSnapshotRequest *request,
				const Holdfast__V1__Snapshot *known, snapshots_done_fn *done,
				struct error *err)
{
	cleanup(snapshotting_freep) struct snapshotting *work = NULL;
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[OBJECT_NAME_SIZE];

	TRY(check_delete(request, err));
	TRY(volume_check_ability(server, request->plugin_id, &VOLUME_CAN_SNAPSHOT, err));
	work = snapshotting_new(server, call, done);
	if (!work)
		return error_no_memory(err, "a snapshot");
	TRY(fill_delete(server, request, known, work, err));
	if (known) {
		TRY(check_alone(server, work, err));
		put_record(&change, work->snapshot);
	}
	if (call)
		audit_write(server, &change, call, DELETE, object_name(work->snapshot, object), NULL);
	TRY(change_commit(server, &change, on_delete_intended, work, err));
	(void)TAKE_PTR(work);
	return STATUS_OK;
}

static enum status handle_delete(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__DeleteSnapshotRequest *request, struct error *err)
{
	const Holdfast__V1__Snapshot *known =
		request->snapshot_id[0] != '\0' && id_is_plugin(request->plugin_id)
			? snapshots_find(&server->state, request->plugin_id, request->snapshot_id)
			: NULL;

	TRY(check_delete_access(server, call, known, err));
	return begin_delete(server, call, request, known, NULL, err);
}

DEFINE_WRITE_METHOD(snapshots_handle_delete, Holdfast__V1__DeleteSnapshotRequest, DELETE, handle_delete)

enum status snapshots_remove(struct server *server, const Holdfast__V1__Snapshot *snapshot,
			     snapshots_done_fn *done, struct error *err)
{
	Holdfast__V1__DeleteSnapshotRequest request = HOLDFAST__V1__DELETE_SNAPSHOT_REQUEST__INIT;

	request.plugin_id = snapshot->plugin_id;
	request.snapshot_id = snapshot->snapshot_id;
	return begin_delete(server, NULL, &request, snapshot, done, err);
}
