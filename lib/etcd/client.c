/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/client.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "rpc/address.h"

#include <assert.h>
#include <string.h>

enum {
	MESSAGE_BYTES = 16 << 20,
	LATE_MAX =
		2, /* a connection with so many late calls is given up, and so often is a time-out doubled */
};

struct member {
	struct etcd_client *client;
	struct rpc_client *rpc;
	sd_event_source *renewal; /* deferred; enabled: its connection is given up */
	char *unix_path;	  /* NULL: the address */
	struct rpc_address address;
	unsigned int n_late; /* calls without an answer in time, since one had an answer */
};

struct etcd_client {
	sd_event *event;     /* borrowed */
	struct rpc_tls *tls; /* borrowed */
	struct member members[ETCD_ENDPOINTS_MAX];
	size_t n;
	size_t current;
};

/* --- endpoints --- */

/* @ret_path is that of a socket, or NULL: it is @ret_address. */
static bool parse_url(const char *url, const char **ret_path, struct rpc_address *ret_address)
{
	static const char https[] = "https://";

	*ret_path = str_starts_with(url, "unix:/") ? url + strlen("unix:") : NULL;
	return *ret_path ||
	       (str_starts_with(url, https) && rpc_address_parse(url + strlen(https), ret_address) == 0);
}

bool etcd_is_endpoint(const char *url)
{
	struct rpc_address address;
	const char *path;

	return parse_url(url, &path, &address);
}

static enum status read_url(struct member *member, const char *url, struct error *err)
{
	const char *path;

	if (!parse_url(url, &path, &member->address) || (!path && !member->client->tls))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "etcd: \"%s\" is no endpoint: https://HOST:PORT, with a certificate, or "
				 "unix:/PATH",
				 url);
	member->unix_path = path ? strdup(path) : NULL;
	return !path || member->unix_path ? STATUS_OK
					  : error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "etcd %s", url);
}

static enum status connect_member(struct member *member, struct rpc_client **ret, struct error *err)
{
	const struct rpc_endpoint endpoint = {
		.unix_path = member->unix_path,
		.host = member->address.host,
		.port = member->address.port,
		.tls = member->client->tls,
		.message_bytes = MESSAGE_BYTES,
	};

	return rpc_client_new(member->client->event, &endpoint, ret, err);
}

/* Calls in flight on the old connection end, and their callbacks may call again. */
static int on_renewal(sd_event_source *source, void *userdata)
{
	struct member *member = userdata;
	struct rpc_client *old = member->rpc;

	if (connect_member(member, &member->rpc, NULL) == STATUS_OK)
		rpc_client_free(old);
	return 0;
}

static enum status add_member(struct etcd_client *client, const char *url, struct error *err)
{
	struct member *member = &client->members[client->n];
	int r;

	*member = (struct member){.client = client};
	TRY(read_url(member, url, err));
	client->n++;
	r = sd_event_add_defer(client->event, &member->renewal, on_renewal, member);
	if (r >= 0)
		r = sd_event_source_set_enabled(member->renewal, SD_EVENT_OFF);
	return r < 0 ? error_set(err, status_from_errno(r), r, "etcd %s", url)
		     : connect_member(member, &member->rpc, err);
}

enum status etcd_client_new(sd_event *event, const struct etcd_endpoints *endpoints, struct etcd_client **ret,
			    struct error *err)
{
	struct etcd_client *client;
	enum status status = STATUS_OK;

	if (endpoints->n == 0 || endpoints->n > ETCD_ENDPOINTS_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "etcd: %zu endpoints; 1 to %d are needed",
				 endpoints->n, ETCD_ENDPOINTS_MAX);
	client = malloc(sizeof(*client));
	if (!client)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "etcd");
	*client = (struct etcd_client){.event = event, .tls = endpoints->tls};
	for (size_t i = 0; i < endpoints->n && status == STATUS_OK; i++)
		status = add_member(client, endpoints->urls[i], err);
	if (status != STATUS_OK) {
		etcd_client_free(client);
		return status;
	}
	*ret = client;
	return STATUS_OK;
}

void etcd_client_free(struct etcd_client *client)
{
	if (!client)
		return;
	for (size_t i = 0; i < client->n; i++) {
		struct member *member = &client->members[i];

		(void)sd_event_source_disable_unref(member->renewal);
		rpc_client_free(member->rpc);
		free(member->unix_path);
	}
	free(client);
}

/* --- calls --- */

struct rpc_client *etcd_client_member(const struct etcd_client *client, size_t *ret_endpoint)
{
	*ret_endpoint = client->current;
	return client->members[client->current].rpc;
}

size_t etcd_client_n(const struct etcd_client *client)
{
	return client->n;
}

struct rpc_client *etcd_client_at(const struct etcd_client *client, size_t i)
{
	assert(i < client->n);
	return client->members[i].rpc;
}

void etcd_client_failed(struct etcd_client *client, size_t endpoint, enum status status)
{
	if (status != STATUS_UNAVAILABLE && status != STATUS_DEADLINE_EXCEEDED)
		return;
	if (status == STATUS_DEADLINE_EXCEEDED && ++client->members[endpoint].n_late % LATE_MAX == 0)
		(void)sd_event_source_set_enabled(client->members[endpoint].renewal, SD_EVENT_ONESHOT);
	if (endpoint == client->current)
		client->current = (endpoint + 1) % client->n;
}

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	struct etcd_call *call = userdata;

	call->pending = NULL;
	if (status == STATUS_OK)
		call->client->members[call->endpoint].n_late = 0;
	etcd_client_failed(call->client, call->endpoint, status);
	call->done(status, response, err, call->userdata);
}

/* A member that is slow is not asked more often because it is: it gets more time. */
static uint64_t patience_us(const struct member *member, uint64_t timeout_us)
{
	return timeout_us << (member->n_late < LATE_MAX ? member->n_late : LATE_MAX);
}

enum status etcd_call_start(struct etcd_client *client, struct etcd_call *call,
			    const ProtobufCServiceDescriptor *service, const char *method,
			    const ProtobufCMessage *request, uint64_t timeout_us, rpc_done_fn *done,
			    void *userdata, struct error *err)
{
	struct rpc_client *member;

	assert(!call->pending);
	*call = (struct etcd_call){.client = client, .done = done, .userdata = userdata};
	member = etcd_client_member(client, &call->endpoint);
	return rpc_client_call(member, service, method, request,
			       patience_us(&client->members[call->endpoint], timeout_us), on_done, call,
			       &call->pending, err);
}

void etcd_call_cancel(struct etcd_call *call)
{
	if (call->pending)
		rpc_pending_cancel(call->pending);
	call->pending = NULL;
}
