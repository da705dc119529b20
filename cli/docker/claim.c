/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper of a volume that engines have mounted: its record. */

#include "docker/claim.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "hold/classify.h"
#include "hold/holder.h"
#include "hold/link.h"
#include "model/message.h"
#include "show/output.h"

#include <assert.h>
#include <holdfast/v1/allocations.pb-c.h>

struct docker_hold {
	struct holder holder; /* first: the keeper finds the claim by it */
	struct docker_claim *claim;
};

static enum status save(struct holder *holder, const struct hold_note *note, struct error *err)
{
	static const struct hold_note none = {.alloc_id = ""};
	const struct docker_claim *claim = ((struct docker_hold *)holder)->claim;
	Docker__VolumeRecord *record = claim->record;

	/* it is not mounted, nor known to the server, and no order to run it is on its way after a release */
	if (claim->is_again && holder->is_over && holder->hold.outcome == HOLD_DONE)
		note = &none;
	/* users of the allocation before have lost it, or are gone */
	while (note->alloc_id[0] && !str_eq(note->alloc_id, record->alloc_id) && record->n_mount_ids > 0)
		record_remove_mount(record, record->mount_ids[0]);
	if (!message_set_text(&record->alloc_id, note->alloc_id) ||
	    (!note->alloc_id[0] && !message_set_text(&record->path, "")))
		return error_no_memory(err, "a volume's record");
	record->is_ending = note->is_ending;
	return record_save(claim->dir, record, err);
}

static enum status become_ready(struct holder *holder, struct error *err)
{
	Docker__VolumeRecord *record = ((struct docker_hold *)holder)->claim->record;

	holder->is_over = true;
	return message_set_text(&record->path, holder->path) ? STATUS_OK
							     : error_no_memory(err, "a volume's record");
}

static const struct hold_keeper keeper = {
	.save = save,
	.ready = become_ready,
	.retry_min_us = 200 * USEC_PER_MSEC,
	.retry_max_us = 2 * USEC_PER_SEC,
	.explains = true,
};

/* Returns the node's last message; "": there is no message */
static const char *last_message(const Holdfast__V1__GetAllocationResponse *last)
{
	if (last && last->allocation->client_description[0])
		return last->allocation->client_description;
	for (size_t i = 0; last && i < last->n_claims; i++)
		if (last->claims[i]->last_error[0])
			return last->claims[i]->last_error;
	return "";
}

/* Why it did not come about. */
static enum status outcome(const struct holder *holder, const Docker__VolumeRecord *record, struct error *err)
{
	const struct error *why = holder->fatal.msg[0]	  ? &holder->fatal
				  : holder->at_end.msg[0] ? &holder->at_end
							  : &holder->trouble;
	const char *message = last_message(holder->last);

	if (holder->hold.outcome == HOLD_DONE && !holder->fatal.msg[0])
		return STATUS_OK;
	if (why->msg[0]) {
		*err = *why;
		return err->status;
	}
	if (holder->hold.outcome == HOLD_TIMED_OUT)
		return error_set(err, STATUS_DEADLINE_EXCEEDED, 0,
				 "volume %s: not done in time%s%s. Next: holdfast alloc status %s",
				 record->name, message[0] ? ": " : "", message, record->alloc_id);
	return error_set(err, STATUS_FAILED_PRECONDITION, 0, "volume %s: %s", record->name,
			 message[0] ? message : "its allocation failed, and the node gave no reason");
}

static enum status work(struct docker_claim *claim, enum hold_state from, struct error *err)
{
	const Docker__VolumeRecord *record = claim->record;
	struct docker_hold hold = {.holder = {.inv = claim->inv,
					      .connection = claim->connection,
					      .keeper = &keeper,
					      .alloc = claim->alloc,
					      .timeout_us = claim->timeout_us,
					      .wait_ms = claim->wait_ms,
					      .hold = {.state = from},
					      .note = {.is_ending = record->is_ending},
					      .is_shared = record->n_mount_ids > 0},
				   .claim = claim};
	enum status status;

	if (str_copy(hold.holder.note.alloc_id, UUID_SIZE, record->alloc_id) < 0)
		return error_set(err, STATUS_DATA_LOSS, 0, "volume %s: its record names no allocation",
				 record->name);
	holder_run(&hold.holder);
	status = outcome(&hold.holder, record, err);
	message_freep(&hold.holder.last);
	return status;
}

enum status docker_claim_release(struct docker_claim *claim, struct error *err)
{
	if (!claim->record->alloc_id[0])
		return STATUS_OK;
	claim->is_again = claim->record->is_ending;
	claim->record->is_ending = true;
	if (record_save(claim->dir, claim->record, err) != STATUS_OK)
		print_note("holdfast: going on without it: %s", err->msg);
	return work(claim, HOLD_STOPPING, err);
}

static bool is_for_reading(const Holdfast__V1__VolumeRequest *volume)
{
	return volume->read_only ||
	       volume->access_mode == HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_READER_ONLY ||
	       volume->access_mode == HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_READER_ONLY;
}

/* Checks that the path is the volume, and that a volume for reading cannot be written through it. */
static enum status check_published(const struct docker_claim *claim, struct error *err)
{
	struct hold_published found;
	enum status status =
		hold_publish_check(claim->publish_dir, claim->record->path, claim->alloc, &found, err);

	if (status != STATUS_OK || found.is_read_only || !is_for_reading(claim->alloc->volumes[0]))
		return status;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "volume %s cannot be read_only: its file system is mounted for writing, so podman's "
			 "containers could write. Next: use a profile with ro = yes (mounthelper.policy), "
			 "or, without read_only, -v %s:DIR:ro",
			 claim->record->name, claim->record->name);
}

enum status docker_claim_take(struct docker_claim *claim, struct error *err)
{
	const Docker__VolumeRecord *record = claim->record;
	enum status status;
	struct error ignored;

	assert(claim->alloc);
	TRY(work(claim,
		 !record->alloc_id[0] ? HOLD_SUBMITTING
		 : record->is_ending  ? HOLD_CLEARING
				      : HOLD_LOOKING,
		 err));
	status = check_published(claim, err);
	if (status != STATUS_OK && record->n_mount_ids == 0)
		(void)docker_claim_release(claim, &ignored); /* the sweep tries again */
	return status;
}

bool docker_claim_is_over(struct docker_claim *claim)
{
	Holdfast__V1__GetAllocationRequest request = HOLDFAST__V1__GET_ALLOCATION_REQUEST__INIT;
	cleanup_message Holdfast__V1__GetAllocationResponse *answer = NULL;
	struct error err;
	enum status status;

	if (!claim->record->alloc_id[0])
		return true;
	request.id = claim->record->alloc_id;
	status = connection_call(claim->connection, &holdfast__v1__allocations__descriptor, "Get",
				 &request.base, CALL_TIMEOUT_US, &answer, &err);
	return status == STATUS_OK ? answer->allocation && hold_classify_get(answer) == HOLD_FREED
				   : status == STATUS_NOT_FOUND && hold_is_gone(claim->record->path);
}
