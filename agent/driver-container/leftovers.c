/* SPDX-License-Identifier: Apache-2.0 */
/* What an earlier boot left in the engine: containers that do not run, whose allocations ended with that
 * boot. */
#include "container.h"
#include "driver.h"

#include "base/cleanup.h"
#include "log/log.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void on_list(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct driver *driver = userdata;
	const char *alloc, *task;
	const json_t *listed;
	size_t i;

	if (status != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "clear", .err = err},
			"what the last boot left in the engine is not known, and stays");
	json_array_foreach (json, i, listed) {
		if (container_is_leftover(listed, driver->boot_text, &alloc, &task))
			task_clear(driver, alloc, task);
	}
}

static enum status ask(struct driver *driver, struct error *err)
{
	json_t *filters = container_leftover_filters(driver->settings);
	cleanup_free char *text = filters ? json_dumps(filters, JSON_COMPACT) : NULL;
	char *escaped = text ? curl_easy_escape(NULL, text, 0) : NULL;
	char path[ENGINE_PATH_SIZE];
	const struct engine_request request = {
		.method = "GET", .path = path, .timeout_us = driver->settings->engine_timeout_us};

	json_decref(filters);
	if (!escaped)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "list containers");
	(void)snprintf(path, sizeof(path), "/containers/json?all=1&filters=%s", escaped);
	curl_free(escaped);
	return engine_send(driver->engine, &request, on_list, driver, NULL, err);
}

void leftovers_clear(struct driver *driver)
{
	struct error err;

	if (ask(driver, &err) != STATUS_OK)
		on_list(err.status, &err, NULL, driver);
}
