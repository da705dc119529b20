/* SPDX-License-Identifier: Apache-2.0 */
/* A node that went back in time: what it has mounted was freed since, and may be another's. */

#include "asks.h"
#include "forgotten.h"
#include "metrics.h"
#include "restored.h"
#include "unit.h"
#include "warnings.h"

#include "base/strbuf.h"
#include "recovery/epoch.h"
#include "volume/why.h"

#include <holdfast/v1/operator.pb-c.h>
#include <limits.h>

/* n1 had the volume, has released it, and n2 took it. @ret as n1 was granted it */
static void hand_over(struct fixture *f, struct claim *ret)
{
	struct claim second;

	take_volume(f);
	*ret = claim_of(f, ALLOC_1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	UNTIL(f, f->n1.stops == 1);
	fake_node_send_released(&f->n1, ret);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	UNTIL(f, f->n2.runs == 1);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &second, NULL), STATUS_OK);
	assert_int_equal(second.generation, ret->generation + 1);
	lose(f, &f->n1);
}

/* n1 is back in the same boot, and has the volume mounted still. */
static void come_back_with(struct fixture *f, const struct claim *held)
{
	f->n1.has = held;
	connect_node(&f->n1, "n1");
}

static void expect_held_twice(struct fixture *f, size_t n)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(1 << 20);
	char line[64];

	metrics_print(f->server, &text);
	(void)str_format(line, sizeof(line), "\nholdfast_volumes_held_twice %zu\n", n);
	assert_non_null(strstr(text.data, line));
}

CLUSTER_TEST(a_freed_claim_that_its_node_has_mounted_is_ordered_away_and_nothing_is_granted)
{
	cleanup_free char *why = NULL;
	struct claim held, second;
	struct error err;

	hand_over(f, &held);
	come_back_with(f, &held);
	UNTIL(f, f->n1.releases > 0);
	assert_string_equal(f->n1.last_release, held.id);
	assert_int_equal(f->n1.last_release_state, CLAIM_UNPUBLISHING);
	assert_true(f->n1.last_release_was_freed);
	expect_held_twice(f, 1);
	assert_int_equal(count_records(f, "Claims.TakeBack", "node n1"), 1);
	assert_int_equal(count_records(f, "Claims.TakeBack", "node n2 holds it"), 1);
	why = volume_why(f->server, state_volume(&f->server->state, "default", "db"));
	assert_non_null(strstr(why, "volume db is held twice: node n1 has it mounted"));
	assert_non_null(strstr(why, "node n2 holds it for allocation " ALLOC_2));
	/* not even what n2 has already: it may not have mounted it yet */
	assert_error(claim_for(&f->n2, ALLOC_2, &second, &err), STATUS_UNAVAILABLE, err, "held twice");
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	expect_held_twice(f, 0);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &second, NULL), STATUS_OK);
}

static void hold_twice(struct fixture *f, const char *id, bool is_held_twice)
{
	state_volume(&f->server->state, "default", id)->n_rivals = is_held_twice;
	f->server->state.n_volumes_held_twice += is_held_twice ? 1 : (size_t)-1;
}

static void expect_named(struct fixture *f, const char *words)
{
	char text[WARNING_SIZE];

	assert_true(warning_text(f->server, WARNING_HELD_TWICE, text));
	assert_contains(text, words);
}

CLUSTER_TEST(the_warning_names_one_volume_until_that_one_is_resolved)
{
	char text[WARNING_SIZE];

	register_csi(f, "a");
	register_csi(f, "m");
	register_csi(f, "z");
	hold_twice(f, "m", true);
	expect_named(f, "1, one of them is default/m");
	hold_twice(f, "a", true);
	expect_named(f, "2, one of them is default/m");
	hold_twice(f, "m", false);
	expect_named(f, "1, one of them is default/a");
	hold_twice(f, "z", true);
	hold_twice(f, "a", false);
	expect_named(f, "1, one of them is default/z");
	hold_twice(f, "z", false);
	assert_false(warning_text(f->server, WARNING_HELD_TWICE, text));
}

CLUSTER_TEST(no_other_access_mode_is_granted_beside_it)
{
	struct claim held, third;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	hand_over(f, &held);
	come_back_with(f, &held);
	UNTIL(f, f->n1.releases > 0);
	assert_int_equal(run_alloc(f, ALLOC_3, "n2", NULL), STATUS_OK);
	UNTIL(f, f->n2.runs == 2);
	assert_int_equal(claim_for(&f->n2, ALLOC_3, &third, NULL), STATUS_UNAVAILABLE);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_for(&f->n2, ALLOC_3, &third, NULL), STATUS_OK);
}

CLUSTER_TEST(it_is_held_twice_through_a_restart_until_the_node_is_rebooted)
{
	struct claim held, second;

	hand_over(f, &held);
	come_back_with(f, &held);
	UNTIL(f, f->n1.releases > 0);
	restart(f);
	expect_held_twice(f, 1);
	connect_node(&f->n2, "n2");
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &second, NULL), STATUS_UNAVAILABLE);
	pass_grace(f);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NEW_BOOT);
	expect_held_twice(f, 0);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &second, NULL), STATUS_OK);
}

CLUSTER_TEST(a_status_that_names_a_freed_claim_as_published_counts_as_well)
{
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT;
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC, .alloc = &status);
	Holdfast__V1__AllocVolume volume = V1(alloc_volume, .name = "data", .path = "/run/holdfast/x");
	Holdfast__V1__AllocVolume *published[1] = {&volume};
	struct claim held;

	hand_over(f, &held);
	come_back_with(f, NULL);
	settle(f);
	expect_held_twice(f, 0);
	volume.claim_id = held.id;
	status.alloc_id = ALLOC_1;
	status.client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	status.published = published;
	status.n_published = 1;
	fake_node_send(&f->n1, &up);
	UNTIL(f, f->n1.releases > 0);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	expect_held_twice(f, 1);
}

/* n1 reports that it has its freed claim published. */
static void report_published(struct fixture *f, const struct claim *held)
{
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT;
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC, .alloc = &status);
	Holdfast__V1__AllocVolume volume = V1(alloc_volume, .name = "data", .path = "/run/holdfast/x",
					      .claim_id = (char *)(uintptr_t)held->id);
	Holdfast__V1__AllocVolume *published[1] = {&volume};

	status.alloc_id = ALLOC_1;
	status.client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	status.published = published;
	status.n_published = 1;
	fake_node_send(&f->n1, &up);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_UNPUBLISHING);
}

/* n1 is asked for a report, which has @held or nothing. */
static void report_again(struct fixture *f, const struct claim *held)
{
	Holdfast__V1__AllocStatus unknown = V1(alloc_status, .alloc_id = TEXT(ALLOC_3),
					       .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&unknown};

	fake_node_disconnect(&f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	UNTIL(f, f->n1.reports_wanted == 1);
	report_with(&f->n1, f->n1.report_epoch, NULL, held, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
}

static bool can_release(struct fixture *f, const struct claim *held)
{
	fake_node_send_released(&f->n1, held);
	run_idle(f->event);
	return state_of(f, ALLOC_1) == CLAIM_FREED;
}

/* Else each time costs records of the audit, and a detach: a node could push everything else out. */
CLUSTER_TEST(a_claim_that_is_taken_back_again_and_again_ends_once_a_minute)
{
	struct claim held;
	int n = 0;

	hand_over(f, &held);
	come_back_with(f, NULL);
	do
		report_published(f, &held);
	while (can_release(f, &held) && ++n < 100);
	assert_in_range(n, 8 + 8, 8 + 10);
	assert_non_null(strstr(claim_of(f, ALLOC_1).last_error, "again and again"));
	expect_held_twice(f, 1);
	report_again(f, NULL); /* in which it is missing */
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	run_for(f->event, 60000);
	assert_true(can_release(f, &held));
	report_published(f, &held);
	assert_false(can_release(f, &held));
	fake_node_disconnect(&f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* in which nothing of it is left */
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
}

/* As of a machine with many volumes that is reverted to one snapshot again. */
CLUSTER_TEST(a_claim_that_is_taken_back_a_few_times_ends_at_once_after_many_others)
{
	struct rate_counted *rate;
	char more[RATE_MORE_SIZE];
	struct claim held;

	hand_over(f, &held);
	come_back_with(f, NULL);
	rate = &state_node(&f->server->state, "n1")->again;
	for (int i = 0; i < 3; i++) {
		while (rate_take_counted(rate, 60 * USEC_PER_SEC, 8, clock_monotonic_us(), more)) {
		}
		report_published(f, &held);
		assert_true(can_release(f, &held));
	}
}

CLUSTER_TEST(a_claim_that_is_adopted_again_and_again_ends_once_a_minute)
{
	struct claim held;
	int n = 0;

	hand_over(f, &held);
	come_back_with(f, NULL);
	held.state = CLAIM_TAKEN;
	do
		report_again(f, &held);
	while (can_release(f, &held) && ++n < 100);
	assert_in_range(n, 8 + 8, 8 + 10);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
}

CLUSTER_TEST(it_is_on_record_once_and_a_claim_that_is_held_is_not)
{
	struct claim held;

	hand_over(f, &held);
	come_back_with(f, &held);
	UNTIL(f, f->n1.releases > 0);
	lose(f, &f->n1);
	come_back_with(f, &held);
	UNTIL(f, f->n1.releases > 0);
	assert_int_equal(count_records(f, "Claims.TakeBack", ""), 1);
	held = claim_of(f, ALLOC_2);
	lose(f, &f->n2);
	f->n2.has = &held;
	connect_node(&f->n2, "n2");
	settle(f);
	assert_int_equal(f->n2.releases, 0);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_RESERVED);
	assert_int_equal(count_records(f, "Claims.TakeBack", ""), 1);
}

/* Said of a machine that was taken to be off, and that has shown since that it is not. */
CLUSTER_TEST(an_attestation_of_before_does_not_free_it_again)
{
	struct claim held;

	take_volume(f);
	held = claim_of(f, ALLOC_1);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(attest(f, "n1", NULL, "the rack is off", 3600000, false, NULL, NULL), STATUS_OK);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	come_back_with(f, &held);
	UNTIL(f, f->n1.releases > 0);
	lose(f, &f->n1);
	restart(f);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	assert_int_equal(attest(f, "n1", NULL, "it is off this time", 0, false, NULL, NULL), STATUS_OK);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	expect_held_twice(f, 0);
}

CLUSTER_TEST(a_claim_that_is_not_even_history_makes_its_node_report)
{
	struct claim held;

	hand_over(f, &held);
	(void)str_copy(held.id, sizeof(held.id), "0190a5a0-0000-7000-8000-0000000000ff");
	come_back_with(f, &held);
	UNTIL(f, f->n1.reports_wanted == 1);
	assert_false(has_reported(f, "n1"));
}

/* As one that is not known: a thief of another node's certificate may have taken its id. */
CLUSTER_TEST(a_freed_claim_of_another_node_makes_the_node_report)
{
	struct claim held;

	hand_over(f, &held);
	lose(f, &f->n2);
	f->n2.has = &held;
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	UNTIL(f, f->n2.reports_wanted == 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
}

CLUSTER_TEST(a_live_claim_of_another_node_makes_the_node_report)
{
	struct claim held;

	take_volume(f);
	held = claim_of(f, ALLOC_1);
	if (f->n2.stream)
		lose(f, &f->n2);
	f->n2.has = &held;
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	UNTIL(f, f->n2.reports_wanted == 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

static void come_back(struct fixture *f)
{
	lose(f, &f->n1);
	connect_node(&f->n1, "n1");
}

/* Its hello names nothing that is not known. What its report leaves out is not taken as released: the journal
 * may have been put back below mounts. */
CLUSTER_TEST(a_lower_mark_in_the_same_boot_makes_the_node_report_and_ends_nothing)
{
	Holdfast__V1__Mark *first, *later;

	take_volume(f);
	first = mark_copy(f->n1.mark);
	come_back(f);
	later = mark_copy(f->n1.mark);
	assert_true(later->index > first->index);
	f->n1.shows = later;
	come_back(f);
	settle(f);
	assert_int_equal(f->n1.reports_wanted, 0);
	restart(f);
	f->n1.shows = later;
	connect_node(&f->n1, "n1");
	settle(f);
	assert_int_equal(f->n1.reports_wanted, 0);
	for (int lost = 0; lost < 2; lost++) {
		f->n1.shows = lost ? NULL : first;
		come_back(f);
		UNTIL(f, f->n1.reports_wanted == 1);
		assert_true(f->n1.report_is_reverted);
		assert_false(has_reported(f, "n1"));
		assert_int_equal(count_records(f, "Nodes.Doubt", "it was reverted"), lost + 1);
		report(f, &f->n1, 0, NULL, NULL, false);
		UNTIL(f, has_reported(f, "n1"));
		assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
		UNTIL(f, f->n1.runs == 1);
	}
	f->n1.shows = first;
	lose(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* nothing is mounted in a new boot */
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->n1.reports_wanted, 0);
	holdfast__v1__mark__free_unpacked(first, NULL);
	holdfast__v1__mark__free_unpacked(later, NULL);
}

/* The server began a new store since, in the same boot of the node. */
CLUSTER_TEST(the_mark_of_a_former_store_makes_the_node_report_if_it_has_shown_a_later_one)
{
	cleanup_pb Holdfast__V1__Mark *former = NULL;
	struct backup backup = {0};

	take_volume(f);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	former = mark_copy(f->n1.mark);
	f->n1.shows = former;
	come_back(f);
	settle(f);
	assert_int_equal(f->n1.reports_wanted, 0);
	*former->store_id ^= 1;
	former->epoch = 0;
	come_back(f);
	UNTIL(f, f->n1.reports_wanted == 1);
	assert_true(f->n1.report_is_reverted);
}

/* By then its mark is as high as any: welcome has shown it. */
CLUSTER_TEST(a_reverted_node_whose_session_ends_before_its_report_is_asked_again_and_ends_nothing)
{
	Holdfast__V1__Mark *first, *later;

	take_volume(f);
	first = mark_copy(f->n1.mark);
	come_back(f);
	later = mark_copy(f->n1.mark);
	f->n1.shows = later;
	come_back(f);
	settle(f);
	f->n1.shows = first;
	come_back(f);
	UNTIL(f, f->n1.reports_wanted == 1);
	for (int restarted = 0; restarted < 2; restarted++) {
		cleanup_pb Holdfast__V1__Mark *welcomed = mark_copy(f->n1.mark);

		f->n1.shows = welcomed;
		if (restarted == 1) {
			restart(f);
			connect_node(&f->n1, "n1");
		} else {
			come_back(f);
		}
		UNTIL(f, f->n1.reports_wanted == 1);
		assert_true(f->n1.report_is_reverted);
		f->n1.shows = NULL;
	}
	report(f, &f->n1, 0, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	holdfast__v1__mark__free_unpacked(first, NULL);
	holdfast__v1__mark__free_unpacked(later, NULL);
}

CLUSTER_TEST(an_unknown_claim_of_a_reverted_node_is_released)
{
	Holdfast__V1__Mark *first, *later;
	struct alloc alloc;
	struct claim held;

	hand_over(f, &held);
	first = mark_copy(f->n2.mark);
	connect_node(&f->n1, "n1");
	later = mark_copy(f->n1.mark);
	f->n1.shows = later;
	come_back(f);
	f->n1.shows = first;
	(void)str_copy(held.id, sizeof(held.id), "0190a5a0-0000-7000-8000-0000000000ff");
	lose(f, &f->n1);
	come_back_with(f, &held);
	UNTIL(f, f->n1.reports_wanted == 1);
	alloc = alloc_of(f, ALLOC_1);
	report(f, &f->n1, 0, &alloc, &held, false);
	UNTIL(f, f->n1.releases > 0);
	assert_string_equal(f->n1.last_release, held.id);
	assert_true(f->n1.last_release_was_freed);
	expect_held_twice(f, 1);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, !claim_is_live(&state_claim(&f->server->state, held.id)->claim));
	expect_held_twice(f, 0);
	holdfast__v1__mark__free_unpacked(first, NULL);
	holdfast__v1__mark__free_unpacked(later, NULL);
}

/* It was collected since, and holds nothing that could be ordered away. */
CLUSTER_TEST(unknown_work_of_a_reverted_node_is_stopped)
{
	Holdfast__V1__Mark *first, *later;
	struct alloc alloc;

	take_volume(f);
	first = mark_copy(f->n1.mark);
	come_back(f);
	later = mark_copy(f->n1.mark);
	f->n1.shows = later;
	come_back(f);
	f->n1.shows = first;
	come_back(f);
	UNTIL(f, f->n1.reports_wanted == 1);
	alloc = alloc_of(f, ALLOC_1);
	(void)str_copy(alloc.id, sizeof(alloc.id), ALLOC_3);
	report(f, &f->n1, 0, &alloc, NULL, false);
	UNTIL(f, f->n1.stops == 1);
	assert_string_equal(f->n1.last_stop, ALLOC_3);
	holdfast__v1__mark__free_unpacked(first, NULL);
	holdfast__v1__mark__free_unpacked(later, NULL);
}

/* No order follows that would find it out; its claim is released by order. */
CLUSTER_TEST(adopted_work_that_a_reverted_node_has_lost_is_lost)
{
	Holdfast__V1__Mark *first, *later;
	struct claim held;
	struct alloc alloc;

	forget_that_n1_has_it(f, &alloc, &held);
	report_that_n1_has_it(f, &alloc, &held);
	assert_true(alloc_of(f, ALLOC_1).adopted);
	first = mark_copy(f->n1.mark);
	come_back(f);
	later = mark_copy(f->n1.mark);
	f->n1.shows = later;
	come_back(f);
	f->n1.shows = first;
	for (int lost = 0; lost < 2; lost++) {
		come_back(f);
		UNTIL(f, f->n1.reports_wanted == 1);
		report(f, &f->n1, state_epoch(&f->server->state), lost ? NULL : &alloc, NULL, false);
		UNTIL(f, has_reported(f, "n1"));
		assert_int_equal(alloc_of(f, ALLOC_1).client_status, lost ? CLIENT_LOST : CLIENT_RUNNING);
		assert_int_equal(state_of(f, ALLOC_1), lost ? CLAIM_UNPUBLISHING : CLAIM_TAKEN);
	}
	UNTIL(f, f->n1.releases == 1);
	assert_int_equal(f->n1.runs, 0);
	holdfast__v1__mark__free_unpacked(first, NULL);
	holdfast__v1__mark__free_unpacked(later, NULL);
}

/* Its mark is none that the server has seen; what it names shows it. */
CLUSTER_TEST(a_claim_missing_from_a_later_report_is_not_released)
{
	struct claim held, unknown;

	take_volume(f);
	held = unknown = claim_of(f, ALLOC_1);
	(void)str_copy(unknown.id, sizeof(unknown.id), "0190a5a0-0000-7000-8000-0000000000ff");
	lose(f, &f->n1);
	come_back_with(f, &unknown);
	UNTIL(f, f->n1.reports_wanted == 1);
	assert_false(f->n1.report_is_reverted);
	report(f, &f->n1, 0, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(claim_of(f, ALLOC_1).generation, held.generation);
}

static void lose_mark(struct fixture *f)
{
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/holdfast.mark", f->dir);
	assert_int_equal(unlink(path), 0);
}

/* It did not have it when it reported first. */
CLUSTER_TEST(a_claim_of_before_the_epoch_that_a_later_report_names_is_released)
{
	struct alloc alloc;
	struct claim held;

	hand_over(f, &held);
	restart_with(f, lose_mark);
	connect_node(&f->n1, "n1");
	UNTIL(f, f->n1.reports_wanted == 1);
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	(void)str_copy(held.id, sizeof(held.id), "0190a5a0-0000-7000-8000-0000000000ff");
	lose(f, &f->n1);
	come_back_with(f, &held);
	UNTIL(f, f->n1.reports_wanted == 1);
	assert_false(f->n1.report_is_reverted);
	alloc = alloc_of(f, ALLOC_1);
	report(f, &f->n1, 1, &alloc, &held, false);
	UNTIL(f, f->n1.releases > 0);
	assert_string_equal(f->n1.last_release, held.id);
	assert_true(f->n1.last_release_was_freed);
	expect_held_twice(f, 1);
}

/* The backup has n1's claim. After it n1 released the volume, and n2 was granted it and has reported so.
 * n1 has lost its journal: what it does not name is not taken as released. @ret_second as n2 has it */
static void bring_back_the_claim_of_n1_beside_that_of_n2(struct fixture *f, struct claim *ret_second)
{
	struct backup backup = {0};
	cleanup_pb Holdfast__V1__Mark *later = NULL;
	struct claim first;
	struct alloc alloc;

	take_volume(f);
	later = mark_copy(f->n1.mark);
	f->n1.shows = later;
	come_back(f);
	take_backup(f, &backup);
	connect_node(&f->n2, "n2");
	f->n1.shows = later;
	connect_node(&f->n1, "n1");
	first = claim_of(f, ALLOC_1);
	fake_node_send_released(&f->n1, &first);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, ret_second, NULL), STATUS_OK);
	alloc = alloc_of(f, ALLOC_2);
	restore(f, &backup, 1);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, &alloc, ret_second, false);
	connect_node(&f->n1, "n1");
	assert_true(f->n1.report_is_reverted);
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	UNTIL(f, f->n1.runs == 1);
	assert_int_equal(state_volume(&f->server->state, "default", "db")->n_live, 2);
}

CLUSTER_TEST(a_claim_beside_its_rival_stays_and_is_not_granted_again_before_one_is_released)
{
	struct claim second, claim;
	struct error err;

	bring_back_the_claim_of_n1_beside_that_of_n2(f, &second);
	assert_error(claim_for(&f->n1, ALLOC_1, &claim, &err), STATUS_UNAVAILABLE, err,
		     "node n1 for allocation " ALLOC_1);
	assert_non_null(strstr(err.msg, "node n2 for allocation " ALLOC_2));
	assert_non_null(strstr(err.msg, "holdfast volume status db --why"));
	assert_non_null(strstr(err.msg, "holdfast alloc stop " ALLOC_1));
	assert_non_null(strstr(err.msg, "holdfast alloc stop " ALLOC_2));
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, NULL), STATUS_UNAVAILABLE);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
	fake_node_send_released(&f->n2, &second);
	fake_node_send_alloc(&f->n2, ALLOC_2, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_2) == CLAIM_FREED);
	assert_int_equal(claim_for(&f->n1, ALLOC_1, &claim, NULL), STATUS_OK);
}

CLUSTER_TEST(a_claim_that_may_be_beside_the_other_is_granted_again)
{
	struct claim second, claim;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	bring_back_the_claim_of_n1_beside_that_of_n2(f, &second);
	assert_int_equal(claim_for(&f->n1, ALLOC_1, &claim, NULL), STATUS_OK);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, NULL), STATUS_OK);
}
