/* SPDX-License-Identifier: Apache-2.0 */
/* The acting part of a hold, on the loop of its connection. */

#include "base/str.h"
#include "command/settings.h"
#include "hold/classify.h"
#include "hold/holder.h"
#include "model/alloc_id.h"
#include "model/message.h"
#include "show/output.h"

enum { WATCH_MS = 30000 }; /* of one blocking query; also how often the mount is looked at at least */

/* The time to end an allocation that was not ready in time; the next start finishes it. */
#define GRACE_US (10 * USEC_PER_SEC)

static const ProtobufCServiceDescriptor *const allocations = &holdfast__v1__allocations__descriptor;

static void handle_event(struct holder *holder, enum hold_event event);

/* This machine does not let us work: what the server has stays as it is. */
static void give_up(struct holder *holder, const struct error *err)
{
	holder->fatal = *err;
	holder->is_over = true;
}

static bool is_device(const struct holder *holder)
{
	return holder->alloc->volumes[0]->attachment_mode == HOLDFAST__V1__ATTACHMENT_MODE__BLOCK_DEVICE;
}

static bool is_mount_gone(struct holder *holder)
{
	if (is_device(holder))
		return holder->path[0] && hold_device_is_gone(stage_dir(), holder->path, &holder->device);
	return holder->path[0] && hold_is_gone(holder->path);
}

/* Makes the path from root's file and what the server has; never takes it from the node's report. */
static bool find_path(struct holder *holder, const Holdfast__V1__GetAllocationResponse *answer)
{
	const Holdfast__V1__Claim *claim = hold_live_claim(answer->claims, answer->n_claims);

	if (is_device(holder))
		return claim && hold_device_path(stage_dir(), claim->plugin_id, holder->alloc, holder->path);
	return hold_publish_path(publish_dir(), holder->note.alloc_id, holder->path);
}

/* Keeps the answer to Get. @return its event: the server may not know yet that this machine was booted */
static enum hold_event classify_get(struct holder *holder, const ProtobufCMessage *response)
{
	const Holdfast__V1__GetAllocationResponse *answer = (const void *)response;
	enum hold_event event;

	if (!answer->allocation)
		return HOLD_LOST;
	message_freep(&holder->last);
	holder->last = (void *)message_convert(response->descriptor, response);
	if (!holder->last)
		return HOLD_LOST;
	event = hold_classify_get(answer);
	if (event == HOLD_RUNNING && !find_path(holder, answer))
		event = HOLD_LOST;
	if (event == HOLD_ENDING || event == HOLD_FREED)
		return event;
	/* a held mount is looked at also if its node reports another state */
	if ((event != HOLD_RUNNING && holder->hold.state != HOLD_HELD) || !is_mount_gone(holder))
		return event;
	if (event == HOLD_RUNNING)
		(void)error_set(
			&holder->trouble, STATUS_FAILED_PRECONDITION, 0,
			"the node of volume %s reports it as mounted, but it is not at %.300s: compare "
			"HOLDFAST_PUBLISH_DIR and HOLDFAST_STAGE_DIR of /etc/holdfast/cli.env with "
			"mounthelper.policy",
			holder->alloc->volumes[0]->source, holder->path);
	return HOLD_UNMOUNTED;
}

static enum hold_event classify_response(struct holder *holder, const ProtobufCMessage *response)
{
	const Holdfast__V1__Allocation *alloc = NULL;

	switch (holder->asked) {
	case HOLD_GET:
		return classify_get(holder, response);
	case HOLD_RUN:
		alloc = ((const Holdfast__V1__RunAllocationResponse *)(const void *)response)->allocation;
		break;
	case HOLD_STOP:
		return HOLD_ENDING;
	case HOLD_REQUEST_N:
		break;
	}
	return alloc ? hold_classify_alloc(alloc) : HOLD_LOST;
}

/* A server that was restored from an older backup knows an allocation again when its node has reported it. A
 * new process does not know the path of a device: see begin_anew(). */
static bool is_forgotten_too_early(struct holder *holder)
{
	bool is_known =
		holder->path[0] ||
		(!is_device(holder) && hold_publish_path(publish_dir(), holder->note.alloc_id, holder->path));

	if (!is_known || is_mount_gone(holder))
		return false;
	(void)error_prefix(&holder->trouble, "still mounted at %.300s, and its node has not reported it",
			   holder->path);
	return true;
}

/* Handles a call without answer. The kernel may still show where the volume is, and that it is gone. */
static enum hold_event classify_failure(struct holder *holder, const struct error *err)
{
	ProtobufCMessage *details = rpc_client_details(connection_client(holder->connection),
						       &holdfast__v1__error_details__descriptor);
	enum hold_event event = hold_classify_error(holder->asked, err->status, (void *)details);

	protobuf_c_message_free_unpacked(holder->inv->details, NULL);
	holder->inv->details = details;
	holder->trouble = *err;
	if (holder->keeper->explains)
		connection_explain(holder->connection, &holder->trouble);
	if (holder->hold.state == HOLD_HELD && is_mount_gone(holder))
		return HOLD_UNMOUNTED;
	if (event == HOLD_ABSENT && holder->hold.state != HOLD_LOOKING && is_forgotten_too_early(holder))
		event = HOLD_LOST;
	/* the server would refuse an id of another namespace, which HOLD_LOOKING would run again */
	holder->is_absent =
		event == HOLD_ABSENT && alloc_id_is_of(holder->note.alloc_id, holder->alloc->namespace_);
	if (event == HOLD_ABSENT && !holder->is_absent && holder->hold.state == HOLD_LOOKING)
		return HOLD_FREED;
	return event;
}

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	struct holder *holder = userdata;
	enum hold_event event;

	holder->pending = NULL;
	if (status == STATUS_OK) {
		holder->trouble = (struct error){.msg = ""};
		holder->is_absent = false;
		backoff_reset(&holder->backoff);
		event = classify_response(holder, response);
	} else {
		event = classify_failure(holder, err);
	}
	handle_event(holder, event);
	if (holder->is_term_due && !holder->is_over) {
		holder->is_term_due = false;
		handle_event(holder, HOLD_SIGTERM);
	}
}

static enum status call(struct holder *holder, const char *method, const ProtobufCMessage *request,
			uint64_t timeout_us, struct error *err)
{
	return rpc_client_call(connection_client(holder->connection), allocations, method, request,
			       timeout_us, on_done, holder, &holder->pending, err);
}

static enum status call_get(struct holder *holder, bool is_watching, struct error *err)
{
	Holdfast__V1__GetAllocationRequest request = HOLDFAST__V1__GET_ALLOCATION_REQUEST__INIT;

	request.id = holder->note.alloc_id;
	if (is_watching && holder->last) {
		request.index = holder->last->index;
		request.wait_ms = WATCH_MS;
	}
	return call(holder, "Get", &request.base, request.wait_ms * USEC_PER_MSEC + CALL_TIMEOUT_US, err);
}

static void ask(struct holder *holder, bool is_watching)
{
	Holdfast__V1__RunAllocationRequest run = HOLDFAST__V1__RUN_ALLOCATION_REQUEST__INIT;
	Holdfast__V1__StopAllocationRequest stop = HOLDFAST__V1__STOP_ALLOCATION_REQUEST__INIT;
	Holdfast__V1__Allocation alloc = *holder->alloc; /* but for its id */
	enum status status = STATUS_OK;
	struct error err = {.msg = ""};

	holder->asked = hold_request(holder->hold.state);
	switch (holder->asked) {
	case HOLD_GET:
		status = call_get(holder, is_watching, &err);
		break;
	case HOLD_RUN:
		alloc.id = holder->note.alloc_id;
		run.allocation = &alloc;
		run.wait_ms = holder->wait_ms;
		status = call(holder, "Run", &run.base, CALL_TIMEOUT_US, &err);
		break;
	case HOLD_STOP:
		stop.id = holder->note.alloc_id;
		status = call(holder, "Stop", &stop.base, CALL_TIMEOUT_US, &err);
		break;
	case HOLD_REQUEST_N:
		break;
	}
	if (status != STATUS_OK)
		give_up(holder, &err);
}

static int on_retry(sd_event_source *timer, uint64_t usec, void *userdata)
{
	struct holder *holder = userdata;

	if (holder->trouble.status == STATUS_UNAVAILABLE)
		rpc_client_move_on(connection_client(holder->connection));
	ask(holder, false);
	return 0;
}

static int on_deadline(sd_event_source *timer, uint64_t usec, void *userdata)
{
	struct holder *holder = userdata;

	if (!holder->is_over)
		handle_event(holder, HOLD_DEADLINE);
	return 0;
}

void holder_end(struct holder *holder)
{
	if (holder->is_over)
		return;
	/* an answer to Stop that overtakes Run would report nothing to stop */
	if (holder->pending && holder->asked == HOLD_RUN)
		holder->is_term_due = true;
	else
		handle_event(holder, HOLD_SIGTERM);
}

/* (Re)start a one-shot timer. */
static void set_timer(struct holder *holder, sd_event_source **timer, uint64_t delay_us,
		      sd_event_time_handler_t on)
{
	struct error err;
	int r;

	if (!*timer)
		r = sd_event_add_time_relative(connection_event(holder->connection), timer, CLOCK_MONOTONIC,
					       delay_us, 0, on, holder);
	else
		r = sd_event_source_set_time_relative(*timer, delay_us);
	if (r >= 0)
		r = sd_event_source_set_enabled(*timer, SD_EVENT_ONESHOT);
	if (r < 0) {
		(void)error_set(&err, status_from_errno(r), r, "cannot set a timer");
		give_up(holder, &err);
	}
}

static void forget_call(struct holder *holder)
{
	if (holder->pending)
		rpc_pending_cancel(holder->pending);
	holder->pending = NULL;
	if (holder->retry)
		(void)sd_event_source_set_enabled(holder->retry, SD_EVENT_OFF);
}

static enum status begin_anew(struct holder *holder, struct error *err)
{
	struct hold_note note = {.is_ending = false};
	/* a device that is bound may be another allocation's. If the server has only forgotten ours, its node
	 * reports it by this id; one that the token may not see is not asked for twice. */
	bool is_again = holder->is_absent && is_device(holder) && !holder->was_run_again;
	int r = is_again ? str_copy(note.alloc_id, sizeof(note.alloc_id), holder->note.alloc_id)
			 : alloc_id_new(holder->alloc->namespace_, note.alloc_id);

	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot make an allocation id");
	TRY(holder->keeper->save(holder, &note, err));
	holder->note = note;
	holder->was_run_again = is_again;
	holder->path[0] = '\0';
	holder->device = (struct hold_device){.number = 0};
	holder->is_shared = false; /* users of the one before have lost it */
	message_freep(&holder->last);
	holder->last = NULL;
	return STATUS_OK;
}

/* A full disk keeps no claim: by an older note the next process finds the allocation, and holds it or waits
 * until its claim is free. */
static void note_end(struct holder *holder, const struct hold_note *note)
{
	struct error err;

	if (holder->keeper->save(holder, note, &err) != STATUS_OK)
		print_note("holdfast: going on without it: %s", err.msg);
}

static void note_ending(struct holder *holder)
{
	holder->note.is_ending = true;
	note_end(holder, &holder->note);
}

static void release_hold(struct holder *holder, enum hold_event event)
{
	bool is_asked_to = event == HOLD_SIGTERM;

	forget_call(holder);
	if (holder->is_shared) {
		holder->is_over = true;
		return;
	}
	set_timer(holder, &holder->deadline, is_asked_to ? holder->timeout_us : GRACE_US, on_deadline);
	note_ending(holder);
}

static void finish(struct holder *holder, enum hold_action action)
{
	forget_call(holder);
	holder->is_over = true;
	if (action == HOLD_FORGET)
		note_end(holder, &(struct hold_note){.is_ending = false});
	else if (!holder->is_shared)
		note_ending(holder);
}

static enum status act(struct holder *holder, enum hold_action action, enum hold_event event,
		       struct error *err)
{
	switch (action) {
	case HOLD_ANEW:
		if (sd_event_source_get_enabled(holder->deadline, NULL) == SD_EVENT_OFF)
			set_timer(holder, &holder->deadline, holder->timeout_us, on_deadline);
		return begin_anew(holder, err);
	case HOLD_READY:
		return holder->keeper->ready(holder, err);
	case HOLD_RELEASE:
		release_hold(holder, event);
		break;
	case HOLD_FORGET:
	case HOLD_LEAVE:
		finish(holder, action);
		break;
	case HOLD_SUSPEND:
		(void)sd_event_source_set_enabled(holder->deadline, SD_EVENT_OFF);
		break;
	case HOLD_BEGIN:
		set_timer(holder, &holder->deadline, holder->timeout_us, on_deadline);
		break;
	case HOLD_RETRY:
		set_timer(holder, &holder->retry, backoff_next(&holder->backoff, backoff_random()), on_retry);
		break;
	case HOLD_NOTHING:
	case HOLD_ASK:
	case HOLD_WATCH:
	case HOLD_ACTION_N:
		break;
	}
	return STATUS_OK;
}

static void handle_event(struct holder *holder, enum hold_event event)
{
	enum hold_outcome before = holder->hold.outcome;
	enum hold_action action = hold_step(&holder->hold, event);
	struct error err = {.msg = ""};

	/* a later answer to Stop is no reason for it */
	if (before == HOLD_DONE && holder->hold.outcome != HOLD_DONE)
		holder->at_end = holder->trouble;
	if (holder->keeper->report)
		holder->keeper->report(holder);
	if (act(holder, action, event, &err) != STATUS_OK)
		give_up(holder, &err);
	if (holder->is_over)
		return;
	if (action == HOLD_ASK || action == HOLD_ANEW || action == HOLD_RELEASE)
		ask(holder, false);
	else if (action == HOLD_WATCH || action == HOLD_READY || action == HOLD_SUSPEND ||
		 action == HOLD_BEGIN)
		ask(holder, true);
}

void holder_run(struct holder *holder)
{
	const struct hold_keeper *keeper = holder->keeper;
	struct error err = {.msg = ""};
	int r = 0;

	holder->backoff = (struct backoff)BACKOFF_INIT(keeper->retry_min_us, keeper->retry_max_us);
	set_timer(holder, &holder->deadline, holder->timeout_us, on_deadline);
	if (holder->hold.state == HOLD_SUBMITTING && begin_anew(holder, &err) != STATUS_OK)
		give_up(holder, &err);
	if (!holder->is_over && keeper->report)
		keeper->report(holder);
	if (!holder->is_over)
		ask(holder, false);
	while (r >= 0 && !holder->is_over)
		r = sd_event_run(connection_event(holder->connection), UINT64_MAX);
	if (r < 0) {
		(void)error_set(&err, status_from_errno(r), r, "cannot wait for the server");
		give_up(holder, &err);
	}
	forget_call(holder);
	sd_event_source_disable_unref(holder->retry);
	sd_event_source_disable_unref(holder->deadline);
}
