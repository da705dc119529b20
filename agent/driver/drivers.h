/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The task drivers of this node: finds and probes them, and finds them again after a restart.
 *
 * A driver is a socket `<driver_dir>/<name>/<anything>.sock`, where name is the driver's own name. As with
 * CSI plugins (plugins/plugins.h), several instances may exist during an upgrade, and the newest that answers
 * is used. A driver whose socket is gone is listed as not healthy until its folder is gone too. */

#include "base/error.h"
#include "driver/driver_client.h"
#include "driver/driver_info.h"

#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct drivers;

/** Nothing happens before drivers_start(). @ret owned by the caller, drivers_free() */
enum status drivers_new(sd_event *event, const struct drivers_options *options, struct drivers **ret,
			struct error *err);

/** Look for them, from the event loop on. */
enum status drivers_start(struct drivers *drivers, struct error *err);

/** Calls in flight end before this returns. NULL is allowed. */
void drivers_free(struct drivers *drivers);

/** Writes the state of each driver, @max at most; returns how many. */
size_t drivers_list(const struct drivers *drivers, struct driver_info *ret, size_t max);

/** The offers of the driver, as it reported them last; NULL: unknown. Borrowed, until the event loop runs
 * again. */
const Holdfast__Driver__V1__CapabilitiesResponse *drivers_offer(const struct drivers *drivers,
								const char *name);

/** Returns the client for calls to the driver: looked up for each call, as instances come and go.
 * STATUS_NOT_FOUND if it is not on this node, STATUS_UNAVAILABLE while it does not answer, or while its
 * capabilities are requested again. */
enum status drivers_client(const struct drivers *drivers, const char *name, struct service_client **ret,
			   struct error *err);
