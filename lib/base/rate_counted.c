/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rate_counted.h"

#include "base/str.h"

#include <inttypes.h>

bool rate_take_counted(struct rate_counted *counted, uint64_t cost_us, uint32_t burst, uint64_t now_us,
		       char ret_more[static RATE_MORE_SIZE])
{
	counted->rate.cost_us = cost_us;
	counted->rate.most_us = cost_us * burst;
	ret_more[0] = '\0';
	if (!rate_take(&counted->rate, now_us)) {
		counted->left_out++;
		return false;
	}
	if (counted->left_out > 0)
		(void)str_format(ret_more, RATE_MORE_SIZE, "; and %" PRIu64 " more before",
				 counted->left_out);
	counted->left_out = 0;
	return true;
}
