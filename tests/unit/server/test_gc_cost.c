/* SPDX-License-Identifier: Apache-2.0 */
/* Early collections that take long, because jobs need much of what ended: looks are counted, not timed. */

#include "cluster.h"
#include "gc.h"
#include "unit.h"

#include "base/str.h"
#include "job/job_work.h"

enum { NEEDED = 1100, FREE = 100, LOOK_US = GC_EARLY_RUN_US / (GC_SCAN_MAX - 100) };

static size_t looks[NEEDED]; /* at those that are needed */

/* Those without a driver are needed. A slice of looks at them takes longer than a run may. */
bool __wrap_job_needs_alloc(struct server *server, const struct alloc_entry *entry);
bool __wrap_job_needs_alloc(struct server *server, const struct alloc_entry *entry)
{
	uint64_t end_us = clock_monotonic_us() + LOOK_US;

	if (entry->alloc.driver[0] != '\0')
		return false;
	while (clock_monotonic_us() < end_us)
		;
	looks[entry->alloc.job_index]++;
	return true;
}

/* Stores @n allocations that ended, each a millisecond after the one before, the first one at @end_ms. */
static void put_ended(struct fixture *f, const char *namespace, const char *driver, unsigned int n,
		      int64_t end_ms)
{
	static unsigned int n_ids;
	struct alloc alloc = ROW(.name = "app", .node_id = "n1", .desired_status = DESIRED_STOP,
				 .client_status = CLIENT_COMPLETE);

	(void)str_copy(alloc.namespace, sizeof(alloc.namespace), namespace);
	(void)str_copy(alloc.driver, sizeof(alloc.driver), driver);
	for (unsigned int i = 0; i < n;) {
		cleanup(change_release) struct change change = CHANGE_INIT;

		for (unsigned int k = 0; k < GC_SLICE_MAX && i < n; k++, i++) {
			(void)str_format(alloc.id, sizeof(alloc.id), "01890000-0000-7000-8000-%012u",
					 n_ids++);
			alloc.job_index = i;
			alloc.end_time_ms = end_ms + (int64_t)i;
			change_put_alloc(&change, &alloc);
		}
		assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	}
}

/* Those in front are needed. */
static bool is_collected(struct fixture *f, const char *namespace)
{
	const struct alloc_entry *entry = state_ended_from(&f->server->state, namespace, 2000, "");

	return !entry || !str_eq(entry->alloc.namespace, namespace);
}

CLUSTER_TEST(an_early_collection_continues_where_the_one_before_ran_out_of_time)
{
	f->server->config.namespace_memory = 16;
	put_ended(f, "a", "", NEEDED, 1000 - NEEDED);
	put_ended(f, "a", "none", FREE, 2000);
	put_ended(f, "b", "none", FREE, 2000);
	UNTIL(f, is_collected(f, "b"));
	assert_true(is_collected(f, "a"));
	for (size_t i = 0; i < NEEDED; i++)
		assert_int_equal(looks[i], 1);
	/* it begins again */
	UNTIL(f, looks[0] == 2);
	assert_int_equal(looks[NEEDED - 1], 1);
}
