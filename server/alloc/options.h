/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Mount options of an allocation's volumes: the file system type takes the place of the volume's, flags are
 * added to the volume's, which may confine it to a part of its storage. Both are plain, see plain_options.h.
 *
 * They are kept in a record of their own, since few allocations have any.
 * Reads of an allocation show only their file system type and whether there are flags. The record also has
 * on_node_loss. */

#include "base/error.h"
#include "model/volume_detail.h"
#include "state/change.h"
#include "state/state.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>

enum { ALLOC_OPTIONS_BYTES_MAX = 4096 }; /* of one allocation, on the wire */

/* Those of a volume and its claim's allocation together; texts and lists are borrowed. */
struct alloc_mount_options {
	Holdfast__V1__MountOptions options;
	char *flags[2 * VOLUME_MOUNT_FLAGS_MAX];
};

/** Checks the options in a submission. @alloc is @pb, defaulted and valid. Unknown volumes are not refused
 * here. @ret owned by the caller, protobuf_c_message_free_unpacked(); NULL if there are no options. */
enum status alloc_options_take(struct state *state, const Holdfast__V1__Allocation *pb,
			       const struct alloc *alloc, Holdfast__V1__AllocationOptions **ret,
			       struct error *err);

/** Was the allocation submitted with @options (NULL: no options)? */
bool alloc_options_are(struct state *state, const char *alloc_id,
		       const Holdfast__V1__AllocationOptions *options);

/** Stages that they are kept; NULL: no options. */
void alloc_options_stage(struct change *change, const char *alloc_id,
			 const Holdfast__V1__AllocationOptions *options);

/** Stages that they are forgotten, if there are any. */
void alloc_options_stage_deletion(struct state *state, struct change *change, const char *alloc_id);

/** Returns the mount options for the volume of @claim: those of its allocation with @volume's (NULL: no
 * options), in @storage. Without a type they have that of the plugin in server.hcl, so that the contents do
 * not choose it. Borrowed until the next change of the state; NULL: no options. */
Holdfast__V1__MountOptions *alloc_options_for(struct state *state, const struct claim *claim,
					      Holdfast__V1__MountOptions *volume,
					      struct alloc_mount_options *storage);

/** Returns on_node_loss of the allocation, NULL: it has no block. Borrowed until the next change of the
 * state. */
const Holdfast__V1__OnNodeLoss *alloc_options_node_loss(struct state *state, const char *alloc_id);

/** Puts their public part into @view, on the heap. False when memory is short: @view is valid but
 * incomplete. */
bool alloc_options_show(struct state *state, Holdfast__V1__Allocation *view);
