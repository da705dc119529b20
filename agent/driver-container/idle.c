/* SPDX-License-Identifier: Apache-2.0 */
/* Asks whether containers run that only a driver would stop, before it is taken from the machine. */
#include "container.h"
#include "driver.h"

#include "base/strbuf.h"

enum { NAMES_MAX = 10 };

struct look {
	sd_event *event;
	struct engine *engine;
	const struct settings *settings;
	struct strbuf names; /* of containers that may run */
	size_t n, pages;
	enum status status;
	struct error *err;
};

static enum status ask_page(struct look *look, const char *before);

static void note(struct look *look, const json_t *listed)
{
	const char *name = json_string_value(json_array_get(json_object_get(listed, "Names"), 0));

	if (container_may_run(listed) && look->n++ < NAMES_MAX)
		strbuf_printf(&look->names, " %s", name);
}

/* Returns whether another page was asked for. */
static bool take_page(struct look *look, const json_t *json)
{
	const char *last = NULL;
	const json_t *listed;
	size_t i;

	if (!json_is_array(json))
		look->status = error_set(look->err, STATUS_INTERNAL, 0,
					 "the engine answered with no list of containers");
	json_array_foreach (json, i, listed) {
		last = json_string_value(json_object_get(listed, "Id"));
		note(look, listed);
	}
	if (look->status != STATUS_OK || i < CONTAINERS_PAGE)
		return false;
	if (!last || ++look->pages == CONTAINERS_PAGES_MAX)
		look->status = error_set(look->err, STATUS_INTERNAL, 0,
					 "the engine's list of containers has no end");
	else
		look->status = ask_page(look, last);
	return look->status == STATUS_OK;
}

static void on_page(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct look *look = userdata;

	look->status = status;
	if (status != STATUS_OK && look->err)
		*look->err = *err;
	if (status != STATUS_OK || !take_page(look, json))
		(void)sd_event_exit(look->event, 0);
}

static enum status ask_page(struct look *look, const char *before)
{
	return containers_list(look->engine, look->settings, false, before, on_page, look, look->err);
}

static enum status ask(struct look *look)
{
	TRY(engine_new(look->event, look->settings->engine_socket, &look->engine, look->err));
	TRY(ask_page(look, NULL));
	if (sd_event_loop(look->event) < 0)
		return error_set(look->err, STATUS_INTERNAL, 0, "the event loop broke off");
	return look->status;
}

enum status check_idle(const struct settings *settings, struct error *err)
{
	struct look look = {.settings = settings, .names = STRBUF_INIT(ERROR_MSG_MAX / 2), .err = err};
	enum status status;

	if (sd_event_new(&look.event) < 0)
		return error_set(err, STATUS_INTERNAL, 0, "make an event loop");
	status = ask(&look);
	if (status == STATUS_OK && look.n > 0)
		status = error_set(err, STATUS_FAILED_PRECONDITION, 0, "containers of this node run:%s%s",
				   look.names.data ? look.names.data : "", look.n > NAMES_MAX ? " ..." : "");
	engine_free(look.engine);
	(void)sd_event_unref(look.event);
	strbuf_release(&look.names);
	return status;
}
