/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs over the real port: what is refused, and what the server does for those that it takes. */

#include "asks.h"
#include "cluster.h"
#include "submission.h"
#include "unit.h"

#include "base/clock.h"
#include "base/str.h"
#include "job/job_spec.h"
#include "job/job_work.h"

#include <holdfast/v1/jobs.pb-c.h>
#include <inttypes.h>

/* Nodes with a driver of containers. */
static void connect_hundred(struct fixture *f, struct fake_node *nodes)
{
	Holdfast__Driver__V1__CapabilitiesResponse offer = HOLDFAST__DRIVER__V1__CAPABILITIES_RESPONSE__INIT;
	Holdfast__V1__NodeDriver driver =
		V1(node_driver, .name = text("container"), .healthy = true, .capabilities = &offer);
	Holdfast__V1__NodeDriver *drivers[] = {&driver};
	char cert[16];

	for (size_t i = 0; i < f->n_nodes; i++) {
		assert_true(str_format(cert, sizeof(cert), "node-n%zu", i + 1) > 0);
		fake_node_init(&nodes[i], f->event, f->dir, cert, f->port);
		nodes[i].drivers = drivers;
		nodes[i].n_drivers = 1;
		fake_node_connect(&nodes[i], strchr(cert, 'n') + 5, BOOT_1, NULL, 0);
		nodes[i].n_drivers = 0;
	}
}

static size_t n_runs(const struct fixture *f, const struct fake_node *nodes)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_nodes; i++)
		n += (size_t)nodes[i].runs;
	return n;
}

TEST_ON(a_thousand_members_reach_a_hundred_nodes_evenly, struct fixture, f, setup_hundred, teardown)
{
	Holdfast__Driver__V1__TaskConfig task = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT;
	Holdfast__Driver__V1__TaskConfig *tasks[] = {&task};
	static struct fake_node nodes[100];
	struct submission s;
	uint64_t begun_us, placed_us;

	connect_hundred(f, nodes);
	make_job(f, &s);
	task.driver = text("container");
	task.task = text("web");
	s.alloc.tasks = tasks;
	s.alloc.n_tasks = 1;
	s.alloc.n_volumes = 0;
	s.group.count = 1000;
	s.update.max_parallel = 1000;
	begun_us = clock_monotonic_us();
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, n_allocs(f) == 1000);
	placed_us = clock_monotonic_us();
	UNTIL(f, n_runs(f, nodes) == 1000);
	print_message("placed in %" PRIu64 " ms, with their nodes in %" PRIu64 " ms\n",
		      (placed_us - begun_us) / 1000, (clock_monotonic_us() - begun_us) / 1000);
	for (size_t i = 0; i < f->n_nodes; i++) {
		assert_in_range(nodes[i].runs, 9, 11);
		fake_node_release(&nodes[i]);
	}
}

static Holdfast__Driver__V1__KeyValue rack(const char *name)
{
	Holdfast__Driver__V1__KeyValue one =
		PB(holdfast__driver__v1__key_value, .key = text("meta.rack"), .value = text(name));

	return one;
}

/* Node n1 in rack r1, n2 in r2. */
static void connect_racks(struct fixture *f)
{
	static Holdfast__Driver__V1__KeyValue racks[2];
	static Holdfast__Driver__V1__KeyValue *lists[2][1] = {{&racks[0]}, {&racks[1]}};

	racks[0] = rack("r1");
	racks[1] = rack("r2");
	f->n1.attributes = lists[0];
	f->n2.attributes = lists[1];
	f->n1.n_attributes = f->n2.n_attributes = 1;
	connect_both(f);
}

CLUSTER_TEST(a_member_is_placed_on_a_node_that_meets_its_constraints)
{
	Holdfast__V1__Constraint constraint = HOLDFAST__V1__CONSTRAINT__INIT;
	Holdfast__V1__Constraint *constraints[] = {&constraint};
	cleanup_pb Holdfast__V1__GetJobResponse *response = NULL;
	struct submission s;

	connect_racks(f);
	make_job(f, &s);
	constraint.attribute = text("meta.rack");
	constraint.value = text("r3");
	s.alloc.constraints = constraints;
	s.alloc.n_constraints = 1;
	assert_int_equal(run(f, &s, NULL), 1);
	settle(f);
	response = get(f);
	assert_int_equal(response->n_waits, 1);
	assert_non_null(strstr(response->waits[0]->text, "2 are kept out by a constraint"));
	assert_contains(response->waits[0]->text, "node n1 does not meet: meta.rack = r3, and it is r1");
	constraint.value = text("r2");
	assert_int_equal(run(f, &s, NULL), 2);
	UNTIL(f, f->n2.runs == 1);
	assert_int_equal(f->n1.runs, 0);
}

CLUSTER_TEST(distinct_hosts_places_one_member_of_a_group_on_a_node)
{
	Holdfast__V1__NodeDriver driver = HOLDFAST__V1__NODE_DRIVER__INIT, *drivers[] = {&driver};
	Holdfast__Driver__V1__CapabilitiesResponse offer = HOLDFAST__DRIVER__V1__CAPABILITIES_RESPONSE__INIT;
	Holdfast__Driver__V1__TaskConfig task = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT, *tasks[] = {&task};
	Holdfast__V1__Constraint constraint = HOLDFAST__V1__CONSTRAINT__INIT, *constraints[] = {&constraint};
	cleanup_pb Holdfast__V1__GetJobResponse *response = NULL;
	struct submission s;
	size_t n = 0;

	driver.name = task.driver = text("container");
	driver.healthy = true;
	driver.capabilities = &offer;
	f->n1.drivers = f->n2.drivers = drivers;
	f->n1.n_drivers = f->n2.n_drivers = 1;
	connect_both(f);
	make_job(f, &s);
	task.task = text("web");
	s.alloc.tasks = tasks;
	s.alloc.n_tasks = 1;
	s.alloc.n_volumes = 0;
	constraint.operator_ = text("distinct_hosts");
	s.alloc.constraints = constraints;
	s.alloc.n_constraints = 1;
	s.group.count = 3;
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1 && f->n2.runs == 1);
	settle(f);
	response = get(f);
	assert_int_equal(response->n_placed, 2);
	for (size_t i = 0; i < response->n_waits; i++)
		n += strstr(response->waits[i]->text, "distinct_hosts, and it has a member of the group") !=
		     NULL;
	assert_int_equal(n, 1);
}

CLUSTER_TEST(a_driver_that_becomes_healthy_gets_the_member_that_waits_for_it)
{
	Holdfast__V1__NodeDriver driver = HOLDFAST__V1__NODE_DRIVER__INIT, *drivers[] = {&driver};
	Holdfast__Driver__V1__CapabilitiesResponse offer = HOLDFAST__DRIVER__V1__CAPABILITIES_RESPONSE__INIT;
	Holdfast__Driver__V1__TaskConfig task = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT, *tasks[] = {&task};
	struct submission s;

	driver.name = task.driver = text("container");
	driver.health_description = text("the engine is away");
	driver.capabilities = &offer;
	f->n1.drivers = drivers;
	f->n1.n_drivers = 1;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	make_job(f, &s);
	task.task = text("web");
	s.alloc.tasks = tasks;
	s.alloc.n_tasks = 1;
	s.alloc.n_volumes = 0;
	assert_int_equal(run(f, &s, NULL), 1);
	settle(f);
	assert_int_equal(f->n1.runs, 0);
	driver.healthy = true;
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, f->n1.runs == 1);
}

/* A refused job is not stored, placed or claimed. */
CLUSTER_TEST(a_job_that_every_driver_would_refuse_is_refused_with_a_line_for_each_node)
{
	Holdfast__Driver__V1__NetworkMode none = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_NONE;
	Holdfast__V1__NodeDriver driver = HOLDFAST__V1__NODE_DRIVER__INIT, *drivers[] = {&driver};
	Holdfast__Driver__V1__CapabilitiesResponse offer = HOLDFAST__DRIVER__V1__CAPABILITIES_RESPONSE__INIT;
	Holdfast__Driver__V1__FieldLimit user = HOLDFAST__DRIVER__V1__FIELD_LIMIT__INIT, *limits[] = {&user};
	Holdfast__Driver__V1__TaskConfig task = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT, *tasks[] = {&task};
	char *users[] = {text("1000")};
	struct submission s;
	struct error err;

	driver.name = task.driver = text("container");
	driver.healthy = true;
	driver.capabilities = &offer;
	offer.network_modes = &none;
	offer.n_network_modes = 1;
	f->n1.drivers = f->n2.drivers = drivers;
	f->n1.n_drivers = f->n2.n_drivers = 1;
	connect_both(f);
	make_job(f, &s);
	task.task = text("web");
	s.alloc.tasks = tasks;
	s.alloc.n_tasks = 1;
	task.network = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_HOST;
	assert_int_equal(run(f, &s, &err), 0);
	assert_error(err.status, STATUS_INVALID_ARGUMENT, err,
		     "group one.task web: task web asks for network host, which driver "
		     "container of node n1 does not offer\n");
	assert_non_null(strstr(err.msg, "of node n2 does not offer"));
	task.network = none;
	user.field = text("user");
	user.allowed = users;
	user.n_allowed = 1;
	offer.limits = limits;
	offer.n_limits = 1;
	lose(f, &f->n2);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL,
			  0); /* root of n2 has written a limit, which n1 has not */
	assert_int_equal(run(f, &s, &err), 1);
	UNTIL(f, f->n1.runs == 1);
	settle(f);
	assert_int_equal(f->n2.runs, 0);
}

CLUSTER_TEST(a_member_waits_for_its_volume_and_is_placed_when_that_is_free)
{
	Holdfast__V1__GetJobResponse *response;
	struct submission s;
	struct claim claim;

	take_volume(f);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	settle(f);
	response = get(f);
	assert_string_equal(response->state, "pending");
	assert_int_equal(response->n_waits, 1);
	assert_non_null(strstr(response->waits[0]->text, ": waits for volume db, held for write"));
	assert_non_null(strstr(response->waits[0]->text, "allocation " ALLOC_1 " on node n1"));
	assert_int_equal(response->groups[0]->waiting, 1);
	assert_int_equal(response->groups[0]->placed, 0);
	assert_int_equal(response->n_placed, 0);
	holdfast__v1__get_job_response__free_unpacked(response, NULL);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	settle(f);
	assert_int_equal(f->n1.runs + f->n2.runs, 1); /* that its node has released it is not known */
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, f->n1.runs + f->n2.runs == 2);
	response = get(f);
	assert_int_equal(response->n_placed, 1);
	assert_string_equal(response->placed[0]->text, "pending, of version 1");
	assert_string_equal(response->placed[0]->node_id, f->n1.runs == 2 ? "n1" : "n2");
	assert_int_equal(strlen(response->placed[0]->allocation_id), strlen(ALLOC_1));
	holdfast__v1__get_job_response__free_unpacked(response, NULL);
}

CLUSTER_TEST(the_job_that_waits_longest_gets_the_volume)
{
	struct submission s;

	take_volume(f);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, is_in(f, "pending", 1));
	settle(f);
	s.job.id = text("api");
	assert_int_equal(run(f, &s, NULL), 1);
	settle(f);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	end(f, &f->n1, ALLOC_1);
	UNTIL(f, f->n1.runs + f->n2.runs == 2);
	assert_true(is_in(f, "pending", 1));
	settle(f);
	assert_int_equal(f->n1.runs + f->n2.runs, 2);
	assert_string_equal(state_alloc(&f->server->state, f->n1.runs == 2 ? f->n1.last_run : f->n2.last_run)
				    ->alloc.job_id,
			    "web");
}

CLUSTER_TEST(a_new_version_takes_the_place_of_the_old_one_on_its_volume)
{
	char first[UUID_TEXT_SIZE];
	struct submission s;

	connect_both(f);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1);
	(void)str_copy(first, sizeof(first), f->n1.last_run);
	start_last(f, &f->n1);
	UNTIL(f, is_in(f, "running", 0));
	assert_int_equal(run(f, &s, NULL), 1); /* the same again */
	s.alloc.mount_timeout_ms = 5000;
	assert_int_equal(run(f, &s, NULL), 2);
	UNTIL(f, f->n1.stops == 1);
	assert_string_equal(f->n1.last_stop, first);
	settle(f);
	assert_int_equal(n_allocs(f), 1);
	end(f, &f->n1, first);
	UNTIL(f, n_allocs(f) == 2);
	UNTIL(f, f->n1.runs + f->n2.runs == 2);
	start_last(f, f->n1.runs == 2 ? &f->n1 : &f->n2);
	UNTIL(f, is_in(f, "running", 0));
}

CLUSTER_TEST(a_job_continues_after_a_start_of_the_server)
{
	struct submission s;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	settle(f);
	assert_true(is_in(f, "pending", 1)); /* no node is there */
	restart(f);
	assert_int_equal(n_allocs(f), 0);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, n_allocs(f) == 1);
	UNTIL(f, f->n1.runs == 1);
	restart(f);
	assert_int_equal(n_allocs(f), 1);
}

CLUSTER_TEST(a_system_job_has_one_member_on_each_node)
{
	struct submission s;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	make_job(f, &s);
	s.job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SYSTEM;
	s.alloc.n_volumes = 0;
	s.plugin.id = text("nfs");
	s.plugin.type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_NODE;
	s.alloc.csi_plugins = s.plugins;
	s.alloc.n_csi_plugins = 1;
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	UNTIL(f, f->n2.runs == 1);
	settle(f);
	assert_int_equal(n_allocs(f), 2);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	UNTIL(f, f->n1.stops == 1 && f->n2.stops == 1);
}

/* For nodes in rack r2. */
static void make_system_job(struct fixture *f, struct submission *s)
{
	static Holdfast__V1__Constraint constraint;
	static Holdfast__V1__Constraint *constraints[] = {&constraint};

	connect_racks(f);
	make_job(f, s);
	s->job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SYSTEM;
	s->alloc.n_volumes = 0;
	s->plugin.id = text("nfs");
	s->plugin.type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_NODE;
	s->alloc.csi_plugins = s->plugins;
	s->alloc.n_csi_plugins = 1;
	holdfast__v1__constraint__init(&constraint);
	constraint.attribute = text("meta.rack");
	constraint.value = text("r2");
	s->alloc.constraints = constraints;
	s->alloc.n_constraints = 1;
}

CLUSTER_TEST(a_member_stays_on_a_node_that_is_not_connected_after_a_restart_of_the_server)
{
	const struct alloc_entry *entry;
	struct submission s;

	make_system_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n2.runs == 1);
	lose(f, &f->n2);
	s.plugin.socket = text("other.sock");
	assert_int_equal(run(f, &s, NULL), 2);
	restart(f);
	settle(f);
	LIST_FOREACH (entry, &state_job(&f->server->state, "default", "web")->allocs, of_job)
		assert_int_equal(entry->alloc.desired_status, DESIRED_RUN);
}

CLUSTER_TEST(a_system_job_has_no_member_on_a_node_that_a_constraint_excludes)
{
	cleanup_pb Holdfast__V1__GetJobResponse *response = NULL;
	struct submission s;

	make_system_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n2.runs == 1);
	settle(f);
	response = get(f);
	assert_int_equal(response->groups[0]->desired, 1);
	assert_int_equal(response->groups[0]->missing, 0);
	s.update.max_parallel = 2;
	s.alloc.constraints[0]->value = text("r1");
	assert_int_equal(run(f, &s, NULL), 2);
	UNTIL(f, f->n1.runs == 1 && f->n2.stops == 1);
}

/* 0, 0: there is no such plugin. */
static void assert_expected(struct fixture *f, uint32_t nodes, uint32_t controllers)
{
	Holdfast__V1__GetPluginResponse *response = get_plugin(f, "nfs", NULL);

	assert_int_equal(response ? response->plugin->nodes_expected : 0, nodes);
	assert_int_equal(response ? response->plugin->controllers_expected : 0, controllers);
	if (response)
		holdfast__v1__get_plugin_response__free_unpacked(response, NULL);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(expected_plugin_instances_include_unplaced_members)
{
	Holdfast__V1__CsiPlugin ebs = HOLDFAST__V1__CSI_PLUGIN__INIT;
	struct submission s;
	Holdfast__V1__CsiPlugin *both[] = {&ebs, &s.plugin};

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	make_job(f, &s);
	s.alloc.n_volumes = 0;
	s.group.count = 3; /* and there is a node for one */
	s.plugin.id = text("nfs");
	s.plugin.type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_MONOLITH;
	s.alloc.csi_plugins = s.plugins;
	s.alloc.n_csi_plugins = 1;
	ebs.id = text("ebs");
	ebs.type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_NODE;
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1);
	settle(f);
	assert_expected(f, 3, 3);
	restart(f);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	assert_expected(f, 3, 3);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	UNTIL(f, f->n2.runs == 1);
	settle(f);
	assert_expected(f, 3, 3);
	s.alloc.csi_plugins = both;
	s.alloc.n_csi_plugins = 2;
	assert_int_equal(run(f, &s, NULL), 2);
	settle(f);
	assert_expected(f, 3, 3);
	s.alloc.csi_plugins = s.plugins;
	s.alloc.n_csi_plugins = 1;
	s.plugin.type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_NODE;
	s.group.count = 2;
	assert_int_equal(run(f, &s, NULL), 3);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	settle(f);
	assert_expected(f, 0, 0);
}

CASE(jobs_of_one_plugin_are_expected_together)
{
	const struct job_refusals *refusals;
	char on1[UUID_TEXT_SIZE], on2[UUID_TEXT_SIZE];
	struct submission s;

	connect_both(f);
	make_job(f, &s);
	s.alloc.n_volumes = 0;
	s.plugin.id = text("nfs");
	s.plugin.type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_MONOLITH;
	s.alloc.csi_plugins = s.plugins;
	s.alloc.n_csi_plugins = 1;
	s.group.count = 2;
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1 && f->n2.runs == 1);
	(void)str_copy(on1, sizeof(on1), f->n1.last_run);
	(void)str_copy(on2, sizeof(on2), f->n2.last_run);
	s.job.id = text("api");
	s.group.count = 1; /* and both nodes have the plugin */
	assert_int_equal(run(f, &s, NULL), 1);
	settle(f);
	refusals = job_work_refusals(f->server, "default", "api");
	assert_contains(NON_NULL(refusals)->list[0].reason,
			"nodes that have it already: 2; only a job with type = \"system\" runs there too: "
			"holdfast job stop --purge api, then holdfast job run with that type");
	assert_expected(f, 3, 3);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	settle(f);
	assert_expected(f, 1, 1); /* of the other one */
	fake_node_send_alloc(&f->n1, on1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	fake_node_send_alloc(&f->n2, on2, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.runs + f->n2.runs == 3);
	settle(f);
	assert_expected(f, 1, 1);
}

CLUSTER_TEST(a_member_that_failed_gives_the_reason)
{
	Holdfast__V1__GetJobResponse *response;
	const struct alloc_entry *alloc;
	struct submission s;

	connect_both(f);
	make_job(f, &s);
	s.reschedule.delay_ms = 3600 * 1000;
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1);
	alloc = state_alloc(&f->server->state, f->n1.last_run);
	fake_node_send_alloc(&f->n1, alloc->id, HOLDFAST__V1__CLIENT_STATUS__PENDING);
	settle(f);
	response = get(f);
	if (response->n_waits != 1 || !strstr(response->waits[0]->text, " to be healthy: it is broken"))
		fail_msg("%s", response->n_waits ? response->waits[0]->text : "no member waits");
	holdfast__v1__get_job_response__free_unpacked(response, NULL);
	fake_node_send_alloc(&f->n1, alloc->id, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, alloc_is_client_terminal(&alloc->alloc));
	settle(f);
	response = get(f);
	assert_int_equal(response->n_waits, 1);
	assert_string_equal(response->waits[0]->allocation_id, alloc->id);
	if (!strstr(response->waits[0]->text, "its allocation failed; waits until") ||
	    !strstr(response->waits[0]->text, ": it is broken"))
		fail_msg("%s", response->waits[0]->text);
	holdfast__v1__get_job_response__free_unpacked(response, NULL);
}

CLUSTER_TEST(a_batch_job_ends_and_is_purged_with_its_versions)
{
	struct submission s;
	struct error err;

	connect_both(f);
	make_job(f, &s);
	s.job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH;
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1);
	start_last(f, &f->n1);
	assert_int_equal(stop_job(f, true, &err), STATUS_FAILED_PRECONDITION);
	end(f, &f->n1, f->n1.last_run);
	UNTIL(f, is_in(f, "complete", 0));
	assert_int_equal(f->n1.runs, 1);
	assert_int_equal(stop_job(f, true, NULL), STATUS_OK);
	assert_int_equal(stop_job(f, true, NULL), STATUS_NOT_FOUND);
	assert_int_equal(run(f, &s, NULL), 2); /* what ended under version 1 is not taken for it */
}

CLUSTER_TEST(a_job_that_was_submitted_again_is_not_purged)
{
	static const Holdfast__V1__JobType types[] = {HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SERVICE,
						      HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH};
	struct submission s;
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK); /* no node is there */
	make_job(f, &s);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		s.job.type = types[i];
		assert_true(run(f, &s, NULL) > 0);
		assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
		UNTIL(f, is_in(f, "stopped", 0));
		assert_true(run(f, &s, NULL) > 1); /* by another person; no node has room yet */
		settle(f);
		assert_error(stop_job(f, true, &err), STATUS_FAILED_PRECONDITION, err,
			     "was submitted again. Next: holdfast job stop web");
		assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
		assert_int_equal(stop_job(f, true, NULL), STATUS_OK);
	}
}

CLUSTER_TEST(of_two_that_submit_at_once_one_is_refused)
{
	struct submission s;
	struct error err;

	make_job(f, &s);
	s.request.check_index = true;
	assert_int_equal(run(f, &s, NULL), 1);
	s.alloc.mount_timeout_ms = 5000;
	assert_int_equal(run(f, &s, &err), 0);
	assert_error(err.status, STATUS_ABORTED, err, "modify index");
}

CLUSTER_TEST(a_plan_changes_nothing)
{
	Holdfast__V1__PlanJobRequest request = HOLDFAST__V1__PLAN_JOB_REQUEST__INIT;
	Holdfast__V1__GetJobRequest wanted = HOLDFAST__V1__GET_JOB_REQUEST__INIT;
	const Holdfast__V1__PlanJobResponse *response;
	ProtobufCMessage *message = NULL;
	struct submission s;

	connect_both(f);
	make_job(f, &s);
	request.job = &s.job;
	assert_int_equal(call(&f->operator, JOBS, "Plan", &request.base, &message, NULL), STATUS_OK);
	response = (const void *)message;
	assert_int_equal(response->n_actions, 1);
	assert_string_equal(response->actions[0]->group, "one");
	assert_string_equal(response->actions[0]->text, "will be placed");
	assert_string_not_equal(response->actions[0]->node_id, "");
	assert_int_equal(response->n_waits, 0);
	protobuf_c_message_free_unpacked(message, NULL);
	s.volume.source = text("nothing"); /* which no volume is called */
	assert_int_equal(call(&f->operator, JOBS, "Plan", &request.base, &message, NULL), STATUS_OK);
	response = (const void *)message;
	assert_int_equal(response->n_actions, 0);
	assert_int_equal(response->n_waits, 1);
	assert_contains(response->waits[0]->text,
			"waits to be placed, which is impossible now: there is no volume nothing");
	assert_string_equal(response->waits[0]->node_id, "");
	protobuf_c_message_free_unpacked(message, NULL);
	assert_int_equal(n_allocs(f), 0);
	wanted.id = text("web");
	assert_int_equal(call(&f->operator, JOBS, "Get", &wanted.base, NULL, NULL), STATUS_NOT_FOUND);
}

/* The job of make_job(), changed. */
typedef void change_fn(struct submission *s);

static void too_many(struct submission *s)
{
	s->group.count = 10000000;
}

static void two_on_one_volume(struct submission *s)
{
	s->group.count = 2;
}

static void unknown_per_alloc(struct submission *s)
{
	s->per_alloc[0] = text("logs");
	s->group.per_alloc = s->per_alloc;
	s->group.n_per_alloc = 1;
}

static void system_per_alloc(struct submission *s)
{
	s->job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SYSTEM;
	s->group.per_alloc = s->per_alloc;
	s->group.n_per_alloc = 1;
}

static void bad_id(struct submission *s)
{
	s->job.id = text("We b");
}

static void no_type(struct submission *s)
{
	s->job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_UNSPECIFIED;
}

static void no_groups(struct submission *s)
{
	s->job.n_groups = 0;
}

static void own_node(struct submission *s)
{
	s->alloc.node_id = text("n1");
}

static void never_in_time(struct submission *s)
{
	s->update.min_healthy_ms = 3000;
	s->update.healthy_deadline_ms = 3000;
}

static void rarely_again(struct submission *s)
{
	s->reschedule.interval_ms = JOB_RESCHEDULE_INTERVAL_MAX_MS + 1;
}

static void often_again(struct submission *s)
{
	s->reschedule.attempts = JOB_RESCHEDULE_ATTEMPTS_MAX + 1;
}

static void no_source(struct submission *s)
{
	s->volume.source = text("");
}

static Holdfast__V1__OnNodeLoss at_once =
	ROW(.base = PROTOBUF_C_MESSAGE_INIT(&holdfast__v1__on_node_loss__descriptor), .after_ms = 1,
	    .do_ = HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_POWER_FENCE);

static void fence_at_once(struct submission *s)
{
	s->group.on_node_loss = &at_once;
}

static void fence_without_volume(struct submission *s)
{
	fence_at_once(s);
	s->alloc.n_volumes = 0;
}

static void fence_in_the_allocation(struct submission *s)
{
	s->alloc.on_node_loss = &at_once;
}

static void much_of_it(struct submission *s)
{
	too_many(s);
	never_in_time(s);
}

CASE(an_impossible_job_error_names_the_field)
{
	static const struct {
		change_fn *change;
		const char *words;
	} rows[] = {
		{never_in_time,
		 "group one.update.min_healthy_time: 3000 ms is not below healthy_deadline, 3000 ms"},
		{too_many, "group one.count: it is 0 to 10000, not 10000000"},
		{rarely_again, "group one.reschedule.interval: it is at most 86400000 ms"},
		{often_again, "group one.reschedule.attempts: it is at most 100"},
		{two_on_one_volume, "group one.volume data.access_mode: "},
		{unknown_per_alloc, "group one.per_alloc: it names volume 'logs'"},
		{system_per_alloc, "group one.volume data.per_alloc: it contradicts type system"},
		{no_source, "group one.volume data: source"},
		{much_of_it, "group one.count: it is 0 to 10000, not 10000000\n"
			     "group one.update.min_healthy_time: 3000 ms is not"},
		{bad_id, "id: 'We b'"},
		{no_type, "type: "},
		{no_groups, "group: "},
		{own_node, "the server sets id"},
		{fence_at_once, "group one.on_node_loss.after: with a fence it is 5s to 24h"},
		{fence_without_volume, "group one.on_node_loss: contradicts a group without volume"},
		{fence_in_the_allocation,
		 "group one.allocation.on_node_loss: on_node_loss is a key of the group"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct submission s;
		struct error err;

		make_job(f, &s);
		rows[i].change(&s);
		assert_int_equal(run(f, &s, &err), 0);
		assert_int_equal(err.status, STATUS_INVALID_ARGUMENT);
		assert_msg(strstr(err.msg, rows[i].words), "%s is not in: %s", rows[i].words, err.msg);
	}
}

/* Volumes of a group, and names of them. */
static enum status judge_sizes(struct fixture *f, size_t n_volumes, size_t n_names, struct error *err)
{
	Holdfast__V1__VolumeRequest volumes[ALLOC_VOLUMES_MAX + 1], *list[ALLOC_VOLUMES_MAX + 1];
	char texts[ALLOC_VOLUMES_MAX + 1][8], *names[ALLOC_VOLUMES_MAX + 1];
	struct submission s;

	make_job(f, &s);
	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		(void)str_format(texts[i], sizeof(texts[i]), "v%zu", i);
		names[i] = texts[i];
		volumes[i] = s.volume;
		volumes[i].name = volumes[i].source = texts[i];
		list[i] = &volumes[i];
	}
	s.group.count = 2; /* so each name is looked for */
	s.alloc.volumes = list;
	s.alloc.n_volumes = n_volumes;
	s.group.per_alloc = names;
	s.group.n_per_alloc = n_names;
	return job_validate(&s.job, err);
}

CASE(volumes_and_their_names_are_counted_before_they_are_compared)
{
	enum { MAX = ALLOC_VOLUMES_MAX };
	struct error err;

	assert_succeeds(judge_sizes(f, MAX, MAX, &err), err);
	assert_int_equal(judge_sizes(f, MAX + 1, 0, &err), STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "group one.volume: it has 17, at most 16 are allowed");
	assert_int_equal(judge_sizes(f, 1, MAX + 1, &err), STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "group one.per_alloc: it names more than 16 volumes");
}

CASE(a_group_may_have_the_most_attempts_and_the_longest_interval)
{
	struct submission s;

	make_job(f, &s);
	s.reschedule.attempts = JOB_RESCHEDULE_ATTEMPTS_MAX;
	s.reschedule.interval_ms = JOB_RESCHEDULE_INTERVAL_MAX_MS;
	assert_int_equal(run(f, &s, NULL), 1);
}

CASE(attempts_without_an_interval_are_those_of_a_day)
{
	static struct job_view view;
	struct submission s;

	make_job(f, &s);
	job_view_of(&s.job, &view);
	assert_int_equal(view.spec.groups[0].reschedule.interval_ms, 24 * 3600 * 1000);
	s.reschedule.interval_ms = 1000;
	job_view_of(&s.job, &view);
	assert_int_equal(view.spec.groups[0].reschedule.interval_ms, 1000);
}

CLUSTER_TEST(members_have_volumes_of_their_own_and_lists_have_versions)
{
	Holdfast__V1__JobHistoryRequest request = HOLDFAST__V1__JOB_HISTORY_REQUEST__INIT;
	Holdfast__V1__ListJobsRequest all = HOLDFAST__V1__LIST_JOBS_REQUEST__INIT;
	const Holdfast__V1__JobHistoryResponse *history;
	const Holdfast__V1__ListJobsResponse *list;
	ProtobufCMessage *message = NULL;
	struct submission s;

	assert_int_equal(register_disk(f, &f->operator, "db[1]", "disk-1", NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	make_job(f, &s);
	s.group.count = 2;
	s.group.per_alloc = s.per_alloc;
	s.group.n_per_alloc = 1;
	for (uint32_t i = 1; i <= 8; i++) {
		s.alloc.mount_timeout_ms = 1000 * i;
		assert_int_equal(run(f, &s, NULL), i);
	}
	request.id = text("web");
	assert_int_equal(call(&f->operator, JOBS, "History", &request.base, &message, NULL), STATUS_OK);
	history = (const void *)message;
	assert_int_equal(history->n_versions, 6);
	assert_int_equal(history->versions[0]->version, 8);
	assert_int_equal(history->versions[5]->version, 3);
	protobuf_c_message_free_unpacked(message, NULL);
	assert_int_equal(call(&f->operator, JOBS, "List", &all.base, &message, NULL), STATUS_OK);
	list = (const void *)message;
	assert_int_equal(list->n_jobs, 1);
	assert_string_equal(list->jobs[0]->id, "web");
	assert_true(list->jobs[0]->modify_index > list->jobs[0]->create_index);
	protobuf_c_message_free_unpacked(message, NULL);
	all.namespace_ = text("*");
	assert_int_equal(call(&f->operator, JOBS, "List", &all.base, &message, NULL), STATUS_OK);
	assert_int_equal(((const Holdfast__V1__ListJobsResponse *)(const void *)message)->n_jobs, 1);
	protobuf_c_message_free_unpacked(message, NULL);
	all.prefix = text("wep");
	assert_int_equal(call(&f->operator, JOBS, "List", &all.base, &message, NULL), STATUS_OK);
	assert_int_equal(((const Holdfast__V1__ListJobsResponse *)(const void *)message)->n_jobs, 0);
	protobuf_c_message_free_unpacked(message, NULL);
}

/* Node n1 always has fewer live allocations than n2. */
CLUSTER_TEST(a_member_that_failed_is_placed_on_another_node_that_can_take_it)
{
	Holdfast__V1__NodeDriver driver = HOLDFAST__V1__NODE_DRIVER__INIT, *drivers[] = {&driver};
	Holdfast__Driver__V1__CapabilitiesResponse offer = HOLDFAST__DRIVER__V1__CAPABILITIES_RESPONSE__INIT;
	Holdfast__Driver__V1__TaskConfig task = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT, *tasks[] = {&task};
	struct submission s;

	driver.name = task.driver = text("container");
	driver.healthy = true;
	driver.capabilities = &offer;
	f->n1.drivers = f->n2.drivers = drivers;
	f->n1.n_drivers = f->n2.n_drivers = 1;
	connect_both(f);
	make_job(f, &s);
	task.task = text("web");
	s.alloc.tasks = tasks;
	s.alloc.n_tasks = 1;
	s.alloc.n_volumes = 0;
	assert_int_equal(set_eligible(f, "n1", false, NULL), STATUS_OK);
	s.job.id = text("other");
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n2.runs == 1);
	assert_int_equal(set_eligible(f, "n1", true, NULL), STATUS_OK);

	s.job.id = text("web");
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1);
	fake_node_send_alloc(&f->n1, f->n1.last_run, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, f->n1.runs + f->n2.runs == 3);
	assert_int_equal(f->n2.runs, 2);

	/* no other node can take it */
	assert_int_equal(set_eligible(f, "n2", false, NULL), STATUS_OK);
	fake_node_send_alloc(&f->n2, f->n2.last_run, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, f->n1.runs == 2);
	fake_node_send_alloc(&f->n1, f->n1.last_run, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, f->n1.runs == 3);
	assert_int_equal(f->n2.runs, 2);
}
