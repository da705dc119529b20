/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/runner.h"

#include "alloc/alloc_tasks.h"
#include "alloc/claim_call.h"
#include "alloc/mount_changes.h"
#include "alloc/step.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "model/node.h"
#include "model/task.h"
#include "plugins/plugins.h"
#include "rpc/wakeup.h"
#include "unit/task.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/queue.h>

enum runner_op {
	RUNNER_IDLE,
	RUNNER_CLAIM,
	RUNNER_WAIT, /* until the next attempt */
	RUNNER_MOUNT,
	RUNNER_UNMOUNT,
	RUNNER_PLUGIN, /* until the plugins that it runs are healthy */
	RUNNER_START_UNIT,
	RUNNER_STOP_UNIT,
	RUNNER_START_TASK,
	RUNNER_STOP_TASK,
};

/* One write on its way to the disk, with the reports that follow it. */
struct runner_write {
	STAILQ_ENTRY(runner_write) entry;
	bool reports_status;
	bool has_receipt;
	struct receipt receipt;
};

struct alloc_runner {
	const struct runner_env *env; /* borrowed */
	struct alloc_record *record;
	bool is_started;
	enum runner_op op;
	uint32_t volume; /* that the operation is about */
	struct claim_call *claim;
	struct volume_op *volume_op;
	bool is_device_unwritten; /* that it waits for */
	struct backoff claim_backoff;
	sd_event_source *retry_timer;
	sd_event_source *progress_timer; /* while mounting or releasing */
	uint64_t progress_delay_ms;
	int64_t op_since_ms;
	int64_t op_deadline_ms;
	struct error last_error;
	bool are_plugins_expected;
	bool are_plugins_ready;
	bool is_plugin_waited[ALLOC_PLUGINS_MAX]; /* during RUNNER_PLUGIN */
	struct task *unit;			  /* while it is started, watched or stopped */
	struct alloc_tasks *tasks;		  /* NULL: no tasks */
	uint32_t task;				  /* that the operation is about */
	enum client_status logged;		  /* the status that was logged last */
	STAILQ_HEAD(, runner_write) writes;
};

static void runner_advance(struct alloc_runner *runner);
static bool runner_runs_plugin(const struct alloc_runner *runner);

static struct log_ctx runner_context(const struct alloc_runner *runner, const char *op)
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

/* Reports what the allocation waits for; not worth a write. */
static __attribute__((format(printf, 2, 3))) void show(struct alloc_runner *runner, const char *fmt, ...)
{
	struct alloc_record *record = runner->record;
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(record->description, sizeof(record->description), fmt, args);
	va_end(args);
	runner->env->on_status(&record->alloc, runner->env->userdata);
}

/* Logs the status of the allocation. A failure is logged with its volume. */
static void log_status(struct alloc_runner *runner)
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

	if (alloc->client_status == CLIENT_PENDING && alloc->task_status)
		return; /* from the start of a task, which is logged already */
	if (alloc->client_status == CLIENT_RUNNING && runner->logged == CLIENT_RUNNING)
		return; /* of a task, which has its own line */
	runner->logged = alloc->client_status;
	if (has_failed)
		ctx = runner_context(runner, "allocation");
	ctx.event = events[alloc->client_status];
	log_ctx(has_failed ? LOG_ERR : LOG_NOTICE, &ctx, "allocation %s is %s%s%s", alloc->id,
		client_status_name(alloc->client_status), has_text ? ": " : "", alloc_description(alloc));
}

/* Logs a receipt with the fields of its claim. */
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
			log_ctx(LOG_NOTICE, &ctx, "volume %s is no longer mounted for allocation %s",
				ctx.volume, ctx.alloc);
		else
			log_ctx(LOG_NOTICE, &ctx, "volume %s is published at %s", ctx.volume,
				record->alloc.published[i].path);
		return;
	}
}

static void runner_on_written(const struct error *err, void *userdata)
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
	if (done.reports_status) {
		log_status(runner);
		env->on_status(&runner->record->alloc, env->userdata);
	}
	runner_advance(runner);
}

static void runner_save(struct alloc_runner *runner, const struct receipt *receipt, bool reports_status)
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
	pending->reports_status = reports_status;
	pending->has_receipt = receipt != NULL;
	if (receipt)
		pending->receipt = *receipt;
	status = journal_write(env->journal, &write, runner_on_written, runner, &err);
	if (status != STATUS_OK) {
		free(pending);
		env->on_broken(&err, env->userdata);
		return;
	}
	STAILQ_INSERT_TAIL(&runner->writes, pending, entry);
}

static struct receipt runner_receipt(const struct alloc_runner *runner, uint32_t i, bool is_released)
{
	const struct volume_record *volume = &runner->record->volumes[i];
	struct receipt receipt = {.generation = volume->generation, .is_released = is_released};

	memcpy(receipt.claim_id, volume->claim_id, sizeof(receipt.claim_id));
	memcpy(receipt.boot_id, runner->record->boot_id, sizeof(receipt.boot_id));
	return receipt;
}

/* Returns whether the server gets a new status after an event of this type. */
static bool reports_status(enum alloc_event_type type)
{
	return type == ALLOC_EVENT_RUN || type == ALLOC_EVENT_FAIL || type == ALLOC_EVENT_FINISH ||
	       type == ALLOC_EVENT_UNIT_ENDED || type == ALLOC_EVENT_REBOOTED ||
	       type == ALLOC_EVENT_TASK_RUNS || type == ALLOC_EVENT_TASK_DONE ||
	       type == ALLOC_EVENT_TASK_ENDED || type == ALLOC_EVENT_TASK_FAILED ||
	       type == ALLOC_EVENT_TASK_HEALTH;
}

/* Ends a phase after the last mount or the last release. The next phase needs no other party, so it goes into
 * the same write and to the server together with the receipt. */
static bool end_phase(struct alloc_runner *runner)
{
	struct alloc_next next = alloc_next(runner->record);
	bool is_up =
		next.action == ALLOC_DO_RUN && (!runner_runs_plugin(runner) || runner->are_plugins_ready);

	if (!is_up && next.action != ALLOC_DO_FINISH)
		return false;
	return alloc_step(runner->record,
			  &(struct alloc_event){.type = is_up ? ALLOC_EVENT_RUN : ALLOC_EVENT_FINISH});
}

static void runner_apply(struct alloc_runner *runner, const struct alloc_event *event)
{
	bool is_released = event->type == ALLOC_EVENT_RELEASED;
	struct receipt receipt;

	if (!alloc_step(runner->record, event)) {
		runner_advance(runner);
		return;
	}
	if (event->type == ALLOC_EVENT_MOUNTED || is_released) {
		receipt = runner_receipt(runner, event->volume, is_released);
		if (is_released && event->mounted) {
			receipt.is_without_plugin = true;
			str_copy_text(receipt.kernel, sizeof(receipt.kernel), event->mounted->kernel);
		}
		runner_save(runner, &receipt, end_phase(runner));
		return;
	}
	runner_save(runner, NULL, reports_status(event->type));
}

static void runner_begin_op(struct alloc_runner *runner, enum runner_op op, uint32_t volume)
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

static void runner_end_op(struct alloc_runner *runner)
{
	wakeup_disarm(&runner->progress_timer);
	runner->op = RUNNER_IDLE;
	runner->claim = NULL;
	runner->volume_op = NULL;
}

static void runner_fail(struct alloc_runner *runner, const struct error *err)
{
	runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_FAIL, .err = err});
}

static int on_retry_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct alloc_runner *runner = userdata;

	wakeup_disarm(&runner->retry_timer);
	runner->op = RUNNER_IDLE;
	runner_advance(runner);
	return 0;
}

static void wait_for_claim(struct alloc_runner *runner, const struct error *err)
{
	uint64_t delay_us = backoff_next(&runner->claim_backoff, backoff_random());
	struct log_ctx ctx = runner_context(runner, "claim");
	bool is_change = !str_eq(runner->last_error.msg, err->msg);
	struct error failure;

	runner->last_error = *err;
	runner->op = RUNNER_WAIT;
	runner->op_deadline_ms = clock_realtime_ms() + (int64_t)(delay_us / USEC_PER_MSEC);
	if (wakeup_arm(runner->env->event, &runner->retry_timer, delay_us, on_retry_due, runner, &failure) !=
	    STATUS_OK) {
		runner->op = RUNNER_IDLE;
		runner_fail(runner, &failure);
		return;
	}
	if (!is_change)
		return;
	ctx.event = LOG_EVENT_CLAIM_WAITS;
	ctx.err = err;
	log_ctx(LOG_WARNING, &ctx, "claim of volume %s is tried again", ctx.volume);
	show(runner, "waiting for volume %s: %.800s", runner->record->alloc.volumes[runner->volume].source,
	     err->msg);
}

static void log_claimed(const struct alloc_runner *runner, const struct claim_grant *grant)
{
	struct log_ctx ctx = runner_context(runner, "claim");

	ctx.wire_volume = grant->wire_volume;
	ctx.claim = grant->claim.id;
	ctx.generation = grant->claim.generation;
	ctx.event = LOG_EVENT_VOLUME_CLAIMED;
	log_ctx(LOG_INFO, &ctx, "volume %s is claimed for %s", ctx.volume,
		claim_mode_name(grant->claim.mode));
}

static void on_claimed(const struct claim_grant *grant, const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;

	runner_end_op(runner);
	if (grant) {
		backoff_reset(&runner->claim_backoff);
		log_claimed(runner, grant);
		/* durable with the claim, before anything is mounted */
		(void)journal_note_mark(runner->env->journal, grant->mark);
		runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_CLAIMED,
							   .volume = runner->volume,
							   .grant = grant});
		return;
	}
	if (runner->record->phase == ALLOC_STOPPING)
		runner_advance(runner);
	else if (claim_error_is_passing(err->status))
		wait_for_claim(runner, err);
	else
		runner_fail(runner, err);
}

static void runner_begin_claim(struct alloc_runner *runner, uint32_t i)
{
	const struct claim_request request = {
		.alloc = &runner->record->alloc,
		.volume = i,
		.node_id = runner->env->node_id,
		.boot_id = runner->env->boot_id,
		.timeout_us = runner->env->claim_timeout_us,
	};
	struct error err;

	/* not journalled: after a restart a claim is simply asked for again */
	(void)alloc_step(runner->record, &(struct alloc_event){.type = ALLOC_EVENT_CLAIM});
	runner_begin_op(runner, RUNNER_CLAIM, i);
	runner->op_deadline_ms = clock_realtime_ms() + (int64_t)(request.timeout_us / USEC_PER_MSEC);
	if (claim_call_start(runner->env->rpc, &request, on_claimed, runner, &runner->claim, &err) !=
	    STATUS_OK) {
		runner_end_op(runner);
		wait_for_claim(runner, &err);
	}
}

/* The helper refuses tickets that have expired while it was away: worth one new ticket. */
static bool wants_new_ticket(struct alloc_runner *runner, const struct error *err)
{
	struct volume_record *volume = &runner->record->volumes[runner->volume];

	if (err->status != STATUS_PERMISSION_DENIED || volume->is_renewed ||
	    !volume_record_ticket_expired(volume, clock_realtime_ms()))
		return false;
	volume->is_renewed = true;
	volume->is_granted_now = false;
	return true;
}

/* A ticket that has expired by this clock as soon as it has come is a matter of clocks, which the helper,
 * that names the ticket, cannot know. */
static void explain_clock(struct alloc_runner *runner, const struct error *err, struct error *ret)
{
	const struct volume_record *volume = &runner->record->volumes[runner->volume];
	int64_t skew_ms = runner->env->clock_skew_ms(runner->env->userdata);
	char text[NODE_CLOCK_TEXT_SIZE];

	*ret = *err;
	if (err->status == STATUS_PERMISSION_DENIED && node_clock_is_off(skew_ms) &&
	    volume_record_ticket_expired(volume, clock_realtime_ms()))
		(void)error_prefix(
			ret,
			"this node's clock is %s the server's, so that the ticket has expired as it "
			"comes; set the clock that is wrong (chronyc makestep)",
			node_clock_text(skew_ms, text));
}

static void on_mounted(const struct volume_mounted *mounted, const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;
	struct error why;

	runner_end_op(runner);
	if (mounted)
		runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_MOUNTED,
							   .volume = runner->volume,
							   .mounted = mounted});
	else if (runner->record->phase == ALLOC_STOPPING || wants_new_ticket(runner, err)) {
		runner_advance(runner);
	} else {
		explain_clock(runner, err, &why);
		runner_fail(runner, &why);
	}
}

static int on_progress_due(sd_event_source *source, uint64_t usec, void *userdata);

static void arm_progress(struct alloc_runner *runner)
{
	/* without the timer nothing is reported, and all continues */
	(void)wakeup_arm(runner->env->event, &runner->progress_timer,
			 runner->progress_delay_ms * USEC_PER_MSEC, on_progress_due, runner, NULL);
}

/* Reports the cause of the wait; not worth a write. */
static int on_progress_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct alloc_runner *runner = userdata;
	struct alloc *alloc = &runner->record->alloc;
	struct volume_op_info info = volume_op_info(runner->volume_op);
	bool is_release = runner->op == RUNNER_UNMOUNT;
	char text[ALLOC_DESCRIPTION_MAX + 1];
	struct alloc shown = *alloc;

	wakeup_disarm(&runner->progress_timer);
	if (runner->record->phase == ALLOC_STOPPING && !is_release)
		return 0;
	shown.client_description =
		mount_changes_text(&info, is_release, alloc->volumes[runner->volume].source, text);
	if (is_release || !str_eq(text, alloc->client_description))
		runner->env->on_status(&shown, runner->env->userdata);
	if (!is_release) /* while it stops, the record keeps the reason of its end */
		memcpy(alloc->client_description, text, sizeof(text));
	runner->progress_delay_ms = MIN(2 * runner->progress_delay_ms, (uint64_t)MOUNT_CHANGES_MAX_MS);
	arm_progress(runner);
	return 0;
}

static void runner_begin_mount(struct alloc_runner *runner, uint32_t i)
{
	struct volume_target *target = &runner->record->volumes[i].target;
	struct error err;

	target->mount_timeout_ms = runner->record->alloc.mount_timeout_ms;
	runner_begin_op(runner, RUNNER_MOUNT, i);
	runner->progress_delay_ms = MOUNT_CHANGES_FIRST_MS;
	arm_progress(runner);
	if (volume_manager_mount(runner->env->volumes, target, on_mounted, runner, &runner->volume_op,
				 &err) != STATUS_OK) {
		runner_end_op(runner);
		runner_fail(runner, &err);
	}
}

static void on_unmounted(const struct volume_mounted *mounted, const struct error *err, void *userdata)
{
	assert(!err); /* an unmount is repeated until it succeeds */

	struct alloc_runner *runner = userdata;
	const struct log_ctx ctx = runner_context(runner, "release");

	if (mounted)
		log_ctx(LOG_NOTICE, &ctx, "released without its plugin, as the server wants: %s",
			mounted->kernel);
	runner_end_op(runner);
	runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_RELEASED,
						   .volume = runner->volume,
						   .mounted = mounted});
}

static void on_device(const struct volume_target *target, void *userdata)
{
	struct alloc_runner *runner = userdata;
	const struct alloc_event event = {
		.type = ALLOC_EVENT_DEVICE,
		.volume = runner->volume,
		.target = target,
	};

	(void)alloc_step(runner->record, &event);
	runner->is_device_unwritten = true;
	runner_save(runner, NULL, false);
}

static void on_unmount_retry(const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;
	const struct volume_record *volume = &runner->record->volumes[runner->volume];
	struct log_ctx ctx = runner_context(runner, "release");

	ctx.event = LOG_EVENT_RELEASE_WAITS;
	ctx.err = err;
	if (!str_eq(runner->last_error.msg, err->msg))
		log_ctx(LOG_WARNING, &ctx, "release of volume %s is tried again", ctx.volume);
	runner->last_error = *err;
	runner->env->on_release_error(volume->claim_id, volume->generation, err, runner->env->userdata);
}

/* The disk has it that the allocation ends before the release of its volume is reported: nothing that
 * a later agent may read names as mounted what may be another node's by then. It gets there meanwhile. */
static bool sync_end(struct alloc_runner *runner)
{
	struct error err;

	if (journal_sync(runner->env->journal, &err) == STATUS_OK)
		return true;
	runner->env->on_broken(&err, runner->env->userdata);
	return false;
}

static void runner_begin_unmount(struct alloc_runner *runner, uint32_t i)
{
	struct error err;

	if (!sync_end(runner))
		return;
	runner_begin_op(runner, RUNNER_UNMOUNT, i);
	runner->progress_delay_ms = MOUNT_CHANGES_FIRST_MS;
	arm_progress(runner);
	if (volume_manager_unmount(runner->env->volumes, &runner->record->volumes[i].target, on_unmounted,
				   on_unmount_retry, on_device, runner, &runner->volume_op,
				   &err) == STATUS_OK)
		return;
	runner_end_op(runner);
	on_unmount_retry(&err, runner);
	runner->op = RUNNER_WAIT;
	if (wakeup_arm(runner->env->event, &runner->retry_timer,
		       backoff_next(&runner->claim_backoff, backoff_random()), on_retry_due, runner,
		       &err) != STATUS_OK)
		runner->env->on_broken(&err, runner->env->userdata);
}

static bool runner_runs_plugin(const struct alloc_runner *runner)
{
	return runner->record->alloc.n_plugins > 0;
}

static enum status expect_plugins(struct alloc_runner *runner, struct error *err)
{
	const struct runner_env *env = runner->env;
	enum status status = env->expect_plugins(&runner->record->alloc, env->userdata, err);

	runner->are_plugins_expected = status == STATUS_OK;
	return status;
}

/* Before the first of its tasks starts. False: it has failed. */
static bool runner_expect_plugins(struct alloc_runner *runner)
{
	struct error err;

	if (!runner_runs_plugin(runner) || runner->are_plugins_expected ||
	    expect_plugins(runner, &err) == STATUS_OK)
		return true;
	runner_fail(runner, &err);
	return false;
}

static void runner_forget_plugins(struct alloc_runner *runner)
{
	if (!runner->are_plugins_expected)
		return;
	runner->are_plugins_expected = false;
	runner->env->forget_plugins(runner->record->alloc.id, runner->env->userdata);
}

static void report_plugins_waited(struct alloc_runner *runner)
{
	char plugins[ALLOC_PLUGINS_TEXT_SIZE];

	alloc_plugins_text(&runner->record->alloc, runner->is_plugin_waited, plugins);
	show(runner,
	     strchr(plugins, ',') ? "waiting until its plugins %s are healthy"
				  : "waiting until its plugin %s is healthy",
	     plugins);
}

static void runner_begin_plugin(struct alloc_runner *runner)
{
	const struct alloc *alloc = &runner->record->alloc;
	uint32_t timeout_ms = 0;
	struct error err;

	for (uint32_t i = 0; i < alloc->n_plugins; i++) {
		uint32_t its_ms = alloc->plugins[i].health_timeout_ms;

		if (its_ms == 0)
			its_ms = PLUGIN_HEALTH_TIMEOUT_DEFAULT_MS;
		timeout_ms = its_ms > timeout_ms ? its_ms : timeout_ms;
		runner->is_plugin_waited[i] = true;
	}
	runner_begin_op(runner, RUNNER_PLUGIN, alloc->n_volumes);
	runner->op_deadline_ms = clock_realtime_ms() + timeout_ms;
	if (expect_plugins(runner, &err) != STATUS_OK) {
		runner_end_op(runner);
		runner_fail(runner, &err);
		return;
	}
	report_plugins_waited(runner);
}

void alloc_runner_expect(struct alloc_runner *runner)
{
	const struct alloc_record *record = runner->record;
	bool is_starting = record->phase < ALLOC_RUNNING && alloc_record_has_work(record);
	struct error err;

	if (!runner_runs_plugin(runner) || (record->phase != ALLOC_RUNNING && !is_starting))
		return;
	runner->are_plugins_ready = !is_starting;
	if (expect_plugins(runner, &err) != STATUS_OK)
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.alloc = record->alloc.id,
					  .plugin = record->alloc.plugins[0].id,
					  .op = "plugin",
					  .err = &err},
			"the plugins of a running allocation are not expected, ignoring");
}

/* One of those that it waits for. */
static void end_plugin_wait(struct alloc_runner *runner, const char *plugin_id, const struct error *err)
{
	const struct alloc *alloc = &runner->record->alloc;
	bool waits = false;

	for (uint32_t i = 0; i < alloc->n_plugins; i++) {
		if (str_eq(alloc->plugins[i].id, plugin_id))
			runner->is_plugin_waited[i] = false;
		waits = waits || runner->is_plugin_waited[i];
	}
	if (!err && waits) {
		report_plugins_waited(runner);
		return;
	}
	runner->are_plugins_ready = !err;
	runner_end_op(runner);
	if (err)
		runner_fail(runner, err);
	else
		runner_advance(runner);
}

void alloc_runner_plugin_ready(struct alloc_runner *runner, const char *plugin_id, const struct error *err)
{
	if (runner->op == RUNNER_PLUGIN) {
		end_plugin_wait(runner, plugin_id, err);
		return;
	}
	/* a restart of the agent fails nothing that runs */
	if (err && runner->record->phase == ALLOC_RUNNING)
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.alloc = runner->record->alloc.id,
					  .plugin = plugin_id,
					  .op = "plugin",
					  .err = err},
			"a plugin of a running allocation is not healthy after the restart of the agent");
}

static void drop_unit(struct alloc_runner *runner)
{
	task_free(runner->unit);
	runner->unit = NULL;
}

static void end_unit_op(struct alloc_runner *runner)
{
	if (runner->op == RUNNER_START_UNIT || runner->op == RUNNER_STOP_UNIT)
		runner_end_op(runner);
}

static void on_start(const char *before, void *userdata)
{
	runner_apply(userdata, &(struct alloc_event){.type = ALLOC_EVENT_UNIT_START, .invocation = before});
}

static void on_runs(const char *invocation, void *userdata)
{
	struct alloc_runner *runner = userdata;

	if (runner->op == RUNNER_START_UNIT)
		runner_end_op(runner);
	runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_UNIT_RUNS, .invocation = invocation});
}

static void on_over(const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;
	struct error why = err ? *err : (struct error){0};

	end_unit_op(runner);
	drop_unit(runner);
	runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_UNIT_ENDED, .err = err ? &why : NULL});
}

static void on_stopped(void *userdata)
{
	struct alloc_runner *runner = userdata;

	end_unit_op(runner);
	drop_unit(runner);
	runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_UNIT_ENDED});
}

/* Reports the error to all callers that wait for the volumes' claims: the volumes wait for the unit. */
static void report_claims(struct alloc_runner *runner, const struct error *err)
{
	const struct alloc_record *record = runner->record;

	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		if (volume_record_is_live(&record->volumes[i]))
			runner->env->on_release_error(record->volumes[i].claim_id,
						      record->volumes[i].generation, err,
						      runner->env->userdata);
	}
}

static void on_trouble(const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;
	struct alloc_record *record = runner->record;

	if (record->phase == ALLOC_STOPPING)
		report_claims(runner, err);
	else if (runner->op == RUNNER_START_UNIT)
		show(runner, "waiting for unit %s: %.600s", record->alloc.unit, err->msg);
}

static const struct task_events unit_events = {
	.on_start = on_start,
	.on_runs = on_runs,
	.on_over = on_over,
	.on_stopped = on_stopped,
	.on_trouble = on_trouble,
};

static enum status make_unit(struct alloc_runner *runner, enum task_state state, struct error *err)
{
	const struct alloc_record *record = runner->record;
	const struct task_request request = {
		.unit = record->alloc.unit,
		.alloc_id = record->alloc.id,
		.stop_timeout_ms = record->alloc.stop_timeout_ms,
		.state = state,
		.invocation = record->task.invocation,
		.is_start_unsure = record->task.state == TASK_RECORD_STARTING,
		.events = &unit_events,
		.userdata = runner,
	};

	return task_new(runner->env->tasks, &request, &runner->unit, err);
}

static void runner_begin_unit(struct alloc_runner *runner)
{
	struct alloc_record *record = runner->record;
	bool is_new = record->task.state == TASK_RECORD_NONE;
	struct error err;

	assert(!runner->unit);
	runner_begin_op(runner, RUNNER_START_UNIT, record->alloc.n_volumes);
	if (make_unit(runner, is_new ? TASK_FIRST : TASK_RESUMED, &err) != STATUS_OK) {
		runner_end_op(runner);
		if (is_new)
			runner_fail(runner, &err);
		else
			runner->env->on_broken(&err, runner->env->userdata);
		return;
	}
	show(runner, "starting unit %s", record->alloc.unit);
}

static void runner_unit_written(struct alloc_runner *runner)
{
	if (runner->op == RUNNER_START_UNIT && runner->unit &&
	    runner->record->task.state == TASK_RECORD_STARTING)
		task_go(runner->unit);
}

static void runner_watch_unit(struct alloc_runner *runner)
{
	struct error err;

	/* an agent that was killed before it wrote that the allocation runs is still mounting */
	if (runner->record->phase >= ALLOC_STOPPING || runner->record->task.state != TASK_RECORD_RUNNING)
		return;
	if (make_unit(runner, TASK_RUNNING, &err) != STATUS_OK)
		runner->env->on_broken(&err, runner->env->userdata);
}

static void runner_begin_unit_stop(struct alloc_runner *runner)
{
	struct error err;

	runner_begin_op(runner, RUNNER_STOP_UNIT, runner->record->alloc.n_volumes);
	if (runner->unit)
		task_stop(runner->unit);
	else if (make_unit(runner, TASK_STOPPING, &err) != STATUS_OK)
		runner->env->on_broken(&err, runner->env->userdata);
}

static void runner_forget_unit(struct alloc_runner *runner)
{
	if (!task_record_is_live(&runner->record->task))
		drop_unit(runner);
}

static void runner_unit_info(const struct alloc_runner *runner, struct alloc_runner_info *info)
{
	const struct task_info task = task_info(runner->unit);

	info->step = task.step;
	info->volume_id = "";
	info->since_ms = task.since_ms;
	info->deadline_ms = task.deadline_ms;
	info->attempts = task.attempts;
	info->last_error = task.last_error;
}

static void end_task_op(struct alloc_runner *runner, uint32_t i)
{
	if ((runner->op == RUNNER_START_TASK || runner->op == RUNNER_STOP_TASK) && runner->task == i)
		runner_end_op(runner);
}

static void on_task_event(const struct alloc_event *event, void *userdata)
{
	struct alloc_runner *runner = userdata;

	if (event->type != ALLOC_EVENT_TASK_START && event->type != ALLOC_EVENT_NETWORK_START)
		end_task_op(runner, event->task);
	runner_apply(runner, event);
}

static void on_task_refused(uint32_t task, const struct error *err, void *userdata)
{
	end_task_op(userdata, task);
	runner_fail(userdata, err);
}

/* Empty of the network. */
static const char *task_name(const struct alloc_runner *runner, uint32_t task)
{
	return task == ALLOC_NETWORK ? "" : alloc_task(&runner->record->alloc, task)->task;
}

static void on_task_trouble(uint32_t task, const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;

	if (runner->record->phase == ALLOC_STOPPING)
		report_claims(runner, err);
	else if (runner->op == RUNNER_START_TASK)
		show(runner, "waiting for %s%s: %.600s", task == ALLOC_NETWORK ? "the network" : "task ",
		     task_name(runner, task), err->msg);
}

static const struct alloc_tasks_events task_events = {
	.on_event = on_task_event,
	.on_refused = on_task_refused,
	.on_trouble = on_task_trouble,
};

static enum status make_tasks(struct alloc_runner *runner, struct error *err)
{
	const struct alloc_tasks_options options = {
		.event = runner->env->event,
		.drivers = runner->env->drivers,
		.server = runner->env->rpc,
		.record = runner->record,
		.events = &task_events,
		.userdata = runner,
	};

	return alloc_tasks_new(&options, &runner->tasks, err);
}

static void runner_begin_task(struct alloc_runner *runner, uint32_t i, bool is_start)
{
	struct error err;
	enum status status;

	runner_begin_op(runner, is_start ? RUNNER_START_TASK : RUNNER_STOP_TASK,
			runner->record->alloc.n_volumes);
	runner->task = i;
	status = is_start ? alloc_tasks_start(runner->tasks, i, &err)
			  : alloc_tasks_stop(runner->tasks, i, &err);
	if (status != STATUS_OK) {
		runner->env->on_broken(&err, runner->env->userdata);
		return;
	}
	if (!is_start)
		return;
	show(runner, "%s%s", i == ALLOC_NETWORK ? "making the network" : "starting task ",
	     task_name(runner, i));
}

static void runner_watch_tasks(struct alloc_runner *runner)
{
	struct error err;

	if (runner->record->phase < ALLOC_STOPPING && alloc_tasks_watch(runner->tasks, &err) != STATUS_OK)
		runner->env->on_broken(&err, runner->env->userdata);
}

static void runner_task_info(const struct driver_task_info *task, struct alloc_runner_info *info)
{
	info->step = task->step;
	info->volume_id = "";
	info->since_ms = task->since_ms;
	info->attempts = task->attempts;
	info->last_error = task->last_error;
}

/* Forgets the work of a stopping allocation, except the parts that must be undone. */
static void forget_work(struct alloc_runner *runner)
{
	runner_forget_plugins(runner);
	runner_forget_unit(runner);
	alloc_tasks_prune(runner->tasks);
}

static void runner_advance(struct alloc_runner *runner)
{
	struct alloc_next next;

	if (!runner->is_started || !STAILQ_EMPTY(&runner->writes))
		return;
	runner_unit_written(runner);
	if (runner->op == RUNNER_START_TASK)
		alloc_tasks_written(runner->tasks, runner->task);
	if (runner->is_device_unwritten) {
		runner->is_device_unwritten = false;
		volume_op_continue(runner->volume_op);
		return;
	}
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
		if (runner_runs_plugin(runner) && !runner->are_plugins_ready)
			runner_begin_plugin(runner);
		else
			runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_RUN});
		return;
	case ALLOC_DO_START_UNIT:
		runner_begin_unit(runner);
		return;
	case ALLOC_DO_STOP_UNIT:
		runner_begin_unit_stop(runner);
		return;
	case ALLOC_DO_START_TASK:
		/* before its socket exists: it is not to be taken for the host's */
		if (runner_expect_plugins(runner))
			runner_begin_task(runner, next.task, true);
		return;
	case ALLOC_DO_STOP_TASK:
		runner_begin_task(runner, next.task, false);
		return;
	case ALLOC_DO_START_NETWORK:
	case ALLOC_DO_STOP_NETWORK:
		runner_begin_task(runner, ALLOC_NETWORK, next.action == ALLOC_DO_START_NETWORK);
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
	if (make_tasks(runner, err) != STATUS_OK) {
		free(runner);
		return STATUS_RESOURCE_EXHAUSTED;
	}
	*ret = runner;
	return STATUS_OK;
}

void alloc_runner_save(struct alloc_runner *runner)
{
	runner_save(runner, NULL, true);
}

void alloc_runner_start(struct alloc_runner *runner)
{
	runner->is_started = true;
	runner_watch_unit(runner);
	runner_watch_tasks(runner);
	runner_advance(runner);
}

/* Ends a wait now; an operation in flight ends at its next step. */
static void interrupt(struct alloc_runner *runner)
{
	if (runner->op == RUNNER_MOUNT)
		volume_op_cancel(runner->volume_op);
	if (runner->op == RUNNER_WAIT) {
		wakeup_disarm(&runner->retry_timer);
		runner->op = RUNNER_IDLE;
	}
	if (runner->op == RUNNER_PLUGIN || runner->op == RUNNER_START_UNIT || runner->op == RUNNER_START_TASK)
		runner->op = RUNNER_IDLE;
}

static void stop(struct alloc_runner *runner, enum alloc_event_type why)
{
	if (!alloc_step(runner->record, &(struct alloc_event){.type = why}))
		return;
	interrupt(runner);
	runner_save(runner, NULL, false);
}

void alloc_runner_stop(struct alloc_runner *runner)
{
	stop(runner, ALLOC_EVENT_STOP);
}

void alloc_runner_shut_down(struct alloc_runner *runner)
{
	stop(runner, ALLOC_EVENT_SHUTDOWN);
}

void alloc_runner_name_claim(struct alloc_runner *runner, const struct claim *claim)
{
	struct alloc_record *record = runner->record;
	bool is_change = false;

	assert(record->phase == ALLOC_STOPPING);
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		struct volume_record *volume = &record->volumes[i];

		if (!volume_record_is_held_by(volume, claim) || str_eq(volume->claim_id, claim->id))
			continue;
		(void)str_copy(volume->claim_id, sizeof(volume->claim_id), claim->id);
		is_change = true;
	}
	if (is_change)
		runner_save(runner, NULL, false);
}

void alloc_runner_force(struct alloc_runner *runner, const struct claim *claim)
{
	struct alloc_record *record = runner->record;
	bool is_freed = claim->state >= CLAIM_NODE_DETACHED;

	assert(record->phase == ALLOC_STOPPING);
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		struct volume_target *target = &record->volumes[i].target;

		if (!volume_record_is_held_by(&record->volumes[i], claim) || target->type != VOLUME_CSI)
			continue;
		target->without_plugin = true;
		target->is_freed = is_freed;
		if (runner->op == RUNNER_UNMOUNT && runner->volume == i && runner->volume_op)
			volume_op_force(runner->volume_op, is_freed);
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
	struct driver_task_info task;
	struct volume_op_info op;

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
	if (runner->op == RUNNER_START_TASK || runner->op == RUNNER_STOP_TASK) {
		task = alloc_tasks_info(runner->tasks, runner->task);
		if (task.step)
			runner_task_info(&task, &info);
		return info;
	}
	if (runner->op == RUNNER_IDLE || runner->volume >= runner->record->alloc.n_volumes)
		return info;
	info.volume_id = runner->record->alloc.volumes[runner->volume].source;
	if (runner->volume_op) {
		op = volume_op_info(runner->volume_op);
		info.step = op.step;
		info.since_ms = op.since_ms;
		info.deadline_ms = op.next_try_ms;
		info.attempts = op.attempts;
		info.last_error = op.last_error;
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
	alloc_tasks_free(runner->tasks);
	wakeup_disarm(&runner->retry_timer);
	wakeup_disarm(&runner->progress_timer);
	while ((write = STAILQ_FIRST(&runner->writes))) {
		STAILQ_REMOVE_HEAD(&runner->writes, entry);
		free(write);
	}
	alloc_record_free(runner->record);
	free(runner);
}
