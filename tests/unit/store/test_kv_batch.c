/* SPDX-License-Identifier: Apache-2.0 */
/* What shares a commit: how many do, and what of theirs is written. */

#include "fixture.h"

#include "store/writer.h"

#include <inttypes.h>

/* One of the keys of the model below: revisions 0: not there. */
struct model_key {
	const char *key;
	char value[8];
	uint64_t create_revision, mod_revision;
};

/* What an operation does to the model; NULL deletes. */
static bool model_apply(struct model_key *key, const char *value, uint64_t revision)
{
	bool was_there = key->mod_revision > 0;

	if (!value) {
		key->create_revision = key->mod_revision = 0;
		return was_there;
	}
	(void)str_copy(key->value, sizeof(key->value), value);
	if (!was_there)
		key->create_revision = revision;
	key->mod_revision = revision;
	return true;
}

/* Transactions come faster than they are committed and mostly end with a put of the same key; some delete it,
 * leave it out, or depend on its revision. */
STORE_TEST(a_put_overwritten_in_its_batch_leaves_no_trace)
{
	enum { N = 2000 };
	struct model_key model[] = {{.key = "a"}, {.key = "b"}, {.key = "head"}};
	struct answer last = {0};
	uint64_t revision = 0, random = 1;
	char expected[128] = "";

	for (int i = 0; i < N; i++) {
		struct kv_condition condition = {.key = "head", .mod_revision = model[2].mod_revision};
		char value[8];
		struct kv_op ops[3];
		struct kv_txn txn = {.conditions = &condition, .ops = ops};
		bool is_changed = false;

		(void)str_format(value, sizeof(value), "%d", i);
		for (size_t k = 0; k < ARRAY_SIZE(model); k++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
			if (random >> 60 == 0) /* left out */
				continue;
			ops[txn.n_ops] = (struct kv_op){.key = model[k].key};
			if (random >> 60 > (k == 0 ? 8 : 1)) {
				ops[txn.n_ops].value = value;
				ops[txn.n_ops].len = strlen(value);
			}
			is_changed |= model_apply(&model[k], ops[txn.n_ops++].value, revision + 1);
		}
		txn.n_conditions = random % 8 == 0;
		revision += is_changed;
		assert_ok(kv_submit(f->kv, &txn, i == N - 1 ? answer_fill : NULL, &last, NULL));
	}
	await(f, &last);
	assert_int_equal(last.err.status, STATUS_OK);
	assert_int_equal(last.revision, revision);
	assert_int_equal(kv_stats(f->kv).transactions, N);
	for (size_t k = 0; k < ARRAY_SIZE(model); k++) {
		size_t n = strlen(expected);

		if (model[k].mod_revision > 0)
			(void)str_format(expected + n, sizeof(expected) - n, "%s=%s@%" PRIu64 ",%" PRIu64 " ",
					 model[k].key, model[k].value, model[k].create_revision,
					 model[k].mod_revision);
	}
	assert_string_equal(range_text(f, ""), expected);
}

/* Rows of four: one that ends with another key, and three that put the same. */
static void put_rows(struct fixture *f, int n)
{
	struct answer last = {0};

	for (int i = 0; i < 4 * n; i++) {
		char key[16];
		struct kv_op ops[] = {{.key = "a", .value = "v", .len = 1},
				      {.key = key, .value = "v", .len = 1}};

		(void)str_format(key, sizeof(key), "%c%d", i % 4 == 0 ? 'b' : 'k', i / 4);
		assert_ok(kv_submit(f->kv, &(struct kv_txn){.ops = ops, .n_ops = 2},
				    i == 4 * n - 1 ? answer_fill : NULL, &last, NULL));
	}
	await(f, &last);
}

static bool check_row(const struct kv_item *item, void *userdata)
{
	int *n = userdata;

	assert_int_equal(item->mod_revision, item->create_revision + 2);
	assert_int_equal(item->mod_revision % 4, 0);
	(*n)++;
	return true;
}

STORE_TEST(a_key_is_created_by_the_first_of_a_batch_that_puts_it)
{
	int n = 0;

	put_rows(f, 300);
	assert_int_equal(kv_range(f->kv, "k", check_row, &n, NULL), STATUS_OK);
	assert_int_equal(n, 300);
}

TEST(of_many_that_wait_a_commit_takes_half_unless_the_disk_is_slow)
{
	static const struct {
		size_t queued;
		uint64_t commit_us;
		size_t taken;
	} cases[] = {
		{0, 0, 16},	  {1, 0, 16},	   {16, 0, 16},		{17, 0, 16},
		{32, 0, 16},	  {33, 0, 17},	   {64, 0, 32},		{100, 0, 50},
		{2047, 0, 1024},  {2048, 0, 1024}, {2049, 0, 1024},	{64, 1000, 32},
		{64, 1001, 1024}, {1, 1001, 1024}, {SIZE_MAX, 0, 1024}, {64, UINT64_MAX, 1024},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(writer_batch_size(cases[i].queued, cases[i].commit_us), cases[i].taken);
}
