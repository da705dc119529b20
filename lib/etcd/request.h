/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The parts of requests to etcd. All of them borrow their arguments. */

#include "etcd/v3/etcd.pb-c.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline ProtobufCBinaryData etcd_bytes(const char *text)
{
	return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)(uintptr_t)text};
}

/* The value as a text, cut to @size; NULL: an empty one. */
static inline void etcd_text_of(const Etcdserverpb__KeyValue *kv, char *ret, size_t size)
{
	(void)snprintf(ret, size, "%.*s", kv ? (int)kv->value.len : 0,
		       kv ? (const char *)kv->value.data : "");
}

static inline Etcdserverpb__RequestOp etcd_op_put(Etcdserverpb__PutRequest *put)
{
	Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT;

	op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
	op.request_put = put;
	return op;
}

static inline Etcdserverpb__RequestOp etcd_op_range(Etcdserverpb__RangeRequest *range)
{
	Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT;

	op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
	op.request_range = range;
	return op;
}

static inline Etcdserverpb__RequestOp etcd_op_delete(Etcdserverpb__DeleteRangeRequest *deletion)
{
	Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT;

	op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
	op.request_delete_range = deletion;
	return op;
}

/* The key was created at @revision; 0: the key is missing. */
static inline Etcdserverpb__Compare etcd_compare_created(ProtobufCBinaryData key, int64_t revision)
{
	Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT;

	compare.key = key;
	compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE;
	compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
	compare.create_revision = revision;
	return compare;
}

/* The key has @value. */
static inline Etcdserverpb__Compare etcd_compare_value(ProtobufCBinaryData key, const char *value)
{
	Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT;

	compare.key = key;
	compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE;
	compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE;
	compare.value = etcd_bytes(value);
	return compare;
}

/* The key was last written at @revision; 0: the key is missing. */
static inline Etcdserverpb__Compare etcd_compare_modified(ProtobufCBinaryData key, int64_t revision)
{
	Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT;

	compare.key = key;
	compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
	compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
	compare.mod_revision = revision;
	return compare;
}
