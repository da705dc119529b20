#include "csi_world.h"

#include "base/cleanup.h"

static void a_call_reaches_the_plugin_and_its_answer_the_caller(void **state)
{
	struct csi_world *world = *state;
	struct end end = {0};

	csi_world_call(world, CSI_NODE_STAGE_VOLUME, 0, &end);
	assert_true(end.is_answered);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_call_reaches_the_plugin_and_its_answer_the_caller,
						csi_world_setup, csi_world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
