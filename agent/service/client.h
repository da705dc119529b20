/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Calls to one service over its unix socket: a CSI plugin, or a task driver (docs/task-drivers.md). A row has
 * the differences between the two. One try per call: the caller decides whether to call again.
 *
 * Every call has a deadline of its own, since a service may never answer. Errors carry the service's code,
 * and name service, call and subject, with the service's text, control characters escaped and cut to size, as
 * str_make_one_reason() makes it.
 *
 * A driver may end in the middle of any call. After that its caller waits for the driver and recovers the
 * task, which it does not after a refusal. So every call of a kind that watches exits ends through one
 * mapper. A call that ends with UNAVAILABLE or CANCELLED waits up to SERVICE_EXIT_WAIT_MS for the exit of the
 * process that listens at the socket, or for service_client_exited(). If the exit is seen, the error is
 * always "driver shut down". If the caller's own time is over first, it is the caller's DEADLINE_EXCEEDED;
 * else it is the original error. */

#include "base/error.h"
#include "log/log.h"

#include <errno.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

enum {
	SERVICE_EXIT_WAIT_MS = 3000,
	SERVICE_REASON_MAX = 400, /* bytes of a service's message that are kept */
};

struct service_method {
	const char *name; /* "NodeStageVolume" */
	const ProtobufCServiceDescriptor *service;
	const ProtobufCMessageDescriptor *request;
	const ProtobufCMessageDescriptor *response;
	bool is_stream;	      /* of answers */
	bool is_about_health; /* may take a place that is kept */
	uint64_t
		timeout_us; /* of one try, of a stream until it is accepted; unless the caller knows better */
};

/* The differences between the kinds of services. */
struct service_kind {
	const char *noun; /* "plugin" */
	const struct service_method *methods;
	size_t calls_max;	/* in flight to one service */
	size_t calls_kept;	/* of those, only for methods about its health, which pass the others */
	size_t queue_max;	/* that wait for a place; 0: a call is sent at once, or refused */
	size_t queue_bytes_max; /* of all requests that wait */
	size_t request_max;	/* bytes */
	size_t message_max;	/* bytes of an answer, unless options have another limit */
	bool watches_exit;
	bool is_driver; /* log lines name a driver, else a plugin */
	/* If requests have subjects and secrets; else all are NULL. */
	ProtobufCMessage *(*copy)(const ProtobufCMessage *request); /* NULL: out of memory */
	void (*free)(ProtobufCMessage *request);
	/* Writes what the request is about: "volume pvc-1"; "": nothing in particular. */
	void (*subject)(const ProtobufCMessage *request, char *ret, size_t size);
	/* Writes the service's text on one line, without secrets of the request. */
	void (*clean)(const ProtobufCMessage *request, const char *text, char *ret, size_t size);
	/* Writes the message on one line, without secrets, for the debug log. */
	void (*print)(const ProtobufCMessage *message, char *ret, size_t size);
};

/** For a log line about the service called @name; NULL: about all of the kind. */
static inline struct log_ctx service_log_ctx(const struct service_kind *kind, const char *name)
{
	return (struct log_ctx){
		.op = kind->noun,
		.plugin = kind->is_driver ? NULL : name,
		.driver = kind->is_driver ? name : NULL,
	};
}

struct service_client;
struct service_call;

struct service_client_options {
	const char *name;	  /* of the service, copied, for messages */
	const char *socket;	  /* copied */
	size_t message_bytes;	  /* largest answer; 0: the kind's */
	uint64_t call_timeout_us; /* limit of each call, for every method; 0: the method's */
	uint64_t exit_wait_us;	  /* 0: SERVICE_EXIT_WAIT_MS */
	/* An established connection has ended, and not by service_client_free(): after its calls have ended,
	 * from the event loop. May free the client. May be NULL. */
	void (*on_lost)(void *userdata);
	void *userdata;
};

/** @event, @kind borrowed. Nothing is dialled before the first call. @ret owned by the caller */
enum status service_client_new(sd_event *event, const struct service_kind *kind,
			       const struct service_client_options *options, struct service_client **ret,
			       struct error *err);

/** Calls in flight, and those that wait, end with STATUS_UNAVAILABLE before this returns; as "shut down" if
 * the service is known to be gone. NULL is allowed. */
void service_client_free(struct service_client *client);

/** The service is known to be gone, by its socket for instance, until it answers again. Only a kind that
 * watches exits notes it. */
void service_client_exited(struct service_client *client);

/** A message of a stream, borrowed for the duration of the call: the next one is read when this is back. It
 * may cancel the call, and may not free the client. */
typedef void service_message_fn(const ProtobufCMessage *message, void *userdata);

/** The end, once; the call is gone afterwards. Never inside service_call_start(). May free the client.
 * @response borrowed for the duration of the call, of the method's type; NULL of a stream, and with @err
 * @err      NULL: it went well */
typedef void service_done_fn(const ProtobufCMessage *response, const struct error *err, void *userdata);

struct service_request {
	unsigned int method;		 /* of the kind */
	const ProtobufCMessage *message; /* of the method's type, a stream's first one; not kept */
	uint64_t timeout_us;		 /* from now on, time in the queue included; 0: the method's */
	service_message_fn *on_message;	 /* of a stream; else NULL */
	/* The stream takes messages again, after service_call_is_full(). May be NULL. */
	void (*on_drained)(void *userdata);
	service_done_fn *done;
	void *userdata;
};

/** Make a call. STATUS_RESOURCE_EXHAUSTED when too many wait or are in flight, STATUS_INVALID_ARGUMENT for a
 * message that is too large, STATUS_UNAVAILABLE while the client is being freed; then @done does not run.
 * @ret may be NULL; valid until @done ran */
enum status service_call_start(struct service_client *client, const struct service_request *request,
			       struct service_call **ret, struct error *err);

/** The next message of a stream, copied. STATUS_RESOURCE_EXHAUSTED when too much is unsent,
 * STATUS_UNAVAILABLE when it is about to end. */
enum status service_call_send(struct service_call *call, const ProtobufCMessage *message, struct error *err);

/** Does more wait to be sent than should? Then on_drained follows. */
bool service_call_is_full(const struct service_call *call);

/** Have messages of a stream wait at the service, but for 1 MiB; or continue. */
void service_call_pause(struct service_call *call, bool is_paused);

/** Forget it: @done does not run. The service may have done it nevertheless. NULL is allowed. */
void service_call_cancel(struct service_call *call);

/** Did the call end because the service did? */
static inline bool service_is_shut_down(const struct error *err)
{
	return err->status == STATUS_UNAVAILABLE && err->sys_errno == ESHUTDOWN;
}

struct service_stats {
	size_t in_flight;
	size_t waiting;
	uint64_t calls;		 /* ever started */
	uint64_t failed;	 /* of those, ended without a response */
	int64_t oldest_since_ms; /* wall clock, of the oldest call in flight; 0: no call */
	const char *oldest_name; /* its method; NULL: nothing is */
};

void service_client_stats(const struct service_client *client, struct service_stats *ret);

/** Returns the process that serves the current connection; 0: no connection, or not known. */
pid_t service_client_peer(const struct service_client *client);
