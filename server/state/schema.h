/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which version of the server's records a store holds, and what leads from each version to the next.
 *
 * 0: no record; what the first release wrote. A step is a function over ranges of keys; all of them run in
 * one transaction before anything is loaded, so a crash in between is as if none had run. */

#include "base/uuid.h"
#include "store/kv.h"

#include <protobuf-c/protobuf-c.h>

/* So many versions, without a step, ahead of what this one is: of tests of an upgrade. */
#ifndef HOLDFAST_SCHEMA_AHEAD
#define HOLDFAST_SCHEMA_AHEAD 0
#endif

enum { SCHEMA_VERSION = 4 + HOLDFAST_SCHEMA_AHEAD, SCHEMA_FORMER_STORES_MAX = 16 };

/** Bring the store to SCHEMA_VERSION and record that, and that it is @cluster's. STATUS_FAILED_PRECONDITION
 * for a newer one and for another cluster's, STATUS_DATA_LOSS names the record that cannot be read. */
enum status schema_bring_up(struct kv *kv, const char *cluster, struct error *err);

/** Put one record, with its text for people. */
enum status schema_put(struct kv_rewrite *rewrite, const char *key, const ProtobufCMessage *message,
		       struct error *err);

/** Version and (empty before version 1) cluster of the store. */
struct schema {
	uint32_t version;
	char cluster[64];
	char store_id[UUID_SIZE]; /* empty before version 3 */
};
enum status schema_read(struct kv *kv, struct schema *ret, struct error *err);
