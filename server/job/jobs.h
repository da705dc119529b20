/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Handlers of the service Jobs. */

#include <protobuf-c/protobuf-c.h>

struct rpc_call;

enum {
	JOBS_MAX = 10000,
	JOBS_KEPT_FREE = JOBS_MAX / 10,
	JOB_MEMBERS_PER_NAMESPACE_MAX = 100000, /* of all its jobs that are not stopped */
};

void jobs_handle_run(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void jobs_handle_plan(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void jobs_handle_get(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void jobs_handle_list(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void jobs_handle_stop(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void jobs_handle_history(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void jobs_handle_revert(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void jobs_handle_scale(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void jobs_handle_restart(struct rpc_call *call, const ProtobufCMessage *request, void *server);
