/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The limits that keep a volume to a part of the storage that its id names at the provider, or to one way of
 * reaching it. The provider copies all that has the id, so a copy could be more than its source. Pure. */

#include "model/volume_detail.h"

#include <stdbool.h>

/** May the mounts of the volume show only a part of the storage that its id names? Mount options that are not
 * plain, or a context that a person gave it, may do that.
 * @detail NULL: it has neither */
bool limits_is_part(const Holdfast__V1__VolumeDetail *detail);

/** Returns the limits of @volume, without those of other names of its storage (was_device); NULL: memory is
 * short. Owned by the caller.
 * @detail, @secrets NULL: the volume has no such record */
Holdfast__V1__SourceLimits *limits_of(const struct volume *volume, const Holdfast__V1__VolumeDetail *detail,
				      const Holdfast__V1__VolumeSecrets *secrets);

/** Makes @limits those of a source that may have had @other, too. False: memory is short. */
bool limits_join(Holdfast__V1__SourceLimits *limits, const Holdfast__V1__SourceLimits *other);

/** Does @copy keep to the limits of its source? The source shows all of its id, is a block device if @copy is
 * one, and has no secret that @copy lacks.
 * @limits of the source; NULL: not known, which is no */
bool limits_are_kept(const Holdfast__V1__SourceLimits *limits, const struct volume_parts *copy);
