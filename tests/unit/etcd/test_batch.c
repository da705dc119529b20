/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into one transaction of etcd. */

#include "unit.h"

#include "etcd/batch.h"

static const struct batch_keys keys = {.leader = "/p/leader", .sequence = "/p/sequence", .data = "/p/e/1/"};
static const struct known_revisions known = {
	.leader_revision = 5, .sequence_revision = 7, .last = "a 1", .sequence = "a 2"};

static void add_txn(struct submission_list *queue, const struct kv_txn *txn)
{
	struct submission *s = NON_NULL(submission_new_txn(txn, NULL, NULL));

	STAILQ_INSERT_TAIL(queue, s, next);
}

static void add(struct submission_list *queue, const char *key, const char *value)
{
	const struct kv_op op = {.key = key, .value = value, .len = value ? strlen(value) : 0};

	add_txn(queue, &(struct kv_txn){.ops = &op, .n_ops = 1});
}

static const Etcdserverpb__TxnRequest *message_of(const struct batch_request *request)
{
	return (const Etcdserverpb__TxnRequest *)batch_request_message(request);
}

static void assert_bytes(ProtobufCBinaryData bytes, const char *text)
{
	assert_int_equal(bytes.len, strlen(text));
	assert_memory_equal(bytes.data, text, bytes.len);
}

/* Fill and free what was filled; returns how many submissions that were. */
static size_t fill(struct submission_list *queue, struct batch *batch)
{
	batch_fill(batch, queue);
	submission_list_free(&batch->list);
	return batch->n;
}

TEST(a_key_is_once_in_it_as_it_was_put_last)
{
	struct submission_list queue = STAILQ_HEAD_INITIALIZER(queue);
	cleanup_free struct batch_request *request = NULL;
	struct batch batch;

	add(&queue, "a", "1");
	add(&queue, "b", "1");
	add(&queue, "a", "2");
	add(&queue, "b", NULL);
	batch_fill(&batch, &queue);
	assert_int_equal(batch.n, 4);
	assert_int_equal(batch.transactions, 4);
	request = batch_request_new(&batch, &keys, &known);
	assert_int_equal(message_of(request)->n_success, 3);
	assert_bytes(message_of(request)->success[0]->request_put->key, "/p/e/1/a");
	assert_int_equal(message_of(request)->success[0]->request_put->value.len, BATCH_SUM_SIZE + 1);
	assert_int_equal(message_of(request)->success[0]->request_put->value.data[BATCH_SUM_SIZE], '2');
	assert_bytes(message_of(request)->success[1]->request_delete_range->key, "/p/e/1/b");
	assert_bytes(message_of(request)->success[2]->request_put->key, "/p/sequence");
	assert_bytes(message_of(request)->success[2]->request_put->value, "a 2");
	submission_list_free(&batch.list);
}

TEST(it_compares_the_leaders_key_and_the_sequence_key_and_reads_both_if_not)
{
	struct submission_list queue = STAILQ_HEAD_INITIALIZER(queue);
	const Etcdserverpb__TxnRequest *txn;
	cleanup_free struct batch_request *request = NULL;
	struct batch batch;

	add(&queue, "a", "1");
	batch_fill(&batch, &queue);
	request = batch_request_new(&batch, &keys, &known);
	txn = message_of(request);
	assert_int_equal(txn->n_compare, 3);
	assert_bytes(txn->compare[0]->key, "/p/leader");
	assert_int_equal(txn->compare[0]->target, ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE);
	assert_int_equal(txn->compare[0]->create_revision, 5);
	assert_bytes(txn->compare[1]->key, "/p/sequence");
	assert_int_equal(txn->compare[1]->target, ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD);
	assert_int_equal(txn->compare[1]->mod_revision, 7);
	assert_bytes(txn->compare[2]->key, "/p/sequence");
	assert_int_equal(txn->compare[2]->target, ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE);
	assert_bytes(txn->compare[2]->value, "a 1");
	assert_int_equal(txn->n_failure, 2);
	assert_bytes(txn->failure[BATCH_READ_LEADER]->request_range->key, "/p/leader");
	assert_bytes(txn->failure[BATCH_READ_SEQUENCE]->request_range->key, "/p/sequence");
	submission_list_free(&batch.list);
}

TEST(conditions_go_alone)
{
	struct submission_list queue = STAILQ_HEAD_INITIALIZER(queue);
	const struct kv_condition condition = {.key = "c", .mod_revision = 9};
	struct batch batch;

	add(&queue, "a", "1");
	add_txn(&queue, &(struct kv_txn){.conditions = &condition, .n_conditions = 1});
	add(&queue, "b", "1");
	assert_int_equal(fill(&queue, &batch), 1);
	assert_null(batch.conditional);
	assert_int_equal(fill(&queue, &batch), 1);
	assert_non_null(batch.conditional);
	assert_false(batch_is_empty(&batch));
	assert_int_equal(fill(&queue, &batch), 1);
	assert_int_equal(fill(&queue, &batch), 0);
}

TEST(it_has_127_keys_at_most)
{
	struct submission_list queue = STAILQ_HEAD_INITIALIZER(queue);
	struct batch batch;

	for (int i = 0; i < 300; i++) {
		char key[8];

		(void)str_format(key, sizeof(key), "k%d", i);
		add(&queue, key, "v");
	}
	assert_int_equal(fill(&queue, &batch), BATCH_OPS_MAX);
	assert_int_equal(fill(&queue, &batch), BATCH_OPS_MAX);
	assert_int_equal(fill(&queue, &batch), 300 - 2 * BATCH_OPS_MAX);
}

TEST(it_has_so_many_bytes_at_most)
{
	struct submission_list queue = STAILQ_HEAD_INITIALIZER(queue);
	cleanup_free char *value = calloc(1, KV_VALUE_MAX);
	struct kv_op op = {.key = "a", .value = value, .len = KV_VALUE_MAX / 2};
	struct batch batch;

	for (int i = 0; i < 3; i++)
		add_txn(&queue, &(struct kv_txn){.ops = &op, .n_ops = 1});
	assert_int_equal(fill(&queue, &batch), 2);
	assert_int_equal(fill(&queue, &batch), 1);
}

TEST(a_deleted_key_is_created_in_the_next_batch)
{
	struct submission_list queue = STAILQ_HEAD_INITIALIZER(queue);
	struct batch batch;

	add(&queue, "a", NULL);
	add(&queue, "b", "1");
	add(&queue, "a", "2");
	assert_int_equal(fill(&queue, &batch), 2);
	assert_int_equal(fill(&queue, &batch), 1);
}

TEST(barriers_alone_are_nothing_to_send)
{
	struct submission_list queue = STAILQ_HEAD_INITIALIZER(queue);
	struct submission *barrier = NON_NULL(submission_new(SUBMISSION_BARRIER, NULL, NULL));
	struct batch batch;

	STAILQ_INSERT_TAIL(&queue, barrier, next);
	add_txn(&queue, &(struct kv_txn){0});
	assert_int_equal(fill(&queue, &batch), 2);
	assert_true(batch_is_empty(&batch));
}

static int64_t compared(uint64_t mod_revision, uint64_t offset)
{
	const struct batch_keys with = {
		.leader = "/p/leader", .sequence = "/p/sequence", .data = "/p/e/1/", .offset = offset};
	const struct kv_condition condition = {.key = "c", .mod_revision = mod_revision};
	struct submission_list queue = STAILQ_HEAD_INITIALIZER(queue);
	const Etcdserverpb__TxnRequest *txn;
	cleanup_free struct batch_request *request = NULL;
	struct batch batch;
	int64_t revision;

	add_txn(&queue, &(struct kv_txn){.conditions = &condition, .n_conditions = 1});
	batch_fill(&batch, &queue);
	request =
		batch_request_new(&batch, &with, &(struct known_revisions){.leader_revision = 1, .last = ""});
	txn = (const Etcdserverpb__TxnRequest *)batch_request_message(request);
	revision = txn->compare[3]->mod_revision;
	submission_list_free(&batch.list);
	return revision;
}

TEST(a_condition_is_of_the_stores_revisions)
{
	assert_int_equal(compared(0, 0), 0);
	assert_int_equal(compared(9, 0), 9);
	assert_int_equal(compared(0, 100), 0); /* absent */
	assert_int_equal(compared(109, 100), 9);
	assert_int_equal(compared(100, 100), INT64_MAX); /* of before: there is none */
	assert_int_equal(compared(7, 100), INT64_MAX);
	assert_int_equal(compared(UINT64_MAX, 100), INT64_MAX);
}
