/* SPDX-License-Identifier: Apache-2.0 */
#include "model/usage.h"

#include "base/str.h"

#include <sys/param.h>

/* Floating point, because a node may send any number. */
static uint32_t share(uint64_t used, uint64_t available)
{
	double whole = (double)used + (double)available;
	double part = whole > 0 ? (double)used * 1000 / whole : 0;

	return (uint32_t)part + (part > (uint32_t)part);
}

uint32_t usage_permille(const Holdfast__V1__VolumeUsage *usage)
{
	uint32_t bytes = usage->total_bytes > 0 ? share(usage->used_bytes, usage->free_bytes) : 0;
	uint32_t inodes = usage->total_inodes > 0 ? share(usage->used_inodes, usage->free_inodes) : 0;

	return MAX(bytes, inodes);
}

uint32_t usage_percent(const Holdfast__V1__VolumeUsage *usage)
{
	return (usage_permille(usage) + 9) / 10;
}

bool usage_is_full(const Holdfast__V1__VolumeUsage *usage, uint32_t warn_at, bool was_full)
{
	uint32_t level = warn_at > 0 ? warn_at : USAGE_WARN_AT_DEFAULT;

	if (was_full)
		level -= MIN(level, (uint32_t)USAGE_WARN_GAP);
	return (usage->total_bytes > 0 || usage->total_inodes > 0) && usage_percent(usage) >= level;
}

static bool is_far(uint64_t a, uint64_t b, uint64_t whole)
{
	return (a > b ? a - b : b - a) > whole / (1000 / USAGE_CHANGE_PERMILLE);
}

bool usage_differs(const Holdfast__V1__VolumeUsage *a, const Holdfast__V1__VolumeUsage *b)
{
	return a->total_bytes != b->total_bytes || a->total_inodes != b->total_inodes ||
	       is_far(a->used_bytes, b->used_bytes, a->total_bytes) ||
	       is_far(a->free_bytes, b->free_bytes, a->total_bytes) ||
	       is_far(a->used_inodes, b->used_inodes, a->total_inodes) ||
	       is_far(a->free_inodes, b->free_inodes, a->total_inodes) || a->read_only != b->read_only ||
	       (a->unknown_since_ms != 0) != (b->unknown_since_ms != 0) ||
	       !str_eq(a->condition, b->condition);
}
