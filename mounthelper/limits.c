#include "limits.h"

#include "base/clock.h"

void rate_init(struct rate *rate, uint32_t per_second, uint32_t burst, uint64_t now_us)
{
	*rate = (struct rate){.per_second = per_second,
			      .burst = burst,
			      .credit_us = USEC_PER_SEC / per_second * burst,
			      .last_us = now_us};
}

bool rate_take(struct rate *rate, uint64_t now_us)
{
	uint64_t cost_us = USEC_PER_SEC / rate->per_second;
	uint64_t full_us = cost_us * rate->burst;
	uint64_t gained_us = now_us > rate->last_us ? now_us - rate->last_us : 0;

	rate->last_us = now_us;
	if (gained_us >= full_us - rate->credit_us)
		rate->credit_us = full_us;
	else
		rate->credit_us += gained_us;
	if (rate->credit_us < cost_us)
		return false;
	rate->credit_us -= cost_us;
	return true;
}

static bool is_over(const struct refusals *refusals, uint64_t now_us)
{
	return now_us - refusals->window_us >= REFUSAL_WINDOW_US;
}

enum refusal_action refusals_add(struct refusals *refusals, uint64_t now_us)
{
	if (refusals->count == 0 || is_over(refusals, now_us)) {
		refusals->window_us = now_us;
		refusals->count = 0;
	}
	refusals->count++;
	if (refusals->count <= REFUSALS_RECORDED)
		return REFUSAL_RECORD;
	refusals->unrecorded++;
	return refusals->count >= REFUSALS_MAX ? REFUSAL_END : REFUSAL_COUNT;
}

uint32_t refusals_take_summary(struct refusals *refusals, uint64_t now_us, bool at_end)
{
	uint32_t n = refusals->unrecorded;

	if (n == 0 || (!at_end && !is_over(refusals, now_us)))
		return 0;
	refusals->unrecorded = 0;
	return n;
}
