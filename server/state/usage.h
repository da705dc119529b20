/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The usage of volumes, as nodes report it. Display only: nothing is decided by it. After a restart, or a
 * hand-over, nodes report everything again. */

#include "state/change.h"
#include "state/state.h"

#include <holdfast/v1/nodes.pb-c.h>

/* The volume of @claim is full or has room again, or its condition has changed, as in @text. */
typedef void usage_change_fn(const struct claim_entry *claim, const char *text);

/** Take what node @node_id reports. Ignored for a claim that it does not hold. @note is called per change. */
void usage_take(struct state *state, const char *node_id, const Holdfast__V1__VolumeUsageReport *report,
		usage_change_fn *note);

/** An observer of changes: a volume's level may be another one. */
void usage_note_submitted(struct server *server, const struct change_object *objects, size_t n);

/** Values of a volume, one for each node that reports, or only the fullest; and those of a node. @ret and its
 * messages are owned by the caller, also upon false: memory is short. */
bool usage_of_volume(const struct volume_entry *volume, bool only_fullest, Holdfast__V1__VolumeUsage ***ret,
		     size_t *ret_n);
bool usage_of_node(const struct node_entry *node, Holdfast__V1__VolumeUsage ***ret, size_t *ret_n);
