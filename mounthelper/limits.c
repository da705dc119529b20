#include "limits.h"

static bool is_over(const struct refusals *refusals, uint64_t now_us)
{
	return now_us - refusals->window_us >= REFUSAL_WINDOW_US;
}

bool refusals_add(struct refusals *refusals, uint64_t now_us)
{
	bool is_recorded;

	if (refusals->count == 0 || is_over(refusals, now_us)) {
		refusals->window_us = now_us;
		refusals->count = 0;
	}
	is_recorded = ++refusals->count <= REFUSALS_RECORDED;
	refusals->unrecorded += !is_recorded;
	return is_recorded;
}

uint32_t refusals_take_summary(struct refusals *refusals, uint64_t now_us, bool at_end)
{
	uint32_t n = at_end || is_over(refusals, now_us) ? refusals->unrecorded : 0;

	refusals->unrecorded -= n;
	return n;
}
