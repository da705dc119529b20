/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Answers of the server as events of `holdfast volume hold`. Pure. */

#include "base/error.h"
#include "hold/hold.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/explain.pb-c.h>

/** What the answers to Run and Stop say: never HOLD_FREED, for they do not tell the claims. */
enum hold_event hold_classify_alloc(const Holdfast__V1__Allocation *alloc);

enum hold_event hold_classify_get(const Holdfast__V1__GetAllocationResponse *answer);

/** What a refusal of @request says. @details may be NULL: with nobody named who is in the way, the node or a
 * plugin may only not be ready yet. */
enum hold_event hold_classify_error(enum hold_request request, enum status status,
				    const Holdfast__V1__ErrorDetails *details);

/** The claim that is not free yet; NULL: there is none. */
const Holdfast__V1__Claim *hold_live_claim(Holdfast__V1__Claim *const *claims, size_t n_claims);
