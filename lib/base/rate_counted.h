/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A rate that counts how many it refuses, for records and lines that others cause. */

#include "base/rate.h"

enum { RATE_MORE_SIZE = 48 };

/* All zero at first. */
struct rate_counted {
	struct rate rate;
	uint64_t left_out; /* since the last one that was paid for */
};

/** Pay @cost_us for one, of which @burst (at least 1) at once. @ret_more is for the end of its text: how many
 * were refused before it; "" without any. */
bool rate_take_counted(struct rate_counted *counted, uint64_t cost_us, uint32_t burst, uint64_t now_us,
		       char ret_more[static RATE_MORE_SIZE]);
