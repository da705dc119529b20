/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Health checks of tasks: a command in the container, run by the engine's exec. A check runs only when the
 * health is asked for and the last check is old enough, one at a time for each container. Results are in
 * memory. */

#include "container.h"

struct driver;
struct health;

/** Health of a running container: "healthy", "unhealthy"; "": it has no check, or no result yet. Starts the
 * next check if it is due.
 * @inspected  the engine's description of the container, now */
const char *health_look(struct driver *driver, const struct container *container, const json_t *inspected);

/** The container is going to be removed. */
void health_forget(struct driver *driver, const char *container_id);

void health_free_all(struct driver *driver);
