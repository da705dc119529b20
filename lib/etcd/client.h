/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Calls to the members of an etcd, one of which takes them all until it fails.
 *
 * Nothing is sent twice here: only callers know what may be. After a failure that another member may not
 * have, the next call goes to the next one. A member that did not answer in time twice in a row gets a new
 * connection; until it answers, its calls have up to four times their time. */

#include "base/error.h"
#include "etcd/v3/etcd.pb-c.h"
#include "rpc/client.h"

enum { ETCD_ENDPOINTS_MAX = 16 };

struct etcd_client;

struct etcd_endpoints {
	const char *const *urls; /* "https://HOST:PORT", or "unix:/PATH" */
	size_t n;
	struct rpc_tls *tls; /* borrowed; NULL when all are unix sockets */
};

/* A call in flight, part of its caller's struct; zero before the first one. */
struct etcd_call {
	struct etcd_client *client;
	struct rpc_pending *pending; /* NULL: no call in flight */
	size_t endpoint;
	rpc_done_fn *done;
	void *userdata;
};

/** Is @url one of these? */
bool etcd_is_endpoint(const char *url);

/** @event borrowed. STATUS_INVALID_ARGUMENT for an invalid endpoint, too many, or an empty list. */
enum status etcd_client_new(sd_event *event, const struct etcd_endpoints *endpoints, struct etcd_client **ret,
			    struct error *err);

/** No call may be in flight. NULL is allowed. */
void etcd_client_free(struct etcd_client *client);

/** rpc_client_call() at the member that takes them now; @call must be idle, and is again before @done runs.
 */
enum status etcd_call_start(struct etcd_client *client, struct etcd_call *call,
			    const ProtobufCServiceDescriptor *service, const char *method,
			    const ProtobufCMessage *request, uint64_t timeout_us, rpc_done_fn *done,
			    void *userdata, struct error *err);

/** @done will not run. Does nothing for an idle call. */
void etcd_call_cancel(struct etcd_call *call);

/** The member that takes calls now, for a stream. It is another one after etcd_client_failed(), and may be
 * freed in the turn after that. */
struct rpc_client *etcd_client_member(const struct etcd_client *client, size_t *ret_endpoint);

/** How many endpoints there are. */
size_t etcd_client_n(const struct etcd_client *client);

/** The member of the @i-th endpoint, to ask it about itself. As that of etcd_client_member() it may be freed.
 */
struct rpc_client *etcd_client_at(const struct etcd_client *client, size_t i);

/** A call or stream of @endpoint failed with @status. */
void etcd_client_failed(struct etcd_client *client, size_t endpoint, enum status status);
