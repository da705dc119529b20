/* SPDX-License-Identifier: Apache-2.0 */
/* The fixture's store is in an etcd that all cases share, each with a prefix of its own. */

#include "etcd_world.h"
#include "fixture.h"

const bool fixture_shares_revisions = true;

static struct etcd_world *world;
static struct part part;
static char prefix[32];

static void stop(void)
{
	etcd_world_free(world);
}

void fixture_prepare(struct fixture *f)
{
	static int n;

	if (!world) {
		world = etcd_world_new(1);
		(void)atexit(stop);
	}
	(void)str_format(prefix, sizeof(prefix), "/holdfast/%d", n++);
}

void fixture_open(struct fixture *f)
{
	const char *url = world->urls[0];
	struct etcd_settings settings = part_settings(&url, 1, prefix, "s1");

	settings.call_us = settings.lease_us; /* megabytes under sanitizers */
	part_start(&part, f->event, &settings);
	part_lead(&part);
	f->kv = part.kv;
	if (fixture_base == 0)
		fixture_base = kv_revision(f->kv);
}

void fixture_close(struct fixture *f)
{
	if (f->kv)
		part_stop(&part);
	f->kv = NULL;
}
