/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of many allocations that wait for volumes: looks and tries are counted, not timed. */

#include "asks.h"
#include "cluster.h"
#include "submission.h"
#include "unit.h"

#include "alloc/allocs.h"
#include "alloc/placement.h"
#include "base/clock.h"
#include "base/str.h"
#include "job/job_spec.h"
#include "state/change.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <stdio.h>
#include <stdlib.h>

#define ID_OF "018%05u-0001-7000-" ID_MARK

enum { MANY = 4000, LONG_MS = 3600 * 1000 };

/* Of the allocations of put_waiting(), whose names are numbers. */
static struct {
	size_t looks, tries;
	size_t tries_of[PENDING_PER_NAMESPACE_MAX];
	size_t most; /* of one */
	bool is_slow;
} cost;

struct volume_entry *__real_state_volume(struct state *state, const char *namespace, const char *id);
struct volume_entry *__wrap_state_volume(struct state *state, const char *namespace, const char *id);
struct volume_entry *__wrap_state_volume(struct state *state, const char *namespace, const char *id)
{
	cost.looks++;
	return __real_state_volume(state, namespace, id);
}

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
	unsigned int i;

	for (uint64_t now_us = clock_monotonic_us();
	     cost.is_slow && clock_monotonic_us() < now_us + USEC_PER_MSEC;)
		;
	if (sscanf(alloc->name, "w%u", &i) == 1) {
		cost.tries++;
		if (++cost.tries_of[i] > cost.most)
			cost.most = cost.tries_of[i];
	}
	return __real_placement_choose_node(server, alloc, assumed, refusal, err);
}

static struct {
	const char *id; /* of the job of those that put_waiting() stores; NULL: it stores members of no job */
	uint64_t content;
} job;

static void make_member(struct alloc *alloc, unsigned int index)
{
	if (!job.id)
		return;
	(void)str_copy(alloc->job_id, sizeof(alloc->job_id), job.id);
	(void)str_copy(alloc->job_group, sizeof(alloc->job_group), "one");
	alloc->job_version = 1;
	alloc->job_content = job.content;
	alloc->job_index = index;
}

/* Stores @n allocations that wait. The first one has the volumes "db", "x1", "x2" and so on, the next one the
 * same without the first @step. Only volume db exists. */
static void put_waiting(struct fixture *f, unsigned int n, unsigned int n_volumes, unsigned int step)
{
	struct volume_request volumes[ALLOC_VOLUMES_MAX];
	struct alloc alloc = {.desired_status = DESIRED_RUN, .client_status = CLIENT_PENDING};

	(void)str_copy(alloc.namespace, sizeof(alloc.namespace), NAMESPACE_DEFAULT);
	alloc.volumes = volumes;
	alloc.n_volumes = n_volumes;
	for (unsigned int i = 0; i < n;) {
		cleanup(change_release) struct change change = CHANGE_INIT;

		for (unsigned int end = i + 64; i < n && i < end; i++) {
			memset(volumes, 0, sizeof(volumes));
			(void)str_format(alloc.id, sizeof(alloc.id), ID_OF, i);
			(void)str_format(alloc.name, sizeof(alloc.name), "w%u", i);
			alloc.create_time_ms = i + 1;
			make_member(&alloc, i);
			for (unsigned int k = 0; k < n_volumes; k++) {
				volumes[k].access_mode = SINGLE_NODE_WRITER;
				volumes[k].attachment_mode = ATTACHMENT_FILE_SYSTEM;
				(void)str_format(volumes[k].name, sizeof(volumes[k].name), "v%u", k);
				(void)str_format(volumes[k].source, sizeof(volumes[k].source),
						 i * step + k == 0 ? "db" : "x%u", i * step + k);
			}
			change_put_alloc(&change, &alloc);
		}
		assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	}
	settle(f);
	memset(&cost, 0, sizeof(cost));
}

static void happen(struct fixture *f)
{
	struct change_object node = {.kind = OBJECT_NODE};

	pending_note_durable(f->server, &node, 1, 0);
}

/* An allocation of volume @source that waits. */
static enum status run_waiting(struct fixture *f, const char *source, struct error *err)
{
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__V1__RunAllocationRequest request =
		V1(run_allocation_request, .allocation = &alloc, .wait_ms = LONG_MS);
	Holdfast__V1__VolumeRequest volume = V1(volume_request, .name = TEXT("data"), .source = TEXT(source),
						.access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER);
	Holdfast__V1__VolumeRequest *volumes[] = {&volume};

	alloc.name = TEXT("app");
	alloc.volumes = volumes;
	alloc.n_volumes = 1;
	return call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &request.base, NULL, err);
}

CLUSTER_TEST(a_submission_looks_at_no_allocation_that_waits_for_other_volumes)
{
	take_volume(f);
	put_waiting(f, MANY, 1, 1);
	assert_int_equal(run_waiting(f, "db", NULL), STATUS_OK);
	settle(f);
	assert_in_range(cost.looks, 1, 100);
	assert_in_range(cost.tries, 0, 1); /* the first one waits for volume db */
}

CLUSTER_TEST(a_submission_tries_nothing_again_before_an_event)
{
	struct error err;

	take_volume(f);
	put_waiting(f, 2, 1, 0); /* both for volume db */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(run_alloc(f, ALLOC_2, "", &err), STATUS_FAILED_PRECONDITION);
		assert_contains(err.msg, "waits for it and came before");
	}
	assert_int_equal(cost.tries, 0);
	happen(f);
	assert_int_equal(run_alloc(f, ALLOC_2, "", &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(cost.most, 1);
}

CLUSTER_TEST(each_that_waits_is_tried_before_one_is_tried_again)
{
	put_waiting(f, MANY, 1, 1);
	happen(f);
	while (cost.tries < MANY) { /* an event in each turn */
		size_t before = cost.tries;

		UNTIL(f, cost.tries > before);
		happen(f);
		assert_true(cost.most == 1 || cost.tries > MANY);
	}
	for (size_t i = 0; i < MANY; i++)
		assert_in_range(cost.tries_of[i], 1, 2);
	/* the last event has its pass */
	UNTIL(f, cost.tries >= 2 * MANY);
}

/* Tries all nodes for the text of each: a page has few of them, and all pages together have all. */
CLUSTER_TEST(a_page_explains_only_so_many_that_wait)
{
	Holdfast__V1__ListAllocationsRequest request = HOLDFAST__V1__LIST_ALLOCATIONS_REQUEST__INIT;
	cleanup_free char *token = NULL;
	size_t n = 0;

	take_volume(f);
	put_waiting(f, MANY, 1, 1);
	f->server->state.n_nodes = 190; /* as if there were so many */
	request.per_page = 5000;
	for (size_t i = 0; i < MANY; i++) {
		ProtobufCMessage *answer = NULL;
		const Holdfast__V1__ListAllocationsResponse *page;

		request.next_token = token ? token : TEXT("");
		memset(&cost, 0, sizeof(cost));
		assert_int_equal(call(&f->operator, & holdfast__v1__allocations__descriptor, "List",
				      &request.base, &answer, NULL),
				 STATUS_OK);
		assert_in_range(cost.tries, 1, 51);
		page = (const Holdfast__V1__ListAllocationsResponse *)(const void *)answer;
		n += page->n_allocations;
		free(token);
		token = page->next_token[0] != '\0' ? strdup(page->next_token) : NULL;
		protobuf_c_message_free_unpacked(answer, NULL);
		if (!token)
			break;
	}
	assert_int_equal(n, MANY + 1);
	f->server->state.n_nodes = 2;
}

static void put_one(struct fixture *f, const char *namespace, unsigned int i)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume_request volume = ROW(.name = "v", .source = "x", .access_mode = SINGLE_NODE_WRITER,
					   .attachment_mode = ATTACHMENT_FILE_SYSTEM);
	struct alloc alloc = {.desired_status = DESIRED_RUN, .client_status = CLIENT_PENDING};

	(void)str_copy(alloc.namespace, sizeof(alloc.namespace), namespace);
	(void)str_format(alloc.id, sizeof(alloc.id), ID_OF, i);
	(void)str_format(alloc.name, sizeof(alloc.name), "w%u", i);
	alloc.create_time_ms = i + 1;
	alloc.volumes = &volume;
	alloc.n_volumes = 1;
	change_put_alloc(&change, &alloc);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

CLUSTER_TEST(many_that_wait_in_a_namespace_delay_one_of_another_by_a_turn)
{
	put_waiting(f, MANY, 1, 1);
	put_one(f, "zone", MANY);
	settle(f);
	memset(&cost, 0, sizeof(cost));
	cost.is_slow = true;
	happen(f);
	UNTIL(f, cost.tries_of[MANY] > 0);
	cost.is_slow = false;
	assert_in_range(cost.tries, 1, 100);
}

/* Others are named without a reason. */
CLUSTER_TEST(the_status_of_a_job_explains_only_so_many_that_wait)
{
	cleanup_pb Holdfast__V1__GetJobResponse *response = NULL;
	struct submission s;

	make_job(f, &s);
	s.group.count = JOB_WAITS_MAX;
	s.group.per_alloc = s.per_alloc;
	s.group.n_per_alloc = 1;
	assert_int_equal(run(f, &s, NULL), 1);
	job.id = "web";
	job.content = job_content(&s.group);
	put_waiting(f, JOB_WAITS_MAX, 1, 1);
	job.id = NULL;
	f->server->state.n_nodes = 990; /* as if there were so many */
	memset(&cost, 0, sizeof(cost));
	response = get(f);
	f->server->state.n_nodes = 0;
	assert_in_range(cost.tries, 1, 11);
	assert_int_equal(response->n_waits, JOB_WAITS_MAX);
	assert_non_null(strstr(response->waits[1]->text, "waits to be placed: "));
	assert_non_null(strstr(response->waits[JOB_WAITS_MAX - 1]->text, "is pending as allocation "));
}

CLUSTER_TEST(so_many_wait_in_a_namespace_and_no_more)
{
	struct error err;

	take_volume(f);
	put_waiting(f, PENDING_PER_NAMESPACE_MAX - 1, 1, 1);
	assert_int_equal(run_waiting(f, "db", NULL), STATUS_OK);
	assert_int_equal(run_waiting(f, "db", &err), STATUS_RESOURCE_EXHAUSTED);
	assert_contains(err.msg, "namespace default: 4096 of its allocations wait for volumes");
}

CLUSTER_TEST(so_many_are_related_by_their_volumes_and_no_more)
{
	struct error err;

	take_volume(f);
	put_waiting(f, PENDING_RELATED_MAX - 1, 2, 1); /* a chain */
	assert_int_equal(run_waiting(f, "db", NULL), STATUS_OK);
	assert_int_equal(run_waiting(f, "db", &err), STATUS_RESOURCE_EXHAUSTED);
	assert_contains(err.msg, "128 allocations wait for its volumes, or for other volumes of these");
}
