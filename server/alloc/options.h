/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Mount options of an allocation's volumes, which take the place of those of the volumes, field by field.
 *
 * They are kept in a record beside the allocation, since few have any and mount flags may hold secrets: no
 * read of an allocation has them, but for their file system type and whether there are flags. */

#include "base/error.h"
#include "state/change.h"
#include "state/state.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>

enum { ALLOC_OPTIONS_BYTES_MAX = 4096 }; /* of one allocation, on the wire */

/** Check the options in a submission. @alloc is @pb, defaulted and valid. Those of volumes that are not known
 * are not refused for that. @ret owned by the caller, protobuf_c_message_free_unpacked(); NULL when there are
 * none. */
enum status alloc_options_take(struct state *state, const Holdfast__V1__Allocation *pb,
			       const struct alloc *alloc, Holdfast__V1__AllocationOptions **ret,
			       struct error *err);

/** Are @options (NULL: none) what the allocation was submitted with? */
bool alloc_options_are(struct state *state, const char *alloc_id,
		       const Holdfast__V1__AllocationOptions *options);

/** Stage that they are kept; NULL: there are none. */
void alloc_options_stage(struct change *change, const char *alloc_id,
			 const Holdfast__V1__AllocationOptions *options);

/** Stage that they are forgotten, if there are any. */
void alloc_options_stage_deletion(struct state *state, struct change *change, const char *alloc_id);

/** What the volume of @claim is mounted with: the options of its allocation over @volume's (NULL: none), in
 * @storage. Borrowed until the next change of the state; NULL: none. */
Holdfast__V1__MountOptions *alloc_options_for(struct state *state, const struct claim *claim,
					      Holdfast__V1__MountOptions *volume,
					      Holdfast__V1__MountOptions *storage);

/** Put what may be shown of them into @view, on the heap. False when memory is short: it is whole but says
 * less. */
bool alloc_options_show(struct state *state, Holdfast__V1__Allocation *view);
