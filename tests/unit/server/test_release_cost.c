/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of many claims that are released: comparisons and tries are counted, and what each takes is a time
 * that the test chooses. */

#include "cluster.h"
#include "unit.h"

#include "claim/release.h"
#include "model/explain.h"
#include "plugin/args.h"
#include "recovery/epoch.h"

enum { MANY = 40 };

static size_t n_compared, n_looks;
static uint64_t try_us, look_us; /* what each takes */
static char first_look[UUID_TEXT_SIZE];

bool __real_plugin_args_same_node(struct state *state, const struct claim *a, const struct claim *b);
bool __wrap_plugin_args_same_node(struct state *state, const struct claim *a, const struct claim *b);
bool __wrap_plugin_args_same_node(struct state *state, const struct claim *a, const struct claim *b)
{
	n_compared++;
	return __real_plugin_args_same_node(state, a, b);
}

enum status __real_epoch_check(struct server *server, const struct volume *volume, struct error *err);
enum status __wrap_epoch_check(struct server *server, const struct volume *volume, struct error *err);
enum status __wrap_epoch_check(struct server *server, const struct volume *volume, struct error *err)
{
	unit_clock_advance(try_us);
	return __real_epoch_check(server, volume, err);
}

enum explain_actor __real_explain_actor(const struct claim *claim, const struct holder *holder);
enum explain_actor __wrap_explain_actor(const struct claim *claim, const struct holder *holder);
enum explain_actor __wrap_explain_actor(const struct claim *claim, const struct holder *holder)
{
	if (n_looks++ == 0)
		(void)str_copy(first_look, sizeof(first_look), claim->id);
	unit_clock_advance(look_us);
	return __real_explain_actor(claim, holder);
}

TEST_ON(claims_of_one_attachment_cost_the_square_of_their_number, struct fixture, f, setup_shared_db,
	teardown_db)
{
	const struct volume_entry *db;
	char id[UUID_TEXT_SIZE];

	for (int i = 0; i < MANY; i++) {
		(void)str_format(id, sizeof(id), "018%05d-0001-7000-" ID_MARK, i);
		take_claim(f, &f->n1, "db", id);
	}
	db = state_volume(&f->server->state, "default", "db");
	assert_int_equal(db->n_live, MANY);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	n_compared = 0;
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, db->n_live == 0);
	assert_in_range(n_compared, MANY, 20 * MANY * MANY);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_db, teardown_db)

static void count_durable(struct server *server, void *userdata)
{
	int *n = userdata;

	++*n;
}

/* @n claims of n2 on volumes of their own, to be detached by @plugin, which has no controller. The next tries
 * by themselves are not in this test. */
static void get_many_stuck(struct fixture *f, const char *plugin, int n)
{
	struct claim_entry *entry;
	int n_durable = 0;

	f->n1.csi.has_controller = f->n2.csi.has_controller = false;
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	for (int i = 0; i < n; i++) {
		struct claim claim =
			ROW(.namespace = "default", .node_id = "n2", .state = CLAIM_NODE_DETACHED,
			    .attach = ATTACH_DONE, .evidence = EVIDENCE_RECEIPT, .boot_id = BOOT_1,
			    .mode = CLAIM_WRITE, .external_node_id = "i-n2", .sent_to_node = true,
			    .access_mode = SINGLE_NODE_WRITER, .modify_time_ms = clock_realtime_ms());
		struct volume volume = state_volume(&f->server->state, "default", "db")->volume;
		cleanup(change_release) struct change change = CHANGE_INIT;

		(void)str_copy(volume.plugin_id, sizeof(volume.plugin_id), plugin);
		(void)str_copy(claim.plugin_id, sizeof(claim.plugin_id), plugin);
		(void)str_format(volume.id, sizeof(volume.id), "v%d", i);
		(void)str_format(volume.external_id, sizeof(volume.external_id), "vol-v%d", i);
		(void)str_copy(claim.volume_id, sizeof(claim.volume_id), volume.id);
		(void)str_copy(claim.external_id, sizeof(claim.external_id), volume.external_id);
		(void)str_format(claim.id, sizeof(claim.id), "01890000-0000-7000-8000-%012d", i);
		(void)str_format(claim.allocation_id, sizeof(claim.allocation_id),
				 "01890000-0000-7000-9000-%012d", i);
		change_put_volume(&change, &volume);
		change_put_claim(&change, &claim);
		assert_ok(change_commit(f->server, &change, count_durable, &n_durable, NULL));
	}
	UNTIL(f, n_durable == n);
	settle(f);
	TAILQ_FOREACH (entry, &f->server->state.stuck, work.stuck)
		(void)sd_event_source_set_time_relative(entry->work.timer, 3600 * USEC_PER_SEC);
}

static size_t tries_of(struct fixture *f)
{
	struct release_stats stats;

	release_stats(f->server, &stats);
	return stats.detach_errors;
}

/* Any node can send them, and all that have arrived are handled in one turn of the loop. */
CASE(reports_without_end_of_a_plugin_try_few_stuck_detaches_in_one_turn)
{
	enum { N = 3 * RELEASE_SWEEP_SLICE, REPORTS = 50 };
	struct release_stats stats;
	size_t first, before;

	get_many_stuck(f, CSI_PLUGIN, N);
	first = tries_of(f);
	for (int i = 0; i < REPORTS; i++) {
		f->n1.csi.node_sick = i % 2 == 0;
		fake_node_send_fingerprint(&f->n1);
	}
	do {
		before = tries_of(f);
		(void)sd_event_run(f->event, 1000);
		assert_in_range(tries_of(f) - before, 0, RELEASE_SWEEP_SLICE);
	} while (tries_of(f) - first < N); /* all the same, each is tried */
	f->n2.csi.has_controller = true;
	fake_node_send_fingerprint(&f->n2);
	do {
		(void)sd_event_run(f->event, 1000);
		release_stats(f->server, &stats);
	} while (stats.stuck > 0);
}

CASE(a_report_of_a_plugin_tries_no_stuck_detach_of_another_one)
{
	size_t before;

	get_many_stuck(f, "other", 2);
	before = tries_of(f);
	f->n1.csi.node_sick = true;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_int_equal(tries_of(f), before);
}

/* A try compares with all claims of the volume, which a node may have invented by thousands. */
CASE(stuck_detaches_that_take_long_are_tried_for_a_tenth_of_the_time)
{
	enum { N = 1000 };
	const uint64_t all_us = 600 * USEC_PER_SEC;
	struct claim_entry *entry;
	uint64_t begin_us, next_us;
	size_t before;

	get_many_stuck(f, CSI_PLUGIN, N);
	TAILQ_FOREACH (entry, &f->server->state.stuck, work.stuck)
		(void)sd_event_source_set_time_relative(entry->work.timer, 0);
	before = tries_of(f);
	try_us = 4000;
	begin_us = clock_monotonic_us();
	while (clock_monotonic_us() - begin_us < all_us)
		(void)sd_event_run(f->event, all_us);
	assert_in_range(tries_of(f) - before, 5 * N, all_us / try_us / 9 + N);
	try_us = 3600 * USEC_PER_SEC; /* the machine was paused */
	before = tries_of(f);
	while (tries_of(f) == before)
		(void)sd_event_run(f->event, all_us);
	try_us = 0;
	TAILQ_FOREACH (entry, &f->server->state.stuck, work.stuck) {
		assert_true(sd_event_source_get_time(entry->work.timer, &next_us) >= 0);
		assert_true(next_us < clock_monotonic_us() + all_us);
	}
}

CASE(reports_of_a_plugin_try_stuck_detaches_that_take_long_for_a_tenth_of_the_time)
{
	size_t n = 0, before;
	uint64_t begin_us;

	get_many_stuck(f, CSI_PLUGIN, MANY);
	before = tries_of(f);
	try_us = 4000;
	begin_us = clock_monotonic_us();
	f->n1.csi.node_sick = true;
	fake_node_send_fingerprint(&f->n1);
	while ((n = tries_of(f) - before) < MANY)
		(void)sd_event_run(f->event, USEC_PER_SEC);
	assert_true(clock_monotonic_us() - begin_us >= (MANY - 1) * 10 * try_us);
	try_us = 0;
}

/* A node may have invented all but one. */
CASE(a_sweep_of_claims_that_take_long_takes_a_tenth_of_the_time_and_begins_with_proven_ones)
{
	static const char proven[] = "01890000-0000-7000-8000-000000000039"; /* the last one */
	struct claim_entry *entry;
	struct release_stats stats;
	size_t sweeps;
	uint64_t begin_us;

	get_many_stuck(f, CSI_PLUGIN, MANY);
	TAILQ_FOREACH (entry, &f->server->state.stuck, work.stuck) {
		entry->claim.adopted = !str_eq(entry->id, proven);
		entry->claim.attach = entry->claim.adopted ? ATTACH_ASKED : ATTACH_DONE;
	}
	release_stats(f->server, &stats);
	for (sweeps = stats.sweeps; stats.sweeps == sweeps; release_stats(f->server, &stats))
		(void)sd_event_run(f->event, USEC_PER_SEC);
	look_us = 4000;
	n_looks = 0;
	do {
		size_t before = n_looks;

		(void)sd_event_run(f->event, USEC_PER_SEC);
		assert_in_range(n_looks - before, 0, 1);
		if (before == 0 && n_looks == 1)
			begin_us = clock_monotonic_us();
	} while (n_looks < MANY);
	assert_true(clock_monotonic_us() - begin_us >= (MANY - 1) * 10 * look_us);
	assert_string_equal(first_look, proven);
	look_us = 0;
}
