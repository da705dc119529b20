/* SPDX-License-Identifier: Apache-2.0 */
/* A lease counts from when it was asked for, not from when the answer came. */

#include "etcd_world.h"

#include <time.h>

int __real_clock_gettime(clockid_t clock, struct timespec *now);

static int n_looks; /* at the boot time */
static bool is_jumping;

/* After the first look at it the machine sleeps for longer than a lease. */
WRAPPED(int, clock_gettime, clockid_t clock, struct timespec *now)
{
	int r = __real_clock_gettime(clock, now);

	if (clock == CLOCK_BOOTTIME && is_jumping && n_looks++ > 0)
		now->tv_sec += 2 * LEASE_S;
	return r;
}

TEST(a_lease_that_was_slept_through_is_not_led_by)
{
	struct etcd_world *world = etcd_world_new(1);
	const char *url = world->urls[0];
	struct etcd_settings settings = part_settings(&url, 1, "/clock", "s1");
	sd_event *event = NULL;
	cleanup(part_stop) struct part part;

	assert_int_equal(sd_event_new(&event), 0);
	settings.call_us = settings.lease_us;
	part_start(&part, event, &settings);
	part_lead(&part); /* etcd is ready */
	part_stop(&part);
	is_jumping = true;
	part_start(&part, event, &settings);
	run_until(event, &part.n_trouble, 1);
	assert_non_null(strstr(part.trouble.msg, "the election took longer than its lease"));
	assert_int_equal(part.n_leading, 0);
	run_until(event, &part.n_leading, 1); /* when etcd has ended that lease, by another */
	sd_event_unref(event);
	etcd_world_free(world);
}
