/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Writes records, to the own log and the kernel's audit, in this order: about the helper's own life, and the
 * intent and result of each operation. */

#include "admission.h"
#include "helper.h"
#include "outcome.h"
#include "wire.h"

/** Record START with the facts of this process and the mounts that it found. It is the first record, and sets
 * up h->trail except its descriptors and names. If the trail does not take it, h->trail_fault has the cause.
 * The helper still serves, because cleaning up needs no trail; the own log gets START before any other
 * record. */
void record_start(struct helper *h, uint32_t staged, uint32_t published);

/** Record what refusals are left, and STOP or, for @is_violation, VIOLATION; bring everything to the medium.
 */
void record_end(struct helper *h, bool is_violation, enum reason reason, uint64_t seq);

/** Record a failed assertion, after which the helper ends. */
void record_assertion(struct helper *h, const char *file, unsigned int line);

/** Record the intent of a request, its result when there is an @outcome, or its refusal without @admission. A
 * result or refusal is in the own log when this returns; record_pass_on() is due after the reply.
 * @ret_rec number in the own log, untouched on failure
 * Returns 0, or a negative errno when the own log, or audit where the policy requires it, did not take it. */
int record_request(struct helper *h, const union mh_request *req, const struct admission *admission,
		   const struct outcome *outcome, uint64_t *ret_rec);

/** SHA-256 of the record @rec when it is the last one that this process wrote, and to the newest file; else
 * @ret stays as it is. */
void record_head(struct helper *h, uint64_t rec, uint8_t ret[static TICKET_DIGEST_SIZE]);

/** Give the last record to the kernel's audit, unless it has it already. */
void record_pass_on(struct helper *h);

/** One record for the refusals that were only counted, @at_end or as soon as the rate of records allows. */
void record_refusals_summary(struct helper *h, uint64_t now_us, bool at_end);
