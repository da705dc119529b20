/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One-shot timers on sd-event. */

#include <stdint.h>
#include <systemd/sd-event.h>

/** Fire @handler once after @delay_us (monotonic, millisecond accuracy); an armed @source is armed again.
 * Returns 0 or a negative errno. @source owned by the caller, sd_event_source_disable_unref(). */
int timer_arm(sd_event *event, sd_event_source **source, uint64_t delay_us, sd_event_time_handler_t handler,
	      void *userdata);

/** Keep @source, but let it not fire; NULL is allowed. */
void timer_disarm(sd_event_source *source);
