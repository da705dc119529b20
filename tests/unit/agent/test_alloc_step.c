/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"
#include "unit.h"

#include "alloc/claim_call.h"

#include <holdfast/v1/journal.pb-c.h>

void __real_message_free_secret(ProtobufCMessage *message);

static int n_wiped;

WRAPPED(void, message_free_secret, ProtobufCMessage *message)
{
	n_wiped++;
	__real_message_free_secret(message);
}

enum { TICKET_END_MS = 1000000 };

static bool is_of_volume(enum alloc_action action)
{
	return action == ALLOC_DO_CLAIM || action == ALLOC_DO_MOUNT || action == ALLOC_DO_UNMOUNT;
}

static void expect_next(const struct alloc_record *record, enum alloc_action action, uint32_t volume)
{
	struct alloc_next next = alloc_next(record);

	assert_int_equal(next.action, action);
	if (is_of_volume(action))
		assert_int_equal(next.volume, volume);
}

static char handle_state[] = "the container", empty[] = "";
static const Holdfast__Driver__V1__TaskHandle handle =
	ROW(.base = PROTOBUF_C_MESSAGE_INIT(&holdfast__driver__v1__task_handle__descriptor),
	    .alloc_id = empty, .task = empty, .state = handle_state, .started_ms = 1000);

static uint8_t order_bytes[] = "the order";
static const Holdfast__Driver__V1__StartTaskRequest start = {
	.base = PROTOBUF_C_MESSAGE_INIT(&holdfast__driver__v1__start_task_request__descriptor),
	.order = {sizeof(order_bytes), order_bytes},
	.task = {sizeof(order_bytes), order_bytes},
};

static char spec_state[] = "the network";
static const Holdfast__Driver__V1__NetworkSpec spec =
	ROW(.base = PROTOBUF_C_MESSAGE_INIT(&holdfast__driver__v1__network_spec__descriptor),
	    .alloc_id = empty, .state = spec_state);

/* With @n_tasks called a, b, ... of driver container. */
static struct alloc_record *with_tasks(uint32_t n_volumes, uint32_t n_tasks)
{
	struct alloc_record *record = records_make(n_volumes);
	Holdfast__Driver__V1__TaskConfig tasks[ALLOC_TASKS_MAX];
	ProtobufCMessage *list[ALLOC_TASKS_MAX];
	char names[ALLOC_TASKS_MAX][2] = {"a", "b", "c", "d", "e", "f", "g", "h"};

	for (uint32_t i = 0; i < n_tasks; i++) {
		holdfast__driver__v1__task_config__init(&tasks[i]);
		tasks[i].task = names[i];
		tasks[i].driver = "container";
		list[i] = &tasks[i].base;
	}
	assert_true(message_list_new(list, n_tasks, &record->alloc.tasks));
	return record;
}

/* Its first task runs, and may be restarted. */
static void set_running(struct alloc_record *record)
{
	ProtobufCMessage *order = (ProtobufCMessage *)(uintptr_t)&start;

	record->tasks[0].state = TASK_RECORD_RUNNING;
	message_list_unref(record->tasks[0].start);
	assert_true(message_list_new(&order, 1, &record->tasks[0].start));
}

static const Holdfast__Driver__V1__TaskStatus *status_of(const struct alloc_record *record, size_t i)
{
	assert_true(i < message_list_n(record->alloc.task_status));
	return (const void *)record->alloc.task_status->messages[i];
}

/* Do what alloc_next() says until nothing is left; returns the actions as letters with the volume. */
static void play(struct alloc_record *record, char *trace, size_t size)
{
	trace[0] = '\0';
	for (int turn = 0; turn < 100; turn++) {
		static const char letters[ALLOC_ACTION_N + 1] = ".CMTtNRSsUnF";
		struct alloc_next next = alloc_next(record);
		struct claim_grant grant;
		struct volume_mounted mounted;
		struct alloc_event event = {
			.volume = next.volume, .task = next.task, .grant = &grant, .mounted = &mounted};
		size_t n = strlen(trace);

		if (next.action == ALLOC_DO_NOTHING)
			return;
		assert_true(n + 3 < size);
		trace[n] = letters[next.action];
		trace[n + 1] = (char)('0' + (is_of_volume(next.action) ? next.volume : next.task));
		trace[n + 2] = '\0';
		switch (next.action) {
		case ALLOC_DO_CLAIM:
			(void)alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_CLAIM});
			grant = records_grant(record, next.volume);
			event.type = ALLOC_EVENT_CLAIMED;
			break;
		case ALLOC_DO_MOUNT:
			mounted = records_mounted(next.volume);
			event.type = ALLOC_EVENT_MOUNTED;
			break;
		case ALLOC_DO_START_UNIT:
			event.invocation = "before";
			if (record->task.state == TASK_RECORD_NONE) {
				event.type = ALLOC_EVENT_UNIT_START;
				assert_true(alloc_step(record, &event));
			}
			event.type = ALLOC_EVENT_UNIT_RUNS;
			event.invocation = "one";
			break;
		case ALLOC_DO_STOP_UNIT:
			event.type = ALLOC_EVENT_UNIT_ENDED;
			event.err = NULL;
			break;
		case ALLOC_DO_START_TASK:
			if (record->tasks[next.task].state == TASK_RECORD_NONE) {
				event.type = ALLOC_EVENT_TASK_START;
				assert_true(alloc_step(record, &event));
			}
			event.type = ALLOC_EVENT_TASK_RUNS;
			event.handle = &handle;
			event.start = &start;
			break;
		case ALLOC_DO_STOP_TASK:
			event.type = ALLOC_EVENT_TASK_GONE;
			break;
		case ALLOC_DO_START_NETWORK:
			event.driver = "container";
			event.network = &spec;
			if (record->network.state == TASK_RECORD_NONE) {
				event.type = ALLOC_EVENT_NETWORK_START;
				assert_true(alloc_step(record, &event));
			}
			event.type = ALLOC_EVENT_NETWORK_UP;
			break;
		case ALLOC_DO_STOP_NETWORK:
			event.type = ALLOC_EVENT_NETWORK_GONE;
			break;
		case ALLOC_DO_RUN:
			event.type = ALLOC_EVENT_RUN;
			break;
		case ALLOC_DO_UNMOUNT:
			event.type = ALLOC_EVENT_RELEASED;
			break;
		case ALLOC_DO_FINISH:
			event.type = ALLOC_EVENT_FINISH;
			break;
		case ALLOC_DO_NOTHING:
		case ALLOC_ACTION_N:
			return;
		}
		assert_true(alloc_step(record, &event));
	}
	fail_msg("it never ends");
}

TEST(tasks_start_after_the_volumes_and_are_gone_before_the_first_is_released)
{
	cleanup(alloc_record_freep) struct alloc_record *record = with_tasks(2, 2);
	char trace[64];

	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "C0M0C1M1t0t1R0");
	assert_string_equal(status_of(record, 1)->task, "b");
	assert_int_equal(status_of(record, 1)->state, HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING);
	assert_int_equal(status_of(record, 1)->started_ms, 1000);
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "s1s0U1U0F0");
	assert_int_equal(status_of(record, 1)->state, HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED);
	assert_int_equal(status_of(record, 1)->started_ms, 1000);
	assert_int_equal(record->alloc.client_status, CLIENT_COMPLETE);
}

TEST(a_task_that_has_ended_is_taken_away_before_the_volumes_too)
{
	cleanup(alloc_record_freep) struct alloc_record *record = with_tasks(1, 2);
	Holdfast__Driver__V1__ExitResult result = HOLDFAST__DRIVER__V1__EXIT_RESULT__INIT;
	struct alloc_event event = {.task = 0, .result = &result, .now_ms = 2000};
	char trace[64];

	play(record, trace, sizeof(trace));
	event.type = alloc_task_end(record, 0, NULL);
	assert_int_equal(event.type, ALLOC_EVENT_TASK_DONE);
	assert_true(alloc_step(record, &event));
	assert_false(alloc_step(record, &event)); /* once */
	assert_int_equal(record->phase, ALLOC_RUNNING);
	assert_int_equal(status_of(record, 0)->completed_ms, 2000);
	assert_int_equal(status_of(record, 0)->started_ms, 1000);
	event.task = 1;
	event.type = alloc_task_end(record, 1, NULL);
	assert_int_equal(event.type, ALLOC_EVENT_TASK_ENDED);
	assert_true(alloc_step(record, &event));
	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "s1s0U0F0");
	assert_int_equal(record->alloc.client_status, CLIENT_COMPLETE);
}

TEST(a_task_that_fails_fails_its_allocation_and_ends_the_others)
{
	cleanup(alloc_record_freep) struct alloc_record *record = with_tasks(1, 2);
	struct error why;
	struct alloc_event event = {.task = 1, .err = &why};
	char trace[64];

	(void)error_set(&why, STATUS_ABORTED, 0, "task b has ended with exit status 3");
	play(record, trace, sizeof(trace));
	event.type = alloc_task_end(record, 1, &why);
	assert_int_equal(event.type, ALLOC_EVENT_TASK_ENDED);
	assert_true(alloc_step(record, &event));
	assert_string_equal(status_of(record, 1)->result->error, why.msg);
	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "s1s0U0F0");
	assert_int_equal(record->alloc.client_status, CLIENT_FAILED);
	assert_int_equal(record->alloc.client_code, STATUS_ABORTED);
}

static struct alloc_record *restarted(struct alloc_record *record);

/* With a restart block, and a check, of its first task. */
static struct alloc_record *with_restart(void)
{
	struct alloc_record *record = with_tasks(1, 2);
	Holdfast__Driver__V1__TaskConfig *task = (void *)record->alloc.tasks->messages[0];
	Holdfast__Driver__V1__RestartPolicy policy = HOLDFAST__DRIVER__V1__RESTART_POLICY__INIT;
	Holdfast__Driver__V1__HealthCheck check = HOLDFAST__DRIVER__V1__HEALTH_CHECK__INIT;

	policy.mode = HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_FAIL;
	policy.attempts = 2;
	task->restart = (void *)message_convert(policy.base.descriptor, &policy.base);
	task->health = (void *)message_convert(check.base.descriptor, &check.base);
	return record;
}

TEST(a_task_that_is_restarted_keeps_its_mounts_its_claims_and_its_order)
{
	struct alloc_record *record = with_restart();
	struct error why;
	struct alloc_event failed = {.type = ALLOC_EVENT_TASK_FAILED,
				     .err = &why,
				     .count = {.n = 1, .since_ms = 2000},
				     .restart_ms = 17000,
				     .now_ms = 2000};
	const struct alloc_event runs = {.type = ALLOC_EVENT_TASK_RUNS, .handle = &handle};
	char trace[64];

	(void)error_set(&why, STATUS_ABORTED, 0, "task a has ended with exit status 3");
	play(record, trace, sizeof(trace));
	assert_non_null(record->tasks[0].start);
	assert_null(record->tasks[1].start); /* never restarted: its order is not kept */
	assert_string_equal(status_of(record, 0)->health, "starting");
	assert_true(alloc_step(record, &failed));
	assert_false(alloc_step(record, &failed)); /* once */
	expect_next(record, ALLOC_DO_NOTHING, 0);  /* no unmount, no claim */
	assert_int_equal(record->phase, ALLOC_RUNNING);
	assert_int_equal(record->volumes[0].state, VOLUME_PUBLISHED);
	assert_int_equal(record->alloc.client_status, CLIENT_RUNNING);
	assert_int_equal(record->alloc.client_code, 0);
	assert_non_null(strstr(alloc_description(&record->alloc), "exit status 3; it is restarted at "));
	assert_int_equal(status_of(record, 0)->state, HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED);
	assert_int_equal(alloc_task_end(record, 1, NULL), ALLOC_EVENT_TASK_DONE); /* not the last one */
	record = restarted(record);
	assert_int_equal(record->tasks[0].state, TASK_RECORD_BACKOFF);
	assert_int_equal(record->tasks[0].count.n, 1);
	assert_int_equal(record->tasks[0].count.since_ms, 2000);
	assert_int_equal(record->tasks[0].restart_ms, 17000);
	assert_non_null(record->tasks[0].start);
	assert_true(alloc_step(record, &runs));
	assert_false(alloc_step(record, &runs));
	assert_non_null(record->tasks[0].start); /* for the next one */
	assert_int_equal(status_of(record, 0)->restarts, 1);
	assert_int_equal(status_of(record, 0)->state, HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING);
	assert_string_equal(alloc_description(&record->alloc), "");
	assert_true(alloc_step(record,
			       &(struct alloc_event){.type = ALLOC_EVENT_TASK_HEALTH, .health = "healthy"}));
	assert_string_equal(status_of(record, 0)->health, "healthy");
	assert_int_equal(status_of(record, 0)->restarts, 1);
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "s1s0U0F0");
	assert_int_equal(status_of(record, 0)->restarts, 1);
	alloc_record_free(record);
}

TEST(a_task_whose_order_is_not_kept_is_not_restarted)
{
	cleanup(alloc_record_freep) struct alloc_record *record = with_tasks(1, 1);
	struct error why = {.status = STATUS_ABORTED, .msg = "x"};
	char trace[64];

	play(record, trace, sizeof(trace));
	assert_false(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_TASK_FAILED, .err = &why}));
	assert_int_equal(record->tasks[0].state, TASK_RECORD_RUNNING);
}

/* It was going to be restarted: what the driver has of it goes first. */
TEST(a_task_that_waits_for_its_restart_is_taken_away_with_its_allocation)
{
	cleanup(alloc_record_freep) struct alloc_record *record = with_restart();
	struct error why = {.status = STATUS_ABORTED, .msg = "x"};
	char trace[64];

	play(record, trace, sizeof(trace));
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_TASK_FAILED, .err = &why}));
	assert_true(alloc_may_restart(record));
	record->volumes[0].state = VOLUME_CLAIMED; /* its plugin died */
	assert_false(alloc_may_restart(record));
	record->volumes[0].state = VOLUME_PUBLISHED;
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	assert_false(alloc_may_restart(record)); /* though it is another task's turn to stop */
	assert_false(
		alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_TASK_RUNS, .handle = &handle}));
	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "s1s0U0F0");
}

TEST(a_task_that_may_have_been_started_is_stopped_like_one_that_runs)
{
	cleanup(alloc_record_freep) struct alloc_record *record = with_tasks(0, 2);
	char trace[64];

	expect_next(record, ALLOC_DO_START_TASK, 0);
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_TASK_START}));
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	assert_false(
		alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_TASK_RUNS, .handle = &handle}));
	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "s0F0"); /* the other was never asked of its driver */
}

/* @record as an agent finds it in its journal; it is freed. */
static struct alloc_record *restarted(struct alloc_record *record)
{
	struct alloc_record *after;
	cleanup_free uint8_t *bytes = NULL;
	size_t n;

	assert_int_equal(alloc_record_pack(record, &bytes, &n, NULL), STATUS_OK);
	assert_int_equal(alloc_record_unpack(bytes, n, &after, NULL), STATUS_OK);
	alloc_record_free(record);
	return after;
}

static struct alloc_record *with_network(uint32_t n_volumes)
{
	struct alloc_record *record = with_tasks(n_volumes, 2);

	record->alloc.network.mode = NETWORK_ISOLATED;
	return record;
}

TEST(a_network_is_made_before_the_first_task_and_goes_when_nothing_needs_it)
{
	cleanup(alloc_record_freep) struct alloc_record *record = with_network(1);
	char trace[64];

	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "C0M0N0t0t1R0");
	assert_string_equal(record->network.driver, "container");
	assert_true(message_list_n(record->network.spec) == 1);
	assert_false(
		alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_NETWORK_UP, .network = &spec}));
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	assert_false(alloc_step(
		record, &(struct alloc_event){.type = ALLOC_EVENT_NETWORK_START, .driver = "container"}));
	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "s1s0U0n0F0"); /* no volume waits for it */
}

TEST(a_network_that_may_be_there_is_destroyed_wherever_it_ends)
{
	static const struct {
		bool is_up, is_restarted;
	} rows[] = {{false, false}, {false, true}, {true, false}, {true, true}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct alloc_record *record = with_network(0);
		char trace[64];

		assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_NETWORK_START,
								     .driver = "container"}));
		if (rows[i].is_up)
			assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_NETWORK_UP,
									     .network = &spec}));
		if (rows[i].is_restarted)
			record = restarted(record);
		assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
		play(record, trace, sizeof(trace));
		assert_string_equal(trace, "n0F0");
		alloc_record_free(record);
	}
}

/* While a task is in it nothing of it is touched. */
TEST(a_network_is_looked_at_after_a_restart_as_long_as_no_task_is_in_it)
{
	struct alloc_record *record = with_network(0);
	struct alloc_event up = {.type = ALLOC_EVENT_NETWORK_UP, .network = &spec};

	assert_true(alloc_step(
		record, &(struct alloc_event){.type = ALLOC_EVENT_NETWORK_START, .driver = "container"}));
	record = restarted(record);
	expect_next(record, ALLOC_DO_START_NETWORK, 0);
	assert_true(alloc_step(record, &up));
	expect_next(record, ALLOC_DO_START_TASK, 0);
	record = restarted(record);
	assert_true(message_list_n(record->network.spec) == 1);
	expect_next(record, ALLOC_DO_START_NETWORK, 0);
	assert_true(alloc_step(record, &up));
	expect_next(record, ALLOC_DO_START_TASK, 0);
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_TASK_START}));
	record = restarted(record); /* the task may run */
	expect_next(record, ALLOC_DO_START_TASK, 0);
	assert_false(alloc_step(record, &up));
	alloc_record_free(record);
}

TEST(a_reboot_leaves_no_network_and_a_network_without_its_handle_no_record)
{
	cleanup(alloc_record_freep) struct alloc_record *record = with_network(0);
	struct alloc_record *after;
	char trace[64];
	cleanup_free uint8_t *bytes = NULL;
	size_t n;

	play(record, trace, sizeof(trace));
	message_list_unref(record->network.spec);
	record->network.spec = NULL;
	assert_int_equal(alloc_record_pack(record, &bytes, &n, NULL), STATUS_OK);
	assert_int_equal(alloc_record_unpack(bytes, n, &after, NULL), STATUS_DATA_LOSS);
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_REBOOTED}));
	assert_false(network_record_is_live(&record->network));
}

TEST(a_volume_that_is_mounted_again_starts_no_task_again)
{
	cleanup(alloc_record_freep) struct alloc_record *record = with_tasks(1, 1);
	char trace[64];

	play(record, trace, sizeof(trace));
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_UNMOUNTED}));
	assert_false(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_TASK_START}));
	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "C0M0R0");
}

TEST(tasks_are_in_the_journal_with_their_handles)
{
	cleanup(alloc_record_freep) struct alloc_record *record = with_tasks(1, 2);
	struct alloc_record *after;
	char trace[64];
	uint8_t *bytes;
	size_t n;

	play(record, trace, sizeof(trace));
	record->tasks[1].state = TASK_RECORD_EXITED;
	assert_int_equal(alloc_record_pack(record, &bytes, &n, NULL), STATUS_OK);
	assert_int_equal(alloc_record_unpack(bytes, n, &after, NULL), STATUS_OK);
	free(bytes);
	assert_int_equal(after->tasks[0].state, TASK_RECORD_RUNNING);
	assert_int_equal(after->tasks[1].state, TASK_RECORD_EXITED);
	assert_true(message_list_eq(after->tasks[0].handle, record->tasks[0].handle));
	assert_true(message_list_eq(after->alloc.tasks, record->alloc.tasks));
	assert_true(message_list_eq(after->alloc.task_status, record->alloc.task_status));
	alloc_record_free(after);
	message_list_unref(record->tasks[0].handle);
	record->tasks[0].handle = NULL; /* nobody could recover it */
	assert_int_equal(alloc_record_pack(record, &bytes, &n, NULL), STATUS_OK);
	assert_int_equal(alloc_record_unpack(bytes, n, &after, NULL), STATUS_DATA_LOSS);
	free(bytes);
}

TEST(volumes_are_claimed_and_mounted_in_order_and_released_in_reverse)
{
	cleanup_free struct alloc_record *record = records_make(3);
	char trace[64];

	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "C0M0C1M1C2M2R0");
	assert_int_equal(record->phase, ALLOC_RUNNING);
	assert_int_equal(record->alloc.client_status, CLIENT_RUNNING);
	assert_int_equal(record->alloc.n_published, 3);
	assert_string_equal(record->alloc.published[2].name, "v2");
	assert_string_equal(record->alloc.published[2].path, "/publish/" ALLOC_ID "/2");
	assert_string_equal(record->alloc.published[2].claim_id, record->volumes[2].claim_id);
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_RELEASED, .volume = 2}));
	assert_int_equal(record->alloc.n_published, 2);
	assert_string_equal(record->alloc.published[1].name, "v1");
	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "U1U0F0");
	assert_int_equal(record->phase, ALLOC_STOPPED);
	assert_int_equal(record->alloc.client_status, CLIENT_COMPLETE);
	assert_int_equal(record->alloc.n_published, 0);
}

TEST(a_new_record_ignores_published_paths_of_the_server)
{
	struct alloc_volume published[2] = {{.path = "/elsewhere/0"}, {.path = "/elsewhere/1"}};
	struct alloc alloc = records_alloc(ALLOC_ID, 1);
	cleanup_free struct alloc_record *record = NULL;

	alloc.published = published;
	alloc.n_published = 2; /* more than it has volumes */
	alloc.client_description = "it ran";
	assert_int_equal(alloc_record_new(&alloc, BOOT_ID, &record, NULL), STATUS_OK);
	assert_int_equal(record->alloc.n_published, 0);
	assert_string_equal(record->alloc.published[0].path, "");
	assert_string_equal(alloc_description(&record->alloc), "");
	memset(alloc.volumes, 'x', sizeof(alloc.volumes[0]));
	assert_string_equal(record->alloc.volumes[0].source, "vol0");
}

static struct alloc_record *with_unit(uint32_t n)
{
	static char unit[] = "db.service";
	struct alloc alloc = records_alloc(ALLOC_ID, n);
	struct alloc_record *record;
	struct error err;

	(void)str_copy(alloc.driver, sizeof(alloc.driver), DRIVER_SYSTEMD);
	alloc.unit = unit;
	assert_int_equal(alloc_record_new(&alloc, BOOT_ID, &record, &err), STATUS_OK);
	assert_ptr_not_equal(record->alloc.unit, unit);
	return record;
}

static bool task_step_is(struct alloc_record *record, enum alloc_event_type type, const char *invocation,
			 const struct error *err)
{
	return alloc_step(record, &(struct alloc_event){.type = type, .invocation = invocation, .err = err});
}

TEST(a_unit_starts_behind_the_last_mount_and_stops_before_the_first_unmount)
{
	cleanup_free struct alloc_record *record = with_unit(2);
	char trace[64];

	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "C0M0C1M1T0R0");
	assert_int_equal(record->alloc.client_status, CLIENT_RUNNING);
	assert_string_equal(record->task.invocation, "one");
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "S0U1U0F0");
	assert_int_equal(record->alloc.client_status, CLIENT_COMPLETE);
}

/* Wherever it is when it is stopped or fails: what may run is stopped first, what never was is not. */
TEST(whatever_may_run_is_stopped_first)
{
	static const enum alloc_event_type ends[] = {ALLOC_EVENT_STOP, ALLOC_EVENT_FAIL};
	static const char *const traces[] = {"U0F0", "S0U0F0", "S0U0F0"};
	const struct error failure = {.status = STATUS_ABORTED, .msg = "it broke"};

	for (size_t e = 0; e < 2; e++)
		for (int task = TASK_RECORD_NONE; task <= TASK_RECORD_RUNNING; task++) {
			cleanup_free struct alloc_record *record = with_unit(1);
			char trace[64];

			records_drive(record, ALLOC_MOUNTING, 1, 1);
			expect_next(record, ALLOC_DO_START_UNIT, 0);
			if (task >= TASK_RECORD_STARTING)
				assert_true(task_step_is(record, ALLOC_EVENT_UNIT_START, "", NULL));
			if (task < TASK_RECORD_RUNNING)
				expect_next(record, ALLOC_DO_START_UNIT, 0); /* over a restart, too */
			else
				assert_true(task_step_is(record, ALLOC_EVENT_UNIT_RUNS, "x", NULL));
			assert_true(
				alloc_step(record, &(struct alloc_event){.type = ends[e], .err = &failure}));
			assert_false(task_step_is(record, ALLOC_EVENT_UNIT_START, "", NULL));
			assert_false(task_step_is(record, ALLOC_EVENT_UNIT_RUNS, "y", NULL));
			play(record, trace, sizeof(trace));
			assert_string_equal(trace, traces[task]);
		}
}

TEST(a_unit_that_ends_by_itself_ends_the_allocation)
{
	const struct error failure = {.status = STATUS_ABORTED, .msg = "unit failed with result oom-kill"};
	const struct error *const ends[] = {NULL, &failure};

	for (size_t e = 0; e < 2; e++) {
		cleanup_free struct alloc_record *record = with_unit(1);
		char trace[64];

		play(record, trace, sizeof(trace));
		assert_true(task_step_is(record, ALLOC_EVENT_UNIT_ENDED, NULL, ends[e]));
		assert_int_equal(record->phase, ALLOC_STOPPING);
		/* once */
		assert_false(task_step_is(record, ALLOC_EVENT_UNIT_ENDED, NULL, NULL));
		play(record, trace, sizeof(trace));
		assert_string_equal(trace, "U0F0");
		assert_int_equal(record->alloc.client_status, ends[e] ? CLIENT_FAILED : CLIENT_COMPLETE);
		assert_int_equal(record->alloc.client_code, ends[e] ? STATUS_ABORTED : STATUS_OK);
		assert_string_equal(alloc_description(&record->alloc), ends[e] ? failure.msg : "");
	}
}

TEST(another_invocation_is_recorded_and_the_same_one_changes_nothing)
{
	cleanup_free struct alloc_record *record = with_unit(1);
	char trace[64];

	play(record, trace, sizeof(trace));
	assert_false(task_step_is(record, ALLOC_EVENT_UNIT_RUNS, "one", NULL));
	assert_true(task_step_is(record, ALLOC_EVENT_UNIT_RUNS, "two", NULL));
	assert_string_equal(record->task.invocation, "two");
	assert_int_equal(record->phase, ALLOC_RUNNING);
	assert_false(task_step_is(record, ALLOC_EVENT_UNIT_START, "", NULL));
	/* a reboot leaves no unit to be stopped */
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_REBOOTED}));
	assert_int_equal(record->alloc.client_status, CLIENT_LOST);
	assert_int_equal(record->task.state, TASK_RECORD_ENDED);
}

TEST(without_a_unit_nothing_of_it_happens)
{
	cleanup_free struct alloc_record *record = records_make(1);

	assert_false(task_step_is(record, ALLOC_EVENT_UNIT_START, "", NULL));
	assert_false(task_step_is(record, ALLOC_EVENT_UNIT_RUNS, "x", NULL));
	assert_false(task_step_is(record, ALLOC_EVENT_UNIT_ENDED, NULL, NULL));
}

TEST(a_unit_and_its_driver_belong_together)
{
	static const struct {
		const char *driver, *unit;
		enum status status;
	} rows[] = {
		{"none", "db.service", STATUS_INVALID_ARGUMENT},
		{"systemd", "", STATUS_INVALID_ARGUMENT},
		{"systemd", "db.socket", STATUS_INVALID_ARGUMENT},
		{"systemd", "db@.service", STATUS_INVALID_ARGUMENT},
		{"systemd", "a/b.service", STATUS_INVALID_ARGUMENT},
		{"docker", "", STATUS_UNIMPLEMENTED},
		{"systemd", "db.service", STATUS_OK},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct alloc alloc = records_alloc(ALLOC_ID, 1);
		cleanup_free struct alloc_record *record = NULL;
		char unit[64];

		(void)str_copy(alloc.driver, sizeof(alloc.driver), rows[i].driver);
		(void)str_copy(unit, sizeof(unit), rows[i].unit);
		alloc.unit = unit;
		assert_int_equal(alloc_record_new(&alloc, BOOT_ID, &record, NULL), rows[i].status);
	}
}

TEST(without_volumes_it_simply_runs)
{
	cleanup_free struct alloc_record *record = records_make(0);
	char trace[16];

	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "R0");
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "F0");
}

/* Stopped or failed with any number of volumes claimed and published: exactly those are undone, in reverse.
 */
TEST(each_grant_is_released)
{
	static const enum alloc_event_type ends[] = {ALLOC_EVENT_STOP, ALLOC_EVENT_FAIL};
	const struct error failure = {.status = STATUS_NOT_FOUND, .msg = "no such device"};

	for (uint32_t claimed = 0; claimed <= 3; claimed++) {
		for (uint32_t published = claimed ? claimed - 1 : 0; published <= claimed; published++) {
			for (size_t e = 0; e < 2; e++) {
				cleanup_free struct alloc_record *record = records_make(3);
				char trace[64], expected[64] = "";

				records_drive(record, claimed ? ALLOC_MOUNTING : ALLOC_NEW, published,
					      claimed);
				assert_true(alloc_step(
					record, &(struct alloc_event){.type = ends[e], .err = &failure}));
				for (uint32_t i = claimed; i-- > 0;)
					(void)str_format(expected + strlen(expected), 8, "U%u", i);
				(void)str_format(expected + strlen(expected), 8, "F0");
				play(record, trace, sizeof(trace));
				assert_string_equal(trace, expected);
				assert_int_equal(record->alloc.client_status, ends[e] == ALLOC_EVENT_FAIL
										      ? CLIENT_FAILED
										      : CLIENT_COMPLETE);
				assert_string_equal(alloc_description(&record->alloc),
						    ends[e] == ALLOC_EVENT_FAIL ? "no such device" : "");
				assert_int_equal(record->alloc.client_code,
						 ends[e] == ALLOC_EVENT_FAIL ? STATUS_NOT_FOUND : STATUS_OK);
			}
		}
	}
}

TEST(a_failure_stays_a_failure_when_a_stop_follows)
{
	const struct error failure = {.status = STATUS_INTERNAL, .msg = "first"};
	const struct error later = {.status = STATUS_ABORTED, .msg = "second"};
	cleanup_free struct alloc_record *record = records_make(1);

	records_drive(record, ALLOC_RUNNING, 1, 1);
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_FAIL, .err = &failure}));
	assert_false(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	assert_false(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_FAIL, .err = &later}));
	assert_int_equal(record->final_status, CLIENT_FAILED);
	assert_string_equal(alloc_description(&record->alloc), "first");
}

/* From every phase: what was granted is undone as at a stop, and it is lost as after a reboot. */
TEST(allocations_that_end_with_the_host_are_undone_and_lost)
{
	static const struct {
		enum alloc_phase phase;
		uint32_t n_published, n_claimed;
		const char *trace;
	} rows[] = {
		{ALLOC_NEW, 0, 0, "F0"},	   {ALLOC_CLAIMING, 0, 0, "F0"},
		{ALLOC_MOUNTING, 0, 1, "U0F0"},	   {ALLOC_MOUNTING, 1, 2, "U1U0F0"},
		{ALLOC_RUNNING, 3, 3, "U2U1U0F0"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup_free struct alloc_record *record = records_make(3);
		char trace[64];

		records_drive(record, rows[i].phase, rows[i].n_published, rows[i].n_claimed);
		assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_SHUTDOWN}));
		assert_int_equal(record->alloc.desired_status, DESIRED_RUN);
		play(record, trace, sizeof(trace));
		assert_string_equal(trace, rows[i].trace);
		assert_int_equal(record->alloc.client_status, CLIENT_LOST);
		assert_int_equal(record->alloc.client_code, STATUS_ABORTED);
		assert_string_equal(alloc_description(&record->alloc), "node was shut down");
	}
}

TEST(a_shutdown_does_not_change_a_stop_in_progress)
{
	cleanup_free struct alloc_record *record = records_make(1);
	char trace[16];

	records_drive(record, ALLOC_RUNNING, 1, 1);
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	assert_false(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_SHUTDOWN}));
	play(record, trace, sizeof(trace));
	assert_int_equal(record->alloc.client_status, CLIENT_COMPLETE);
}

/* The power went before all was undone. */
TEST(a_shutdown_cut_short_is_over_after_the_reboot)
{
	cleanup_free struct alloc_record *record = records_make(2);

	records_drive(record, ALLOC_RUNNING, 2, 2);
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_SHUTDOWN}));
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_REBOOTED}));
	assert_int_equal(record->phase, ALLOC_STOPPED);
	assert_int_equal(record->alloc.client_status, CLIENT_LOST);
	assert_string_equal(alloc_description(&record->alloc), "node was shut down");
	assert_int_equal(record->volumes[1].state, VOLUME_RELEASED);
}

TEST(a_grant_that_comes_after_the_stop_is_released)
{
	cleanup_free struct alloc_record *record = records_make(1);
	struct claim_grant grant = records_grant(record, 0);
	char trace[16];

	records_drive(record, ALLOC_CLAIMING, 0, 0);
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_CLAIMED, .grant = &grant}));
	play(record, trace, sizeof(trace));
	assert_string_equal(trace, "U0F0");
}

/* In every phase every event: what the drawn table allows and nothing else. */
TEST(events_are_taken_in_their_phases_only)
{
	static const char *const allowed[ALLOC_EVENT_N] = {
		/* new, claiming, mounting (volume 0 claimed), running, stopping (claimed), stopped */
		[ALLOC_EVENT_CLAIM] = "y-y---", /* claiming already: no change */
		[ALLOC_EVENT_CLAIMED] = "-y--y-",      [ALLOC_EVENT_MOUNTED] = "--y-y-",
		[ALLOC_EVENT_UNMOUNTED] = "---y--", /* in others nothing is published here */
		[ALLOC_EVENT_UNIT_START] = "yyy---",   [ALLOC_EVENT_UNIT_RUNS] = "yyyy--", /* being started */
		[ALLOC_EVENT_UNIT_ENDED] = "yyyyy-",   [ALLOC_EVENT_RUN] = "yyy---",
		[ALLOC_EVENT_TASK_START] = "yyy---",   [ALLOC_EVENT_TASK_RUNS] = "yyyy--",
		[ALLOC_EVENT_TASK_HEALTH] = "yyyy--",  [ALLOC_EVENT_TASK_FAILED] = "yyyy--",
		[ALLOC_EVENT_TASK_DONE] = "yyyy--",    [ALLOC_EVENT_TASK_ENDED] = "yyyy--",
		[ALLOC_EVENT_TASK_GONE] = "----y-",    [ALLOC_EVENT_FAIL] = "yyyy--",
		[ALLOC_EVENT_STOP] = "yyyy--",	       [ALLOC_EVENT_RELEASED] = "----y-",
		[ALLOC_EVENT_FINISH] = "----y-",       [ALLOC_EVENT_REBOOTED] = "yyyyy-",
		[ALLOC_EVENT_SHUTDOWN] = "yyyy--",     [ALLOC_EVENT_NETWORK_START] = "yyy---",
		[ALLOC_EVENT_NETWORK_UP] = "yyy---", /* begun */
		[ALLOC_EVENT_NETWORK_GONE] = "----y-", [ALLOC_EVENT_DEVICE] = "----y-",
	};
	const struct volume_target target = {0};
	const struct error failure = {.status = STATUS_INTERNAL, .msg = "x"};

	for (enum alloc_event_type e = 0; e < ALLOC_EVENT_N; e++) {
		for (enum alloc_phase p = 0; p < ALLOC_PHASE_N; p++) {
			bool is_of_network = e >= ALLOC_EVENT_NETWORK_START && e <= ALLOC_EVENT_NETWORK_GONE;
			bool is_of_task = e >= ALLOC_EVENT_TASK_START && e <= ALLOC_EVENT_NETWORK_GONE;
			cleanup(alloc_record_freep) struct alloc_record *record =
				is_of_task ? with_tasks(1, 1) : with_unit(1);
			struct claim_grant grant = records_grant(record, 0);
			struct volume_mounted mounted = records_mounted(0);
			struct alloc_event event =
				ROW(.type = e, .grant = &grant, .mounted = &mounted, .err = &failure,
				    .target = &target, .invocation = "x", .driver = "container",
				    .network = &spec, .handle = &handle, .start = &start,
				    .health = "healthy");
			bool is_claimed = p == ALLOC_MOUNTING || p >= ALLOC_RUNNING;

			records_drive(record, p, p == ALLOC_RUNNING, is_claimed);
			if (e == ALLOC_EVENT_UNIT_RUNS)
				record->task.state = TASK_RECORD_STARTING;
			if (is_of_network) {
				record->alloc.network.mode = NETWORK_ISOLATED;
				record->network.state = e == ALLOC_EVENT_NETWORK_START ? TASK_RECORD_NONE
										       : TASK_RECORD_STARTING;
			} else if (e != ALLOC_EVENT_TASK_START)
				record->tasks[0].state = TASK_RECORD_STARTING;
			if (e == ALLOC_EVENT_TASK_HEALTH || e == ALLOC_EVENT_TASK_FAILED)
				set_running(record);
			assert_int_equal(alloc_step(record, &event), allowed[e][p] == 'y');
		}
	}
}

TEST(events_of_volumes_that_do_not_exist_or_are_not_so_far_are_refused)
{
	cleanup_free struct alloc_record *record = records_make(2);
	struct claim_grant grant = records_grant(record, 0);
	struct volume_mounted mounted = records_mounted(0);

	record->alloc.n_volumes = 1; /* what lies behind the last one looks like one that may be claimed */
	records_drive(record, ALLOC_CLAIMING, 0, 0);
	assert_false(alloc_step(
		record, &(struct alloc_event){.type = ALLOC_EVENT_CLAIMED, .volume = 1, .grant = &grant}));
	assert_false(alloc_step(
		record,
		&(struct alloc_event){.type = ALLOC_EVENT_MOUNTED, .volume = 0, .mounted = &mounted}));
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	assert_false(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_RELEASED, .volume = 0}));
	assert_int_equal(record->volumes[0].state, VOLUME_NONE);
}

/* A reader's grant of a volume that was never written. */
TEST(a_grant_of_generation_0_is_no_repeated_one)
{
	cleanup_free struct alloc_record *record = records_make(1);
	struct claim_grant grant = records_grant(record, 0);
	struct volume_target *target = &record->volumes[0].target;

	grant.claim.generation = 0;
	target->dev_major = 8;
	records_drive(record, ALLOC_CLAIMING, 0, 0);
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_CLAIMED, .grant = &grant}));
	assert_int_equal(target->source.class, grant.volume.source.class);
	assert_int_equal(target->dev_major, 0);
}

/* The volume of the claim may have another class since: the grant decides. */
TEST(a_repeated_grant_keeps_the_device_and_not_the_class)
{
	cleanup_free struct alloc_record *record = records_make(1);
	struct claim_grant grant = records_grant(record, 0);
	struct volume_target *target = &record->volumes[0].target;

	records_drive(record, ALLOC_MOUNTING, 0, 1);
	grant.claim.generation = record->volumes[0].generation;
	grant.volume.source.class = SOURCE_NFS4;
	target->source.class = SOURCE_BLOCK;
	target->dev_major = 8;
	(void)alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_CLAIM});
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_CLAIMED, .grant = &grant}));
	assert_int_equal(target->source.class, SOURCE_NFS4);
	assert_int_equal(target->dev_major, 8);
}

TEST(a_grant_becomes_the_target_of_the_mount)
{
	cleanup_free struct alloc_record *record = records_make(2);
	struct claim_grant grant = records_grant(record, 1);
	const struct volume_target *target = &record->volumes[1].target;

	record->alloc.volumes[1].exec = true;
	record->alloc.volumes[1].propagation = PROPAGATION_HOST_TO_TASK;
	grant.claim.mode = CLAIM_READ;
	grant.ticket.stage_read_only = 1;
	records_drive(record, ALLOC_MOUNTING, 1, 1);
	(void)alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_CLAIM});
	assert_true(alloc_step(
		record, &(struct alloc_event){.type = ALLOC_EVENT_CLAIMED, .volume = 1, .grant = &grant}));
	assert_int_equal(target->slot, 1);
	assert_true(target->stage_read_only);
	assert_true(target->read_only);
	assert_true(target->exec);
	assert_int_equal(target->propagation, PROPAGATION_HOST_TO_TASK);
	assert_string_equal(target->alloc_id, ALLOC_ID);
	assert_string_equal(target->wire_volume, "vol1-0123456789abcdef");
	assert_string_equal(target->profile, "scratch");
	assert_memory_equal(&target->ticket, &grant.ticket, sizeof(grant.ticket));
	assert_int_equal(record->volumes[1].generation, 41);
}

static void grant_csi(struct alloc_record *record, uint32_t i)
{
	struct claim_grant grant = records_csi_grant(record, i);

	(void)alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_CLAIM});
	assert_true(alloc_step(
		record, &(struct alloc_event){.type = ALLOC_EVENT_CLAIMED, .volume = i, .grant = &grant}));
	assert_ptr_equal(record->volumes[i].target.details, grant.details);
	secret_message_unref(grant.details);
}

TEST(a_grant_of_a_csi_volume_says_whom_to_call)
{
	cleanup(alloc_record_freep) struct alloc_record *record = records_make(1);
	const struct volume_target *target = &record->volumes[0].target;

	grant_csi(record, 0);
	assert_int_equal(target->type, VOLUME_CSI);
	assert_string_equal(target->profile, "csi.plug");
	assert_string_equal(target->external_id, "share#vol/0");
	assert_string_equal(target->context_digest, "ab0");
	assert_int_equal(target->access_mode, SINGLE_NODE_MULTI_WRITER);
	assert_int_equal(target->attachment_mode, ATTACHMENT_FILE_SYSTEM);
	assert_int_equal(volume_target_use(target), VOLUME_USE_WRITE);
	assert_false(volume_target_is_device(target));
	/* once more, as after a new ticket */
	grant_csi(record, 0);
	expect_next(record, ALLOC_DO_MOUNT, 0);
	alloc_record_free(NULL);
}

TEST(claim_details_are_wiped_after_mount_or_undo)
{
	cleanup_free struct alloc_record *record = records_make(2);
	struct volume_mounted mounted = records_mounted(0);

	n_wiped = 0;
	mounted.is_device = true;
	grant_csi(record, 0);
	assert_true(alloc_step(
		record,
		&(struct alloc_event){.type = ALLOC_EVENT_MOUNTED, .volume = 0, .mounted = &mounted}));
	assert_null(record->volumes[0].target.details);
	assert_int_equal(n_wiped, 1);
	assert_true(record->alloc.published[0].is_device);
	grant_csi(record, 1);
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	assert_non_null(record->volumes[1].target.details);
	assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_RELEASED, .volume = 1}));
	assert_null(record->volumes[1].target.details);
	assert_int_equal(n_wiped, 2);
}

TEST(a_csi_volume_is_claimed_again_when_its_details_are_gone)
{
	struct alloc_record *record = records_make(1), *after = NULL;
	uint8_t *bytes;
	size_t n;

	grant_csi(record, 0);
	assert_int_equal(alloc_record_pack(record, &bytes, &n, NULL), STATUS_OK);
	assert_int_equal(alloc_record_unpack(bytes, n, &after, NULL), STATUS_OK);
	assert_int_equal(after->volumes[0].state, VOLUME_CLAIMED);
	expect_next(after, ALLOC_DO_CLAIM, 0);
	grant_csi(after, 0);
	expect_next(after, ALLOC_DO_MOUNT, 0);
	/* to be undone it needs none */
	free(bytes);
	alloc_record_free(after);
	assert_int_equal(alloc_record_pack(record, &bytes, &n, NULL), STATUS_OK);
	assert_int_equal(alloc_record_unpack(bytes, n, &after, NULL), STATUS_OK);
	assert_true(alloc_step(after, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	expect_next(after, ALLOC_DO_UNMOUNT, 0);
	free(bytes);
	alloc_record_free(after);
	alloc_record_free(record);
}

TEST(a_readers_stage_is_as_writable_as_its_ticket_says)
{
	for (int stage_read_only = 0; stage_read_only < 2; stage_read_only++) {
		cleanup_free struct alloc_record *record = records_make(2);
		struct claim_grant grant = records_grant(record, 1);
		const struct volume_target *target = &record->volumes[1].target;

		grant.claim.mode = CLAIM_READ;
		grant.has_ticket = true;
		grant.ticket.stage_read_only = (uint8_t)stage_read_only;
		records_drive(record, ALLOC_MOUNTING, 1, 1);
		(void)alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_CLAIM});
		assert_true(alloc_step(
			record,
			&(struct alloc_event){.type = ALLOC_EVENT_CLAIMED, .volume = 1, .grant = &grant}));
		assert_true(target->read_only);
		assert_int_equal(target->stage_read_only, stage_read_only);
	}
}

TEST(a_read_only_request_of_a_writer_is_published_read_only_and_staged_writable)
{
	cleanup_free struct alloc_record *record = records_make(1);

	record->alloc.volumes[0].read_only = true;
	records_drive(record, ALLOC_MOUNTING, 0, 1);
	assert_false(record->volumes[0].target.stage_read_only);
	assert_true(record->volumes[0].target.read_only);
}

TEST(a_fresh_grant_is_mounted_and_a_journaled_one_is_claimed_again)
{
	cleanup_free struct alloc_record *record = records_make(1);
	struct volume_record *volume = &record->volumes[0];

	records_drive(record, ALLOC_MOUNTING, 0, 1);
	expect_next(record, ALLOC_DO_MOUNT, 0);
	assert_false(volume_record_ticket_expired(volume, TICKET_END_MS - 1));
	assert_true(volume_record_ticket_expired(volume, TICKET_END_MS));
	volume->is_granted_now = false;
	expect_next(record, ALLOC_DO_CLAIM, 0);
	volume->target.has_ticket = false;
	expect_next(record, ALLOC_DO_CLAIM, 0);
}

/* A journal that another version has left: its tickets have another size, or the same and another meaning. */
TEST(a_journalled_ticket_of_another_version_has_run_out)
{
	const struct ticket as_long = {
		.magic = TICKET_MAGIC, .version = TICKET_VERSION + 1, .not_after_ms = TICKET_END_MS};
	cleanup_free struct alloc_record *record = records_make(1);
	Holdfast__V1__JournalAlloc *pb;
	uint8_t earlier[sizeof(struct ticket) + 16];
	struct alloc_record *after;
	uint8_t *bytes;
	size_t n;

	records_drive(record, ALLOC_MOUNTING, 0, 1);
	assert_int_equal(alloc_record_pack(record, &bytes, &n, NULL), STATUS_OK);
	pb = holdfast__v1__journal_alloc__unpack(NULL, n, bytes);
	assert_int_equal(pb->volumes[0]->ticket.len, sizeof(struct ticket));
	free(bytes);
	free(pb->volumes[0]->ticket.data);
	memset(earlier, 0xff, sizeof(earlier));
	pb->volumes[0]->ticket = (ProtobufCBinaryData){.len = sizeof(earlier), .data = earlier};
	n = holdfast__v1__journal_alloc__get_packed_size(pb);
	bytes = malloc(n);
	(void)holdfast__v1__journal_alloc__pack(pb, bytes);
	assert_int_equal(alloc_record_unpack(bytes, n, &after, NULL), STATUS_OK);
	expect_next(after, ALLOC_DO_CLAIM, 0);
	assert_true(alloc_step(after, &(struct alloc_event){.type = ALLOC_EVENT_STOP}));
	expect_next(after, ALLOC_DO_UNMOUNT, 0);
	alloc_record_free(after);
	free(bytes);
	memcpy(earlier, &as_long, sizeof(as_long));
	pb->volumes[0]->ticket.len = sizeof(as_long);
	n = holdfast__v1__journal_alloc__get_packed_size(pb);
	bytes = malloc(n);
	(void)holdfast__v1__journal_alloc__pack(pb, bytes);
	assert_int_equal(alloc_record_unpack(bytes, n, &after, NULL), STATUS_OK);
	assert_true(volume_record_ticket_expired(&after->volumes[0], TICKET_END_MS - 1));
	expect_next(after, ALLOC_DO_CLAIM, 0);
	pb->volumes[0]->ticket = (ProtobufCBinaryData){.len = 0};
	holdfast__v1__journal_alloc__free_unpacked(pb, NULL);
	free(bytes);
	alloc_record_free(after);
}

TEST(after_a_reboot_nothing_is_left_and_nothing_is_done)
{
	static const struct {
		enum alloc_phase phase;
		enum client_status end;
	} cases[] = {
		{ALLOC_NEW, CLIENT_LOST},     {ALLOC_CLAIMING, CLIENT_LOST},   {ALLOC_MOUNTING, CLIENT_LOST},
		{ALLOC_RUNNING, CLIENT_LOST}, {ALLOC_STOPPING, CLIENT_FAILED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		cleanup_free struct alloc_record *record = records_make(2);
		uint32_t n = cases[i].phase == ALLOC_NEW || cases[i].phase == ALLOC_CLAIMING ? 0 : 2;

		records_drive(record, cases[i].phase, n, n);
		assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_REBOOTED}));
		assert_int_equal(record->phase, ALLOC_STOPPED);
		assert_int_equal(record->alloc.client_status, cases[i].end);
		if (cases[i].end == CLIENT_LOST)
			assert_string_equal(alloc_description(&record->alloc), "node was rebooted");
		assert_int_equal(record->alloc.n_published, 0);
		expect_next(record, ALLOC_DO_NOTHING, 0);
		for (uint32_t v = 0; v < 2; v++)
			assert_false(volume_record_is_live(&record->volumes[v]));
	}
}

TEST(transient_claim_errors_are_retried)
{
	static const enum status passing[] = {STATUS_UNAVAILABLE, STATUS_DEADLINE_EXCEEDED,  STATUS_ABORTED,
					      STATUS_CANCELLED,	  STATUS_RESOURCE_EXHAUSTED, STATUS_UNKNOWN};

	for (int status = 0; status < STATUS_N; status++) {
		bool is_among = false;

		for (size_t i = 0; i < ARRAY_SIZE(passing); i++)
			is_among = is_among || (int)passing[i] == status;
		assert_int_equal(claim_error_is_passing((enum status)status), is_among);
	}
}
