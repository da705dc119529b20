/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Shared by alloc_runner.c, and by what an allocation does about its volumes and about the plugin or the
 * unit that it runs.
 */

#include "alloc/runner.h"
#include "alloc/step.h"
#include "base/backoff.h"
#include "log/log.h"

#include <sys/queue.h>

enum runner_op {
	RUNNER_IDLE,
	RUNNER_CLAIM,
	RUNNER_WAIT, /* until the next attempt */
	RUNNER_MOUNT,
	RUNNER_UNMOUNT,
	RUNNER_PLUGIN, /* until the plugin that it runs is healthy */
	RUNNER_START_UNIT,
	RUNNER_STOP_UNIT,
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
	sd_event_source *news_timer; /* while mounting */
	uint64_t news_delay_ms;
	int64_t op_since_ms;
	int64_t op_deadline_ms;
	struct error last_error;
	bool is_plugin_expected;
	bool is_plugin_ready;
	struct task *unit; /* while it is started, watched or stopped */
	STAILQ_HEAD(, runner_write) writes;
};

struct log_ctx runner_context(const struct alloc_runner *runner, const char *op);

/** Apply an event, make it durable with its receipt, and go on when it is. */
void runner_apply(struct alloc_runner *runner, const struct alloc_event *event);

/** It cannot go on: what was done is undone. */
void runner_fail(struct alloc_runner *runner, const struct error *err);

/** Do what is next, unless something is under way. */
void runner_advance(struct alloc_runner *runner);

/** @volume that it is about; the number of volumes: none */
void runner_begin_op(struct alloc_runner *runner, enum runner_op op, uint32_t volume);
void runner_end_op(struct alloc_runner *runner);

/* alloc_runner_volumes.c */

void runner_begin_claim(struct alloc_runner *runner, uint32_t i);
void runner_begin_mount(struct alloc_runner *runner, uint32_t i);
/** Runs again when the volume manager is full: the release must not be given up. */
void runner_begin_unmount(struct alloc_runner *runner, uint32_t i);

/* alloc_runner_plugin.c */

bool runner_runs_plugin(const struct alloc_runner *runner);
/** All volumes are there: the plugin has its folders and may become healthy. */
void runner_begin_plugin(struct alloc_runner *runner);
/** What stands there of it is nobody's from now on, also while volumes are still unmounted. */
void runner_forget_plugin(struct alloc_runner *runner);

/* alloc_runner_task.c */

/** All volumes are there: start the unit, or find out whether it was started. */
void runner_begin_unit(struct alloc_runner *runner);
/** Whatever was to be journalled is. */
void runner_unit_written(struct alloc_runner *runner);
/** After a restart of the agent. */
void runner_watch_unit(struct alloc_runner *runner);
/** Before any volume is unpublished. */
void runner_begin_unit_stop(struct alloc_runner *runner);
/** Let go of one that need not be stopped. */
void runner_forget_unit(struct alloc_runner *runner);
/** What is being done about it. */
void runner_unit_info(const struct alloc_runner *runner, struct alloc_runner_info *info);
