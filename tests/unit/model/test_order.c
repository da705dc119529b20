/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "model/order.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <openssl/evp.h>

static const uint8_t seed[ORDER_KEY_SIZE] = "this is the seed of a test's key";

static void public_key(uint8_t ret[static ORDER_KEY_SIZE])
{
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof(seed));
	size_t n = ORDER_KEY_SIZE;

	assert_int_equal(EVP_PKEY_get_raw_public_key(key, ret, &n), 1);
	EVP_PKEY_free(key);
}

static struct order an_order(void)
{
	struct order order = ROW(.magic = ORDER_MAGIC, .version = ORDER_VERSION, .kind = ORDER_START,
				 .cluster = "prod", .node = "node-1", .driver = "container", .task = "web",
				 .who = "operator alice", .not_after_ms = 1000);

	assert_int_equal(order_sign(&order, seed, NULL), STATUS_OK);
	return order;
}

TEST(a_changed_bit_anywhere_of_an_order_breaks_its_signature)
{
	struct order order = an_order();
	uint8_t key[ORDER_KEY_SIZE];

	public_key(key);
	assert_true(order_is_signed(&order, key));
	for (size_t i = 0; i < sizeof(order) * 8; i++) {
		((uint8_t *)&order)[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_false(order_is_signed(&order, key));
		((uint8_t *)&order)[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	key[0] ^= 1;
	assert_false(order_is_signed(&order, key));
}

TEST(an_order_is_read_in_its_one_form)
{
	static const struct {
		size_t at;
		uint8_t value;
	} wrong[] = {
		{offsetof(struct order, magic), 0},
		{offsetof(struct order, version), 2},
		{offsetof(struct order, kind), 0},
		{offsetof(struct order, kind), ORDER_KIND_N},
		{offsetof(struct order, kind), ORDER_NETWORK}, /* of a task */
		{offsetof(struct order, reserved), 1},
		{offsetof(struct order, cluster), 0},
		{offsetof(struct order, cluster) + 63, 'x'},
		{offsetof(struct order, node), '\n'},
		{offsetof(struct order, driver), 0},
		{offsetof(struct order, driver), 0xff},
		{offsetof(struct order, task), 'W'},
		{offsetof(struct order, task), 0},
		{offsetof(struct order, task) + 10, 'x'},
		{offsetof(struct order, who), 0x1b},
		{offsetof(struct order, who) + 127, 'x'},
	};
	struct order good = an_order();
	struct order order;
	struct error err;

	assert_int_equal(order_read(&good, sizeof(good), &order, &err), STATUS_OK);
	assert_memory_equal(&good, &order, sizeof(order));
	assert_int_equal(order_read(&good, sizeof(good) - 1, &order, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(order_read(NULL, 0, &order, &err), STATUS_INVALID_ARGUMENT);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct order bad = good;

		((uint8_t *)&bad)[wrong[i].at] = wrong[i].value;
		assert_int_equal(order_read(&bad, sizeof(bad), &order, &err), STATUS_INVALID_ARGUMENT);
	}
}

static bool is_canonical(const void *bytes, size_t n)
{
	Holdfast__Driver__V1__TaskConfig *task = holdfast__driver__v1__task_config__unpack(NULL, n, bytes);
	bool is = task && order_is_canonical(&task->base, bytes, n);

	if (task)
		holdfast__driver__v1__task_config__free_unpacked(task, NULL);
	return is;
}

TEST(an_order_has_one_encoding)
{
	/* alloc_id "a", task "b", an entry of env */
	static const uint8_t good[] = {0x0a, 1, 'a', 0x12, 1, 'b', 0x3a, 3, 0x0a, 1, 'k'};
	static const uint8_t other_order[] = {0x12, 1, 'b', 0x0a, 1, 'a'};
	static const uint8_t twice[] = {0x0a, 1, 'x', 0x0a, 1, 'a'};
	static const uint8_t long_number[] = {0x50, 0x81, 0x00};
	static const uint8_t unknown[] = {0x0a, 1, 'a', 0xf8, 0x07, 1};
	static const uint8_t unknown_within[] = {0x3a, 6, 0x0a, 1, 'k', 0xf8, 0x07, 1};
	static const uint8_t no_utf8[] = {0x0a, 1, 0xff};
	static const uint8_t no_utf8_within[] = {0x3a, 4, 0x0a, 2, 0xc0, 0x80};
	static const uint8_t utf8[] = {0x0a, 3, 0xe2, 0x82, 0xac};

	assert_true(is_canonical(good, sizeof(good)));
	assert_true(is_canonical(utf8, sizeof(utf8)));
	assert_false(is_canonical(no_utf8, sizeof(no_utf8)));
	assert_false(is_canonical(no_utf8_within, sizeof(no_utf8_within)));
	assert_true(is_canonical(good, 0));
	assert_false(is_canonical(other_order, sizeof(other_order)));
	assert_false(is_canonical(twice, sizeof(twice)));
	assert_false(is_canonical(long_number, sizeof(long_number)));
	assert_false(is_canonical(unknown, sizeof(unknown)));
	assert_false(is_canonical(unknown_within, sizeof(unknown_within)));
}

TEST(the_digest_of_an_order_is_sha256)
{
	/* of "abc": FIPS 180-2, B.1 */
	static const uint8_t abc[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea};
	uint8_t digest[ORDER_DIGEST_SIZE];

	order_digest("abc", 3, digest);
	assert_memory_equal(digest, abc, sizeof(abc));
	order_digest(NULL, 0, digest);
	assert_int_equal(digest[0], 0xe3);
	assert_string_equal(order_kind_name(ORDER_EXEC), "exec");
	assert_string_equal(order_kind_name(0), "unknown");
}

/* Does @type, or one within it, hold a message of @of? */
static bool holds(const ProtobufCMessageDescriptor *type, const ProtobufCMessageDescriptor *of, int depth)
{
	assert_true(depth < 16);
	for (unsigned int i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i];

		if (field->type == PROTOBUF_C_TYPE_MESSAGE &&
		    (field->descriptor == of || holds(field->descriptor, of, depth + 1)))
			return true;
	}
	return false;
}

TEST(no_message_of_drivers_holds_itself)
{
	const ProtobufCServiceDescriptor *service = &holdfast__driver__v1__driver__descriptor;

	assert_int_equal(service->n_methods, 18);
	for (unsigned int i = 0; i < service->n_methods; i++) {
		assert_false(holds(service->methods[i].input, service->methods[i].input, 0));
		assert_false(holds(service->methods[i].output, service->methods[i].output, 0));
	}
}
