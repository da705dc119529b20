/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The service Volumes but Claim, which is claim/grant.h's. One file per method or two that belong together.
 */

#include "base/error.h"
#include "rpc/server.h"
#include "state/state.h"
#include "volume/work.h"

#include <protobuf-c/protobuf-c.h>

struct server;

void volumes_handle_get(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void volumes_handle_list(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void volumes_handle_register(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void volumes_handle_create(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void volumes_handle_deregister(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void volumes_handle_delete(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void volumes_handle_expand(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void volumes_handle_detach(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void volumes_handle_list_external(struct rpc_call *call, const ProtobufCMessage *request, void *server);

enum {
	VOLUMES_PER_PAGE_MAX = 10000,
	VOLUMES_LOOK_AT_MAX = 5000, /* volumes that the filter of one page is asked about */
};

/* Shared by the methods. */

/* A call about one volume that waits for its change to be durable. */
struct volumes_waiting {
	struct rpc_call *call;
	char namespace[NAMESPACE_MAX + 1];
	char id[VOLUME_ID_MAX + 1];
	char node_id[NODE_ID_MAX + 1];			  /* detach */
	bool created;					  /* register, create */
	bool secrets_replaced;				  /* register, create */
	bool dry_run;					  /* detach */
	uint64_t since;					  /* detach: the revision before it */
	bool without_plugin;				  /* detach */
	char left_at_provider[VOLUME_PROVIDER_NAME_SIZE]; /* deregister; "": it was not being created */
};

/** NULL when memory is short; change_commit_taking() takes care of that. */
struct volumes_waiting *volumes_waiting_new(struct rpc_call *call, const struct volume *volume);
