/* SPDX-License-Identifier: Apache-2.0 */
/* Unary calls about tasks and networks. Each looks at the container first: what a crash may have done already
 * is never asked for again. */
#include "container.h"
#include "driver.h"
#include "engine_version.h"
#include "health.h"
#include "last_output.h"
#include "order_admit.h"
#include "pending.h"
#include "plugin_folder.h"
#include "podman_spec.h"
#include "policy.h"
#include "process.h"
#include "publish.h"
#include "readback_process.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/str.h"
#include "log/log.h"
#include "model/restart.h"
#include "model/task_text.h"
#include "rpc/wakeup.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* The host's: in the mount namespace of a unit all is shared, or nothing. */
#define MOUNTINFO_PATH "/proc/1/mountinfo"

#define GO_MODE_DIR (1LL << 31) /* os.ModeDir; a link to a folder does not have it */

enum {
	WAIT_S = 600,
	STOP_SLACK_S = 30,
	STOP_MAX_MS = 3600 * 1000,
	FOLLOW_S = 5,
	FIPS_MAX = 64,
	CLEAN_UP_LOOKS = 50,
	CLEAN_UP_PAUSE_MS = 100,
	IMAGE_MAX = 256 << 10, /* bytes of its description, which those of its containers repeat */
	SLOW_MAX = 256,	       /* stops and pulls: half of the requests to the engine */
};

struct op_kind {
	/* Handles the container; NULL: it does not exist. */
	void (*seen)(struct op *op, struct container *container);
	bool is_exclusive; /* one at a time of a task */
};

struct op {
	LIST_ENTRY(op) link;
	struct driver *driver;
	struct rpc_call *call; /* NULL: there is no caller */
	const struct op_kind *kind;
	char alloc[64];
	char task[64];
	char namespace[NAMESPACE_MAX + 1]; /* of the task, by its order or its container; empty: not known */
	char name[CONTAINER_NAME_SIZE];	   /* of the container */
	struct taken taken;		   /* with a body when it is an order's */
	char nonce[2 * ORDER_NONCE_SIZE + 1];
	struct task_spec spec;
	bool has_used; /* its end must be recorded */
	bool has_pulled;
	bool has_created;
	bool has_begun; /* podman was asked for its first process, which waits for the start */
	bool has_waited;
	uint32_t n_clean_up_looks; /* for podman's end of the last run */
	bool is_slow;	 /* it holds a request to the engine for as long as a task or a registry likes */
	bool is_started; /* the engine was asked, and whether it did is not known yet: a file is pending */
	bool is_holder_seen; /* of the network that it joins */
	bool is_compared;    /* the process, with the order */
	bool is_recalled;    /* it was started by the last run of the driver */
	bool is_wait;
	struct engine_call *request; /* of a wait, in flight; or NULL */
	bool is_clear;		     /* of a leftover */
	bool force;
	uint32_t timeout_ms;
	uint32_t stop_s; /* from the signal to SIGKILL */
	char signal[16];
	char plugin[CONTAINER_ID_SIZE]; /* of the container that is destroyed */
	char plugin_socket[CONTAINER_ID_SIZE];
	char container_id[CONTAINER_ID_SIZE];
	char handle_id[CONTAINER_ID_SIZE]; /* of the container, by the handle of the caller */
	struct last_output output;
	struct readback *readback; /* the request, once it is known */
	struct readback_fault fault;
	struct error refusal;	 /* while its container is removed */
	const json_t *inspected; /* the engine's description of now; borrowed */
	int64_t pid;		 /* that it describes */
	bool waits;		 /* that process, for the start of its program */
	int64_t started_ms;
	bool is_restart;
	int64_t before_ms; /* of a restart: when the container was started before */

	/* of the removal of the container; @err NULL: the kernel shows no process of it, and the engine no
	 * container */
	void (*removed)(struct op *op, const struct error *err);
	bool keeps_output;

	/* of a wait or a removal */
	int end_fd; /* of the container's first process: readable when that has ended; or negative */
	int64_t end_pid;
	bool has_ended; /* that process */
	sd_event_source *end_watch;
	sd_event_source *end_timer;
};

/* A container that the engine described once, also to the last run of the driver: it has ended when the
 * kernel shows no process of it, and not when the engine no longer has it. */
struct known {
	LIST_ENTRY(known) link;
	char name[CONTAINER_NAME_SIZE];
	char id[CONTAINER_ID_SIZE];
};

/* How often a task was restarted, by the order that started it: in memory, for what the agent may ask for
 * does not grow with the life of this program. */
struct restarts {
	LIST_ENTRY(restarts) link;
	char nonce[2 * ORDER_NONCE_SIZE + 1];
	struct restart_count count;
};

static void op_unwatch(struct op *op)
{
	op->end_watch = sd_event_source_disable_unref(op->end_watch);
	op->end_timer = sd_event_source_disable_unref(op->end_timer);
	close_fdp(&op->end_fd);
	op->end_fd = -EBADF;
}

static void op_free(struct op *op)
{
	if (op->is_wait)
		op->driver->n_waits--;
	op->driver->n_clears -= op->is_clear;
	op->driver->n_operations--;
	LIST_REMOVE(op, link);
	taken_release(&op->taken);
	last_output_release(&op->output);
	readback_free(op->readback);
	op_unwatch(op);
	free(op);
}

static const struct op_kind destroy_kind;
static const struct op_kind follow_kind;

/* Does another one follow the same start? */
static bool is_followed(const struct op *op)
{
	const struct op *other;

	LIST_FOREACH (other, &op->driver->ops, link)
		if (other != op && other->kind == &follow_kind && str_eq(other->name, op->name) &&
		    str_eq(other->nonce, op->nonce) && other->before_ms == op->before_ms)
			return true;
	return false;
}

static void follow_later(struct op *op, uint64_t delay_us);

/* Fails the call. The agent takes NOT_FOUND of a removal for its success, so a failed one has another status.
 * A start whose outcome is not known is followed after its caller was answered: what it started must be
 * compared. */
static void op_fail(struct op *op, const struct error *failure)
{
	bool is_open = op->is_started && !op->is_compared;
	bool follows = op->kind == &follow_kind;
	struct error own = *failure;
	const struct error *err = &own;

	if (op->kind == &destroy_kind && own.status == STATUS_NOT_FOUND)
		own.status = STATUS_UNAVAILABLE;
	if (op->has_used && !is_open)
		driver_note_end(op->driver, &op->taken.order, err->status, op->is_compared);
	if (op->call)
		rpc_call_fail(op->call, err);
	else if (!follows)
		log_ctx(LOG_WARNING, &(struct log_ctx){.alloc = op->alloc, .op = "clear", .err = err},
			"the container of task '%s', which the last boot left, stays", op->task);
	op->call = NULL;
	if (is_open && !is_followed(op))
		follow_later(op, FOLLOW_S * USEC_PER_SEC);
	else
		op_free(op);
}

static __attribute__((format(printf, 3, 4))) void op_refuse(struct op *op, enum status status,
							    const char *fmt, ...)
{
	struct error err = {.status = status};
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(err.msg, sizeof(err.msg), fmt, args);
	va_end(args);
	op_fail(op, &err);
}

/* Is the file of another start of the task in the place of this one's? */
static bool is_file_shared(const struct op *op)
{
	const struct op *other;

	LIST_FOREACH (other, &op->driver->ops, link)
		if (other != op && other->is_started && str_eq(other->name, op->name))
			return true;
	return false;
}

/* The comparison of its container is over. */
static void op_settle(struct op *op)
{
	if (op->is_started && !is_file_shared(op))
		pending_settle(op->driver->settings->state_dir, op->name,
			       op->is_compared ? op->started_ms : 0);
	op->is_started = false;
}

/* Its container is gone. */
static void op_forget(struct op *op)
{
	if (!is_file_shared(op))
		pending_remove(op->driver->settings->state_dir, op->name);
	op->is_started = false;
}

static void op_reply(struct op *op, const ProtobufCMessage *response)
{
	op_settle(op);
	if (op->has_used)
		driver_note_end(op->driver, &op->taken.order, STATUS_OK, op->is_compared);
	if (op->call)
		rpc_call_reply(op->call, response);
	else if (op->kind == &follow_kind)
		log_ctx(LOG_NOTICE, &(struct log_ctx){.alloc = op->alloc, .op = "start"},
			"task '%s', whose start was not answered in time, runs as it was ordered", op->task);
	else
		log_ctx(LOG_NOTICE, &(struct log_ctx){.alloc = op->alloc, .op = "clear"},
			"removed the container of task '%s', which the last boot left", op->task);
	op_free(op);
}

static void op_missing(struct op *op)
{
	op_refuse(op, STATUS_NOT_FOUND, "driver container has no task '%s' of allocation %s", op->task,
		  op->alloc);
}

/* Sends a request to the engine; the path is a format. @done runs now if it cannot be sent. */
static void ask(struct op *op, struct engine_request request, engine_done_fn *done, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static void ask(struct op *op, struct engine_request request, engine_done_fn *done, const char *fmt, ...)
{
	char path[ENGINE_PATH_SIZE];
	struct error err;
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	request.path = path;
	if (engine_send(op->driver->engine, &request, done, op, op->is_wait ? &op->request : NULL, &err) !=
	    STATUS_OK)
		done(err.status, &err, NULL, op);
}

#define SHORT(method_, ...)                                                                               \
	(struct engine_request)                                                                           \
	{                                                                                                 \
		.method = (method_), .timeout_us = op->driver->settings->engine_timeout_us, ##__VA_ARGS__ \
	}

#define RELEASE(method_, ...) SHORT(method_, .is_release = true, ##__VA_ARGS__)

/* A namespace has at most half as many places as it leaves, so it never takes the last ones. False: the call
 * has ended. */
static bool take_slow_place(struct op *op)
{
	const struct op *other;
	size_t all = 0, own = 0;

	LIST_FOREACH (other, &op->driver->ops, link) {
		all += other->is_slow;
		own += other->is_slow && str_eq(other->namespace, op->namespace);
	}
	op->is_slow = all + 2 * own < SLOW_MAX;
	if (op->is_slow)
		return true;
	op_refuse(op, STATUS_RESOURCE_EXHAUSTED,
		  "no place for task '%s' of allocation %s: the engine stops tasks and pulls images "
		  "for %zu calls, %zu of them of namespace '%s'; ask again",
		  op->task, op->alloc, all, own, op->namespace);
	return false;
}

static struct known *known_find(struct driver *driver, const char *name)
{
	struct known *known;

	LIST_FOREACH (known, &driver->knowns, link)
		if (str_eq(known->name, name))
			return known;
	return NULL;
}

static void known_free(struct known *known)
{
	if (!known)
		return;
	LIST_REMOVE(known, link);
	free(known);
}

static enum status check_ended(const struct op *op, const char *id, struct error *err)
{
	int64_t pid = 0;

	TRY(process_find(PROC, id, &pid, err));
	if (pid == 0)
		return STATUS_OK;
	return error_set(err, STATUS_UNAVAILABLE, 0,
			 "the engine no longer has container %.12s of task '%s' of allocation %s, but its "
			 "process %" PRId64 " runs on this machine: end it",
			 id, op->task, op->alloc, pid);
}

static enum status known_add(struct driver *driver, const char *name, const char *id, struct error *err)
{
	struct known *known = calloc(1, sizeof(*known));

	if (!known)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "remember a container");
	(void)str_copy(known->name, sizeof(known->name), name);
	(void)str_copy(known->id, sizeof(known->id), id);
	LIST_INSERT_HEAD(&driver->knowns, known, link);
	return STATUS_OK;
}

/* Remembers the container. Fails while another one that had the name before still runs.
 * @id that the engine describes now; NULL: it has no container of the name */
static enum status known_set(struct op *op, const char *id, struct error *err)
{
	struct known *known = known_find(op->driver, op->name);

	if (known && id && str_eq(known->id, id))
		return STATUS_OK;
	if (known) {
		TRY(check_ended(op, known->id, err));
		health_forget(op->driver, known->id);
		known_free(known);
	}
	return id ? known_add(op->driver, op->name, id, err) : STATUS_OK;
}

static bool is_id_known(struct driver *driver, const char *id)
{
	const struct known *known;

	LIST_FOREACH (known, &driver->knowns, link)
		if (str_eq(known->id, id))
			return true;
	return false;
}

/* The engine has no container of the name. The one of the caller's handle is known too: an id has one name,
 * so callers have as many containers remembered as run, at most. */
static enum status check_missing(struct op *op, struct error *err)
{
	if (op->handle_id[0] != '\0' && !is_id_known(op->driver, op->handle_id))
		TRY(known_set(op, op->handle_id, err));
	return known_set(op, NULL, err);
}

static void fail_look(struct op *op, const struct error *err);

static void on_looked(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	bool is_missing = status == STATUS_NOT_FOUND;
	struct container container;
	struct op *op = userdata;
	struct error own;

	op->request = NULL;
	op->inspected = json;
	if (status == STATUS_OK) {
		status = container_read(op->driver->settings, json, op->alloc, op->task, &container, &own);
		err = &own;
	}
	if (status == STATUS_OK || is_missing) {
		status = is_missing ? check_missing(op, &own) : known_set(op, container.id, &own);
		err = &own;
	}
	if (status != STATUS_OK) {
		fail_look(op, err);
	} else if (is_missing) {
		op->kind->seen(op, NULL);
	} else {
		op->pid = container.pid;
		op->waits = container.waits;
		(void)str_copy(op->container_id, sizeof(op->container_id), container.id);
		(void)str_copy(op->namespace, sizeof(op->namespace), container.namespace);
		op->kind->seen(op, &container);
	}
}

static void task_op_look(struct op *op)
{
	ask(op, RELEASE("GET"), on_looked, "/containers/%s/json", op->name);
}

static struct op *op_new(struct driver *driver, struct rpc_call *call, const struct op_kind *kind,
			 const char *alloc, const char *task)
{
	struct op *op = calloc(1, sizeof(*op));
	struct error err;

	if (!op) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "take a call");
		if (call)
			rpc_call_fail(call, &err);
		return NULL;
	}
	op->driver = driver;
	op->call = call;
	op->kind = kind;
	op->end_fd = -EBADF;
	last_output_init(&op->output);
	LIST_INSERT_HEAD(&driver->ops, op, link);
	driver->n_operations++;
	if (!id_is_uuid(alloc) || (task[0] != '\0' && !id_is_label(task))) {
		op_refuse(op, STATUS_INVALID_ARGUMENT,
			  "'%.64s' and '%.64s' are no allocation and task: a UUID and a name of a-z, 0-9 "
			  "and -",
			  alloc, task);
		return NULL;
	}
	(void)str_copy(op->alloc, sizeof(op->alloc), alloc);
	(void)str_copy(op->task, sizeof(op->task), task);
	container_name(alloc, task, op->name);
	return op;
}

static bool is_busy(const struct op *op)
{
	const struct op *other;

	LIST_FOREACH (other, &op->driver->ops, link)
		if (other != op && other->kind->is_exclusive && str_eq(other->name, op->name))
			return true;
	return false;
}

/* False: the call has ended. */
static bool claim_task(struct op *op)
{
	assert(op->kind->is_exclusive);
	if (!is_busy(op))
		return true;
	op_refuse(op, STATUS_ABORTED, "task '%s' of allocation %s is being started or destroyed; ask again",
		  op->task, op->alloc);
	return false;
}

/* --- the end of a container: the engine is asked for it, and the kernel shows it --- */

/* Watches the first process that end_fd is of. False: it cannot be watched. */
static bool watch_end(struct op *op, sd_event_io_handler_t on_end, sd_event_time_handler_t on_limit,
		      uint64_t limit_us)
{
	sd_event *event = op->driver->event;

	if (sd_event_add_io(event, &op->end_watch, op->end_fd, EPOLLIN, on_end, op) >= 0 &&
	    sd_event_add_time_relative(event, &op->end_timer, CLOCK_MONOTONIC, limit_us, 0, on_limit, op) >=
		    0)
		return true;
	op_unwatch(op);
	return false;
}

static void end_removal(struct op *op, const struct error *err)
{
	op_unwatch(op);
	op->removed(op, err);
}

static void restarts_forget(struct driver *driver, const char *nonce);

/* It is looked for once more: a start that the engine was late with may have begun it meanwhile. */
static void on_deleted(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct op *op = userdata;
	struct error own;

	if (status == STATUS_OK || status == STATUS_NOT_FOUND) {
		status = known_set(op, NULL, &own);
		err = &own;
	}
	if (status == STATUS_OK)
		restarts_forget(op->driver, op->nonce);
	end_removal(op, status == STATUS_OK ? NULL : err);
}

static void delete_container(struct op *op)
{
	ask(op, RELEASE("DELETE"), on_deleted, "/containers/%s?force=1&v=1", op->container_id);
}

static bool on_output(const uint8_t *bytes, size_t n, void *userdata)
{
	struct op *op = userdata;

	last_output_put(&op->output, bytes, n);
	return true;
}

/* The task goes, whether its output could be kept or not. */
static void on_output_end(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct op *op = userdata;
	struct error own;

	if (status == STATUS_OK) {
		status = last_output_save(op->driver->settings->state_dir, op->namespace, op->alloc, op->task,
					  &op->output, &own);
		err = &own;
	}
	if (status != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.alloc = op->alloc, .op = "destroy", .err = err},
			"the last output of task '%s' is not kept", op->task);
	delete_container(op);
}

/* Its process has ended. */
static void remove_ended(struct op *op)
{
	op_unwatch(op);
	if (op->keeps_output)
		ask(op, RELEASE("GET", .data = on_output), on_output_end,
		    "/containers/%s/logs?stdout=1&stderr=1&tail=%d", op->container_id, LAST_OUTPUT_LINES);
	else
		delete_container(op);
}

static int on_kill_end(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	remove_ended(userdata);
	return 0;
}

static int on_kill_limit(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct op *op = userdata;
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
			"process %" PRId64 " of task '%s' of allocation %s has not ended after its kill: "
			"its container stays",
			op->end_pid, op->task, op->alloc);
	end_removal(op, &err);
	return 0;
}

/* The end of the process counts, also if the engine has lost the container meanwhile. Podman kills no process
 * that waits, but its removal ends it. */
static void on_killed(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct op *op = userdata;
	struct error own;

	if (process_has_ended(op->end_fd) || (op->waits && status == STATUS_FAILED_PRECONDITION)) {
		remove_ended(op);
	} else if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
		end_removal(op, err);
	} else if (!watch_end(op, on_kill_end, on_kill_limit, op->driver->settings->engine_timeout_us)) {
		(void)error_set(&own, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "watch a process");
		end_removal(op, &own);
	}
}

/* Removes the container that was looked at last, after the kernel shows that its first process has ended.
 * podman stops before it removes, with the task's own time limit, and forgets a container that is being
 * stopped while it runs: so the process is killed before. If the kernel shows no process of the container,
 * the one that the engine describes counts. */
static void remove_container(struct op *op, void (*removed)(struct op *op, const struct error *err))
{
	struct error err;

	op_unwatch(op);
	op->removed = removed;
	if (known_set(op, op->container_id, &err) != STATUS_OK ||
	    process_find(PROC, op->container_id, &op->end_pid, &err) != STATUS_OK) {
		end_removal(op, &err);
		return;
	}
	if (op->end_pid == 0)
		op->end_pid = op->pid;
	op->end_fd = op->end_pid > 0 ? process_open(op->end_pid) : -ESRCH;
	if (op->end_fd >= 0) {
		ask(op, RELEASE("POST"), on_killed, "/containers/%s/kill?signal=SIGKILL", op->container_id);
	} else if (op->end_fd == -ESRCH) {
		remove_ended(op);
	} else {
		(void)error_set(&err, status_from_errno(op->end_fd), op->end_fd,
				"cannot watch process %" PRId64 " of task '%s'", op->end_pid, op->task);
		end_removal(op, &err);
	}
}

/* --- start --- */

static void reply_handle(struct op *op, const char *container_id, int64_t started_ms)
{
	Holdfast__Driver__V1__RestartTaskResponse restarted =
		HOLDFAST__DRIVER__V1__RESTART_TASK_RESPONSE__INIT;
	Holdfast__Driver__V1__StartTaskResponse response = HOLDFAST__DRIVER__V1__START_TASK_RESPONSE__INIT;
	Holdfast__Driver__V1__TaskHandle handle = HOLDFAST__DRIVER__V1__TASK_HANDLE__INIT;
	char id[CONTAINER_ID_SIZE];
	struct error err;

	if (nonces_finish(op->driver->nonces, op->taken.order.nonce, &err) != STATUS_OK) {
		op_fail(op, &err);
		return;
	}
	(void)str_copy(id, sizeof(id), container_id);
	handle.version = 1;
	handle.alloc_id = op->alloc;
	handle.task = op->task;
	handle.state = id;
	handle.started_ms = started_ms;
	handle.nonce = (ProtobufCBinaryData){ORDER_NONCE_SIZE, op->taken.order.nonce};
	response.handle = restarted.handle = &handle;
	op_reply(op, op->is_restart ? &restarted.base : &response.base);
}

static void refuse_order(struct op *op, const char *reason, struct error *err)
{
	(void)driver_refuse(op->driver, &op->taken, reason, err);
	op->has_used = false;
	op_fail(op, err);
}

static enum status check_mounts(const struct op *op, const char **ret_reason, struct error *err);
static void refuse_made(struct op *op);

/* Checks again the conditions that may have changed during a long pull; and before a start that its task has
 * no end: its container stays if DestroyTask fails. */
static enum status check_still(const struct op *op, const char **ret_reason, struct error *err)
{
	int64_t now_ms = clock_realtime_ms();

	*ret_reason = "expired";
	if (!op->is_restart && (now_ms < 0 || (uint64_t)now_ms > op->taken.order.not_after_ms))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "the order for task '%s' of allocation %s expired before it was carried "
				 "out; ask the server for another one",
				 op->task, op->alloc);
	*ret_reason = "ended";
	if (nonces_has_ended(op->driver->nonces, &op->taken.order) ||
	    !pending_may_start(op->driver->settings->state_dir, op->name, op->taken.order.nonce,
			       op->taken.use == NONCE_DONE))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "task '%s' of allocation %s was ended by DestroyTask or refused, and is not "
				 "started; repeat DestroyTask until the container is gone",
				 op->task, op->alloc);
	if (op->taken.order.kind != ORDER_START)
		return STATUS_OK;
	*ret_reason = "old_podman";
	TRY(engine_check_podman(op->driver, err));
	*ret_reason = "old_runc";
	TRY(engine_check_runc(op->driver, err));
	return check_mounts(op, ret_reason, err);
}

static void on_withdrawn(struct op *op, const struct error *err)
{
	if (err)
		log_ctx(LOG_ERR, &(struct log_ctx){.alloc = op->alloc, .op = "start", .err = err},
			"cannot remove the container of task '%s', which was not started", op->task);
	op_fail(op, &op->refusal);
}

/* A container that was made and cannot be looked at is not started. */
static void fail_look(struct op *op, const struct error *err)
{
	if (!op->has_created || op->is_started || op->container_id[0] == '\0') {
		op_fail(op, err);
		return;
	}
	op->refusal = *err;
	remove_container(op, on_withdrawn);
}

/* Refuses an order whose container exists. It removes a container that never ran; a restart keeps its
 * container, which has the output of the last run. */
static void withdraw(struct op *op, const char *reason, struct error *err)
{
	if (op->is_restart) {
		refuse_order(op, reason, err);
		return;
	}
	(void)driver_refuse(op->driver, &op->taken, reason, err);
	op->has_used = false;
	op->refusal = *err;
	remove_container(op, on_withdrawn);
}

static bool is_podman(const struct op *op)
{
	return str_starts_with(op->driver->engine_name, "Podman");
}

/* podman reports in one way what an image lacks, and makes no working folder. */
static void fail_start(struct op *op, const struct error *err)
{
	struct error own = *err;

	if (err->status == STATUS_FAILED_PRECONDITION && is_podman(op) && op->taken.order.kind == ORDER_START)
		(void)error_set(&own, err->status, 0,
				"cannot start task '%s' of allocation %s: %s. Next: see that its image has "
				"its program and its working folder, which is not made, or name others by "
				"command and work_dir",
				op->task, op->alloc, err->msg);
	op_fail(op, &own);
}

static void on_started(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct op *op = userdata;

	if (status != STATUS_OK) {
		fail_start(op, err);
		return;
	}
	op->has_waited = true;
	task_op_look(op);
}

static void run_program(struct op *op)
{
	ask(op, SHORT("POST"), on_started, "/containers/%s/start", op->name);
}

static void on_begun(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct op *op = userdata;

	if (status != STATUS_OK) {
		fail_start(op, err);
		return;
	}
	op->has_begun = true;
	task_op_look(op); /* the kernel's account of it is compared before its program runs */
}

/* The order is done for before the container runs: should that be lost, it makes no second one. It is pending
 * until the container is compared. The file comes first: without it, an order that is done starts nothing. */
static void ask_start(struct op *op)
{
	const char *reason;
	struct error err;

	assert(container_is_id(op->container_id));
	if (check_still(op, &reason, &err) != STATUS_OK) {
		withdraw(op, reason, &err);
		return;
	}
	if (!readback_sources(op->readback, MOUNTINFO_PATH, &op->fault)) {
		refuse_made(op);
		return;
	}
	if (pending_put(op->driver->settings->state_dir, op->name, op->container_id, &op->taken, &err) !=
		    STATUS_OK ||
	    nonces_finish(op->driver->nonces, op->taken.order.nonce, &err) != STATUS_OK) {
		op_fail(op, &err);
		return;
	}
	op->is_started = true;
	if (is_podman(op))
		ask(op, SHORT("POST"), on_begun, "/libpod/containers/%s/init", op->container_id);
	else
		run_program(op);
}

/* 409: something is there, and the next call sees whose it is. */
static void fail_create(struct op *op, const struct error *err)
{
	bool is_task = op->taken.order.kind == ORDER_START;
	const Holdfast__Driver__V1__CsiPluginMount *plugin = is_task ? op->spec.task->csi_plugin : NULL;
	struct error own = *err;

	if (plugin)
		(void)error_set(
			&own, err->status, 0,
			"cannot make the container of CSI plugin %s: %s. Next: see that "
			"mounthelper.policy has a profile %s of class csi, for which the mount helper "
			"makes a staging folder",
			plugin->id, err->msg, plugin->id);
	op_fail(op, &own);
}

static void on_created(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	const char *id = json_string_value(json_object_get(json, "Id"));
	struct op *op = userdata;

	if (status != STATUS_OK) {
		fail_create(op, err);
		return;
	}
	op->has_created = true;
	if (id && container_is_id(id))
		(void)str_copy(op->container_id, sizeof(op->container_id), id);
	task_op_look(op); /* what it has made is compared before it starts */
}

#define ORDER_OF(op)               \
	((struct container_order){ \
		.nonce = (op)->nonce, .boot_id = (op)->driver->boot_text, .is_podman = is_podman(op)})

/* Makes the request to the engine and looks up the mount at each source. @image NULL: it was made already.
 * False: the call has ended. */
static bool prepare(struct op *op, const json_t *image)
{
	const struct settings *settings = op->driver->settings;
	bool is_task = op->taken.order.kind == ORDER_START;
	json_t *body = is_task ? container_of_task(settings, &op->spec, &ORDER_OF(op), image)
			       : container_of_network(settings, (const void *)op->taken.body, op->namespace,
						      &ORDER_OF(op));
	enum status status;
	struct error err;

	readback_free(op->readback);
	op->readback = NULL;
	if (body)
		status = readback_new(MOUNTINFO_PATH, settings->publish_dir, body, !is_podman(op),
				      &op->readback, &err);
	else
		status = error_set(&err, STATUS_RESOURCE_EXHAUSTED, ENOMEM,
				   "cannot prepare a request to the engine");
	json_decref(body);
	if (status != STATUS_OK)
		op_fail(op, &err);
	return status == STATUS_OK;
}

static void ask_create(struct op *op, const json_t *image)
{
	const json_t *folder = json_object_get(json_object_get(image, "Config"), "WorkingDir");
	json_t *body;

	if (!prepare(op, image))
		return;
	body = is_podman(op)
		       ? podman_spec_of(readback_asked(op->readback), op->name, json_string_value(folder))
		       : json_incref(readback_asked(op->readback));
	if (body)
		ask(op, SHORT("POST", .body = body), on_created, "%s/containers/create?name=%s",
		    is_podman(op) ? "/libpod" : "", op->name);
	else
		op_refuse(op, STATUS_INTERNAL,
			  "cannot write the request for task '%s' of allocation %s as podman takes it",
			  op->task, op->alloc);
}

/* --- restarts, counted by the nonce of the order --- */

static struct restarts *restarts_find(struct driver *driver, const char *nonce)
{
	struct restarts *restarts;

	LIST_FOREACH (restarts, &driver->restarts, link)
		if (str_eq(restarts->nonce, nonce))
			return restarts;
	return NULL;
}

static void restarts_forget(struct driver *driver, const char *nonce)
{
	struct restarts *restarts = restarts_find(driver, nonce);

	if (!restarts)
		return;
	LIST_REMOVE(restarts, link);
	free(restarts);
}

/* --- the made container --- */

static void on_removed(struct op *op, const struct error *err)
{
	struct error own;

	if (err)
		log_ctx(LOG_CRIT, &(struct log_ctx){.alloc = op->alloc, .op = "start", .err = err},
			"cannot remove the container of task '%s', which is not as it was ordered", op->task);
	else
		op_forget(op);
	(void)error_set(
		&own, STATUS_FAILED_PRECONDITION, 0,
		"the engine made task '%s' of allocation %s otherwise than ordered: %s is '%s', not '%s'; "
		"%s. Next: read the driver's trail and the engine's log",
		op->task, op->alloc, op->fault.field, op->fault.found, op->fault.ordered,
		err ? "the container could not be removed and may run" : "the container is removed");
	(void)driver_refuse_made(op->driver, &op->taken, &op->fault, !err, &own);
	op_fail(op, &own);
}

/* Its order makes no second one. */
static void refuse_made(struct op *op)
{
	struct error err;

	if (nonces_finish(op->driver->nonces, op->taken.order.nonce, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.alloc = op->alloc, .err = &err},
			"an order is not used up");
	remove_container(op, on_removed);
}

static void reply_made(struct op *op);

/* An engine that cleans up late ends the process that waits, too: a restart may be repeated. */
static void refuse_process(struct op *op)
{
	if (op->is_restart && op->waits) {
		op_refuse(
			op, STATUS_UNAVAILABLE,
			"the process of task '%s' of allocation %s ended before its program began: ask again",
			op->task, op->alloc);
		return;
	}
	op->fault = (struct readback_fault){.field = "process", .ordered = "readable", .found = "not"};
	refuse_made(op);
}

/* It was too short to be looked at: the engine has to agree that it has ended. */
static void on_ended(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	if (status == STATUS_OK)
		reply_made(userdata);
	else
		refuse_process(userdata);
}

/* The kernel's account of its process. @holder_pid of its network */
static void compare_process(struct op *op, int64_t holder_pid)
{
	struct readback_process process = {.pid = op->pid,
					   .id = op->container_id,
					   .holder_pid = holder_pid,
					   .mountinfo_path = MOUNTINFO_PATH,
					   .users = driver_users(op->driver)};

	switch (readback_process(op->readback, &process, &op->fault)) {
	case READBACK_SAME:
		if (op->waits) {
			run_program(op);
			break;
		}
		op->is_compared = true;
		reply_made(op);
		break;
	case READBACK_ENDED:
		if (op->waits)
			refuse_process(op);
		else
			ask(op, SHORT("POST"), on_ended, "/containers/%s/wait?condition=not-running",
			    op->container_id);
		break;
	case READBACK_DIFFERS:
		refuse_made(op);
		break;
	}
}

static bool joins_network(const struct op *op)
{
	return op->taken.order.kind == ORDER_START &&
	       op->spec.task->network == HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
}

/* One that an earlier driver made does not name its namespace. */
static bool is_of_other_namespace(const struct container *network, const char *namespace)
{
	return network->namespace[0] != '\0' && !str_eq(network->namespace, namespace);
}

static struct error *other_network(const struct op *op, struct error *err)
{
	(void)error_set(err, STATUS_FAILED_PRECONDITION, 0,
			"the network of allocation %s is of another namespace, which had this id before. "
			"Next: run it as an allocation with another id",
			op->alloc);
	return err;
}

static void refuse_network(struct op *op)
{
	struct error err;

	if (op->is_holder_seen) {
		op->fault = (struct readback_fault){
			.field = "network", .ordered = "of its namespace", .found = "of another one"};
		refuse_made(op);
	} else {
		withdraw(op, "network", other_network(op, &err));
	}
}

static void look_and_start(struct op *op);

static void on_holder(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct op *op = userdata;
	struct container holder;
	struct error own;

	if (status == STATUS_OK &&
	    container_read(op->driver->settings, json, op->alloc, "", &holder, &own) != STATUS_OK) {
		op_fail(op, &own);
	} else if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
		op_fail(op, err);
	} else if (status == STATUS_OK && is_of_other_namespace(&holder, op->spec.task->namespace_)) {
		refuse_network(op);
	} else if (!op->is_holder_seen) {
		op->is_holder_seen = true;
		look_and_start(op);
	} else {
		compare_process(op, status == STATUS_OK ? holder.pid : 0);
	}
}

/* The network's container is found by the allocation's id, which another namespace may have had. */
static void ask_holder(struct op *op)
{
	char holder[CONTAINER_NAME_SIZE];

	container_name(op->alloc, "", holder);
	ask(op, SHORT("GET"), on_holder, "/containers/%s/json", holder);
}

static void ask_image(struct op *op);

static void on_outdated(struct op *op, const struct error *err)
{
	if (err)
		op_fail(op, err);
	else
		ask_image(op);
}

/* Nothing has run by the order, whose body may have had other values when an earlier call made the container.
 * A call makes one container at most, so an engine that makes another one is found. */
static bool is_outdated(const struct op *op, const struct container *container)
{
	return op->taken.order.kind == ORDER_START && op->taken.use == NONCE_BEGUN && !op->has_created &&
	       !op->is_started && container->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_CREATED;
}

/* Returns the setting of root's file with the limit that the difference is of; NULL: there is no such one. */
static const char *limit_of(const struct settings *settings, const struct readback_fault *fault)
{
	const struct {
		const char *field, *setting;
		uint64_t max;
	} limits[] = {
		{"memory", "max_memory", settings->max_memory},
		{"memory_swap", "max_memory", 2 * settings->max_memory},
		{"pids", "max_pids", settings->max_pids},
	};
	uint64_t ordered;

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (str_eq(fault->field, limits[i].field) &&
		    parse_u64(fault->ordered, 1, UINT64_MAX, &ordered) == 0 && ordered == limits[i].max)
			return limits[i].setting;
	return NULL;
}

/* Podman shows it as created after a restart that failed. Nothing of a tenant runs in a network's. */
static bool may_have_run(const struct op *op)
{
	return op->taken.order.kind == ORDER_START && (op->is_restart || op->taken.use == NONCE_DONE);
}

/* Its container lacks the label of podman's own API, whose value is the order. The other label with this
 * value was compared before. */
static bool is_of_earlier_driver(const struct op *op)
{
	return str_eq(op->fault.field, "labels") && str_eq(op->fault.ordered, op->nonce);
}

/* The container ran as it was ordered then. Root's file, or the values of the node in a later order of the
 * same start, may have changed since. */
static void refuse_restart(struct op *op)
{
	const char *setting = limit_of(op->driver->settings, &op->fault);
	const struct readback_fault *fault = &op->fault;
	struct error err;

	if (setting)
		(void)error_set(&err, STATUS_PERMISSION_DENIED, 0,
				"task '%s' of allocation %s is not restarted: %s of its container is '%s' "
				"(0: no limit), and root allows '%s' by %s in %s",
				op->task, op->alloc, fault->field, fault->found, fault->ordered, setting,
				op->driver->settings->path);
	else if (is_of_earlier_driver(op))
		(void)error_set(&err, STATUS_FAILED_PRECONDITION, 0,
				"task '%s' of allocation %s is not restarted: an earlier version of the "
				"driver made its container. Next: have the job replace the member",
				op->task, op->alloc);
	else
		(void)error_set(&err, STATUS_FAILED_PRECONDITION, 0,
				"task '%s' of allocation %s is not restarted: its container is not as "
				"ordered now: %s is '%s', not '%s'",
				op->task, op->alloc, fault->field, fault->found, fault->ordered);
	withdraw(op, setting ? setting : "differs", &err);
}

/* Has podman its process by this call, which has not asked for its program yet? */
static bool is_begun(const struct op *op)
{
	return op->has_begun && !op->has_waited;
}

/* As the engine describes it, or as its process is. False: the call has ended, or goes on later. */
static bool is_as_ordered(struct op *op, const struct container *container)
{
	const struct readback_users users = driver_users(op->driver);

	if (!op->readback && !prepare(op, NULL))
		return false;
	if (!readback_inspect(op->readback, op->inspected, &op->fault) ||
	    !readback_image_user(op->readback, op->inspected, &users, &op->fault)) {
		if (is_outdated(op, container))
			remove_container(op, on_outdated);
		else if (container->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED ||
			 (container->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_CREATED &&
			  may_have_run(op) && is_of_earlier_driver(op)))
			refuse_restart(op);
		else
			refuse_made(op);
		return false;
	}
	if (container->state != HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING &&
	    !(is_begun(op) && op->waits))
		return true;
	op->started_ms = container->started_ms;
	op->is_holder_seen = true; /* at the latest now it is compared */
	if (joins_network(op))
		ask_holder(op);
	else
		compare_process(op, 0);
	return false;
}

/* crun before its fix of GHSA-7vwr-4279-7gq5, and runc of CVE-2026-41579, make devices behind a link there.
 */
static void on_dev(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct op *op = userdata;
	struct error own;

	if (status == STATUS_NOT_FOUND ||
	    (status == STATUS_OK && (json_integer_value(json_object_get(json, "mode")) & GO_MODE_DIR) != 0)) {
		ask_start(op);
	} else if (status != STATUS_OK) {
		op_fail(op, err);
	} else {
		(void)error_set(&own, STATUS_FAILED_PRECONDITION, 0,
				"cannot start task '%s' of allocation %s: its image has a link or a file at "
				"/dev, behind which the runtime would make devices on the host. Next: make "
				"it a folder of the image",
				op->task, op->alloc);
		withdraw(op, "dev", &own);
	}
}

static const char *storage_of(const json_t *inspected)
{
	const char *storage = json_string_value(json_object_get(inspected, "Driver"));

	return storage ? storage : "";
}

/* Before a start podman makes and copies files by paths in the root, on the host. Another task that has that
 * root from the run before leads these paths to folders of the host, but not those of an overlay, whose mount
 * is a new one. */
static bool is_overlay(const json_t *inspected)
{
	return str_eq(storage_of(inspected), "overlay");
}

/* Does a file of the kernel or of the host begin with @text? One that cannot be read does. */
static bool begins_with(const char *path, const char *text)
{
	cleanup_free char *found = NULL;
	int r = file_read(path, FIPS_MAX, &found, NULL);

	return r < 0 ? r != -ENOENT : str_starts_with(found, text);
}

/* In FIPS mode podman makes a file by its path in a folder that the task may write, where the run before may
 * have put a link: in the place of run/secrets/system-fips. */
static bool is_fips(void)
{
	return begins_with("/etc/system-fips", "") || begins_with("/proc/sys/crypto/fips_enabled", "1");
}

static void refuse_fips(struct op *op)
{
	struct error err;

	(void)error_set(&err, STATUS_FAILED_PRECONDITION, 0,
			"task '%s' of allocation %s is not started again: this machine is in FIPS mode, in "
			"which a task can have podman make files outside of its root. Next: have the job "
			"replace the member",
			op->task, op->alloc);
	withdraw(op, "fips", &err);
}

static void refuse_storage(struct op *op, const json_t *inspected)
{
	struct error err;

	(void)error_set(&err, STATUS_FAILED_PRECONDITION, 0,
			"task '%s' of allocation %s is not started again: podman keeps its root by the "
			"storage driver '%.32s', by which a task can have podman write outside of it. Next: "
			"have the job replace the member, and set the storage driver overlay in "
			"containers-storage.conf(5)",
			op->task, op->alloc, storage_of(inspected));
	withdraw(op, "storage", &err);
}

static int on_clean_up_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct op *op = userdata;

	op_unwatch(op);
	look_and_start(op);
	return 0;
}

/* A clean-up of the last run that comes late would take the process of the next one: podman 4.3. */
static void wait_for_clean_up(struct op *op)
{
	struct error err;

	if (op->n_clean_up_looks++ == CLEAN_UP_LOOKS)
		op_refuse(op, STATUS_UNAVAILABLE,
			  "podman has not cleaned up after the last run of task '%s' of allocation %s: ask "
			  "again",
			  op->task, op->alloc);
	else if (wakeup_arm(op->driver->event, &op->end_timer, CLEAN_UP_PAUSE_MS * USEC_PER_MSEC,
			    on_clean_up_due, op, &err) != STATUS_OK)
		op_fail(op, &err);
}

static bool is_cleaned_up(const json_t *inspected)
{
	const char *word = json_string_value(json_object_get(json_object_get(inspected, "State"), "Status"));

	return !word || !str_eq(word, "stopped");
}

static void on_own_look(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct op *op = userdata;

	if (status != STATUS_OK)
		op_fail(op, err);
	else if (may_have_run(op) && !is_overlay(json))
		refuse_storage(op, json);
	else if (may_have_run(op) && is_fips())
		refuse_fips(op);
	else if (op->is_restart && !is_cleaned_up(json))
		wait_for_clean_up(op);
	else if ((!op->is_restart && !op->waits && !readback_annotations(json, &op->fault)) ||
		 !readback_options(op->readback, json, &op->fault))
		refuse_made(op);
	else
		ask(op, SHORT("HEAD"), on_dev, "/containers/%s/archive?path=%%2Fdev", op->container_id);
}

/* Only podman's own API shows the annotations and the flags of mounts that podman has read. It shows those of
 * the runtime, too, once that has made the process. */
static void look_and_start(struct op *op)
{
	if (joins_network(op) && !op->is_holder_seen)
		ask_holder(op);
	else if (is_podman(op))
		ask(op, SHORT("GET"), on_own_look, "/libpod/containers/%s/json", op->name);
	else
		ask_start(op);
}

static void on_image(enum status status, const struct error *err, const json_t *json, void *userdata);

static void ask_image(struct op *op)
{
	const char *image = op->spec.image->text;

	ask(op, SHORT("GET", .answer_max = IMAGE_MAX), on_image, "/images/%s%s/json",
	    container_image_registry(image), image);
}

static void on_pulled(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct op *op = userdata;

	op->is_slow = false;
	if (status != STATUS_OK) {
		op_fail(op, err);
		return;
	}
	op->has_pulled = true; /* an error may hide in its answer: the next request shows it */
	ask_image(op);
}

/* @is_other one of another name has its digest */
static void ask_pull(struct op *op, bool is_other)
{
	const struct settings *settings = op->driver->settings;
	struct engine_request request = {
		.method = "POST", .timeout_us = settings->pull_timeout_us, .is_text = true};
	const char *image = op->spec.image->text;

	if (settings->pull && !op->has_pulled) {
		if (take_slow_place(op))
			ask(op, request, on_pulled, "/images/create?fromImage=%s%s%s",
			    container_image_registry(image), image,
			    strrchr(image, ':') > strrchr(image, '/') ? "" : "&tag=latest");
		return;
	}
	op_refuse(op, STATUS_FAILED_PRECONDITION,
		  "the engine at %s has no image %s%s%s%s: pull it, or allow the driver to (pull in %s)",
		  settings->engine_socket, container_image_registry(image), image,
		  is_other ? ", only one of another name with that digest" : "",
		  op->has_pulled ? ", and could not pull it" : "", settings->path);
}

/* Makes ready on the host what a plugin's container mounts. False: the call has ended. */
static bool make_plugin_folder(struct op *op)
{
	const Holdfast__Driver__V1__CsiPluginMount *plugin = op->spec.task->csi_plugin;
	struct error err;

	if (!plugin || (plugin_program_check(HOLDFAST_CSI_UMASK, &err) == STATUS_OK &&
			plugin_folder_make(op->driver->settings->plugin_dir, plugin->id, plugin->socket,
					   &err) == STATUS_OK))
		return true;
	op_fail(op, &err);
	return false;
}

static void on_image(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct op *op = userdata;
	const char *reason;
	struct error own;

	if (status == STATUS_NOT_FOUND)
		ask_pull(op, false);
	else if (status != STATUS_OK)
		op_fail(op, err);
	else if (!container_image_is_named(json, op->spec.image->text))
		ask_pull(op, true);
	else if (is_podman(op) && !container_image_env_is_whole(json))
		op_refuse(op, STATUS_FAILED_PRECONDITION,
			  "cannot start task '%s' of allocation %s: its image has a variable without a "
			  "value, for "
			  "which podman takes its own. Next: give it one (ENV NAME=VALUE)",
			  op->task, op->alloc);
	else if (container_image_cmd_replaces_list(json, &op->spec))
		op_refuse(op, STATUS_FAILED_PRECONDITION,
			  "cannot start task '%s' of allocation %s: its command or args is an empty list, "
			  "for which "
			  "engines run the image's CMD. Next: name a program or arguments, or remove the "
			  "empty list",
			  op->task, op->alloc);
	else if (check_still(op, &reason, &own) != STATUS_OK)
		refuse_order(op, reason, &own);
	else if (make_plugin_folder(op))
		ask_create(op, json);
}

static void fail_used(struct op *op)
{
	struct error err;

	(void)error_set(&err, STATUS_FAILED_PRECONDITION, 0,
			"task '%s' of allocation %s was started by this order already, and is gone; ask the "
			"server for another one",
			op->task, op->alloc);
	refuse_order(op, "used", &err);
}

static void fail_other_order(struct op *op)
{
	struct error err;

	(void)error_set(
		&err, STATUS_FAILED_PRECONDITION, 0,
		"task '%s' of allocation %s has a container of another order; DestroyTask comes first",
		op->task, op->alloc);
	refuse_order(op, "other-order", &err);
}

static void fail_not_begun(struct op *op)
{
	op_refuse(op, STATUS_UNAVAILABLE,
		  "the engine reported that it has started task '%s' of allocation %s, and it has not: see "
		  "its own log",
		  op->task, op->alloc);
}

/* It runs by this call, or by an earlier one with the same nonce, whose order may have had other values of
 * the node, and root's file other limits: it is compared with that order only. */
static void running_seen(struct op *op, const struct container *container)
{
	op->is_compared = pending_was_compared(op->driver->settings->state_dir, op->name,
					       op->taken.order.nonce, container->started_ms);
	if (op->is_compared)
		reply_handle(op, container->id, container->started_ms);
	else if (!op->is_started && is_file_shared(op))
		op_refuse(op, STATUS_ABORTED,
			  "task '%s' of allocation %s was started and is being compared; ask again", op->task,
			  op->alloc);
	else
		(void)is_as_ordered(op, container);
}

/* Continues a start with the container that exists. If its order is the same, its state shows how far the
 * start came; else it is in the way. A call makes it at most once and starts it at most once. */
static void start_seen(struct op *op, struct container *container)
{
	if (!container && (op->taken.use == NONCE_DONE || op->has_waited))
		fail_used(op);
	else if (!container)
		ask_image(op);
	else if (!str_eq(container->nonce, op->nonce))
		fail_other_order(op);
	else if (container->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED)
		reply_handle(op, container->id, container->started_ms);
	else if (container->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING)
		running_seen(op, container);
	else if (!is_as_ordered(op, container))
		return;
	else if (op->has_begun || op->has_waited)
		fail_not_begun(op);
	else
		look_and_start(op);
}

static const struct op_kind start_kind = {.seen = start_seen, .is_exclusive = true};

/* --- a start whose outcome was not known when its caller was answered: it is compared when it runs --- */

static void begin_look(struct op *op);

static int on_follow(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct op *op = userdata;

	op_unwatch(op);
	begin_look(op);
	return 0;
}

static void follow_later(struct op *op, uint64_t delay_us)
{
	op->kind = &follow_kind;
	op_unwatch(op);
	if (wakeup_arm(op->driver->event, &op->end_timer, delay_us, on_follow, op, NULL) != STATUS_OK)
		op_free(op); /* the next run of the driver has its file */
}

/* It is over when the container has run and ended, or is gone. The engine may carry out a late restart of a
 * container that has ended. */
static void follow_seen(struct op *op, struct container *container)
{
	bool is_own = container && str_eq(container->nonce, op->nonce);
	bool has_ended = is_own && container->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED &&
			 container->started_ms != op->before_ms && !op->is_recalled;

	if (!is_own || has_ended) {
		if (!container)
			op_forget(op);
		else if (is_own) /* the file may be of the other order */
			op_settle(op);
		op->is_started = false;
		op_refuse(op, STATUS_ABORTED, "the task ended before it was compared");
	} else if (container->state != HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING) {
		follow_later(op, FOLLOW_S * USEC_PER_SEC);
	} else {
		(void)is_as_ordered(op, container);
	}
}

static const struct op_kind follow_kind = {.seen = follow_seen};

static void recall(const char *name, const char *id, const struct taken *taken, const struct error *err,
		   void *userdata)
{
	struct driver *driver = userdata;
	bool is_task = taken && taken->order.kind == ORDER_START;
	const Holdfast__Driver__V1__TaskConfig *task = is_task ? (const void *)taken->body : NULL;
	const Holdfast__Driver__V1__NetworkConfig *network = taken ? (const void *)taken->body : NULL;
	struct error failure;
	struct taken own;
	struct op *op;

	if (!taken) {
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "start", .err = err},
			"container %s was started and is not compared with its order: destroy its task",
			name);
		return;
	}
	own = *taken;
	if (memcmp(own.order.boot_id, driver->boot_id, sizeof(driver->boot_id)) != 0) {
		pending_remove(driver->settings->state_dir, name); /* nothing runs of another boot */
		taken_release(&own);
		return;
	}
	if (known_add(driver, name, id, &failure) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "start", .err = &failure},
			"container %s counts as gone if the engine forgets it", name);
	if (!own.body) /* the comparison is over */
		return;
	op = op_new(driver, NULL, &follow_kind, is_task ? task->alloc_id : network->alloc_id,
		    is_task ? task->task : "");
	if (!op)
		return;
	op->taken = own;
	hex_encode(op->nonce, op->taken.order.nonce, ORDER_NONCE_SIZE);
	op->has_used = op->is_started = op->is_recalled = true;
	if (is_task && task_spec_read(task, &op->spec, NULL) != STATUS_OK) {
		op_settle(op);
		op_free(op);
		return;
	}
	follow_later(op, 0);
}

enum status task_recall_all(struct driver *driver, struct error *err)
{
	return pending_each(driver->settings->state_dir, recall, driver, err);
}

static enum status check_host_path(const struct op *op, const char *path, struct error *err)
{
	const struct settings *settings = op->driver->settings;

	TRY(publish_walk_host_path(path, err));
	TRY(publish_check_host_path(MOUNTINFO_PATH, settings->publish_dir, settings->stage_dir, path, err));
	return is_podman(op) ? publish_check_read_only(MOUNTINFO_PATH, path, err) : STATUS_OK;
}

static enum status check_mounts(const struct op *op, const char **ret_reason, struct error *err)
{
	const Holdfast__Driver__V1__TaskConfig *task = (const void *)op->taken.body;
	const char *publish_dir = op->driver->settings->publish_dir;
	cleanup_close int fd = -EBADF;
	enum status status = STATUS_OK;

	*ret_reason = "host_paths";
	for (size_t i = 0; op->spec.host_paths && i < op->spec.host_paths->n_map && status == STATUS_OK; i++)
		status = check_host_path(op, op->spec.host_paths->map[i]->key, err);
	if (status != STATUS_OK || task->n_volumes == 0)
		return status;
	*ret_reason = "publish";
	TRY(publish_open(publish_dir, op->driver->agent_uid, &fd, err));
	return publish_check(MOUNTINFO_PATH, fd, publish_dir, task, ret_reason, err);
}

/* Checks that the order means the network of its own allocation: the driver finds the container to join only
 * by the allocation. */
static enum status check_network(const struct op *op, const char **ret_reason, struct error *err)
{
	const Holdfast__Driver__V1__TaskConfig *task = (const void *)op->taken.body;
	const Holdfast__Driver__V1__NetworkSpec *spec = task->network_spec;
	bool is_isolated = task->network == HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
	char name[CONTAINER_NAME_SIZE];

	*ret_reason = "network";
	container_name(op->alloc, "", name);
	if (!is_isolated && !spec)
		return STATUS_OK;
	if (is_isolated && spec && spec->mode == task->network && str_eq(spec->alloc_id, op->alloc) &&
	    str_eq(spec->state, name))
		return STATUS_OK;
	return error_set(err, STATUS_PERMISSION_DENIED, 0,
			 "the order of task '%s' of allocation %s does not fit its network: %s with %s",
			 op->task, op->alloc, is_isolated ? "isolated" : "another mode",
			 spec ? "the handle of another one" : "none");
}

/* Checks a start against root's file, the mount helper's tree and the kernel's mount table. */
static enum status check_start(struct op *op, const char **ret_reason, struct error *err)
{
	const Holdfast__Driver__V1__TaskConfig *task = (const void *)op->taken.body;
	const struct settings *settings = op->driver->settings;
	enum status status = task_spec_read(task, &op->spec, err);

	*ret_reason = "task";
	if (status == STATUS_OK)
		status = policy_check_task(settings, &op->spec, ret_reason, err);
	if (status == STATUS_OK)
		status = driver_check_user(op->driver, task->user, ret_reason, err);
	if (status == STATUS_OK)
		status = check_network(op, ret_reason, err);
	if (status == STATUS_OK)
		status = check_mounts(op, ret_reason, err);
	return status;
}

static void on_engine(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct op *op = userdata;

	if (status == STATUS_OK)
		engine_version_read(op->driver, json);
	if (status != STATUS_OK) {
		op_fail(op, err);
	} else if (!engine_version_is_known(op->driver)) {
		op_refuse(op, STATUS_UNAVAILABLE,
			  "cannot start task '%s': the engine does not name the container", op->task);
	} else {
		task_op_look(op);
	}
}

/* Which engine it is decides how it is asked. */
static void begin_look(struct op *op)
{
	if (engine_version_is_known(op->driver))
		task_op_look(op);
	else
		ask(op, SHORT("GET"), on_engine, "/version");
}

/* An order that passed: on record and used before anything is asked. False: the call has ended. */
static bool use_order(struct op *op)
{
	struct error err;

	hex_encode(op->nonce, op->taken.order.nonce, ORDER_NONCE_SIZE);
	if (driver_use_order(op->driver, &op->taken, op->is_restart, &err) != STATUS_OK) {
		op_fail(op, &err);
		return false;
	}
	op->has_used = true;
	return true;
}

/* --- restart --- */

static struct restarts *restarts_of(struct driver *driver, const char *nonce)
{
	struct restarts *restarts = restarts_find(driver, nonce);

	if (restarts)
		return restarts;
	restarts = calloc(1, sizeof(*restarts));
	if (!restarts)
		return NULL;
	(void)str_copy(restarts->nonce, sizeof(restarts->nonce), nonce);
	LIST_INSERT_HEAD(&driver->restarts, restarts, link);
	return restarts;
}

/* The agent counts in intervals of its own, so twice the attempts of the order can be within one of these. */
static enum status count_restart(struct op *op, struct error *err)
{
	Holdfast__Driver__V1__RestartPolicy policy = HOLDFAST__DRIVER__V1__RESTART_POLICY__INIT;
	struct restarts *restarts;

	if (!restart_is_wanted(op->spec.task->restart))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "the order of task '%s' of allocation %s has no restarts", op->task,
				 op->alloc);
	restarts = restarts_of(op->driver, op->nonce);
	if (!restarts)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "count a restart");
	policy.mode = HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_FAIL;
	policy.attempts = 2 * op->spec.task->restart->attempts;
	policy.interval_ms = op->spec.task->restart->interval_ms;
	if (restart_next(&policy, &restarts->count, clock_realtime_ms()) >= 0)
		return STATUS_OK;
	return error_set(err, STATUS_PERMISSION_DENIED, 0,
			 "task '%s' of allocation %s was restarted %" PRIu32 " times within the interval of "
			 "its order, which allows %" PRIu32,
			 op->task, op->alloc, restarts->count.n, op->spec.task->restart->attempts);
}

/* Does it run, as the engine describes it or as the kernel shows it? */
static bool runs(const struct container *container)
{
	int64_t pid = 0;

	return container->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING ||
	       process_find(PROC, container->id, &pid, NULL) != STATUS_OK || pid != 0;
}

static bool has_failed(const struct container *container)
{
	return container->exit_code != 0 || container->oom_killed || container->error[0] != '\0';
}

/* May the container, which has ended, be started again? */
static enum status check_restart(struct op *op, const struct container *container, const char **ret_reason,
				 struct error *err)
{
	*ret_reason = "restart";
	if (container->state != HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "task '%s' of allocation %s was never started: StartTask comes first",
				 op->task, op->alloc);
	if (container->waits) /* an earlier call checked it, and came so far */
		return STATUS_OK;
	if (runs(container))
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "the engine reported that task '%s' of allocation %s has ended, but its "
				 "process runs",
				 op->task, op->alloc);
	if (!has_failed(container))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "task '%s' of allocation %s ended with success and is not restarted",
				 op->task, op->alloc);
	return count_restart(op, err);
}

/* It is looked at before it starts again, as after it was made. */
static void begin_restart(struct op *op, const struct container *container)
{
	const char *reason;
	struct error err;

	if (check_restart(op, container, &reason, &err) != STATUS_OK) {
		refuse_order(op, reason, &err);
		return;
	}
	op->before_ms = container->started_ms;
	if (make_plugin_folder(op) && is_as_ordered(op, container))
		look_and_start(op);
}

/* A restart never makes a container. */
static void restart_seen(struct op *op, struct container *container)
{
	if (!container)
		op_missing(op);
	else if (!str_eq(container->nonce, op->nonce))
		fail_other_order(op);
	else if (container->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING)
		running_seen(op, container);
	else if (is_begun(op) && !is_as_ordered(op, container))
		return;
	else if (!op->has_begun && !op->has_waited)
		begin_restart(op, container);
	else if (op->has_waited && container->started_ms != op->before_ms)
		reply_handle(op, container->id, container->started_ms); /* it has ended again */
	else
		fail_not_begun(op);
}

static const struct op_kind restart_kind = {.seen = restart_seen, .is_exclusive = true};

/* @taken is the op's from here on. */
static void take_start(struct driver *driver, struct rpc_call *call, const struct op_kind *kind,
		       struct taken *taken)
{
	const Holdfast__Driver__V1__TaskConfig *task = (const void *)taken->body;
	const char *reason = "task";
	struct error err;
	struct op *op = op_new(driver, call, kind, task->alloc_id, task->task);

	if (!op) {
		taken_release(taken);
		return;
	}
	op->taken = *taken;
	(void)str_copy(op->namespace, sizeof(op->namespace), task->namespace_);
	op->is_restart = kind == &restart_kind;
	if (!claim_task(op))
		return;
	if (check_start(op, &reason, &err) != STATUS_OK) {
		refuse_order(op, reason, &err);
		return;
	}
	if (use_order(op))
		begin_look(op);
}

void task_start(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__StartTaskRequest *start = (const void *)request;
	struct driver *driver = userdata;
	struct taken taken;
	struct error err;

	if (driver_take_order(driver, ORDER_START, &start->order, &start->task, &taken, &err) == STATUS_OK) {
		take_start(driver, call, &start_kind, &taken);
		return;
	}
	rpc_call_fail(call, &err);
	taken_release(&taken);
}

void task_restart(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__RestartTaskRequest *restart = (const void *)request;
	struct driver *driver = userdata;
	struct taken taken;
	struct error err;

	if (driver_take_restart(driver, &restart->order, &restart->task, &taken, &err) == STATUS_OK) {
		take_start(driver, call, &restart_kind, &taken);
		return;
	}
	rpc_call_fail(call, &err);
	taken_release(&taken);
}

/* --- recover, inspect, wait --- */

static void inspect_seen(struct op *op, struct container *container)
{
	Holdfast__Driver__V1__InspectTaskResponse response =
		HOLDFAST__DRIVER__V1__INSPECT_TASK_RESPONSE__INIT;
	Holdfast__Driver__V1__TaskStatus status;
	Holdfast__Driver__V1__ExitResult result;

	if (!container) {
		op_missing(op);
		return;
	}
	container_status(container, &status, &result);
	status.health = (char *)(uintptr_t)health_look(op->driver, container, op->inspected);
	response.status = &status;
	op_reply(op, &response.base);
}

static void recover_seen(struct op *op, struct container *container)
{
	Holdfast__Driver__V1__RecoverTaskResponse response =
		HOLDFAST__DRIVER__V1__RECOVER_TASK_RESPONSE__INIT;
	Holdfast__Driver__V1__TaskStatus status;
	Holdfast__Driver__V1__ExitResult result;

	if (!container || !str_eq(container->nonce, op->nonce)) {
		op_missing(op);
		return;
	}
	container_status(container, &status, &result);
	response.status = &status;
	op_reply(op, &response.base);
}

static void on_waited(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct op *op = userdata;

	if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
		op_fail(op, err);
		return;
	}
	task_op_look(op);
}

static int on_process_end(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct op *op = userdata;

	op_unwatch(op);
	op->has_ended = true;
	task_op_look(op);
	return 0;
}

static int on_wait_limit(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct op *op = userdata;

	op_refuse(op, STATUS_DEADLINE_EXCEEDED,
		  "task '%s' of allocation %s still runs after %d s: wait again", op->task, op->alloc,
		  WAIT_S);
	return 0;
}

/* Waits for the end of the container's first process. podman answers a wait by looking at the container again
 * and again without a pause, which takes a processor for each task that runs. The container is inspected once
 * more after the process was opened: its number may have gone to another process before. False: the engine
 * must be asked. The operation may be gone when this returns true. */
static bool watch_process(struct op *op, const struct container *container)
{
	if (op->has_ended || container->pid == 0)
		return false;
	if (op->end_fd < 0) {
		op->end_pid = container->pid;
		op->end_fd = process_open(container->pid);
		if (op->end_fd < 0)
			return false;
		task_op_look(op);
		return true;
	}
	if (container->pid == op->end_pid)
		return watch_end(op, on_process_end, on_wait_limit, WAIT_S * USEC_PER_SEC);
	op_unwatch(op);
	return false;
}

/* The engine's answer is not believed: whether it has ended is looked at. */
static void wait_seen(struct op *op, struct container *container)
{
	Holdfast__Driver__V1__WaitTaskResponse response = HOLDFAST__DRIVER__V1__WAIT_TASK_RESPONSE__INIT;
	Holdfast__Driver__V1__TaskStatus status;
	Holdfast__Driver__V1__ExitResult result;

	if (!container) {
		op_missing(op);
		return;
	}
	container_status(container, &status, &result);
	if (status.state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED) {
		response.result = &result;
		op_reply(op, &response.base);
	} else if (op->has_waited || (op->has_ended && container->pid != op->end_pid)) {
		op_refuse(op, STATUS_UNAVAILABLE,
			  "the engine reported that task '%s' of allocation %s has ended, but it runs: "
			  "wait again",
			  op->task, op->alloc);
	} else if (!watch_process(op, container)) {
		op->has_waited = true;
		ask(op, (struct engine_request){.method = "POST", .timeout_us = WAIT_S * USEC_PER_SEC},
		    on_waited, "/containers/%s/wait?condition=not-running", op->name);
	}
}

static const struct op_kind inspect_kind = {.seen = inspect_seen};
static const struct op_kind recover_kind = {.seen = recover_seen};
static const struct op_kind wait_kind = {.seen = wait_seen};

void task_inspect(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__InspectTaskRequest *inspect = (const void *)request;
	struct op *op = op_new(userdata, call, &inspect_kind, inspect->alloc_id, inspect->task);

	if (op)
		task_op_look(op);
}

void task_recover(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__TaskHandle *handle =
		((const Holdfast__Driver__V1__RecoverTaskRequest *)(const void *)request)->handle;
	struct error err;
	struct op *op;

	if (!handle || handle->version != 1 || handle->nonce.len != ORDER_NONCE_SIZE) {
		(void)error_set(&err, STATUS_INVALID_ARGUMENT, 0,
				"RecoverTask: that is no handle of this driver");
		rpc_call_fail(call, &err);
		return;
	}
	op = op_new(userdata, call, &recover_kind, handle->alloc_id, handle->task);
	if (!op)
		return;
	hex_encode(op->nonce, handle->nonce.data, ORDER_NONCE_SIZE);
	if (container_is_id(handle->state))
		(void)str_copy(op->handle_id, sizeof(op->handle_id), handle->state);
	task_op_look(op);
}

void task_wait(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__WaitTaskRequest *wait = (const void *)request;
	struct driver *driver = userdata;
	struct error err;
	struct op *op;

	if (driver->n_waits >= driver->waits_max) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, 0,
				"%zu calls wait for tasks already, the most that the limit of open files "
				"(LimitNOFILE= of the driver's unit) allows",
				driver->n_waits);
		rpc_call_fail(call, &err);
		return;
	}
	op = op_new(driver, call, &wait_kind, wait->alloc_id, wait->task);
	if (!op)
		return;
	op->is_wait = true;
	driver->n_waits++;
	rpc_call_set_data(call, op);
	task_op_look(op);
}

void task_wait_gone(struct rpc_call *call, void *userdata)
{
	struct op *op = rpc_call_data(call);

	engine_cancel(op->request);
	op_refuse(op, STATUS_CANCELLED, "the caller has gone");
}

/* --- signal, stop, destroy --- */

static void reply_empty(struct op *op, const ProtobufCMessageDescriptor *type)
{
	ProtobufCMessage response;

	protobuf_c_message_init(type, &response);
	op_reply(op, &response);
}

static void on_signalled(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	if (status != STATUS_OK)
		op_fail(userdata, err);
	else
		reply_empty(userdata, &holdfast__driver__v1__signal_task_response__descriptor);
}

static void signal_seen(struct op *op, struct container *container)
{
	if (!container) {
		op_missing(op);
	} else if (container->state != HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING) {
		op_refuse(op, STATUS_FAILED_PRECONDITION, "task '%s' of allocation %s does not run", op->task,
			  op->alloc);
	} else {
		ask(op, SHORT("POST"), on_signalled, "/containers/%s/kill?signal=%s", op->name, op->signal);
	}
}

static const struct op_kind signal_kind = {.seen = signal_seen};

void task_signal(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__SignalTaskRequest *wish = (const void *)request;
	struct error err;
	struct op *op;

	if (signal_number(wish->signal) == 0 || wish->task[0] == '\0') {
		(void)error_set(&err, STATUS_INVALID_ARGUMENT, 0,
				"'%.32s' of '%.64s' is no signal of a task, as in SIGHUP", wish->signal,
				wish->task);
		rpc_call_fail(call, &err);
		return;
	}
	op = op_new(userdata, call, &signal_kind, wish->alloc_id, wish->task);
	if (!op)
		return;
	(void)str_copy(op->signal, sizeof(op->signal), wish->signal);
	task_op_look(op);
}

static void on_stopped(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	if (status != STATUS_OK && status != STATUS_NOT_FOUND)
		op_fail(userdata, err);
	else
		reply_empty(userdata, &holdfast__driver__v1__stop_task_response__descriptor);
}

static const struct op_kind stop_kind;

/* Gives the caller to a request that stops the task at least as soon: the agent repeats a call that is not
 * answered in time, and each one would hold another request. */
static bool join_stop(struct op *op)
{
	struct error err;
	struct op *other;

	LIST_FOREACH (other, &op->driver->ops, link)
		if (other != op && other->kind == &stop_kind && other->is_slow &&
		    str_eq(other->name, op->name) && other->stop_s <= op->stop_s)
			break;
	if (!other)
		return false;
	(void)error_set(&err, STATUS_ABORTED, 0, "a later call stops task '%s' of allocation %s", op->task,
			op->alloc);
	rpc_call_fail(other->call, &err);
	other->call = op->call;
	op_free(op);
	return true;
}

static void stop_seen(struct op *op, struct container *container)
{
	uint32_t ms = op->timeout_ms || !container ? op->timeout_ms : container->stop_ms;
	struct engine_request request = {.method = "POST"};

	if (!container || container->state != HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING) {
		reply_empty(op, &holdfast__driver__v1__stop_task_response__descriptor);
		return;
	}
	op->stop_s = settings_stop_seconds(op->driver->settings, ms);
	request.timeout_us = (op->stop_s + STOP_SLACK_S) * USEC_PER_SEC;
	if (!join_stop(op) && take_slow_place(op))
		ask(op, request, on_stopped, "/containers/%s/stop?t=%u", op->name, op->stop_s);
}

static const struct op_kind stop_kind = {.seen = stop_seen};

void task_stop(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__StopTaskRequest *stop = (const void *)request;
	struct error err;
	struct op *op;

	if (stop->timeout_ms > STOP_MAX_MS || stop->task[0] == '\0') {
		(void)error_set(&err, STATUS_INVALID_ARGUMENT, 0, "StopTask: no task, or more than an hour");
		rpc_call_fail(call, &err);
		return;
	}
	op = op_new(userdata, call, &stop_kind, stop->alloc_id, stop->task);
	if (!op)
		return;
	op->timeout_ms = stop->timeout_ms;
	task_op_look(op);
}

/* Removes the plugin's socket unless another process serves there. After a failure the next start does. */
static void clear_plugin_folder(const struct op *op)
{
	if (id_is_plugin(op->plugin) && op->plugin_socket[0] != '\0' && !strchr(op->plugin_socket, '/'))
		(void)plugin_folder_clear(op->driver->settings->plugin_dir, op->plugin, op->plugin_socket,
					  NULL);
}

static void on_destroyed(struct op *op, const struct error *err)
{
	if (err) {
		op_fail(op, err);
		return;
	}
	if (op->call) /* that of the last boot went with it: it is another one's now */
		clear_plugin_folder(op);
	op_forget(op);
	reply_empty(op, op->task[0] != '\0' ? &holdfast__driver__v1__destroy_task_response__descriptor
					    : &holdfast__driver__v1__destroy_network_response__descriptor);
}

/* The end is in the list of orders, too, until that forgets it. */
static void mark_ended(const struct op *op)
{
	struct error err;

	if (pending_end(op->driver->settings->state_dir, op->name, &err) != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.alloc = op->alloc, .op = "destroy", .err = &err},
			"the end of task '%s' is not in its own file", op->task);
}

/* Its order is done for before anything is taken away: it makes no second one. */
static void destroy_seen(struct op *op, struct container *container)
{
	uint8_t nonce[ORDER_NONCE_SIZE];
	enum status status = STATUS_OK;
	struct error err;

	if (container && !op->force && !container->waits && runs(container)) {
		status = error_set(&err, STATUS_FAILED_PRECONDITION, 0,
				   "task '%s' of allocation %s runs; StopTask comes first, or force",
				   op->task, op->alloc);
	} else {
		if (container)
			mark_ended(op);
		status = nonces_finish_task(op->driver->nonces, op->alloc, op->task, clock_realtime_ms(),
					    &err);
	}
	if (status == STATUS_OK && container)
		health_forget(op->driver, container->id);
	if (status == STATUS_OK && container && hex_decode(nonce, sizeof(nonce), container->nonce) == 0)
		status = nonces_finish(op->driver->nonces, nonce, &err);
	if (status != STATUS_OK) {
		op_fail(op, &err);
	} else if (!container) {
		on_destroyed(op, NULL);
	} else {
		(void)str_copy(op->nonce, sizeof(op->nonce), container->nonce);
		(void)str_copy(op->plugin, sizeof(op->plugin), container->plugin);
		(void)str_copy(op->plugin_socket, sizeof(op->plugin_socket), container->plugin_socket);
		op->keeps_output = op->task[0] != '\0' && container->has_logs;
		remove_container(op, on_destroyed);
	}
}

static const struct op_kind destroy_kind = {.seen = destroy_seen, .is_exclusive = true};

void task_clear(struct driver *driver, const char *alloc, const char *task)
{
	struct op *op = op_new(driver, NULL, &destroy_kind, alloc, task);

	if (!op)
		return;
	op->is_clear = true;
	driver->n_clears++;
	if (claim_task(op))
		task_op_look(op);
}

void task_destroy(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__DestroyTaskRequest *destroy = (const void *)request;
	struct error err;
	struct op *op;

	if (destroy->task[0] == '\0') {
		(void)error_set(&err, STATUS_INVALID_ARGUMENT, 0, "the call names no task");
		rpc_call_fail(call, &err);
		return;
	}
	op = op_new(userdata, call, &destroy_kind, destroy->alloc_id, destroy->task);
	if (!op || !claim_task(op))
		return;
	op->force = destroy->force;
	task_op_look(op);
}

/* --- networks: a container that does nothing holds the namespace --- */

static void reply_network(struct op *op)
{
	Holdfast__Driver__V1__CreateNetworkResponse response =
		HOLDFAST__DRIVER__V1__CREATE_NETWORK_RESPONSE__INIT;
	Holdfast__Driver__V1__NetworkSpec spec = HOLDFAST__DRIVER__V1__NETWORK_SPEC__INIT;
	struct error err;

	if (nonces_finish(op->driver->nonces, op->taken.order.nonce, &err) != STATUS_OK) {
		op_fail(op, &err);
		return;
	}

	spec.alloc_id = op->alloc;
	spec.mode = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
	spec.state = op->name;
	response.spec = &spec;
	response.created = op->has_created;
	op_reply(op, &response.base);
}

static void reply_made(struct op *op)
{
	if (op->taken.order.kind == ORDER_START)
		reply_handle(op, op->container_id, op->started_ms);
	else
		reply_network(op);
}

/* Continues with the network's container. Fails if it no longer holds its namespace: it must be replaced. */
static void network_seen(struct op *op, struct container *container)
{
	const Holdfast__Driver__V1__NetworkConfig *network = (const void *)op->taken.body;
	bool is_own = container && str_eq(container->nonce, op->nonce);
	struct error err;

	if (container && is_of_other_namespace(container, network->namespace_)) {
		refuse_order(op, "network", other_network(op, &err));
	} else if (container && container->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING) {
		(void)str_copy(op->nonce, sizeof(op->nonce), container->nonce); /* one is like the other */
		(void)is_as_ordered(op, container);
	} else if (is_own && !op->has_waited &&
		   container->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_CREATED) {
		if (is_as_ordered(op, container))
			look_and_start(op);
	} else if (!container && !op->has_waited && op->taken.use != NONCE_DONE) {
		ask_create(op, NULL);
	} else if (!container && op->taken.use == NONCE_DONE) {
		(void)error_set(
			&err, STATUS_FAILED_PRECONDITION, 0,
			"the network of allocation %s was made by this order already, and is gone; ask "
			"the server for another one",
			op->alloc);
		refuse_order(op, "used", &err);
	} else {
		op_refuse(op, STATUS_FAILED_PRECONDITION,
			  "the network of allocation %s does not hold: DestroyNetwork comes first, and "
			  "another order",
			  op->alloc);
	}
}

static const struct op_kind network_kind = {.seen = network_seen, .is_exclusive = true};

void network_create(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__CreateNetworkRequest *create = (const void *)request;
	const Holdfast__Driver__V1__NetworkConfig *network;
	struct driver *driver = userdata;
	const char *reason = "network";
	struct taken taken;
	enum status status;
	struct error err;
	struct op *op;

	if (driver_take_order(driver, ORDER_NETWORK, &create->order, &create->network, &taken, &err) !=
	    STATUS_OK) {
		rpc_call_fail(call, &err);
		taken_release(&taken);
		return;
	}
	network = (const void *)taken.body;
	op = op_new(driver, call, &network_kind, network->alloc_id, "");
	if (!op) {
		taken_release(&taken);
		return;
	}
	op->taken = taken;
	(void)str_copy(op->namespace, sizeof(op->namespace), network->namespace_);
	if (!claim_task(op))
		return;
	if (network->mode != HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED)
		status = error_set(&err, STATUS_INVALID_ARGUMENT, 0,
				   "only an isolated network is made; host and none are a task's own");
	else if (!task_text_is_right(TASK_TEXT_HOSTNAME, network->hostname))
		status = error_set(&err, STATUS_INVALID_ARGUMENT, 0, "network: hostname '%.64s' is not %s",
				   network->hostname, task_text_rule(TASK_TEXT_HOSTNAME));
	else
		status = policy_check_network(driver->settings, network->mode, &reason, &err);
	if (status != STATUS_OK)
		refuse_order(op, reason, &err);
	else if (use_order(op))
		begin_look(op);
}

void network_destroy(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__DestroyNetworkRequest *destroy = (const void *)request;
	struct op *op = op_new(userdata, call, &destroy_kind, destroy->alloc_id, "");

	if (!op || !claim_task(op))
		return;
	op->force = true;
	task_op_look(op);
}

/* At the end: the engine's answers no longer come, and each waiting caller is notified. */
void task_free_all(struct driver *driver)
{
	struct error err;

	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "driver container ends; ask again");
	while (!LIST_EMPTY(&driver->ops)) {
		struct op *op = LIST_FIRST(&driver->ops);

		if (op->call)
			rpc_call_fail(op->call, &err);
		op_free(op);
	}
	health_free_all(driver);
	while (!LIST_EMPTY(&driver->knowns))
		known_free(LIST_FIRST(&driver->knowns));
	while (!LIST_EMPTY(&driver->restarts)) {
		struct restarts *restarts = LIST_FIRST(&driver->restarts);

		LIST_REMOVE(restarts, link);
		free(restarts);
	}
}
