/* SPDX-License-Identifier: Apache-2.0 */
#include "model/alloc_event.h"

#include "base/str.h"
#include "model/message.h"
#include "model/task.h"

#include <stdio.h>

typedef Holdfast__V1__AllocationEvent event_pb;
typedef Holdfast__V1__AllocationEventType event_type;
typedef Holdfast__Driver__V1__TaskStatus task_status;

#define EVENT(name) HOLDFAST__V1__ALLOCATION_EVENT_TYPE__ALLOCATION_EVENT_TYPE_##name

bool alloc_add_event(struct alloc *alloc, event_type type, const char *task, const char *text, int64_t now_ms)
{
	event_pb event = HOLDFAST__V1__ALLOCATION_EVENT__INIT;
	ProtobufCMessage *all[ALLOC_EVENTS_MAX];
	size_t n = message_list_n(alloc->events);
	size_t first = n < ALLOC_EVENTS_MAX ? 0 : n - (ALLOC_EVENTS_MAX - 1);
	char cut[ALLOC_EVENT_TEXT_MAX + 1];
	struct message_list *list;

	str_copy_text(cut, sizeof(cut), text);
	event.time_ms = now_ms;
	event.type = type;
	event.task = (char *)(uintptr_t)task;
	event.text = cut;
	for (size_t i = first; i < n; i++)
		all[i - first] = alloc->events->messages[i];
	all[n - first] = &event.base;
	if (!message_list_new(all, n - first + 1, &list))
		return false;
	message_list_unref(alloc->events);
	alloc->events = list;
	return true;
}

/* The events that are being added; a failure sticks. */
struct notes {
	struct alloc *alloc;
	int64_t now_ms;
	bool has_failed;
};

static void note(struct notes *notes, event_type type, const char *task, const char *text)
{
	if (!notes->has_failed)
		notes->has_failed = !alloc_add_event(notes->alloc, type, task, text, notes->now_ms);
}

/* --- of the allocation --- */

static void note_begin(struct notes *notes, const struct alloc *before)
{
	const struct alloc *alloc = notes->alloc;
	bool had_node = before && before->node_id[0] != '\0';
	char text[ALLOC_EVENT_TEXT_MAX + 1] = "";

	if (!before && alloc->job_id[0] != '\0')
		(void)str_format(text, sizeof(text), "job %s, version %llu", alloc->job_id,
				 (unsigned long long)alloc->job_version);
	if (!before)
		note(notes, alloc->adopted ? EVENT(ADOPTED) : EVENT(RECEIVED), "", text);
	if (!before && alloc->wait_until_ms != 0)
		note(notes, EVENT(WAITING), "", "for its volumes");
	if (!had_node && alloc->node_id[0] != '\0')
		note(notes, EVENT(PLACED), "", alloc->node_id);
}

static void note_mounted(struct notes *notes, const struct alloc *before)
{
	const struct alloc *alloc = notes->alloc;
	bool was_mounted = before && before->n_published == before->n_volumes;
	char text[ALLOC_EVENT_TEXT_MAX + 1] = "";
	size_t at = 0;

	for (uint32_t i = 0; i < alloc->n_published && at < sizeof(text) - 1; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i > 0 ? ", " : "",
				       alloc->published[i].name);
	if (alloc->n_volumes > 0 && alloc->n_published == alloc->n_volumes && !was_mounted)
		note(notes, EVENT(MOUNTED), "", text);
}

/* The mounts of a lost one are unknown. */
static void note_unmounted(struct notes *notes, const struct alloc *before)
{
	const struct alloc *alloc = notes->alloc;

	if (before && before->n_published > 0 && alloc->n_published == 0 &&
	    alloc->client_status != CLIENT_LOST)
		note(notes, EVENT(UNMOUNTED), "", "");
}

/* Empty events are not shown. */
static const event_type of_status[CLIENT_N] = {
	[CLIENT_RUNNING] = EVENT(RUNNING),
	[CLIENT_COMPLETE] = EVENT(COMPLETE),
	[CLIENT_FAILED] = EVENT(FAILED),
	[CLIENT_LOST] = EVENT(LOST),
};

static void note_status(struct notes *notes, const struct alloc *before)
{
	const struct alloc *alloc = notes->alloc;
	event_type type = of_status[alloc->client_status];

	if (before && before->desired_status == DESIRED_RUN && alloc->desired_status == DESIRED_STOP)
		note(notes, EVENT(STOPPING), "", "");
	if (type && (!before || before->client_status != alloc->client_status))
		note(notes, type, "", alloc_description(alloc));
}

/* --- of its tasks --- */

static const task_status *find_status(const struct alloc *alloc, const char *task)
{
	for (size_t i = 0; alloc && i < message_list_n(alloc->task_status); i++) {
		const task_status *status = (const void *)alloc->task_status->messages[i];

		if (str_eq(status->task, task))
			return status;
	}
	return NULL;
}

static void put_result(const Holdfast__Driver__V1__ExitResult *result, char *ret, size_t size)
{
	if (!result)
		ret[0] = '\0';
	else if (result->error[0] != '\0')
		str_copy_text(ret, size, result->error);
	else if (result->signal != 0)
		(void)snprintf(ret, size, "signal %u%s", result->signal,
			       result->oom_killed ? ", out of memory" : "");
	else
		(void)snprintf(ret, size, "exit status %d%s", result->exit_code,
			       result->oom_killed ? ", out of memory" : "");
}

static void note_task(struct notes *notes, const task_status *was, const task_status *is)
{
	char text[ALLOC_EVENT_TEXT_MAX + 1];
	bool was_running = was && was->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING;
	bool had_exited = was && was->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED;

	bool is_restarted = was && is->restarts > was->restarts;

	if (is->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING && !was_running &&
	    !is_restarted)
		note(notes, EVENT(TASK_STARTED), is->task, "");
	if (is_restarted) {
		(void)snprintf(text, sizeof(text), "%u times in all", is->restarts);
		note(notes, EVENT(TASK_RESTARTED), is->task, text);
	}
	if (was && !str_eq(was->health, is->health) && is->health[0] != '\0')
		note(notes, EVENT(TASK_HEALTH), is->task, is->health);
	if (is->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED && !had_exited) {
		put_result(is->result, text, sizeof(text));
		note(notes, EVENT(TASK_ENDED), is->task, text);
	}
}

bool alloc_note_events(struct alloc *alloc, const struct alloc *before, int64_t now_ms)
{
	struct notes notes = {.alloc = alloc, .now_ms = now_ms};

	note_begin(&notes, before);
	note_mounted(&notes, before);
	for (size_t i = 0; i < message_list_n(alloc->task_status); i++) {
		const task_status *is = (const void *)alloc->task_status->messages[i];

		note_task(&notes, find_status(before, is->task), is);
	}
	note_unmounted(&notes, before); /* a node unmounts when the tasks have ended */
	note_status(&notes, before);
	return !notes.has_failed;
}
