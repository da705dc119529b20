#include "local.h"

#include "base/cleanup.h"
#include "rpc/server.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	SOCKET_MODE = 0660,
	CONNECTIONS_MAX = 64,
	CALLS_MAX = 16,
	MESSAGE_BYTES_MAX = 4096, /* requests are empty */
};

struct local {
	struct rpc_server *server;
	local_prepare_fn *prepare;
	local_report_fn *report;
	void *userdata;
};

DEFINE_CLEANUP(struct local, local_free)

enum status local_authorize(const struct rpc_peer *peer, uid_t self, struct error *err)
{
	if (peer->kind == RPC_PEER_UNIX && (peer->uid == 0 || peer->uid == self))
		return STATUS_OK;
	return error_set(
		err, STATUS_PERMISSION_DENIED, 0,
		"the agent's status is for root and for the agent's own user; run: sudo holdfast agent "
		"status");
}

static void answer(void *userdata)
{
	struct rpc_call *call = userdata;
	struct local *local = rpc_call_data(call);
	Holdfast__V1__GetAgentStatusResponse *response;
	struct error err;

	response = local->report(local->userdata);
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

	if (local_authorize(rpc_call_peer(call), geteuid(), &err) != STATUS_OK) {
		rpc_call_fail(call, &err);
		return;
	}
	rpc_call_set_data(call, local);
	if (!local->prepare(answer, call, local->userdata))
		answer(call);
}

static const struct rpc_method methods[] = {
	{.name = "Status", .unary = on_status},
};

static const struct rpc_service services[] = {
	{.descriptor = &holdfast__v1__agent__descriptor,
	 .methods = methods,
	 .n_methods = ARRAY_SIZE(methods)},
};

enum status local_new(sd_event *event, const char *path, local_prepare_fn *prepare, local_report_fn *report,
		      void *userdata, struct local **ret, struct error *err)
{
	const struct rpc_server_limits limits = {
		.message_bytes = MESSAGE_BYTES_MAX,
		.connections = CONNECTIONS_MAX,
		.calls = CALLS_MAX,
	};
	cleanup(local_freep) struct local *local = calloc(1, sizeof(*local));
	enum status status;

	if (!local)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot listen on %s", path);
	local->prepare = prepare;
	local->report = report;
	local->userdata = userdata;
	status = rpc_server_new(event, services, ARRAY_SIZE(services), &limits, local, &local->server, err);
	if (status == STATUS_OK)
		status = rpc_server_listen_unix(local->server, path, SOCKET_MODE, err);
	if (status != STATUS_OK)
		return status;
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
