/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Sessions of nodes: their streams, and the nodes' reports on them. Messages to nodes are session.h's. */

#include "rpc/server.h"

/** Nodes.Session: one bidirectional stream per node, dialled by its agent. */
extern const struct rpc_stream_handlers sessions_stream;
