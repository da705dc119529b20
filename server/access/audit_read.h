/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Reads the audit back, and removes old records; both in slices, because records are only in the store and
 * reading blocks its writer. */

#include "base/error.h"

#include <holdfast/v1/operator.pb-c.h>
#include <stdint.h>

struct server;

enum {
	AUDIT_PAGE_MAX = 1000,
	AUDIT_PAGE_BYTES_MAX = 512 * 1024, /* below the largest message */
	AUDIT_SCAN_MAX = 2000,	/* records that one call looks at; a filter may leave a page empty */
	AUDIT_PRUNE_SLICE = 90, /* records that one transaction removes; below CHANGE_OBJECTS_MAX */
};

/** One page. Its records and next_after are filled into @ret, which the caller frees with
 * holdfast__v1__list_audit_response__free_unpacked(). */
enum status audit_list(struct server *server, const Holdfast__V1__ListAuditRequest *request,
		       Holdfast__V1__ListAuditResponse **ret, struct error *err);

/** Removes at most @max of the oldest records that exceed `audit_keep` or, at @now_ms, are older than
 * `audit_keep_for`; the last one always stays. Returns how many. The remaining records are a chain from the
 * first one on. */
uint32_t audit_prune(struct server *server, int64_t now_ms, uint32_t max);

/** How many audit_prune() would remove, for a dry run. */
uint32_t audit_prunable(struct server *server, int64_t now_ms, uint32_t max);
