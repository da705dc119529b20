#include "base/rate.h"

#include "base/clock.h"

void rate_init(struct rate *rate, uint32_t per_second, uint32_t burst, uint64_t now_us)
{
	uint64_t cost_us = USEC_PER_SEC / per_second;

	*rate = (struct rate){.cost_us = cost_us, .most_us = cost_us * burst, .paid_us = now_us};
}

bool rate_take(struct rate *rate, uint64_t now_us)
{
	uint64_t paid_us = rate->paid_us > now_us ? rate->paid_us : now_us;

	if (paid_us - now_us > rate->most_us - rate->cost_us)
		return false;
	rate->paid_us = paid_us + rate->cost_us;
	return true;
}
