/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A limit of so many per second, of which so many at once. Pure; the caller has the clock. */

#include <stdbool.h>
#include <stdint.h>

struct rate {
	uint64_t cost_us; /* time that pays for one */
	uint64_t most_us; /* how far ahead may be paid */
	uint64_t paid_us; /* monotonic time up to which is paid */
};

/** @per_second (at least 1), @burst (at least 1) at once. @now_us is monotonic. */
void rate_init(struct rate *rate, uint32_t per_second, uint32_t burst, uint64_t now_us);

/** Pay for one; false when there have been too many. Several processes may share @rate. */
bool rate_take(struct rate *rate, uint64_t now_us);
