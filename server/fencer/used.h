/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Orders that were carried out, and their answers: a file for each below the fencer's state folder.
 *
 * An order is on the disk as begun before its agent runs, and with its answer when it has ended, so it is
 * carried out once: a repeat gets the same answer, and one that was interrupted is answered as unsure. Orders
 * that have expired are removed; then every order that ends no later than the latest of them counts as
 * expired, so a clock that is put back makes no old order valid. */

#include "base/error.h"

#include <fence_order.h>
#include <holdfast/v1/fences.pb-c.h>
#include <stdint.h>

struct used;

enum used_state { USED_NEW, USED_BEGUN, USED_DONE };

/** @folder exists. @ret owned by the caller, used_free(). */
enum status used_open(const char *folder, struct used **ret, struct error *err);
/** NULL is allowed. */
void used_free(struct used *used);

/** Orders that end no later are expired. */
int64_t used_floor_ms(const struct used *used);

/** @ret_answer the answer of an order that is done, owned by the caller,
 * holdfast__v1__fence_answer__free_unpacked(). */
enum status used_look(const struct used *used, const struct fence_order *order, enum used_state *ret,
		      Holdfast__V1__FenceAnswer **ret_answer, struct error *err);

/** Durable when it returns STATUS_OK; STATUS_ALREADY_EXISTS: it was begun before. */
enum status used_begin(struct used *used, const struct fence_order *order, int64_t now_ms, struct error *err);

/** Keep the answer, durably. */
enum status used_finish(struct used *used, const struct fence_order *order,
			const Holdfast__V1__FenceAnswer *answer, struct error *err);
