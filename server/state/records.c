/* SPDX-License-Identifier: Apache-2.0 */
#include "state/records.h"

#include "base/cleanup.h"
#include "base/join.h"
#include "base/str.h"
#include "model/alloc.h"
#include "model/message.h"
#include "rpc/pack.h"
#include "state/keys.h"

#include <holdfast/v1/fences.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { COPY_SMALL = 256 }; /* bytes of a message that is copied by way of the stack */

struct sort {
	const char *prefix;
	const ProtobufCMessageDescriptor *descriptor;
	/* Updates an index over these: called after each was put and before it is forgotten. False when
	 * memory is short. NULL: no index. */
	bool (*note)(struct token_index *index, const ProtobufCMessage *message, bool is_gone);
	int namespace_part;  /* of the key, behind so many slashes; 0: it is charged to no namespace */
	bool is_stored_only; /* these rows are the last */
	bool is_unwatched;
};

/* In this order they are copied. A server that follows checks callers itself, for its metrics: the first
 * three are copied at once, policies before the tokens that name them. */
static const struct sort sorts[] = {
	{.prefix = PREFIX_REVOCATION, .descriptor = &holdfast__v1__revocation__descriptor},
	{.prefix = PREFIX_POLICY, .descriptor = &holdfast__v1__access_policy__descriptor},
	{.prefix = PREFIX_TOKEN,
	 .descriptor = &holdfast__v1__stored_token__descriptor,
	 .note = token_index_note},
	{.prefix = PREFIX_ENROLLMENT, .descriptor = &holdfast__v1__stored_enrollment__descriptor},
	{.prefix = KEY_GENERATION_FLOOR, .descriptor = &holdfast__v1__generation_floor__descriptor},
	{.prefix = KEY_SCHEMA, .descriptor = &holdfast__v1__schema__descriptor},
	{.prefix = KEY_EPOCH, .descriptor = &holdfast__v1__epoch__descriptor},
	{.prefix = KEY_TICKET_KEY, .descriptor = &holdfast__v1__ticket_key__descriptor},
	{.prefix = KEY_SIGNING_KEYS, .descriptor = &holdfast__v1__signing_keys__descriptor},
	{.prefix = KEY_CA, .descriptor = &holdfast__v1__stored_ca__descriptor},
	{.prefix = KEY_NODE_COUNT, .descriptor = &holdfast__v1__node_count__descriptor},
	{.prefix = KEY_AUDIT_HEAD, .descriptor = &holdfast__v1__audit_head__descriptor, .is_unwatched = true},
	{.prefix = KEY_LAST_BACKUP, .descriptor = &holdfast__v1__last_backup__descriptor},
	{.prefix = PREFIX_VOLUME_DETAIL,
	 .descriptor = &holdfast__v1__volume_detail__descriptor,
	 .namespace_part = 1},
	{.prefix = PREFIX_VOLUME_SECRETS,
	 .descriptor = &holdfast__v1__volume_secrets__descriptor,
	 .namespace_part = 1},
	{.prefix = PREFIX_ALLOC_OPTIONS, .descriptor = &holdfast__v1__allocation_options__descriptor},
	{.prefix = PREFIX_SNAPSHOT, .descriptor = &holdfast__v1__snapshot__descriptor, .namespace_part = 2},
	{.prefix = PREFIX_ATTESTATION, .descriptor = &holdfast__v1__attestation__descriptor},
	{.prefix = PREFIX_JOB, .descriptor = &holdfast__v1__job__descriptor, .namespace_part = 1},
	{.prefix = PREFIX_JOB_VERSION,
	 .descriptor = &holdfast__v1__stored_job__descriptor,
	 .namespace_part = 1},
	{.prefix = KEY_FENCING, .descriptor = &holdfast__v1__fencing_switch__descriptor},
	{.prefix = PREFIX_FENCE, .descriptor = &holdfast__v1__fence__descriptor},
	{.prefix = PREFIX_FENCE_CLIENTS, .descriptor = &holdfast__v1__fence_clients__descriptor},
	{.prefix = PREFIX_REPLACED, .descriptor = &holdfast__v1__replaced_machine__descriptor},
	{.prefix = PREFIX_TRAIL, .descriptor = &holdfast__v1__node_trail__descriptor},
	{.prefix = PREFIX_COUNTED, .descriptor = &holdfast__v1__counted_node__descriptor},
	{.prefix = PREFIX_FREED, .descriptor = &holdfast__v1__claim__descriptor, .is_stored_only = true},
	{.prefix = PREFIX_FREED_ID, .descriptor = &holdfast__v1__claim__descriptor, .is_stored_only = true},
	{.prefix = PREFIX_FREED_BOOT, .descriptor = &holdfast__v1__claim__descriptor, .is_stored_only = true},
	{.prefix = PREFIX_AUDIT,
	 .descriptor = &holdfast__v1__audit_record__descriptor,
	 .is_stored_only = true},
};

/* NULL: it is the key of no record. */
static const struct sort *sort_of(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(sorts); i++)
		if (str_starts_with(key, sorts[i].prefix))
			return &sorts[i];
	return NULL;
}

bool record_is_stored_only(const char *key)
{
	const struct sort *sort = sort_of(key);

	return sort && sort->is_stored_only;
}

bool record_is_watched(const char *key)
{
	const struct sort *sort = sort_of(key);

	return !sort || !(sort->is_stored_only || sort->is_unwatched);
}

const char *record_prefix(size_t i)
{
	return i < ARRAY_SIZE(sorts) && !sorts[i].is_stored_only ? sorts[i].prefix : NULL;
}

const ProtobufCMessageDescriptor *record_descriptor(const char *key)
{
	const struct sort *sort = sort_of(key);

	return sort ? sort->descriptor : NULL;
}

ProtobufCMessage *message_copy(const ProtobufCMessage *message)
{
	uint8_t small[COPY_SMALL];
	size_t len = 0;
	const uint8_t *bytes = pack_at_end(message, small, sizeof(small), &len);
	cleanup_free uint8_t *large = bytes ? NULL : pack_message(message, 0, &len);

	if (!bytes)
		bytes = large;
	if (!bytes)
		return NULL;
	return protobuf_c_message_unpack(message->descriptor, NULL, len, bytes);
}

static int compare(const struct record_entry *a, const struct record_entry *b)
{
	return strcmp(a->key, b->key);
}

TREE_GENERATE(record_tree, record_entry, by_key, compare)

struct record_entry *records_entry(struct records *records, const char *key)
{
	struct record_entry wanted;

	wanted.key = key;
	return RB_FIND(record_tree, &records->by_key, &wanted);
}

const void *records_get(struct records *records, const char *key)
{
	const struct record_entry *entry = records_entry(records, key);

	return entry ? entry->record.message : NULL;
}

const Holdfast__V1__Job *records_job(struct records *records, const char *namespace, const char *id)
{
	char key[sizeof(PREFIX_JOB) + NAMESPACE_MAX + sizeof("/") + JOB_ID_MAX];

	if (str_join(key, sizeof(key), PREFIX_JOB, namespace, "/", id) < 0)
		return NULL;
	return records_get(records, key);
}

bool records_is_per_alloc(const Holdfast__V1__JobGroup *group, const char *name)
{
	for (size_t i = 0; i < group->n_per_alloc; i++)
		if (str_eq(group->per_alloc[i], name))
			return true;
	return false;
}

struct record_entry *records_from(struct records *records, const char *key)
{
	struct record_entry wanted;

	wanted.key = key;
	return RB_NFIND(record_tree, &records->by_key, &wanted);
}

struct record_entry *records_next(struct record_entry *entry)
{
	return RB_NEXT(record_tree, NULL, entry);
}

static struct record_entry *insert(struct records *records, const char *key)
{
	struct record_entry *entry = calloc(1, sizeof(*entry));
	char *copy = strdup(key);

	if (!entry || !copy) {
		free(entry);
		free(copy);
		return NULL;
	}
	entry->record.key = copy;
	entry->key = copy;
	RB_INSERT(record_tree, &records->by_key, entry);
	return entry;
}

/* Charges the namespace that the key names with @bytes, see namespaces.h. */
static bool charge(struct records *records, const struct sort *sort, const char *key, size_t bytes)
{
	char namespace[NAMESPACE_MAX + 1];

	if (sort->namespace_part == 0)
		return true;
	for (int i = 0; i < sort->namespace_part; i++) {
		key += strcspn(key, "/");
		key += *key == '/';
	}
	(void)str_format(namespace, sizeof(namespace), "%.*s", (int)strcspn(key, "/"), key);
	return namespaces_charge(records->namespaces, namespace, bytes, 0);
}

/* It takes @bytes more than before. */
static bool note(struct records *records, const struct record_entry *entry, bool is_gone, size_t bytes)
{
	const struct sort *sort = sort_of(entry->key);

	return !sort || (charge(records, sort, entry->key, bytes) &&
			 (!sort->note || sort->note(&records->tokens, entry->record.message, is_gone)));
}

enum status records_put(struct records *records, const struct record *record, struct error *err)
{
	struct record_entry *entry;
	ProtobufCMessage *message;
	size_t bytes = 0, before;

	if (record_is_stored_only(record->key))
		return STATUS_OK;
	message = message_convert_counted(record->message->descriptor, record->message, &bytes);
	entry = message ? records_entry(records, record->key) : NULL;
	if (message && !entry)
		entry = insert(records, record->key);
	if (!entry) {
		if (message)
			protobuf_c_message_free_unpacked(message, NULL);
		return error_no_memory(err, record->key);
	}
	if (entry->record.message)
		protobuf_c_message_free_unpacked(entry->record.message, NULL);
	entry->record.message = message;
	if (record->create_index != 0) /* 0: a new one has no index yet, and a replaced one keeps its own */
		entry->record.create_index = record->create_index;
	entry->record.modify_index = record->modify_index;
	before = entry->bytes;
	entry->bytes = bytes + malloc_usable_size(entry) + malloc_usable_size(entry->record.key);
	if (!note(records, entry, false, entry->bytes - before))
		return error_no_memory(err, record->key);
	return STATUS_OK;
}

void records_delete(struct records *records, struct record_entry *entry)
{
	(void)note(records, entry, true, -entry->bytes); /* taking away needs no memory */
	RB_REMOVE(record_tree, &records->by_key, entry);
	protobuf_c_message_free_unpacked(entry->record.message, NULL);
	free(entry->record.key);
	free(entry);
}

void records_init(struct records *records, struct namespaces *namespaces)
{
	records->namespaces = namespaces;
	RB_INIT(&records->by_key);
	token_index_init(&records->tokens);
}

void records_release(struct records *records)
{
	struct record_entry *entry;

	while ((entry = RB_MIN(record_tree, &records->by_key)))
		records_delete(records, entry);
	token_index_release(&records->tokens);
}
