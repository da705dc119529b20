/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/drivers.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rate.h"
#include "base/str.h"
#include "driver/driver_instance.h"
#include "log/log.h"
#include "rpc/timer.h"
#include "service/dir.h"
#include "service/registry.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct entry {
	char name[DRIVER_NAME_MAX + 1];
	struct registry registry;
};

struct drivers {
	sd_event *event; /* borrowed */
	struct drivers_options options;
	struct service_dir *dir;
	struct entry entries[DRIVERS_MAX];
	size_t n_entries;
	bool is_full; /* and logged */
	struct rate change_rate;
	sd_event_source *later; /* the rate has refused a report */
};

DEFINE_CLEANUP(struct drivers, drivers_free)

static struct entry *find(struct drivers *drivers, const char *name)
{
	for (size_t i = 0; i < drivers->n_entries; i++)
		if (str_eq(drivers->entries[i].name, name))
			return &drivers->entries[i];
	return NULL;
}

static struct entry *find_or_add(struct drivers *drivers, const char *name)
{
	struct entry *entry = find(drivers, name);

	if (entry)
		return entry;
	if (drivers->n_entries == DRIVERS_MAX) {
		if (!drivers->is_full)
			log_ctx(LOG_ERR, &(struct log_ctx){.op = "driver", .driver = name},
				"driver %s is not taken, this node has %d drivers already: remove the "
				"folders in %s of those that are no longer used",
				name, DRIVERS_MAX, drivers->options.driver_dir);
		drivers->is_full = true;
		return NULL;
	}
	entry = &drivers->entries[drivers->n_entries];
	*entry = (struct entry){.registry = {.n = 0}};
	if (str_copy(entry->name, sizeof(entry->name), name) < 0)
		return NULL; /* service/dir takes no longer ones */
	drivers->n_entries++;
	return entry;
}

static int on_later(sd_event_source *source, uint64_t usec, void *userdata);

/* Reports over the rate wait for a second, and go as one: the newest. */
static void changed(void *userdata)
{
	struct drivers *drivers = userdata;

	if (!rate_take(&drivers->change_rate, clock_monotonic_us()) &&
	    timer_arm(drivers->event, &drivers->later, USEC_PER_SEC / INSTANCE_CHANGES_PER_SECOND, on_later,
		      drivers) >= 0)
		return;
	timer_disarm(drivers->later);
	if (drivers->options.changed)
		drivers->options.changed(drivers->options.userdata);
}

static int on_later(sd_event_source *source, uint64_t usec, void *userdata)
{
	changed(userdata);
	return 0;
}

/* A folder that was looked at. */
struct look {
	struct drivers *drivers;
	const struct entry *entry;
};

static struct service_instance *add_instance(const struct service_socket *socket, void *userdata)
{
	const struct look *look = userdata;
	const char *name = look->entry->name;
	struct driver_instance *instance;
	struct error err;

	if (driver_instance_new(look->drivers->event, name, socket->name, &look->drivers->options, changed,
				look->drivers, &instance, &err) == STATUS_OK)
		return &instance->base;
	log_ctx(LOG_ERR, &(struct log_ctx){.op = "driver", .driver = name, .err = &err},
		"driver %s is looked at again later", name);
	return NULL;
}

static void remove_instance(struct service_instance *base)
{
	driver_instance_free((struct driver_instance *)base);
}

static void update_instances(struct drivers *drivers, struct entry *entry,
			     const struct service_socket *sockets, size_t n)
{
	static const struct service_folder_events events = {add_instance, remove_instance};
	struct look look = {drivers, entry};

	service_instances_update(&entry->registry, sockets, n, &events, &look);
}

static void on_folder(const char *name, const struct service_socket *sockets, size_t n, void *userdata)
{
	struct drivers *drivers = userdata;
	struct entry *entry = n > 0 ? find_or_add(drivers, name) : find(drivers, name);

	if (!entry)
		return;
	update_instances(drivers, entry, sockets, n);
	changed(drivers);
}

static void on_gone(const char *name, void *userdata)
{
	struct drivers *drivers = userdata;
	struct entry *entry = find(drivers, name);

	if (!entry)
		return;
	update_instances(drivers, entry, NULL, 0);
	log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "driver", .driver = entry->name},
		"driver %s is no longer part of this node", entry->name);
	*entry = drivers->entries[--drivers->n_entries];
	drivers->is_full = false;
	changed(drivers);
}

static void on_scanned(void *userdata)
{
	changed(userdata);
}

enum status drivers_new(sd_event *event, const struct drivers_options *options, struct drivers **ret,
			struct error *err)
{
	assert(options->driver_dir != NULL);

	static const struct service_dir_events events = {
		.on_folder = on_folder,
		.on_gone = on_gone,
		.on_scanned = on_scanned,
	};
	cleanup(drivers_freep) struct drivers *drivers = calloc(1, sizeof(*drivers));

	if (!drivers)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot look for drivers");
	drivers->event = event;
	drivers->options = *options;
	rate_init(&drivers->change_rate, INSTANCE_CHANGES_PER_SECOND, INSTANCE_CHANGES_BURST,
		  clock_monotonic_us());
	TRY(service_dir_new(event, &driver_kind, options->driver_dir, &events, drivers, &drivers->dir, err));
	*ret = TAKE_PTR(drivers);
	return STATUS_OK;
}

enum status drivers_start(struct drivers *drivers, struct error *err)
{
	return service_dir_start(drivers->dir, err);
}

void drivers_free(struct drivers *drivers)
{
	if (!drivers)
		return;
	service_dir_free(drivers->dir);
	for (size_t i = 0; i < drivers->n_entries; i++)
		update_instances(drivers, &drivers->entries[i], NULL, 0);
	(void)sd_event_source_disable_unref(drivers->later);
	free(drivers);
}

static bool answers(const void *instance, const void *arg)
{
	return service_instance_is_healthy(instance);
}

/* Returns the newest instance that answers, else the newest. NULL: there is no instance. */
static struct driver_instance *current(const struct entry *entry)
{
	struct driver_instance *instance = registry_current(&entry->registry, answers, NULL);

	return instance || entry->registry.n == 0 ? instance : entry->registry.slots[0].instance;
}

static void describe(const struct entry *entry, struct driver_info *ret)
{
	const struct driver_instance *instance = current(entry);

	*ret = (struct driver_info){.reason = "there is no socket in its folder"};
	if (instance)
		driver_instance_info(instance, ret);
	ret->name = entry->name;
}

size_t drivers_list(const struct drivers *drivers, struct driver_info *ret, size_t max)
{
	size_t n = drivers->n_entries < max ? drivers->n_entries : max;

	for (size_t i = 0; i < n; i++)
		describe(&drivers->entries[i], &ret[i]);
	return n;
}

const Holdfast__Driver__V1__CapabilitiesResponse *drivers_offer(const struct drivers *drivers,
								const char *name)
{
	struct driver_info info;

	for (size_t i = 0; i < drivers->n_entries; i++) {
		if (!str_eq(drivers->entries[i].name, name))
			continue;
		describe(&drivers->entries[i], &info);
		return info.capabilities;
	}
	return NULL;
}

enum status drivers_client(const struct drivers *drivers, const char *name, struct service_client **ret,
			   struct error *err)
{
	for (size_t i = 0; i < drivers->n_entries; i++) {
		const struct entry *entry = &drivers->entries[i];
		struct driver_instance *instance = current(entry);
		struct driver_info info;

		if (!str_eq(entry->name, name))
			continue;
		if (instance && service_instance_is_settled(&instance->base)) {
			*ret = instance->base.client;
			return STATUS_OK;
		}
		describe(entry, &info);
		return error_set(err, STATUS_UNAVAILABLE, 0, "driver %s does not answer on this node: %s",
				 name,
				 info.reason[0] != '\0' ? info.reason : "it is asked for its identity again");
	}
	return error_set(err, STATUS_NOT_FOUND, 0,
			 "driver %s is not on this node: there is no socket in %s/%s", name,
			 drivers->options.driver_dir, name);
}
