/* SPDX-License-Identifier: Apache-2.0 */
/* Fence orders: their one form, and who may be believed. */

#include "model/fence_order.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "model/order.h"

#include <string.h>

static bool is_padded_name(const char name[static FENCE_ORDER_NAME_SIZE])
{
	return str_is_padded(name, FENCE_ORDER_NAME_SIZE) && id_is_name(name, FENCE_ORDER_NAME_SIZE - 1);
}

static const char *find_fault(const struct fence_order *order)
{
	if (!is_padded_name(order->cluster))
		return "cluster";
	if (!is_padded_name(order->fencer))
		return "fencer";
	if (!is_padded_name(order->node))
		return "node";
	if (!str_is_padded(order->who, sizeof(order->who)) || order->who[0] == '\0' ||
	    !str_is_text(order->who))
		return "who";
	return NULL;
}

enum status fence_order_read(const void *bytes, size_t n, struct fence_order *ret, struct error *err)
{
	struct fence_order order;
	const char *fault;

	if (n != sizeof(order))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "fence order: %zu bytes, one of version %d has %zu", n, FENCE_ORDER_VERSION,
				 sizeof(order));
	memcpy(&order, bytes, sizeof(order));
	if (order.magic != FENCE_ORDER_MAGIC || order.version != FENCE_ORDER_VERSION || order.reserved != 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "fence order: not of version %d",
				 FENCE_ORDER_VERSION);
	if (order.action == 0 || order.action >= FENCE_ORDER_ACTION_N)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "fence order: unknown action %u",
				 order.action);
	fault = find_fault(&order);
	if (fault)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "fence order: %s has not its form", fault);
	*ret = order;
	return STATUS_OK;
}

bool fence_order_is_signed(const struct fence_order *order, const uint8_t key[static FENCE_ORDER_KEY_SIZE])
{
	return order_bytes_are_signed(order, FENCE_ORDER_SIGNED_SIZE, order->signature, key);
}

enum status fence_order_check(const struct fence_order *order, const struct fence_order_place *place,
			      struct error *err)
{
	bool is_signed = false;

	for (size_t i = 0; i < place->n_keys && !is_signed; i++)
		is_signed = fence_order_is_signed(order, place->keys[i]);
	if (!is_signed)
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "the order is not signed by a key of this fencer's file (ticket_keys)");
	if (!str_eq(order->cluster, place->cluster))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "the order is of cluster %s, this fencer of %s", order->cluster,
				 place->cluster);
	if (!str_eq(order->fencer, place->fencer))
		return error_set(err, STATUS_PERMISSION_DENIED, 0, "the order is for fencer %s, not for %s",
				 order->fencer, place->fencer);
	return STATUS_OK;
}

enum status fence_order_check_end(const struct fence_order *order, int64_t now_ms, int64_t floor_ms,
				  struct error *err)
{
	if (order->not_after_ms > INT64_MAX || (int64_t)order->not_after_ms <= now_ms ||
	    (int64_t)order->not_after_ms <= floor_ms)
		return error_set(err, STATUS_DEADLINE_EXCEEDED, 0,
				 "the order has expired; ask again, and compare the clocks of server and "
				 "fencer");
	return STATUS_OK;
}

const char *fence_order_action_name(unsigned int action)
{
	static const char *const names[FENCE_ORDER_ACTION_N] = {
		[FENCE_ORDER_OFF] = "off", [FENCE_ORDER_TEST] = "test"};

	return action < FENCE_ORDER_ACTION_N && names[action] ? names[action] : "unknown";
}
