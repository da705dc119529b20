/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the restarts of a task in intervals that begin with a failure. */
#include "model/restart.h"

typedef Holdfast__Driver__V1__RestartPolicy policy_t;

bool restart_is_wanted(const policy_t *policy)
{
	return policy && policy->attempts > 0 &&
	       policy->mode != HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_NEVER;
}

static int64_t interval_ms(const policy_t *policy)
{
	return policy->interval_ms > 0 ? policy->interval_ms : RESTART_INTERVAL_DEFAULT_MS;
}

int64_t restart_next(const policy_t *policy, struct restart_count *count, int64_t now_ms)
{
	int64_t end_ms, wait_ms = 0;

	if (!restart_is_wanted(policy))
		return -1;
	end_ms = count->since_ms + interval_ms(policy);
	/* a clock that went back begins another interval: it must not wait for longer than one */
	if (count->since_ms == 0 || now_ms >= end_ms || now_ms < count->since_ms) {
		*count = (struct restart_count){.n = 1, .since_ms = now_ms};
		return policy->delay_ms;
	}
	if (count->n < policy->attempts) {
		count->n++;
		return policy->delay_ms;
	}
	if (policy->mode != HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_DELAY)
		return -1;
	wait_ms = end_ms - now_ms;
	*count = (struct restart_count){.n = 1, .since_ms = end_ms};
	return wait_ms > policy->delay_ms ? wait_ms : policy->delay_ms;
}
