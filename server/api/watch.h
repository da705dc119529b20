/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Reads, and reads that wait for a change: a call with `index` and `wait_ms` is answered as soon as its
 * objects have a higher index, or when the time is over. Waiting costs nothing until an object it names
 * changes.
 *
 * A waiting call is filed under a name: an object's key in the store ("volume/default/db", and "plugin/ID"
 * of plugins, which are not stored), or the prefix of a table ("volume/"). */

#include "base/error.h"
#include "rpc/server.h"
#include "state/objects.h"

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

struct change_object;
struct server;

#define WATCH_PLUGIN "plugin/"

enum {
	WATCH_WAIT_MAX_MS = 5 * 60 * 1000,
	WATCHES_MAX = 4096,
	WATCHES_PER_CALLER_MAX = 256,
	LONG_READS_PER_CALLER_MAX = 4,
};

struct read_method {
	/** Answers the call, or returns why not. */
	enum status (*handle)(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
			      struct error *err);

	/** Name under which the read waits. NULL: it never waits. */
	void (*name)(const ProtobufCMessage *request, char ret[static OBJECT_KEY_SIZE]);

	/** An answer may take as long as a turn of the loop: one a turn, LONG_READS_PER_CALLER_MAX at once.
	 * It never waits for a change. */
	bool is_long;

	/** Returns the object's index; UINT64_MAX when it is missing. NULL: watch_index() of the name. */
	uint64_t (*index)(struct server *server, const ProtobufCMessage *request);
};

/** Answers @call by @method, now or after a wait. */
void read_start(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
		const struct read_method *method);

/** The request of a read that waits: the data of its call is not NULL. */
const ProtobufCMessage *read_request(const struct rpc_call *call);

/** For rpc_method.on_gone: forgets a read that waits. No other unary call has data. */
void read_gone(struct rpc_call *call, void *userdata);

/** Revision of the last durable change of a table, by its prefix ("volume/"). Since the start: before the
 * first change the store's revision at the start. */
uint64_t watch_index(const struct server *server, const char *prefix);

/** Returns the index of an object with @index in memory: no lower than the store's at the start. The object
 * may have shown other objects before, which are gone from memory with their higher indexes. */
uint64_t watch_object_index(const struct server *server, uint64_t index);

/** Objects became durable at @revision, as put or as deleted: answers calls that wait for one, or for
 * something that shows it. See struct change_observer. */
void watch_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision);

/** Refuses every call that waits, because the server ends. */
void watch_cancel_all(struct server *server);

/* Define the rpc_unary_fn @name_ of a read_method. */
#define DEFINE_READ_METHOD(name_, method)                                                \
	void name_(struct rpc_call *call, const ProtobufCMessage *request, void *server) \
	{                                                                                \
		read_start(server, call, request, &(method));                            \
	}
