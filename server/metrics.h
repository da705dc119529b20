/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The metrics in the text format of Prometheus. They come from counts that are kept anyway: the cost does
 * not depend on how many claims, volumes and allocations there are, but on the numbers of sessions and of
 * instances of plugins of which a fact has changed. The sweep of release.c counts the parties that claims
 * wait for, in slices, at some microseconds for each claim. */

#include <protobuf-c/protobuf-c.h>

struct rpc_call;
struct strbuf;
struct server;

/* Operator.Metrics. */
void metrics_handle_get(struct rpc_call *call, const ProtobufCMessage *request, void *server);

/** GET /metrics, for those who may read as an operator. */
void metrics_handle(struct rpc_call *call, void *server);

/** Write them. */
void metrics_print(struct server *server, struct strbuf *to);
