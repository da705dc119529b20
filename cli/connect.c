#include "connect.h"

#include "settings.h"

#include "rpc/client.h"

#include <assert.h>
#include <stdlib.h>

struct connection {
	sd_event *event;
	struct rpc_tls *tls; /* NULL for the agent */
	struct rpc_client *client;
};

void connection_free(struct connection *connection)
{
	if (!connection)
		return;
	rpc_client_free(connection->client);
	rpc_tls_free(connection->tls);
	sd_event_unref(connection->event);
	free(connection);
}

static enum status connection_new(struct connection **ret, struct error *err)
{
	cleanup_connection struct connection *connection = calloc(1, sizeof(*connection));
	int r;

	if (!connection)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "connect");
	r = sd_event_new(&connection->event);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "make an event loop");
	*ret = TAKE_PTR(connection);
	return STATUS_OK;
}

/* Finish a connection to @endpoint. */
static enum status open_client(struct connection *connection, const struct rpc_endpoint *endpoint,
			       struct error *err)
{
	assert(connection);
	return rpc_client_new(connection->event, endpoint, &connection->client, err);
}

static enum status open_server(struct connection *connection, const struct server_settings *settings,
			       struct error *err)
{
	const struct rpc_tls_files files = {
		.ca = settings->ca,
		.cert = settings->cert[0] ? settings->cert : NULL,
		.key = settings->key[0] ? settings->key : NULL,
	};
	struct rpc_endpoint endpoint = {
		.host = settings->host,
		.port = settings->port,
		.server_uri = settings->server_uri,
	};
	enum status status;

	assert(connection);
	status = rpc_tls_new(&files, &connection->tls, err);
	endpoint.tls = connection->tls;
	return status == STATUS_OK ? open_client(connection, &endpoint, err) : status;
}

enum status connect_server(struct invocation *inv, struct connection **ret, struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	struct server_settings settings;
	enum status status = server_settings_resolve(inv, &settings, err);

	if (status == STATUS_OK)
		status = connection_new(&connection, err);
	if (status == STATUS_OK)
		status = open_server(connection, &settings, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(connection);
	return status;
}

enum status connect_agent(struct invocation *inv, struct connection **ret, struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	struct rpc_endpoint endpoint = {.unix_path = agent_socket_path(inv)};
	enum status status = connection_new(&connection, err);

	if (status == STATUS_OK)
		status = open_client(connection, &endpoint, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(connection);
	return status;
}

enum status connection_call(struct connection *connection, const ProtobufCServiceDescriptor *service,
			    const char *method, const ProtobufCMessage *request, uint64_t timeout_us,
			    ProtobufCMessage **ret, struct error *err)
{
	return rpc_client_call_sync(connection->client, service, method, request, timeout_us, ret, err);
}
