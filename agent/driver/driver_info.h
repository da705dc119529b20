/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A task driver of this node: what is known of it, and what is set for it. */

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	DRIVERS_MAX = 8, /* on one node */
	DRIVER_NAME_MAX = 63,
	DRIVERS_PROBE_INTERVAL_DEFAULT_MS = 30000,
};

/* What is known of a driver. Borrowed, until the event loop runs again. */
struct driver_info {
	const char *name;
	bool is_healthy;    /* it answers, and says that what it drives does */
	const char *reason; /* why not; "": it is */
	/* As it said them last, whole: what it reports continues untranslated. NULL: not since it appeared.
	 */
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
