/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Rates by name. Memory is taken only for names that have asked lately. */

#include <stdbool.h>
#include <stdint.h>

struct rates;

/** Owned by the caller, rates_free(); NULL when memory is short. */
struct rates *rates_new(void);
/** NULL is allowed. */
void rates_free(struct rates *rates);

/** Pay @cost_us (above 0, the same for a name at any time) under @name, of which @burst (at least 1) at once.
 * @now_us is monotonic. False when there have been too many, or when memory is short. */
bool rates_take(struct rates *rates, const char *name, uint64_t cost_us, uint32_t burst, uint64_t now_us);

/** @name, which has just taken one, pays @cost_us more, also beyond its burst. */
void rates_add(struct rates *rates, const char *name, uint64_t cost_us);
