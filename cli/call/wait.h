/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Waiting for an allocation to get where it shall, with a line of progress for a person. */

#include "call/connect.h"

#include <holdfast/v1/allocations.pb-c.h>

enum wait_goal {
	WAIT_RUNNING,  /* running, or already complete */
	WAIT_TERMINAL, /* complete, failed or lost */
};

/** Has the allocation ended on its node? */
bool alloc_is_terminal(const Holdfast__V1__Allocation *alloc);

/** Waits from @known on, the allocation of the last answer. STATUS_FAILED_PRECONDITION with the node's own
 * reason if it reaches another end than wanted, STATUS_DEADLINE_EXCEEDED after @timeout_us.
 * @ret the last answer, also when the allocation failed; owned by the caller, untouched when no answer
 * came */
enum status wait_alloc(struct connection *connection, const Holdfast__V1__Allocation *known,
		       enum wait_goal goal, uint64_t timeout_us, Holdfast__V1__GetAllocationResponse **ret,
		       struct error *err);
