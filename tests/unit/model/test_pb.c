/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"
#include "same_alloc.h"

#include "model/pb.h"

/* A claim with every field different from its default, so that a lost field is seen. */
static struct claim full_claim(void)
{
	struct claim c = a_claim(CLAIM_NODE_DETACHED);

	c.propagation = PROPAGATION_HOST_TO_TASK;
	c.evidence = EVIDENCE_OPERATOR;
	(void)str_copy(c.evidence_detail, sizeof(c.evidence_detail), "ann: gone");
	(void)str_copy(c.last_error, sizeof(c.last_error), "busy");
	c.attempts = 7;
	c.modify_time_ms = -2;
	c.create_index = UINT64_MAX;
	c.modify_index = 12;
	return c;
}

/* Through the bytes, as the store and the wire do. */
TEST(a_claim_survives_the_wire_whole)
{
	struct claim before = full_claim();
	struct claim after;
	Holdfast__V1__Claim *pb = NON_NULL(claim_to_pb(&before));
	Holdfast__V1__Claim *back;
	uint8_t bytes[4096];
	size_t n;

	n = protobuf_c_message_pack(&pb->base, bytes);
	assert_true(n < sizeof(bytes));
	back = NON_NULL(holdfast__v1__claim__unpack(NULL, n, bytes));
	assert_int_equal(claim_from_pb(back, &after, NULL), STATUS_OK);
	assert_memory_equal(&before, &after, sizeof(before));
	protobuf_c_message_free_unpacked(&pb->base, NULL);
	protobuf_c_message_free_unpacked(&back->base, NULL);
}

TEST(volume_alloc_and_node_come_back_as_they_went)
{
	struct volume v = a_volume();
	struct volume v2;
	struct csi_plugin plugins[] = {
		{.id = "ebs", .type = CSI_PLUGIN_MONOLITH, .health_timeout_ms = 7, .socket = "x.sock"},
		{.id = "nfs", .type = CSI_PLUGIN_NODE, .socket = "n.sock"},
	};
	struct alloc a = an_alloc(ALLOC_1, "n1");
	struct alloc a2;
	struct node n = a_node("n1");
	struct node n2;
	Holdfast__V1__Volume *vp;
	Holdfast__V1__Allocation *ap;
	Holdfast__V1__Node *np;
	struct plugin_instance i1 = {.node_id = "n1", .plugin = a_node_plugin()};
	struct plugin_instance i2;
	Holdfast__V1__PluginInstance *ip;

	/* every field, whether they make sense together or not */
	v.source = (struct source){.class = SOURCE_BIND,
				   .by_id = "b",
				   .size_bytes = 1,
				   .inodes = 2,
				   .server = "192.0.2.7",
				   .export = "/e",
				   .host_volume = "h"};
	v.n_capabilities = VOLUME_CAPABILITIES_MAX;
	for (uint32_t i = 0; i < v.n_capabilities; i++)
		v.capabilities[i] = (struct capability){MULTI_NODE_MULTI_WRITER, ATTACHMENT_BLOCK_DEVICE};
	a.client_description = "it runs";
	a.unit = "db.service";
	a.stop_timeout_ms = 11;
	(void)str_copy(a.job_id, sizeof(a.job_id), "web");
	(void)str_copy(a.job_group, sizeof(a.job_group), "one");
	a.job_index = 3;
	a.job_version = 4;
	a.running_time_ms = 5;
	a.end_time_ms = 6;
	a.healthy_time_ms = 8;
	a.unhealthy_time_ms = 9;
	a.wait_until_ms = 7;
	a.mount_timeout_ms = 12;
	a.n_published = 1;
	(void)str_copy(a.published[0].path, sizeof(a.published[0].path), "/x/y");
	a.published[0].is_device = true;
	a.plugins = plugins;
	a.n_plugins = ARRAY_SIZE(plugins);
	n.n_past_boots = 1;
	n.past_boots[0] = (struct past_boot){.id = BOOT_1, .ended_ms = 5};
	n.drain = (struct drain){.started_ms = 1, .deadline_ms = 2, .done_ms = 3, .by = "me", .reason = "r"};
	i1.plugin.node.topology.n_segments = 1;
	i1.plugin.node.topology.segments[0] = (struct topology_segment){.key = "zone", .value = "a"};
	i1.plugin.has_controller = true;
	i1.plugin.controller.expand = true;
	ip = plugin_instance_to_pb(&i1);
	assert_int_equal(plugin_instance_from_pb(ip, &i2, NULL), STATUS_OK);
	assert_memory_equal(&i1, &i2, sizeof(i1));
	protobuf_c_message_free_unpacked(&ip->base, NULL);
	i1.plugin.has_node = i1.plugin.has_controller = false;
	i1.plugin.node = (struct node_half){0};
	i1.plugin.controller = (struct controller_half){0};
	ip = plugin_instance_to_pb(&i1);
	assert_null(ip->plugin->controller);
	assert_null(ip->plugin->node);
	assert_int_equal(plugin_instance_from_pb(ip, &i2, NULL), STATUS_OK);
	assert_memory_equal(&i1, &i2, sizeof(i1));
	protobuf_c_message_free_unpacked(&ip->base, NULL);
	vp = volume_to_pb(&v);
	ap = alloc_to_pb(&a);
	np = node_to_pb(&n);
	assert_int_equal(volume_from_pb(vp, &v2, NULL), STATUS_OK);
	assert_int_equal(alloc_from_pb(ap, &a2, NULL), STATUS_OK);
	assert_int_equal(node_from_pb(np, &n2, NULL), STATUS_OK);
	assert_memory_equal(&v, &v2, sizeof(v));
	assert_true(is_same_alloc(&a, &a2));
	alloc_release(&a2);
	assert_memory_equal(&n, &n2, sizeof(n));
	protobuf_c_message_free_unpacked(&vp->base, NULL);
	protobuf_c_message_free_unpacked(&ap->base, NULL);
	protobuf_c_message_free_unpacked(&np->base, NULL);
}

TEST(an_allocation_without_a_network_reports_nothing_of_one)
{
	struct alloc a = an_alloc(ALLOC_1, "n1");
	Holdfast__V1__Allocation *copied = alloc_to_pb(&a), *borrowing = alloc_borrow_pb(&a);

	assert_null(copied->network);
	assert_null(borrowing->network);
	protobuf_c_message_free_unpacked(&copied->base, NULL);
	pb_free_borrowing(&borrowing->base);
}

static void assert_same_bytes(ProtobufCMessage *copied, ProtobufCMessage *borrowing)
{
	size_t n = protobuf_c_message_get_packed_size(copied);
	uint8_t *bytes[2] = {malloc(n + 1), malloc(n + 1)};

	assert_int_equal(protobuf_c_message_get_packed_size(borrowing), n);
	(void)protobuf_c_message_pack(copied, bytes[0]);
	(void)protobuf_c_message_pack(borrowing, bytes[1]);
	assert_memory_equal(bytes[0], bytes[1], n);
	free(bytes[0]);
	free(bytes[1]);
	protobuf_c_message_free_unpacked(copied, NULL);
	pb_free_borrowing(borrowing);
}

TEST(a_message_that_borrows_leaves_constraints_to_their_allocation)
{
	Holdfast__V1__Constraint constraint = HOLDFAST__V1__CONSTRAINT__INIT;
	ProtobufCMessage *list[] = {&constraint.base};
	struct alloc a = an_alloc(ALLOC_1, "n1");

	assert_true(message_list_new(list, 1, &a.constraints));
	pb_free_borrowing(&alloc_borrow_pb(&a)->base);
	assert_ptr_equal(a.constraints->messages[0]->descriptor, constraint.base.descriptor);
	assert_same_bytes(&alloc_to_pb(&a)->base, &alloc_borrow_pb(&a)->base);
	message_list_unref(a.constraints);
}

TEST(a_message_that_borrows_says_the_same_as_a_copy)
{
	struct volume v = a_volume();
	struct alloc a = an_alloc(ALLOC_1, "n1");
	struct node n = a_node("n1");
	struct plugin_instance i = {.node_id = "n1", .plugin = a_node_plugin()};

	v.n_capabilities = VOLUME_CAPABILITIES_MAX;
	i.plugin.node.topology.n_segments = 1;
	i.plugin.node.topology.segments[0] = (struct topology_segment){.key = "zone", .value = "a"};
	i.plugin.has_node = true;
	assert_same_bytes(&volume_to_pb(&v)->base, &volume_borrow_pb(&v)->base);
	assert_same_bytes(&alloc_to_pb(&a)->base, &alloc_borrow_pb(&a)->base);
	assert_same_bytes(&node_to_pb(&n)->base, &node_borrow_pb(&n)->base);
	assert_same_bytes(&plugin_instance_to_pb(&i)->base, &plugin_instance_borrow_pb(&i)->base);
	pb_free_borrowing(NULL);
}

TEST(text_one_byte_too_long_is_refused_by_name)
{
	char text[VOLUME_ID_MAX + 2];
	Holdfast__V1__Volume pb = V1(volume, .id = text);
	struct volume v = {.id = "untouched"};
	struct error err;

	memset(text, 'a', sizeof(text));
	text[VOLUME_ID_MAX] = '\0';
	assert_int_equal(volume_from_pb(&pb, &v, NULL), STATUS_OK);
	assert_int_equal(strlen(v.id), VOLUME_ID_MAX);
	text[VOLUME_ID_MAX] = 'a';
	text[VOLUME_ID_MAX + 1] = '\0';
	(void)str_copy(v.id, sizeof(v.id), "untouched");
	assert_error(volume_from_pb(&pb, &v, &err), STATUS_INVALID_ARGUMENT, err, "id");
	assert_string_equal(v.id, "untouched");
}

TEST(names_are_refused_and_texts_cleaned_when_they_are_not_printable)
{
	Holdfast__V1__Volume pb = V1(volume, .name = "db\x1b[2J");
	Holdfast__V1__NodePlugin plugin = V1(node_plugin, .health_description = "bad\xff news");
	struct node_plugin got = {0};
	struct volume v = {0};
	struct error err;

	assert_error(volume_from_pb(&pb, &v, &err), STATUS_INVALID_ARGUMENT, err, "name");
	assert_int_equal(node_plugin_from_pb(&plugin, &got, NULL), STATUS_OK);
	assert_string_equal(got.health_description, "bad? news");
}

TEST(values_outside_an_enum_are_refused_with_their_path)
{
	Holdfast__V1__Capability good = HOLDFAST__V1__CAPABILITY__INIT;
	Holdfast__V1__Capability bad = HOLDFAST__V1__CAPABILITY__INIT;
	Holdfast__V1__Capability *list[] = {&good, &bad};
	Holdfast__V1__Volume pb = V1(volume, .requested_capabilities = list, .n_requested_capabilities = 2);
	static const int wrong[] = {-1, ACCESS_MODE_N, INT32_MAX};
	struct volume v;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		memcpy(&bad.access_mode, &wrong[i], sizeof(int));
		assert_error(volume_from_pb(&pb, &v, &err), STATUS_INVALID_ARGUMENT, err,
			     "requested_capabilities[1]: access_mode");
	}
}

TEST(one_entry_too_many_is_refused)
{
	Holdfast__V1__Capability one = HOLDFAST__V1__CAPABILITY__INIT;
	Holdfast__V1__Capability *list[VOLUME_CAPABILITIES_MAX + 1];
	Holdfast__V1__Volume pb = HOLDFAST__V1__VOLUME__INIT;
	struct volume v;

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		list[i] = &one;
	pb.requested_capabilities = list;
	pb.n_requested_capabilities = VOLUME_CAPABILITIES_MAX;
	assert_int_equal(volume_from_pb(&pb, &v, NULL), STATUS_OK);
	pb.n_requested_capabilities++;
	assert_int_equal(volume_from_pb(&pb, &v, NULL), STATUS_INVALID_ARGUMENT);
}

TEST(one_volume_too_many_or_a_bad_one_leaves_an_allocation_as_it_was)
{
	Holdfast__V1__VolumeRequest good = HOLDFAST__V1__VOLUME_REQUEST__INIT;
	Holdfast__V1__VolumeRequest bad = HOLDFAST__V1__VOLUME_REQUEST__INIT;
	Holdfast__V1__VolumeRequest *list[ALLOC_VOLUMES_MAX + 1];
	Holdfast__V1__Allocation pb = HOLDFAST__V1__ALLOCATION__INIT;
	cleanup(alloc_release) struct alloc a = {.id = "untouched"};
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		list[i] = &good;
	pb.volumes = list;
	pb.n_volumes = ALLOC_VOLUMES_MAX + 1;
	assert_error(alloc_from_pb(&pb, &a, &err), STATUS_INVALID_ARGUMENT, err, "volumes: 17 entries");
	bad.access_mode = (Holdfast__V1__AccessMode)ACCESS_MODE_N;
	list[1] = &bad;
	pb.n_volumes = ALLOC_VOLUMES_MAX;
	assert_error(alloc_from_pb(&pb, &a, &err), STATUS_INVALID_ARGUMENT, err, "volumes[1]: access_mode");
	assert_string_equal(a.id, "untouched");
	assert_null(a.volumes);
	list[1] = &good;
	assert_int_equal(alloc_from_pb(&pb, &a, NULL), STATUS_OK);
	assert_int_equal(a.n_volumes, ALLOC_VOLUMES_MAX);
}

TEST(a_description_is_cleaned_and_cut_where_it_is_too_long)
{
	char text[ALLOC_DESCRIPTION_MAX + 2];
	Holdfast__V1__Allocation pb = V1(allocation, .client_description = text);
	struct alloc a;

	memset(text, 'a', sizeof(text));
	text[0] = '\x1b';
	text[sizeof(text) - 1] = '\0';
	for (size_t n = sizeof(text) - 1; n >= ALLOC_DESCRIPTION_MAX - 1; n--) {
		text[n] = '\0';
		assert_int_equal(alloc_from_pb(&pb, &a, NULL), STATUS_OK);
		assert_int_equal(strlen(a.client_description),
				 n < ALLOC_DESCRIPTION_MAX ? n : ALLOC_DESCRIPTION_MAX);
		assert_int_equal(a.client_description[0], '?');
		alloc_release(&a);
	}
	text[0] = '\0';
	assert_int_equal(alloc_from_pb(&pb, &a, NULL), STATUS_OK);
	assert_null(a.client_description);
}
