/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/work.h"

#include "server.h"

#include "access/audit.h"
#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/join.h"
#include "base/str.h"
#include "log/log.h"
#include "model/message.h"
#include "model/volume_detail.h"
#include "recovery/epoch.h"
#include "recovery/history.h"
#include "recovery/replaced.h"
#include "rpc/server.h"
#include "state/change.h"
#include "state/keys.h"
#include "volume/call.h"
#include "volume/identity.h"
#include "volume/phase.h"
#include "volume/snapshots.h"
#include "volume/store.h"
#include "volume/why.h"

#include <holdfast/v1/plugin_call.pb-c.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct waiter {
	STAILQ_ENTRY(waiter) next;
	struct rpc_call *call;
	volume_answer_fn *answer;
};
STAILQ_HEAD(waiter_list, waiter);

struct volume_work {
	char namespace[NAMESPACE_MAX + 1];
	char id[VOLUME_ID_MAX + 1];
	RB_ENTRY(volume_work) by_key;
	struct server *server;
	struct waiter_list waiters;
	sd_event_source *timer; /* owned; the next try */
	bool is_busy;		/* a plugin is being asked, or its answer is on its way to the disk */
	bool may_be_done;     /* an earlier try, of this run or the last, may have done it at the provider */
	bool node_failed;     /* some node's file system could not be expanded in this try */
	bool waits_for_nodes; /* the last try found that some have not reported since a restore */
	bool is_unwanted;     /* its creation or deletion waited in the plugin's line, and was not sent */
	Holdfast__V1__VolumePhase asked_phase; /* at the last step; both may be changed while it is busy */
	uint64_t asked_min;
	char after[NODE_ID_MAX + 1]; /* the last node that was asked in this try */
	struct error error;	     /* of this try, when something failed */
	struct backoff backoff;
};

/* A reply's step: puts the answer into @parts; true: store and continue. */
typedef bool apply_reply_fn(struct volume_work *work, struct volume_parts *parts,
			    const Holdfast__V1__PluginReply *reply);

#define RETRY_MIN_US (1 * USEC_PER_SEC)
#define RETRY_MAX_US (300 * USEC_PER_SEC)
enum { TIMER_ACCURACY_US = 100000 };

static void volume_work_step(struct volume_work *work);

static int compare(const struct volume_work *a, const struct volume_work *b)
{
	int c = strcmp(a->namespace, b->namespace);

	return c != 0 ? c : strcmp(a->id, b->id);
}

TREE_GENERATE(volume_work_tree, volume_work, by_key, compare)

static struct volume_work *find(struct server *server, const char *namespace, const char *id)
{
	struct volume_work key;

	if (str_copy(key.namespace, sizeof(key.namespace), namespace) < 0 ||
	    str_copy(key.id, sizeof(key.id), id) < 0)
		return NULL;
	return RB_FIND(volume_work_tree, &server->volume_works, &key);
}

static struct volume_work *find_or_new(struct server *server, const char *namespace, const char *id)
{
	struct volume_work *work = find(server, namespace, id);

	if (work)
		return work;
	work = calloc(1, sizeof(*work));
	if (!work)
		return NULL;
	(void)str_copy(work->namespace, sizeof(work->namespace), namespace);
	(void)str_copy(work->id, sizeof(work->id), id);
	work->server = server;
	work->backoff = (struct backoff)BACKOFF_INIT(RETRY_MIN_US, RETRY_MAX_US);
	STAILQ_INIT(&work->waiters);
	RB_INSERT(volume_work_tree, &server->volume_works, work);
	return work;
}

static struct volume_entry *volume_work_entry(const struct volume_work *work)
{
	return state_volume(&work->server->state, work->namespace, work->id);
}

static void set_busy(struct volume_work *work, bool is_busy)
{
	struct volume_entry *entry = volume_work_entry(work);

	work->is_busy = is_busy;
	if (entry)
		entry->is_asked = is_busy;
}

static void answer_all(struct volume_work *work, const struct error *err)
{
	struct waiter *waiter;

	while ((waiter = STAILQ_FIRST(&work->waiters))) {
		STAILQ_REMOVE_HEAD(&work->waiters, next);
		waiter->answer(work->server, waiter->call, work->namespace, work->id, err);
		free(waiter);
	}
}

static void work_free(struct volume_work *work)
{
	RB_REMOVE(volume_work_tree, &work->server->volume_works, work);
	(void)sd_event_source_disable_unref(work->timer);
	free(work);
}

/* Answers and frees it. */
static void volume_work_end(struct volume_work *work, const struct error *err)
{
	answer_all(work, err);
	work_free(work);
}

static void begin_try(struct volume_work *work)
{
	work->timer = sd_event_source_disable_unref(work->timer);
	work->node_failed = work->waits_for_nodes = false;
	work->after[0] = '\0';
	work->error = (struct error){0};
	volume_work_step(work);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	begin_try(userdata);
	return 0;
}

/* Answers this try's callers with the work's error and tries again later. */
static void volume_work_retry(struct volume_work *work)
{
	struct error err = work->error;
	int r;

	set_busy(work, false);
	log_ctx(LOG_WARNING, &(struct log_ctx){.volume = work->id, .op = "provider", .err = &err},
		"not done, to be tried again");
	answer_all(work, &err);
	r = sd_event_add_time_relative(work->server->event, &work->timer, CLOCK_MONOTONIC,
				       backoff_next(&work->backoff, backoff_random()), TIMER_ACCURACY_US,
				       on_timer, work);
	if (r < 0) {
		log_line(LOG_ERR,
			 "no timer for volume %s: it continues when it is asked for, or after a restart",
			 work->id);
		work_free(work);
	}
}

/* Tries again after the store refused the change: the stored phase is unchanged. */
static void commit_failed(struct volume_work *work, const struct error *err)
{
	work->error = *err;
	volume_work_retry(work);
}

static void volume_work_on_stored(struct server *server, void *userdata)
{
	volume_work_step(userdata);
}

static void on_stored_retry(struct server *server, void *userdata)
{
	volume_work_retry(userdata);
}

static void volume_work_on_done(struct server *server, void *userdata)
{
	struct volume_work *work = userdata;
	struct error err = work->error;

	set_busy(work, false);
	volume_work_end(work, err.status == STATUS_OK ? NULL : &err);
}

static void commit(struct volume_work *work, struct change *change, change_done_fn *done)
{
	struct error err;

	if (change_commit(work->server, change, done, work, &err) != STATUS_OK)
		commit_failed(work, &err);
}

/* Stores @parts, with an audit record that the server did @what (NULL: no record); @done is
 * volume_work_on_stored() or volume_work_on_done(). */
static void volume_work_store(struct volume_work *work, struct volume_parts *parts, const char *what,
			      const char *why, change_done_fn *done)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[VOLUME_OBJECT_SIZE];

	volume_store_stage(work->server, &change, parts);
	if (what)
		audit_own(work->server, &change, what, volume_object(&parts->volume, object), why);
	commit(work, &change, done);
}

/* The parts as they are stored; false: it was deregistered or memory is short, and this try is over. */
static bool volume_work_load(struct volume_work *work, struct volume_parts *ret)
{
	struct volume_entry *entry = volume_work_entry(work);
	struct error err;

	if (!entry) {
		(void)error_set(&err, STATUS_NOT_FOUND, 0, "volume %s was deregistered meanwhile", work->id);
		volume_work_end(work, &err);
		return false;
	}
	if (volume_store_load(work->server, entry, ret, &err) == STATUS_OK)
		return true;
	commit_failed(work, &err);
	return false;
}

/* Does the store have what this try left? Each change of it costs all, also those that wait for volumes. */
static bool is_stored(const struct volume_work *work, const struct volume_parts *parts)
{
	const Holdfast__V1__VolumeDetail *detail = volume_detail_of(work->server, &parts->volume);

	return detail && str_eq(detail->phase_error, work->error.msg) &&
	       message_eq(&detail->base, &parts->detail->base);
}

/* Stores the error of this try, which does not end the phase. */
static void volume_work_note(struct volume_work *work, struct volume_parts *parts)
{
	if (parts->detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING)
		parts->detail->source_lost =
			identity_check_source_still(work->server, parts,
						    snapshots_source(&work->server->state, parts),
						    NULL) != STATUS_OK;
	if (is_stored(work, parts) || !volume_phase_note(parts->detail, &work->error))
		volume_work_retry(work); /* the stored phase is unchanged, also when memory is short */
	else
		volume_work_store(work, parts, NULL, NULL, on_stored_retry);
}

/* Stores that the volume is gone, and ends. After a restore a node may have reported its claim of the name
 * meanwhile: then the volume stays. */
static void volume_work_forget(struct volume_work *work, const char *what, const char *why)
{
	cleanup(volume_parts_release) struct volume_parts parts = VOLUME_PARTS_INIT;
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume_entry *entry = volume_work_entry(work);
	char object[VOLUME_OBJECT_SIZE];

	if (entry->n_live > 0) {
		if (volume_work_load(work, &parts))
			volume_work_note(work, &parts);
		return;
	}
	snapshots_forget_unmade(work->server, &change, &entry->volume);
	volume_store_stage_deletion(work->server, &change, entry);
	audit_own(work->server, &change, what, volume_object(&entry->volume, object), why);
	log_ctx(LOG_NOTICE, &(struct log_ctx){.volume = work->id, .op = "provider"}, "%s: forgotten, %s",
		what, why);
	commit(work, &change, volume_work_on_done);
}

/* This try ended with the work's error: store what that leaves. @was_asked: the provider may have heard of
 * it.
 */
static void volume_work_failed(struct volume_work *work, struct volume_parts *parts, bool was_asked)
{
	enum volume_failure failure =
		volume_phase_failure(parts->detail, work->error.status, work->may_be_done);

	switch (failure) {
	case VOLUME_FAILURE_FORGETS:
		volume_work_forget(work, "Volumes.Create", "the provider did not make it");
		return;
	case VOLUME_FAILURE_ENDS:
		if (!volume_phase_end(parts->detail, &work->error))
			break;
		volume_work_store(work, parts, NULL, NULL, volume_work_on_done);
		return;
	case VOLUME_FAILURE_STAYS:
		work->may_be_done = work->may_be_done || was_asked;
		volume_work_note(work, parts);
		return;
	}
	volume_work_retry(work); /* the stored phase is unchanged, also when memory is short */
}

/* Common to all answers of controllers: failed, or taken by @take, stored as @what, and the next step. */
static void volume_work_take_reply(struct volume_work *work, const Holdfast__V1__PluginReply *reply,
				   const struct error *err, const char *what, apply_reply_fn *take)
{
	cleanup(volume_parts_release) struct volume_parts parts = VOLUME_PARTS_INIT;
	char why[EXTERNAL_ID_MAX + 64];

	if (!volume_work_load(work, &parts))
		return;
	if (err && parts.detail->phase != work->asked_phase) { /* of a call for an earlier phase */
		volume_work_step(work);
		return;
	}
	if (err) {
		work->error = *err;
		volume_work_failed(work, &parts, true);
		return;
	}
	if (!take(work, &parts, reply)) {
		(void)error_no_memory(&work->error, "a volume");
		volume_work_retry(work);
		return;
	}
	(void)str_format(why, sizeof(why), "at its provider: %.256s", parts.volume.external_id);
	volume_work_store(work, &parts, what, why, volume_work_on_stored);
}

void volume_work_start(struct server *server, const char *namespace, const char *id, struct rpc_call *call,
		       volume_answer_fn *answer)
{
	static const struct error no_memory = {.status = STATUS_RESOURCE_EXHAUSTED,
					       .msg = "out of memory; the request is stored: repeat it"};
	struct volume_work *work = find_or_new(server, namespace, id);
	struct waiter *waiter = work && call ? calloc(1, sizeof(*waiter)) : NULL;

	if (call && !waiter) {
		answer(server, call, namespace, id, &no_memory);
		return;
	}
	if (!work)
		return;
	if (waiter) {
		*waiter = (struct waiter){.call = call, .answer = answer};
		STAILQ_INSERT_TAIL(&work->waiters, waiter, next);
	}
	if (work->is_busy)
		return;
	begin_try(work);
}

enum status volume_work_check_idle(struct server *server, const struct volume *volume, struct error *err)
{
	const struct volume_work *work = find(server, volume->namespace, volume->id);

	if (!work || !work->is_busy)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "volume %s: its plugin is being asked at this moment; repeat this in a moment, "
			 "holdfast volume status %s%s%s shows the work in flight",
			 volume->id, volume->id, NAMESPACE_OPTION(volume->namespace));
}

enum status volume_work_check_copied(struct server *server, const struct volume *volume, struct error *err)
{
	struct volume_work *work;

	RB_FOREACH (work, volume_work_tree, &server->volume_works) {
		const struct volume_entry *entry = volume_work_entry(work);
		const Holdfast__V1__VolumeDetail *detail =
			entry ? volume_detail_of(server, &entry->volume) : NULL;

		if (detail && detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING &&
		    str_eq(entry->volume.plugin_id, volume->plugin_id) &&
		    str_eq(detail->clone_id, volume->external_id) &&
		    !identity_is_source_of(&entry->volume, detail, volume->namespace))
			return error_set(err, STATUS_FAILED_PRECONDITION, 0,
					 "external_id: a volume of another namespace is being made as a copy "
					 "of this id, and would get later writes to it; wait until that is "
					 "made, or end it with holdfast volume deregister in its namespace");
	}
	return STATUS_OK;
}

static void on_mounted(struct server *server, const struct claim *claim)
{
	struct volume_entry *entry = state_volume(&server->state, claim->namespace, claim->volume_id);
	const Holdfast__V1__VolumeDetail *detail = entry ? volume_detail_of(server, &entry->volume) : NULL;
	cleanup(volume_parts_release) struct volume_parts parts = VOLUME_PARTS_INIT;
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[VOLUME_OBJECT_SIZE];
	struct error err;
	enum status status;

	/* one that continues looks for nodes that are due at its end. A failure that the node reports of its
	 * mount is no mount */
	if (!detail || !detail->node_expansion_due || claim->mode != CLAIM_WRITE || claim->attempts > 0 ||
	    detail->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY ||
	    !volume_phase_can_expand_on(entry, state_node(&server->state, claim->node_id)))
		return;
	status = volume_store_load(server, entry, &parts, &err);
	if (status == STATUS_OK && !volume_phase_resume_on(parts.detail, claim->node_id))
		status = error_no_memory(&err, "a volume");
	if (status == STATUS_OK) {
		volume_store_stage(server, &change, &parts);
		audit_own(server, &change, "Volumes.Expand", volume_object(&entry->volume, object),
			  claim->node_id);
		status = change_commit(server, &change, NULL, NULL, &err);
	}
	if (status == STATUS_OK)
		volume_work_start(server, claim->namespace, claim->volume_id, NULL, NULL);
	else
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.volume = claim->volume_id,
					  .node = claim->node_id,
					  .op = "provider",
					  .err = &err},
			"its file system is not expanded before it is mounted again");
}

/* A node that was behind may have it no longer: then there is nothing to wait for. */
static void on_released(struct server *server, const struct claim *claim)
{
	struct volume_work *work = find(server, claim->namespace, claim->volume_id);
	const struct volume_entry *entry = work ? volume_work_entry(work) : NULL;
	const Holdfast__V1__VolumeDetail *detail = entry ? volume_detail_of(server, &entry->volume) : NULL;

	if (detail && detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_EXPANDING && !work->is_busy)
		begin_try(work);
}

/* May the change be the last report, or the purge of who owes one? */
static bool may_be_last_report(const struct change_object *object)
{
	return object->kind == OBJECT_NODE ||
	       (object->kind == OBJECT_RECORD &&
		(str_eq(object->key, KEY_NODE_COUNT) || str_starts_with(object->key, PREFIX_REPLACED)));
}

/* Each of the works waits for that once. */
static void note_reports(struct server *server)
{
	struct volume_work *next, *work;

	if (!LIST_EMPTY(&server->state.unreported) || history_missing_nodes(server) > 0 ||
	    replaced_next(server, NULL))
		return;
	RB_FOREACH_SAFE (work, volume_work_tree, &server->volume_works, next)
		if (work->waits_for_nodes && !work->is_busy)
			begin_try(work);
}

void volume_work_note_durable(struct server *server, struct change_object *objects, size_t n,
			      uint64_t revision)
{
	bool may_be_last = false;

	for (size_t i = 0; i < n; i++) {
		const struct claim *claim = objects[i].value;

		may_be_last = may_be_last || may_be_last_report(&objects[i]);
		if (objects[i].kind != OBJECT_CLAIM)
			continue;
		if (objects[i].is_deletion || claim->state > CLAIM_UNPUBLISHING)
			on_released(server, claim);
		else if (claim->state == CLAIM_TAKEN)
			on_mounted(server, claim);
	}
	if (may_be_last)
		note_reports(server);
}

/* "volume-detail/NAMESPACE/ID" */
static struct volume_work *work_of_key(struct server *server, const char *key)
{
	const char *namespace = key + strlen(PREFIX_VOLUME_DETAIL);
	const char *slash = strchr(namespace, '/');
	char text[NAMESPACE_MAX + 1];

	if (!slash || str_format(text, sizeof(text), "%.*s", (int)(slash - namespace), namespace) < 0)
		return NULL;
	return find_or_new(server, text, slash + 1);
}

void volume_work_resume_all(struct server *server)
{
	struct record_entry *entry = records_from(&server->state.records, PREFIX_VOLUME_DETAIL);

	for (; entry && str_starts_with(entry->key, PREFIX_VOLUME_DETAIL); entry = records_next(entry)) {
		const Holdfast__V1__VolumeDetail *detail =
			(const Holdfast__V1__VolumeDetail *)(const void *)entry->record.message;
		struct volume_work *work = NULL;

		if (detail->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY)
			work = work_of_key(server, entry->key);
		if (!work)
			continue;
		/* no node has connected yet */
		(void)error_set(&work->error, STATUS_UNAVAILABLE, 0, "the server has just started");
		work->may_be_done = true;
		volume_work_retry(work);
	}
}

void volume_work_release_all(struct server *server)
{
	static const struct error ending = {
		.status = STATUS_UNAVAILABLE,
		.msg = "the server is ending; the request is stored and continues after its start"};
	struct volume_work *work;

	while ((work = RB_MIN(volume_work_tree, &server->volume_works)))
		volume_work_end(work, &ending);
}

char *volume_provider_name(const struct server *server, const struct volume *volume,
			   const Holdfast__V1__VolumeDetail *detail,
			   char ret[static VOLUME_PROVIDER_NAME_SIZE])
{
	enum { HASH_BYTES = 8 }; /* with which a wire name ends */
	const bool is_clone = detail->clone_id[0] != '\0';
	const char *source = is_clone ? detail->clone_id : detail->snapshot_id;
	uint8_t digest[SHA256_DIGEST_LENGTH];
	char wire[WIRE_VOLUME_SIZE], text[WIRE_VOLUME_SIZE + EXTERNAL_ID_MAX + 16];

	volume_wire_name(volume->namespace, volume->id, wire);
	if (source[0] != '\0') {
		(void)str_join(text, sizeof(text), wire, is_clone ? "/clone/" : "/snapshot/", source);
		(void)SHA256((const uint8_t *)text, strlen(text), digest);
		hex_encode(wire + strlen(wire) - (size_t)(2 * HASH_BYTES), digest, HASH_BYTES);
	}
	(void)str_format(ret, VOLUME_PROVIDER_NAME_SIZE, "%s-%s", server->config.cluster, wire);
	return ret;
}

static bool apply_created(struct volume_work *work, struct volume_parts *parts,
			  const Holdfast__V1__PluginReply *reply)
{
	const Holdfast__V1__ControllerCreateResponse *made = reply->create;

	if (str_copy(parts->volume.external_id, sizeof(parts->volume.external_id), made->external_id) < 0)
		return false;
	if (!volume_phase_created(parts->detail, volume_work_entry(work), made))
		return false;
	return parts->detail->capacity_min <= work->asked_min ||
	       parts->detail->capacity_min <= parts->detail->capacity ||
	       volume_phase_begin(parts->detail, HOLDFAST__V1__VOLUME_PHASE__VOLUME_EXPANDING);
}

static enum status check_made(const Holdfast__V1__ControllerCreateResponse *made, struct error *err)
{
	TRY(volume_check_map("context", VOLUME_MAP(made->context), made->n_context, err));
	return volume_check_topologies("topologies", made->topologies, made->n_topologies, err);
}

static enum status check_is_own(struct volume_work *work, const Holdfast__V1__ControllerCreateResponse *made)
{
	struct volume volume = volume_work_entry(work)->volume;

	(void)str_copy(volume.external_id, sizeof(volume.external_id), made->external_id);
	storage_context_digest(VOLUME_MAP(made->context), made->n_context, volume.context_digest);
	TRY(identity_check_made(work->server, &volume, &work->error));
	TRY(volume_work_check_copied(work->server, &volume, &work->error));
	return snapshots_check_copied(work->server, &volume, &work->error);
}

/* Another namespace may get the source while the call waits in the plugin's line, or while the plugin makes
 * the copy. */
static enum status check_source_still(struct volume_work *work, struct error *err)
{
	cleanup(volume_parts_release) struct volume_parts parts = VOLUME_PARTS_INIT;
	struct volume_entry *entry = volume_work_entry(work);

	if (!entry)
		return STATUS_OK;
	TRY(volume_store_load(work->server, entry, &parts, err));
	return identity_check_source_still(work->server, &parts,
					   snapshots_source(&work->server->state, &parts), err);
}

static void on_created(struct server *server, const Holdfast__V1__PluginReply *reply, const struct error *err,
		       void *userdata)
{
	struct volume_work *work = userdata;
	struct error bad;

	if (work->is_unwanted) { /* as in on_deleted() */
		work->is_unwanted = false;
		volume_work_step(work);
		return;
	}
	if (!err && reply->create && check_made(reply->create, &bad) != STATUS_OK) {
		(void)error_prefix(&bad, "the plugin made the volume with what cannot be kept");
		bad.status = STATUS_INTERNAL; /* it is made: this must not read as a refusal */
		err = &bad;
	}
	if (!err && (!reply->create || reply->create->external_id[0] == '\0' ||
		     strlen(reply->create->external_id) > EXTERNAL_ID_MAX ||
		     !str_is_text(reply->create->external_id))) { /* no start could read it from the store */
		(void)error_set(&bad, STATUS_INTERNAL, 0,
				"the plugin made the volume but named it with no id, or one that is no text "
				"or has more than %d bytes",
				EXTERNAL_ID_MAX);
		err = &bad;
	}
	if (!err && check_source_still(work, &bad) != STATUS_OK) {
		bad.status = STATUS_INTERNAL; /* as above: the copy is not taken */
		err = &bad;
	}
	if (!err && volume_work_entry(work) && check_is_own(work, reply->create) != STATUS_OK) {
		volume_work_forget(work, "Volumes.Create",
				   "the provider answered with another volume's storage");
		return;
	}
	volume_work_take_reply(work, reply, err, "Volumes.Create", apply_created);
}

static bool apply_expanded(struct volume_work *work, struct volume_parts *parts,
			   const Holdfast__V1__PluginReply *reply)
{
	return volume_phase_expanded(parts->detail, volume_work_entry(work), reply->expand, work->asked_min);
}

static void on_expanded(struct server *server, const Holdfast__V1__PluginReply *reply,
			const struct error *err, void *userdata)
{
	struct error bad;

	if (!err && !reply->expand) {
		(void)error_set(&bad, STATUS_INTERNAL, 0, "the plugin gave no answer to expand");
		err = &bad;
	}
	volume_work_take_reply(userdata, reply, err, "Volumes.Expand", apply_expanded);
}

static void on_deleted(struct server *server, const Holdfast__V1__PluginReply *reply, const struct error *err,
		       void *userdata)
{
	struct volume_work *work = userdata;
	bool is_gone = !err || err->status == STATUS_NOT_FOUND;
	struct error in_use;

	if (work->is_unwanted) { /* the same checks find the cause again, and end the try */
		work->is_unwanted = false;
		volume_work_step(work);
		return;
	}
	if (!is_gone) {
		volume_work_take_reply(work, NULL, err, NULL, NULL);
		return;
	}
	if (!volume_work_entry(work)) {
		volume_work_end(work, NULL);
		return;
	}
	if (volume_check_unused(server, volume_work_entry(work), &work->error) != STATUS_OK) {
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

	if (!volume_work_load(work, &parts))
		return;
	if (err && err->status != STATUS_NOT_FOUND) {
		node_failed(work, &parts, call->node_id, err);
		volume_work_step(work);
		return;
	}
	if (err) /* the volume is gone: there is nothing to expand */
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
	enum status status;

	if (!call)
		return error_no_memory(err, "a volume");
	call->work = work;
	(void)str_copy(call->node_id, sizeof(call->node_id), claim->node_id);
	status = volume_call_node_expand(work->server, parts, claim, on_node_expanded, call, err);
	if (status != STATUS_OK)
		free(call);
	return status;
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

/* @status of the check whether nodes may hold the volume without the server's knowledge. */
static enum status note_wait(struct volume_work *work, enum status status)
{
	work->waits_for_nodes = status != STATUS_OK;
	return status;
}

static bool is_creation_wanted(struct server *server, void *userdata)
{
	struct volume_work *work = userdata;
	const struct volume_entry *entry = volume_work_entry(work);

	work->is_unwanted = !entry ||
			    note_wait(work, epoch_check_all(server, &entry->volume, NULL)) != STATUS_OK ||
			    check_source_still(work, NULL) != STATUS_OK;
	return !work->is_unwanted;
}

/* The provider may answer with storage that it made by this name before. After a restore, a node that has not
 * reported may have that. */
static enum status step_creating(struct volume_work *work, struct volume_parts *parts, struct error *err)
{
	const struct volume *volume = &parts->volume;
	char name[VOLUME_PROVIDER_NAME_SIZE];

	TRY(note_wait(work, epoch_check_all(work->server, volume, err)));
	TRY(identity_check_source_still(work->server, parts, snapshots_source(&work->server->state, parts),
					err));
	return volume_call_create(work->server, parts,
				  volume_provider_name(work->server, volume, parts->detail, name),
				  is_creation_wanted, on_created, work, err);
}

/* May the volume be deleted at its provider? Not before all nodes have reported that may hold it. */
static enum status check_deletion(struct volume_work *work, struct error *err)
{
	TRY(note_wait(work, epoch_check(work->server, &volume_work_entry(work)->volume, err)));
	TRY(volume_check_unused(work->server, volume_work_entry(work), err));
	return identity_check_alone(work->server, NULL, volume_work_entry(work), err);
}

/* A node may become unreported, or report a claim, while the call waits in the plugin's line. */
static bool is_deletion_wanted(struct server *server, void *userdata)
{
	struct volume_work *work = userdata;
	const struct volume_entry *entry = volume_work_entry(work);
	const Holdfast__V1__VolumeDetail *detail = entry ? volume_detail_of(server, &entry->volume) : NULL;

	work->is_unwanted = !detail || detail->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING ||
			    check_deletion(work, NULL) != STATUS_OK;
	return !work->is_unwanted;
}

/* Continues a deletion. After a restore it may be an old one: nothing is deleted that may be in use again. */
static enum status step_deleting(struct volume_work *work, struct volume_parts *parts, struct error *err)
{
	return volume_call_delete(work->server, parts, is_deletion_wanted, on_deleted, work, err);
}

/* Everything the phase asks for has been done, or failed where only nodes are behind. */
static void volume_work_finish(struct volume_work *work, struct volume_parts *parts)
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
	*ret_asked = true;
	switch (parts->detail->phase) {
	case HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING:
		return step_creating(work, parts, err);
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

/* Does the next thing that the stored phase asks for. */
static void volume_work_step(struct volume_work *work)
{
	cleanup(volume_parts_release) struct volume_parts parts = VOLUME_PARTS_INIT;
	struct error err;
	bool asked;

	set_busy(work, true);
	if (!volume_work_load(work, &parts))
		return;
	if (parts.detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY) {
		set_busy(work, false);
		volume_work_end(work, NULL);
		return;
	}
	if (parts.detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING &&
	    check_deletion(work, &work->error) != STATUS_OK) {
		volume_work_failed(work, &parts, false); /* and that ends it */
		return;
	}
	work->asked_phase = parts.detail->phase;
	work->asked_min = parts.detail->capacity_min;
	if (step(work, &parts, &asked, &err) != STATUS_OK) {
		/* the code is this server's, not the provider's: only what cannot be put in a call ends it */
		if (err.status != STATUS_INVALID_ARGUMENT)
			err.status = STATUS_UNAVAILABLE;
		work->error = err;
		volume_work_failed(work, &parts, false);
		return;
	}
	if (!asked)
		volume_work_finish(work, &parts);
}
