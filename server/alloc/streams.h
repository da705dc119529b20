/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Commands in tasks, their output and what they use: a caller's stream is joined with one that the task's
 * node opens for it, and what comes on one continues on the other as it came, as fast as that one takes it.
 */

#include "rpc/server.h"

#include <sys/queue.h>

struct server;

enum {
	TASK_STREAMS_MAX = 1024, /* of all callers */
	TASK_STREAMS_PER_CALLER_MAX = 128,
	TASK_STREAMS_OF_NODE_MAX = 64,	    /* of all callers, as its agent has */
	TASK_STREAMS_PER_NODE_MAX = 32,	    /* of one caller to one node */
	TASK_STREAM_ARGS_MAX = 256,	    /* arguments of a command */
	TASK_STREAM_COMMAND_MAX = 64 << 10, /* bytes of one */
	TASK_STREAM_WAIT_MS = 15000,	    /* until its node comes */
};

/* Allocations.Exec, Logs and Stats; Nodes.TaskStream. */
extern const struct rpc_stream_handlers alloc_exec_stream, alloc_logs_stream, alloc_stats_stream;
extern const struct rpc_stream_handlers node_task_stream;

/** For the rules of Exec, Logs and Stats: fails if the caller no longer has the right in the namespace of its
 * stream's allocation. */
enum status task_stream_check(struct server *server, const struct rpc_call *call, struct error *err);
