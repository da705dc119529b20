/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "model/fence_order.h"
#include "model/order.h"

#include <openssl/evp.h>

static const uint8_t seed[FENCE_ORDER_KEY_SIZE] = "this is the seed of a test's key";

enum { NOW = 1000, END = 2000 };

static EVP_PKEY *private_key(void)
{
	return EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof(seed));
}

static void public_key(uint8_t ret[static FENCE_ORDER_KEY_SIZE])
{
	EVP_PKEY *key = private_key();
	size_t n = FENCE_ORDER_KEY_SIZE;

	assert_int_equal(EVP_PKEY_get_raw_public_key(key, ret, &n), 1);
	EVP_PKEY_free(key);
}

static void sign(struct fence_order *order)
{
	EVP_PKEY *key = private_key();
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t n = sizeof(order->signature);

	assert_int_equal(EVP_DigestSignInit(ctx, NULL, NULL, NULL, key), 1);
	assert_int_equal(
		EVP_DigestSign(ctx, order->signature, &n, (const uint8_t *)order, FENCE_ORDER_SIGNED_SIZE),
		1);
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
}

static struct fence_order an_order(void)
{
	struct fence_order order = ROW(.magic = FENCE_ORDER_MAGIC, .version = FENCE_ORDER_VERSION,
				       .action = FENCE_ORDER_OFF, .cluster = "prod", .fencer = "f1",
				       .node = "node-1", .who = "operator/alice", .not_after_ms = END);

	sign(&order);
	return order;
}

static enum status check(const struct fence_order *order)
{
	uint8_t keys[2][FENCE_ORDER_KEY_SIZE] = {{1}};
	const struct fence_order_place place =
		ROW(.cluster = "prod", .fencer = "f1", .keys = (const uint8_t(*)[FENCE_ORDER_KEY_SIZE])keys,
		    .n_keys = 2);

	public_key(keys[1]);
	return fence_order_check(order, &place, NULL);
}

TEST(a_changed_bit_anywhere_of_a_fence_order_breaks_its_signature)
{
	struct fence_order order = an_order();
	uint8_t key[FENCE_ORDER_KEY_SIZE];

	public_key(key);
	assert_true(fence_order_is_signed(&order, key));
	for (size_t i = 0; i < sizeof(order) * 8; i++) {
		((uint8_t *)&order)[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_false(fence_order_is_signed(&order, key));
		((uint8_t *)&order)[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	key[0] ^= 1;
	assert_false(fence_order_is_signed(&order, key));
}

TEST(a_fence_order_is_read_in_its_one_form)
{
	static const struct {
		size_t at;
		uint8_t value;
	} wrong[] = {
		{offsetof(struct fence_order, magic), 0},
		{offsetof(struct fence_order, version), 2},
		{offsetof(struct fence_order, action), 0},
		{offsetof(struct fence_order, action), FENCE_ORDER_ACTION_N},
		{offsetof(struct fence_order, reserved), 1},
		{offsetof(struct fence_order, cluster), 0},
		{offsetof(struct fence_order, cluster) + 63, 'x'},
		{offsetof(struct fence_order, fencer), '/'},
		{offsetof(struct fence_order, node), '\n'},
		{offsetof(struct fence_order, node) + 20, 'x'},
		{offsetof(struct fence_order, who), 0x1b},
		{offsetof(struct fence_order, who), 0},
	};
	struct fence_order good = an_order();
	struct fence_order order;
	struct error err;

	assert_int_equal(fence_order_read(&good, sizeof(good), &order, &err), STATUS_OK);
	assert_memory_equal(&good, &order, sizeof(order));
	assert_int_equal(fence_order_read(&good, sizeof(good) - 1, &order, &err), STATUS_INVALID_ARGUMENT);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct fence_order bad = good;

		((uint8_t *)&bad)[wrong[i].at] = wrong[i].value;
		if (fence_order_read(&bad, sizeof(bad), &order, &err) != STATUS_INVALID_ARGUMENT)
			fail_msg("%zu", i);
	}
}

TEST(a_fencer_believes_its_own_servers_orders_in_time_only)
{
	struct fence_order order = an_order();

	assert_int_equal(check(&order), STATUS_OK);
	assert_int_equal(fence_order_check_end(&order, NOW, 0, NULL), STATUS_OK);
	assert_int_equal(fence_order_check_end(&order, END, 0, NULL), STATUS_DEADLINE_EXCEEDED);
	/* the clock was put back */
	assert_int_equal(fence_order_check_end(&order, NOW, END, NULL), STATUS_DEADLINE_EXCEEDED);
	order.not_after_ms = UINT64_MAX;
	assert_int_equal(check(&order), STATUS_PERMISSION_DENIED); /* the signature is broken */
	assert_int_equal(fence_order_check_end(&order, NOW, 0, NULL), STATUS_DEADLINE_EXCEEDED);
	order = an_order();
	order.cluster[0] = 'x';
	sign(&order);
	assert_int_equal(check(&order), STATUS_PERMISSION_DENIED);
	order = an_order();
	order.fencer[1] = '2';
	sign(&order);
	assert_int_equal(check(&order), STATUS_PERMISSION_DENIED);
	order = an_order();
	order.action = FENCE_ORDER_TEST;
	assert_int_equal(check(&order), STATUS_PERMISSION_DENIED);
}

TEST(actions_have_names)
{
	assert_string_equal(fence_order_action_name(FENCE_ORDER_OFF), "off");
	assert_string_equal(fence_order_action_name(FENCE_ORDER_ACTION_N), "unknown");
}
