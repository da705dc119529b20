/* SPDX-License-Identifier: Apache-2.0 */
/* The server's waits for the disk in the life of a volume, by the disk's own count. */

#include "disk_sync.h"
#include "provider_world.h"
#include "unit.h"

#include <poll.h>

#define LOG "holdfast.db-wal"

enum { SLOW_MS = 20 };

/* Since the last time. */
static unsigned int waits(struct fixture *f)
{
	unsigned int n;

	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	(void)poll(NULL, 0, SLOW_MS); /* the writer sleeps */
	n = disk_sync_waits();
	disk_sync_watch(LOG);
	disk_sync_delay(SLOW_MS);
	return n;
}

static int setup_slow(void **state)
{
	struct fixture *f;

	(void)provider_setup(state);
	f = *state;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	provider_report(f); /* with what is the model's alone */
	disk_sync_watch(LOG);
	disk_sync_delay(SLOW_MS);
	must(f, "Register",
	     "{\"volume\":{\"id\":\"first\",\"type\":\"CSI\",\"pluginId\":\"nfs\"," CAPABILITIES "}}", NULL);
	(void)waits(f);
	return 0;
}

static int teardown_slow(void **state)
{
	disk_sync_watch(NULL);
	return provider_teardown(state);
}

static void claim(struct fixture *f)
{
	struct error err;

	assert_succeeds(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), err);
}

static enum client_status alloc_status(struct fixture *f)
{
	return state_alloc(&f->server->state, ALLOC_1)->alloc.client_status;
}

TEST_ON(a_life_has_nine_waits_for_the_disk, struct fixture, f, setup_slow, teardown_slow)
{
	struct claim held;

	must(f, "Create", DB, NULL);
	assert_int_equal(waits(f), 2); /* what is asked of the provider; what it has made */
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	UNTIL(f, f->n1.runs == 1);
	assert_int_equal(waits(f), 1); /* the order to the node */
	claim(f);
	assert_int_equal(waits(f), 1); /* who holds the volume */
	held = claim_of(f, ALLOC_1);
	fake_node_send_mounted(&f->n1, &held);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, f->n1.acks == 1 && alloc_status(f) == CLIENT_RUNNING);
	assert_int_equal(waits(f), 1); /* both */
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	UNTIL(f, f->n1.stops == 1);
	assert_int_equal(waits(f), 1); /* the order to the node */
	fake_node_send_released(&f->n1, &held);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.acks == 2 && f->n1.forgets == 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	assert_int_equal(waits(f), 1); /* both */
	must(f, "Delete", ID, NULL);
	assert_int_equal(waits(f), 2); /* what is asked of the provider; that it is gone */
}
