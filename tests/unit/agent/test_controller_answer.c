/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the answers of plugins. */

#include "unit.h"

#include "base/str.h"
#include "controller/map.h"
#include "csi/csi_client.h"

#include <stdlib.h>
#include <string.h>

#define CALL(kind) HOLDFAST__V1__PLUGIN_CALL__REQUEST_##kind
#define REPLY(kind) HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_##kind
#define T(text) ((char *)(uintptr_t)(text))

static const struct node_plugin facts = {
	.plugin_id = "ebs", .has_controller = true, .controller = {.single_node_multi_writer = true}};

/* A call that says no more than which one it is. */
static Holdfast__V1__PluginCall a_call(Holdfast__V1__PluginCall__RequestCase kind)
{
	Holdfast__V1__PluginCall call = HOLDFAST__V1__PLUGIN_CALL__INIT;

	call.call_id = 9;
	call.request_case = kind;
	return call;
}

/* Make the reply and hand back what it is on the wire; NULL with @err when there is none. */
static Holdfast__V1__PluginReply *reply_to(const Holdfast__V1__PluginCall *call, const void *response,
					   struct error *err)
{
	struct controller_reply reply;
	Holdfast__V1__PluginReply *back = NULL;
	enum status st;

	memset(&reply, 0xa5, sizeof(reply));
	st = controller_reply_make(call, &facts, response, &reply, err);
	if (st == STATUS_OK) {
		size_t n = protobuf_c_message_get_packed_size(&reply.pb.base);
		uint8_t *bytes = malloc(n + 1);

		(void)protobuf_c_message_pack(&reply.pb.base, bytes);
		back = holdfast__v1__plugin_reply__unpack(NULL, n, bytes);
		free(bytes);
		assert_non_null(back);
		assert_int_equal(back->call_id, 9);
		assert_int_equal(back->code, 0);
		assert_false(back->not_here);
	} else {
		assert_int_equal(st, err->status);
	}
	controller_reply_release(&reply);
	return back;
}

static Holdfast__V1__PluginReply *good_reply(const Holdfast__V1__PluginCall *call, const void *response)
{
	struct error err = {.msg = ""};
	Holdfast__V1__PluginReply *reply = reply_to(call, response, &err);

	if (!reply)
		fail_msg("%s", err.msg);
	return reply;
}

static void assert_bad(const Holdfast__V1__PluginCall *call, const void *response, const char *name,
		       const char *says)
{
	struct error err = {.msg = ""};
	Holdfast__V1__PluginReply *reply = reply_to(call, response, &err);

	if (reply)
		fail_msg("taken, not refused for %s", says);
	/* never a code that says that nothing was done */
	assert_int_equal(err.status, STATUS_INTERNAL);
	if (!strstr(err.msg, says) || !strstr(err.msg, name) || !strstr(err.msg, "plugin ebs"))
		fail_msg("%s", err.msg);
}

static void release(Holdfast__V1__PluginReply *reply)
{
	holdfast__v1__plugin_reply__free_unpacked(reply, NULL);
}

/* A text of @n bytes, until the next one. */
static char *long_text(size_t n)
{
	static char text[1 << 21];

	assert_true(n < sizeof(text));
	memset(text, 'x', n);
	text[n] = '\0';
	return text;
}

/* A map of @n entries, until the next one. */
static void *a_map(size_t n, char *value)
{
	static Csi__V1__Topology__SegmentsEntry entries[VOLUME_MAP_ENTRIES_MAX + 2];
	static Csi__V1__Topology__SegmentsEntry *list[VOLUME_MAP_ENTRIES_MAX + 2];
	static char keys[VOLUME_MAP_ENTRIES_MAX + 2][8];

	assert_true(n <= ARRAY_SIZE(list));
	for (size_t i = 0; i < n; i++) {
		csi__v1__topology__segments_entry__init(&entries[i]);
		(void)str_format(keys[i], sizeof(keys[i]), "k%zu", i);
		entries[i].key = keys[i];
		entries[i].value = value;
		list[i] = &entries[i];
	}
	return list;
}

TEST(empty_answers_are_replies_of_their_kind)
{
	static const struct {
		Holdfast__V1__PluginCall__RequestCase call;
		Holdfast__V1__PluginReply__ResponseCase reply;
	} cases[] = {
		{CALL(DETACH), REPLY(DETACH)},
		{CALL(DELETE), REPLY(DELETE)},
		{CALL(DELETE_SNAPSHOT), REPLY(DELETE_SNAPSHOT)},
	};
	Csi__V1__DeleteVolumeResponse response = CSI__V1__DELETE_VOLUME_RESPONSE__INIT;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Holdfast__V1__PluginCall call = a_call(cases[i].call);
		Holdfast__V1__PluginReply *reply = good_reply(&call, &response);

		assert_int_equal(reply->response_case, cases[i].reply);
		release(reply);
	}
}

TEST(the_publish_context_goes_to_the_server_whole)
{
	Csi__V1__ControllerPublishVolumeResponse response = CSI__V1__CONTROLLER_PUBLISH_VOLUME_RESPONSE__INIT;
	Holdfast__V1__PluginCall call = a_call(CALL(ATTACH));
	Holdfast__V1__PluginReply *reply = good_reply(&call, &response);

	assert_int_equal(reply->response_case, REPLY(ATTACH));
	assert_int_equal(reply->attach->n_publish_context, 0);
	release(reply);
	response.n_publish_context = VOLUME_MAP_ENTRIES_MAX;
	response.publish_context = a_map(VOLUME_MAP_ENTRIES_MAX, T("/dev/xvdf"));
	reply = good_reply(&call, &response);
	assert_int_equal(reply->attach->n_publish_context, VOLUME_MAP_ENTRIES_MAX);
	assert_string_equal(reply->attach->publish_context[63]->key, "k63");
	assert_string_equal(reply->attach->publish_context[63]->value, "/dev/xvdf");
	release(reply);
	response.n_publish_context = VOLUME_MAP_ENTRIES_MAX + 1;
	response.publish_context = a_map(VOLUME_MAP_ENTRIES_MAX + 1, T("x"));
	assert_bad(&call, &response, "ControllerPublishVolume", "publish_context: 65 entries");
	response.n_publish_context = 1;
	response.publish_context = a_map(1, long_text(VOLUME_MAP_BYTES_MAX - 2)); /* the key has two */
	release(good_reply(&call, &response));
	response.publish_context = a_map(1, long_text(VOLUME_MAP_BYTES_MAX - 1));
	assert_bad(&call, &response, "ControllerPublishVolume", "publish_context");
}

/* What a plugin says of a new volume. */
struct made {
	Csi__V1__CreateVolumeResponse response;
	Csi__V1__Volume volume;
	Csi__V1__VolumeContentSource content;
	Csi__V1__Topology topology;
	Csi__V1__Topology *topologies[VOLUME_TOPOLOGIES_MAX + 1];
	Holdfast__V1__PluginCall call;
	Holdfast__V1__ControllerCreateRequest request;
};

static void make(struct made *made)
{
	csi__v1__create_volume_response__init(&made->response);
	csi__v1__volume__init(&made->volume);
	csi__v1__volume_content_source__init(&made->content);
	csi__v1__topology__init(&made->topology);
	holdfast__v1__controller_create_request__init(&made->request);
	made->call = a_call(CALL(CREATE));
	made->call.create = &made->request;
	made->response.volume = &made->volume;
	made->volume.volume_id = long_text(EXTERNAL_ID_MAX);
	made->volume.capacity_bytes = INT64_MAX;
	made->volume.volume_context = a_map(1, T("v"));
	made->volume.n_volume_context = 1;
	made->topology.segments = a_map(TOPOLOGY_SEGMENTS_MAX, T("v"));
	made->topology.n_segments = TOPOLOGY_SEGMENTS_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(made->topologies); i++)
		made->topologies[i] = &made->topology;
	made->volume.accessible_topology = made->topologies;
	made->volume.n_accessible_topology = VOLUME_TOPOLOGIES_MAX;
}

TEST(a_new_volume_is_what_the_plugin_says)
{
	struct made made;
	Holdfast__V1__PluginReply *reply;

	make(&made);
	reply = good_reply(&made.call, &made.response);
	assert_int_equal(reply->response_case, REPLY(CREATE));
	assert_int_equal(strlen(reply->create->external_id), EXTERNAL_ID_MAX);
	assert_int_equal(reply->create->capacity, INT64_MAX);
	assert_int_equal(reply->create->n_context, 1);
	assert_string_equal(reply->create->context[0]->key, "k0");
	assert_int_equal(reply->create->n_topologies, VOLUME_TOPOLOGIES_MAX);
	assert_int_equal(reply->create->topologies[VOLUME_TOPOLOGIES_MAX - 1]->n_segments,
			 TOPOLOGY_SEGMENTS_MAX);
	assert_string_equal(reply->create->topologies[0]->segments[7]->key, "k7");
	release(reply);
	made.volume.capacity_bytes = 0; /* unknown */
	made.volume.n_accessible_topology = 0;
	made.volume.volume_id = T("127.0.0.1/share#vol-a##");
	reply = good_reply(&made.call, &made.response);
	assert_int_equal(reply->create->capacity, 0);
	assert_string_equal(reply->create->external_id, "127.0.0.1/share#vol-a##");
	release(reply);
}

static void no_volume(struct made *m)
{
	m->response.volume = NULL;
}
static void no_id(struct made *m)
{
	m->volume.volume_id = T("");
}
static void long_id(struct made *m)
{
	m->volume.volume_id = long_text(EXTERNAL_ID_MAX + 1);
}
static void id_of_two_lines(struct made *m)
{
	m->volume.volume_id = T("a\nb");
}
static void negative(struct made *m)
{
	m->volume.capacity_bytes = -1;
}
static void large_context(struct made *m)
{
	m->volume.volume_context = a_map(VOLUME_MAP_ENTRIES_MAX + 1, T("v"));
	m->volume.n_volume_context = VOLUME_MAP_ENTRIES_MAX + 1;
}
static void many_topologies(struct made *m)
{
	m->volume.n_accessible_topology = VOLUME_TOPOLOGIES_MAX + 1;
}
static void many_segments(struct made *m)
{
	m->topology.segments = a_map(TOPOLOGY_SEGMENTS_MAX + 1, T("v"));
	m->topology.n_segments = TOPOLOGY_SEGMENTS_MAX + 1;
}
static void no_copy_of_a_snapshot(struct made *m)
{
	m->request.snapshot_id = T("snap-1");
}
static void no_copy_of_a_volume(struct made *m)
{
	m->request.clone_id = T("vol-1");
}

TEST(a_new_volume_that_cannot_be_kept_is_an_error_and_never_cut)
{
	static const struct {
		void (*break_it)(struct made *);
		const char *says;
	} cases[] = {
		{no_volume, "no volume"},
		{no_id, "no volume_id"},
		{long_id, "257 bytes"},
		{id_of_two_lines, "not text"},
		{negative, "-1"},
		{large_context, "65 entries"},
		{many_topologies, "65 topologies"},
		{many_segments, "more than 8 segments"},
		{no_copy_of_a_snapshot, "may be empty"},
		{no_copy_of_a_volume, "may be empty"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct made made;

		make(&made);
		cases[i].break_it(&made);
		assert_bad(&made.call, &made.response, "CreateVolume", cases[i].says);
	}
}

TEST(a_copy_is_one_when_the_plugin_reports_it)
{
	struct made made;

	make(&made);
	no_copy_of_a_snapshot(&made);
	made.volume.content_source = &made.content;
	release(good_reply(&made.call, &made.response));
}

TEST(an_expanded_volume_has_a_size_or_none_is_known)
{
	Csi__V1__ControllerExpandVolumeResponse response = CSI__V1__CONTROLLER_EXPAND_VOLUME_RESPONSE__INIT;
	Holdfast__V1__PluginCall call = a_call(CALL(EXPAND));
	Holdfast__V1__PluginReply *reply = good_reply(&call, &response);

	assert_int_equal(reply->expand->capacity, 0);
	assert_false(reply->expand->node_expansion_required);
	release(reply);
	response.capacity_bytes = 5;
	response.node_expansion_required = true;
	reply = good_reply(&call, &response);
	assert_int_equal(reply->expand->capacity, 5);
	assert_true(reply->expand->node_expansion_required);
	release(reply);
	response.capacity_bytes = INT64_MIN;
	assert_bad(&call, &response, "ControllerExpandVolume", "capacity_bytes");
}

/* A validation of two capabilities, and what the plugin confirms. */
struct validation {
	Holdfast__V1__PluginCall call;
	Holdfast__V1__ControllerValidateRequest request;
	Holdfast__V1__Capability asked[2];
	Holdfast__V1__Capability *asked_list[2];
	struct csi_capability said[2];
	Csi__V1__VolumeCapability *said_list[2];
	Csi__V1__ValidateVolumeCapabilitiesResponse response;
	Csi__V1__ValidateVolumeCapabilitiesResponse__Confirmed confirmed;
};

static void validate(struct validation *v)
{
	static const enum access_mode modes[] = {SINGLE_NODE_WRITER, MULTI_NODE_READER_ONLY};

	holdfast__v1__controller_validate_request__init(&v->request);
	csi__v1__validate_volume_capabilities_response__init(&v->response);
	csi__v1__validate_volume_capabilities_response__confirmed__init(&v->confirmed);
	v->call = a_call(CALL(VALIDATE));
	v->call.validate = &v->request;
	for (size_t i = 0; i < 2; i++) {
		holdfast__v1__capability__init(&v->asked[i]);
		v->asked[i].access_mode = (Holdfast__V1__AccessMode)modes[i];
		v->asked[i].attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
		v->asked_list[i] = &v->asked[i];
		csi_borrow_capability(modes[1 - i], ATTACHMENT_FILE_SYSTEM, NULL, &v->said[i]);
		v->said_list[i] = &v->said[i].pb;
	}
	v->request.capabilities = v->asked_list;
	v->request.n_capabilities = 2;
	v->confirmed.volume_capabilities = v->said_list;
	v->confirmed.n_volume_capabilities = 2;
	v->response.confirmed = &v->confirmed;
}

static void assert_verdict(struct validation *v, bool confirmed, const char *says)
{
	Holdfast__V1__PluginReply *reply = good_reply(&v->call, &v->response);

	assert_int_equal(reply->response_case, REPLY(VALIDATE));
	assert_int_equal(reply->validate->confirmed, confirmed);
	if (says ? !strstr(reply->validate->message, says) : reply->validate->message[0] != '\0')
		fail_msg("%s", reply->validate->message);
	release(reply);
}

TEST(a_volume_is_confirmed_when_each_capability_is)
{
	struct validation v;

	validate(&v);
	assert_verdict(&v, true, NULL);
	v.confirmed.n_volume_capabilities = 1; /* the second one only */
	assert_verdict(&v, false, "single-node-writer with file-system");
	v.response.message = T("no writers\nhere");
	assert_verdict(&v, false, "no writers");
	v.confirmed.n_volume_capabilities = 0; /* it says nothing against it */
	assert_verdict(&v, true, NULL);
	v.response.confirmed = NULL;
	assert_verdict(&v, false, "no writers");
	v.response.message = T("");
	assert_verdict(&v, false, "said no reason");
	v.response.message = long_text(1 << 20);
	assert_verdict(&v, false, "xxx");
}

TEST(a_plugin_confirms_what_it_was_asked)
{
	struct validation v;

	validate(&v);
	v.asked[0].access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_SINGLE_WRITER;
	v.asked[1].access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
	v.request.n_capabilities = 1;
	assert_verdict(&v, false, "single-node-single-writer");
	v.request.n_capabilities = 2;
	csi_borrow_capability(SINGLE_NODE_SINGLE_WRITER, ATTACHMENT_FILE_SYSTEM, NULL, &v.said[0]);
	csi_borrow_capability(SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM, NULL, &v.said[1]);
	assert_verdict(&v, true, NULL);
	v.asked[1].attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__BLOCK_DEVICE;
	assert_verdict(&v, false, "single-node-writer with block-device");
}

/* A page of one volume that says everything. */
struct page {
	Holdfast__V1__PluginCall call;
	Csi__V1__ListVolumesResponse response;
	Csi__V1__ListVolumesResponse__Entry entry;
	Csi__V1__ListVolumesResponse__Entry *entries[1];
	Csi__V1__Volume volume;
	Csi__V1__VolumeContentSource content;
	Csi__V1__VolumeContentSource__SnapshotSource snapshot;
	Csi__V1__ListVolumesResponse__VolumeStatus status;
	Csi__V1__VolumeCondition condition;
	char *nodes[CONTROLLER_NODES_MAX + 1];
};

static void list(struct page *p)
{
	csi__v1__list_volumes_response__init(&p->response);
	csi__v1__list_volumes_response__entry__init(&p->entry);
	csi__v1__volume__init(&p->volume);
	csi__v1__volume_content_source__init(&p->content);
	csi__v1__volume_content_source__snapshot_source__init(&p->snapshot);
	csi__v1__list_volumes_response__volume_status__init(&p->status);
	csi__v1__volume_condition__init(&p->condition);
	p->call = a_call(CALL(LIST_VOLUMES));
	p->entries[0] = &p->entry;
	p->response.entries = p->entries;
	p->response.n_entries = 1;
	p->response.next_token = T("next");
	p->entry.volume = &p->volume;
	p->entry.status = &p->status;
	p->volume.volume_id = T("vol-1");
	p->volume.capacity_bytes = 5;
	p->volume.content_source = &p->content;
	p->content.type_case = CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_SNAPSHOT;
	p->content.snapshot = &p->snapshot;
	p->snapshot.snapshot_id = T("snap&=1");
	p->status.volume_condition = &p->condition;
	p->condition.abnormal = true;
	p->condition.message = T("isn't mounted");
	for (size_t i = 0; i < ARRAY_SIZE(p->nodes); i++)
		p->nodes[i] = T(i % 2 == 0 ? "" : "i-1"); /* some say "" of what is published nowhere */
	p->status.published_node_ids = p->nodes;
	p->status.n_published_node_ids = 2;
}

static struct page page; /* large */

TEST(a_list_shows_what_the_provider_has)
{
	Holdfast__V1__PluginReply *reply;
	const Holdfast__V1__ExternalVolume *v;

	list(&page);
	page.condition.message = T("isn't\nmounted");
	reply = good_reply(&page.call, &page.response);
	assert_string_equal(reply->list_volumes->next_token, "next");
	assert_int_equal(reply->list_volumes->n_volumes, 1);
	v = reply->list_volumes->volumes[0];
	assert_string_equal(v->external_id, "vol-1");
	assert_int_equal(v->capacity, 5);
	assert_string_equal(v->snapshot_id, "snap&=1");
	assert_string_equal(v->clone_id, "");
	assert_true(v->abnormal);
	assert_null(strchr(v->condition, '\n'));
	assert_non_null(strstr(v->condition, "mounted"));
	assert_int_equal(v->n_published_node_ids, 1);
	assert_string_equal(v->published_node_ids[0], "i-1");
	release(reply);
}

TEST(a_list_has_limits)
{
	static Csi__V1__ListVolumesResponse__Entry *many[CONTROLLER_ENTRIES_MAX + 1];
	struct error err = {.msg = ""};

	list(&page);
	page.condition.message = T("");
	page.status.n_published_node_ids = CONTROLLER_NODES_MAX;
	release(good_reply(&page.call, &page.response));
	page.status.n_published_node_ids++;
	assert_bad(&page.call, &page.response, "ListVolumes", "4097 nodes");
	page.status.n_published_node_ids = 1;
	page.nodes[0] = long_text(EXTERNAL_NODE_ID_MAX);
	release(good_reply(&page.call, &page.response));
	page.nodes[0] = long_text(EXTERNAL_NODE_ID_MAX + 1);
	assert_bad(&page.call, &page.response, "ListVolumes", "published_node_id");
	page.nodes[0] = T("");
	page.snapshot.snapshot_id = long_text(EXTERNAL_ID_MAX + 1);
	assert_bad(&page.call, &page.response, "ListVolumes", "content source");
	page.snapshot.snapshot_id = T("snap-1");
	page.response.next_token = long_text(CONTROLLER_TOKEN_MAX);
	release(good_reply(&page.call, &page.response));
	page.response.next_token = long_text(CONTROLLER_TOKEN_MAX + 1);
	assert_bad(&page.call, &page.response, "ListVolumes", "next_token");
	page.response.next_token = T("");
	page.volume.capacity_bytes = -5;
	assert_bad(&page.call, &page.response, "ListVolumes", "capacity_bytes of -5");
	page.volume.capacity_bytes = 5;
	page.entry.volume = NULL;
	assert_bad(&page.call, &page.response, "ListVolumes", "without a volume");
	page.entry.volume = &page.volume;
	page.entry.status = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = &page.entry;
	page.response.entries = many;
	page.response.n_entries = CONTROLLER_ENTRIES_MAX;
	release(good_reply(&page.call, &page.response));
	page.response.n_entries++;
	assert_null(reply_to(&page.call, &page.response, &err));
	assert_int_equal(err.status, STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(err.msg, "--limit"));
	page.response.n_entries = CONTROLLER_ENTRIES_MAX; /* few enough, but long */
	page.volume.volume_id = long_text(EXTERNAL_ID_MAX);
	assert_null(reply_to(&page.call, &page.response, &err));
	assert_int_equal(err.status, STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(err.msg, "bytes"));
}

TEST(an_empty_page_is_one)
{
	Csi__V1__ListVolumesResponse volumes = CSI__V1__LIST_VOLUMES_RESPONSE__INIT;
	Csi__V1__ListSnapshotsResponse snapshots = CSI__V1__LIST_SNAPSHOTS_RESPONSE__INIT;
	Holdfast__V1__PluginCall call = a_call(CALL(LIST_VOLUMES));
	Holdfast__V1__PluginReply *reply = good_reply(&call, &volumes);

	assert_int_equal(reply->list_volumes->n_volumes, 0);
	release(reply);
	call = a_call(CALL(LIST_SNAPSHOTS));
	reply = good_reply(&call, &snapshots);
	assert_int_equal(reply->list_snapshots->n_snapshots, 0);
	release(reply);
}

TEST(snapshots_have_ids_sizes_and_times)
{
	static const struct {
		int64_t seconds;
		int32_t nanos;
		int64_t ms;
	} times[] = {
		{0, 0, 0},
		{1, 999999999, 1999},
		{-1, 0, 0},
		{1, -1, 0},
		{1, 1000000000, 0},
		{INT64_MAX, 0, 0},
		{INT64_MAX / 1000 - 1, 0, (INT64_MAX / 1000 - 1) * 1000},
	};
	Csi__V1__CreateSnapshotResponse response = CSI__V1__CREATE_SNAPSHOT_RESPONSE__INIT;
	Csi__V1__ListSnapshotsResponse listed = CSI__V1__LIST_SNAPSHOTS_RESPONSE__INIT;
	Csi__V1__ListSnapshotsResponse__Entry entry = CSI__V1__LIST_SNAPSHOTS_RESPONSE__ENTRY__INIT;
	Csi__V1__ListSnapshotsResponse__Entry *entries[] = {&entry};
	Csi__V1__Snapshot snapshot = CSI__V1__SNAPSHOT__INIT;
	Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
	Holdfast__V1__PluginCall call = a_call(CALL(CREATE_SNAPSHOT));
	Holdfast__V1__PluginReply *reply;

	assert_bad(&call, &response, "CreateSnapshot", "no snapshot");
	response.snapshot = entry.snapshot = &snapshot;
	assert_bad(&call, &response, "CreateSnapshot", "no snapshot_id");
	snapshot.snapshot_id = T("s");
	snapshot.source_volume_id = T("vol-1");
	snapshot.size_bytes = -1;
	assert_bad(&call, &response, "CreateSnapshot", "size_bytes");
	snapshot.size_bytes = 6;
	snapshot.ready_to_use = true;
	reply = good_reply(&call, &response);
	assert_int_equal(reply->create_snapshot->snapshot->create_time_ms, 0); /* absent */
	release(reply);
	snapshot.creation_time = &time;
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		time.seconds = times[i].seconds;
		time.nanos = times[i].nanos;
		reply = good_reply(&call, &response);
		assert_int_equal(reply->create_snapshot->snapshot->create_time_ms, times[i].ms);
		release(reply);
	}
	call = a_call(CALL(LIST_SNAPSHOTS));
	listed.entries = entries;
	listed.n_entries = 1;
	listed.next_token = T("t");
	reply = good_reply(&call, &listed);
	assert_int_equal(reply->list_snapshots->n_snapshots, 1);
	assert_string_equal(reply->list_snapshots->next_token, "t");
	assert_string_equal(reply->list_snapshots->snapshots[0]->snapshot_id, "s");
	assert_string_equal(reply->list_snapshots->snapshots[0]->external_source_id, "vol-1");
	assert_int_equal(reply->list_snapshots->snapshots[0]->size_bytes, 6);
	assert_true(reply->list_snapshots->snapshots[0]->ready);
	release(reply);
	snapshot.source_volume_id = long_text(EXTERNAL_ID_MAX + 1);
	assert_bad(&call, &listed, "ListSnapshots", "source_volume_id");
	entry.snapshot = NULL;
	assert_bad(&call, &listed, "ListSnapshots", "no snapshot");
}

TEST(only_a_detach_is_content_with_what_is_not_there)
{
	static const Holdfast__V1__PluginCall__RequestCase kinds[] = {
		CALL(ATTACH),	       CALL(DETACH),	     CALL(VALIDATE),	 CALL(CREATE),
		CALL(DELETE),	       CALL(EXPAND),	     CALL(LIST_VOLUMES), CALL(CREATE_SNAPSHOT),
		CALL(DELETE_SNAPSHOT), CALL(LIST_SNAPSHOTS), CALL(NODE_EXPAND),
	};
	const struct error gone = {.status = STATUS_NOT_FOUND, .msg = "no such volume"};
	const struct error busy = {.status = STATUS_FAILED_PRECONDITION, .msg = "busy"};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		Holdfast__V1__PluginCall call = a_call(kinds[i]);
		struct controller_reply reply;

		assert_int_equal(controller_reply_fail(&call, &gone, &reply), kinds[i] == CALL(DETACH));
		assert_int_equal(reply.pb.code, kinds[i] == CALL(DETACH) ? 0 : STATUS_NOT_FOUND);
		assert_int_equal(reply.pb.call_id, 9);
		if (kinds[i] == CALL(DETACH)) {
			assert_true(reply.pb.detach->not_found);
			assert_string_equal(reply.pb.detach->message, "no such volume");
		}
		controller_reply_release(&reply);
		assert_false(controller_reply_fail(&call, &busy, &reply));
		assert_int_equal(reply.pb.code, STATUS_FAILED_PRECONDITION);
		assert_string_equal(reply.pb.message, "busy");
		assert_int_equal(reply.pb.response_case, HOLDFAST__V1__PLUGIN_REPLY__RESPONSE__NOT_SET);
		controller_reply_release(&reply);
	}
}
