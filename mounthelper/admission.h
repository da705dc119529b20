#pragma once
/* What policy and ticket say about a request, before anything is touched. Pure. */

#include "helper.h"
#include "wire.h"

struct admission {
	const struct profile *profile;		   /* of STAGE and PUBLISH */
	const struct ticket *ticket;		   /* NULL: none was needed and none given */
	uint8_t source_digest[TICKET_DIGEST_SIZE]; /* of STAGE */
};

/** Fill @ret, or say why not: @ret means nothing then. @now_ms is CLOCK_REALTIME. */
enum reason admit_stage(const struct helper *h, const struct mh_stage *req, int64_t now_ms,
			struct admission *ret);
enum reason admit_publish(const struct helper *h, const struct mh_publish *req, int64_t now_ms,
			  struct admission *ret);
enum reason admit_detach(const struct helper *h, uint8_t detach);
