/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/rate.h"

void rate_init(struct rate *rate, uint32_t per_second, uint32_t burst, uint64_t now_us)
{
	uint64_t cost_us = USEC_PER_SEC / per_second;

	*rate = (struct rate){.cost_us = cost_us, .most_us = cost_us * burst, .paid_us = now_us};
}
