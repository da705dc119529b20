/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One-shot timers on sd-event, and turns of its loop. */

#include <stdint.h>
#include <systemd/sd-event.h>

/** Fire @handler once after @delay_us (monotonic, millisecond accuracy); an armed @source is armed again.
 * Returns 0 or a negative errno. @source owned by the caller, sd_event_source_disable_unref(). */
int timer_arm(sd_event *event, sd_event_source **source, uint64_t delay_us, sd_event_time_handler_t handler,
	      void *userdata);

/** Has @handler called once, after the sources that are ready now; a call that is due already remains the
 * only one. @source, a deferred one, is replaced: sd-event serves the sources of one priority in the order in
 * which they became ready, and counts a deferred source from when it was made, whenever it is enabled. One
 * that is kept would come first each time, and nothing else would run while it has something to do. */
void timer_again(sd_event_source **source, sd_event_handler_t handler);

/** Keep @source, but let it not fire; NULL is allowed. */
void timer_disarm(sd_event_source *source);
