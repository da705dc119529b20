/* SPDX-License-Identifier: Apache-2.0 */
/* An agent whose allocation starts a unit, killed on the way up. */
#include "fake_systemd.h"
#include "scenario.h"

enum { TURNS_MAX = 200, TURNS_TO_SEE = 3000 };

static struct fake_unit *unit;

static bool unit_was_started(struct world *w)
{
	return unit->starts == 1;
}

static void start_with_unit(struct world *w)
{
	static task_unit_name allowed[2] = {"db.service", ""};
	struct alloc alloc = records_alloc(ALLOC_A, 1);

	(void)fake_systemd_init(w->event);
	unit = fake_systemd_add("db.service");
	memcpy(w->config.task.systemd_units, allowed, sizeof(allowed));
	world_start_agent(w);
	(void)str_copy(alloc.driver, sizeof(alloc.driver), "systemd");
	alloc.unit = TEXT("db.service");
	model_server_run(&w->server, &alloc);
}

/* Kills the agent @turns turns of the loop after it has started the unit. False: the allocation ran before.
 */
static bool kill_on_the_way_up(unsigned int turns)
{
	void *world = NULL;
	struct world *w;
	bool was_up;

	(void)world_setup(&world);
	w = world;
	start_with_unit(w);
	WORLD_UNTIL(w, unit_was_started);
	was_up = world_turns(w, turns, a_runs);
	world_kill_agent(w);
	fake_systemd_drop();
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	WORLD_UNTIL(w, a_runs);
	assert_int_equal(unit->starts, 1);
	unit->result = "exit-code";
	fake_systemd_set(unit, "failed", "failed");
	assert_msg(world_turns(w, TURNS_TO_SEE, a_ended),
		   "killed after %u turns, the agent does not see that the unit failed", turns);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_FAILED);
	fake_systemd_release();
	(void)world_teardown(&world);
	return !was_up;
}

TEST(killed_anywhere_after_the_start_the_unit_is_watched)
{
	unsigned int turns = 0;

	while (kill_on_the_way_up(turns))
		assert_true(++turns < TURNS_MAX);
	assert_true(turns > 5);
}

static bool has_greeted_again(struct world *w)
{
	return w->server.hellos >= 1;
}

static bool is_unmounted(struct world *w)
{
	return !fake_helper_mount(&w->fake, world_wire("vol0"), "", 0);
}

static bool has_failed(struct world *w)
{
	return status_of(w, ALLOC_A) == CLIENT_FAILED;
}

/* The server orders nothing of what the hello reports to run: no order has the agent repeat the status. */
TEST(the_end_of_work_between_hello_and_welcome_is_reported)
{
	void *world = NULL;
	struct world *w;

	(void)world_setup(&world);
	w = world;
	start_with_unit(w);
	WORLD_UNTIL(w, a_runs);
	world_idle(w, 300);
	w->server.hellos = 0;
	w->server.holds_welcome = true;
	model_server_hang_up(&w->server);
	WORLD_UNTIL(w, has_greeted_again);
	unit->result = "exit-code";
	fake_systemd_set(unit, "failed", "failed");
	WORLD_UNTIL(w, is_unmounted);
	world_idle(w, 300);
	model_server_welcome(&w->server);
	WORLD_UNTIL(w, has_failed);
	assert_int_equal(w->server.hellos, 1);
	assert_int_equal(model_server_unreleased(&w->server), 0);
	fake_systemd_release();
	(void)world_teardown(&world);
}

/* The start of the killed agent may still be on its way: systemd asks polkit before it carries one out. */
TEST(a_stop_after_a_restart_overtakes_the_start_of_the_last_run)
{
	void *world = NULL;
	struct world *w;

	(void)world_setup(&world);
	w = world;
	start_with_unit(w);
	unit->is_mute = true;
	WORLD_UNTIL(w, unit_was_started);
	model_server_want_stop(&w->server, ALLOC_A);
	world_idle(w, 300);
	world_kill_agent(w);
	fake_systemd_drop();
	unit->is_mute = false;
	assert_int_equal(unit->stops, 0);
	world_start_agent(w);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_int_equal(unit->stops, 1);
	fake_systemd_release();
	(void)world_teardown(&world);
}

TEST_GROUP(world_group_setup, world_group_teardown)
