/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a store without leading: on a loop and connections of its own, so that a thread may. */

#include "base/clock.h"
#include "base/str.h"
#include "etcd/etcd.h"
#include "etcd/kv_etcd.h"
#include "etcd/request.h"

#include <string.h>

struct walk {
	struct etcd etcd;
	char key[ETCD_KEY_SIZE]; /* the one that is read */
	struct etcd_generation generation;
	kv_each_fn *each;
	void *userdata;
	int64_t revision; /* etcd's, at which all is read */
	uint64_t index;	  /* of the store's last transaction then */
};

static enum status on_generation(const ProtobufCMessage *response, void *userdata, struct error *err)
{
	const Etcdserverpb__RangeResponse *range = (const Etcdserverpb__RangeResponse *)response;
	struct walk *walk = userdata;

	if (walk->revision == 0 && range->header)
		walk->revision = range->header->revision;
	if (etcd_generation_read(range->n_kvs > 0 ? range->kvs[0] : NULL, &walk->generation))
		return STATUS_OK;
	return error_set(err, STATUS_DATA_LOSS, 0, "etcd: %s is no generation", walk->key);
}

/* Deletions raise the store's index, and leave no record that has it. */
static enum status on_sequence(const ProtobufCMessage *response, void *userdata, struct error *err)
{
	const Etcdserverpb__RangeResponse *range = (const Etcdserverpb__RangeResponse *)response;
	struct walk *walk = userdata;

	if (range->n_kvs > 0)
		walk->index = (uint64_t)range->kvs[0]->mod_revision + walk->generation.offset;
	return STATUS_OK;
}

/* Reads "PREFIX/@name" at @revision; 0: the latest. */
static enum status read_key(struct walk *walk, const char *name, int64_t revision, etcd_answer_fn *answer,
			    struct error *err)
{
	Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;

	(void)str_format(walk->key, sizeof(walk->key), "%s/%s", walk->etcd.prefix, name);
	range.key = etcd_bytes(walk->key);
	range.revision = revision;
	return etcd_ask(&walk->etcd, "Range", &range.base, answer, walk, err);
}

static enum status walk_records(struct walk *walk, struct error *err)
{
	struct etcd_records records = {
		.store = walk->etcd.prefix, .offset = walk->generation.offset, .revision = walk->revision};
	const uint32_t generation = walk->generation.number;
	uint64_t n = 0;
	enum status status;

	(void)str_format(records.data, sizeof(records.data), "%s/e/%u/", walk->etcd.prefix, generation);
	status = etcd_range(&walk->etcd, &records, "", "", SIZE_MAX, walk->each, walk->userdata, &n, err);
	if (status == STATUS_OK)
		status = read_key(walk, "generation", 0, on_generation, err);
	if (status == STATUS_OK && walk->generation.number != generation)
		return error_set(err, STATUS_ABORTED, 0,
				 "etcd: the store was rewritten while it was read; read it again");
	return status;
}

enum status etcd_walk(const struct etcd_settings *settings, kv_each_fn *each, void *userdata,
		      uint64_t *ret_revision, struct error *err)
{
	struct walk walk = {.etcd = {.call_us = settings->call_us}, .each = each, .userdata = userdata};
	enum status status;
	int r = sd_event_new(&walk.etcd.loop);

	if (r < 0)
		return error_set(err, status_from_errno(r), r, "etcd: make a loop");
	(void)str_copy(walk.etcd.prefix, sizeof(walk.etcd.prefix), settings->prefix);
	status = etcd_client_new(walk.etcd.loop, &settings->endpoints, &walk.etcd.client, err);
	if (status == STATUS_OK)
		status = read_key(&walk, "generation", 0, on_generation, err);
	if (status == STATUS_OK)
		status = read_key(&walk, "sequence", walk.revision, on_sequence, err);
	*ret_revision = walk.index;
	if (status == STATUS_OK)
		status = walk_records(&walk, err);
	etcd_client_free(walk.etcd.client);
	sd_event_unref(walk.etcd.loop);
	return status;
}
