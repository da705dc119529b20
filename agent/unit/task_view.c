/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/task_view.h"

#include "base/names.h"
#include "base/str.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { INVOCATION_BYTES = 16 };

static const char *const active_names[TASK_ACTIVE_N] = {
	[TASK_ACTIVE_INACTIVE] = "inactive",	     [TASK_ACTIVE_FAILED] = "failed",
	[TASK_ACTIVE_ACTIVATING] = "activating",     [TASK_ACTIVE_ACTIVE] = "active",
	[TASK_ACTIVE_DEACTIVATING] = "deactivating",
};

/* Reads a state or result of systemd. These are short; a long one is unknown and is cut. */
static int read_word(sd_bus_message *message, void *target)
{
	const char *word;
	int r = sd_bus_message_read(message, "v", "s", &word);

	if (r < 0)
		return r;
	str_copy_text(target, TASK_WORD_SIZE, word);
	return 0;
}

static int read_u64(sd_bus_message *message, void *target)
{
	return sd_bus_message_read(message, "v", "t", target);
}

static int read_i32(sd_bus_message *message, void *target)
{
	return sd_bus_message_read(message, "v", "i", target);
}

static int read_job(sd_bus_message *message, void *target)
{
	const char *path;
	uint32_t id;
	int r = sd_bus_message_read(message, "v", "(uo)", &id, &path);

	if (r >= 0)
		*(bool *)target = id != 0;
	return r;
}

static int read_invocation(sd_bus_message *message, void *target)
{
	char *text = target;
	const uint8_t *bytes;
	const void *data;
	size_t n;
	int r = sd_bus_message_enter_container(message, 'v', "ay");

	if (r >= 0)
		r = sd_bus_message_read_array(message, 'y', &data, &n);
	if (r < 0)
		return r;
	bytes = data;
	for (size_t i = 0; n == INVOCATION_BYTES && i < n; i++)
		(void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return sd_bus_message_exit_container(message);
}

#define PROPERTY(name_, member, read_)                                                         \
	{                                                                                      \
		.name = (name_), .offset = offsetof(struct task_view, member), .read = (read_) \
	}

static const struct {
	const char *name;
	size_t offset;
	int (*read)(sd_bus_message *message, void *target);
} properties[] = {
	PROPERTY("LoadState", load, read_word),
	PROPERTY("ActiveState", state, read_word),
	PROPERTY("SubState", sub, read_word),
	PROPERTY("Result", result, read_word),
	PROPERTY("InvocationID", invocation, read_invocation),
	PROPERTY("Job", has_job, read_job),
	PROPERTY("TimeoutStopUSec", stop_timeout_us, read_u64),
	PROPERTY("ExecMainStatus", exit_status, read_i32),
};

static int read_property(sd_bus_message *message, struct task_view *view)
{
	const char *name;
	int r = sd_bus_message_read_basic(message, 's', &name);

	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(properties) / sizeof(*properties); i++) {
		if (str_eq(name, properties[i].name))
			return properties[i].read(message, (char *)view + properties[i].offset);
	}
	return sd_bus_message_skip(message, "v");
}

static int read_all(sd_bus_message *message, struct task_view *view)
{
	int r = sd_bus_message_enter_container(message, 'a', "{sv}");

	while (r >= 0 && (r = sd_bus_message_enter_container(message, 'e', "sv")) > 0) {
		r = read_property(message, view);
		if (r >= 0)
			r = sd_bus_message_exit_container(message);
	}
	return r;
}

enum status task_view_read(sd_bus_message *message, struct task_view *ret, struct error *err)
{
	struct task_view view = {.stop_timeout_us = UINT64_MAX};
	int known;
	int r = read_all(message, &view);

	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "systemd's answer about the unit cannot be read");
	if (view.state[0] == '\0')
		return error_set(err, STATUS_INTERNAL, 0,
				 "systemd's answer about the unit has no ActiveState");
	known = names_find(active_names, TASK_ACTIVE_N,
			   str_eq(view.state, "reloading") ? "active" : view.state);
	view.active = known < 0 ? TASK_ACTIVE_UNKNOWN : (enum task_active)known;
	if (view.active == TASK_ACTIVE_ACTIVATING && str_starts_with(view.sub, "auto-restart"))
		view.active = TASK_ACTIVE_RESTARTING;
	view.is_loaded = str_eq(view.load, "loaded");
	*ret = view;
	return STATUS_OK;
}

void task_view_read_invocation(sd_bus_message *message, char ret[static TASK_INVOCATION_SIZE])
{
	struct task_view view = {.stop_timeout_us = UINT64_MAX};
	const char *interface;

	if (sd_bus_message_read_basic(message, 's', &interface) < 0 || read_all(message, &view) < 0)
		view.invocation[0] = '\0';
	memcpy(ret, view.invocation, TASK_INVOCATION_SIZE);
}

bool task_view_is_down(const struct task_view *view)
{
	return view->active == TASK_ACTIVE_INACTIVE || view->active == TASK_ACTIVE_FAILED;
}
