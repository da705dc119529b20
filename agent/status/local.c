/* SPDX-License-Identifier: Apache-2.0 */
#include "status/local.h"

#include "base/cleanup.h"
#include "rpc/server.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	SOCKET_MODE = 0660,
	CONNECTIONS_MAX = 64,
	USER_CONNECTIONS_MAX = 16,
	CALLS_MAX = 16,
	MESSAGE_BYTES_MAX = 4096, /* requests are numbers */
};

struct local {
	struct rpc_server *server;
	const struct local_handlers *handlers;
	void *userdata;
};

DEFINE_CLEANUP(struct local, local_free)

enum status local_authorize(const struct rpc_peer *peer, uid_t self, const char *command, struct error *err)
{
	if (peer->kind == RPC_PEER_UNIX && (peer->uid == 0 || peer->uid == self))
		return STATUS_OK;
	return error_set(
		err, STATUS_PERMISSION_DENIED, 0,
		"the agent's socket is for root and for the agent's own user; run: sudo holdfast agent %s",
		command);
}

static void answer(void *userdata)
{
	struct rpc_call *call = userdata;
	struct local *local = rpc_call_data(call);
	Holdfast__V1__GetAgentStatusResponse *response;
	struct error err;

	response = local->handlers->report(local->userdata);
	if (!response) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot report the agent's status");
		rpc_call_fail(call, &err);
		return;
	}
	rpc_call_reply(call, &response->base);
	protobuf_c_message_free_unpacked(&response->base, NULL);
}

static void on_status(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	struct local *local = userdata;
	struct error err;

	if (local_authorize(rpc_call_peer(call), geteuid(), "status", &err) != STATUS_OK) {
		rpc_call_fail(call, &err);
		return;
	}
	rpc_call_set_data(call, local);
	if (!local->handlers->prepare(answer, call, local->userdata))
		answer(call);
}

static void on_drain(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	struct local *local = userdata;
	Holdfast__V1__DrainAgentResponse *response = NULL;
	enum status status;
	struct error err;

	status = local_authorize(rpc_call_peer(call), geteuid(), "drain", &err);
	if (status == STATUS_OK)
		status = local->handlers->drain((const Holdfast__V1__DrainAgentRequest *)request, &response,
						local->userdata, &err);
	if (status != STATUS_OK) {
		rpc_call_fail(call, &err);
		return;
	}
	rpc_call_reply(call, &response->base);
	protobuf_c_message_free_unpacked(&response->base, NULL);
}

static const struct rpc_method methods[] = {
	{.name = "Status", .unary = on_status},
	{.name = "Drain", .unary = on_drain},
};

static const struct rpc_service services[] = {
	{.descriptor = &holdfast__v1__agent__descriptor,
	 .methods = methods,
	 .n_methods = ARRAY_SIZE(methods)},
};

enum status local_new(sd_event *event, const char *path, const struct local_handlers *handlers,
		      void *userdata, struct local **ret, struct error *err)
{
	const struct rpc_server_limits limits = {
		.message_bytes = MESSAGE_BYTES_MAX,
		.connections = CONNECTIONS_MAX,
		.per_user = USER_CONNECTIONS_MAX,
		.calls = CALLS_MAX,
	};
	cleanup(local_freep) struct local *local = calloc(1, sizeof(*local));

	if (!local)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot listen on %s", path);
	local->handlers = handlers;
	local->userdata = userdata;
	TRY(rpc_server_new(event, services, ARRAY_SIZE(services), &limits, local, &local->server, err));
	TRY(rpc_server_listen_unix(local->server, path, SOCKET_MODE, err));
	*ret = TAKE_PTR(local);
	return STATUS_OK;
}

void local_free(struct local *local)
{
	if (!local)
		return;
	rpc_server_free(local->server);
	free(local);
}
