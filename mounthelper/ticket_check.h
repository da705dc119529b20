/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Verify what the claim server granted. Time, keys and needs are arguments; the signatures of the last
 * tickets are remembered, which changes no answer. */

#include "policy.h"
#include "ticket.h"
#include "words.h"

enum { TICKET_CACHE_SIZE = 16 };

/** Does @ticket allow the request? The signature is checked first, so no unsigned field is used.
 *
 * @need the ticket that the request needs: all but read_only, stage_read_only, propagation, not_after_ms,
 *       generation and signature must be equal. read_only, stage_read_only: 0 when a read-only ticket is not
 *       enough; propagation: the least that it must grant
 * @now_ms CLOCK_REALTIME
 * Returns REASON_NONE or the first thing that does not hold. The generation is state.h's business. */
enum reason ticket_check(const struct ticket *ticket, const struct ticket *need,
			 const struct ticket_keys *keys, int64_t now_ms);

/** No ticket at all: every byte is zero. */
bool ticket_is_absent(const struct ticket *ticket);

/** SHA-256 of @source with the device numbers zeroed, as struct ticket wants it. */
void ticket_source_digest(const struct mh_source *source, uint8_t ret[static TICKET_DIGEST_SIZE]);
