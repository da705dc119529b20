/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Orders whose container was started and has not been compared yet, a file each in the driver's state folder:
 * the next run of the driver compares it, whether the agent shows the order again or not. */

#include "order_check.h"

#include "base/error.h"

/** @name of the container. Durable when it returns STATUS_OK. */
enum status pending_put(const char *state_dir, const char *name, const struct taken *taken,
			struct error *err);
void pending_remove(const char *state_dir, const char *name);

/** Calls @visit for each file: @taken NULL, with @err, for one that holds no order of this version.
 * Where @taken is set, its body belongs to @visit. */
typedef void pending_fn(const char *name, const struct taken *taken, const struct error *err, void *userdata);
enum status pending_each(const char *state_dir, pending_fn *visit, void *userdata, struct error *err);
