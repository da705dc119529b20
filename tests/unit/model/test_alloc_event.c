/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "model/alloc_event.h"
#include "model/message.h"

#define EVENT(name) HOLDFAST__V1__ALLOCATION_EVENT_TYPE__ALLOCATION_EVENT_TYPE_##name

static const Holdfast__V1__AllocationEvent *event(const struct alloc *alloc, size_t i)
{
	assert_in_range(i + 1, 1, message_list_n(alloc->events));
	return (const void *)alloc->events->messages[i];
}

static void assert_event(const struct alloc *alloc, size_t i, Holdfast__V1__AllocationEventType type,
			 const char *task, const char *text)
{
	assert_int_equal(event(alloc, i)->type, type);
	assert_string_equal(event(alloc, i)->task, task);
	assert_string_equal(event(alloc, i)->text, text);
}

static void set_status(struct alloc *alloc, Holdfast__Driver__V1__TaskState state, uint32_t restarts,
		       Holdfast__Driver__V1__ExitResult *result)
{
	Holdfast__Driver__V1__TaskStatus status = PB(holdfast__driver__v1__task_status, .task = "web",
						     .state = state, .restarts = restarts, .result = result);
	ProtobufCMessage *list[] = {&status.base};

	message_list_unref(alloc->task_status);
	assert_true(message_list_new(list, 1, &alloc->task_status));
}

TEST(each_allocation_change_is_noted_once)
{
	struct volume_request request = {.name = "data"};
	struct alloc_volume published = {.name = "data"};
	cleanup(alloc_release) struct alloc a = {.node_id = "n1", .desired_status = DESIRED_RUN};
	cleanup(alloc_release) struct alloc before;

	(void)str_copy(a.job_id, sizeof(a.job_id), "web");
	a.job_version = 3;
	a.volumes = &request;
	a.n_volumes = 1;
	assert_true(alloc_own(&a));
	assert_true(alloc_note_events(&a, NULL, 1000));
	assert_int_equal(message_list_n(a.events), 2);
	assert_event(&a, 0, EVENT(RECEIVED), "", "job web, version 3");
	assert_event(&a, 1, EVENT(PLACED), "", "n1");
	assert_int_equal(event(&a, 1)->time_ms, 1000);

	before = a;
	assert_true(alloc_own(&before));
	a.published = NON_NULL(malloc(sizeof(published)));
	*a.published = published;
	a.n_published = 1;
	a.client_status = CLIENT_RUNNING;
	set_status(&a, HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING, 0, NULL);
	assert_true(alloc_note_events(&a, &before, 2000));
	assert_int_equal(message_list_n(a.events), 5);
	assert_event(&a, 2, EVENT(MOUNTED), "", "data");
	assert_event(&a, 3, EVENT(TASK_STARTED), "web", "");
	assert_event(&a, 4, EVENT(RUNNING), "", "");
	assert_int_equal(message_list_n(before.events), 2);
	alloc_release(&before);

	before = a;
	assert_true(alloc_own(&before));
	assert_true(alloc_note_events(&a, &before, 3000)); /* nothing has changed */
	assert_int_equal(message_list_n(a.events), 5);
}

TEST(how_a_task_ended_and_why_it_failed_is_noted)
{
	static const struct {
		int32_t exit_code;
		uint32_t signal;
		bool oom_killed;
		char error[16];
		const char *text;
	} rows[] = {
		{3, 0, false, "", "exit status 3"},
		{0, 9, true, "", "signal 9, out of memory"},
		{0, 0, false, "no such image", "no such image"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup(alloc_release) struct alloc a = {.node_id = "n1", .client_status = CLIENT_RUNNING};
		cleanup(alloc_release) struct alloc before = {.node_id = "n1"};
		Holdfast__Driver__V1__ExitResult result =
			PB(holdfast__driver__v1__exit_result, .exit_code = rows[i].exit_code,
			   .signal = rows[i].signal, .oom_killed = rows[i].oom_killed,
			   .error = TEXT(rows[i].error));

		a.desired_status = before.desired_status = DESIRED_RUN;
		before.client_status = CLIENT_RUNNING;
		set_status(&before, HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING, 1, NULL);
		set_status(&a, HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED, 2, &result);
		a.client_status = CLIENT_FAILED;
		a.desired_status = DESIRED_STOP;
		a.client_description = strdup("task web failed");
		assert_true(alloc_note_events(&a, &before, 1));
		assert_int_equal(message_list_n(a.events), 4);
		assert_event(&a, 0, EVENT(TASK_RESTARTED), "web", "2 times in all");
		assert_event(&a, 1, EVENT(TASK_ENDED), "web", rows[i].text);
		assert_event(&a, 2, EVENT(STOPPING), "", "");
		assert_event(&a, 3, EVENT(FAILED), "", "task web failed");
	}
}

TEST(a_task_ends_before_its_volumes_are_unmounted)
{
	struct volume_request request = {.name = "data"};
	cleanup(alloc_release) struct alloc a = {.node_id = "n1", .desired_status = DESIRED_STOP};
	struct alloc before = {.node_id = "n1", .desired_status = DESIRED_STOP};

	a.volumes = &request;
	a.n_volumes = 1;
	assert_true(alloc_own(&a));
	a.client_status = CLIENT_COMPLETE;
	before.n_volumes = before.n_published = 1;
	before.client_status = CLIENT_RUNNING;
	set_status(&before, HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING, 0, NULL);
	set_status(&a, HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED, 0, NULL);
	assert_true(alloc_note_events(&a, &before, 1)); /* reported at once */
	assert_int_equal(message_list_n(a.events), 3);
	assert_event(&a, 0, EVENT(TASK_ENDED), "web", "");
	assert_event(&a, 1, EVENT(UNMOUNTED), "", "");
	assert_event(&a, 2, EVENT(COMPLETE), "", "");
	message_list_unref(before.task_status);
}

TEST(a_pending_one_waits_and_is_placed)
{
	cleanup(alloc_release) struct alloc a = {.wait_until_ms = 5000};
	struct alloc before;

	assert_true(alloc_note_events(&a, NULL, 1));
	assert_int_equal(message_list_n(a.events), 2);
	assert_event(&a, 1, EVENT(WAITING), "", "for its volumes");
	before = a;
	(void)str_copy(a.node_id, sizeof(a.node_id), "n2");
	assert_true(alloc_note_events(&a, &before, 2));
	assert_int_equal(message_list_n(a.events), 3);
	assert_event(&a, 2, EVENT(PLACED), "", "n2");
}

TEST(the_last_events_stay_and_their_texts_are_cut)
{
	cleanup(alloc_release) struct alloc a = {.n_volumes = 0};
	char text[2 * ALLOC_EVENT_TEXT_MAX];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 3 * ALLOC_EVENTS_MAX; i++) {
		assert_true(alloc_add_event(&a, EVENT(PLUGIN_HEALTHY), "", text, i));
		assert_in_range(message_list_n(a.events), 1, ALLOC_EVENTS_MAX);
	}
	assert_int_equal(message_list_n(a.events), ALLOC_EVENTS_MAX);
	assert_int_equal(event(&a, 0)->time_ms, 2 * ALLOC_EVENTS_MAX);
	assert_int_equal(event(&a, ALLOC_EVENTS_MAX - 1)->time_ms, 3 * ALLOC_EVENTS_MAX - 1);
	assert_int_equal(strlen(event(&a, 0)->text), ALLOC_EVENT_TEXT_MAX);
}
