/* SPDX-License-Identifier: Apache-2.0 */
#include "state/objects.h"

#include "base/cleanup.h"
#include "base/join.h"
#include "base/str.h"
#include "model/pb.h"
#include "state/keys.h"
#include "state/records.h"
#include "state/state.h"

#include <stdlib.h>
#include <string.h>

/* Stored values have no indexes: the store keeps them. */
#define DEFINE_TO_MESSAGE(type, Pb)                                \
	static ProtobufCMessage *type##_message(const void *value) \
	{                                                          \
		Pb *pb = type##_borrow_pb(value);                  \
                                                                   \
		if (pb)                                            \
			pb->create_index = pb->modify_index = 0;   \
		return (ProtobufCMessage *)pb;                     \
	}

#define DEFINE_FROM_STORED(type, Pb, descriptor)                                                         \
	static enum status type##_from_stored(const char *key, const void *bytes, size_t len, void *ret, \
					      struct error *err)                                         \
	{                                                                                                \
		ProtobufCMessage *pb = protobuf_c_message_unpack(&(descriptor), NULL, len, bytes);       \
		enum status st;                                                                          \
                                                                                                         \
		(void)key;                                                                               \
		if (!pb)                                                                                 \
			return error_set(err, STATUS_DATA_LOSS, 0, "not a message of this version");     \
		st = type##_from_pb((const Pb *)pb, ret, err);                                           \
		protobuf_c_message_free_unpacked(pb, NULL);                                              \
		return st;                                                                               \
	}

DEFINE_TO_MESSAGE(volume, Holdfast__V1__Volume)
DEFINE_TO_MESSAGE(node, Holdfast__V1__Node)
DEFINE_TO_MESSAGE(alloc, Holdfast__V1__Allocation)
DEFINE_TO_MESSAGE(claim, Holdfast__V1__Claim)

static ProtobufCMessage *plugin_instance_message(const void *value)
{
	return (ProtobufCMessage *)plugin_instance_borrow_pb(value); /* which has no indexes */
}

DEFINE_FROM_STORED(volume, Holdfast__V1__Volume, holdfast__v1__volume__descriptor)
DEFINE_FROM_STORED(node, Holdfast__V1__Node, holdfast__v1__node__descriptor)
DEFINE_FROM_STORED(plugin_instance, Holdfast__V1__PluginInstance, holdfast__v1__plugin_instance__descriptor)
DEFINE_FROM_STORED(alloc, Holdfast__V1__Allocation, holdfast__v1__allocation__descriptor)
DEFINE_FROM_STORED(claim, Holdfast__V1__Claim, holdfast__v1__claim__descriptor)

static void volume_key(const void *value, char ret[static OBJECT_KEY_SIZE])
{
	const struct volume *volume = value;

	(void)str_join(ret, OBJECT_KEY_SIZE, PREFIX_VOLUME, volume->namespace, "/", volume->id);
}

/* The next part of a key, up to a slash or (@is_last) its end, into @ret. False when it does not fit. */
static bool take_part(const char **key, bool is_last, char *ret, size_t size)
{
	size_t n = is_last ? strlen(*key) : strcspn(*key, "/");

	if (n >= size || (!is_last && (*key)[n] != '/'))
		return false;
	memcpy(ret, *key, n);
	ret[n] = '\0';
	*key += n + !is_last;
	return true;
}

static bool volume_from_key(const char *key, void *ret)
{
	struct volume *volume = ret;

	key += strlen(PREFIX_VOLUME);
	return take_part(&key, false, volume->namespace, sizeof(volume->namespace)) &&
	       take_part(&key, true, volume->id, sizeof(volume->id));
}

static enum status put_volume(struct state *state, const void *value, struct error *err)
{
	return state_put_volume(state, value, err);
}

static struct volume_entry *volume_entry_of(struct state *state, const void *value)
{
	const struct volume *volume = value;

	return state_volume(state, volume->namespace, volume->id);
}

static void *find_volume(struct state *state, const void *value)
{
	struct volume_entry *entry = volume_entry_of(state, value);

	return entry ? &entry->volume : NULL;
}

static void forget_volume(struct state *state, const void *value)
{
	struct volume_entry *entry = volume_entry_of(state, value);

	if (entry)
		state_delete_volume(state, entry);
}

static void node_key(const void *value, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_join(ret, OBJECT_KEY_SIZE, PREFIX_NODE, ((const struct node *)value)->id);
}

static bool node_from_key(const char *key, void *ret)
{
	struct node *node = ret;

	return str_copy(node->id, sizeof(node->id), key + strlen(PREFIX_NODE)) >= 0;
}

static enum status put_node(struct state *state, const void *value, struct error *err)
{
	return state_put_node(state, value, err);
}

static void *find_node(struct state *state, const void *value)
{
	struct node_entry *entry = state_node(state, ((const struct node *)value)->id);

	return entry ? &entry->node : NULL;
}

static void forget_node(struct state *state, const void *value)
{
	struct node_entry *entry = state_node(state, ((const struct node *)value)->id);

	if (entry)
		state_delete_node(state, entry);
}

static void instance_key(const void *value, char ret[static OBJECT_KEY_SIZE])
{
	const struct plugin_instance *instance = value;

	(void)str_join(ret, OBJECT_KEY_SIZE, PREFIX_NODE_PLUGIN, instance->node_id, "/",
		       instance->plugin.plugin_id, "/", instance->plugin.profile);
}

static bool instance_from_key(const char *key, void *ret)
{
	struct plugin_instance *instance = ret;
	struct node_plugin *plugin = &instance->plugin;

	key += strlen(PREFIX_NODE_PLUGIN);
	return take_part(&key, false, instance->node_id, sizeof(instance->node_id)) &&
	       take_part(&key, false, plugin->plugin_id, sizeof(plugin->plugin_id)) &&
	       take_part(&key, true, plugin->profile, sizeof(plugin->profile));
}

static enum status put_instance(struct state *state, const void *value, struct error *err)
{
	return state_put_instance(state, value, err);
}

static struct instance_entry *instance_entry_of(struct state *state, const void *value)
{
	const struct plugin_instance *instance = value;

	return state_instance(state, instance->node_id, instance->plugin.plugin_id, instance->plugin.profile);
}

static void *find_instance(struct state *state, const void *value)
{
	struct instance_entry *entry = instance_entry_of(state, value);

	return entry ? &entry->instance : NULL;
}

static void forget_instance(struct state *state, const void *value)
{
	struct instance_entry *entry = instance_entry_of(state, value);

	if (entry)
		state_delete_instance(state, entry);
}

static void alloc_key(const void *value, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_join(ret, OBJECT_KEY_SIZE, PREFIX_ALLOC, ((const struct alloc *)value)->id);
}

static bool alloc_from_key(const char *key, void *ret)
{
	struct alloc *alloc = ret;

	return str_copy(alloc->id, sizeof(alloc->id), key + strlen(PREFIX_ALLOC)) >= 0;
}

static enum status put_alloc(struct state *state, const void *value, struct error *err)
{
	return state_put_alloc(state, value, err);
}

static void *find_alloc(struct state *state, const void *value)
{
	struct alloc_entry *entry = state_alloc(state, ((const struct alloc *)value)->id);

	return entry ? &entry->alloc : NULL;
}

static void forget_alloc(struct state *state, const void *value)
{
	struct alloc_entry *entry = state_alloc(state, ((const struct alloc *)value)->id);

	if (entry)
		state_delete_alloc(state, entry);
}

static void claim_key(const void *value, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_join(ret, OBJECT_KEY_SIZE, PREFIX_CLAIM, ((const struct claim *)value)->id);
}

static bool claim_from_key(const char *key, void *ret)
{
	struct claim *claim = ret;

	return str_copy(claim->id, sizeof(claim->id), key + strlen(PREFIX_CLAIM)) >= 0;
}

static enum status put_claim(struct state *state, const void *value, struct error *err)
{
	return state_put_claim(state, value, err);
}

static void *find_claim(struct state *state, const void *value)
{
	struct claim_entry *entry = state_claim(state, ((const struct claim *)value)->id);

	return entry ? &entry->claim : NULL;
}

static void forget_claim(struct state *state, const void *value)
{
	struct claim_entry *entry = state_claim(state, ((const struct claim *)value)->id);

	if (entry)
		state_delete_claim(state, entry);
}

static void record_key(const void *value, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_copy(ret, OBJECT_KEY_SIZE, ((const struct record *)value)->key);
}

static bool record_from_key(const char *key, void *ret)
{
	struct record *record = ret;

	record->key = strdup(key);
	return record->key != NULL;
}

/* A record is the message: it stays the value's. */
static ProtobufCMessage *record_message(const void *value)
{
	return ((const struct record *)value)->message;
}

static void keep_message(ProtobufCMessage *message)
{
}

static enum status record_from_stored(const char *key, const void *bytes, size_t len, void *ret,
				      struct error *err)
{
	const ProtobufCMessageDescriptor *descriptor = record_descriptor(key);
	struct record record = {.key = strdup(key)};

	if (descriptor)
		record.message = protobuf_c_message_unpack(descriptor, NULL, len, bytes);
	if (!record.key || !record.message) {
		free(record.key);
		return error_set(err, STATUS_DATA_LOSS, 0, "not a message of this version");
	}
	*(struct record *)ret = record;
	return STATUS_OK;
}

static enum status put_record(struct state *state, const void *value, struct error *err)
{
	return records_put(&state->records, value, err);
}

static void *find_record(struct state *state, const void *value)
{
	struct record_entry *entry = records_entry(&state->records, ((const struct record *)value)->key);

	return entry ? &entry->record : NULL;
}

static void forget_record(struct state *state, const void *value)
{
	struct record_entry *entry = records_entry(&state->records, ((const struct record *)value)->key);

	if (entry)
		records_delete(&state->records, entry);
}

static bool own_alloc(void *to, const void *from)
{
	(void)from; /* its lists are still those of @to */
	return alloc_own(to);
}

static void release_alloc(void *value)
{
	alloc_release(value);
}

static bool own_record(void *to, const void *from)
{
	const struct record *theirs = from;
	struct record *mine = to;

	mine->key = strdup(theirs->key);
	mine->message = theirs->message ? message_copy(theirs->message) : NULL;
	return mine->key && (mine->message || !theirs->message);
}

static void release_record(void *value)
{
	struct record *record = value;

	free(record->key);
	if (record->message)
		protobuf_c_message_free_unpacked(record->message, NULL);
}

#define INDEXED(type)                                                                     \
	.size = sizeof(struct type), .create_index = offsetof(struct type, create_index), \
	.modify_index = offsetof(struct type, modify_index)

static const struct object_type types[OBJECT_KIND_N] = {
	[OBJECT_RECORD] = {.name = "record",
			   INDEXED(record),
			   .key = record_key,
			   .from_key = record_from_key,
			   .to_message = record_message,
			   .drop_message = keep_message,
			   .from_stored = record_from_stored,
			   .put = put_record,
			   .find = find_record,
			   .forget = forget_record,
			   .own = own_record,
			   .release = release_record},
	[OBJECT_VOLUME] = {.name = "volume",
			   .prefix = PREFIX_VOLUME,
			   INDEXED(volume),
			   .key = volume_key,
			   .from_key = volume_from_key,
			   .to_message = volume_message,
			   .drop_message = pb_free_borrowing,
			   .from_stored = volume_from_stored,
			   .put = put_volume,
			   .find = find_volume,
			   .forget = forget_volume},
	[OBJECT_NODE] = {.name = "node",
			 .prefix = PREFIX_NODE,
			 INDEXED(node),
			 .key = node_key,
			 .from_key = node_from_key,
			 .to_message = node_message,
			 .drop_message = pb_free_borrowing,
			 .from_stored = node_from_stored,
			 .put = put_node,
			 .find = find_node,
			 .forget = forget_node},
	[OBJECT_NODE_PLUGIN] = {.name = "plugin",
				.prefix = PREFIX_NODE_PLUGIN,
				INDEXED(plugin_instance),
				.key = instance_key,
				.from_key = instance_from_key,
				.to_message = plugin_instance_message,
				.drop_message = pb_free_borrowing,
				.from_stored = plugin_instance_from_stored,
				.put = put_instance,
				.find = find_instance,
				.forget = forget_instance},
	[OBJECT_ALLOC] = {.name = "allocation",
			  .prefix = PREFIX_ALLOC,
			  INDEXED(alloc),
			  .key = alloc_key,
			  .from_key = alloc_from_key,
			  .to_message = alloc_message,
			  .drop_message = pb_free_borrowing,
			  .from_stored = alloc_from_stored,
			  .put = put_alloc,
			  .find = find_alloc,
			  .forget = forget_alloc,
			  .own = own_alloc,
			  .release = release_alloc},
	[OBJECT_CLAIM] = {.name = "claim",
			  .prefix = PREFIX_CLAIM,
			  INDEXED(claim),
			  .key = claim_key,
			  .from_key = claim_from_key,
			  .to_message = claim_message,
			  .drop_message = pb_free_borrowing,
			  .from_stored = claim_from_stored,
			  .put = put_claim,
			  .find = find_claim,
			  .forget = forget_claim},
};

const struct object_type *object_type(enum object_kind kind)
{
	return &types[kind];
}
