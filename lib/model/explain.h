#pragma once
/* Why a claim stands where it stands, in words for a person. Pure. */

#include "model/claim.h"

#include <stdbool.h>
#include <stdint.h>

enum { EXPLAIN_SIZE = 768 };

/** One sentence or two: holder, node, since when, state, evidence that is missing, retries, last error, next
 * command.
 * @node_connected whether the node has a session now
 * Writes into @dst of EXPLAIN_SIZE, returns it. */
char *explain_claim(const struct claim *claim, bool node_connected, int64_t now_ms,
		    char dst[static EXPLAIN_SIZE]);
