/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_version.h"

#include "driver.h"

#include "base/str.h"

bool engine_version_is_known(const struct driver *driver)
{
	return driver->engine_version[0] != '\0';
}

void engine_version_read(struct driver *driver, const json_t *json)
{
	const json_t *component = json_array_get(json_object_get(json, "Components"), 0);
	const char *name = json_string_value(json_object_get(component, "Name"));
	const char *version = json_string_value(json_object_get(json, "Version"));

	name = name ? name : "";
	if (!version || (str_eq(driver->engine_name, name) && str_eq(driver->engine_version, version)))
		return;
	str_copy_text(driver->engine_name, sizeof(driver->engine_name), name);
	str_copy_text(driver->engine_version, sizeof(driver->engine_version), version);
	driver->has_new_version = true;
}
