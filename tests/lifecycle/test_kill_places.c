/* SPDX-License-Identifier: Apache-2.0 */
/* Which deaths the parts of a sweep visit, for scenarios whose number of steps depends on the order of nodes.
 */
#include "places.h"
#include "unit.h"

#include <string.h>

enum { STEPS = 40, PARTS = 9 };

struct model {
	int n_steps[2]; /* in each order */
	bool is_visited[STEPS + 1][FAULT_SIDE_N];
};

static bool order_at(int step, int side)
{
	return (step + side) % 2 == 1;
}

static void sweep(struct model *model, struct sample sample)
{
	struct places places = places_of(&sample);
	struct fault fault;

	while (places_next(&places, &fault)) {
		bool has_died = fault.step <= model->n_steps[places.is_reverse];

		assert_int_equal(places.is_reverse, order_at(fault.step, (int)fault.side));
		if (has_died)
			model->is_visited[fault.step][fault.side] = true;
		places_result(&places, has_died);
	}
	assert_true(places_have_ended(&places));
}

TEST(the_parts_of_a_sweep_visit_every_death)
{
	for (uint32_t parts = 1; parts <= PARTS; parts++)
		for (int n = 2; n <= STEPS; n += 3)
			for (int order = 0; order < 2; order++) {
				struct model model = {.n_steps = {2, 2}};

				model.n_steps[order] = n;
				for (uint32_t part = 0; part < parts; part++)
					sweep(&model, (struct sample){.part = part, .parts = parts});
				for (int step = 1; step <= n; step++)
					for (int side = 0; side < FAULT_SIDE_N; side++)
						if (step <= model.n_steps[order_at(step, side)] &&
						    !model.is_visited[step][side])
							fail_msg("%u parts, %d steps: step %d, side %d is in "
								 "none",
								 parts, n, step, side);
			}
}

TEST(a_whole_sweep_ends_after_one_life_in_each_order)
{
	struct places places = places_of(&(struct sample){.part = 0, .parts = 1});
	struct fault fault;
	int n_lives = 0;

	while (places_next(&places, &fault)) {
		n_lives += fault.step > 3;
		places_result(&places, fault.step <= 3);
	}
	assert_int_equal(n_lives, 2);
}

TEST(a_scenario_without_an_end_or_without_a_step_is_noticed)
{
	for (int dies = 0; dies < 2; dies++) {
		struct places places = places_of(&(struct sample){.part = 1, .parts = 4});
		struct fault fault;

		while (places_next(&places, &fault))
			places_result(&places, dies == 1);
		assert_false(places_have_ended(&places));
	}
}
