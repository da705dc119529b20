/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "model/alloc_health.h"

#define RUNNING HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING
#define EXITED HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED

static void set_tasks(struct alloc *alloc, bool has_check)
{
	Holdfast__Driver__V1__HealthCheck check = HOLDFAST__DRIVER__V1__HEALTH_CHECK__INIT;
	Holdfast__Driver__V1__TaskConfig task =
		PB(holdfast__driver__v1__task_config, .task = "web", .health = has_check ? &check : NULL);
	ProtobufCMessage *list[] = {&task.base};

	message_list_unref(alloc->tasks);
	assert_true(message_list_new(list, 1, &alloc->tasks));
}

static void set_status(struct alloc *alloc, Holdfast__Driver__V1__TaskState state, int32_t exit_code,
		       const char *health, uint32_t restarts)
{
	Holdfast__Driver__V1__ExitResult result =
		PB(holdfast__driver__v1__exit_result, .exit_code = exit_code);
	Holdfast__Driver__V1__TaskStatus status =
		PB(holdfast__driver__v1__task_status, .task = "web", .state = state, .health = TEXT(health),
		   .restarts = restarts, .result = state == EXITED ? &result : NULL);
	ProtobufCMessage *list[] = {&status.base};

	message_list_unref(alloc->task_status);
	assert_true(message_list_new(list, 1, &alloc->task_status));
}

TEST(an_allocation_is_healthy_as_its_row_says)
{
	static const struct {
		enum client_status client;
		bool has_check;
		Holdfast__Driver__V1__TaskState state;
		int32_t exit_code;
		const char *health;
		enum alloc_health is;
		const char *text;
	} rows[] = {
		{CLIENT_PENDING, false, RUNNING, 0, "", ALLOC_NOT_RUNNING, "it does not run"},
		{CLIENT_RUNNING, false, RUNNING, 0, "", ALLOC_HEALTHY, ""},
		{CLIENT_RUNNING, false, EXITED, 0, "", ALLOC_HEALTHY, ""}, /* others run */
		{CLIENT_RUNNING, false, EXITED, 1, "", ALLOC_TASK_DOWN, "a task does not run: task web"},
		{CLIENT_RUNNING, true, RUNNING, 0, "", ALLOC_CHECK_STARTS,
		 "a health check has not passed yet: task web"},
		{CLIENT_RUNNING, true, RUNNING, 0, "starting", ALLOC_CHECK_STARTS,
		 "a health check has not passed yet: task web"},
		{CLIENT_RUNNING, true, RUNNING, 0, "unhealthy", ALLOC_CHECK_FAILS,
		 "a health check fails: task web"},
		{CLIENT_RUNNING, true, RUNNING, 0, "healthy", ALLOC_HEALTHY, ""},
		{CLIENT_FAILED, true, RUNNING, 0, "healthy", ALLOC_NOT_RUNNING, "it does not run"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct alloc alloc = an_alloc(ALLOC_1, "n1");
		char text[ALLOC_HEALTH_TEXT_SIZE];
		const char *task;

		alloc.client_status = rows[i].client;
		set_tasks(&alloc, rows[i].has_check);
		set_status(&alloc, rows[i].state, rows[i].exit_code, rows[i].health, 0);
		if (alloc_health(&alloc, &task) != rows[i].is ||
		    strcmp(alloc_health_text(&alloc, text), rows[i].text) != 0)
			fail_msg("row %zu: %d, '%s'", i, alloc_health(&alloc, &task), text);
		message_list_unref(alloc.tasks);
		message_list_unref(alloc.task_status);
	}
}

TEST(the_times_of_health_follow_its_changes)
{
	struct alloc alloc = an_alloc(ALLOC_1, "n1");
	struct alloc before = alloc;

	set_tasks(&alloc, true);
	alloc.client_status = CLIENT_RUNNING;
	set_status(&alloc, RUNNING, 0, "starting", 0);
	alloc_note_times(&alloc, NULL, 10);
	assert_int_equal(alloc.running_time_ms, 10);
	assert_int_equal(alloc.healthy_time_ms, 0);
	set_status(&alloc, RUNNING, 0, "healthy", 0);
	alloc_note_times(&alloc, &alloc, 20);
	alloc_note_times(&alloc, &alloc, 25);
	assert_int_equal(alloc.running_time_ms, 10);
	assert_int_equal(alloc.healthy_time_ms, 20);
	assert_int_equal(alloc.unhealthy_time_ms, 0);
	set_status(&alloc, RUNNING, 0, "unhealthy", 0);
	alloc_note_times(&alloc, &alloc, 30);
	alloc_note_times(&alloc, &alloc, 35);
	assert_int_equal(alloc.healthy_time_ms, 20);
	assert_int_equal(alloc.unhealthy_time_ms, 30);
	set_status(&alloc, RUNNING, 0, "healthy", 0);
	alloc_note_times(&alloc, &alloc, 40);
	assert_int_equal(alloc.healthy_time_ms, 40);
	assert_int_equal(alloc.unhealthy_time_ms, 0);
	before = alloc;
	before.task_status = message_list_ref(alloc.task_status);
	set_status(&alloc, RUNNING, 0, "healthy", 1); /* both reports in one */
	alloc_note_times(&alloc, &before, 50);
	assert_int_equal(alloc.healthy_time_ms, 50);
	alloc.client_status = CLIENT_LOST;
	alloc_note_times(&alloc, &before, 60);
	assert_int_equal(alloc.unhealthy_time_ms, 60);
	assert_int_equal(alloc.end_time_ms, 60);
	message_list_unref(before.task_status);
	message_list_unref(alloc.tasks);
	message_list_unref(alloc.task_status);
}
