/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/timer.h"

#include "base/clock.h"

#include <time.h>

enum { ACCURACY_US = 1000 }; /* 0 would mean 250 ms */

/* Thousands of years; a longer time would overflow the clock. */
static const uint64_t DELAY_MAX_US = UINT64_C(1) << 60;

/* From now, and not from when the loop last woke: one that has slept would have the delay over at once. */
int timer_arm(sd_event *event, sd_event_source **source, uint64_t delay_us, sd_event_time_handler_t handler,
	      void *userdata)
{
	const uint64_t at_us = clock_monotonic_us() + (delay_us < DELAY_MAX_US ? delay_us : DELAY_MAX_US);
	int r;

	if (!*source)
		return sd_event_add_time(event, source, CLOCK_MONOTONIC, at_us, ACCURACY_US, handler,
					 userdata);
	r = sd_event_source_set_time(*source, at_us);
	return r < 0 ? r : sd_event_source_set_enabled(*source, SD_EVENT_ONESHOT);
}

void timer_again(sd_event_source **source, sd_event_handler_t handler)
{
	sd_event_source *fresh = NULL;

	if (sd_event_source_get_enabled(*source, NULL) > 0)
		return;
	if (sd_event_add_defer(sd_event_source_get_event(*source), &fresh, handler,
			       sd_event_source_get_userdata(*source)) < 0) {
		/* memory is short: before the others rather than never */
		(void)sd_event_source_set_enabled(*source, SD_EVENT_ONESHOT);
		return;
	}
	(void)sd_event_source_unref(*source);
	*source = fresh;
}

void timer_disarm(sd_event_source *source)
{
	if (source)
		(void)sd_event_source_set_enabled(source, SD_EVENT_OFF); /* cannot fail for a timer */
}
