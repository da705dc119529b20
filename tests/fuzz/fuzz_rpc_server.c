/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a client on a server's connection, in pieces as the input says: HTTP/2, HTTP/1.1 or neither.
 *
 * The input is pieces of one length byte and that many bytes; its first byte says whether the preface and the
 * settings of HTTP/2 are sent before. */

#include "base/cleanup.h"
#include "holdfast/v1/nodes.pb-c.h"
#include "holdfast/v1/volumes.pb-c.h"
#include "rpc/server.h"
#include "rpc/server_internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <systemd/sd-event.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_get(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__GetVolumeRequest *request = (const Holdfast__V1__GetVolumeRequest *)message;
	Holdfast__V1__GetVolumeResponse response;

	holdfast__v1__get_volume_response__init(&response);
	response.why = request->id;
	rpc_call_reply(call, &response.base);
}

static void on_open(struct rpc_call *call, void *userdata)
{
	++*(size_t *)userdata;
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	Holdfast__V1__SessionDown down;
	struct error err;

	holdfast__v1__session_down__init(&down);
	if (rpc_call_send(call, &down.base, &err) != STATUS_OK)
		rpc_call_fail(call, &err);
}

static void on_closed(struct rpc_call *call, void *userdata)
{
	--*(size_t *)userdata;
}

static const struct rpc_stream_handlers session = {
	.on_open = on_open, .on_message = on_message, .on_closed = on_closed};
static const struct rpc_method volumes[] = {{.name = "Get", .unary = on_get}};
static const struct rpc_method nodes[] = {{.name = "Session", .stream = &session}};
static const struct rpc_service services[] = {
	{&holdfast__v1__volumes__descriptor, volumes, ARRAY_SIZE(volumes)},
	{&holdfast__v1__nodes__descriptor, nodes, ARRAY_SIZE(nodes)},
};

static void on_text(struct rpc_call *call, void *userdata)
{
	rpc_call_reply_text(call, "text/plain", "text");
}

static const struct rpc_route routes[] = {
	{.method = "GET",
	 .pattern = "/v/{id}",
	 .service = "holdfast.v1.Volumes",
	 .call = "Get",
	 .index = "index"},
	{.method = "PUT", .pattern = "/v", .service = "holdfast.v1.Volumes", .call = "Get"},
	{.method = "GET", .pattern = "/m", .text = on_text},
};

/* Run what is due, and throw away what the server says. */
static void run(sd_event *event, int fd)
{
	char bytes[4096];

	while (sd_event_run(event, 0) > 0)
		;
	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static void feed(sd_event *event, int fd, const uint8_t *data, size_t size)
{
	static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

	if (data[0] & 1)
		(void)send(fd, preface, sizeof(preface) - 1, MSG_NOSIGNAL);
	for (size_t at = 1; at < size;) {
		size_t n = data[at++];

		if (n > size - at)
			n = size - at;
		(void)send(fd, data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		at += n;
		run(event, fd);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rpc_server_limits limits = {
		.message_bytes = 1000, .connection_bytes = 4000, .connections = 2, .calls = 4};
	const struct rpc_peer peer = {.kind = RPC_PEER_UNIX};
	struct rpc_server *server = NULL;
	sd_event *event = NULL;
	size_t open_streams = 0;
	struct error err;
	int fds[2];

	if (size < 2)
		return 0;
	if (sd_event_new(&event) < 0 ||
	    rpc_server_new(event, services, ARRAY_SIZE(services), &limits, &open_streams, &server, &err) !=
		    STATUS_OK ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0 ||
	    server_conn_new(server, fds[1], NULL, &peer, &err) != STATUS_OK)
		abort();
	rpc_server_set_routes(server, routes, ARRAY_SIZE(routes));
	run(event, fds[0]);
	feed(event, fds[0], data, size);
	(void)close(fds[0]);
	run(event, fds[0]);
	if (open_streams != 0 || server->n_conns != 0)
		abort();
	rpc_server_free(server);
	(void)sd_event_unref(event);
	return 0;
}
