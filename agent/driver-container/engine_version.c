/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_version.h"

#include "driver.h"

#include "base/parse.h"
#include "base/str.h"

#include <string.h>

#define RUNC_NAMED "runc version "
#define UNKNOWN "of unknown version"

bool engine_version_is_known(const struct driver *driver)
{
	return driver->engine_version[0] != '\0';
}

/* Reads "1.4.0" and returns the text behind it; NULL: it is something else. */
static const char *read_numbers(const char *text, uint64_t ret[static 3])
{
	for (size_t i = 0; i < 3; i++) {
		if (i > 0 && *text++ != '.')
			return NULL;
		if (parse_digits(&text, &ret[i]) < 0)
			return NULL;
	}
	return strchr("+-~ \n", *text) ? text : NULL; /* or the end */
}

/* Is 1.4.0 with this behind it at least 1.4.0-rc.3? A distribution's revision begins with a digit. */
static bool is_fixed_1_4_0(const char *more)
{
	uint64_t candidate = 0;

	if ((*more != '-' && *more != '~') || (more[1] >= '0' && more[1] <= '9'))
		return true;
	if (!str_starts_with(more + 1, "rc"))
		return false;
	more += strlen("-rc");
	more += *more == '.';
	return parse_digits(&more, &candidate) == 0 && candidate >= 3;
}

bool runc_is_fixed(const char *text)
{
	const char *named = strstr(text, RUNC_NAMED);
	uint64_t n[3] = {0};
	const char *more = read_numbers(named ? named + strlen(RUNC_NAMED) : text, n);

	if (!more || n[0] != 1)
		return more && n[0] > 1;
	if (n[1] == 2)
		return n[2] >= 8;
	if (n[1] == 3)
		return n[2] >= 3;
	if (n[1] == 4 && n[2] == 0)
		return is_fixed_1_4_0(more);
	return n[1] >= 4;
}

enum status engine_check_runc(const struct driver *driver, struct error *err)
{
	if (driver->old_runc[0] == '\0' || str_eq(driver->settings->old_runc, "accept"))
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "cannot start tasks: runc %s of the engine lets a task become root of this machine "
			 "(CVE-2025-31133); install runc 1.2.8, 1.3.3 or later, or see old_runc in "
			 "holdfast-driver-container.hcl(5)",
			 driver->old_runc);
}

enum status engine_check_podman(const struct driver *driver, struct error *err)
{
	const char *text = driver->engine_version;
	uint64_t n[3] = {0};

	if (!str_starts_with(driver->engine_name, "Podman") ||
	    (read_numbers(text, n) && (n[0] > 4 || (n[0] == 4 && n[1] >= 3))))
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"cannot start tasks: podman %s is too old, it ignores parts of the driver's requests; "
		"install podman 4.3 or later, and restart its service",
		text);
}

/* Docker has the name of its runtime, podman "OCI Runtime (runc)" and all that the program prints. A runtime
 * that the engine does not name, or that is neither runc nor crun, counts as old: root can give runc a name,
 * and Docker leaves the runtime out if it could not ask it. */
static void read_runc(struct driver *driver, const json_t *json)
{
	const json_t *component;
	bool is_known = false;
	size_t i;

	driver->old_runc[0] = '\0';
	json_array_foreach (json_object_get(json, "Components"), i, component) {
		const char *name = json_string_value(json_object_get(component, "Name"));
		const char *text = json_string_value(json_object_get(component, "Version"));
		const char *named;

		text = text ? text : "";
		named = strstr(text, RUNC_NAMED);
		is_known = is_known || named || (name && (strstr(name, "runc") || strstr(name, "crun")));
		if (!(named || (name && strstr(name, "runc"))) || runc_is_fixed(text))
			continue;
		text = named ? named + strlen(RUNC_NAMED) : text;
		str_copy_text(driver->old_runc, sizeof(driver->old_runc), text);
		driver->old_runc[strcspn(driver->old_runc, " ")] = '\0';
		if (driver->old_runc[0] == '\0')
			(void)str_copy(driver->old_runc, sizeof(driver->old_runc), UNKNOWN);
		return;
	}
	if (!is_known)
		(void)str_copy(driver->old_runc, sizeof(driver->old_runc), UNKNOWN);
}

void engine_version_read(struct driver *driver, const json_t *json)
{
	const json_t *component = json_array_get(json_object_get(json, "Components"), 0);
	const char *name = json_string_value(json_object_get(component, "Name"));
	const char *version = json_string_value(json_object_get(json, "Version"));

	name = name ? name : "";
	if (version)
		read_runc(driver, json);
	if (!version || (str_eq(driver->engine_name, name) && str_eq(driver->engine_version, version)))
		return;
	str_copy_text(driver->engine_name, sizeof(driver->engine_name), name);
	str_copy_text(driver->engine_version, sizeof(driver->engine_version), version);
	driver->has_new_version = true;
}
