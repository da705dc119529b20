/* SPDX-License-Identifier: Apache-2.0 */
/* How far the store of the one that leads has come, for who follows: read again and again. */

#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "etcd/kv_etcd.h"
#include "etcd/request.h"
#include "rpc/timer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_PART = 10 /* of a lease, between two looks */ };

struct etcd_follower {
	struct etcd *etcd; /* borrowed */
	struct etcd_call call;
	sd_event_source *timer;
	uint64_t pause_us;
};

static void follower_look(struct etcd_follower *follower);

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	follower_look(userdata);
	return 0;
}

static void look_later(struct etcd_follower *follower)
{
	/* memory short: the loop cannot continue either */
	(void)timer_arm(follower->etcd->loop, &follower->timer, follower->pause_us, on_timer, follower);
}

/* "LEASE NUMBER EPOCH NODES"; false: its writer keeps no marks yet. */
static bool read_sequence(const Etcdserverpb__KeyValue *kv, struct etcd_progress *ret)
{
	char text[SEQUENCE_SIZE];
	char *epoch;
	char *nodes;

	etcd_text_of(kv, text, sizeof(text));
	epoch = strchr(text, ' ');
	epoch = epoch ? strchr(epoch + 1, ' ') : NULL;
	nodes = epoch ? strchr(epoch + 1, ' ') : NULL;
	if (!nodes)
		return false;
	*nodes = '\0';
	return parse_u64(epoch + 1, 0, UINT64_MAX, &ret->epoch) == 0 &&
	       parse_u64(nodes + 1, 0, UINT64_MAX, &ret->nodes) == 0;
}

static void on_read(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	const Etcdserverpb__TxnResponse *txn = (const Etcdserverpb__TxnResponse *)response;
	struct etcd_follower *follower = userdata;
	struct etcd_progress progress = {.revision = 0};
	const Etcdserverpb__KeyValue *sequence;
	uint32_t generation;
	uint64_t offset;

	(void)err; /* the election says what is the matter */
	look_later(follower);
	sequence = status == STATUS_OK ? txn_key_of(txn, ETCD_LOOK_SEQUENCE) : NULL;
	if (!sequence || !read_sequence(sequence, &progress) ||
	    !etcd_generation_read(txn_key_of(txn, ETCD_LOOK_GENERATION), &generation, &offset))
		return;
	progress.revision = (uint64_t)sequence->mod_revision + offset;
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
	(void)sd_event_source_disable_unref(follower->timer);
	free(follower);
}
