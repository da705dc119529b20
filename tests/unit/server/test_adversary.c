/* What must not happen: a second writer, a claim that nobody can free, a word before it is durable, a server
 * that one node or one text brings down. */

#include "cluster.h"
#include "unit.h"

#include "base/str.h"

#include <string.h>

static void lose_node(struct fixture *f, struct fake_node *node)
{
	char id[NODE_ID_MAX + 1];

	(void)str_copy(id, sizeof(id), node->id);
	fake_node_disconnect(node);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, id)));
}

static void a_node_that_comes_back_with_work_that_was_given_up_is_told_to_stop_it(void **state)
{
	struct fixture *f = *state;
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT;
	Holdfast__V1__AllocStatus *list[] = {&status};
	char id[] = ALLOC_1;

	take_volume(f);
	lose_node(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(detach(f, "n1", "it burnt", NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	status.alloc_id = id;
	status.client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING; /* the operator was wrong */
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	UNTIL(f, f->n1.stops == 1);
	assert_string_equal(f->n1.last_stop, ALLOC_1);
	settle(f);
	assert_int_equal(f->n1.forgets, 0); /* not before it has ended there */
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.forgets == 1);
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status, CLIENT_LOST);
}

static void a_new_boot_frees_claims_although_its_first_hello_broke_off(void **state)
{
	struct fixture *f = *state;
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT;
	Holdfast__V1__AllocStatus *list[] = {&status};
	char id[] = ALLOC_1;

	take_volume(f);
	lose_node(f, &f->n1);
	status.alloc_id = id;
	status.client_status = (Holdfast__V1__ClientStatus)99;
	fake_node_connect(&f->n1, "n1", BOOT_2, list, 1);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NEW_BOOT);
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status, CLIENT_LOST);
}

/* Whatever a crash leaves out, the next hello of that boot does again. */
static void the_new_boot_of_a_node_is_stored_after_what_follows_from_it(void **state)
{
	struct fixture *f = *state;

	take_volume(f);
	lose_node(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK); /* all of it is durable */
	assert_string_equal(state_node(&f->server->state, "n1")->node.boot_id, BOOT_2);
	assert_true(state_node(&f->server->state, "n1")->node.modify_index >
		    claim_of(f, ALLOC_1).modify_index);
}

static void a_boot_id_is_a_lower_case_uuid(void **state)
{
	static const char *const refused[] = {
		"B0010000-0000-4000-8000-000000000001",	   "b0010000-0000-4000-8000-00000000000",  "",
		"b0010000-0000-4000-8000-00000000000\xff", "b00100000000-4000-8000-000000000001-",
	};
	struct fixture *f = *state;

	take_volume(f);
	lose_node(f, &f->n1);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		fake_node_connect(&f->n1, "n1", refused[i], NULL, 0);
		assert_true(f->n1.closed);
		assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
	}
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_node_that_comes_back_with_work_that_was_given_up_is_told_to_stop_it, setup,
			teardown),
		cmocka_unit_test_setup_teardown(a_new_boot_frees_claims_although_its_first_hello_broke_off,
						setup, teardown),
		cmocka_unit_test_setup_teardown(the_new_boot_of_a_node_is_stored_after_what_follows_from_it,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_boot_id_is_a_lower_case_uuid, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
