/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rate.h"

#include <assert.h>

bool rate_take(struct rate *rate, uint64_t now_us)
{
	assert(rate->cost_us <= rate->most_us);

	uint64_t was_us = __atomic_load_n(&rate->paid_us, __ATOMIC_RELAXED);
	uint64_t paid_us;

	do {
		paid_us = was_us > now_us ? was_us : now_us;
		if (paid_us - now_us > rate->most_us - rate->cost_us)
			return false;
	} while (!__atomic_compare_exchange_n(&rate->paid_us, &was_us, paid_us + rate->cost_us, false,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}
