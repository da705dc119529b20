/* SPDX-License-Identifier: Apache-2.0 */
/* The progress of the leader's store, for followers: read again and again. */

#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "etcd/kv_etcd.h"
#include "etcd/request.h"
#include "rpc/timer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LOOK_PART = 10,	  /* of a lease, between two looks */
	TRIES_MAX = 1000, /* to interrupt a leader that writes all the time */
};

struct etcd_follower {
	struct etcd *etcd; /* borrowed */
	struct etcd_call call;
	sd_event_source *timer;
	uint64_t pause_us;
	/* as read last */
	int64_t sequence_revision; /* etcd's; 0: not read yet */
	struct etcd_generation generation;
	struct etcd_call interruption;
	char interrupted_key[ETCD_FULL_KEY_SIZE];
	ProtobufCBinaryData interrupted_value; /* owned */
	unsigned int n_tries;
};

static void follower_look(struct etcd_follower *follower);

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	follower_look(userdata);
	return 0;
}

static void look_later(struct etcd_follower *follower)
{
	/* memory short: the loop cannot continue either */
	(void)timer_arm(follower->etcd->loop, &follower->timer, follower->pause_us, on_timer, follower);
}

/* Cuts @text at its first blank. Returns the text after the blank, NULL if there is no blank. */
static char *cut(char *text)
{
	char *blank = text ? strchr(text, ' ') : NULL;

	if (!blank)
		return NULL;
	*blank = '\0';
	return blank + 1;
}

/* "LEASE NUMBER EPOCH NODES STORE"; false: its writer keeps no marks yet. */
static bool read_sequence(const Etcdserverpb__KeyValue *kv, struct etcd_progress *ret)
{
	char text[SEQUENCE_SIZE];
	char *epoch, *nodes, *store_id;

	etcd_text_of(kv, text, sizeof(text));
	epoch = cut(cut(text));
	nodes = cut(epoch);
	store_id = cut(nodes);
	return store_id && parse_u64(epoch, 0, UINT64_MAX, &ret->epoch) == 0 &&
	       parse_u64(nodes, 0, UINT64_MAX, &ret->nodes) == 0 &&
	       str_copy(ret->store_id, sizeof(ret->store_id), store_id) >= 0;
}

static void on_read(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	const Etcdserverpb__TxnResponse *txn = (const Etcdserverpb__TxnResponse *)response;
	struct etcd_follower *follower = userdata;
	struct etcd_progress progress = {.revision = 0};
	const Etcdserverpb__KeyValue *sequence;

	(void)err; /* the election reports the cause */
	look_later(follower);
	sequence = status == STATUS_OK ? txn_key_of(txn, ETCD_LOOK_SEQUENCE) : NULL;
	if (!sequence || !read_sequence(sequence, &progress) ||
	    !etcd_generation_read(txn_key_of(txn, ETCD_LOOK_GENERATION), &follower->generation))
		return;
	follower->sequence_revision = sequence->mod_revision;
	progress.revision = (uint64_t)sequence->mod_revision + follower->generation.offset;
	follower->etcd->progress = progress;
	etcd_notify(follower->etcd, CHANGE_PROGRESS);
}

enum status etcd_look(struct etcd *etcd, struct etcd_call *call, rpc_done_fn *done, void *userdata)
{
	Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
	Etcdserverpb__RangeRequest ranges[ETCD_LOOK_N] = {ETCDSERVERPB__RANGE_REQUEST__INIT,
							  ETCDSERVERPB__RANGE_REQUEST__INIT};
	Etcdserverpb__RequestOp sequence = etcd_op_range(&ranges[ETCD_LOOK_SEQUENCE]);
	Etcdserverpb__RequestOp generation = etcd_op_range(&ranges[ETCD_LOOK_GENERATION]);
	char sequence_key[ETCD_KEY_SIZE], generation_key[ETCD_KEY_SIZE];

	(void)str_format(sequence_key, sizeof(sequence_key), "%s/sequence", etcd->prefix);
	(void)str_format(generation_key, sizeof(generation_key), "%s/generation", etcd->prefix);
	ranges[ETCD_LOOK_SEQUENCE].key = etcd_bytes(sequence_key);
	ranges[ETCD_LOOK_GENERATION].key = etcd_bytes(generation_key);
	txn.n_success = ETCD_LOOK_N;
	txn.success = (Etcdserverpb__RequestOp *[]){&sequence, &generation};
	return etcd_call_start(etcd->client, call, &etcdserverpb__kv__descriptor, "Txn", &txn.base,
			       etcd->call_us, done, userdata, NULL);
}

static void follower_look(struct etcd_follower *follower)
{
	if (etcd_look(follower->etcd, &follower->call, on_read, follower) != STATUS_OK)
		look_later(follower);
}

/* --- when the store has gone back --- */

static void interrupt(struct etcd_follower *follower);

/* Tries again at once if the leader has written meanwhile, for the same store and epoch. Otherwise the next
 * look shows the outcome. */
static void on_interrupted(enum status status, const ProtobufCMessage *response, const struct error *err,
			   void *userdata)
{
	const Etcdserverpb__TxnResponse *txn = (const Etcdserverpb__TxnResponse *)response;
	struct etcd_follower *follower = userdata;
	const struct etcd_progress *before = &follower->etcd->progress;
	struct etcd_progress progress = {.revision = 0};
	const Etcdserverpb__KeyValue *sequence;

	sequence = status == STATUS_OK && !txn->succeeded ? txn_key_of(txn, 0) : NULL;
	if (!sequence || sequence->mod_revision == follower->sequence_revision ||
	    !read_sequence(sequence, &progress) || progress.epoch != before->epoch ||
	    progress.nodes != before->nodes || !str_eq(progress.store_id, before->store_id) ||
	    ++follower->n_tries >= TRIES_MAX)
		return;
	follower->sequence_revision = sequence->mod_revision;
	interrupt(follower);
}

/* Writes the sequence key with a value that no transaction of a leader has, and with the marks that it had: a
 * leader that asks what became of its transaction does not take this for it. Else reads that key. */
static void interrupt(struct etcd_follower *follower)
{
	Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
	Etcdserverpb__PutRequest record = ETCDSERVERPB__PUT_REQUEST__INIT;
	Etcdserverpb__PutRequest sequence = ETCDSERVERPB__PUT_REQUEST__INIT;
	Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
	Etcdserverpb__RequestOp put_record = etcd_op_put(&record);
	Etcdserverpb__RequestOp put_sequence = etcd_op_put(&sequence);
	Etcdserverpb__RequestOp get_sequence = etcd_op_range(&range);
	struct etcd *etcd = follower->etcd;
	Etcdserverpb__Compare unchanged, absent;
	char sequence_key[ETCD_KEY_SIZE], text[SEQUENCE_SIZE];

	(void)str_format(sequence_key, sizeof(sequence_key), "%s/sequence", etcd->prefix);
	(void)str_format(text, sizeof(text), "interrupted 0 %" PRIu64 " %" PRIu64 " %s", etcd->progress.epoch,
			 etcd->progress.nodes, etcd->progress.store_id);
	unchanged = etcd_compare_modified(etcd_bytes(sequence_key), follower->sequence_revision);
	absent = etcd_compare_created(etcd_bytes(follower->interrupted_key), 0);
	record.key = etcd_bytes(follower->interrupted_key);
	record.value = follower->interrupted_value;
	sequence.key = range.key = etcd_bytes(sequence_key);
	sequence.value = etcd_bytes(text);
	txn.n_compare = txn.n_success = 2;
	txn.compare = (Etcdserverpb__Compare *[]){&unchanged, &absent};
	txn.success = (Etcdserverpb__RequestOp *[]){&put_record, &put_sequence};
	txn.n_failure = 1;
	txn.failure = (Etcdserverpb__RequestOp *[]){&get_sequence};
	(void)etcd_call_start(etcd->client, &follower->interruption, &etcdserverpb__kv__descriptor, "Txn",
			      &txn.base, etcd->call_us, on_interrupted, follower, NULL);
}

void etcd_follower_interrupt(struct etcd_follower *follower, const struct kv_op *op)
{
	uint8_t *value;

	if (follower->sequence_revision <= 0 || follower->interruption.pending ||
	    str_format(follower->interrupted_key, sizeof(follower->interrupted_key), "%s/e/%" PRIu32 "/%s",
		       follower->etcd->prefix, follower->generation.number, op->key) <= 0)
		return;
	value = malloc(BATCH_SUM_SIZE + op->len);
	if (!value)
		return;
	batch_sum(op->key, op->value, op->len, value);
	memcpy(value + BATCH_SUM_SIZE, op->value, op->len);
	free(follower->interrupted_value.data);
	follower->interrupted_value = (ProtobufCBinaryData){.len = BATCH_SUM_SIZE + op->len, .data = value};
	follower->n_tries = 0;
	interrupt(follower);
}

enum status etcd_follower_new(struct etcd *etcd, uint64_t lease_us, struct etcd_follower **ret,
			      struct error *err)
{
	struct etcd_follower *follower = calloc(1, sizeof(*follower));

	if (!follower)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "etcd");
	follower->etcd = etcd;
	follower->pause_us = lease_us / LOOK_PART;
	follower_look(follower);
	*ret = follower;
	return STATUS_OK;
}

void etcd_follower_free(struct etcd_follower *follower)
{
	if (!follower)
		return;
	etcd_call_cancel(&follower->call);
	etcd_call_cancel(&follower->interruption);
	(void)sd_event_source_disable_unref(follower->timer);
	free(follower->interrupted_value.data);
	free(follower);
}
