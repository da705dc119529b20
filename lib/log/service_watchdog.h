/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The service manager's watchdog, WATCHDOG= of sd_notify(3): told from the event loop that this is still
 * turned. Unlike the one of sd-event, it never waits for a service manager that does not read. */

#include "base/error.h"

#include <stdint.h>
#include <systemd/sd-event.h>

struct service_watchdog;

/** Tell it several times in the time that WATCHDOG_USEC gives us.
 * @event borrowed; @ret owned by the caller, service_watchdog_free(); NULL when no watchdog is asked for */
enum status service_watchdog_new(sd_event *event, struct service_watchdog **ret, struct error *err);
void service_watchdog_free(struct service_watchdog *watchdog);

/** The loop will not be turned for up to @usec: until service_watchdog_resume() that is no reason to end us.
 * @watchdog may be NULL */
void service_watchdog_pause(struct service_watchdog *watchdog, uint64_t usec);
void service_watchdog_resume(struct service_watchdog *watchdog);
