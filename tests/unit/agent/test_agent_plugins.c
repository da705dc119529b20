/* SPDX-License-Identifier: Apache-2.0 */
/* CSI plugins of a whole agent: what the server is notified of them, what outlives a restart, and allocations
 * that run one. */

#include "fake_csi.h"
#include "scenario.h"

#include "session/fingerprint.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static struct fake_csi_plugin *plugin; /* of the test */
static char folder[TEMP_DIR_SIZE];

static const char *path_of(const char *name)
{
	static char path[108];

	assert_true(str_format(path, sizeof(path), "%s/%s", folder, name) > 0);
	return path;
}

static void bind_socket(const char *name)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(mkdir(path_of(str_eq(name, "nfs/csi.sock") ? "nfs" : "ebs"), 0755) == 0 ||
		    errno == EEXIST);
	assert_int_equal(str_copy(addr.sun_path, sizeof(addr.sun_path), path_of(name)), 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
	(void)close(fd);
}

static int setup(void **state)
{
	struct world *w;

	fake_csi_init();
	temp_dir_make(folder);
	assert_int_equal(world_setup(state), 0);
	w = *state;
	assert_int_equal(str_copy(w->config.plugin_dir, sizeof(w->config.plugin_dir), folder), 0);
	plugin = fake_csi_add(path_of("ebs/csi.sock"));
	(void)fake_csi_add(path_of("nfs/csi.sock"));
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(world_teardown(state), 0);
	(void)unlink(path_of("ebs/csi.sock"));
	(void)unlink(path_of("nfs/csi.sock"));
	temp_dir_remove(folder);
	fake_csi_release();
	return 0;
}

static const struct node_plugin *told(const struct world *w)
{
	for (size_t i = 0; i < w->server.n_plugins; i++)
		if (str_eq(w->server.plugins[i].plugin_id, "ebs"))
			return &w->server.plugins[i];
	return NULL;
}

static bool is_reported_healthy(struct world *w)
{
	return told(w) && told(w)->healthy;
}

static bool is_reported_sick(struct world *w)
{
	return told(w) && !told(w)->healthy && told(w)->health_description[0] != '\0';
}

static bool is_reported_gone(struct world *w)
{
	return w->server.fingerprints > 0 && !told(w);
}

#define CASE(name) TEST_ON(name, struct world, w, setup, teardown)

CASE(a_plugin_is_reported_in_the_session_that_runs)
{
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	assert_null(told(w));
	bind_socket("ebs/csi.sock");
	WORLD_UNTIL(w, is_reported_healthy);
	assert_string_equal(told(w)->provider, "fake.csi.test");
	assert_string_equal(told(w)->node.provider_node_id, "fake-node");
	assert_true(told(w)->has_controller && told(w)->controller.attach_detach);
	/* native profiles besides */
	assert_int_equal(w->server.n_plugins, 2);
	fake_csi_set_up(plugin, false);
	WORLD_UNTIL(w, is_reported_sick);
	(void)unlink(path_of("ebs/csi.sock"));
	(void)rmdir(path_of("ebs"));
	WORLD_UNTIL(w, is_reported_gone);
	assert_int_equal(w->server.n_plugins, 1);
	assert_int_equal(w->server.hellos, 1);
}

CASE(a_plugin_that_stands_at_the_start_is_reported_in_each_session)
{
	unsigned int fingerprints;

	bind_socket("ebs/csi.sock");
	world_start_agent(w);
	WORLD_UNTIL(w, is_reported_healthy);
	fingerprints = w->server.fingerprints;
	w->server.hellos = 0;
	w->server.n_plugins = 0;
	world_restart_server(w);
	WORLD_UNTIL(w, is_connected);
	assert_true(is_reported_healthy(w));
	assert_int_equal(w->server.hello_plugins, 2);
	/* nothing had changed after the hello */
	world_idle(w, 50);
	assert_int_equal(w->server.fingerprints, fingerprints);
}

/* As an operator does after a change of the policy. */
static void replace_helpers(struct world *w)
{
	assert_int_equal(agent_supervise(w->agent, NULL), STATUS_OK);
	assert_int_equal(kill(getpid(), SIGHUP), 0);
}

static bool has_other_profile(struct world *w)
{
	return w->server.n_plugins == 1 && str_eq(w->server.plugins[0].profile, "other");
}

CASE(another_policy_of_the_helper_is_reported_in_the_session_that_runs)
{
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	memset(w->fake.state->profiles[0].name, 0, MH_LABEL_SIZE);
	(void)str_copy(w->fake.state->profiles[0].name, MH_LABEL_SIZE, "other");
	w->fake.state->policy++;
	replace_helpers(w);
	WORLD_UNTIL(w, has_other_profile);
	assert_int_equal(w->server.hellos, 1);
}

static bool is_native_sick(struct world *w)
{
	return w->server.n_plugins == 1 && !w->server.plugins[0].healthy;
}

static bool is_native_healthy(struct world *w)
{
	return w->server.n_plugins == 1 && w->server.plugins[0].healthy;
}

CASE(a_helper_that_does_not_start_is_reported_and_so_is_one_that_does_again)
{
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	WORLD_UNTIL(w, is_native_healthy);
	w->fake.state->start = FAKE_START_EXIT;
	w->fake.state->start_code = 71;
	w->fake.state->start_times = UINT32_MAX;
	for (uint32_t i = 0; i < w->fake.state->starts; i++)
		assert_int_equal(kill(w->fake.state->pids[i], SIGKILL), 0);
	WORLD_UNTIL(w, is_native_sick);
	w->fake.state->start_times = 0;
	WORLD_UNTIL(w, is_native_healthy);
	assert_int_equal(w->server.hellos, 1);
}

CASE(facts_of_a_plugin_outlive_the_agent)
{
	world_start_agent(w);
	bind_socket("ebs/csi.sock");
	WORLD_UNTIL(w, is_reported_healthy);
	world_idle(w, 50); /* until it is on the disk */
	world_kill_agent(w);
	fake_csi_set_up(plugin, false);
	w->server.n_plugins = 0;
	w->server.hellos = 0;
	world_start_agent(w);
	WORLD_UNTIL(w, is_connected);
	assert_true(is_reported_sick(w));
	assert_string_equal(told(w)->provider, "fake.csi.test");
	assert_true(told(w)->has_controller && told(w)->node.stage);
	/* and is forgotten with its folder, there too */
	(void)unlink(path_of("ebs/csi.sock"));
	(void)rmdir(path_of("ebs"));
	WORLD_UNTIL(w, is_reported_gone);
	world_idle(w, 50);
	world_kill_agent(w);
	w->server.hellos = 0;
	world_start_agent(w);
	WORLD_UNTIL(w, is_connected);
	assert_null(told(w));
}

static struct csi_plugin plugins[2];

static struct alloc plugin_alloc(uint32_t health_timeout_ms)
{
	struct alloc alloc = records_alloc(ALLOC_A, 1);

	plugins[0] = (struct csi_plugin){
		.id = "ebs", .type = CSI_PLUGIN_MONOLITH, .health_timeout_ms = health_timeout_ms};
	alloc.plugins = plugins;
	alloc.n_plugins = 1;
	return alloc;
}

static bool a_waits_for_its_plugin(struct world *w)
{
	const struct model_alloc *a = model_server_alloc(&w->server, ALLOC_A);

	return a && strstr(alloc_description(&a->alloc), "waiting until its plugin ebs");
}

CASE(an_allocation_runs_when_its_plugin_is_healthy)
{
	const struct alloc alloc = plugin_alloc(0);
	Holdfast__V1__GetAgentStatusResponse *report;

	world_start_agent(w);
	model_server_run(&w->server, &alloc);
	WORLD_UNTIL(w, a_waits_for_its_plugin);
	assert_int_equal(done(w, MH_OP_PUBLISH), 1); /* its volume is there before */
	report = world_report(w);
	assert_int_equal(report->n_operations, 1);
	assert_string_equal(report->operations[0]->step, "plugin");
	assert_int_equal(report->n_plugins, 1);
	assert_string_equal(report->plugins[0]->state, "absent");
	protobuf_c_message_free_unpacked(&report->base, NULL);
	bind_socket("ebs/csi.sock");
	WORLD_UNTIL(w, a_runs);
	WORLD_UNTIL(w, is_reported_healthy);
	assert_string_equal(told(w)->allocation_id, ALLOC_A);
	report = world_report(w);
	assert_int_equal(report->n_plugins, 1);
	assert_string_equal(report->plugins[0]->plugin_id, "ebs");
	assert_string_equal(report->plugins[0]->state, "healthy");
	assert_string_equal(report->plugins[0]->provider, "fake.csi.test");
	assert_string_equal(report->plugins[0]->alloc_id, ALLOC_A);
	assert_string_equal(report->plugins[0]->socket, path_of("ebs/csi.sock"));
	assert_true(report->plugins[0]->used && report->plugins[0]->calls >= 6);
	protobuf_c_message_free_unpacked(&report->base, NULL);
	stop_a(w);
	/* its socket stands still, and is nobody's */
	WORLD_UNTIL(w, is_reported_gone);
}

CASE(an_allocation_whose_plugin_is_not_healthy_in_time_fails_with_the_reason)
{
	const struct alloc alloc = plugin_alloc(100);

	plugin->orders[CSI_PROBE] = (struct fake_csi_orders){FAKE_CSI_FAIL, UINT32_MAX,
							     STATUS_FAILED_PRECONDITION, "no such pool"};
	bind_socket("ebs/csi.sock");
	world_start_agent(w);
	model_server_run(&w->server, &alloc);
	expect_failed_and_undone(w, STATUS_FAILED_PRECONDITION, "no such pool");
}

CASE(an_allocation_can_be_stopped_while_it_waits_for_its_plugin)
{
	const struct alloc alloc = plugin_alloc(0);

	world_start_agent(w);
	model_server_run(&w->server, &alloc);
	WORLD_UNTIL(w, a_waits_for_its_plugin);
	stop_a(w);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_COMPLETE);
	bind_socket("ebs/csi.sock");
	WORLD_UNTIL(w, is_reported_healthy);
	assert_string_equal(told(w)->allocation_id, "");
}

CASE(an_allocation_that_runs_continues_after_a_restart_without_its_plugin)
{
	const struct alloc alloc = plugin_alloc(1000);

	world_start_agent(w);
	model_server_run(&w->server, &alloc);
	WORLD_UNTIL(w, a_waits_for_its_plugin);
	bind_socket("ebs/csi.sock");
	WORLD_UNTIL(w, a_runs);
	WORLD_UNTIL(w, is_reported_healthy);
	world_idle(w, 50);
	world_kill_agent(w);
	(void)unlink(path_of("ebs/csi.sock"));
	w->server.hellos = 0;
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	world_idle(w, 1200);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_RUNNING);
	assert_true(is_reported_sick(w));
	assert_string_equal(told(w)->allocation_id, ALLOC_A);
	bind_socket("ebs/csi.sock");
	WORLD_UNTIL(w, is_reported_healthy);
	assert_string_equal(told(w)->allocation_id, ALLOC_A);
	stop_a(w);
	WORLD_UNTIL(w, is_reported_gone);
}

static bool a_waits_for_both(struct world *w)
{
	const struct model_alloc *a = model_server_alloc(&w->server, ALLOC_A);

	return a && str_eq(alloc_description(&a->alloc), "waiting until its plugins ebs, nfs are healthy");
}

static struct alloc two_plugins_alloc(uint32_t second_timeout_ms)
{
	struct alloc alloc = plugin_alloc(0);

	plugins[1] = (struct csi_plugin){
		.id = "nfs", .type = CSI_PLUGIN_MONOLITH, .health_timeout_ms = second_timeout_ms};
	alloc.n_plugins = 2;
	return alloc;
}

CASE(an_allocation_of_two_plugins_runs_when_both_are_healthy)
{
	const struct alloc alloc = two_plugins_alloc(5000);

	world_start_agent(w);
	model_server_run(&w->server, &alloc);
	WORLD_UNTIL(w, a_waits_for_both);
	bind_socket("nfs/csi.sock");
	WORLD_UNTIL(w, a_waits_for_its_plugin); /* for the other one alone */
	bind_socket("ebs/csi.sock");
	WORLD_UNTIL(w, a_runs);
	WORLD_UNTIL(w, is_reported_healthy);
	world_idle(w, 50);
	world_kill_agent(w);
	w->server.hellos = 0;
	world_start_agent(w);
	WORLD_UNTIL(w, is_reported_healthy);
	for (size_t i = 0; i < w->server.n_plugins; i++)
		if (w->server.plugins[i].profile[0] == '\0')
			assert_string_equal(w->server.plugins[i].allocation_id, ALLOC_A);
	assert_int_equal(w->server.n_plugins, 3);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_RUNNING);
	stop_a(w);
	WORLD_UNTIL(w, is_reported_gone);
	assert_int_equal(w->server.n_plugins, 1);
}

CASE(an_allocation_fails_when_one_of_its_plugins_is_not_healthy_in_time)
{
	struct alloc alloc = two_plugins_alloc(100);

	bind_socket("ebs/csi.sock");
	world_start_agent(w);
	model_server_run(&w->server, &alloc);
	expect_failed_and_undone(w, STATUS_UNAVAILABLE, "plugin nfs was not healthy within");
}

TEST(a_fingerprint_is_reported_once)
{
	Holdfast__V1__Fingerprint one = HOLDFAST__V1__FINGERPRINT__INIT;
	Holdfast__V1__NodePlugin row = V1(node_plugin, .plugin_id = "ebs"), *list[] = {&row};
	struct fingerprint_sent said = {0};

	assert_true(fingerprint_has_changed(&said, &one)); /* an empty one is a change as well */
	fingerprint_note(&said, &one);
	assert_false(fingerprint_has_changed(&said, &one));
	one.plugins = list;
	one.n_plugins = 1;
	assert_true(fingerprint_has_changed(&said, &one));
	fingerprint_note(&said, &one);
	assert_false(fingerprint_has_changed(&said, &one));
	row.plugin_id = "efs"; /* of the same length */
	assert_true(fingerprint_has_changed(&said, &one));
	fingerprint_release(&said);
	assert_true(fingerprint_has_changed(&said, &one));
}

TEST_GROUP(world_group_setup, world_group_teardown)
