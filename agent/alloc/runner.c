/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/claim_call.h"
#include "alloc/runner_internal.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/wakeup.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct log_ctx runner_context(const struct alloc_runner *runner, const char *op)
{
	const struct volume_record *volume = &runner->record->volumes[runner->volume];
	bool has_volume = runner->volume < runner->record->alloc.n_volumes;

	bool has_claim = has_volume && volume->state != VOLUME_NONE;

	return (struct log_ctx){
		.alloc = runner->record->alloc.id,
		.volume = has_volume ? runner->record->alloc.volumes[runner->volume].source : NULL,
		.wire_volume = has_claim ? volume->target.wire_volume : NULL,
		.claim = has_claim ? volume->claim_id : NULL,
		.op = op,
		.generation = has_claim ? volume->generation : 0,
	};
}

/* A failure is told with the volume that it was about. */
static void log_status(const struct alloc_runner *runner)
{
	static const enum log_event events[CLIENT_N] = {
		[CLIENT_RUNNING] = LOG_EVENT_ALLOCATION_RUNNING,
		[CLIENT_COMPLETE] = LOG_EVENT_ALLOCATION_STOPPED,
		[CLIENT_FAILED] = LOG_EVENT_ALLOCATION_FAILED,
		[CLIENT_LOST] = LOG_EVENT_ALLOCATION_LOST,
	};
	const struct alloc *alloc = &runner->record->alloc;
	bool has_failed = alloc->client_status == CLIENT_FAILED;
	bool has_text = alloc_description(alloc)[0] != '\0';
	struct log_ctx ctx = {.alloc = alloc->id, .op = "allocation"};

	if (has_failed)
		ctx = runner_context(runner, "allocation");
	ctx.event = events[alloc->client_status];
	log_ctx(has_failed ? LOG_ERR : LOG_NOTICE, &ctx, "allocation %s is %s%s%s", alloc->id,
		client_status_name(alloc->client_status), has_text ? ": " : "", alloc_description(alloc));
}

/* Of the receipt's claim. */
static void log_receipt(const struct alloc_runner *runner, const struct receipt *receipt)
{
	const struct alloc_record *record = runner->record;

	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		const struct volume_record *volume = &record->volumes[i];
		const struct log_ctx ctx = {
			.volume = record->alloc.volumes[i].source,
			.wire_volume = volume->target.wire_volume,
			.alloc = record->alloc.id,
			.claim = volume->claim_id,
			.op = receipt->is_released ? "unpublish" : "publish",
			.generation = volume->generation,
			.event = receipt->is_released ? LOG_EVENT_VOLUME_UNPUBLISHED
						      : LOG_EVENT_VOLUME_PUBLISHED,
		};

		if (!str_eq(volume->claim_id, receipt->claim_id))
			continue;
		if (receipt->is_released)
			log_ctx(LOG_NOTICE, &ctx, "volume %s is not mounted for allocation %s any more",
				ctx.volume, ctx.alloc);
		else
			log_ctx(LOG_NOTICE, &ctx, "volume %s is published at %s", ctx.volume,
				record->alloc.published[i].path);
		return;
	}
}

static void on_written(const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;
	const struct runner_env *env = runner->env;
	struct runner_write *write = STAILQ_FIRST(&runner->writes);
	struct runner_write done = *write;
	struct error failure;

	STAILQ_REMOVE_HEAD(&runner->writes, entry);
	free(write);
	if (err) {
		env->on_broken(err, env->userdata);
		return;
	}
	if (done.has_receipt) {
		if (receipts_add(env->receipts, &done.receipt, &failure) != STATUS_OK) {
			env->on_broken(&failure, env->userdata);
			return;
		}
		log_receipt(runner, &done.receipt);
		env->on_receipt(&done.receipt, env->userdata);
	}
	if (done.tells_status) {
		log_status(runner);
		env->on_status(&runner->record->alloc, env->userdata);
	}
	runner_advance(runner);
}

static void save(struct alloc_runner *runner, const struct receipt *receipt, bool tells_status)
{
	const struct runner_env *env = runner->env;
	struct journal_write write = {.alloc = runner->record, .receipt = receipt};
	struct runner_write *pending = calloc(1, sizeof(*pending));
	struct error err;
	enum status status = STATUS_OK;

	if (!pending) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot write the journal");
		env->on_broken(&err, env->userdata);
		return;
	}
	pending->tells_status = tells_status;
	pending->has_receipt = receipt != NULL;
	if (receipt)
		pending->receipt = *receipt;
	status = journal_write(env->journal, &write, on_written, runner, &err);
	if (status != STATUS_OK) {
		free(pending);
		env->on_broken(&err, env->userdata);
		return;
	}
	STAILQ_INSERT_TAIL(&runner->writes, pending, entry);
}

static struct receipt make_receipt(const struct alloc_runner *runner, uint32_t i, bool is_released)
{
	const struct volume_record *volume = &runner->record->volumes[i];
	struct receipt receipt = {.generation = volume->generation, .is_released = is_released};

	memcpy(receipt.claim_id, volume->claim_id, sizeof(receipt.claim_id));
	memcpy(receipt.boot_id, runner->record->boot_id, sizeof(receipt.boot_id));
	return receipt;
}

/* Events after which the server is to be told. */
static bool tells_status(enum alloc_event_type type)
{
	return type == ALLOC_EVENT_RUN || type == ALLOC_EVENT_FAIL || type == ALLOC_EVENT_FINISH ||
	       type == ALLOC_EVENT_TASK_ENDED || type == ALLOC_EVENT_REBOOTED;
}

/* The last mount and the last release end a phase: what follows from them needs nobody, and goes into the
 * same write and to the server together with the receipt. */
static bool end_phase(struct alloc_runner *runner)
{
	struct alloc_next next = alloc_next(runner->record);
	bool is_up = next.action == ALLOC_DO_RUN && (!runner_runs_plugin(runner) || runner->is_plugin_ready);

	if (!is_up && next.action != ALLOC_DO_FINISH)
		return false;
	return alloc_step(runner->record,
			  &(struct alloc_event){.type = is_up ? ALLOC_EVENT_RUN : ALLOC_EVENT_FINISH});
}

void runner_apply(struct alloc_runner *runner, const struct alloc_event *event)
{
	bool is_released = event->type == ALLOC_EVENT_RELEASED;
	struct receipt receipt;

	if (!alloc_step(runner->record, event)) {
		runner_advance(runner);
		return;
	}
	if (event->type == ALLOC_EVENT_MOUNTED || is_released) {
		receipt = make_receipt(runner, event->volume, is_released);
		if (is_released && event->mounted) {
			receipt.is_without_plugin = true;
			str_copy_text(receipt.kernel, sizeof(receipt.kernel), event->mounted->kernel);
		}
		save(runner, &receipt, end_phase(runner));
		return;
	}
	save(runner, NULL, tells_status(event->type));
}

void runner_begin_op(struct alloc_runner *runner, enum runner_op op, uint32_t volume)
{
	if (op == RUNNER_CLAIM && runner->volume != volume)
		backoff_reset(&runner->claim_backoff);
	if (op != RUNNER_CLAIM)
		runner->last_error = (struct error){0};
	if (runner->op != RUNNER_WAIT)
		runner->op_since_ms = clock_realtime_ms();
	runner->op_deadline_ms = 0;
	runner->op = op;
	runner->volume = volume;
}

void runner_end_op(struct alloc_runner *runner)
{
	wakeup_disarm(&runner->news_timer);
	runner->op = RUNNER_IDLE;
	runner->claim = NULL;
	runner->task = NULL;
}

void runner_fail(struct alloc_runner *runner, const struct error *err)
{
	runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_FAIL, .err = err});
}

/* It is stopping: what is left of its work is only what must be undone. */
static void forget_work(struct alloc_runner *runner)
{
	runner_forget_plugin(runner);
	runner_forget_unit(runner);
}

void runner_advance(struct alloc_runner *runner)
{
	struct alloc_next next;

	if (!runner->is_started || !STAILQ_EMPTY(&runner->writes))
		return;
	runner_unit_written(runner);
	if (runner->op != RUNNER_IDLE)
		return;
	if (runner->record->phase == ALLOC_STOPPING || runner->record->phase == ALLOC_STOPPED)
		forget_work(runner);
	next = alloc_next(runner->record);
	switch (next.action) {
	case ALLOC_DO_CLAIM:
		runner_begin_claim(runner, next.volume);
		return;
	case ALLOC_DO_MOUNT:
		runner_begin_mount(runner, next.volume);
		return;
	case ALLOC_DO_RUN:
		if (runner_runs_plugin(runner) && !runner->is_plugin_ready)
			runner_begin_plugin(runner);
		else
			runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_RUN});
		return;
	case ALLOC_DO_START_TASK:
		runner_begin_unit(runner);
		return;
	case ALLOC_DO_STOP_TASK:
		runner_begin_unit_stop(runner);
		return;
	case ALLOC_DO_UNMOUNT:
		runner_begin_unmount(runner, next.volume);
		return;
	case ALLOC_DO_FINISH:
		runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_FINISH});
		return;
	case ALLOC_DO_NOTHING:
	case ALLOC_ACTION_N:
		return;
	}
}

enum status alloc_runner_new(const struct runner_env *env, struct alloc_record *record,
			     struct alloc_runner **ret, struct error *err)
{
	struct alloc_runner *runner = calloc(1, sizeof(*runner));

	if (!runner)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot run allocation %s",
				 record->alloc.id);
	runner->env = env;
	runner->record = record;
	runner->claim_backoff = (struct backoff)BACKOFF_INIT(CLAIM_RETRY_MIN_MS * USEC_PER_MSEC,
							     CLAIM_RETRY_MAX_MS * USEC_PER_MSEC);
	STAILQ_INIT(&runner->writes);
	*ret = runner;
	return STATUS_OK;
}

void alloc_runner_save(struct alloc_runner *runner)
{
	save(runner, NULL, true);
}

void alloc_runner_start(struct alloc_runner *runner)
{
	runner->is_started = true;
	runner_watch_unit(runner);
	runner_advance(runner);
}

/* What is under way ends at its next step; a wait ends now. */
static void interrupt(struct alloc_runner *runner)
{
	if (runner->op == RUNNER_MOUNT)
		volume_task_cancel(runner->task);
	if (runner->op == RUNNER_WAIT) {
		wakeup_disarm(&runner->retry_timer);
		runner->op = RUNNER_IDLE;
	}
	if (runner->op == RUNNER_PLUGIN || runner->op == RUNNER_START_UNIT)
		runner->op = RUNNER_IDLE;
}

static void stop(struct alloc_runner *runner, enum alloc_event_type why)
{
	if (!alloc_step(runner->record, &(struct alloc_event){.type = why}))
		return;
	interrupt(runner);
	save(runner, NULL, false);
}

void alloc_runner_stop(struct alloc_runner *runner)
{
	stop(runner, ALLOC_EVENT_STOP);
}

void alloc_runner_shut_down(struct alloc_runner *runner)
{
	stop(runner, ALLOC_EVENT_SHUTDOWN);
}

void alloc_runner_leave_out_plugin(struct alloc_runner *runner, const struct claim *claim)
{
	struct alloc_record *record = runner->record;
	bool is_freed = claim->state >= CLAIM_NODE_DETACHED;

	assert(record->phase == ALLOC_STOPPING);
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		struct volume_target *target = &record->volumes[i].target;

		if (!volume_record_is_live(&record->volumes[i]) ||
		    !str_eq(record->volumes[i].claim_id, claim->id) || target->type != VOLUME_CSI)
			continue;
		target->without_plugin = true;
		target->is_freed = is_freed;
		if (runner->op == RUNNER_UNMOUNT && runner->volume == i && runner->task)
			volume_task_leave_out_plugin(runner->task, is_freed);
	}
}

void alloc_runner_fail(struct alloc_runner *runner, const struct error *err)
{
	interrupt(runner);
	runner_fail(runner, err);
}

void alloc_runner_unmounted(struct alloc_runner *runner, uint32_t i)
{
	assert(runner->op == RUNNER_IDLE);
	runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_UNMOUNTED, .volume = i});
}

void alloc_runner_rebooted(struct alloc_runner *runner)
{
	assert(runner->op == RUNNER_IDLE);
	runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_REBOOTED});
}

const struct alloc_record *alloc_runner_record(const struct alloc_runner *runner)
{
	return runner->record;
}

bool alloc_runner_is_over(const struct alloc_runner *runner)
{
	return runner->record->phase == ALLOC_STOPPED && STAILQ_EMPTY(&runner->writes) &&
	       runner->op == RUNNER_IDLE;
}

struct alloc_runner_info alloc_runner_info(const struct alloc_runner *runner)
{
	struct alloc_runner_info info = {.last_error = ""};
	struct volume_task_info task;

	if (runner->op == RUNNER_PLUGIN) {
		info.step = "plugin";
		info.volume_id = "";
		info.since_ms = runner->op_since_ms;
		info.deadline_ms = runner->op_deadline_ms;
		return info;
	}
	if (runner->unit && (runner->op == RUNNER_START_UNIT || runner->op == RUNNER_STOP_UNIT)) {
		runner_unit_info(runner, &info);
		return info;
	}
	if (runner->op == RUNNER_IDLE || runner->volume >= runner->record->alloc.n_volumes)
		return info;
	info.volume_id = runner->record->alloc.volumes[runner->volume].source;
	if (runner->task) {
		task = volume_task_info(runner->task);
		info.step = task.step;
		info.since_ms = task.since_ms;
		info.deadline_ms = task.next_try_ms;
		info.attempts = task.attempts;
		info.last_error = task.last_error;
		return info;
	}
	info.step = runner->record->phase == ALLOC_STOPPING ? "unpublish" : "claim";
	info.since_ms = runner->op_since_ms;
	info.deadline_ms = runner->op_deadline_ms;
	info.attempts = runner->claim_backoff.attempts + (runner->op == RUNNER_CLAIM ? 1 : 0);
	info.last_error = runner->last_error.msg;
	return info;
}

void alloc_runner_free(struct alloc_runner *runner)
{
	struct runner_write *write;

	if (!runner)
		return;
	claim_call_cancel(runner->claim);
	task_free(runner->unit);
	wakeup_disarm(&runner->retry_timer);
	wakeup_disarm(&runner->news_timer);
	while ((write = STAILQ_FIRST(&runner->writes))) {
		STAILQ_REMOVE_HEAD(&runner->writes, entry);
		free(write);
	}
	alloc_record_free(runner->record);
	free(runner);
}
