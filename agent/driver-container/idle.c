/* SPDX-License-Identifier: Apache-2.0 */
/* Asks whether containers run that only a driver would stop, before it is taken from the machine. */
#include "driver.h"

#include "base/cleanup.h"
#include "base/strbuf.h"

enum { NAMES_MAX = 10 };

struct look {
	sd_event *event;
	enum status status;
	struct error *err;
};

static void on_list(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	cleanup_strbuf struct strbuf names = STRBUF_INIT(ERROR_MSG_MAX / 2);
	struct look *look = userdata;
	size_t n = json_array_size(json);

	look->status = status;
	if (status != STATUS_OK && look->err)
		*look->err = *err;
	else if (!json_is_array(json))
		look->status = error_set(look->err, STATUS_INTERNAL, 0,
					 "the engine answered with no list of containers");
	for (size_t i = 0; i < n && i < NAMES_MAX; i++) {
		const json_t *name = json_array_get(json_object_get(json_array_get(json, i), "Names"), 0);

		strbuf_printf(&names, " %s", json_string_value(name) ? json_string_value(name) : "?");
	}
	if (n > 0)
		look->status = error_set(look->err, STATUS_FAILED_PRECONDITION, 0,
					 "containers of this node run:%s%s", names.data ? names.data : "",
					 n > NAMES_MAX ? " ..." : "");
	(void)sd_event_exit(look->event, 0);
}

enum status check_idle(const struct settings *settings, struct error *err)
{
	struct look look = {.err = err};
	struct engine *engine = NULL;
	enum status status;

	if (sd_event_new(&look.event) < 0)
		return error_set(err, STATUS_INTERNAL, 0, "make an event loop");
	status = engine_new(look.event, settings->engine_socket, &engine, err);
	if (status == STATUS_OK)
		status = containers_list(engine, settings, true, NULL, on_list, &look, err);
	if (status == STATUS_OK && sd_event_loop(look.event) < 0)
		status = error_set(err, STATUS_INTERNAL, 0, "the event loop broke off");
	if (status == STATUS_OK)
		status = look.status;
	engine_free(engine);
	(void)sd_event_unref(look.event);
	return status;
}
