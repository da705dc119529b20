/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a copy of the server's store is of, without a server. */

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
	int64_t newest_ms; /* when its last audited write was; 0: it has none */
	uint64_t nodes;	   /* registered by name */
	uint64_t missing;  /* nodes that it knows of and not by name */
	uint64_t volumes;
	uint64_t claims;
};

/** Open a file that is to be a backup or a kit: a regular one that is not empty. @ret_fd owned by the caller
 */
enum status copy_open(const char *path, int *ret_fd, struct error *err);

/** Read every record of @copy, each against its checksum. STATUS_DATA_LOSS names the first that is not what
 * was written. Whether records fit each other only a restore looks at. */
enum status copy_look(const struct kv_copy *copy, struct copy_facts *ret, struct error *err);
