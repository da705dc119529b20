/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A daemon's notifications to the service manager: sd_notify(3), of which only READY=1 at the start is
 * waited for. Without a service manager all of it does nothing. */

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

enum { SERVICE_TEXT_MAX = 1280 }; /* of a status text, with its end */

/** Sends assignments, "STOPPING=1". Returns 0; -EAGAIN when the service manager does not read just now. */
int service_send(const char *message);

struct service_status;

/** Writes one line about the daemon's state; longer ones are cut at @size. */
typedef void service_text_fn(char *dst, size_t size, void *userdata);

/** Sends STATUS= whenever it has changed: checked after any event, at most once a second. @event borrowed;
 * @ret owned by the caller, service_status_free(); NULL without a service manager */
enum status service_status_new(sd_event *event, service_text_fn *text, void *userdata,
			       struct service_status **ret, struct error *err);
void service_status_free(struct service_status *status);

/** Sends STATUS= now, with @prefix, "READY=1\n" or "", before it; again later, if the service manager does
 * not read just now. @status may be NULL. */
void service_status_notify(struct service_status *status, const char *prefix);

/** Keeps the memory, which has keys and secrets, from other processes of the same user (ptrace(2),
 * /proc/PID/mem) and from core dumps, also those that a pipe in core_pattern takes. A program that is
 * executed has its own setting. */
void service_hide_memory(void);

/** Sends the error of a daemon that does not start. */
void service_failed(const struct error *err);

/* The service manager's watchdog, WATCHDOG= of sd_notify(3): notified from the event loop while it turns.
 * Unlike the one of sd-event, it never waits for a service manager that does not read. */
struct service_watchdog;

/** Notifies it several times in the time that WATCHDOG_USEC gives us. @event borrowed; @ret owned by the
 * caller, service_watchdog_free(); NULL when no watchdog is asked for */
enum status service_watchdog_new(sd_event *event, struct service_watchdog **ret, struct error *err);
void service_watchdog_free(struct service_watchdog *watchdog);

/** The loop will not be turned for up to @usec: until service_watchdog_resume() that is no reason to end us.
 * @watchdog may be NULL */
void service_watchdog_pause(struct service_watchdog *watchdog, uint64_t usec);
void service_watchdog_resume(struct service_watchdog *watchdog);
