/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/str.h"
#include "state/state.h"

#include <string.h>

static struct volume volume(const char *namespace, const char *id)
{
	struct volume v = {0};

	(void)str_copy(v.namespace, sizeof(v.namespace), namespace);
	(void)str_copy(v.id, sizeof(v.id), id);
	return v;
}

static struct claim claim(int n, const char *volume_id, enum claim_state state)
{
	struct claim c = {.namespace = "default", .node_id = "n1", .state = state};

	(void)str_format(c.id, sizeof(c.id), "01890000-0000-7000-8000-%012d", n);
	(void)str_format(c.allocation_id, sizeof(c.allocation_id), "01890000-0000-7000-9000-%012d", n);
	(void)str_copy(c.volume_id, sizeof(c.volume_id), volume_id);
	return c;
}

static void volumes_are_found_whole_and_walked_in_order_by_namespace(void **st)
{
	static const char *const ids[] = {"db", "db1", "da", "db-2"};
	struct state state;
	struct volume_entry *entry;

	(void)st;
	state_init(&state);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct volume a = volume("default", ids[i]);
		struct volume b = volume("other", ids[i]);

		assert_int_equal(state_put_volume(&state, &a, NULL), STATUS_OK);
		assert_int_equal(state_put_volume(&state, &b, NULL), STATUS_OK);
	}
	assert_int_equal(state.n_volumes, 8);
	assert_string_equal(state_volume(&state, "default", "db")->volume.id, "db");
	assert_null(state_volume(&state, "default", "d"));
	assert_null(state_volume(&state, "third", "db"));
	entry = state_volume_from(&state, "default", "db");
	assert_string_equal(entry->volume.id, "db");
	entry = state_volume_next(entry);
	assert_string_equal(entry->volume.id, "db-2");
	entry = state_volume_next(entry);
	assert_string_equal(entry->volume.id, "db1");
	entry = state_volume_next(entry);
	assert_string_equal(entry->volume.namespace, "other");
	state_release(&state);
}

static void keys_that_are_too_long_find_nothing(void **st)
{
	struct state state;
	char text[VOLUME_ID_MAX + 2];

	(void)st;
	state_init(&state);
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_null(state_volume(&state, "default", text));
	assert_null(state_volume(&state, text, "db"));
	assert_null(state_alloc(&state, text));
	assert_null(state_claim(&state, text));
	assert_null(state_node(&state, text));
	assert_null(state_volume_from(&state, text, ""));
	state_release(&state);
}

/* A look-up remembers what it found: what has gone, or came again, must not be mistaken for it. */
static void what_was_found_last_is_forgotten_when_it_goes(void **st)
{
	struct volume v = volume("default", "db");
	struct volume other = volume("other", "db");
	struct claim c = claim(1, "db", CLAIM_RESERVED);
	struct alloc a = {.node_id = "n1"};
	struct state state;

	(void)st;
	(void)str_copy(a.id, sizeof(a.id), c.allocation_id);
	state_init(&state);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(state_put_volume(&state, &v, NULL), STATUS_OK);
		assert_int_equal(state_put_volume(&state, &other, NULL), STATUS_OK);
		assert_int_equal(state_put_alloc(&state, &a, NULL), STATUS_OK);
		assert_int_equal(state_put_claim(&state, &c, NULL), STATUS_OK);
		assert_string_equal(state_volume(&state, "default", "db")->namespace, "default");
		assert_string_equal(state_volume(&state, "other", "db")->namespace, "other");
		assert_null(state_volume(&state, "other", "d"));
		assert_ptr_equal(state_claim(&state, c.id)->volume, state_volume(&state, "default", "db"));
		assert_null(state_claim(&state, a.id));
		assert_ptr_equal(LIST_FIRST(&state_alloc(&state, a.id)->claims), state_claim(&state, c.id));
		assert_null(state_alloc(&state, c.id));
		state_delete_claim(&state, state_claim(&state, c.id));
		assert_null(state_claim(&state, c.id));
		state_delete_alloc(&state, state_alloc(&state, a.id));
		assert_null(state_alloc(&state, a.id));
		state_delete_volume(&state, state_volume(&state, "default", "db"));
		assert_null(state_volume(&state, "default", "db"));
	}
	state_release(&state);
}

static void live_claims_are_counted_through_their_whole_life(void **st)
{
	struct volume v = volume("default", "db");
	struct state state;
	struct volume_entry *entry;

	(void)st;
	state_init(&state);
	assert_int_equal(state_put_volume(&state, &v, NULL), STATUS_OK);
	entry = state_volume(&state, "default", "db");
	for (int n = 0; n < 4; n++) {
		struct claim c = claim(n, "db", CLAIM_RESERVED);

		assert_int_equal(state_put_claim(&state, &c, NULL), STATUS_OK);
		assert_int_equal(entry->n_live, n + 1);
		c.state = CLAIM_TAKEN;
		assert_int_equal(state_put_claim(&state, &c, NULL), STATUS_OK);
		assert_int_equal(entry->n_live, n + 1);
	}
	for (int n = 0; n < 4; n++) {
		struct claim c = claim(n, "db", CLAIM_FREED);

		assert_int_equal(state_put_claim(&state, &c, NULL), STATUS_OK);
		assert_int_equal(entry->n_live, 3 - n);
		assert_int_equal(state.n_claims, 3 - n);
		assert_int_equal(state_put_claim(&state, &c, NULL), STATUS_OK);
		state_delete_claim(&state, state_claim(&state, c.id));
		assert_int_equal(entry->n_live, 3 - n);
	}
	assert_true(LIST_EMPTY(&entry->claims));
	state_release(&state);
}

static void a_claim_of_an_unknown_volume_is_refused(void **st)
{
	struct claim c = claim(1, "db", CLAIM_TAKEN);
	struct state state;
	struct error err;

	(void)st;
	state_init(&state);
	assert_int_equal(state_put_claim(&state, &c, &err), STATUS_DATA_LOSS);
	assert_null(state_claim(&state, c.id));
	state_release(&state);
}

static void a_claim_outlives_the_order_in_which_its_allocation_comes_and_goes(void **st)
{
	struct volume v = volume("default", "db");
	struct claim c = claim(1, "db", CLAIM_TAKEN);
	struct alloc a = {.node_id = "n1"};
	struct state state;

	(void)st;
	(void)str_copy(a.id, sizeof(a.id), c.allocation_id);
	state_init(&state);
	assert_int_equal(state_put_volume(&state, &v, NULL), STATUS_OK);
	assert_int_equal(state_put_claim(&state, &c, NULL), STATUS_OK); /* its allocation is not known */
	assert_int_equal(state_put_alloc(&state, &a, NULL), STATUS_OK);
	assert_true(LIST_EMPTY(&state_alloc(&state, a.id)->claims));
	state_delete_claim(&state, state_claim(&state, c.id));
	assert_int_equal(state_put_claim(&state, &c, NULL), STATUS_OK);
	assert_false(LIST_EMPTY(&state_alloc(&state, a.id)->claims));
	state_release(&state);
}

static void allocations_that_are_not_over_are_counted_by_node(void **st)
{
	struct alloc a = {.id = "01890000-0000-7000-8000-000000000001", .node_id = "n1"};
	struct alloc b = {.id = "01890000-0000-7000-8000-000000000002", .node_id = "n1"};
	struct state state;

	(void)st;
	state_init(&state);
	assert_int_equal(state_put_alloc(&state, &a, NULL), STATUS_OK);
	assert_int_equal(state_put_alloc(&state, &b, NULL), STATUS_OK);
	assert_int_equal(state_node(&state, "n1")->n_live_allocs, 2);
	a.client_status = CLIENT_FAILED;
	assert_int_equal(state_put_alloc(&state, &a, NULL), STATUS_OK);
	assert_int_equal(state_put_alloc(&state, &a, NULL), STATUS_OK);
	assert_int_equal(state_node(&state, "n1")->n_live_allocs, 1);
	state_delete_alloc(&state, state_alloc(&state, a.id));
	assert_int_equal(state_node(&state, "n1")->n_live_allocs, 1);
	state_delete_alloc(&state, state_alloc(&state, b.id));
	assert_null(state_node(&state, "n1")); /* nothing names it any more */
	state_release(&state);
}

static void an_allocation_may_be_replaced_by_a_copy_that_shares_its_lists(void **st)
{
	struct volume_request request = {.name = "data", .source = "db"};
	struct alloc a = {.id = "01890000-0000-7000-8000-000000000001",
			  .node_id = "n1",
			  .volumes = &request,
			  .n_volumes = 1};
	struct state state;

	(void)st;
	state_init(&state);
	assert_int_equal(state_put_alloc(&state, &a, NULL), STATUS_OK);
	a = state_alloc(&state, a.id)->alloc;
	a.client_status = CLIENT_RUNNING;
	assert_int_equal(state_put_alloc(&state, &a, NULL), STATUS_OK);
	assert_int_equal(state_alloc(&state, a.id)->alloc.client_status, CLIENT_RUNNING);
	assert_string_equal(state_alloc(&state, a.id)->alloc.volumes[0].source, "db");
	state_delete_alloc(&state, state_alloc(&state, a.id));
	state_release(&state);
}

static void a_node_that_is_gone_stays_as_a_name_while_something_names_it(void **st)
{
	struct node n = {.id = "n1", .boot_id = "b0010000-0000-4000-8000-000000000001"};
	struct plugin_instance i = {.node_id = "n1", .plugin.plugin_id = "native"};
	struct volume v = volume("default", "db");
	struct claim c = claim(1, "db", CLAIM_FREED);
	struct state state;

	(void)st;
	state_init(&state);
	assert_int_equal(state_put_node(&state, &n, NULL), STATUS_OK);
	assert_int_equal(state_put_instance(&state, &i, NULL), STATUS_OK);
	assert_int_equal(state_put_volume(&state, &v, NULL), STATUS_OK);
	assert_int_equal(state_put_claim(&state, &c, NULL), STATUS_OK);
	assert_int_equal(state.n_nodes, 1);
	state_delete_node(&state, state_node(&state, "n1"));
	assert_int_equal(state.n_nodes, 0);
	assert_non_null(state_node(&state, "n1"));
	assert_false(node_is_registered(state_node(&state, "n1")));
	assert_null(state_plugin(&state, "native"));
	assert_int_equal(state_put_node(&state, &n, NULL), STATUS_OK); /* back */
	assert_int_equal(state.n_nodes, 1);
	state_delete_claim(&state, state_claim(&state, c.id));
	assert_true(node_is_registered(state_node(&state, "n1")));
	state_delete_node(&state, state_node(&state, "n1"));
	assert_null(state_node(&state, "n1"));
	state_release(&state);
}

static void a_volumes_generation_is_raised_by_its_claims_and_never_goes_back(void **st)
{
	static const struct {
		bool is_claims;
		uint64_t generation, then;
	} steps[] = {{false, 3, 3}, {true, 5, 5}, {true, 4, 5}, {false, 4, 5}, {false, 6, 6}, {true, 5, 6}};
	struct volume v = volume("default", "db");
	struct state state;

	(void)st;
	state_init(&state);
	for (int i = 0; i < (int)ARRAY_SIZE(steps); i++) {
		struct claim c = claim(i, "db", CLAIM_FREED);

		v.generation = c.generation = steps[i].generation;
		assert_int_equal(steps[i].is_claims ? state_put_claim(&state, &c, NULL)
						    : state_put_volume(&state, &v, NULL),
				 STATUS_OK);
		assert_int_equal(state_volume(&state, "default", "db")->volume.generation, steps[i].then);
	}
	state_release(&state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(volumes_are_found_whole_and_walked_in_order_by_namespace),
		cmocka_unit_test(keys_that_are_too_long_find_nothing),
		cmocka_unit_test(what_was_found_last_is_forgotten_when_it_goes),
		cmocka_unit_test(live_claims_are_counted_through_their_whole_life),
		cmocka_unit_test(allocations_that_are_not_over_are_counted_by_node),
		cmocka_unit_test(an_allocation_may_be_replaced_by_a_copy_that_shares_its_lists),
		cmocka_unit_test(a_node_that_is_gone_stays_as_a_name_while_something_names_it),
		cmocka_unit_test(a_claim_of_an_unknown_volume_is_refused),
		cmocka_unit_test(a_volumes_generation_is_raised_by_its_claims_and_never_goes_back),
		cmocka_unit_test(a_claim_outlives_the_order_in_which_its_allocation_comes_and_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
