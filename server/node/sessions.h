/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Sessions: one bidirectional stream per node, dialled by its agent, over which work goes down and facts come
 * up. */

#include "rpc/server.h"

/** Nodes.Session. */
extern const struct rpc_stream_handlers sessions_stream;
