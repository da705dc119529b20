/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The contents of a copy of the server's store, read without a server. */

#include "base/error.h"
#include "base/uuid.h"
#include "store/kv.h"

#include <stdint.h>

struct copy_facts {
	char cluster[64];
	char store_id[UUID_SIZE];
	uint32_t schema;
	uint64_t epoch;
	uint64_t index;
	int64_t newest_ms; /* when its last audited write was; 0: no audit record */
	uint64_t nodes;	   /* registered by name */
	uint64_t missing;  /* nodes that it knows of and not by name */
	uint64_t volumes;
	uint64_t claims;
};

/** Opens a candidate for a backup or a kit: a regular file that is not empty. @ret_fd owned by the caller */
enum status copy_open(const char *path, int *ret_fd, struct error *err);

/** Reads every record of @copy, each against its checksum. STATUS_DATA_LOSS names the first damaged one.
 * Only a restore checks whether records fit each other. */
enum status copy_look(const struct kv_copy *copy, struct copy_facts *ret, struct error *err);
