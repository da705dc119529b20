/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Allocation records for tests of the agent. */

#include "alloc/step.h"

#define ALLOC_ID "0190a5a0-0000-7000-8000-0000000000a1"
#define BOOT_ID "11111111-2222-3333-4444-555555555555"

/** An allocation with @n volumes named v0, v1, ... of the volumes vol0, vol1, ...; its list is good for some
 * calls more. */
struct alloc records_alloc(const char *id, uint32_t n);

/** Its record; free() */
struct alloc_record *records_make(uint32_t n);

/** A grant for volume @i of the record's allocation. */
struct claim_grant records_grant(const struct alloc_record *record, uint32_t i);

/** What a mount of volume @i comes to. */
/** The same of a csi volume, with a secret "records-secret" in its details, which belong to the caller:
 * secret_message_unref() */
struct claim_grant records_csi_grant(const struct alloc_record *record, uint32_t i);

struct volume_mounted records_mounted(uint32_t i);

/** Bring the record into @phase the way it happens, as far as volume @volume: claimed and, if @is_published,
 * published. Asserts that every step is allowed. */
void records_drive(struct alloc_record *record, enum alloc_phase phase, uint32_t volumes_published,
		   uint32_t volumes_claimed);
