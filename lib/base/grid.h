/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Step tables: grid[event][state] is the effect of the event in the state, a column for each state.
 *
 * The first member of a cell is the next state: GRID_TO(state), GRID_STAY, or GRID_NO, which refuses the
 * event. GRID_NO is 0: a missing cell refuses. tests/golden/steps.txt has every step of every grid. */

#include <assert.h>
#include <stdint.h>

enum { GRID_NO = 0, GRID_STAY = UINT8_MAX };

#define GRID_TO(state) ((uint8_t)((state) + 1))

/** The state that follows @state by a cell that does not refuse. */
static inline unsigned int grid_next(uint8_t to, unsigned int state)
{
	assert(to != GRID_NO);
	return to == GRID_STAY ? state : to - 1U;
}
