/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Runs one allocation: performs each step from alloc_next(), journals its result, and reports it. */

#include "alloc/journal.h"
#include "alloc/receipts.h"
#include "alloc/record.h"
#include "base/error.h"
#include "driver/drivers.h"
#include "rpc/client.h"
#include "unit/task.h"
#include "volume/manager.h"

#include <systemd/sd-event.h>

enum {
	CLAIM_RETRY_MIN_MS = 500,
	CLAIM_RETRY_MAX_MS = 30000,
};

/* The objects that runners use, and the callbacks that they report to; all borrowed. */
struct runner_env {
	sd_event *event;
	struct journal *journal;
	struct journal_disk *disk;
	struct receipts *receipts;
	struct volume_manager *volumes;
	struct tasks *tasks;	       /* units */
	const struct drivers *drivers; /* of tasks */
	struct rpc_client *rpc;
	const char *node_id;
	const char *boot_id;
	uint64_t claim_timeout_us;
	/* by which this clock is ahead of the server's; below 0: behind */
	int64_t (*clock_skew_ms)(void *userdata);
	/* the allocation's status has changed, and durably */
	void (*on_status)(const struct alloc *alloc, void *userdata);
	/* a receipt is durable and among the receipts */
	void (*on_receipt)(const struct receipt *receipt, void *userdata);
	/* a release failed and is retried */
	void (*on_release_error)(const char *claim_id, uint64_t generation, const struct error *err,
				 void *userdata);
	/* the journal cannot be written: the agent must end */
	void (*on_broken)(const struct error *err, void *userdata);
	/* An allocation runs its CSI plugins from now on. Calls alloc_runner_plugin_ready() once for each,
	 * from the event loop, when it is healthy or was not in time; again after a repeat. Fails as a
	 * whole. */
	enum status (*expect_plugins)(const struct alloc *alloc, void *userdata, struct error *err);
	/* it no longer runs them */
	void (*forget_plugins)(const char *alloc_id, void *userdata);
	void *userdata;
};

struct alloc_runner;

/** @record taken over. Nothing happens before alloc_runner_start().
 * @ret owned by the caller, alloc_runner_free() */
enum status alloc_runner_new(const struct runner_env *env, struct alloc_record *record,
			     struct alloc_runner **ret, struct error *err);

/** Journal the record as it is, for one that is new. */
void alloc_runner_save(struct alloc_runner *runner);

/** Continues from the state of the record. Needs a mount snapshot. */
void alloc_runner_start(struct alloc_runner *runner);

/** Once, before alloc_runner_start(): one that ran, or was starting, before a restart of the agent still
 * runs its plugins. */
void alloc_runner_expect(struct alloc_runner *runner);

/** A plugin that it runs became healthy (@err NULL), or did not in time. */
void alloc_runner_plugin_ready(struct alloc_runner *runner, const char *plugin_id, const struct error *err);

/** The server wants it stopped. */
void alloc_runner_stop(struct alloc_runner *runner);

/** Undoes the allocation at a shutdown of the host, and sets it to lost. Ignores a stopping one. */
void alloc_runner_shut_down(struct alloc_runner *runner);

/** The server orders the release of @claim, of this allocation, which is stopping: its receipts and errors
 * are sent under the id of the order. After a restore the server may have given the claim another one. */
void alloc_runner_name_claim(struct alloc_runner *runner, const struct claim *claim);

/** The server wants @claim, of this allocation, which is stopping, to be released without its plugin. */
void alloc_runner_force(struct alloc_runner *runner, const struct claim *claim);

/** It cannot continue: undo and fail. */
void alloc_runner_fail(struct alloc_runner *runner, const struct error *err);

/** Mounts a published volume again that another process unmounted. Call it before alloc_runner_start(). */
void alloc_runner_unmounted(struct alloc_runner *runner, uint32_t i);

/** The node was rebooted: nothing is left of it here. */
void alloc_runner_rebooted(struct alloc_runner *runner);

const struct alloc_record *alloc_runner_record(const struct alloc_runner *runner);

/** Is it stopped, and all of that durable? Then it may be forgotten. */
bool alloc_runner_is_over(const struct alloc_runner *runner);

/* The operation in progress, for people; step NULL: no operation. */
struct alloc_runner_info {
	const char *step; /* claim, plugin, start unit NAME, stop unit NAME, of driver_task_info() or
			     volume_op_info() */
	const char *volume_id;
	int64_t since_ms;
	int64_t deadline_ms; /* of this attempt, or when the next one begins; 0: unknown */
	uint32_t attempts;
	const char *last_error; /* empty: no error */
};

struct alloc_runner_info alloc_runner_info(const struct alloc_runner *runner);

/** No callbacks. The helper client and the volume manager must be freed before, the journal closed. NULL is
 * allowed. */
void alloc_runner_free(struct alloc_runner *runner);
