/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Granting claims: admission_check() of lib/model decides; then the controller attaches the volume where
 * it must, and the node gets the answer. */

#include <protobuf-c/protobuf-c.h>

enum { PUBLISH_CONTEXT_MAX = 16 * 1024 }; /* bytes on the wire; CSI allows 4096 */

struct server;
struct rpc_call;

/** Volumes.Claim, by a node for one of its allocations. */
void claim_grant_handle(struct rpc_call *call, const ProtobufCMessage *request, void *server);
