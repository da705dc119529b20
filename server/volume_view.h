#pragma once
/* How a volume is shown: the stored record with what is derived from claims and nodes, never stored. */

#include "state.h"

#include "model/explain.h"

#include <holdfast/v1/types.pb-c.h>

struct server;

/** @with_claims also the claims, live ones and the history that is kept. NULL when memory is short; owned by
 * the caller. Costs the number of nodes for schedulability. */
Holdfast__V1__Volume *volume_view(struct server *server, struct volume_entry *entry, bool with_claims);

/** What is known about the holder of a claim, for explain_claim(). */
struct holder claim_holder(struct server *server, const struct claim *claim);

/** Who holds it and what is missing, one line per live claim; what keeps a free one from being used. NULL
 * when memory is short; owned by the caller.
 */
char *volume_why(struct server *server, struct volume_entry *entry);
