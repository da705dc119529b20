/* SPDX-License-Identifier: Apache-2.0 */
#include "log/service.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

enum {
	INTERVAL_US = 1000000,
	ACCURACY_US = 100000,
	PREFIX_MAX = 32,
	MESSAGE_MAX = SERVICE_TEXT_MAX + 64,
};

struct service_status {
	sd_event *event; /* borrowed */
	service_text_fn *text;
	void *userdata;
	sd_event_source *post;
	sd_event_source *timer; /* NULL: nothing is left to be looked at */
	uint64_t looked_us;
	char sent[SERVICE_TEXT_MAX];
	char prefix[PREFIX_MAX]; /* not taken yet */
};

DEFINE_CLEANUP(struct service_status, service_status_free)

void service_hide_memory(void)
{
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* 0 is never refused */
}

int service_send(const char *message)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_close int fd = -EBADF;
	socklen_t size;

	if (!path || (path[0] != '/' && path[0] != '@'))
		return 0;
	if (str_copy(address.sun_path, sizeof(address.sun_path), path) < 0)
		return -ENAMETOOLONG;
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (sendto(fd, message, strlen(message), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address,
		   size) < 0)
		return -errno;
	return 0;
}

/* Sends the status. False: it was not accepted, and must be sent again. */
static bool status_notify(struct service_status *status)
{
	char text[SERVICE_TEXT_MAX] = "";
	char message[MESSAGE_MAX];

	status->looked_us = clock_monotonic_us();
	status->text(text, sizeof(text), status->userdata);
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20)
			*p = ' ';
	utf8_mask(text, strlen(text)); /* systemd ignores an invalid one */
	if (status->prefix[0] == '\0' && str_eq(text, status->sent))
		return true;
	(void)str_format(message, sizeof(message), "%sSTATUS=%s\n", status->prefix, text); /* fits */
	if (service_send(message) < 0)
		return false;
	(void)str_copy(status->sent, sizeof(status->sent), text);
	status->prefix[0] = '\0';
	return true;
}

static int on_status_time(sd_event_source *source, uint64_t usec, void *userdata);

static void look_later(struct service_status *status)
{
	if (status->timer)
		return;
	/* without it the next event looks */
	(void)sd_event_add_time_relative(status->event, &status->timer, CLOCK_MONOTONIC, INTERVAL_US,
					 ACCURACY_US, on_status_time, status);
}

static int on_status_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct service_status *status = userdata;

	status->timer = sd_event_source_disable_unref(status->timer);
	if (!status_notify(status))
		look_later(status);
	return 0;
}

static int on_event(sd_event_source *source, void *userdata)
{
	struct service_status *status = userdata;

	if (status->timer)
		return 0;
	if (clock_monotonic_us() - status->looked_us < INTERVAL_US || !status_notify(status))
		look_later(status);
	return 0;
}

enum status service_status_new(sd_event *event, service_text_fn *text, void *userdata,
			       struct service_status **ret, struct error *err)
{
	cleanup(service_status_freep) struct service_status *status = NULL;
	int r;

	if (!getenv("NOTIFY_SOCKET")) {
		*ret = NULL;
		return STATUS_OK;
	}
	status = calloc(1, sizeof(*status));
	if (!status)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM,
				 "cannot talk to the service manager");
	status->event = event;
	status->text = text;
	status->userdata = userdata;
	r = sd_event_add_post(event, &status->post, on_event, status);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot talk to the service manager");
	*ret = TAKE_PTR(status);
	return STATUS_OK;
}

void service_status_free(struct service_status *status)
{
	if (!status)
		return;
	(void)sd_event_source_disable_unref(status->post);
	(void)sd_event_source_disable_unref(status->timer);
	free(status);
}

void service_status_notify(struct service_status *status, const char *prefix)
{
	if (!status)
		return;
	(void)str_copy(status->prefix, sizeof(status->prefix), prefix); /* ours, and short */
	if (!status_notify(status))
		look_later(status);
}

void service_failed(const struct error *err)
{
	char message[MESSAGE_MAX];
	char text[SERVICE_TEXT_MAX];

	str_copy_text(text, sizeof(text), err->msg);
	(void)str_format(message, sizeof(message), "STATUS=%s\nERRNO=%d\n", text, err->sys_errno);
	(void)service_send(message);
}

enum {
	/* parts of the time given: how often it is notified, and how soon again after a failed try */
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

static int watchdog_notify(struct service_watchdog *watchdog)
{
	int r = watchdog->is_to_resume ? tell_time(watchdog->usec) : 0;

	if (r == 0)
		watchdog->is_to_resume = false;
	return r == 0 ? service_send("WATCHDOG=1\n") : r;
}

static int on_watchdog_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct service_watchdog *watchdog = userdata;
	uint64_t parts = watchdog_notify(watchdog) < 0 ? PER_TIME_AGAIN : PER_TIME;
	int r = sd_event_source_set_time_relative(source, watchdog->usec / parts);

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
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot notify the watchdog");
	watchdog->usec = usec;
	r = sd_event_add_time_relative(event, &watchdog->timer, CLOCK_MONOTONIC, 0, usec / PER_TIME_SLACK,
				       on_watchdog_time, watchdog);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot notify the watchdog");
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
	(void)watchdog_notify(watchdog); /* repeated with the next notification */
}
