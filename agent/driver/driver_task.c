/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/driver_task.h"

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/grid.h"
#include "base/id.h"
#include "base/join.h"
#include "base/names.h"
#include "base/str.h"
#include "model/message.h"
#include "model/task.h"
#include "rpc/wakeup.h"

#include <assert.h>
#include <errno.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <order.h>
#include <stdlib.h>

struct driver_task {
	struct driver_task_request request;
	enum driver_task_state state;
	struct rpc_pending *order_call;
	struct service_call *call;
	Holdfast__V1__OrderTaskResponse *order;	  /* owned; NULL: not ordered yet */
	Holdfast__Driver__V1__TaskHandle *handle; /* owned; NULL: no handle yet */
	char driver[ORDER_LABEL_SIZE];
	char title[ORDER_LABEL_SIZE + 16]; /* for people */
	bool is_remade;
	struct backoff backoff;
	uint64_t wait_us; /* when it began to be waited for last */
	sd_event_source *timer;
	struct service_call *check; /* InspectTask */
	sd_event_source *check_timer;
	char health[16]; /* as it was reported last */
	int64_t since_ms;
	struct error last_error;
};

static const char *const state_names[DRIVER_TASK_STATE_N] = {
	[DRIVER_TASK_NEW] = "order",	   [DRIVER_TASK_READY] = "journal",
	[DRIVER_TASK_ORDER] = "order",	   [DRIVER_TASK_START] = "start",
	[DRIVER_TASK_RECOVER] = "recover", [DRIVER_TASK_WAIT] = "wait",
	[DRIVER_TASK_EXITED] = "exited",   [DRIVER_TASK_STOP] = "stop",
	[DRIVER_TASK_DESTROY] = "destroy", [DRIVER_TASK_OVER] = "over",
	[DRIVER_TASK_UP] = "up",	   [DRIVER_TASK_REMAKE] = "destroy",
	[DRIVER_TASK_RESTART] = "restart",
};

const char *driver_task_state_name(enum driver_task_state state)
{
	const char *name = names_get(state_names, DRIVER_TASK_STATE_N, (int)state);

	return name ? name : "invalid";
}

/* clang-format off */
/* The next state, and what to do. */
#define NO {GRID_NO, DRIVER_TASK_NO_STEP}
#define CELL(state, action) {GRID_TO(DRIVER_TASK_##state), DRIVER_TASK_DO_##action}

#define STAY {GRID_STAY, DRIVER_TASK_DO_NOTHING}
#define RETRY {GRID_STAY, DRIVER_TASK_DO_RETRY}
#define JOURNAL CELL(READY, JOURNAL)
#define ORDER CELL(ORDER, CALL)
#define REORDER CELL(ORDER, RETRY) /* it may have been started: by the same nonce, once */
#define START CELL(START, CALL)
#define RUNS CELL(WAIT, RUNS)
#define WAIT CELL(WAIT, CALL)
#define RECOVER CELL(RECOVER, RETRY) /* it may run in spite of the error */
#define EXITED CELL(EXITED, EXITED)
#define LOST CELL(EXITED, LOST)
#define FAILED CELL(EXITED, FAILED)
#define NEVER CELL(OVER, FAILED) /* no driver has heard of it */
#define STOP CELL(STOP, CALL)
#define DESTROY CELL(DESTROY, CALL)
#define GONE CELL(OVER, GONE)
#define UP CELL(UP, UP)
#define REMAKE CELL(REMAKE, CALL) /* no task is in it yet */
#define RESTART CELL(RESTART, NOTHING) /* after the delay */

static const struct cell {
	uint8_t to;
	enum driver_task_action action;
} steps[DRIVER_TASK_EVENT_N][DRIVER_TASK_STATE_N] = {
	/*                           NEW      READY  ORDER   START    RECOV  WAIT     EXITED   STOP     DESTR  RESTART */
	[DRIVER_TASK_OK] =          {JOURNAL, NO,    START,  RUNS,    WAIT,  EXITED,  NO,      DESTROY, GONE,  RUNS},
	[DRIVER_TASK_NOT_FOUND] =   {NEVER,   NO,    FAILED, FAILED,  LOST,  LOST,    NO,      DESTROY, GONE,  LOST},
	[DRIVER_TASK_PASSING] =     {RETRY,   NO,    RETRY,  REORDER, RETRY, RECOVER, NO,      RETRY,   RETRY, RETRY},
	[DRIVER_TASK_REFUSED] =     {NEVER,   NO,    FAILED, FAILED,  RETRY, RECOVER, NO,      RETRY,   RETRY, FAILED},
	[DRIVER_TASK_JOURNALLED] =  {NO,      START, NO,     NO,      NO,    NO,      NO,      NO,      NO,    NO},
	[DRIVER_TASK_STOP_WANTED] = {GONE,    GONE,  STOP,   STOP,    STOP,  STOP,    DESTROY, STAY,    STAY,  STOP},
	[DRIVER_TASK_RESTART_WANTED] = {NO,   NO,    NO,     NO,      NO,    NO,      RESTART, NO,      NO,    NO},
};

/* Steps of a network that differ from those of a task; NO keeps the step of a task. */
static const struct cell network_steps[DRIVER_TASK_EVENT_N][DRIVER_TASK_STATE_N] = {
	/*                           NEW READY ORDER    START    RECOV WAIT EXITED STOP DESTR REST OVER UP      REMAKE */
	[DRIVER_TASK_OK] =          {NO, NO,   NO,      UP,      NO,   NO,  NO,    NO,  NO,   NO,  NO,  NO,     ORDER},
	[DRIVER_TASK_NOT_FOUND] =   {NO, NO,   NO,      NO,      NO,   NO,  NO,    NO,  NO,   NO,  NO,  NO,     ORDER},
	[DRIVER_TASK_PASSING] =     {NO, NO,   NO,      NO,      NO,   NO,  NO,    NO,  NO,   NO,  NO,  NO,     RETRY},
	[DRIVER_TASK_REFUSED] =     {NO, NO,   NO,      NO,      NO,   NO,  NO,    NO,  NO,   NO,  NO,  NO,     RETRY},
	[DRIVER_TASK_WRONG] =       {NO, NO,   NO,      REMAKE,  NO,   NO,  NO,    NO,  NO,   NO,  NO,  NO,     NO},
	[DRIVER_TASK_STOP_WANTED] = {NO, NO,   DESTROY, DESTROY, NO,   NO,  NO,    NO,  NO,   NO,  NO,  DESTROY, DESTROY},
};
/* clang-format on */

static struct driver_task_step step_of(const struct cell *cell, enum driver_task_state state)
{
	if (cell->to == GRID_NO)
		return (struct driver_task_step){state, DRIVER_TASK_NO_STEP};
	return (struct driver_task_step){(enum driver_task_state)grid_next(cell->to, state), cell->action};
}

struct driver_task_step driver_task_step(enum driver_task_state state, enum driver_task_event event)
{
	assert(state < DRIVER_TASK_STATE_N && event < DRIVER_TASK_EVENT_N);
	return step_of(&steps[event][state], state);
}

struct driver_task_step driver_network_step(enum driver_task_state state, enum driver_task_event event)
{
	assert(state < DRIVER_TASK_STATE_N && event < DRIVER_TASK_EVENT_N);
	if (state == DRIVER_TASK_RESTART || event == DRIVER_TASK_RESTART_WANTED)
		return (struct driver_task_step){state, DRIVER_TASK_NO_STEP};
	if (network_steps[event][state].to == GRID_NO)
		return driver_task_step(state, event);
	return step_of(&network_steps[event][state], state);
}

static bool is_network(const struct driver_task *task)
{
	return !task->request.config;
}

static void handle_event(struct driver_task *task, enum driver_task_event event, const void *response,
			 const struct error *err);

static enum driver_task_event event_of(const struct error *err)
{
	switch (err->status) {
	case STATUS_NOT_FOUND:
		return DRIVER_TASK_NOT_FOUND;
	case STATUS_UNAVAILABLE:
	case STATUS_DEADLINE_EXCEEDED:
	case STATUS_CANCELLED:
	case STATUS_ABORTED:
	case STATUS_RESOURCE_EXHAUSTED:
	case STATUS_UNKNOWN:
		return DRIVER_TASK_PASSING;
	case STATUS_OK:
	case STATUS_INVALID_ARGUMENT:
	case STATUS_ALREADY_EXISTS:
	case STATUS_PERMISSION_DENIED:
	case STATUS_FAILED_PRECONDITION:
	case STATUS_OUT_OF_RANGE:
	case STATUS_UNIMPLEMENTED:
	case STATUS_INTERNAL:
	case STATUS_DATA_LOSS:
	case STATUS_UNAUTHENTICATED:
	case STATUS_N:
		break;
	}
	return DRIVER_TASK_REFUSED;
}

static void on_called(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct driver_task *task = userdata;
	enum driver_task_event event = err ? event_of(err) : DRIVER_TASK_OK;

	task->call = NULL;
	if (is_network(task) && task->state == DRIVER_TASK_START && !task->is_remade && err &&
	    err->status == STATUS_FAILED_PRECONDITION) {
		task->is_remade = true;
		event = DRIVER_TASK_WRONG;
	}
	handle_event(task, event, response, err);
}

/* Returns whether @name is valid. All orders of a network must name the driver of the first one. */
static bool is_drivers_name(struct driver_task *task, const char *name)
{
	if (!id_is_label(name) || (task->state != DRIVER_TASK_NEW && !str_eq(name, task->driver)))
		return false;
	return str_copy(task->driver, sizeof(task->driver), name) == 0;
}

static void on_ordered(enum status status, const ProtobufCMessage *response, const struct error *err,
		       void *userdata)
{
	struct driver_task *task = userdata;
	const Holdfast__V1__OrderTaskResponse *order = (const void *)response;
	struct error failure;

	task->order_call = NULL;
	if (status != STATUS_OK) {
		handle_event(task, event_of(err), NULL, err);
		return;
	}
	if (task->order)
		holdfast__v1__order_task_response__free_unpacked(task->order, NULL);
	task->order = NULL;
	if (is_network(task) ? order->network && is_drivers_name(task, order->network_driver)
			     : order->start != NULL)
		task->order = (void *)message_convert(response->descriptor, response);
	if (task->order) {
		handle_event(task, DRIVER_TASK_OK, NULL, NULL);
		return;
	}
	(void)error_set(&failure, STATUS_UNAVAILABLE, 0,
			"the server's order of %s is not one for it, or cannot be kept", task->title);
	handle_event(task, DRIVER_TASK_PASSING, NULL, &failure);
}

/* Requests an order, but only if its driver is present: an order is valid for some minutes only. */
static enum status begin_order(struct driver_task *task, struct error *err)
{
	Holdfast__V1__OrderTaskRequest request = HOLDFAST__V1__ORDER_TASK_REQUEST__INIT;
	struct service_client *client;

	if (task->driver[0] != '\0')
		TRY(drivers_client(task->request.drivers, task->driver, &client, err));
	request.id = (char *)(uintptr_t)task->request.alloc_id;
	request.namespace_ = (char *)(uintptr_t)task->request.namespace;
	if (!is_network(task))
		request.task = task->request.config->task;
	request.network = (Holdfast__Driver__V1__NetworkSpec *)(uintptr_t)task->request.network;
	return rpc_client_call(task->request.server, &holdfast__v1__allocations__descriptor, "OrderTask",
			       &request.base, DRIVER_TASK_ORDER_TIMEOUT_MS * USEC_PER_MSEC, on_ordered, task,
			       &task->order_call, err);
}

static enum status call_driver(struct driver_task *task, enum driver_method method,
			       const ProtobufCMessage *message, struct error *err)
{
	const struct service_request request = {
		.method = method,
		.message = message,
		.done = on_called,
		.userdata = task,
	};
	struct service_client *client;

	TRY(drivers_client(task->request.drivers, task->driver, &client, err));
	return service_call_start(client, &request, &task->call, err);
}

static enum status destroy_network(struct driver_task *task, struct error *err)
{
	Holdfast__Driver__V1__DestroyNetworkRequest request =
		HOLDFAST__DRIVER__V1__DESTROY_NETWORK_REQUEST__INIT;

	request.alloc_id = (char *)(uintptr_t)task->request.alloc_id;
	return call_driver(task, DRIVER_DESTROY_NETWORK, &request.base, err);
}

static const Holdfast__Driver__V1__StartTaskRequest *start_of(const struct driver_task *task)
{
	return task->order ? task->order->start : task->request.start;
}

static enum status restart_task(struct driver_task *task, struct error *err)
{
	Holdfast__Driver__V1__RestartTaskRequest request = HOLDFAST__DRIVER__V1__RESTART_TASK_REQUEST__INIT;
	const Holdfast__Driver__V1__StartTaskRequest *start = start_of(task);

	assert(start);
	request.order = start->order;
	request.task = start->task;
	return call_driver(task, DRIVER_RESTART_TASK, &request.base, err);
}

static enum status begin_call(struct driver_task *task, struct error *err)
{
	char *alloc_id = (char *)(uintptr_t)task->request.alloc_id;
	char *name = is_network(task) ? NULL : task->request.config->task;

	switch (task->state) {
	case DRIVER_TASK_NEW:
	case DRIVER_TASK_ORDER:
		return begin_order(task, err);
	case DRIVER_TASK_START:
		if (is_network(task))
			return call_driver(task, DRIVER_CREATE_NETWORK, &task->order->network->base, err);
		return call_driver(task, DRIVER_START_TASK, &task->order->start->base, err);
	case DRIVER_TASK_REMAKE:
		return destroy_network(task, err);
	case DRIVER_TASK_RESTART:
		return restart_task(task, err);
	case DRIVER_TASK_RECOVER: {
		Holdfast__Driver__V1__RecoverTaskRequest request =
			HOLDFAST__DRIVER__V1__RECOVER_TASK_REQUEST__INIT;

		if (!task->handle)
			return error_no_memory(err, "the handle of a task");
		request.handle = task->handle;
		return call_driver(task, DRIVER_RECOVER_TASK, &request.base, err);
	}
	case DRIVER_TASK_WAIT: {
		Holdfast__Driver__V1__WaitTaskRequest request = HOLDFAST__DRIVER__V1__WAIT_TASK_REQUEST__INIT;

		request.alloc_id = alloc_id;
		request.task = name;
		return call_driver(task, DRIVER_WAIT_TASK, &request.base, err);
	}
	case DRIVER_TASK_STOP: {
		Holdfast__Driver__V1__StopTaskRequest request = HOLDFAST__DRIVER__V1__STOP_TASK_REQUEST__INIT;

		request.alloc_id = alloc_id;
		request.task = name;
		return call_driver(task, DRIVER_STOP_TASK, &request.base, err);
	}
	case DRIVER_TASK_DESTROY: {
		Holdfast__Driver__V1__DestroyTaskRequest request =
			HOLDFAST__DRIVER__V1__DESTROY_TASK_REQUEST__INIT;

		request.alloc_id = alloc_id;
		request.task = name;
		if (is_network(task))
			return destroy_network(task, err);
		request.force = true;
		return call_driver(task, DRIVER_DESTROY_TASK, &request.base, err);
	}
	case DRIVER_TASK_READY:
	case DRIVER_TASK_EXITED:
	case DRIVER_TASK_OVER:
	case DRIVER_TASK_UP:
	case DRIVER_TASK_STATE_N:
		break;
	}
	return error_set(err, STATUS_INTERNAL, 0, "state %s of a task calls nobody",
			 driver_task_state_name(task->state));
}

static void call_after(struct driver_task *task, uint64_t delay_us);

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct driver_task *task = userdata;
	struct error err;

	wakeup_disarm(&task->timer);
	if (task->state == DRIVER_TASK_RESTART &&
	    !task->request.events->may_restart(task->request.userdata)) {
		call_after(task, DRIVER_TASK_RETRY_MIN_MS * USEC_PER_MSEC);
		return 0;
	}
	if (begin_call(task, &err) != STATUS_OK)
		handle_event(task, DRIVER_TASK_PASSING, NULL,
			     &err); /* a missing driver proves nothing about the task */
	return 0;
}

/* Without a timer it would wait for ever: the loop's own failure, which ends the agent elsewhere. */
static void call_after(struct driver_task *task, uint64_t delay_us)
{
	struct error err;

	if (wakeup_arm(task->request.event, &task->timer, delay_us, on_due, task, &err) != STATUS_OK)
		task->request.events->on_trouble(&err, task->request.userdata);
}

static void retry(struct driver_task *task, const struct error *err)
{
	assert(err); /* each passing failure has a cause */
	task->last_error = *err;
	call_after(task, backoff_next(&task->backoff, backoff_random()));
	task->request.events->on_trouble(err, task->request.userdata);
}

/* Without memory for it, it is lost when the driver ends: the next run of the agent has it from its journal.
 */
static void keep_handle(struct driver_task *task, const Holdfast__Driver__V1__TaskHandle *handle)
{
	if (task->handle)
		holdfast__driver__v1__task_handle__free_unpacked(task->handle, NULL);
	task->handle = handle ? (void *)message_convert(handle->base.descriptor, &handle->base) : NULL;
}

/* Returns the handle in an answer to StartTask or RestartTask. */
static Holdfast__Driver__V1__TaskHandle *handle_in(const void *response)
{
	const ProtobufCMessage *message = response;

	assert(message);
	if (message->descriptor == &holdfast__driver__v1__restart_task_response__descriptor)
		return ((const Holdfast__Driver__V1__RestartTaskResponse *)response)->handle;
	return ((const Holdfast__Driver__V1__StartTaskResponse *)response)->handle;
}

static void notify_runs(struct driver_task *task, const void *response)
{
	assert(response);

	const ProtobufCMessage *message = response;
	bool is_restart = message->descriptor == &holdfast__driver__v1__restart_task_response__descriptor;

	keep_handle(task, handle_in(response));
	call_after(task, 0);
	task->request.events->on_runs(handle_in(response), is_restart ? NULL : start_of(task),
				      task->request.userdata);
}

/* --- health --- */

static bool is_checked(const struct driver_task *task)
{
	return task->state == DRIVER_TASK_WAIT && task->request.config && task->request.config->health;
}

static void check_later(struct driver_task *task);

static void on_inspected(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	static const char *const known[] = {"healthy", "unhealthy", "starting"};
	const Holdfast__Driver__V1__InspectTaskResponse *inspected = (const void *)response;
	struct driver_task *task = userdata;
	const char *health = !err && inspected->status ? inspected->status->health : "";
	size_t i = 0;

	task->check = NULL;
	check_later(task);
	while (i < ARRAY_SIZE(known) && !str_eq(known[i], health))
		i++;
	if (i == ARRAY_SIZE(known) || str_eq(task->health, health))
		return;
	(void)str_copy(task->health, sizeof(task->health), health);
	task->request.events->on_health(task->health, task->request.userdata);
}

static int on_check_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct driver_task *task = userdata;
	Holdfast__Driver__V1__InspectTaskRequest message = HOLDFAST__DRIVER__V1__INSPECT_TASK_REQUEST__INIT;
	const struct service_request request = {
		.method = DRIVER_INSPECT_TASK,
		.message = &message.base,
		.done = on_inspected,
		.userdata = task,
	};
	struct service_client *client;

	wakeup_disarm(&task->check_timer);
	message.alloc_id = (char *)(uintptr_t)task->request.alloc_id;
	message.task = task->request.config->task;
	if (drivers_client(task->request.drivers, task->driver, &client, NULL) != STATUS_OK ||
	    service_call_start(client, &request, &task->check, NULL) != STATUS_OK)
		check_later(task);
	return 0;
}

/* Twice in an interval of its checks. */
static void check_later(struct driver_task *task)
{
	const Holdfast__Driver__V1__HealthCheck *health = task->request.config->health;
	uint64_t ms = (health->interval_ms > 0 ? health->interval_ms : TASK_CHECK_INTERVAL_DEFAULT_MS) / 2;
	struct error err;

	ms = ms < DRIVER_TASK_CHECK_MIN_MS ? DRIVER_TASK_CHECK_MIN_MS : ms;
	ms = ms > DRIVER_TASK_CHECK_MAX_MS ? DRIVER_TASK_CHECK_MAX_MS : ms;
	if (wakeup_arm(task->request.event, &task->check_timer, ms * USEC_PER_MSEC, on_check_due, task,
		       &err) != STATUS_OK)
		task->request.events->on_trouble(&err, task->request.userdata);
}

static void end_check(struct driver_task *task)
{
	wakeup_disarm(&task->check_timer);
	service_call_cancel(task->check);
	task->check = NULL;
}

/* As long as it runs. */
static void follow_health(struct driver_task *task)
{
	if (!is_checked(task))
		end_check(task);
	else if (!task->check && !task->check_timer)
		check_later(task);
}

static void notify_lost(struct driver_task *task)
{
	struct error err;

	(void)error_set(&err, STATUS_ABORTED, 0,
			"driver %s no longer knows task %s: it ended while it was not watched, or another "
			"program removed it",
			task->driver, task->request.config->task);
	task->request.events->on_exited(NULL, &err, task->request.userdata);
}

/* Performs an action. Called last, because the callee of an event may free the task. */
static void act(struct driver_task *task, enum driver_task_action action, const void *response,
		const struct error *err)
{
	const struct driver_task_events *events = task->request.events;
	void *userdata = task->request.userdata;

	switch (action) {
	case DRIVER_TASK_DO_CALL:
		call_after(task, 0);
		return;
	case DRIVER_TASK_DO_RETRY:
		retry(task, err);
		return;
	case DRIVER_TASK_DO_JOURNAL:
		events->on_start(userdata);
		return;
	case DRIVER_TASK_DO_RUNS:
		notify_runs(task, response);
		return;
	case DRIVER_TASK_DO_UP:
		assert(response);
		events->on_up(((const Holdfast__Driver__V1__CreateNetworkResponse *)response)->spec,
			      userdata);
		return;
	case DRIVER_TASK_DO_EXITED:
		assert(response);
		events->on_exited(((const Holdfast__Driver__V1__WaitTaskResponse *)response)->result, NULL,
				  userdata);
		return;
	case DRIVER_TASK_DO_LOST:
		notify_lost(task);
		return;
	case DRIVER_TASK_DO_FAILED:
		events->on_exited(NULL, err, userdata);
		return;
	case DRIVER_TASK_DO_GONE:
		events->on_gone(userdata);
		return;
	case DRIVER_TASK_DO_NOTHING:
	case DRIVER_TASK_NO_STEP:
	case DRIVER_TASK_ACTION_N:
		return;
	}
}

/* An answer that lacks what it must have is tried again: nothing is known by it. */
static bool is_usable(const struct driver_task *task, const void *response)
{
	assert(response || (task->state != DRIVER_TASK_START && task->state != DRIVER_TASK_WAIT &&
			    task->state != DRIVER_TASK_RESTART));
	if (task->state == DRIVER_TASK_START && is_network(task))
		return ((const Holdfast__Driver__V1__CreateNetworkResponse *)response)->spec;
	if (task->state == DRIVER_TASK_START || task->state == DRIVER_TASK_RESTART)
		return handle_in(response);
	if (task->state == DRIVER_TASK_WAIT)
		return ((const Holdfast__Driver__V1__WaitTaskResponse *)response)->result;
	return true;
}

/* A task goes to and fro between these states when one call of them succeeds and the next one fails. */
static bool is_starting(enum driver_task_state state)
{
	return state == DRIVER_TASK_ORDER || state == DRIVER_TASK_START;
}

static bool is_followed(enum driver_task_state state)
{
	return state == DRIVER_TASK_RECOVER || state == DRIVER_TASK_WAIT;
}

/* A call that succeeds does not end the delays: only the end of that work, or a wait that lasted. */
static bool has_succeeded(const struct driver_task *task, enum driver_task_state next)
{
	if (is_followed(task->state) && is_followed(next))
		return task->state == DRIVER_TASK_WAIT &&
		       clock_monotonic_us() - task->wait_us >= DRIVER_TASK_RETRY_MAX_MS * USEC_PER_MSEC;
	return next != task->state && !(is_starting(task->state) && is_starting(next));
}

static void handle_event(struct driver_task *task, enum driver_task_event event, const void *response,
			 const struct error *err)
{
	struct driver_task_step step;
	struct error failure;

	if (event == DRIVER_TASK_OK && !is_usable(task, response)) {
		(void)error_set(&failure, STATUS_INTERNAL, 0, "driver %s: %s of %s: the answer is empty",
				task->driver, driver_task_state_name(task->state), task->title);
		event = DRIVER_TASK_PASSING;
		err = &failure;
	}
	step = is_network(task) ? driver_network_step(task->state, event)
				: driver_task_step(task->state, event);
	assert(step.action != DRIVER_TASK_NO_STEP);
	if (has_succeeded(task, step.state))
		backoff_reset(&task->backoff);
	if (step.state != task->state)
		task->since_ms = clock_realtime_ms();
	if (step.state == DRIVER_TASK_WAIT)
		task->wait_us = clock_monotonic_us();
	if (task->state == DRIVER_TASK_RESTART)
		task->health[0] = '\0';
	task->state = step.state;
	follow_health(task);
	act(task, step.action, response, err);
}

/* Labels both; of a network that is new, its order names the driver. */
static void name_task(struct driver_task *task)
{
	const Holdfast__Driver__V1__TaskConfig *config = task->request.config;

	(void)str_copy(task->driver, sizeof(task->driver), config ? config->driver : task->request.driver);
	(void)str_join(task->title, sizeof(task->title), config ? "task " : "the network",
		       config ? config->task : "");
}

enum status driver_task_new(const struct driver_task_request *request, struct driver_task **ret,
			    struct error *err)
{
	assert(request->state != DRIVER_TASK_RECOVER || request->handle);
	assert(request->state != DRIVER_TASK_RESTART || request->start);

	struct driver_task *task = calloc(1, sizeof(*task));
	enum status status = STATUS_OK;

	if (!task)
		return error_no_memory(err, "a task");
	task->request = *request;
	name_task(task);
	task->state = request->state;
	keep_handle(task, request->handle);
	task->since_ms = clock_realtime_ms();
	task->backoff = (struct backoff)BACKOFF_INIT(DRIVER_TASK_RETRY_MIN_MS * USEC_PER_MSEC,
						     DRIVER_TASK_RETRY_MAX_MS * USEC_PER_MSEC);
	if (task->state != DRIVER_TASK_EXITED)
		status = wakeup_arm(request->event, &task->timer, request->delay_us, on_due, task, err);
	if (status == STATUS_OK)
		*ret = task;
	else
		driver_task_free(task);
	return status;
}

static void cancel(struct driver_task *task)
{
	wakeup_disarm(&task->timer);
	service_call_cancel(task->call);
	task->call = NULL;
	if (task->order_call)
		rpc_pending_cancel(task->order_call);
	task->order_call = NULL;
}

void driver_task_go(struct driver_task *task)
{
	if (task->state == DRIVER_TASK_READY)
		handle_event(task, DRIVER_TASK_JOURNALLED, NULL, NULL);
}

void driver_task_restart(struct driver_task *task, uint64_t delay_us)
{
	handle_event(task, DRIVER_TASK_RESTART_WANTED, NULL, NULL);
	call_after(task, delay_us);
}

void driver_task_stop(struct driver_task *task)
{
	if (task->state != DRIVER_TASK_STOP && task->state != DRIVER_TASK_DESTROY)
		cancel(task);
	handle_event(task, DRIVER_TASK_STOP_WANTED, NULL, NULL);
}

const char *driver_task_driver(const struct driver_task *task)
{
	return task->driver;
}

struct driver_task_info driver_task_info(const struct driver_task *task)
{
	return (struct driver_task_info){
		.step = driver_task_state_name(task->state),
		.since_ms = task->since_ms,
		.attempts = task->backoff.attempts,
		.last_error = task->backoff.attempts > 0 ? task->last_error.msg : "",
	};
}

void driver_task_free(struct driver_task *task)
{
	if (!task)
		return;
	cancel(task);
	end_check(task);
	if (task->order)
		holdfast__v1__order_task_response__free_unpacked(task->order, NULL);
	keep_handle(task, NULL);
	free(task);
}
