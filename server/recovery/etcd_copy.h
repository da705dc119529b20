/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The store in etcd: made from a copy in sqlite's format while no server leads, or copied into one.
 *
 * Each function blocks. It reads the result again and compares number of records and SHA-256 over all keys
 * and values, in order. */

#include "base/uuid.h"
#include "lead/lead_settings.h"
#include "recovery/copy_file.h"

struct etcd_copy_result {
	uint64_t n;	/* records */
	uint64_t index; /* of the store that was written */
	uint8_t sha256[COPY_SHA256_SIZE];
};

/* The store in @data_dir is moved and not only copied: see store_swap_leave(). */
struct etcd_copy_move {
	const char *data_dir;
	char store_id[UUID_SIZE];
	bool is_begun; /* by an earlier run: a store of this id in etcd is the copy, and stays as it is */
};

/** Put the contents of the copy at @path into etcd, as a whole or not at all. The new index is above that of
 * the copy and that of the store in etcd before. (@may_replace) An existing store is replaced; one that
 * server @settings->name retired always. (@move) NULL: the store is copied.
 * STATUS_FAILED_PRECONDITION when a server leads, or when there is a store that may not be replaced. */
enum status etcd_copy_in(const struct lead_settings *settings, const char *cluster, const char *path,
			 bool may_replace, const struct etcd_copy_move *move, struct etcd_copy_result *ret,
			 struct error *err);

enum etcd_copy_how {
	ETCD_COPY_BESIDE,     /* any server may lead; from any thread */
	ETCD_COPY_ALONE,      /* only when no server leads, STATUS_FAILED_PRECONDITION */
	ETCD_COPY_AND_RETIRE, /* likewise; no server opens the store in etcd afterwards, see kv_retire_etcd().
			       * Only the server that closed it so can copy it again. */
};

/** Copy the store in etcd at one moment to @path, which must not exist. The index of the copy is not below
 * that of the store. STATUS_NOT_FOUND when there is no store. An unfinished @path is removed on failure. */
enum status etcd_copy_out(const struct lead_settings *settings, const char *cluster, const char *path,
			  enum etcd_copy_how how, struct etcd_copy_result *ret, struct error *err);
