/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Task drivers as services (docs/task-drivers.md): their methods, and how many calls one takes. */

#include "model/alloc.h"
#include "service/client.h"

enum {
	DRIVER_MESSAGE_MAX = 1 << 20, /* bytes, either way */
	DRIVER_CALLS_MAX = 9216,      /* in flight to one driver: each task has one that waits for its end */
};

_Static_assert(DRIVER_CALLS_MAX >= NODE_ALLOCS_MAX * ALLOC_TASKS_MAX + 1024, "other calls have room");

/* In the order of the service in driver.proto. */
enum driver_method {
	DRIVER_FINGERPRINT,
	DRIVER_CAPABILITIES,
	DRIVER_CONFIG_SCHEMA,
	DRIVER_SET_CONFIG,
	DRIVER_START_TASK,
	DRIVER_RECOVER_TASK,
	DRIVER_WAIT_TASK,
	DRIVER_INSPECT_TASK,
	DRIVER_TASK_STATS,
	DRIVER_SIGNAL_TASK,
	DRIVER_STOP_TASK,
	DRIVER_DESTROY_TASK,
	DRIVER_CREATE_NETWORK,
	DRIVER_DESTROY_NETWORK,
	DRIVER_EXEC_TASK,
	DRIVER_EXEC_TASK_STREAMING,
	DRIVER_TASK_LOGS,
	DRIVER_RESTART_TASK,
	DRIVER_METHOD_N,
};

extern const struct service_kind driver_kind;
