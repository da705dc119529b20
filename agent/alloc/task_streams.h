/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Relays commands in tasks, their output and their statistics for remote users: each is a stream to the
 * server and one to the task's driver. Bytes from one continue on the other unchanged, as fast as that one
 * takes them. */

#include "alloc/allocs.h"
#include "base/error.h"
#include "driver/drivers.h"
#include "rpc/client.h"

#include <holdfast/v1/nodes.pb-c.h>

enum { TASK_STREAMS_MAX = 64 }; /* of one node */

struct task_streams;

/** All borrowed. @ret owned by the caller, task_streams_free() before them */
enum status task_streams_new(struct rpc_client *server, const struct drivers *drivers,
			     const struct allocs *allocs, struct task_streams **ret, struct error *err);

/** All of them end. NULL is allowed. */
void task_streams_free(struct task_streams *streams);

/** Opens a stream for the server. Reports every error on the stream. */
void task_streams_open(struct task_streams *streams, const Holdfast__V1__OpenTaskStream *wanted);
