/* SPDX-License-Identifier: Apache-2.0 */
#include "log/rate.h"

#include "base/cleanup.h"

#include <string.h>

unsigned int log_rate_subject(const struct log_ctx *ctx)
{
	static const struct log_ctx nothing;
	const struct log_ctx *about = ctx ? ctx : &nothing;
	const char *const names[] = {about->node, about->plugin, about->volume, about->alloc, about->peer};
	uint32_t hash = 2166136261U; /* FNV-1a */

	hash = (hash ^ (uint32_t)about->event) * 16777619U;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!names[i])
			continue;
		for (const char *p = names[i]; *p != '\0'; p++)
			hash = (hash ^ (unsigned char)*p) * 16777619U;
		break;
	}
	return (hash ^ hash >> 16) % LOG_RATE_SUBJECTS;
}

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
