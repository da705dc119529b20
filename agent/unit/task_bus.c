/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/task_bus.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "rpc/wakeup.h"

#include <errno.h>
#include <stdlib.h>

#define DBUS_NAME "org.freedesktop.DBus"

enum { NAME_SIZE = 256 }; /* of the bus */

struct task_bus {
	sd_event *event; /* borrowed */
	const struct task_bus_events *events;
	void *userdata;
	sd_bus *bus;
	sd_bus_slot *subscription; /* asked for, not answered yet */
	bool is_up;
	char owner[NAME_SIZE]; /* systemd's unique name; empty: not known */
	sd_event_source *retry_timer;
	struct backoff backoff;
	struct error last_error;
};

static void open_bus(struct task_bus *bus);

static void close_bus(struct task_bus *bus)
{
	if (bus->is_up)
		bus->events->on_down(bus->userdata);
	bus->is_up = false;
	bus->owner[0] = '\0';
	bus->subscription = sd_bus_slot_unref(bus->subscription);
	bus->bus = sd_bus_close_unref(bus->bus);
}

static int on_retry_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct task_bus *bus = userdata;

	wakeup_disarm(&bus->retry_timer);
	close_bus(bus);
	open_bus(bus);
	return 0;
}

/* The connection is closed from the timer, not from one of its own callbacks. */
static void retry(struct task_bus *bus, int r, const char *what)
{
	bool was_fine = bus->last_error.status == STATUS_OK;
	uint64_t delay_us = backoff_next(&bus->backoff, backoff_random());
	struct error failure;

	(void)error_set(&bus->last_error, STATUS_UNAVAILABLE, r,
			"%s; is dbus.service running, and may this "
			"process use AF_UNIX and /run/dbus?",
			what);
	if (was_fine)
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "systemd", .err = &bus->last_error},
			"no connection to systemd, what runs is left as it is");
	if (wakeup_arm(bus->event, &bus->retry_timer, delay_us, on_retry_due, bus, &failure) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "systemd", .err = &failure},
			"systemd will not be asked again");
}

static int on_subscribed(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	const sd_bus_error *failure = sd_bus_message_get_error(message);
	struct task_bus *bus = userdata;
	const char *owner = sd_bus_message_get_sender(message);

	bus->subscription = sd_bus_slot_unref(bus->subscription);
	if (failure || !owner || str_copy(bus->owner, sizeof(bus->owner), owner) < 0) {
		retry(bus, failure ? -sd_bus_error_get_errno(failure) : -EBADMSG,
		      "systemd does not answer on the system bus");
		return 0;
	}
	if (bus->last_error.status != STATUS_OK)
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "systemd"}, "connected to systemd again");
	bus->last_error = (struct error){0};
	backoff_reset(&bus->backoff);
	bus->is_up = true;
	bus->events->on_up(bus->userdata);
	return 0;
}

/* Without a subscriber systemd sends no signals. It is asked again in each life of systemd. */
static int subscribe(struct task_bus *bus)
{
	sd_bus_message *message = NULL;
	int r = sd_bus_message_new_method_call(bus->bus, &message, SYSTEMD_NAME, SYSTEMD_PATH,
					       SYSTEMD_MANAGER, "Subscribe");

	bus->subscription = sd_bus_slot_unref(bus->subscription);
	if (r >= 0)
		r = sd_bus_call_async(bus->bus, &bus->subscription, message, on_subscribed, bus,
				      TASK_CALL_TIMEOUT_S * USEC_PER_SEC);
	sd_bus_message_unref(message);
	return r;
}

static int on_disconnected(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	struct task_bus *bus = userdata;

	retry(bus, -ECONNRESET, "the system bus has closed the connection");
	return 0;
}

static int on_owner_changed(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	const char *name, *before, *after, *sender = sd_bus_message_get_sender(message);
	struct task_bus *bus = userdata;
	int r;

	if (!sender || !str_eq(sender, DBUS_NAME) ||
	    sd_bus_message_read(message, "sss", &name, &before, &after) < 0 || after[0] == '\0')
		return 0;
	r = subscribe(bus);
	if (r < 0)
		retry(bus, r, "cannot ask systemd for its signals");
	return 0;
}

static int connect_bus(struct task_bus *bus)
{
	int r = task_bus_open(&bus->bus);

	if (r >= 0)
		r = sd_bus_attach_event(bus->bus, bus->event, SD_EVENT_PRIORITY_NORMAL);
	if (r >= 0)
		r = sd_bus_match_signal_async(bus->bus, NULL, NULL, "/org/freedesktop/DBus/Local",
					      "org.freedesktop.DBus.Local", "Disconnected", on_disconnected,
					      NULL, bus);
	if (r >= 0)
		r = sd_bus_add_match_async(bus->bus, NULL,
					   "type='signal',sender='" DBUS_NAME "',interface='" DBUS_NAME
					   "',member='NameOwnerChanged',arg0='" SYSTEMD_NAME "'",
					   on_owner_changed, NULL, bus);
	return r < 0 ? r : subscribe(bus);
}

static void open_bus(struct task_bus *bus)
{
	int r = connect_bus(bus);

	if (r < 0)
		retry(bus, r, "cannot connect to the system bus");
}

enum status task_bus_new(sd_event *event, const struct task_bus_events *events, void *userdata,
			 struct task_bus **ret, struct error *err)
{
	struct task_bus *bus = calloc(1, sizeof(*bus));

	if (!bus)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot speak to systemd");
	bus->event = event;
	bus->events = events;
	bus->userdata = userdata;
	bus->backoff = (struct backoff)BACKOFF_INIT(TASK_BUS_RETRY_MIN_MS * USEC_PER_MSEC,
						    TASK_BUS_RETRY_MAX_MS * USEC_PER_MSEC);
	*ret = bus;
	return STATUS_OK;
}

void task_bus_want(struct task_bus *bus)
{
	if (!bus->bus && !bus->retry_timer)
		open_bus(bus);
}

sd_bus *task_bus_get(const struct task_bus *bus)
{
	return bus->is_up && !bus->retry_timer ? bus->bus : NULL;
}

const struct error *task_bus_error(const struct task_bus *bus)
{
	return &bus->last_error;
}

bool task_bus_is_from_systemd(const struct task_bus *bus, sd_bus_message *message)
{
	const char *sender = sd_bus_message_get_sender(message);

	return sender && bus->owner[0] != '\0' && str_eq(sender, bus->owner);
}

void task_bus_free(struct task_bus *bus)
{
	if (!bus)
		return;
	wakeup_disarm(&bus->retry_timer);
	bus->is_up = false;
	close_bus(bus);
	free(bus);
}
