/* SPDX-License-Identifier: Apache-2.0 */
#include "state/schema.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "log/log.h"
#include "state/keys.h"
#include "state/text.h"

#include <holdfast/v1/types.pb-c.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum status schema_put(struct kv_rewrite *rewrite, const char *key, const ProtobufCMessage *message,
		       struct error *err)
{
	size_t len = protobuf_c_message_get_packed_size(message);
	cleanup_free uint8_t *bytes = malloc(len + 1);
	cleanup_free char *text = text_of(key, message);
	struct kv_op op = {.key = key, .value = bytes, .len = len, .text = text};

	if (!bytes)
		return error_no_memory(err, "the schema");
	(void)protobuf_c_message_pack(message, bytes);
	return kv_rewrite_put(rewrite, &op, err);
}

static enum status refuse_unreadable(const char *key, struct error *err)
{
	return error_set(err, STATUS_DATA_LOSS, 0,
			 "the store's record %s cannot be read; keep a copy and restore a backup "
			 "(holdfast-server --restore FILE)",
			 key);
}

struct getting {
	const char *key;
	const ProtobufCMessageDescriptor *descriptor;
	void **ret;
	enum status status;
	struct error *err;
};

/* Gets the first record of a range: the key may be a prefix of others. */
static bool on_record(const struct kv_item *item, void *userdata)
{
	struct getting *getting = userdata;

	if (!str_eq(item->key, getting->key))
		return false;
	*getting->ret = protobuf_c_message_unpack(getting->descriptor, NULL, item->len, item->value);
	if (!*getting->ret)
		getting->status = refuse_unreadable(item->key, getting->err);
	return false;
}

enum status schema_get(struct kv *kv, const char *key, const ProtobufCMessageDescriptor *descriptor,
		       void **ret, struct error *err)
{
	struct getting getting = {key, descriptor, ret, STATUS_OK, err};

	TRY(kv_range(kv, key, on_record, &getting, err));
	return getting.status;
}

enum status schema_get_in(struct kv_rewrite *rewrite, const char *key,
			  const ProtobufCMessageDescriptor *descriptor, void **ret, struct error *err)
{
	struct getting getting = {key, descriptor, ret, STATUS_OK, err};

	TRY(kv_rewrite_range(rewrite, key, on_record, &getting, err));
	return getting.status;
}

enum status schema_read(struct kv *kv, struct schema *ret, struct error *err)
{
	cleanup(record_freep) void *record = NULL;
	struct schema schema = {.version = 0};
	const Holdfast__V1__Schema *found;

	TRY(schema_get(kv, KEY_SCHEMA, &holdfast__v1__schema__descriptor, &record, err));
	found = record;
	if (found && found->version == 0)
		return refuse_unreadable(KEY_SCHEMA, err);
	if (found) {
		schema.version = found->version;
		(void)str_copy(schema.cluster, sizeof(schema.cluster), found->cluster);
		(void)str_copy(schema.store_id, sizeof(schema.store_id), found->store_id);
	}
	if (schema.version > SCHEMA_VERSION)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"the store was written by a newer holdfast-server (schema %" PRIu32
			", this one knows %d); install that version, or restore a backup of this one "
			"(holdfast-server --restore FILE)",
			schema.version, SCHEMA_VERSION);
	*ret = schema;
	return STATUS_OK;
}

/* Writes the record of a new store, or of this version. A version whose other records differ changes them
 * here, in the same transaction. */
static enum status write_schema(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	cleanup(record_freep) void *found = NULL;
	struct schema *schema = userdata;
	Holdfast__V1__Schema made = HOLDFAST__V1__SCHEMA__INIT;

	TRY(schema_get_in(rewrite, KEY_SCHEMA, &holdfast__v1__schema__descriptor, &found, err));
	if (!found && uuid_new(schema->store_id) < 0)
		return error_set(err, STATUS_INTERNAL, 0, "make a store id");
	made.cluster = schema->cluster;
	made.store_id = schema->store_id;
	if (found)
		made = *(const Holdfast__V1__Schema *)found;
	made.version = SCHEMA_VERSION;
	return schema_put(rewrite, KEY_SCHEMA, &made.base, err);
}

enum status schema_bring_up(struct kv *kv, const char *cluster, struct error *err)
{
	struct schema found;

	TRY(schema_read(kv, &found, err));
	if (found.version == 0)
		(void)str_copy(found.cluster, sizeof(found.cluster), cluster);
	if (!str_eq(found.cluster, cluster))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the store is of cluster '%s', the settings are of '%s'; set cluster to its "
				 "name, or data_dir to another folder",
				 found.cluster, cluster);
	if (found.version == SCHEMA_VERSION)
		return STATUS_OK;
	TRY(kv_rewrite(kv, write_schema, &found, err));
	if (found.version > 0)
		log_line(LOG_NOTICE, "the store was brought from schema %" PRIu32 " to %d", found.version,
			 SCHEMA_VERSION);
	return STATUS_OK;
}
