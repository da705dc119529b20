/* SPDX-License-Identifier: Apache-2.0 */
#include "log/rate.h"

#include <string.h>

bool log_rate_refuse(struct log_rate *rate, unsigned int subject, uint64_t now_us)
{
	bool is_full;

	if (now_us - rate->window_us >= LOG_RATE_WINDOW_US) {
		rate->window_us = now_us;
		rate->lines = 0;
		memset(rate->subjects, 0, sizeof(rate->subjects));
	}
	is_full = rate->lines >= LOG_RATE_LINES ||
		  rate->subjects[subject % LOG_RATE_SUBJECTS] >= LOG_RATE_SHARE;
	rate->dropped += is_full;
	return is_full;
}

bool log_rate_admit(struct log_rate *rate, unsigned int subject, uint64_t now_us)
{
	if (log_rate_refuse(rate, subject, now_us))
		return false;
	rate->lines++;
	rate->subjects[subject % LOG_RATE_SUBJECTS]++;
	return true;
}

uint64_t log_rate_take_dropped(struct log_rate *rate)
{
	uint64_t dropped = rate->dropped;

	rate->dropped = 0;
	return dropped;
}
