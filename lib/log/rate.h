/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Limits the lines in a second, and those of them about one thing; the others are counted.
 *
 * All of a second is less than journald accepts of a unit by default (RateLimitBurst= of journald.conf(5),
 * 10 000 in 30 s), so that this limit, not journald, chooses the lines to drop. */

#include <stdbool.h>
#include <stdint.h>

enum {
	LOG_RATE_LINES = 200,
	LOG_RATE_SHARE = 100,	/* of one subject */
	LOG_RATE_SUBJECTS = 64, /* that are counted apart; what falls together shares */
	LOG_RATE_WINDOW_US = 1000000,
};

struct log_rate {
	uint64_t window_us; /* start of the current window, monotonic */
	unsigned int lines; /* written in it */
	uint8_t subjects[LOG_RATE_SUBJECTS];
	uint64_t dropped; /* since the last report */
};

_Static_assert(LOG_RATE_SHARE <= UINT8_MAX, "the lines of a subject fit their counter");

/** May a line about @subject be written at @now_us? Counts it either way. */
bool log_rate_admit(struct log_rate *rate, unsigned int subject, uint64_t now_us);

/** Would log_rate_admit() drop it? Counts it as dropped then. */
bool log_rate_refuse(struct log_rate *rate, unsigned int subject, uint64_t now_us);

/** How many lines were dropped since the last call. */
uint64_t log_rate_take_dropped(struct log_rate *rate);
