/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Decides by policy and ticket whether a request is allowed, before anything is touched. Pure. */

#include "helper.h"
#include "wire.h"

struct admission {
	const struct profile *profile;		   /* of STAGE and PUBLISH */
	const struct ticket *ticket;		   /* NULL: not required and not given */
	uint8_t source_digest[TICKET_DIGEST_SIZE]; /* of STAGE and PUBLISH */
	/* The volume's slot of the state table, filled by the frame. No other instance changes the slot while
	 * the volume is locked. */
	struct state_slot slot;
};

/** May @req (STAGE, PUBLISH, UNPUBLISH or UNSTAGE) be tried? @now_ms is CLOCK_REALTIME. Returns REASON_NONE
 * and fills @ret, or the reason of the refusal; then @ret is undefined. */
enum reason admit_request(const struct helper *h, const union mh_request *req, int64_t now_ms,
			  struct admission *ret);
