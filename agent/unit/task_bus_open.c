/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/task_bus.h"

int task_bus_open(sd_bus **ret)
{
	return sd_bus_open_system_with_description(ret, "systemd");
}
