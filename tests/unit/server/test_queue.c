/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a volume: jobs and allocations that wait stand in it in the order in which they came, and a
 * lost race is no failure of the work. */

#include "asks.h"
#include "cluster.h"
#include "submission.h"
#include "unit.h"

#include "alloc/allocs.h"
#include "base/cleanup.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ALLOCS (&holdfast__v1__allocations__descriptor)
#define ID_OF "018%05u-0000-7000-" ID_MARK

enum { LONG_MS = 3600 * 1000, STEPS = 600, JOBS_N = 4, IDS_MAX = 60 };

static enum status run_waiting(struct fixture *f, const char *id, const char *source)
{
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__V1__RunAllocationRequest request =
		V1(run_allocation_request, .allocation = &alloc, .wait_ms = LONG_MS);
	Holdfast__V1__VolumeRequest volume = V1(volume_request, .name = text("data"), .source = text(source),
						.access_mode = f->access_mode);
	Holdfast__V1__VolumeRequest *volumes[] = {&volume};

	alloc.id = text(id);
	alloc.name = text("app");
	alloc.volumes = volumes;
	alloc.n_volumes = 1;
	return call(&f->operator, ALLOCS, "Run", &request.base, NULL, NULL);
}

static struct alloc_entry *next_alloc(struct fixture *f, struct alloc_entry *entry)
{
	return entry ? state_alloc_next(entry) : state_alloc_from(&f->server->state, "");
}

static bool is_live(const struct alloc_entry *entry)
{
	return !alloc_is_client_terminal(&entry->alloc);
}

static struct fake_node *node_of(struct fixture *f, const struct alloc_entry *entry)
{
	return str_eq(entry->alloc.node_id, "n1") ? &f->n1 : &f->n2;
}

/* Has it the volume, or will it or its next version? One that was stopped before its claim never asks. */
static bool has_volume(const struct alloc_entry *entry, const char *source)
{
	return is_live(entry) && entry->alloc.node_id[0] != '\0' &&
	       str_eq(entry->alloc.volumes[0].source, source) &&
	       (entry->alloc.desired_status == DESIRED_RUN || entry->alloc.keeps_place ||
		!LIST_EMPTY(&entry->claims));
}

/* The allocation that has it; NULL: none. */
static struct alloc_entry *placed_on(struct fixture *f, const char *source)
{
	struct alloc_entry *found = NULL;

	for (struct alloc_entry *at = NULL; (at = next_alloc(f, at));) {
		assert_true(!at->alloc.keeps_place ||
			    at->alloc.queue_index > 0); /* for the index of places */
		if (has_volume(at, source)) {
			assert_msg(!found, "%s and %s are placed on %s", found->id, at->id, source);
			found = at;
		}
	}
	return found;
}

static bool is_queued_for(const struct alloc_entry *entry, const char *source)
{
	return alloc_is_pending(&entry->alloc) && str_eq(entry->alloc.volumes[0].source, source);
}

static struct alloc_entry *first_queued(struct fixture *f, const char *source)
{
	struct alloc_entry *first = NULL;

	for (struct alloc_entry *at = NULL; (at = next_alloc(f, at));)
		if (is_queued_for(at, source) &&
		    (!first || alloc_arrival(&at->alloc) < alloc_arrival(&first->alloc)))
			first = at;
	return first;
}

static void start(struct fixture *f, const struct alloc_entry *entry)
{
	struct fake_node *node = node_of(f, entry);
	struct claim claim;

	assert_ok(fake_node_claim(node, entry->alloc.volumes[0].source, entry->id, NULL, NULL));
	claim = LIST_FIRST(&entry->claims)->claim;
	fake_node_send_mounted(node, &claim);
	fake_node_send_alloc(node, entry->id, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, entry->alloc.client_status == CLIENT_RUNNING);
}

/* With everything, by itself or since it was to stop. */
static void finish(struct fixture *f, const struct alloc_entry *entry)
{
	bool had_claim = !LIST_EMPTY(&entry->claims);
	struct claim claim = had_claim ? LIST_FIRST(&entry->claims)->claim : (struct claim){0};
	struct fake_node *node = node_of(f, entry);

	fake_node_send_alloc(node, entry->id, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, !is_live(entry));
	if (had_claim)
		fake_node_send_released(node, &claim);
	settle(f);
}

static void make_batch(struct fixture *f, struct submission *s, const char *id)
{
	make_job(f, s);
	s->job.id = text(id);
	s->job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH;
	s->reschedule.unlimited = false; /* a failure ends it */
	s->reschedule.interval_ms = LONG_MS;
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(five_jobs_waiting_for_one_volume_all_run_in_turn)
{
	static const char *const ids[] = {"e", "d", "c", "b", "a"};
	struct submission s;

	connect_both(f);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		make_batch(f, &s, ids[i]);
		assert_int_equal(run(f, &s, NULL), 1);
		settle(f);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		const struct alloc_entry *placed = NON_NULL(placed_on(f, "db"));

		assert_string_equal(placed->alloc.job_id, ids[i]);
		start(f, placed);
		finish(f, placed);
	}
	assert_null(placed_on(f, "db"));
	assert_int_equal(f->n1.runs + f->n2.runs, 5);
}

CASE(a_job_and_an_allocation_that_waits_take_turns_as_they_came)
{
	struct submission s;

	take_volume(f);
	make_batch(f, &s, "web");
	assert_int_equal(run(f, &s, NULL), 1);
	settle(f);
	assert_int_equal(run_waiting(f, ALLOC_2, "db"), STATUS_OK);
	restart(f);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	lose(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* which ends the first one */
	UNTIL(f, placed_on(f, "db"));
	assert_string_equal(placed_on(f, "db")->alloc.job_id, "web");
	start(f, placed_on(f, "db"));
	finish(f, placed_on(f, "db"));
	assert_string_equal(placed_on(f, "db")->id, ALLOC_2);
}

CASE(a_new_version_keeps_the_volume_of_the_one_before_it)
{
	struct submission s;

	connect_both(f);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, placed_on(f, "db"));
	start(f, placed_on(f, "db"));
	assert_int_equal(run_waiting(f, ALLOC_2, "db"), STATUS_OK);
	s.alloc.mount_timeout_ms = 5000;
	assert_int_equal(run(f, &s, NULL), 2);
	UNTIL(f, f->n1.stops + f->n2.stops == 1);
	finish(f, placed_on(f, "db"));
	assert_int_equal(placed_on(f, "db")->alloc.job_version, 2);
	/* a job that ends keeps nothing */
	start(f, placed_on(f, "db"));
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	UNTIL(f, f->n1.stops + f->n2.stops == 2);
	finish(f, placed_on(f, "db"));
	assert_string_equal(placed_on(f, "db")->id, ALLOC_2);
}

CASE(a_new_version_of_a_queued_member_keeps_its_turn)
{
	struct submission s;

	take_volume(f);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	settle(f);
	assert_int_equal(run_waiting(f, ALLOC_2, "db"), STATUS_OK);
	s.alloc.mount_timeout_ms = 5000;
	assert_int_equal(run(f, &s, NULL), 2);
	settle(f);
	assert_int_equal(first_queued(f, "db")->alloc.job_version, 2);
	finish(f, placed_on(f, "db"));
	assert_int_equal(placed_on(f, "db")->alloc.job_version, 2);
}

CASE(another_version_on_another_volume_comes_last_there)
{
	struct alloc_entry *first;
	struct submission s;

	take_volume(f);
	assert_int_equal(register_disk(f, &f->operator, "db2", "disk-2", NULL), STATUS_OK);
	assert_int_equal(run_waiting(f, ALLOC_2, "db2"), STATUS_OK); /* which has it */
	start(f, state_alloc(&f->server->state, ALLOC_2));
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1); /* for db */
	settle(f);
	assert_int_equal(run_waiting(f, ALLOC_3, "db2"), STATUS_OK);
	s.volume.source = text("db2");
	assert_int_equal(run(f, &s, NULL), 2);
	settle(f);
	first = first_queued(f, "db2");
	assert_string_equal(first->id, ALLOC_3);
	finish(f, state_alloc(&f->server->state, ALLOC_2));
	assert_string_equal(placed_on(f, "db2")->id, ALLOC_3);
}

CASE(a_lost_race_is_no_failure_and_keeps_its_turn)
{
	Holdfast__V1__ClaimVolumeResponse *granted = NULL;
	const struct alloc_entry *loser;
	struct submission s;

	connect_both(f);
	make_batch(f, &s, "web");
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, placed_on(f, "db"));
	loser = placed_on(f, "db");
	lose(f, node_of(f, loser)); /* one whose node is away keeps nobody from the volume */
	assert_int_equal(run_waiting(f, ALLOC_2, "db"), STATUS_OK);
	assert_string_not_equal(state_alloc(&f->server->state, ALLOC_2)->alloc.node_id, "");
	start(f, state_alloc(&f->server->state, ALLOC_2));
	fake_node_connect(node_of(f, loser), loser->alloc.node_id, BOOT_1, NULL, 0);
	assert_int_equal(fake_node_claim(node_of(f, loser), "db", loser->id, &granted, NULL),
			 STATUS_FAILED_PRECONDITION);
	fake_node_send_alloc(node_of(f, loser), loser->id, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, first_queued(f, "db"));
	assert_string_equal(first_queued(f, "db")->alloc.job_id, "web");
	assert_true(alloc_arrival(&first_queued(f, "db")->alloc) <
		    alloc_arrival(&state_alloc(&f->server->state, ALLOC_2)->alloc));
	finish(f, state_alloc(&f->server->state, ALLOC_2));
	assert_string_equal(placed_on(f, "db")->alloc.job_id, "web");
}

/* Fails the member on volume db, which @node has, and frees the volume, after a restart if @restarts. */
static void fail_member(struct fixture *f, struct fake_node *node, bool restarts)
{
	const struct alloc_entry *failed = NON_NULL(placed_on(f, "db"));
	struct claim claim;

	start(f, failed);
	claim = LIST_FIRST(&failed->claims)->claim;
	fake_node_send_alloc(node, failed->id, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, first_queued(f, "db"));
	assert_string_equal(first_queued(f, "db")->avoid_node_id, claim.node_id);
	if (restarts) {
		restart(f);
		fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
		fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
		lose(f, &f->n1);
		fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* which frees the volume */
	} else {
		fake_node_send_released(node, &claim);
	}
	UNTIL(f, placed_on(f, "db"));
}

/* Node n1 always has fewer live allocations than n2. */
CASE(a_member_that_failed_and_waits_is_placed_on_another_node_that_can_take_it)
{
	struct submission s;

	connect_both(f);
	assert_int_equal(register_disk(f, &f->operator, "db2", "disk-2", NULL), STATUS_OK);
	assert_int_equal(set_eligible(f, "n1", false, NULL), STATUS_OK);
	assert_int_equal(run_waiting(f, ALLOC_2, "db2"), STATUS_OK);
	assert_int_equal(set_eligible(f, "n1", true, NULL), STATUS_OK);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, placed_on(f, "db"));
	assert_string_equal(placed_on(f, "db")->alloc.node_id, "n1");
	fail_member(f, &f->n1, false);
	assert_string_equal(placed_on(f, "db")->alloc.node_id, "n2");
	fail_member(f, &f->n2, false);
	assert_string_equal(placed_on(f, "db")->alloc.node_id, "n1");
	fail_member(f, &f->n1, true);
	assert_string_equal(placed_on(f, "db")->alloc.node_id, "n2");

	/* no other node can take it */
	assert_int_equal(set_eligible(f, "n1", false, NULL), STATUS_OK);
	fail_member(f, &f->n2, false);
	assert_string_equal(placed_on(f, "db")->alloc.node_id, "n2");
}

/* The lines of `volume status --why` on the volume. */
static char *why_of(struct fixture *f, const char *id)
{
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = text(id), .why = true);
	cleanup_pb ProtobufCMessage *answer = NULL;
	char *why;

	assert_ok(
		call(&f->operator, & holdfast__v1__volumes__descriptor, "Get", &request.base, &answer, NULL));
	why = strdup(((Holdfast__V1__GetVolumeResponse *)(void *)answer)->why);
	return why;
}

CASE(those_that_wait_are_listed_in_order_with_their_reason)
{
	struct submission s;
	cleanup_free char *why = NULL;
	const char *first, *second;

	take_volume(f);
	assert_int_equal(run_waiting(f, ALLOC_2, "db"), STATUS_OK);
	make_batch(f, &s, "web");
	assert_int_equal(run(f, &s, NULL), 1);
	settle(f);
	why = why_of(f, "db");
	first = strstr(why, "1. in its queue: app, allocation " ALLOC_2);
	second = strstr(why, "2. in its queue: web-one-0, ");
	assert_msg(first && second && first <= second, "%s", why);
}

/* --- at random --- */

struct world {
	struct fixture *f;
	uint64_t seed;
	uint32_t step, n_ids, n_turns;
};

static const char *const sources[] = {"db", "db2"};

static uint32_t draw(struct world *w, uint32_t n)
{
	w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(w->seed >> 33) % n;
}

static void submit_any(struct world *w)
{
	static const char *const ids[JOBS_N] = {"one", "two", "three", "four"};
	struct submission s;
	uint32_t i = draw(w, JOBS_N);

	make_batch(w->f, &s, ids[i]);
	if (i % 2 == 0)
		s.job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SERVICE;
	s.reschedule.unlimited = i % 2 == 0;
	s.volume.source = text(sources[i / 2]);
	s.alloc.mount_timeout_ms = 1000 * (1 + draw(w, 3));
	s.group.count = draw(w, 5) > 0;
	assert_true(run(w->f, &s, NULL) > 0);
}

static void wait_any(struct world *w)
{
	char id[UUID_TEXT_SIZE];

	if (w->n_ids == IDS_MAX)
		return;
	(void)str_format(id, sizeof(id), ID_OF, 500 + w->n_ids++);
	assert_int_equal(run_waiting(w->f, id, sources[draw(w, 2)]), STATUS_OK);
}

/* One that was stopped before it claimed its volume; NULL: none. */
static struct alloc_entry *stopped_early(struct fixture *f)
{
	for (struct alloc_entry *at = NULL; (at = next_alloc(f, at));)
		if (is_live(at) && at->alloc.desired_status == DESIRED_STOP && LIST_EMPTY(&at->claims))
			return at;
	return NULL;
}

/* What has a volume goes on. */
static void advance(struct world *w)
{
	struct alloc_entry *entry = stopped_early(w->f);

	if (!entry || draw(w, 2) == 0)
		entry = placed_on(w->f, sources[draw(w, 2)]);
	if (!entry || !node_is_connected(entry->node))
		return;
	if (entry->alloc.client_status == CLIENT_PENDING && entry->alloc.desired_status == DESIRED_RUN)
		start(w->f, entry);
	else
		finish(w->f, entry);
}

/* Nothing happens for a while: no volume is idle for which another one waits, and each waits for its turn. */
static void check_queues(struct world *w)
{
	settle(w->f);
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		const struct alloc_entry *placed = placed_on(w->f, sources[i]);
		const struct alloc_entry *first = first_queued(w->f, sources[i]);

		if (!placed && first)
			fail_msg("step %u: volume %s is idle, and %s waits", w->step, sources[i], first->id);
		if (placed && first && placed->alloc.client_status == CLIENT_PENDING &&
		    alloc_arrival(&first->alloc) < alloc_arrival(&placed->alloc))
			fail_msg("step %u: %s overtook %s at %s", w->step, placed->id, first->id, sources[i]);
		w->n_turns += placed && first;
	}
}

TEST_FIXTURE(no_volume_idles_with_waiters_and_no_waiter_is_overtaken, setup, teardown)
{
	struct world w = {.f = *state, .seed = 7};

	connect_both(w.f);
	assert_int_equal(register_disk(w.f, &w.f->operator, "db2", "disk-2", NULL), STATUS_OK);
	for (w.step = 0; w.step < STEPS; w.step++) {
		uint32_t what = draw(&w, 10);

		if (what < 2)
			submit_any(&w);
		else if (what < 3)
			wait_any(&w);
		else
			advance(&w);
		check_queues(&w);
	}
	print_message("%u times one waited behind another one\n", w.n_turns);
	assert_true(w.n_turns > STEPS / 4);
}
