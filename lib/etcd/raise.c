/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the cluster's schema of records, or its ticket key, without leading. */

#include "base/str.h"
#include "etcd/etcd.h"
#include "etcd/etcd_internal.h"
#include "etcd/request.h"
#include "etcd/verdict.h"

#include <inttypes.h>

struct raise {
	struct etcd etcd;
	uint32_t schema;   /* as it was found; 0: missing */
	int64_t revision;  /* of its key */
	bool is_unchanged; /* when it was written */
};

static enum status on_schema(const ProtobufCMessage *response, void *userdata, struct error *err)
{
	const Etcdserverpb__RangeResponse *range = (const Etcdserverpb__RangeResponse *)response;
	struct raise *raise = userdata;

	if (range->n_kvs == 0)
		return STATUS_OK;
	raise->revision = range->kvs[0]->mod_revision;
	raise->schema = etcd_schema_read(range->kvs[0]);
	if (raise->schema != UINT32_MAX)
		return STATUS_OK;
	return error_set(err, STATUS_DATA_LOSS, 0, "etcd: %s is no schema", raise->etcd.record_schema_key);
}

static enum status find_schema(struct raise *raise, struct error *err)
{
	Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;

	range.key = etcd_bytes(raise->etcd.record_schema_key);
	return etcd_ask(&raise->etcd, "Range", &range.base, on_schema, raise, err);
}

static enum status on_written(const ProtobufCMessage *response, void *userdata, struct error *err)
{
	struct raise *raise = userdata;

	raise->is_unchanged = ((const Etcdserverpb__TxnResponse *)response)->succeeded;
	return STATUS_OK;
}

static enum status write_schema(struct raise *raise, uint32_t schema, struct error *err)
{
	Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
	Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
	Etcdserverpb__Compare unchanged =
		etcd_compare_modified(etcd_bytes(raise->etcd.record_schema_key), raise->revision);
	Etcdserverpb__RequestOp write = etcd_op_put(&put);
	char number[ETCD_SCHEMA_SIZE];
	enum status status;

	(void)str_decimal(number, sizeof(number), schema);
	put.key = etcd_bytes(raise->etcd.record_schema_key);
	put.value = etcd_bytes(number);
	txn.n_compare = txn.n_success = 1;
	txn.compare = (Etcdserverpb__Compare *[]){&unchanged};
	txn.success = (Etcdserverpb__RequestOp *[]){&write};
	status = etcd_ask(&raise->etcd, "Txn", &txn.base, on_written, raise, err);
	if (status == STATUS_OK && !raise->is_unchanged)
		return error_set(err, STATUS_ABORTED, 0,
				 "etcd: the schema was changed meanwhile, or was and the answer was lost; "
				 "ask again, which shows the schema");
	return status;
}

static enum status check_schema(const struct raise *raise, uint32_t schema, struct error *err)
{
	if (raise->schema == 0)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "etcd: no server has led this cluster yet, there is nothing to raise (%s)",
				 raise->etcd.prefix);
	if (raise->schema > schema)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "etcd: the cluster is at schema %" PRIu32
				 " already, this server writes %" PRIu32
				 ": install the version of the others here",
				 raise->schema, schema);
	return STATUS_OK;
}

enum status etcd_raise_schema(const struct etcd_settings *settings, uint32_t *ret_before, struct error *err)
{
	struct raise raise = {.etcd = {.call_us = settings->call_us}};
	enum status status;
	int r = sd_event_new(&raise.etcd.loop);

	if (r < 0)
		return error_set(err, status_from_errno(r), r, "etcd: make a loop");
	(void)str_copy(raise.etcd.prefix, sizeof(raise.etcd.prefix), settings->prefix);
	(void)str_format(raise.etcd.record_schema_key, sizeof(raise.etcd.record_schema_key),
			 "%s/" ETCD_RECORD_SCHEMA, settings->prefix);
	status = etcd_client_new(raise.etcd.loop, &settings->endpoints, &raise.etcd.client, err);
	if (status == STATUS_OK)
		status = find_schema(&raise, err);
	if (status == STATUS_OK)
		status = check_schema(&raise, settings->schema, err);
	if (status == STATUS_OK && raise.schema < settings->schema)
		status = write_schema(&raise, settings->schema, err);
	etcd_client_free(raise.etcd.client);
	sd_event_unref(raise.etcd.loop);
	*ret_before = raise.schema;
	return status;
}

/* --- the ticket key --- */

static enum status on_word(const ProtobufCMessage *response, void *userdata, struct error *err)
{
	*(bool *)userdata = ((const Etcdserverpb__RangeResponse *)response)->n_kvs > 0;
	return STATUS_OK;
}

static enum status on_put(const ProtobufCMessage *response, void *userdata, struct error *err)
{
	return STATUS_OK;
}

static enum status put_ticket_key(struct etcd *etcd, const char *ticket_key, struct error *err)
{
	Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
	Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
	bool is_there = false;
	enum status status;

	range.key = put.key = etcd_bytes(etcd->ticket_key_key);
	put.value = etcd_bytes(ticket_key);
	status = etcd_ask(etcd, "Range", &range.base, on_word, &is_there, err);
	if (status == STATUS_OK && !is_there)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "etcd: no server has led this cluster yet, there is no key to replace (%s)",
				 etcd->prefix);
	return status == STATUS_OK ? etcd_ask(etcd, "Put", &put.base, on_put, NULL, err) : status;
}

enum status etcd_replace_ticket_key(const struct etcd_settings *settings, struct error *err)
{
	struct etcd etcd = {.call_us = settings->call_us};
	enum status status;
	int r = sd_event_new(&etcd.loop);

	if (r < 0)
		return error_set(err, status_from_errno(r), r, "etcd: make a loop");
	(void)str_copy(etcd.prefix, sizeof(etcd.prefix), settings->prefix);
	(void)str_format(etcd.ticket_key_key, sizeof(etcd.ticket_key_key), "%s/" ETCD_TICKET_KEY,
			 settings->prefix);
	status = etcd_client_new(etcd.loop, &settings->endpoints, &etcd.client, err);
	if (status == STATUS_OK)
		status = put_ticket_key(&etcd, settings->ticket_key, err);
	etcd_client_free(etcd.client);
	sd_event_unref(etcd.loop);
	return status;
}
