/* SPDX-License-Identifier: Apache-2.0 */
/* Removes the containers that an earlier boot left in the engine: they do not run, and their allocations
 * ended with that boot. */
#include "container.h"
#include "driver.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "log/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	CLEARS_MAX = 32, /* half of the engine's requests that are only for releases */
	PAUSE_US = 100 * USEC_PER_MSEC,
};

void leftovers_forget(struct driver *driver)
{
	driver->leftover_timer = sd_event_source_disable_unref(driver->leftover_timer);
	json_decref(driver->leftovers);
	driver->leftovers = NULL;
}

/* Removes some; the others follow when these have ended. It begins after the last page: the engine finds the
 * next page by a container of this one. */
static int remove_some(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct driver *driver = userdata;
	json_t *found = driver->leftovers;
	size_t n = json_array_size(found);
	const char *alloc, *task;

	/* the newest first: tasks before the container whose network they join */
	for (size_t room = CLEARS_MAX - driver->n_clears; room > 0 && n > 0; room--, n--) {
		if (json_unpack(json_array_get(found, 0), "[s, s]", &alloc, &task) == 0)
			task_clear(driver, alloc, task);
		(void)json_array_remove(found, 0);
	}
	driver->leftover_timer = sd_event_source_disable_unref(driver->leftover_timer);
	if (n == 0 || sd_event_add_time(driver->event, &driver->leftover_timer, CLOCK_MONOTONIC,
					clock_monotonic_us() + PAUSE_US, 0, remove_some, driver) < 0)
		leftovers_forget(driver);
	return 0;
}

static enum status ask_page(struct driver *driver, const char *before, struct error *err);

static void on_page(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct driver *driver = userdata;
	const char *alloc, *task, *last = NULL;
	const json_t *listed;
	struct error own;
	size_t i;

	json_array_foreach (json, i, listed) {
		last = json_string_value(json_object_get(listed, "Id"));
		if (container_is_leftover(listed, driver->boot_text, &alloc, &task))
			(void)json_array_append_new(driver->leftovers, json_pack("[s, s]", alloc, task));
	}
	if (status == STATUS_OK && i >= CONTAINERS_PAGE && last &&
	    ++driver->leftover_pages < CONTAINERS_PAGES_MAX) {
		status = ask_page(driver, last, &own);
		err = &own;
		if (status == STATUS_OK)
			return;
	}
	if (status != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "clear", .err = err},
			"what the last boot left in the engine is not known, and stays");
	(void)remove_some(NULL, 0, driver);
}

enum status containers_list(struct engine *engine, const struct settings *settings, bool only_at_rest,
			    const char *before, engine_done_fn *done, void *userdata, struct error *err)
{
	json_t *filters = container_filters(settings, only_at_rest, before);
	cleanup_free char *text = filters ? json_dumps(filters, JSON_COMPACT) : NULL;
	cleanup_strbuf struct strbuf path = STRBUF_INIT(ENGINE_PATH_SIZE - 1);
	struct engine_request request = {.method = "GET", .timeout_us = settings->engine_timeout_us};

	json_decref(filters);
	strbuf_printf(&path, "/containers/json?all=1&limit=%d&filters=", CONTAINERS_PAGE);
	engine_put_encoded(&path, text ? text : "", text ? strlen(text) : 0);
	if (!text || path.error != 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "list containers");
	request.path = path.data;
	return engine_send(engine, &request, done, userdata, NULL, err);
}

/* @before the last container of the page before; NULL: the first page */
static enum status ask_page(struct driver *driver, const char *before, struct error *err)
{
	return containers_list(driver->engine, driver->settings, true, before, on_page, driver, err);
}

void leftovers_clear(struct driver *driver)
{
	struct error err;

	if (driver->leftovers && !driver->leftover_timer) /* they are being listed */
		return;
	leftovers_forget(driver); /* the engine was away, and the new list has those that failed, too */
	driver->leftovers = json_array();
	driver->leftover_pages = 0;
	if (ask_page(driver, NULL, &err) != STATUS_OK)
		on_page(err.status, &err, NULL, driver);
}
