/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/wakeup.h"

#include <time.h>

enum status wakeup_arm(sd_event *event, sd_event_source **timer, uint64_t delay_us,
		       sd_event_time_handler_t handler, void *userdata, struct error *err)
{
	sd_event_source *source = NULL;
	int r;

	r = sd_event_add_time_relative(event, &source, CLOCK_MONOTONIC, delay_us, WAKEUP_ACCURACY_US, handler,
				       userdata);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot arm a timer");
	wakeup_disarm(timer);
	*timer = source;
	return STATUS_OK;
}

void wakeup_disarm(sd_event_source **timer)
{
	*timer = sd_event_source_disable_unref(*timer);
}
