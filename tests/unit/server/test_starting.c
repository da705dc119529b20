/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that wait for volumes, among those that start with them or keep a place: who is in the way of
 * whom, and the cost of a look. Steps are counted, not timed. */

#include "cluster.h"
#include "unit.h"
#include "unit_clock.h"

#include "alloc/allocs.h"
#include "alloc/placement.h"
#include "model/admission.h"
#include "state/change.h"
#include "state/keys.h"

#include <holdfast/v1/jobs.pb-c.h>
#include <stdio.h>
#include <stdlib.h>

#define ID_OF "018%05u-0001-7000-" ID_MARK
#define LATE 1000000 /* a place behind all that wait */

enum { FEW = 10, MANY = 400 };

static size_t steps, tries;
static uint64_t try_us; /* of each */

#define COUNT_STEPS(type, name, params, args) \
	type __real_##name params;            \
	type __wrap_##name params;            \
	type __wrap_##name params             \
	{                                     \
		steps++;                      \
		return __real_##name args;    \
	}

COUNT_STEPS(struct volume_wish *, wish_first,
	    (struct wish_tree * tree, const char *namespace, const char *id), (tree, namespace, id))
COUNT_STEPS(struct volume_wish *, wish_next, (struct volume_wish * wish), (wish))
COUNT_STEPS(struct volume_wish *, wish_next_kind, (struct wish_tree * tree, const struct volume_wish *wish),
	    (tree, wish))
COUNT_STEPS(struct volume_wish *, wish_next_node, (struct wish_tree * tree, const struct volume_wish *wish),
	    (tree, wish))

enum status __real_placement_choose_node(struct server *server, struct alloc *alloc,
					 const struct placement_assumed *assumed, struct refusal *refusal,
					 struct error *err);
enum status __wrap_placement_choose_node(struct server *server, struct alloc *alloc,
					 const struct placement_assumed *assumed, struct refusal *refusal,
					 struct error *err);
enum status __wrap_placement_choose_node(struct server *server, struct alloc *alloc,
					 const struct placement_assumed *assumed, struct refusal *refusal,
					 struct error *err)
{
	tries++;
	unit_clock_advance(try_us);
	return __real_placement_choose_node(server, alloc, assumed, refusal, err);
}

/* An allocation of the volumes "s0", "s1" and so on, that waits until it has a node. */
struct wanted {
	struct alloc alloc;
	struct volume_request volumes[ALLOC_VOLUMES_MAX];
};

static void ask(struct wanted *ret, unsigned int number, uint32_t n_volumes, enum access_mode mode)
{
	*ret = (struct wanted){.alloc = {.desired_status = DESIRED_RUN, .client_status = CLIENT_PENDING}};
	(void)str_format(ret->alloc.id, sizeof(ret->alloc.id), ID_OF, number);
	(void)str_copy(ret->alloc.namespace, sizeof(ret->alloc.namespace), NAMESPACE_DEFAULT);
	(void)str_copy(ret->alloc.name, sizeof(ret->alloc.name), "app");
	ret->alloc.create_time_ms = number + 1;
	ret->alloc.create_index = number + 1;
	ret->alloc.n_volumes = n_volumes;
	for (uint32_t i = 0; i < n_volumes; i++) {
		struct volume_request *volume = &ret->volumes[i];

		(void)str_format(volume->name, sizeof(volume->name), "v%u", i);
		(void)str_format(volume->source, sizeof(volume->source), "s%u", i);
		volume->access_mode = mode;
		volume->read_only = !access_mode_is_writer(mode);
		volume->attachment_mode = ATTACHMENT_FILE_SYSTEM;
	}
}

static void on_node(struct wanted *asked, const char *node_id)
{
	(void)str_copy(asked->alloc.node_id, sizeof(asked->alloc.node_id), node_id);
}

/* A member of job "j" that has ended for its next version. */
static void keep(struct wanted *asked, uint32_t index, uint64_t queue_index)
{
	(void)str_copy(asked->alloc.job_id, sizeof(asked->alloc.job_id), "j");
	(void)str_copy(asked->alloc.job_group, sizeof(asked->alloc.job_group), "g");
	asked->alloc.job_index = index;
	asked->alloc.desired_status = DESIRED_STOP;
	asked->alloc.client_status = CLIENT_COMPLETE;
	asked->alloc.keeps_place = true;
	asked->alloc.queue_index = queue_index;
}

/* Past the observers: no job ends its places. */
static void put(struct fixture *f, struct wanted *asked)
{
	asked->alloc.volumes = asked->volumes;
	assert_int_equal(state_put_alloc(&f->server->state, &asked->alloc, NULL), STATUS_OK);
}

static void put_job(struct fixture *f)
{
	Holdfast__V1__Job job = V1(job, .id = TEXT("j"), .namespace_ = TEXT(NAMESPACE_DEFAULT));
	const struct record record = {.key = TEXT(PREFIX_JOB NAMESPACE_DEFAULT "/j"), .message = &job.base};

	assert_int_equal(records_put(&f->server->state.records, &record, NULL), STATUS_OK);
}

static void happen(struct fixture *f)
{
	struct change_object node = {.kind = OBJECT_NODE};

	pending_note_durable(f->server, &node, 1, 0);
}

/* Returns the steps of a look at all that wait, and of the check of one that comes. */
static size_t steps_of_looks(struct fixture *f)
{
	struct wanted asked;
	struct error err;

	settle(f);
	steps = 0;
	happen(f);
	settle(f);
	ask(&asked, 900, ALLOC_VOLUMES_MAX, SINGLE_NODE_WRITER);
	asked.alloc.volumes = asked.volumes;
	assert_int_equal(pending_check(f->server, &asked.alloc, NULL, true, &err),
			 STATUS_FAILED_PRECONDITION);
	assert_int_equal(pending_enter(f->server, &asked.alloc, 1000, &err), STATUS_OK);
	free(asked.alloc.wait_node_id);
	return steps;
}

static void put_readers_that_start(struct fixture *f, unsigned int first, unsigned int n)
{
	struct wanted asked;

	for (unsigned int i = first; i < first + n; i++) {
		ask(&asked, 1000 + i, ALLOC_VOLUMES_MAX, MULTI_NODE_READER_ONLY);
		on_node(&asked, i % 2 == 0 ? "n1" : "n2");
		put(f, &asked);
	}
}

/* They read all volumes but the last one, which they write. */
static void put_writers_that_wait(struct fixture *f, unsigned int n)
{
	struct wanted asked;

	for (unsigned int i = 0; i < n; i++) {
		ask(&asked, i, ALLOC_VOLUMES_MAX, MULTI_NODE_READER_ONLY);
		asked.volumes[ALLOC_VOLUMES_MAX - 1].access_mode = SINGLE_NODE_WRITER;
		asked.volumes[ALLOC_VOLUMES_MAX - 1].read_only = false;
		put(f, &asked);
	}
}

CLUSTER_TEST(a_look_costs_the_same_however_many_start_with_the_volumes)
{
	size_t before;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	put_readers_that_start(f, 0, FEW);
	put_writers_that_wait(f, FEW);
	before = steps_of_looks(f);
	put_readers_that_start(f, FEW, MANY);
	assert_int_equal(steps_of_looks(f), before);
}

CLUSTER_TEST(a_look_costs_the_same_however_many_start_on_a_node_that_is_away)
{
	struct wanted asked;
	size_t before;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	put_readers_that_start(f, 0, FEW);
	put_writers_that_wait(f, FEW);
	before = steps_of_looks(f);
	for (unsigned int i = 0; i < MANY; i++) {
		ask(&asked, 2000 + i, ALLOC_VOLUMES_MAX, SINGLE_NODE_WRITER);
		on_node(&asked, "away");
		put(f, &asked);
	}
	/* one more kind, whose one node is passed over */
	assert_in_range(steps_of_looks(f), before, before + 2 * (FEW + 2) * ALLOC_VOLUMES_MAX);
}

CLUSTER_TEST(a_look_costs_the_same_however_many_keep_later_places)
{
	struct wanted asked;
	size_t costs[2];

	put_job(f);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	put_readers_that_start(f, 0, FEW);
	put_writers_that_wait(f, FEW);
	for (unsigned int i = 0, k = 0; k < 2; k++) {
		for (; i < (k == 0 ? FEW : MANY); i++) {
			ask(&asked, 2000 + i, ALLOC_VOLUMES_MAX, SINGLE_NODE_WRITER);
			on_node(&asked, "n1");
			keep(&asked, i, LATE + i);
			put(f, &asked);
		}
		costs[k] = steps_of_looks(f);
	}
	assert_int_equal(costs[0], costs[1]);
}

CLUSTER_TEST(a_search_for_related_ones_comes_to_each_volume_once)
{
	struct wanted asked;
	struct error err;

	put_readers_that_start(f, 0, 1);
	for (unsigned int i = 0; i < PENDING_PER_VOLUME_MAX - 1; i++) {
		ask(&asked, i, ALLOC_VOLUMES_MAX, SINGLE_NODE_WRITER);
		put(f, &asked);
	}
	ask(&asked, 900, ALLOC_VOLUMES_MAX, SINGLE_NODE_WRITER);
	asked.alloc.volumes = asked.volumes;
	assert_int_equal(pending_check(f->server, &asked.alloc, NULL, true, &err),
			 STATUS_FAILED_PRECONDITION);
	steps = 0;
	assert_int_equal(pending_enter(f->server, &asked.alloc, 1000, &err), STATUS_OK);
	/* the search, the count of each volume, and what finds the obstacle */
	assert_in_range(steps, 1, 4 * PENDING_PER_VOLUME_MAX * ALLOC_VOLUMES_MAX);
}

CLUSTER_TEST(an_allocation_is_in_no_index_of_volumes_while_it_runs)
{
	const struct alloc_entry *entry;
	struct wanted asked;

	ask(&asked, 1, 2, SINGLE_NODE_WRITER);
	put(f, &asked);
	entry = NON_NULL(state_alloc(&f->server->state, asked.alloc.id));
	assert_non_null(wish_first(&f->server->state.wishes, NAMESPACE_DEFAULT, "s1"));
	on_node(&asked, "n1");
	put(f, &asked);
	assert_true(entry->wishes.list && entry->wishes.is_starting);
	asked.alloc.client_status = CLIENT_RUNNING;
	put(f, &asked);
	assert_true(!entry->wishes.list && !entry->wishes.is_starting);
	assert_null(wish_first(&f->server->state.wishes, NAMESPACE_DEFAULT, "s1"));
	asked.alloc.keeps_place = true; /* its next version waits */
	put(f, &asked);
	assert_true(entry->wishes.list && entry->wishes.is_starting);
}

/* A chain of neighbours: each is related to all others. */
static void put_chain(struct fixture *f, unsigned int n)
{
	struct wanted asked;

	for (unsigned int i = 0; i < n; i++) {
		ask(&asked, i, 2, SINGLE_NODE_WRITER);
		for (unsigned int k = 0; k < 2; k++)
			(void)str_format(asked.volumes[k].source, sizeof(asked.volumes[k].source), "s%u",
					 i + k);
		put(f, &asked);
	}
	settle(f);
	tries = 0;
}

CLUSTER_TEST(a_turn_ends_when_its_time_is_over_and_the_next_one_goes_on_behind_it)
{
	put_chain(f, FEW);
	try_us = 11 * USEC_PER_MSEC;
	happen(f);
	for (size_t before = 0; tries < FEW; before = tries) {
		assert_true(sd_event_run(f->event, UINT64_MAX) >= 0);
		assert_in_range(tries, before, before + 1);
	}
	settle(f);
	assert_int_equal(tries, FEW);
	try_us = 0;
}

CLUSTER_TEST(a_submission_has_no_time_to_try_all_and_goes_behind_the_rest)
{
	struct wanted asked;
	struct error err;

	for (unsigned int i = 0; i < FEW; i++) { /* none has a volume that exists */
		ask(&asked, i, 1, SINGLE_NODE_WRITER);
		put(f, &asked);
	}
	happen(f);
	settle(f);
	ask(&asked, 900, 1, SINGLE_NODE_WRITER);
	asked.alloc.volumes = asked.volumes;
	happen(f);
	tries = 0;
	try_us = USEC_PER_MSEC;
	assert_int_equal(pending_check(f->server, &asked.alloc, NULL, true, &err),
			 STATUS_FAILED_PRECONDITION);
	assert_contains(err.msg, "waits for it and came before");
	assert_in_range(tries, 1, 3);
	assert_int_equal(pending_enter(f->server, &asked.alloc, 0, &err), STATUS_OK);
	try_us = 0;
	settle(f);
	assert_int_equal(tries, FEW); /* each once, and none can have it */
	asked.alloc.node_id[0] = '\0';
	assert_int_equal(pending_check(f->server, &asked.alloc, NULL, true, &err), STATUS_OK);
}

/* --- against the rule, pair by pair --- */

static unsigned int seed;

static unsigned int draw(unsigned int n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

static const char *draw_node(void)
{
	static const char *const nodes[] = {"n1", "n2", "away"};

	return nodes[draw(3)];
}

static void draw_volumes(struct wanted *asked)
{
	for (uint32_t i = 0; i < asked->alloc.n_volumes; i++) {
		struct volume_request *volume = &asked->volumes[i];

		volume->access_mode = SINGLE_NODE_READER_ONLY + draw(ACCESS_MODE_N - SINGLE_NODE_READER_ONLY);
		volume->read_only = !access_mode_is_writer(volume->access_mode) || draw(2) == 0;
		volume->attachment_mode = draw(8) == 0 ? ATTACHMENT_BLOCK_DEVICE : ATTACHMENT_FILE_SYSTEM;
	}
}

static bool is_room(const struct volume_request *request, const char *node_id,
		    const struct volume_request *other, const char *other_node_id)
{
	struct claim held = {.mode = volume_request_mode(other),
			     .access_mode = other->access_mode,
			     .attachment_mode = other->attachment_mode,
			     .plugin_id = PLUGIN_NATIVE};
	const struct claim *claims[] = {&held}, *blocker;

	(void)str_copy(held.node_id, sizeof(held.node_id), other_node_id);
	return admission_has_room(volume_request_capability(request), volume_request_mode(request),
				  node_id[0] != '\0' ? node_id : "-", claims, 1, &blocker);
}

/* Does @other, which starts or keeps a place, keep @own from a volume? */
static bool is_rival(const struct wanted *own, const struct wanted *other, bool is_to_wait)
{
	const struct alloc *a = &own->alloc, *b = &other->alloc;
	bool is_placed = b->node_id[0] != '\0';
	const char *node_id = is_placed ? b->node_id : alloc_wait_node(b);

	if (b->keeps_place ? !str_eq(b->job_id, "j") || a->job_index == b->job_index ||
				     alloc_arrival(b) > alloc_arrival(a)
			   : str_eq(node_id, "away") || (!is_to_wait && b->place_time_ms == 0))
		return false;
	for (uint32_t i = 0; i < a->n_volumes; i++) {
		const struct volume_request *mine = &own->volumes[i], *theirs = &other->volumes[i];

		if (i < b->n_volumes && (is_placed ? !is_room(mine, a->node_id, theirs, node_id)
						   : !is_room(theirs, node_id, mine, a->node_id)))
			return true;
	}
	return false;
}

static void give_up_node(struct wanted *asked)
{
	char *wish = strdup(wish_node_of(&asked->alloc)); /* it may be the one that is freed */

	free(asked->alloc.wait_node_id);
	asked->alloc.wait_node_id = wish;
	asked->alloc.node_id[0] = '\0';
}

static void draw_one(struct wanted *ret, unsigned int number)
{
	ask(ret, number, 1 + draw(3), SINGLE_NODE_WRITER);
	draw_volumes(ret);
	on_node(ret, draw_node());
	ret->alloc.place_time_ms = draw(2);
	if (draw(3) > 0)
		return;
	keep(ret, draw(4), draw(5));
	if (draw(4) == 0)
		(void)str_copy(ret->alloc.job_id, sizeof(ret->alloc.job_id), "purged");
	if (draw(3) > 0)
		return;
	give_up_node(ret);
}

/* One that differs from @of in its place, and maybe in the attachment or in whether it was placed. */
static void draw_twin(struct wanted *ret, const struct wanted *of, unsigned int number)
{
	*ret = *of;
	(void)str_format(ret->alloc.id, sizeof(ret->alloc.id), ID_OF, number);
	ret->alloc.create_index = number + 1;
	ret->alloc.wait_node_id = of->alloc.wait_node_id ? strdup(of->alloc.wait_node_id) : NULL;
	if (draw(3) == 0)
		ret->volumes[0].attachment_mode = ATTACHMENT_BLOCK_DEVICE;
	if (!ret->alloc.keeps_place)
		return;
	if (draw(2) == 0)
		give_up_node(ret);
	ret->alloc.job_index = draw(4);
	ret->alloc.queue_index = draw(5);
}

CLUSTER_TEST(those_that_start_are_in_the_way_as_each_pair_of_them_says)
{
	enum { ROUNDS = 3000, OTHERS = 6, CHECKS = 10 };
	size_t n_free = 0;

	put_job(f);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	for (seed = 1; seed <= ROUNDS; seed++) {
		struct wanted others[OTHERS], own;
		unsigned int round = seed, n = 1 + draw(OTHERS);
		struct error err;

		for (unsigned int i = 0; i < n; i++) {
			if (i > 0 && draw(2) == 0)
				draw_twin(&others[i], &others[i - 1], i);
			else
				draw_one(&others[i], i);
			put(f, &others[i]);
		}
		for (int k = 0; k < CHECKS; k++) {
			bool is_free = true, is_to_wait = draw(2) == 0;

			ask(&own, 900, 3, SINGLE_NODE_WRITER);
			draw_volumes(&own);
			on_node(&own, draw(2) == 0 ? "" : draw_node());
			keep(&own, draw(4), 1 + draw(6));
			own.alloc.keeps_place = false;
			own.alloc.volumes = own.volumes;
			for (unsigned int i = 0; i < n; i++)
				is_free = is_free && !is_rival(&own, &others[i], is_to_wait);
			assert_msg((pending_check(f->server, &own.alloc, NULL, is_to_wait, &err) ==
				    STATUS_OK) == is_free,
				   "round %u, check %d: %s", round, k, is_free ? err.msg : "free");
			n_free += is_free;
		}
		for (unsigned int i = 0; i < n; i++) {
			state_delete_alloc(&f->server->state,
					   state_alloc(&f->server->state, others[i].alloc.id));
			free(others[i].alloc.wait_node_id);
		}
		seed = round;
	}
	assert_in_range(n_free, ROUNDS, ROUNDS * (CHECKS - 1)); /* both often */
}

TEST_GROUP(NULL, NULL)
