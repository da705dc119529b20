/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Why a volume is where it is: the facts that the server has about holders, for lib/model/explain.h. */

#include "model/explain.h"
#include "state/state.h"

#include <holdfast/v1/volumes.pb-c.h>

struct server;

enum { WHY_CLAIMS_MAX = 100 }; /* explained at once; of more their number is said */

/** Who holds it and what is missing, one line per live claim; what keeps a free one from being used, and how
 * it was last released. NULL when memory is short; owned by the caller. */
char *volume_why(struct server *server, struct volume_entry *entry);

/** Fill `why` and `explanations` of the answer. False when memory is short; what is filled is the response's.
 */
bool volume_explain(struct server *server, struct volume_entry *entry,
		    Holdfast__V1__GetVolumeResponse *response);

/** STATUS_FAILED_PRECONDITION with the holder's name when anybody has a live claim. */
enum status volume_check_unused(struct server *server, struct volume_entry *entry, struct error *err);
