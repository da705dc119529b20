/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Orders of the server: each is admitted once, refused or ended, on record. */

#include "order_check.h"
#include "readback.h"

#include "base/error.h"

#include <stdbool.h>

struct driver;

/** Is this ordered? As order_check(); a refusal is put on record. */
enum status driver_take_order(struct driver *driver, enum order_kind kind, const ProtobufCBinaryData *order,
			      const ProtobufCBinaryData *body, struct taken *ret, struct error *err);

/** The same for a restart, by the order of the start: it was used, and may have expired. */
enum status driver_take_restart(struct driver *driver, const ProtobufCBinaryData *order,
				const ProtobufCBinaryData *body, struct taken *ret, struct error *err);

/** Put @why, for which an order is refused, on record; returns its status. */
enum status driver_refuse(struct driver *driver, const struct taken *taken, const char *reason,
			  struct error *why);

/** Does the same as driver_refuse() for a container that differs from its order; records @fault and whether
 * the container was removed, too. */
enum status driver_refuse_made(struct driver *driver, const struct taken *taken,
			       const struct readback_fault *fault, bool is_removed, struct error *why);

/** Whose account no task may have: the agent's, the driver's own, and of whom the mount helper's folders
 * are. */
struct readback_users driver_users(const struct driver *driver);
/** STATUS_PERMISSION_DENIED for a number of USER or USER:GROUP that is one of them. */
enum status driver_check_user(const struct driver *driver, const char *user, const char **ret_reason,
			      struct error *err);

/** Put on record that @taken is carried out, and that it was used; both durable before it returns.
 * @is_restart of a task that it started before */
enum status driver_use_order(struct driver *driver, const struct taken *taken, bool is_restart,
			     struct error *err);

/** Put on record how it ended: "success" or the name of @status.
 * @is_compared the kernel's account of its process was compared; ignored for a command */
void driver_note_end(struct driver *driver, const struct order *order, enum status status, bool is_compared);
