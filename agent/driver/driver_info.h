/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The state and the settings of a task driver of this node. */

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	DRIVERS_MAX = 8, /* on one node */
	DRIVER_NAME_MAX = 63,
	DRIVERS_PROBE_INTERVAL_DEFAULT_MS = 30000,
};

/* The state of a driver. Borrowed, until the event loop runs again. */
struct driver_info {
	const char *name;
	bool is_healthy;    /* it answers, and reports that its engine works */
	const char *reason; /* why not; "": it is */
	/* The last capabilities that it reported, complete: its report is passed on unchanged. NULL: no
	 * report since it appeared. */
	const Holdfast__Driver__V1__CapabilitiesResponse *capabilities;
	const Holdfast__Driver__V1__ConfigSchemaResponse *schema;
	const Holdfast__Driver__V1__FingerprintResponse *fingerprint;
};

struct drivers_options {
	const char *driver_dir;	    /* borrowed */
	uint64_t probe_interval_us; /* 0: DRIVERS_PROBE_INTERVAL_DEFAULT_MS */
	/* Returns the settings for a driver of that name. NULL, or returning NULL: no settings. */
	const Holdfast__Driver__V1__SetConfigRequest *(*config)(const char *name, void *userdata);
	/* Called from the event loop when the result of drivers_list() may have changed. May be NULL. */
	void (*changed)(void *userdata);
	void *userdata;
};
