/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the service manager is told of a daemon: sd_notify(3), of which nothing waits but READY=1 at the
 * start. Without a service manager all of it does nothing. */

#include "base/error.h"

#include <stddef.h>
#include <systemd/sd-event.h>

enum { SERVICE_TEXT_MAX = 1280 }; /* of a status text, with its end */

/** Send assignments, "STOPPING=1". Returns 0; -EAGAIN when the service manager does not read just now. */
int service_send(const char *message);

struct service_status;

/** Writes one line that says how the daemon is; longer ones are cut at @size. */
typedef void service_text_fn(char *dst, size_t size, void *userdata);

/** Tell STATUS= whenever it has changed: looked at after any event, at most once a second.
 * @event borrowed; @ret owned by the caller, service_status_free(); NULL without a service manager */
enum status service_status_new(sd_event *event, service_text_fn *text, void *userdata,
			       struct service_status **ret, struct error *err);
void service_status_free(struct service_status *status);

/** Say STATUS= now, with @prefix, "READY=1\n" or "", before it; again later, if the
 * service manager does not read just now. @status may be NULL. */
void service_status_tell(struct service_status *status, const char *prefix);

/** The last word of a daemon that does not start. */
void service_failed(const struct error *err);
