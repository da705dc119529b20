/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Records: stored objects other than volumes, nodes, allocations and claims. Each is a protobuf message under
 * its own key. One ordered table in memory, and an index of its tokens.
 *
 * A new kind of record is a prefix in keys.h and a row in records.c. */

#include "base/error.h"
#include "base/tree.h"
#include "state/namespaces.h"
#include "state/token_index.h"

#include <holdfast/v1/jobs.pb-c.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct record {
	char *key;		   /* owned */
	ProtobufCMessage *message; /* owned */
	uint64_t create_index;
	uint64_t modify_index;
};

struct record_entry {
	const char *key; /* of the record below: the tree's key */
	struct record record;
	size_t bytes; /* memory that it takes */
	RB_ENTRY(record_entry) by_key;
};
RB_HEAD(record_tree, record_entry);

struct records {
	struct record_tree by_key;
	struct token_index tokens;
	struct namespaces *namespaces; /* borrowed; those of the state, which are charged */
};

void records_init(struct records *records, struct namespaces *namespaces);
void records_release(struct records *records);

/** Prefix of the keys of one sort of record, for loading; NULL at the end. */
const char *record_prefix(size_t i);

/** Are records under @key kept only in the store? They are neither loaded nor kept in memory. */
bool record_is_stored_only(const char *key);

/** May a caller wait for a change of records under @key? Not for what changes with every write. */
bool record_is_watched(const char *key);

/** The message type of records under @key, or NULL when no row of records.c names it. */
const ProtobufCMessageDescriptor *record_descriptor(const char *key);

/** Returns the record's message, borrowed until its next change; NULL if there is no record. */
const void *records_get(struct records *records, const char *key);

/** Returns a job as it is stored, with its present version; NULL: it is not stored. */
const Holdfast__V1__Job *records_job(struct records *records, const char *namespace, const char *id);

/** Has each member of the group a volume of its own for the request @name? */
bool records_is_per_alloc(const Holdfast__V1__JobGroup *group, const char *name);

struct record_entry *records_entry(struct records *records, const char *key);

/** First entry whose key is not below @key, and the next; for walking a prefix in order. */
struct record_entry *records_from(struct records *records, const char *key);
struct record_entry *records_next(struct record_entry *entry);

/** Inserts or replaces; the message is copied. Ignores records that are kept only in the store. */
enum status records_put(struct records *records, const struct record *record, struct error *err);
void records_delete(struct records *records, struct record_entry *entry);

/** A deep copy, owned by the caller; NULL when memory is short. */
ProtobufCMessage *message_copy(const ProtobufCMessage *message);
