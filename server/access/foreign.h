/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Texts about one namespace that are also about another one, whose volume may be the same storage. */

#include "model/admission.h"
#include "rpc/server.h"

#include <stdbool.h>

struct server;

enum { FOREIGN_NAME_SIZE = sizeof("volume  in namespace ") + VOLUME_ID_MAX + NAMESPACE_MAX };

/** Names a volume for messages of namespace @own; FOREIGN_VOLUME for callers that may not see it, and for the
 * server itself (@call NULL), which stores them for readers there. */
const char *foreign_name(struct server *server, const struct rpc_call *call, const char *own,
			 const struct volume *volume, char ret[static FOREIGN_NAME_SIZE]);

/** May they name a claim of @namespace, with its allocation? */
bool foreign_shows_claims(struct server *server, const struct rpc_call *call, const char *own,
			  const char *namespace);
