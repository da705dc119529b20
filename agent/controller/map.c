/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/map.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "csi/csi_client.h"
#include "csi/csi_secret.h"
#include "csi/csi_text.h"
#include "model/message.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef enum status controller_fill_fn(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				       struct controller_request *ret, struct error *err);

/* The call, its plugin and its response, to check the response. */
struct controller_answer {
	const Holdfast__V1__PluginCall *call;
	const struct node_plugin *facts;
	const ProtobufCMessage *response;
	const char *name; /* of the call */
	struct controller_reply *reply;
	struct error *err;
};

typedef enum status controller_check_fn(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
					struct error *err);
typedef enum status controller_take_fn(const struct controller_answer *answer);

struct controller_kind {
	Holdfast__V1__PluginCall__RequestCase request;
	Holdfast__V1__PluginReply__ResponseCase response;
	const ProtobufCMessageDescriptor *response_descriptor;
	enum csi_method method;
	enum plugin_half half;
	size_t ability;		    /* offset of a bool in struct node_plugin; 0: no capability needed */
	const char *announces;	    /* CSI's name of it */
	bool wants_gone;	    /* NOT_FOUND counts as success */
	controller_check_fn *check; /* of what else the plugin must announce; NULL: nothing */
	controller_fill_fn *fill;   /* NULL: the volume manager's */
	controller_take_fn *take;   /* NULL: of an empty response */
};

/* Maps of one message are used in another one unchanged: their entries are alike, in memory and on the
 * wire. */
MESSAGE_ASSERT_TEXT_ENTRY(Holdfast__V1__ControllerAttachRequest__SecretsEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Csi__V1__ControllerPublishVolumeRequest__SecretsEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Csi__V1__CreateVolumeRequest__ParametersEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Csi__V1__Topology__SegmentsEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Csi__V1__Volume__VolumeContextEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Csi__V1__ControllerPublishVolumeResponse__PublishContextEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Holdfast__V1__ControllerCreateResponse__ContextEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Holdfast__V1__ControllerAttachResponse__PublishContextEntry);

#define LEND_MAP(to, to_name, from, from_name)             \
	do {                                               \
		(to)->to_name = (void *)(from)->from_name; \
		(to)->n_##to_name = (from)->n_##from_name; \
	} while (0)

#define ABILITY(half, member) offsetof(struct node_plugin, half.member)

static enum status need(const char *what, const char *value, struct error *err)
{
	return value[0] != '\0' ? STATUS_OK
				: error_set(err, STATUS_INVALID_ARGUMENT, 0, "the server gave no %s", what);
}

static enum status need_volume(const char *external_id, struct error *err)
{
	return need("external_id of the volume", external_id, err);
}

/* Borrows the capability of @call as this plugin understands it: a plugin gets the finer single-node modes
 * only if it announces them. The claims decide which allocations share the volume, not the plugin. */
static void borrow_capability(const Holdfast__V1__Capability *from, const Holdfast__V1__MountOptions *options,
			      const struct node_plugin *facts, struct csi_capability *ret)
{
	csi_borrow_capability((enum access_mode)from->access_mode,
			      (enum attachment_mode)from->attachment_mode, options, ret);
	if (!facts->controller.single_node_multi_writer)
		csi_capability_coarsen(ret);
}

static enum status fill_publish(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerAttachRequest *from = call->attach;
	Csi__V1__ControllerPublishVolumeRequest *to = &ret->publish;

	TRY(need_volume(from->external_id, err));
	TRY(need("node id of the provider", from->external_node_id, err));
	if (!from->capability)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the server gave no capability");
	to->volume_id = from->external_id;
	to->node_id = from->external_node_id;
	borrow_capability(from->capability, from->mount_options, facts, &ret->capabilities[0]);
	to->volume_capability = &ret->capabilities[0].pb;
	to->readonly = from->read_only && facts->controller.readonly_attach;
	LEND_MAP(to, secrets, from, secrets);
	LEND_MAP(to, volume_context, from, context);
	return STATUS_OK;
}

static enum status fill_unpublish(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				  struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerDetachRequest *from = call->detach;
	Csi__V1__ControllerUnpublishVolumeRequest *to = &ret->unpublish;
	enum status status = need_volume(from->external_id, err);

	if (status == STATUS_OK) /* without one it would be taken from every node */
		status = need("node id of the provider", from->external_node_id, err);
	if (status != STATUS_OK)
		return status;
	to->volume_id = from->external_id;
	to->node_id = from->external_node_id;
	LEND_MAP(to, secrets, from, secrets);
	return STATUS_OK;
}

static enum status fill_capabilities(Holdfast__V1__Capability *const *from, size_t n,
				     const Holdfast__V1__MountOptions *options,
				     const struct node_plugin *facts, struct controller_request *ret,
				     struct error *err)
{
	if (n == 0 || n > VOLUME_CAPABILITIES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the server gave %zu capabilities; 1 to %d are possible", n,
				 VOLUME_CAPABILITIES_MAX);
	for (size_t i = 0; i < n; i++) {
		borrow_capability(from[i], options, facts, &ret->capabilities[i]);
		ret->capability_list[i] = &ret->capabilities[i].pb;
	}
	return STATUS_OK;
}

static enum status fill_validate(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				 struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerValidateRequest *from = call->validate;
	Csi__V1__ValidateVolumeCapabilitiesRequest *to = &ret->validate;

	TRY(need_volume(from->external_id, err));
	TRY(fill_capabilities(from->capabilities, from->n_capabilities, from->mount_options, facts, ret,
			      err));
	to->volume_id = from->external_id;
	to->volume_capabilities = ret->capability_list;
	to->n_volume_capabilities = from->n_capabilities;
	LEND_MAP(to, volume_context, from, context);
	LEND_MAP(to, parameters, from, parameters);
	LEND_MAP(to, secrets, from, secrets);
	return STATUS_OK;
}

static enum status check_range(uint64_t min, uint64_t max, struct error *err)
{
	if (min > INT64_MAX || max > INT64_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the server asked for %llu bytes; CSI counts up to %lld",
				 (unsigned long long)(min > INT64_MAX ? min : max), (long long)INT64_MAX);
	if (max > 0 && max < min)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the server asked for at least %llu and at most %llu bytes",
				 (unsigned long long)min, (unsigned long long)max);
	return STATUS_OK;
}

/* @ret_range stays NULL when neither is given: an empty range is not the same to every plugin. */
static enum status fill_range(uint64_t min, uint64_t max, struct controller_request *request,
			      Csi__V1__CapacityRange **ret_range, struct error *err)
{
	enum status status = check_range(min, max, err);

	if (status != STATUS_OK || (min == 0 && max == 0))
		return status;
	csi__v1__capacity_range__init(&request->range);
	request->range.required_bytes = (int64_t)min;
	request->range.limit_bytes = (int64_t)max;
	*ret_range = &request->range;
	return STATUS_OK;
}

static enum status not_announced(const struct node_plugin *facts, const char *call, const char *what,
				 struct error *err)
{
	return error_set(err, STATUS_UNIMPLEMENTED, 0,
			 "plugin %s does not announce %s, so %s was not called; holdfast plugin status -v %s "
			 "shows what it can do",
			 facts->plugin_id, what, call, facts->plugin_id);
}

/* Fills in the volume or snapshot that the new volume copies. */
static void fill_content(const Holdfast__V1__ControllerCreateRequest *from, struct controller_request *ret)
{
	Csi__V1__VolumeContentSource *content = &ret->content;

	if (from->clone_id[0] == '\0' && from->snapshot_id[0] == '\0')
		return;
	csi__v1__volume_content_source__init(content);
	if (from->snapshot_id[0] != '\0') {
		csi__v1__volume_content_source__snapshot_source__init(&ret->snapshot);
		ret->snapshot.snapshot_id = from->snapshot_id;
		content->type_case = CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_SNAPSHOT;
		content->snapshot = &ret->snapshot;
	} else {
		csi__v1__volume_content_source__volume_source__init(&ret->volume);
		ret->volume.volume_id = from->clone_id;
		content->type_case = CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_VOLUME;
		content->volume = &ret->volume;
	}
	ret->create.volume_content_source = content;
}

static Csi__V1__Topology **fill_topologies(Holdfast__V1__Topology *const *from, size_t n,
					   Csi__V1__Topology *topologies, Csi__V1__Topology **list)
{
	for (size_t i = 0; i < n; i++) {
		csi__v1__topology__init(&topologies[i]);
		LEND_MAP(&topologies[i], segments, from[i], segments);
		list[i] = &topologies[i];
	}
	return n > 0 ? list : NULL;
}

static enum status fill_topology(const Holdfast__V1__TopologyRequest *from, struct controller_request *ret,
				 struct error *err)
{
	Csi__V1__TopologyRequirement *to = &ret->topology;

	if (from->n_required > VOLUME_TOPOLOGIES_MAX || from->n_preferred > VOLUME_TOPOLOGIES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the server gave more than %d topologies",
				 VOLUME_TOPOLOGIES_MAX);
	csi__v1__topology_requirement__init(to);
	to->requisite =
		fill_topologies(from->required, from->n_required, ret->topologies[0], ret->topology_lists[0]);
	to->n_requisite = from->n_required;
	to->preferred = fill_topologies(from->preferred, from->n_preferred, ret->topologies[1],
					ret->topology_lists[1]);
	to->n_preferred = from->n_preferred;
	ret->create.accessibility_requirements = to;
	return STATUS_OK;
}

static bool wants_topology(const Holdfast__V1__ControllerCreateRequest *create)
{
	const Holdfast__V1__TopologyRequest *request = create->topology_request;

	return request && (request->n_required > 0 || request->n_preferred > 0);
}

static enum status fill_create(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
			       struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerCreateRequest *from = call->create;
	Csi__V1__CreateVolumeRequest *to = &ret->create;

	TRY(need("name for the volume", from->name, err));
	TRY(fill_range(from->capacity_min, from->capacity_max, ret, &to->capacity_range, err));
	TRY(fill_capabilities(from->capabilities, from->n_capabilities, from->mount_options, facts, ret,
			      err));
	if (wants_topology(from))
		TRY(fill_topology(from->topology_request, ret, err));
	if (from->clone_id[0] != '\0' && from->snapshot_id[0] != '\0')
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"the server gave a clone_id and a snapshot_id; a volume is a copy of one thing");
	to->name = from->name;
	to->volume_capabilities = ret->capability_list;
	to->n_volume_capabilities = from->n_capabilities;
	fill_content(from, ret);
	LEND_MAP(to, parameters, from, parameters);
	LEND_MAP(to, secrets, from, secrets);
	return STATUS_OK;
}

static enum status fill_delete(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
			       struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerDeleteRequest *from = call->delete_;

	ret->delete.volume_id = from->external_id;
	LEND_MAP(&ret->delete, secrets, from, secrets);
	return need_volume(from->external_id, err);
}

static enum status fill_expand(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
			       struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerExpandRequest *from = call->expand;
	Csi__V1__ControllerExpandVolumeRequest *to = &ret->expand;

	TRY(need_volume(from->external_id, err));
	TRY(fill_range(from->capacity_min, from->capacity_max, ret, &to->capacity_range, err));
	if (!to->capacity_range)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the server gave no size to expand to");
	to->volume_id = from->external_id;
	LEND_MAP(to, secrets, from, secrets);
	if (from->capability) {
		borrow_capability(from->capability, NULL, facts, &ret->capabilities[0]);
		to->volume_capability = &ret->capabilities[0].pb;
	}
	return STATUS_OK;
}

static enum status check_page(uint32_t max_entries, const char *token, struct error *err)
{
	if (max_entries > INT32_MAX || strlen(token) > CONTROLLER_TOKEN_MAX)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"the server asked for a page of %u entries from a token of %zu bytes; up to %d "
			"and %d are possible",
			max_entries, strlen(token), INT32_MAX, CONTROLLER_TOKEN_MAX);
	return STATUS_OK;
}

static enum status fill_list_volumes(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				     struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerListVolumesRequest *from = call->list_volumes;

	ret->list_volumes.max_entries = (int32_t)from->max_entries;
	ret->list_volumes.starting_token = from->starting_token;
	return check_page(from->max_entries, from->starting_token, err);
}

static enum status fill_create_snapshot(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
					struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerCreateSnapshotRequest *from = call->create_snapshot;
	Csi__V1__CreateSnapshotRequest *to = &ret->create_snapshot;
	enum status status = need_volume(from->external_id, err);

	to->source_volume_id = from->external_id;
	to->name = from->name;
	LEND_MAP(to, secrets, from, secrets);
	LEND_MAP(to, parameters, from, parameters);
	return status == STATUS_OK ? need("name for the snapshot", from->name, err) : status;
}

static enum status fill_delete_snapshot(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
					struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerDeleteSnapshotRequest *from = call->delete_snapshot;

	ret->delete_snapshot.snapshot_id = from->snapshot_id;
	LEND_MAP(&ret->delete_snapshot, secrets, from, secrets);
	return need("snapshot_id", from->snapshot_id, err);
}

static enum status fill_list_snapshots(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				       struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerListSnapshotsRequest *from = call->list_snapshots;

	ret->list_snapshots.max_entries = (int32_t)from->max_entries;
	ret->list_snapshots.starting_token = from->starting_token;
	LEND_MAP(&ret->list_snapshots, secrets, from, secrets);
	return check_page(from->max_entries, from->starting_token, err);
}

/* Checks that the plugin announces the parts of the request that CREATE_DELETE_VOLUME does not cover. */
static enum status check_create(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				struct error *err)
{
	const Holdfast__V1__ControllerCreateRequest *create = call->create;

	if (create->clone_id[0] != '\0' && !facts->controller.clone)
		return not_announced(facts, "CreateVolume with a clone_id", "CLONE_VOLUME", err);
	if (create->snapshot_id[0] != '\0' && !facts->controller.create_delete_snapshot)
		return not_announced(facts, "CreateVolume with a snapshot_id", "CREATE_DELETE_SNAPSHOT", err);
	if (wants_topology(create) && !facts->topology_required)
		return not_announced(facts, "CreateVolume with a topology_request",
				     "VOLUME_ACCESSIBILITY_CONSTRAINTS", err);
	return STATUS_OK;
}

/* The request itself is made by the volume manager, which knows the paths. */
static enum status check_node_expand(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				     struct error *err)
{
	return check_range(call->node_expand->capacity_min, call->node_expand->capacity_max, err);
}

/* --- answers --- */

/* Memory of a reply beyond its fixed parts. */
struct controller_block {
	struct controller_block *next;
	_Alignas(max_align_t) char bytes[];
};

/* NULL when memory is short. */
static void *new_block(struct controller_reply *reply, size_t n, size_t size)
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
			 "plugin %s answered %s with %s; the request may have been carried out",
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

static enum status parse_attach(const struct controller_answer *a)
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
		return true; /* it rejects nothing */
	for (size_t i = 0; i < confirmed->n_volume_capabilities && i < CSI_CONFIRMED_MAX; i++)
		if (csi_capability_confirms(confirmed->volume_capabilities[i], &wanted->pb))
			return true;
	return false;
}

/* Writes the plugin's text, or else the part that it did not confirm. */
static enum status write_unconfirmed(const struct controller_answer *a, const char *text,
				     const struct capability *missing)
{
	char *message = new_block(a->reply, 1, CSI_TEXT_MAX + 1);
	char without_secrets[4 * CSI_TEXT_MAX];

	if (!message)
		return no_memory(a);
	a->reply->validate.message = message;
	csi_redact(&a->call->validate->base, text, without_secrets, sizeof(without_secrets));
	if (text[0] != '\0')
		csi_text_line(without_secrets, message, CSI_TEXT_MAX + 1);
	else if (missing)
		(void)str_format(message, CSI_TEXT_MAX + 1, "it confirmed others, but not %s with %s",
				 access_mode_name(missing->access_mode),
				 attachment_mode_name(missing->attachment_mode));
	else
		(void)str_format(message, CSI_TEXT_MAX + 1, "it did not confirm, and gave no reason");
	return STATUS_OK;
}

static enum status parse_validate(const struct controller_answer *a)
{
	const Csi__V1__ValidateVolumeCapabilitiesResponse *from = (const void *)a->response;
	const Holdfast__V1__ControllerValidateRequest *asked = a->call->validate;

	if (!from->confirmed)
		return write_unconfirmed(a, from->message, NULL);
	for (size_t i = 0; i < asked->n_capabilities; i++) {
		struct capability capability = {
			(enum access_mode)asked->capabilities[i]->access_mode,
			(enum attachment_mode)asked->capabilities[i]->attachment_mode};
		struct csi_capability wanted;

		borrow_capability(asked->capabilities[i], asked->mount_options, a->facts, &wanted);
		if (!is_confirmed(from->confirmed, &wanted))
			return write_unconfirmed(a, from->message, &capability);
	}
	a->reply->validate.confirmed = true;
	return STATUS_OK;
}

static enum status parse_topologies(const struct controller_answer *a, const Csi__V1__Volume *volume)
{
	Holdfast__V1__ControllerCreateResponse *to = &a->reply->create;
	size_t n = volume->n_accessible_topology;
	Holdfast__V1__Topology *topologies;

	if (n == 0)
		return STATUS_OK;
	if (n > VOLUME_TOPOLOGIES_MAX)
		return bad(a, "%zu topologies, more than %d", n, VOLUME_TOPOLOGIES_MAX);
	topologies = new_block(a->reply, n, sizeof(*topologies));
	to->topologies = new_block(a->reply, n, sizeof(Holdfast__V1__Topology *));
	if (!topologies || !to->topologies)
		return no_memory(a);
	for (size_t i = 0; i < n; i++) {
		struct topology topology;

		if (!csi_topology_from(volume->accessible_topology[i], &topology))
			return bad(a,
				   "a topology of more than %d segments, or one of more than %d bytes or no "
				   "text",
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

static enum status parse_create(const struct controller_answer *a)
{
	const Csi__V1__CreateVolumeResponse *from = (const void *)a->response;
	const Csi__V1__Volume *volume = from->volume;
	Holdfast__V1__ControllerCreateResponse *to = &a->reply->create;

	if (!volume)
		return bad(a, "no volume");
	TRY(check_id(a, "volume_id", volume->volume_id));
	TRY(check_bytes(a, "capacity_bytes", volume->capacity_bytes));
	TRY(check_context(a, "volume_context", VOLUME_MAP(volume->volume_context), volume->n_volume_context));
	/* Its id is not compared: GCE PD reports the provider's number of a snapshot, not the id that was
	 * given */
	if (is_copy(a->call->create) && !volume->content_source)
		TRY(bad(a, "volume %s, without the source that was asked for: it may be empty",
			volume->volume_id));
	to->external_id = volume->volume_id;
	to->capacity = (uint64_t)volume->capacity_bytes;
	LEND_MAP(to, context, volume, volume_context);
	return parse_topologies(a, volume);
}

static enum status parse_expand(const struct controller_answer *a)
{
	const Csi__V1__ControllerExpandVolumeResponse *from = (const void *)a->response;

	a->reply->expand.capacity = (uint64_t)from->capacity_bytes;
	a->reply->expand.node_expansion_required = from->node_expansion_required;
	return check_bytes(a, "capacity_bytes", from->capacity_bytes);
}

static enum status check_answer_page(const struct controller_answer *a, size_t n, const char *token)
{
	if (n > CONTROLLER_ENTRIES_MAX)
		return error_set(
			a->err, STATUS_RESOURCE_EXHAUSTED, 0,
			"plugin %s answered %s with %zu entries, more than %d; ask for smaller pages "
			"(--limit), if it has pages",
			a->facts->plugin_id, a->name, n, CONTROLLER_ENTRIES_MAX);
	return check_text(a, "next_token", token, CONTROLLER_TOKEN_MAX);
}

static enum status parse_content(const struct controller_answer *a, const Csi__V1__VolumeContentSource *from,
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

/* Copies the ids of the nodes. Some plugins list an empty id for a volume that is not published. */
static enum status parse_nodes(const struct controller_answer *a,
			       const Csi__V1__ListVolumesResponse__VolumeStatus *from,
			       Holdfast__V1__ExternalVolume *to)
{
	size_t n = from->n_published_node_ids;

	if (n == 0)
		return STATUS_OK;
	if (n > CONTROLLER_NODES_MAX)
		return bad(a, "%zu nodes of one volume, more than %d", n, CONTROLLER_NODES_MAX);
	to->published_node_ids = new_block(a->reply, n, sizeof(char *));
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

static enum status parse_status(const struct controller_answer *a,
				const Csi__V1__ListVolumesResponse__VolumeStatus *from,
				Holdfast__V1__ExternalVolume *to)
{
	const Csi__V1__VolumeCondition *condition = from ? from->volume_condition : NULL;

	if (!from)
		return STATUS_OK;
	if (condition) {
		to->abnormal = condition->abnormal;
		if (condition->message[0] != '\0') {
			to->condition = new_block(a->reply, 1, CSI_TEXT_MAX + 1);
			if (!to->condition)
				return no_memory(a);
			csi_text_line(condition->message, to->condition, CSI_TEXT_MAX + 1);
		}
	}
	return parse_nodes(a, from, to);
}

static enum status parse_volume(const struct controller_answer *a,
				const Csi__V1__ListVolumesResponse__Entry *entry,
				Holdfast__V1__ExternalVolume *to)
{
	const Csi__V1__Volume *volume = entry->volume;

	if (!volume)
		return bad(a, "an entry without a volume");
	holdfast__v1__external_volume__init(to);
	to->external_id = volume->volume_id;
	to->capacity = (uint64_t)volume->capacity_bytes;
	LEND_MAP(to, context, volume, volume_context);
	TRY(check_id(a, "volume_id", volume->volume_id));
	TRY(check_bytes(a, "capacity_bytes", volume->capacity_bytes));
	TRY(check_context(a, "volume_context", VOLUME_MAP(volume->volume_context), volume->n_volume_context));
	TRY(parse_content(a, volume->content_source, to));
	return parse_status(a, entry->status, to);
}

static enum status parse_volumes(const struct controller_answer *a)
{
	const Csi__V1__ListVolumesResponse *from = (const void *)a->response;
	Holdfast__V1__ControllerListVolumesResponse *to = &a->reply->list_volumes;
	Holdfast__V1__ExternalVolume *volumes;
	enum status status = STATUS_OK;

	TRY(check_answer_page(a, from->n_entries, from->next_token));
	to->next_token = from->next_token;
	volumes = new_block(a->reply, from->n_entries, sizeof(*volumes));
	to->volumes = new_block(a->reply, from->n_entries, sizeof(Holdfast__V1__ExternalVolume *));
	if (!volumes || !to->volumes)
		return no_memory(a);
	for (size_t i = 0; i < from->n_entries && status == STATUS_OK; i++) {
		status = parse_volume(a, from->entries[i], &volumes[i]);
		to->volumes[i] = &volumes[i];
		to->n_volumes = i + 1;
	}
	return status;
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
	if (!from)
		return bad(a, "no snapshot");
	holdfast__v1__external_snapshot__init(to);
	to->snapshot_id = from->snapshot_id;
	to->external_source_id = from->source_volume_id;
	to->size_bytes = (uint64_t)from->size_bytes;
	to->create_time_ms = created_ms(from->creation_time);
	to->ready = from->ready_to_use;
	TRY(check_id(a, "snapshot_id", from->snapshot_id));
	TRY(check_text(a, "source_volume_id", from->source_volume_id, EXTERNAL_ID_MAX));
	return check_bytes(a, "size_bytes", from->size_bytes);
}

static enum status parse_snapshot(const struct controller_answer *a)
{
	const Csi__V1__CreateSnapshotResponse *from = (const void *)a->response;
	Holdfast__V1__ExternalSnapshot *snapshot = new_block(a->reply, 1, sizeof(*snapshot));

	if (!snapshot)
		return no_memory(a);
	a->reply->create_snapshot.snapshot = snapshot;
	return fill_snapshot(a, from->snapshot, snapshot);
}

static enum status parse_snapshots(const struct controller_answer *a)
{
	const Csi__V1__ListSnapshotsResponse *from = (const void *)a->response;
	Holdfast__V1__ControllerListSnapshotsResponse *to = &a->reply->list_snapshots;
	Holdfast__V1__ExternalSnapshot *snapshots;
	enum status status = STATUS_OK;

	TRY(check_answer_page(a, from->n_entries, from->next_token));
	to->next_token = from->next_token;
	snapshots = new_block(a->reply, from->n_entries, sizeof(*snapshots));
	to->snapshots = new_block(a->reply, from->n_entries, sizeof(Holdfast__V1__ExternalSnapshot *));
	if (!snapshots || !to->snapshots)
		return no_memory(a);
	for (size_t i = 0; i < from->n_entries && status == STATUS_OK; i++) {
		status = fill_snapshot(a, from->entries[i]->snapshot, &snapshots[i]);
		to->snapshots[i] = &snapshots[i];
		to->n_snapshots = i + 1;
	}
	return status;
}

/* Also to lift: another address than the server's may not be named. */
static enum status fill_cidrs(char *const *from, size_t n, struct controller_request *ret, struct error *err)
{
	struct fence_net net;

	if (n == 0 || n > FENCE_CLIENTS_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the server gave %zu addresses; 1 to %d are possible", n, FENCE_CLIENTS_MAX);
	for (size_t i = 0; i < n; i++) {
		TRY(fence_net_read(from[i], &net, err));
		fence__cidr__init(&ret->cidrs[i]);
		ret->cidrs[i].cidr = from[i];
		ret->cidr_list[i] = &ret->cidrs[i];
	}
	return STATUS_OK;
}

static enum status fill_fence(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
			      struct controller_request *ret, struct error *err)
{
	ret->fence_network.cidrs = ret->cidr_list;
	ret->fence_network.n_cidrs = call->fence_network->n_cidrs;
	return fill_cidrs(call->fence_network->cidrs, call->fence_network->n_cidrs, ret, err);
}

static enum status fill_unfence(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				struct controller_request *ret, struct error *err)
{
	ret->unfence_network.cidrs = ret->cidr_list;
	ret->unfence_network.n_cidrs = call->unfence_network->n_cidrs;
	return fill_cidrs(call->unfence_network->cidrs, call->unfence_network->n_cidrs, ret, err);
}

static enum status fill_list_fenced(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				    struct controller_request *ret, struct error *err)
{
	return STATUS_OK;
}

static enum status parse_fenced(const struct controller_answer *a)
{
	const Fence__ListClusterFenceResponse *from = (const void *)a->response;
	Holdfast__V1__ListFencedResponse *to = &a->reply->list_fenced;
	struct fence_net net;

	if (from->n_cidrs > CONTROLLER_ENTRIES_MAX)
		return bad(a, "%zu addresses, more than %d", from->n_cidrs, CONTROLLER_ENTRIES_MAX);
	to->cidrs = new_block(a->reply, from->n_cidrs, sizeof(char *));
	if (!to->cidrs)
		return no_memory(a);
	for (size_t i = 0; i < from->n_cidrs; i++)
		if (fence_net_read_any(from->cidrs[i]->cidr, &net))
			to->cidrs[to->n_cidrs++] = from->cidrs[i]->cidr;
	return STATUS_OK;
}

#define KIND(kind, descriptor)                                \
	.request = HOLDFAST__V1__PLUGIN_CALL__REQUEST_##kind, \
	.response = HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_##kind, .response_descriptor = &(descriptor)
#define NEEDS(member, words) .ability = ABILITY(controller, member), .announces = (words)

static const struct controller_kind kinds[] = {
	{KIND(ATTACH, holdfast__v1__controller_attach_response__descriptor),
	 .method = CSI_CONTROLLER_PUBLISH_VOLUME, NEEDS(attach_detach, "PUBLISH_UNPUBLISH_VOLUME"),
	 .fill = fill_publish, .take = parse_attach},
	{KIND(DETACH, holdfast__v1__controller_detach_response__descriptor),
	 .method = CSI_CONTROLLER_UNPUBLISH_VOLUME, NEEDS(attach_detach, "PUBLISH_UNPUBLISH_VOLUME"),
	 .wants_gone = true, .fill = fill_unpublish},
	{KIND(VALIDATE, holdfast__v1__controller_validate_response__descriptor),
	 .method = CSI_VALIDATE_VOLUME_CAPABILITIES, .fill = fill_validate, .take = parse_validate},
	{KIND(CREATE, holdfast__v1__controller_create_response__descriptor), .method = CSI_CREATE_VOLUME,
	 NEEDS(create_delete, "CREATE_DELETE_VOLUME"), .check = check_create, .fill = fill_create,
	 .take = parse_create},
	{KIND(DELETE, holdfast__v1__controller_delete_response__descriptor), .method = CSI_DELETE_VOLUME,
	 NEEDS(create_delete, "CREATE_DELETE_VOLUME"), .fill = fill_delete},
	{KIND(EXPAND, holdfast__v1__controller_expand_response__descriptor),
	 .method = CSI_CONTROLLER_EXPAND_VOLUME, NEEDS(expand, "EXPAND_VOLUME"), .fill = fill_expand,
	 .take = parse_expand},
	{KIND(LIST_VOLUMES, holdfast__v1__controller_list_volumes_response__descriptor),
	 .method = CSI_LIST_VOLUMES, NEEDS(list_volumes, "LIST_VOLUMES"), .fill = fill_list_volumes,
	 .take = parse_volumes},
	{KIND(CREATE_SNAPSHOT, holdfast__v1__controller_create_snapshot_response__descriptor),
	 .method = CSI_CREATE_SNAPSHOT, NEEDS(create_delete_snapshot, "CREATE_DELETE_SNAPSHOT"),
	 .fill = fill_create_snapshot, .take = parse_snapshot},
	{KIND(DELETE_SNAPSHOT, holdfast__v1__controller_delete_snapshot_response__descriptor),
	 .method = CSI_DELETE_SNAPSHOT, NEEDS(create_delete_snapshot, "CREATE_DELETE_SNAPSHOT"),
	 .fill = fill_delete_snapshot},
	{KIND(LIST_SNAPSHOTS, holdfast__v1__controller_list_snapshots_response__descriptor),
	 .method = CSI_LIST_SNAPSHOTS, NEEDS(list_snapshots, "LIST_SNAPSHOTS"), .fill = fill_list_snapshots,
	 .take = parse_snapshots},
	{KIND(NODE_EXPAND, holdfast__v1__node_expand_response__descriptor), .method = CSI_NODE_EXPAND_VOLUME,
	 .half = PLUGIN_NODE, .ability = ABILITY(node, expand),
	 .announces = "EXPAND_VOLUME of its node service", .check = check_node_expand},
	{KIND(FENCE_NETWORK, holdfast__v1__fence_network_response__descriptor),
	 .method = CSI_FENCE_CLUSTER_NETWORK, NEEDS(network_fence, "NETWORK_FENCE of csi-addons"),
	 .fill = fill_fence},
	{KIND(UNFENCE_NETWORK, holdfast__v1__unfence_network_response__descriptor),
	 .method = CSI_UNFENCE_CLUSTER_NETWORK, NEEDS(network_fence, "NETWORK_FENCE of csi-addons"),
	 .fill = fill_unfence},
	{KIND(LIST_FENCED, holdfast__v1__list_fenced_response__descriptor), .method = CSI_LIST_CLUSTER_FENCE,
	 NEEDS(network_fence, "NETWORK_FENCE of csi-addons"), .fill = fill_list_fenced, .take = parse_fenced},
};

/* NULL: this agent does not know it. */
static const struct controller_kind *controller_kind(const Holdfast__V1__PluginCall *call)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].request == call->request_case)
			return &kinds[i];
	return NULL;
}

enum csi_method controller_method(const Holdfast__V1__PluginCall *call)
{
	const struct controller_kind *kind = controller_kind(call);

	return kind ? kind->method : CSI_METHOD_N;
}

enum plugin_half controller_half_of(const Holdfast__V1__PluginCall *call)
{
	const struct controller_kind *kind = controller_kind(call);

	return kind ? kind->half : PLUGIN_CONTROLLER;
}

uint64_t controller_timeout_us(uint32_t timeout_ms)
{
	uint32_t margin_ms = timeout_ms / 2 < CONTROLLER_MARGIN_MS ? timeout_ms / 2 : CONTROLLER_MARGIN_MS;

	return (uint64_t)(timeout_ms - margin_ms) * USEC_PER_MSEC;
}

enum status controller_check(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
			     struct error *err)
{
	const struct controller_kind *kind = controller_kind(call);
	const char *name;

	if (!kind)
		return error_set(
			err, STATUS_UNIMPLEMENTED, 0,
			"this agent does not know call %d of the server to plugin %.128s; upgrade it",
			(int)call->request_case, call->plugin_id);
	name = csi_methods[kind->method].name;
	if (kind->ability != 0 && !*(const bool *)((const char *)facts + kind->ability))
		return not_announced(facts, name, kind->announces, err);
	return kind->check ? kind->check(call, facts, err) : STATUS_OK;
}

enum status controller_request_make(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				    struct controller_request *ret, struct error *err)
{
	const struct controller_kind *kind = controller_kind(call);
	const struct service_method *info;
	struct error why = {.msg = ""};

	assert(kind && kind->fill);
	info = &csi_methods[kind->method];
	protobuf_c_message_init(info->request, &ret->base);
	if (kind->fill(call, facts, ret, &why) == STATUS_OK)
		return STATUS_OK;
	return error_set(err, why.status, 0, "plugin %s: %s was not called: %s", facts->plugin_id, info->name,
			 why.msg);
}

/* Begins an empty response of the call's kind. */
static void begin_response(const Holdfast__V1__PluginCall *call, struct controller_reply *ret)
{
	const struct controller_kind *kind = controller_kind(call);

	assert(kind);
	ret->blocks = NULL;
	holdfast__v1__plugin_reply__init(&ret->pb);
	ret->pb.call_id = call->call_id;
	protobuf_c_message_init(kind->response_descriptor, &ret->attach.base);
	ret->pb.response_case = kind->response;
	ret->pb.attach = &ret->attach; /* the case determines the member of the union */
}

enum status controller_reply_make(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				  const ProtobufCMessage *response, struct controller_reply *ret,
				  struct error *err)
{
	const struct controller_kind *kind = controller_kind(call);
	struct error why = {.msg = ""};
	struct controller_answer answer = {
		.call = call, .facts = facts, .response = response, .reply = ret, .err = &why};
	enum status status = STATUS_OK;
	size_t n;

	begin_response(call, ret);
	answer.name = csi_methods[kind->method].name;
	if (kind->take)
		status = kind->take(&answer);
	if (status != STATUS_OK) {
		if (err)
			*err = why;
		return status;
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
