/* SPDX-License-Identifier: Apache-2.0 */
/* Runs health checks by the engine's exec, and counts their failures. */
#include "health.h"

#include "driver.h"
#include "process.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/volume.h"
#include "rpc/wakeup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	CHECKS_MAX = 256,     /* that may hold a request to the engine, which also starts and stops tasks */
	OUTPUT_MAX = 1 << 20, /* of one check */
};

struct health {
	LIST_ENTRY(health) link;
	struct driver *driver;
	char container[CONTAINER_ID_SIZE];
	char namespace[NAMESPACE_MAX + 1];
	int64_t started_ms; /* of the container: each start begins without a result */
	json_t *argv;	    /* owned */
	uint64_t interval_us, timeout_us;
	uint32_t retries;
	uint64_t due_us; /* of the next check */
	size_t n_output;
	bool is_running;
	bool is_late;	   /* the one that runs has passed its time limit: its output is ignored */
	uint32_t failures; /* in a row */
	const char *state;
	uint64_t ask_until_us; /* its output has ended, and it runs; 0: not known */
	char exec_id[CONTAINER_ID_SIZE];
	struct engine_call *call;
	sd_event_source *timer;
};

static void health_end(struct health *health)
{
	engine_cancel(health->call);
	health->call = NULL;
	wakeup_disarm(&health->timer);
	if (health->is_running && !health->is_late)
		health->driver->n_checks--;
	health->is_running = false;
}

static void health_free(struct health *health)
{
	health_end(health);
	LIST_REMOVE(health, link);
	json_decref(health->argv);
	free(health);
}

static void note_result(struct health *health, bool is_good)
{
	health->failures = is_good ? 0 : health->failures + 1;
	if (is_good)
		health->state = "healthy";
	else if (health->failures >= health->retries)
		health->state = "unhealthy";
}

static void ask(struct health *health, struct engine_request request, engine_done_fn *done)
{
	if (engine_send(health->driver->engine, &request, done, health, &health->call, NULL) == STATUS_OK)
		return;
	health->call = NULL;
	health_end(health);
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata);

static void limit(struct health *health, uint64_t us)
{
	if (wakeup_arm(health->driver->event, &health->timer, us, on_late, health, NULL) != STATUS_OK)
		health_end(health);
}

static void ask_exit_code(struct health *health);

/* A command cannot be ended through the engine: one that hangs fails in each interval, and no other starts.
 * It keeps no request at the engine, and the engine is asked whether it still runs. */
static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct health *health = userdata;

	wakeup_disarm(&health->timer);
	if (health->is_late) {
		ask_exit_code(health);
		return 0;
	}
	health->is_late = true;
	health->driver->n_checks--;
	note_result(health, false);
	engine_cancel(health->call);
	health->call = NULL;
	if (health->exec_id[0] != '\0')
		limit(health, health->interval_us);
	else
		health_end(health); /* it was not started */
	return 0;
}

static int on_pause(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct health *health = userdata;

	wakeup_disarm(&health->timer);
	ask_exit_code(health);
	return 0;
}

/* An engine that is ended in the middle of a check breaks off its output; the command runs on. False: it ran
 * for so long that it has no result. */
static bool ask_later(struct health *health)
{
	uint64_t now = clock_monotonic_us();

	if (health->ask_until_us == 0)
		health->ask_until_us = now + health->driver->settings->engine_timeout_us;
	return now < health->ask_until_us && wakeup_arm(health->driver->event, &health->timer, EXEC_PAUSE_US,
							on_pause, health, NULL) == STATUS_OK;
}

static void on_exit_code(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct health *health = userdata;
	bool still_runs = false;
	int32_t code = -1;

	health->call = NULL;
	/* else the engine's trouble, or the end of the container: no result */
	if (status == STATUS_OK)
		status = container_read_exec(json, &still_runs, &code, NULL);
	if (still_runs && health->is_late) {
		note_result(health, false);
		limit(health, health->interval_us);
		return;
	}
	if (still_runs && ask_later(health))
		return;
	if (status == STATUS_OK && !still_runs && !health->is_late)
		note_result(health, code == 0);
	health_end(health);
}

static void ask_exit_code(struct health *health)
{
	char path[ENGINE_PATH_SIZE];

	(void)snprintf(path, sizeof(path), "/exec/%s/json", health->exec_id);
	ask(health,
	    (struct engine_request){
		    .method = "GET", .path = path, .timeout_us = health->driver->settings->engine_timeout_us},
	    on_exit_code);
}

static void on_ended(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct health *health = userdata;

	health->call = NULL;
	if (status == STATUS_OK) {
		ask_exit_code(health);
		return;
	}
	/* no such program in the container. An engine that does not answer is no result */
	if (status == STATUS_INVALID_ARGUMENT || status == STATUS_FAILED_PRECONDITION)
		note_result(health, false);
	health_end(health);
}

/* Its bytes are ignored. A check with too many has failed, as one that hangs. */
static bool on_output(const uint8_t *bytes, size_t n, void *userdata)
{
	struct health *health = userdata;

	health->n_output += n;
	if (health->n_output <= OUTPUT_MAX)
		return true;
	(void)wakeup_arm(health->driver->event, &health->timer, 0, on_late, health, NULL);
	return false;
}

/* Engines keep the exit code of a command only if its output is read to its end. */
static void on_made(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct health *health = userdata;
	const char *id = json_string_value(json_object_get(json, "Id"));
	char path[ENGINE_PATH_SIZE];

	health->call = NULL;
	if (status != STATUS_OK || !id || !container_is_id(id)) {
		health_end(health);
		return;
	}
	(void)str_copy(health->exec_id, sizeof(health->exec_id), id);
	(void)snprintf(path, sizeof(path), "/exec/%s/start", health->exec_id);
	ask(health,
	    (struct engine_request){.method = "POST",
				    .path = path,
				    .body = json_pack("{s:b, s:b}", "Detach", false, "Tty", false),
				    .data = on_output},
	    on_ended);
}

/* @pid of the container's first process. The command has its ids as numbers: engines look a name, and the
 * group of a number, up in the container's files, which the task may have changed since it was compared. The
 * real ids are those that were compared, and only CAP_SETUID can change them. */
static void health_begin(struct health *health, int64_t pid)
{
	char path[ENGINE_PATH_SIZE], user[32];
	uint32_t uid, gid;
	json_t *body;

	if (!process_user(PROC, pid, health->container, &uid, &gid))
		return;
	(void)snprintf(user, sizeof(user), "%" PRIu32 ":%" PRIu32, uid, gid);
	body = json_pack("{s:b, s:b, s:b, s:b, s:b, s:s, s:O}", "AttachStdin", false, "AttachStdout", true,
			 "AttachStderr", true, "Tty", false, "Privileged", false, "User", user, "Cmd",
			 health->argv);
	if (!body)
		return;
	health->driver->n_checks++;
	health->exec_id[0] = '\0';
	health->n_output = 0;
	health->due_us = clock_monotonic_us() + health->interval_us;
	health->is_running = true;
	health->is_late = false;
	health->ask_until_us = 0;
	limit(health, health->timeout_us);
	if (!health->is_running) { /* memory is short */
		json_decref(body);
		return;
	}
	(void)snprintf(path, sizeof(path), "/containers/%s/exec", health->container);
	ask(health,
	    (struct engine_request){.method = "POST",
				    .path = path,
				    .body = body,
				    .timeout_us = health->driver->settings->engine_timeout_us},
	    on_made);
}

static struct health *health_find(struct driver *driver, const char *container_id)
{
	struct health *health;

	LIST_FOREACH (health, &driver->healths, link)
		if (str_eq(health->container, container_id))
			return health;
	return NULL;
}

static struct health *health_new(struct driver *driver, const struct container *container, const char *check)
{
	struct health *health = calloc(1, sizeof(*health));
	json_t *json = json_loads(check, 0, NULL);
	json_int_t interval_ms = 0, timeout_ms = 0, retries = 0;
	const char *namespace = "";
	json_t *argv = NULL;

	if (!health ||
	    json_unpack(json, "{s:s, s:O, s:I, s:I, s:I}", "namespace", &namespace, "argv", &argv,
			"interval_ms", &interval_ms, "timeout_ms", &timeout_ms, "retries", &retries) < 0 ||
	    str_copy(health->namespace, sizeof(health->namespace), namespace) < 0) {
		json_decref(argv);
		json_decref(json);
		free(health);
		return NULL;
	}
	json_decref(json);
	health->driver = driver;
	health->argv = argv;
	health->interval_us = (uint64_t)interval_ms * USEC_PER_MSEC;
	health->timeout_us = (uint64_t)timeout_ms * USEC_PER_MSEC;
	health->retries = (uint32_t)retries;
	health->state = "";
	(void)str_copy(health->container, sizeof(health->container), container->id);
	LIST_INSERT_HEAD(&driver->healths, health, link);
	return health;
}

/* The container was started another time: nothing is known of this run. */
static void health_reset(struct health *health, int64_t started_ms)
{
	health_end(health);
	health->started_ms = started_ms;
	health->failures = 0;
	health->due_us = 0;
	health->state = "";
}

/* A namespace has at most half as many places as it leaves, so it never takes the last ones. */
static bool has_room(const struct health *health)
{
	const struct driver *driver = health->driver;
	const struct health *other;
	size_t used = 0;

	LIST_FOREACH (other, &driver->healths, link)
		used += other->is_running && !other->is_late && str_eq(other->namespace, health->namespace);
	return driver->n_checks + 2 * used < CHECKS_MAX;
}

const char *health_look(struct driver *driver, const struct container *container, const json_t *inspected)
{
	struct health *health = health_find(driver, container->id);
	const char *check = container_check(inspected);

	if (container->state != HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING || check[0] == '\0')
		return "";
	if (!health)
		health = health_new(driver, container, check);
	if (!health)
		return "";
	if (health->started_ms != container->started_ms)
		health_reset(health, container->started_ms);
	if (!health->is_running && clock_monotonic_us() >= health->due_us && has_room(health))
		health_begin(health, container->pid);
	return health->state;
}

void health_forget(struct driver *driver, const char *container_id)
{
	struct health *health = health_find(driver, container_id);

	if (health)
		health_free(health);
}

void health_free_all(struct driver *driver)
{
	while (!LIST_EMPTY(&driver->healths))
		health_free(LIST_FIRST(&driver->healths));
}
