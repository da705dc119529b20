/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/record.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/names.h"
#include "base/str.h"
#include "model/pb.h"
#include "model/task.h"

#include <assert.h>
#include <errno.h>
#include <holdfast/v1/journal.pb-c.h>
#include <stdlib.h>
#include <string.h>

static const char *const phase_names[ALLOC_PHASE_N] = {
	[ALLOC_NEW] = "new",	     [ALLOC_CLAIMING] = "claiming", [ALLOC_MOUNTING] = "mounting",
	[ALLOC_RUNNING] = "running", [ALLOC_STOPPING] = "stopping", [ALLOC_STOPPED] = "stopped",
};

const char *alloc_phase_name(enum alloc_phase phase)
{
	const char *name = names_get(phase_names, ALLOC_PHASE_N, (int)phase);

	return name ? name : "invalid";
}

bool volume_record_is_live(const struct volume_record *volume)
{
	return volume->state == VOLUME_CLAIMED || volume->state == VOLUME_PUBLISHED;
}

bool volume_record_is_held_by(const struct volume_record *volume, const struct claim *claim)
{
	return volume_record_is_live(volume) && volume->generation == claim->generation &&
	       str_eq(volume->target.volume_id, claim->volume_id) &&
	       str_eq(volume->target.namespace, claim->namespace);
}

bool task_record_is_live(const struct task_record *task)
{
	return task->state == TASK_RECORD_STARTING || task->state == TASK_RECORD_RUNNING;
}

bool driver_task_record_is_live(const struct driver_task_record *task)
{
	return task->state != TASK_RECORD_NONE && task->state != TASK_RECORD_ENDED;
}

bool driver_task_record_is_over(const struct driver_task_record *task)
{
	return task->state == TASK_RECORD_ENDED || task->state == TASK_RECORD_EXITED;
}

bool network_record_is_live(const struct network_record *network)
{
	return network->state == TASK_RECORD_STARTING || network->state == TASK_RECORD_RUNNING;
}

bool alloc_record_has_work(const struct alloc_record *record)
{
	bool has_task = false;

	for (size_t i = 0; i < message_list_n(record->alloc.tasks); i++)
		has_task = has_task || driver_task_record_is_live(&record->tasks[i]);
	return has_task || task_record_is_live(&record->task);
}

void alloc_record_free(struct alloc_record *record)
{
	if (!record)
		return;
	message_list_unref(record->alloc.tasks);
	message_list_unref(record->alloc.constraints);
	message_list_unref(record->alloc.task_status);
	message_list_unref(record->network.spec);
	for (size_t i = 0; i < ALLOC_TASKS_MAX; i++) {
		message_list_unref(record->tasks[i].handle);
		message_list_unref(record->tasks[i].start);
	}
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++)
		secret_message_unref(record->volumes[i].target.details);
	free(record);
}

/* Allocates a record with room for everything that @alloc may publish. */
static struct alloc_record *record_alloc(const struct alloc *alloc)
{
	size_t n = alloc->n_volumes, n_plugins = alloc->n_plugins;
	struct alloc_record *record;

	assert(n <= ALLOC_VOLUMES_MAX && alloc->n_published <= n && n_plugins <= ALLOC_PLUGINS_MAX);
	record = calloc(1, sizeof(*record) +
				   n * (sizeof(record->volumes[0]) + sizeof(struct volume_request) +
					sizeof(struct alloc_volume)) +
				   n_plugins * sizeof(struct csi_plugin));
	if (!record)
		return NULL;
	record->alloc = *alloc;
	record->alloc.tasks = message_list_ref(alloc->tasks);
	record->alloc.constraints = message_list_ref(alloc->constraints);
	record->alloc.task_status = message_list_ref(alloc->task_status);
	(void)str_copy(record->description, sizeof(record->description), alloc_description(alloc));
	record->alloc.client_description = record->description;
	(void)str_copy(record->unit, sizeof(record->unit), alloc_unit(alloc));
	record->alloc.unit = record->unit;
	record->alloc.volumes = (struct volume_request *)(void *)&record->volumes[n];
	record->alloc.plugins = (struct csi_plugin *)(void *)&record->alloc.volumes[n];
	record->alloc.published = (struct alloc_volume *)(void *)&record->alloc.plugins[n_plugins];
	if (n_plugins > 0)
		memcpy(record->alloc.plugins, alloc->plugins, n_plugins * sizeof(alloc->plugins[0]));
	if (n > 0)
		memcpy(record->alloc.volumes, alloc->volumes, n * sizeof(alloc->volumes[0]));
	if (alloc->n_published > 0)
		memcpy(record->alloc.published, alloc->published,
		       alloc->n_published * sizeof(alloc->published[0]));
	return record;
}

/* The server has judged it; what it sends is judged again. */
static enum status check_driver(const struct alloc *alloc, struct error *err)
{
	bool is_systemd = str_eq(alloc->driver, DRIVER_SYSTEMD);

	if (!is_systemd && !str_eq(alloc->driver, DRIVER_NONE))
		return error_set(err, STATUS_UNIMPLEMENTED, 0,
				 "allocation %s wants driver '%s'; this agent has '" DRIVER_NONE
				 "' (mount only) and '" DRIVER_SYSTEMD "'",
				 alloc->id, alloc->driver);
	if (is_systemd != (alloc_unit(alloc)[0] != '\0') ||
	    (is_systemd && !id_is_service_unit(alloc_unit(alloc))))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "allocation %s: driver '%s' contradicts unit '%.64s'", alloc->id,
				 alloc->driver, alloc_unit(alloc));
	return alloc_validate_tasks(alloc, err);
}

enum status alloc_record_new(const struct alloc *alloc, const char *boot_id, struct alloc_record **ret,
			     struct error *err)
{
	struct alloc fresh = *alloc;
	struct alloc_record *record;

	if (!id_is_uuid(alloc->id))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "allocation id '%s' is not a lower-case UUID", alloc->id);
	TRY(check_driver(alloc, err));
	fresh.client_status = CLIENT_PENDING;
	fresh.client_description = NULL;
	fresh.client_code = 0;
	fresh.n_published = 0;
	fresh.task_status = NULL;
	record = record_alloc(&fresh);
	if (!record)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot take allocation %s",
				 alloc->id);
	(void)str_copy(record->boot_id, sizeof(record->boot_id), boot_id);
	*ret = record;
	return STATUS_OK;
}

/* A message that borrows everything from the record: for packing, never to be freed. */
static void borrow_volume(struct volume_record *volume, Holdfast__V1__JournalVolume *pb,
			  Holdfast__V1__Source *source)
{
	struct volume_target *target = &volume->target;

	holdfast__v1__source__init(source);
	source->class_ = (Holdfast__V1__SourceClass)target->source.class;
	source->by_id = target->source.by_id;
	source->size_bytes = target->source.size_bytes;
	source->inodes = target->source.inodes;
	source->server = target->source.server;
	source->export = target->source.export;
	source->host_volume = target->source.host_volume;
	holdfast__v1__journal_volume__init(pb);
	pb->state = (Holdfast__V1__JournalVolumeState)volume->state;
	pb->claim_id = volume->claim_id;
	pb->generation = volume->generation;
	pb->mode = (Holdfast__V1__ClaimMode)volume->mode;
	pb->volume_id = target->volume_id;
	pb->namespace_ = target->namespace;
	pb->wire_volume = target->wire_volume;
	pb->profile = target->profile;
	pb->type = (Holdfast__V1__VolumeType)target->type;
	pb->external_id = target->external_id;
	pb->context_digest = target->context_digest;
	pb->attachment_mode = (Holdfast__V1__AttachmentMode)target->attachment_mode;
	pb->access_mode = (Holdfast__V1__AccessMode)target->access_mode;
	pb->is_host_device = target->is_host_device;
	pb->source = source;
	pb->dev_major = target->dev_major;
	pb->dev_minor = target->dev_minor;
	pb->is_nfs_listed = target->is_nfs_listed;
	if (target->has_ticket) {
		pb->ticket.data = (uint8_t *)&target->ticket;
		pb->ticket.len = sizeof(target->ticket);
	}
}

static void borrow_task(const struct driver_task_record *task, Holdfast__V1__JournalTask *pb)
{
	holdfast__v1__journal_task__init(pb);
	pb->state = (Holdfast__V1__JournalTaskState)task->state;
	if (task->handle)
		pb->handle = (void *)task->handle->messages[0];
	if (task->start)
		pb->start = (void *)task->start->messages[0];
	pb->interval_restarts = task->count.n;
	pb->interval_since_ms = task->count.since_ms;
	pb->restart_at_ms = task->restart_ms;
}

static void borrow_network(struct network_record *network, Holdfast__V1__JournalNetwork *pb)
{
	holdfast__v1__journal_network__init(pb);
	pb->state = (Holdfast__V1__JournalTaskState)network->state;
	pb->driver = network->driver;
	if (network->spec)
		pb->spec = (void *)network->spec->messages[0];
}

enum status alloc_record_pack(struct alloc_record *record, uint8_t **ret, size_t *ret_len, struct error *err)
{
	Holdfast__V1__JournalAlloc pb = HOLDFAST__V1__JOURNAL_ALLOC__INIT;
	Holdfast__V1__JournalTask task = HOLDFAST__V1__JOURNAL_TASK__INIT;
	Holdfast__V1__JournalVolume volumes[ALLOC_VOLUMES_MAX];
	Holdfast__V1__JournalVolume *list[ALLOC_VOLUMES_MAX];
	Holdfast__V1__JournalTask tasks[ALLOC_TASKS_MAX];
	Holdfast__V1__JournalTask *task_list[ALLOC_TASKS_MAX];
	Holdfast__V1__JournalNetwork network;
	Holdfast__V1__Source sources[ALLOC_VOLUMES_MAX];
	uint8_t *bytes;

	pb.allocation = alloc_to_pb(&record->alloc);
	if (!pb.allocation)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot journal allocation %s",
				 record->alloc.id);
	pb.phase = (Holdfast__V1__JournalPhase)record->phase;
	pb.final_status = (Holdfast__V1__ClientStatus)record->final_status;
	pb.boot_id = record->boot_id;
	task.state = (Holdfast__V1__JournalTaskState)record->task.state;
	task.invocation_id = record->task.invocation;
	if (record->task.state != TASK_RECORD_NONE)
		pb.task = &task;
	pb.tasks = task_list;
	for (pb.n_tasks = 0; pb.n_tasks < message_list_n(record->alloc.tasks); pb.n_tasks++) {
		borrow_task(&record->tasks[pb.n_tasks], &tasks[pb.n_tasks]);
		task_list[pb.n_tasks] = &tasks[pb.n_tasks];
	}
	borrow_network(&record->network, &network);
	if (record->network.state != TASK_RECORD_NONE)
		pb.network = &network;
	pb.volumes = list;
	pb.n_volumes = record->alloc.n_volumes;
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		borrow_volume(&record->volumes[i], &volumes[i], &sources[i]);
		list[i] = &volumes[i];
	}
	*ret_len = holdfast__v1__journal_alloc__get_packed_size(&pb);
	bytes = malloc(*ret_len);
	if (bytes)
		(void)holdfast__v1__journal_alloc__pack(&pb, bytes);
	protobuf_c_message_free_unpacked(&pb.allocation->base, NULL);
	if (!bytes)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot journal allocation %s",
				 record->alloc.id);
	*ret = bytes;
	return STATUS_OK;
}

static bool parse_text(char *dst, size_t size, const char *src)
{
	return str_copy(dst, size, src) == 0;
}

/* False for what cannot have been written by us. */
static bool parse_volume(struct volume_record *volume, const struct alloc *alloc, uint32_t i,
			 const Holdfast__V1__JournalVolume *pb)
{
	const struct volume_request *request = &alloc->volumes[i];
	struct volume_target *target = &volume->target;

	if ((unsigned int)pb->state >= VOLUME_RECORD_STATE_N || (unsigned int)pb->mode >= CLAIM_MODE_N)
		return false;
	volume->state = (enum volume_record_state)pb->state;
	if (volume->state == VOLUME_NONE)
		return true;
	if (!pb->source || (unsigned int)pb->source->class_ >= SOURCE_CLASS_N ||
	    (unsigned int)pb->access_mode >= ACCESS_MODE_N ||
	    (unsigned int)pb->attachment_mode >= ATTACHMENT_MODE_N || !id_is_label(pb->wire_volume) ||
	    !id_is_uuid(pb->claim_id))
		return false;
	if (pb->type != HOLDFAST__V1__VOLUME_TYPE__NATIVE &&
	    (pb->type != HOLDFAST__V1__VOLUME_TYPE__CSI || !id_is_plugin(pb->profile) ||
	     pb->external_id[0] == '\0'))
		return false;
	volume->generation = pb->generation;
	volume->mode = (enum claim_mode)pb->mode;
	*target = (struct volume_target){
		.slot = (uint8_t)i,
		.type = (enum volume_type)pb->type,
		.access_mode = (enum access_mode)pb->access_mode,
		.attachment_mode = (enum attachment_mode)pb->attachment_mode,
		.is_host_device = pb->is_host_device,
		.source = {.class = (enum source_class)pb->source->class_,
			   .size_bytes = pb->source->size_bytes,
			   .inodes = pb->source->inodes},
		.dev_major = pb->dev_major,
		.dev_minor = pb->dev_minor,
		.is_nfs_listed = pb->is_nfs_listed,
		.stage_read_only = volume->mode == CLAIM_READ,
		.read_only = request->read_only || volume->mode == CLAIM_READ,
		.exec = request->exec,
		.propagation = request->propagation,
		.has_ticket = pb->ticket.len != 0,
	};
	/* one of another version has run out, and a mount asks for a fresh one */
	if (ticket_is_current(pb->ticket.data, pb->ticket.len)) {
		memcpy(&target->ticket, pb->ticket.data, sizeof(target->ticket));
		target->stage_read_only = target->stage_read_only && target->ticket.stage_read_only != 0;
	}
	return parse_text(volume->claim_id, sizeof(volume->claim_id), pb->claim_id) &&
	       parse_text(target->volume_id, sizeof(target->volume_id), pb->volume_id) &&
	       parse_text(target->namespace, sizeof(target->namespace), pb->namespace_) &&
	       parse_text(target->wire_volume, sizeof(target->wire_volume), pb->wire_volume) &&
	       parse_text(target->profile, sizeof(target->profile), pb->profile) &&
	       parse_text(target->external_id, sizeof(target->external_id), pb->external_id) &&
	       parse_text(target->context_digest, sizeof(target->context_digest), pb->context_digest) &&
	       parse_text(target->source.by_id, sizeof(target->source.by_id), pb->source->by_id) &&
	       parse_text(target->source.server, sizeof(target->source.server), pb->source->server) &&
	       parse_text(target->source.export, sizeof(target->source.export), pb->source->export) &&
	       parse_text(target->source.host_volume, sizeof(target->source.host_volume),
			  pb->source->host_volume) &&
	       parse_text(target->alloc_id, sizeof(target->alloc_id), alloc->id);
}

/* False for what cannot have been written by us. */
static bool parse_task(struct alloc_record *record, const Holdfast__V1__JournalTask *pb)
{
	bool has_unit = record->unit[0] != '\0';

	if (has_unit && !id_is_service_unit(record->unit))
		return false;
	if (!pb)
		return true;
	if (!has_unit || (unsigned int)pb->state > TASK_RECORD_ENDED)
		return false;
	record->task.state = (enum task_record_state)pb->state;
	return parse_text(record->task.invocation, sizeof(record->task.invocation), pb->invocation_id);
}

/* The same. False too when memory is short. */
static bool parse_tasks(struct alloc_record *record, const Holdfast__V1__JournalAlloc *pb)
{
	if (pb->n_tasks != message_list_n(record->alloc.tasks))
		return false;
	for (size_t i = 0; i < pb->n_tasks; i++) {
		const Holdfast__V1__JournalTask *task = pb->tasks[i];
		ProtobufCMessage *handle = (ProtobufCMessage *)task->handle;
		ProtobufCMessage *start = (ProtobufCMessage *)task->start;

		if ((unsigned int)task->state >= TASK_RECORD_STATE_N ||
		    (task->state == HOLDFAST__V1__JOURNAL_TASK_STATE__JOURNAL_TASK_RUNNING && !handle) ||
		    (task->state == HOLDFAST__V1__JOURNAL_TASK_STATE__JOURNAL_TASK_BACKOFF && !start) ||
		    !message_list_new(&handle, handle ? 1 : 0, &record->tasks[i].handle) ||
		    !message_list_new(&start, start ? 1 : 0, &record->tasks[i].start))
			return false;
		record->tasks[i].state = (enum task_record_state)task->state;
		record->tasks[i].count = (struct restart_count){.n = task->interval_restarts,
								.since_ms = task->interval_since_ms};
		record->tasks[i].restart_ms = task->restart_at_ms;
	}
	return true;
}

/* The same. */
static bool parse_network(struct alloc_record *record, const Holdfast__V1__JournalNetwork *pb)
{
	struct network_record *network = &record->network;
	ProtobufCMessage *spec = pb ? (ProtobufCMessage *)pb->spec : NULL;

	if (!pb)
		return true;
	if (record->alloc.network.mode != NETWORK_ISOLATED || (unsigned int)pb->state > TASK_RECORD_ENDED ||
	    !id_is_label(pb->driver) ||
	    (pb->state == HOLDFAST__V1__JOURNAL_TASK_STATE__JOURNAL_TASK_RUNNING && !spec))
		return false;
	network->state = (enum task_record_state)pb->state;
	return parse_text(network->driver, sizeof(network->driver), pb->driver) &&
	       message_list_new(&spec, spec ? 1 : 0, &network->spec);
}

static enum status damaged(struct error *err, const char *id)
{
	return error_set(err, STATUS_DATA_LOSS, 0, "the journal's record of allocation '%.64s' is damaged",
			 id);
}

static enum status from_pb(const Holdfast__V1__JournalAlloc *pb, struct alloc_record **ret, struct error *err)
{
	cleanup(alloc_record_freep) struct alloc_record *record = NULL;
	cleanup(alloc_release) struct alloc alloc = {0};
	enum status status;

	if (!pb->allocation)
		return damaged(err, "?");
	status = alloc_from_pb(pb->allocation, &alloc, err);
	if (status != STATUS_OK) {
		(void)error_prefix(err, "the journal's record of allocation '%.64s' is damaged",
				   pb->allocation->id);
		err->status = STATUS_DATA_LOSS;
		return STATUS_DATA_LOSS;
	}
	if (!id_is_uuid(alloc.id) || pb->n_volumes != alloc.n_volumes ||
	    (unsigned int)pb->phase >= ALLOC_PHASE_N || (unsigned int)pb->final_status >= CLIENT_N ||
	    alloc.n_published > alloc.n_volumes)
		return damaged(err, alloc.id);
	record = record_alloc(&alloc);
	if (!record)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot read the journal");
	record->phase = (enum alloc_phase)pb->phase;
	record->final_status = (enum client_status)pb->final_status;
	if (!parse_text(record->boot_id, sizeof(record->boot_id), pb->boot_id) ||
	    !parse_task(record, pb->task) || !parse_tasks(record, pb) || !parse_network(record, pb->network))
		return damaged(err, alloc.id);
	for (uint32_t i = 0; i < alloc.n_volumes; i++) {
		if (!parse_volume(&record->volumes[i], &alloc, i, pb->volumes[i]))
			return damaged(err, alloc.id);
	}
	*ret = TAKE_PTR(record);
	return STATUS_OK;
}

enum status alloc_record_unpack(const void *bytes, size_t n, struct alloc_record **ret, struct error *err)
{
	Holdfast__V1__JournalAlloc *pb = holdfast__v1__journal_alloc__unpack(NULL, n, bytes);
	struct error failure;
	enum status status;

	if (!pb)
		return damaged(err, "?");
	status = from_pb(pb, ret, &failure);
	protobuf_c_message_free_unpacked(&pb->base, NULL);
	if (status != STATUS_OK && err)
		*err = failure;
	return status;
}
