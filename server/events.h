/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Operator.Watch: sends changes, as they become durable, to each caller that may read them.
 *
 * The last events are kept in memory, bounded in number and bytes. A watcher that was away for a moment
 * can continue from the index it has seen, whose events come again; one that was away for longer lists again,
 * and so does one that reads more slowly: it is sent the next events when it has read the last ones. An event
 * shows the stored object (never a secret), without fields that reads derive. */

#include "rpc/server.h"
#include "state/objects.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct change_object;
struct events;
struct server;

enum {
	EVENTS_MAX = 8192, /* that are kept */
	EVENTS_BYTES_MAX = 8 << 20,
	WATCHERS_MAX = 256,
	WATCHERS_PER_CALLER_MAX = 64,
	EVENTS_PER_TURN = 64, /* sent to one watcher in one turn of the loop while it catches up */
};

extern const struct rpc_stream_handlers events_stream;

/** For its rule: fails if the caller may read no topic any longer that it watches. */
enum status events_check(struct server *server, const struct rpc_call *call, struct error *err);

/** @index everything up to here happened before: no events exist for it. */
enum status events_new(struct server *server, uint64_t index, struct events **ret, struct error *err);

/** After every stream has ended. NULL is allowed. */
void events_free(struct events *events);

/** @value became durable at @index.
 * @bytes its packed message, owned from here on; NULL: deleted */
void events_publish(struct events *events, enum object_kind kind, const void *value, void *bytes, size_t len,
		    uint64_t index);

/** events_publish() of each object, with the bytes that were packed for the store, which are taken from it.
 * See struct change_observer. */
void events_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision);
