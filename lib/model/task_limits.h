/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The limits of tasks that a driver reports from root's file. Pure; the driver checks its file again. */

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdbool.h>

enum { TASK_LIMITS_TEXT_SIZE = 200 };

/** Does @allowed, of root's file, allow the value @text? "NAME*" allows values with that beginning. Without a
 * slash in it, the name of an image's registry would be a part of the rest: "web:*" allows no "web:5000/x".
 * "*" allows every value. */
bool task_limits_allow(const char *allowed, const char *text);

/** Does @task, with @network as its network and as CSI plugin @plugin_id (NULL: it is no plugin), ask for a
 * value that @offer does not allow? @ret names the field and the value. Values with references are not
 * compared: they are known later. */
bool task_limits_find_forbidden(const Holdfast__Driver__V1__TaskConfig *task,
				Holdfast__Driver__V1__NetworkMode network, const char *plugin_id,
				const Holdfast__Driver__V1__CapabilitiesResponse *offer,
				char ret[static TASK_LIMITS_TEXT_SIZE]);
