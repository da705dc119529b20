/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The task drivers of this node: found, asked what they are, and found again after a restart.
 *
 * A driver is a socket `<driver_dir>/<name>/<anything>.sock`, where name is what the driver calls itself. As
 * with CSI plugins (plugins/plugins.h), several instances may stand side by side while one is upgraded, and
 * the newest that answers is used. A driver whose socket is gone is listed as not healthy until its folder is
 * gone too. */

#include "base/error.h"
#include "driver/driver_client.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

enum {
	DRIVERS_MAX = 8, /* on one node */
	DRIVER_NAME_MAX = 63,
	DRIVERS_PROBE_INTERVAL_DEFAULT_MS = 30000,
};

struct drivers;

/* What is known of a driver. Borrowed, until the event loop runs again. */
struct driver_info {
	const char *name;
	bool is_healthy;    /* it answers, and says that what it drives does */
	const char *reason; /* why not; "": it is */
	/* As it said them last, whole: what it reports goes on untranslated. NULL: not since it appeared. */
	const Holdfast__Driver__V1__CapabilitiesResponse *capabilities;
	const Holdfast__Driver__V1__ConfigSchemaResponse *schema;
	const Holdfast__Driver__V1__FingerprintResponse *fingerprint;
};

struct drivers_options {
	const char *driver_dir;	    /* borrowed */
	uint64_t probe_interval_us; /* 0: DRIVERS_PROBE_INTERVAL_DEFAULT_MS */
	/* What is set for a driver of that name; NULL, or returning NULL: nothing is. */
	const Holdfast__Driver__V1__SetConfigRequest *(*config)(const char *name, void *userdata);
	/* What drivers_list() says may have changed; from the event loop. NULL: nobody wants to know. */
	void (*changed)(void *userdata);
	void *userdata;
};

/** Nothing happens before drivers_start(). @ret owned by the caller, drivers_free() */
enum status drivers_new(sd_event *event, const struct drivers_options *options, struct drivers **ret,
			struct error *err);

/** Look for them, from the event loop on. */
enum status drivers_start(struct drivers *drivers, struct error *err);

/** Calls under way end before this returns. NULL is allowed. */
void drivers_free(struct drivers *drivers);

/** Write what is known of each, @max at most; returns how many. */
size_t drivers_list(const struct drivers *drivers, struct driver_info *ret, size_t max);

/** Whom calls to the driver go to: looked up for each call, as instances come and go.
 * STATUS_NOT_FOUND when it is not on this node, STATUS_UNAVAILABLE while it does not answer, or is asked anew
 * what it is. */
enum status drivers_client(const struct drivers *drivers, const char *name, struct driver_client **ret,
			   struct error *err);
