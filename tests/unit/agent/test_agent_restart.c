/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "alloc/journal.h"
#include "base/clock.h"
#include "base/fd.h"

static bool release_failed_twice(struct world *w)
{
	return w->server.n_claims == 1 && w->server.claims[0].errors >= 2;
}

WORLD_TEST(a_busy_volume_is_tried_again_and_never_torn_away)
{
	Holdfast__V1__GetAgentStatusResponse *report;

	start_with_a(w, 1);
	w->fake.state->busy_unpublish = UINT32_MAX;
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, release_failed_twice);
	assert_non_null(strstr(w->server.claims[0].last_error, "in use"));
	assert_false(w->server.claims[0].is_released);
	assert_false(a_ended(w));
	report = world_report(w);
	assert_int_equal(report->n_operations, 1);
	assert_string_equal(report->operations[0]->alloc_id, ALLOC_A);
	assert_true(report->operations[0]->attempts >= 2);
	assert_non_null(strstr(report->operations[0]->last_error, "in use"));
	protobuf_c_message_free_unpacked(&report->base, NULL);
	w->fake.state->busy_unpublish = 0;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_COMPLETE);
	expect_nothing_mounted(w);
}

WORLD_TEST(a_stage_that_is_busy_is_tried_again)
{
	start_with_a(w, 1);
	w->fake.state->busy_unstage = 1;
	stop_a(w);
	assert_int_equal(w->server.claims[0].errors, 1);
	expect_nothing_mounted(w);
}

WORLD_TEST(a_superblock_that_lives_elsewhere_is_no_release)
{
	w->server.class = SOURCE_BLOCK;
	start_with_a(w, 1);
	w->superblock_lives = true;
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, release_failed_twice);
	assert_int_equal(done(w, MH_OP_UNSTAGE), 1);
	assert_non_null(strstr(w->server.claims[0].last_error, "still in use"));
	assert_non_null(strstr(w->server.claims[0].last_error, "8:16"));
	assert_false(w->server.claims[0].is_released);
	w->superblock_lives = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

static bool release_failed_again(struct world *w)
{
	return w->server.claims[0].is_released || w->server.claims[0].errors >= 4;
}

static void expect_kept(struct world *w)
{
	WORLD_UNTIL(w, release_failed_again);
	assert_false(w->server.claims[0].is_released);
	assert_non_null(strstr(w->server.claims[0].last_error, "8:16"));
	w->superblock_lives = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

/* A person has unmounted it while the agent was down, and a container keeps a copy of the mount. */
WORLD_TEST(a_mount_that_cannot_be_made_again_is_released_after_its_last_copy)
{
	w->server.class = SOURCE_BLOCK;
	start_with_a(w, 1);
	WORLD_UNTIL(w, all_is_acknowledged);
	world_kill_agent(w);
	for (size_t i = 0; i < ARRAY_SIZE(w->fake.state->mounts); i++)
		w->fake.state->mounts[i].is_used = false;
	w->superblock_lives = true;
	w->fake.state->refuse_stage = UINT32_MAX;
	world_start_agent(w);
	expect_kept(w);
}

/* A plugin has mounted in its own folder under the volume's name, and the helper does not know better. */
WORLD_TEST(a_mount_under_the_name_of_a_volume_does_not_hide_its_device)
{
	char wire[WIRE_VOLUME_SIZE];

	(void)str_copy(wire, sizeof(wire), world_wire("vol0"));
	w->server.class = SOURCE_BLOCK;
	start_with_a(w, 1);
	WORLD_UNTIL(w, all_is_acknowledged);
	w->superblock_lives = true;
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, release_failed_twice);
	world_kill_agent(w);
	fake_helper_put(&w->fake, wire, "", 0, 77);
	world_start_agent(w);
	expect_kept(w);
}

WORLD_TEST(a_device_of_which_sysfs_does_not_answer_is_no_release)
{
	w->server.class = SOURCE_BLOCK;
	start_with_a(w, 1);
	w->sysfs_fails = true;
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, release_failed_twice);
	assert_non_null(strstr(w->server.claims[0].last_error, "still in use"));
	w->sysfs_fails = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

WORLD_TEST(an_unknown_mount_is_kept_and_shown)
{
	Holdfast__V1__GetAgentStatusResponse *report;

	fake_helper_put(&w->fake, "other", "", 0, 77);
	fake_helper_put(&w->fake, "other", ALLOC_B, 3, 77);
	start_with_a(w, 1);
	stop_a(w);
	assert_non_null(fake_helper_mount(&w->fake, "", ALLOC_B, 3));
	assert_non_null(fake_helper_mount(&w->fake, "other", "", 0));
	report = world_report(w);
	assert_int_equal(report->n_mounts, 2);
	assert_string_equal(report->mounts[0]->volume_id, "unknown");
	assert_string_equal(report->mounts[0]->alloc_id, ALLOC_B);
	assert_string_equal(report->mounts[0]->path, FAKE_PUBLISH_BASE "/" ALLOC_B "/3");
	assert_string_equal(report->mounts[0]->device, "0:77");
	assert_string_equal(report->mounts[1]->volume_id, "unknown, staged as other");
	assert_false(report->mounts[0]->verified);
	protobuf_c_message_free_unpacked(&report->base, NULL);
}

WORLD_TEST(an_unknown_user_keeps_a_volume_staged_and_claimed)
{
	start_with_a(w, 1);
	fake_helper_put(&w->fake, world_wire("vol0"), ALLOC_B, 0,
			fake_helper_mount(&w->fake, world_wire("vol0"), "", 0)->minor);
	world_kill_agent(w);
	world_start_agent(w); /* reads it from the kernel */
	WORLD_UNTIL(w, has_mount_snapshot);
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, release_failed_twice);
	assert_int_equal(done(w, MH_OP_UNSTAGE), 0);
	assert_non_null(fake_helper_mount(&w->fake, world_wire("vol0"), "", 0));
	assert_non_null(fake_helper_mount(&w->fake, "", ALLOC_B, 0));
	assert_false(w->server.claims[0].is_released);
	for (size_t i = 0; i < ARRAY_SIZE(w->fake.state->mounts); i++) {
		if (str_eq(w->fake.state->mounts[i].alloc, ALLOC_B))
			w->fake.state->mounts[i].is_used = false;
	}
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	expect_nothing_mounted(w);
}

/* As of two directories of one file system: the mount helper knows whose the publish is. */
WORLD_TEST(an_unknown_user_of_the_device_alone_keeps_no_volume_staged)
{
	start_with_a(w, 1);
	fake_helper_put(&w->fake, "other", ALLOC_B, 0,
			fake_helper_mount(&w->fake, world_wire("vol0"), "", 0)->minor);
	world_kill_agent(w);
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	stop_a(w);
	assert_int_equal(done(w, MH_OP_UNSTAGE), 1);
	assert_null(fake_helper_mount(&w->fake, world_wire("vol0"), "", 0));
	assert_non_null(fake_helper_mount(&w->fake, "", ALLOC_B, 0));
}

static bool all_is_released(struct world *w)
{
	return model_server_unreleased(&w->server) == 0;
}

WORLD_TEST(a_claim_without_allocation_is_cleaned_up_at_the_servers_word)
{
	const struct model_claim *claim =
		model_server_add_claim(&w->server, ALLOC_B, "vol0", world_boot_id());
	char wire[WIRE_VOLUME_SIZE];

	(void)str_copy(wire, sizeof(wire), world_wire("vol0"));
	fake_helper_put(&w->fake, wire, "", 0, 77);
	fake_helper_put(&w->fake, wire, ALLOC_B, 2, 77);
	fake_helper_put(&w->fake, wire, ALLOC_B, 5, 77);
	fake_helper_put(&w->fake, "other", "", 0, 78);
	fake_helper_put(&w->fake, "other", ALLOC_B, 1, 78);
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	w->fake.state->busy_unpublish = 1;
	model_server_release(&w->server, claim);
	model_server_release(&w->server, claim); /* twice is once */
	WORLD_UNTIL(w, all_is_released);
	assert_int_equal(claim->errors, 1);
	assert_null(fake_helper_mount(&w->fake, "", ALLOC_B, 2));
	assert_null(fake_helper_mount(&w->fake, "", ALLOC_B, 5));
	assert_null(fake_helper_mount(&w->fake, wire, "", 0));
	/* what is of another volume stays */
	assert_non_null(fake_helper_mount(&w->fake, "", ALLOC_B, 1));
	assert_non_null(fake_helper_mount(&w->fake, "other", "", 0));
	assert_int_equal(fake_helper_count(&w->fake, MH_OP_UNPUBLISH, MH_CONFLICT, NULL, NULL), 0);
}

/* The stage has gone; what another volume explains is not touched, the rest is taken for the claim's. */
WORLD_TEST(a_publish_without_its_stage_is_cleaned_up_too)
{
	const struct model_claim *claim =
		model_server_add_claim(&w->server, ALLOC_B, "vol0", world_boot_id());

	fake_helper_put(&w->fake, world_wire("vol0"), ALLOC_B, 0, 77);
	fake_helper_put(&w->fake, "other", "", 0, 78);
	fake_helper_put(&w->fake, "other", ALLOC_B, 1, 78);
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	model_server_release(&w->server, claim);
	WORLD_UNTIL(w, all_is_released);
	assert_null(fake_helper_mount(&w->fake, "", ALLOC_B, 0));
	assert_non_null(fake_helper_mount(&w->fake, "", ALLOC_B, 1));
	assert_int_equal(claim->errors, 0);
}

static bool release_failed_thrice_more(struct world *w)
{
	return w->server.claims[0].is_released || w->server.claims[0].errors >= 5;
}

static void restart(struct world *w)
{
	world_kill_agent(w);
	w->server.hellos = 0;
	w->server.adoption_complete = false;
	w->server.claims[0].errors = 2;
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
}

static enum status count_note(const struct release_note *note, void *userdata, struct error *err)
{
	++*(unsigned int *)userdata;
	return STATUS_OK;
}

/* Returns how many notes the journal of the stopped agent has, and writes one more, if there is one. */
static unsigned int count_notes(struct world *w, const struct release_note *more)
{
	static const struct journal_reader reader = {.on_note = count_note};
	const struct journal_options options = {
		.data_dir = w->config.data_dir, .cluster = MODEL_CLUSTER, .node_id = "n1"};
	struct journal *journal;
	unsigned int n = 0;
	struct error err;

	assert_ok(journal_open(w->event, &options, &journal, &err));
	assert_ok(journal_read(journal, &reader, &n, &err));
	if (more)
		assert_ok(journal_write(journal, &(struct journal_write){.note = more}, NULL, NULL, &err));
	journal_close(journal);
	return n;
}

WORLD_TEST(the_device_of_an_earlier_boot_keeps_no_claim)
{
	const struct model_claim *claim =
		model_server_add_claim(&w->server, ALLOC_B, "vol0", world_boot_id());
	struct release_note note = {
		.boot_id = EARLIER_BOOT,
		.generation = claim->claim.generation,
		.target = {.alloc_id = ALLOC_B,
			   .source.class = SOURCE_BLOCK,
			   .dev_major = 8,
			   .dev_minor = 16},
	};

	memcpy(note.claim_id, claim->claim.id, sizeof(note.claim_id));
	(void)str_copy(note.target.wire_volume, sizeof(note.target.wire_volume), world_wire("vol0"));
	assert_int_equal(count_notes(w, &note), 0);
	w->superblock_lives = true;
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	model_server_release(&w->server, claim);
	WORLD_UNTIL(w, all_is_released);
	assert_int_equal(claim->errors, 0);
	world_kill_agent(w);
	assert_int_equal(count_notes(w, NULL), 0);
}

/* A container keeps a copy of its mount, and the agent is started again while the release waits for that. */
WORLD_TEST(a_claim_that_only_the_server_knows_is_released_after_its_last_copy)
{
	struct model_claim *claim = model_server_add_claim(&w->server, ALLOC_B, "vol0", world_boot_id());

	fake_helper_put(&w->fake, world_wire("vol0"), "", 0, 16);
	fake_helper_put(&w->fake, world_wire("vol0"), ALLOC_B, 0, 16);
	for (size_t i = 0; i < ARRAY_SIZE(w->fake.state->mounts); i++)
		w->fake.state->mounts[i].major = 8;
	w->superblock_lives = true;
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	model_server_release(&w->server, claim);
	WORLD_UNTIL(w, release_failed_twice);
	for (unsigned int i = 0; i < 2; i++) {
		restart(w);
		/* as after a restore of the server */
		claim->claim.id[35] = i == 0 ? 'e' : 'f';
		model_server_release(&w->server, claim);
		WORLD_UNTIL(w, release_failed_thrice_more);
		assert_false(claim->is_released);
		assert_non_null(strstr(claim->last_error, "8:16"));
	}
	w->superblock_lives = false;
	WORLD_UNTIL(w, all_is_released);
	world_kill_agent(w);
	assert_int_equal(count_notes(w, NULL), 0);
}

WORLD_TEST(a_mount_that_fails_after_its_stage_is_released_after_its_last_copy)
{
	w->server.class = SOURCE_BLOCK;
	w->fake.state->refuse_publish = 1;
	w->superblock_lives = true;
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, release_failed_twice);
	restart(w);
	WORLD_UNTIL(w, release_failed_thrice_more);
	assert_false(w->server.claims[0].is_released);
	assert_non_null(strstr(w->server.claims[0].last_error, "8:16"));
	w->superblock_lives = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

WORLD_TEST(a_claim_of_which_nothing_is_there_is_released_at_once)
{
	const struct model_claim *claim =
		model_server_add_claim(&w->server, ALLOC_B, "vol0", world_boot_id());

	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	model_server_release(&w->server, claim);
	WORLD_UNTIL(w, all_is_released);
}

WORLD_TEST(a_claim_is_released_whatever_the_version_of_its_ticket)
{
	const struct model_claim *claim =
		model_server_add_claim(&w->server, ALLOC_B, "vol0", world_boot_id());

	w->server.foreign_ticket_size = sizeof(struct ticket) + 16;
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	model_server_release(&w->server, claim);
	WORLD_UNTIL(w, all_is_released);
	assert_int_equal(w->server.hellos, 1);
}

static bool claim_was_refused_to_be_released(struct world *w)
{
	return w->server.claims[0].errors > 0;
}

WORLD_TEST(the_claim_of_an_allocation_at_work_is_not_released)
{
	start_with_a(w, 1);
	model_server_release(&w->server, &w->server.claims[0]);
	WORLD_UNTIL(w, claim_was_refused_to_be_released);
	assert_non_null(strstr(w->server.claims[0].last_error, "holdfast alloc stop " ALLOC_A));
	assert_false(w->server.claims[0].is_released);
	assert_non_null(fake_helper_mount(&w->fake, "", ALLOC_A, 0));
	stop_a(w);
}

/* What a machine takes back when it is reverted to a snapshot, of what the model has. */
struct snapshot {
	char *files[3]; /* owned; of the journal, NULL: not there */
	size_t sizes[3];
	struct fake_mount mounts[FAKE_MOUNTS_MAX];
	uint64_t mark_kept;
};

static const char *const journal_files[] = {"agent.db", "agent.db-wal", "agent.db-shm"};

enum { JOURNAL_MAX = 16 << 20 };

/* The agent does not run, as when it goes back. */
static void take_snapshot(struct world *w, struct snapshot *ret)
{
	char path[TEMP_PATH_SIZE];

	*ret = (struct snapshot){.mark_kept = w->server.mark_kept};
	memcpy(ret->mounts, w->fake.state->mounts, sizeof(ret->mounts));
	for (size_t i = 0; i < ARRAY_SIZE(journal_files); i++)
		(void)file_read(temp_dir_path(path, w->config.data_dir, journal_files[i]), JOURNAL_MAX,
				&ret->files[i], &ret->sizes[i]);
	assert_non_null(ret->files[0]);
}

static void go_back(struct world *w, struct snapshot *to)
{
	char path[TEMP_PATH_SIZE];

	memcpy(w->fake.state->mounts, to->mounts, sizeof(to->mounts));
	w->server.mark_kept = to->mark_kept;
	for (size_t i = 0; i < ARRAY_SIZE(journal_files); i++) {
		(void)temp_dir_path(path, w->config.data_dir, journal_files[i]);
		(void)remove(path);
		if (to->files[i])
			assert_int_equal(file_write_atomic(path, 0600, to->files[i], to->sizes[i]), 0);
		free(to->files[i]);
	}
}

static bool has_reported(struct world *w)
{
	return w->server.report_complete;
}

static bool reports_a_revert(struct world *w)
{
	Holdfast__V1__GetAgentStatusResponse *report = world_report(w);
	bool is_said = false;

	for (size_t i = 0; i < report->n_problems; i++)
		is_said |= strstr(report->problems[i], "gone back in time") != NULL;
	protobuf_c_message_free_unpacked(&report->base, NULL);
	return is_said;
}

static bool reports_no_revert(struct world *w)
{
	return !reports_a_revert(w);
}

WORLD_TEST(a_node_that_was_reverted_reports_it_in_its_status_until_the_session_after_its_report)
{
	start_with_a(w, 1);
	model_server_want_report(&w->server, 0);
	WORLD_UNTIL(w, has_reported);
	assert_false(reports_a_revert(w));
	w->server.is_reverted = true;
	model_server_want_report(&w->server, 0);
	WORLD_UNTIL(w, has_reported);
	assert_true(reports_a_revert(w));
	/* it has reported, and the server does not find it in its next hello */
	model_server_hang_up(&w->server);
	WORLD_UNTIL(w, reports_no_revert);
	stop_a(w);
}

WORLD_TEST(a_reverted_node_reports_its_mounts_and_releases_on_order)
{
	struct model_claim *claim = &w->server.claims[0];
	struct snapshot snapshot;

	start_with_a(w, 1);
	WORLD_UNTIL(w, all_is_acknowledged);
	world_kill_agent(w);
	take_snapshot(w, &snapshot);
	world_start_agent(w);
	stop_a(w);
	expect_nothing_mounted(w);
	world_kill_agent(w);
	go_back(w, &snapshot);
	w->server.n_allocs = 0;
	w->server.hellos = 0;
	w->server.adoption_complete = false;
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	assert_int_equal(w->server.hello_mounted, 1);
	assert_string_equal(w->server.hello_claim, claim->claim.id);
	assert_int_equal(w->server.hello_generation, claim->claim.generation);
	assert_non_null(fake_helper_mount(&w->fake, "", ALLOC_A, 0));
	claim->is_released = false;
	claim->claim.was_freed = true;
	claim->claim.state = CLAIM_UNPUBLISHING;
	model_server_release(&w->server, claim);
	WORLD_UNTIL(w, all_is_released);
	assert_int_equal(claim->errors, 0);
	expect_nothing_mounted(w);
}

WORLD_TEST(a_release_is_reported_under_the_id_of_the_servers_order)
{
	struct model_claim *claim = &w->server.claims[0];

	w->server.class = SOURCE_BLOCK;
	start_with_a(w, 1);
	WORLD_UNTIL(w, all_is_acknowledged);
	w->superblock_lives = true;
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, release_failed_twice);
	(void)str_copy(claim->claim.id, sizeof(claim->claim.id), "0189dead-0000-7000-8000-00000000000f");
	model_server_release(&w->server, claim);
	WORLD_UNTIL(w, release_failed_again);
	restart(w);
	WORLD_UNTIL(w, release_failed_thrice_more);
	assert_false(claim->is_released);
	w->superblock_lives = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

/* With the same release in flight under the former id. */
WORLD_TEST(an_order_under_another_id_continues_the_release)
{
	struct model_claim *claim = model_server_add_claim(&w->server, ALLOC_B, "vol0", world_boot_id());

	fake_helper_put(&w->fake, world_wire("vol0"), "", 0, 16);
	for (size_t i = 0; i < ARRAY_SIZE(w->fake.state->mounts); i++)
		w->fake.state->mounts[i].major = 8;
	w->superblock_lives = true;
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	model_server_release(&w->server, claim);
	WORLD_UNTIL(w, release_failed_twice);
	claim->claim.id[35] = 'e';
	model_server_release(&w->server, claim);
	WORLD_UNTIL(w, release_failed_again);
	assert_false(claim->is_released);
	w->superblock_lives = false;
	WORLD_UNTIL(w, all_is_released);
}

static bool order_was_refused(struct world *w)
{
	return w->server.violation[0] != '\0';
}

WORLD_TEST(an_order_with_a_malformed_id_changes_no_record)
{
	struct model_claim order;

	w->server.class = SOURCE_BLOCK;
	start_with_a(w, 1);
	WORLD_UNTIL(w, all_is_acknowledged);
	w->superblock_lives = true;
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, release_failed_twice);
	order = w->server.claims[0];
	(void)str_copy(order.claim.id, sizeof(order.claim.id), "x");
	model_server_release(&w->server, &order);
	WORLD_UNTIL(w, order_was_refused);
	w->server.violation[0] = '\0'; /* the refusal, for a claim that the model never granted */
	restart(w);
	w->superblock_lives = false;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

/* After a restore the server may have the claim under another id, as another node has named its own. */
WORLD_TEST(work_whose_claim_was_freed_ends_by_an_order_under_any_id)
{
	struct model_claim order;

	start_with_a(w, 1);
	WORLD_UNTIL(w, all_is_acknowledged);
	order = w->server.claims[0];
	(void)str_copy(order.claim.id, sizeof(order.claim.id), "0189dead-0000-7000-8000-00000000000f");
	order.claim.was_freed = true;
	order.claim.state = CLAIM_UNPUBLISHING;
	model_server_release(&w->server, &order);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_FAILED);
}

static bool claim_was_asked_for(struct world *w)
{
	return w->server.claim_calls > 0;
}

/* Its ticket is valid still, and its claim may be another node's by now. */
WORLD_TEST(a_restored_journal_mounts_only_after_a_new_claim)
{
	struct snapshot snapshot;
	unsigned int published;

	start_with_a(w, 1);
	WORLD_UNTIL(w, all_is_acknowledged);
	world_kill_agent(w);
	take_snapshot(w, &snapshot);
	world_start_agent(w);
	stop_a(w);
	world_kill_agent(w);
	memset(snapshot.mounts, 0, sizeof(snapshot.mounts));
	go_back(w, &snapshot);
	published = done(w, MH_OP_PUBLISH);
	w->server.n_allocs = 0;
	w->server.claim_calls = 0;
	w->server.fail_claims = 1;
	w->server.fail_status = STATUS_FAILED_PRECONDITION;
	world_start_agent(w);
	WORLD_UNTIL(w, claim_was_asked_for);
	WORLD_UNTIL(w, has_mount_snapshot);
	world_idle(w, 300);
	assert_int_equal(done(w, MH_OP_PUBLISH), published);
	expect_nothing_mounted(w);
}

WORLD_TEST(a_released_volume_is_not_reported_as_mounted)
{
	w->server.hold_forget = true;
	start_with_a(w, 2);
	stop_a(w);
	world_kill_agent(w);
	w->server.hellos = 0;
	w->server.hello_mounted = 7;
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	assert_int_equal(w->server.hello_allocs, 1);
	assert_int_equal(w->server.hello_mounted, 0);
}

WORLD_TEST(a_server_that_is_away_changes_nothing)
{
	uint64_t end;
	Holdfast__V1__GetAgentStatusResponse *report;
	unsigned int hellos;

	start_with_a(w, 1);
	model_server_stop(&w->server);
	world_kill_agent(w);
	world_start_agent(w);
	end = world_deadline();
	do {
		world_turn(w, end, "the helper to run and the session to fail");
		world_idle(w, 20);
		report = world_report(w);
		if (report->helper->running && report->last_session_error[0])
			break;
		protobuf_c_message_free_unpacked(&report->base, NULL);
	} while (true);
	assert_false(report->connected);
	assert_int_equal(report->n_allocations, 1);
	assert_int_equal(report->allocations[0]->client_status, CLIENT_RUNNING);
	assert_int_equal(report->n_mounts, 1);
	assert_true(report->mounts[0]->verified);
	protobuf_c_message_free_unpacked(&report->base, NULL);
	hellos = w->server.hellos;
	world_start_server(w);
	end = world_deadline();
	while (w->server.hellos == hellos)
		world_turn(w, end, "a hello to the server that is back");
	assert_int_equal(w->server.hello_allocs, 1);
	assert_int_equal(done(w, MH_OP_STAGE) + done(w, MH_OP_PUBLISH), 2);
	assert_int_equal(w->server.claim_calls, 1);
	stop_a(w);
}

WORLD_TEST(a_server_of_another_cluster_is_left_alone)
{
	uint64_t end;
	Holdfast__V1__GetAgentStatusResponse *report;

	w->server.other_cluster = true;
	world_start_agent(w);
	end = world_deadline();
	while (w->server.hellos < 2)
		world_turn(w, end, "the second hello");
	report = world_report(w);
	assert_false(report->connected);
	assert_non_null(strstr(report->last_session_error, "cluster 'other'"));
	protobuf_c_message_free_unpacked(&report->base, NULL);
}

static unsigned int receipts_of(const struct world *w)
{
	return w->server.claims[0].receipts + w->server.claims[1].receipts;
}

static unsigned int receipts_expected;

static bool is_mounted_again_and_reported(struct world *w)
{
	return fake_helper_mount(&w->fake, "", ALLOC_A, 0) && fake_helper_mount(&w->fake, "", ALLOC_A, 1) &&
	       receipts_of(w) >= receipts_expected;
}

WORLD_TEST(a_mount_that_somebody_took_away_is_made_again_under_its_claim)
{
	for (unsigned int slots = 1; slots <= 3; slots++) {
		unsigned int published;

		if (slots == 1)
			start_with_a(w, 2);
		WORLD_UNTIL(w, all_is_acknowledged);
		published = done(w, MH_OP_PUBLISH);
		receipts_expected = receipts_of(w) + (slots == 3 ? 2 : 1);
		world_kill_agent(w);
		for (size_t i = 0; i < FAKE_MOUNTS_MAX; i++) {
			if (str_eq(w->fake.state->mounts[i].alloc, ALLOC_A) &&
			    (slots >> w->fake.state->mounts[i].slot & 1) != 0)
				w->fake.state->mounts[i].is_used = false;
		}
		world_start_agent(w);
		WORLD_UNTIL(w, is_mounted_again_and_reported);
		WORLD_UNTIL(w, all_is_acknowledged);
		assert_int_equal(done(w, MH_OP_PUBLISH) - published, slots == 3 ? 2 : 1);
		assert_int_equal(status_of(w, ALLOC_A), CLIENT_RUNNING);
		assert_int_equal(w->server.n_claims, 2);
		assert_int_equal(done(w, MH_OP_UNPUBLISH), 0);
	}
	stop_a(w);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_COMPLETE);
	expect_nothing_mounted(w);
}

WORLD_TEST(where_something_else_is_mounted_the_allocation_fails)
{
	start_with_a(w, 2);
	WORLD_UNTIL(w, all_is_acknowledged);
	world_kill_agent(w);
	for (size_t i = 0; i < FAKE_MOUNTS_MAX; i++) {
		if (str_eq(w->fake.state->mounts[i].alloc, ALLOC_A) && w->fake.state->mounts[i].slot == 1)
			w->fake.state->mounts[i].minor += 50;
	}
	world_start_agent(w);
	WORLD_UNTIL(w, a_ended);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_FAILED);
	assert_non_null(strstr(alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc),
			       "is mounted instead of volume vol1"));
}

WORLD_TEST(after_a_reboot_the_allocation_is_lost_and_nothing_is_touched)
{
	unsigned int receipts;

	start_with_a(w, 2);
	WORLD_UNTIL(w, all_is_acknowledged);
	receipts = w->server.claims[0].receipts + w->server.claims[1].receipts;
	world_kill_agent(w);
	age_journal(w);
	memset(w->fake.state->mounts, 0, sizeof(w->fake.state->mounts));
	w->fake.state->n_log = 0;
	w->server.hold_forget = true;
	world_start_agent(w);
	WORLD_UNTIL(w, a_ended);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_LOST);
	assert_string_equal(alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc),
			    "node was rebooted");
	assert_int_equal(w->server.claims[0].receipts + w->server.claims[1].receipts, receipts);
	assert_int_equal(done(w, MH_OP_STAGE) + done(w, MH_OP_PUBLISH) + done(w, MH_OP_UNPUBLISH), 0);
}

static bool connected_without_mount_snapshot(struct world *w)
{
	return is_connected(w) && !w->server.adoption_complete;
}

WORLD_TEST(without_a_helper_nothing_is_claimed_and_with_it_work_continues)
{
	Holdfast__V1__GetAgentStatusResponse *report;

	w->fake.state->start = FAKE_START_EXIT;
	w->fake.state->start_code = 71;
	w->fake.state->start_times = UINT32_MAX;
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, connected_without_mount_snapshot);
	assert_int_equal(w->server.hello_plugins, 0);
	world_idle(w, 300);
	assert_int_equal(w->server.claim_calls, 0);
	report = world_report(w);
	assert_false(report->helper->running);
	assert_non_null(strstr(report->helper->last_error, "exit code 71: refused to start"));
	assert_int_equal(report->n_allocations, 1);
	protobuf_c_message_free_unpacked(&report->base, NULL);
	w->fake.state->start_times = 0;
	WORLD_UNTIL(w, a_runs);
	assert_true(w->server.adoption_complete);
	assert_int_equal(w->server.hello_plugins, 1);
}

/* Dying or answering wrongly at each operation of a whole life: the same end, nothing done twice. */
TEST(a_helper_that_dies_at_any_operation_loses_nothing)
{
	static const enum fake_fault faults[] = {FAKE_DIE_BEFORE, FAKE_DIE_AFTER, FAKE_WRONG_SEQ};

	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		for (uint32_t call = 1; call <= 8; call++) {
			void *world = NULL;
			struct world *w;

			(void)world_setup(&world);
			w = world;
			w->fake.state->fault = faults[i];
			w->fake.state->fault_call = call;
			w->fake.state->fault_calls = 1;
			start_with_a(w, 2);
			stop_a(w);
			/* the other instance continues, perhaps to the end before there is another one */
			assert_in_range(w->fake.state->starts, 2, 3);
			assert_int_equal(done(w, MH_OP_STAGE), 2);
			assert_int_equal(done(w, MH_OP_PUBLISH), 2);
			expect_nothing_mounted(w);
			(void)world_teardown(&world);
		}
	}
}

static bool helper_is_replaced(struct world *w)
{
	return w->fake.state->starts >= 2;
}

WORLD_TEST(a_helper_that_hangs_fails_the_allocation_and_is_replaced)
{
	w->config.helper.request_timeout_us = 1000 * USEC_PER_MSEC;
	w->fake.state->fault = FAKE_HANG;
	w->fake.state->fault_call = 2;
	w->fake.state->fault_calls = 1;
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, helper_is_replaced);
	expect_failed_and_undone(w, STATUS_DEADLINE_EXCEEDED, "did not answer PUBLISH");
}

enum { TURNS_MAX = 4000, KILL_STRIDE = 7 };

/* Kill the agent after @turns turns of the loop on the way up, start it again, and see it come up as if
 * nothing had happened. False: it was up before. */
static bool kill_on_the_way_up(unsigned int turns)
{
	void *world = NULL;
	struct world *w;
	bool was_up;

	(void)world_setup(&world);
	w = world;
	world_start_agent(w);
	run_a(w, 2);
	was_up = world_turns(w, turns, a_runs);
	world_kill_agent(w);
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	WORLD_UNTIL(w, a_runs);
	assert_int_equal(done(w, MH_OP_STAGE), 2);
	assert_int_equal(done(w, MH_OP_PUBLISH), 2);
	assert_int_equal(w->server.n_claims, 2);
	world_idle(w, 30);
	assert_true(w->server.claims[0].is_mounted && w->server.claims[1].is_mounted);
	stop_a(w);
	expect_nothing_mounted(w);
	(void)world_teardown(&world);
	return !was_up;
}

TEST(killed_anywhere_on_the_way_up_it_comes_up_once)
{
	unsigned int turns = 1;

	while (kill_on_the_way_up(turns)) {
		turns += KILL_STRIDE;
		assert_true(turns < TURNS_MAX);
	}
	assert_true(turns > 5 * KILL_STRIDE);
}

static bool kill_on_the_way_down(unsigned int turns)
{
	void *world = NULL;
	struct world *w;
	bool was_down;

	(void)world_setup(&world);
	w = world;
	start_with_a(w, 2);
	model_server_want_stop(&w->server, ALLOC_A);
	was_down = world_turns(w, turns, a_ended_and_all_is_released);
	world_kill_agent(w);
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_COMPLETE);
	assert_int_equal(done(w, MH_OP_STAGE), 2);
	assert_int_equal(w->server.n_claims, 2);
	expect_nothing_mounted(w);
	(void)world_teardown(&world);
	return !was_down;
}

TEST(killed_anywhere_on_the_way_down_it_goes_down_once)
{
	unsigned int turns = 1;

	while (kill_on_the_way_down(turns)) {
		turns += KILL_STRIDE;
		assert_true(turns < TURNS_MAX);
	}
	assert_true(turns > 3 * KILL_STRIDE);
}

static bool helper_is_at_work(struct world *w)
{
	return w->fake.state->in_flight > 0;
}

static bool somebody_was_sent_away(struct world *w)
{
	unsigned int n = 0;

	for (enum mh_op op = MH_OP_STAGE; op <= MH_OP_UNSTAGE; op++)
		n += fake_helper_count(&w->fake, op, MH_BUSY, NULL, NULL);
	return n > 0;
}

/* An agent ends while its helper is at work, which the helper finishes all the same: the next agent waits for
 * that, and takes over what it did. */
static void kill_at_work(uint32_t call)
{
	void *world = NULL;
	struct world *w;

	(void)world_setup(&world);
	w = world;
	w->fake.state->fault = FAKE_LATE;
	w->fake.state->fault_call = call;
	w->fake.state->fault_calls = 1;
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, call <= 2 ? helper_is_at_work : a_runs);
	if (call > 2) {
		model_server_want_stop(&w->server, ALLOC_A);
		WORLD_UNTIL(w, helper_is_at_work);
	}
	world_kill_agent(w);
	world_start_agent(w);
	WORLD_UNTIL(w, somebody_was_sent_away);
	w->fake.state->go = 1;
	if (call <= 2) {
		WORLD_UNTIL(w, a_runs);
		stop_a(w);
	}
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_COMPLETE);
	assert_int_equal(done(w, MH_OP_STAGE), 1);
	assert_int_equal(done(w, MH_OP_PUBLISH), 1);
	assert_int_equal(w->server.n_claims, 1);
	expect_nothing_mounted(w);
	(void)world_teardown(&world);
}

TEST(the_agent_waits_for_its_predecessors_helper)
{
	/* STAGE, PUBLISH, UNPUBLISH, UNSTAGE */
	for (uint32_t call = 1; call <= 4; call++)
		kill_at_work(call);
}

/* The session ends at every step; the agent and its work do not. */
TEST(a_session_that_ends_anywhere_changes_nothing)
{
	for (unsigned int turns = 1; turns < 150; turns += 2 * KILL_STRIDE) {
		void *world = NULL;
		struct world *w;

		(void)world_setup(&world);
		w = world;
		world_start_agent(w);
		run_a(w, 2);
		WORLD_UNTIL(w, is_connected);
		(void)world_turns(w, turns, a_runs);
		if (w->server.session)
			model_server_hang_up(&w->server);
		WORLD_UNTIL(w, a_runs);
		model_server_want_stop(&w->server, ALLOC_A);
		(void)world_turns(w, turns, a_ended);
		if (w->server.session)
			model_server_hang_up(&w->server);
		WORLD_UNTIL(w, a_ended_and_all_is_released);
		assert_int_equal(done(w, MH_OP_STAGE), 2);
		assert_int_equal(w->server.n_claims, 2);
		expect_nothing_mounted(w);
		(void)world_teardown(&world);
	}
}

TEST_GROUP(world_group_setup, world_group_teardown)
