/* SPDX-License-Identifier: Apache-2.0 */
/* Removes the containers that an earlier boot left in the engine: they do not run, and their allocations
 * ended with that boot. */
#include "container.h"
#include "driver.h"

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "log/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void on_list(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct driver *driver = userdata;
	const char *alloc, *task;
	const json_t *listed;
	size_t i;

	if (status != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "clear", .err = err},
			"cannot list what the last boot left in the engine; it stays");
	json_array_foreach (json, i, listed) {
		if (container_is_leftover(listed, driver->boot_text, &alloc, &task))
			task_clear(driver, alloc, task);
	}
}

/* Appends @text as part of a query: all but unreserved characters (RFC 3986) are encoded. */
static void put_encoded(struct strbuf *path, const char *text)
{
	for (const char *p = text; *p; p++) {
		bool is_plain =
			(*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || strchr("0123456789-._~", *p);

		strbuf_printf(path, is_plain ? "%c" : "%%%02X", (unsigned char)*p);
	}
}

static enum status ask(struct driver *driver, struct error *err)
{
	json_t *filters = container_leftover_filters(driver->settings);
	cleanup_free char *text = filters ? json_dumps(filters, JSON_COMPACT) : NULL;
	cleanup_strbuf struct strbuf path = STRBUF_INIT(ENGINE_PATH_SIZE - 1);
	struct engine_request request = {.method = "GET", .timeout_us = driver->settings->engine_timeout_us};

	json_decref(filters);
	strbuf_puts(&path, "/containers/json?all=1&filters=");
	put_encoded(&path, text ? text : "");
	if (!text || path.error != 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "list containers");
	request.path = path.data;
	return engine_send(driver->engine, &request, on_list, driver, NULL, err);
}

void leftovers_clear(struct driver *driver)
{
	struct error err;

	if (ask(driver, &err) != STATUS_OK)
		on_list(err.status, &err, NULL, driver);
}
