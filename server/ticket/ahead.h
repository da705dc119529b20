/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Tickets that are signed while their claims are on their way to the disk, with one signature for as many as
 * one may be for: signing costs as much as the rest of a grant. A signature that is made leaves the server
 * only with the answer, so when that is sent is not decided here. */

#include "base/error.h"
#include "ticket/issuer.h"

#include <stdbool.h>
#include <stdint.h>

struct ticket_signer; /* a thread */
struct ticket_ahead;  /* one ticket; of the event loop's thread */

/** @issuer borrowed, must outlive it. @ret owned by the caller. */
enum status ticket_signer_new(const struct ticket_issuer *issuer, struct ticket_signer **ret,
			      struct error *err);

/** NULL is allowed. Every ticket must have been freed. */
void ticket_signer_free(struct ticket_signer *signer);

/** Let @ticket be signed, which is copied. Owned by the caller; NULL when memory is short: then it is signed
 * when it is needed. */
struct ticket_ahead *ticket_ahead_new(struct ticket_signer *signer, const struct ticket *ticket);

/** NULL is allowed. */
void ticket_ahead_free(struct ticket_ahead *ahead);

/** The ticket, signed, if it is of @generation. NULL is allowed. What the signer's thread has not begun with,
 * as it waits for a full batch, is signed here. @ret untouched when false. */
bool ticket_ahead_take(struct ticket_ahead *ahead, uint64_t generation, struct ticket *ret);
