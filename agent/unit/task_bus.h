/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The connection to systemd over the system bus. Lost connections come back by themselves; calls in flight on
 * one end with an error.
 *
 * Any process on the bus can send a signal that looks like one of systemd's. So a signal is never trusted: it
 * only causes a query. The bus proves that the answer comes from systemd. */

#include "base/error.h"

#include <stdbool.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#define SYSTEMD_NAME "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"
#define SYSTEMD_MANAGER "org.freedesktop.systemd1.Manager"

enum {
	TASK_CALL_TIMEOUT_S = 30, /* for any call of systemd; it may have to start polkit first */
	TASK_BUS_RETRY_MIN_MS = 200,
	TASK_BUS_RETRY_MAX_MS = 10000,
};

struct task_bus_events {
	void (*on_up)(void *userdata);	 /* also when systemd has come back under the same connection */
	void (*on_down)(void *userdata); /* before the connection is closed: drop the calls on it */
};

struct task_bus;

/** Not connected before task_bus_want(). @events static. @ret owned by the caller, task_bus_free() */
enum status task_bus_new(sd_event *event, const struct task_bus_events *events, void *userdata,
			 struct task_bus **ret, struct error *err);

/** Keeps a connection from now on; on_up() reports it, from the event loop. */
void task_bus_want(struct task_bus *bus);

/** Returns the connection, or NULL without a connection. Borrowed until on_down(). */
sd_bus *task_bus_get(const struct task_bus *bus);

/** Returns why there is no connection; STATUS_OK: no error is known. */
const struct error *task_bus_error(const struct task_bus *bus);

/** Was it sent by systemd itself? */
bool task_bus_is_from_systemd(const struct task_bus *bus, sd_bus_message *message);

/** NULL is allowed. */
void task_bus_free(struct task_bus *bus);

/** Connect to the system bus, without waiting. A seam for tests. */
int task_bus_open(sd_bus **ret);
