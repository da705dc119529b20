#include "services.h"

#include "access.h"
#include "allocs.h"
#include "attest.h"
#include "claim_grant.h"
#include "drain.h"
#include "nodes.h"
#include "plugins.h"
#include "server.h"
#include "sessions.h"
#include "volumes.h"

#include "base/cleanup.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>

static void handle_operator_status(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	struct server *server = userdata;
	Holdfast__V1__GetStatusResponse response = HOLDFAST__V1__GET_STATUS_RESPONSE__INIT;
	char version[] = HOLDFAST_VERSION;
	uint8_t key[TICKET_KEY_SIZE];
	struct error err;

	(void)request;
	if (access_operator(rpc_call_peer(call), server->config.cluster, server->config.dev, NULL, &err) !=
	    STATUS_OK) {
		rpc_call_fail(call, &err);
		return;
	}
	ticket_issuer_public_key(server->issuer, key);
	response.version = version;
	response.cluster = server->config.cluster;
	response.index = kv_revision(server->kv);
	response.volumes = (uint32_t)server->state.n_volumes;
	response.nodes = (uint32_t)server->state.n_nodes;
	response.nodes_ready = (uint32_t)server->state.n_connected;
	response.allocations = (uint32_t)server->state.n_allocs;
	response.claims = (uint32_t)server->state.n_claims;
	response.ticket_key = (ProtobufCBinaryData){.len = sizeof(key), .data = key};
	rpc_call_reply(call, &response.base);
}

static const struct rpc_method volumes_methods[] = {
	{.name = "Register", .unary = volumes_handle_register},
	{.name = "Get", .unary = volumes_handle_get},
	{.name = "List", .unary = volumes_handle_list},
	{.name = "Deregister", .unary = volumes_handle_deregister},
	{.name = "Detach", .unary = volumes_handle_detach},
	{.name = "Claim", .unary = claim_grant_handle},
};

static const struct rpc_method nodes_methods[] = {
	{.name = "Session", .stream = &sessions_stream},
	{.name = "Get", .unary = nodes_handle_get},
	{.name = "List", .unary = nodes_handle_list},
	{.name = "SetEligibility", .unary = nodes_handle_set_eligibility},
	{.name = "Drain", .unary = drain_handle},
	{.name = "Purge", .unary = nodes_handle_purge},
	{.name = "Attest", .unary = attest_handle},
};

static const struct rpc_method plugins_methods[] = {
	{.name = "Get", .unary = plugins_handle_get},
	{.name = "List", .unary = plugins_handle_list},
};

static const struct rpc_method allocs_methods[] = {
	{.name = "Run", .unary = allocs_handle_run},
	{.name = "Stop", .unary = allocs_handle_stop},
	{.name = "Get", .unary = allocs_handle_get},
	{.name = "List", .unary = allocs_handle_list},
};

static const struct rpc_method operator_methods[] = {
	{.name = "Status", .unary = handle_operator_status},
};

const struct rpc_service services[] = {
	{&holdfast__v1__volumes__descriptor, volumes_methods, ARRAY_SIZE(volumes_methods)},
	{&holdfast__v1__nodes__descriptor, nodes_methods, ARRAY_SIZE(nodes_methods)},
	{&holdfast__v1__plugins__descriptor, plugins_methods, ARRAY_SIZE(plugins_methods)},
	{&holdfast__v1__allocations__descriptor, allocs_methods, ARRAY_SIZE(allocs_methods)},
	{&holdfast__v1__operator__descriptor, operator_methods, ARRAY_SIZE(operator_methods)},
};
const size_t n_services = ARRAY_SIZE(services);
