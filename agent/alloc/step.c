/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/step.h"

#include "base/clock.h"
#include "base/grid.h"
#include "base/str.h"
#include "model/task.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define NO GRID_NO
#define STAY GRID_STAY
#define TO(phase) GRID_TO(ALLOC_##phase)

/* clang-format off */
static const uint8_t phase_steps[ALLOC_EVENT_N][ALLOC_PHASE_N] = {
	/*                          NEW,          CLAIMING,     MOUNTING,     RUNNING,      STOPPING,     STOPPED */
	[ALLOC_EVENT_CLAIM] =      {TO(CLAIMING), STAY,         TO(CLAIMING), NO,           NO,           NO},
	[ALLOC_EVENT_CLAIMED] =    {NO,           TO(MOUNTING), NO,           NO,           STAY,         NO},
	[ALLOC_EVENT_MOUNTED] =    {NO,           TO(MOUNTING), STAY,         NO,           STAY,         NO},
	[ALLOC_EVENT_UNMOUNTED] =  {NO,           TO(MOUNTING), STAY,         TO(MOUNTING), NO,           NO},
	[ALLOC_EVENT_UNIT_START] = {STAY,         STAY,         STAY,         NO,           NO,           NO},
	[ALLOC_EVENT_UNIT_RUNS] =  {STAY,         STAY,         STAY,         STAY,         NO,           NO},
	[ALLOC_EVENT_UNIT_ENDED] = {TO(STOPPING), TO(STOPPING), TO(STOPPING), TO(STOPPING), STAY,         NO},
	[ALLOC_EVENT_TASK_START] = {STAY,         STAY,         STAY,         NO,           NO,           NO},
	[ALLOC_EVENT_TASK_RUNS] =  {STAY,         STAY,         STAY,         STAY,         NO,           NO},
	[ALLOC_EVENT_TASK_HEALTH] = {STAY,        STAY,         STAY,         STAY,         NO,           NO},
	[ALLOC_EVENT_TASK_FAILED] = {STAY,        STAY,         STAY,         STAY,         NO,           NO},
	[ALLOC_EVENT_TASK_DONE] =  {STAY,         STAY,         STAY,         STAY,         NO,           NO},
	[ALLOC_EVENT_TASK_ENDED] = {TO(STOPPING), TO(STOPPING), TO(STOPPING), TO(STOPPING), NO,           NO},
	[ALLOC_EVENT_TASK_GONE] =  {NO,           NO,           NO,           NO,           STAY,         NO},
	[ALLOC_EVENT_NETWORK_START] = {STAY,      STAY,         STAY,         NO,           NO,           NO},
	[ALLOC_EVENT_NETWORK_UP] = {STAY,         STAY,         STAY,         NO,           NO,           NO},
	[ALLOC_EVENT_NETWORK_GONE] = {NO,         NO,           NO,           NO,           STAY,         NO},
	[ALLOC_EVENT_RUN] =        {TO(RUNNING),  TO(RUNNING),  TO(RUNNING),  NO,           NO,           NO},
	[ALLOC_EVENT_FAIL] =       {TO(STOPPING), TO(STOPPING), TO(STOPPING), TO(STOPPING), NO,           NO},
	[ALLOC_EVENT_STOP] =       {TO(STOPPING), TO(STOPPING), TO(STOPPING), TO(STOPPING), NO,           NO},
	[ALLOC_EVENT_SHUTDOWN] =   {TO(STOPPING), TO(STOPPING), TO(STOPPING), TO(STOPPING), NO,           NO},
	[ALLOC_EVENT_DEVICE] =     {NO,           NO,           NO,           NO,           STAY,         NO},
	[ALLOC_EVENT_RELEASED] =   {NO,           NO,           NO,           NO,           STAY,         NO},
	[ALLOC_EVENT_FINISH] =     {NO,           NO,           NO,           NO,           TO(STOPPED),  NO},
	[ALLOC_EVENT_REBOOTED] =   {TO(STOPPED),  TO(STOPPED),  TO(STOPPED),  TO(STOPPED),  TO(STOPPED),  NO},
};
/* clang-format on */

enum alloc_phase alloc_phase_step(enum alloc_phase phase, enum alloc_event_type event)
{
	assert(event < ALLOC_EVENT_N && phase < ALLOC_PHASE_N);
	if (phase_steps[event][phase] == NO)
		return ALLOC_PHASE_N;
	return (enum alloc_phase)grid_next(phase_steps[event][phase], phase);
}

static void describe(struct alloc_record *record, enum status code, const char *text)
{
	record->alloc.client_code = (int32_t)code;
	(void)snprintf(record->description, sizeof(record->description), "%s", text);
}

static void apply_grant(struct alloc_record *record, uint32_t i, const struct claim_grant *grant)
{
	const struct volume_request *request = &record->alloc.volumes[i];
	struct volume_record *volume = &record->volumes[i];
	const struct volume_target former = volume->target;
	/* a reader of a volume that was never written has generation 0, as a record without a claim */
	bool is_repeated = volume->state == VOLUME_CLAIMED && volume->generation == grant->claim.generation;

	volume->state = VOLUME_CLAIMED;
	volume->generation = grant->claim.generation;
	volume->mode = grant->claim.mode;
	volume->is_granted_now = true;
	memcpy(volume->claim_id, grant->claim.id, sizeof(volume->claim_id));
	secret_message_unref(volume->target.details);
	volume->target = (struct volume_target){
		.slot = (uint8_t)i,
		.type = grant->volume.type,
		.source = grant->volume.source,
		.stage_read_only = grant->claim.mode == CLAIM_READ &&
				   (!grant->has_ticket || grant->ticket.stage_read_only != 0),
		.read_only = request->read_only || grant->claim.mode == CLAIM_READ,
		.exec = request->exec,
		.propagation = request->propagation,
		.has_ticket = grant->has_ticket,
		.ticket = grant->ticket,
		.details = secret_message_ref(grant->details),
	};
	memcpy(volume->target.volume_id, grant->volume.id, sizeof(volume->target.volume_id));
	memcpy(volume->target.namespace, grant->volume.namespace, sizeof(volume->target.namespace));
	memcpy(volume->target.wire_volume, grant->wire_volume, sizeof(volume->target.wire_volume));
	memcpy(volume->target.alloc_id, record->alloc.id, sizeof(volume->target.alloc_id));
	/* a copy of a mount that was made under the same grant may live */
	if (is_repeated)
		volume_target_keep_device(&former, &volume->target);
	if (grant->volume.type != VOLUME_CSI) {
		memcpy(volume->target.profile, grant->volume.profile, sizeof(volume->target.profile));
		return;
	}
	volume->target.access_mode = grant->claim.access_mode;
	volume->target.attachment_mode = grant->claim.attachment_mode;
	/* a label, as the grant was checked */
	(void)str_copy(volume->target.profile, sizeof(volume->target.profile), grant->volume.plugin_id);
	memcpy(volume->target.external_id, grant->volume.external_id, sizeof(volume->target.external_id));
	memcpy(volume->target.context_digest, grant->volume.context_digest,
	       sizeof(volume->target.context_digest));
}

/* Drops the details: unmounting does not need them. */
static void forget_details(struct volume_target *target)
{
	secret_message_unref(target->details);
	target->details = NULL;
}

static void apply_mounted(struct alloc_record *record, uint32_t i, const struct volume_mounted *mounted)
{
	struct volume_record *volume = &record->volumes[i];
	struct alloc_volume *published = &record->alloc.published[i];

	assert(mounted && i < record->alloc.n_volumes);
	volume->state = VOLUME_PUBLISHED;
	forget_details(&volume->target);
	volume->target.dev_major = mounted->dev_major;
	volume->target.dev_minor = mounted->dev_minor;
	volume->target.is_host_device = mounted->is_host_device;
	volume->target.is_nfs_listed = mounted->is_nfs_listed;
	*published = (struct alloc_volume){0};
	memcpy(published->name, record->alloc.volumes[i].name, sizeof(published->name));
	memcpy(published->path, mounted->path, sizeof(published->path));
	memcpy(published->claim_id, volume->claim_id, sizeof(published->claim_id));
	published->is_device = mounted->is_device;
	if (record->alloc.n_published <= i)
		record->alloc.n_published = i + 1;
}

/* Marks a volume as unmounted. Its claim and its path are kept, because it will be mounted there again. */
static void apply_unmounted(struct alloc_record *record, uint32_t i)
{
	struct volume_record *volume = &record->volumes[i];

	assert(volume->state == VOLUME_PUBLISHED);
	volume->state = VOLUME_CLAIMED;
	volume->is_granted_now = false;
	forget_details(&volume->target);
}

static void keep_published(struct alloc *alloc, uint32_t n)
{
	if (alloc->n_published <= n)
		return;
	memset(&alloc->published[n], 0, (alloc->n_published - n) * sizeof(alloc->published[0]));
	alloc->n_published = n;
}

static void apply_released(struct alloc_record *record, uint32_t i)
{
	assert(volume_record_is_live(&record->volumes[i]));
	record->volumes[i].state = VOLUME_RELEASED;
	forget_details(&record->volumes[i].target);
	keep_published(&record->alloc, i);
}

static void set_unit(struct alloc_record *record, enum task_record_state state, const char *invocation)
{
	assert(invocation && alloc_unit(&record->alloc)[0] != '\0');
	record->task.state = state;
	(void)str_copy(record->task.invocation, sizeof(record->task.invocation), invocation);
}

/* Handles the end of a unit that the agent did not stop: its volumes are released as after a stop. */
static void apply_unit_ended(struct alloc_record *record, const struct error *err, bool was_stopping)
{
	record->task.state = TASK_RECORD_ENDED;
	if (was_stopping)
		return;
	record->final_status = err ? CLIENT_FAILED : CLIENT_COMPLETE;
	describe(record, err ? err->status : STATUS_OK, err ? err->msg : "");
}

static Holdfast__Driver__V1__TaskStatus *find_status(const struct message_list *list, const char *name)
{
	for (size_t i = 0; i < message_list_n(list); i++) {
		Holdfast__Driver__V1__TaskStatus *status = (void *)list->messages[i];

		if (str_eq(status->task, name))
			return status;
	}
	return NULL;
}

/* Stores the status of a task. Without memory the previous one stays. */
static void put_status(struct alloc *alloc, const Holdfast__Driver__V1__TaskStatus *status)
{
	ProtobufCMessage *all[ALLOC_TASKS_MAX];
	struct message_list *list;
	size_t n = 0;

	for (size_t i = 0; i < message_list_n(alloc->tasks); i++) {
		const char *name = alloc_task(alloc, i)->task;
		const Holdfast__Driver__V1__TaskStatus *one =
			str_eq(name, status->task) ? status : find_status(alloc->task_status, name);

		if (one)
			all[n++] = (ProtobufCMessage *)(uintptr_t)one;
	}
	if (!message_list_new(all, n, &list))
		return;
	message_list_unref(alloc->task_status);
	alloc->task_status = list;
}

/* The order of a task that is never restarted is not kept, and without memory it is restarted never. */
static void keep_start(struct driver_task_record *task, const Holdfast__Driver__V1__TaskConfig *config,
		       const Holdfast__Driver__V1__StartTaskRequest *start)
{
	ProtobufCMessage *message = (ProtobufCMessage *)(uintptr_t)start;

	if (!start || !restart_is_wanted(config->restart))
		return;
	message_list_unref(task->start);
	task->start = NULL;
	(void)message_list_new(&message, 1, &task->start);
}

static void apply_task_runs(struct alloc_record *record, const struct alloc_event *event)
{
	static char starting[] = "starting";
	const Holdfast__Driver__V1__TaskConfig *config = alloc_task(&record->alloc, event->task);
	const Holdfast__Driver__V1__TaskStatus *before = find_status(record->alloc.task_status, config->task);
	Holdfast__Driver__V1__TaskStatus status = HOLDFAST__DRIVER__V1__TASK_STATUS__INIT;
	struct driver_task_record *task = &record->tasks[event->task];
	ProtobufCMessage *handle = (ProtobufCMessage *)(uintptr_t)event->handle;
	bool is_restart = task->state == TASK_RECORD_BACKOFF;

	task->state = TASK_RECORD_RUNNING;
	task->restart_ms = 0;
	message_list_unref(task->handle);
	if (!message_list_new(&handle, 1, &task->handle))
		task->state = TASK_RECORD_STARTING; /* the same order gives it again */
	keep_start(task, config, event->start);
	status.alloc_id = record->alloc.id;
	status.task = config->task;
	status.state = HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING;
	status.started_ms = event->handle->started_ms;
	status.restarts = (before ? before->restarts : 0) + is_restart;
	if (config->health)
		status.health = starting;
	put_status(&record->alloc, &status);
	if (is_restart && record->phase == ALLOC_RUNNING)
		describe(record, STATUS_OK, "");
}

static void apply_task_health(struct alloc_record *record, const struct alloc_event *event)
{
	const char *name = alloc_task(&record->alloc, event->task)->task;
	const Holdfast__Driver__V1__TaskStatus *before = find_status(record->alloc.task_status, name);
	Holdfast__Driver__V1__TaskStatus status;

	if (!before)
		return;
	status = *before; /* shallow: put_status() copies it */
	status.health = (char *)(uintptr_t)event->health;
	put_status(&record->alloc, &status);
}

static void put_exited(struct alloc_record *record, const struct alloc_event *event)
{
	Holdfast__Driver__V1__ExitResult unknown = HOLDFAST__DRIVER__V1__EXIT_RESULT__INIT;
	Holdfast__Driver__V1__TaskStatus status = HOLDFAST__DRIVER__V1__TASK_STATUS__INIT;
	const Holdfast__Driver__V1__TaskStatus *before;

	status.alloc_id = record->alloc.id;
	status.task = alloc_task(&record->alloc, event->task)->task;
	before = find_status(record->alloc.task_status, status.task);
	status.started_ms = before ? before->started_ms : 0;
	status.restarts = before ? before->restarts : 0;
	status.completed_ms = event->now_ms;
	status.state = HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED;
	if (event->err)
		unknown.error = (char *)(uintptr_t)event->err->msg;
	status.result = event->result ? (void *)(uintptr_t)event->result : &unknown;
	put_status(&record->alloc, &status);
}

/* Its mounts and claims stay as they are. */
static void apply_task_failed(struct alloc_record *record, const struct alloc_event *event)
{
	struct driver_task_record *task = &record->tasks[event->task];
	char time[CLOCK_TEXT_SIZE], text[ALLOC_DESCRIPTION_MAX + 1];

	task->state = TASK_RECORD_BACKOFF;
	task->count = event->count;
	task->restart_ms = event->restart_ms;
	put_exited(record, event);
	if (record->phase != ALLOC_RUNNING)
		return;
	(void)snprintf(text, sizeof(text), "%.900s; it is restarted at %s, restart %u of the interval",
		       event->err->msg, clock_format(event->restart_ms, time), event->count.n);
	describe(record, STATUS_OK, text);
}

static void apply_task_exited(struct alloc_record *record, const struct alloc_event *event)
{
	record->tasks[event->task].state = TASK_RECORD_EXITED;
	put_exited(record, event);
	if (event->type == ALLOC_EVENT_TASK_DONE)
		return;
	record->final_status = event->err ? CLIENT_FAILED : CLIENT_COMPLETE;
	describe(record, event->err ? event->err->status : STATUS_OK, event->err ? event->err->msg : "");
}

/* Handles a stopped task that ended without a requested result. */
static void apply_task_gone(struct alloc_record *record, const struct alloc_event *event)
{
	const char *name = alloc_task(&record->alloc, event->task)->task;
	const Holdfast__Driver__V1__TaskStatus *before = find_status(record->alloc.task_status, name);
	Holdfast__Driver__V1__TaskStatus status = HOLDFAST__DRIVER__V1__TASK_STATUS__INIT;

	record->tasks[event->task].state = TASK_RECORD_ENDED;
	if (!before || before->state != HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING)
		return;
	status.alloc_id = record->alloc.id;
	status.task = before->task;
	status.state = HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED;
	status.started_ms = before->started_ms;
	status.restarts = before->restarts;
	status.completed_ms = event->now_ms;
	put_status(&record->alloc, &status);
}

static void apply_network_start(struct alloc_record *record, const char *driver)
{
	record->network.state = TASK_RECORD_STARTING;
	(void)str_copy(record->network.driver, sizeof(record->network.driver), driver); /* a label */
}

static void apply_network_up(struct alloc_record *record, const Holdfast__Driver__V1__NetworkSpec *spec)
{
	ProtobufCMessage *one = (ProtobufCMessage *)(uintptr_t)spec;
	struct network_record *network = &record->network;

	message_list_unref(network->spec);
	network->is_checked = message_list_new(&one, 1, &network->spec);
	network->state =
		network->is_checked ? TASK_RECORD_RUNNING : TASK_RECORD_STARTING; /* it is asked for again */
}

static void apply_rebooted(struct alloc_record *record, bool was_stopping)
{
	for (size_t i = 0; i < message_list_n(record->alloc.tasks); i++)
		if (driver_task_record_is_live(&record->tasks[i]))
			record->tasks[i].state = TASK_RECORD_ENDED;
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		if (volume_record_is_live(&record->volumes[i]))
			record->volumes[i].state = VOLUME_RELEASED;
	}
	if (task_record_is_live(&record->task))
		record->task.state = TASK_RECORD_ENDED;
	if (network_record_is_live(&record->network))
		record->network.state = TASK_RECORD_ENDED;
	keep_published(&record->alloc, 0);
	if (was_stopping) {
		record->alloc.client_status = record->final_status;
		return;
	}
	record->alloc.client_status = record->final_status = CLIENT_LOST;
	describe(record, STATUS_ABORTED, "node was rebooted");
}

/* Does the unit's own state allow the event, and is it one? */
static bool unit_allows(const struct alloc_record *record, const struct alloc_event *event)
{
	const struct task_record *task = &record->task;

	if (alloc_unit(&record->alloc)[0] == '\0' || task->state == TASK_RECORD_ENDED)
		return false;
	if (event->type == ALLOC_EVENT_UNIT_START)
		return task->state == TASK_RECORD_NONE;
	if (event->type == ALLOC_EVENT_UNIT_RUNS)
		return task->state == TASK_RECORD_STARTING ||
		       (task->state == TASK_RECORD_RUNNING && !str_eq(task->invocation, event->invocation));
	return true;
}

static bool task_allows(const struct alloc_record *record, const struct alloc_event *event)
{
	enum task_record_state state;

	if (event->task >= message_list_n(record->alloc.tasks))
		return false;
	state = record->tasks[event->task].state;
	if (event->type == ALLOC_EVENT_TASK_START)
		return state == TASK_RECORD_NONE;
	if (event->type == ALLOC_EVENT_TASK_RUNS)
		return state == TASK_RECORD_STARTING || state == TASK_RECORD_BACKOFF;
	if (event->type == ALLOC_EVENT_TASK_HEALTH)
		return state == TASK_RECORD_RUNNING;
	if (event->type == ALLOC_EVENT_TASK_FAILED)
		return state == TASK_RECORD_RUNNING && record->tasks[event->task].start;
	if (event->type == ALLOC_EVENT_TASK_GONE)
		return driver_task_record_is_live(&record->tasks[event->task]);
	return state == TASK_RECORD_STARTING || state == TASK_RECORD_RUNNING || state == TASK_RECORD_BACKOFF;
}

static bool has_task_at_driver(const struct alloc_record *record)
{
	for (uint32_t i = 0; i < message_list_n(record->alloc.tasks); i++)
		if (driver_task_record_is_live(&record->tasks[i]))
			return true;
	return false;
}

/* Returns whether the network must be made or checked. A network with tasks in it stays as it is. */
static bool wants_network(const struct alloc_record *record)
{
	const struct network_record *network = &record->network;

	if (record->alloc.network.mode != NETWORK_ISOLATED || network->state == TASK_RECORD_ENDED)
		return false;
	return network->state != TASK_RECORD_RUNNING || (!network->is_checked && !has_task_at_driver(record));
}

static bool network_allows(const struct alloc_record *record, const struct alloc_event *event)
{
	if (event->type == ALLOC_EVENT_NETWORK_START)
		return wants_network(record) && record->network.state == TASK_RECORD_NONE;
	if (event->type == ALLOC_EVENT_NETWORK_UP)
		return wants_network(record) && record->network.state != TASK_RECORD_NONE;
	return network_record_is_live(&record->network);
}

/* Does the state of what the event is about allow it? */
static bool part_allows(const struct alloc_record *record, const struct alloc_event *event)
{
	enum volume_record_state state;

	switch (event->type) {
	case ALLOC_EVENT_CLAIMED:
	case ALLOC_EVENT_MOUNTED:
	case ALLOC_EVENT_UNMOUNTED:
	case ALLOC_EVENT_DEVICE:
	case ALLOC_EVENT_RELEASED:
		if (event->volume >= record->alloc.n_volumes)
			return false;
		state = record->volumes[event->volume].state;
		if (event->type == ALLOC_EVENT_CLAIMED)
			return state == VOLUME_NONE || state == VOLUME_CLAIMED;
		if (event->type == ALLOC_EVENT_MOUNTED)
			return state == VOLUME_CLAIMED;
		if (event->type == ALLOC_EVENT_UNMOUNTED)
			return state == VOLUME_PUBLISHED;
		return state == VOLUME_CLAIMED || state == VOLUME_PUBLISHED;
	case ALLOC_EVENT_UNIT_START:
	case ALLOC_EVENT_UNIT_RUNS:
	case ALLOC_EVENT_UNIT_ENDED:
		return unit_allows(record, event);
	case ALLOC_EVENT_TASK_START:
	case ALLOC_EVENT_TASK_RUNS:
	case ALLOC_EVENT_TASK_HEALTH:
	case ALLOC_EVENT_TASK_FAILED:
	case ALLOC_EVENT_TASK_DONE:
	case ALLOC_EVENT_TASK_ENDED:
	case ALLOC_EVENT_TASK_GONE:
		return task_allows(record, event);
	case ALLOC_EVENT_NETWORK_START:
	case ALLOC_EVENT_NETWORK_UP:
	case ALLOC_EVENT_NETWORK_GONE:
		return network_allows(record, event);
	case ALLOC_EVENT_CLAIM:
	case ALLOC_EVENT_RUN:
	case ALLOC_EVENT_FAIL:
	case ALLOC_EVENT_STOP:
	case ALLOC_EVENT_SHUTDOWN:
	case ALLOC_EVENT_FINISH:
	case ALLOC_EVENT_REBOOTED:
	case ALLOC_EVENT_N:
		break;
	}
	return true;
}

bool alloc_step(struct alloc_record *record, const struct alloc_event *event)
{
	enum alloc_phase before = record->phase;
	enum alloc_phase phase;

	assert(record->alloc.n_volumes <= ALLOC_VOLUMES_MAX);
	phase = alloc_phase_step(before, event->type);
	if (phase == ALLOC_PHASE_N || !part_allows(record, event))
		return false;
	record->phase = phase;
	switch (event->type) {
	case ALLOC_EVENT_CLAIM:
		return before != phase;
	case ALLOC_EVENT_CLAIMED:
		apply_grant(record, event->volume, event->grant);
		return true;
	case ALLOC_EVENT_MOUNTED:
		apply_mounted(record, event->volume, event->mounted);
		return true;
	case ALLOC_EVENT_UNMOUNTED:
		apply_unmounted(record, event->volume);
		return true;
	case ALLOC_EVENT_UNIT_START:
		set_unit(record, TASK_RECORD_STARTING, event->invocation);
		return true;
	case ALLOC_EVENT_UNIT_RUNS:
		set_unit(record, TASK_RECORD_RUNNING, event->invocation);
		return true;
	case ALLOC_EVENT_UNIT_ENDED:
		apply_unit_ended(record, event->err, before == ALLOC_STOPPING);
		return true;
	case ALLOC_EVENT_TASK_START:
		record->tasks[event->task].state = TASK_RECORD_STARTING;
		return true;
	case ALLOC_EVENT_TASK_RUNS:
		apply_task_runs(record, event);
		return true;
	case ALLOC_EVENT_TASK_HEALTH:
		apply_task_health(record, event);
		return true;
	case ALLOC_EVENT_TASK_FAILED:
		apply_task_failed(record, event);
		return true;
	case ALLOC_EVENT_TASK_DONE:
	case ALLOC_EVENT_TASK_ENDED:
		apply_task_exited(record, event);
		return true;
	case ALLOC_EVENT_TASK_GONE:
		apply_task_gone(record, event);
		return true;
	case ALLOC_EVENT_NETWORK_START:
		apply_network_start(record, event->driver);
		return true;
	case ALLOC_EVENT_NETWORK_UP:
		apply_network_up(record, event->network);
		return true;
	case ALLOC_EVENT_NETWORK_GONE:
		record->network.state = TASK_RECORD_ENDED;
		return true;
	case ALLOC_EVENT_RUN:
		record->alloc.client_status = CLIENT_RUNNING;
		describe(record, STATUS_OK, "");
		return true;
	case ALLOC_EVENT_FAIL:
		assert(event->err && event->err->status != STATUS_OK);
		record->final_status = CLIENT_FAILED;
		describe(record, event->err->status, event->err->msg);
		return true;
	case ALLOC_EVENT_STOP:
		record->final_status = CLIENT_COMPLETE;
		record->alloc.desired_status = DESIRED_STOP;
		describe(record, STATUS_OK, "");
		return true;
	case ALLOC_EVENT_SHUTDOWN:
		record->final_status = CLIENT_LOST;
		describe(record, STATUS_ABORTED, "node was shut down");
		return true;
	case ALLOC_EVENT_DEVICE:
		volume_target_keep_device(event->target, &record->volumes[event->volume].target);
		return true;
	case ALLOC_EVENT_RELEASED:
		apply_released(record, event->volume);
		return true;
	case ALLOC_EVENT_FINISH:
		record->alloc.client_status = record->final_status;
		keep_published(&record->alloc, 0);
		return true;
	case ALLOC_EVENT_REBOOTED:
		apply_rebooted(record, before == ALLOC_STOPPING);
		return true;
	case ALLOC_EVENT_N:
		break;
	}
	return false;
}

bool volume_record_ticket_expired(const struct volume_record *volume, int64_t now_ms)
{
	return volume->target.has_ticket && (int64_t)volume->target.ticket.not_after_ms <= now_ms;
}

/* Is all there that a mount needs, or is the claim to be asked for again? A journal may have been put back,
 * or the clock: whether its claim is held still the server knows, and a ticket in it does not, however long
 * it is valid. */
static bool can_mount(const struct volume_record *volume)
{
	if (volume->target.type == VOLUME_CSI && !volume->target.details)
		return false;
	return volume->is_granted_now;
}

bool alloc_may_restart(const struct alloc_record *record)
{
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++)
		if (record->volumes[i].state != VOLUME_PUBLISHED)
			return false;
	return record->phase < ALLOC_STOPPING;
}

static struct alloc_next next_start(const struct alloc_record *record)
{
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		const struct volume_record *volume = &record->volumes[i];

		if (volume->state == VOLUME_PUBLISHED)
			continue;
		if (volume->state == VOLUME_CLAIMED && can_mount(volume))
			return (struct alloc_next){.action = ALLOC_DO_MOUNT, .volume = i};
		return (struct alloc_next){.action = ALLOC_DO_CLAIM, .volume = i};
	}
	if (wants_network(record))
		return (struct alloc_next){.action = ALLOC_DO_START_NETWORK};
	for (uint32_t i = 0; i < message_list_n(record->alloc.tasks); i++)
		if (record->tasks[i].state <= TASK_RECORD_STARTING)
			return (struct alloc_next){.action = ALLOC_DO_START_TASK, .task = i};
	if (alloc_unit(&record->alloc)[0] != '\0' && record->task.state != TASK_RECORD_RUNNING)
		return (struct alloc_next){.action = ALLOC_DO_START_UNIT};
	return (struct alloc_next){.action = ALLOC_DO_RUN};
}

static struct alloc_next next_stop(const struct alloc_record *record)
{
	if (task_record_is_live(&record->task))
		return (struct alloc_next){.action = ALLOC_DO_STOP_UNIT};
	for (uint32_t i = (uint32_t)message_list_n(record->alloc.tasks); i-- > 0;)
		if (driver_task_record_is_live(&record->tasks[i]))
			return (struct alloc_next){.action = ALLOC_DO_STOP_TASK, .task = i};
	for (uint32_t i = record->alloc.n_volumes; i-- > 0;) {
		if (volume_record_is_live(&record->volumes[i]))
			return (struct alloc_next){.action = ALLOC_DO_UNMOUNT, .volume = i};
	}
	/* of the tasks nothing is left: no volume waits for their network */
	if (network_record_is_live(&record->network))
		return (struct alloc_next){.action = ALLOC_DO_STOP_NETWORK};
	return (struct alloc_next){.action = ALLOC_DO_FINISH};
}

enum alloc_event_type alloc_task_end(const struct alloc_record *record, uint32_t task,
				     const struct error *err)
{
	for (uint32_t i = 0; !err && i < message_list_n(record->alloc.tasks); i++)
		if (i != task && !driver_task_record_is_over(&record->tasks[i]))
			return ALLOC_EVENT_TASK_DONE;
	return ALLOC_EVENT_TASK_ENDED;
}

struct alloc_next alloc_next(const struct alloc_record *record)
{
	switch (record->phase) {
	case ALLOC_NEW:
	case ALLOC_CLAIMING:
	case ALLOC_MOUNTING:
		return next_start(record);
	case ALLOC_STOPPING:
		return next_stop(record);
	case ALLOC_RUNNING:
	case ALLOC_STOPPED:
	case ALLOC_PHASE_N:
		break;
	}
	return (struct alloc_next){.action = ALLOC_DO_NOTHING};
}
