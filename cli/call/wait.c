/* SPDX-License-Identifier: Apache-2.0 */
#include "call/wait.h"

#include "pb/pbjson_word.h"
#include "show/output.h"
#include "show/progress.h"

#include <assert.h>
#include <inttypes.h>

enum { ROUND_MAX_MS = 30000 }; /* of one blocking query */

static const char *status_word(const Holdfast__V1__Allocation *alloc, char text[static PBJSON_WORD_SIZE])
{
	return pbjson_word_text(&holdfast__v1__client_status__descriptor, (int)alloc->client_status, text);
}

static void show_progress(const Holdfast__V1__Allocation *alloc)
{
	char word[PBJSON_WORD_SIZE];

	progress_show("allocation %.36s is %s%s%.80s", alloc->id, status_word(alloc, word),
		      alloc->client_description[0] ? ": " : "", alloc->client_description);
}

bool alloc_is_terminal(const Holdfast__V1__Allocation *alloc)
{
	switch (alloc->client_status) {
	case HOLDFAST__V1__CLIENT_STATUS__COMPLETE:
	case HOLDFAST__V1__CLIENT_STATUS__FAILED:
	case HOLDFAST__V1__CLIENT_STATUS__LOST:
		return true;
	case HOLDFAST__V1__CLIENT_STATUS__CLIENT_STATUS_UNSPECIFIED:
	case HOLDFAST__V1__CLIENT_STATUS__PENDING:
	case HOLDFAST__V1__CLIENT_STATUS__RUNNING:
	case _HOLDFAST__V1__CLIENT_STATUS_IS_INT_SIZE:
		break;
	}
	return false;
}

static bool is_there(const Holdfast__V1__Allocation *alloc, enum wait_goal goal)
{
	if (alloc_is_terminal(alloc))
		return true;
	return goal == WAIT_RUNNING && alloc->client_status == HOLDFAST__V1__CLIENT_STATUS__RUNNING;
}

static enum status outcome(const Holdfast__V1__Allocation *alloc, struct error *err)
{
	const char *why = alloc->client_description;
	char word[PBJSON_WORD_SIZE];

	if (alloc->client_status != HOLDFAST__V1__CLIENT_STATUS__FAILED &&
	    alloc->client_status != HOLDFAST__V1__CLIENT_STATUS__LOST)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0, "allocation %s is %s: %s", alloc->id,
			 status_word(alloc, word), why[0] ? why : "the node gave no reason");
}

/* Gets the allocation once its index, or one of its claims', which change more often, is beyond @index. */
static enum status get(struct connection *connection, const Holdfast__V1__Allocation *known, uint64_t index,
		       uint64_t left_us, Holdfast__V1__GetAllocationResponse **ret, struct error *err)
{
	Holdfast__V1__GetAllocationRequest request = HOLDFAST__V1__GET_ALLOCATION_REQUEST__INIT;
	cleanup_message Holdfast__V1__GetAllocationResponse *answer = NULL;
	uint64_t wait_ms = left_us / USEC_PER_MSEC;

	request.id = known->id;
	request.index = index;
	request.wait_ms = (uint32_t)(wait_ms < ROUND_MAX_MS ? wait_ms : ROUND_MAX_MS);
	TRY(connection_call(connection, &holdfast__v1__allocations__descriptor, "Get", &request.base,
			    request.wait_ms * USEC_PER_MSEC + CALL_TIMEOUT_US, &answer, err));
	if (!answer->allocation)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no allocation");
	*ret = TAKE_PTR(answer);
	return STATUS_OK;
}

/* Returns the node's last error; "" when it reported no error. */
static const char *last_error(const Holdfast__V1__GetAllocationResponse *answer)
{
	for (size_t i = 0; i < answer->n_claims; i++)
		if (answer->claims[i]->last_error[0])
			return answer->claims[i]->last_error;
	return "";
}

static enum status timed_out(const Holdfast__V1__GetAllocationResponse *answer, struct error *err)
{
	const Holdfast__V1__Allocation *alloc = answer->allocation;
	const char *why = alloc->client_description[0] ? alloc->client_description : last_error(answer);
	char word[PBJSON_WORD_SIZE];

	return error_set(
		err, STATUS_DEADLINE_EXCEEDED, 0,
		"allocation %s on node %s is still %s%s%s; %s. Next: holdfast alloc status %s, holdfast node "
		"status %s",
		alloc->id, alloc->node_id, status_word(alloc, word), why[0] ? ": " : "", why,
		answer->node_disconnected_ms
			? "its node is not connected, and nothing happens before it is back"
			: "the node continues with it",
		alloc->id, alloc->node_id);
}

enum status wait_alloc(struct connection *connection, const Holdfast__V1__Allocation *known,
		       enum wait_goal goal, uint64_t timeout_us, Holdfast__V1__GetAllocationResponse **ret,
		       struct error *err)
{
	uint64_t deadline_us = clock_monotonic_us() + timeout_us;
	cleanup_message Holdfast__V1__GetAllocationResponse *last = NULL;
	enum status status;

	for (;;) {
		Holdfast__V1__GetAllocationResponse *answer = NULL;
		uint64_t now_us;

		show_progress(known);
		now_us = clock_monotonic_us();
		/* in its final state it is only looked at: it may never change again */
		status = get(connection, known, last ? last->index : known->modify_index,
			     now_us < deadline_us && !is_there(known, goal) ? deadline_us - now_us : 0,
			     &answer, err);
		if (status != STATUS_OK)
			break;
		message_freep(&last);
		assert(answer);
		last = answer;
		known = answer->allocation;
		if (is_there(known, goal)) {
			status = outcome(known, err);
			break;
		}
		if (clock_monotonic_us() >= deadline_us) {
			status = timed_out(last, err);
			break;
		}
	}
	progress_end();
	if (last)
		*ret = TAKE_PTR(last);
	return status;
}
