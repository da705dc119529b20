/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/host_devices.h"

#include <string.h>

static struct host_device *host_devices_find(struct host_devices *devices, uint32_t dev_major,
					     uint32_t dev_minor)
{
	for (unsigned int i = 0; i < devices->n; i++) {
		if (devices->devices[i].dev_major == dev_major && devices->devices[i].dev_minor == dev_minor)
			return &devices->devices[i];
	}
	return NULL;
}

static struct host_device *make_room(struct host_devices *devices)
{
	struct host_device *device;

	if (devices->n < HOST_DEVICES_MAX)
		return &devices->devices[devices->n++];
	device = &devices->devices[devices->oldest];
	devices->oldest = (devices->oldest + 1) % HOST_DEVICES_MAX;
	return device;
}

void host_devices_note(struct host_devices *devices, uint32_t dev_major, uint32_t dev_minor,
		       const char *point)
{
	size_t n = strlen(point);
	struct host_device *device;

	if (n >= DEVICE_POINT_SIZE - 1)
		return;
	device = host_devices_find(devices, dev_major, dev_minor);
	if (!device)
		device = make_room(devices);
	device->dev_major = dev_major;
	device->dev_minor = dev_minor;
	memcpy(device->point, point, n + 1);
}

const char *host_devices_point(const struct host_devices *devices, uint32_t dev_major, uint32_t dev_minor)
{
	const struct host_device *device = host_devices_find((struct host_devices *)(uintptr_t)devices,
							     dev_major, dev_minor); /* only looked at */

	return device ? device->point : NULL;
}
