#pragma once
/* Rates: how many requests per second are served, and how many refusals are tolerated. Pure. */

#include <stdbool.h>
#include <stdint.h>

enum {
	REFUSAL_WINDOW_US = 10 * 1000 * 1000,
	REFUSALS_RECORDED = 20, /* per window; more are counted and summed up in one record */
	REFUSALS_MAX = 200,	/* per window; then the helper ends */
};

struct rate {
	uint64_t per_second;
	uint64_t burst;
	uint64_t credit_us; /* microseconds' worth of requests */
	uint64_t last_us;
};

/** A bucket of @burst requests, filled with @per_second. @now_us is monotonic. */
void rate_init(struct rate *rate, uint32_t per_second, uint32_t burst, uint64_t now_us);

/** Take one request; false when the bucket is empty. */
bool rate_take(struct rate *rate, uint64_t now_us);

struct refusals {
	uint64_t window_us; /* when the window began */
	uint32_t count;
	uint32_t unrecorded;
};

enum refusal_action {
	REFUSAL_RECORD,
	REFUSAL_COUNT, /* leave it to the summary */
	REFUSAL_END,   /* too many */
};

/** Count one refusal. */
enum refusal_action refusals_add(struct refusals *refusals, uint64_t now_us);

/** How many refusals of a finished window (or, with @at_end, of the current one) still need a summary; they
 * count as recorded afterwards. */
uint32_t refusals_take_summary(struct refusals *refusals, uint64_t now_us, bool at_end);
