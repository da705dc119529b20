/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Nodes: their attributes, their eligibility, and their removal. Handlers of the service Nodes; the
 * session is in session.h, drains are in drain.h, operators' attestations in attest.h. */

#include "access/access.h"
#include "base/error.h"
#include "state/state.h"

#include <holdfast/v1/types.pb-c.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

struct rpc_call;
struct server;

void nodes_handle_get(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void nodes_handle_list(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void nodes_handle_set_eligibility(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void nodes_handle_identify(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void nodes_handle_purge(struct rpc_call *call, const ProtobufCMessage *request, void *server);

/** Namespaces whose work on a node the caller may see. */
struct nodes_sight {
	bool has_jobs, has_volumes; /* in some namespace */
	struct access_scope jobs, volumes;
};

void nodes_sight_init(struct server *server, const struct rpc_call *call, struct nodes_sight *ret);
bool nodes_sees_claim(struct nodes_sight *sight, const char *namespace);

/** Replaces the machines in @view, on the heap, by their codes. False when memory is short. */
bool nodes_hide_machines(struct server *server, Holdfast__V1__Node *view);

/** As it is shown. Owned by the caller; NULL when memory is short. */
Holdfast__V1__Node *nodes_view(struct server *server, const struct node_entry *node,
			       struct nodes_sight *sight);
