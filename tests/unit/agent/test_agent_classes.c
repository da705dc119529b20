/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of volumes, propagation, and what the status says of the mount helpers. */

#include "scenario.h"

/* Who staged A's volume, and as what. */
static const struct fake_log *staged(struct world *w)
{
	for (uint32_t i = 0; i < w->fake.state->n_log; i++) {
		if (w->fake.state->log[i].op == MH_OP_STAGE)
			return &w->fake.state->log[i];
	}
	fail_msg("nothing was staged");
	return NULL;
}

static bool all_have_started(struct world *w)
{
	return w->fake.state->starts >= 2;
}

static bool that_of_nfs_too(struct world *w)
{
	return w->fake.state->starts == 3;
}

static bool everything_is_released(struct world *w)
{
	return model_server_unreleased(&w->server) == 0;
}

WORLD_TEST(nfs_volumes_are_mounted_and_released_by_their_own_helper)
{
	pid_t helper;

	w->server.class = SOURCE_NFS4;
	start_with_a(w, 1);
	helper = staged(w)->pid;
	assert_int_equal(staged(w)->class, MH_CLASS_NFS4);
	WORLD_UNTIL(w, that_of_nfs_too);
	stop_a(w);
	for (uint32_t i = 0; i < w->fake.state->n_log; i++)
		assert_int_equal(w->fake.state->log[i].pid, helper);
}

WORLD_TEST(a_release_takes_the_class_from_the_profile)
{
	struct model_claim *claim;

	w->fake.state->profiles[0].class = MH_CLASS_NFS4;
	fake_helper_put(&w->fake, world_wire("vol0"), "", 0, 100);
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	WORLD_UNTIL(w, all_have_started);
	claim = model_server_add_claim(&w->server, ALLOC_A, "vol0", world_boot_id());
	(void)str_copy(claim->claim.profile, sizeof(claim->claim.profile), "scratch");
	model_server_release(&w->server, claim);
	WORLD_UNTIL(w, everything_is_released);
	assert_int_equal(w->fake.state->starts, 3);
	assert_int_equal(w->fake.state->log[0].op, MH_OP_UNSTAGE);
}

WORLD_TEST(host_volumes_are_mounted_by_name)
{
	w->server.class = SOURCE_BIND;
	start_with_a(w, 1);
	assert_int_equal(staged(w)->class, MH_CLASS_BIND);
	WORLD_UNTIL(w, all_have_started);
	stop_a(w);
	assert_int_equal(w->fake.state->starts, 2);
}

/* Fails unless the status says @why of A's only mount; NULL: nothing. */
static void expect_stale(struct world *w, const char *why)
{
	Holdfast__V1__GetAgentStatusResponse *report = NON_NULL(world_report(w));

	assert_int_equal(report->n_mounts, 1);
	if (why) {
		assert_non_null(strstr(report->mounts[0]->stale, why));
		assert_non_null(strstr(report->mounts[0]->stale, "holdfast alloc stop " ALLOC_A));
	} else {
		assert_string_equal(report->mounts[0]->stale, "");
	}
	protobuf_c_message_free_unpacked(&report->base, NULL);
}

WORLD_TEST(a_mount_whose_server_died_is_stale_until_it_answers_again)
{
	w->server.class = SOURCE_NFS4;
	start_with_a(w, 1);
	expect_stale(w, NULL);
	w->seen = PATH_DISCONNECTED;
	expect_stale(w, "has died");
	w->seen = PATH_FAILED; /* nobody could look: nothing new is known */
	expect_stale(w, "has died");
	w->seen = PATH_STALE;
	expect_stale(w, "no longer knows this directory");
	w->seen = PATH_SILENT;
	expect_stale(w, "does not answer");
	w->seen = PATH_MOUNTED;
	expect_stale(w, NULL);
	w->seen = PATH_FAILED;
	expect_stale(w, NULL);
	w->seen = PATH_MOUNTED;
	stop_a(w);
}

WORLD_TEST(a_class_without_a_file_server_is_not_probed)
{
	unsigned int looks;

	w->server.class = SOURCE_TMPFS;
	start_with_a(w, 1);
	looks = w->looks;
	w->seen = PATH_DISCONNECTED;
	expect_stale(w, NULL);
	assert_int_equal(w->looks, looks);
	stop_a(w);
}

WORLD_TEST(propagation_reaches_the_helper_and_is_read_back)
{
	static const char *const shown[] = {"private", "slave", "shared"};
	struct alloc alloc = records_alloc(ALLOC_A, 3);
	Holdfast__V1__GetAgentStatusResponse *report;

	for (uint32_t i = 0; i < 3; i++)
		alloc.volumes[i].propagation = (enum propagation)i;
	alloc.volumes[1].exec = true;
	world_start_agent(w);
	model_server_run(&w->server, &alloc);
	WORLD_UNTIL(w, a_runs);
	for (uint32_t i = 0; i < 3; i++) {
		const struct fake_mount *mount = fake_helper_mount(&w->fake, "", ALLOC_A, i);

		assert_int_equal(mount->propagation, i);
		assert_int_equal(mount->exec, i == 1);
	}
	report = world_report(w);
	assert_int_equal(report->n_mounts, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(report->mounts[i]->verified);
		assert_string_equal(report->mounts[i]->propagation, shown[i]);
	}
	protobuf_c_message_free_unpacked(&report->base, NULL);
	stop_a(w);
}

WORLD_TEST(another_propagation_than_asked_for_is_undone)
{
	struct alloc alloc = records_alloc(ALLOC_A, 1);

	alloc.volumes[0].propagation = PROPAGATION_HOST_TO_TASK;
	w->fake.state->deaf_to_propagation = true;
	world_start_agent(w);
	model_server_run(&w->server, &alloc);
	expect_failed_and_undone(w, STATUS_FAILED_PRECONDITION, "host-to-task was asked for");
}

/* They belong to plugins, which are fingerprinted apart. */
TEST_ON(profiles_of_class_csi_are_not_offered, struct world, w, world_setup, world_teardown)
{
	static const enum mh_class classes[] = {MH_CLASS_CSI, MH_CLASS_TMPFS, MH_CLASS_CSI, MH_CLASS_BIND,
						MH_CLASS_NFS4};

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		w->fake.state->profiles[i] = (struct fake_profile){
			.name = {'p', (char)('0' + i)}, .class = (uint8_t)classes[i], .is_available = i != 4};
	}
	w->fake.state->n_profiles = ARRAY_SIZE(classes);
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	assert_int_equal(w->server.hello_plugins, 3);
	assert_true(w->server.plugins[1].healthy);
	assert_string_equal(w->server.plugins[2].health_description,
			    "the kernel does not know the file system type, and found no module for it when "
			    "the mount helper started: install the module, then systemctl restart "
			    "holdfast-agent");
}

WORLD_TEST(the_status_shows_every_instance)
{
	Holdfast__V1__GetAgentStatusResponse *report;
	const Holdfast__V1__AgentHelper *helper;
	unsigned int n = 0;

	w->fake.state->ticket_optional = 1;
	start_with_a(w, 1);
	WORLD_UNTIL(w, all_have_started);
	report = world_report(w);
	helper = report->helper;
	assert_true(helper->ticket_optional);
	assert_int_equal(helper->n_instances, 3);
	for (size_t i = 0; i < 2; i++) {
		if (helper->instances[i]->pid == helper->pid) {
			assert_string_equal(helper->instances[i]->state, "ready");
			assert_string_equal(helper->instances[i]->launch_mode, "setuid");
			n++;
		}
	}
	assert_int_equal(n, 1);
	assert_false(helper->instances[1]->nfs);
	assert_true(helper->instances[2]->nfs);
	assert_string_equal(helper->instances[2]->state, "idle");
	protobuf_c_message_free_unpacked(&report->base, NULL);
	stop_a(w);
}

static bool a_waits_for_a_disk(struct world *w)
{
	Holdfast__V1__GetAgentStatusResponse *report = world_report(w);
	bool waits = report->n_operations == 1 &&
		     strstr(report->operations[0]->last_error, "is not mounted at its path") != NULL;

	protobuf_c_message_free_unpacked(&report->base, NULL);
	return waits;
}

WORLD_TEST(a_host_volume_whose_disk_is_not_mounted_is_shown_and_tried_again)
{
	world_start_agent(w);
	w->fake.state->not_mounted = UINT32_MAX;
	run_a(w, 1);
	WORLD_UNTIL(w, a_waits_for_a_disk);
	w->fake.state->not_mounted = 0;
	WORLD_UNTIL(w, a_runs);
	stop_a(w);
}

TEST_GROUP(world_group_setup, world_group_teardown)
