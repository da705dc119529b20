/* SPDX-License-Identifier: Apache-2.0 */
/* Places at which a server is killed. */
#include "places.h"

enum { STEPS_ALWAYS = 2 };

static struct fault fault_at(int place)
{
	return (struct fault){.step = place / FAULT_SIDE_N, .side = (enum fault_side)(place % FAULT_SIDE_N)};
}

/* In one order before a step, in the other one after it; and the other way round at the next step. */
static bool is_reverse_at(const struct fault *fault)
{
	return (fault->step + (int)fault->side) % 2 == 1;
}

/* The places of a part are spread over both sides: 7 is odd. */
static bool is_in_sample(const struct sample *sample, const struct fault *fault)
{
	return sample_has(sample, (uint64_t)fault->step + 7 * (uint64_t)fault->side);
}

/* The orders repeat after twice as many steps as the sample has parts. */
static bool sample_has_order(const struct sample *sample, bool is_reverse)
{
	for (int place = FAULT_SIDE_N; place < FAULT_SIDE_N * (1 + 2 * (int)sample->parts); place++) {
		const struct fault fault = fault_at(place);

		if (is_in_sample(sample, &fault) && is_reverse_at(&fault) == is_reverse)
			return true;
	}
	return false;
}

struct places places_of(const struct sample *sample)
{
	return (struct places){.sample = *sample, .next = FAULT_SIDE_N};
}

bool places_have_ended(const struct places *places)
{
	if (places->n_lives < FAULT_SIDE_N || places->n_deaths < FAULT_SIDE_N)
		return false;
	for (int order = 0; order < 2; order++)
		if (!places->has_survived[order] && sample_has_order(&places->sample, order == 1))
			return false;
	return true;
}

bool places_next(struct places *places, struct fault *ret)
{
	if (places_have_ended(places))
		return false;
	for (; places->next < FAULT_SIDE_N * PLACES_STEPS_MAX; places->next++) {
		*ret = fault_at(places->next);
		if (ret->step > STEPS_ALWAYS && !is_in_sample(&places->sample, ret))
			continue;
		places->is_reverse = is_reverse_at(ret);
		places->next++;
		return true;
	}
	return false;
}

void places_result(struct places *places, bool has_died)
{
	if (has_died) {
		places->n_deaths++;
		places->n_lives = 0;
		places->has_survived[0] = places->has_survived[1] = false;
		return;
	}
	places->n_lives++;
	places->has_survived[places->is_reverse] = true;
}
