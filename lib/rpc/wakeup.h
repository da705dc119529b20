/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One-shot timers of the event loop, owned by the object that waits. */

#include "base/error.h"

#include <stdint.h>
#include <systemd/sd-event.h>

enum { WAKEUP_ACCURACY_US = 1000 }; /* 0 would mean 250 ms to sd-event */

/** Run @handler once, @delay_us from now; *@timer, if set, is forgotten first.
 * @timer owned by the caller, wakeup_disarm() */
enum status wakeup_arm(sd_event *event, sd_event_source **timer, uint64_t delay_us,
		       sd_event_time_handler_t handler, void *userdata, struct error *err);

/** Forget the timer; *@timer is NULL afterwards. */
void wakeup_disarm(sd_event_source **timer);
