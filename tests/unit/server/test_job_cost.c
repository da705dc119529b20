/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of large jobs whose members find no place: decisions and tries are counted, not timed. */

#include "asks.h"
#include "cluster.h"
#include "submission.h"
#include "unit.h"

#include "alloc/allocs.h"
#include "alloc/placement.h"
#include "api/watch.h"
#include "job/job_spec.h"
#include "job/job_work.h"
#include "model/feasibility.h"
#include "model/message.h"

#include <holdfast/v1/jobs.pb-c.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { GROUPS = 4, MANY = JOB_COUNT_MAX };

static struct {
	size_t decisions, tries, looks;
	size_t compared;		 /* tasks with drivers of nodes */
	size_t tries_at_last;		 /* when the last of MANY members was tried first */
	size_t tries_of_decision, worst; /* tries between two decisions */
	uint64_t turn;			 /* of the loop, in which the last decision was made */
	size_t decisions_of_turn, most_of_a_turn;
	size_t in_a_row;		/* decisions in the turn behind that of another one */
	size_t decisions_before_a_team; /* before the first try for a member of namespace a-team, and its own
					 */
} cost;
static sd_event *event; /* borrowed */

static void note_turn(void)
{
	uint64_t turn;

	assert_int_equal(sd_event_get_iteration(event, &turn), 0);
	cost.decisions_of_turn = turn == cost.turn ? cost.decisions_of_turn + 1 : 1;
	cost.in_a_row += turn == cost.turn + 1;
	cost.turn = turn;
	if (cost.decisions_of_turn > cost.most_of_a_turn)
		cost.most_of_a_turn = cost.decisions_of_turn;
}

void __real_job_reconcile(const struct job_world *world, struct job_decisions *ret);
void __wrap_job_reconcile(const struct job_world *world, struct job_decisions *ret);
void __wrap_job_reconcile(const struct job_world *world, struct job_decisions *ret)
{
	cost.decisions++;
	cost.tries_of_decision = 0;
	note_turn();
	__real_job_reconcile(world, ret);
}

enum status __real_allocs_try_place(struct server *server, struct alloc *alloc,
				    const struct placement_assumed *assumed, struct refusal *refusal,
				    struct error *err);
enum status __wrap_allocs_try_place(struct server *server, struct alloc *alloc,
				    const struct placement_assumed *assumed, struct refusal *refusal,
				    struct error *err);
enum status __wrap_allocs_try_place(struct server *server, struct alloc *alloc,
				    const struct placement_assumed *assumed, struct refusal *refusal,
				    struct error *err)
{
	cost.tries++;
	cost.tries_of_decision++;
	if (cost.tries_of_decision > cost.worst)
		cost.worst = cost.tries_of_decision;
	if (str_eq(alloc->namespace, "a-team") && cost.decisions_before_a_team == 0)
		cost.decisions_before_a_team = cost.decisions;
	if (alloc->job_index == MANY - 1 && cost.tries_at_last == 0)
		cost.tries_at_last = cost.tries;
	return __real_allocs_try_place(server, alloc, assumed, refusal, err);
}

struct volume_entry *__real_state_volume(struct state *state, const char *namespace, const char *id);
struct volume_entry *__wrap_state_volume(struct state *state, const char *namespace, const char *id);
struct volume_entry *__wrap_state_volume(struct state *state, const char *namespace, const char *id)
{
	cost.looks++;
	return __real_state_volume(state, namespace, id);
}

bool __real_feasibility_find_lack(const struct wanted_task *wanted, enum network_mode network,
				  const char *node_id, char ret[static FEASIBILITY_REASON_SIZE]);
bool __wrap_feasibility_find_lack(const struct wanted_task *wanted, enum network_mode network,
				  const char *node_id, char ret[static FEASIBILITY_REASON_SIZE]);
bool __wrap_feasibility_find_lack(const struct wanted_task *wanted, enum network_mode network,
				  const char *node_id, char ret[static FEASIBILITY_REASON_SIZE])
{
	cost.compared++;
	return __real_feasibility_find_lack(wanted, network, node_id, ret);
}

/* A job of several groups whose members have volumes of their own, which do not exist: "db[0]", ... */
struct large {
	struct submission s;
	Holdfast__V1__JobGroup groups[GROUPS], *list[GROUPS];
	char names[GROUPS][8];
};

static void make_large(struct fixture *f, struct large *large, uint32_t n_groups, uint32_t count)
{
	make_job(f, &large->s);
	large->s.group.per_alloc = large->s.per_alloc;
	large->s.group.n_per_alloc = 1;
	large->s.group.count = count;
	for (uint32_t i = 0; i < n_groups; i++) {
		large->groups[i] = large->s.group;
		(void)str_format(large->names[i], sizeof(large->names[i]), "g%u", i);
		large->groups[i].name = large->names[i];
		large->list[i] = &large->groups[i];
	}
	large->s.job.groups = large->list;
	large->s.job.n_groups = n_groups;
	event = f->event;
	memset(&cost, 0, sizeof(cost));
}

static void connect(struct fixture *f)
{
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	memset(&cost, 0, sizeof(cost));
}

static void register_of(struct fixture *f, uint32_t index)
{
	char id[32], disk[32];

	(void)str_format(id, sizeof(id), "db[%u]", index);
	(void)str_format(disk, sizeof(disk), "wwn-0x%u", index + 100);
	assert_int_equal(register_disk(f, &f->operator, id, disk, NULL), STATUS_OK);
}

static Holdfast__V1__PlanJobResponse *plan(struct fixture *f, const struct large *large)
{
	Holdfast__V1__PlanJobRequest request = HOLDFAST__V1__PLAN_JOB_REQUEST__INIT;
	ProtobufCMessage *message = NULL;

	request.job = (Holdfast__V1__Job *)(uintptr_t)&large->s.job;
	assert_int_equal(call(&f->operator, JOBS, "Plan", &request.base, &message, NULL), STATUS_OK);
	return (void *)message;
}

static const struct job_refusals *refusals(struct fixture *f)
{
	return NON_NULL(job_work_refusals(f->server, "default", "web"));
}

CLUSTER_TEST(all_groups_of_a_job_together_have_a_limit)
{
	struct large large;
	struct error err;

	make_large(f, &large, 2, MANY / 2 + 1);
	assert_int_equal(run(f, &large.s, &err), 0);
	assert_error(err.status, STATUS_INVALID_ARGUMENT, err,
		     "group: all groups together have at most 10000 members, not 10002");
	large.groups[1].count--;
	assert_int_equal(run(f, &large.s, &err), 0);
	large.groups[0].count--;
	assert_int_equal(run(f, &large.s, &err), 1);
}

/* Nodes with a driver that offers nothing. */
static void put_nodes(struct fixture *f, unsigned int from, unsigned int end)
{
	Holdfast__Driver__V1__CapabilitiesResponse offer = HOLDFAST__DRIVER__V1__CAPABILITIES_RESPONSE__INIT;
	Holdfast__V1__NodeDriver driver = V1(node_driver, .name = text("container"), .capabilities = &offer);
	ProtobufCMessage *drivers[] = {&driver.base};

	for (unsigned int i = from; i < end; i++) {
		struct node node = {.status = NODE_READY};

		(void)str_format(node.id, sizeof(node.id), "n%05u", i);
		assert_int_equal(state_put_node(&f->server->state, &node, NULL), STATUS_OK);
		assert_true(message_list_new(drivers, 1, &state_node(&f->server->state, node.id)->drivers));
	}
}

/* It may wait instead. */
CLUSTER_TEST(so_many_tasks_and_nodes_of_a_job_are_compared_before_it_is_accepted)
{
	enum { NODES = 1024, TASKS = 5 };
	Holdfast__Driver__V1__TaskConfig list[TASKS], *tasks[TASKS];
	char names[TASKS][8];
	struct large large;
	struct error err;

	put_nodes(f, 0, NODES);
	make_large(f, &large, GROUPS, 0);
	large.groups[0].allocation->tasks = tasks; /* of all groups */
	large.groups[0].allocation->n_tasks = TASKS;
	for (unsigned int i = 0; i < TASKS; i++) {
		list[i] = (Holdfast__Driver__V1__TaskConfig)HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT;
		(void)str_format(names[i], sizeof(names[i]), "t%u", i);
		list[i].task = names[i];
		list[i].driver = text("container");
		list[i].disable_logs = true;
		tasks[i] = &list[i];
	}
	assert_int_equal(run(f, &large.s, &err), 0);
	assert_error(err.status, STATUS_INVALID_ARGUMENT, err,
		     "group g0.task t0: task t0 asks for disable_logs, which driver container of node "
		     "n00000 does not offer");
	assert_int_equal(cost.compared, 4096);
	put_nodes(f, NODES, 4096);
	assert_int_equal(run(f, &large.s, &err), 0); /* the first task has been compared with all */
	cost.compared = 0;
	put_nodes(f, 4096, 4097);
	assert_int_equal(run(f, &large.s, &err), 1);
	assert_int_equal(cost.compared, 4096);
}

CLUSTER_TEST(all_groups_of_a_system_job_together_have_few_constraints)
{
	enum { N = JOB_SYSTEM_CONSTRAINTS_MAX / 2 };
	Holdfast__V1__Constraint constraint =
		V1(constraint, .attribute = text("meta.rack"), .operator_ = text("is_set"));
	Holdfast__V1__Constraint *constraints[N];
	Holdfast__Driver__V1__TaskConfig task = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT, *tasks[] = {&task};
	Holdfast__V1__Allocation other;
	struct large large;
	struct error err;

	task.task = text("web");
	task.driver = text("container");
	for (size_t i = 0; i < N; i++)
		constraints[i] = &constraint;
	make_large(f, &large, 3, 1);
	for (size_t i = 0; i < 3; i++)
		large.groups[i].n_per_alloc = 0;
	large.groups[0].allocation->n_volumes = 0;
	large.groups[0].allocation->tasks = tasks;
	large.groups[0].allocation->n_tasks = 1;
	large.groups[0].allocation->constraints = constraints; /* of the first two groups */
	large.groups[0].allocation->n_constraints = N;
	other = *large.groups[0].allocation;
	other.n_constraints = 1;
	large.groups[2].allocation = &other;
	large.s.job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SYSTEM;
	assert_int_equal(run(f, &large.s, &err), 0);
	assert_error(err.status, STATUS_INVALID_ARGUMENT, err,
		     "group: all groups of type system together have at most 32 constraints, not 33");
	other.n_constraints = 0;
	assert_int_equal(run(f, &large.s, &err), 1);
}

CLUSTER_TEST(a_decision_looks_at_no_volume_of_missing_members)
{
	static struct job_view view;
	struct large large;

	connect(f);
	make_large(f, &large, 1, MANY);
	large.s.job.namespace_ = text("default");
	free(NON_NULL(job_decide(f->server, &large.s.job, NULL, false, &view)));
	assert_int_equal(cost.decisions, 1);
	assert_int_equal(cost.looks, 0);
}

CLUSTER_TEST(a_plan_for_thousands_without_a_place_is_cut_after_a_few_decisions)
{
	cleanup_pb Holdfast__V1__PlanJobResponse *response = NULL;
	struct large large;

	connect(f);
	make_large(f, &large, GROUPS, MANY / GROUPS);
	response = plan(f, &large);
	assert_in_range(cost.decisions, 1, JOB_PLAN_DECISIONS_MAX);
	assert_in_range(cost.tries, 1, JOB_PLAN_DECISIONS_MAX * JOB_ACTIONS_MAX);
	assert_int_equal(response->n_actions, 0);
	assert_int_equal(response->n_groups, GROUPS);
	assert_int_equal(response->groups[GROUPS - 1]->missing, MANY / GROUPS);
	assert_true(response->is_cut);
}

CLUSTER_TEST(a_plan_lists_places_behind_refused_members)
{
	cleanup_pb Holdfast__V1__PlanJobResponse *response = NULL;
	struct large large;
	int n = 0;

	connect(f);
	make_large(f, &large, 2, 100);
	register_of(f, 1);
	register_of(f, 99);
	large.groups[1].count = 2;
	do { /* on a busy machine its time may be over before its end */
		if (response)
			protobuf_c_message_free_unpacked(&response->base, NULL);
		response = plan(f, &large);
	} while (response->is_cut && n++ < 100);
	/* one of the two groups has volume 1 */
	assert_int_equal(response->n_actions, 2);
	assert_string_equal(response->actions[0]->group, "g0");
	assert_int_equal(response->actions[0]->index, 1);
	assert_int_equal(response->actions[1]->index, 99);
	assert_string_not_equal(response->actions[1]->node_id, "");
	assert_false(response->is_cut);
	assert_int_equal(response->n_waits, JOB_WAITS_MAX);
	assert_int_equal(response->groups[0]->waiting, 98);
	assert_int_equal(response->groups[1]->waiting, 2);
}

CLUSTER_TEST(jobs_of_one_namespace_delay_a_job_of_another_by_one_turn)
{
	enum { TENANT_JOBS = 20 };
	struct change_object node = {.kind = OBJECT_NODE};
	struct large large;
	char id[16];

	connect(f);
	make_large(f, &large, 1, 10);
	for (int i = 0; i < TENANT_JOBS; i++) {
		(void)str_format(id, sizeof(id), "large-%d", i);
		large.s.job.id = id;
		assert_int_equal(run(f, &large.s, NULL), 1);
	}
	large.s.job.namespace_ = text("a-team");
	assert_int_equal(run(f, &large.s, NULL), 1);
	settle(f);
	memset(&cost, 0, sizeof(cost));
	job_work_note_durable(f->server, &node, 1, 0); /* all try again, the job of a-team last */
	UNTIL(f, cost.decisions_before_a_team > 0);
	assert_in_range(cost.decisions_before_a_team, 1, 2);
	UNTIL(f, cost.decisions == 2 * (TENANT_JOBS + 1));
}

static void count_answer(enum status status, const ProtobufCMessage *response, const struct error *err,
			 void *userdata)
{
	(*(size_t *)userdata)++;
}

CLUSTER_TEST(each_member_of_a_large_job_is_tried_once_whatever_happens_meanwhile)
{
	struct change_object node = {.kind = OBJECT_NODE};
	struct large large;
	size_t n_answers = 0;

	connect(f);
	register_of(f, MANY - 1); /* only the last member has a place */
	settle(f);
	make_large(f, &large, 1, MANY);
	assert_ok(rpc_client_call(f->operator.client, JOBS, "Run", &large.s.request.base, TIMEOUT_US,
				  count_answer, &n_answers, NULL, NULL));
	for (size_t i = 1; i < 4; i++) {
		UNTIL(f, cost.tries >= i * MANY / 4);
		job_work_note_durable(f->server, &node, 1, 0);
	}
	UNTIL(f, n_allocs(f) == 1);
	assert_int_equal(cost.tries_at_last, MANY);
	assert_in_range(cost.worst, 1, JOB_ACTIONS_MAX);
	assert_in_range(refusals(f)->n, 1, JOB_WAITS_MAX + 1); /* thousands cost no memory */
	UNTIL(f, f->n1.runs + f->n2.runs == 1);
	/* the node may be new: each is tried again */
	cost.tries = 0;
	UNTIL(f, cost.tries == MANY - 1);
}

CLUSTER_TEST(members_that_are_placed_do_not_have_the_others_tried_again)
{
	enum { COUNT = 300, PLACED = 20 };
	struct large large;

	connect(f);
	for (uint32_t i = 0; i < PLACED; i++)
		register_of(f, COUNT - 1 - i);
	settle(f);
	make_large(f, &large, 1, COUNT);
	assert_int_equal(run(f, &large.s, NULL), 1);
	UNTIL(f, n_allocs(f) == PLACED);
	settle(f);
	assert_int_equal(refusals(f)->n_members, COUNT - PLACED);
	assert_int_equal(cost.tries, COUNT);
	/* another version begins with all of them */
	large.groups[0].allocation->mount_timeout_ms = 5000;
	assert_int_equal(run(f, &large.s, NULL), 2);
	UNTIL(f, cost.tries == 2 * COUNT - PLACED);
}

static int on_ready(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	return 0;
}

/* A descriptor that is always ready: others must have their turn behind each of its own. */
static sd_event_source *keep_busy(struct fixture *f, int *ret_fd)
{
	sd_event_source *ready = NULL;

	*ret_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(sd_event_add_io(f->event, &ready, *ret_fd, EPOLLIN, on_ready, NULL) >= 0);
	return ready;
}

/* Also tens of thousands of jobs that wait leave the loop to others. */
CLUSTER_TEST(jobs_that_wait_are_tried_in_turns_between_which_others_have_theirs)
{
	enum { JOBS_WAITING = 30 };
	struct change_object node = {.kind = OBJECT_NODE};
	sd_event_source *ready;
	struct large large;
	char id[16];
	int fd;

	connect(f);
	make_large(f, &large, 1, 1);
	for (int i = 0; i < JOBS_WAITING; i++) {
		(void)str_format(id, sizeof(id), "j%d", i);
		large.s.job.id = id;
		assert_int_equal(run(f, &large.s, NULL), 1);
	}
	settle(f);
	memset(&cost, 0, sizeof(cost));
	ready = keep_busy(f, &fd);
	job_work_note_durable(f->server, &node, 1, 0);
	while (cost.decisions < JOBS_WAITING)
		assert_true(sd_event_run(f->event, TIMEOUT_US) > 0);
	assert_in_range(cost.in_a_row, 0, JOBS_WAITING / 10);
	(void)sd_event_source_disable_unref(ready);
	(void)close(fd);
}

CLUSTER_TEST(each_call_that_waits_for_a_job_is_answered_in_a_turn_of_its_own)
{
	enum { WAITING = 32 };
	Holdfast__V1__GetJobRequest request = V1(get_job_request, .id = text("web"), .wait_ms = 300 * 1000);
	cleanup_pb Holdfast__V1__GetJobResponse *response = NULL;
	sd_event_source *ready;
	struct large large;
	size_t n = 0;
	int fd;

	make_large(f, &large, 1, 1);
	assert_int_equal(run(f, &large.s, NULL), 1);
	settle(f);
	response = get(f);
	request.index = response->index;
	for (size_t i = 0; i < WAITING; i++)
		assert_ok(rpc_client_call(f->operator.client, JOBS, "Get", &request.base, TIMEOUT_US * 20,
					  count_answer, &n, NULL, NULL));
	UNTIL(f, f->server->n_watches == WAITING);
	memset(&cost, 0, sizeof(cost));
	ready = keep_busy(f, &fd);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	UNTIL(f, n == WAITING);
	assert_in_range(cost.decisions, WAITING, 2 * WAITING);
	assert_int_equal(cost.most_of_a_turn, 1);
	assert_in_range(cost.in_a_row, 0, WAITING / 4); /* others have their turn between two of them */
	(void)sd_event_source_disable_unref(ready);
	(void)close(fd);
}

/* The status of each answer, in their order. */
struct answers {
	enum status list[2 * LONG_READS_PER_CALLER_MAX];
	size_t n;
};

static void keep_status(enum status status, const ProtobufCMessage *response, const struct error *err,
			void *userdata)
{
	struct answers *answers = userdata;

	answers->list[answers->n++] = status;
	if (status != STATUS_OK)
		assert_contains(err->msg, "calls that take long");
}

CLUSTER_TEST(plans_have_a_turn_each_and_few_are_made_for_one_caller)
{
	Holdfast__V1__PlanJobRequest request = HOLDFAST__V1__PLAN_JOB_REQUEST__INIT;
	struct answers answers = {.n = 0};
	size_t n_failed = 0;
	struct large large;

	make_large(f, &large, 1, 1);
	request.job = &large.s.job;
	for (size_t i = 0; i < ARRAY_SIZE(answers.list); i++)
		assert_ok(rpc_client_call(f->operator.client, JOBS, "Plan", &request.base, TIMEOUT_US,
					  keep_status, &answers, NULL, NULL));
	UNTIL(f, answers.n == ARRAY_SIZE(answers.list));
	for (size_t i = 0; i < ARRAY_SIZE(answers.list); i++)
		n_failed += answers.list[i] == STATUS_RESOURCE_EXHAUSTED;
	assert_int_equal(n_failed, ARRAY_SIZE(answers.list) - LONG_READS_PER_CALLER_MAX);
	assert_int_equal(cost.decisions, LONG_READS_PER_CALLER_MAX);
	assert_int_equal(cost.most_of_a_turn, 1);
}
