/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Admission: whether admission_check() of lib/model would let an allocation have a volume now. */

#include "base/error.h"
#include "model/alloc.h"
#include "state/state.h"

struct server;

/* A request for a volume; ids as they came, for messages. */
struct asked {
	const char *namespace;
	const char *volume_id;
	const char *alloc_id;
	const char *volume_name;
	struct volume_entry *volume; /* NULL: no such volume */
	const struct alloc *alloc;   /* NULL: no such allocation */
	const struct node_entry *node;
};

/** Checks the request. STATUS_ALREADY_EXISTS with @ret_same: the allocation holds this claim already. */
enum status claim_admit(struct server *server, const struct asked *asked, const struct claim **ret_same,
			struct error *err);

/** Would the volume be granted to this allocation now? For submissions: the decision falls when the node
 * claims. */
enum status claim_admit_alloc(struct server *server, const struct alloc *alloc,
			      const struct volume_request *request, struct error *err);
