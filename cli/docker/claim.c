/* SPDX-License-Identifier: Apache-2.0 */
#include "docker/claim.h"

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/uuid.h"
#include "hold/classify.h"
#include "hold/link.h"
#include "hold/place.h"
#include "model/message.h"

#include <assert.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/explain.pb-c.h>
#include <string.h>
#include <unistd.h>

enum { WATCH_MS = 10000 }; /* of one blocking query */

#define RETRY_MIN_US (200 * USEC_PER_MSEC)
#define RETRY_MAX_US (2 * USEC_PER_SEC)
/* For ending what did not come up in time: the next request sees to what is left. */
#define GRACE_US (10 * USEC_PER_SEC)

/* A claim on its way. */
struct way {
	struct docker_claim *claim;
	struct hold hold;
	bool is_shared;	   /* others have it mounted: nothing of theirs is released */
	bool is_over;	   /* nothing more is asked */
	uint64_t until_us; /* the deadline */
	bool is_watching;  /* the next question may wait for a change */
	uint64_t index;
	struct backoff backoff;
	struct error trouble;		  /* why the server's last answer was none; msg "": it was one */
	char last_message[ERROR_MSG_MAX]; /* what the node said last */
};

static const ProtobufCServiceDescriptor *const allocations = &holdfast__v1__allocations__descriptor;

static uint64_t left_us(const struct way *way)
{
	uint64_t now_us = clock_monotonic_us();

	return now_us < way->until_us ? way->until_us - now_us : 0;
}

static void note_last_message(struct way *way, const Holdfast__V1__GetAllocationResponse *answer)
{
	way->last_message[0] = '\0';
	if (answer->allocation->client_description[0])
		str_copy_text(way->last_message, sizeof(way->last_message),
			      answer->allocation->client_description);
	for (size_t i = 0; !way->last_message[0] && i < answer->n_claims; i++)
		str_copy_text(way->last_message, sizeof(way->last_message), answer->claims[i]->last_error);
}

static enum hold_event classify_failure(struct way *way, const struct error *err)
{
	way->trouble = *err;
	return hold_classify_error(hold_request(way->hold.state), err->status,
				   (void *)way->claim->inv->details);
}

static enum hold_event classify_get(struct way *way, const Holdfast__V1__GetAllocationResponse *answer)
{
	char path[PATH_MAX];
	enum hold_event event;

	if (!answer->allocation)
		return HOLD_LOST;
	way->index = answer->index;
	note_last_message(way, answer);
	event = hold_classify_get(answer);
	if (event != HOLD_RUNNING)
		return event;
	if (!hold_publish_path(way->claim->publish_dir, way->claim->record->alloc_id, path) ||
	    !message_set_text(&way->claim->record->path, path))
		return HOLD_LOST;
	return hold_is_gone(way->claim->record->path) ? HOLD_UNMOUNTED : HOLD_RUNNING;
}

static enum hold_event ask_get(struct way *way)
{
	cleanup_message Holdfast__V1__GetAllocationResponse *answer = NULL;
	Holdfast__V1__GetAllocationRequest request = HOLDFAST__V1__GET_ALLOCATION_REQUEST__INIT;
	uint64_t wait_ms = left_us(way) / USEC_PER_MSEC;
	struct error err;

	request.id = way->claim->record->alloc_id;
	if (way->is_watching) {
		request.index = way->index;
		request.wait_ms = (uint32_t)(wait_ms < WATCH_MS ? wait_ms : WATCH_MS);
	}
	if (connection_call(way->claim->connection, allocations, "Get", &request.base,
			    request.wait_ms * USEC_PER_MSEC + CALL_TIMEOUT_US, &answer, &err) != STATUS_OK)
		return classify_failure(way, &err);
	return classify_get(way, answer);
}

static enum hold_event ask_run(struct way *way)
{
	cleanup_message Holdfast__V1__RunAllocationResponse *answer = NULL;
	Holdfast__V1__RunAllocationRequest request = HOLDFAST__V1__RUN_ALLOCATION_REQUEST__INIT;
	Holdfast__V1__Allocation alloc = *way->claim->alloc; /* but for its id */
	struct error err;

	alloc.id = way->claim->record->alloc_id;
	request.allocation = &alloc;
	if (connection_call(way->claim->connection, allocations, "Run", &request.base, CALL_TIMEOUT_US,
			    &answer, &err) != STATUS_OK)
		return classify_failure(way, &err);
	return answer->allocation ? hold_classify_alloc(answer->allocation) : HOLD_LOST;
}

static enum hold_event ask_stop(struct way *way)
{
	cleanup_message Holdfast__V1__StopAllocationResponse *answer = NULL;
	Holdfast__V1__StopAllocationRequest request = HOLDFAST__V1__STOP_ALLOCATION_REQUEST__INIT;
	struct error err;

	request.id = way->claim->record->alloc_id;
	if (connection_call(way->claim->connection, allocations, "Stop", &request.base, CALL_TIMEOUT_US,
			    &answer, &err) != STATUS_OK)
		return classify_failure(way, &err);
	return HOLD_ENDING;
}

static enum hold_event ask(struct way *way)
{
	static enum hold_event (*const asks[HOLD_REQUEST_N])(struct way *) = {
		[HOLD_GET] = ask_get, [HOLD_RUN] = ask_run, [HOLD_STOP] = ask_stop};
	struct error before = way->trouble;
	enum hold_event event;

	way->trouble = (struct error){.msg = ""};
	event = asks[hold_request(way->hold.state)](way);
	/* what is said to Stop is no reason for it */
	if (before.msg[0] && hold_request(way->hold.state) != HOLD_RUN && way->hold.outcome != HOLD_DONE)
		way->trouble = before;
	return event;
}

static enum status save(struct way *way, struct error *err)
{
	return record_save(way->claim->dir, way->claim->record, err);
}

static enum status begin_anew(struct way *way, struct error *err)
{
	Docker__VolumeRecord *record = way->claim->record;
	char id[UUID_SIZE];
	int r = uuid_new(id);

	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "make an allocation id");
	if (!message_set_text(&record->alloc_id, id))
		return error_no_memory(err, "an allocation id");
	record->is_ending = false;
	/* who has the one before mounted has lost it, or is gone */
	while (record->n_mount_ids > 0)
		record_remove_mount(record, record->mount_ids[0]);
	way->is_shared = false;
	way->index = 0;
	return save(way, err);
}

static enum status forget(struct way *way, struct error *err)
{
	Docker__VolumeRecord *record = way->claim->record;

	if (!message_set_text(&record->alloc_id, "") || !message_set_text(&record->path, ""))
		return error_no_memory(err, "a volume's record");
	record->is_ending = false;
	return save(way, err);
}

static enum status release_volume(struct way *way, bool is_left, struct error *err)
{
	way->is_over = is_left || way->is_shared;
	if (way->is_shared)
		return STATUS_OK;
	way->until_us = clock_monotonic_us() + GRACE_US;
	way->claim->record->is_ending = true;
	return save(way, err);
}

static enum status act(struct way *way, enum hold_action action, struct error *err)
{
	way->is_watching = action == HOLD_WATCH;
	switch (action) {
	case HOLD_ANEW:
		return begin_anew(way, err);
	case HOLD_READY:
		way->is_over = true;
		break;
	case HOLD_RELEASE:
	case HOLD_LEAVE:
		return release_volume(way, action == HOLD_LEAVE, err);
	case HOLD_FORGET:
		way->is_over = true;
		return forget(way, err);
	case HOLD_RETRY:
		(void)usleep((useconds_t)backoff_next(&way->backoff, backoff_random()));
		break;
	case HOLD_NOTHING:
	case HOLD_ASK:
	case HOLD_WATCH:
	case HOLD_ACTION_N:
		break;
	}
	return STATUS_OK;
}

/* Why it did not come about. */
static enum status outcome(const struct way *way, struct error *err)
{
	const Docker__VolumeRecord *record = way->claim->record;

	if (way->hold.outcome == HOLD_DONE)
		return STATUS_OK;
	if (way->trouble.msg[0]) {
		*err = way->trouble;
		return err->status;
	}
	if (way->hold.outcome == HOLD_TIMED_OUT)
		return error_set(err, STATUS_DEADLINE_EXCEEDED, 0,
				 "volume %s: not done in time%s%s. Next: holdfast alloc status %s",
				 record->name, way->last_message[0] ? ": " : "", way->last_message,
				 record->alloc_id);
	return error_set(err, STATUS_FAILED_PRECONDITION, 0, "volume %s: %s", record->name,
			 way->last_message[0] ? way->last_message
					      : "its allocation failed, and the node gave no reason");
}

static enum status go(struct way *way, struct error *err)
{
	enum status status = STATUS_OK;

	while (status == STATUS_OK && !way->is_over) {
		enum hold_event event = left_us(way) > 0 ? ask(way) : HOLD_DEADLINE;

		status = act(way, hold_step(&way->hold, event), err);
	}
	return status == STATUS_OK ? outcome(way, err) : status;
}

static struct way way_of(struct docker_claim *claim)
{
	return (struct way){.claim = claim,
			    .is_shared = claim->record->n_mount_ids > 0,
			    .until_us = clock_monotonic_us() + claim->timeout_us,
			    .backoff = BACKOFF_INIT(RETRY_MIN_US, RETRY_MAX_US)};
}

static enum status take(struct docker_claim *claim, struct error *err)
{
	assert(claim->alloc);

	struct way way = way_of(claim);
	enum status status = STATUS_OK;

	if (!claim->record->alloc_id[0]) {
		way.hold.state = HOLD_SUBMITTING;
		status = begin_anew(&way, err);
	} else {
		way.hold.state = claim->record->is_ending ? HOLD_CLEARING : HOLD_LOOKING;
	}
	return status == STATUS_OK ? go(&way, err) : status;
}

enum status docker_claim_release(struct docker_claim *claim, struct error *err)
{
	struct way way = way_of(claim);

	if (!claim->record->alloc_id[0])
		return STATUS_OK;
	way.hold.state = HOLD_STOPPING;
	claim->record->is_ending = true;
	TRY(save(&way, err));
	return go(&way, err);
}

static bool is_for_reading(const Holdfast__V1__VolumeRequest *volume)
{
	return volume->read_only ||
	       volume->access_mode == HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_READER_ONLY ||
	       volume->access_mode == HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_READER_ONLY;
}

/* Is what an engine is to be given the volume, and nothing that it could do more with? */
static enum status check_published(const struct docker_claim *claim, struct error *err)
{
	bool is_read_only = false;
	enum status status =
		hold_publish_check(claim->publish_dir, claim->record->path, claim->alloc, &is_read_only, err);

	if (status != STATUS_OK || is_read_only || !is_for_reading(claim->alloc->volumes[0]))
		return status;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"volume %s: read-only is refused: its file system is mounted for writing, and podman's "
		"containers could write to it. Next: a profile with ro = yes (mounthelper.policy), or "
		"without read_only: -v %s:DIR:ro",
		claim->record->name, claim->record->name);
}

enum status docker_claim_take(struct docker_claim *claim, struct error *err)
{
	enum status status = take(claim, err);
	struct error ignored;

	if (status != STATUS_OK)
		return status;
	status = check_published(claim, err);
	if (status != STATUS_OK && claim->record->n_mount_ids == 0)
		(void)docker_claim_release(claim, &ignored); /* the sweep tries again */
	return status;
}

bool docker_claim_is_over(struct docker_claim *claim)
{
	struct way way = way_of(claim);
	enum hold_event event;

	if (!claim->record->alloc_id[0])
		return true;
	event = ask(&way); /* of HOLD_LOOKING, which is HOLD_GET */
	return event == HOLD_FREED || event == HOLD_ABSENT;
}
