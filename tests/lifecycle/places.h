/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The places at which a scenario is killed: before and after each durable step, or those of a sample. Nodes
 * come back in either order, by turns: the scenario can have fewer steps in one order than in the other. */

#include "fault.h"
#include "sample.h"

#include <stdbool.h>

enum { PLACES_STEPS_MAX = 400 };

struct places {
	struct sample sample;
	int next;	      /* 2 * step + side */
	bool is_reverse;      /* the order of nodes at the current place: the last one first */
	bool has_survived[2]; /* in each order, since the last death */
	int n_lives;	      /* since the last death */
	int n_deaths;
};

struct places places_of(const struct sample *sample);

/** Moves to the next place. Returns false if the scenario has ended: it survived the last two places, among
 * them one of each order that the sample has; or if it has no end. */
bool places_next(struct places *places, struct fault *ret);

/** Reports what the scenario did at the current place. */
void places_result(struct places *places, bool has_died);

/** True if the scenario has an end, and at least one step. */
bool places_have_ended(const struct places *places);
