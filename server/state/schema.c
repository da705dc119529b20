/* SPDX-License-Identifier: Apache-2.0 */
#include "state/schema.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "log/log.h"
#include "state/freed_records.h"
#include "state/keys.h"
#include "state/objects.h"
#include "state/text.h"

#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A walk over a range that rewrites it. */
struct walk {
	struct kv_rewrite *rewrite;
	enum status (*each)(struct walk *walk, const char *key, ProtobufCMessage *message, struct error *err);
	const ProtobufCMessageDescriptor *descriptor;
	enum status status;
	struct error error;
	const struct kv_item *item; /* that @each is called for */
};

static void free_messagep(ProtobufCMessage **message)
{
	if (*message)
		protobuf_c_message_free_unpacked(*message, NULL);
}

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

static bool on_item(const struct kv_item *item, void *userdata)
{
	struct walk *walk = userdata;
	cleanup(free_messagep) ProtobufCMessage *message =
		protobuf_c_message_unpack(walk->descriptor, NULL, item->len, item->value);

	walk->item = item;
	if (message)
		walk->status = walk->each(walk, item->key, message, &walk->error);
	else
		walk->status = error_set(&walk->error, STATUS_DATA_LOSS, 0,
					 "the store's record %s cannot be read; keep a copy and restore a "
					 "backup (holdfast-server --restore FILE)",
					 item->key);
	return walk->status == STATUS_OK;
}

static enum status walk_range(struct walk *walk, const char *prefix, struct error *err)
{
	enum status status = kv_rewrite_range(walk->rewrite, prefix, on_item, walk, err);

	if (status == STATUS_OK && walk->status != STATUS_OK)
		*err = walk->error;
	return status == STATUS_OK ? walk->status : status;
}

/* --- from 0: what nodes say of their plugins was part of them, claims did not say since when --- */

static enum status split_node(struct walk *walk, const char *key, ProtobufCMessage *message,
			      struct error *err)
{
	Holdfast__V1__Node *node = (Holdfast__V1__Node *)message;
	size_t n = node->n_plugins;
	enum status status = STATUS_OK;

	for (size_t i = 0; i < n && status == STATUS_OK; i++) {
		Holdfast__V1__PluginInstance instance = HOLDFAST__V1__PLUGIN_INSTANCE__INIT;
		char plugin_key[OBJECT_KEY_SIZE];

		instance.node_id = node->id;
		instance.plugin = node->plugins[i];
		(void)str_format(plugin_key, sizeof(plugin_key), PREFIX_NODE_PLUGIN "%s/%s/%s", node->id,
				 node->plugins[i]->plugin_id, node->plugins[i]->profile);
		status = schema_put(walk->rewrite, plugin_key, &instance.base, err);
	}
	node->n_plugins = 0;
	if (status == STATUS_OK)
		status = schema_put(walk->rewrite, key, message, err);
	node->n_plugins = n;
	return status;
}

static enum status date_claim(struct walk *walk, const char *key, ProtobufCMessage *message,
			      struct error *err)
{
	Holdfast__V1__Claim *claim = (Holdfast__V1__Claim *)message;

	claim->state_time_ms = claim->modify_time_ms;
	return schema_put(walk->rewrite, key, message, err);
}

/* Values stay as they are; people get their text. */
static enum status put_again(struct walk *walk, const char *key, ProtobufCMessage *message, struct error *err)
{
	return schema_put(walk->rewrite, key, message, err);
}

static enum status from_0(struct kv_rewrite *rewrite, struct error *err)
{
	struct walk walks[] = {
		{rewrite, split_node, &holdfast__v1__node__descriptor, STATUS_OK, {0}, NULL},
		{rewrite, date_claim, &holdfast__v1__claim__descriptor, STATUS_OK, {0}, NULL},
		{rewrite, put_again, &holdfast__v1__volume__descriptor, STATUS_OK, {0}, NULL},
		{rewrite, put_again, &holdfast__v1__allocation__descriptor, STATUS_OK, {0}, NULL},
	};
	static const char *const prefixes[] = {PREFIX_NODE, PREFIX_CLAIM, PREFIX_VOLUME, PREFIX_ALLOC};
	enum status status = STATUS_OK;

	for (size_t i = 0; i < ARRAY_SIZE(walks) && status == STATUS_OK; i++)
		status = walk_range(&walks[i], prefixes[i], err);
	return status;
}

/* --- from 1: a volume had the generation of its newest claim in its own record, too. A server of then, which
 * looks there alone, would grant generations a second time --- */

static enum status from_1(struct kv_rewrite *rewrite, struct error *err)
{
	return STATUS_OK;
}

/* --- from 2: there was no mark of how far a store has got, which a server of then would not keep up --- */

static enum status from_2(struct kv_rewrite *rewrite, struct error *err)
{
	return STATUS_OK;
}

/* --- from 3: freed claims were loaded, with all others --- */

static enum status put_freed(struct kv_rewrite *rewrite, const Holdfast__V1__Claim *claim, struct error *err)
{
	const Holdfast__V1__Claim reference = freed_reference(claim);
	char keys[FREED_KEYS][OBJECT_KEY_SIZE];
	enum status status = STATUS_OK;

	freed_keys(claim, keys);
	for (size_t i = 0; i < FREED_KEYS && status == STATUS_OK; i++)
		status = schema_put(rewrite, keys[i], i == 0 ? &claim->base : &reference.base, err);
	return status;
}

static enum status move_freed(struct walk *walk, const char *key, ProtobufCMessage *message,
			      struct error *err)
{
	Holdfast__V1__Claim *claim = (Holdfast__V1__Claim *)message;
	const struct kv_op deletion = {.key = key};

	if (claim->state != HOLDFAST__V1__CLAIM_STATE__FREED)
		return STATUS_OK;
	claim->create_index = walk->item->create_revision;
	claim->modify_index = walk->item->mod_revision;
	TRY(put_freed(walk->rewrite, claim, err));
	return kv_rewrite_put(walk->rewrite, &deletion, err);
}

/* A walk over the freed claims of one volume. */
struct raising {
	struct walk walk; /* first: what note_generation() is given */
	uint64_t generation;
};

static enum status note_generation(struct walk *walk, const char *key, ProtobufCMessage *message,
				   struct error *err)
{
	struct raising *raising = (struct raising *)(void *)walk;
	const Holdfast__V1__Claim *claim = (const Holdfast__V1__Claim *)message;

	if (claim->generation > raising->generation)
		raising->generation = claim->generation;
	return STATUS_OK;
}

/* One of them may have been all that had its generation. */
static enum status raise_generation(struct walk *walk, const char *key, ProtobufCMessage *message,
				    struct error *err)
{
	Holdfast__V1__Volume *volume = (Holdfast__V1__Volume *)message;
	struct raising raising = {.walk = {.rewrite = walk->rewrite,
					   .each = note_generation,
					   .descriptor = &holdfast__v1__claim__descriptor,
					   .status = STATUS_OK},
				  .generation = volume->generation};
	char prefix[OBJECT_KEY_SIZE];
	enum status status;

	(void)str_format(prefix, sizeof(prefix), PREFIX_FREED "%s/%s/", volume->namespace_, volume->id);
	status = walk_range(&raising.walk, prefix, err);
	if (status != STATUS_OK || raising.generation == volume->generation)
		return status;
	volume->generation = raising.generation;
	return schema_put(walk->rewrite, key, message, err);
}

static enum status from_3(struct kv_rewrite *rewrite, struct error *err)
{
	struct walk claims = {.rewrite = rewrite,
			      .each = move_freed,
			      .descriptor = &holdfast__v1__claim__descriptor,
			      .status = STATUS_OK};
	struct walk volumes = {.rewrite = rewrite,
			       .each = raise_generation,
			       .descriptor = &holdfast__v1__volume__descriptor,
			       .status = STATUS_OK};

	TRY(walk_range(&claims, PREFIX_CLAIM, err));
	return walk_range(&volumes, PREFIX_VOLUME, err);
}

/* [n] leads from version n to the next. */
static enum status (*const steps[SCHEMA_VERSION])(struct kv_rewrite *rewrite, struct error *err) = {
	[0] = from_0,
	[1] = from_1,
	[2] = from_2,
	[3] = from_3,
};

/* --- the record --- */

static bool on_schema(const struct kv_item *item, void *userdata)
{
	struct schema *schema = userdata;
	cleanup(free_messagep) ProtobufCMessage *message =
		protobuf_c_message_unpack(&holdfast__v1__schema__descriptor, NULL, item->len, item->value);
	const Holdfast__V1__Schema *found = (const Holdfast__V1__Schema *)message;

	if (strcmp(item->key, KEY_SCHEMA) != 0)
		return true;
	schema->version = found ? found->version : UINT32_MAX;
	if (found)
		(void)str_copy(schema->cluster, sizeof(schema->cluster), found->cluster);
	if (found)
		(void)str_copy(schema->store_id, sizeof(schema->store_id), found->store_id);
	return false;
}

enum status schema_read(struct kv *kv, struct schema *ret, struct error *err)
{
	struct schema schema = {.version = 0};

	TRY(kv_range(kv, KEY_SCHEMA, on_schema, &schema, err));
	if (schema.version == UINT32_MAX)
		return error_set(err, STATUS_DATA_LOSS, 0,
				 "the store's record " KEY_SCHEMA " cannot be read; keep a copy and restore "
				 "a backup (holdfast-server --restore FILE)");
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

struct bring_up {
	uint32_t from;
	const char *cluster;
	char store_id[UUID_SIZE];
};

static enum status run_steps(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	struct bring_up *up = userdata;
	Holdfast__V1__Schema schema = HOLDFAST__V1__SCHEMA__INIT;
	char cluster[64];
	enum status status = STATUS_OK;

	if (up->store_id[0] == '\0' && uuid_new(up->store_id) < 0)
		return error_set(err, STATUS_INTERNAL, 0, "make a store id");
	for (uint32_t v = up->from; v < SCHEMA_VERSION && status == STATUS_OK; v++)
		status = steps[v] ? steps[v](rewrite, err) : STATUS_OK;
	(void)str_copy(cluster, sizeof(cluster), up->cluster);
	schema.version = SCHEMA_VERSION;
	schema.cluster = cluster;
	schema.store_id = up->store_id;
	return status == STATUS_OK ? schema_put(rewrite, KEY_SCHEMA, &schema.base, err) : status;
}

enum status schema_bring_up(struct kv *kv, const char *cluster, struct error *err)
{
	struct bring_up up = {.cluster = cluster};
	struct schema found;
	bool is_new = kv_revision(kv) == 0;

	TRY(schema_read(kv, &found, err));
	if (found.cluster[0] != '\0' && !str_eq(found.cluster, cluster))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the store is of cluster '%s', the settings are of '%s'; set cluster to its "
				 "name, or data_dir to another folder",
				 found.cluster, cluster);
	if (found.version == SCHEMA_VERSION && found.cluster[0] != '\0')
		return STATUS_OK;
	up.from = found.version;
	(void)str_copy(up.store_id, sizeof(up.store_id), found.store_id);
	TRY(kv_rewrite(kv, run_steps, &up, err));
	if (!is_new)
		log_line(LOG_NOTICE, "the store was brought from schema %" PRIu32 " to %d", found.version,
			 SCHEMA_VERSION);
	return STATUS_OK;
}
