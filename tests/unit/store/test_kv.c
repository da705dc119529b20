/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of the store: order, conditions, group commit, reading, compaction. */

#include "fixture.h"

STORE_TEST(a_key_is_read_back_with_its_revisions)
{
	assert_int_equal(fixture_revision(f), 0);
	assert_int_equal(put(f, "a", "1"), 1);
	assert_int_equal(put(f, "b", "2"), 2);
	assert_int_equal(put(f, "a", "3"), 3);
	assert_int_equal(fixture_revision(f), 3);
	assert_string_equal(range_text(f, ""), "a=3@1,3 b=2@2,2 ");
}

STORE_TEST(a_deleted_key_is_gone_and_created_anew)
{
	(void)put(f, "a", "1");
	assert_int_equal(put(f, "a", NULL), 2);
	assert_string_equal(range_text(f, ""), "");
	assert_int_equal(put(f, "a", "2"), 3);
	assert_string_equal(range_text(f, ""), "a=2@3,3 ");
}

STORE_TEST(a_txn_that_changes_nothing_gets_no_revision)
{
	(void)put(f, "a", "1");
	if (!fixture_shares_revisions)
		assert_int_equal(put(f, "missing", NULL), 1);
	assert_int_equal(commit(f, &(struct kv_txn){0}).revision, 1);
}

STORE_TEST(operations_of_a_transaction_share_a_revision_and_keep_their_order)
{
	const struct kv_op ops[] = {
		{.key = "z", .value = "1", .len = 1},
		{.key = "a", .value = "2", .len = 1},
		{.key = "z", .value = NULL},
		{.key = "z", .value = "3", .len = 1},
	};

	assert_int_equal(commit(f, &(struct kv_txn){.ops = ops, .n_ops = 4}).revision, 1);
	assert_string_equal(range_text(f, ""), "a=2@1,1 z=3@1,1 ");
}

static const char bytes[] = {0, 'x', 0, (char)0xff};

static bool check_bytes(const struct kv_item *item, void *userdata)
{
	int *n = userdata;

	assert_int_equal(item->len, sizeof(bytes));
	assert_memory_equal(item->value, bytes, sizeof(bytes));
	(*n)++;
	return true;
}

STORE_TEST(values_with_nul_bytes_come_back_whole)
{
	const struct kv_op op = {.key = "a", .value = bytes, .len = sizeof(bytes)};
	int n = 0;

	(void)commit(f, &(struct kv_txn){.ops = &op, .n_ops = 1});
	assert_int_equal(kv_range(f->kv, "a", check_bytes, &n, NULL), STATUS_OK);
	assert_int_equal(n, 1);
}

struct condition_case {
	const char *key;
	uint64_t mod_revision;
	bool holds;
	const char *message;
};

STORE_TEST(conditions_compare_the_revision_of_a_key)
{
	static const struct condition_case cases[] = {
		{"a", 2, true, NULL},
		{"a", 1, false, "key a was changed at revision 2, expected 1"},
		{"a", 3, false, "key a was changed at revision 2, expected 3"},
		{"a", 0, false, "key a exists already, at revision 2"},
		{"a", UINT64_MAX, false, "key a was changed at revision 2"},
		{"none", 0, true, NULL},
		{"none", 2, false, "key none does not exist, expected at revision 2"},
	};

	(void)put(f, "a", "1");
	(void)put(f, "a", "2");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool is_counted = cases[i].mod_revision > 0 && cases[i].mod_revision < UINT64_MAX;
		struct kv_condition condition = {.key = cases[i].key,
						 .mod_revision = cases[i].mod_revision +
								 (is_counted ? fixture_base : 0)};
		struct answer answer =
			commit(f, &(struct kv_txn){.conditions = &condition, .n_conditions = 1});

		assert_int_equal(answer.err.status, cases[i].holds ? STATUS_OK : STATUS_ABORTED);
		assert_int_equal(answer.revision, cases[i].holds ? 2 : 0);
		if (!cases[i].holds && fixture_base == 0)
			assert_non_null(strstr(answer.err.msg, cases[i].message));
	}
}

STORE_TEST(an_aborted_transaction_writes_nothing_and_costs_no_revision)
{
	const struct kv_condition conditions[] = {{.key = "b", .mod_revision = 0},
						  {.key = "a", .mod_revision = 9}};
	const struct kv_op ops[] = {{.key = "a", .value = "2", .len = 1},
				    {.key = "b", .value = "3", .len = 1}};

	(void)put(f, "a", "1");
	assert_int_equal(commit(f, &(struct kv_txn){conditions, 2, ops, 2}).err.status, STATUS_ABORTED);
	assert_string_equal(range_text(f, ""), "a=1@1,1 ");
	assert_int_equal(put(f, "c", "4"), 2);
}

STORE_TEST(an_abort_inside_a_batch_leaves_its_neighbours_alone)
{
	struct answer answers[4] = {0};
	const struct kv_condition must_not_exist = {.key = "a", .mod_revision = 0};
	const struct kv_op op = {.key = "a", .value = "x", .len = 1};
	const struct kv_txn create = {&must_not_exist, 1, &op, 1};

	put_async(f, "first", "1", &answers[0]);
	assert_int_equal(kv_submit(f->kv, &create, answer_fill, &answers[1], NULL), STATUS_OK);
	assert_int_equal(kv_submit(f->kv, &create, answer_fill, &answers[2], NULL), STATUS_OK);
	put_async(f, "last", "1", &answers[3]);
	await(f, &answers[3]);
	assert_int_equal(answers[1].revision, 2);
	assert_int_equal(answers[2].err.status, STATUS_ABORTED);
	assert_int_equal(answers[3].revision, 3);
	assert_string_equal(range_text(f, ""), "a=x@2,2 first=1@1,1 last=1@3,3 ");
}

struct sequence {
	uint64_t n;	   /* answers */
	uint64_t revision; /* of the last one */
};

static void check_sequence(uint64_t revision, const struct error *err, void *userdata)
{
	struct sequence *sequence = userdata;

	assert_null(err);
	if (fixture_shares_revisions)
		assert_true(revision >= sequence->revision);
	else
		assert_int_equal(revision, sequence->n + 1);
	sequence->n++;
	sequence->revision = revision;
}

STORE_TEST(many_submissions_are_answered_in_order_with_few_commits)
{
	struct sequence sequence = {0};
	struct kv_stats stats;

	for (int i = 0; i < 3000; i++) {
		char key[16];
		struct kv_op op = {.key = key, .value = "v", .len = 1};

		(void)str_format(key, sizeof(key), "k%d", i % 100);
		assert_ok(kv_submit(f->kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, check_sequence,
				    &sequence, NULL));
		assert_int_equal(sequence.n, 0); /* never from inside kv_submit */
	}
	assert_int_equal(kv_stats(f->kv).pending, 3000);
	while (sequence.n < 3000)
		assert_true(sd_event_run(f->event, PATIENCE_US) > 0);
	stats = kv_stats(f->kv);
	assert_int_equal(stats.pending, 0);
	assert_int_equal(stats.transactions, 3000);
	assert_in_range(stats.commits, fixture_shares_revisions ? 1 : 3, 300);
	assert_in_range(stats.largest_batch, 10, fixture_shares_revisions ? 3000 : 1024);
}

STORE_TEST(a_barrier_comes_after_everything_before_it)
{
	struct answer last = {0};
	struct answer barrier = {0};

	for (int i = 0; i < 50; i++)
		put_async(f, "a", "1", NULL);
	put_async(f, "a", "2", &last);
	assert_int_equal(kv_barrier(f->kv, answer_fill, &barrier, NULL), STATUS_OK);
	assert_int_equal(barrier.count, 0);
	await(f, &barrier);
	assert_int_equal(last.count, 1);
	assert_int_equal(barrier.revision, last.revision);
	if (!fixture_shares_revisions)
		assert_int_equal(barrier.revision, 51);
}

STORE_TEST(a_barrier_on_an_idle_store_is_answered)
{
	struct answer barrier = {0};

	assert_int_equal(kv_barrier(f->kv, answer_fill, &barrier, NULL), STATUS_OK);
	assert_int_equal(barrier.count, 0);
	await(f, &barrier);
	assert_int_equal(barrier.revision, 0);
	assert_int_equal(kv_stats(f->kv).commits, 0);
}

STORE_TEST(a_range_holds_exactly_the_keys_with_the_prefix)
{
	(void)put(f, "a", "1");
	(void)put(f, "a/", "2");
	(void)put(f, "a/b", "3");
	(void)put(f, "a/~~", "4");
	(void)put(f, "a0", "5");
	(void)put(f, "a~", "6");
	(void)put(f, "a~~", "7");
	(void)put(f, "b", "8");
	(void)put(f, " ", "9");
	assert_string_equal(range_text(f, "a/"), "a/=2@2,2 a/b=3@3,3 a/~~=4@4,4 ");
	assert_string_equal(range_text(f, "a~"), "a~=6@6,6 a~~=7@7,7 ");
	assert_string_equal(range_text(f, "b"), "b=8@8,8 ");
	assert_string_equal(range_text(f, "c"), "");
	assert_string_equal(range_text(f, " "), " =9@9,9 ");
	assert_string_equal(range_text(f, ""), " =9@9,9 a=1@1,1 a/=2@2,2 a/b=3@3,3 a/~~=4@4,4 a0=5@5,5 "
					       "a~=6@6,6 a~~=7@7,7 b=8@8,8 ");
}

STORE_TEST(every_printable_last_byte_of_a_prefix_selects_its_own_keys)
{
	for (char c = 0x20; c < 0x7f; c++)
		put_async(f, (char[]){'p', c, 'x', '\0'}, "v", NULL);
	(void)put(f, "last", "v");
	for (char c = 0x20; c < 0x7f; c++) {
		const char *text = range_text(f, (char[]){'p', c, '\0'});

		assert_int_equal(text[1], c);
		assert_null(strstr(text + 1, " p")); /* one item */
	}
}

enum { KEYS_SIZE = 64 };

static bool add_key(const struct kv_item *item, void *userdata)
{
	char *keys = userdata;
	size_t n = strlen(keys);

	return str_format(keys + n, KEYS_SIZE - n, "%s ", item->key) >= 0;
}

static const char *slice(struct fixture *f, const char *prefix, const char *from, size_t limit)
{
	static char keys[KEYS_SIZE];

	keys[0] = '\0';
	assert_int_equal(kv_range_from(f->kv, prefix, from, limit, add_key, keys, NULL), STATUS_OK);
	return keys;
}

STORE_TEST(a_slice_begins_at_its_key_and_has_no_more_than_its_limit)
{
	static const char *const keys[] = {"a", "p/1", "p/2", "p/3", "q"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		(void)put(f, keys[i], "v");
	assert_string_equal(slice(f, "p/", "", SIZE_MAX), "p/1 p/2 p/3 ");
	assert_string_equal(slice(f, "p/", "p/2", SIZE_MAX), "p/2 p/3 ");
	assert_string_equal(slice(f, "p/", "p/2", 1), "p/2 ");
	assert_string_equal(slice(f, "p/", "p/10", 1), "p/2 ");
	assert_string_equal(slice(f, "p/", "a", 2), "p/1 p/2 ");
	assert_string_equal(slice(f, "p/", "p/4", 2), "");
	assert_string_equal(slice(f, "p/", "z", 2), "");
	assert_string_equal(slice(f, "", "p/3", 2), "p/3 q ");
	assert_string_equal(slice(f, "", "", 0), "");
	assert_int_equal(kv_range_from(f->kv, "", "\x01", 1, add_key, NULL, NULL), STATUS_INVALID_ARGUMENT);
}

static bool stop_at_second(const struct kv_item *item, void *userdata)
{
	int *n = userdata;

	return ++*n < 2;
}

STORE_TEST(a_reader_can_stop_early)
{
	int n = 0;

	for (int i = 0; i < 5; i++)
		(void)put(f, (char[]){(char)('a' + i), '\0'}, "v");
	assert_int_equal(kv_range(f->kv, "", stop_at_second, &n, NULL), STATUS_OK);
	assert_int_equal(n, 2);
	(void)put(f, "z", "v"); /* a stopped read holds nothing back */
}

static bool read_again(const struct kv_item *item, void *userdata)
{
	struct fixture *f = userdata;

	assert_string_equal(range_text(f, item->key), "a=1@1,1 ");
	put_async(f, "written-while-reading", "1", NULL);
	return true;
}

STORE_TEST(a_reader_may_read_and_write_in_its_callback)
{
	(void)put(f, "a", "1");
	assert_int_equal(kv_range(f->kv, "", read_again, f, NULL), STATUS_OK);
	(void)put(f, "b", "1");
	assert_string_equal(range_text(f, "w"), "written-while-reading=1@2,2 ");
}

struct during {
	struct fixture *f;
	int n;
};

static bool commit_meanwhile(const struct kv_item *item, void *userdata)
{
	struct during *during = userdata;

	during->n++;
	(void)put(during->f, "b", "1"); /* waits until it is durable */
	return true;
}

STORE_TEST(a_range_and_a_commit_do_not_wait_for_each_other)
{
	struct during during = {.f = f};

	(void)put(f, "a", "1");
	assert_int_equal(kv_range(f->kv, "", commit_meanwhile, &during, NULL), STATUS_OK);
	assert_int_equal(during.n, 1); /* it is of the moment in which it began */
	assert_string_equal(range_text(f, "b"), "b=1@2,2 ");
}

STORE_TEST(the_revision_never_goes_back_when_all_is_deleted)
{
	(void)put(f, "a", "1");
	(void)put(f, "a", NULL);
	fixture_close(f);
	fixture_open(f);
	assert_int_equal(fixture_revision(f), 2);
	assert_true(put(f, "a", "2") > 2);
	if (!fixture_shares_revisions)
		assert_string_equal(range_text(f, ""), "a=2@3,3 ");
}

STORE_TEST(closing_waits_for_submitted_txns_and_stays_silent)
{
	struct answer answers[100] = {0};

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
		put_async(f, "a", "v", &answers[i]);
	fixture_close(f);
	assert_true(sd_event_run(f->event, 0) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
		assert_int_equal(answers[i].count, 0);
	fixture_open(f);
	if (!fixture_shares_revisions)
		assert_int_equal(fixture_revision(f), 100);
	assert_memory_equal(range_text(f, ""), "a=v@1,", 6);
}

static void close_in_answer(uint64_t revision, const struct error *err, void *userdata)
{
	struct fixture *f = userdata;

	fixture_close(f);
}

STORE_TEST(a_done_function_may_close_the_store)
{
	struct answer after = {0};
	struct kv_op op = {.key = "a", .value = "v", .len = 1};

	assert_ok(kv_submit(f->kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, close_in_answer, f, NULL));
	put_async(f, "b", "v", &after);
	while (f->kv)
		assert_true(sd_event_run(f->event, PATIENCE_US) > 0);
	assert_int_equal(after.count, 0);
	fixture_open(f);
	assert_memory_equal(range_text(f, "a"), "a=v@1,", 6);
	assert_memory_equal(range_text(f, "b"), "b=v@", 4);
}

TEST(closing_nothing_is_allowed)
{
	kv_close(NULL);
}
