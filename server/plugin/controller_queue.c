/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "plugin/controller_internal.h"

#include <stdlib.h>
#include <string.h>

static int compare_queues(const struct plugin_queue *a, const struct plugin_queue *b)
{
	return strcmp(a->plugin_id, b->plugin_id);
}

TREE_GENERATE(plugin_queues, plugin_queue, by_plugin, compare_queues)

struct plugin_queue *plugin_queue_or_new(struct controllers *controllers, const char *plugin_id)
{
	struct plugin_queue *queue = calloc(1, sizeof(*queue));
	struct plugin_queue *known;

	if (!queue)
		return NULL;
	(void)str_copy(queue->plugin_id, sizeof(queue->plugin_id), plugin_id);
	TAILQ_INIT(&queue->waiting);
	known = RB_INSERT(plugin_queues, &controllers->queues, queue);
	if (!known)
		return queue;
	free(queue);
	return known;
}

void plugin_queue_drop_idle(struct controllers *controllers, struct plugin_queue *queue)
{
	if (queue->is_taken || queue->n_waiting > 0 || queue->n_side > 0)
		return;
	RB_REMOVE(plugin_queues, &controllers->queues, queue);
	free(queue);
}

enum status plugin_queue_check_room(const struct plugin_queue *queue, bool is_serial, struct error *err)
{
	if ((is_serial ? queue->n_waiting : queue->n_side) < CONTROLLER_QUEUE_MAX)
		return STATUS_OK;
	return error_set(
		err, STATUS_RESOURCE_EXHAUSTED, 0,
		"plugin %s: %d calls wait for its controller, the most there may be; try again later",
		queue->plugin_id, CONTROLLER_QUEUE_MAX);
}

static void make_ready(struct plugin_job *job)
{
	struct controllers *controllers = job->controllers;

	TAILQ_INSERT_TAIL(&controllers->ready, job, waiting);
	/* cannot fail: the source exists and the loop is not finished while anybody calls */
	(void)sd_event_source_set_enabled(controllers->send_soon, SD_EVENT_ONESHOT);
}

/* The turn of the next one, once nobody has it. */
static void next_turn(struct plugin_queue *queue)
{
	struct plugin_job *job = TAILQ_FIRST(&queue->waiting);

	if (!job)
		return;
	TAILQ_REMOVE(&queue->waiting, job, waiting);
	queue->n_waiting--;
	queue->is_taken = true;
	make_ready(job);
}

void plugin_queue_add(struct plugin_queue *queue, struct plugin_job *job)
{
	job->queue = queue;
	if (!job->is_serial) {
		queue->n_side++;
		make_ready(job);
		return;
	}
	TAILQ_INSERT_TAIL(&queue->waiting, job, waiting);
	queue->n_waiting++;
	if (!queue->is_taken)
		next_turn(queue);
}

void plugin_queue_leave(struct plugin_queue *queue, const struct plugin_job *job)
{
	if (job->is_serial) {
		queue->is_taken = false;
		next_turn(queue);
	} else {
		queue->n_side--;
	}
}

size_t plugin_queues_waiting(struct controllers *controllers)
{
	struct plugin_queue *queue;
	size_t n = 0;

	RB_FOREACH (queue, plugin_queues, &controllers->queues)
		n += queue->n_waiting;
	return n;
}
