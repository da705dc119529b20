/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's waits for the disk in the life of an allocation, by the disk's own count. What is due within a
 * second anyway is left out of it. */

#include "disk_sync.h"
#include "scenario.h"

#include "store/kv.h"

#define LOG "agent.db-wal"

enum { MOMENT_MS = 50 };

struct kv_sqlite;

enum status __real_kv_submit(struct kv *kv, const struct kv_txn *txn, kv_done_fn *fn, void *userdata,
			     struct error *err);

static bool is_over;	    /* the agent wants to end */
static unsigned int writes; /* of the journal */

WRAPPED(enum status, kv_submit, struct kv *kv, const struct kv_txn *txn, kv_done_fn *fn, void *userdata,
	struct error *err)
{
	writes++;
	return __real_kv_submit(kv, txn, fn, userdata, err);
}

WRAPPED(enum status, kv_sqlite_sync_log, struct kv_sqlite *db, uint64_t *ret_due_us, struct error *err)
{
	*ret_due_us = 0;
	return STATUS_OK;
}

WRAPPED(int, sd_event_exit, sd_event *event, int code)
{
	is_over = true;
	return 0;
}

/* One life leaves the log with its head. */
static int setup(void **state)
{
	struct world *w;

	(void)world_setup(state);
	w = *state;
	is_over = false;
	start_with_a(w, 1);
	WORLD_UNTIL(w, all_is_acknowledged);
	disk_sync_watch(LOG);
	return 0;
}

static int teardown(void **state)
{
	disk_sync_release();
	disk_sync_watch(NULL);
	return world_teardown(state);
}

static bool b_runs(struct world *w)
{
	return status_of(w, ALLOC_B) == CLIENT_RUNNING;
}

static bool b_has_ended(struct world *w)
{
	return status_of(w, ALLOC_B) == CLIENT_COMPLETE;
}

static struct model_claim *claim_b(struct world *w)
{
	return model_server_claim(&w->server, ALLOC_B, "v0");
}

static bool a_is_unstaged(struct world *w)
{
	return done(w, MH_OP_UNSTAGE) == 1;
}

static void run_b(struct world *w)
{
	struct alloc b = records_alloc(ALLOC_B, 1);

	model_server_run(&w->server, &b);
	WORLD_UNTIL(w, b_runs);
}

#define CASE(name) TEST_ON(name, struct world, w, setup, teardown)

CASE(an_allocation_runs_while_the_disk_hangs)
{
	stop_a(w);
	disk_sync_watch(LOG);
	disk_sync_hold();
	run_b(w);
	assert_true(claim_b(w)->is_mounted);
	assert_int_equal(disk_sync_waits(), 0);
}

CASE(a_release_is_reported_once_the_disk_has_its_end)
{
	disk_sync_hold();
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, a_is_unstaged); /* it continues meanwhile */
	world_idle(w, MOMENT_MS);
	assert_int_equal(model_server_unreleased(&w->server), 1);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_RUNNING);
	disk_sync_release();
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

CASE(a_release_whose_end_the_disk_refuses_is_not_reported)
{
	uint64_t end = world_deadline();

	disk_sync_fail(EIO);
	model_server_want_stop(&w->server, ALLOC_A);
	while (!is_over)
		world_turn(w, end, "the agent ends");
	assert_int_equal(model_server_unreleased(&w->server), 1);
	world_kill_agent(w);
	disk_sync_release();
	is_over = false;
	world_start_agent(w);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	expect_nothing_mounted(w);
}

/* Accepted, claimed, runs, its receipt dropped; stops, is over, its receipt dropped, forgotten. The one wait
 * is for the disk to have that it stops, and continues beside the unmount. */
CASE(a_life_has_eight_writes_and_one_wait_for_the_disk)
{
	stop_a(w);
	WORLD_UNTIL(w, all_is_acknowledged);
	world_idle(w, MOMENT_MS);
	disk_sync_watch(LOG);
	writes = 0;
	run_b(w);
	assert_int_equal(disk_sync_waits(), 0);
	model_server_want_stop(&w->server, ALLOC_B);
	WORLD_UNTIL(w, b_has_ended);
	WORLD_UNTIL(w, all_is_acknowledged);
	world_idle(w, MOMENT_MS);
	assert_int_equal(writes, 8);
	assert_int_equal(disk_sync_waits(), 1);
}

TEST_GROUP(world_group_setup, world_group_teardown)
