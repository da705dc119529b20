/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Why a volume is where it is: the facts that the server has about holders, for lib/model/explain.h. */

#include "model/explain.h"
#include "state/state.h"

#include <holdfast/v1/volumes.pb-c.h>

struct rpc_call;
struct server;

enum { WHY_CLAIMS_MAX = 100 }; /* explained at once; the others are only counted */

/** Returns the holders and the missing evidence, one line per live claim; for a free volume the obstacles
 * to its use, and how it was last released; for readers of its namespace. NULL when memory is short; owned by
 * the caller. */
char *volume_why(struct server *server, struct volume_entry *entry);

/** Fills `why` and `explanations` of the answer to @call. False when memory is short; the response owns them.
 */
bool volume_explain(struct server *server, const struct rpc_call *call, struct volume_entry *entry,
		    Holdfast__V1__GetVolumeResponse *response);

/** STATUS_FAILED_PRECONDITION with the holder's name if there is a live claim. */
enum status volume_check_unused(struct server *server, struct volume_entry *entry, struct error *err);
