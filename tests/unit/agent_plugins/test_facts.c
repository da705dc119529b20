/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin's answers make of its entry in the fingerprint. */

#include "unit.h"

#include "plugins/facts.h"

static struct node_plugin fresh(void)
{
	return (struct node_plugin){.plugin_id = "ebs"};
}

static char *text_of(size_t n)
{
	static char text[2048];

	assert_true(n < sizeof(text));
	memset(text, 'x', n);
	text[n] = '\0';
	return text;
}

static enum status take_info(struct node_plugin *facts, char *name, char *version, struct error *err)
{
	Csi__V1__GetPluginInfoResponse pb =
		PB(csi__v1__get_plugin_info_response, .name = name, .vendor_version = version);

	return facts_take_info(facts, &pb, err);
}

TEST(a_name_is_taken_whole_or_refused)
{
	struct {
		char *name;
		enum status status;
	} rows[] = {
		{(char[]){"ebs.csi.aws.com"}, STATUS_OK},
		{(char[]){""}, STATUS_INTERNAL},
		{(char[]){"two\nlines"}, STATUS_INTERNAL},
		{(char[]){"\xff"}, STATUS_INTERNAL},
	};
	struct node_plugin facts = fresh();
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		facts = fresh();
		assert_int_equal(take_info(&facts, rows[i].name, (char[]){"1"}, &err), rows[i].status);
		assert_string_equal(facts.provider, rows[i].status == STATUS_OK ? rows[i].name : "");
		if (rows[i].status != STATUS_OK) {
			assert_non_null(strstr(err.msg, "ebs"));
			assert_non_null(strstr(err.msg, "GetPluginInfo"));
		}
	}
	facts = fresh();
	assert_int_equal(take_info(&facts, text_of(NODE_TEXT_MAX), (char[]){""}, &err), STATUS_OK);
	assert_int_equal(strlen(facts.provider), NODE_TEXT_MAX);
	facts = fresh();
	assert_int_equal(take_info(&facts, text_of(NODE_TEXT_MAX + 1), (char[]){""}, &err), STATUS_INTERNAL);
	assert_string_equal(facts.provider, "");
}

TEST(a_version_is_for_people_and_may_be_cut)
{
	struct node_plugin facts = fresh();

	assert_int_equal(take_info(&facts, (char[]){"n"}, text_of(2000), NULL), STATUS_OK);
	assert_int_equal(strlen(facts.provider_version), NODE_TEXT_MAX);
	assert_int_equal(take_info(&facts, (char[]){"n"}, (char[]){"a\nb"}, NULL), STATUS_OK);
	assert_null(strchr(facts.provider_version, '\n'));
}

static void take_services(struct node_plugin *facts, const int *types, size_t n)
{
	Csi__V1__GetPluginCapabilitiesResponse pb = CSI__V1__GET_PLUGIN_CAPABILITIES_RESPONSE__INIT;
	Csi__V1__PluginCapability rows[8], *list[8];
	Csi__V1__PluginCapability__Service services[8];
	bool announced;

	for (size_t i = 0; i < n; i++) {
		csi__v1__plugin_capability__init(&rows[i]);
		csi__v1__plugin_capability__service__init(&services[i]);
		services[i].type = (Csi__V1__PluginCapability__Service__Type)types[i];
		rows[i].type_case = CSI__V1__PLUGIN_CAPABILITY__TYPE_SERVICE;
		rows[i].service = &services[i];
		list[i] = &rows[i];
	}
	/* one row without a type at all */
	csi__v1__plugin_capability__init(&rows[n]);
	list[n] = &rows[n];
	pb.capabilities = list;
	pb.n_capabilities = n + 1;
	announced = facts_take_services(facts, &pb);
	assert_int_equal(announced, facts->controller_required);
}

TEST(services_are_those_that_we_know)
{
	static const struct {
		int types[4];
		size_t n;
		bool controller, topology;
	} rows[] = {
		{{0}, 0, false, false},		 {{1}, 1, true, false},
		{{2}, 1, false, true},		 {{1, 2}, 2, true, true},
		{{1, 1, 1}, 3, true, false},	 {{0, 3, 4, 99}, 4, false, false},
		{{-1, 1, 99, 2}, 4, true, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node_plugin facts = fresh();

		take_services(&facts, rows[i].types, rows[i].n);
		assert_int_equal(facts.controller_required, rows[i].controller);
		assert_int_equal(facts.topology_required, rows[i].topology);
	}
}

static struct controller_half controller_of(const int *types, size_t n)
{
	Csi__V1__ControllerGetCapabilitiesResponse pb = CSI__V1__CONTROLLER_GET_CAPABILITIES_RESPONSE__INIT;
	Csi__V1__ControllerServiceCapability rows[32], *list[32];
	Csi__V1__ControllerServiceCapability__RPC rpcs[32];
	struct node_plugin facts = fresh();

	for (size_t i = 0; i < n; i++) {
		csi__v1__controller_service_capability__init(&rows[i]);
		csi__v1__controller_service_capability__rpc__init(&rpcs[i]);
		rpcs[i].type = (Csi__V1__ControllerServiceCapability__RPC__Type)types[i];
		rows[i].type_case = CSI__V1__CONTROLLER_SERVICE_CAPABILITY__TYPE_RPC;
		rows[i].rpc = &rpcs[i];
		list[i] = &rows[i];
	}
	csi__v1__controller_service_capability__init(&rows[n]);
	list[n] = &rows[n];
	pb.capabilities = list;
	pb.n_capabilities = n + 1;
	facts_take_controller(&facts, &pb);
	assert_true(facts.has_controller);
	return facts.controller;
}

/* Each number sets its own member and no other. */
TEST(each_controller_capability_is_its_own)
{
	static const size_t members[] =
		ROW([1] = offsetof(struct controller_half, create_delete),
		    [2] = offsetof(struct controller_half, attach_detach),
		    [3] = offsetof(struct controller_half, list_volumes),
		    [4] = offsetof(struct controller_half, get_capacity),
		    [5] = offsetof(struct controller_half, create_delete_snapshot),
		    [6] = offsetof(struct controller_half, list_snapshots),
		    [7] = offsetof(struct controller_half, clone),
		    [8] = offsetof(struct controller_half, readonly_attach),
		    [9] = offsetof(struct controller_half, expand),
		    [11] = offsetof(struct controller_half, condition),
		    [12] = offsetof(struct controller_half, get_volume),
		    [13] = offsetof(struct controller_half, single_node_multi_writer), [15] = 0);

	for (int number = -1; number < 40; number++) {
		struct controller_half expected = {.healthy = true}, half = controller_of(&number, 1);

		if (number > 0 && number < (int)ARRAY_SIZE(members) && members[number] != 0)
			*((bool *)((char *)&expected + members[number])) = true;
		assert_memory_equal(&half, &expected, sizeof(half));
	}
}

static struct node_half node_of(const int *types, size_t n)
{
	Csi__V1__NodeGetCapabilitiesResponse pb = CSI__V1__NODE_GET_CAPABILITIES_RESPONSE__INIT;
	Csi__V1__NodeServiceCapability rows[32], *list[32];
	Csi__V1__NodeServiceCapability__RPC rpcs[32];
	struct node_plugin facts = fresh();

	for (size_t i = 0; i < n; i++) {
		csi__v1__node_service_capability__init(&rows[i]);
		csi__v1__node_service_capability__rpc__init(&rpcs[i]);
		rpcs[i].type = (Csi__V1__NodeServiceCapability__RPC__Type)types[i];
		rows[i].type_case = CSI__V1__NODE_SERVICE_CAPABILITY__TYPE_RPC;
		rows[i].rpc = &rpcs[i];
		list[i] = &rows[i];
	}
	csi__v1__node_service_capability__init(&rows[n]);
	list[n] = &rows[n];
	pb.capabilities = list;
	pb.n_capabilities = n + 1;
	facts_take_node(&facts, &pb);
	assert_true(facts.has_node && facts.healthy);
	return facts.node;
}

TEST(each_node_capability_is_its_own)
{
	static const size_t members[] =
		ROW([1] = offsetof(struct node_half, stage), [2] = offsetof(struct node_half, stats),
		    [3] = offsetof(struct node_half, expand), [4] = offsetof(struct node_half, condition),
		    [5] = offsetof(struct node_half, single_node_multi_writer), [6] = 0);

	for (int number = -1; number < 40; number++) {
		struct node_half expected = {0}, half = node_of(&number, 1);

		if (number > 0 && number < (int)ARRAY_SIZE(members) && members[number] != 0)
			*((bool *)((char *)&expected + members[number])) = true;
		assert_memory_equal(&half, &expected, sizeof(half));
	}
}

TEST(a_node_id_is_taken_whole_or_refused)
{
	struct {
		char *id;
		enum status status;
	} rows[] = {
		{(char[]){"i-0abc"}, STATUS_OK},
		{(char[]){"ns/node#1 with blank"}, STATUS_OK},
		{(char[]){""}, STATUS_INTERNAL},
		{(char[]){"a\x01"}, STATUS_INTERNAL},
	};
	Csi__V1__NodeGetInfoResponse pb = CSI__V1__NODE_GET_INFO_RESPONSE__INIT;
	struct node_plugin facts;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		facts = fresh();
		pb.node_id = rows[i].id;
		assert_int_equal(facts_take_node_info(&facts, &pb, &err), rows[i].status);
		if (rows[i].status != STATUS_OK)
			assert_non_null(strstr(err.msg, "NodeGetInfo"));
		else
			assert_string_equal(facts.node.provider_node_id, rows[i].id);
	}
	pb.node_id = text_of(EXTERNAL_NODE_ID_MAX);
	facts = fresh();
	assert_int_equal(facts_take_node_info(&facts, &pb, &err), STATUS_OK);
	pb.node_id = text_of(EXTERNAL_NODE_ID_MAX + 1);
	facts = fresh();
	assert_int_equal(facts_take_node_info(&facts, &pb, &err), STATUS_INTERNAL);
	assert_string_equal(facts.node.provider_node_id, "");
}

TEST(a_nonpositive_limit_means_no_limit)
{
	static const struct {
		int64_t said, taken;
	} rows[] = {{0, 0}, {-1, 0}, {INT64_MIN, 0}, {1, 1}, {INT64_MAX, INT64_MAX}};
	Csi__V1__NodeGetInfoResponse pb = PB(csi__v1__node_get_info_response, .node_id = "n");

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node_plugin facts = fresh();

		pb.max_volumes_per_node = rows[i].said;
		assert_int_equal(facts_take_node_info(&facts, &pb, NULL), STATUS_OK);
		assert_int_equal(facts.node.max_volumes, rows[i].taken);
	}
}

static enum status take_segment(struct node_plugin *facts, char *key, char *value)
{
	Csi__V1__NodeGetInfoResponse pb = CSI__V1__NODE_GET_INFO_RESPONSE__INIT;
	Csi__V1__Topology topology = CSI__V1__TOPOLOGY__INIT;
	Csi__V1__Topology__SegmentsEntry segment = CSI__V1__TOPOLOGY__SEGMENTS_ENTRY__INIT;
	Csi__V1__Topology__SegmentsEntry *list[] = {&segment};

	segment.key = key;
	segment.value = value;
	topology.segments = list;
	topology.n_segments = 1;
	pb.node_id = (char[]){"n"};
	pb.accessible_topology = &topology;
	return facts_take_node_info(facts, &pb, NULL);
}

static enum status take_segments(struct node_plugin *facts, size_t n, size_t length)
{
	Csi__V1__NodeGetInfoResponse pb = CSI__V1__NODE_GET_INFO_RESPONSE__INIT;
	Csi__V1__Topology topology = CSI__V1__TOPOLOGY__INIT;
	Csi__V1__Topology__SegmentsEntry rows[16], *list[16];
	char keys[16][8];

	for (size_t i = 0; i < n; i++) {
		csi__v1__topology__segments_entry__init(&rows[i]);
		(void)str_format(keys[i], sizeof(keys[i]), "k%zu", i);
		rows[i].key = keys[i];
		rows[i].value = text_of(length);
		list[i] = &rows[i];
	}
	topology.segments = list;
	topology.n_segments = n;
	pb.node_id = (char[]){"n"};
	pb.accessible_topology = &topology;
	return facts_take_node_info(facts, &pb, NULL);
}

TEST(a_topology_that_does_not_fit_is_refused)
{
	struct node_plugin facts = fresh();

	assert_int_equal(take_segments(&facts, TOPOLOGY_SEGMENTS_MAX, TOPOLOGY_TEXT_MAX), STATUS_OK);
	assert_int_equal(facts.node.topology.n_segments, TOPOLOGY_SEGMENTS_MAX);
	assert_int_equal(take_segments(&facts, TOPOLOGY_SEGMENTS_MAX + 1, 1), STATUS_INTERNAL);
	assert_int_equal(take_segments(&facts, 1, TOPOLOGY_TEXT_MAX + 1), STATUS_INTERNAL);
}

/* The server would refuse all that the node reports, and the journal could not be read again. */
TEST(a_topology_that_is_no_text_is_refused)
{
	struct node_plugin facts = fresh();

	assert_int_equal(take_segment(&facts, (char[]){"zone"}, (char[]){"eu-1"}), STATUS_OK);
	assert_int_equal(take_segment(&facts, (char[]){"zone"}, (char[]){"eu-1\n"}), STATUS_INTERNAL);
	assert_int_equal(take_segment(&facts, (char[]){"zone\xff"}, (char[]){"eu-1"}), STATUS_INTERNAL);
	assert_int_equal(facts.node.topology.n_segments, 1);
}

TEST(ready_that_is_absent_means_ready)
{
	Csi__V1__ProbeResponse pb = CSI__V1__PROBE_RESPONSE__INIT;
	Google__Protobuf__BoolValue value = GOOGLE__PROTOBUF__BOOL_VALUE__INIT;

	assert_true(facts_is_ready(&pb));
	pb.ready = &value;
	assert_false(facts_is_ready(&pb));
	value.value = true;
	assert_true(facts_is_ready(&pb));
}

TEST(a_plugin_must_have_the_services_of_its_allocation)
{
	for (unsigned int bits = 0; bits < 32; bits++) {
		const struct facts_wanted wanted = {
			.is_stated = bits & 1, .has_controller = bits & 2, .has_node = bits & 4};
		struct node_plugin facts = fresh();
		bool is_right;

		facts.has_controller = bits & 8;
		facts.has_node = bits & 16;
		is_right = facts.has_controller || facts.has_node;
		if (wanted.is_stated)
			is_right = is_right && (!wanted.has_controller || facts.has_controller) &&
				   (!wanted.has_node || facts.has_node);
		assert_int_equal(facts_check(&facts, &wanted, NULL),
				 is_right ? STATUS_OK : STATUS_FAILED_PRECONDITION);
	}
}

static struct node_plugin whole(const char *provider, const char *node_id)
{
	struct node_plugin facts = fresh();

	(void)str_copy(facts.provider, sizeof(facts.provider), provider);
	facts.has_controller = facts.controller.healthy = facts.controller.expand = true;
	facts.has_node = facts.healthy = facts.node.stage = true;
	(void)str_copy(facts.node.provider_node_id, sizeof(facts.node.provider_node_id), node_id);
	return facts;
}

TEST(facts_are_kept_while_no_instance_serves_them)
{
	const struct facts_halves nobody = {
		.keeps_node = true, .keeps_controller = true, .reason = "it is gone"};
	struct node_plugin before = whole("p", "n1"), merged;

	facts_merge(&before, &nobody, &merged);
	assert_true(facts_eq_lasting(&before, &merged));
	assert_false(facts_eq(&before, &merged));
	assert_false(merged.healthy || merged.controller.healthy);
	assert_string_equal(merged.health_description, "it is gone");
	assert_string_equal(merged.controller.health_description, "it is gone");
	assert_string_equal(merged.node.provider_node_id, "n1");
}

/* It names plugin, socket and call before it comes to the point. */
TEST(a_long_reason_is_cut_at_its_end)
{
	struct facts_halves nobody = {.keeps_node = true, .keeps_controller = true};
	struct node_plugin before = whole("p", "n1"), merged;

	for (size_t n = NODE_HEALTH_MAX - 1; n <= NODE_HEALTH_MAX + 1; n++) {
		size_t kept = n < NODE_HEALTH_MAX ? n : NODE_HEALTH_MAX;

		nobody.reason = text_of(n);
		facts_merge(&before, &nobody, &merged);
		assert_int_equal(strlen(merged.health_description), kept);
		assert_int_equal(strlen(merged.controller.health_description), kept);
	}
}

TEST(a_half_that_is_known_to_be_gone_is_not_kept)
{
	struct node_plugin before = whole("p", "n1"), node = whole("p", "n1"), merged;
	const struct facts_halves halves = {.node = &node, .keeps_node = true, .reason = "no"};

	facts_merge(&before, &halves, &merged);
	assert_true(merged.has_node && merged.healthy);
	assert_false(merged.has_controller || merged.controller.healthy || merged.controller.expand);
	assert_string_equal(merged.health_description, "");
}

TEST(halves_of_two_instances_make_one_entry)
{
	struct node_plugin before = fresh(), node = whole("node", "n2"), controller = whole("ctl", "n3"),
			   merged;
	const struct facts_halves halves = {.node = &node, .controller = &controller, .reason = "no"};

	node.has_controller = false;
	controller.has_node = false;
	facts_merge(&before, &halves, &merged);
	assert_true(merged.healthy && merged.controller.healthy && merged.controller.expand);
	assert_string_equal(merged.provider, "node");
	assert_string_equal(merged.node.provider_node_id, "n2");
}

/* The drivers of Dell announce their controller, and its topology, only in the process that serves it. */
TEST(a_controller_in_another_process_announces_for_both_halves)
{
	const struct node_plugin node = {.plugin_id = "p", .has_node = true, .healthy = true};
	const struct node_plugin controller = {.plugin_id = "p",
					       .has_controller = true,
					       .controller_required = true,
					       .topology_required = true,
					       .controller = {.healthy = true, .attach_detach = true}};
	const struct node_plugin plain = {.plugin_id = "p", .has_controller = true};
	struct node_plugin before = {.plugin_id = "p"}, merged;

	facts_merge(&before, &(struct facts_halves){.node = &node, .controller = &controller, .reason = ""},
		    &merged);
	assert_true(merged.controller_required && merged.topology_required);
	before = merged; /* each half fails for a while */
	facts_merge(&before, &(struct facts_halves){.node = &node, .keeps_controller = true, .reason = ""},
		    &merged);
	assert_true(merged.has_controller && merged.controller_required && merged.topology_required);
	facts_merge(&before, &(struct facts_halves){.controller = &plain, .keeps_node = true, .reason = ""},
		    &merged);
	assert_true(merged.has_node && merged.controller_required && merged.topology_required);
	/* the controller has gone, or announces it no longer */
	facts_merge(&before, &(struct facts_halves){.node = &node, .reason = ""}, &merged);
	assert_false(merged.has_controller || merged.controller_required || merged.topology_required);
	facts_merge(&before, &(struct facts_halves){.node = &node, .controller = &plain, .reason = ""},
		    &merged);
	assert_false(merged.controller_required || merged.topology_required);
}

TEST(a_controller_alone_makes_a_healthy_entry)
{
	struct node_plugin before = fresh(), controller = whole("ctl", ""), merged;
	const struct facts_halves halves = {.controller = &controller, .reason = "no"};

	facts_merge(&before, &halves, &merged);
	assert_true(merged.healthy && !merged.has_node && merged.controller.healthy);
	assert_string_equal(merged.health_description, "");
}
