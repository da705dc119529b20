/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/claim_call.h"
#include "alloc/mount_news.h"
#include "alloc/runner_internal.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/node.h"
#include "rpc/wakeup.h"

#include <assert.h>
#include <string.h>
#include <sys/param.h>

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
	struct alloc *alloc = &runner->record->alloc;
	struct log_ctx ctx = runner_context(runner, "claim");
	bool is_news = !str_eq(runner->last_error.msg, err->msg);
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
	if (!is_news)
		return;
	ctx.event = LOG_EVENT_CLAIM_WAITS;
	ctx.err = err;
	log_ctx(LOG_WARNING, &ctx, "claim of volume %s is tried again", ctx.volume);
	/* for whoever asks what it waits for; not worth a write */
	(void)str_format(runner->record->description, sizeof(runner->record->description),
			 "waiting for volume %s: %.800s", alloc->volumes[runner->volume].source, err->msg);
	runner->env->on_status(alloc, runner->env->userdata);
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

void runner_begin_claim(struct alloc_runner *runner, uint32_t i)
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

static int on_news_due(sd_event_source *source, uint64_t usec, void *userdata);

static void await_news(struct alloc_runner *runner)
{
	/* without the timer nothing is told, and all goes on */
	(void)wakeup_arm(runner->env->event, &runner->news_timer, runner->news_delay_ms * USEC_PER_MSEC,
			 on_news_due, runner, NULL);
}

/* For whoever asks what it waits for; not worth a write of ours. */
static int on_news_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct alloc_runner *runner = userdata;
	struct alloc *alloc = &runner->record->alloc;
	struct volume_task_info info = volume_task_info(runner->task);
	char text[ALLOC_DESCRIPTION_MAX + 1];

	wakeup_disarm(&runner->news_timer);
	if (runner->record->phase == ALLOC_STOPPING)
		return 0;
	(void)mount_news_text(&info, alloc->volumes[runner->volume].source, text);
	if (!str_eq(text, alloc->client_description)) {
		memcpy(alloc->client_description, text, sizeof(text));
		runner->env->on_status(alloc, runner->env->userdata);
	}
	runner->news_delay_ms = MIN(2 * runner->news_delay_ms, (uint64_t)MOUNT_NEWS_MAX_MS);
	await_news(runner);
	return 0;
}

void runner_begin_mount(struct alloc_runner *runner, uint32_t i)
{
	struct volume_target *target = &runner->record->volumes[i].target;
	struct error err;

	target->mount_timeout_ms = runner->record->alloc.mount_timeout_ms;
	runner_begin_op(runner, RUNNER_MOUNT, i);
	runner->news_delay_ms = MOUNT_NEWS_FIRST_MS;
	await_news(runner);
	if (volume_manager_mount(runner->env->volumes, target, on_mounted, runner, &runner->task, &err) !=
	    STATUS_OK) {
		runner_end_op(runner);
		runner_fail(runner, &err);
	}
}

static void on_unmounted(const struct volume_mounted *mounted, const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;
	const struct log_ctx ctx = runner_context(runner, "release");

	assert(!err); /* an unmount is repeated until it succeeds */
	if (mounted)
		log_ctx(LOG_NOTICE, &ctx, "released without its plugin, as the server wants: %s",
			mounted->kernel);
	runner_end_op(runner);
	runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_RELEASED,
						   .volume = runner->volume,
						   .mounted = mounted});
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

void runner_begin_unmount(struct alloc_runner *runner, uint32_t i)
{
	struct error err;

	if (!sync_end(runner))
		return;
	runner_begin_op(runner, RUNNER_UNMOUNT, i);
	if (volume_manager_unmount(runner->env->volumes, &runner->record->volumes[i].target, on_unmounted,
				   on_unmount_retry, runner, &runner->task, &err) == STATUS_OK)
		return;
	runner_end_op(runner);
	on_unmount_retry(&err, runner);
	runner->op = RUNNER_WAIT;
	if (wakeup_arm(runner->env->event, &runner->retry_timer,
		       backoff_next(&runner->claim_backoff, backoff_random()), on_retry_due, runner,
		       &err) != STATUS_OK)
		runner->env->on_broken(&err, runner->env->userdata);
}
