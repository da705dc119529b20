/* SPDX-License-Identifier: Apache-2.0 */
/* on_node_loss: the block that counts, and its checks. */

#include "unit.h"

#include "base/str.h"
#include "model/node_loss.h"

typedef Holdfast__V1__OnNodeLoss Loss;

#define LOSS(after_ms_, action)                                                                           \
	{                                                                                                 \
		.base = PROTOBUF_C_MESSAGE_INIT(&holdfast__v1__on_node_loss__descriptor),                 \
		.after_ms = (after_ms_), .do_ = HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_##action \
	}

static const Loss waits = LOSS(0, WAIT), power = LOSS(30000, POWER_FENCE), early = LOSS(5000, POWER_FENCE),
		  network = LOSS(30000, NETWORK_FENCE);

TEST(the_block_of_a_holder_overrides_that_of_the_volume)
{
	static const struct {
		const Loss *volume, *holder;
		bool is_native;
		const Loss *wanted;
	} rows[] = {
		{NULL, NULL, false, NULL},
		{&power, NULL, false, &power},
		{&waits, NULL, true, NULL},
		{NULL, &power, true, &power},
		{&power, &waits, false, NULL},
		{&power, &waits, true, NULL},
		{&power, &early, true, &early},
		{&waits, &early, false, &early},
		{&network, &power, false, &power},
		{&power, &network, false, &network},
		/* no storage refuses a node for a native volume */
		{&power, &network, true, &power},
		{NULL, &network, true, NULL},
		{&waits, &network, true, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (node_loss_choose(rows[i].volume, rows[i].holder, rows[i].is_native) != rows[i].wanted)
			fail_msg("row %zu", i);
}

TEST(a_fence_has_a_time_and_a_native_volume_no_network_fence)
{
	static const Loss at_once = LOSS(4999, POWER_FENCE), late = LOSS(86400001, NETWORK_FENCE),
			  last = LOSS(86400000, NETWORK_FENCE),
			  unknown = {.base = PROTOBUF_C_MESSAGE_INIT(&holdfast__v1__on_node_loss__descriptor),
				     .after_ms = 30000,
				     .do_ = (Holdfast__V1__NodeLossAction)7};
	static const struct {
		const Loss *loss;
		bool is_native;
		const char *mistake;
	} rows[] = {
		{NULL, true, NULL},
		{&waits, true, NULL},
		{&power, true, NULL},
		{&early, false, NULL},
		{&network, false, NULL},
		{&network, true, "on_node_loss.do: network_fence is for volumes"},
		{&at_once, false, "on_node_loss.after: with a fence it is 5s to 24h"},
		{&late, false, "on_node_loss.after:"},
		{&last, false, NULL},
		{&unknown, false, "on_node_loss.do: it is wait, power_fence or network_fence"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct error err = {.msg = ""};

		assert_int_equal(node_loss_check(rows[i].loss, rows[i].is_native, &err),
				 rows[i].mistake ? STATUS_INVALID_ARGUMENT : STATUS_OK);
		if (rows[i].mistake && !str_starts_with(err.msg, rows[i].mistake))
			fail_msg("row %zu: %s", i, err.msg);
	}
}
