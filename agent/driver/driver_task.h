/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One task that a driver runs: ordered, started once, recovered, waited for, restarted, stopped and
 * destroyed. The network of an allocation's tasks is one too, but is never waited for: it is made, or found,
 * and destroyed.
 *
 * A table maps each state and the result of its call to the next step. A task counts as gone only when its
 * driver reports it: if the driver is away, the agent waits for it. */

#include "base/error.h"
#include "driver/drivers.h"
#include "rpc/client.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

enum {
	DRIVER_TASK_RETRY_MIN_MS = 500,
	DRIVER_TASK_RETRY_MAX_MS = 30000,
	DRIVER_TASK_ORDER_TIMEOUT_MS = 30000,
	DRIVER_TASK_CHECK_MIN_MS = 500, /* between two looks at a task's health */
	DRIVER_TASK_CHECK_MAX_MS = 15000,
};

enum driver_task_state {
	DRIVER_TASK_NEW,     /* never asked of the driver: the server is asked for its order */
	DRIVER_TASK_READY,   /* it is ordered, and waits to be journalled */
	DRIVER_TASK_ORDER,   /* it may have been asked of the driver: the same order is asked for again */
	DRIVER_TASK_START,   /* StartTask */
	DRIVER_TASK_RECOVER, /* RecoverTask */
	DRIVER_TASK_WAIT,    /* WaitTask */
	DRIVER_TASK_EXITED,  /* and the driver has something of it still, perhaps */
	DRIVER_TASK_STOP,    /* StopTask */
	DRIVER_TASK_DESTROY, /* DestroyTask */
	DRIVER_TASK_RESTART, /* RestartTask, after a delay */
	DRIVER_TASK_OVER,
	DRIVER_TASK_UP,	    /* a network that is right */
	DRIVER_TASK_REMAKE, /* DestroyNetwork of one that does not hold, before another order */
	DRIVER_TASK_STATE_N,
};

/* The result of the state's call, or a request. */
enum driver_task_event {
	DRIVER_TASK_OK,
	DRIVER_TASK_NOT_FOUND, /* reported by the driver, or by the server for an order */
	DRIVER_TASK_PASSING,   /* tried again it may go well; nothing is known */
	DRIVER_TASK_REFUSED,
	DRIVER_TASK_WRONG, /* a network is there that does not hold; once */
	DRIVER_TASK_JOURNALLED,
	DRIVER_TASK_STOP_WANTED,
	DRIVER_TASK_RESTART_WANTED,
	DRIVER_TASK_EVENT_N,
};

enum driver_task_action {
	DRIVER_TASK_NO_STEP, /* the event cannot happen in this state */
	DRIVER_TASK_DO_NOTHING,
	DRIVER_TASK_DO_CALL,	/* of the new state */
	DRIVER_TASK_DO_RETRY,	/* the same, later */
	DRIVER_TASK_DO_JOURNAL, /* report: it is about to be started */
	DRIVER_TASK_DO_UP,	/* report: the network is there */
	DRIVER_TASK_DO_RUNS,	/* report: it runs; and call */
	DRIVER_TASK_DO_EXITED,	/* report: with the driver's result */
	DRIVER_TASK_DO_LOST,	/* report: the driver no longer knows it */
	DRIVER_TASK_DO_FAILED,	/* report: it was not started */
	DRIVER_TASK_DO_GONE,	/* report: nothing of it is left */
	DRIVER_TASK_ACTION_N,
};

struct driver_task_step {
	enum driver_task_state state;
	enum driver_task_action action;
};

/** Returns the next step of a task. Pure. */
struct driver_task_step driver_task_step(enum driver_task_state state, enum driver_task_event event);

/** The same of a network: where it differs from a task. */
struct driver_task_step driver_network_step(enum driver_task_state state, enum driver_task_event event);

/** "order", "start", "wait", ... */
const char *driver_task_state_name(enum driver_task_state state);

/* Called from the event loop. The task may be freed in on_exited() and on_gone(). */
struct driver_task_events {
	/* it is about to be started: driver_task_go() when that is on the disk */
	void (*on_start)(void *userdata);
	/* it runs; @handle recovers it. @start is its order; NULL after a restart. Both borrowed */
	void (*on_runs)(const Holdfast__Driver__V1__TaskHandle *handle,
			const Holdfast__Driver__V1__StartTaskRequest *start, void *userdata);
	/* the network is there; @spec borrowed */
	void (*on_up)(const Holdfast__Driver__V1__NetworkSpec *spec, void *userdata);
	/* the health of one with a check has changed: "healthy", "unhealthy", "starting" */
	void (*on_health)(const char *health, void *userdata);
	/* false: not now, as its volumes are not mounted; asked again */
	bool (*may_restart)(void *userdata);
	/* it has ended by itself, or never ran (@err); driver_task_restart() starts it again,
	 * driver_task_stop() removes its remains.
	 * @result borrowed; NULL with @err */
	void (*on_exited)(const Holdfast__Driver__V1__ExitResult *result, const struct error *err,
			  void *userdata);
	/* nothing of it is left */
	void (*on_gone)(void *userdata);
	/* it cannot continue for now and is tried again */
	void (*on_trouble)(const struct error *err, void *userdata);
};

struct driver_task_request {
	sd_event *event; /* borrowed, as all that follow */
	const struct drivers *drivers;
	struct rpc_client *server; /* that is asked for the order */
	const char *namespace, *alloc_id;
	const Holdfast__Driver__V1__TaskConfig *config;	  /* NULL: the network */
	const char *driver;				  /* of a network that may be there */
	const Holdfast__Driver__V1__NetworkSpec *network; /* that a task joins; NULL: no network */
	/* NEW, ORDER, RECOVER, RESTART, EXITED or STOP; of a network no RECOVER, RESTART, STOP */
	enum driver_task_state state;
	const Holdfast__Driver__V1__TaskHandle *handle; /* of RECOVER */
	const Holdfast__Driver__V1__StartTaskRequest
		*start;	   /* its order, once it was started; NULL: not kept */
	uint64_t delay_us; /* of RESTART */
	const struct driver_task_events *events;
	void *userdata;
};

struct driver_task;

/** Begins at once, from the event loop. @ret owned by the caller, driver_task_free() before the borrowed
 * objects */
enum status driver_task_new(const struct driver_task_request *request, struct driver_task **ret,
			    struct error *err);

/** Continues after the record of on_start() is on the disk. */
void driver_task_go(struct driver_task *task);

/** Start one that has ended by itself again after @delay_us, by the order that started it. From on_exited().
 */
void driver_task_restart(struct driver_task *task, uint64_t delay_us);

/** Stops the task in any state and removes its remains; on_gone() reports the end. */
void driver_task_stop(struct driver_task *task);

/* The operation in progress, for people. */
struct driver_task_info {
	const char *step;
	int64_t since_ms;
	uint32_t attempts;
	const char *last_error; /* empty: no error */
};

struct driver_task_info driver_task_info(const struct driver_task *task);

/** The name of its driver; of a network from on_start() on. */
const char *driver_task_driver(const struct driver_task *task);

/** The task continues at its driver. NULL is allowed. */
void driver_task_free(struct driver_task *task);
