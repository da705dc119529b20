/* SPDX-License-Identifier: Apache-2.0 */
/* What plugins come to from what nodes say, and what a volume then says about itself. */

#include "asks.h"
#include "unit.h"

#include "plugin/plugins.h"

#include <holdfast/v1/allocations.pb-c.h>

#define EBS "ebs"

/* A CSI plugin as a node reports it. */
struct csi {
	Holdfast__V1__NodePlugin plugin;
	Holdfast__V1__NodeHalf node;
	Holdfast__V1__ControllerHalf controller;
	char id[32], provider[32], version[32], alloc[UUID_TEXT_SIZE];
};

static Holdfast__V1__NodePlugin *csi(struct csi *csi, const char *id, bool healthy, bool has_controller)
{
	*csi = (struct csi)ROW(.plugin = HOLDFAST__V1__NODE_PLUGIN__INIT,
			       .node = HOLDFAST__V1__NODE_HALF__INIT,
			       .controller = HOLDFAST__V1__CONTROLLER_HALF__INIT,
			       .provider = "ebs.csi.example", .version = "1.2");
	(void)str_copy(csi->id, sizeof(csi->id), id);
	csi->plugin.plugin_id = csi->id;
	csi->plugin.provider = csi->provider;
	csi->plugin.provider_version = csi->version;
	csi->plugin.allocation_id = csi->alloc;
	csi->plugin.healthy = csi->controller.healthy = healthy;
	csi->plugin.node = &csi->node;
	csi->plugin.controller_required = has_controller;
	csi->plugin.controller = has_controller ? &csi->controller : NULL;
	return &csi->plugin;
}

static void offer(struct fake_node *node, Holdfast__V1__NodePlugin **plugins, size_t n)
{
	node->plugins = plugins;
	node->n_plugins = n;
}

struct counts {
	uint32_t nodes_healthy, nodes_expected, controllers_healthy, controllers_expected;
	bool schedulable;
};

static void assert_counts(struct fixture *f, const char *id, struct counts wanted)
{
	cleanup_pb Holdfast__V1__GetPluginResponse *response = NON_NULL(get_plugin(f, id, NULL));

	assert_int_equal(response->plugin->nodes_healthy, wanted.nodes_healthy);
	assert_int_equal(response->plugin->nodes_expected, wanted.nodes_expected);
	assert_int_equal(response->plugin->controllers_healthy, wanted.controllers_healthy);
	assert_int_equal(response->plugin->controllers_expected, wanted.controllers_expected);
	assert_int_equal(response->plugin->schedulable, wanted.schedulable);
	assert_int_equal(response->plugin->unschedulable_reason[0] == '\0', wanted.schedulable);
}

CLUSTER_TEST(counts_follow_sessions_and_are_right_after_a_restart)
{
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_counts(f, "native", (struct counts){2, 2, 0, 0, true});
	lose(f, &f->n2);
	assert_counts(f, "native", (struct counts){1, 2, 0, 0, true});
	for (int i = 0; i < 3; i++) {
		restart(f);
		assert_counts(f, "native", (struct counts){0, 2, 0, 0, false});
		fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
		assert_counts(f, "native", (struct counts){1, 2, 0, 0, true});
	}
	fake_node_connect(&f->n2, "n2", BOOT_2, NULL, 0);
	assert_counts(f, "native", (struct counts){2, 2, 0, 0, true});
}

CLUSTER_TEST(a_node_counts_once_whatever_profiles_it_has)
{
	Holdfast__V1__NodePlugin a = HOLDFAST__V1__NODE_PLUGIN__INIT;
	Holdfast__V1__NodePlugin b = HOLDFAST__V1__NODE_PLUGIN__INIT;
	Holdfast__V1__NodePlugin *both[] = {&a, &b};
	struct plugin_summary summary;
	struct volume volume = {.type = VOLUME_NATIVE, .plugin_id = "native", .profile = "disk"};

	a.plugin_id = b.plugin_id = "native";
	a.profile = "disk";
	b.profile = "nfs";
	a.healthy = true;
	offer(&f->n1, both, 2);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_counts(f, "native", (struct counts){1, 1, 0, 0, true});
	plugin_summarize(state_plugin(&f->server->state, "native"), &volume, &summary);
	assert_int_equal(summary.nodes_healthy, 1);
	(void)str_copy(volume.profile, sizeof(volume.profile), "nfs");
	plugin_summarize(state_plugin(&f->server->state, "native"), &volume, &summary);
	assert_int_equal(summary.nodes_healthy, 0);
	assert_int_equal(summary.nodes_expected, 1);
	a.healthy = false;
	b.healthy = true;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	plugin_summarize(state_plugin(&f->server->state, "native"), &volume, &summary);
	assert_int_equal(summary.nodes_healthy, 1);
	assert_counts(f, "native", (struct counts){1, 1, 0, 0, true});
}

CLUSTER_TEST(a_plugin_that_needs_a_controller_is_schedulable_with_a_healthy_one)
{
	cleanup_pb Holdfast__V1__GetPluginResponse *response = NULL;
	struct csi one, two;
	Holdfast__V1__NodePlugin *on1[] = {csi(&one, EBS, true, true)};
	Holdfast__V1__NodePlugin *on2[] = {csi(&two, EBS, true, false)};

	offer(&f->n1, on1, 1);
	offer(&f->n2, on2, 1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_counts(f, EBS, (struct counts){2, 2, 1, 1, true});
	one.controller.healthy = false;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_counts(f, EBS, (struct counts){2, 2, 0, 1, false});
	response = get_plugin(f, EBS, NULL);
	assert_non_null(strstr(response->plugin->unschedulable_reason, "controller"));
	assert_string_equal(response->plugin->provider, "ebs.csi.example");
	assert_string_equal(response->plugin->provider_version, "1.2");
	assert_int_equal(response->plugin->n_instances, 2);
	assert_true(response->plugin->controller_required);
	lose(f, &f->n2);
	assert_counts(f, EBS, (struct counts){1, 2, 0, 1, false});
}

/* An instance of a node that is away is as its node reported it last, which says nothing now. */
CLUSTER_TEST(an_instance_of_a_disconnected_node_is_not_healthy_and_names_its_node)
{
	cleanup_pb Holdfast__V1__GetPluginResponse *response = NULL;
	struct csi one, two;
	Holdfast__V1__NodePlugin *on1[] = {csi(&one, EBS, true, true)};
	Holdfast__V1__NodePlugin *on2[] = {csi(&two, EBS, true, false)};

	offer(&f->n1, on1, 1);
	offer(&f->n2, on2, 1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	lose(f, &f->n1);
	response = get_plugin(f, EBS, NULL);
	assert_string_equal(response->plugin->unschedulable_reason,
			    "no connected node runs a healthy controller of plugin ebs; see holdfast node "
			    "status n1");
	for (size_t i = 0; i < response->plugin->n_instances; i++) {
		const Holdfast__V1__PluginInstance *instance = response->plugin->instances[i];
		bool is_away = str_eq(instance->node_id, "n1");
		const char *why = is_away ? "it is not connected; see holdfast node status n1" : "";

		assert_int_equal(instance->plugin->healthy, !is_away);
		assert_string_equal(instance->plugin->health_description, why);
		if (!instance->plugin->controller)
			continue;
		assert_true(is_away);
		assert_false(instance->plugin->controller->healthy);
		assert_string_equal(instance->plugin->controller->health_description, why);
	}
	assert_int_equal(response->plugin->n_instances, 2);
	lose(f, &f->n2);
	holdfast__v1__get_plugin_response__free_unpacked(response, NULL);
	response = get_plugin(f, EBS, NULL);
	assert_string_equal(response->plugin->unschedulable_reason,
			    "no connected node offers plugin ebs in good health; see holdfast node status "
			    "n1");
}

CLUSTER_TEST(a_plugin_does_not_begin_sick)
{
	struct error err;
	struct csi one, two;
	Holdfast__V1__NodePlugin *on1[] = {csi(&one, EBS, false, false)};
	Holdfast__V1__NodePlugin *on2[] = {csi(&two, EBS, false, false)};

	offer(&f->n1, on1, 1);
	offer(&f->n2, on2, 1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_null(get_plugin(f, EBS, &err));
	assert_int_equal(err.status, STATUS_NOT_FOUND);
	one.plugin.healthy = true;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_counts(f, EBS, (struct counts){1, 1, 0, 0, true});
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0); /* it is known by now: counted, not healthy */
	assert_counts(f, EBS, (struct counts){1, 2, 0, 0, true});
	one.plugin.healthy = false;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_counts(f, EBS, (struct counts){0, 2, 0, 0, false});
	offer(&f->n1, on1, 0); /* shut down: gone, and its last words do not bring it back */
	offer(&f->n2, on2, 0);
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	offer(&f->n1, on1, 1);
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_null(get_plugin(f, EBS, NULL));
}

/* Nomad's D11: what one instance does is nothing to the others. */
CLUSTER_TEST(an_instance_that_goes_leaves_the_others)
{
	struct csi one, two, other;
	Holdfast__V1__NodePlugin *on1[] = {csi(&one, EBS, true, true), csi(&other, "nfs", true, false)};
	Holdfast__V1__NodePlugin *on2[] = {csi(&two, EBS, true, true)};

	offer(&f->n1, on1, 2);
	offer(&f->n2, on2, 1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	offer(&f->n1, on1, 1); /* nfs is gone */
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_null(get_plugin(f, "nfs", NULL));
	assert_counts(f, EBS, (struct counts){2, 2, 2, 2, true});
	offer(&f->n2, on2, 0);
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	assert_counts(f, EBS, (struct counts){1, 1, 1, 1, true});
}

/* Nomad's D13: a missing one does not end the list. */
TEST_FIXTURE(allocations_that_are_gone_are_left_out_one_by_one, setup, teardown)
{
	struct fixture *f = *state;
	Holdfast__V1__GetPluginResponse *response;
	struct csi one, two;
	Holdfast__V1__NodePlugin *on1[] = {csi(&one, EBS, true, false)};
	Holdfast__V1__NodePlugin *on2[] = {csi(&two, EBS, true, false)};

	for (int i = 0; i < 2; i++) {
		take_volume(f);
		lose(f, &f->n1);
		lose(f, &f->n2);
		(void)str_copy(one.alloc, sizeof(one.alloc), i == 0 ? ALLOC_1 : ALLOC_2);
		(void)str_copy(two.alloc, sizeof(two.alloc), i == 0 ? ALLOC_2 : ALLOC_1);
		offer(&f->n1, on1, 1);
		offer(&f->n2, on2, 1);
		fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
		fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
		response = get_plugin(f, EBS, NULL);
		assert_int_equal(response->plugin->n_instances, 2);
		assert_int_equal(response->plugin->n_allocations, 1); /* the other one does not exist */
		assert_string_equal(response->plugin->allocations[0]->id, ALLOC_1);
		holdfast__v1__get_plugin_response__free_unpacked(response, NULL);
		if (i == 1)
			break;
		offer(&f->n1, NULL, 0);
		offer(&f->n2, NULL, 0);
		(void)teardown(state);
		(void)setup(state);
		f = *state;
	}
}

/* Run an allocation that runs plugins and nothing else: EBS, and @more unless it is NULL. */
static enum status run_plugins(struct fixture *f, const char *id, const char *node,
			       Holdfast__V1__CsiPluginType type, Holdfast__V1__CsiPlugin *more,
			       struct error *err)
{
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__V1__RunAllocationRequest request = V1(run_allocation_request, .allocation = &alloc);
	Holdfast__V1__CsiPlugin runs = HOLDFAST__V1__CSI_PLUGIN__INIT;
	char texts[4][UUID_TEXT_SIZE];

	(void)str_copy(texts[0], sizeof(texts[0]), id);
	(void)str_copy(texts[1], sizeof(texts[1]), node);
	(void)str_copy(texts[2], sizeof(texts[2]), "plugin");
	(void)str_copy(texts[3], sizeof(texts[3]), EBS);
	alloc.id = texts[0];
	alloc.node_id = texts[1];
	alloc.name = texts[2];
	runs.id = texts[3];
	runs.type = type;
	alloc.csi_plugins = (Holdfast__V1__CsiPlugin *[]){&runs, more};
	alloc.n_csi_plugins = more ? 2 : 1;
	return call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &request.base, NULL, err);
}

static enum status run_plugin(struct fixture *f, const char *id, const char *node,
			      Holdfast__V1__CsiPluginType type, struct error *err)
{
	return run_plugins(f, id, node, type, NULL, err);
}

#define TYPE(name) HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_##name

CLUSTER_TEST(a_plugin_that_an_allocation_is_to_run_is_expected_until_it_ends)
{
	struct csi one;
	Holdfast__V1__NodePlugin *on1[] = {csi(&one, EBS, true, true)};
	cleanup_pb Holdfast__V1__GetPluginResponse *response = NULL;
	struct error err;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_int_equal(run_plugin(f, ALLOC_1, "n1", TYPE(MONOLITH), NULL), STATUS_OK);
	assert_counts(f, EBS, (struct counts){0, 1, 0, 1, false});
	response = get_plugin(f, EBS, NULL);
	assert_int_equal(response->plugin->n_instances, 0);
	assert_int_equal(response->plugin->n_allocations, 1);
	assert_string_equal(response->plugin->allocations[0]->csi_plugins[0]->id, EBS);
	assert_int_equal(run_plugin(f, ALLOC_2, "n2", TYPE(NODE), NULL), STATUS_OK);
	assert_counts(f, EBS, (struct counts){0, 2, 0, 1, false});
	restart(f);
	assert_counts(f, EBS, (struct counts){0, 2, 0, 1, false});
	offer(&f->n1, on1, 1); /* it counts once, when its node reports it */
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_counts(f, EBS, (struct counts){1, 2, 1, 1, true});
	assert_int_equal(stop_alloc(f, ALLOC_2, NULL), STATUS_OK);
	assert_counts(f, EBS, (struct counts){1, 1, 1, 1, true});
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	settle(f);
	assert_counts(f, EBS, (struct counts){1, 1, 1, 1, true}); /* as its node says */
	offer(&f->n1, on1, 0);
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_null(get_plugin(f, EBS, &err));
	assert_int_equal(err.status, STATUS_NOT_FOUND);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(each_csi_plugin_is_expected_and_placed_on_a_node_without_it)
{
	struct csi two;
	Holdfast__V1__NodePlugin *on1[] = {csi(&two, "nfs", true, true)};
	Holdfast__V1__GetPluginResponse *response;
	Holdfast__V1__CsiPlugin more = V1(csi_plugin, .id = "nfs", .type = TYPE(NODE));
	struct error err;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_int_equal(run_plugins(f, ALLOC_1, "n1", TYPE(MONOLITH), &more, NULL), STATUS_OK);
	assert_ok(run_plugins(f, ALLOC_1, "n1", TYPE(MONOLITH), &more, NULL)); /* the same */
	assert_counts(f, EBS, (struct counts){0, 1, 0, 1, false});
	assert_counts(f, "nfs", (struct counts){0, 1, 0, 0, false});
	restart(f);
	assert_counts(f, "nfs", (struct counts){0, 1, 0, 0, false});
	response = get_plugin(f, "nfs", NULL);
	assert_int_equal(response->plugin->n_allocations, 1);
	assert_int_equal(response->plugin->allocations[0]->n_csi_plugins, 2);
	holdfast__v1__get_plugin_response__free_unpacked(response, NULL);
	(void)str_copy(two.alloc, sizeof(two.alloc), ALLOC_1);
	offer(&f->n1, on1, 1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_counts(f, "nfs", (struct counts){1, 1, 1, 1, true});
	response =
		get_plugin(f, "nfs", NULL); /* not twice: as the one that is to run it, and as that of n1 */
	assert_int_equal(response->plugin->n_allocations, 1);
	holdfast__v1__get_plugin_response__free_unpacked(response, NULL);
	(void)str_copy(two.alloc, sizeof(two.alloc), "");
	offer(&f->n2, on1, 1); /* the second of them is there */
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	assert_int_equal(run_plugins(f, ALLOC_2, "", TYPE(MONOLITH), &more, NULL),
			 STATUS_FAILED_PRECONDITION);
	offer(&f->n2, on1, 0);
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	assert_int_equal(run_plugins(f, ALLOC_2, "", TYPE(MONOLITH), &more, NULL), STATUS_OK);
	assert_counts(f, EBS, (struct counts){0, 2, 0, 2, false}); /* on n2 */
	assert_error(run_plugins(f, ALLOC_3, "", TYPE(MONOLITH), &more, &err), STATUS_FAILED_PRECONDITION,
		     err,
		     "no node is left for plugins ebs, nfs; nodes that have one of them "
		     "already: 2; name one with --node");
	more.type = TYPE(MONOLITH);
	assert_int_equal(run_plugins(f, ALLOC_1, "n1", TYPE(MONOLITH), &more, NULL), STATUS_ALREADY_EXISTS);
	assert_int_equal(stop_alloc(f, ALLOC_2, NULL), STATUS_OK);
	assert_counts(f, EBS, (struct counts){0, 1, 0, 1, false});
}

static void assert_plugin_event(const Holdfast__V1__Plugin *plugin, size_t i,
				Holdfast__V1__AllocationEventType type, const char *node)
{
	assert_in_range(i + 1, 1, plugin->n_events);
	assert_int_equal(plugin->events[i]->type, type);
	assert_string_equal(plugin->events[i]->node_id, node);
	assert_string_equal(plugin->events[i]->allocation_id, ALLOC_1);
	assert_int_not_equal(plugin->events[i]->time_ms, 0);
}

static void assert_alloc_events(struct fixture *f, const Holdfast__V1__AllocationEventType *types, size_t n)
{
	const Holdfast__V1__GetAllocationResponse *response;
	cleanup_pb ProtobufCMessage *message = NULL;
	Holdfast__V1__GetAllocationRequest request = V1(get_allocation_request, .id = ALLOC_1);

	assert_ok(call(&f->operator, & holdfast__v1__allocations__descriptor, "Get", &request.base, &message,
		       NULL));
	response = (const void *)message;

	assert_int_equal(response->allocation->n_events, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(response->allocation->events[i]->type, types[i]);
}

#define EVENT(name) HOLDFAST__V1__ALLOCATION_EVENT_TYPE__ALLOCATION_EVENT_TYPE_##name

CASE(health_changes_of_a_plugin_are_events_of_it_and_of_the_allocation_that_runs_it)
{
	static const Holdfast__V1__AllocationEventType types[] = {
		EVENT(RECEIVED),	 EVENT(PLACED),		EVENT(PLUGIN_HEALTHY),
		EVENT(PLUGIN_UNHEALTHY), EVENT(PLUGIN_HEALTHY), EVENT(PLUGIN_GONE)};
	struct csi one;
	Holdfast__V1__NodePlugin *on1[] = {csi(&one, EBS, true, true)};
	Holdfast__V1__GetPluginResponse *response;
	char said[] = "the socket is refused", more[] = "no answer", nothing[] = "";

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_plugin(f, ALLOC_1, "n1", TYPE(MONOLITH), NULL), STATUS_OK);
	(void)str_copy(one.alloc, sizeof(one.alloc), ALLOC_1);
	for (int i = 0; i < 5; i++) { /* healthy, healthy, sick, sick, healthy */
		one.plugin.healthy = i < 2 || i > 3;
		one.plugin.health_description = one.plugin.healthy ? nothing : i == 2 ? said : more;
		offer(&f->n1, on1, 1);
		fake_node_send_fingerprint(&f->n1);
		settle(f);
	}
	response = get_plugin(f, EBS, NULL);
	assert_int_equal(response->plugin->n_events, 3);
	assert_plugin_event(response->plugin, 0, EVENT(PLUGIN_HEALTHY), "n1");
	assert_plugin_event(response->plugin, 1, EVENT(PLUGIN_UNHEALTHY), "n1");
	assert_string_equal(response->plugin->events[1]->text, said);
	assert_plugin_event(response->plugin, 2, EVENT(PLUGIN_HEALTHY), "n1");
	assert_int_equal(response->plugin->allocations[0]->n_events, 0); /* lists are not told */
	holdfast__v1__get_plugin_response__free_unpacked(response, NULL);
	offer(&f->n1, on1, 0);
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	response = get_plugin(f, EBS, NULL); /* its allocation is still to run it */
	assert_int_equal(response->plugin->n_events, 4);
	assert_plugin_event(response->plugin, 3, EVENT(PLUGIN_GONE), "n1");
	holdfast__v1__get_plugin_response__free_unpacked(response, NULL);
	assert_alloc_events(f, types, ARRAY_SIZE(types));
	restart(f);
	assert_alloc_events(f, types, ARRAY_SIZE(types));
}

CLUSTER_TEST(two_allocations_of_one_plugin_on_a_node_are_one_instance)
{
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_plugin(f, ALLOC_1, "n1", TYPE(NODE), NULL), STATUS_OK);
	assert_int_equal(run_plugin(f, ALLOC_2, "n1", TYPE(MONOLITH), NULL), STATUS_OK);
	assert_counts(f, EBS, (struct counts){0, 1, 0, 1, false}); /* as the newer one is to run it */
	assert_int_equal(stop_alloc(f, ALLOC_2, NULL), STATUS_OK);
	assert_counts(f, EBS, (struct counts){0, 1, 0, 0, false});
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_null(get_plugin(f, EBS, NULL));
}

CLUSTER_TEST(the_plugin_is_part_of_the_submission)
{
	struct error err;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_plugin(f, ALLOC_1, "n1", TYPE(NODE), NULL), STATUS_OK);
	assert_int_equal(run_plugin(f, ALLOC_1, "n1", TYPE(NODE), NULL), STATUS_OK);
	assert_int_equal(run_plugin(f, ALLOC_1, "n1", TYPE(MONOLITH), &err), STATUS_ALREADY_EXISTS);
	assert_error(run_plugin(f, ALLOC_2, "n1", TYPE(UNSPECIFIED), &err), STATUS_INVALID_ARGUMENT, err,
		     "type");
}

CLUSTER_TEST(a_plugin_goes_where_it_is_not_yet)
{
	struct error err;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_plugin(f, ALLOC_1, "", TYPE(NODE), NULL), STATUS_OK);
	assert_string_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.node_id, "n1");
	assert_error(run_plugin(f, ALLOC_2, "", TYPE(NODE), &err), STATUS_FAILED_PRECONDITION, err,
		     "nodes that have it already: 1");
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_int_equal(run_plugin(f, ALLOC_2, "", TYPE(NODE), NULL), STATUS_OK);
	assert_string_equal(state_alloc(&f->server->state, ALLOC_2)->alloc.node_id, "n2");
}

CLUSTER_TEST(volumes_of_a_plugin_that_is_gone_stay_and_report_it)
{
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	cleanup_pb Holdfast__V1__GetVolumeResponse *response = NULL;
	Holdfast__V1__NodePlugin *none[1];
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_counts(f, "native", (struct counts){1, 1, 0, 0, true});
	offer(&f->n1, none, 0);
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_null(get_plugin(f, "native", &err));
	assert_error(err.status, STATUS_NOT_FOUND, err, "volumes that name it: 1");
	request.id = "db";
	assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "Get", &request.base,
		       (ProtobufCMessage **)&response, NULL));
	assert_false(response->volume->schedulable);
	assert_non_null(strstr(response->volume->unschedulable_reason, "no node has plugin native"));
}

static Holdfast__V1__ListPluginsResponse *list(struct fixture *f, const char *prefix, uint32_t per_page,
					       const char *token)
{
	Holdfast__V1__ListPluginsRequest request = HOLDFAST__V1__LIST_PLUGINS_REQUEST__INIT;
	Holdfast__V1__ListPluginsResponse *response = NULL;
	char texts[2][64];

	(void)str_copy(texts[0], 64, prefix);
	(void)str_copy(texts[1], 64, token);
	request.prefix = texts[0];
	request.next_token = texts[1];
	request.per_page = per_page;
	assert_ok(call(&f->operator, & holdfast__v1__plugins__descriptor, "List", &request.base,
		       (ProtobufCMessage **)&response, NULL));
	return response;
}

CASE(plugins_are_listed_in_pages_in_order)
{
	enum { N = 5 };
	Holdfast__V1__ListPluginsResponse *page;
	Holdfast__V1__NodePlugin *all[N];
	struct csi plugins[N];
	char token[64] = "";
	int seen = 0;

	for (int i = 0; i < N; i++) {
		char id[8];

		(void)str_format(id, sizeof(id), "p%d", i);
		all[i] = csi(&plugins[i], id, true, false);
	}
	offer(&f->n1, all, N);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0); /* native */
	do {
		page = list(f, "p", 2, token);
		assert_int_equal(page->n_plugins, seen + 2 <= N ? 2 : N - seen);
		for (size_t i = 0; i < page->n_plugins; i++)
			assert_string_equal(page->plugins[i]->id, plugins[seen++].id);
		(void)str_copy(token, sizeof(token), page->next_token);
		holdfast__v1__list_plugins_response__free_unpacked(page, NULL);
	} while (token[0] != '\0');
	assert_int_equal(seen, N);
	page = list(f, "", 0, "");
	assert_int_equal(page->n_plugins, N + 1);
	assert_string_equal(page->plugins[0]->id, "native");
	holdfast__v1__list_plugins_response__free_unpacked(page, NULL);
}

/* Nodes of which each has the plugin @id, and an allocation that is to run it there, or ran it. */
static void put_many(struct fixture *f, const char *id, int n, enum desired_status desired)
{
	struct state *to = &f->server->state;

	for (int i = 0; i < n; i++) {
		struct node node = {.status = NODE_READY};
		struct plugin_instance instance = {.plugin = {.healthy = true, .has_node = true}};
		struct csi_plugin plugin = {.type = CSI_PLUGIN_NODE};
		struct alloc alloc = ROW(.namespace = "default", .desired_status = desired,
					 .plugins = &plugin, .n_plugins = 1);

		(void)str_format(node.id, sizeof(node.id), "m%05d", i);
		assert_int_equal(state_put_node(to, &node, NULL), STATUS_OK);
		(void)str_copy(instance.node_id, sizeof(instance.node_id), node.id);
		(void)str_copy(instance.plugin.plugin_id, sizeof(instance.plugin.plugin_id), id);
		(void)str_format(alloc.id, sizeof(alloc.id), "01890000-0000-7000-80%02x-%012d", id[1], i);
		(void)str_copy(instance.plugin.allocation_id, sizeof(alloc.id), alloc.id);
		assert_int_equal(state_put_instance(to, &instance, NULL), STATUS_OK);
		(void)str_copy(alloc.node_id, sizeof(alloc.node_id), node.id);
		(void)str_copy(plugin.id, sizeof(plugin.id), id);
		assert_int_equal(state_put_alloc(to, &alloc, NULL), STATUS_OK);
	}
}

static Holdfast__V1__GetPluginResponse *get_page(struct fixture *f, uint32_t per_page, const char *token,
						 struct error *err)
{
	Holdfast__V1__GetPluginRequest request = HOLDFAST__V1__GET_PLUGIN_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	char texts[2][96];

	(void)str_copy(texts[0], sizeof(texts[0]), EBS);
	(void)str_copy(texts[1], sizeof(texts[1]), token);
	request.id = texts[0];
	request.per_page = per_page;
	request.next_token = texts[1];
	(void)call(&f->operator, & holdfast__v1__plugins__descriptor, "Get", &request.base, &response, err);
	return (Holdfast__V1__GetPluginResponse *)response;
}

/* What all pages of the plugin had. */
struct seen {
	size_t n_pages, n_instances, n_allocations;
	char node[NODE_ID_MAX + 1]; /* the last ones */
	char alloc[UUID_TEXT_SIZE], token[96];
};

/* In their order, so none twice. */
static void look(const Holdfast__V1__GetPluginResponse *page, struct seen *seen)
{
	seen->n_pages++;
	for (size_t i = 0; i < page->plugin->n_instances; i++, seen->n_instances++) {
		assert_true(strcmp(page->plugin->instances[i]->node_id, seen->node) > 0);
		(void)str_copy(seen->node, sizeof(seen->node), page->plugin->instances[i]->node_id);
	}
	for (size_t i = 0; i < page->plugin->n_allocations; i++, seen->n_allocations++) {
		assert_true(strcmp(page->plugin->allocations[i]->id, seen->alloc) > 0);
		(void)str_copy(seen->alloc, sizeof(seen->alloc), page->plugin->allocations[i]->id);
	}
	(void)str_copy(seen->token, sizeof(seen->token), page->next_token);
}

static void see_in_pages(struct fixture *f, enum desired_status desired)
{
	enum { N = 2500 };
	struct seen seen = {.n_pages = 0};

	put_many(f, EBS, N, desired);
	do {
		cleanup_pb Holdfast__V1__GetPluginResponse *page = NON_NULL(get_page(f, 0, seen.token, NULL));

		assert_in_range(page->plugin->n_instances + page->plugin->n_allocations, 0, 1000);
		assert_int_equal(page->plugin->nodes_expected, N); /* of all pages */
		look(page, &seen);
	} while (seen.token[0] != '\0');
	/* those that ended are looked at once more */
	assert_int_equal(seen.n_pages, desired == DESIRED_RUN ? 5 : 8);
	assert_int_equal(seen.n_instances, N);
	assert_int_equal(seen.n_allocations, N);
}

TEST_FIXTURE(a_plugin_of_thousands_of_nodes_comes_in_pages_of_a_thousand_records, setup, teardown)
{
	see_in_pages(*state, DESIRED_RUN);
}

TEST_FIXTURE(allocations_that_ran_a_plugin_count_for_its_pages_too, setup, teardown)
{
	see_in_pages(*state, DESIRED_STOP);
}

CASE(plugin_pages_continue_after_removed_entries)
{
	enum { N = 6 };
	struct seen seen = {.n_pages = 0};

	put_many(f, EBS, N, DESIRED_RUN);
	while (seen.n_pages == 0 || seen.token[0] != '\0') {
		cleanup_pb Holdfast__V1__GetPluginResponse *page = get_page(f, 2, seen.token, NULL);

		look(page, &seen);
		if (str_eq(seen.token, "node/m00002"))
			state_delete_instance(&f->server->state,
					      state_instance(&f->server->state, "m00002", EBS, ""));
		if (str_eq(seen.token, "allocation/default.01890000-0000-7000-8062-000000000003"))
			state_delete_alloc(
				&f->server->state,
				state_alloc(&f->server->state, "01890000-0000-7000-8062-000000000003"));
	}
	assert_int_equal(seen.n_instances, N - 1);
	assert_string_equal(seen.node, "m00005");
	assert_int_equal(seen.n_allocations, N - 1);
	assert_string_equal(seen.alloc, "01890000-0000-7000-8062-000000000005");
}

CLUSTER_TEST(a_page_of_a_plugin_takes_its_own_tokens_and_sizes_alone)
{
	struct error err;

	put_many(f, EBS, 1, DESIRED_RUN);
	assert_null(get_page(f, 1001, "", &err));
	assert_int_equal(err.status, STATUS_INVALID_ARGUMENT);
	assert_null(get_page(f, 0, "m00000", &err));
	assert_error(err.status, STATUS_INVALID_ARGUMENT, err, "next_token");
}

CASE(a_page_of_plugins_ends_where_too_much_would_have_to_be_counted)
{
	enum { PLUGINS = 5, NODES = 3000, COUNTED = 20000 };
	size_t pages[4] = {0}; /* plugins of each */
	char token[64] = "";
	size_t n = 0;

	for (int i = 0; i < PLUGINS; i++) {
		char id[8];

		(void)str_format(id, sizeof(id), "p%d", i);
		put_many(f, id, NODES, DESIRED_STOP);
	}
	do {
		Holdfast__V1__ListPluginsResponse *page = list(f, "p", 0, token);

		assert_true(n < ARRAY_SIZE(pages));
		pages[n++] = page->n_plugins;
		(void)str_copy(token, sizeof(token), page->next_token);
		holdfast__v1__list_plugins_response__free_unpacked(page, NULL);
	} while (token[0] != '\0');
	assert_int_equal(n, 2);
	assert_int_equal(pages[0], COUNTED / (2 * NODES)); /* instances and allocations */
	assert_int_equal(pages[0] + pages[1], PLUGINS);
	/* what is counted already costs nothing */
	for (int i = 0; i < 2; i++) {
		Holdfast__V1__ListPluginsResponse *page = list(f, "p", 0, "");

		assert_int_equal(page->n_plugins, PLUGINS);
		assert_int_equal(page->plugins[PLUGINS - 1]->nodes_expected, NODES);
		holdfast__v1__list_plugins_response__free_unpacked(page, NULL);
	}
}

CLUSTER_TEST(a_read_that_waits_has_as_many_bytes_as_its_limit_and_no_more)
{
	ProtobufCMessage *response = NULL;
	char prefix[5000];
	Holdfast__V1__ListPluginsRequest request =
		V1(list_plugins_request, .prefix = prefix, .index = 1000000, .wait_ms = 1);
	struct error err;

	memset(prefix, 'p', sizeof(prefix));
	prefix[4096 - 9] = '\0'; /* tags, its length in two bytes, an index of three and a time of one */
	assert_int_equal(protobuf_c_message_get_packed_size(&request.base), 4096);
	assert_ok(call(&f->operator, & holdfast__v1__plugins__descriptor, "List", &request.base, &response,
		       NULL));
	protobuf_c_message_free_unpacked(response, NULL);
	prefix[4096 - 9] = 'p';
	prefix[4096 - 8] = '\0';
	assert_error(
		call(&f->operator, & holdfast__v1__plugins__descriptor, "List", &request.base, NULL, &err),
		STATUS_INVALID_ARGUMENT, err, "4096");
	request.wait_ms = 0; /* it is not kept */
	assert_ok(call(&f->operator, & holdfast__v1__plugins__descriptor, "List", &request.base, &response,
		       NULL));
	protobuf_c_message_free_unpacked(response, NULL);
}

static uint32_t woken_healthy;
static int woken;

static void on_woken(enum status status, const ProtobufCMessage *response, const struct error *err,
		     void *userdata)
{
	assert_int_equal(status, STATUS_OK);
	woken_healthy = ((const Holdfast__V1__GetPluginResponse *)response)->plugin->nodes_healthy;
	woken++;
}

CLUSTER_TEST(a_waiting_read_is_woken_by_a_session_that_ends)
{
	cleanup_pb Holdfast__V1__GetPluginResponse *now = NULL;
	char id[] = "native";
	Holdfast__V1__GetPluginRequest request = V1(get_plugin_request, .id = id);

	woken = 0;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	settle(f);
	now = get_plugin(f, id, NULL);
	request.index = now->index;
	request.wait_ms = 60000;
	assert_ok(rpc_client_call(f->operator.client, &holdfast__v1__plugins__descriptor, "Get",
				  &request.base, TIMEOUT_US * 20, on_woken, NULL, NULL, NULL));
	settle(f);
	assert_int_equal(woken, 0);
	lose(f, &f->n2);
	UNTIL(f, woken == 1);
	assert_int_equal(woken_healthy, 1);
}

CLUSTER_TEST(a_read_that_waits_from_before_a_restart_sees_a_volume_registered)
{
	cleanup_pb Holdfast__V1__GetPluginResponse *before = NULL;
	cleanup_pb ProtobufCMessage *message = NULL;
	char id[] = "native";
	Holdfast__V1__GetPluginRequest request = V1(get_plugin_request, .id = id, .wait_ms = 300 * 1000);

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	before = get_plugin(f, id, NULL);
	request.index = before->index;
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	restart(f);
	assert_ok(call(&f->operator, & holdfast__v1__plugins__descriptor, "Get", &request.base, &message,
		       NULL));
	assert_true(((Holdfast__V1__GetPluginResponse *)message)->index > before->index);
}

/* Else each profile of a node has an id, which the server looks for among those of all other nodes; and one
 * node makes the profile unusable on all. */
CLUSTER_TEST(a_native_plugin_has_no_provider_id_and_no_controller)
{
	struct csi native;
	Holdfast__V1__NodePlugin *on1[] = {csi(&native, "native", true, true)};
	const struct instance_entry *instance;

	native.node.provider_node_id = TEXT("i-n1");
	offer(&f->n1, on1, 1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	instance = NON_NULL(state_instance(&f->server->state, "n1", "native", ""));
	assert_string_equal(instance->instance.plugin.node.provider_node_id, "");
	native.controller.healthy = false;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_counts(f, "native", (struct counts){1, 1, 0, 0, true});
}

CLUSTER_TEST(a_fingerprint_that_makes_no_sense_ends_the_session_and_changes_nothing)
{
	struct csi one, two;
	Holdfast__V1__NodePlugin *on1[] = {csi(&one, EBS, true, false), csi(&two, EBS, true, false)};
	Holdfast__V1__NodePlugin *many[NODE_PLUGINS_MAX + 1];
	struct csi lots[NODE_PLUGINS_MAX + 1];
	char profile[] = "disk";

	for (int i = 0; i <= NODE_PLUGINS_MAX; i++) {
		char id[8];

		(void)str_format(id, sizeof(id), "p%d", i);
		many[i] = csi(&lots[i], id, true, false);
	}
	for (int i = 0; i < 3; i++) {
		fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
		two.plugin.profile = i == 1 ? profile : (char *)(uintptr_t) "";
		offer(&f->n1,
		      i == 2   ? many
		      : i == 1 ? on1 + 1
			       : on1,
		      i == 2   ? NODE_PLUGINS_MAX + 1
		      : i == 1 ? 1
			       : 2);
		fake_node_send_fingerprint(&f->n1);
		UNTIL(f, f->n1.closed);
		assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
		offer(&f->n1, NULL, 0);
		UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
		assert_null(get_plugin(f, EBS, NULL));
		assert_null(get_plugin(f, "p0", NULL));
	}
	offer(&f->n1, many, NODE_PLUGINS_MAX);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_counts(f, "p31", (struct counts){1, 1, 0, 0, true});
}
