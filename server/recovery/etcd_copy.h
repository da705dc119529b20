/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The store in etcd: made from a copy in sqlite's format while no server leads, or copied into one.
 *
 * Each blocks. What was written is read again and compared:
 * number of records and SHA-256 over all keys and values, in order. */

#include "lead/lead_settings.h"
#include "recovery/copy_file.h"

struct etcd_copy_result {
	uint64_t n;	/* records */
	uint64_t index; /* of the store that was written */
	uint8_t sha256[COPY_SHA256_SIZE];
};

/** Make the store in etcd what the copy at @path is, as a whole or not at all; its index is then above that
 * of the copy and of what was in etcd. (@may_replace) there may be a store, which it takes the place of.
 * STATUS_FAILED_PRECONDITION when a server leads, or when there is a store that may not be replaced. */
enum status etcd_copy_in(const struct lead_settings *settings, const char *cluster, const char *path,
			 bool may_replace, struct etcd_copy_result *ret, struct error *err);

/* What people see of a record, see state/text.h; owned by the caller, NULL: nothing. */
typedef char *etcd_copy_text_fn(const char *key, const void *value, size_t len);

enum etcd_copy_how {
	ETCD_COPY_BESIDE,     /* whoever leads, and from any thread */
	ETCD_COPY_ALONE,      /* only when no server leads, STATUS_FAILED_PRECONDITION */
	ETCD_COPY_AND_RETIRE, /* likewise; no server opens the store in etcd afterwards, see kv_retire_etcd().
			       * One that was closed so is copied again by the server that did it alone. */
};

/** Make @path, which must not exist, of the store in etcd as of one moment; its index is not below what was
 * there. STATUS_NOT_FOUND when there is no store. What was written of @path is removed on failure. */
enum status etcd_copy_out(const struct lead_settings *settings, const char *cluster, const char *path,
			  enum etcd_copy_how how, etcd_copy_text_fn *text, struct etcd_copy_result *ret,
			  struct error *err);
