/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Checks an order: steps 1 to 6 of "Taking an order" in docs/task-drivers.md. */

#include "nonces.h"
#include "settings.h"

#include "base/error.h"

#include <order.h>
#include <protobuf-c/protobuf-c.h>

#define DRIVER_NAME "container"

/* The facts that an order must fit. */
struct order_place {
	const struct settings *settings;
	struct nonces *nonces;
	uint8_t boot_id[ORDER_UUID_SIZE];
	int64_t now_ms;
	bool is_restart; /* of what the order made: it may have expired, and was used */
};

/* An order that was taken, with its body. */
struct taken {
	struct order order;	/* of a refused one: as far as it could be read, for the record */
	enum nonce_use use;	/* NONCE_NEW but of what may be asked again */
	const char *reason;	/* of a refusal: a keyword for the record */
	ProtobufCMessage *body; /* owned */
};

void taken_release(struct taken *taken);

/** @kind   ORDER_START: TaskConfig, ORDER_EXEC: ExecCommand, ORDER_NETWORK: NetworkConfig
 * @order  and @body as they came
 * @ret    filled on failure too; taken_release() */
enum status order_check(const struct order_place *place, enum order_kind kind,
			const ProtobufCBinaryData *order, const ProtobufCBinaryData *body, struct taken *ret,
			struct error *err);

/** Reads an order that was taken before, with its body: of the driver's own file. */
enum status order_recall(const ProtobufCBinaryData *order, const ProtobufCBinaryData *body, struct taken *ret,
			 struct error *err);
