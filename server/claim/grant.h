/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Granting claims. Who may have one is decided by admission_check() of lib/model. */

#include "base/error.h"
#include "model/alloc.h"

#include <protobuf-c/protobuf-c.h>

struct server;
struct rpc_call;

/** Volumes.Claim, by a node for one of its allocations. */
void claim_grant_handle(struct rpc_call *call, const ProtobufCMessage *request, void *server);

/** Would the volume be granted to this allocation now? For submissions: the decision falls when the node
 * claims. */
enum status claim_grant_check(struct server *server, const struct alloc *alloc,
			      const struct volume_request *request, struct error *err);
