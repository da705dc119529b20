/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The connection to systemd over the system bus. Lost connections come back by themselves; what is in flight
 * on one ends with an error.
 *
 * Anybody on the bus can send a signal that looks like one of systemd's, so none is believed: it is only a
 * reason to ask. Who answers as systemd is known from the bus. */

#include "base/error.h"

#include <stdbool.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#define SYSTEMD_NAME "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"
#define SYSTEMD_MANAGER "org.freedesktop.systemd1.Manager"

enum {
	TASK_CALL_TIMEOUT_S = 30, /* for any call of systemd; polkit may have to be started for it */
	TASK_BUS_RETRY_MIN_MS = 200,
	TASK_BUS_RETRY_MAX_MS = 10000,
};

struct task_bus_events {
	void (*on_up)(void *userdata);	 /* also when systemd has come back under the same connection */
	void (*on_down)(void *userdata); /* before the connection is closed: drop what is on it */
};

struct task_bus;

/** Not connected before task_bus_want(). @events static. @ret owned by the caller, task_bus_free() */
enum status task_bus_new(sd_event *event, const struct task_bus_events *events, void *userdata,
			 struct task_bus **ret, struct error *err);

/** Be connected from now on; on_up() tells, from the event loop. */
void task_bus_want(struct task_bus *bus);

/** The connection, or NULL while there is none. Borrowed until on_down(). */
sd_bus *task_bus_get(const struct task_bus *bus);

/** Why there is none; status OK: nothing is known to be wrong. */
const struct error *task_bus_error(const struct task_bus *bus);

/** Was it sent by systemd itself? */
bool task_bus_is_from_systemd(const struct task_bus *bus, sd_bus_message *message);

/** NULL is allowed. */
void task_bus_free(struct task_bus *bus);

/** Connect to the system bus, without waiting. A seam for tests. */
int task_bus_open(sd_bus **ret);
