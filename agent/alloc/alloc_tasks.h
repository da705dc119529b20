/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Runs the tasks and the network of one allocation at their drivers, and reports their changes as events of
 * its record. ALLOC_NETWORK is the task index of the network. */

#include "alloc/record.h"
#include "alloc/step.h"
#include "base/error.h"
#include "driver/driver_task.h"

#include <stdint.h>

/* From the event loop. */
struct alloc_tasks_events {
	/* ALLOC_EVENT_TASK_* and ALLOC_EVENT_NETWORK_*. The runner stops waiting for that task, unless it is
	 * only about to start it. */
	void (*on_event)(const struct alloc_event *event, void *userdata);
	/* a task was never asked of its driver, and will not be */
	void (*on_refused)(uint32_t task, const struct error *err, void *userdata);
	/* one cannot continue for now and is tried again */
	void (*on_trouble)(uint32_t task, const struct error *err, void *userdata);
};

struct alloc_tasks_options {
	sd_event *event; /* borrowed, as all that follow */
	const struct drivers *drivers;
	struct rpc_client *server;
	const struct alloc_record *record;
	const struct alloc_tasks_events *events;
	void *userdata;
};

struct alloc_tasks;

/** Nothing happens by itself. @ret owned by the caller, alloc_tasks_free(); NULL of a record without tasks */
enum status alloc_tasks_new(const struct alloc_tasks_options *options, struct alloc_tasks **ret,
			    struct error *err);

/** Frees @tasks; the tasks continue at their drivers. Here and below NULL means no tasks. */
void alloc_tasks_free(struct alloc_tasks *tasks);

/** Start the task, or find out whether it was started. */
enum status alloc_tasks_start(struct alloc_tasks *tasks, uint32_t i, struct error *err);

/** The record is on the disk as it is. */
void alloc_tasks_written(struct alloc_tasks *tasks, uint32_t i);

/** Wait for the end of those that ran before a restart of the agent, and restart those that had failed. */
enum status alloc_tasks_watch(struct alloc_tasks *tasks, struct error *err);

/** Stop the task and take away what its driver has of it. */
enum status alloc_tasks_stop(struct alloc_tasks *tasks, uint32_t i, struct error *err);

/** Forget those of which no driver has anything. */
void alloc_tasks_prune(struct alloc_tasks *tasks);

/** Returns the operation in progress for the task; step NULL if there is no operation. */
struct driver_task_info alloc_tasks_info(const struct alloc_tasks *tasks, uint32_t i);
