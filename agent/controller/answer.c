/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "controller/kind.h"
#include "csi/csi_client.h"
#include "csi/csi_text.h"
#include "model/message.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

MESSAGE_ASSERT_TEXT_ENTRY(Csi__V1__Volume__VolumeContextEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Csi__V1__ControllerPublishVolumeResponse__PublishContextEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Holdfast__V1__ControllerCreateResponse__ContextEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Holdfast__V1__ControllerAttachResponse__PublishContextEntry);

/* What a reply consists of beyond its fixed parts. */
struct controller_block {
	struct controller_block *next;
	_Alignas(max_align_t) char bytes[];
};

#define LEND_MAP(to, to_name, from, from_name)             \
	do {                                               \
		(to)->to_name = (void *)(from)->from_name; \
		(to)->n_##to_name = (from)->n_##from_name; \
	} while (0)

/* NULL when memory is short. */
static void *take_block(struct controller_reply *reply, size_t n, size_t size)
{
	struct controller_block *block;

	if (n > (SIZE_MAX - sizeof(*block)) / size)
		return NULL;
	block = calloc(1, sizeof(*block) + n * size);
	if (!block)
		return NULL;
	block->next = reply->blocks;
	reply->blocks = block;
	return block->bytes;
}

void controller_reply_release(struct controller_reply *reply)
{
	while (reply->blocks) {
		struct controller_block *next = reply->blocks->next;

		free(reply->blocks);
		reply->blocks = next;
	}
}

static enum status no_memory(const struct controller_answer *a)
{
	return error_set(a->err, STATUS_INTERNAL, ENOMEM, "plugin %s: take the answer to %s",
			 a->facts->plugin_id, a->name);
}

static enum status bad(const struct controller_answer *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static enum status bad(const struct controller_answer *a, const char *fmt, ...)
{
	struct error why = {.msg = ""};
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(why.msg, sizeof(why.msg), fmt, args);
	va_end(args);
	return error_set(a->err, STATUS_INTERNAL, 0,
			 "plugin %s answered %s with %s; what was asked may be done nevertheless",
			 a->facts->plugin_id, a->name, why.msg);
}

static enum status check_text(const struct controller_answer *a, const char *field, const char *text,
			      size_t max)
{
	if (strlen(text) > max)
		return bad(a, "a %s of %zu bytes, more than %zu", field, strlen(text), max);
	return str_is_text(text) ? STATUS_OK : bad(a, "a %s that is not text", field);
}

static enum status check_id(const struct controller_answer *a, const char *field, const char *id)
{
	return id[0] == '\0' ? bad(a, "no %s", field) : check_text(a, field, id, EXTERNAL_ID_MAX);
}

static enum status check_bytes(const struct controller_answer *a, const char *field, int64_t bytes)
{
	return bytes < 0 ? bad(a, "a %s of %" PRId64, field, bytes) : STATUS_OK;
}

static enum status check_context(const struct controller_answer *a, const char *field,
				 struct message_text_entry *const *map, size_t n)
{
	struct error why;

	return volume_check_map(field, map, n, &why) == STATUS_OK
		       ? STATUS_OK
		       : bad(a, "what cannot be kept: %s", why.msg);
}

enum status controller_take_attach(const struct controller_answer *a)
{
	const Csi__V1__ControllerPublishVolumeResponse *from = (const void *)a->response;

	LEND_MAP(&a->reply->attach, publish_context, from, publish_context);
	return check_context(a, "publish_context", VOLUME_MAP(from->publish_context),
			     from->n_publish_context);
}

static bool is_confirmed(const Csi__V1__ValidateVolumeCapabilitiesResponse__Confirmed *confirmed,
			 const struct csi_capability *wanted)
{
	if (confirmed->n_volume_capabilities == 0)
		return true; /* it says nothing against it */
	for (size_t i = 0; i < confirmed->n_volume_capabilities; i++)
		if (csi_capability_confirms(confirmed->volume_capabilities[i], &wanted->pb))
			return true;
	return false;
}

/* The text is the plugin's, or says what it left out. */
static enum status say_unconfirmed(const struct controller_answer *a, const char *text,
				   const struct capability *missing)
{
	char *message = take_block(a->reply, 1, CSI_TEXT_MAX + 1);

	if (!message)
		return no_memory(a);
	a->reply->validate.message = message;
	if (text[0] != '\0')
		csi_text_line(text, message, CSI_TEXT_MAX + 1);
	else if (missing)
		(void)str_format(message, CSI_TEXT_MAX + 1, "it confirmed others, but not %s with %s",
				 access_mode_name(missing->access_mode),
				 attachment_mode_name(missing->attachment_mode));
	else
		(void)str_format(message, CSI_TEXT_MAX + 1, "it did not confirm, and said no reason");
	return STATUS_OK;
}

enum status controller_take_validate(const struct controller_answer *a)
{
	const Csi__V1__ValidateVolumeCapabilitiesResponse *from = (const void *)a->response;
	const Holdfast__V1__ControllerValidateRequest *asked = a->call->validate;

	if (!from->confirmed)
		return say_unconfirmed(a, from->message, NULL);
	for (size_t i = 0; i < asked->n_capabilities; i++) {
		struct capability capability = {
			(enum access_mode)asked->capabilities[i]->access_mode,
			(enum attachment_mode)asked->capabilities[i]->attachment_mode};
		struct csi_capability wanted;

		controller_borrow_capability(asked->capabilities[i], asked->mount_options, a->facts, &wanted);
		if (!is_confirmed(from->confirmed, &wanted))
			return say_unconfirmed(a, from->message, &capability);
	}
	a->reply->validate.confirmed = true;
	return STATUS_OK;
}

static enum status take_topologies(const struct controller_answer *a, const Csi__V1__Volume *volume)
{
	Holdfast__V1__ControllerCreateResponse *to = &a->reply->create;
	size_t n = volume->n_accessible_topology;
	Holdfast__V1__Topology *topologies;

	if (n == 0)
		return STATUS_OK;
	if (n > VOLUME_TOPOLOGIES_MAX)
		return bad(a, "%zu topologies, more than %d", n, VOLUME_TOPOLOGIES_MAX);
	topologies = take_block(a->reply, n, sizeof(*topologies));
	to->topologies = take_block(a->reply, n, sizeof(Holdfast__V1__Topology *));
	if (!topologies || !to->topologies)
		return no_memory(a);
	for (size_t i = 0; i < n; i++) {
		struct topology topology;

		if (!csi_topology_from(volume->accessible_topology[i], &topology))
			return bad(a, "a topology of more than %d segments, or one of more than %d bytes",
				   TOPOLOGY_SEGMENTS_MAX, TOPOLOGY_TEXT_MAX);
		holdfast__v1__topology__init(&topologies[i]);
		LEND_MAP(&topologies[i], segments, volume->accessible_topology[i], segments);
		to->topologies[to->n_topologies++] = &topologies[i];
	}
	return STATUS_OK;
}

static bool is_copy(const Holdfast__V1__ControllerCreateRequest *asked)
{
	return asked->clone_id[0] != '\0' || asked->snapshot_id[0] != '\0';
}

enum status controller_take_create(const struct controller_answer *a)
{
	const Csi__V1__CreateVolumeResponse *from = (const void *)a->response;
	const Csi__V1__Volume *volume = from->volume;
	Holdfast__V1__ControllerCreateResponse *to = &a->reply->create;
	enum status st;

	if (!volume)
		return bad(a, "no volume");
	st = check_id(a, "volume_id", volume->volume_id);
	if (st == STATUS_OK)
		st = check_bytes(a, "capacity_bytes", volume->capacity_bytes);
	if (st == STATUS_OK)
		st = check_context(a, "volume_context", VOLUME_MAP(volume->volume_context),
				   volume->n_volume_context);
	if (st == STATUS_OK && is_copy(a->call->create) && !volume->content_source)
		st = bad(a,
			 "volume %s, and not a word that it is the copy that was asked for: it may be empty",
			 volume->volume_id);
	if (st != STATUS_OK)
		return st;
	to->external_id = volume->volume_id;
	to->capacity = (uint64_t)volume->capacity_bytes;
	LEND_MAP(to, context, volume, volume_context);
	return take_topologies(a, volume);
}

enum status controller_take_expand(const struct controller_answer *a)
{
	const Csi__V1__ControllerExpandVolumeResponse *from = (const void *)a->response;

	a->reply->expand.capacity = (uint64_t)from->capacity_bytes;
	a->reply->expand.node_expansion_required = from->node_expansion_required;
	return check_bytes(a, "capacity_bytes", from->capacity_bytes);
}

static enum status check_page(const struct controller_answer *a, size_t n, const char *token)
{
	if (n > CONTROLLER_ENTRIES_MAX)
		return error_set(
			a->err, STATUS_RESOURCE_EXHAUSTED, 0,
			"plugin %s answered %s with %zu entries, more than %d; ask for smaller pages "
			"(--limit), if it has pages",
			a->facts->plugin_id, a->name, n, CONTROLLER_ENTRIES_MAX);
	return check_text(a, "next_token", token, CONTROLLER_TOKEN_MAX);
}

static enum status take_content(const struct controller_answer *a, const Csi__V1__VolumeContentSource *from,
				Holdfast__V1__ExternalVolume *to)
{
	if (!from)
		return STATUS_OK;
	if (from->type_case == CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_SNAPSHOT)
		to->snapshot_id = from->snapshot->snapshot_id;
	else if (from->type_case == CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_VOLUME)
		to->clone_id = from->volume->volume_id;
	if (check_text(a, "content source", to->snapshot_id, EXTERNAL_ID_MAX) != STATUS_OK)
		return STATUS_INTERNAL;
	return check_text(a, "content source", to->clone_id, EXTERNAL_ID_MAX);
}

/* Some say "" of what is published nowhere. */
static enum status take_nodes(const struct controller_answer *a,
			      const Csi__V1__ListVolumesResponse__VolumeStatus *from,
			      Holdfast__V1__ExternalVolume *to)
{
	size_t n = from->n_published_node_ids;

	if (n == 0)
		return STATUS_OK;
	if (n > CONTROLLER_NODES_MAX)
		return bad(a, "%zu nodes of one volume, more than %d", n, CONTROLLER_NODES_MAX);
	to->published_node_ids = take_block(a->reply, n, sizeof(char *));
	if (!to->published_node_ids)
		return no_memory(a);
	for (size_t i = 0; i < n; i++) {
		char *id = from->published_node_ids[i];

		if (check_text(a, "published_node_id", id, EXTERNAL_NODE_ID_MAX) != STATUS_OK)
			return STATUS_INTERNAL;
		if (id[0] != '\0')
			to->published_node_ids[to->n_published_node_ids++] = id;
	}
	return STATUS_OK;
}

static enum status take_status(const struct controller_answer *a,
			       const Csi__V1__ListVolumesResponse__VolumeStatus *from,
			       Holdfast__V1__ExternalVolume *to)
{
	const Csi__V1__VolumeCondition *condition = from ? from->volume_condition : NULL;

	if (!from)
		return STATUS_OK;
	if (condition) {
		to->abnormal = condition->abnormal;
		if (condition->message[0] != '\0') {
			to->condition = take_block(a->reply, 1, CSI_TEXT_MAX + 1);
			if (!to->condition)
				return no_memory(a);
			csi_text_line(condition->message, to->condition, CSI_TEXT_MAX + 1);
		}
	}
	return take_nodes(a, from, to);
}

static enum status take_volume(const struct controller_answer *a,
			       const Csi__V1__ListVolumesResponse__Entry *entry,
			       Holdfast__V1__ExternalVolume *to)
{
	const Csi__V1__Volume *volume = entry->volume;
	enum status st;

	if (!volume)
		return bad(a, "an entry without a volume");
	holdfast__v1__external_volume__init(to);
	to->external_id = volume->volume_id;
	to->capacity = (uint64_t)volume->capacity_bytes;
	LEND_MAP(to, context, volume, volume_context);
	st = check_id(a, "volume_id", volume->volume_id);
	if (st == STATUS_OK)
		st = check_bytes(a, "capacity_bytes", volume->capacity_bytes);
	if (st == STATUS_OK)
		st = check_context(a, "volume_context", VOLUME_MAP(volume->volume_context),
				   volume->n_volume_context);
	if (st == STATUS_OK)
		st = take_content(a, volume->content_source, to);
	return st == STATUS_OK ? take_status(a, entry->status, to) : st;
}

enum status controller_take_volumes(const struct controller_answer *a)
{
	const Csi__V1__ListVolumesResponse *from = (const void *)a->response;
	Holdfast__V1__ControllerListVolumesResponse *to = &a->reply->list_volumes;
	Holdfast__V1__ExternalVolume *volumes;
	enum status st = check_page(a, from->n_entries, from->next_token);

	if (st != STATUS_OK)
		return st;
	to->next_token = from->next_token;
	volumes = take_block(a->reply, from->n_entries, sizeof(*volumes));
	to->volumes = take_block(a->reply, from->n_entries, sizeof(Holdfast__V1__ExternalVolume *));
	if (!volumes || !to->volumes)
		return no_memory(a);
	for (size_t i = 0; i < from->n_entries && st == STATUS_OK; i++) {
		st = take_volume(a, from->entries[i], &volumes[i]);
		to->volumes[i] = &volumes[i];
		to->n_volumes = i + 1;
	}
	return st;
}

/* Milliseconds since 1970; 0 when it is absent or out of this world. */
static int64_t created_ms(const Google__Protobuf__Timestamp *time)
{
	enum { MS_PER_SEC = 1000, NS_PER_MS = 1000000, NS_PER_SEC = 1000000000 };

	if (!time || time->seconds < 0 || time->seconds > INT64_MAX / MS_PER_SEC - 1 || time->nanos < 0 ||
	    time->nanos >= NS_PER_SEC)
		return 0;
	return time->seconds * MS_PER_SEC + time->nanos / NS_PER_MS;
}

static enum status fill_snapshot(const struct controller_answer *a, const Csi__V1__Snapshot *from,
				 Holdfast__V1__ExternalSnapshot *to)
{
	enum status st;

	if (!from)
		return bad(a, "no snapshot");
	holdfast__v1__external_snapshot__init(to);
	to->snapshot_id = from->snapshot_id;
	to->external_source_id = from->source_volume_id;
	to->size_bytes = (uint64_t)from->size_bytes;
	to->create_time_ms = created_ms(from->creation_time);
	to->ready = from->ready_to_use;
	st = check_id(a, "snapshot_id", from->snapshot_id);
	if (st == STATUS_OK)
		st = check_text(a, "source_volume_id", from->source_volume_id, EXTERNAL_ID_MAX);
	return st == STATUS_OK ? check_bytes(a, "size_bytes", from->size_bytes) : st;
}

enum status controller_take_snapshot(const struct controller_answer *a)
{
	const Csi__V1__CreateSnapshotResponse *from = (const void *)a->response;
	Holdfast__V1__ExternalSnapshot *snapshot = take_block(a->reply, 1, sizeof(*snapshot));

	if (!snapshot)
		return no_memory(a);
	a->reply->create_snapshot.snapshot = snapshot;
	return fill_snapshot(a, from->snapshot, snapshot);
}

enum status controller_take_snapshots(const struct controller_answer *a)
{
	const Csi__V1__ListSnapshotsResponse *from = (const void *)a->response;
	Holdfast__V1__ControllerListSnapshotsResponse *to = &a->reply->list_snapshots;
	Holdfast__V1__ExternalSnapshot *snapshots;
	enum status st = check_page(a, from->n_entries, from->next_token);

	if (st != STATUS_OK)
		return st;
	to->next_token = from->next_token;
	snapshots = take_block(a->reply, from->n_entries, sizeof(*snapshots));
	to->snapshots = take_block(a->reply, from->n_entries, sizeof(Holdfast__V1__ExternalSnapshot *));
	if (!snapshots || !to->snapshots)
		return no_memory(a);
	for (size_t i = 0; i < from->n_entries && st == STATUS_OK; i++) {
		st = fill_snapshot(a, from->entries[i]->snapshot, &snapshots[i]);
		to->snapshots[i] = &snapshots[i];
		to->n_snapshots = i + 1;
	}
	return st;
}

/* An answer of the call's kind that says nothing yet. */
static void begin_response(const Holdfast__V1__PluginCall *call, struct controller_reply *ret)
{
	const struct controller_kind *kind = controller_kind(call);

	assert(kind);
	ret->blocks = NULL;
	holdfast__v1__plugin_reply__init(&ret->pb);
	ret->pb.call_id = call->call_id;
	protobuf_c_message_init(kind->response_descriptor, &ret->attach.base);
	ret->pb.response_case = kind->response;
	ret->pb.attach = &ret->attach; /* which member it is, the case says */
}

enum status controller_reply_make(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				  const ProtobufCMessage *response, struct controller_reply *ret,
				  struct error *err)
{
	const struct controller_kind *kind = controller_kind(call);
	struct error why = {.msg = ""};
	struct controller_answer answer = {
		.call = call, .facts = facts, .response = response, .reply = ret, .err = &why};
	enum status st = STATUS_OK;
	size_t n;

	begin_response(call, ret);
	answer.name = csi_method_info(kind->method)->name;
	if (kind->take)
		st = kind->take(&answer);
	if (st != STATUS_OK) {
		if (err)
			*err = why;
		return st;
	}
	n = protobuf_c_message_get_packed_size(&ret->pb.base);
	if (n > CONTROLLER_REPLY_MAX)
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"plugin %s answered %s with %zu bytes, more than the %d that the server takes; "
			"ask for smaller pages (--limit)",
			facts->plugin_id, answer.name, n, CONTROLLER_REPLY_MAX);
	return STATUS_OK;
}

bool controller_reply_fail(const Holdfast__V1__PluginCall *call, const struct error *err,
			   struct controller_reply *ret)
{
	const struct controller_kind *kind = controller_kind(call);

	if (kind && kind->wants_gone && err->status == STATUS_NOT_FOUND) {
		begin_response(call, ret);
		ret->detach.not_found = true;
		ret->detach.message = (char *)(uintptr_t)err->msg;
		return true;
	}
	ret->blocks = NULL;
	holdfast__v1__plugin_reply__init(&ret->pb);
	ret->pb.call_id = call->call_id;
	ret->pb.code = err->status == STATUS_OK ? STATUS_UNKNOWN : (int32_t)err->status;
	ret->pb.message = (char *)(uintptr_t)err->msg;
	return false;
}

void controller_reply_node_expand(const Holdfast__V1__PluginCall *call, uint64_t bytes,
				  struct controller_reply *ret)
{
	begin_response(call, ret);
	ret->node_expand.bytes = bytes;
}
