/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The name and the version of the engine, and of its runc. */

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

struct driver;

/** Whether the version is known: how the engine binds depends on it. */
bool engine_version_is_known(const struct driver *driver);

/** Whether a runc of this version verifies what it mounts and opens in a container (CVE-2025-31133).
 * @text "1.1.5+ds1", or lines with "runc version 1.1.5"; false: also if it cannot be read */
bool runc_is_fixed(const char *text);

/** STATUS_FAILED_PRECONDITION if the engine starts containers by a runc that is not fixed, and root's file
 * does not accept it. */
enum status engine_check_runc(const struct driver *driver, struct error *err);

/** STATUS_FAILED_PRECONDITION if the engine is podman before 4.3, or of a version that cannot be read. */
enum status engine_check_podman(const struct driver *driver, struct error *err);

/** Reads the answer of GET /version; the next probe of the engine reports a change to the watchers. */
void engine_version_read(struct driver *driver, const json_t *json);
