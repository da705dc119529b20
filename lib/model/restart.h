/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The restart block of a task: how often, and when, a task that failed is started again. Pure. */

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	RESTART_ATTEMPTS_MAX = 1000,
	RESTART_ATTEMPTS_DEFAULT = 2,
	RESTART_INTERVAL_DEFAULT_MS = 30 * 60 * 1000,
	RESTART_DELAY_DEFAULT_MS = 15 * 1000,
	RESTART_INTERVAL_MIN_MS = 1000,
	RESTART_TIME_MAX_MS = 24 * 60 * 60 * 1000, /* of interval and delay */
};

/* Restarts of a task in the present interval. */
struct restart_count {
	uint32_t n;
	int64_t since_ms; /* when the interval began; 0: nothing has failed */
};

/** Does the task ever start again? NULL does not. */
bool restart_is_wanted(const Holdfast__Driver__V1__RestartPolicy *policy);

/** Count a failure at @now_ms. Returns the milliseconds until the task is started again, without jitter;
 * negative: it is not, and nothing is counted.
 * @policy  may be NULL */
int64_t restart_next(const Holdfast__Driver__V1__RestartPolicy *policy, struct restart_count *count,
		     int64_t now_ms);
