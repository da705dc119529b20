/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Calls to systemd about one unit. All have TASK_CALL_TIMEOUT_S. */

#include "unit/task_view.h"

#include <stddef.h>

/** Ask for what systemd says of the unit at @path. @ret_slot owned by the caller */
int task_call_look(sd_bus *bus, const char *path, sd_bus_message_handler_t handler, void *userdata,
		   sd_bus_slot **ret_slot);

/** Its answer. */
enum status task_call_view(sd_bus_message *answer, const char *unit, struct task_view *ret,
			   struct error *err);

/** StartUnit or StopUnit of @unit. @mode of the job, see org.freedesktop.systemd1(5)
 * @ret_slot owned by the caller */
int task_call_unit(sd_bus *bus, const char *method, const char *unit, const char *mode,
		   sd_bus_message_handler_t handler, void *userdata, sd_bus_slot **ret_slot);

/** Its answer: the path of the job. On failure @ret_is_final says that it was refused and would be again. */
enum status task_call_job(sd_bus_message *answer, const char *unit, char *job, size_t size,
			  bool *ret_is_final, struct error *err);
