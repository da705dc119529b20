/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/task_call.h"

#include "base/clock.h"
#include "base/str.h"
#include "unit/task.h"

#include <errno.h>

#define SYSTEMD_ERROR "org.freedesktop.systemd1."

/* Answers that would be the same again, by the name of the error. */
static const struct {
	const char *name;
	enum status status;
} finals[] = {
	{SD_BUS_ERROR_ACCESS_DENIED, STATUS_PERMISSION_DENIED},
	{SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED, STATUS_PERMISSION_DENIED},
	{SD_BUS_ERROR_INVALID_ARGS, STATUS_INVALID_ARGUMENT},
	{SYSTEMD_ERROR "NoSuchUnit", STATUS_NOT_FOUND},
	{SYSTEMD_ERROR "LoadFailed", STATUS_FAILED_PRECONDITION},
	{SYSTEMD_ERROR "BadUnitSetting", STATUS_FAILED_PRECONDITION},
	{SYSTEMD_ERROR "UnitMasked", STATUS_FAILED_PRECONDITION},
	{SYSTEMD_ERROR "OnlyByDependency", STATUS_FAILED_PRECONDITION},
	{SYSTEMD_ERROR "JobTypeNotApplicable", STATUS_FAILED_PRECONDITION},
};

static int send_call(sd_bus *bus, sd_bus_message *message, sd_bus_message_handler_t handler, void *userdata,
		     sd_bus_slot **ret_slot)
{
	return sd_bus_call_async(bus, ret_slot, message, handler, userdata,
				 TASK_CALL_TIMEOUT_S * USEC_PER_SEC);
}

int task_call_look(sd_bus *bus, const char *path, sd_bus_message_handler_t handler, void *userdata,
		   sd_bus_slot **ret_slot)
{
	sd_bus_message *message = NULL;
	int r = sd_bus_message_new_method_call(bus, &message, SYSTEMD_NAME, path,
					       "org.freedesktop.DBus.Properties", "GetAll");

	if (r >= 0)
		r = sd_bus_message_append(message, "s", ""); /* of all interfaces, at one moment */
	if (r >= 0)
		r = send_call(bus, message, handler, userdata, ret_slot);
	sd_bus_message_unref(message);
	return r;
}

int task_call_unit(sd_bus *bus, const char *method, const char *unit, const char *mode,
		   sd_bus_message_handler_t handler, void *userdata, sd_bus_slot **ret_slot)
{
	sd_bus_message *message = NULL;
	int r = sd_bus_message_new_method_call(bus, &message, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
					       method);

	if (r >= 0)
		r = sd_bus_message_append(message, "ss", unit, mode);
	if (r >= 0)
		r = send_call(bus, message, handler, userdata, ret_slot);
	sd_bus_message_unref(message);
	return r;
}

/* An error of systemd, or of the bus in its place. */
static enum status read_error(const sd_bus_error *error, const char *unit, bool *ret_is_final,
			      struct error *err)
{
	enum status status = STATUS_UNAVAILABLE;
	const char *text = error->message ? error->message : error->name;

	*ret_is_final = false;
	for (size_t i = 0; i < sizeof(finals) / sizeof(*finals); i++) {
		if (!sd_bus_error_has_name(error, finals[i].name))
			continue;
		*ret_is_final = true;
		status = finals[i].status;
	}
	if (status == STATUS_PERMISSION_DENIED)
		return error_set(err, status, 0,
				 "systemd does not let the agent start and stop unit %s (%.200s): add it to "
				 "the list in " POLKIT_RULES "; with SELinux, setsebool -P "
				 "holdfast_agent_units on as well",
				 unit, text);
	return error_set(err, status, 0, "systemd does not do it for unit %s: %.200s (%.100s)", unit, text,
			 error->name);
}

enum status task_call_view(sd_bus_message *answer, const char *unit, struct task_view *ret, struct error *err)
{
	const sd_bus_error *error = sd_bus_message_get_error(answer);
	enum status status;
	bool is_final;

	if (error)
		return read_error(error, unit, &is_final, err);
	status = task_view_read(answer, ret, err);
	return status == STATUS_OK ? status : error_prefix(err, "unit %s", unit);
}

enum status task_call_job(sd_bus_message *answer, const char *unit, char *job, size_t size,
			  bool *ret_is_final, struct error *err)
{
	const sd_bus_error *error = sd_bus_message_get_error(answer);
	const char *path;

	if (error)
		return read_error(error, unit, ret_is_final, err);
	*ret_is_final = false;
	if (sd_bus_message_read_basic(answer, 'o', &path) < 0 || str_copy(job, size, path) < 0)
		return error_set(err, STATUS_INTERNAL, 0, "systemd's answer about unit %s names no job",
				 unit);
	return STATUS_OK;
}
