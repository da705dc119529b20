/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a namespace: its limit, old versions of jobs, and the early end of allocations that ended. */

#include "cluster.h"
#include "gc.h"
#include "submission.h"
#include "unit.h"
#include "warnings.h"

#include "base/clock.h"
#include "base/str.h"
#include "job/job_spec.h"
#include "job/job_work.h"
#include "model/message.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/namespaces.h"

#include <holdfast/v1/operator.pb-c.h>
#include <string.h>

#define ID_OF "018%05u-0000-7000-" ID_MARK

enum {
	TEXTS = 10000,	       /* of one letter: each takes many times its bytes on the wire */
	PACKED_MAX = 64 << 10, /* of such a job; it is JOB_BYTES_MAX */
	JOBS_MANY = 128,
	LIMIT = 16 << 20,
	SHARE = LIMIT / 8, /* the least that a setting may have */
};

/* Two tasks whose command has very many words, the first of which changes. */
struct many_words {
	char first[16], *words[TEXTS];
	Holdfast__Driver__V1__ConfigValue entry, *entries[1];
	Holdfast__Driver__V1__TaskConfig tasks[2], *list[2];
};

static void use_many_words(struct many_words *many, Holdfast__V1__Allocation *alloc)
{
	holdfast__driver__v1__config_value__init(&many->entry);
	for (size_t i = 0; i < TEXTS; i++)
		many->words[i] = text("a");
	many->words[0] = many->first;
	many->entry.key = text("command");
	many->entry.list = many->words;
	many->entry.n_list = TEXTS;
	many->entries[0] = &many->entry;
	for (size_t i = 0; i < 2; i++) {
		holdfast__driver__v1__task_config__init(&many->tasks[i]);
		many->tasks[i].task = text(i == 0 ? "a" : "b");
		many->tasks[i].driver = text("container");
		many->tasks[i].config = many->entries;
		many->tasks[i].n_config = 1;
		many->list[i] = &many->tasks[i];
	}
	(void)strcpy(many->first, "1");
	alloc->tasks = many->list;
	alloc->n_tasks = 2;
}

/* A job of these, without members. */
static void make_paused(struct fixture *f, struct submission *s, struct many_words *many)
{
	make_job(f, s);
	use_many_words(many, &s->alloc);
	s->group.count = 0;
	s->alloc.n_volumes = 0;
	f->server->config.namespace_memory = LIMIT;
}

static size_t bytes_of(struct fixture *f)
{
	const struct namespace_entry *entry = namespaces_find(&f->server->state.namespaces, "default");

	return entry ? entry->bytes : 0;
}

/* Submits job after job until one is refused. Returns how many there are. */
static size_t fill_with_jobs(struct fixture *f, struct submission *s, struct error *err)
{
	char id[16] = "web";
	size_t n = 0;

	s->job.id = id;
	err->status = STATUS_OK;
	while (n < JOBS_MANY && run(f, s, err) > 0)
		(void)str_format(id, sizeof(id), "job-%zu", ++n);
	assert_int_equal(err->status, STATUS_RESOURCE_EXHAUSTED);
	s->job.id = text("web");
	return n;
}

CLUSTER_TEST(a_full_namespace_gets_no_new_job_and_others_do)
{
	static struct many_words many;
	struct submission s;
	char warning[WARNING_SIZE];
	struct error err;
	size_t n;

	make_paused(f, &s, &many);
	assert_int_equal(metric_of(f, "namespace_memory_percent_max"), 0);
	assert_false(warning_text(f->server, WARNING_NAMESPACES, warning));
	n = fill_with_jobs(f, &s, &err);
	assert_in_range(metric_of(f, "namespace_memory_percent_max"), 87, 99);
	assert_true(warning_text(f->server, WARNING_NAMESPACES, warning));
	assert_non_null(strstr(warning, "namespace default takes "));
	assert_in_range(n, 4, JOBS_MANY - 1); /* counted as they are in memory */
	assert_in_range(bytes_of(f), LIMIT - SHARE, LIMIT);
	assert_non_null(strstr(err.msg, "namespace default has no room for new ones"));
	assert_non_null(strstr(err.msg, "take 14 MiB of the server's memory, and the limit is 14 MiB"));
	assert_non_null(strstr(err.msg, "holdfast job stop --purge"));
	assert_int_equal(run(f, &s, NULL), 1); /* unchanged */
	assert_int_equal(register_volume(f, &f->operator, & err), STATUS_RESOURCE_EXHAUSTED);
	s.job.namespace_ = text("team");
	assert_int_equal(run(f, &s, NULL), 1);
	assert_true(warning_text(f->server, WARNING_NAMESPACES, warning));
	assert_non_null(strstr(warning, "namespace default takes "));
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	assert_int_equal(stop_job(f, true, NULL), STATUS_OK);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
}

CLUSTER_TEST(the_last_part_of_the_room_is_for_changes)
{
	static struct many_words many;
	struct submission s;
	struct error err;
	size_t before;

	make_paused(f, &s, &many);
	(void)fill_with_jobs(f, &s, &err);
	before = bytes_of(f);
	(void)strcpy(many.first, "2");
	assert_int_equal(run(f, &s, NULL), 2);
	assert_in_range(bytes_of(f), before + 1, before + PACKED_MAX + 4096);
	f->server->config.namespace_memory = bytes_of(f) + 1;
	(void)strcpy(many.first, "3");
	assert_int_equal(run(f, &s, NULL), 3);
	(void)strcpy(many.first, "4");
	assert_int_equal(run(f, &s, &err), 0);
	assert_int_equal(err.status, STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(err.msg, "has no room for a change"));
}

/* The text that begins the command of the first task, in the version of that number. */
static void expect_words(struct fixture *f, uint64_t version, const char *first)
{
	Holdfast__V1__JobHistoryRequest request =
		V1(job_history_request, .id = text("web"), .version = version);
	cleanup_pb Holdfast__V1__JobHistoryResponse *response = NULL;
	const Holdfast__Driver__V1__TaskConfig *task;
	ProtobufCMessage *message = NULL;

	assert_int_equal(call(&f->operator, JOBS, "History", &request.base, &message, NULL), STATUS_OK);
	response = (void *)message;
	assert_int_equal(response->n_versions, 1);
	assert_int_equal(response->versions[0]->version, version);
	assert_true(response->versions[0]->modify_index > 0);
	task = response->versions[0]->groups[0]->allocation->tasks[0];
	assert_int_equal(task->config[0]->n_list, TEXTS);
	assert_string_equal(task->config[0]->list[0], first);
}

CLUSTER_TEST(old_versions_are_kept_packed_and_come_back_whole)
{
	static struct many_words many;
	Holdfast__V1__RevertJobRequest request = V1(revert_job_request, .id = text("web"), .version = 2);
	struct submission s;
	size_t first, before;

	make_paused(f, &s, &many);
	assert_int_equal(run(f, &s, NULL), 1);
	first = bytes_of(f);
	assert_true(first >
		    2 * PACKED_MAX); /* 8 without sanitizers, whose blocks are no larger than asked for */
	for (int i = 2; i <= JOB_VERSIONS_KEPT; i++) {
		(void)str_format(many.first, sizeof(many.first), "%d", i);
		assert_int_equal(run(f, &s, NULL), i);
	}
	assert_in_range(bytes_of(f), first, first + JOB_VERSIONS_KEPT * (PACKED_MAX + 4096));
	before = bytes_of(f);
	restart(f);
	f->server->config.namespace_memory = LIMIT;
	settle(f);
	assert_in_range(bytes_of(f), before - 4096, before + 4096);
	expect_words(f, 2, "2");
	expect_words(f, JOB_VERSIONS_KEPT, "6");
	assert_int_equal(call(&f->operator, JOBS, "Revert", &request.base, NULL, NULL), STATUS_OK);
	settle(f);
	expect_words(f, JOB_VERSIONS_KEPT + 1, "2");
}

CLUSTER_TEST(a_member_without_room_says_so_and_is_placed_when_there_is_some)
{
	cleanup_pb Holdfast__V1__GetJobResponse *response = NULL;
	struct submission s;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	settle(f);
	f->server->config.namespace_memory = 1;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	assert_int_equal(f->n1.runs, 0);
	response = get(f);
	assert_int_equal(response->n_waits, 1);
	assert_non_null(strstr(response->waits[0]->text, "namespace default has no room"));
	f->server->config.namespace_memory = LIMIT;
	UNTIL(f, f->n1.runs == 1);
}

enum { COUNT = 5 };

/* Groups of these members each, of a volume of their own that is missing. */
struct groups {
	Holdfast__V1__JobGroup groups[JOB_GROUPS_MAX], *list[JOB_GROUPS_MAX];
	Holdfast__V1__Allocation allocs[JOB_GROUPS_MAX];
	Holdfast__V1__VolumeRequest volumes[JOB_GROUPS_MAX], *of_volumes[JOB_GROUPS_MAX];
	char names[JOB_GROUPS_MAX][16];
};

static void use_groups(struct groups *groups, struct submission *s)
{
	for (size_t i = 0; i < JOB_GROUPS_MAX; i++) {
		(void)str_format(groups->names[i], sizeof(groups->names[i]), "missing-%zu", i);
		groups->volumes[i] = s->volume;
		groups->volumes[i].source = groups->names[i];
		groups->of_volumes[i] = &groups->volumes[i];
		groups->allocs[i] = s->alloc;
		groups->allocs[i].volumes = &groups->of_volumes[i];
		groups->groups[i] = s->group;
		groups->groups[i].name = groups->names[i];
		groups->groups[i].allocation = &groups->allocs[i];
		groups->groups[i].count = COUNT;
		groups->groups[i].per_alloc = s->per_alloc;
		groups->groups[i].n_per_alloc = 1;
		groups->list[i] = &groups->groups[i];
	}
	s->job.groups = groups->list;
	s->job.n_groups = JOB_GROUPS_MAX;
}

/* Runs the job on no node, then on two. What it keeps about those without a place is its namespace's. */
static const struct job_refusals *refuse(struct fixture *f, struct submission *s)
{
	const struct job_refusals *refusals;
	size_t before;

	assert_int_equal(run(f, s, NULL), 1);
	settle(f);
	before = bytes_of(f);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	settle(f);
	refusals = job_work_refusals(f->server, "default", "web");
	assert_true(refusals->bytes > 0);
	assert_int_equal(bytes_of(f), before + refusals->bytes);
	return refusals;
}

CLUSTER_TEST(reasons_of_members_without_a_place_are_kept_as_far_as_they_are_shown_and_counted)
{
	static struct groups groups;
	struct submission s;

	make_job(f, &s);
	use_groups(&groups, &s);
	assert_int_equal(refuse(f, &s)->n_texts, JOB_WAITS_MAX);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	assert_int_equal(stop_job(f, true, NULL), STATUS_OK);
	settle(f);
	assert_int_equal(bytes_of(f), 0);
}

CLUSTER_TEST(a_reason_of_many_members_of_a_system_job_is_kept_once)
{
	static struct groups groups;
	const struct job_refusals *refusals;
	struct submission s;

	make_job(f, &s);
	s.volume.access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_READER_ONLY;
	s.volume.read_only = true;
	use_groups(&groups, &s);
	s.job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SYSTEM;
	for (size_t i = 0; i < JOB_GROUPS_MAX; i++) {
		groups.groups[i].count = 0;
		groups.groups[i].n_per_alloc = 0;
	}
	refusals = refuse(f, &s);
	assert_int_equal(refusals->n, 2 * JOB_GROUPS_MAX);
	assert_int_equal(refusals->n_texts, JOB_GROUPS_MAX);
}

/* The charge of the namespace without the records of job web. */
static size_t bytes_of_work(struct fixture *f)
{
	struct records *records = &f->server->state.records;

	return bytes_of(f) - NON_NULL(records_entry(records, PREFIX_JOB "default/web"))->bytes -
	       NON_NULL(records_entry(records, PREFIX_JOB_VERSION "default/web/00000000000000000001"))->bytes;
}

CLUSTER_TEST(a_plugin_that_is_only_named_takes_little_and_is_charged)
{
	const struct plugin_entry *plugin;
	struct submission s;
	size_t before;

	make_job(f, &s);
	s.plugin.id = text("made-up.example");
	s.plugin.type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_NODE;
	s.alloc.csi_plugins = s.plugins;
	s.alloc.n_csi_plugins = 1;
	s.alloc.n_volumes = 0;
	assert_int_equal(run(f, &s, NULL), 1);
	settle(f);
	plugin = NON_NULL(state_plugin(&f->server->state, "made-up.example"));
	assert_int_equal(plugin->nodes_wanted, 1);
	assert_null(plugin->events);
	before = bytes_of_work(f);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	settle(f);
	assert_in_range(bytes_of_work(f), 1, before - sizeof(*plugin));
	assert_null(state_plugin(&f->server->state, "made-up.example"));
}

/* An allocation that waits for volume db, which is taken, and gives up at once. */
static enum status wait_in_vain(struct fixture *f, unsigned int i, struct error *err)
{
	static struct many_words many;
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__V1__RunAllocationRequest request =
		V1(run_allocation_request, .allocation = &alloc, .wait_ms = 1);
	Holdfast__V1__VolumeRequest volume =
		V1(volume_request, .name = text("data"), .source = text("db"), .access_mode = f->access_mode);
	Holdfast__V1__VolumeRequest *volumes[] = {&volume};
	char id[UUID_TEXT_SIZE];

	(void)str_format(id, sizeof(id), ID_OF, i);
	alloc.id = id;
	alloc.name = text("app");
	alloc.volumes = volumes;
	alloc.n_volumes = 1;
	use_many_words(&many, &alloc);
	TRY(call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &request.base, NULL, err));
	UNTIL(f, alloc_is_client_terminal(&state_alloc(&f->server->state, id)->alloc));
	return STATUS_OK;
}

static uint32_t collect_older(struct fixture *f, uint64_t than_ms)
{
	Holdfast__V1__GcRequest request = V1(gc_request, .older_than_ms = than_ms);
	ProtobufCMessage *message = NULL;
	uint32_t n;

	assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "Gc", &request.base, &message,
		       NULL));
	n = ((Holdfast__V1__GcResponse *)(void *)message)->allocations;
	protobuf_c_message_free_unpacked(message, NULL);
	return n;
}

static uint32_t collect(struct fixture *f)
{
	for (int64_t now = clock_realtime_ms(); clock_realtime_ms() < now + 3;)
		; /* what has just ended is older than a millisecond */
	settle(f);
	return collect_older(f, 1);
}

static bool is_kept(struct fixture *f, unsigned int i)
{
	char id[UUID_TEXT_SIZE];

	(void)str_format(id, sizeof(id), ID_OF, i);
	return state_alloc(&f->server->state, id) != NULL;
}

enum { FIRST = 10, MANY = 8, ENDED = 1200, SMALL_LIMIT = 8 << 20 };

/* Allocations with these numbers, of which those with higher ones ended before those with lower ones. */
static void put_ended(struct fixture *f, char *namespace, unsigned int first, unsigned int n, int64_t end_ms)
{
	for (unsigned int i = 0; i < n;) {
		cleanup(change_release) struct change change = CHANGE_INIT;

		for (unsigned int k = 0; k < GC_SLICE_MAX && i < n; k++, i++) {
			struct alloc alloc =
				ROW(.name = "app", .node_id = "n1", .driver = "none",
				    .desired_status = DESIRED_STOP, .client_status = CLIENT_COMPLETE,
				    .end_time_ms = end_ms - (int64_t)i, .modify_time_ms = end_ms);

			(void)str_copy(alloc.namespace, sizeof(alloc.namespace), namespace);
			(void)str_format(alloc.id, sizeof(alloc.id), ID_OF, first + i);
			change_put_alloc(&change, &alloc);
		}
		assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	}
}

static size_t surplus_of(struct fixture *f, const char *namespace)
{
	return namespaces_ended_surplus(&f->server->state.namespaces, namespace);
}

/* The highest numbers are gone, and no more than had to. */
static void expect_first_gone(struct fixture *f)
{
	unsigned int n = 0;

	assert_int_equal(surplus_of(f, "default"), 0);
	while (is_kept(f, FIRST + n))
		n++;
	assert_in_range(n, ENDED / 4, ENDED - GC_SLICE_MAX);
	for (unsigned int i = n; i < ENDED; i++)
		assert_false(is_kept(f, FIRST + i));
	f->server->config.namespace_memory -= f->server->config.namespace_memory / n * 2;
	assert_true(surplus_of(f, "default") > 0);
}

/* Callers choose ids. */
CLUSTER_TEST(ended_allocations_beyond_their_share_are_collected_early_in_the_order_of_their_ends)
{
	int64_t old_ms = clock_realtime_ms() - GC_EARLY_AGE_MS - 1000;

	take_volume(f);
	f->server->config.namespace_memory = SMALL_LIMIT;
	put_ended(f, text("a"), FIRST + ENDED, 1, old_ms);
	put_ended(f, text("z"), FIRST + ENDED + 1, 1, old_ms);
	put_ended(f, text("default"), FIRST, ENDED, old_ms);
	assert_true(surplus_of(f, "default") > 0);
	assert_int_equal(namespaces_check_room(&f->server->state.namespaces, "default", true, NULL),
			 STATUS_OK);
	UNTIL(f, surplus_of(f, "default") == 0);
	settle(f);
	expect_first_gone(f);
	assert_true(is_kept(f, FIRST + ENDED) && is_kept(f, FIRST + ENDED + 1));
	assert_true(n_events(f, "collected", "Operator.Gc", "early, for namespaces with many") > 0);
	assert_non_null(state_alloc(&f->server->state, ALLOC_1));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

CLUSTER_TEST(ended_allocations_are_kept_for_a_while_if_there_is_room)
{
	f->server->config.namespace_memory = SMALL_LIMIT;
	put_ended(f, text("default"), FIRST, ENDED, clock_realtime_ms());
	run_for(f->event, 2 * GC_EARLY_US / USEC_PER_MSEC);
	assert_true(surplus_of(f, "default") > 0);
	for (unsigned int i = 0; i < ENDED; i++)
		assert_true(is_kept(f, FIRST + i));
}

CLUSTER_TEST(of_a_full_namespace_ended_allocations_are_collected_at_once)
{
	f->server->config.namespace_memory = SMALL_LIMIT / 16;
	put_ended(f, text("default"), FIRST, ENDED, clock_realtime_ms());
	UNTIL(f, namespaces_check_room(&f->server->state.namespaces, "default", true, NULL) == STATUS_OK);
}

CLUSTER_TEST(an_early_collection_gives_way_to_others_and_comes_back)
{
	f->server->config.namespace_memory = 16;
	put_ended(f, text("default"), FIRST, ENDED, 1000);
	UNTIL(f, f->server->state.n_allocs < ENDED);
	assert_int_equal(collect_older(f, UINT64_MAX), 0);
	assert_in_range(f->server->state.n_allocs, 1, ENDED - GC_SLICE_MAX);
	UNTIL(f, f->server->state.n_allocs == 0);
}

CLUSTER_TEST(ended_allocations_within_their_share_stay)
{
	take_volume(f);
	f->server->config.namespace_memory = LIMIT;
	assert_int_equal(wait_in_vain(f, FIRST, NULL), STATUS_OK);
	settle(f);
	assert_true(is_kept(f, FIRST));
	assert_int_equal(n_events(f, "collected", "Operator.Gc", "early"), 0);
}

CLUSTER_TEST(a_full_namespace_gets_no_allocation)
{
	struct error err;

	take_volume(f);
	f->server->config.namespace_memory = 1;
	assert_int_equal(wait_in_vain(f, FIRST, &err), STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(err.msg, "namespace default has no room"));
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
}

/* Is the node to start one? It may get an order twice. */
static bool has_order(struct fixture *f)
{
	const struct alloc_entry *last = state_alloc(&f->server->state, f->n1.last_run);

	return last && last->alloc.client_status == CLIENT_PENDING;
}

/* A member starts, and ends with 0. */
static void complete(struct fixture *f)
{
	UNTIL(f, has_order(f));
	start_last(f, &f->n1);
	end(f, &f->n1, f->n1.last_run);
}

/* One that was healthy counts for updates, see test_job_model.c. */
CLUSTER_TEST(ended_allocations_of_a_service_that_runs_are_collected)
{
	struct submission s;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	for (int i = 0; i < MANY; i++)
		complete(f);
	UNTIL(f, has_order(f));
	assert_int_equal(n_allocs(f), MANY + 1);
	assert_int_equal(collect(f), MANY - 1);
	assert_int_equal(collect(f), 0);
	assert_int_equal(n_allocs(f), 2);
}

CLUSTER_TEST(an_allocation_that_did_the_work_of_a_batch_job_stays)
{
	struct alloc_entry *alloc;
	struct submission s;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	make_job(f, &s);
	s.job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH;
	assert_int_equal(run(f, &s, NULL), 1);
	complete(f);
	assert_int_equal(collect(f), 0);
	s.group.count = 0; /* in each version that may run it again */
	assert_int_equal(run(f, &s, NULL), 2);
	assert_int_equal(collect(f), 0);
	s.group.count = 1;
	assert_int_equal(run(f, &s, NULL), 3);
	assert_int_equal(collect(f), 0);
	assert_int_equal(n_allocs(f), 1);
	alloc = LIST_FIRST(&state_job(&f->server->state, "default", "web")->allocs);
	alloc->decided_version = 0; /* as after a start, before its job was looked at */
	alloc->needed_until_ms = 0;
	assert_true(job_needs_alloc(f->server, alloc));
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	assert_int_equal(collect(f), 1);
}

TEST_GROUP(NULL, NULL)
