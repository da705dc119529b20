/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/client.h"

#include "base/cleanup.h"
#include "rpc/bearer.h"
#include "rpc/client_internal.h"

#include <assert.h>
#include <string.h>

enum { MESSAGE_BYTES = 4 * 1024 * 1024 };

static void client_release(struct rpc_client *client)
{
	poller_free(client->poller);
	free(client->unix_path);
	free(client->host);
	free(client->server_uri);
	if (client->authorization)
		explicit_bzero(client->authorization, strlen(client->authorization));
	free(client->authorization);
	details_release(&client->details);
	free(client);
}

DEFINE_CLEANUP(struct rpc_client, client_release)

static bool copy_text(char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return !text || *ret;
}

static enum status set_token(struct rpc_client *client, const char *token, struct error *err)
{
	if (!token)
		return STATUS_OK;
	if (!bearer_is_token((const uint8_t *)token, strlen(token)))
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"the token is none: it has 1 to %d letters, digits and characters of -._~+/=",
			BEARER_MAX);
	return asprintf(&client->authorization, "Bearer %s", token) < 0
		       ? error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "make a client")
		       : STATUS_OK;
}

static void set_name(struct rpc_client *client)
{
	if (client->unix_path)
		(void)snprintf(client->name, sizeof(client->name), "unix:%s", client->unix_path);
	else
		(void)snprintf(client->name, sizeof(client->name),
			       strchr(client->host, ':') ? "[%s]:%u" : "%s:%u", client->host, client->port);
}

enum status rpc_client_new(sd_event *event, const struct rpc_endpoint *endpoint, struct rpc_client **ret,
			   struct error *err)
{
	cleanup(client_releasep) struct rpc_client *client = malloc(sizeof(*client));
	enum status st;
	int r;

	assert(endpoint->unix_path || (endpoint->host && endpoint->tls));
	if (!client)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "make a client");
	*client = (struct rpc_client){
		.event = event,
		.port = endpoint->port,
		.tls = endpoint->tls,
		.message_bytes = endpoint->message_bytes ? endpoint->message_bytes : MESSAGE_BYTES,
		.on_lost = endpoint->on_lost,
		.userdata = endpoint->userdata,
		.timing = client_timing_default,
		.conns = LIST_HEAD_INITIALIZER(client->conns),
		.calls = LIST_HEAD_INITIALIZER(client->calls),
	};
	r = poller_new(event, &client->poller);
	if (r < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "make a client");
	if (!copy_text(&client->unix_path, endpoint->unix_path) ||
	    !copy_text(&client->host, endpoint->host) ||
	    !copy_text(&client->server_uri, endpoint->server_uri))
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "make a client");
	st = set_token(client, endpoint->token, err);
	if (st != STATUS_OK)
		return st;
	set_name(client);
	*ret = TAKE_PTR(client);
	return STATUS_OK;
}

void rpc_client_free(struct rpc_client *client)
{
	struct error err;

	if (!client || client->closing)
		return;
	client->closing = true;
	(void)error_set(&err, STATUS_CANCELLED, 0, "the client of %s is closed", client->name);
	while (!LIST_EMPTY(&client->calls))
		client_call_end(LIST_FIRST(&client->calls), STATUS_CANCELLED, &err);
	while (!LIST_EMPTY(&client->conns))
		client_conn_close(LIST_FIRST(&client->conns), &err);
	client_release(client);
}

void rpc_client_set_keepalive(struct rpc_client *client, uint64_t us)
{
	const struct client_timing *least = &client_timing_default;

	client->timing.keepalive_us = us > least->keepalive_us ? us : least->keepalive_us;
	client->timing.silence_us = 2 * us > least->silence_us ? 2 * us : least->silence_us;
}

ProtobufCMessage *rpc_client_details(const struct rpc_client *client,
				     const ProtobufCMessageDescriptor *descriptor)
{
	const struct details *details = &client->details;

	return details->bytes ? protobuf_c_message_unpack(descriptor, NULL, details->n, details->bytes)
			      : NULL;
}

pid_t rpc_client_peer(const struct rpc_client *client)
{
	return client->current && client->current->up ? client->current->peer : 0;
}

const char *rpc_client_said(const struct rpc_client *client)
{
	return client->has_said ? client->said : NULL;
}
