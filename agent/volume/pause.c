/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/pause.h"

#include "base/clock.h"
#include "rpc/wakeup.h"
#include "volume/task.h"

bool volume_task_has_patience(struct volume_task *task)
{
	uint64_t now_us = clock_monotonic_us();

	uint64_t ms =
		task->target.mount_timeout_ms ? task->target.mount_timeout_ms : VOLUME_MOUNT_PATIENCE_MS;

	if (task->patience_end_us == 0) {
		task->patience_end_us = now_us + ms * USEC_PER_MSEC;
		task->gives_up_ms = clock_realtime_ms() + (int64_t)ms;
	}
	return now_us < task->patience_end_us;
}

static int on_pause_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct volume_task *task = userdata;
	bool is_undoing = task->kind == VOLUME_OP_UNMOUNT || task->kind == VOLUME_OP_RELEASE;

	wakeup_disarm(&task->timer);
	task->next_try_ms = 0;
	volume_task_event(
		task, is_undoing && task->target.without_plugin ? VOLUME_OP_LEFT_OUT : VOLUME_OP_AGAIN, NULL);
	return 0;
}

void volume_task_pause(struct volume_task *task)
{
	uint64_t delay_us = backoff_next(&task->backoff, backoff_random());
	struct error err;

	task->next_try_ms = clock_realtime_ms() + (int64_t)(delay_us / USEC_PER_MSEC);
	if (wakeup_arm(task->manager->event, &task->timer, delay_us, on_pause_over, task, &err) !=
	    STATUS_OK) {
		task->next_try_ms = 0;
		volume_task_event(task, VOLUME_OP_FAILED, &err);
		return;
	}
	if (task->retry)
		task->retry(&task->last_error, task->userdata);
}

bool volume_task_is_pausing(const struct volume_task *task)
{
	return task->state != VOLUME_OP_IDLE && task->next_try_ms > 0;
}

void volume_task_sent_away(struct volume_task *task, const struct error *why)
{
	struct error cancelled;

	task->has_met_other = true;
	if (task->kind == VOLUME_OP_MOUNT && task->is_cancelled) {
		(void)volume_task_cancelled(task, &cancelled);
		volume_task_event(task, VOLUME_OP_CANCELLED, &cancelled);
		return;
	}
	volume_task_event(task,
			  task->kind == VOLUME_OP_MOUNT && volume_task_has_patience(task) ? VOLUME_OP_PENDING
											  : VOLUME_OP_FAILED,
			  why);
}
