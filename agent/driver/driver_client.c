/* SPDX-License-Identifier: Apache-2.0 */
/* The row of task drivers for service/client. */
#include "driver/driver_client.h"

#include "base/clock.h"

#include <holdfast/driver/v1/driver.pb-c.h>

enum {
	ASK_US = 10 * USEC_PER_SEC,   /* of what a driver answers out of its memory, or its engine's */
	WORK_US = 120 * USEC_PER_SEC, /* for a call that makes or removes something */
	PULL_US = 600 * USEC_PER_SEC, /* for a call that may pull an image */
};

#define WAIT_US (3600 * USEC_PER_SEC) /* a task may run for ever: the call is repeated */

/* clang-format off */
#define METHOD(Name, message_, timeout_, ...)                                  \
	{                                                                      \
		.name = #Name,                                                 \
		.service = &holdfast__driver__v1__driver__descriptor,          \
		.request = &holdfast__driver__v1__##message_##_request__descriptor, \
		.timeout_us = (timeout_),                                      \
		__VA_ARGS__                                                    \
	}

static const struct service_method methods[DRIVER_METHOD_N] = {
	[DRIVER_FINGERPRINT] = METHOD(Fingerprint, fingerprint, ASK_US, .is_stream = true),
	[DRIVER_CAPABILITIES] = METHOD(Capabilities, capabilities, ASK_US),
	[DRIVER_CONFIG_SCHEMA] = METHOD(ConfigSchema, config_schema, ASK_US),
	[DRIVER_SET_CONFIG] = METHOD(SetConfig, set_config, ASK_US),
	[DRIVER_START_TASK] = METHOD(StartTask, start_task, PULL_US),
	[DRIVER_RECOVER_TASK] = METHOD(RecoverTask, recover_task, ASK_US),
	[DRIVER_WAIT_TASK] = METHOD(WaitTask, wait_task, WAIT_US),
	[DRIVER_INSPECT_TASK] = METHOD(InspectTask, inspect_task, ASK_US),
	[DRIVER_TASK_STATS] = METHOD(TaskStats, task_stats, ASK_US, .is_stream = true),
	[DRIVER_SIGNAL_TASK] = METHOD(SignalTask, signal_task, ASK_US),
	[DRIVER_STOP_TASK] = METHOD(StopTask, stop_task, WORK_US),
	[DRIVER_DESTROY_TASK] = METHOD(DestroyTask, destroy_task, WORK_US),
	[DRIVER_CREATE_NETWORK] = METHOD(CreateNetwork, create_network, WORK_US),
	[DRIVER_DESTROY_NETWORK] = METHOD(DestroyNetwork, destroy_network, WORK_US),
	[DRIVER_EXEC_TASK] = METHOD(ExecTask, exec_task, WORK_US),
	[DRIVER_EXEC_TASK_STREAMING] = METHOD(ExecTaskStreaming, exec_task_streaming, ASK_US, .is_stream = true),
	[DRIVER_TASK_LOGS] = METHOD(TaskLogs, task_logs, ASK_US, .is_stream = true),
	[DRIVER_RESTART_TASK] = METHOD(RestartTask, restart_task, WORK_US),
};
/* clang-format on */

const struct service_kind driver_kind = {
	.noun = "driver",
	.methods = methods,
	.calls_max = DRIVER_CALLS_MAX,
	.request_max = DRIVER_MESSAGE_MAX,
	.message_max = DRIVER_MESSAGE_MAX,
	.watches_exit = true,
	.is_driver = true,
};
