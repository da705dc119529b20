#pragma once
/* Why a claim stands where it stands, in words for a person. Pure. */

#include "model/claim.h"

#include <stdbool.h>
#include <stdint.h>

enum { EXPLAIN_SIZE = 768 };

/* What is known about the holder of a claim beside the claim. */
struct holder {
	bool is_connected; /* its node has a session now */
	bool is_stopping;  /* its allocation has been told to stop */
};

/** One sentence or two: holder, node, for how long, state, evidence that is missing, retries, last error,
 * next command. Writes into @dst of EXPLAIN_SIZE, returns it. */
char *explain_claim(const struct claim *claim, const struct holder *holder, int64_t now_ms,
		    char dst[static EXPLAIN_SIZE]);
