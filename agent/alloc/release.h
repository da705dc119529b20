/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Releases a claim that no allocation of the journal accounts for, and only on the server's order. Unmounts
 * all that the kernel shows of it, and journals a receipt. */

#include "alloc/runner.h"
#include "base/error.h"
#include "model/claim.h"

struct release;

/** The release is over, with its receipt durable; release_free() is due and allowed. */
typedef void release_done_fn(struct release *release, void *userdata);

/** Nothing happens before release_start().
 * @env borrowed; @claim and @wire_volume copied, both with well-formed ids
 * @note of this claim, borrowed; kept up to date and journalled until there is a receipt
 * @ret owned by the caller, release_free() */
enum status release_new(const struct runner_env *env, const struct claim *claim, const char *wire_volume,
			const struct ticket *ticket, struct release_note *note, release_done_fn *done,
			void *userdata, struct release **ret, struct error *err);

/** Once. There must be a mount snapshot. */
void release_start(struct release *release);

/** The server has it under the id of @claim now: receipts and errors are sent under that. */
void release_name_claim(struct release *release, const struct claim *claim);

const char *release_claim_id(const struct release *release);
/** As the server gave it. */
const struct claim *release_claim(const struct release *release);
/** Returns the server's proof of the claim; NULL if the server sent no ticket. */
const struct ticket *release_ticket(const struct release *release);
const char *release_alloc_id(const struct release *release);
const char *release_volume_id(const struct release *release);

/** The server wants it to continue without its plugin, from its next step on. */
void release_force(struct release *release, const struct claim *claim);

/** Returns whether the order to release @claim does not wait for its plugin: an operator requested that, or
 * the server gave up the claim without a report from this node and the plugin has failed. */
bool release_is_without_plugin(const struct claim *claim);

/** Fills in the operation in progress; false: nothing is in progress yet. */
bool release_info(const struct release *release, struct volume_op_info *ret);

/** No callbacks. The volume manager must be freed before, the journal closed. NULL is allowed. */
void release_free(struct release *release);
