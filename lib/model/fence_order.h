/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Fence orders as bytes: read, signed, verified. Pure; the fencer keeps the used ones. */

#include "base/error.h"

#include <fence_order.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Read an order in its one form: size, magic, version, a known action, texts padded with zeroes, names that
 * are names. Its signature is not looked at. STATUS_INVALID_ARGUMENT names the field. */
enum status fence_order_read(const void *bytes, size_t n, struct fence_order *ret, struct error *err);

/** Is the signature that of @key? */
bool fence_order_is_signed(const struct fence_order *order, const uint8_t key[static FENCE_ORDER_KEY_SIZE]);

/* Where a fencer checks an order. */
struct fence_order_place {
	const char *cluster, *fencer;
	const uint8_t (*keys)[FENCE_ORDER_KEY_SIZE]; /* of the cluster's tickets */
	size_t n_keys;
};

/** Is the order for this fencer? STATUS_PERMISSION_DENIED: no signature of a known key, or for another
 * cluster or fencer. */
enum status fence_order_check(const struct fence_order *order, const struct fence_order_place *place,
			      struct error *err);

/** May the order be begun? One that was begun is answered at any age. Orders that end no later than
 * @floor_ms count as used. STATUS_DEADLINE_EXCEEDED: it has expired. */
enum status fence_order_check_end(const struct fence_order *order, int64_t now_ms, int64_t floor_ms,
				  struct error *err);

/** "off", "test"; "unknown". */
const char *fence_order_action_name(unsigned int action);
