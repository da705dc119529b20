/* SPDX-License-Identifier: Apache-2.0 */
/* The store in etcd: one transaction is in flight at a time, and meanwhile the next one fills.
 *
 * A transaction is in flight from its sending until its outcome is known. The answer has the outcome. If the
 * answer is lost, the keys are read that classify_transaction() needs; nothing else is sent or answered
 * before. */

#include "etcd/kv_etcd.h"

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "etcd/batch.h"
#include "etcd/etcd.h"
#include "etcd/request.h"
#include "rpc/timer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEMA_SIZE = 128, FOREIGN_KEYS_MAX = 80 };

static const char SCHEMA_WORD[] = "holdfast-store";

static const struct kv_backend backend;

static struct etcd_store *store_of(const struct kv *kv)
{
	assert(kv->backend == &backend);
	return (struct etcd_store *)(uintptr_t)kv;
}

/* --- what comes back --- */

static void move(struct etcd_store *store, struct submission_list *from, enum submission_outcome outcome)
{
	struct submission *s;

	STAILQ_FOREACH(s, from, next)
	{
		s->outcome = outcome;
		s->revision = store->revision;
	}
	STAILQ_CONCAT(&store->done, from);
	if (!STAILQ_EMPTY(&store->done))
		(void)sd_event_source_set_enabled(store->turn, SD_EVENT_ONESHOT);
}

static int on_turn(sd_event_source *source, void *userdata)
{
	struct submission_list done = STAILQ_HEAD_INITIALIZER(done);
	struct etcd_store *store = userdata;

	STAILQ_CONCAT(&done, &store->done);
	kv_complete(&store->kv, &done);
	return 0;
}

static void submission_finish(struct etcd_store *store, enum submission_outcome outcome)
{
	store->stage = STAGE_IDLE;
	store->is_full = false;
	backoff_reset(&store->backoff);
	backoff_reset(&store->full_backoff);
	move(store, &store->batch.list, outcome);
	etcd_store_kick(store);
}

void etcd_store_fail(struct etcd_store *store, const struct error *why)
{
	if (store->failure.status != STATUS_OK)
		return;
	store->failure = *why;
	etcd_call_cancel(&store->call);
	timer_disarm(store->retry);
	if (store->stage != STAGE_IDLE)
		move(store, &store->batch.list, SUBMISSION_FAILED);
	store->stage = STAGE_IDLE;
	move(store, &store->queue, SUBMISSION_FAILED);
}

static void depose(struct etcd_store *store)
{
	struct error err;

	(void)error_set(&err, STATUS_FAILED_PRECONDITION, 0,
			"store %s: not the leader: another one leads, or has written to it", store->name);
	etcd_store_fail(store, &err);
	election_step_down(store->etcd->election, &err);
}

static void finish_committed(struct etcd_store *store, int64_t revision)
{
	if (store->known.sequence) {
		store->known.sequence_revision = revision;
		memcpy(store->last, store->sequence, sizeof(store->last));
	}
	if (store->known.sequence && store->batch.n_ops > 0) {
		store->revision = (uint64_t)revision + store->records.offset;
		kv_marks_write(&store->marks, store->revision, store->nodes);
		store->stats.commits++;
		store->stats.transactions += store->batch.transactions;
		if (store->batch.transactions > store->stats.largest_batch)
			store->stats.largest_batch = store->batch.transactions;
	}
	submission_finish(store, SUBMISSION_DURABLE);
}

/* --- a transaction on its way --- */

static void send_batch(struct etcd_store *store);
static void ask(struct etcd_store *store);

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct etcd_store *store = userdata;

	if (store->stage == STAGE_SENDING)
		send_batch(store);
	else if (store->stage == STAGE_ASKING)
		ask(store);
	return 0;
}

static void later(struct etcd_store *store, enum stage stage)
{
	uint64_t delay_us = backoff_next(&store->backoff, backoff_random());

	store->stage = stage;
	(void)timer_arm(store->etcd->loop, &store->retry, delay_us, on_retry, store);
}

/* Nothing of it is stored and nothing is lost: each try is an entry in the log of a full etcd, so they become
 * rare. */
static void wait_for_room(struct etcd_store *store)
{
	store->is_full = true;
	store->stage = STAGE_SENDING;
	(void)timer_arm(store->etcd->loop, &store->retry,
			backoff_next(&store->full_backoff, backoff_random()), on_retry, store);
}

static void on_verdict(struct etcd_store *store, enum verdict verdict, const Etcdserverpb__KeyValue *sequence)
{
	switch (verdict) {
	case VERDICT_COMMITTED:
		finish_committed(store, sequence->mod_revision);
		return;
	case VERDICT_UNCOMMITTED:
		if (store->refusal.status == STATUS_OK)
			later(store, STAGE_SENDING);
		else if (store->refusal.status == STATUS_RESOURCE_EXHAUSTED && !store->is_rewriting)
			wait_for_room(store);
		else
			etcd_store_fail(store, &store->refusal);
		return;
	case VERDICT_DEPOSED:
		depose(store);
		return;
	}
}

static void on_read(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	const Etcdserverpb__TxnResponse *txn = (const Etcdserverpb__TxnResponse *)response;
	struct etcd_store *store = userdata;
	const Etcdserverpb__KeyValue *sequence;

	if (status != STATUS_OK) {
		later(store, STAGE_ASKING);
		return;
	}
	sequence = txn_key_of(txn, BATCH_READ_SEQUENCE);
	on_verdict(store, classify_transaction(&store->known, txn_key_of(txn, BATCH_READ_LEADER), sequence),
		   sequence);
}

/* Reads both keys at one revision, which is the latest. */
static void ask(struct etcd_store *store)
{
	Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
	Etcdserverpb__RangeRequest ranges[2] = {ETCDSERVERPB__RANGE_REQUEST__INIT,
						ETCDSERVERPB__RANGE_REQUEST__INIT};
	Etcdserverpb__RequestOp ops[2] = {etcd_op_range(&ranges[0]), etcd_op_range(&ranges[1])};

	ranges[BATCH_READ_LEADER].key = etcd_bytes(store->etcd->leader_key);
	ranges[BATCH_READ_SEQUENCE].key = etcd_bytes(store->sequence_key);
	txn.n_success = 2;
	txn.success = (Etcdserverpb__RequestOp *[]){&ops[0], &ops[1]};
	store->stage = STAGE_ASKED;
	if (etcd_call_start(store->etcd->client, &store->call, &etcdserverpb__kv__descriptor, "Txn",
			    &txn.base, store->etcd->call_us, on_read, store, NULL) != STATUS_OK)
		later(store, STAGE_ASKING);
}

/* etcd will never accept the transaction: it fails once it is known not to be committed. */
static void note_refusal(struct etcd_store *store, const struct error *err)
{
	(void)error_set(&store->refusal, STATUS_INTERNAL, 0,
			"store %s: etcd refuses the transaction: %s; compare its --max-txn-ops (128) and "
			"--max-request-bytes (1572864)",
			store->name, err->msg);
}

static bool has_no_space(const Etcdserverpb__AlarmResponse *response)
{
	for (size_t i = 0; i < response->n_alarms; i++)
		if (response->alarms[i]->alarm == ETCDSERVERPB__ALARM_TYPE__NOSPACE)
			return true;
	return false;
}

static void on_alarms(enum status status, const ProtobufCMessage *response, const struct error *err,
		      void *userdata)
{
	struct etcd_store *store = userdata;

	if (status == STATUS_OK && has_no_space((const Etcdserverpb__AlarmResponse *)response))
		(void)error_set(
			&store->refusal, STATUS_RESOURCE_EXHAUSTED, 0,
			"store %s: etcd is full (its alarm NOSPACE is on): compact and defragment it, then "
			"etcdctl alarm disarm, of Debian's package etcd-client",
			store->name);
	ask(store);
}

/* RESOURCE_EXHAUSTED also means "too many requests", after which etcd accepts the next one. Its alarms show
 * the cause. */
static void ask_alarms(struct etcd_store *store)
{
	Etcdserverpb__AlarmRequest request = ETCDSERVERPB__ALARM_REQUEST__INIT;

	request.action = ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__GET;
	store->stage = STAGE_ASKED;
	if (etcd_call_start(store->etcd->client, &store->call, &etcdserverpb__maintenance__descriptor,
			    "Alarm", &request.base, store->etcd->call_us, on_alarms, store,
			    NULL) != STATUS_OK)
		later(store, STAGE_ASKING);
}

/* Its comparisons failed: for the keys of both, which an earlier copy of it may have written, or for its own
 * conditions. */
static void on_failed(struct etcd_store *store, const Etcdserverpb__TxnResponse *txn)
{
	const Etcdserverpb__KeyValue *sequence = txn_key_of(txn, BATCH_READ_SEQUENCE);
	enum verdict verdict =
		classify_transaction(&store->known, txn_key_of(txn, BATCH_READ_LEADER), sequence);
	struct submission *s = STAILQ_FIRST(&store->batch.list);

	if (verdict == VERDICT_UNCOMMITTED && s &&
	    batch_find_conflict(&store->batch, txn, store->records.offset, &s->conflict))
		submission_finish(store, SUBMISSION_CONFLICT);
	else
		on_verdict(store, verdict, sequence);
}

static void on_sent(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	const Etcdserverpb__TxnResponse *txn = (const Etcdserverpb__TxnResponse *)response;
	struct etcd_store *store = userdata;

	if (status == STATUS_OK && txn->succeeded && txn->header) {
		finish_committed(store, txn->header->revision);
	} else if (status == STATUS_OK) {
		on_failed(store, txn);
	} else if (status == STATUS_RESOURCE_EXHAUSTED) {
		ask_alarms(store);
	} else {
		if (status == STATUS_INVALID_ARGUMENT)
			note_refusal(store, err);
		ask(store);
	}
}

static void send_batch(struct etcd_store *store)
{
	const struct batch_keys keys = {.leader = store->etcd->leader_key,
					.sequence = store->sequence_key,
					.data = store->records.data,
					.offset = store->records.offset};
	struct batch_request *request = batch_request_new(&store->batch, &keys, &store->known);
	enum status status = STATUS_RESOURCE_EXHAUSTED;

	store->stage = STAGE_SENT;
	store->refusal.status = STATUS_OK;
	if (request)
		status = etcd_call_start(store->etcd->client, &store->call, &etcdserverpb__kv__descriptor,
					 "Txn", batch_request_message(request), store->etcd->call_us, on_sent,
					 store, NULL);
	free(request);
	if (status != STATUS_OK) /* it was not sent */
		later(store, STAGE_SENDING);
}

void etcd_store_unchanged(const struct etcd_store *store, struct etcd_unchanged *ret,
			  Etcdserverpb__TxnRequest *txn)
{
	const ProtobufCBinaryData sequence = etcd_bytes(store->sequence_key);

	ret->compares[0] =
		etcd_compare_created(etcd_bytes(store->etcd->leader_key), store->known.leader_revision);
	ret->compares[1] = etcd_compare_modified(sequence, store->known.sequence_revision);
	ret->compares[2] = etcd_compare_value(sequence, store->last);
	for (size_t i = 0; i < ARRAY_SIZE(ret->compares); i++)
		ret->list[i] = &ret->compares[i];
	txn->compare = ret->list;
	txn->n_compare = ARRAY_SIZE(ret->compares);
}

void etcd_store_next_sequence(struct etcd_store *store)
{
	int n = str_format(store->sequence, sizeof(store->sequence), "%" PRIx64 " %" PRIu64,
			   (uint64_t)election_lease(store->etcd->election), ++store->number);

	if (store->marks.files[0]) /* for the marks of those that follow */
		(void)str_format(store->sequence + n, sizeof(store->sequence) - (size_t)n,
				 " %" PRIu64 " %" PRIu64 " %s", store->marks.mark.epoch, store->nodes,
				 store->marks.mark.store_id);
	store->known.sequence = store->sequence;
}

void etcd_store_kick(struct etcd_store *store)
{
	while (store->stage == STAGE_IDLE && store->failure.status == STATUS_OK &&
	       !STAILQ_EMPTY(&store->queue)) {
		batch_fill(&store->batch, &store->queue);
		if (batch_is_empty(&store->batch)) {
			store->stats.transactions += store->batch.transactions;
			move(store, &store->batch.list, SUBMISSION_DURABLE);
			continue;
		}
		store->known.sequence = NULL;
		if (store->batch.n_ops > 0)
			etcd_store_next_sequence(store);
		send_batch(store);
	}
}

/* --- an idle store --- */

static void wait_idly(struct etcd_store *store);

/* Writes only the sequence, if nothing was written meanwhile. It shows to followers that the store in etcd
 * is the one that this server knows: one that has no mark begins it only then. */
static int on_idle(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct etcd_store *store = userdata;

	if (store->stage == STAGE_IDLE && STAILQ_EMPTY(&store->queue) && !store->is_rewriting &&
	    store->failure.status == STATUS_OK && store->stats.commits == store->idle_commits) {
		batch_fill(&store->batch, &store->queue);
		etcd_store_next_sequence(store);
		send_batch(store);
	}
	wait_idly(store);
	return 0;
}

static void wait_idly(struct etcd_store *store)
{
	store->idle_commits = store->stats.commits;
	/* memory short: a follower without a mark waits for a change */
	(void)timer_arm(store->etcd->loop, &store->idle, backoff_next(&store->idle_backoff, backoff_random()),
			on_idle, store);
}

/* --- the row of functions --- */

static void etcd_put(struct kv *kv, struct submission *s)
{
	struct etcd_store *store = store_of(kv);

	STAILQ_INSERT_TAIL(&store->queue, s, next); /* the loop sends it when all of this turn are here */
	if (store->failure.status != STATUS_OK)
		move(store, &store->queue, SUBMISSION_FAILED);
}

static void etcd_wait(struct kv *kv, int timeout_ms)
{
	struct etcd_store *store = store_of(kv);

	etcd_store_kick(store);
	if (STAILQ_EMPTY(&store->done))
		(void)etcd_run(store->etcd,
			       timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * USEC_PER_MSEC);
	(void)on_turn(NULL, store);
}

static enum status etcd_explain_failure(struct kv *kv, struct error *err)
{
	struct etcd_store *store = store_of(kv);

	*err = store->failure;
	return err->status;
}

static enum status etcd_range_of(struct kv *kv, const char *prefix, const char *from, size_t limit,
				 kv_each_fn *each, void *userdata, struct error *err)
{
	struct etcd_store *store = store_of(kv);
	enum status status;

	store->etcd->is_brief = kv->is_brief;
	status = etcd_range(store->etcd, &store->records, prefix, from, limit, each, userdata, &store->n_read,
			    err);
	store->etcd->is_brief = false;
	return status;
}

static uint64_t etcd_revision(const struct kv *kv)
{
	return store_of(kv)->revision;
}

static void etcd_add_stats(const struct kv *kv, struct kv_stats *stats)
{
	const struct etcd_store *store = store_of(kv);

	stats->commits = store->stats.commits;
	stats->transactions = store->stats.transactions;
	stats->largest_batch = store->stats.largest_batch;
	stats->read = store->n_read;
	stats->mark_errno = store->marks.write_errno;
	stats->is_full = store->is_full;
}

static enum status etcd_history(struct kv *kv, const struct kv_marks *marks, struct kv_history *ret,
				struct error *err)
{
	return kv_marks_find_history(marks, store_of(kv)->opened_revision, false, ret, err);
}

static enum status etcd_keep_marks(struct kv *kv, const struct kv_marks *marks, struct error *err)
{
	struct etcd_store *store = store_of(kv);

	store->nodes = marks->nodes;
	wait_idly(store);
	return kv_marks_open(&store->marks, store->name, marks, store->revision, err);
}

static void etcd_note_nodes(struct kv *kv, uint64_t nodes)
{
	store_of(kv)->nodes = nodes;
}

/* etcd is not read with SQL. */
static enum status etcd_define_views(struct kv *kv, const struct kv_view *views, size_t n, struct error *err)
{
	return STATUS_OK;
}

/* No longer than the lease lasts: it ends as a failure. */
static void etcd_store_close(struct kv *kv)
{
	struct etcd_store *store = store_of(kv);

	etcd_store_kick(store);
	while (store->stage != STAGE_IDLE && store->failure.status == STATUS_OK)
		(void)etcd_run(store->etcd, UINT64_MAX);
	etcd_call_cancel(&store->call);
	(void)sd_event_source_disable_unref(store->retry);
	(void)sd_event_source_disable_unref(store->idle);
	(void)sd_event_source_disable_unref(store->turn);
	submission_list_free(&store->queue);
	submission_list_free(&store->done);
	kv_marks_close(&store->marks);
	store->etcd->store = NULL;
}

static const struct kv_backend backend = {
	.medium = "etcd",
	.put = etcd_put,
	.wait = etcd_wait,
	.explain_failure = etcd_explain_failure,
	.range = etcd_range_of,
	.revision = etcd_revision,
	.add_stats = etcd_add_stats,
	.rewrite = etcd_rewrite,
	.history = etcd_history,
	.keep_marks = etcd_keep_marks,
	.note_nodes = etcd_note_nodes,
	.define_views = etcd_define_views,
	.close = etcd_store_close,
};

/* --- opening --- */

/* The keys under the prefix at one revision. */
struct found {
	struct etcd_store *store;
	bool has_schema;
	char schema[SCHEMA_SIZE];
	int64_t leader_revision;
	int64_t sequence_revision;
	char sequence[SEQUENCE_SIZE];
	struct etcd_generation generation; /* number 0: it cannot be read */
	char foreign[ETCD_KEY_SIZE];	   /* a key that is not the store's; "": no such key */
};

enum { LOOK_LEADER, LOOK_SEQUENCE, LOOK_SCHEMA, LOOK_GENERATION, LOOK_ANY, LOOK_N };

static void find_foreign(struct found *found, const Etcdserverpb__RangeResponse *range)
{
	const struct etcd_store *store = found->store;
	char servers[ETCD_KEY_SIZE];

	(void)str_format(servers, sizeof(servers), "%s/" ETCD_SERVERS, store->etcd->prefix);
	for (size_t i = 0; i < range->n_kvs && found->foreign[0] == '\0'; i++) {
		char key[ETCD_KEY_SIZE];

		(void)snprintf(key, sizeof(key), "%.*s", (int)range->kvs[i]->key.len,
			       (const char *)range->kvs[i]->key.data);
		if (!str_eq(key, store->etcd->leader_key) && !str_eq(key, store->sequence_key) &&
		    !str_eq(key, store->etcd->record_schema_key) &&
		    !str_eq(key, store->etcd->ticket_key_key) && !str_starts_with(key, servers))
			str_copy_text(found->foreign, sizeof(found->foreign), key);
	}
}

bool etcd_generation_read(const Etcdserverpb__KeyValue *kv, struct etcd_generation *ret)
{
	char text[SCHEMA_SIZE];
	char *offset, *word;

	*ret = (struct etcd_generation){.number = 1};
	if (!kv)
		return true;
	etcd_text_of(kv, text, sizeof(text));
	offset = strchr(text, ' ');
	if (!offset)
		return false;
	*offset++ = '\0';
	word = strchr(offset, ' ');
	if (word)
		*word++ = '\0';
	if (word && (!str_starts_with(word, ETCD_RETIRED) ||
		     str_copy(ret->retired_by, sizeof(ret->retired_by), word + strlen(ETCD_RETIRED)) < 0 ||
		     ret->retired_by[0] == '\0'))
		return false;
	return parse_u32(text, 1, UINT32_MAX, &ret->number) == 0 &&
	       parse_u64(offset, 0, INT64_MAX, &ret->offset) == 0;
}

static enum status on_found(const ProtobufCMessage *response, void *userdata, struct error *err)
{
	const Etcdserverpb__TxnResponse *txn = (const Etcdserverpb__TxnResponse *)response;
	const Etcdserverpb__KeyValue *leader = txn_key_of(txn, LOOK_LEADER);
	const Etcdserverpb__KeyValue *sequence = txn_key_of(txn, LOOK_SEQUENCE);
	const Etcdserverpb__KeyValue *schema = txn_key_of(txn, LOOK_SCHEMA);
	struct found *found = userdata;

	if (txn->n_responses != LOOK_N)
		return error_set(err, STATUS_INTERNAL, 0, "store %s: etcd answers %zu of %d questions",
				 found->store->name, txn->n_responses, LOOK_N);
	found->leader_revision = leader ? leader->create_revision : 0;
	found->sequence_revision = sequence ? sequence->mod_revision : 0;
	etcd_text_of(sequence, found->sequence, sizeof(found->sequence));
	found->has_schema = schema != NULL;
	if (!etcd_generation_read(txn_key_of(txn, LOOK_GENERATION), &found->generation))
		found->generation.number = 0;
	etcd_text_of(schema, found->schema, sizeof(found->schema));
	if (!schema && txn_key_of(txn, LOOK_ANY))
		find_foreign(found, txn->responses[LOOK_ANY]->response_range);
	return STATUS_OK;
}

static enum status etcd_store_look(struct found *found, struct error *err)
{
	struct etcd_store *store = found->store;
	Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
	Etcdserverpb__RequestOp ops[LOOK_N];
	Etcdserverpb__RequestOp *pointers[LOOK_N];
	Etcdserverpb__RangeRequest ranges[LOOK_N];
	char any[ETCD_KEY_SIZE];
	char end[ETCD_KEY_SIZE];

	for (int i = 0; i < LOOK_N; i++) {
		etcdserverpb__range_request__init(&ranges[i]);
		ops[i] = etcd_op_range(&ranges[i]);
		pointers[i] = &ops[i];
	}
	(void)str_format(any, sizeof(any), "%s/", store->etcd->prefix);
	(void)str_format(end, sizeof(end), "%s0", store->etcd->prefix); /* what comes behind a slash */
	ranges[LOOK_LEADER].key = etcd_bytes(store->etcd->leader_key);
	ranges[LOOK_SEQUENCE].key = etcd_bytes(store->sequence_key);
	ranges[LOOK_SCHEMA].key = etcd_bytes(store->schema_key);
	ranges[LOOK_GENERATION].key = etcd_bytes(store->generation_key);
	ranges[LOOK_ANY].key = etcd_bytes(any);
	ranges[LOOK_ANY].range_end = etcd_bytes(end);
	ranges[LOOK_ANY].limit = FOREIGN_KEYS_MAX;
	ranges[LOOK_ANY].keys_only = true;
	txn.n_success = LOOK_N;
	txn.success = pointers;
	return etcd_ask(store->etcd, "Txn", &txn.base, on_found, found, err);
}

static enum status on_created(const ProtobufCMessage *response, void *userdata, struct error *err)
{
	(void)response; /* it is looked at again */
	return STATUS_OK;
}

/* Schema and sequence, if this is the leader and there is no schema yet. */
static enum status create(struct etcd_store *store, struct error *err)
{
	Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
	Etcdserverpb__Compare leads =
		etcd_compare_created(etcd_bytes(store->etcd->leader_key), store->known.leader_revision);
	Etcdserverpb__Compare is_new = etcd_compare_created(etcd_bytes(store->schema_key), 0);
	Etcdserverpb__PutRequest puts[2] = {ETCDSERVERPB__PUT_REQUEST__INIT, ETCDSERVERPB__PUT_REQUEST__INIT};
	Etcdserverpb__RequestOp ops[2] = {etcd_op_put(&puts[0]), etcd_op_put(&puts[1])};
	char schema[SCHEMA_SIZE];

	(void)str_format(schema, sizeof(schema), "%s %d %s", SCHEMA_WORD, ETCD_STORE_SCHEMA,
			 store->etcd->cluster);
	puts[0].key = etcd_bytes(store->schema_key);
	puts[0].value = etcd_bytes(schema);
	puts[1].key = etcd_bytes(store->sequence_key);
	puts[1].value = etcd_bytes("0 0");
	txn.n_compare = txn.n_success = 2;
	txn.compare = (Etcdserverpb__Compare *[]){&leads, &is_new};
	txn.success = (Etcdserverpb__RequestOp *[]){&ops[0], &ops[1]};
	return etcd_ask(store->etcd, "Txn", &txn.base, on_created, NULL, err);
}

/* "holdfast-store 1 prod", which is cut at its blanks. */
static bool read_schema(char *text, uint32_t *ret_version, const char **ret_cluster)
{
	char *number = strchr(text, ' ');
	char *cluster = number ? strchr(number + 1, ' ') : NULL;

	if (!cluster)
		return false;
	*number = *cluster = '\0';
	*ret_cluster = cluster + 1;
	return str_eq(text, SCHEMA_WORD) && parse_u32(number + 1, 1, UINT32_MAX, ret_version) == 0;
}

static enum status check_schema(const struct etcd_store *store, char *schema, struct error *err)
{
	const char *prefix = store->etcd->prefix;
	const char *cluster;
	uint32_t version;

	if (!read_schema(schema, &version, &cluster))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "etcd: %s is not of a store of Holdfast; choose another prefix than %s",
				 store->schema_key, prefix);
	if (version > ETCD_STORE_SCHEMA)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"etcd: the store at %s has schema %u, this version knows up to %d; upgrade it",
			prefix, version, ETCD_STORE_SCHEMA);
	if (!str_eq(cluster, store->etcd->cluster))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"etcd: the store at %s is cluster %s's, and this is %s; choose another prefix",
			prefix, cluster, store->etcd->cluster);
	return STATUS_OK;
}

/* Has another one written since the store was opened? */
static bool has_changed(const struct found *found)
{
	const struct etcd_store *store = found->store;

	return store->known.sequence_revision > 0 &&
	       (found->sequence_revision != store->known.sequence_revision ||
		!str_eq(found->sequence, store->last));
}

static enum status check_found(struct found *found, struct error *err)
{
	const struct etcd_store *store = found->store;

	if (found->leader_revision != store->known.leader_revision || has_changed(found))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "store %s: not the leader", store->name);
	if (found->generation.number == 0)
		return error_set(err, STATUS_DATA_LOSS, 0, "etcd: %s is no generation",
				 store->generation_key);
	if (found->generation.retired_by[0] != '\0' && !store->etcd->may_be_retired)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the store in etcd at %s was moved to the sqlite of server %s: servers no "
				 "longer open it. Next, on the other machines: "
				 "systemctl disable --now holdfast-server",
				 store->etcd->prefix, found->generation.retired_by);
	if (found->has_schema)
		return check_schema(store, found->schema, err);
	if (found->foreign[0] != '\0')
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "etcd: there is %s, and no store of Holdfast at %s; choose another prefix",
				 found->foreign, store->etcd->prefix);
	return STATUS_OK;
}

enum status etcd_store_find(struct etcd_store *store, struct error *err)
{
	struct found found = {.store = store};
	enum status status = etcd_store_look(&found, err);

	if (status == STATUS_OK)
		status = check_found(&found, err);
	if (status == STATUS_OK && !found.has_schema) {
		status = create(store, err);
		if (status == STATUS_OK)
			status = etcd_store_look(&found, err);
		if (status == STATUS_OK)
			status = check_found(&found, err);
	}
	if (status != STATUS_OK)
		return status;
	store->generation = found.generation.number;
	memcpy(store->retired_by, found.generation.retired_by, sizeof(store->retired_by));
	etcd_store_name_records(store, store->generation, &store->records);
	store->records.offset = found.generation.offset;
	store->known.sequence_revision = found.sequence_revision;
	memcpy(store->last, found.sequence, sizeof(store->last));
	store->revision = (uint64_t)found.sequence_revision + found.generation.offset;
	return STATUS_OK;
}

void etcd_store_name_records(const struct etcd_store *store, uint32_t generation, struct etcd_records *ret)
{
	*ret = (struct etcd_records){.store = store->name};
	(void)str_format(ret->data, sizeof(ret->data), "%s/e/%u/", store->etcd->prefix, generation);
}

static enum status etcd_store_start(struct etcd_store *store, struct error *err)
{
	struct etcd *etcd = store->etcd;
	int r;

	(void)str_format(store->name, sizeof(store->name), "etcd:%s", etcd->prefix);
	(void)str_format(store->sequence_key, sizeof(store->sequence_key), "%s/sequence", etcd->prefix);
	(void)str_format(store->schema_key, sizeof(store->schema_key), "%s/schema", etcd->prefix);
	(void)str_format(store->generation_key, sizeof(store->generation_key), "%s/generation", etcd->prefix);
	store->known.leader_revision = election_revision(etcd->election);
	store->known.last = store->last;
	r = sd_event_add_defer(etcd->outer, &store->turn, on_turn, store);
	if (r >= 0)
		r = sd_event_source_set_enabled(store->turn, SD_EVENT_OFF);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "store %s: watch the loop", store->name);
	TRY(etcd_store_find(store, err));
	return etcd_store_tidy(store, err);
}

enum status kv_open_etcd(struct etcd *etcd, struct kv **ret, struct error *err)
{
	struct etcd_store *store;
	enum status status;

	assert(!etcd->store);
	if (!election_is_leading(etcd->election))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "store etcd:%s: not the leader",
				 etcd->prefix);
	store = malloc(sizeof(*store));
	if (!store)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "store etcd:%s", etcd->prefix);
	*store = (struct etcd_store){
		.kv = {.backend = &backend, .name = store->name},
		.etcd = etcd,
		.queue = STAILQ_HEAD_INITIALIZER(store->queue),
		.done = STAILQ_HEAD_INITIALIZER(store->done),
		.backoff = BACKOFF_INIT(20 * USEC_PER_MSEC, USEC_PER_SEC),
		.full_backoff = BACKOFF_INIT(USEC_PER_SEC, ETCD_FULL_MAX_US),
		.idle_backoff = BACKOFF_INIT(USEC_PER_SEC, ETCD_IDLE_MAX_US),
	};
	etcd->store = store; /* from here on it is notified when the lead is lost */
	status = etcd_store_start(store, err);
	store->opened_revision = store->revision;
	if (status == STATUS_OK && store->failure.status != STATUS_OK)
		status = etcd_explain_failure(&store->kv, err ? err : &(struct error){0});
	if (status != STATUS_OK) {
		kv_close(&store->kv);
		return status;
	}
	*ret = &store->kv;
	return STATUS_OK;
}
