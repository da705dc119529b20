/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of many claims with one attachment that are released at once: comparisons are counted, not timed.
 */

#include "cluster.h"
#include "unit.h"

#include "plugin/args.h"

enum { MANY = 40 };

static size_t n_compared;

bool __real_plugin_args_same_node(struct state *state, const struct claim *a, const struct claim *b);
bool __wrap_plugin_args_same_node(struct state *state, const struct claim *a, const struct claim *b);
bool __wrap_plugin_args_same_node(struct state *state, const struct claim *a, const struct claim *b)
{
	n_compared++;
	return __real_plugin_args_same_node(state, a, b);
}

TEST_ON(claims_of_one_attachment_cost_the_square_of_their_number, struct fixture, f, setup_shared_db,
	teardown_db)
{
	const struct volume_entry *db;
	char id[UUID_TEXT_SIZE];

	for (int i = 0; i < MANY; i++) {
		(void)str_format(id, sizeof(id), "01890000-0000-7000-8000-1%011d", i);
		take_claim(f, &f->n1, "db", id);
	}
	db = state_volume(&f->server->state, "default", "db");
	assert_int_equal(db->n_live, MANY);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	n_compared = 0;
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, db->n_live == 0);
	assert_in_range(n_compared, MANY, 20 * MANY * MANY);
}
