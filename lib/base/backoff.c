/* SPDX-License-Identifier: Apache-2.0 */
#include "base/backoff.h"

#include <assert.h>
#include <sys/random.h>

uint64_t backoff_next(struct backoff *backoff, uint32_t random)
{
	uint64_t whole = backoff->min_us;
	uint64_t half;

	assert(backoff->min_us > 0 && backoff->min_us <= backoff->max_us);
	for (uint32_t i = 0; i < backoff->attempts && whole < backoff->max_us; i++)
		whole = whole > backoff->max_us / 2 ? backoff->max_us : whole * 2;
	if (backoff->attempts < UINT32_MAX)
		backoff->attempts++;
	half = whole / 2;
	return whole - half + half * random / UINT32_MAX;
}

void backoff_reset(struct backoff *backoff)
{
	backoff->attempts = 0;
}

uint32_t backoff_random(void)
{
	uint32_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
		return 0;
	return random;
}
