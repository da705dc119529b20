/* SPDX-License-Identifier: Apache-2.0 */
#include "model/pb.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "model/alloc_event.h"
#include "pb/reflect.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* One row per field: its name in the .proto file and where it lives in the model's struct. The wire's type
 * comes from the message descriptor, so a row cannot disagree with it unnoticed: the assertions below compare
 * them. */

struct message_map;

enum field_kind {
	FIELD_STRING,	/* exact */
	FIELD_TEXT,	/* for people: cut and cleaned rather than refused */
	FIELD_OWN_TEXT, /* the same, where the struct points to and may own it; NULL: empty */
	FIELD_NUMBER,	/* bool, 32 or 64 bits: the width comes from the descriptor */
	FIELD_ENUM,
	FIELD_MESSAGE,
	FIELD_SOME,	/* a message that is omitted while it is empty */
	FIELD_OPTIONAL, /* a message that may be absent, by a bool of the struct */
	FIELD_LIST,	/* of messages, in an array with a uint32_t count */
	FIELD_OWN_LIST, /* the same, in an array that the struct points to and may own */
	FIELD_MESSAGES, /* a struct message_list */
};

struct field_map {
	const char *name;
	enum field_kind kind;
	size_t offset;
	size_t size;	     /* of a string's array, or of the stored part of a text; entries of a list */
	size_t count_offset; /* list: its count; optional: its bool */
	int enum_n;	     /* enum: one above the largest value */
	const struct message_map *message;
};

struct message_map {
	const ProtobufCMessageDescriptor *descriptor;
	size_t size; /* of the model's struct */
	const struct field_map *fields;
	size_t n_fields;
	/* The position of each field in the descriptor, plus 1; 0 before the first look. It follows from
	 * constants: all threads write the same. */
	_Atomic(uint8_t) *places;
};

#define SIZE_OF(type, member) sizeof(((type *)0)->member)
#define STRING(type, member)                                                             \
	{                                                                                \
		.name = #member, .kind = FIELD_STRING, .offset = offsetof(type, member), \
		.size = SIZE_OF(type, member)                                            \
	}
#define TEXT(type, member)                                                             \
	{                                                                              \
		.name = #member, .kind = FIELD_TEXT, .offset = offsetof(type, member), \
		.size = SIZE_OF(type, member)                                          \
	}
#define OWN_TEXT(type, member, max)                                                                          \
	{                                                                                                    \
		.name = #member, .kind = FIELD_OWN_TEXT, .offset = offsetof(type, member), .size = (max) + 1 \
	}
#define NUMBER(type, member)                                                             \
	{                                                                                \
		.name = #member, .kind = FIELD_NUMBER, .offset = offsetof(type, member), \
		.size = SIZE_OF(type, member)                                            \
	}
#define ENUM(type, member, n)                                                          \
	{                                                                              \
		.name = #member, .kind = FIELD_ENUM, .offset = offsetof(type, member), \
		.size = SIZE_OF(type, member), .enum_n = (n)                           \
	}
#define MESSAGE(type, member, map)                                                                         \
	{                                                                                                  \
		.name = #member, .kind = FIELD_MESSAGE, .offset = offsetof(type, member), .message = (map) \
	}
#define SOME(type, member, map)                                                                         \
	{                                                                                               \
		.name = #member, .kind = FIELD_SOME, .offset = offsetof(type, member), .message = (map) \
	}
#define OPTIONAL(type, member, has_member, map)                                            \
	{                                                                                  \
		.name = #member, .kind = FIELD_OPTIONAL, .offset = offsetof(type, member), \
		.count_offset = offsetof(type, has_member), .message = (map)               \
	}
#define LIST(type, name_, member, count, map)                                                   \
	{                                                                                       \
		.name = (name_), .kind = FIELD_LIST, .offset = offsetof(type, member),          \
		.size = ARRAY_SIZE(((type *)0)->member), .count_offset = offsetof(type, count), \
		.message = (map)                                                                \
	}
#define OWN_LIST(type, name_, member, count, max, map)                                                    \
	{                                                                                                 \
		.name = (name_), .kind = FIELD_OWN_LIST, .offset = offsetof(type, member), .size = (max), \
		.count_offset = offsetof(type, count), .message = (map)                                   \
	}
#define MESSAGES(type, member, max)                                                                       \
	{                                                                                                 \
		.name = #member, .kind = FIELD_MESSAGES, .offset = offsetof(type, member), .size = (max), \
	}
#define MAP(type, descriptor_, fields_)                                                            \
	{                                                                                          \
		.descriptor = &(descriptor_), .size = sizeof(type), .fields = (fields_),           \
		.n_fields = ARRAY_SIZE(fields_), .places = (_Atomic(uint8_t)[ARRAY_SIZE(fields_)]) \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}

static const struct field_map source_fields[] = {
	ENUM(struct source, class, SOURCE_CLASS_N),
	STRING(struct source, by_id),
	NUMBER(struct source, size_bytes),
	NUMBER(struct source, inodes),
	STRING(struct source, server),
	STRING(struct source, export),
	STRING(struct source, host_volume),
};
static const struct message_map source_map =
	MAP(struct source, holdfast__v1__source__descriptor, source_fields);

static const struct field_map capability_fields[] = {
	ENUM(struct capability, access_mode, ACCESS_MODE_N),
	ENUM(struct capability, attachment_mode, ATTACHMENT_MODE_N),
};
static const struct message_map capability_map =
	MAP(struct capability, holdfast__v1__capability__descriptor, capability_fields);

static const struct field_map volume_fields[] = {
	STRING(struct volume, id),
	STRING(struct volume, namespace),
	STRING(struct volume, name),
	STRING(struct volume, external_id),
	ENUM(struct volume, type, VOLUME_TYPE_N),
	STRING(struct volume, plugin_id),
	STRING(struct volume, profile),
	MESSAGE(struct volume, source, &source_map),
	LIST(struct volume, "requested_capabilities", capabilities, n_capabilities, &capability_map),
	NUMBER(struct volume, generation),
	NUMBER(struct volume, newer_from),
	NUMBER(struct volume, create_time_ms),
	NUMBER(struct volume, modify_time_ms),
	NUMBER(struct volume, create_index),
	NUMBER(struct volume, modify_index),
};
static const struct message_map volume_map =
	MAP(struct volume, holdfast__v1__volume__descriptor, volume_fields);

static const struct field_map claim_fields[] = {
	STRING(struct claim, id),
	STRING(struct claim, volume_id),
	STRING(struct claim, namespace),
	STRING(struct claim, external_id),
	STRING(struct claim, context_digest),
	STRING(struct claim, plugin_id),
	STRING(struct claim, profile),
	STRING(struct claim, allocation_id),
	STRING(struct claim, node_id),
	STRING(struct claim, boot_id),
	STRING(struct claim, external_node_id),
	ENUM(struct claim, mode, CLAIM_MODE_N),
	ENUM(struct claim, access_mode, ACCESS_MODE_N),
	ENUM(struct claim, attachment_mode, ATTACHMENT_MODE_N),
	ENUM(struct claim, propagation, PROPAGATION_N),
	NUMBER(struct claim, slot),
	NUMBER(struct claim, generation),
	ENUM(struct claim, state, CLAIM_STATE_N),
	ENUM(struct claim, evidence, EVIDENCE_N),
	TEXT(struct claim, evidence_detail),
	NUMBER(struct claim, sent_to_node),
	ENUM(struct claim, attach, ATTACH_N),
	NUMBER(struct claim, state_time_ms),
	NUMBER(struct claim, adopted),
	NUMBER(struct claim, storage_proven),
	NUMBER(struct claim, storage_digest),
	NUMBER(struct claim, renamed),
	NUMBER(struct claim, was_freed),
	NUMBER(struct claim, fence_asked),
	ENUM(struct claim, detach_evidence, EVIDENCE_N),
	TEXT(struct claim, detach_detail),
	TEXT(struct claim, plugin_waiver),
	NUMBER(struct claim, other_machine),
	NUMBER(struct claim, attempts),
	TEXT(struct claim, last_error),
	NUMBER(struct claim, last_error_code),
	NUMBER(struct claim, create_time_ms),
	NUMBER(struct claim, volume_create_time_ms),
	NUMBER(struct claim, modify_time_ms),
	NUMBER(struct claim, create_index),
	NUMBER(struct claim, modify_index),
};
static const struct message_map claim_map = MAP(struct claim, holdfast__v1__claim__descriptor, claim_fields);

static const struct field_map volume_request_fields[] = {
	STRING(struct volume_request, name),
	STRING(struct volume_request, source),
	ENUM(struct volume_request, access_mode, ACCESS_MODE_N),
	ENUM(struct volume_request, attachment_mode, ATTACHMENT_MODE_N),
	NUMBER(struct volume_request, read_only),
	ENUM(struct volume_request, propagation, PROPAGATION_N),
	NUMBER(struct volume_request, exec),
};
static const struct message_map volume_request_map =
	MAP(struct volume_request, holdfast__v1__volume_request__descriptor, volume_request_fields);

static const struct field_map alloc_volume_fields[] = {
	STRING(struct alloc_volume, name),
	STRING(struct alloc_volume, path),
	STRING(struct alloc_volume, claim_id),
	NUMBER(struct alloc_volume, is_device),
};
static const struct message_map alloc_volume_map =
	MAP(struct alloc_volume, holdfast__v1__alloc_volume__descriptor, alloc_volume_fields);

static const struct field_map csi_plugin_fields[] = {
	STRING(struct csi_plugin, id),
	ENUM(struct csi_plugin, type, CSI_PLUGIN_TYPE_N),
	NUMBER(struct csi_plugin, health_timeout_ms),
	STRING(struct csi_plugin, socket),
};
static const struct message_map csi_plugin_map =
	MAP(struct csi_plugin, holdfast__v1__csi_plugin__descriptor, csi_plugin_fields);

static const struct field_map alloc_network_fields[] = {
	ENUM(struct alloc_network, mode, NETWORK_MODE_N),
};
static const struct message_map alloc_network_map =
	MAP(struct alloc_network, holdfast__v1__allocation_network__descriptor, alloc_network_fields);

static const struct field_map alloc_fields[] = {
	STRING(struct alloc, id),
	STRING(struct alloc, namespace),
	STRING(struct alloc, name),
	STRING(struct alloc, node_id),
	STRING(struct alloc, driver),
	/* one more than is valid: a longer one is refused, not cut */
	OWN_TEXT(struct alloc, unit, ID_UNIT_MAX + 1),
	NUMBER(struct alloc, stop_timeout_ms),
	NUMBER(struct alloc, mount_timeout_ms),
	OWN_LIST(struct alloc, "volumes", volumes, n_volumes, ALLOC_VOLUMES_MAX, &volume_request_map),
	ENUM(struct alloc, desired_status, DESIRED_N),
	ENUM(struct alloc, client_status, CLIENT_N),
	OWN_TEXT(struct alloc, client_description, ALLOC_DESCRIPTION_MAX),
	NUMBER(struct alloc, client_code),
	OWN_LIST(struct alloc, "published", published, n_published, ALLOC_VOLUMES_MAX, &alloc_volume_map),
	OWN_LIST(struct alloc, "csi_plugins", plugins, n_plugins, ALLOC_PLUGINS_MAX, &csi_plugin_map),
	SOME(struct alloc, network, &alloc_network_map),
	MESSAGES(struct alloc, tasks, ALLOC_TASKS_MAX),
	MESSAGES(struct alloc, constraints, ALLOC_CONSTRAINTS_MAX),
	MESSAGES(struct alloc, task_status, ALLOC_TASKS_MAX),
	MESSAGES(struct alloc, events, ALLOC_EVENTS_MAX),
	STRING(struct alloc, job_id),
	STRING(struct alloc, job_group),
	NUMBER(struct alloc, job_index),
	NUMBER(struct alloc, job_version),
	NUMBER(struct alloc, job_content),
	NUMBER(struct alloc, place_time_ms),
	NUMBER(struct alloc, queue_index),
	NUMBER(struct alloc, keeps_place),
	NUMBER(struct alloc, lost_race),
	NUMBER(struct alloc, running_time_ms),
	NUMBER(struct alloc, end_time_ms),
	NUMBER(struct alloc, healthy_time_ms),
	NUMBER(struct alloc, unhealthy_time_ms),
	NUMBER(struct alloc, wait_until_ms),
	OWN_TEXT(struct alloc, wait_node_id, NODE_ID_MAX),
	NUMBER(struct alloc, adopted),
	NUMBER(struct alloc, member_generation),
	NUMBER(struct alloc, create_time_ms),
	NUMBER(struct alloc, modify_time_ms),
	NUMBER(struct alloc, create_index),
	NUMBER(struct alloc, modify_index),
};
static const struct message_map alloc_map =
	MAP(struct alloc, holdfast__v1__allocation__descriptor, alloc_fields);

static const struct field_map topology_segment_fields[] = {
	STRING(struct topology_segment, key),
	STRING(struct topology_segment, value),
};
static const struct message_map topology_segment_map = MAP(
	struct topology_segment, holdfast__v1__topology__segments_entry__descriptor, topology_segment_fields);

static const struct field_map topology_fields[] = {
	LIST(struct topology, "segments", segments, n_segments, &topology_segment_map),
};
static const struct message_map topology_map =
	MAP(struct topology, holdfast__v1__topology__descriptor, topology_fields);

static const struct field_map controller_half_fields[] = {
	NUMBER(struct controller_half, healthy),
	TEXT(struct controller_half, health_description),
	NUMBER(struct controller_half, create_delete),
	NUMBER(struct controller_half, attach_detach),
	NUMBER(struct controller_half, list_volumes),
	NUMBER(struct controller_half, get_capacity),
	NUMBER(struct controller_half, create_delete_snapshot),
	NUMBER(struct controller_half, list_snapshots),
	NUMBER(struct controller_half, clone),
	NUMBER(struct controller_half, readonly_attach),
	NUMBER(struct controller_half, expand),
	NUMBER(struct controller_half, condition),
	NUMBER(struct controller_half, get_volume),
	NUMBER(struct controller_half, single_node_multi_writer),
	NUMBER(struct controller_half, network_fence),
};
static const struct message_map controller_half_map =
	MAP(struct controller_half, holdfast__v1__controller_half__descriptor, controller_half_fields);

static const struct field_map fence_client_fields[] = {
	STRING(struct fence_client, cidr),
};
static const struct message_map fence_client_map =
	MAP(struct fence_client, holdfast__v1__fence_client__descriptor, fence_client_fields);

static const struct field_map node_half_fields[] = {
	STRING(struct node_half, provider_node_id),
	NUMBER(struct node_half, max_volumes),
	MESSAGE(struct node_half, topology, &topology_map),
	NUMBER(struct node_half, stage),
	NUMBER(struct node_half, stats),
	NUMBER(struct node_half, expand),
	NUMBER(struct node_half, condition),
	NUMBER(struct node_half, single_node_multi_writer),
	LIST(struct node_half, "fence_clients", fence_clients, n_fence_clients, &fence_client_map),
};
static const struct message_map node_half_map =
	MAP(struct node_half, holdfast__v1__node_half__descriptor, node_half_fields);

static const struct field_map node_plugin_fields[] = {
	STRING(struct node_plugin, plugin_id),
	STRING(struct node_plugin, profile),
	ENUM(struct node_plugin, class, SOURCE_CLASS_N),
	NUMBER(struct node_plugin, healthy),
	TEXT(struct node_plugin, health_description),
	TEXT(struct node_plugin, provider),
	TEXT(struct node_plugin, provider_version),
	STRING(struct node_plugin, allocation_id),
	NUMBER(struct node_plugin, controller_required),
	NUMBER(struct node_plugin, topology_required),
	OPTIONAL(struct node_plugin, controller, has_controller, &controller_half_map),
	OPTIONAL(struct node_plugin, node, has_node, &node_half_map),
	NUMBER(struct node_plugin, update_time_ms),
};
static const struct message_map node_plugin_map =
	MAP(struct node_plugin, holdfast__v1__node_plugin__descriptor, node_plugin_fields);

static const struct field_map plugin_instance_fields[] = {
	STRING(struct plugin_instance, node_id),
	MESSAGE(struct plugin_instance, plugin, &node_plugin_map),
};
static const struct message_map plugin_instance_map =
	MAP(struct plugin_instance, holdfast__v1__plugin_instance__descriptor, plugin_instance_fields);

static const struct field_map past_boot_fields[] = {
	STRING(struct past_boot, id),
	NUMBER(struct past_boot, ended_ms),
	STRING(struct past_boot, machine),
	NUMBER(struct past_boot, replaced),
};
static const struct message_map past_boot_map =
	MAP(struct past_boot, holdfast__v1__past_boot__descriptor, past_boot_fields);

static const struct field_map drain_fields[] = {
	NUMBER(struct drain, started_ms), NUMBER(struct drain, deadline_ms), NUMBER(struct drain, done_ms),
	TEXT(struct drain, by),		  TEXT(struct drain, reason),
};
static const struct message_map drain_map = MAP(struct drain, holdfast__v1__drain__descriptor, drain_fields);

static const struct field_map node_fields[] = {
	STRING(struct node, id),
	STRING(struct node, boot_id),
	ENUM(struct node, status, NODE_STATUS_N),
	TEXT(struct node, agent_version),
	TEXT(struct node, kernel),
	TEXT(struct node, address),
	NUMBER(struct node, ineligible),
	TEXT(struct node, eligibility_reason),
	MESSAGE(struct node, drain, &drain_map),
	NUMBER(struct node, reported_epoch),
	NUMBER(struct node, stranger_epoch),
	NUMBER(struct node, report_wanted),
	NUMBER(struct node, reverted),
	NUMBER(struct node, mark_epoch),
	NUMBER(struct node, mark_index),
	LIST(struct node, "past_boots", past_boots, n_past_boots, &past_boot_map),
	NUMBER(struct node, disconnected_ms),
	TEXT(struct node, disconnect_reason),
	NUMBER(struct node, clock_skew_ms),
	STRING(struct node, machine),
	STRING(struct node, other_machine),
	NUMBER(struct node, other_machine_ms),
	NUMBER(struct node, other_machines),
	TEXT(struct node, other_ticket_keys),
	TEXT(struct node, certificate_issuer),
	TEXT(struct node, ticket_keys),
	TEXT(struct node, disk_trouble),
	TEXT(struct node, disk_path),
	NUMBER(struct node, last_seen_ms),
	NUMBER(struct node, create_time_ms),
	NUMBER(struct node, modify_time_ms),
	NUMBER(struct node, create_index),
	NUMBER(struct node, modify_index),
};
static const struct message_map node_map = MAP(struct node, holdfast__v1__node__descriptor, node_fields);

static uint8_t find_place(const ProtobufCMessageDescriptor *descriptor, const char *name)
{
	unsigned int i = 0;

	while (i < descriptor->n_fields && !str_eq(descriptor->fields[i].name, name))
		i++;
	assert(i < descriptor->n_fields && i < UINT8_MAX); /* tables name fields that the .proto file has */
	return (uint8_t)(i + 1);
}

static const ProtobufCFieldDescriptor *find_field(const struct message_map *map, size_t row)
{
	uint8_t place = atomic_load_explicit(&map->places[row], memory_order_relaxed);

	if (place == 0) {
		place = find_place(map->descriptor, map->fields[row].name);
		atomic_store_explicit(&map->places[row], place, memory_order_relaxed);
	}
	return &map->descriptor->fields[place - 1];
}

/* Whose the texts of a message are: its own, or those of the value it was made of. */
enum texts { TEXTS_COPIED, TEXTS_BORROWED };

static ProtobufCMessage *to_message(const struct message_map *map, const void *from, enum texts texts);

static bool put_string(const char *from, char **to, enum texts texts)
{
	if (from[0] == '\0')
		return true; /* stays the shared empty string of the descriptor */
	*to = texts == TEXTS_COPIED ? strdup(from) : (char *)(uintptr_t)from;
	return *to != NULL;
}

static void put_number(const struct field_map *field, const ProtobufCFieldDescriptor *pb, const char *from,
		       char *to)
{
	if (pb->type == PROTOBUF_C_TYPE_BOOL) {
		protobuf_c_boolean value = *(const bool *)from;

		memcpy(to, &value, sizeof(value));
		return;
	}
	assert(reflect_is_number(pb->type) && reflect_size(pb->type) == field->size);
	memcpy(to, from, field->size);
}

static bool put_list(const struct field_map *field, const char *from, const char *count_at, void *to,
		     size_t *to_n, enum texts texts)
{
	uint32_t n;
	ProtobufCMessage **list;

	memcpy(&n, count_at, sizeof(n));
	assert(n <= field->size);
	if (n == 0)
		return true;
	list = calloc(n, sizeof(ProtobufCMessage *));
	if (!list)
		return false;
	*(ProtobufCMessage ***)to = list;
	for (uint32_t i = 0; i < n; i++) {
		list[i] = to_message(field->message, from + i * field->message->size, texts);
		if (!list[i])
			return false;
		*to_n = i + 1;
	}
	return true;
}

/* Borrowed they are those of the list. */
static bool put_messages(const struct message_list *from, void *to, size_t *to_n, enum texts texts)
{
	size_t n = message_list_n(from);
	ProtobufCMessage **list;

	if (n == 0)
		return true;
	list = calloc(n, sizeof(ProtobufCMessage *));
	if (!list)
		return false;
	*(ProtobufCMessage ***)to = list;
	for (; *to_n < n; ++*to_n) {
		ProtobufCMessage *message = from->messages[*to_n];

		list[*to_n] =
			texts == TEXTS_BORROWED ? message : message_convert(message->descriptor, message);
		if (!list[*to_n])
			return false;
	}
	return true;
}

static void free_message(ProtobufCMessage *message, enum texts texts);

static bool put_some(const struct field_map *field, const char *from, void *to, enum texts texts)
{
	ProtobufCMessage *sub = to_message(field->message, from, texts);

	if (!sub)
		return false;
	if (protobuf_c_message_get_packed_size(sub) > 0)
		*(ProtobufCMessage **)to = sub;
	else
		free_message(sub, texts);
	return true;
}

/* False when memory is short; @message can be freed then. */
static bool put_field(const struct field_map *field, const ProtobufCFieldDescriptor *pb, const char *base,
		      char *message, enum texts texts)
{
	const char *from = base + field->offset;
	char *to = message + pb->offset;

	switch (field->kind) {
	case FIELD_STRING:
	case FIELD_TEXT:
		return put_string(from, (char **)(void *)to, texts);
	case FIELD_OWN_TEXT: {
		const char *text = *(const char *const *)(const void *)from;

		return put_string(text ? text : "", (char **)(void *)to, texts);
	}
	case FIELD_NUMBER:
		put_number(field, pb, from, to);
		return true;
	case FIELD_ENUM:
		memcpy(to, from, sizeof(int));
		return true;
	case FIELD_MESSAGE: {
		ProtobufCMessage *sub = to_message(field->message, from, texts);

		*(ProtobufCMessage **)(void *)to = sub;
		return sub != NULL;
	}
	case FIELD_SOME:
		return put_some(field, from, to, texts);
	case FIELD_OPTIONAL: {
		ProtobufCMessage *sub;

		if (!*(const bool *)(base + field->count_offset))
			return true;
		sub = to_message(field->message, from, texts);
		*(ProtobufCMessage **)(void *)to = sub;
		return sub != NULL;
	}
	case FIELD_LIST:
		return put_list(field, from, base + field->count_offset, to,
				(size_t *)(void *)(message + pb->quantifier_offset), texts);
	case FIELD_OWN_LIST:
		return put_list(field, *(const char *const *)(const void *)from, base + field->count_offset,
				to, (size_t *)(void *)(message + pb->quantifier_offset), texts);
	case FIELD_MESSAGES:
		return put_messages(*(struct message_list *const *)(const void *)from, to,
				    (size_t *)(void *)(message + pb->quantifier_offset), texts);
	}
	return false;
}

static void free_message(ProtobufCMessage *message, enum texts texts)
{
	if (texts == TEXTS_COPIED)
		protobuf_c_message_free_unpacked(message, NULL);
	else
		pb_free_borrowing(message);
}

static ProtobufCMessage *to_message(const struct message_map *map, const void *from, enum texts texts)
{
	ProtobufCMessage *message = malloc(map->descriptor->sizeof_message);

	if (!message)
		return NULL;
	protobuf_c_message_init(map->descriptor, message);
	for (size_t i = 0; i < map->n_fields; i++) {
		const struct field_map *field = &map->fields[i];

		if (put_field(field, find_field(map, i), from, (char *)message, texts))
			continue;
		free_message(message, texts);
		return NULL;
	}
	return message;
}

static enum status from_message(const struct message_map *map, const ProtobufCMessage *message, void *to,
				struct error *err);

static enum status get_string(const struct field_map *field, const char *from, char *to, struct error *err)
{
	size_t n = from ? strlen(from) : 0;

	if (n >= field->size)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: longer than %zu bytes", field->name,
				 field->size - 1);
	if (from && !str_is_text(from))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: has bytes that are no printable UTF-8",
				 field->name);
	memcpy(to, n > 0 ? from : "", n + 1);
	return STATUS_OK;
}

static void get_number(const struct field_map *field, const ProtobufCFieldDescriptor *pb, const char *from,
		       char *to)
{
	if (pb->type == PROTOBUF_C_TYPE_BOOL) {
		protobuf_c_boolean value;

		memcpy(&value, from, sizeof(value));
		*(bool *)to = value != 0;
		return;
	}
	assert(reflect_is_number(pb->type) && reflect_size(pb->type) == field->size);
	memcpy(to, from, field->size);
}

static enum status get_enum(const struct field_map *field, const char *from, char *to, struct error *err)
{
	int value;

	memcpy(&value, from, sizeof(value));
	if (value < 0 || value >= field->enum_n)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: %d is not known here", field->name,
				 value);
	memcpy(to, &value, sizeof(value));
	return STATUS_OK;
}

static enum status get_message(const struct field_map *field, const char *from, char *to, struct error *err)
{
	const ProtobufCMessage *sub = *(const ProtobufCMessage *const *)(const void *)from;
	enum status status;

	if (!sub)
		return STATUS_OK; /* absent: zero */
	status = from_message(field->message, sub, to, err);
	if (status != STATUS_OK && err)
		error_prefix(err, "%s", field->name);
	return status;
}

static enum status get_list(const struct field_map *field, const void *from, size_t n, char *to,
			    char *count_at, struct error *err)
{
	ProtobufCMessage *const *list = *(ProtobufCMessage *const *const *)from;
	uint32_t count = (uint32_t)n;

	if (n > field->size)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: %zu entries, at most %zu are allowed",
				 field->name, n, field->size);
	for (uint32_t i = 0; i < count; i++) {
		enum status status =
			from_message(field->message, list[i], to + i * field->message->size, err);

		if (status == STATUS_OK)
			continue;
		if (err)
			error_prefix(err, "%s[%" PRIu32 "]", field->name, i);
		return status;
	}
	memcpy(count_at, &count, sizeof(count));
	return STATUS_OK;
}

static enum status get_own_text(const struct field_map *field, const char *from, char *to, struct error *err)
{
	char *text = NULL;

	if (from && from[0] != '\0') {
		text = malloc(field->size);
		if (!text)
			return error_no_memory(err, "a message");
		str_copy_text(text, field->size, from);
	}
	memcpy(to, &text, sizeof(text));
	return STATUS_OK;
}

/* The array is @to_list's as soon as it is made, also when an entry is refused. */
static enum status get_own_list(const struct field_map *field, const void *from, size_t n, char *to_list,
				char *count_at, struct error *err)
{
	char *list = NULL;

	if (n > 0 && n <= field->size) {
		list = calloc(n, field->message->size);
		if (!list)
			return error_no_memory(err, "a message");
	}
	memcpy(to_list, &list, sizeof(list));
	return get_list(field, from, n, list, count_at, err);
}

static enum status get_messages(const struct field_map *field, const void *from, size_t n, char *to,
				struct error *err)
{
	struct message_list *list;

	if (n > field->size)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: %zu entries, at most %zu are allowed",
				 field->name, n, field->size);
	if (!message_list_new(*(ProtobufCMessage *const *const *)from, n, &list))
		return error_no_memory(err, "a message");
	*(struct message_list **)(void *)to = list;
	return STATUS_OK;
}

static enum status get_field(const struct field_map *field, const ProtobufCFieldDescriptor *pb,
			     const char *message, char *base, struct error *err)
{
	const char *from = message + pb->offset;
	char *to = base + field->offset;

	switch (field->kind) {
	case FIELD_STRING:
		return get_string(field, *(char *const *)(const void *)from, to, err);
	case FIELD_TEXT: {
		const char *text = *(char *const *)(const void *)from;

		str_copy_text(to, field->size, text ? text : "");
		return STATUS_OK;
	}
	case FIELD_OWN_TEXT:
		return get_own_text(field, *(char *const *)(const void *)from, to, err);
	case FIELD_NUMBER:
		get_number(field, pb, from, to);
		return STATUS_OK;
	case FIELD_ENUM:
		return get_enum(field, from, to, err);
	case FIELD_MESSAGE:
	case FIELD_SOME:
		return get_message(field, from, to, err);
	case FIELD_OPTIONAL:
		*(bool *)(base + field->count_offset) = *(const void *const *)(const void *)from != NULL;
		return get_message(field, from, to, err);
	case FIELD_LIST:
		return get_list(field, from, *(const size_t *)(const void *)(message + pb->quantifier_offset),
				to, base + field->count_offset, err);
	case FIELD_OWN_LIST:
		return get_own_list(field, from,
				    *(const size_t *)(const void *)(message + pb->quantifier_offset), to,
				    base + field->count_offset, err);
	case FIELD_MESSAGES:
		return get_messages(field, from,
				    *(const size_t *)(const void *)(message + pb->quantifier_offset), to,
				    err);
	}
	return STATUS_OK;
}

static enum status from_message(const struct message_map *map, const ProtobufCMessage *message, void *to,
				struct error *err)
{
	assert(message->descriptor == map->descriptor);
	memset(to, 0, map->size);
	for (size_t i = 0; i < map->n_fields; i++) {
		const struct field_map *field = &map->fields[i];

		TRY(get_field(field, find_field(map, i), (const char *)message, to, err));
	}
	return STATUS_OK;
}

/* The two public functions of a type. */
#define DEFINE_CONVERSION(type, Pb)                                                   \
	Pb *type##_to_pb(const struct type *value)                                    \
	{                                                                             \
		return (Pb *)to_message(&type##_map, value, TEXTS_COPIED);            \
	}                                                                             \
	enum status type##_from_pb(const Pb *pb, struct type *ret, struct error *err) \
	{                                                                             \
		cleanup_free struct type *value = malloc(sizeof(*value));             \
		enum status st;                                                       \
                                                                                      \
		if (!value)                                                           \
			return error_no_memory(err, "a message");                     \
		st = from_message(&type##_map, &pb->base, value, err);                \
		if (st == STATUS_OK)                                                  \
			*ret = *value;                                                \
		return st;                                                            \
	}

DEFINE_CONVERSION(volume, Holdfast__V1__Volume)
DEFINE_CONVERSION(claim, Holdfast__V1__Claim)
DEFINE_CONVERSION(node, Holdfast__V1__Node)
DEFINE_CONVERSION(alloc_volume, Holdfast__V1__AllocVolume)
DEFINE_CONVERSION(node_plugin, Holdfast__V1__NodePlugin)
DEFINE_CONVERSION(plugin_instance, Holdfast__V1__PluginInstance)

Holdfast__V1__Allocation *alloc_to_pb(const struct alloc *value)
{
	return (Holdfast__V1__Allocation *)to_message(&alloc_map, value, TEXTS_COPIED);
}

Holdfast__V1__Allocation *alloc_to_pb_without_events(const struct alloc *value)
{
	struct alloc shown = *value;

	shown.events = NULL;
	return alloc_to_pb(&shown);
}

Holdfast__V1__Allocation *alloc_to_pb_short(const struct alloc *value)
{
	struct alloc shown = *value;

	shown.events = shown.tasks = shown.task_status = NULL;
	return alloc_to_pb(&shown);
}

enum status alloc_from_pb(const Holdfast__V1__Allocation *pb, struct alloc *ret, struct error *err)
{
	struct alloc value;
	enum status status = from_message(&alloc_map, &pb->base, &value, err);

	if (status == STATUS_OK)
		*ret = value;
	else
		alloc_release(&value);
	return status;
}

#define DEFINE_BORROWING(type, Pb)                                           \
	Pb *type##_borrow_pb(const struct type *value)                       \
	{                                                                    \
		return (Pb *)to_message(&type##_map, value, TEXTS_BORROWED); \
	}

DEFINE_BORROWING(volume, Holdfast__V1__Volume)
DEFINE_BORROWING(claim, Holdfast__V1__Claim)
DEFINE_BORROWING(alloc, Holdfast__V1__Allocation)
DEFINE_BORROWING(node, Holdfast__V1__Node)
DEFINE_BORROWING(plugin_instance, Holdfast__V1__PluginInstance)

/* Messages of other packages, events and constraints are those of a message_list. */
static bool is_made_here(const ProtobufCFieldDescriptor *field)
{
	const ProtobufCMessageDescriptor *type = field->descriptor;

	return type != &holdfast__v1__allocation_event__descriptor &&
	       type != &holdfast__v1__constraint__descriptor &&
	       str_eq(type->package_name, holdfast__v1__allocation__descriptor.package_name);
}

void pb_free_borrowing(ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *descriptor;

	if (!message)
		return;
	descriptor = message->descriptor;
	for (unsigned int i = 0; i < descriptor->n_fields; i++) {
		const struct reflect_values values = reflect_values(message, &descriptor->fields[i]);

		if (values.field->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		for (size_t k = 0; k < values.n && is_made_here(values.field); k++)
			pb_free_borrowing(reflect_message(reflect_value(&values, k)));
		if (reflect_is_list(values.field) && values.n > 0)
			free((void *)(uintptr_t)values.first);
	}
	free(message);
}
