/* SPDX-License-Identifier: Apache-2.0 */
/* The queues of volume operations: one queue per volume. */
#include "volume/queue.h"

#include "base/clock.h"
#include "base/str.h"
#include "rpc/timer.h"
#include "rpc/wakeup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare_queues(const struct volume_queue *a, const struct volume_queue *b)
{
	return strcmp(a->wire_volume, b->wire_volume);
}

TREE_GENERATE(volume_queues, volume_queue, entry, compare_queues)

void volume_queue_kick(struct volume_manager *manager)
{
	timer_again(&manager->dispatch, manager->on_dispatch);
}

static struct volume_queue *queue_find(const struct volume_manager *manager, const char *wire_volume)
{
	struct volume_queues root = manager->queues; /* a look-up changes nothing */
	struct volume_queue key = {0};

	(void)str_copy(key.wire_volume, sizeof(key.wire_volume), wire_volume);
	return RB_FIND(volume_queues, &root, &key);
}

bool volume_queue_exists(const struct volume_manager *manager, const char *wire_volume)
{
	return queue_find(manager, wire_volume) != NULL;
}

static struct volume_queue *queue_get(struct volume_manager *manager, const char *wire_volume)
{
	struct volume_queue *queue = queue_find(manager, wire_volume);

	if (queue)
		return queue;
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return NULL;
	(void)str_copy(queue->wire_volume, sizeof(queue->wire_volume), wire_volume);
	TAILQ_INIT(&queue->waiting);
	RB_INSERT(volume_queues, &manager->queues, queue);
	return queue;
}

/* Schedules the queue's next operation as soon as no operation of it is in flight. */
static void queue_note(struct volume_manager *manager, struct volume_queue *queue)
{
	if (queue->is_ready || queue->current || TAILQ_EMPTY(&queue->waiting))
		return;
	queue->is_ready = true;
	TAILQ_INSERT_TAIL(&manager->ready, queue, ready);
	volume_queue_kick(manager);
}

struct volume_queue *volume_queue_take(struct volume_manager *manager)
{
	struct volume_queue *queue = TAILQ_FIRST(&manager->ready);

	if (queue) {
		TAILQ_REMOVE(&manager->ready, queue, ready);
		queue->is_ready = false;
	}
	return queue;
}

static void queue_put(struct volume_manager *manager, struct volume_queue *queue)
{
	if (queue->n_ops > 0) {
		queue_note(manager, queue);
		return;
	}
	if (queue->is_ready)
		TAILQ_REMOVE(&manager->ready, queue, ready);
	RB_REMOVE(volume_queues, &manager->queues, queue);
	free(queue);
}

void volume_plugin_stop(struct volume_op *op)
{
	plugin_wait_cancel(op->wait);
	op->wait = NULL;
	service_call_cancel(op->call);
	op->call = NULL;
}

void volume_op_free(struct volume_op *op)
{
	struct volume_manager *manager = op->manager;
	struct volume_queue *queue = op->queue;

	wakeup_disarm(&op->timer);
	path_probe_cancel(op->probe);
	volume_plugin_stop(op);
	secret_message_unref(op->target.details);
	secret_message_unref(op->expansion);
	if (queue->current == op)
		queue->current = NULL;
	LIST_REMOVE(op, all);
	manager->n_ops--;
	queue->n_ops--;
	queue_put(manager, queue);
	free(op);
}

void volume_op_finish(struct volume_op *op, const struct error *err)
{
	volume_expanded_fn *expanded = op->expanded;
	volume_done_fn *done = op->done;
	void *userdata = op->userdata;
	int64_t bytes = op->expanded_bytes;
	bool has_mounted = !err && (op->has_mounted || op->is_forced);
	struct volume_mounted mounted = op->mounted;

	volume_op_free(op);
	if (expanded)
		expanded(err || bytes < 0 ? 0 : (uint64_t)bytes, err, userdata);
	else
		done(has_mounted ? &mounted : NULL, err, userdata);
}

static void op_wait(struct volume_op *op)
{
	TAILQ_INSERT_TAIL(&op->queue->waiting, op, entry);
	queue_note(op->manager, op->queue);
}

static int on_retry_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct volume_op *op = userdata;

	wakeup_disarm(&op->timer);
	op->next_try_ms = 0;
	op_wait(op);
	return 0;
}

void volume_op_retry(struct volume_op *op)
{
	uint64_t delay_us = backoff_next(&op->backoff, backoff_random());

	op->queue->current = NULL;
	op->next_try_ms = clock_realtime_ms() + (int64_t)(delay_us / USEC_PER_MSEC);
	if (wakeup_arm(op->manager->event, &op->timer, delay_us, on_retry_due, op, NULL) != STATUS_OK)
		op_wait(op);
	queue_note(op->manager, op->queue);
	if (op->retry)
		op->retry(&op->last_error, op->userdata);
}

enum status volume_queue_add(struct volume_manager *manager, const struct volume_op *init,
			     struct volume_op **ret, struct error *err)
{
	struct volume_queue *queue;
	struct volume_op *op;

	if (manager->n_ops >= VOLUME_OPS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%d volume operations are in flight already", VOLUME_OPS_MAX);
	op = malloc(sizeof(*op));
	queue = op ? queue_get(manager, init->target.wire_volume) : NULL;
	if (!queue) {
		free(op);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot queue a volume operation");
	}
	*op = *init;
	(void)secret_message_ref(op->target.details);
	op->manager = manager;
	op->queue = queue;
	op->since_ms = op->step_since_ms = clock_realtime_ms();
	op->backoff = (struct backoff)BACKOFF_INIT(VOLUME_RETRY_MIN_MS * USEC_PER_MSEC,
						   VOLUME_RETRY_MAX_MS * USEC_PER_MSEC);
	LIST_INSERT_HEAD(&manager->ops, op, all);
	queue->n_ops++;
	manager->n_ops++;
	op_wait(op);
	*ret = op;
	return STATUS_OK;
}
