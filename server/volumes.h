#pragma once
/* Volumes: registration, reading, deregistration, detach by an operator. Handlers of the service Volumes. */

#include <protobuf-c/protobuf-c.h>

struct rpc_call;

void volumes_handle_register(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void volumes_handle_get(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void volumes_handle_list(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void volumes_handle_deregister(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void volumes_handle_detach(struct rpc_call *call, const ProtobufCMessage *request, void *server);
