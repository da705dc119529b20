/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One connection, one call at a time: what a command needs of a server or an agent. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "command/command.h"

#include <protobuf-c/protobuf-c.h>
#include <systemd/sd-event.h>

struct connection;
struct rpc_client;

#define CALL_TIMEOUT_US (30 * USEC_PER_SEC)

/** To the claim server, or to the agent of this machine. Dialling is left to the first call.
 * @ret owned by the caller, connection_free() */
enum status connect_server(struct invocation *inv, struct connection **ret, struct error *err);
enum status connect_agent(struct invocation *inv, struct connection **ret, struct error *err);

void connection_free(struct connection *connection);
DEFINE_CLEANUP(struct connection, connection_free)

/** For those who call more than one method at a time; borrowed. */
sd_event *connection_event(struct connection *connection);
struct rpc_client *connection_client(struct connection *connection);

/** Calls @method and waits for the answer. Stores the details of a refusal in the invocation.
 * @ret owned by the caller, protobuf_c_message_free_unpacked() */
enum status connection_call(struct connection *connection, const ProtobufCServiceDescriptor *service,
			    const char *method, const ProtobufCMessage *request, uint64_t timeout_us,
			    void *ret, struct error *err);

/** As connection_call(), for what takes longer than a person expects: until --timeout, or @timeout_us without
 * it, with a line of progress on a terminal.
 * @doing "creating volume db" */
enum status connection_call_long(struct connection *connection, struct invocation *inv,
				 const ProtobufCServiceDescriptor *service, const char *method,
				 const ProtobufCMessage *request, uint64_t timeout_us, const char *doing,
				 void *ret, struct error *err);

/** Add the next command to the error of the call that ended last, if no server answered it. connection_call()
 * does so itself. */
void connection_explain(const struct connection *connection, struct error *err);

struct connection_stream {
	const ProtobufCServiceDescriptor *service;
	const char *method;
	const ProtobufCMessage *request; /* the only one */
	uint64_t timeout_us;		 /* 0: until the server ends it; the end by time is success */

	/** Take a message; anything but STATUS_OK ends the stream. */
	enum status (*on_message)(const ProtobufCMessage *message, void *userdata, struct error *err);
	void *userdata;
};

/** Open a stream, send its request and hand on what comes until it ends. */
enum status connection_stream(struct connection *connection, const struct connection_stream *stream,
			      struct error *err);

/* Variables that own a message. */
static inline void message_freep(void *message)
{
	protobuf_c_message_free_unpacked(*(ProtobufCMessage **)message, NULL);
}

#define cleanup_message cleanup(message_freep)
#define cleanup_connection cleanup(connection_freep)
