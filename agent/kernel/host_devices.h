/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Keeps where the host had mounted devices for itself, to look there again. These are hints: each must be
 * checked. Pure. */

#include "kernel/device.h"

enum { HOST_DEVICES_MAX = 64 }; /* then the oldest hint makes room */

struct host_device {
	uint32_t dev_major;
	uint32_t dev_minor;
	char point[DEVICE_POINT_SIZE];
};

/* All zero: empty. */
struct host_devices {
	struct host_device devices[HOST_DEVICES_MAX];
	unsigned int n;
	unsigned int oldest;
};

/** Replaces the device's hint. A @point that may have been cut is no hint. */
void host_devices_note(struct host_devices *devices, uint32_t dev_major, uint32_t dev_minor,
		       const char *point);

/** Returns the device's hint; NULL: no hint. Valid until the next note. */
const char *host_devices_point(const struct host_devices *devices, uint32_t dev_major, uint32_t dev_minor);
