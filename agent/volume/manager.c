/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/manager.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/wakeup.h"
#include "volume/op.h"
#include "volume/queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

DEFINE_CLEANUP(struct volume_manager, volume_manager_free)

static void op_begin(struct volume_queue *queue, struct volume_op *op)
{
	TAILQ_REMOVE(&queue->waiting, op, entry);
	queue->current = op;
	if (!volume_op_end_if_cancelled(op))
		volume_op_handle(op, op->kind, NULL);
}

/* One operation per turn: others of the event loop have theirs in between. */
static int on_dispatch(sd_event_source *source, void *userdata)
{
	struct volume_manager *manager = userdata;
	struct volume_queue *queue = manager->observed ? volume_queue_take(manager) : NULL;

	if (!queue)
		return 0;
	if (!TAILQ_EMPTY(&manager->ready))
		volume_queue_kick(manager);
	op_begin(queue, TAILQ_FIRST(&queue->waiting));
	return 0;
}

enum status volume_manager_mount(struct volume_manager *manager, const struct volume_target *target,
				 volume_done_fn *done, void *userdata, struct volume_op **ret,
				 struct error *err)
{
	const struct volume_op init = {
		.target = *target,
		.kind = VOLUME_OP_MOUNT,
		.done = done,
		.userdata = userdata,
	};

	return volume_queue_add(manager, &init, ret, err);
}

enum status volume_manager_unmount(struct volume_manager *manager, const struct volume_target *target,
				   volume_done_fn *done, volume_retry_fn *retry, volume_keep_fn *keep,
				   void *userdata, struct volume_op **ret, struct error *err)
{
	const struct volume_op init = {
		.target = *target,
		.kind = VOLUME_OP_UNMOUNT,
		.done = done,
		.retry = retry,
		.keep = keep,
		.userdata = userdata,
	};

	return volume_queue_add(manager, &init, ret, err);
}

enum status volume_manager_release(struct volume_manager *manager, const struct volume_target *target,
				   volume_done_fn *done, volume_retry_fn *retry, volume_keep_fn *keep,
				   void *userdata, struct volume_op **ret, struct error *err)
{
	const struct volume_op init = {
		.target = *target,
		.kind = VOLUME_OP_RELEASE,
		.done = done,
		.retry = retry,
		.keep = keep,
		.userdata = userdata,
	};

	return volume_queue_add(manager, &init, ret, err);
}

/* Whether it is queued behind something that is in flight. */
static bool is_behind(const struct volume_op *op)
{
	return op->state == VOLUME_OP_IDLE && op->queue->current && op->queue->current != op;
}

/* Nothing is in flight for it: it is queued, waits for a plugin, or to make a step again. */
static bool is_idle(const struct volume_op *op)
{
	return is_behind(op) || volume_op_is_pausing(op) || (volume_op_is_plugins(op->state) && !op->call);
}

static int on_cancel_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct volume_op *op = userdata;
	bool was_idle = is_idle(op);

	wakeup_disarm(&op->timer);
	op->next_try_ms = 0;
	op->is_cancelled = true;
	if (!was_idle)
		return 0; /* it was scheduled meanwhile, and ends it */
	if (is_behind(op))
		TAILQ_REMOVE(&op->queue->waiting, op, entry);
	volume_plugin_stop(op);
	(void)volume_op_end_if_cancelled(op);
	return 0;
}

void volume_op_cancel(struct volume_op *op)
{
	assert(op->kind == VOLUME_OP_MOUNT);
	op->is_cancelled = true;
	/* without a timer it ends after its step, like an operation in flight */
	if (is_idle(op))
		(void)wakeup_arm(op->manager->event, &op->timer, 0, on_cancel_due, op, NULL);
}

void volume_op_force(struct volume_op *op, bool is_freed)
{
	assert(op->kind == VOLUME_OP_UNMOUNT || op->kind == VOLUME_OP_RELEASE);
	op->target.without_plugin = true;
	op->target.is_freed = is_freed;
}

/* Before it is scheduled. */
static int on_expansion_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct volume_op *op = userdata;

	if (op->state == VOLUME_OP_IDLE)
		return on_cancel_due(source, usec, op);
	wakeup_disarm(&op->timer); /* the call has the same deadline */
	return 0;
}

static enum status expansion_new(const char *plugin_id, const Holdfast__V1__NodeExpandRequest *request,
				 struct volume_op *ret, struct error *err)
{
	struct volume_target *target = &ret->target;

	if (str_copy(target->volume_id, sizeof(target->volume_id), request->volume_id) < 0 ||
	    str_copy(target->namespace, sizeof(target->namespace),
		     namespace_or_default(request->namespace_)) < 0 ||
	    str_copy(target->profile, sizeof(target->profile), plugin_id) < 0 ||
	    request->volume_id[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the server's order to expand volume '%.64s' names a malformed id",
				 request->volume_id);
	volume_wire_name(target->namespace, target->volume_id, target->wire_volume);
	return secret_message_new(&request->base, &ret->expansion, err);
}

enum status volume_manager_expand(struct volume_manager *manager, const char *plugin_id,
				  const Holdfast__V1__NodeExpandRequest *request, uint64_t timeout_us,
				  volume_expanded_fn *done, void *userdata, struct volume_op **ret,
				  struct error *err)
{
	struct volume_op init = {
		.target = {.type = VOLUME_CSI},
		.kind = VOLUME_OP_EXPAND,
		.expanded = done,
		.userdata = userdata,
		.patience_end_us = clock_monotonic_us() + timeout_us,
	};
	struct volume_op *op;
	enum status status;

	status = expansion_new(plugin_id, request, &init, err);
	if (status == STATUS_OK)
		status = volume_queue_add(manager, &init, &op, err);
	if (status != STATUS_OK) {
		secret_message_unref(init.expansion);
		return status;
	}
	/* without the timer it is overdue no earlier than it is scheduled */
	(void)wakeup_arm(manager->event, &op->timer, timeout_us, on_expansion_timeout, op, NULL);
	if (ret)
		*ret = op;
	return STATUS_OK;
}

static const char *step_name(const struct volume_op *op)
{
	if (op->target.is_freed && op->next_try_ms > 0)
		return "left over";
	return op->state == VOLUME_OP_IDLE && op->next_try_ms > 0 ? "wait to try again"
								  : volume_op_state_name(op->state);
}

struct volume_op_info volume_op_info(const struct volume_op *op)
{
	/* each waiting caller is notified what for */
	const struct volume_op *cause = is_behind(op) ? op->queue->current : op;

	return (struct volume_op_info){
		.step = step_name(op),
		.step_since_ms = op->step_since_ms,
		.plugin_id = volume_op_is_plugins(op->state) ? op->target.profile : NULL,
		.call = volume_plugin_call_name(op->state),
		.is_calling = op->call != NULL,
		.since_ms = op->since_ms,
		.next_try_ms = op->next_try_ms,
		.gives_up_ms = op->kind == VOLUME_OP_MOUNT ? op->gives_up_ms : 0,
		.attempts = op->backoff.attempts + 1,
		.last_error = cause->last_error.msg,
	};
}

void volume_manager_set_observed(struct volume_manager *manager, struct mount_snapshot *observed)
{
	mount_snapshot_free(manager->observed);
	manager->observed = observed;
	volume_queue_kick(manager);
}

const struct mount_snapshot *volume_manager_observed(const struct volume_manager *manager)
{
	return manager->observed;
}

void volume_manager_set_plugins(struct volume_manager *manager, struct plugins *plugins, uint64_t wait_us)
{
	manager->plugins = plugins;
	manager->plugin_wait_us = wait_us;
}

void volume_manager_note_plugin(struct volume_manager *manager, const char *wire_volume)
{
	struct lost_call *lost;

	if (plugin_owned_has(&manager->plugin_owned, wire_volume))
		return;
	plugin_owned_add(&manager->plugin_owned, wire_volume);
	lost = plugin_owned_lost(&manager->plugin_owned, wire_volume);
	if (lost)
		*lost = (struct lost_call){.is_open = true,
					   .is_from_before = true,
					   .to = plugin_process_now(),
					   .since_us = clock_monotonic_us()};
}

void volume_manager_note_published(struct volume_manager *manager, const char *wire_volume,
				   bool is_host_device)
{
	struct lost_call *lost;

	plugin_owned_classify(&manager->plugin_owned, wire_volume,
			      is_host_device ? VOLUME_DEVICE_HOSTS : VOLUME_DEVICE_OURS);
	plugin_owned_mark_staged(&manager->plugin_owned, wire_volume, true);
	lost = plugin_owned_lost(&manager->plugin_owned, wire_volume);
	if (lost)
		*lost = (struct lost_call){0};
}

enum status volume_manager_new(sd_event *event, struct helper_client *helper, volume_in_use_fn *in_use,
			       void *userdata, struct volume_manager **ret, struct error *err)
{
	cleanup(volume_manager_freep) struct volume_manager *manager = calloc(1, sizeof(*manager));
	enum status status;
	int r;

	if (!manager)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot make the volume manager");
	manager->event = event;
	manager->on_dispatch = on_dispatch;
	manager->helper = helper;
	manager->in_use = in_use;
	manager->userdata = userdata;
	RB_INIT(&manager->queues);
	plugin_owned_init(&manager->plugin_owned);
	device_changes_init(&manager->device_changes);
	TAILQ_INIT(&manager->ready);
	LIST_INIT(&manager->ops);
	r = sd_event_add_defer(event, &manager->dispatch, on_dispatch, manager);
	if (r >= 0)
		r = sd_event_source_set_enabled(manager->dispatch, SD_EVENT_OFF);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot make the volume manager");
	status = path_probes_new(event, &manager->probes, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(manager);
	return status;
}

bool volume_manager_is_busy(const struct volume_manager *manager, const char *wire_volume)
{
	return volume_queue_exists(manager, wire_volume);
}

void volume_manager_free(struct volume_manager *manager)
{
	struct volume_op *op;

	if (!manager)
		return;
	while ((op = LIST_FIRST(&manager->ops)))
		volume_op_free(op);
	path_probes_free(manager->probes);
	plugin_owned_clear(&manager->plugin_owned);
	device_changes_release(&manager->device_changes);
	mount_table_free(manager->stage_mounts);
	mount_snapshot_free(manager->observed);
	sd_event_source_disable_unref(manager->dispatch);
	free(manager);
}
