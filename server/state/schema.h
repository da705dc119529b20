/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which version of the server's records a store holds. All that leads to a newer one is one transaction
 * before anything is loaded. */

#include "base/uuid.h"
#include "store/kv.h"

#include <protobuf-c/protobuf-c.h>

/* So many versions ahead of this one: of the server of a made-up next version in tests. */
#ifndef HOLDFAST_SCHEMA_AHEAD
#define HOLDFAST_SCHEMA_AHEAD 0
#endif

enum { SCHEMA_VERSION = 1 + HOLDFAST_SCHEMA_AHEAD, SCHEMA_FORMER_STORES_MAX = 16 };

/** Bring the store to SCHEMA_VERSION and record that, and that it is @cluster's. STATUS_FAILED_PRECONDITION
 * for a newer one and for another cluster's, STATUS_DATA_LOSS names the record that cannot be read. */
enum status schema_bring_up(struct kv *kv, const char *cluster, struct error *err);

/** Gets one record. @ret must be NULL; owned by the caller, record_freep(). It stays NULL if there is no
 * record. STATUS_DATA_LOSS names the record that cannot be read. Blocks, as kv_range(). */
enum status schema_get(struct kv *kv, const char *key, const ProtobufCMessageDescriptor *descriptor,
		       void **ret, struct error *err);
/** schema_get() that sees earlier puts of @rewrite. */
enum status schema_get_in(struct kv_rewrite *rewrite, const char *key,
			  const ProtobufCMessageDescriptor *descriptor, void **ret, struct error *err);

static inline void record_freep(void **record)
{
	protobuf_c_message_free_unpacked(*record, NULL);
}

/** Put one record, with its text for people. */
enum status schema_put(struct kv_rewrite *rewrite, const char *key, const ProtobufCMessage *message,
		       struct error *err);

struct schema {
	uint32_t version; /* 0: a new store, without cluster and id */
	char cluster[64];
	char store_id[UUID_SIZE];
};
enum status schema_read(struct kv *kv, struct schema *ret, struct error *err);
