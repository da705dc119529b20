/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Calls to one CSI plugin over its unix socket. One try per call: the caller decides whether to call again,
 * by csi_is_passing().
 *
 * Every call has a deadline of its own, since a plugin may never answer; at most CSI_CALLS_MAX are in flight
 * at a time, the others wait in their order. Errors carry the plugin's code, and say plugin, call, volume and
 * the plugin's text, with control characters escaped and cut to size. Requests and answers are logged at
 * level debug with secrets and mount flags as [redacted]. */

#include "base/error.h"
#include "csi/csi_method.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

enum {
	CSI_CALLS_MAX = 16,   /* in flight per plugin; a plugin with a fixed pool must keep room for Probe */
	CSI_CALLS_KEPT = 1,   /* of those, only for calls of the service Identity, which pass the others */
	CSI_QUEUE_MAX = 1024, /* that wait */
	CSI_MESSAGE_MAX = 4 << 20,	/* default of plugin_message_max: largest answer in bytes */
	CSI_REQUEST_MAX = 4 << 20,	/* largest request in bytes: what gRPC servers take */
	CSI_QUEUE_BYTES_MAX = 16 << 20, /* of all requests that wait */
	CSI_TEXT_MAX = 400,		/* bytes of a plugin's message that are kept */
};

struct csi_client;
struct csi_call;

struct csi_client_options {
	const char *plugin_id;	  /* copied, for messages */
	const char *socket;	  /* copied */
	size_t message_bytes;	  /* largest answer; 0: CSI_MESSAGE_MAX */
	uint64_t call_timeout_us; /* no call takes longer by itself than this, whatever its method; 0: the
				     method's */
	/* A connection that stood has ended, and not by csi_client_free(): after its calls have ended, from
	 * the event loop. May free the client. NULL: nobody asks. */
	void (*on_lost)(void *userdata);
	void *userdata;
};

/** @event borrowed. Nothing is dialled before the first call. @ret owned by the caller, csi_client_free() */
enum status csi_client_new(sd_event *event, const struct csi_client_options *options, struct csi_client **ret,
			   struct error *err);

/** Calls in flight, and those that wait, end with STATUS_UNAVAILABLE before this returns. NULL is allowed. */
void csi_client_free(struct csi_client *client);

/** @response borrowed for the duration of the call, of the method's type; NULL when @err says why there is
 * none. An answer after the deadline, or a second one, is dropped. Never runs inside csi_call_start(). */
typedef void csi_done_fn(const ProtobufCMessage *response, const struct error *err, void *userdata);

/** Make a call.
 * @request    of the method's type; not kept
 * @timeout_us from now on, time in the queue included; 0: the method's
 * @ret        may be NULL; valid until @done ran
 * STATUS_RESOURCE_EXHAUSTED when too many wait, STATUS_INVALID_ARGUMENT for a request that is too large,
 * STATUS_UNAVAILABLE while the client is being freed; then @done does not run. */
enum status csi_call_start(struct csi_client *client, enum csi_method method, const ProtobufCMessage *request,
			   uint64_t timeout_us, csi_done_fn *done, void *userdata, struct csi_call **ret,
			   struct error *err);

/** Forget it: @done does not run. The plugin may have done it nevertheless. NULL is allowed. */
void csi_call_cancel(struct csi_call *call);

struct csi_client_stats {
	size_t in_flight;
	size_t waiting;
	uint64_t calls;		 /* ever started */
	uint64_t failed;	 /* of those, ended without a response */
	int64_t oldest_since_ms; /* wall clock, of what is in flight longest; 0: nothing is */
	const char *oldest_name; /* its method; NULL: nothing is */
};

/** The process that serves the connection that stands; 0: none, or not known. */
pid_t csi_client_peer(const struct csi_client *client);

void csi_client_stats(const struct csi_client *client, struct csi_client_stats *ret);
