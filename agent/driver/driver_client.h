/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Calls to one task driver over its unix socket (docs/task-drivers.md).
 *
 * A driver may end in the middle of any call, and its caller then does something else than after a refusal:
 * it waits for the driver and recovers the task. So every call, of any method, ends through one mapper. A
 * call that ends with UNAVAILABLE or CANCELLED waits up to DRIVER_EXIT_WAIT_MS for the exit of the driver:
 * when that is seen, the error is "driver shut down", whatever else is known by then; when the caller's own
 * time is over first, it is the caller's DEADLINE_EXCEEDED; else it is the error as it came. A caller that
 * cancels hears nothing more. The exit is that of the process that listens at the socket, or
 * driver_client_exited(). */

#include "base/error.h"

#include <errno.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

enum {
	DRIVER_MESSAGE_MAX = 1 << 20, /* bytes, either way */
	DRIVER_CALLS_MAX = 1024,      /* in flight to one driver: each task has one that waits for its end */
	DRIVER_EXIT_WAIT_MS = 3000,
};

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
	DRIVER_METHOD_N,
};

/** "StartTask" */
const char *driver_method_name(enum driver_method method);

/** Does the driver answer with a stream? */
bool driver_method_is_stream(enum driver_method method);

struct driver_client;
struct driver_call;

struct driver_client_options {
	const char *name;      /* of the driver, copied, for messages */
	const char *socket;    /* copied */
	uint64_t exit_wait_us; /* 0: DRIVER_EXIT_WAIT_MS */
};

/** @event borrowed. Nothing is dialled before the first call. @ret owned by the caller, driver_client_free()
 */
enum status driver_client_new(sd_event *event, const struct driver_client_options *options,
			      struct driver_client **ret, struct error *err);

/** Calls in flight end with STATUS_UNAVAILABLE before this returns, as "driver shut down" if it is known to
 * be gone. NULL is allowed. */
void driver_client_free(struct driver_client *client);

/** The driver is known to be gone, by its socket for instance, until it answers again. */
void driver_client_exited(struct driver_client *client);

/** A message of a stream, borrowed for the duration of the call: the next one is read when this is back. It
 * may cancel the call, and may not free the client. */
typedef void driver_message_fn(const ProtobufCMessage *message, void *userdata);

/** The end, once; the call is gone afterwards. Never inside driver_call_start(). May free the client.
 * @response borrowed for the duration of the call; NULL of a stream, and when there is @err
 * @err      NULL: it went well */
typedef void driver_done_fn(const ProtobufCMessage *response, const struct error *err, void *userdata);

struct driver_request {
	enum driver_method method;
	const ProtobufCMessage *message; /* of the method's type, a stream's first one; not kept */
	uint64_t timeout_us;		 /* of a stream until it is accepted; 0: the method's */
	driver_message_fn *on_message;	 /* of a stream; else NULL */
	/* Of a stream: what waits to be sent was too much, and is not any more. NULL: nobody asks. */
	void (*on_drained)(void *userdata);
	driver_done_fn *done;
	void *userdata;
};

/** Make a call. STATUS_RESOURCE_EXHAUSTED when too many are in flight, STATUS_INVALID_ARGUMENT for a message
 * that is too large, STATUS_UNAVAILABLE while the client is being freed; then @done does not run.
 * @ret may be NULL; valid until @done ran */
enum status driver_call_start(struct driver_client *client, const struct driver_request *request,
			      struct driver_call **ret, struct error *err);

/** The next message of a stream, copied. STATUS_RESOURCE_EXHAUSTED when too much is unsent,
 * STATUS_UNAVAILABLE when it is about to end. */
enum status driver_call_send(struct driver_call *call, const ProtobufCMessage *message, struct error *err);

/** Does more wait to be sent than should? Then on_drained follows. */
bool driver_call_is_full(const struct driver_call *call);

/** Have messages of a stream wait at the driver, but for 1 MiB; or continue. */
void driver_call_pause(struct driver_call *call, bool is_paused);

/** Nothing more is sent on the stream. */
void driver_call_half_close(struct driver_call *call);

/** Forget it: @done does not run. The driver may have done it nevertheless. NULL is allowed. */
void driver_call_cancel(struct driver_call *call);

/** Did the call end because the driver did? */
static inline bool driver_is_shut_down(const struct error *err)
{
	return err->status == STATUS_UNAVAILABLE && err->sys_errno == ESHUTDOWN;
}
