#include "log/rate.h"

bool log_rate_admit(struct log_rate *rate, uint64_t now_us)
{
	if (now_us - rate->window_us >= LOG_RATE_WINDOW_US) {
		rate->window_us = now_us;
		rate->lines = 0;
	}
	if (rate->lines >= LOG_RATE_LINES) {
		rate->dropped++;
		return false;
	}
	rate->lines++;
	return true;
}

uint64_t log_rate_take_dropped(struct log_rate *rate)
{
	uint64_t dropped = rate->dropped;

	rate->dropped = 0;
	return dropped;
}
