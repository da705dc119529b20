#pragma once
/* How a volume is shown: the stored record with what is derived from claims and nodes, never stored. */

#include "state.h"
#include "why.h"

#include <holdfast/v1/types.pb-c.h>

struct server;

/** @with_claims also the claims, live ones and the history that is kept. NULL when memory is short; owned by
 * the caller. Costs the number of nodes for schedulability. */
Holdfast__V1__Volume *volume_view(struct server *server, struct volume_entry *entry, bool with_claims);
