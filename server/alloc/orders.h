/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Orders for the drivers of nodes, signed by the key of tickets (proto/order.h). */

#include "base/error.h"
#include "model/alloc.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <order.h>
#include <stddef.h>
#include <stdint.h>

struct server;

struct order_wish {
	enum order_kind kind;
	const struct alloc *alloc; /* on whose node it is carried out */
	const char *boot_id;	   /* of that node */
	const Holdfast__Driver__V1__TaskConfig *task;
	const char *who;   /* asked for it, for the record at the driver */
	const void *bytes; /* that are ordered */
	size_t n_bytes;
};

/** Make and sign it; valid for some minutes. A start has the same nonce each time: its driver starts the task
 * once, however often it is ordered. Every other order is good once. STATUS_INTERNAL for what does not fit.
 */
enum status order_make(const struct server *server, const struct order_wish *wish, struct order *ret,
		       struct error *err);
