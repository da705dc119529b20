/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The store in etcd while no server leads: made from a copy in sqlite's format, or copied into one.
 *
 * Each blocks, and leads meanwhile, so that no server does. What was written is read again and compared:
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

/** Make @path, which must not exist, of the store in etcd; its index is not below that. STATUS_NOT_FOUND when
 * there is none, STATUS_FAILED_PRECONDITION when a server leads. */
enum status etcd_copy_out(const struct lead_settings *settings, const char *cluster, const char *path,
			  struct etcd_copy_result *ret, struct error *err);
