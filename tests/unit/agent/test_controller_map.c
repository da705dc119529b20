/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/str.h"
#include "controller/map.h"

#include <stdlib.h>
#include <string.h>

#define CALL(kind) HOLDFAST__V1__PLUGIN_CALL__REQUEST_##kind
#define T(text) ((char *)(uintptr_t)(text))

/* All that can be announced is. */
static struct node_plugin able(void)
{
	return (struct node_plugin){
		.plugin_id = "ebs",
		.healthy = true,
		.topology_required = true,
		.has_controller = true,
		.controller = {.healthy = true,
			       .create_delete = true,
			       .attach_detach = true,
			       .list_volumes = true,
			       .create_delete_snapshot = true,
			       .list_snapshots = true,
			       .clone = true,
			       .readonly_attach = true,
			       .expand = true,
			       .single_node_multi_writer = true},
		.has_node = true,
		.node = {.provider_node_id = "i-1", .expand = true},
	};
}

/* A request of every kind that is right as it is; tests change what they are about. */
struct asked {
	Holdfast__V1__PluginCall call;
	Holdfast__V1__ControllerAttachRequest attach;
	Holdfast__V1__ControllerDetachRequest detach;
	Holdfast__V1__ControllerValidateRequest validate;
	Holdfast__V1__ControllerCreateRequest create;
	Holdfast__V1__ControllerDeleteRequest delete;
	Holdfast__V1__ControllerExpandRequest expand;
	Holdfast__V1__ControllerListVolumesRequest list_volumes;
	Holdfast__V1__ControllerCreateSnapshotRequest create_snapshot;
	Holdfast__V1__ControllerDeleteSnapshotRequest delete_snapshot;
	Holdfast__V1__ControllerListSnapshotsRequest list_snapshots;
	Holdfast__V1__NodeExpandRequest node_expand;
	Holdfast__V1__Capability capability;
	Holdfast__V1__Capability *capabilities[VOLUME_CAPABILITIES_MAX + 1];
	Holdfast__V1__MountOptions options;
	char *flags[1];
	struct message_text_entry entries[3]; /* of secrets, context, parameters */
	struct message_text_entry *maps[3];
	char external_id[32], node_id[32], name[32], other_id[32], none[1];
};

#define LEND(to, map, i)                            \
	do {                                        \
		(to).map = (void *)&asked->maps[i]; \
		(to).n_##map = 1;                   \
	} while (0)

static void ask_parts(struct asked *asked)
{
	static const char *const keys[] = {"secret", "context", "parameter"};

	(void)str_copy(asked->external_id, sizeof(asked->external_id), "vol#a&b=/1");
	(void)str_copy(asked->node_id, sizeof(asked->node_id), "i-1");
	(void)str_copy(asked->name, sizeof(asked->name), "holdfast-db");
	(void)str_copy(asked->other_id, sizeof(asked->other_id), "snap/1");
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		protobuf_c_message_init(&csi__v1__topology__segments_entry__descriptor,
					&asked->entries[i].base);
		asked->entries[i].key = (char *)(uintptr_t)keys[i];
		asked->entries[i].value = asked->name;
		asked->maps[i] = &asked->entries[i];
	}
	holdfast__v1__capability__init(&asked->capability);
	asked->capability.access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
	asked->capability.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	for (size_t i = 0; i < ARRAY_SIZE(asked->capabilities); i++)
		asked->capabilities[i] = &asked->capability;
	holdfast__v1__mount_options__init(&asked->options);
	asked->flags[0] = asked->name;
	asked->options.fs_type = asked->node_id;
	asked->options.mount_flags = asked->flags;
	asked->options.n_mount_flags = 1;
}

static void ask_volumes(struct asked *asked)
{
	holdfast__v1__controller_validate_request__init(&asked->validate);
	asked->validate.external_id = asked->external_id;
	asked->validate.capabilities = asked->capabilities;
	asked->validate.n_capabilities = 1;
	asked->validate.mount_options = &asked->options;
	LEND(asked->validate, secrets, 0);
	LEND(asked->validate, context, 1);
	LEND(asked->validate, parameters, 2);
	holdfast__v1__controller_create_request__init(&asked->create);
	asked->create.name = asked->name;
	asked->create.capacity_min = 10;
	asked->create.capacity_max = 20;
	asked->create.capabilities = asked->capabilities;
	asked->create.n_capabilities = 1;
	asked->create.mount_options = &asked->options;
	LEND(asked->create, secrets, 0);
	LEND(asked->create, parameters, 2);
	holdfast__v1__controller_delete_request__init(&asked->delete);
	asked->delete.external_id = asked->external_id;
	LEND(asked->delete, secrets, 0);
	holdfast__v1__controller_expand_request__init(&asked->expand);
	asked->expand.external_id = asked->external_id;
	asked->expand.capacity_min = 10;
	asked->expand.capacity_max = 20;
	asked->expand.capability = &asked->capability;
	LEND(asked->expand, secrets, 0);
	holdfast__v1__controller_list_volumes_request__init(&asked->list_volumes);
	asked->list_volumes.max_entries = 7;
	asked->list_volumes.starting_token = asked->name;
	holdfast__v1__node_expand_request__init(&asked->node_expand);
}

static void ask_snapshots(struct asked *asked)
{
	holdfast__v1__controller_create_snapshot_request__init(&asked->create_snapshot);
	asked->create_snapshot.external_id = asked->external_id;
	asked->create_snapshot.name = asked->name;
	LEND(asked->create_snapshot, secrets, 0);
	LEND(asked->create_snapshot, parameters, 2);
	holdfast__v1__controller_delete_snapshot_request__init(&asked->delete_snapshot);
	asked->delete_snapshot.snapshot_id = asked->other_id;
	LEND(asked->delete_snapshot, secrets, 0);
	holdfast__v1__controller_list_snapshots_request__init(&asked->list_snapshots);
	asked->list_snapshots.max_entries = 7;
	asked->list_snapshots.starting_token = asked->name;
	LEND(asked->list_snapshots, secrets, 0);
}

static void ask(struct asked *asked, Holdfast__V1__PluginCall__RequestCase kind)
{
	void *const requests[] = {
		&asked->attach,		&asked->detach,		 &asked->validate,
		&asked->create,		&asked->delete,		 &asked->expand,
		&asked->list_volumes,	&asked->create_snapshot, &asked->delete_snapshot,
		&asked->list_snapshots, &asked->node_expand,
	};

	memset(asked, 0, sizeof(*asked));
	ask_parts(asked);
	holdfast__v1__controller_attach_request__init(&asked->attach);
	asked->attach.external_id = asked->external_id;
	asked->attach.external_node_id = asked->node_id;
	asked->attach.capability = &asked->capability;
	asked->attach.mount_options = &asked->options;
	asked->attach.read_only = true;
	LEND(asked->attach, secrets, 0);
	LEND(asked->attach, context, 1);
	holdfast__v1__controller_detach_request__init(&asked->detach);
	asked->detach.external_id = asked->external_id;
	asked->detach.external_node_id = asked->node_id;
	LEND(asked->detach, secrets, 0);
	ask_volumes(asked);
	ask_snapshots(asked);
	holdfast__v1__plugin_call__init(&asked->call);
	asked->call.call_id = 9;
	asked->call.plugin_id = asked->node_id;
	asked->call.request_case = kind;
	asked->call.attach = requests[kind - CALL(ATTACH)];
}

static const Holdfast__V1__PluginCall__RequestCase all_kinds[] = {
	CALL(ATTACH),	       CALL(DETACH),	     CALL(VALIDATE),	 CALL(CREATE),
	CALL(DELETE),	       CALL(EXPAND),	     CALL(LIST_VOLUMES), CALL(CREATE_SNAPSHOT),
	CALL(DELETE_SNAPSHOT), CALL(LIST_SNAPSHOTS), CALL(NODE_EXPAND),
};

static struct controller_request *request_of(const struct asked *asked, const struct node_plugin *facts)
{
	static struct controller_request request;
	struct error err = {.msg = ""};

	memset(&request, 0xa5, sizeof(request)); /* nothing may count on zeroes */
	if (controller_request_make(&asked->call, facts, &request, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	return &request;
}

static void assert_map(void *map, size_t n, const char *key)
{
	struct message_text_entry **entries = map;

	assert_int_equal(n, 1);
	assert_string_equal(entries[0]->key, key);
}

static void assert_capability(const Csi__V1__VolumeCapability *capability, bool has_options)
{
	assert_non_null(capability);
	assert_int_equal(capability->access_mode->mode,
			 CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER);
	assert_int_equal(capability->access_type_case, CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT);
	assert_string_equal(capability->mount->fs_type, has_options ? "i-1" : "");
	assert_int_equal(capability->mount->n_mount_flags, has_options);
}

TEST(attach_and_detach_name_volume_and_node_as_the_provider_does)
{
	struct node_plugin facts = able();
	struct asked asked;
	struct controller_request *r;

	ask(&asked, CALL(ATTACH));
	r = request_of(&asked, &facts);
	assert_ptr_equal(r->base.descriptor, &csi__v1__controller_publish_volume_request__descriptor);
	assert_string_equal(r->publish.volume_id, "vol#a&b=/1");
	assert_string_equal(r->publish.node_id, "i-1");
	assert_capability(r->publish.volume_capability, true);
	assert_true(r->publish.readonly);
	assert_map(r->publish.secrets, r->publish.n_secrets, "secret");
	assert_map(r->publish.volume_context, r->publish.n_volume_context, "context");

	ask(&asked, CALL(DETACH));
	r = request_of(&asked, &facts);
	assert_ptr_equal(r->base.descriptor, &csi__v1__controller_unpublish_volume_request__descriptor);
	assert_string_equal(r->unpublish.volume_id, "vol#a&b=/1");
	assert_string_equal(r->unpublish.node_id, "i-1");
	assert_map(r->unpublish.secrets, r->unpublish.n_secrets, "secret");
}

TEST(volumes_are_validated_made_deleted_and_expanded_as_asked)
{
	struct node_plugin facts = able();
	struct asked asked;
	struct controller_request *r;

	ask(&asked, CALL(VALIDATE));
	r = request_of(&asked, &facts);
	assert_string_equal(r->validate.volume_id, "vol#a&b=/1");
	assert_int_equal(r->validate.n_volume_capabilities, 1);
	assert_capability(r->validate.volume_capabilities[0], true);
	assert_map(r->validate.secrets, r->validate.n_secrets, "secret");
	assert_map(r->validate.volume_context, r->validate.n_volume_context, "context");
	assert_map(r->validate.parameters, r->validate.n_parameters, "parameter");

	ask(&asked, CALL(CREATE));
	r = request_of(&asked, &facts);
	assert_string_equal(r->create.name, "holdfast-db");
	assert_int_equal(r->create.capacity_range->required_bytes, 10);
	assert_int_equal(r->create.capacity_range->limit_bytes, 20);
	assert_int_equal(r->create.n_volume_capabilities, 1);
	assert_capability(r->create.volume_capabilities[0], true);
	assert_null(r->create.volume_content_source);
	assert_null(r->create.accessibility_requirements);
	assert_map(r->create.secrets, r->create.n_secrets, "secret");
	assert_map(r->create.parameters, r->create.n_parameters, "parameter");

	ask(&asked, CALL(DELETE));
	r = request_of(&asked, &facts);
	assert_ptr_equal(r->base.descriptor, &csi__v1__delete_volume_request__descriptor);
	assert_string_equal(r->delete.volume_id, "vol#a&b=/1");
	assert_map(r->delete.secrets, r->delete.n_secrets, "secret");

	ask(&asked, CALL(EXPAND));
	r = request_of(&asked, &facts);
	assert_string_equal(r->expand.volume_id, "vol#a&b=/1");
	assert_int_equal(r->expand.capacity_range->required_bytes, 10);
	assert_int_equal(r->expand.capacity_range->limit_bytes, 20);
	assert_capability(r->expand.volume_capability, false);
	assert_map(r->expand.secrets, r->expand.n_secrets, "secret");
	asked.expand.capability = NULL; /* nobody uses it */
	assert_null(request_of(&asked, &facts)->expand.volume_capability);
}

TEST(lists_and_snapshots_are_asked_for_as_asked)
{
	struct node_plugin facts = able();
	struct asked asked;
	struct controller_request *r;

	ask(&asked, CALL(LIST_VOLUMES));
	r = request_of(&asked, &facts);
	assert_int_equal(r->list_volumes.max_entries, 7);
	assert_string_equal(r->list_volumes.starting_token, "holdfast-db");

	ask(&asked, CALL(CREATE_SNAPSHOT));
	r = request_of(&asked, &facts);
	assert_string_equal(r->create_snapshot.source_volume_id, "vol#a&b=/1");
	assert_string_equal(r->create_snapshot.name, "holdfast-db");
	assert_map(r->create_snapshot.secrets, r->create_snapshot.n_secrets, "secret");
	assert_map(r->create_snapshot.parameters, r->create_snapshot.n_parameters, "parameter");

	ask(&asked, CALL(DELETE_SNAPSHOT));
	r = request_of(&asked, &facts);
	assert_string_equal(r->delete_snapshot.snapshot_id, "snap/1");
	assert_map(r->delete_snapshot.secrets, r->delete_snapshot.n_secrets, "secret");

	ask(&asked, CALL(LIST_SNAPSHOTS));
	r = request_of(&asked, &facts);
	assert_int_equal(r->list_snapshots.max_entries, 7);
	assert_string_equal(r->list_snapshots.starting_token, "holdfast-db");
	assert_string_equal(r->list_snapshots.source_volume_id, "");
	assert_map(r->list_snapshots.secrets, r->list_snapshots.n_secrets, "secret");
}

TEST(a_new_volume_is_a_copy_of_a_snapshot_or_of_a_volume)
{
	struct node_plugin facts = able();
	struct asked asked;
	struct controller_request *r;

	ask(&asked, CALL(CREATE));
	asked.create.snapshot_id = asked.other_id;
	r = request_of(&asked, &facts);
	assert_int_equal(r->create.volume_content_source->type_case,
			 CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_SNAPSHOT);
	assert_string_equal(r->create.volume_content_source->snapshot->snapshot_id, "snap/1");
	asked.create.clone_id = asked.external_id;
	asked.create.snapshot_id = asked.none;
	r = request_of(&asked, &facts);
	assert_int_equal(r->create.volume_content_source->type_case,
			 CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_VOLUME);
	assert_string_equal(r->create.volume_content_source->volume->volume_id, "vol#a&b=/1");
}

TEST(a_topology_is_asked_for_only_where_it_is_announced)
{
	Holdfast__V1__TopologyRequest request = HOLDFAST__V1__TOPOLOGY_REQUEST__INIT;
	Holdfast__V1__Topology topology = HOLDFAST__V1__TOPOLOGY__INIT;
	Holdfast__V1__Topology *list[VOLUME_TOPOLOGIES_MAX + 1];
	struct node_plugin facts = able();
	struct asked asked;
	struct controller_request *r;
	struct error err = {.msg = ""};

	ask(&asked, CALL(CREATE));
	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		list[i] = &topology;
	topology.segments = (void *)&asked.maps[1];
	topology.n_segments = 1;
	asked.create.topology_request = &request;
	assert_null(request_of(&asked, &facts)->create.accessibility_requirements);
	request.preferred = request.required = list;
	request.n_required = VOLUME_TOPOLOGIES_MAX;
	request.n_preferred = 1;
	r = request_of(&asked, &facts);
	assert_int_equal(r->create.accessibility_requirements->n_requisite, VOLUME_TOPOLOGIES_MAX);
	assert_int_equal(r->create.accessibility_requirements->n_preferred, 1);
	assert_map(r->create.accessibility_requirements->requisite[VOLUME_TOPOLOGIES_MAX - 1]->segments, 1,
		   "context");
	assert_map(r->create.accessibility_requirements->preferred[0]->segments, 1, "context");
	request.n_required++;
	assert_int_equal(controller_request_make(&asked.call, &facts, r, &err), STATUS_INVALID_ARGUMENT);
	facts.topology_required = false;
	assert_int_equal(controller_check(&asked.call, &facts, &err), STATUS_UNIMPLEMENTED);
	assert_non_null(strstr(err.msg, "VOLUME_ACCESSIBILITY_CONSTRAINTS"));
}

TEST(read_only_is_reported_only_to_those_that_announce_it)
{
	struct node_plugin facts = able();
	struct asked asked;

	ask(&asked, CALL(ATTACH));
	facts.controller.readonly_attach = false;
	assert_false(request_of(&asked, &facts)->publish.readonly);
	facts.controller.readonly_attach = true;
	asked.attach.read_only = false;
	assert_false(request_of(&asked, &facts)->publish.readonly);
}

TEST(the_finer_single_node_modes_are_for_those_that_announce_them)
{
	static const struct {
		Holdfast__V1__AccessMode asked;
		int fine, coarse;
	} cases[] = {
#define MODE(name) CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__##name
		{HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER, MODE(SINGLE_NODE_WRITER),
		 MODE(SINGLE_NODE_WRITER)},
		{HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_SINGLE_WRITER, MODE(SINGLE_NODE_SINGLE_WRITER),
		 MODE(SINGLE_NODE_WRITER)},
		{HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_MULTI_WRITER, MODE(SINGLE_NODE_MULTI_WRITER),
		 MODE(SINGLE_NODE_WRITER)},
		{HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER, MODE(MULTI_NODE_MULTI_WRITER),
		 MODE(MULTI_NODE_MULTI_WRITER)},
	};
	struct node_plugin facts = able();
	struct asked asked;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ask(&asked, CALL(ATTACH));
		asked.capability.access_mode = cases[i].asked;
		facts.controller.single_node_multi_writer = true;
		assert_int_equal(request_of(&asked, &facts)->publish.volume_capability->access_mode->mode,
				 cases[i].fine);
		facts.controller.single_node_multi_writer = false;
		assert_int_equal(request_of(&asked, &facts)->publish.volume_capability->access_mode->mode,
				 cases[i].coarse);
	}
}

TEST(a_capability_not_announced_is_not_called)
{
	static const struct {
		Holdfast__V1__PluginCall__RequestCase kind;
		size_t ability;
		const char *call;
		const char *announces;
	} cases[] = {
#define CAN(half, member) offsetof(struct node_plugin, half.member)
		{CALL(ATTACH), CAN(controller, attach_detach), "ControllerPublishVolume",
		 "PUBLISH_UNPUBLISH_VOLUME"},
		{CALL(DETACH), CAN(controller, attach_detach), "ControllerUnpublishVolume",
		 "PUBLISH_UNPUBLISH_VOLUME"},
		{CALL(CREATE), CAN(controller, create_delete), "CreateVolume", "CREATE_DELETE_VOLUME"},
		{CALL(DELETE), CAN(controller, create_delete), "DeleteVolume", "CREATE_DELETE_VOLUME"},
		{CALL(EXPAND), CAN(controller, expand), "ControllerExpandVolume", "EXPAND_VOLUME"},
		{CALL(LIST_VOLUMES), CAN(controller, list_volumes), "ListVolumes", "LIST_VOLUMES"},
		{CALL(CREATE_SNAPSHOT), CAN(controller, create_delete_snapshot), "CreateSnapshot",
		 "CREATE_DELETE_SNAPSHOT"},
		{CALL(DELETE_SNAPSHOT), CAN(controller, create_delete_snapshot), "DeleteSnapshot",
		 "CREATE_DELETE_SNAPSHOT"},
		{CALL(LIST_SNAPSHOTS), CAN(controller, list_snapshots), "ListSnapshots", "LIST_SNAPSHOTS"},
		{CALL(NODE_EXPAND), CAN(node, expand), "NodeExpandVolume", "EXPAND_VOLUME"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct node_plugin facts = able();
		struct error err = {.msg = ""};
		struct asked asked;

		ask(&asked, cases[i].kind);
		assert_int_equal(controller_check(&asked.call, &facts, &err), STATUS_OK);
		*(bool *)((char *)&facts + cases[i].ability) = false;
		assert_int_equal(controller_check(&asked.call, &facts, &err), STATUS_UNIMPLEMENTED);
		assert_non_null(strstr(err.msg, "plugin ebs"));
		assert_non_null(strstr(err.msg, cases[i].call));
		assert_non_null(strstr(err.msg, cases[i].announces));
	}
}

TEST(validation_needs_no_announcement)
{
	struct node_plugin facts = {.plugin_id = "ebs", .has_controller = true};
	struct asked asked;

	ask(&asked, CALL(VALIDATE));
	assert_int_equal(controller_check(&asked.call, &facts, NULL), STATUS_OK);
}

TEST(copies_need_an_announcement_of_their_own)
{
	struct node_plugin facts = able();
	struct error err = {.msg = ""};
	struct asked asked;

	ask(&asked, CALL(CREATE));
	asked.create.clone_id = asked.other_id;
	assert_int_equal(controller_check(&asked.call, &facts, NULL), STATUS_OK);
	facts.controller.clone = false;
	assert_int_equal(controller_check(&asked.call, &facts, &err), STATUS_UNIMPLEMENTED);
	assert_non_null(strstr(err.msg, "CLONE_VOLUME"));
	asked.create.clone_id = asked.none;
	asked.create.snapshot_id = asked.other_id;
	assert_int_equal(controller_check(&asked.call, &facts, NULL), STATUS_OK);
	facts.controller.create_delete_snapshot = false;
	assert_int_equal(controller_check(&asked.call, &facts, &err), STATUS_UNIMPLEMENTED);
	assert_non_null(strstr(err.msg, "CREATE_DELETE_SNAPSHOT"));
}

TEST(a_request_of_a_later_server_is_not_known)
{
	Holdfast__V1__PluginCall call = HOLDFAST__V1__PLUGIN_CALL__INIT;
	struct error err = {.msg = ""};

	call.plugin_id = T("ebs");
	assert_int_equal(controller_method(&call), CSI_METHOD_N);
	assert_int_equal(controller_check(&call, NULL, &err), STATUS_UNIMPLEMENTED);
	assert_non_null(strstr(err.msg, "upgrade"));
}

TEST(only_the_expansion_on_a_node_is_for_the_node_service)
{
	struct asked asked;

	for (size_t i = 0; i < ARRAY_SIZE(all_kinds); i++) {
		ask(&asked, all_kinds[i]);
		assert_int_equal(controller_half_of(&asked.call),
				 all_kinds[i] == CALL(NODE_EXPAND) ? PLUGIN_NODE : PLUGIN_CONTROLLER);
		assert_true(controller_method(&asked.call) < CSI_METHOD_N);
	}
}

static void no_volume(struct asked *a)
{
	a->external_id[0] = '\0';
}
static void no_node(struct asked *a)
{
	a->node_id[0] = '\0';
}
static void no_name(struct asked *a)
{
	a->name[0] = '\0';
}
static void no_other(struct asked *a)
{
	a->other_id[0] = '\0';
}
static void no_attached_capability(struct asked *a)
{
	a->attach.capability = NULL;
}
static void no_capabilities(struct asked *a)
{
	a->create.n_capabilities = a->validate.n_capabilities = 0;
}
static void many_capabilities(struct asked *a)
{
	a->create.n_capabilities = a->validate.n_capabilities = VOLUME_CAPABILITIES_MAX + 1;
}
static void huge_min(struct asked *a)
{
	a->create.capacity_max = a->expand.capacity_max = 0;
	a->create.capacity_min = a->expand.capacity_min = (uint64_t)INT64_MAX + 1;
}
static void huge_max(struct asked *a)
{
	a->create.capacity_max = a->expand.capacity_max = (uint64_t)INT64_MAX + 1;
}
static void min_above_max(struct asked *a)
{
	a->create.capacity_min = a->expand.capacity_min = 21;
}
static void no_size(struct asked *a)
{
	a->expand.capacity_min = a->expand.capacity_max = 0;
}
static void two_sources(struct asked *a)
{
	a->create.clone_id = a->create.snapshot_id = a->other_id;
}
static void huge_page(struct asked *a)
{
	a->list_volumes.max_entries = a->list_snapshots.max_entries = (uint32_t)INT32_MAX + 1;
}

TEST(what_must_not_be_sent_is_refused_before_it_is)
{
	static const struct {
		Holdfast__V1__PluginCall__RequestCase kind;
		void (*break_it)(struct asked *);
		const char *says;
	} cases[] = {
		{CALL(ATTACH), no_volume, "external_id"},
		{CALL(ATTACH), no_node, "node id"},
		{CALL(ATTACH), no_attached_capability, "capability"},
		{CALL(DETACH), no_volume, "external_id"},
		{CALL(DETACH), no_node, "node id"},
		{CALL(VALIDATE), no_volume, "external_id"},
		{CALL(VALIDATE), no_capabilities, "0 capabilities"},
		{CALL(VALIDATE), many_capabilities, "17 capabilities"},
		{CALL(CREATE), no_name, "name"},
		{CALL(CREATE), no_capabilities, "0 capabilities"},
		{CALL(CREATE), many_capabilities, "17 capabilities"},
		{CALL(CREATE), huge_min, "9223372036854775808"},
		{CALL(CREATE), huge_max, "9223372036854775808"},
		{CALL(CREATE), min_above_max, "at least 21 and at most 20"},
		{CALL(CREATE), two_sources, "clone_id"},
		{CALL(DELETE), no_volume, "external_id"},
		{CALL(EXPAND), no_volume, "external_id"},
		{CALL(EXPAND), huge_min, "9223372036854775808"},
		{CALL(EXPAND), huge_max, "9223372036854775808"},
		{CALL(EXPAND), min_above_max, "at least 21"},
		{CALL(EXPAND), no_size, "no size"},
		{CALL(LIST_VOLUMES), huge_page, "2147483648"},
		{CALL(CREATE_SNAPSHOT), no_volume, "external_id"},
		{CALL(CREATE_SNAPSHOT), no_name, "name"},
		{CALL(DELETE_SNAPSHOT), no_other, "snapshot_id"},
		{CALL(LIST_SNAPSHOTS), huge_page, "2147483648"},
	};
	struct node_plugin facts = able();
	static struct controller_request request;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = {.msg = ""};
		struct asked asked;

		ask(&asked, cases[i].kind);
		cases[i].break_it(&asked);
		if (controller_request_make(&asked.call, &facts, &request, &err) != STATUS_INVALID_ARGUMENT ||
		    !strstr(err.msg, cases[i].says) || !strstr(err.msg, "plugin ebs"))
			fail_msg("%zu: %s", i, err.msg);
	}
}

TEST(sizes_go_up_to_what_csi_counts)
{
	struct node_plugin facts = able();
	struct error err = {.msg = ""};
	struct asked asked;

	ask(&asked, CALL(CREATE));
	asked.create.capacity_min = asked.create.capacity_max = INT64_MAX;
	assert_int_equal(request_of(&asked, &facts)->create.capacity_range->limit_bytes, INT64_MAX);
	asked.create.capacity_min = asked.create.capacity_max = 0; /* not the same as an empty range */
	assert_null(request_of(&asked, &facts)->create.capacity_range);
	asked.create.capacity_min = 1;
	assert_int_equal(request_of(&asked, &facts)->create.capacity_range->limit_bytes, 0);
	ask(&asked, CALL(NODE_EXPAND));
	asked.node_expand.capacity_min = INT64_MAX;
	assert_int_equal(controller_check(&asked.call, &facts, NULL), STATUS_OK);
	asked.node_expand.capacity_min++;
	assert_int_equal(controller_check(&asked.call, &facts, &err), STATUS_INVALID_ARGUMENT);
}

TEST(a_token_may_be_long_but_not_endless)
{
	struct node_plugin facts = able();
	char token[CONTROLLER_TOKEN_MAX + 2];
	static struct controller_request request;
	struct asked asked;

	ask(&asked, CALL(LIST_VOLUMES));
	memset(token, 'x', sizeof(token));
	token[CONTROLLER_TOKEN_MAX] = '\0';
	asked.list_volumes.starting_token = token;
	(void)request_of(&asked, &facts);
	token[CONTROLLER_TOKEN_MAX] = 'x';
	token[CONTROLLER_TOKEN_MAX + 1] = '\0';
	assert_int_equal(controller_request_make(&asked.call, &facts, &request, NULL),
			 STATUS_INVALID_ARGUMENT);
}

TEST(the_node_answers_before_the_server_gives_up)
{
	static const struct {
		uint32_t timeout_ms;
		uint64_t us;
	} cases[] = {
		{0, 0},
		{1, 1000},
		{2, 1000},
		{1000, 500000},
		{2 * CONTROLLER_MARGIN_MS, 1000 * CONTROLLER_MARGIN_MS},
		{60000, UINT64_C(59000000)},
		{UINT32_MAX, (UINT64_C(4294967295) - CONTROLLER_MARGIN_MS) * 1000},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(controller_timeout_us(cases[i].timeout_ms), cases[i].us);
}
