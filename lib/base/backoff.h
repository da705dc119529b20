/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Delays between attempts: exponential, capped, with jitter. Pure: the caller brings the randomness. */

#include <stdint.h>

struct backoff {
	uint64_t min_us;   /* first delay, before jitter */
	uint64_t max_us;   /* no delay is longer */
	uint32_t attempts; /* delays handed out since the last reset; sticks at its maximum */
};

#define BACKOFF_INIT(min_us_, max_us_)                   \
	{                                                \
		.min_us = (min_us_), .max_us = (max_us_) \
	}

/** The next delay in microseconds: within [half, whole] of min * 2^attempts, never above max.
 * @random any number; all of its bits are used */
uint64_t backoff_next(struct backoff *backoff, uint32_t random);

/** After a success. */
void backoff_reset(struct backoff *backoff);

/** Randomness for backoff_next(). Without entropy it is 0: shorter delays, never a failure. */
uint32_t backoff_random(void);
