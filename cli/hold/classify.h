/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Answers of the server as events of `holdfast volume hold`. Pure. */

#include "base/error.h"
#include "hold/hold.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/explain.pb-c.h>

/** Classifies the answers to Run and Stop: never as HOLD_FREED, since they do not include the claims. */
enum hold_event hold_classify_alloc(const Holdfast__V1__Allocation *alloc);

enum hold_event hold_classify_get(const Holdfast__V1__GetAllocationResponse *answer);

/** Classifies a refusal of @request. @details may be NULL: if they name no holder, the node or a plugin may
 * only not be ready yet. */
enum hold_event hold_classify_error(enum hold_request request, enum status status,
				    const Holdfast__V1__ErrorDetails *details);

/** Returns the claim that is not free yet; NULL: there is no such claim. */
const Holdfast__V1__Claim *hold_live_claim(Holdfast__V1__Claim *const *claims, size_t n_claims);
