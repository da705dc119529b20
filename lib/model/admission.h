/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Admission: the one place that decides who may have a volume. Pure. */

#include "base/error.h"
#include "model/alloc.h"
#include "model/claim.h"
#include "model/explain.h"
#include "model/node.h"
#include "model/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In texts for readers who may not see the volume that has the storage, too. */
#define FOREIGN_VOLUME "a volume of another namespace"

struct admission {
	const char *volume_id;		   /* as asked for, for messages */
	const struct volume *volume;	   /* NULL: no such volume */
	const struct alloc *alloc;	   /* the server's own record; NULL: no such allocation */
	const char *alloc_id;		   /* as asked for, for messages */
	const struct node *node;	   /* the node that asks, or that the allocation is for */
	const struct node_plugin *plugin;  /* entry of the node that serves the volume; may be NULL */
	const char *volume_name;	   /* of the allocation's volume request */
	const struct claim *const *claims; /* every live claim of the volume's storage */
	size_t n_claims;
	const struct holder *holders; /* per claim; NULL: all work, on connected nodes */
	int64_t now_ms;		      /* for "for how long" in refusals */
};

/** Check in the order of design 4.2: volume exists, allocation exists and is for this node and asks for the
 * volume, its modes are a capability of the volume, the same claim already held, plugin schedulable, free
 * claim for the modes.
 *
 * STATUS_OK: grant it. STATUS_ALREADY_EXISTS: the allocation already holds it, @ret_same is that claim
 * (borrowed from @claims), nothing changes. Else refused: STATUS_NOT_FOUND, STATUS_PERMISSION_DENIED (not
 * this node's allocation), STATUS_INVALID_ARGUMENT, STATUS_UNAVAILABLE (plugin), STATUS_FAILED_PRECONDITION
 * (held by others: the message names holder, state, missing evidence and the next command). */
enum status admission_check(const struct admission *in, const struct claim **ret_same, struct error *err);

/** May one more claim of these modes exist next to @claims? A volume is attached in one way at a time.
 * @ret_blocker the first that is in the way.
 * Source: nomad-facts 2.5, and the two single-node writer modes that Nomad lacks. */
bool admission_has_room(struct capability as, enum claim_mode mode, const char *node_id,
			const struct claim *const *claims, size_t n_claims, const struct claim **ret_blocker);

/** Two claims of a volume that exclude each other, in either order of their grants. */
bool admission_are_rivals(const struct claim *a, const struct claim *b);
