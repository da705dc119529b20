/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/judge.h"

#include <stdbool.h>
#include <string.h>

static bool has_value(const Etcdserverpb__KeyValue *kv, const char *value)
{
	return kv && value && kv->value.len == strlen(value) &&
	       memcmp(kv->value.data, value, kv->value.len) == 0;
}

enum verdict judge_transaction(const struct judge *judge, const Etcdserverpb__KeyValue *leader,
			       const Etcdserverpb__KeyValue *sequence)
{
	if (has_value(sequence, judge->sequence))
		return VERDICT_COMMITTED; /* whoever leads since */
	if (!leader || leader->create_revision != judge->leader_revision)
		return VERDICT_DEPOSED;
	return (sequence ? sequence->mod_revision : 0) == judge->sequence_revision ? VERDICT_UNCOMMITTED
										   : VERDICT_DEPOSED;
}

const Etcdserverpb__KeyValue *judge_key_of(const Etcdserverpb__TxnResponse *txn, size_t index)
{
	const Etcdserverpb__ResponseOp *op = index < txn->n_responses ? txn->responses[index] : NULL;

	if (!op || op->response_case != ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE ||
	    op->response_range->n_kvs == 0)
		return NULL;
	return op->response_range->kvs[0];
}
