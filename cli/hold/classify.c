/* SPDX-License-Identifier: Apache-2.0 */
#include "hold/classify.h"

#include "call/wait.h"

const Holdfast__V1__Claim *hold_live_claim(Holdfast__V1__Claim *const *claims, size_t n_claims)
{
	for (size_t i = 0; i < n_claims; i++)
		if (claims[i]->state != HOLDFAST__V1__CLAIM_STATE__FREED)
			return claims[i];
	return NULL;
}

enum hold_event hold_classify_alloc(const Holdfast__V1__Allocation *alloc)
{
	if (alloc_is_terminal(alloc) || alloc->desired_status == HOLDFAST__V1__DESIRED_STATUS__STOP)
		return HOLD_ENDING;
	if (alloc->client_status == HOLDFAST__V1__CLIENT_STATUS__RUNNING && alloc->n_published > 0)
		return HOLD_RUNNING;
	return alloc->node_id[0] == '\0' && alloc->client_status == HOLDFAST__V1__CLIENT_STATUS__PENDING
		       ? HOLD_QUEUED
		       : HOLD_PENDING;
}

enum hold_event hold_classify_get(const Holdfast__V1__GetAllocationResponse *answer)
{
	if (alloc_is_terminal(answer->allocation) && !hold_live_claim(answer->claims, answer->n_claims))
		return HOLD_FREED;
	return hold_classify_alloc(answer->allocation);
}

enum hold_event hold_classify_error(enum hold_request request, enum status status,
				    const Holdfast__V1__ErrorDetails *details)
{
	bool is_run = request == HOLD_RUN;

	switch (status) {
	case STATUS_NOT_FOUND: /* of Run: the volume or the node */
		return is_run ? HOLD_INVALID : HOLD_ABSENT;
	case STATUS_PERMISSION_DENIED:
	case STATUS_UNAUTHENTICATED:
		return HOLD_DENIED;
	case STATUS_ALREADY_EXISTS:
		return HOLD_OTHER;
	case STATUS_INVALID_ARGUMENT:
	case STATUS_OUT_OF_RANGE:
	case STATUS_UNIMPLEMENTED:
		return HOLD_INVALID;
	case STATUS_FAILED_PRECONDITION:
		return is_run && details && details->n_claims > 0 ? HOLD_REFUSED : HOLD_LOST;
	case STATUS_OK:
	case STATUS_CANCELLED:
	case STATUS_UNKNOWN:
	case STATUS_DEADLINE_EXCEEDED:
	case STATUS_RESOURCE_EXHAUSTED:
	case STATUS_ABORTED:
	case STATUS_INTERNAL:
	case STATUS_UNAVAILABLE:
	case STATUS_DATA_LOSS:
	case STATUS_N:
		break;
	}
	return HOLD_LOST;
}
