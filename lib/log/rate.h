#pragma once
/* At most so many lines in a second; the rest is counted. */

#include <stdbool.h>
#include <stdint.h>

enum { LOG_RATE_LINES = 200, LOG_RATE_WINDOW_US = 1000000 };

struct log_rate {
	uint64_t window_us; /* start of the current window, monotonic */
	unsigned int lines; /* written in it */
	uint64_t dropped;   /* since the last report */
};

/** May a line be written at @now_us? Counts it either way. */
bool log_rate_admit(struct log_rate *rate, uint64_t now_us);

/** How many lines were dropped since the last call. */
uint64_t log_rate_take_dropped(struct log_rate *rate);
