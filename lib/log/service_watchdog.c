/* SPDX-License-Identifier: Apache-2.0 */
#include "log/service_watchdog.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "log/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>

enum {
	/* parts of the time given: so often is it told, and so soon again when it was not taken */
	PER_TIME = 3,
	PER_TIME_AGAIN = 12,
	/* of them, how late it may be for the sake of less waking up */
	PER_TIME_SLACK = 24,
	MESSAGE_SIZE = 64,
};

struct service_watchdog {
	uint64_t usec;
	sd_event_source *timer;
	bool is_to_resume; /* the service manager has not heard yet that the time is the usual one again */
};

DEFINE_CLEANUP(struct service_watchdog, service_watchdog_free)

static int tell_time(uint64_t usec)
{
	char message[MESSAGE_SIZE];

	(void)str_format(message, sizeof(message), "WATCHDOG_USEC=%" PRIu64 "\n", usec); /* fits */
	return service_send(message);
}

static int tell(struct service_watchdog *watchdog)
{
	int r = watchdog->is_to_resume ? tell_time(watchdog->usec) : 0;

	if (r == 0)
		watchdog->is_to_resume = false;
	return r == 0 ? service_send("WATCHDOG=1\n") : r;
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct service_watchdog *watchdog = userdata;
	uint64_t parts = tell(watchdog) < 0 ? PER_TIME_AGAIN : PER_TIME;
	int r = sd_event_source_set_time_relative(source, watchdog->usec / parts);

	(void)usec;
	return r < 0 ? r : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

enum status service_watchdog_new(sd_event *event, struct service_watchdog **ret, struct error *err)
{
	cleanup(service_watchdog_freep) struct service_watchdog *watchdog = NULL;
	uint64_t usec;
	int r = sd_watchdog_enabled(0, &usec);

	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "WATCHDOG_USEC or WATCHDOG_PID is no number");
	if (r == 0) {
		*ret = NULL;
		return STATUS_OK;
	}
	watchdog = calloc(1, sizeof(*watchdog));
	if (!watchdog)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot tell the watchdog");
	watchdog->usec = usec;
	r = sd_event_add_time_relative(event, &watchdog->timer, CLOCK_MONOTONIC, 0, usec / PER_TIME_SLACK,
				       on_time, watchdog);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot tell the watchdog");
	*ret = TAKE_PTR(watchdog);
	return STATUS_OK;
}

void service_watchdog_free(struct service_watchdog *watchdog)
{
	if (!watchdog)
		return;
	(void)sd_event_source_disable_unref(watchdog->timer);
	free(watchdog);
}

void service_watchdog_pause(struct service_watchdog *watchdog, uint64_t usec)
{
	if (watchdog && usec > watchdog->usec)
		(void)tell_time(usec); /* without it the usual time holds */
}

void service_watchdog_resume(struct service_watchdog *watchdog)
{
	if (!watchdog)
		return;
	watchdog->is_to_resume = true;
	(void)tell(watchdog); /* again with what is told next */
}
