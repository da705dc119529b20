#pragma once
/* Reading nodes. Handlers of the service Nodes; the session is in sessions.h. */

#include <protobuf-c/protobuf-c.h>

struct rpc_call;

void nodes_handle_get(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void nodes_handle_list(struct rpc_call *call, const ProtobufCMessage *request, void *server);
