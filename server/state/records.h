/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Records: whatever the server stores beside volumes, nodes, allocations and claims, each a protobuf message
 * under a key of its own. One ordered table in memory; who needs links or counts keeps an index of its own.
 *
 * A new kind of record is a prefix in keys.h and a row in records.c. */

#include "base/error.h"
#include "base/tree.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct state;

struct record {
	char *key;		   /* owned */
	ProtobufCMessage *message; /* owned */
	uint64_t create_index;
	uint64_t modify_index;
};

struct record_entry {
	const char *key; /* of the record below: the tree's key */
	struct record record;
	RB_ENTRY(record_entry) by_key;
};
RB_HEAD(record_tree, record_entry);

/** Prefix of the keys of one sort of record, for loading; NULL at the end. */
const char *record_prefix(size_t i);

/** Are records under @key stored alone? They are neither loaded nor kept in memory. */
bool record_is_stored_only(const char *key);

/** May somebody wait for a change of records under @key? Not for what changes with every write. */
bool record_is_watched(const char *key);

/** The message type of records under @key, or NULL when no row of records.c names it. */
const ProtobufCMessageDescriptor *record_descriptor(const char *key);

/** The record's message, borrowed until the next change of it; NULL when there is none. */
const void *state_record(struct state *state, const char *key);

struct record_entry *state_record_entry(struct state *state, const char *key);

/** First entry whose key is not below @key, and the next; for walking a prefix in order. */
struct record_entry *state_record_from(struct state *state, const char *key);
struct record_entry *state_record_next(struct record_entry *entry);

/** Insert or replace; the message is copied. Nothing is done for what is stored alone. */
enum status state_put_record(struct state *state, const struct record *record, struct error *err);
void state_delete_record(struct state *state, struct record_entry *entry);

void state_release_records(struct state *state);

/** A deep copy, owned by the caller; NULL when memory is short. */
ProtobufCMessage *message_copy(const ProtobufCMessage *message);
