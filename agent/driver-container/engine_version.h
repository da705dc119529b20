/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The name and the version of the engine. */

#include <jansson.h>
#include <stdbool.h>

struct driver;

/** Whether the version is known: how the engine binds depends on it. */
bool engine_version_is_known(const struct driver *driver);

/** Reads the answer of GET /version; the next probe of the engine reports a change to the watchers. */
void engine_version_read(struct driver *driver, const json_t *json);
