/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The fence order: the claim server has one fencer switch off, or look at, the power of one node, once.
 *
 * A fixed-size little-endian struct, made and signed by the claim server with the key that signs tickets. The
 * fencer believes nothing else that comes on its session. Every string is NUL-terminated and zero to its end,
 * so that one meaning has one byte form. The Ed25519 signature is of the order's own bytes before
 * `signature`, whose magic begins nothing else that the key signs. */

#include <stddef.h>
#include <stdint.h>

enum {
	FENCE_ORDER_MAGIC = 0x52464648, /* "HFFR" */
	FENCE_ORDER_VERSION = 1,
	FENCE_ORDER_NAME_SIZE = 64,
	FENCE_ORDER_WHO_SIZE = 128,
	FENCE_ORDER_UUID_SIZE = 16, /* its bytes: RFC 9562, section 4 */
	FENCE_ORDER_NONCE_SIZE = 16,
	FENCE_ORDER_SIGNATURE_SIZE = 64,
	FENCE_ORDER_KEY_SIZE = 32,
	FENCE_ORDER_VALID_MS = 3 * 60 * 1000, /* from when it is made to not_after_ms */
};

enum fence_order_action {
	FENCE_ORDER_OFF = 1,  /* switch the node off, then show that it is off */
	FENCE_ORDER_TEST = 2, /* monitor and status: nothing is switched */
	FENCE_ORDER_ACTION_N,
};

struct fence_order {
	uint32_t magic;
	uint16_t version;
	uint8_t action;	  /* enum fence_order_action */
	uint8_t reserved; /* 0 */
	char cluster[FENCE_ORDER_NAME_SIZE];
	char fencer[FENCE_ORDER_NAME_SIZE]; /* that it is for */
	char node[FENCE_ORDER_NAME_SIZE];
	char who[FENCE_ORDER_WHO_SIZE]; /* asked for it, for the record */
	uint8_t boot_id[FENCE_ORDER_UUID_SIZE];
	uint8_t nonce[FENCE_ORDER_NONCE_SIZE]; /* chance; no two orders have the same */
	uint64_t not_after_ms;		       /* CLOCK_REALTIME milliseconds */
	uint8_t signature[FENCE_ORDER_SIGNATURE_SIZE];
};

enum { FENCE_ORDER_SIGNED_SIZE = offsetof(struct fence_order, signature) };

_Static_assert(sizeof(struct fence_order) == 432 && FENCE_ORDER_SIGNED_SIZE == 368, "it has no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "orders are little endian");
