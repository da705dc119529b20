/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* How full a volume is. Pure. */

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	USAGE_CONDITION_MAX = 160,  /* bytes */
	USAGE_WARN_AT_DEFAULT = 90, /* percent */
	USAGE_WARN_GAP = 5,	    /* a full volume must fall below its level by so much */
	USAGE_CHANGE_PERMILLE = 10, /* smaller changes are not reported */
};

/** The fuller one of bytes and inodes in permille, rounded up; 0: unknown. Blocks that are reserved for root
 * count as used, as df(1) counts them. */
uint32_t usage_permille(const Holdfast__V1__VolumeUsage *usage);

/** The same in percent, rounded up. */
uint32_t usage_percent(const Holdfast__V1__VolumeUsage *usage);

/** Is the volume full? @was_full it was so before: then it stays so until it is USAGE_WARN_GAP below.
 * @warn_at of the volume, in percent; 0: the default */
bool usage_is_full(const Holdfast__V1__VolumeUsage *usage, uint32_t warn_at, bool was_full);

/** Do the two differ in more than 1 % of the size, or in what people have to see? */
bool usage_differs(const Holdfast__V1__VolumeUsage *a, const Holdfast__V1__VolumeUsage *b);
