#include "alloc_runner.h"

#include "alloc_step.h"
#include "claim_call.h"
#include "wakeup.h"

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "plugins/plugins.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum runner_op {
	RUNNER_IDLE,
	RUNNER_CLAIM,
	RUNNER_WAIT, /* until the next attempt */
	RUNNER_MOUNT,
	RUNNER_UNMOUNT,
	RUNNER_PLUGIN, /* until the plugin that it runs is healthy */
};

/* One write on its way to the disk, with what is to be told when it is there. */
struct runner_write {
	STAILQ_ENTRY(runner_write) entry;
	bool tells_status;
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
	struct volume_task *task;
	struct backoff claim_backoff;
	sd_event_source *retry_timer;
	int64_t op_since_ms;
	int64_t op_deadline_ms;
	struct error last_error;
	bool is_plugin_expected;
	bool is_plugin_ready;
	STAILQ_HEAD(, runner_write) writes;
};

static void advance(struct alloc_runner *runner);

static struct log_ctx context(const struct alloc_runner *runner, const char *op)
{
	const struct volume_record *volume = &runner->record->volumes[runner->volume];
	bool has_volume = runner->volume < runner->record->alloc.n_volumes;

	return (struct log_ctx){
		.alloc = runner->record->alloc.id,
		.volume = has_volume ? runner->record->alloc.volumes[runner->volume].source : NULL,
		.claim = has_volume && volume->state != VOLUME_NONE ? volume->claim_id : NULL,
		.op = op,
	};
}

static void log_status(const struct alloc *alloc)
{
	const struct log_ctx ctx = {.alloc = alloc->id, .op = "allocation"};
	bool has_text = alloc->client_description[0] != '\0';

	log_ctx(alloc->client_status == CLIENT_FAILED ? LOG_ERR : LOG_NOTICE, &ctx, "allocation is %s%s%s",
		client_status_name(alloc->client_status), has_text ? ": " : "", alloc->client_description);
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
		env->on_receipt(&done.receipt, env->userdata);
	}
	if (done.tells_status) {
		log_status(&runner->record->alloc);
		env->on_status(&runner->record->alloc, env->userdata);
	}
	advance(runner);
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
	       type == ALLOC_EVENT_REBOOTED;
}

/* Apply an event, make it durable with its receipt, and go on when it is. */
static void apply(struct alloc_runner *runner, const struct alloc_event *event)
{
	bool is_released = event->type == ALLOC_EVENT_RELEASED;
	struct receipt receipt;

	if (!alloc_step(runner->record, event)) {
		advance(runner);
		return;
	}
	if (event->type == ALLOC_EVENT_MOUNTED || is_released) {
		receipt = make_receipt(runner, event->volume, is_released);
		if (is_released && event->mounted) {
			receipt.is_without_plugin = true;
			str_copy_text(receipt.kernel, sizeof(receipt.kernel), event->mounted->kernel);
		}
		save(runner, &receipt, tells_status(event->type));
		return;
	}
	save(runner, NULL, tells_status(event->type));
}

static void begin_op(struct alloc_runner *runner, enum runner_op op, uint32_t volume)
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

static void end_op(struct alloc_runner *runner)
{
	runner->op = RUNNER_IDLE;
	runner->claim = NULL;
	runner->task = NULL;
}

static void fail(struct alloc_runner *runner, const struct error *err)
{
	apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_FAIL, .err = err});
}

static int on_retry_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct alloc_runner *runner = userdata;

	wakeup_disarm(&runner->retry_timer);
	runner->op = RUNNER_IDLE;
	advance(runner);
	return 0;
}

static void wait_for_claim(struct alloc_runner *runner, const struct error *err)
{
	uint64_t delay_us = backoff_next(&runner->claim_backoff, backoff_random());
	struct alloc *alloc = &runner->record->alloc;
	struct log_ctx ctx = context(runner, "claim");
	bool is_news = !str_eq(runner->last_error.msg, err->msg);
	struct error failure;

	runner->last_error = *err;
	runner->op = RUNNER_WAIT;
	runner->op_deadline_ms = clock_realtime_ms() + (int64_t)(delay_us / USEC_PER_MSEC);
	if (wakeup_arm(runner->env->event, &runner->retry_timer, delay_us, on_retry_due, runner, &failure) !=
	    STATUS_OK) {
		runner->op = RUNNER_IDLE;
		fail(runner, &failure);
		return;
	}
	if (!is_news)
		return;
	ctx.err = err;
	log_ctx(LOG_WARNING, &ctx, "claim is tried again");
	/* for whoever asks what it waits for; not worth a write */
	(void)str_format(alloc->client_description, sizeof(alloc->client_description),
			 "waiting for volume %s: %.800s", alloc->volumes[runner->volume].source, err->msg);
	runner->env->on_status(alloc, runner->env->userdata);
}

static void on_claimed(const struct claim_grant *grant, const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;

	end_op(runner);
	if (grant) {
		backoff_reset(&runner->claim_backoff);
		apply(runner, &(struct alloc_event){
				      .type = ALLOC_EVENT_CLAIMED, .volume = runner->volume, .grant = grant});
		return;
	}
	if (runner->record->phase == ALLOC_STOPPING)
		advance(runner);
	else if (claim_error_is_passing(err->status))
		wait_for_claim(runner, err);
	else
		fail(runner, err);
}

static void begin_claim(struct alloc_runner *runner, uint32_t i)
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
	begin_op(runner, RUNNER_CLAIM, i);
	runner->op_deadline_ms = clock_realtime_ms() + (int64_t)(request.timeout_us / USEC_PER_MSEC);
	if (claim_call_start(runner->env->rpc, &request, on_claimed, runner, &runner->claim, &err) !=
	    STATUS_OK) {
		end_op(runner);
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

static void on_mounted(const struct volume_mounted *mounted, const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;

	end_op(runner);
	if (mounted)
		apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_MOUNTED,
						    .volume = runner->volume,
						    .mounted = mounted});
	else if (runner->record->phase == ALLOC_STOPPING || wants_new_ticket(runner, err))
		advance(runner);
	else
		fail(runner, err);
}

static void begin_mount(struct alloc_runner *runner, uint32_t i)
{
	struct error err;

	begin_op(runner, RUNNER_MOUNT, i);
	if (volume_manager_mount(runner->env->volumes, &runner->record->volumes[i].target, on_mounted, runner,
				 &runner->task, &err) != STATUS_OK) {
		end_op(runner);
		fail(runner, &err);
	}
}

static void on_unmounted(const struct volume_mounted *mounted, const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;
	const struct log_ctx ctx = context(runner, "release");

	assert(!err); /* an unmount is repeated until it succeeds */
	if (mounted)
		log_ctx(LOG_NOTICE, &ctx, "released without its plugin, as the server wants: %s",
			mounted->kernel);
	end_op(runner);
	apply(runner, &(struct alloc_event){
			      .type = ALLOC_EVENT_RELEASED, .volume = runner->volume, .mounted = mounted});
}

static void on_unmount_retry(const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;
	const struct volume_record *volume = &runner->record->volumes[runner->volume];
	struct log_ctx ctx = context(runner, "release");

	ctx.err = err;
	if (!str_eq(runner->last_error.msg, err->msg))
		log_ctx(LOG_WARNING, &ctx, "release is tried again");
	runner->last_error = *err;
	runner->env->on_release_error(volume->claim_id, volume->generation, err, runner->env->userdata);
}

/* Runs again when the volume manager is full: the release must not be given up. */
static void begin_unmount(struct alloc_runner *runner, uint32_t i)
{
	struct error err;

	begin_op(runner, RUNNER_UNMOUNT, i);
	if (volume_manager_unmount(runner->env->volumes, &runner->record->volumes[i].target, on_unmounted,
				   on_unmount_retry, runner, &runner->task, &err) == STATUS_OK)
		return;
	end_op(runner);
	on_unmount_retry(&err, runner);
	runner->op = RUNNER_WAIT;
	if (wakeup_arm(runner->env->event, &runner->retry_timer,
		       backoff_next(&runner->claim_backoff, backoff_random()), on_retry_due, runner,
		       &err) != STATUS_OK)
		runner->env->on_broken(&err, runner->env->userdata);
}

static bool runs_plugin(const struct alloc_runner *runner)
{
	return runner->record->alloc.csi_plugin.type != CSI_PLUGIN_NONE;
}

static enum status expect(struct alloc_runner *runner, struct error *err)
{
	const struct runner_env *env = runner->env;
	enum status status = env->expect_plugin(&runner->record->alloc, env->userdata, err);

	runner->is_plugin_expected = status == STATUS_OK;
	return status;
}

/* What stands there of it is nobody's from now on, also while volumes are still unmounted. */
static void forget_plugin(struct alloc_runner *runner)
{
	if (!runner->is_plugin_expected)
		return;
	runner->is_plugin_expected = false;
	runner->env->forget_plugin(runner->record->alloc.id, runner->env->userdata);
}

/* All volumes are there: the plugin has its folders and may become healthy. */
static void begin_plugin(struct alloc_runner *runner)
{
	struct alloc *alloc = &runner->record->alloc;
	uint32_t timeout_ms = alloc->csi_plugin.health_timeout_ms;
	struct error err;

	begin_op(runner, RUNNER_PLUGIN, alloc->n_volumes);
	runner->op_deadline_ms =
		clock_realtime_ms() + (timeout_ms ? timeout_ms : PLUGIN_HEALTH_TIMEOUT_DEFAULT_MS);
	if (expect(runner, &err) != STATUS_OK) {
		end_op(runner);
		fail(runner, &err);
		return;
	}
	/* for whoever asks what it waits for; not worth a write */
	(void)str_format(alloc->client_description, sizeof(alloc->client_description),
			 "waiting until its plugin %s is healthy", alloc->csi_plugin.id);
	runner->env->on_status(alloc, runner->env->userdata);
}

void alloc_runner_expect(struct alloc_runner *runner)
{
	struct error err;

	if (!runs_plugin(runner) || runner->record->phase != ALLOC_RUNNING)
		return;
	runner->is_plugin_ready = true;
	if (expect(runner, &err) != STATUS_OK)
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.alloc = runner->record->alloc.id,
					  .plugin = runner->record->alloc.csi_plugin.id,
					  .op = "plugin",
					  .err = &err},
			"the plugin of a running allocation is not expected, ignoring");
}

void alloc_runner_plugin_ready(struct alloc_runner *runner, const struct error *err)
{
	const struct alloc *alloc = &runner->record->alloc;

	if (runner->op == RUNNER_PLUGIN) {
		runner->is_plugin_ready = !err;
		end_op(runner);
		if (err)
			fail(runner, err);
		else
			advance(runner);
		return;
	}
	/* a restart of the agent fails nothing that runs */
	if (err && runner->record->phase == ALLOC_RUNNING)
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.alloc = alloc->id,
					  .plugin = alloc->csi_plugin.id,
					  .op = "plugin",
					  .err = err},
			"the plugin of a running allocation is not healthy after the restart of the agent");
}

static void advance(struct alloc_runner *runner)
{
	struct alloc_next next;

	if (!runner->is_started || runner->op != RUNNER_IDLE || !STAILQ_EMPTY(&runner->writes))
		return;
	if (runner->record->phase == ALLOC_STOPPING || runner->record->phase == ALLOC_STOPPED)
		forget_plugin(runner);
	next = alloc_next(runner->record, clock_realtime_ms());
	switch (next.action) {
	case ALLOC_DO_CLAIM:
		begin_claim(runner, next.volume);
		return;
	case ALLOC_DO_MOUNT:
		begin_mount(runner, next.volume);
		return;
	case ALLOC_DO_RUN:
		if (runs_plugin(runner) && !runner->is_plugin_ready)
			begin_plugin(runner);
		else
			apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_RUN});
		return;
	case ALLOC_DO_UNMOUNT:
		begin_unmount(runner, next.volume);
		return;
	case ALLOC_DO_FINISH:
		apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_FINISH});
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
	advance(runner);
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
	if (runner->op == RUNNER_PLUGIN)
		runner->op = RUNNER_IDLE;
}

void alloc_runner_stop(struct alloc_runner *runner)
{
	if (!alloc_step(runner->record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}))
		return;
	interrupt(runner);
	save(runner, NULL, false);
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
	fail(runner, err);
}

void alloc_runner_rebooted(struct alloc_runner *runner)
{
	assert(runner->op == RUNNER_IDLE);
	apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_REBOOTED});
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
	wakeup_disarm(&runner->retry_timer);
	while ((write = STAILQ_FIRST(&runner->writes))) {
		STAILQ_REMOVE_HEAD(&runner->writes, entry);
		free(write);
	}
	alloc_record_free(runner->record);
	free(runner);
}
