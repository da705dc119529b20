/* SPDX-License-Identifier: Apache-2.0 */
/* Every limit of the contract, at the last value allowed and one past it. */

#include "fixture.h"

static enum status submit(struct fixture *f, const struct kv_txn *txn)
{
	struct error err = {.status = STATUS_OK};
	struct answer answer = {0};
	enum status status = kv_submit(f->kv, txn, answer_fill, &answer, &err);

	assert_int_equal(err.status, status);
	if (status == STATUS_OK)
		await(f, &answer);
	assert_int_equal(answer.count, status == STATUS_OK ? 1 : 0);
	return status;
}

static enum status submit_op(struct fixture *f, const char *key, const void *value, size_t len)
{
	struct kv_op op = {.key = key, .value = value, .len = len};

	return submit(f, &(struct kv_txn){.ops = &op, .n_ops = 1});
}

static enum status submit_condition(struct fixture *f, const char *key)
{
	struct kv_condition condition = {.key = key};

	return submit(f, &(struct kv_txn){.conditions = &condition, .n_conditions = 1});
}

static bool ignore_item(const struct kv_item *item, void *userdata)
{
	return true;
}

STORE_TEST(keys_have_1_to_512_printable_bytes)
{
	char key[KV_KEY_MAX + 2];

	memset(key, 'k', sizeof(key));
	key[KV_KEY_MAX + 1] = '\0';
	assert_int_equal(submit_op(f, key, "v", 1), STATUS_INVALID_ARGUMENT);
	assert_int_equal(submit_condition(f, key), STATUS_INVALID_ARGUMENT);
	assert_int_equal(kv_range(f->kv, key, ignore_item, NULL, NULL), STATUS_INVALID_ARGUMENT);
	key[KV_KEY_MAX] = '\0';
	assert_int_equal(submit_op(f, key, "v", 1), STATUS_OK);
	assert_int_equal(submit_condition(f, "k"), STATUS_OK);
	assert_int_equal(kv_range(f->kv, key, ignore_item, NULL, NULL), STATUS_OK);
	assert_memory_equal(range_text(f, key), key, KV_KEY_MAX);
	assert_int_equal(submit_op(f, "", "v", 1), STATUS_INVALID_ARGUMENT);
	assert_int_equal(submit_op(f, NULL, "v", 1), STATUS_INVALID_ARGUMENT);
	assert_int_equal(submit_condition(f, ""), STATUS_INVALID_ARGUMENT);
}

STORE_TEST(keys_and_prefixes_of_other_bytes_are_refused)
{
	for (int c = 1; c < 256; c++) {
		const char key[] = {'k', (char)c, '\0'};
		enum status expected = c >= 0x20 && c <= 0x7e ? STATUS_OK : STATUS_INVALID_ARGUMENT;

		assert_int_equal(submit_op(f, key, "v", 1), expected);
		assert_int_equal(kv_range(f->kv, key, ignore_item, NULL, NULL), expected);
	}
}

STORE_TEST(values_have_1_byte_to_1_mib)
{
	cleanup_free char *value = NON_NULL(calloc(1, KV_VALUE_MAX + 1));

	assert_int_equal(submit_op(f, "a", value, 0), STATUS_INVALID_ARGUMENT);
	assert_int_equal(submit_op(f, "a", value, 1), STATUS_OK);
	assert_int_equal(submit_op(f, "a", value, KV_VALUE_MAX), STATUS_OK);
	assert_int_equal(submit_op(f, "a", value, KV_VALUE_MAX + 1), STATUS_INVALID_ARGUMENT);
	assert_int_equal(submit_op(f, "a", NULL, 1), STATUS_INVALID_ARGUMENT);
	assert_int_equal(submit_op(f, "a", NULL, 0), STATUS_OK);
}

STORE_TEST(transactions_have_at_most_127_operations_and_126_conditions)
{
	struct kv_op ops[KV_TXN_OPS_MAX + 1];
	struct kv_condition conditions[KV_TXN_CONDITIONS_MAX + 1];
	char keys[KV_TXN_OPS_MAX + 1][8];

	for (int i = 0; i <= KV_TXN_OPS_MAX; i++) {
		(void)str_format(keys[i], sizeof(keys[i]), "k%d", i);
		ops[i] = (struct kv_op){.key = keys[i], .value = "v", .len = 1};
	}
	for (int i = 0; i <= KV_TXN_CONDITIONS_MAX; i++)
		conditions[i] = (struct kv_condition){.key = keys[i]};
	assert_ok(submit(f, &(struct kv_txn){conditions, KV_TXN_CONDITIONS_MAX, ops, KV_TXN_OPS_MAX}));
	assert_int_equal(submit(f, &(struct kv_txn){conditions, KV_TXN_CONDITIONS_MAX + 1, ops, 1}),
			 STATUS_INVALID_ARGUMENT);
	assert_int_equal(submit(f, &(struct kv_txn){conditions, 1, ops, KV_TXN_OPS_MAX + 1}),
			 STATUS_INVALID_ARGUMENT);
}

STORE_TEST(transactions_have_at_most_1_375_mib)
{
	cleanup_free char *value = calloc(1, KV_VALUE_MAX);
	struct kv_condition condition = {.key = "none"}; /* 5 bytes */
	struct kv_op ops[] = {
		{.key = "a", .value = value, .len = KV_VALUE_MAX},			   /* 2 more */
		{.key = "b", .value = value, .len = KV_TXN_BYTES_MAX - KV_VALUE_MAX - 9}}; /* 2 */
	struct kv_txn txn = {&condition, 1, ops, 2};

	assert_non_null(value);
	assert_int_equal(submit(f, &txn), STATUS_OK);
	ops[1].len++;
	assert_int_equal(submit(f, &txn), STATUS_INVALID_ARGUMENT);
}

STORE_TEST(at_most_65536_submissions_are_pending)
{
	struct answer last = {0};
	struct error err;

	for (int i = 1; i < KV_PENDING_MAX; i++)
		assert_int_equal(kv_barrier(f->kv, NULL, NULL, NULL), STATUS_OK);
	assert_int_equal(kv_barrier(f->kv, answer_fill, &last, NULL), STATUS_OK);
	assert_error(kv_barrier(f->kv, NULL, NULL, &err), STATUS_RESOURCE_EXHAUSTED, err,
		     "65536 writes are waiting");
	await(f, &last);
	assert_int_equal(submit_op(f, "a", "v", 1), STATUS_OK);
}

STORE_TEST(at_most_64_mib_are_pending)
{
	cleanup_free char *value = NON_NULL(calloc(1, KV_VALUE_MAX));
	struct kv_op op = {.key = "a", .value = value, .len = KV_VALUE_MAX};
	const struct kv_txn txn = {.ops = &op, .n_ops = 1};
	struct answer answer = {0};
	size_t n = 0;

	while (kv_submit(f->kv, &txn, NULL, NULL, NULL) == STATUS_OK)
		n++;
	assert_int_equal(n, KV_PENDING_BYTES_MAX / KV_VALUE_MAX -
				    1); /* beside a value there are keys and all that */
	assert_int_equal(kv_submit(f->kv, &txn, NULL, NULL, NULL), STATUS_RESOURCE_EXHAUSTED);
	assert_int_equal(kv_barrier(f->kv, answer_fill, &answer, NULL), STATUS_OK);
	await(f, &answer);
	assert_int_equal(answer.revision, n);
	assert_in_range(kv_stats(f->kv).largest_batch, 1, 8); /* 8 MiB */
	assert_int_equal(submit(f, &txn), STATUS_OK);
}
