#pragma once
/* How many refusals are tolerated. Pure. */

#include <stdbool.h>
#include <stdint.h>

enum {
	REFUSAL_WINDOW_US = 10 * 1000 * 1000,
	REFUSALS_RECORDED = 20, /* per window; more are counted and summed up in one record */
	REFUSALS_MAX = 200,	/* per window; then the helper ends */
};

struct refusals {
	uint64_t window_us; /* when the window began */
	uint32_t count;
	uint32_t unrecorded;
};

/** Count one refusal, refusals->count in its window now. True if it is to be recorded by itself. */
bool refusals_add(struct refusals *refusals, uint64_t now_us);

/** How many refusals of a finished window (or, with @at_end, of the current one) still need a summary; they
 * count as recorded afterwards. */
uint32_t refusals_take_summary(struct refusals *refusals, uint64_t now_us, bool at_end);
