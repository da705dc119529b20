/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The kinds of objects that the server stores. One row per kind describes how it is keyed, written, read
 * back and kept in memory. Loading and changing work on rows; no other module knows the kinds. */

#include "base/error.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct state;

enum { OBJECT_KEY_SIZE = 512 }; /* KV_KEY_MAX */

/* In the order of loading: each links only to those before it. Ids of claims are time-ordered, so that each
 * volume's list ends up newest first. */
enum object_kind {
	OBJECT_RECORD,
	OBJECT_VOLUME,
	OBJECT_NODE,
	OBJECT_NODE_PLUGIN,
	OBJECT_ALLOC,
	OBJECT_CLAIM,
	OBJECT_KIND_N,
};

struct object_type {
	const char *name;   /* for people: "volume" */
	const char *prefix; /* of its keys; records have one per sort, see record_prefix() */
	size_t size;	    /* of the value */
	size_t create_index,
		modify_index; /* offsets in the value: the revisions that made and last changed it */

	/** Writes the store's key of @value. */
	void (*key)(const void *value, char ret[static OBJECT_KEY_SIZE]);

	/** Fills @ret, which is zero, with the part of a value that makes up its key. False: invalid key,
	 * or memory is short; nothing is owned then. */
	bool (*from_key)(const char *key, void *ret);

	/** The message to be stored. NULL when memory is short; freed by @drop_message. */
	ProtobufCMessage *(*to_message)(const void *value);
	void (*drop_message)(ProtobufCMessage *message);

	/** Parses a stored value. Data owned by @ret is freed by @release. */
	enum status (*from_stored)(const char *key, const void *bytes, size_t len, void *ret,
				   struct error *err);

	/** Inserts or replaces; the value is copied. */
	enum status (*put)(struct state *state, const void *value, struct error *err);

	/** The value in memory, or NULL; only what makes up the key of @value is looked at. */
	void *(*find)(struct state *state, const void *value);

	/** Forgets it, if it is there. */
	void (*forget)(struct state *state, const void *value);

	/** @to is a copy of @from, byte by byte: let it own what it points to. NULL: values point to nothing.
	 * False when memory is short; @release may be called then. */
	bool (*own)(void *to, const void *from);

	/** Frees what @value owns, not itself. NULL: values point to nothing. */
	void (*release)(void *value);
};

const struct object_type *object_type(enum object_kind kind);
