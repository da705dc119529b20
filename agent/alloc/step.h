/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The life of an allocation as two pure functions: one applies an event to the record, the other returns the
 * next action for a record. Nothing else decides, so a restart continues from the journal. */

#include "alloc/record.h"
#include "base/error.h"
#include "model/restart.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

/* The server's grant of one claim. */
struct claim_grant {
	struct claim claim;
	struct volume volume;
	char wire_volume[WIRE_VOLUME_SIZE];
	bool has_ticket;
	struct ticket ticket;
	struct secret_message *details; /* csi, as in volume_target; to keep it, take a reference */
	const Holdfast__V1__Mark *mark; /* borrowed, of the call; NULL when the server sent no error */
};

/* In place of a task's index: the network of all of them. */
enum { ALLOC_NETWORK = ALLOC_TASKS_MAX };

enum alloc_event_type {
	ALLOC_EVENT_CLAIM,	   /* a claim is about to be sent */
	ALLOC_EVENT_CLAIMED,	   /* volume, grant */
	ALLOC_EVENT_MOUNTED,	   /* volume, mounted */
	ALLOC_EVENT_UNMOUNTED,	   /* volume; another process unmounted it: it must be mounted again */
	ALLOC_EVENT_UNIT_START,	   /* invocation: of before; it is about to be started */
	ALLOC_EVENT_UNIT_RUNS,	   /* invocation */
	ALLOC_EVENT_UNIT_ENDED,	   /* by itself: err, NULL with success; while stopping: no process is left */
	ALLOC_EVENT_TASK_START,	   /* task; it is about to be started */
	ALLOC_EVENT_TASK_RUNS,	   /* task, handle, start */
	ALLOC_EVENT_TASK_HEALTH,   /* task, health */
	ALLOC_EVENT_TASK_FAILED,   /* task, err, result; it is restarted at restart_ms: count */
	ALLOC_EVENT_TASK_DONE,	   /* task; it has ended with success, others have not */
	ALLOC_EVENT_TASK_ENDED,	   /* task; by itself, the last one or not with success: err, else NULL */
	ALLOC_EVENT_TASK_GONE,	   /* task; nothing of it is left */
	ALLOC_EVENT_NETWORK_START, /* driver: it is about to make the network */
	ALLOC_EVENT_NETWORK_UP,	   /* network; also of one that was looked at again */
	ALLOC_EVENT_NETWORK_GONE,  /* nothing of it is left */
	ALLOC_EVENT_RUN,	   /* every volume is mounted, the work begins */
	ALLOC_EVENT_FAIL,	   /* err */
	ALLOC_EVENT_STOP,	   /* by the server */
	ALLOC_EVENT_SHUTDOWN,	   /* the host shuts down */
	ALLOC_EVENT_DEVICE,	   /* volume, target: its device, before it is unstaged */
	ALLOC_EVENT_RELEASED,	   /* volume; mounted: its plugin was bypassed */
	ALLOC_EVENT_FINISH,	   /* nothing is left */
	ALLOC_EVENT_REBOOTED,	   /* the node was restarted since it was accepted */
	ALLOC_EVENT_N,
};

struct alloc_event {
	enum alloc_event_type type;
	uint32_t volume; /* index */
	uint32_t task;	 /* index */
	const struct claim_grant *grant;
	const struct volume_mounted *mounted;
	const struct volume_target *target;
	const struct error *err;
	const char *invocation;
	const char *driver;
	const Holdfast__Driver__V1__NetworkSpec *network;
	const Holdfast__Driver__V1__TaskHandle *handle;
	const Holdfast__Driver__V1__StartTaskRequest *start; /* order of the task; NULL: it was restarted */
	const char *health;
	struct restart_count count;
	int64_t restart_ms;
	const Holdfast__Driver__V1__ExitResult *result; /* of a task that has ended; NULL: not known */
	int64_t now_ms;					/* of what tasks do */
};

/** The phase after an event; ALLOC_PHASE_N: it is refused in this phase. */
enum alloc_phase alloc_phase_step(enum alloc_phase phase, enum alloc_event_type event);

/** Apply @event to @record. Returns false, and changes nothing, when the phase does not allow it or it would
 * change nothing. */
bool alloc_step(struct alloc_record *record, const struct alloc_event *event);

enum alloc_action {
	ALLOC_DO_NOTHING,
	ALLOC_DO_CLAIM, /* volume */
	ALLOC_DO_MOUNT, /* volume */
	ALLOC_DO_START_UNIT,
	ALLOC_DO_START_TASK,	/* task */
	ALLOC_DO_START_NETWORK, /* make it, or see that it is right */
	ALLOC_DO_RUN,
	ALLOC_DO_STOP_UNIT,
	ALLOC_DO_STOP_TASK, /* task */
	ALLOC_DO_UNMOUNT,   /* volume */
	ALLOC_DO_STOP_NETWORK,
	ALLOC_DO_FINISH,
	ALLOC_ACTION_N,
};

struct alloc_next {
	enum alloc_action action;
	uint32_t volume;
	uint32_t task;
};

/** The event of a task that has ended by itself, with @err or not. */
/** May a task that failed be started again now? Not while the allocation ends, nor before its volumes are
 * published again. */
bool alloc_may_restart(const struct alloc_record *record);

enum alloc_event_type alloc_task_end(const struct alloc_record *record, uint32_t task,
				     const struct error *err);

/** Returns the next action, given that nothing is in flight. */
struct alloc_next alloc_next(const struct alloc_record *record);

/** Will the helper take the ticket at @now_ms, as far as its time goes? */
bool volume_record_ticket_expired(const struct volume_record *volume, int64_t now_ms);
