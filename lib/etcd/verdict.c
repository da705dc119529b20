/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/verdict.h"

#include "base/parse.h"
#include "etcd/request.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool has_value(const Etcdserverpb__KeyValue *kv, const char *value)
{
	return kv && value && kv->value.len == strlen(value) &&
	       memcmp(kv->value.data, value, kv->value.len) == 0;
}

enum verdict classify_transaction(const struct known_revisions *known, const Etcdserverpb__KeyValue *leader,
				  const Etcdserverpb__KeyValue *sequence)
{
	if (has_value(sequence, known->sequence) && sequence->mod_revision > known->sequence_revision)
		return VERDICT_COMMITTED; /* even if another server leads since */
	if (!leader || leader->create_revision != known->leader_revision)
		return VERDICT_DEPOSED;
	return has_value(sequence, known->last) && sequence->mod_revision == known->sequence_revision
		       ? VERDICT_UNCOMMITTED
		       : VERDICT_DEPOSED;
}

const Etcdserverpb__KeyValue *txn_key_of(const Etcdserverpb__TxnResponse *txn, size_t index)
{
	const Etcdserverpb__ResponseOp *op = index < txn->n_responses ? txn->responses[index] : NULL;

	if (!op || op->response_case != ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE ||
	    op->response_range->n_kvs == 0)
		return NULL;
	return op->response_range->kvs[0];
}

uint32_t etcd_schema_read(const Etcdserverpb__KeyValue *kv)
{
	char text[ETCD_SCHEMA_SIZE];
	uint32_t schema = UINT32_MAX;

	etcd_text_of(kv, text, sizeof(text));
	(void)parse_u32(text, 1, UINT32_MAX, &schema);
	return schema;
}
