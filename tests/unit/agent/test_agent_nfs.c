/* SPDX-License-Identifier: Apache-2.0 */
/* When a volume of an NFS server counts as released: not before the kernel's NFS client has given it up. */

#include "scenario.h"

static bool release_failed_twice(struct world *w)
{
	return w->server.n_claims == 1 && w->server.claims[0].errors >= 2;
}

static bool everything_is_released(struct world *w)
{
	return model_server_unreleased(&w->server) == 0;
}

static bool helper_was_started_for_it(struct world *w)
{
	return w->fake.state->starts >= 2;
}

static void start_nfs(struct world *w)
{
	w->server.class = SOURCE_NFS4;
	start_with_a(w, 1);
}

static void stop_is_refused_with(struct world *w, const char *words)
{
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, release_failed_twice);
	assert_int_equal(done(w, MH_OP_UNSTAGE), 1);
	expect_nothing_mounted(w);
	if (!strstr(w->server.claims[0].last_error, words))
		fail_msg("not \"%s\" in: %s", words, w->server.claims[0].last_error);
	assert_false(w->server.claims[0].is_released);
}

WORLD_TEST(an_unused_volume_is_released_at_once)
{
	start_nfs(w);
	stop_a(w);
	assert_int_equal(w->server.claims[0].errors, 0);
}

WORLD_TEST(an_nfs_mount_in_another_namespace_prevents_release)
{
	start_nfs(w);
	w->nfs_lives = true;
	stop_is_refused_with(w, "another mount namespace");
	assert_non_null(strstr(w->server.claims[0].last_error, "grep ' 0:"));
	w->nfs_lives = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

WORLD_TEST(a_mount_elsewhere_is_named)
{
	start_nfs(w);
	w->nfs_lives = true;
	w->nfs_elsewhere = "/mnt/copy;$(reboot)";
	stop_is_refused_with(w, "umount '/mnt/copy;$(reboot)')");
	w->nfs_lives = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

/* A person has unmounted it while the agent was down; the new mount has another number. */
WORLD_TEST(a_copy_of_a_former_mount_keeps_the_volume)
{
	w->nfs_is_shared = true;
	start_nfs(w);
	WORLD_UNTIL(w, all_is_acknowledged);
	world_kill_agent(w);
	for (size_t i = 0; i < ARRAY_SIZE(w->fake.state->mounts); i++)
		w->fake.state->mounts[i].is_used = false;
	w->nfs_lives = true;
	world_start_agent(w);
	WORLD_UNTIL(w, release_failed_twice);
	assert_non_null(strstr(w->server.claims[0].last_error, "(device 0:100) is still in use"));
	assert_false(w->server.claims[0].is_released);
	w->nfs_lives = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_FAILED);
	expect_nothing_mounted(w);
}

WORLD_TEST(a_number_that_is_another_ones_is_a_release)
{
	start_nfs(w);
	w->nfs_lives = true;
	stop_is_refused_with(w, "still in use");
	w->nfs_number_is_reused = true;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

/* Of a release without nosharecache. */
WORLD_TEST(a_superblock_that_others_may_share_is_asked_about_as_such)
{
	start_nfs(w);
	w->nfs_lives = true;
	w->nfs_is_shared = true; /* the model asserts it */
	stop_is_refused_with(w, "still in use");
	w->nfs_lives = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

static bool helper_is_at_work(struct world *w)
{
	return w->fake.state->in_flight > 0;
}

static bool unpublish_was_sent_away(struct world *w)
{
	return fake_helper_count(&w->fake, MH_OP_UNPUBLISH, MH_BUSY, NULL, NULL) > 0;
}

static bool release_waits_for_the_kernel(struct world *w)
{
	return strstr(w->server.claims[0].last_error, "another mount namespace") != NULL;
}

/* The agent that asked for it is gone, and the next one is to undo what it has never seen. */
WORLD_TEST(an_earlier_agents_nfs_stage_is_checked_too)
{
	w->server.class = SOURCE_NFS4;
	w->fake.state->fault = FAKE_LATE;
	w->fake.state->fault_call = 1;
	w->fake.state->fault_calls = 1;
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, helper_is_at_work);
	world_kill_agent(w);
	model_server_want_stop(&w->server, ALLOC_A);
	world_start_agent(w);
	WORLD_UNTIL(w, unpublish_was_sent_away);
	w->nfs_lives = true;
	w->fake.state->go = 1;
	WORLD_UNTIL(w, release_waits_for_the_kernel);
	assert_false(w->server.claims[0].is_released);
	expect_nothing_mounted(w);
	w->nfs_lives = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

WORLD_TEST(a_list_that_cannot_be_read_is_no_release)
{
	start_nfs(w);
	w->nfs_list_fails = true;
	stop_is_refused_with(w, "cannot be known: there is no list");
	w->nfs_list_fails = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

WORLD_TEST(a_list_that_never_had_it_is_no_release)
{
	w->nfs_list_is_foreign = true;
	start_nfs(w);
	stop_is_refused_with(w, "never showed it");
	assert_non_null(strstr(w->server.claims[0].last_error, "PrivateNetwork="));
	/* seen once, its absence counts */
	w->nfs_list_is_foreign = false;
	w->nfs_lives = true;
	w->server.claims[0].errors = 0;
	WORLD_UNTIL(w, release_failed_twice);
	assert_non_null(strstr(w->server.claims[0].last_error, "another mount namespace"));
	w->nfs_lives = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

/* What was listed when it was published tells nothing of what somebody staged in its place. */
WORLD_TEST(evidence_of_another_device_number_does_not_count)
{
	start_nfs(w);
	WORLD_UNTIL(w, all_is_acknowledged);
	for (size_t i = 0; i < FAKE_MOUNTS_MAX; i++) {
		if (w->fake.state->mounts[i].is_used)
			w->fake.state->mounts[i].minor = 4711;
	}
	w->nfs_list_is_foreign = true;
	world_kill_agent(w);
	world_start_agent(w);
	WORLD_UNTIL(w, release_failed_twice);
	assert_non_null(strstr(w->server.claims[0].last_error, "(device 0:4711) is still in use elsewhere"));
	assert_non_null(strstr(w->server.claims[0].last_error, "never showed it"));
	assert_false(w->server.claims[0].is_released);
	w->nfs_list_is_foreign = false;
	w->nfs_lives = true;
	w->server.claims[0].errors = 0;
	WORLD_UNTIL(w, release_failed_twice);
	w->nfs_lives = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

WORLD_TEST(a_restart_forgets_neither_the_number_nor_that_it_was_listed)
{
	start_nfs(w);
	w->nfs_lives = true;
	stop_is_refused_with(w, "another mount namespace");
	world_kill_agent(w);
	w->server.claims[0].errors = 0;
	w->nfs_is_shared = true; /* whether it was its own cannot be seen any more */
	world_start_agent(w);
	WORLD_UNTIL(w, release_failed_twice);
	assert_non_null(strstr(w->server.claims[0].last_error, "another mount namespace"));
	world_kill_agent(w);
	w->nfs_lives = false;
	world_start_agent(w);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

/* Of a volume that this agent never heard of. */
static void release_with_profile(struct world *w, const char *profile)
{
	struct model_claim *claim;

	w->server.class = SOURCE_NFS4;
	w->fake.state->profiles[0].class = MH_CLASS_NFS4;
	fake_helper_put(&w->fake, world_wire("vol0"), "", 0, 100);
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	WORLD_UNTIL(w, helper_was_started_for_it);
	w->nfs_lives = true;
	claim = model_server_add_claim(&w->server, ALLOC_A, "vol0", world_boot_id());
	(void)str_copy(claim->claim.profile, sizeof(claim->claim.profile), profile);
	model_server_release(&w->server, claim);
	WORLD_UNTIL(w, release_failed_twice);
	assert_false(claim->is_released);
	assert_non_null(strstr(claim->last_error, "(device 0:100) is still in use"));
	world_kill_agent(w);
	w->server.hellos = 0;
	w->server.adoption_complete = false;
	claim->errors = 0;
	w->nfs_is_shared = true; /* whether it was its own cannot be seen any more */
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	model_server_release(&w->server, claim);
	WORLD_UNTIL(w, release_failed_twice);
	assert_false(claim->is_released);
	assert_non_null(strstr(claim->last_error, "(device 0:100) is still in use"));
	w->nfs_lives = false;
	WORLD_UNTIL(w, everything_is_released);
}

TEST_FIXTURE(a_release_at_the_servers_word_waits_too, world_setup, world_teardown)
{
	release_with_profile(*state, "scratch");
}

TEST_FIXTURE(a_mount_tells_the_class_when_the_profile_is_gone, world_setup, world_teardown)
{
	release_with_profile(*state, "gone");
}

TEST_GROUP(world_group_setup, world_group_teardown)
