/* SPDX-License-Identifier: Apache-2.0 */
/* Probes the engine's health often, and reports changes. Asks for its version rarely: podman runs a dozen
 * programs for it, which takes seconds on a busy machine. */
#include "driver.h"
#include "engine_version.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"

#include <errno.h>
#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdlib.h>
#include <ticket.h>

enum {
	WELL_S = 15,
	ILL_S = 2,
	PROBE_TIMEOUT_S = 5,
	VERSION_S = 3600,
	VERSION_RETRY_S = 60,
	VERSION_TIMEOUT_S = 60,
};

struct watcher {
	LIST_ENTRY(watcher) link;
	struct driver *driver;
	struct rpc_call *call;
	bool is_behind; /* it has not been sent the last report */
};

enum { KEYS_TEXT_SIZE = SETTINGS_KEYS_MAX * (2 * TICKET_KEY_ID_SIZE + 2) };

/* The beginnings of the keys whose orders it takes: "8a88e3dd, 12345678". */
static void put_keys(const struct settings *settings, char ret[static KEYS_TEXT_SIZE])
{
	char id[2 * TICKET_KEY_ID_SIZE + 1];
	size_t at = 0;

	ret[0] = '\0';
	for (uint32_t i = 0; i < settings->n_keys; i++) {
		hex_encode(id, settings->keys[i], TICKET_KEY_ID_SIZE);
		at += (size_t)str_format(ret + at, KEYS_TEXT_SIZE - at, "%s%s", at > 0 ? ", " : "", id);
	}
}

static void notify_watcher(struct driver *driver, struct watcher *watcher)
{
	Holdfast__Driver__V1__FingerprintResponse response = HOLDFAST__DRIVER__V1__FINGERPRINT_RESPONSE__INIT;
	Holdfast__Driver__V1__KeyValue name = HOLDFAST__DRIVER__V1__KEY_VALUE__INIT;
	Holdfast__Driver__V1__KeyValue version = HOLDFAST__DRIVER__V1__KEY_VALUE__INIT;
	Holdfast__Driver__V1__KeyValue keys = HOLDFAST__DRIVER__V1__KEY_VALUE__INIT;
	Holdfast__Driver__V1__KeyValue *attributes[3] = {&keys, &name, &version};
	char text[KEYS_TEXT_SIZE];

	put_keys(driver->settings, text);
	keys.key = (char[]){"ticket_keys"};
	keys.value = text;
	name.key = (char[]){"engine.name"};
	name.value = driver->engine_name;
	version.key = (char[]){"engine.version"};
	version.value = driver->engine_version;
	response.health = (Holdfast__Driver__V1__Health)driver->health;
	response.description = driver->health_text;
	response.n_attributes = driver->engine_name[0] != '\0' ? 3 : 1;
	response.attributes = attributes;
	watcher->is_behind = rpc_call_is_full(watcher->call) ||
			     rpc_call_send(watcher->call, &response.base, NULL) != STATUS_OK;
}

/* The stream of a full connection may never drain: each probe tries it, too. */
static void tell_those_behind(struct driver *driver)
{
	struct watcher *watcher;

	LIST_FOREACH (watcher, &driver->watchers, link)
		if (watcher->is_behind)
			notify_watcher(driver, watcher);
}

static void tell_all(struct driver *driver)
{
	struct watcher *watcher;

	LIST_FOREACH (watcher, &driver->watchers, link)
		notify_watcher(driver, watcher);
}

static void set(struct driver *driver, int health, const char *text)
{
	if (driver->health == health && str_eq(driver->health_text, text) && !driver->has_new_version) {
		tell_those_behind(driver);
		return;
	}
	driver->has_new_version = false;
	driver->health = health;
	str_copy_text(driver->health_text, sizeof(driver->health_text), text);
	tell_all(driver);
}

static void set_well(struct driver *driver)
{
	struct error err;

	if (engine_check_podman(driver, &err) != STATUS_OK || engine_check_runc(driver, &err) != STATUS_OK)
		set(driver, HOLDFAST__DRIVER__V1__HEALTH__HEALTH_UNHEALTHY, err.msg);
	else if (driver->is_nonsense)
		set(driver, HOLDFAST__DRIVER__V1__HEALTH__HEALTH_UNHEALTHY,
		    "the engine does not report its version");
	else
		set(driver, HOLDFAST__DRIVER__V1__HEALTH__HEALTH_HEALTHY, "the engine answers");
}

static void arm(struct driver *driver, uint64_t seconds)
{
	(void)sd_event_source_set_time(driver->probe_timer, clock_monotonic_us() + seconds * USEC_PER_SEC);
	(void)sd_event_source_set_enabled(driver->probe_timer, SD_EVENT_ONESHOT);
}

/* Handles the engine's version. A late answer is no sign of bad health. */
static void on_version(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct driver *driver = userdata;
	const char *version = json_string_value(json_object_get(json, "Version"));
	bool is_known = status == STATUS_OK && version;
	bool is_final;

	driver->asked_version = NULL;
	if (status == STATUS_OK) {
		driver->is_nonsense = !version;
		engine_version_read(driver, json);
	}
	is_final = is_known && engine_check_podman(driver, NULL) == STATUS_OK &&
		   engine_check_runc(driver, NULL) == STATUS_OK;
	driver->version_us = clock_monotonic_us() + (is_final ? VERSION_S : VERSION_RETRY_S) * USEC_PER_SEC;
	if (status != STATUS_OK)
		return;
	set_well(driver);
}

static void ask_version(struct driver *driver)
{
	const struct engine_request request = {
		.method = "GET", .path = "/version", .timeout_us = VERSION_TIMEOUT_S * USEC_PER_SEC};

	if (!driver->asked_version && clock_monotonic_us() >= driver->version_us)
		(void)engine_send(driver->engine, &request, on_version, driver, &driver->asked_version, NULL);
}

static void on_ping(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct driver *driver = userdata;

	driver->probe = NULL;
	arm(driver, status == STATUS_OK ? WELL_S : ILL_S);
	if (status != STATUS_OK) {
		driver->is_away = true;
		driver->version_us = 0; /* it may be another one when it is back */
		set(driver,
		    status == STATUS_UNAVAILABLE ? HOLDFAST__DRIVER__V1__HEALTH__HEALTH_UNDETECTED
						 : HOLDFAST__DRIVER__V1__HEALTH__HEALTH_UNHEALTHY,
		    err->msg);
		return;
	}
	if (driver->is_away && !driver->is_nonsense)
		leftovers_clear(driver);
	driver->is_away = false;
	set_well(driver);
	ask_version(driver);
}

static int on_probe(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct driver *driver = userdata;
	const struct engine_request request = {.method = "GET",
					       .path = "/_ping",
					       .timeout_us = PROBE_TIMEOUT_S * USEC_PER_SEC,
					       .is_text = true};

	if (engine_send(driver->engine, &request, on_ping, driver, &driver->probe, NULL) != STATUS_OK)
		arm(driver, ILL_S);
	return 0;
}

enum status fingerprint_begin(struct driver *driver, struct error *err)
{
	int r = sd_event_add_time(driver->event, &driver->probe_timer, CLOCK_MONOTONIC, 0, 0, on_probe,
				  driver);

	driver->is_away = true;
	driver->health = HOLDFAST__DRIVER__V1__HEALTH__HEALTH_UNDETECTED;
	(void)str_copy(driver->health_text, sizeof(driver->health_text), "the engine was not asked yet");
	return r < 0 ? error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "arm a timer") : STATUS_OK;
}

void fingerprint_end(struct driver *driver)
{
	(void)sd_event_source_disable_unref(driver->probe_timer);
}

/* The request has no fields: the stream is answered when it is opened. */
static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct driver *driver = userdata;
	struct watcher *watcher;
	struct error err;

	if (rpc_call_data(call))
		return;
	watcher = calloc(1, sizeof(*watcher));
	if (!watcher) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "watch the engine");
		rpc_call_fail(call, &err);
		return;
	}
	watcher->driver = driver;
	watcher->call = call;
	LIST_INSERT_HEAD(&driver->watchers, watcher, link);
	rpc_call_set_data(call, watcher);
	notify_watcher(driver, watcher);
}

/* It reads on. */
static void on_half_close(struct rpc_call *call, void *userdata)
{
}

static void on_drained(struct rpc_call *call, void *userdata)
{
	struct watcher *watcher = rpc_call_data(call);

	if (watcher && watcher->is_behind)
		notify_watcher(userdata, watcher);
}

static void on_closed(struct rpc_call *call, void *userdata)
{
	struct watcher *watcher = rpc_call_data(call);

	if (!watcher)
		return;
	LIST_REMOVE(watcher, link);
	free(watcher);
}

const struct rpc_stream_handlers fingerprint_stream = {.on_message = on_message,
						       .on_closed = on_closed,
						       .on_half_close = on_half_close,
						       .on_drained = on_drained,
						       .is_prompt = true};
