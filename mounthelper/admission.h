/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What policy and ticket say about a request, before anything is touched. Pure. */

#include "helper.h"
#include "wire.h"

struct admission {
	const struct profile *profile;		   /* of STAGE and PUBLISH */
	const struct ticket *ticket;		   /* NULL: none was needed and none given */
	uint8_t source_digest[TICKET_DIGEST_SIZE]; /* of STAGE */
	/* What the state table knew of the volume, filled by the frame. Nobody else changes that while the
	 * volume is locked. */
	struct state_slot slot;
};

/** May @req be tried, which is STAGE, PUBLISH, UNPUBLISH or UNSTAGE? @now_ms is CLOCK_REALTIME. Fill @ret, or
 * say why not: @ret means nothing then. */
enum reason admit_request(const struct helper *h, const union mh_request *req, int64_t now_ms,
			  struct admission *ret);
